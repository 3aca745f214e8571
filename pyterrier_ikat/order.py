"""The order of a ranking as every evaluator sees it: this module alone ranks rows, normalises scores and separates tied scores.

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

SUBNORMAL, INFINITE = 0x007FFFFF, 0x7F800000
"""The bits of the largest 32-bit float that a fast processor may take for zero, and of infinity; the bits of floats are in their order."""
SAME = 1e-12
"""The tolerance within which sums of shares are equal, as a fraction of the highest possible sum."""
OF_A_TURN = 1 << 34
"""A number greater than any difference between two scores, steps included."""


def order_by_score(frame: pd.DataFrame, turn: Integers, score: Floats) -> Integers:
    """The order of rows by turn, then score, the highest first, then docno, the greatest first: trec_eval's own order of ties.

    Example:
        >>> tied = pd.DataFrame({"docno": ["a", "c", "b"]})
        >>> order_by_score(tied, np.array([0, 0, 0]), np.array([1.0, 1.0, 2.0])).tolist()
        [2, 1, 0]
    """
    order = np.lexsort((-score, turn))
    if ((np.diff(turn[order]) == 0) & (np.diff(score[order]) == 0)).any():
        docnos = pd.factorize(_texts(frame["docno"]), sort=True)[0]
        order = np.lexsort((-docnos, -score, turn))
    return order


def set_ranks(
    frame: pd.DataFrame, turn: Integers, score: Floats | None = None, *, by_docno: bool = False
) -> pd.DataFrame:
    """Set ``rank`` (from 0) and ``score`` of a frame whose rows are in order, turn by turn, so that evaluators keep that order.

    A score that isn't below the one before it as a 32-bit float is lowered by the least step of
    such floats.

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
        rank, size = _places(turn)
        return frame.assign(score=(size - rank).astype(np.float64), rank=rank)
    rank, parted = ranks_and_scores(turn, score, frame["docno"] if by_docno else None)
    if np.isneginf(parted).any():
        where = frame["qid"].iloc[int(np.flatnonzero(np.isneginf(parted))[0])]
        raise DataError(
            f"turn {where}: several passages have the lowest 32-bit score, so they can't be separated: omit them"
        )
    return frame.assign(score=parted, rank=rank)


def ranks_and_scores(
    turn: Integers, score: Floats, docno: "pd.Series[Any] | None" = None
) -> tuple[Integers, Floats]:
    """``rank`` and ``score`` as :func:`set_ranks` sets them; with ``docno``, equal scores stay equal if the greater docno comes first.

    A score is lowered where, as a 32-bit float, it is not below the one before it.
    """
    rank, _ = _places(turn)
    with np.errstate(over="ignore"):  # what is too large is infinite
        single = score.astype(np.float32)
    # Whole numbers in the order of 32-bit floats, one apart from neighbour to neighbour; 0 for all
    # that a processor may take for zero.
    above_zero = np.maximum(np.abs(single).view(np.int32).astype(np.int64) - SUBNORMAL, 0)
    number = np.where(single < 0, -1, 1) * above_zero
    follows = rank[1:] > 0
    if not (follows & (number[1:] >= number[:-1])).any():
        return rank, score
    step = np.ones(len(number), dtype=np.int64)
    if docno is not None:
        tied = 1 + np.flatnonzero(follows & (number[1:] == number[:-1]))
        docnos = _texts(docno)
        step[tied[docnos[tied] <= docnos[tied - 1]]] = 0
    # A score may be its own number at most, and the lowered one before it minus a step: one running
    # minimum over all turns, each of which lies below all turns before it.
    below = np.cumsum(step) - OF_A_TURN * np.cumsum(rank == 0)
    lowered = np.minimum.accumulate(number + below) - below
    size = np.minimum(np.abs(lowered) + SUBNORMAL, INFINITE) * (lowered != 0)
    parted = np.sign(lowered) * size.astype(np.int32).view(np.float32)
    return rank, np.where(lowered < number, parted.astype(np.float64), score)


