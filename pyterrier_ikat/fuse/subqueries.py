"""The ordered sub-query lists of a turn, and the conversion of rows per sub-query into rows per turn.

A fusion processes one turn after the other. The rows of one turn fit into the processor's cache, so
numbering docnos turn by turn takes a fifth of the time of numbering all at once. 1.66 million rows
(a whole test set, 5 queries, 1000 passages each) take about half a second.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import count, pairwise, takewhile

import numpy as np
import numpy.typing as npt
import pandas as pd
import pyterrier as pt

from ..conversations.frame import STALE_WITH_QUERY, numbered
from ..errors import DataError
from ..order import Floats, Integers

Objects = npt.NDArray[np.object_]

SUB_QUERY_COLUMNS = ("qid_0", "qquery", "qsub", "qweight")
"""The columns that ``ExplodeQueries`` writes besides ``qid`` and ``query``."""


@dataclass(frozen=True)
class Turn:
    """The ranked lists of one turn, in the order of its sub-queries. The arrays are parallel and sorted by sub-query and rank.

    Attributes:
        row: the row's position in the frame.
        docno: the passage.
        lists: the position of each sub-query's list.
    """

    row: Integers
    docno: Objects
    lists: list[slice]

    def number(self) -> Integers:
        """The number of each row's list, from 0."""
        return np.repeat(
            np.arange(len(self.lists)), [part.stop - part.start for part in self.lists]
        )

    def rank(self) -> Integers:
        """Each row's position in its list, from 0."""
        return np.concatenate([np.arange(part.stop - part.start) for part in self.lists])

    def passages(self) -> Integers:
        """Each row's passage as a number, from 0."""
        return np.asarray(pd.factorize(self.docno)[0], dtype=np.int64)

    def first_occurrences(self) -> Integers:
        """The first place of each passage."""
        return np.flatnonzero(~pd.Series(self.docno, dtype=object).duplicated().to_numpy())


@dataclass(frozen=True)
class Lists:
    """The ranked lists of a result frame. The arrays are parallel and sorted by turn, sub-query and rank.

    Attributes:
        row: the row's position in the frame.
        turn: number of the turn, in the order in which turns first occur in the frame.
        sub: number of the sub-query: ``qsub``, or 0 if the frame is not expanded.
        docno: the passage.
    """

    row: Integers
    turn: Integers
    sub: Integers
    docno: Objects

    def turns(self) -> Iterator[Turn]:
        """The turns, in order."""
        for part in _find_runs(self.turn):
            yield Turn(self.row[part], self.docno[part], _find_runs(self.sub[part]))

    def starts(self) -> Integers:
        """The first place of each list, in the order of the lists."""
        new = (np.diff(self.turn, prepend=-1) != 0) | (np.diff(self.sub, prepend=-1) != 0)
        return np.flatnonzero(new)

    def choose(self, choose: Callable[[Turn], Integers]) -> tuple[Integers, Integers]:
        """Choose rows turn by turn.

        Args:
            choose: chooses and orders the rows of one turn, as places in its arrays.

        Returns:
            The rows of the frame in the new order, turn after turn, and the number of each row's
            turn.
        """
        return concatenate_turns([turn.row[choose(turn)] for turn in self.turns()])


def check_results(
    inp: pd.DataFrame, operator: pt.Transformer, extra: list[str] | None = None
) -> None:
    """Check that ``inp`` is a result frame and, if it has ``qid_0``, a complete expanded one."""
    expanded = ["qsub", "query_0"] if "qid_0" in inp.columns else []
    needed = dict.fromkeys(["query", "rank", *(extra or []), *expanded])
    pt.validate.result_frame(inp, extra_columns=list(needed), context=operator)


def read_lists(frame: pd.DataFrame) -> Lists:
    """The lists of a result frame with ``docno`` and ``rank``: one per (``qid_0``, ``qsub``), or one per ``qid`` if it is not expanded.

    Equal ranks within a list are ordered by docno.

    Raises:
        DataError: when a turn's qid is missing.
    """
    expanded = "qid_0" in frame.columns
    sub = (
        frame["qsub"].to_numpy(dtype=np.int64) if expanded else np.zeros(len(frame), dtype=np.int64)
    )
    turn = numbered(frame["qid_0" if expanded else "qid"].to_numpy(dtype=object))
    return sort_lists(
        turn, sub, frame["rank"].to_numpy(dtype=np.float64), frame["docno"].to_numpy(dtype=object)
    )


