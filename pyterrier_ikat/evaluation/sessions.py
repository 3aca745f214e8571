"""Measures of conversations with simulated users: success and cost.

As in PARADISE, success and costs are measured separately: Walker, Litman, Kamm and Abella,
PARADISE: A Framework for Evaluating Spoken Dialogue Agents (ACL 1997). Its costs are the number of
utterances and the elapsed time. The LLM calls and their price are added here. Success is the share
of the user's rubrics that were met. A rubric is a question that the user wants answered, as in the
files of iKAT 2025 (https://github.com/marcel-gohsen/user-simulation-api).
"""

import math
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np
import pandas as pd

from ..conversations.frame import column
from ..errors import UsageError, counted, list_first
from ..llms.ledger import Spend
from ..runs.answered_turn import Turn
from ..runs.log import Dialogue
from ..tables import UNKNOWN, format_score
from .finished_runs import with_names
from .inference import NO_VALUE

SESSION_MEASURES = {
    "rubrics met": 4,
    "turns until satisfied": 2,
    "turns": 2,
    "seconds": 2,
    "calls": 2,
    "cost": 4,
}
"""The measures of a session, and the number of decimals of their means."""
COUNTS = ("turns until satisfied", "turns", "calls")
"""The measures that are whole numbers in one session."""
SHARES = ("rubrics met", "satisfied")
"""The measures that are shown as scores. The others are amounts."""
BETTER = {"rubrics met": 1, "turns until satisfied": -1, "seconds": -1, "calls": -1, "cost": -1}
"""1 if a higher value is better, -1 if a lower one is.

For turns it is neither, because an impatient user leaves early.
"""


def session_measures(dialogues: Sequence[Dialogue]) -> pd.DataFrame:
    """The measures of each session of one system.

    Args:
        dialogues: the conversations, as ``Log(folder).dialogues()`` gives them.

    Returns:
        A row for each session, in the order of ``dialogues``: ``session``, ``user``, ``end`` (empty
        while the conversation goes on) and

        * ``rubrics met``: the share of the session's rubrics that its responses met; NaN without
          rubrics
        * ``turns until satisfied``: the turns of a session that ended because the user was
          satisfied; NaN for any other end
        * ``turns``: the number of turns
        * ``seconds``: the mean time in which the system answered a turn; NaN without turns
        * ``calls``: completions of the LLMs that the system used, all turns together, paid for or
          known
        * ``cost``: the price of these completions in US dollars, all turns together; NaN if that of
          a turn is unknown

    Example:
        >>> spend = Spend(calls=3, cost=0.25)
        >>> turns = [Turn(1, "Tea?", "Rooibos.", seconds=2.0, spend=spend, met=("r1",))]
        >>> rubrics = {"r1": "Which tea?", "r2": "Which coffee?"}
        >>> dialogue = Dialogue("u1", "u1", rubrics, turns, end="out of patience")
        >>> session_measures([dialogue])[[*SESSION_MEASURES]].iloc[0].tolist()
        [0.5, nan, 1.0, 2.0, 3.0, 0.25]
    """
    columns: dict[str, Any] = {
        "session": column([dialogue.session for dialogue in dialogues]),
        "user": column([dialogue.user for dialogue in dialogues]),
        "end": column([dialogue.end for dialogue in dialogues]),
    }
    rows = [_measures(dialogue) for dialogue in dialogues]
    for name in SESSION_MEASURES:
        columns[name] = np.array([row[name] for row in rows], dtype=float)
    return pd.DataFrame(columns)


def _measures(dialogue: Dialogue) -> dict[str, float]:
    turns = dialogue.turns
    spend = sum((turn.spend for turn in turns), Spend())
    rubrics_met = NO_VALUE
    if dialogue.rubrics:
        rubrics_met = len(dialogue.met) / len(dialogue.rubrics)
    seconds = NO_VALUE
    if turns:
        seconds = math.fsum(turn.seconds for turn in turns) / len(turns)
    return {
        "rubrics met": rubrics_met,
        "turns until satisfied": len(turns) if dialogue.end == "satisfied" else NO_VALUE,
        "turns": len(turns),
        "seconds": seconds,
        "calls": spend.completions,
        "cost": NO_VALUE if spend.price is None else spend.price,
    }


def session_means(systems: Mapping[str, pd.DataFrame]) -> pd.DataFrame:
    """The mean of each measure over the sessions of each system.

    Args:
        systems: name -> the frame of :func:`session_measures`.

    Returns:
        A row for each system: ``name``, ``sessions``, ``satisfied`` (how many users were) and the
        measures. ``rubrics met`` is the mean over the sessions that have rubrics, ``turns until
        satisfied`` over those with a satisfied user, ``seconds`` over those with a turn, all others
        over all sessions. A mean over nothing is NaN, and so is the cost when that of one session
        is unknown.

    Raises:
        UsageError: when there is no system, or its frame lacks a column.

    Example:
        >>> turn = Turn(1, "", "", spend=Spend(3, cost=0.5), met=("r",))
        >>> cheap = Dialogue("a", "a", {"r": "Tea?"}, [turn], end="satisfied")
        >>> turn = Turn(1, "", "", spend=Spend(4, cost=None))
        >>> local = Dialogue("b", "b", {"r": "Tea?"}, [turn], end="out of patience")
        >>> frame = session_measures([cheap, local])
        >>> session_means({"raw": frame}).values.tolist()
        [['raw', 2, 1, 0.5, 1.0, 1.0, 0.0, 3.5, nan]]
    """
    if not systems:
        raise UsageError("there is no system: give at least one")
    rows = []
    needed = ("end", *SESSION_MEASURES)
    for name, sessions in systems.items():
        repair = "give those of session_measures"
        frame = with_names(f"the sessions of {name}", sessions, needed, repair)
        row: dict[str, Any] = {
            "name": name,
            "sessions": len(frame),
            "satisfied": int((frame["end"] == "satisfied").sum()),
        }
        for measure in SESSION_MEASURES:
            row[measure] = frame[measure].mean(skipna=measure != "cost")
        rows.append(row)
    return pd.DataFrame(rows)