def in_trec_eval_order(results: pd.DataFrame) -> pd.DataFrame:
    """The ranking that trec_eval makes of the scores of a file, whatever its ranks: by 32-bit score, then by docno, both descending.

    Args:
        results: ``qid``, ``docno``, ``score``.

    Returns:
        The frame in this order (turns as they first appear), the scores as they are, ``rank`` 0, 1,
        ...

    Raises:
        DataError: when a turn has a passage twice, or a score is not a finite number.

    Example:
        >>> import pandas as pd
        >>> tied = pd.DataFrame({"qid": ["1_1"] * 3, "docno": ["a", "b", "c"], "score": [0.5, 0.5, 2.0], "rank": [0, 1, 2]})
        >>> in_trec_eval_order(tied).values.tolist()
        [['1_1', 'c', 2.0, 0], ['1_1', 'b', 0.5, 1], ['1_1', 'a', 0.5, 2]]
    """
    scores = _finite(results)
    turns = pd.factorize(results["qid"])[0]
    with np.errstate(over="ignore"):  # scores beyond 32 bits are infinite in trec_eval, so they tie
        single = scores.astype(np.float32).astype(np.float64)
    order = order_by_score(results, turns, np.nan_to_num(single, posinf=1e39, neginf=-1e39))
    ordered = results.iloc[order].reset_index(drop=True)
    _check_once(ordered, turns[order])
    return ordered.assign(rank=_places(turns[order])[0])


def scores_by_turn(ranking: pd.DataFrame) -> dict[str, dict[str, float]]:
    """The scores of a ranking, in which the rows of a turn are contiguous: turn -> passage -> score.

    Example:
        >>> scores_by_turn(pd.DataFrame({"qid": ["1_1"], "docno": ["a"], "score": [2.5]}))
        {'1_1': {'a': 2.5}}
    """
    found: dict[str, dict[str, float]] = {}
    last = None
    for qid, docno, score in zip(
        ranking["qid"].tolist(), ranking["docno"].tolist(), ranking["score"].tolist(), strict=True
    ):
        if qid != last:
            of_turn, last = found.setdefault(qid, {}), qid
        of_turn[docno] = score
    return found


def strictly_decreasing(results: pd.DataFrame) -> pd.DataFrame:
    """Sort by turn and rank, and lower tied scores by the least 32-bit step, so that no tool breaks ties its own way.

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
        >>> tied = pd.DataFrame({"qid": ["1_1"] * 2, "docno": ["a", "b"], "score": [0.5, 0.5], "rank": [0, 1]})
        >>> strictly_decreasing(tied)["score"].is_monotonic_decreasing
        True
    """
    pt.validate.result_frame(results, extra_columns=["score", "rank"])
    turns = pd.factorize(results["qid"])[0]
    order = np.lexsort((results["rank"].to_numpy(dtype=float), turns))
    ordered = results.iloc[order].reset_index(drop=True)
    turns = turns[order]
    scores = _finite(ordered, float(np.finfo(np.float32).max)).astype(np.float32).astype(np.float64)
    _check_once(ordered, turns)
    if len(rising := np.flatnonzero((turns[1:] == turns[:-1]) & (scores[1:] > scores[:-1]))):
        row = ordered.iloc[rising[0] + 1]
        raise DataError(
            f"turn {row['qid']}, passage {row['docno']}: the score rises with the rank; rank by score first, with pt.model.add_ranks(run)"
        )
    return set_ranks(ordered, turns, scores)


def places_by_rank(turn: Integers, rank: "npt.NDArray[Any]") -> Integers:
    """The position of each row in its turn by rank, from 0. Rows of equal rank keep their order.

    Example:
        >>> places_by_rank(np.array([0, 0, 1]), np.array([7, 3, 5])).tolist()
        [1, 0, 0]
    """
    order = np.lexsort((rank, turn))
    places = np.empty(len(order), dtype=np.int64)
    places[order] = _places(turn[order])[0]
    return places


