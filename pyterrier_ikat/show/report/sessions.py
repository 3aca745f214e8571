"""A report of conversations: simulations, interactive runs, chats, and served conversations."""

import json
import warnings
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
    SESSION_MEASURES,
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
from .content import Content, Group, ListedPassage, Note, ShownStep, Side, Unit
from .material import ShownRun, baseline_first
from .means import ScoreRows, ShownMeasure, compare_means, comparison_note
from .page import Report
from .rankings import cut_words, load_texts, word_limit

NOT_SETTINGS = (
    "system",
    "expression",
    "stages",
    "parts",
    "prompts",
    "players_prompts",
    "memory_prompts",
)
LONGEST_SETTING = 300
"""How many characters of each setting of a run are shown."""
UNORDERED = (
    "Seconds depend on the order of the sessions, because a session does not repeat what another "
    "one has computed. No system is marked as faster."
)
TESTED_MEASURES = ("satisfied", "rubrics met", "calls", "cost")
"""The measures that ``ikat simulate`` tests and of which one side is better."""


class NoConversationWarning(UserWarning):
    """A folder of conversations is not shown, because it has none yet."""


def find_logs(runs: Mapping[str, ShownRun]) -> dict[str, Log]:
    """The logs of conversations by the names of the runs; empty if these are runs of topics.

    Raises:
        UsageError: when only some of the runs are such logs.
    """
    logs = {}
    others = []
    for name, run in runs.items():
        log = _as_log(run)
        if log is None:
            others.append(name)
        else:
            logs[name] = log
    if logs and others:
        kinds = list_first([f"{name} holds {log.kind}" for name, log in logs.items()])
        verb = "does" if len(others) == 1 else "do"
        raise UsageError(f"{kinds}, {list_first(others)} {verb} not: make two reports")
    return logs


def _as_log(run: ShownRun) -> Log | None:
    if isinstance(run, Log):
        return run
    path = run.path if isinstance(run, RunFolder) else run
    if isinstance(path, str | Path) and Log.is_in(path):
        return Log(path)
    return None


def refuse_arguments(logs: Mapping[str, Log], **arguments: Any) -> None:
    """Raise an error for arguments that are only for runs of topics.

    Raises:
        UsageError: when one is given.
    """
    for argument, value in arguments.items():
        if value is not None:
            name, log = next(iter(logs.items()))
            raise UsageError(
                f"{option(argument)} is for runs of topics, and {name} holds {log.kind}: omit it"
            )


def report_sessions(
    logs: Mapping[str, Log], baseline: str | None, texts: pt.Transformer | None, passages: int
) -> Report:
    """The page of conversations, with the sessions of all systems side by side.

    Args:
        logs: the logs by the names of the systems.
        baseline: the system with which the others are compared. By default that of the simulation,
            otherwise ``raw``, otherwise the first one.
        texts: adds ``text`` by ``docno`` if a log has none.
        passages: how many sources of each response are shown.

    Raises:
        DataError: when a log can't be read, no log or not that of ``baseline`` has a conversation,
            a session has different users or rubrics in different logs, or ``texts`` lacks a
            passage.
    """
    dialogues, skipped = _read_dialogues(logs, baseline)
    with_dialogues = {name: logs[name] for name in dialogues}
    names = baseline_first(list(dialogues), baseline or logged_baseline(with_dialogues))
    dialogues = {name: dialogues[name] for name in names}
    headers = {name: logs[name].header for name in names}
    aligned = align(dialogues)
    measured = {name: session_measures(of_system) for name, of_system in dialogues.items()}
    faster = all(header.get("kind") != "simulated" for header in headers.values())
    columns = _columns(measured, faster)
    values = _values(aligned, measured, columns)
    clusters = Clusters("user", [_first(sides).user for sides in aligned.values()], of="session")
    turns: list[Turn] = []
    for of_system in dialogues.values():
        for dialogue in of_system:
            turns += dialogue.turns
    caption, *notes = session_notes(measured)
    notes += [*skipped, *cached_note(turns), *recorded_note(headers)]
    if len(names) > 1:
        if not faster:
            notes.append(UNORDERED)
        caption += f" {comparison_note(clusters, names[0])}"
    shown = _Shown(turns, load_missing(turns, texts, passages), passages)
    facts = f"{counted(len(aligned), 'session')} of {counted(clusters.number, 'user')}."
    if shown.words:
        facts += f" The first {shown.words} words of each passage are shown."
    compared = _compared_by_session(columns)
    content = Content(
        names=names,
        unit="session",
        group="User",
        facts=facts,
        groups=_groups(aligned, list(headers.values()), values, list(compared), shown),
        measures=list(compared.values()),
        columns=columns,
        means=compare_means(_means(measured, columns), values, columns, clusters),
        notes=notes,
        caption=caption,
        made={name: _describe(header) for name, header in headers.items()},
    )
    return Report.of(content)