def sort_lists(turn: Integers, sub: Integers, rank: Floats, docno: Objects) -> Lists:
    """The lists of rows with these turns, sub-queries, ranks and passages. The arrays are parallel, in any order."""
    for order in _try_orders(turn, sub, rank, docno):  # the last one needs no check
        turns, subs, ranks = turn[order], sub[order], rank[order]
        if _is_sorted(turns, subs, ranks):
            break
    return Lists(np.arange(len(turn))[order], turns, subs, docno[order])


def _try_orders(
    turn: Integers, sub: Integers, rank: Floats, docno: Objects
) -> Iterator[slice | Integers]:
    """Ways to order the rows, each slower than the previous one. The last one is correct for any rows."""
    yield slice(None)  # retrievers and re-rankers mostly give rows in order
    yield np.argsort(turn, kind="stable")  # concatenated frames of several systems
    yield np.lexsort((rank, sub, turn))
    yield np.lexsort((pd.factorize(docno, sort=True)[0], rank, sub, turn))


def read_weights(frame: pd.DataFrame, lists: Lists) -> Floats:
    """The weight of each list, in the order of the lists: its ``qweight``, or 1 without this column.

    Raises:
        DataError: when a turn's weights are negative, not finite or all 0.
    """
    starts = lists.starts()
    rows, turn = lists.row[starts], lists.turn[starts]
    weight = (
        frame["qweight"].to_numpy(dtype=np.float64)[rows]
        if "qweight" in frame.columns
        else np.ones(len(rows))
    )
    wrong = ~(np.isfinite(weight) & (weight >= 0) & (np.bincount(turn, weights=weight)[turn] > 0))
    if wrong.any():
        qid = frame["qid"].iloc[rows[int(np.flatnonzero(wrong)[0])]]
        raise DataError(
            f"the weights of {qid}'s turn can't be used: give every sub-query a qweight of 0 or more, and one above 0"
        )
    return np.asarray(weight, dtype=np.float64)


def sum_shares(turn: Turn, share: Floats) -> tuple[Integers, Floats]:
    """For each passage of a turn, the sum of its shares in the lists. A passage that is twice in a list counts once, at its better rank.

    Args:
        turn: the lists.
        share: the value of each row.

    Returns:
        For each passage its best place in ``turn`` (smallest rank, then earliest list), in that
        order, and its sum.
    """
    # The lists are in order, and a stable sort keeps this order among equal ranks.
    rank = turn.rank()
    order = np.argsort(
        rank.astype(np.uint16) if len(rank) <= 1 << 16 else rank, kind="stable"
    )  # numpy sorts short integers by radix
    passage, share = turn.passages()[order], share[order]
    of_list = passage * len(turn.lists) + turn.number()[order]
    if np.bincount(of_list, minlength=1).max() > 1:
        share = np.where(pd.Series(of_list).duplicated().to_numpy(), 0.0, share)
    total = np.bincount(passage, weights=share)
    best = np.empty(len(total), dtype=np.int64)
    best[passage[::-1]] = np.arange(len(order))[::-1]
    best.sort()
    return order[best], np.asarray(total[passage[best]], dtype=np.float64)


