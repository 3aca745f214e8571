"""Measures of conversations with simulated users: whether the user's need was met, and at what cost.

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
from ..errors import counted, list_first
from ..llms.ledger import Spend
from ..runs.answered_turn import Turn
from ..runs.log import Dialogue
from ..tables import UNKNOWN as NOT_KNOWN
from ..tables import format_score

MEASURES = {
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
"""1 if a higher value is better, -1 if a lower one is. For turns it is neither, because an impatient user leaves early."""
UNKNOWN = float("nan")


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
        >>> turns = [Turn(1, "Tea?", "Rooibos.", seconds=2.0, spend=Spend(calls=3, cost=0.25), met=("r1",))]
        >>> one = Dialogue("u1", "u1", {"r1": "Which tea?", "r2": "Which coffee?"}, turns, end="out of patience")
        >>> session_measures([one])[[*MEASURES]].iloc[0].tolist()
        [0.5, nan, 1.0, 2.0, 3.0, 0.25]
    """
    rows = [_measures(one) for one in dialogues]
    texts = {
        name: column([getattr(one, name) for one in dialogues])
        for name in ("session", "user", "end")
    }
    return pd.DataFrame(
        {**texts, **{name: np.array([row[name] for row in rows], dtype=float) for name in MEASURES}}
    )


def _measures(one: Dialogue) -> dict[str, float]:
    turns = one.turns
    spend = sum((turn.spend for turn in turns), Spend())
    return {
        "rubrics met": len(one.met) / len(one.rubrics) if one.rubrics else UNKNOWN,
        "turns until satisfied": len(turns) if one.end == "satisfied" else UNKNOWN,
        "turns": len(turns),
        "seconds": math.fsum(turn.seconds for turn in turns) / len(turns) if turns else UNKNOWN,
        "calls": spend.completions,
        "cost": UNKNOWN if spend.price is None else spend.price,
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

    Example:
        >>> cheap = Dialogue("a", "a", {"r": "Tea?"}, [Turn(1, "", "", spend=Spend(3, cost=0.5), met=("r",))], end="satisfied")
        >>> local = Dialogue("b", "b", {"r": "Tea?"}, [Turn(1, "", "", spend=Spend(4, cost=None))], end="out of patience")
        >>> frame = session_measures([cheap, local])
        >>> session_means({"raw": frame}).values.tolist()
        [['raw', 2, 1, 0.5, 1.0, 1.0, 0.0, 3.5, nan]]
    """
    rows = [
        {
            "name": name,
            "sessions": len(frame),
            "satisfied": int((frame["end"] == "satisfied").sum()),
        }
        | {measure: frame[measure].mean(skipna=measure != "cost") for measure in MEASURES}
        for name, frame in systems.items()
    ]
    return pd.DataFrame(rows)


def session_notes(systems: Mapping[str, pd.DataFrame]) -> list[str]:
    """Sentences on what a reader of the means has to know: how they are computed, and which sessions are missing or not finished.

    Args:
        systems: name -> the frame of :func:`session_measures`.

    Example:
        >>> frame = session_measures([Dialogue("u1", "u1"), Dialogue("u2", "u2", end="topic ended")])
        >>> session_notes({"raw": frame, "QR": frame[1:]})[-1]
        'Missing for QR: 1 session (u1). Its means are over fewer users.'
    """
    costs = any(frame["cost"].notna().any() for frame in systems.values())
    notes = [
        f"Means over sessions. Seconds are per turn, calls{' and cost (USD)' if costs else ''} per session."
    ]
    if (
        len(
            {
                frozenset(frame.loc[frame["end"] == "satisfied", "session"])
                for frame in systems.values()
            }
        )
        > 1
    ):
        notes.append(
            "Turns until satisfied are over the satisfied users only. These differ between the systems."
        )
    if costs and any(frame["cost"].isna().any() for frame in systems.values()):
        notes.append(
            "A missing cost is unknown: the model has no prices, or its server does not report tokens."
        )
    every = list(
        dict.fromkeys(session for frame in systems.values() for session in frame["session"])
    )
    for name, frame in systems.items():
        if going := frame.loc[frame["end"] == "", "session"].tolist():
            notes.append(
                f"Not ended, and measured up to the last turn: {counted(len(going), 'session')} of {name} ({list_first(going)})."
            )
    for name, frame in systems.items():
        present = set(frame["session"])
        if missing := [one for one in every if one not in present]:
            notes.append(
                f"Missing for {name}: {counted(len(missing), 'session')} ({list_first(missing)}). Its means are over fewer users."
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
    spend = [turn.spend for turn in turns]
    if not (known := sum(one.known for one in spend)):
        return []
    share = "" if of is None else f" of the {of:,}"
    told = f"{known:,}{share} completions of the systems came from a recording or the cache. They took no time here"
    return [
        told + (", and count with the price of a call." if any(one.worth for one in spend) else ".")
    ]


def recorded_note(headers: Mapping[str, Mapping[str, Any]]) -> list[str]:
    """A sentence that names who replayed recorded completions. No sentence if all were live.

    Args:
        headers: system -> the description of its log.

    Example:
        >>> recorded_note({"ad": {"recorded": True, "recorded_parts": ["judge"]}})[0][:49]
        'Recorded completions, without a live LLM: ad, jud'
    """
    systems = [name for name, header in headers.items() if header.get("recorded")]
    parts = dict.fromkeys(
        part for header in headers.values() for part in header.get("recorded_parts") or ()
    )
    named = ", ".join([*systems, *parts])
    told = f"Recorded completions, without a live LLM: {named}. They are replayed turn by turn and do not react to what is said."
    return [told] if named else []


def shown_columns(systems: Mapping[str, pd.DataFrame]) -> list[str]:
    """The columns of numbers that have a value. A log without rubrics and without reasons why users left has no columns of success."""
    known = [
        name for name in MEASURES if any(frame[name].notna().any() for frame in systems.values())
    ]
    satisfied = any(
        frame["end"].isin(["satisfied", "out of patience"]).any() for frame in systems.values()
    )
    return ["sessions", *["satisfied"] * satisfied, *known]


def format_measure(name: str, value: Any) -> str:
    """A value with the decimals of its measure. An unknown cost and a mean over nothing are ``–``.

    Example:
        >>> format_measure("rubrics met", 0.5), format_measure("cost", float("nan")), format_measure("sessions", 3)
        ('.5000', '–', '3')
    """
    if value != value:
        return NOT_KNOWN
    if name in SHARES:
        return format_score(value)
    return f"{value:,.{MEASURES.get(name, 0)}f}"
