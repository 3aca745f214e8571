"""A report of conversations: simulations, interactive runs of the track, chats, and served conversations."""

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pandas as pd
import pyterrier as pt

from ...errors import DataError, UsageError, list_first, option
from ...evaluation.experiment_table import TEST
from ...evaluation.sessions import (
    BETTER,
    COUNTS,
    MEASURES,
    UNKNOWN,
    cached_note,
    format_measure,
    recorded_note,
    session_means,
    session_measures,
    session_notes,
    shown_columns,
)
from ...runs import RunFolder
from ...runs.answered_turn import Turn
from ...runs.log import Dialogue, Log
from .curves import rubric_curves
from .material import RunSource
from .page import OF_SESSIONS, Report, render_page, shown_first
from .rankings import CHARACTERS, OPEN_WORDS, load_texts, significant_pairs, word_limit
from .session_views import NOT_ENDED, Shown, align, build_users, passages_of

DECIMALS = {"sessions": 0, "satisfied": 4, **MEASURES}
"""The decimals of the means."""
SOURCES = (10, 5, 3, 1)
"""The numbers of sources of each response, tried from the first until the page is small enough."""
NO_SETTINGS = ("form", "system", "expression", "stages", "parts", "prompts", "players_prompts", "memory_prompts")
LONGEST = 300
"""How many characters of each setting of a run are shown."""
UNORDERED = (
    "Seconds depend on the order of the sessions, because a session does not repeat what another one has computed. No system is marked as "
    "faster."
)
TESTED = ("satisfied", "rubrics met", "turns", "calls", "cost")
"""The measures that ``ikat simulate`` tests: those that every session has and that don't depend on the order of the sessions."""
MARKUP = 150
"""The approximate characters of a source in the page, without its text."""


def find_logs(runs: Mapping[str, RunSource]) -> dict[str, Log]:
    """The logs of conversations by the names of the runs; empty if these are runs of topics.

    Raises:
        UsageError: when only some of the runs are such logs.
    """
    found = {name: log for name, run in runs.items() if (log := _as_log(run)) is not None}
    others = [name for name in runs if name not in found]
    if found and others:
        talks = list_first([f"{name} holds {log.kind}" for name, log in found.items()])
        raise UsageError(f"{talks}, {list_first(others)} {'does' if len(others) == 1 else 'do'} not: make two reports")
    return found


def _as_log(run: RunSource) -> Log | None:
    if isinstance(run, Log):
        return run
    path = run.path if isinstance(run, RunFolder) else run
    return Log(path) if isinstance(path, str | Path) and Log.is_in(path) else None


def refuse_arguments(logs: Mapping[str, Log], **given: Any) -> None:
    """Raise an error for arguments that are only for runs of topics, if there are logs.

    Raises:
        UsageError: when one is given.
    """
    for name, value in given.items():
        if value is not None:
            (run, log), *_ = logs.items()
            raise UsageError(f"{option(name)} is for runs of topics, and {run} holds {log.kind}: omit it")


def report_sessions(logs: Mapping[str, Log], texts: pt.Transformer | None, passages: int, baseline: str | None = None) -> Report:
    """The page of conversations, with the sessions of all systems side by side.

    Args:
        logs: the logs by the names of the systems.
        texts: adds ``text`` by ``docno`` if a log has none.
        passages: how many sources of each response are shown.
        baseline: the system with which the others are compared. By default that of the simulation, otherwise the first one.

    Raises:
        DataError: when a log can't be read or is empty, a session has different users or rubrics in different logs, or ``texts`` lacks a
            passage.
    """
    headers, dialogues = [log.header for log in logs.values()], {name: _read(name, log) for name, log in logs.items()}
    aligned, measured = align(dialogues), {name: session_measures(found) for name, found in dialogues.items()}
    means, (caption, *notes) = _means(measured), session_notes(measured)
    better = _better(headers)
    measures = [name for name in better if any(frame[name].notna().any() for frame in measured.values())]
    columns = shown_columns(means, measured)
    turns = [turn for found in dialogues.values() for one in found for turn in one.turns]
    known = _load_texts(turns, texts, passages)
    words, sources = fit_sources([passages_of(turn, known) for turn in turns], passages)
    notes += _notes(dict(zip(logs, headers, strict=True)), turns, sources)
    notes += [UNORDERED] if len(logs) > 1 and "seconds" not in better else []
    values = _values(aligned, measured, measures)
    base = _kept_baseline(logs, headers) if baseline is None else list(logs).index(baseline)
    compared = _best_but(base, means, measures)
    page = render_page(
        "sessions.html.jinja",
        OF_SESSIONS,
        runs=[{"name": name, **_describe(header)} for name, header in zip(logs, headers, strict=True)],
        dataset="",
        notes=notes,
        caption=caption,
        users=build_users(aligned, values, Shown(sources, words, any(turn.spend.price is not None for turn in turns), headers, known)),
        sessions=len(aligned),
        curves=rubric_curves(dialogues),
        sure=_significant(aligned, measured, columns),
        test=TEST,
        columns=[{"name": name, "digits": DECIMALS[name], "better": better.get(name, int(name == "satisfied"))} for name in columns],
        means=[[(row[name], format_measure(name, row[name])) for name in columns] for row in means.to_dict("records")],
        measures=[_measure(name, measured) for name in measures],
        ends=_ends(dialogues),
        compared=compared,
        baseline=base,
        shown=shown_first(len(logs), base, compared),
        words=words if any(text for turn in turns for _, _, text in passages_of(turn, known)) else 0,
    )
    return Report(page, ", ".join(logs))