def _compared_by_session(columns: Sequence[ShownMeasure]) -> dict[int, ShownMeasure]:
    """The columns by which the page compares sessions: position -> the measure of one session."""
    measures = {}
    for position, column in enumerate(columns):
        if not column.better or column.name == "satisfied":
            continue
        measures[position] = replace(column, digits=0) if column.name in COUNTS else column
    return measures


def logged_baseline(logs: Mapping[str, Log]) -> str | None:
    """The run of the simulation's baseline; None if unknown, not shown, or if there are several."""
    baselines = {log.baseline for log in logs.values() if log.baseline is not None}
    if len(baselines) != 1:
        return None
    [baseline] = baselines
    runs = {log.header.get("system"): name for name, log in logs.items()}
    return runs.get(baseline)


def _read_dialogues(
    logs: Mapping[str, Log], baseline: str | None
) -> tuple[dict[str, list[Dialogue]], list[str]]:
    """The conversations of the logs that have one, and sentences about the others.

    ``ikat serve`` makes a folder of each system when it starts, so nobody may have asked it yet.
    """
    dialogues = {}
    skipped = []
    for name, log in logs.items():
        of_log = log.dialogues()
        if of_log:
            dialogues[name] = of_log
        else:
            skipped.append(f"{name} has no conversation yet and is not shown ({log.folder}).")
    if not dialogues or (baseline is not None and baseline not in dialogues):
        name = next(iter(logs)) if baseline is None else baseline
        raise DataError(
            f"{name} has no conversation yet ({logs[name].folder}): "
            "wait for the first one, or omit the folder"
        )
    for sentence in skipped:
        warnings.warn(sentence.rstrip("."), NoConversationWarning, stacklevel=4)
    return dialogues, skipped


def align(systems: Mapping[str, Sequence[Dialogue]]) -> dict[str, list[Dialogue | None]]:
    """Session -> its conversation with each system, in the order in which the systems have them.

    Raises:
        DataError: when a session has different users or rubrics in different logs, because such
            systems are not comparable.

    Example:
        >>> qr = [Dialogue("s2", "ben"), Dialogue("s1", "anna")]
        >>> aligned = align({"raw": [Dialogue("s1", "anna")], "QR": qr})
        >>> {session: [side and side.user for side in sides] for session, sides in aligned.items()}
        {'s1': ['anna', 'anna'], 's2': [None, 'ben']}
    """
    aligned: dict[str, list[Dialogue | None]] = {}
    for number, dialogues in enumerate(systems.values()):
        for dialogue in dialogues:
            sides = aligned.setdefault(dialogue.session, [None] * len(systems))
            sides[number] = dialogue
    for session, sides in aligned.items():
        _check_alike(session, list(systems), sides)
    return aligned


def _check_alike(session: str, names: Sequence[str], sides: Sequence[Dialogue | None]) -> None:
    """Check that a session has the same user and rubrics with each system."""
    first_name, first = "", None
    for name, dialogue in zip(names, sides, strict=True):
        if dialogue is None:
            continue
        if first is None:
            first_name, first = name, dialogue
            continue
        if dialogue.user != first.user:
            what = "users"
        elif dialogue.rubrics != first.rubrics:
            what = "rubrics"
        else:
            continue
        raise DataError(
            f"session {session} has different {what} in {first_name} and {name}: "
            "compare systems on the same users"
        )


def _first(sides: Sequence[Dialogue | None]) -> Dialogue:
    """The conversation of the first system that has the session."""
    return next(dialogue for dialogue in sides if dialogue is not None)


