"""The order of a ranking as every evaluator sees it.

This module alone ranks rows, normalises scores and separates tied scores.

trec_eval ignores the ranks. It reads scores as 32-bit floats, and orders equal scores by docno, the
greatest first. So two scores that differ in the 12th digit tie there, and the tie may be broken in
another way than we intended.
"""

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import pandas as pd
import pyterrier as pt

from .errors import DataError

Integers = npt.NDArray[np.int64]
Floats = npt.NDArray[np.float64]

SUBNORMAL_BITS = 0x007FFFFF
"""The bits of the largest 32-bit float that a fast processor may take for zero."""
INFINITY_BITS = 0x7F800000
"""The bits of infinity as a 32-bit float."""
SAME_SUM = 1e-12
"""The tolerance for equal sums of shares, as a fraction of the highest possible sum."""
TURN_GAP = 1 << 34
"""A number greater than any difference between the numbers of two scores, steps included."""


def order_by_score(frame: pd.DataFrame, turn: Integers, score: Floats) -> Integers:
    """Return the order of rows by turn, then score, then docno, both descending.

    That is trec_eval's own order of ties.

    Example:
        >>> tied = pd.DataFrame({"docno": ["a", "c", "b"]})
        >>> order_by_score(tied, np.array([0, 0, 0]), np.array([1.0, 1.0, 2.0])).tolist()
        [2, 1, 0]
    """
    order = np.lexsort((-score, turn))
    same_turn = np.diff(turn[order]) == 0
    same_score = np.diff(score[order]) == 0
    if (same_turn & same_score).any():
        docnos = pd.factorize(_texts(frame["docno"]), sort=True)[0]
        order = np.lexsort((-docnos, -score, turn))
    return order


def set_ranks(
    frame: pd.DataFrame, turn: Integers, score: Floats | None = None, *, by_docno: bool = False
) -> pd.DataFrame:
    """Set ``rank`` (from 0) and ``score`` of a frame so that evaluators keep the order of its rows.

    Rows are in order, turn by turn. A score that isn't below the one before it as a 32-bit float is
    lowered by the least step of such floats.

    Args:
        frame: the rows; it is not changed.
        turn: the number of each row's turn.
        score: the rows' scores; without it, the number of passages from this one to the turn's
            last: n, n-1, ..., 1.
        by_docno: keep equal scores equal if the greater docno comes first, as from
            :func:`order_by_score`.

    Raises:
        DataError: when a turn's scores are so low that no lower 32-bit float exists.

    Example:
        >>> found = pd.DataFrame({"qid": ["t", "t"], "docno": ["b", "a"]})
        >>> set_ranks(found, np.array([0, 0]), np.array([.5, .5]), by_docno=True)["score"].tolist()
        [0.5, 0.5]
        >>> set_ranks(found, np.array([0, 0]), np.array([.5, .5]))["score"].tolist()
        [0.5, 0.4999999701976776]
    """
    if score is None:
        rank, size = _positions(turn)
        return frame.assign(score=(size - rank).astype(np.float64), rank=rank)
    rank, parted = ranks_and_scores(turn, score, frame["docno"] if by_docno else None)
    if np.isneginf(parted).any():
        where = frame["qid"].iloc[int(np.flatnonzero(np.isneginf(parted))[0])]
        raise DataError(
            f"turn {where}: several passages have the lowest 32-bit score, so they can't be "
            "separated: omit them"
        )
    return frame.assign(score=parted, rank=rank)


