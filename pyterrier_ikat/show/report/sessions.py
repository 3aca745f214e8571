"""A report of conversations: simulations, interactive runs of the track, chats, and served conversations."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pandas as pd
import pyterrier as pt

from ...errors import DataError, UsageError, counted, list_first, option
from ...evaluation.sessions import (
    BETTER,
    COUNTS,
    MEASURES,
    SHARES,
    cached_note,
    recorded_note,
    session_means,
    session_measures,
    session_notes,
    shown_columns,
)
from ...evaluation.units import Clusters
from ...llms.ledger import Spend
from ...runs import RunFolder
from ...runs.answered_turn import Turn
from ...runs.log import Dialogue, Log
from .material import RunSource
from .means import Scores, ShownMeasure, compare_means, comparison_note
from .page import Content, Group, Note, Passage, Report, Side, Step, Unit
from .rankings import cut_words, load_texts, word_limit

NO_SETTINGS = (
    "form",
    "system",
    "expression",
    "stages",
    "parts",
    "prompts",
    "players_prompts",
    "memory_prompts",
)
LONGEST = 300
"""How many characters of each setting of a run are shown."""
UNORDERED = (
    "Seconds depend on the order of the sessions, because a session does not repeat what another one has computed. No system is marked as "
    "faster."
)
TESTED = ("satisfied", "rubrics met", "calls", "cost")
"""The measures that ``ikat simulate`` tests and of which one side is better."""


def find_logs(runs: Mapping[str, RunSource]) -> dict[str, Log]:
    """The logs of conversations by the names of the runs; empty if these are runs of topics.

    Raises:
        UsageError: when only some of the runs are such logs.
    """
    found = {name: log for name, run in runs.items() if (log := _as_log(run)) is not None}
    others = [name for name in runs if name not in found]
    if found and others:
        talks = list_first([f"{name} holds {log.kind}" for name, log in found.items()])
        raise UsageError(
            f"{talks}, {list_first(others)} {'does' if len(others) == 1 else 'do'} not: make two reports"
        )
    return found


def _as_log(run: RunSource) -> Log | None:
    if isinstance(run, Log):
        return run
    path = run.path if isinstance(run, RunFolder) else run
    return Log(path) if isinstance(path, str | Path) and Log.is_in(path) else None


def refuse_arguments(logs: Mapping[str, Log], **given: Any) -> None:
    """Raise an error for arguments that are only for runs of topics.

    Raises:
        UsageError: when one is given.
    """
    for name, value in given.items():
        if value is not None:
            (run, log), *_ = logs.items()
            raise UsageError(
                f"{option(name)} is for runs of topics, and {run} holds {log.kind}: omit it"
            )


def report_sessions(logs: Mapping[str, Log], texts: pt.Transformer | None, passages: int) -> Report:
    """The page of conversations, with the sessions of all systems side by side.

    Args:
        logs: the logs by the names of the systems, the baseline first.
        texts: adds ``text`` by ``docno`` if a log has none.
        passages: how many sources of each response are shown.

    Raises:
        DataError: when a log can't be read or is empty, a session has different users or rubrics in
            different logs, or ``texts`` lacks a passage.
    """
    names, headers = list(logs), {name: log.header for name, log in logs.items()}
    dialogues = {name: _read(name, log) for name, log in logs.items()}
    aligned, measured = (
        align(dialogues),
        {name: session_measures(found) for name, found in dialogues.items()},
    )
    turns = [turn for found in dialogues.values() for one in found for turn in one.turns]
    faster = not any(header.get("kind") == "simulated" for header in headers.values())
    means = session_means(measured)
    complete = len({frozenset(frame["session"]) for frame in measured.values()}) == 1
    columns = [
        _measure(name, faster, complete and name in TESTED) for name in shown_columns(measured)
    ]
    places = [place for place, one in enumerate(columns) if one.better and one.name != "satisfied"]
    measures = [
        replace(columns[place], digits=0) if columns[place].name in COUNTS else columns[place]
        for place in places
    ]
    values = _values(aligned, measured, columns)
    clusters = Clusters(
        "user",
        [next(one.user for one in sides if one is not None) for sides in aligned.values()],
        of="session",
    )
    caption, *notes = session_notes(measured)
    notes += [*cached_note(turns), *recorded_note(headers)]
    if len(logs) > 1:
        notes += [] if faster else [UNORDERED]
        caption += f" {comparison_note(clusters, names[0])}"
    shown = _Shown(turns, load_missing(turns, texts, passages), passages, list(headers.values()))
    rows = (
        means.assign(satisfied=means["satisfied"] / means["sessions"])[
            [one.name for one in columns]
        ]
        .to_numpy(dtype=float)
        .tolist()
    )
    facts = f"{counted(len(aligned), 'session')} of {counted(clusters.number, 'user')}."
    content = Content(
        names,
        "session",
        "User",
        facts + f" The first {shown.words} words of each passage are shown." * bool(shown.words),
        _groups(aligned, values, places, shown),
        measures,
        columns,
        compare_means(rows, values, columns, clusters),
        notes,
        caption,
        {name: _describe(header) for name, header in headers.items()},
    )
    return Report.of(content)


def kept_baseline(logs: Mapping[str, Log]) -> str | None:
    """The run of the simulation's baseline; None if it is unknown or not shown, or if two simulations differ."""
    kept, systems = (
        {log.baseline for log in logs.values()} - {None},
        {log.header.get("system"): name for name, log in logs.items()},
    )
    return systems.get(kept.pop()) if len(kept) == 1 else None


