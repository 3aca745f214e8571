"""The ordered sub-query lists of a turn, and the conversion of their rows into rows per turn.

A fusion processes one turn after the other. The rows of one turn fit into the processor's cache, so
numbering docnos turn by turn takes a fifth of the time of numbering all at once. 1.66 million rows
(a whole test set, 5 queries, 1000 passages each) take about half a second.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np
import numpy.typing as npt
import pandas as pd
import pyterrier as pt

from ..conversations.frame import STALE_WITH_QUERY, earlier_queries, numbered
from ..errors import DataError
from ..lost_columns import has_column
from ..order import Floats, Integers

Objects = npt.NDArray[np.object_]

SUB_QUERY_COLUMNS = ("qid_0", "qquery", "qpushed", "qsub", "qweight")
"""The columns that ``ExplodeQueries`` writes besides ``qid`` and ``query``."""


OWN_QUERY_LOST = (
    "the turns' own queries aren't in the frame: behind ExplodeQueries, keep its columns qquery, "
    "qpushed and query_0, query_1, ... as they are"
)


@dataclass(frozen=True)
class TurnLists:
    """The ranked lists of one turn, in the order of its sub-queries.

    The arrays are parallel and sorted by sub-query and rank.

    Attributes:
        row: the row's position in the frame.
        docno: the passage.
        lists: the position of each sub-query's list.
    """

    row: Integers
    docno: Objects
    lists: list[slice]

    def number(self) -> Integers:
        """Return the number of each row's list, from 0."""
        sizes = [part.stop - part.start for part in self.lists]
        return np.repeat(np.arange(len(self.lists)), sizes)

    def rank(self) -> Integers:
        """Return each row's position in its list, from 0."""
        return np.concatenate([np.arange(part.stop - part.start) for part in self.lists])

    def passages(self) -> Integers:
        """Return each row's passage as a number, from 0."""
        return np.asarray(pd.factorize(self.docno)[0], dtype=np.int64)

    def first_occurrences(self) -> Integers:
        """Return the first position of each passage."""
        return np.flatnonzero(~pd.Series(self.docno, dtype=object).duplicated().to_numpy())


