"""The union of what a turn's sub-queries found, as candidates for a re-ranker."""

import pandas as pd

from ..operator import Operator, Plan
from ..order import ranked
from .interleave import interleave
from .subqueries import bring_back, check_num_results, read_lists, turns_again, validate


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