def _read(name: str, log: Log) -> list[Dialogue]:
    found = log.dialogues()
    if not found:
        raise DataError(
            f"{name} has no conversation yet ({log.folder}): wait for the first one, or omit the folder"
        )
    return found


def align(systems: Mapping[str, Sequence[Dialogue]]) -> dict[str, list[Dialogue | None]]:
    """Session -> its conversation with each system, in the order in which the systems have them.

    Raises:
        DataError: when a session has different users or rubrics in different logs, because such
            systems are not comparable.

    Example:
        >>> found = align({"raw": [Dialogue("s1", "anna")], "QR": [Dialogue("s2", "ben"), Dialogue("s1", "anna")]})
        >>> {session: [one and one.user for one in sides] for session, sides in found.items()}
        {'s1': ['anna', 'anna'], 's2': [None, 'ben']}
    """
    found: dict[str, list[Dialogue | None]] = {}
    for number, dialogues in enumerate(systems.values()):
        for one in dialogues:
            found.setdefault(one.session, [None] * len(systems))[number] = one
    names = list(systems)
    for session, sides in found.items():
        (first_name, first), *others = [
            (name, one) for name, one in zip(names, sides, strict=True) if one is not None
        ]
        for name, one in others:
            for what, theirs, ours in (
                ("users", one.user, first.user),
                ("rubrics", one.rubrics, first.rubrics),
            ):
                if theirs != ours:
                    raise DataError(
                        f"session {session} has different {what} in {first_name} and {name}: compare systems on the same users"
                    )
    return found


def _measure(name: str, faster: bool, tested: bool) -> ShownMeasure:
    """A measure of sessions. Seconds count only if each session was played alone; differences are tested on the same sessions."""
    better = 0 if name == "seconds" and not faster else BETTER.get(name, int(name == "satisfied"))
    digits = 4 if name == "satisfied" else MEASURES.get(name, 0)
    return ShownMeasure(name, digits, better, name in SHARES, tested)


def _values(
    aligned: Mapping[str, Any],
    measured: Mapping[str, pd.DataFrame],
    columns: Sequence[ShownMeasure],
) -> dict[str, Scores]:
    """Session -> for each system its values; NaN for those that it lacks."""
    named = [
        frame.set_index("session").assign(satisfied=(frame["end"] == "satisfied").to_numpy(float))
        for frame in measured.values()
    ]
    tables = [
        frame.reindex(index=list(aligned), columns=[one.name for one in columns]) for frame in named
    ]
    return {session: [table.loc[session].tolist() for table in tables] for session in aligned}


def load_missing(turns: Sequence[Turn], texts: pt.Transformer | None, most: int) -> dict[str, str]:
    """Docno -> text, for those of the first ``most`` passages of each turn that have no text in the log."""
    first = [one for turn in turns for one in passages_of(turn, {})[:most]]
    return load_texts(texts, {docno for docno, _, text in first if not text})


class _Shown:
    """What is shown of each response, by the texts of all turns."""

    def __init__(
        self,
        turns: Sequence[Turn],
        texts: Mapping[str, str],
        passages: int,
        headers: Sequence[Mapping[str, Any]],
    ) -> None:
        self.texts, self.passages, self.headers = texts, passages, headers
        self.costs = any(turn.spend.price is not None for turn in turns)
        said = [text for turn in turns for _, _, text in passages_of(turn, texts)[:passages]]
        self.limit = word_limit(said)
        self.words = self.limit if any(said) else 0

    def spent(self, spend: Spend) -> str:
        price = (
            ""
            if not self.costs
            else ", cost unknown"
            if spend.price is None
            else f", {spend.price:.4f} USD"
        )
        return f"{counted(spend.completions, 'LLM call')}{price}"