def _columns(measured: Mapping[str, pd.DataFrame], faster: bool) -> list[ShownMeasure]:
    """The measures of sessions.

    Args:
        measured: system -> the measures of its sessions.
        faster: whether seconds count, because each session was played alone.
    """
    sessions = [set(frame["session"]) for frame in measured.values()]
    same_sessions = all(of_system == sessions[0] for of_system in sessions)
    columns = []
    for name in shown_columns(measured):
        better = BETTER.get(name, 0)
        digits = SESSION_MEASURES.get(name, 0)
        if name == "satisfied":
            better = 1
            digits = 4
        if name == "seconds" and not faster:
            better = 0
        tested = same_sessions and name in TESTED_MEASURES
        columns.append(ShownMeasure(name, digits, better, name in SHARES, tested))
    return columns


def _means(measured: Mapping[str, pd.DataFrame], columns: Sequence[ShownMeasure]) -> ScoreRows:
    """The means of each system, with the share of satisfied users."""
    means = session_means(measured)
    means["satisfied"] = means["satisfied"] / means["sessions"]
    rows: ScoreRows = means[[column.name for column in columns]].to_numpy(dtype=float).tolist()
    return rows


def _values(
    aligned: Mapping[str, Any],
    measured: Mapping[str, pd.DataFrame],
    columns: Sequence[ShownMeasure],
) -> dict[str, ScoreRows]:
    """Session -> for each system its values; NaN for those that it lacks."""
    names = [column.name for column in columns]
    values: dict[str, ScoreRows] = {session: [] for session in aligned}
    for frame in measured.values():
        satisfied = (frame["end"] == "satisfied").to_numpy(float)
        table = frame.set_index("session").assign(satisfied=satisfied)
        table = table.reindex(index=list(aligned), columns=names)
        for session, of_systems in values.items():
            of_systems.append(table.loc[session].tolist())
    return values


def load_missing(turns: Sequence[Turn], texts: pt.Transformer | None, most: int) -> dict[str, str]:
    """Load the texts of the first ``most`` passages of each turn that have none in the log."""
    docnos = set()
    for turn in turns:
        for docno, _score, text in passages_of(turn, {})[:most]:
            if not text:
                docnos.add(docno)
    return load_texts(texts, docnos)


class _Shown:
    """What is shown of each response, by the texts of all turns."""

    def __init__(self, turns: Sequence[Turn], texts: Mapping[str, str], passages: int) -> None:
        self.texts = texts
        self.passages = passages
        self.costs = any(turn.spend.price is not None for turn in turns)
        shown = set()
        for turn in turns:
            for _docno, _score, text in passages_of(turn, texts)[:passages]:
                shown.add(text)
        self.limit = word_limit(shown)
        self.words = self.limit if any(shown) else 0

    def spent(self, spend: Spend) -> str:
        """The calls and their price, in words."""
        calls = counted(spend.completions, "LLM call")
        if not self.costs:
            return calls
        price = "cost unknown" if spend.price is None else f"{spend.price:.4f} USD"
        return f"{calls}, {price}"


def _groups(
    aligned: Mapping[str, Sequence[Dialogue | None]],
    headers: Sequence[Mapping[str, Any]],
    values: Mapping[str, ScoreRows],
    positions: Sequence[int],
    shown: _Shown,
) -> list[Group]:
    """The sessions by user, users in the order of their first session."""
    units: dict[str, list[Unit]] = {}
    for session, dialogues in aligned.items():
        first = _first(dialogues)
        sides: list[Side | None] = []
        met: list[Mapping[str, int]] = []
        for dialogue, header in zip(dialogues, headers, strict=True):
            if dialogue is None:
                sides.append(None)
                met.append({})
            else:
                sides.append(_side(dialogue, shown, header))
                met.append(dialogue.met)
        rubrics = []
        for name, text in first.rubrics.items():
            rubrics.append((name, text, [turns.get(name) for turns in met]))
        scores = []
        for of_system in values[session]:
            scores.append([of_system[position] for position in positions])
        of_user = units.setdefault(first.user, [])
        unit = Unit(
            name=session,
            depth=len(of_user) + 1,
            sides=sides,
            scores=scores if positions else None,
            rubrics=rubrics,
        )
        of_user.append(unit)
    return [Group(user, of_user) for user, of_user in units.items()]


