"""Rankings of queries: the order of ties, the stored form, and a retriever's result frame."""

import struct
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from itertools import chain
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import pandas as pd

from ..conversations.frame import STALE_WITH_QUERY, each_turn_once, report_turns_without_result
from ..order import set_ranks
from ..store.cache import Cache, compute_missing

TIES = "the greatest docno first"
"""Part of a cached ranking's key. Rankings with another order of ties have another key."""
AT_ONCE = 256
HEADER = struct.Struct("<II")


class Ranking(NamedTuple):
    """The passages of one query, best first, and their scores."""

    docnos: list[str]
    scores: npt.NDArray[np.floating[Any]]

    def best(self, depth: int) -> "Ranking":
        """The first ``depth`` passages."""
        return Ranking(self.docnos[:depth], self.scores[:depth])


NOTHING = Ranking([], np.empty(0, dtype=np.float32))


def sort_ties(ranking: Ranking) -> Ranking:
    """The ranking with ties in the order of docno, the greatest first. The ranking's list of docnos is changed in place."""
    tied = np.concatenate([[False], ranking.scores[1:] == ranking.scores[:-1], [False]])
    bounds = np.flatnonzero(tied[1:] != tied[:-1]).tolist()  # where sequences of equal scores begin, and their last passages
    for start, last in zip(bounds[::2], bounds[1::2], strict=True):
        ranking.docnos[start : last + 1] = sorted(ranking.docnos[start : last + 1], reverse=True)
    return ranking


def rank_past_ties(find: Callable[[Sequence[int], int], list[Ranking]], count: int, depth: int) -> list[Ranking]:
    """The rankings of queries by an engine that keeps any of the passages that tie at the cutoff.

    An eighth more passages are retrieved, repeatedly until the tie ends. Equal scores are ordered by docno, the greatest first.

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
                best[number] = sort_ties(ranking).best(depth)
        left, deeper = [number for number in left if number not in best], 2 * deeper
    return [best[number] for number in range(count)]


def cached_rankings(
    queries: Mapping[bytes, Any], depth: int, cache: Cache, find: Callable[[list[Any]], list[Ranking]], label: str
) -> dict[bytes, Ranking]:
    """The ranking of each query. Only queries that are missing from ``cache`` are searched.

    Args:
        queries: the queries by key. The key represents everything that determines the ranking except the depth.
        depth: the maximum number of passages per query.
        cache: the cache of rankings, also of empty ones. A deeper ranking can be used, because it begins with the shallower one.
        find: returns the rankings of up to 256 queries to ``depth``.
        label: the label of the progress bar.
    """
    return compute_missing(
        cache,
        queries,
        find,
        encode=partial(packed, depth=depth),
        decode=partial(unpacked, depth=depth),
        at_once=AT_ONCE,
        label=label,
        unit="query",
    )


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
    return Ranking(docnos, scores).best(depth)


REPLACED = ("docno", "score", "rank", "text")


def result_frame(inp: pd.DataFrame, rankings: Mapping[int, Ranking]) -> pd.DataFrame:
    """The rows of ``inp`` with their passages, in the order of the rows.

    A ``NoResultWarning`` names the turns without a passage.

    Args:
        inp: a query frame.
        rankings: the rankings by the position of the row in ``inp``. Rows without a ranking have no passage.

    Returns:
        All columns of ``inp`` (the same objects), ``docno``, ``score`` and ``rank``, from 0.
    """
    each_turn_once(inp)
    found = [rankings.get(row, NOTHING) for row in range(len(inp))]
    docnos, scores = zip(*found, NOTHING, strict=True)  # at least one element, also for a frame without rows
    counts = np.array(list(map(len, docnos)), dtype=np.int64)[:-1]
    report_turns_without_result(inp, counts)
    queries = inp.drop(columns=[name for name in (*STALE_WITH_QUERY, *REPLACED) if name in inp.columns])
    columns: dict[str, Any] = {str(name): _repeat(queries[name], counts) for name in queries.columns}
    columns["docno"] = pd.Series(list(chain.from_iterable(docnos)), dtype=object)
    turns = np.repeat(np.arange(len(inp)), counts)
    return set_ranks(pd.DataFrame(columns, copy=False), turns, np.concatenate(scores).astype(np.float64), by_docno=True)


def _repeat(values: "pd.Series[Any]", counts: Any) -> "pd.Series[Any]":
    dtype = values.dtype if pd.api.types.is_numeric_dtype(values.dtype) else object
    return pd.Series(np.repeat(values.to_numpy(dtype=dtype), counts), dtype=dtype)