def min_max(scores: Floats, lists: Integers) -> Floats:
    """Min-max normalisation: each score's position between the least (0) and the greatest (1) of its list.

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
        places = (scores / 2 - (least / 2)[lists]) / np.where(width > 0, width, 1)[lists]
    places[~(width > 0)[lists]] = 0.5
    places[np.isnan(scores)] = 0.0
    return places


def tied(total: Floats, most: Floats | float, turn: Integers | None = None) -> Floats:
    """Sums of shares. Sums that differ only by rounding become the same number.

    Args:
        total: the sums.
        most: the highest sum that the shares could give: one number, or one for each sum, alike
            within a turn.
        turn: the number of each sum's turn; None where all are of one.

    Returns:
        The sums of a turn, alike where one follows the next within ``SAME``.

    Example:
        >>> tied(np.array([.1 + .2, .3, .4]), 1.0).tolist()
        [0.30000000000000004, 0.30000000000000004, 0.4]
    """
    order = np.argsort(-total, kind="stable") if turn is None else np.lexsort((-total, turn))
    sums, step = total[order], SAME * (most[order][1:] if isinstance(most, np.ndarray) else most)
    apart = sums[1:] - sums[:-1] < -step
    if turn is not None:
        apart |= np.diff(turn[order]) != 0
    first = np.maximum.accumulate(
        np.where(
            np.concatenate([np.ones(len(total[:1]), dtype=np.bool_), apart]),
            np.arange(len(order)),
            0,
        )
    )
    alike = np.empty(len(order))
    alike[order] = sums[first]
    return alike


def highest_of(turn: Integers, values: Floats) -> Floats:
    """For each value, the highest value of its turn.

    Example:
        >>> highest_of(np.array([0, 1, 0]), np.array([1.0, 2.0, 3.0])).tolist()
        [3.0, 2.0, 3.0]
    """
    highest = np.full(turn.max(initial=-1) + 1, -np.inf)
    np.maximum.at(highest, turn, values)
    return np.asarray(highest[turn])


def sum_in_any_order(parts: Sequence[Floats] | Floats) -> Floats:
    """The sums of parallel arrays. They are the same to the last bit for any order of the arrays."""
    return np.asarray(
        np.sort(np.asarray(parts, dtype=np.float64), axis=0).sum(axis=0), dtype=np.float64
    )


def _places(turn: Integers) -> tuple[Integers, Integers]:
    """The position of each row within its turn, whose rows are contiguous, from 0; and how many rows the turn has."""
    starts = np.flatnonzero(np.diff(turn, prepend=-1))
    sizes = np.diff(np.append(starts, len(turn)))
    return np.arange(len(turn)) - np.repeat(starts, sizes), np.repeat(sizes, sizes)


def _texts(docno: "pd.Series[Any]") -> "npt.NDArray[np.object_]":
    """The docnos as the texts that an evaluator compares."""
    docnos: npt.NDArray[np.object_] = docno.to_numpy(dtype=object)
    return (
        docnos
        if pd.api.types.infer_dtype(docnos, skipna=False) == "string"
        else np.array(list(map(str, docnos)), dtype=object)
    )


def _finite(results: pd.DataFrame, largest: float = np.inf) -> Floats:
    scores: Floats = pd.to_numeric(results["score"], errors="coerce").to_numpy(
        dtype=np.float64, na_value=np.nan
    )
    bad = np.flatnonzero(~np.isfinite(scores) | (np.abs(scores) > largest))
    if len(bad):
        row = results.iloc[bad[0]]
        raise DataError(
            f"turn {row['qid']}, passage {row['docno']}: the score is {row['score']}; a run needs finite scores"
        )
    return scores


def _check_once(ordered: pd.DataFrame, turns: Integers) -> None:
    """Whether each turn, whose rows are contiguous, has each passage once."""
    docnos, start = ordered["docno"].tolist(), 0
    for end in [*(np.flatnonzero(np.diff(turns)) + 1).tolist(), len(docnos)]:
        if len(set(docnos[start:end])) < end - start:
            row = ordered[ordered.duplicated(["qid", "docno"])].iloc[0]
            raise DataError(
                f"turn {row['qid']} has passage {row['docno']} twice: join the sub-queries first (Interleave, Union, RRF, RerankAgainst)"
            )
        start = end
