"""The ranking of one query, and the order of its ties."""

from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

TIES = "the greatest docno first"
"""Part of a cached ranking's key: rankings whose ties were in another order have another one."""


class Ranking(NamedTuple):
    """The passages of one query, best first, and their scores."""

    docnos: list[str]
    scores: npt.NDArray[np.floating[Any]]

    def best(self, depth: int) -> "Ranking":
        """The first ``depth`` of them."""
        return Ranking(self.docnos[:depth], self.scores[:depth])


NOTHING = Ranking([], np.empty(0, dtype=np.float32))


def sort_ties(ranking: Ranking) -> Ranking:
    """The ranking with passages of equal score in the order of docno, the greatest first; its list of docnos is changed."""
    tied = np.concatenate([[False], ranking.scores[1:] == ranking.scores[:-1], [False]])
    bounds = np.flatnonzero(tied[1:] != tied[:-1]).tolist()  # where runs of equal scores begin, and their last passages
    for start, last in zip(bounds[::2], bounds[1::2], strict=True):
        ranking.docnos[start : last + 1] = sorted(ranking.docnos[start : last + 1], reverse=True)
    return ranking
