"""The eager engine: what each word gives to the score of each passage was computed when indexing, and is added up per query.

It needs numpy and scipy alone: no child process, nothing is written when searching, and any number of processes may map the same files.
Source: Lù, BM25S, 2024, who calls this eager sparse scoring.
"""

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from functools import cache
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from .ranking import NOTHING, Ranking, sort_ties

VERSION = "eager 1"
"""Part of a cached ranking's key."""
GATHERED = 1_000_000
"""Postings of a query that are multiplied as one matrix; more of them are added term by term, without copying them first."""
SAMPLE = 4096
Floats = npt.NDArray[np.float32]
Part = tuple[npt.NDArray[np.int32], Floats]
"""The passages of a term, by number, and its impact on each."""


class Postings(NamedTuple):
    """What is searched: an index on disk or in memory.

    Attributes:
        size: the number of passages.
        find: the number of each term; -1 for one that no passage has.
        part: the passages and impacts of the term with a number.
        docnos: the docnos of passages by their numbers.
    """

    size: int
    find: Callable[[Sequence[str]], Sequence[int]]
    part: Callable[[int], Part]
    docnos: Callable[[Sequence[int]], list[str]]


def search(postings: Postings, queries: Sequence[Mapping[str, float]], depth: int) -> list[Ranking]:
    """The rankings of queries, equal scores by docno, the greatest first.

    Args:
        postings: the index.
        queries: the weight of each term, above 0.
        depth: passages per query at most.
    """
    scores = np.empty(postings.size, dtype=np.float32)  # one for all queries: fresh memory costs more than the sums
    return [_best(postings, _add_up(postings, query, scores), depth) for query in queries]


def _add_up(postings: Postings, query: Mapping[str, float], scores: Floats) -> Floats:
    """The score of every passage."""
    known = {number: weight for number, weight in zip(postings.find(list(query)), query.values(), strict=True) if number >= 0}
    parts = [postings.part(number) for number in sorted(known)]
    weights = np.array([known[number] for number in sorted(known)], dtype=np.float32)
    if sum(len(docs) for docs, _ in parts) <= GATHERED:
        return _multiply(parts, weights, len(scores))
    scores.fill(0)
    add_column = column_kernel()
    for (docs, impacts), weight in zip(parts, weights, strict=True):
        add_column(scores, docs, impacts, weight)
    return scores


def _multiply(parts: Sequence[Part], weights: Floats, count: int) -> Floats:
    from scipy.sparse import csc_matrix  # a tenth of a second, at the first search

    if not parts:
        return np.zeros(count, dtype=np.float32)
    ends = np.cumsum([0, *(len(docs) for docs, _ in parts)]).astype(np.int32)
    docs, impacts = (np.concatenate(arrays) for arrays in zip(*parts, strict=True))
    found: Floats = csc_matrix((impacts, docs, ends), shape=(count, len(parts)), copy=False) @ weights
    return found


def add_by_numpy(scores: Floats, docs: npt.NDArray[np.int32], impacts: Floats, weight: np.float32) -> None:
    """Add a term by public names of numpy."""
    np.add.at(scores, docs.astype(np.intp), impacts if weight == 1 else impacts * weight)


@cache
def column_kernel() -> Callable[[Floats, npt.NDArray[np.int32], Floats, np.float32], None]:
    """Scipy's product of one column, added in place, where it is: public names copy each posting, or take twice as long.

    The name is private. It is tried once; without it, or where it does something else, numpy adds.
    """
    try:
        from scipy.sparse._sparsetools import csc_matvec
    except ImportError:
        return add_by_numpy

    def add(scores: Floats, docs: npt.NDArray[np.int32], impacts: Floats, weight: np.float32) -> None:
        csc_matvec(len(scores), 1, np.array([0, len(docs)], dtype=np.int32), docs, impacts, np.array([weight], dtype=np.float32), scores)

    tried = np.ones(3, dtype=np.float32)
    try:
        add(tried, np.array([0, 2], dtype=np.int32), np.array([1, 2], dtype=np.float32), np.float32(2))
    except (TypeError, ValueError):
        return add_by_numpy
    return add if tried.tolist() == [3, 1, 5] else add_by_numpy


def _best(postings: Postings, scores: Floats, depth: int) -> Ranking:
    """The passages of highest score, all of one score at the cut weighed by docno."""
    numbers = candidates(scores, depth)
    if not len(numbers):
        return NOTHING
    order = np.argsort(-scores[numbers], kind="stable")
    numbers = numbers[order]
    return sort_ties(Ranking(postings.docnos(numbers.tolist()), scores[numbers])).best(depth)


def candidates(scores: Floats, depth: int) -> npt.NDArray[np.intp]:
    """The numbers of the ``depth`` highest scores above 0, of all that tie with the last one too; no order.

    A sample tells about how high a score has to be; what isn't below that is counted, and only this much is partitioned.
    """
    least = np.nextafter(np.float32(0), np.float32(1))
    if depth < len(scores) // 8:
        sample = np.sort(scores[:: max(len(scores) // SAMPLE, 1)])
        place = len(sample) - 16 - int(1.5 * depth * len(sample) / len(scores))
        found = np.flatnonzero(scores >= max(sample[max(place, 0)], least))
    else:
        found = np.flatnonzero(scores >= least)
    if len(found) < depth:
        found = np.flatnonzero(scores >= least)
    if len(found) > depth:
        of_found = scores[found]
        cut = np.partition(of_found, len(of_found) - depth)[len(of_found) - depth]
        found = found[of_found >= cut]
    return found


# BM25


def count_terms(terms: Sequence[str], stops: frozenset[str]) -> dict[str, int]:
    """How often each term counts that is no stop word."""
    return {term: count for term, count in Counter(terms).items() if term not in stops}


def weigh_term(holders: Any, count: int, k1: float) -> Any:
    """What a term can give to a score at most, from the number of passages that have it; PISA's floats."""
    some, every, half = np.asarray(holders, dtype=np.float32), np.float32(count), np.float32(0.5)
    idf = np.log((every - some + half) / (some + half))
    return np.maximum(np.float32(1e-6), idf) * (np.float32(1) + np.float32(k1))


def norms(lengths: npt.NDArray[Any], k1: float, b: float) -> Floats:
    """By how much the length of each passage lessens the frequency of its terms."""
    mean = np.float32(lengths.sum(dtype=np.float64) / max(len(lengths), 1))
    relative = lengths.astype(np.float32) / mean
    one, share = np.float32(1), np.float32(b)
    return np.asarray(np.float32(k1) * (one - share + share * relative), dtype=np.float32)


def impacts_of(counts: npt.NDArray[Any], norm: Floats, weight: Any) -> Floats:
    """What terms give to the scores of passages that have them ``counts`` times."""
    times = counts.astype(np.float32)
    return np.asarray(weight * (times / (times + norm)), dtype=np.float32)