def ranks_and_scores(
    turn: Integers, score: Floats, docno: "pd.Series[Any] | None" = None
) -> tuple[Integers, Floats]:
    """Return ``rank`` and ``score`` as :func:`set_ranks` sets them.

    Idea: 32-bit floats are numbered in their order, so that neighbours differ by one. Within a
    turn, from its first row on, a number that isn't below the one before it becomes the one before
    it minus one. Rows that are lowered get the float of their new number, all others keep their
    score.

    Args:
        turn: the number of each row's turn; the rows of a turn are contiguous, in their order.
        score: the rows' scores.
        docno: the rows' docnos; with them, equal scores stay equal if the greater docno is first.
    """
    rank, _ = _positions(turn)
    number = _numbers_of(score)
    follows = rank[1:] > 0  # whether a row, from the second on, is in the turn of the one before
    if not (follows & (number[1:] >= number[:-1])).any():
        return rank, score
    step = np.ones(len(number), dtype=np.int64)  # by how much a row is below the one before it
    if docno is not None:
        tied_rows = 1 + np.flatnonzero(follows & (number[1:] == number[:-1]))
        docnos = _texts(docno)
        in_order = docnos[tied_rows] <= docnos[tied_rows - 1]
        step[tied_rows[in_order]] = 0
    lowered = _lowered(number, step, rank)
    return rank, np.where(lowered < number, _scores_of(lowered), score)


def _numbers_of(score: Floats) -> Integers:
    """The number of each score among the 32-bit floats; 0 for all that may be taken for zero."""
    with np.errstate(over="ignore"):  # what is too large is infinite
        single = score.astype(np.float32)
    bits = np.abs(single).view(np.int32).astype(np.int64)  # the bits of floats are in their order
    above_zero = np.maximum(bits - SUBNORMAL_BITS, 0)
    return np.where(single < 0, -1, 1) * above_zero


def _scores_of(number: Integers) -> Floats:
    """The 32-bit floats with these numbers."""
    bits = np.minimum(np.abs(number) + SUBNORMAL_BITS, INFINITY_BITS)
    bits[number == 0] = 0
    size = bits.astype(np.int32).view(np.float32)
    return np.asarray(np.sign(number) * size, dtype=np.float32).astype(np.float64)


def _lowered(number: Integers, step: Integers, rank: Integers) -> Integers:
    """The numbers, each at most the one before it in its turn minus its step.

    With the steps so far added to every number, "at most the one before minus a step" is a running
    minimum. A gap between turns keeps the minimum of one turn from reaching into the next.
    """
    offset = np.cumsum(step) - TURN_GAP * np.cumsum(rank == 0)
    return np.asarray(np.minimum.accumulate(number + offset) - offset, dtype=np.int64)


def in_trec_eval_order(results: pd.DataFrame) -> pd.DataFrame:
    """Return the ranking that trec_eval makes of scores: by 32-bit score, then docno, descending.

    Args:
        results: ``qid``, ``docno``, ``score``.

    Returns:
        The frame in this order (turns as they first appear), the scores as they are, ``rank`` 0, 1,
        ...

    Raises:
        DataError: when a turn has a passage twice, or a score is not a finite number.

    Example:
        >>> import pandas as pd
        >>> scores = {"docno": ["a", "b", "c"], "score": [0.5, 0.5, 2.0], "rank": [0, 1, 2]}
        >>> in_trec_eval_order(pd.DataFrame({"qid": ["1_1"] * 3, **scores})).values.tolist()
        [['1_1', 'c', 2.0, 0], ['1_1', 'b', 0.5, 1], ['1_1', 'a', 0.5, 2]]
    """
    scores = finite_scores(results)
    turns = pd.factorize(results["qid"])[0]
    with np.errstate(over="ignore"):  # scores beyond 32 bits are infinite in trec_eval, so they tie
        single = scores.astype(np.float32).astype(np.float64)
    order = order_by_score(results, turns, np.nan_to_num(single, posinf=1e39, neginf=-1e39))
    ordered = results.iloc[order].reset_index(drop=True)
    _check_once(ordered, turns[order])
    return ordered.assign(rank=_positions(turns[order])[0])


def scores_by_turn(ranking: pd.DataFrame) -> dict[str, dict[str, float]]:
    """Return the scores of a ranking: turn -> passage -> score.

    Example:
        >>> scores_by_turn(pd.DataFrame({"qid": ["1_1"], "docno": ["a"], "score": [2.5]}))
        {'1_1': {'a': 2.5}}
    """
    qids = ranking["qid"].tolist()
    docnos = ranking["docno"].tolist()
    scores = ranking["score"].tolist()
    by_turn: dict[str, dict[str, float]] = {}
    last = None
    for qid, docno, score in zip(qids, docnos, scores, strict=True):
        if qid != last:
            of_turn = by_turn.setdefault(qid, {})
            last = qid
        of_turn[docno] = score
    return by_turn