def session_notes(systems: Mapping[str, pd.DataFrame]) -> list[str]:
    """Notes on the means: how they are computed, and which sessions are missing or unfinished.

    Args:
        systems: name -> the frame of :func:`session_measures`.

    Example:
        >>> dialogues = [Dialogue("u1", "u1"), Dialogue("u2", "u2", end="topic ended")]
        >>> frame = session_measures(dialogues)
        >>> session_notes({"raw": frame, "QR": frame[1:]})[-1]
        'Missing for QR: 1 session (u1). Its means are over fewer users.'
    """
    frames = systems.values()
    has_cost = any(frame["cost"].notna().any() for frame in frames)
    per_session = "calls and cost (USD)" if has_cost else "calls"
    notes = [f"Means over sessions. Seconds are per turn, {per_session} per session."]
    satisfied = set()
    for frame in frames:
        satisfied.add(frozenset(frame.loc[frame["end"] == "satisfied", "session"]))
    if len(satisfied) > 1:
        notes.append(
            "Turns until satisfied are over the satisfied users only. These differ between the "
            "systems."
        )
    if has_cost and any(frame["cost"].isna().any() for frame in frames):
        notes.append(
            "A missing cost is unknown: the model has no prices, or its server does not report "
            "tokens."
        )
    for name, frame in systems.items():
        unfinished = frame.loc[frame["end"] == "", "session"].tolist()
        if unfinished:
            notes.append(
                "Not ended, and measured up to the last turn: "
                f"{counted(len(unfinished), 'session')} of {name} ({list_first(unfinished)})."
            )
    every = dict.fromkeys(session for frame in frames for session in frame["session"])
    for name, frame in systems.items():
        present = set(frame["session"])
        missing = [session for session in every if session not in present]
        if missing:
            notes.append(
                f"Missing for {name}: {counted(len(missing), 'session')} ({list_first(missing)}). "
                "Its means are over fewer users."
            )
    return notes


def cached_note(turns: Iterable[Turn], of: int | None = None) -> list[str]:
    """A sentence on the known completions of the systems. No sentence if there are none.

    Args:
        turns: the turns of all systems.
        of: the number of all completions, if the sentence should state it.

    Example:
        >>> cached_note([Turn(1, "", "", spend=Spend(calls=1, known=2, worth=0.5))])[0][:62]
        '2 completions of the systems came from a recording or the cach'
    """
    spends = [turn.spend for turn in turns]
    known = sum(spend.known for spend in spends)
    if not known:
        return []
    share = "" if of is None else f" of the {of:,}"
    note = (
        f"{known:,}{share} completions of the systems came from a recording or the cache. "
        "They took no time here"
    )
    if any(spend.worth for spend in spends):
        note += ", and count with the price of a call"
    return [f"{note}."]


def recorded_note(headers: Mapping[str, Mapping[str, Any]]) -> list[str]:
    """A sentence that names who replayed recorded completions. No sentence if all were live.

    Args:
        headers: system -> the description of its log.

    Example:
        >>> recorded_note({"ad": {"recorded": True, "recorded_parts": ["judge"]}})[0][:49]
        'Recorded completions, without a live LLM: ad, jud'
    """
    systems = [name for name, header in headers.items() if header.get("recorded")]
    parts: dict[str, None] = {}
    for header in headers.values():
        parts.update(dict.fromkeys(header.get("recorded_parts") or ()))
    if not systems and not parts:
        return []
    return [
        f"Recorded completions, without a live LLM: {', '.join([*systems, *parts])}. "
        "They are replayed turn by turn and do not react to what is said."
    ]


def shown_columns(systems: Mapping[str, pd.DataFrame]) -> list[str]:
    """The columns of numbers that have a value.

    A log without rubrics and without reasons why users left has no columns of success.
    """
    frames = systems.values()
    columns = ["sessions"]
    if any(frame["end"].isin(["satisfied", "out of patience"]).any() for frame in frames):
        columns.append("satisfied")
    for name in SESSION_MEASURES:
        if any(frame[name].notna().any() for frame in frames):
            columns.append(name)
    return columns


def format_measure(name: str, value: Any) -> str:
    """A value with the decimals of its measure. An unknown cost and a mean over nothing are ``–``.

    Example:
        >>> format_measure("rubrics met", 0.5), format_measure("sessions", 3)
        ('.5000', '3')
        >>> format_measure("cost", float("nan"))
        '–'
    """
    if value != value:  # NaN differs from itself
        return UNKNOWN
    if name in SHARES:
        return format_score(value)
    decimals = SESSION_MEASURES.get(name, 0)
    return f"{value:,.{decimals}f}"