def _side(dialogue: Dialogue, shown: _Shown, header: Mapping[str, Any]) -> Side:
    facts = []
    if dialogue.rubrics:
        facts.append(f"{len(dialogue.met)} of {counted(len(dialogue.rubrics), 'rubric')} met")
    turns = dialogue.turns
    facts.append(counted(len(turns), "turn"))
    if turns:
        seconds = sum(turn.seconds for turn in turns)
        facts.append(f"{seconds / len(turns):.1f} s per turn")
    facts.append(shown.spent(sum((turn.spend for turn in turns), Spend())))
    steps = [_step(turn, dialogue, shown, header) for turn in turns]
    return Side(steps, dialogue.end or "not ended", ", ".join(facts))


def _step(turn: Turn, dialogue: Dialogue, shown: _Shown, header: Mapping[str, Any]) -> ShownStep:
    every = passages_of(turn, shown.texts)
    passages = []
    for number, (docno, score, text) in enumerate(every[: shown.passages], 1):
        beginning, rest = cut_words(text, shown.limit)
        passages.append(ListedPassage(number, docno, score, beginning, rest))
    return ShownStep(
        title=f"Turn {turn.number}",
        facts=f"{turn.seconds:.1f} s, {shown.spent(turn.spend)}",
        utterance=turn.utterance.strip() or "(no words)",
        notes=_notes(turn),
        response=turn.response.strip(),
        remarks=_remarks(turn, dialogue, header),
        passages=passages,
        found=_count_of(turn, len(every), len(passages)),
    )


def _remarks(turn: Turn, dialogue: Dialogue, header: Mapping[str, Any]) -> list[str]:
    """What the reader must know about a response."""
    remarks = []
    if not turn.response.strip():
        remarks.append("no response")
    for rubric in dict.fromkeys(turn.met):
        if dialogue.met[rubric] == turn.number:
            remarks.append(f"meets {rubric}")
    if turn.cut:
        remarks.append(f"{counted(turn.cut, 'token')} cut off before it was sent")
    if turn.more.get("read") == "passages":
        number = f" {header['passages']}" if "passages" in header else ""
        remarks.append(f"the user read the best{number} passages")
    if header.get("kind") == "interactive" and turn.number not in dialogue.sent:
        remarks.append("not sent")
    return remarks


def _notes(turn: Turn) -> list[Note]:
    notes = []
    rewrite = turn.rewrite.strip()
    if rewrite:
        notes.append(Note("Rewrite", [rewrite]))
    if turn.queries:
        notes.append(Note(counted(len(turn.queries), "query"), turn.queries, folded=True))
    if turn.statements:
        label = counted(len(turn.statements), "statement")
        notes.append(Note(label, turn.statements, folded=True))
    draft = turn.draft.strip()
    if draft and draft != turn.response.strip():
        notes.append(Note("Draft answer", [draft], "draft", folded=True))
    return notes


def passages_of(turn: Turn, texts: Mapping[str, str]) -> list[tuple[str, float | None, str]]:
    """Docno, score and text of the passages of a turn.

    They are those that were shown as [1], [2], ..., or if none was, all that the turn cites.

    Args:
        turn: the turn.
        texts: docno -> text, for passages without a text in the turn.
    """
    passages: list[tuple[str, float | None, str]] = []
    if turn.sources:
        for source in turn.sources:
            text = source.text or texts.get(source.docno, "")
            passages.append((source.docno, source.score, text))
    else:
        for docno, score in turn.citations.items():
            passages.append((docno, score, texts.get(docno, "")))
    return passages


def _count_of(turn: Turn, found: int, shown: int) -> str:
    """The kind and number of a turn's passages.

    In an interactive run the citations are the ranking, so that both numbers are given.
    """
    if not turn.response.strip():
        kind = "best passage"
    elif turn.sources:
        kind = "source"
    else:
        kind = "cited passage"
    count = counted(found, kind)
    if found > shown:
        count = f"{shown} of {count}"
    cited = len(turn.citations)
    if turn.sources and cited > found:
        count += f", {counted(cited, 'passage')} cited"
    return count


def _describe(header: Mapping[str, Any]) -> list[str]:
    """The system and the settings of a run, from its description."""
    lines = [str(header.get("expression") or header.get("system", ""))]
    for name, value in header.items():
        if name in NOT_SETTINGS or name.endswith("sha256"):
            continue
        text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
        if len(text) > LONGEST_SETTING:
            text = f"{text[:LONGEST_SETTING]} […]"
        lines.append(f"{name}: {text}")
    return lines