def _groups(
    aligned: Mapping[str, Sequence[Dialogue | None]],
    values: Mapping[str, Scores],
    places: list[int],
    shown: _Shown,
) -> list[Group]:
    """The sessions by user, users in the order of their first session."""
    found: dict[str, list[Unit]] = {}
    for session, sides in aligned.items():
        first = next(one for one in sides if one is not None)
        of_user = found.setdefault(first.user, [])
        met = [{} if one is None else one.met for one in sides]
        rubrics = [
            (name, text, [turns.get(name) for turns in met]) for name, text in first.rubrics.items()
        ]
        drawn = [
            None if one is None else _side(one, shown, header)
            for one, header in zip(sides, shown.headers, strict=True)
        ]
        scores = [[row[place] for place in places] for row in values[session]] if places else None
        of_user.append(Unit(session, len(of_user) + 1, drawn, scores, rubrics=rubrics))
    return [Group(user, units) for user, units in found.items()]


def _side(one: Dialogue, shown: _Shown, header: Mapping[str, Any]) -> Side:
    facts = [f"{len(one.met)} of {counted(len(one.rubrics), 'rubric')} met"] if one.rubrics else []
    facts.append(counted(len(one.turns), "turn"))
    if one.turns:
        facts.append(f"{sum(turn.seconds for turn in one.turns) / len(one.turns):.1f} s per turn")
    facts.append(shown.spent(sum((turn.spend for turn in one.turns), Spend())))
    return Side(
        [_step(turn, one, shown, header) for turn in one.turns],
        one.end or "not ended",
        ", ".join(facts),
    )


def _step(turn: Turn, one: Dialogue, shown: _Shown, header: Mapping[str, Any]) -> Step:
    met = one.met
    remarks = [
        f"meets {rubric}" for rubric in dict.fromkeys(turn.met) if met[rubric] == turn.number
    ]
    if turn.cut:
        remarks.append(f"{counted(turn.cut, 'token')} cut off before it was sent")
    if turn.more.get("read") == "passages":
        remarks.append(
            f"the user read the best {header.get('passages', '')} passages".replace("  ", " ")
        )
    if header.get("kind") == "interactive" and turn.number not in one.sent:
        remarks.append("not sent")
    every = passages_of(turn, shown.texts)
    passages = [
        Passage(number, docno, score, *cut_words(text, shown.limit))
        for number, (docno, score, text) in enumerate(every[: shown.passages], 1)
    ]
    return Step(
        title=f"Turn {turn.number}",
        facts=f"{turn.seconds:.1f} s, {shown.spent(turn.spend)}",
        utterance=turn.utterance.strip() or "(no words)",
        notes=_notes(turn),
        response=turn.response.strip(),
        remarks=remarks if turn.response.strip() else ["no response", *remarks],
        passages=passages,
        found=_called(turn, len(every), len(passages)),
    )


def _notes(turn: Turn) -> list[Note]:
    draft = "" if turn.draft.strip() == turn.response.strip() else turn.draft.strip()
    notes = [
        Note("Rewrite", [turn.rewrite.strip()] * bool(turn.rewrite.strip())),
        Note(counted(len(turn.queries), "query"), turn.queries, folded=True),
        Note(counted(len(turn.statements), "statement"), turn.statements, folded=True),
        Note("Draft answer", [draft] * bool(draft), "draft", folded=True),
    ]
    return [note for note in notes if note.texts]


def passages_of(turn: Turn, texts: Mapping[str, str]) -> list[tuple[str, float | None, str]]:
    """Docno, score and text of the passages of a turn: those that were shown as [1], [2], ..., or if none was, all that it cites.

    Args:
        turn: the turn.
        texts: docno -> text, for passages without a text in the turn.
    """
    if turn.sources:
        return [
            (one.docno, one.score, one.text or texts.get(one.docno, "")) for one in turn.sources
        ]
    return [(docno, score, texts.get(docno, "")) for docno, score in turn.citations.items()]


def _called(turn: Turn, found: int, shown: int) -> str:
    """The kind and number of a turn's passages; for an interactive run, in which the citations are the ranking, both numbers."""
    cited = len(turn.citations)
    name = (
        "best passage"
        if not turn.response.strip()
        else "source"
        if turn.sources
        else "cited passage"
    )
    part = f"{shown} of " if found > shown else ""
    return f"{part}{counted(found, name)}" + f", {counted(cited, 'passage')} cited" * (
        bool(turn.sources) and cited > found
    )


def _describe(header: Mapping[str, Any]) -> list[str]:
    """The system and the settings of a run, from its description."""
    rest = {
        name: value
        for name, value in header.items()
        if name not in NO_SETTINGS and not name.endswith("sha256")
    }
    texts = {
        name: value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
        for name, value in rest.items()
    }
    cut = [
        f"{name}: {text if len(text) <= LONGEST else f'{text[:LONGEST]} […]'}"
        for name, text in texts.items()
    ]
    return [str(header.get("expression") or header.get("system", "")), *cut]