@dataclass(frozen=True)
class Lists:
    """The ranked lists of a result frame.

    The arrays are parallel and sorted by turn, sub-query and rank.

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

    def turns(self) -> Iterator[TurnLists]:
        """Yield the turns, in order."""
        for part in _find_runs(self.turn):
            yield TurnLists(self.row[part], self.docno[part], _find_runs(self.sub[part]))

    def starts(self) -> Integers:
        """Return the first position of each list, in the order of the lists."""
        new_turn = np.diff(self.turn, prepend=-1) != 0
        new_sub = np.diff(self.sub, prepend=-1) != 0
        return np.flatnonzero(new_turn | new_sub)

    def choose(self, choose: Callable[[TurnLists], Integers]) -> tuple[Integers, Integers]:
        """Choose rows turn by turn.

        Args:
            choose: chooses and orders the rows of one turn, as positions in its arrays.

        Returns:
            The rows of the frame in the new order, turn after turn, and the number of each row's
            turn.
        """
        return concatenate_turns([turn.row[choose(turn)] for turn in self.turns()])


def check_results(inp: pd.DataFrame, operator: pt.Transformer, extra: Sequence[str] = ()) -> None:
    """Check that ``inp`` is a result frame and, if it has ``qid_0``, a complete expanded one."""
    needed = ["query", "rank", *extra]
    if "qid_0" in inp.columns:
        needed += ["qsub", "query_0"]
    distinct = list(dict.fromkeys(needed))
    pt.validate.result_frame(inp, extra_columns=distinct, context=operator)


def read_lists(frame: pd.DataFrame) -> Lists:
    """Return the lists of a result frame with ``docno`` and ``rank``.

    There is one list per (``qid_0``, ``qsub``), or one per ``qid`` if the frame is not expanded.
    Equal ranks within a list are ordered by docno.

    Raises:
        DataError: when a turn's qid is missing.
    """
    if "qid_0" in frame.columns:
        qids = frame["qid_0"].to_numpy(dtype=object)
        sub = frame["qsub"].to_numpy(dtype=np.int64)
    else:
        qids = frame["qid"].to_numpy(dtype=object)
        sub = np.zeros(len(frame), dtype=np.int64)
    rank = frame["rank"].to_numpy(dtype=np.float64)
    return sort_lists(numbered(qids), sub, rank, frame["docno"].to_numpy(dtype=object))


def sort_lists(turn: Integers, sub: Integers, rank: Floats, docno: Objects) -> Lists:
    """Return the lists of rows with these turns, sub-queries, ranks and passages.

    The arrays are parallel, in any order.
    """
    for order in _try_orders(turn, sub, rank, docno):  # the last one needs no check
        turns = turn[order]
        subs = sub[order]
        if _is_sorted(turns, subs, rank[order]):
            break
    return Lists(np.arange(len(turn))[order], turns, subs, docno[order])


def _try_orders(
    turn: Integers, sub: Integers, rank: Floats, docno: Objects
) -> Iterator[slice | Integers]:
    """Yield ways to order the rows, each slower than the one before; the last fits any rows."""
    yield slice(None)  # retrievers and re-rankers mostly give rows in order
    yield np.argsort(turn, kind="stable")  # concatenated frames of several systems
    yield np.lexsort((rank, sub, turn))
    yield np.lexsort((pd.factorize(docno, sort=True)[0], rank, sub, turn))


def read_weights(frame: pd.DataFrame, lists: Lists) -> Floats:
    """Return the weight of each list, in their order: its ``qweight``, or 1 without this column.

    Raises:
        DataError: when a turn's weights are negative, not finite or all 0.
    """
    starts = lists.starts()
    rows = lists.row[starts]
    turn = lists.turn[starts]
    if not has_column(frame, "qweight"):
        return np.ones(len(rows))
    weight = frame["qweight"].to_numpy(dtype=np.float64)[rows]
    sum_of_turn = np.bincount(turn, weights=weight)[turn]
    usable = np.isfinite(weight) & (weight >= 0) & (sum_of_turn > 0)
    if not usable.all():
        qid = frame["qid"].iloc[rows[int(np.argmin(usable))]]
        raise DataError(
            f"the weights of {qid}'s turn can't be used: give every sub-query a qweight of 0 or "
            "more, and one above 0"
        )
    return np.asarray(weight, dtype=np.float64)


def sum_shares(turn: TurnLists, share: Floats) -> tuple[Integers, Floats]:
    """For each passage of a turn, return the sum of its shares in the lists.

    A passage that is twice in a list counts once, at its better rank.

    Args:
        turn: the lists.
        share: the value of each row.

    Returns:
        For each passage its best position in ``turn`` (smallest rank, then earliest list), in that
        order, and its sum.
    """
    # The rows by rank. The lists are in order, and a stable sort keeps it among equal ranks.
    rank = turn.rank()
    if len(rank) <= 1 << 16:
        rank = rank.astype(np.uint16)  # numpy sorts short integers by radix
    order = np.argsort(rank, kind="stable")
    passage = turn.passages()[order]  # the number of each row's passage
    share = share[order]
    in_list = passage * len(turn.lists) + turn.number()[order]  # alike: a passage twice in a list
    if np.bincount(in_list, minlength=1).max() > 1:
        share = np.where(pd.Series(in_list).duplicated().to_numpy(), 0.0, share)
    total = np.bincount(passage, weights=share)  # by passage
    best = np.full(len(total), len(order))  # by passage: its first row, which has its best rank
    np.minimum.at(best, passage, np.arange(len(order)))
    best.sort()
    return order[best], np.asarray(total[passage[best]], dtype=np.float64)


def restore_turns(frame: pd.DataFrame, rows: Integers) -> pd.DataFrame:
    """Return these rows of ``frame`` as rows of their turns, with the turn's ``qid`` and ``query``.

    ``query`` comes back by PyTerrier's convention (``query_0`` becomes ``query``, ``query_1``
    becomes ``query_0``, ...), more levels if stages after ``ExplodeQueries`` pushed queries of
    their own. The columns of ``ExplodeQueries`` and those computed from the sub-query's text are
    dropped, other columns stay. ``qfound`` says how many passages each sub-query found, as a list
    without trailing zeros.

    Raises:
        DataError: when the turns' own queries are missing.
    """
    if "qid_0" not in frame.columns:
        return frame.take(rows).reset_index(drop=True)
    earlier = earlier_queries(frame)
    level = _own_query_level(frame, earlier)
    dropped = {"qid", "query", "qsub", "qweight", "qpushed", *STALE_WITH_QUERY, *earlier[:level]}
    # Dropping whole columns first costs nothing; selecting rows first would copy them.
    without_sub_queries = frame.drop(columns=list(dropped), errors="ignore")
    turns = without_sub_queries.take(rows).reset_index(drop=True)
    turns.insert(0, "qid", turns.pop("qid_0"))
    _check_own_queries(turns, earlier[level])
    turns = turns.drop(columns="qquery", errors="ignore")
    popped = dict(zip(earlier[level:], ["query", *earlier], strict=False))
    turns = turns.rename(columns=popped)
    turns["qfound"] = _count_found(frame, rows)
    return turns


def drop_sub_queries(frame: pd.DataFrame) -> pd.DataFrame:
    """Return the turns of a frame of sub-queries without passages, as in a plan.

    Any other frame is returned as it is.

    Example:
        >>> drop_sub_queries(pd.DataFrame({"qid": ["t"], "query": ["tea?"]}))["qid"].tolist()
        ['t']
    """
    if "qid_0" not in frame.columns:
        return frame
    return restore_turns(frame, np.flatnonzero(frame["qsub"] == 0)).drop(columns="qfound")


def most_sub_queries(frame: pd.DataFrame) -> int:
    """Return how many sub-queries a turn of a frame has at most; 1 in a frame of turns.

    Example:
        >>> most_sub_queries(pd.DataFrame({"qid_0": ["t", "t"], "qsub": [0, 1]}))
        2
        >>> most_sub_queries(pd.DataFrame({"qid": ["t"], "query": ["tea?"]}))
        1
    """
    if "qid_0" not in frame.columns or frame.empty:
        return 1
    return int(frame["qsub"].max()) + 1


def _own_query_level(frame: pd.DataFrame, earlier: list[str]) -> int:
    """Return the number N of the column ``query_N`` that holds the turns' own queries.

    It is the number of queries pushed after ``ExplodeQueries``, which notes in ``qpushed`` how many
    earlier queries there were. A frame without this column was made by hand, with ``query_0``.
    """
    level = 0
    if "qpushed" in frame.columns and len(frame) > 0:
        level = len(earlier) - int(frame["qpushed"].iloc[0])
    if not 0 <= level < len(earlier):
        raise DataError(OWN_QUERY_LOST)
    return level


def _check_own_queries(turns: pd.DataFrame, name: str) -> None:
    """Check that a column has the turns' own queries: ``qquery``, or one text per turn without it.

    The rows are grouped by turn.
    """
    queries = turns[name].to_numpy(dtype=object)
    if "qquery" in turns.columns:
        own_queries = turns["qquery"].to_numpy(dtype=object)
    else:
        turn = numbered(turns["qid"].to_numpy(dtype=object))
        first_rows = np.flatnonzero(np.diff(turn, prepend=-1))
        own_queries = queries[first_rows][turn]
    if (queries != own_queries).any():
        raise DataError(OWN_QUERY_LOST)


def _count_found(frame: pd.DataFrame, rows: Integers) -> Objects:
    """For each of these rows, return how many passages each sub-query of its turn found."""
    turn = numbered(frame["qid_0"].to_numpy(dtype=object))
    sub = frame["qsub"].to_numpy(dtype=np.int64)
    turn_count = turn.max(initial=-1) + 1
    sub_count = sub.max(initial=0) + 1
    cells = np.bincount(turn * sub_count + sub, minlength=turn_count * sub_count)
    counts = cells.reshape(turn_count, sub_count)
    of_turn = np.empty(turn_count, dtype=object)
    of_turn[:] = [np.trim_zeros(row, "b").tolist() for row in counts]
    return of_turn[turn[rows]]


def mark_first(turn: Integers, num_results: int | None) -> npt.NDArray[np.bool_]:
    """For each row, say whether it is among its turn's first ``num_results``.

    The rows are sorted by turn.
    """
    if num_results is None:
        return np.ones(len(turn), dtype=np.bool_)
    starts = np.flatnonzero(np.diff(turn, prepend=-1))
    sizes = np.diff(np.append(starts, len(turn)))
    position = np.arange(len(turn)) - np.repeat(starts, sizes)
    return np.asarray(position < num_results, dtype=np.bool_)


def concatenate_turns(parts: list[Integers]) -> tuple[Integers, Integers]:
    """Return the concatenated rows of the turns, and the number of each row's turn."""
    rows = np.concatenate([np.empty(0, dtype=np.int64), *parts])
    return rows, np.repeat(np.arange(len(parts)), [len(part) for part in parts])


def _find_runs(numbers: Integers) -> list[slice]:
    """Return the groups of consecutive equal numbers."""
    if len(numbers) == 0:
        return []
    changes = np.flatnonzero(numbers[1:] != numbers[:-1]) + 1
    bounds = [0, *changes.tolist(), len(numbers)]
    return [slice(first, last) for first, last in pairwise(bounds)]


def _is_sorted(turn: Integers, sub: Integers, rank: Floats) -> bool:
    """Whether rows are sorted by turn, sub-query and rank, with no rank twice in a list."""
    in_order = rank[1:] > rank[:-1]
    for numbers in (sub, turn):
        rises = numbers[1:] > numbers[:-1]
        equal = numbers[1:] == numbers[:-1]
        in_order = rises | (equal & in_order)
    return bool(in_order.all())