def strictly_decreasing(results: pd.DataFrame) -> pd.DataFrame:
    """Sort by turn and rank, and lower tied scores by the least 32-bit step.

    So no tool breaks ties its own way.

    Args:
        results: a result frame with ``qid``, ``docno``, ``score``, ``rank``.

    Returns:
        The frame in order (turns as they first appear), ``rank`` 0, 1, ..., ``score`` as float32
        values that strictly decrease within a turn.

    Raises:
        DataError: when a turn has a passage twice, a score that is not finite, 32-bit scores that
            rise with the rank, or ties at the lowest 32-bit float.

    Example:
        >>> import pandas as pd
        >>> ties = {"docno": ["a", "b"], "score": [0.5, 0.5], "rank": [0, 1]}
        >>> strictly_decreasing(pd.DataFrame({"qid": ["1_1"] * 2, **ties}))["score"].tolist()
        [0.5, 0.4999999701976776]
    """
    pt.validate.result_frame(results, extra_columns=["score", "rank"])
    turns = pd.factorize(results["qid"])[0]
    order = np.lexsort((results["rank"].to_numpy(dtype=float), turns))
    ordered = results.iloc[order].reset_index(drop=True)
    turns = turns[order]
    largest = float(np.finfo(np.float32).max)
    scores = finite_scores(ordered, largest=largest).astype(np.float32).astype(np.float64)
    _check_once(ordered, turns)
    rising = np.flatnonzero((turns[1:] == turns[:-1]) & (scores[1:] > scores[:-1]))
    if len(rising):
        row = ordered.iloc[rising[0] + 1]
        raise DataError(
            f"turn {row['qid']}, passage {row['docno']}: the score rises with the rank; rank by "
            "score first, with pt.model.add_ranks(run)"
        )
    return set_ranks(ordered, turns, scores)


def finite_scores(results: pd.DataFrame, who: str = "the run", largest: float = np.inf) -> Floats:
    """Return the scores of a result frame, all finite.

    Args:
        results: the frame, with ``qid``, ``docno`` and ``score``.
        who: what gave the scores, for the error.
        largest: the largest size of a score.

    Raises:
        DataError: when a score isn't finite or is too large.

    Example:
        >>> finite_scores(pd.DataFrame({"qid": ["1"], "docno": ["a"], "score": [2]})).tolist()
        [2.0]
    """
    numbers = pd.to_numeric(results["score"], errors="coerce")
    scores: Floats = numbers.to_numpy(dtype=np.float64, na_value=np.nan)
    bad = np.flatnonzero(~np.isfinite(scores) | (np.abs(scores) > largest))
    if len(bad):
        row = results.iloc[bad[0]]
        raise DataError(
            f"{who} gave the score {row['score']} to passage {row['docno']} of turn {row['qid']}: "
            "only finite scores can be ranked"
        )
    return scores


def positions_by_rank(turn: Integers, rank: "npt.NDArray[Any]") -> Integers:
    """Return the position of each row in its turn by rank, from 0. Equal ranks keep their order.

    Example:
        >>> positions_by_rank(np.array([0, 0, 1]), np.array([7, 3, 5])).tolist()
        [1, 0, 0]
    """
    order = np.lexsort((rank, turn))
    positions = np.empty(len(order), dtype=np.int64)
    positions[order] = _positions(turn[order])[0]
    return positions


def min_max(scores: Floats, lists: Integers) -> Floats:
    """Normalise each score by its list: 0 for the least one, 1 for the greatest (min-max).

    Args:
        scores: NaN for a missing score.
        lists: the number of each score's list, from 0.

    Returns:
        As many numbers: 0.5 throughout a list whose scores are all equal, 0 for NaN.

    Example:
        >>> min_max(np.array([1.0, 3.0, 2.0, 7.0]), np.array([0, 0, 0, 1])).tolist()
        [0.0, 1.0, 0.5, 0.5]
    """
    least = np.full(lists.max(initial=-1) + 1, np.inf)
    greatest = -least
    np.fmin.at(least, lists, scores)
    np.fmax.at(greatest, lists, scores)
    with np.errstate(invalid="ignore"):
        width = greatest / 2 - least / 2  # halves, so that the width of a list can't overflow
        has_width = width > 0
        divisor = np.where(has_width, width, 1)
        normalised = (scores / 2 - (least / 2)[lists]) / divisor[lists]
    normalised[~has_width[lists]] = 0.5
    normalised[np.isnan(scores)] = 0.0
    return normalised


