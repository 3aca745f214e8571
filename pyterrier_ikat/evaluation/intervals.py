"""Confidence intervals of differences from a baseline, by a paired bootstrap over turns, conversations or topics."""

import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np

from ..arguments import one_of
from ..errors import DataError, counted
from ..tables import Cell, Column, Table, format_score

UNITS = ("turn", "conversation", "topic")
RESAMPLES = 9999
SEED = 0
_QID = re.compile(r"(?P<topic>[^-_]+)(?:-[^_]*)?_\d+")
"""``9-1_3``: turn 3 of conversation 9-1, which is on topic 9."""


def units_of(turns: Iterable[str], by: str = "conversation") -> list[str]:
    """The unit of each turn: the turn itself, its conversation, or the topic of its conversation.

    Raises:
        UsageError: when ``by`` is unknown.
        DataError: when a turn is not named ``<topic>-<persona>_<turn>`` or ``<conversation>_<turn>``.

    Example:
        >>> units_of(["9-1_1", "9-1_2", "9-2_1"]), units_of(["9-1_1", "9-2_1"], "topic")
        (['9-1', '9-1', '9-2'], ['9', '9'])
    """
    one_of(UNITS, by=by)
    names = list(turns)
    if by == "turn":
        return names
    found = [_QID.fullmatch(qid) for qid in names]
    if None in found:
        raise DataError(f"turn {names[found.index(None)]!r} is not <conversation>_<turn>, such as 9-1_3: give by='turn'")
    return [match["topic"] if by == "topic" else match[0].rpartition("_")[0] for match in found if match]


def default_unit(turns: Iterable[str]) -> str:
    """The conversation, where all turns are named ``<conversation>_<turn>``, else the turn."""
    return "conversation" if all(map(_QID.fullmatch, turns)) else "turn"


def difference_interval(
    ours: Sequence[float], theirs: Sequence[float], units: Sequence[str], *, level: float = 0.95, seed: int = SEED
) -> tuple[float, float]:
    """The interval of the difference of two runs' means over turns, by a paired percentile bootstrap.

    The units are drawn with replacement, each with all its turns, because the turns of a conversation depend on each other. Source: Efron
    and Tibshirani, An Introduction to the Bootstrap (1993), by :func:`scipy.stats.bootstrap`; for retrieval: Sakai, Evaluating Evaluation
    Metrics based on the Bootstrap (SIGIR 2006).

    Args:
        ours: a score for each turn.
        theirs: the baseline's scores for the same turns.
        units: the unit of each turn, see :func:`units_of`.
        level: the confidence level.
        seed: of the random numbers. The same seed gives the same interval.

    Returns:
        The lower and the upper bound; NaN with fewer than two units.

    Example:
        >>> low, high = difference_interval([0.5, 0.7, 0.4, 0.9], [0.4, 0.4, 0.4, 0.5], ["1-1", "1-1", "2-1", "3-1"])
        >>> round(low, 3), round(high, 3)
        (0.0, 0.4)
    """
    from scipy.stats import bootstrap

    names, numbers = np.unique(np.asarray(units, dtype=str), return_inverse=True)
    if len(names) < 2:
        return float("nan"), float("nan")
    sums = np.bincount(numbers, np.asarray(ours, dtype=float) - np.asarray(theirs, dtype=float))
    sizes = np.bincount(numbers).astype(float)
    found = bootstrap(
        (sums, sizes),
        lambda differences, turns, axis: differences.sum(axis=axis) / turns.sum(axis=axis),
        paired=True,
        vectorized=True,
        n_resamples=RESAMPLES,
        batch=1000,
        confidence_level=level,
        method="percentile",
        random_state=np.random.default_rng(seed),
    ).confidence_interval
    return float(found.low), float(found.high)


def difference_table(scores: Mapping[str, Mapping[str, Sequence[float]]], turns: Sequence[str], baseline: str, by: str) -> Table:
    """The difference of each run's means from the baseline's, with their intervals.

    Args:
        scores: run -> measure -> a score for each turn.
        turns: the turns, in the order of the scores.
        baseline: one of the runs.
        by: the unit, see :data:`UNITS`.

    Example:
        >>> runs = {"QR": {"nDCG": [0.4, 0.4, 0.4, 0.5]}, "AD": {"nDCG": [0.5, 0.7, 0.4, 0.9]}}
        >>> print(difference_table(runs, ["1-1_1", "1-1_2", "2-1_1", "3-1_1"], "QR", "conversation").text().splitlines()[1])
        AD      +.2000 [+.0000, +.4000]
    """
    units, measures = units_of(turns, by), list(scores[baseline])
    rows: list[dict[str, Any]] = []
    for name in [name for name in scores if name != baseline]:
        rows.append({"system": name})
        for measure in measures:
            ours, theirs = scores[name][measure], scores[baseline][measure]
            low, high = difference_interval(ours, theirs, units)
            rows[-1] |= {measure: float(np.mean(ours) - np.mean(theirs)), f"{measure} low": low, f"{measure} high": high}
    columns = [Column("system", [Cell(row["system"]) for row in rows])]
    columns += [Column(measure, [Cell(_told(row, measure)) for row in rows]) for measure in measures]
    notes = [
        f"Differences from {baseline}, with intervals of 95 %: paired bootstrap over {counted(len(set(units)), by)} "
        f"({RESAMPLES:,} resamples, seed {SEED}). --by chooses the unit: {', '.join(UNITS)}."
    ]
    return Table(rows, columns, notes)


def _told(row: Mapping[str, Any], measure: str) -> str:
    low, high = (format_score(row[f"{measure} {end}"], signed=True) for end in ("low", "high"))
    return f"{format_score(row[measure], signed=True)} [{low}, {high}]"