def _kept_baseline(logs: Mapping[str, Log], headers: Sequence[Mapping[str, Any]]) -> int:
    """The number of the simulation's baseline; 0 if it is unknown or not shown, or if two simulations differ."""
    kept, systems = {log.baseline for log in logs.values()} - {None}, [header.get("system") for header in headers]
    return next((systems.index(name) for name in kept if len(kept) == 1 and name in systems), 0)


def _means(measured: Mapping[str, pd.DataFrame]) -> pd.DataFrame:
    """The means of each system, with the satisfied sessions as a share."""
    means = session_means(measured)
    return means.assign(satisfied=means["satisfied"] / means["sessions"])


def _ends(dialogues: Mapping[str, Sequence[Dialogue]]) -> list[str]:
    """How the conversations ended, each way once."""
    return sorted({one.end or NOT_ENDED for found in dialogues.values() for one in found})


def _notes(headers: Mapping[str, Mapping[str, Any]], turns: Sequence[Turn], sources: int) -> list[str]:
    """Notes for the reader about the shown passages, and about completions that were not requested again."""
    cut = any(len(passages_of(turn)) > sources for turn in turns)
    notes = [f"The first {sources} passages of each turn are shown."] if cut else []
    return [*notes, *cached_note(turns), *recorded_note(headers)]


def _significant(aligned: Mapping[str, Any], measured: Mapping[str, pd.DataFrame], columns: Sequence[str]) -> list[list[list[int]]]:
    """For each system and column, the systems from which it differs by a simulation's test over the sessions; empty for untested columns.

    A measure is not tested if a session of a system lacks it, for example if the systems do not have the same sessions.
    """
    named = {name: frame.set_index("session") for name, frame in measured.items()}
    named = {name: frame.assign(satisfied=(frame["end"] == "satisfied").astype(float)) for name, frame in named.items()}
    wanted = [name if name in TESTED else "" for name in columns]
    tested = [frame.reindex(list(aligned)).reindex(columns=wanted) for frame in named.values()]
    scores = {session: [frame.loc[session].tolist() for frame in tested] for session in aligned}
    return significant_pairs(scores) if len(tested) > 1 else [[[] for _ in columns]]


def _better(headers: Sequence[Mapping[str, Any]]) -> dict[str, int]:
    """The measures with which systems are compared, see ``BETTER``. Seconds count only if each session was played alone."""
    simulated = any(header.get("kind") == "simulated" for header in headers)
    return {name: side for name, side in BETTER.items() if not (simulated and name == "seconds")}


def _read(name: str, log: Log) -> list[Dialogue]:
    found = log.dialogues()
    if not found:
        raise DataError(f"{name} has no conversation yet ({log.folder}): wait for the first one, or omit the folder")
    return found


def _load_texts(turns: Sequence[Turn], texts: pt.Transformer | None, most: int) -> dict[str, str]:
    """Docno -> text, for those of the first ``most`` passages of each turn that have no text in the log."""
    first = [one for turn in turns for one in passages_of(turn)[:most]]
    return load_texts(texts, {docno for docno, _, text in first if not text})


def fit_sources(passages: Sequence[Sequence[tuple[str, float | None, str]]], most: int) -> tuple[int, int]:
    """How many words of each passage and how many passages of each turn a page can have.

    Args:
        passages: the passages of each turn of the page, see :func:`~pyterrier_ikat.show.report.session_views.passages_of`.
        most: the maximum number of passages of each turn.

    Example:
        >>> turn = [(f"d{number}", 1.0, "tea " * 200) for number in range(20)]
        >>> fit_sources([turn], 20), fit_sources([turn] * 3000, 20)
        ((120, 20), (60, 5))
    """
    for sources in (most, *(fewer for fewer in SOURCES if fewer < most)):
        texts = [text for one in passages for _, _, text in one[:sources]]
        if sum(MARKUP + len(text) * min(1.0, OPEN_WORDS / max(len(text.split()), 1)) for text in texts) <= CHARACTERS:
            break
    return word_limit(texts), sources


def _values(aligned: Mapping[str, Any], measured: Mapping[str, pd.DataFrame], measures: Sequence[str]) -> dict[str, list[list[float]]]:
    """Session -> for each system its measures; NaN if it has none."""
    tables = [dict(zip(frame["session"], frame[list(measures)].to_numpy().tolist(), strict=True)) for frame in measured.values()]
    return {session: [table.get(session, [UNKNOWN] * len(measures)) for table in tables] for session in aligned}


def _measure(name: str, measured: Mapping[str, pd.DataFrame]) -> dict[str, Any]:
    """A measure in the form for the page: with the value that has the strongest colour."""
    most = 1.0 if name == "rubrics met" else max(frame[name].max() for frame in measured.values() if frame[name].notna().any())
    return {"name": name, "digits": 0 if name in COUNTS else MEASURES[name], "better": BETTER[name], "most": float(most) or 1.0}


def _best_but(baseline: int, means: pd.DataFrame, measures: Sequence[str]) -> int:
    """Which of the other systems has the best mean, or the first one if none is known, or the baseline if it is alone."""
    others = means.reset_index(drop=True).drop(index=baseline)
    if others.empty or not measures:
        return int(others.index[0]) if len(others) else baseline
    return int((others[measures[0]] * BETTER[measures[0]]).fillna(float("-inf")).idxmax())


def _describe(header: Mapping[str, Any]) -> dict[str, Any]:
    """The system and the settings of a run, from its description."""
    rest = {name: value for name, value in header.items() if name not in NO_SETTINGS and not name.endswith("sha256")}
    texts = {name: value if isinstance(value, str) else json.dumps(value, ensure_ascii=False) for name, value in rest.items()}
    cut = {name: text if len(text) <= LONGEST else f"{text[:LONGEST]} […]" for name, text in texts.items()}
    return {
        "system": str(header.get("expression") or header.get("system", "")),
        "settings": [f"{name}: {text}" for name, text in cut.items()],
    }