def restore_turns(frame: pd.DataFrame, rows: Integers) -> pd.DataFrame:
    """These rows of ``frame`` as rows of their turns: ``qid`` and ``query`` are the turn's again, and other columns stay.

    ``query`` comes back by PyTerrier's convention (``query_0`` becomes ``query``, ``query_1``
    becomes ``query_0``, ...), more levels if stages after ``ExplodeQueries`` pushed queries of
    their own. ``qid_0``, ``qquery``, ``qsub``, ``qweight`` and what was computed from the
    sub-query's text are dropped. ``qfound`` says how many passages each sub-query found, as a list
    without trailing zeros.

    Raises:
        DataError: when the turns' own queries are missing.
    """
    if "qid_0" not in frame.columns:
        return frame.take(rows).reset_index(drop=True)
    older = list(takewhile(frame.columns.__contains__, (f"query_{number}" for number in count())))
    gone = {"qid", "qsub", "qweight", "query", *STALE_WITH_QUERY}
    # Dropping whole columns first costs nothing; selecting rows first would copy them.
    kept = (
        frame.drop(columns=[name for name in frame.columns if name in gone])
        .take(rows)
        .reset_index(drop=True)
    )
    kept.insert(0, "qid", kept.pop("qid_0"))
    pushed = _count_pushed(kept, older)
    popped = dict(zip(older[pushed:], ["query", *older], strict=False))
    for name in {*older[:pushed], "qquery"} & {*kept.columns}:
        del kept[name]
    kept.columns = [popped.get(name, name) for name in kept.columns]
    kept["qfound"] = _count_found(frame, rows)
    return kept


def drop_sub_queries(frame: pd.DataFrame) -> pd.DataFrame:
    """The turns of a frame of sub-queries without passages, as in a plan. For any other frame, its rows.

    Example:
        >>> drop_sub_queries(pd.DataFrame({"qid": ["t"], "query": ["tea?"]}))["qid"].tolist()
        ['t']
    """
    if "qid_0" not in frame.columns:
        return frame
    return restore_turns(frame, np.flatnonzero(frame["qsub"] == 0)).drop(columns="qfound")


def _count_pushed(turns: pd.DataFrame, older: list[str]) -> int:
    """How many queries the stages after ``ExplodeQueries`` have pushed. The rows are grouped by turn."""
    if "qquery" in turns.columns:
        own = turns["qquery"].to_numpy(dtype=object)
    else:
        turn = numbered(turns["qid"].to_numpy(dtype=object))
        own = turns["query_0"].to_numpy(dtype=object)[np.flatnonzero(np.diff(turn, prepend=-1))][
            turn
        ]
    for number, name in enumerate(older):
        if not (turns[name].to_numpy(dtype=object) != own).any():
            return number
    raise DataError(
        "the turns' own queries aren't in the frame: behind ExplodeQueries, keep its columns qquery and query_0, query_1, ... as they are"
    )


def _count_found(frame: pd.DataFrame, rows: Integers) -> Objects:
    turn, sub = (
        numbered(frame["qid_0"].to_numpy(dtype=object)),
        frame["qsub"].to_numpy(dtype=np.int64),
    )
    width = sub.max(initial=-1) + 1
    counts = np.bincount(turn * width + sub, minlength=(turn.max(initial=-1) + 1) * width).reshape(
        -1, max(width, 1)
    )
    of_turn = np.empty(len(counts), dtype=object)
    of_turn[:] = [np.trim_zeros(row, "b").tolist() for row in counts]
    return of_turn[turn[rows]]


def mark_first(turn: Integers, num_results: int | None) -> npt.NDArray[np.bool_]:
    """For each of the rows, sorted by turn, whether it is among the turn's first ``num_results``."""
    if num_results is None:
        return np.ones(len(turn), dtype=np.bool_)
    starts = np.flatnonzero(np.diff(turn, prepend=-1))
    sizes = np.diff(np.append(starts, len(turn)))
    return np.asarray(np.arange(len(turn)) - np.repeat(starts, sizes) < num_results, dtype=np.bool_)


def concatenate_turns(parts: list[Integers]) -> tuple[Integers, Integers]:
    """The concatenated rows of the turns, and the number of each row's turn."""
    rows = np.concatenate([np.empty(0, dtype=np.int64), *parts])
    return rows, np.repeat(np.arange(len(parts)), [len(part) for part in parts])


def _find_runs(numbers: Integers) -> list[slice]:
    bounds = np.concatenate(
        [[0], np.flatnonzero(numbers[1:] != numbers[:-1]) + 1, [len(numbers)]]
    ).tolist()
    return [slice(first, last) for first, last in pairwise(bounds) if first < last]


def _is_sorted(turn: Integers, sub: Integers, rank: Floats) -> bool:
    rises = rank[1:] > rank[:-1]
    for numbers in (sub, turn):
        rises = (numbers[1:] > numbers[:-1]) | (numbers[1:] == numbers[:-1]) & rises
    return bool(rises.all())
