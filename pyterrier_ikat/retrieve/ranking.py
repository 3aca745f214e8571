"""The ranking of one query, and the order of its ties."""

from itertools import pairwise
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
    changes = np.flatnonzero(np.diff(ranking.scores)) + 1
    for start, end in pairwise([0, *changes.tolist(), len(ranking.docnos)]):
        if end - start > 1:
            ranking.docnos[start:end] = sorted(ranking.docnos[start:end], reverse=True)
    return ranking
