"""Rankings of queries: the order of their ties, ranking past a tie at the cutoff, and their stored form."""

import struct
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

HEADER = struct.Struct("<II")


class Ranking(NamedTuple):
    """The passages of one query, best first, and their scores."""

    docnos: list[str]
    scores: npt.NDArray[np.floating[Any]]


NO_PASSAGES = Ranking([], np.empty(0, dtype=np.float32))


def sort_ties(ranking: Ranking, depth: int) -> Ranking:
    """The first ``depth`` passages, ties in the order of docno, the greatest first. The ranking's list of docnos is changed in place."""
    tied = np.concatenate([[False], ranking.scores[1:] == ranking.scores[:-1], [False]])
    bounds = np.flatnonzero(
        tied[1:] != tied[:-1]
    ).tolist()  # where sequences of equal scores begin, and their last passages
    for start, last in zip(bounds[::2], bounds[1::2], strict=True):
        ranking.docnos[start : last + 1] = sorted(ranking.docnos[start : last + 1], reverse=True)
    return Ranking(ranking.docnos[:depth], ranking.scores[:depth])


def rank_past_ties(
    find: Callable[[Sequence[int], int], list[Ranking]], count: int, depth: int
) -> list[Ranking]:
    """The rankings of queries by an engine that keeps any of the passages that tie at the cutoff.

    An eighth more passages are retrieved, repeatedly until the tie ends. Equal scores are ordered
    by docno, the greatest first.

    Args:
        find: returns the rankings of the queries with these numbers to a depth.
        count: the number of queries.
        depth: the maximum number of passages per query.
    """
    best: dict[int, Ranking] = {}
    left, deeper = list(range(count)), depth + 1 + depth // 8
    while left:
        for number, ranking in zip(left, find(left, deeper), strict=True):
            if len(ranking.scores) < deeper or ranking.scores[-1] != ranking.scores[depth - 1]:
                best[number] = sort_ties(ranking, depth)
        left, deeper = [number for number in left if number not in best], 2 * deeper
    return [best[number] for number in range(count)]


def packed(ranking: Ranking, depth: int) -> bytes:
    """A ranking of PISA, searched to ``depth``, as bytes: depth, number of passages, scores in PISA's 32 bits, a docno per line."""
    scores = ranking.scores.astype("<f4").tobytes()
    return HEADER.pack(depth, len(ranking.docnos)) + scores + "\n".join(ranking.docnos).encode()


def unpacked(value: bytes, depth: int) -> Ranking | None:
    """The first ``depth`` passages of a packed ranking; None if it was searched to a smaller depth and may miss some."""
    searched, count = HEADER.unpack_from(value)
    if searched < depth and count == searched:
        return None
    scores = np.frombuffer(value, "<f4", count, HEADER.size)
    docnos = value[HEADER.size + scores.nbytes :].decode().split("\n") if count else []
    return Ranking(docnos[:depth], scores[:depth])