def tied(total: Floats, most: Floats | float, turn: Integers | None = None) -> Floats:
    """Make sums of shares that differ only by rounding the same number.

    Idea: the sums of a turn stand in descending order. Each one that follows the one before it
    within the tolerance belongs to its group, and all of a group become its first sum.

    Args:
        total: the sums.
        most: the highest sum that the shares could give: one number, or one for each sum, alike
            within a turn.
        turn: the number of each sum's turn; None where all are of one.

    Returns:
        The sums of a turn, alike where one follows the next within ``SAME_SUM`` of ``most``.

    Example:
        >>> tied(np.array([.1 + .2, .3, .4]), 1.0).tolist()
        [0.30000000000000004, 0.30000000000000004, 0.4]
    """
    if len(total) == 0:
        return total
    order = np.argsort(-total, kind="stable") if turn is None else np.lexsort((-total, turn))
    sums = total[order]
    tolerance = SAME_SUM * (most[order][1:] if isinstance(most, np.ndarray) else most)
    begins = np.ones(len(sums), dtype=np.bool_)  # whether a sum begins a group
    begins[1:] = sums[1:] - sums[:-1] < -tolerance
    if turn is not None:
        begins[1:] |= np.diff(turn[order]) != 0
    group = np.cumsum(begins) - 1  # the number of each sum's group
    alike = np.empty(len(sums))
    alike[order] = sums[begins][group]
    return alike


def highest_of(turn: Integers, values: Floats) -> Floats:
    """Return for each value the highest value of its turn.

    Example:
        >>> highest_of(np.array([0, 1, 0]), np.array([1.0, 2.0, 3.0])).tolist()
        [3.0, 2.0, 3.0]
    """
    highest = np.full(turn.max(initial=-1) + 1, -np.inf)
    np.maximum.at(highest, turn, values)
    return np.asarray(highest[turn])


def sum_in_any_order(parts: Sequence[Floats] | Floats) -> Floats:
    """Return the sums of parallel arrays, the same to the last bit for any order of the arrays."""
    ordered = np.sort(np.asarray(parts, dtype=np.float64), axis=0)
    return np.asarray(ordered.sum(axis=0), dtype=np.float64)


def _positions(turn: Integers) -> tuple[Integers, Integers]:
    """The position of each row within its turn, from 0, and the number of the turn's rows.

    The rows of a turn are contiguous.
    """
    starts = np.flatnonzero(np.diff(turn, prepend=-1))
    sizes = np.diff(np.append(starts, len(turn)))
    return np.arange(len(turn)) - np.repeat(starts, sizes), np.repeat(sizes, sizes)


def _texts(docno: "pd.Series[Any]") -> "npt.NDArray[np.object_]":
    """The docnos as the texts that an evaluator compares."""
    docnos: npt.NDArray[np.object_] = docno.to_numpy(dtype=object)
    if pd.api.types.infer_dtype(docnos, skipna=False) == "string":
        return docnos
    return np.array([str(docno) for docno in docnos], dtype=object)


def _check_once(ordered: pd.DataFrame, turns: Integers) -> None:
    """Check that each turn, whose rows are contiguous, has each passage once.

    Raises:
        DataError: naming one that is there twice.
    """
    docnos = ordered["docno"].tolist()
    ends = [*(np.flatnonzero(np.diff(turns)) + 1).tolist(), len(docnos)]
    start = 0
    for end in ends:
        if len(set(docnos[start:end])) < end - start:
            row = ordered[ordered.duplicated(["qid", "docno"])].iloc[0]
            raise DataError(
                f"turn {row['qid']} has passage {row['docno']} twice: join the sub-queries first "
                "(Interleave, Union, RRF, RerankAgainst)"
            )
        start = end
