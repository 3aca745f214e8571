"""Rankings of queries: the order of ties, ranking past a tie at the cutoff, and the stored form."""

import struct
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

HEADER = struct.Struct("<II")
"""The beginning of a stored ranking: the depth of the search, and the number of passages."""


class Ranking(NamedTuple):
    """The passages of one query, best first, and their scores."""

    docnos: list[str]
    scores: npt.NDArray[np.floating[Any]]


def as_ranking(docnos: list[str], scores: list[float]) -> Ranking:
    """Return a ranking from lists."""
    return Ranking(docnos, np.asarray(scores, dtype=np.float32))


NO_PASSAGES = Ranking([], np.empty(0, dtype=np.float32))


def sort_ties(ranking: Ranking, depth: int) -> Ranking:
    """Order passages of equal scores by docno, the greatest first, and return the first ``depth``.

    The ranking's list of docnos is changed in place.
    """
    docnos, scores = ranking
    # tied[n] tells whether passages n - 1 and n have the same score. Where it changes from false to
    # true, a sequence of equal scores begins at n - 1; at the next change, n - 1 is its last one.
    tied = np.concatenate([[False], scores[1:] == scores[:-1], [False]])
    changes = np.flatnonzero(tied[1:] != tied[:-1]).tolist()
    for first, last in zip(changes[::2], changes[1::2], strict=True):
        docnos[first : last + 1] = sorted(docnos[first : last + 1], reverse=True)
    return Ranking(docnos[:depth], scores[:depth])


def rank_past_ties(
    find: Callable[[Sequence[int], int], list[Ranking]], count: int, depth: int
) -> list[Ranking]:
    """Rank queries by an engine with any choice among ties at the cutoff.

    An eighth more passages are retrieved, repeatedly until the tie ends. Equal scores are ordered
    by docno, the greatest first.

    Args:
        find: returns the rankings of the queries with these numbers to a depth.
        count: the number of queries.
        depth: the maximum number of passages per query.
    """
    rankings: dict[int, Ranking] = {}
    unranked = list(range(count))
    deeper = depth + 1 + depth // 8
    while unranked:
        for number, ranking in zip(unranked, find(unranked, deeper), strict=True):
            scores = ranking.scores
            if len(scores) < deeper or scores[-1] != scores[depth - 1]:
                rankings[number] = sort_ties(ranking, depth)
        unranked = [number for number in unranked if number not in rankings]
        deeper *= 2
    return [rankings[number] for number in range(count)]


def packed(ranking: Ranking, depth: int) -> bytes:
    """Pack a ranking that was searched to ``depth``.

    The bytes are the depth, the number of passages, the scores in 32 bits, and a docno per line.
    """
    header = HEADER.pack(depth, len(ranking.docnos))
    scores = ranking.scores.astype("<f4").tobytes()
    return header + scores + "\n".join(ranking.docnos).encode()


def unpacked(value: bytes, depth: int) -> Ranking | None:
    """Unpack the first ``depth`` passages of a ranking.

    None if it was searched to a smaller depth and may miss some.
    """
    searched, count = HEADER.unpack_from(value)
    if searched < depth and count == searched:
        return None
    if not count:
        return Ranking([], np.empty(0, "<f4"))
    scores = np.frombuffer(value, "<f4", count, HEADER.size)
    docnos = value[HEADER.size + scores.nbytes :].decode().split("\n")
    return Ranking(docnos[:depth], scores[:depth])
