"""Rankings of queries: the order of their ties, how they are kept, and the frame that a retriever makes of them."""

import struct
from collections.abc import Callable, Mapping
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
"""Part of a cached ranking's key: rankings whose ties were in another order have another one."""
AT_ONCE = 256
HEADER = struct.Struct("<II")


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


def cached_rankings(
    queries: Mapping[bytes, Any], depth: int, cache: Cache, find: Callable[[list[Any]], list[Ranking]], label: str
) -> dict[bytes, Ranking]:
    """The ranking of each query; only those that ``cache`` doesn't have are searched.

    Args:
        queries: by a key that stands for everything that decides the ranking but the depth.
        depth: passages per query at most.
        cache: where rankings are kept, empty ones too. A deeper ranking serves: its beginning is the shallower one.
        find: gives the rankings of up to 256 queries, ``depth`` deep.
        label: the progress bar's.
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
    """A ranking of PISA, searched to ``depth``, as bytes: depth, number of passages, scores in PISA's 32 bits, docnos by line."""
    scores = ranking.scores.astype("<f4").tobytes()
    return HEADER.pack(depth, len(ranking.docnos)) + scores + "\n".join(ranking.docnos).encode()


def unpacked(value: bytes, depth: int) -> Ranking | None:
    """The first ``depth`` passages of a packed ranking; None when it was searched less deep and may have missed some."""
    searched, count = HEADER.unpack_from(value)
    if searched < depth and count == searched:
        return None
    scores = np.frombuffer(value, "<f4", count, HEADER.size)
    docnos = value[HEADER.size + scores.nbytes :].decode().split("\n") if count else []
    return Ranking(docnos, scores).best(depth)


REPLACED = ("docno", "score", "rank", "text")


def result_frame(inp: pd.DataFrame, rankings: Mapping[int, Ranking]) -> pd.DataFrame:
    """The rows of ``inp`` with their passages, in the order of the rows.

    Turns without a passage are named in a ``NoResultWarning``.

    Args:
        inp: a query frame.
        rankings: by a row's position in ``inp``; rows without a ranking have no passage.

    Returns:
        All columns of ``inp`` (the same objects), ``docno``, ``score`` and ``rank``, from 0.
    """
    each_turn_once(inp)
    found = [rankings.get(row, NOTHING) for row in range(len(inp))]
    docnos, scores = zip(*found, NOTHING, strict=True)  # one at least, also for a frame without rows
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
