"""Reciprocal rank fusion of the sub-queries' lists."""

import numpy as np
import pandas as pd

from ..errors import UsageError
from ..operator import Operator, Plan
from ..order import ranked
from .subqueries import Floats, Integers, Turn, bring_back, check_num_results, joined, read_lists, turns_again, validate

PLACES = 12
"""Decimal places to which sums are compared."""


def reciprocal_ranks(turn: Turn, k: float) -> tuple[Integers, Floats]:
    """The sum of 1 / (k + position) over the lists that hold a passage, positions counted from 1.

    Returns:
        For each passage the place in ``turn`` where it stands best (smallest rank, then earliest sub-query), in that
        order, and its sum, to 12 places.
    """
    # The lists stand in order of sub-query, and a stable sort keeps that among equal ranks.
    order = np.argsort(turn.rank(), kind="stable")
    passage = turn.passages()[order]
    share = 1.0 / (k + 1 + turn.rank()[order])
    again = pd.Series(passage * len(turn.lists) + turn.number()[order]).duplicated().to_numpy()
    share[again] = 0.0  # a list that has a passage twice counts it once, at the better place
    # Summed from the best rank on and rounded, so that equal sums are equal whatever ranks they are made of and whichever lists gave them.
    total = np.bincount(passage, weights=share).round(PLACES)
    best = np.empty(len(total), dtype=np.int64)
    best[passage[::-1]] = np.arange(len(order))[::-1]
    best.sort()
    return order[best], np.asarray(total[passage[best]], dtype=np.float64)


class RRF(Operator):
    """Reciprocal rank fusion of the lists of a turn's sub-queries.

    Reads and gives the columns of ``Interleave``. ``score`` is the sum of 1 / (k + position) over the sub-queries that found the passage,
    positions counted from 1.
    Equal sums go by best rank, then by the number of the sub-query that gave that rank, then by docno; their scores are parted by the
    least step of 32-bit floats, so that scores fall strictly in every evaluator. Other columns come from the sub-query of the best rank.
    Source: Cormack, Clarke and Büttcher, Reciprocal Rank Fusion outperforms Condorcet and individual Rank Learning Methods, SIGIR 2009.

    Args:
        k: damps the weight of the top positions; 60 in the paper.
        num_results: passages per turn at most; ``None`` for all.

    Raises:
        UsageError: when ``k`` is negative or ``num_results`` below 1.

    Example:
        >>> import pandas as pd, pyterrier_ikat as ikat
        >>> found = pd.DataFrame({"qid": ["t::0", "t::0", "t::1"], "qid_0": ["t"] * 3, "qsub": [0, 0, 1], "query": ["a", "a", "b"],
        ...                       "query_0": ["it?"] * 3, "docno": ["x", "y", "y"], "rank": [0, 1, 0]})
        >>> fused = ikat.RRF()(found)
        >>> fused["docno"].tolist(), fused["score"].round(5).tolist()  # 1/61 + 1/62 and 1/61
        (['y', 'x'], [0.03252, 0.01639])
    """

    schematic = {"label": "RRF"}

    def __init__(self, k: float = 60, num_results: int | None = 1000) -> None:
        super().__init__()
        if k < 0:
            raise UsageError(f"k={k!r}: the constant of reciprocal rank fusion is 0 or more, usually 60")
        self.k = k
        self.num_results = check_num_results(num_results)

    def plan(self, frame: pd.DataFrame, plan: Plan) -> pd.DataFrame:
        """The turns again."""
        return turns_again(frame)

    def transform(self, inp: pd.DataFrame) -> pd.DataFrame:
        """Fuse a result frame."""
        validate(inp, self)
        rows, totals = [], []
        for turn in read_lists(inp).turns():
            best, total = reciprocal_ranks(turn, self.k)
            order = np.argsort(-total, kind="stable")[: self.num_results]
            rows.append(turn.row[best[order]])
            totals.append(total[order])
        fused, turns = joined(rows)
        return ranked(bring_back(inp, fused), turns, np.concatenate([np.empty(0), *totals]))
