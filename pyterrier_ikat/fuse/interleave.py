"""Round robin over the lists of a turn's sub-queries, and their union as candidates for a re-ranker."""

from collections.abc import Iterator
from itertools import zip_longest
from typing import Any

import numpy as np
import pandas as pd

from ..operator import Operator, Plan
from ..order import ranked
from .subqueries import Integers, Lists, Turn, bring_back, check_num_results, read_lists, turns_again, validate


def interleave(lists: Lists, num_results: int | None = None) -> tuple[Integers, Integers]:
    """Round robin over each turn's lists in generation order, without repeats.

    In every round each list offers its best passage that isn't taken yet; a list that has none left drops out.

    Args:
        lists: the ranked lists.
        num_results: how many passages of a turn are taken at most; ``None`` for all.

    Returns:
        The rows of the frame in the new order, turn after turn, and the number of each row's turn.
    """
    return lists.fused(lambda turn: _round_robin(turn, num_results))


def _round_robin(turn: Turn, num_results: int | None) -> Integers:
    docnos, size = turn.docno.tolist(), len(turn.docno) if num_results is None else num_results
    taken: dict[Any, int] = {}
    for _ in zip_longest(*(_offers(docnos, part, taken) for part in turn.lists)):
        if len(taken) >= size:
            break
    return np.fromiter(taken.values(), dtype=np.int64, count=len(taken))[:size]


def _offers(docnos: list[Any], part: slice, taken: dict[Any, int]) -> Iterator[None]:
    """Take the best passage of a list that isn't taken yet, each time it is the list's turn."""
    for place, docno in enumerate(docnos[part], part.start):
        if docno not in taken:
            taken[docno] = place
            yield


class Interleave(Operator):
    """Merge the lists of a turn's sub-queries round robin, in the order in which the sub-queries were generated.

    In each round every sub-query offers its best passage that isn't taken yet, so a passage that another sub-query has brought is skipped
    and the next one
    offered at once. A frame that isn't expanded has one list per turn and keeps its order.

    Reads ``qid``, ``query``, ``docno``, ``rank`` and, from ``ExplodeQueries``, ``qid_0``, ``qsub``, ``query_0``. Gives one row per (turn,
    passage): ``qid`` and ``query``
    are the turn's again, ``rank`` counts from 0, ``score`` falls strictly: n, n-1, ..., 1 for n passages. All other columns are kept,
    from the
    sub-query that brought the passage. Equal ranks within one list go by docno. Source: Abbasiantaeb and Aliannejadi, Generate then
    Retrieve, section 3.

    Args:
        num_results: passages per turn at most; ``None`` for all.

    Raises:
        UsageError: when ``num_results`` is below 1.

    Example:
        >>> import pandas as pd, pyterrier_ikat as ikat
        >>> found = pd.DataFrame({"qid": ["t::0", "t::0", "t::1", "t::1"], "qid_0": ["t"] * 4, "qsub": [0, 0, 1, 1],
        ...                       "query": ["a", "a", "b", "b"], "query_0": ["it?"] * 4,
        ...                       "docno": ["x", "y", "x", "z"], "rank": [0, 1, 0, 1]})
        >>> ikat.Interleave()(found)[["qid", "query", "docno", "score", "rank"]].values.tolist()
        [['t', 'it?', 'x', 3.0, 0], ['t', 'it?', 'z', 2.0, 1], ['t', 'it?', 'y', 1.0, 2]]
    """

    schematic = {"label": "Interleave"}

    def __init__(self, num_results: int | None = 1000) -> None:
        super().__init__()
        self.num_results = check_num_results(num_results)

    def plan(self, frame: pd.DataFrame, plan: Plan) -> pd.DataFrame:
        """The turns again."""
        return turns_again(frame)

    def transform(self, inp: pd.DataFrame) -> pd.DataFrame:
        """Interleave a result frame."""
        validate(inp, self)
        rows, turns = interleave(read_lists(inp), self.num_results)
        return ranked(bring_back(inp, rows), turns)


class Pool(Operator):
    """The de-duplicated union of the sub-queries' passages: candidates that a re-ranker is to order.

    The order is that of ``Interleave``, so a cut keeps the best of every sub-query. Columns as for ``Interleave``; the scores only
    count down and mean nothing else. Source: the MQ4CS-QR runs of IRLab at iKAT 2024 (pool interleaved and cut to 1000).

    Args:
        num_results: passages per turn at most; ``None`` for the whole union.

    Raises:
        UsageError: when ``num_results`` is below 1.

    Example:
        >>> import pandas as pd, pyterrier_ikat as ikat
        >>> found = pd.DataFrame({"qid": ["t::0", "t::1", "t::1"], "qid_0": ["t"] * 3, "qsub": [0, 1, 1], "query": ["a", "b", "b"],
        ...                       "query_0": ["it?"] * 3, "docno": ["x", "x", "z"], "rank": [0, 0, 1]})
        >>> ikat.Pool(None)(found)[["qid", "docno", "rank"]].values.tolist()
        [['t', 'x', 0], ['t', 'z', 1]]
    """

    schematic = {"label": "Pool"}

    def __init__(self, num_results: int | None = 1000) -> None:
        super().__init__()
        self.num_results = check_num_results(num_results)

    def plan(self, frame: pd.DataFrame, plan: Plan) -> pd.DataFrame:
        """The turns again."""
        return turns_again(frame)

    def transform(self, inp: pd.DataFrame) -> pd.DataFrame:
        """Pool a result frame."""
        validate(inp, self)
        return pool(inp, self.num_results)


def pool(frame: pd.DataFrame, num_results: int | None = None) -> pd.DataFrame:
    """The candidates of a result frame, one row per (turn, passage), as ``Pool`` gives them."""
    rows, turns = interleave(read_lists(frame), num_results)
    return ranked(bring_back(frame, rows), turns)
