"""What BM25 and SPLADE share: each distinct query is searched once, its ranking kept, and the rows of a query frame get their passages."""

import json
import math
import os
import struct
from abc import abstractmethod
from collections.abc import Callable, Mapping
from copy import copy
from functools import partial
from itertools import islice
from pathlib import Path
from typing import Any, ClassVar, NamedTuple, Protocol

import numpy as np
import pandas as pd
import pyterrier as pt
from tqdm.auto import tqdm

from ..conversations.frame import STALE_WITH_QUERY, each_turn_once, report_turns_without_result
from ..errors import DataError, UsageError
from ..operator import Operator
from ..order import set_ranks
from ..store.results import ResultCache, shared
from .pisa.index import NOTHING, Ranking, ascii_text, search

AT_ONCE = 256
HEADER = struct.Struct("<II")


class Query(NamedTuple):
    """What one row asks.

    Attributes:
        row: its position in the frame.
        query: text, or how often each term counts.
        unit: by which the scores are to be multiplied, so that terms of weight 1 score like the words of a query.
    """

    row: int
    query: str | dict[str, int]
    unit: float = 1.0


class Searchable(Protocol):
    """An index, as its retrievers see it."""

    def describe(self) -> dict[str, Any]:
        """What the index says of itself."""
        ...

    def fingerprint(self) -> str:
        """What an index of other passages, or one built with other settings, does not have."""
        ...

    def with_text(self, found: pd.DataFrame) -> pd.DataFrame:
        """``found`` with the passages' text."""
        ...


class IndexRetriever(Operator):
    """Base of what searches an index with PISA.

    Args:
        index: the index to search.
        num_results: passages per query at most.
        cache: a file in which rankings are kept for other processes and later runs; made when missing.
    """

    label: ClassVar[str]
    method: ClassVar[str]
    """The method of the index that makes it."""
    scale: ClassVar[int] = 1
    """How many times the score PISA's is."""

    def __init__(self, index: Searchable, num_results: int = 1000, cache: str | Path | None = None) -> None:
        super().__init__()
        if num_results < 1:
            raise UsageError(f"num_results={num_results!r}: retrieve at least one passage per query")
        index.describe()
        self.index: Any = index
        self.num_results = num_results
        self.cache = None if cache is None else str(cache)
        self._opened: dict[tuple[Any, ...], Any] = {}

    @abstractmethod
    def queries(self, frame: pd.DataFrame) -> list[Query]:
        """What those rows of a query frame ask that ask for anything."""

    @abstractmethod
    def key(self, fingerprint: str, query: str | dict[str, int]) -> bytes:
        """What stands for everything that decides a ranking but its depth."""

    @abstractmethod
    def encode(self, queries: list[Any]) -> tuple[str, list[Any]]:
        """The column that PISA reads, and ``queries`` as it takes them there."""

    @abstractmethod
    def open(self, column: str, threads: int) -> Any:
        """PISA's own retriever, which reads ``column``."""

    def parameters(self) -> tuple[Any, ...]:
        """Other than the index and the column, what an opened retriever is of."""
        return ()

    def fuse_rank_cutoff(self, k: int) -> pt.Transformer:
        """This retriever with ``k`` passages per query at most, for ``retriever % k``."""
        return type(self)(**{**self.arguments(), "num_results": min(k, self.num_results)})

    def transform(self, inp: pd.DataFrame) -> pd.DataFrame:
        """Retrieve for each row of a query frame."""
        pt.validate.query_frame(inp, extra_columns=["query"], context=self)
        queries, fingerprint = self.queries(inp), self.index.fingerprint()
        keys = [self.key(fingerprint, query.query) for query in queries]
        distinct = {key: query.query for key, query in zip(keys, queries, strict=True)}
        found = cached_rankings(distinct, self.num_results, shared(self.cache), partial(self._search, fingerprint), self.label)
        rankings = {query.row: self._weighed(found[key], query.unit) for key, query in zip(keys, queries, strict=True)}
        return self.index.with_text(result_frame(inp, rankings))  # type: ignore[no-any-return]

    def _search(self, fingerprint: str, queries: list[Any]) -> list[Ranking]:
        column, encoded = self.encode(queries)
        return search(copy(self.opened(fingerprint, column)), column, encoded, self.num_results)

    def opened(self, fingerprint: str, column: str) -> Any:
        """PISA's own retriever, opened once per index and parameters."""
        key = (fingerprint, column, *self.parameters())
        if key not in self._opened:
            threads = min(max(os.cpu_count() or 2, 2), 16)  # with one thread PISA keeps Python's lock while it searches
            self._opened[key] = self.open(column, threads)
        return self._opened[key]

    def _weighed(self, ranking: Ranking, unit: float) -> Ranking:
        return ranking._replace(scores=ranking.scores.astype(np.float64) * unit / self.scale)

    def __getstate__(self) -> dict[str, Any]:
        return self.__dict__ | {"_opened": {}}  # an open index can't be sent to another process

    def __repr__(self) -> str:
        defaults = self._defaults()
        given = {name: value for name, value in self.arguments().items() if name != "index" and value != defaults[name]}
        return f"{self.index!r}.{self.method}({', '.join(f'{name}={value!r}' for name, value in given.items())})"


def cached_rankings(
    queries: Mapping[bytes, Any], depth: int, cache: ResultCache, find: Callable[[list[Any]], list[Ranking]], label: str
) -> dict[bytes, Ranking]:
    """The ranking of each query; only those that ``cache`` doesn't have are searched.

    Args:
        queries: by a key that stands for everything that decides the ranking but the depth.
        depth: passages per query at most.
        cache: where rankings are kept, empty ones too. A deeper ranking serves: its beginning is the shallower one.
        find: gives the rankings of up to 256 queries, ``depth`` deep.
        label: the progress bar's.
    """
    known = ((key, unpacked(value, depth)) for key, value in cache.get(list(queries)).items())
    found = {key: ranking for key, ranking in known if ranking is not None}
    missing = iter([key for key in queries if key not in found])
    with tqdm(total=len(queries), initial=len(found), desc=label, unit="query", delay=2, leave=False) as bar:
        while batch := list(islice(missing, AT_ONCE)):
            new = dict(zip(batch, find([queries[key] for key in batch]), strict=True))
            cache.put({key: packed(ranking, depth) for key, ranking in new.items()})
            found |= new
            bar.update(len(batch))
    return found


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


STEPS = 10_000
"""PISA takes whole numbers as weights: the heaviest term of a query gets this one. A million would be 300 times as slow."""


def word_queries(frame: pd.DataFrame) -> list[Query]:
    """What those rows of a query frame ask by ``query_toks``, or else by the words of ``query``, that ask for anything.

    Raises:
        DataError: when ``query_toks`` is there and isn't a dict of terms to finite weights in every row.
    """
    if "query_toks" not in frame.columns:
        texts = [ascii_text(query) for query in frame["query"]]
        return [Query(row, text) for row, text in enumerate(texts) if text.strip()]
    weighted = [_checked(qid, toks) for qid, toks in zip(frame["qid"], frame["query_toks"], strict=True)]
    units = [max(toks.values(), default=0.0) / STEPS for toks in weighted]
    found = [Query(row, _steps(toks, unit), unit) for row, (toks, unit) in enumerate(zip(weighted, units, strict=True))]
    return [query for query in found if query.query]


def query_bytes(query: str | dict[str, int]) -> bytes:
    """Bytes that are equal where the query is."""
    return (query if isinstance(query, str) else json.dumps(query)).encode()


def _checked(qid: str, toks: Any) -> dict[str, float]:
    if not isinstance(toks, Mapping) or not all(isinstance(w, int | float | np.number) and math.isfinite(w) for w in toks.values()):
        raise DataError(f"query_toks of {qid} is {str(toks)[:80]}: give a dict of terms to weights, or drop the column to search query")
    return {str(term): float(weight) for term, weight in toks.items() if weight > 0}


def _steps(toks: Mapping[str, float], unit: float) -> dict[str, int]:
    steps = {ascii_text(term): round(weight / unit) for term, weight in toks.items()}
    return {term: count for term, count in sorted(steps.items()) if count > 0}


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
    counts = np.array([len(ranking.docnos) for ranking in found], dtype=np.int64)
    report_turns_without_result(inp, counts)
    queries = inp.drop(columns=[name for name in (*STALE_WITH_QUERY, *REPLACED) if name in inp.columns])
    columns: dict[str, Any] = {str(name): _repeated(queries[name], counts) for name in queries.columns}
    docnos = np.empty(counts.sum(), dtype=object)
    docnos[:] = [docno for ranking in found for docno in ranking.docnos]
    scores = np.concatenate([NOTHING.scores, *(ranking.scores for ranking in found)]).astype(np.float64)
    found_by = pd.DataFrame({**columns, "docno": pd.Series(docnos, dtype=object)}, copy=False)
    return set_ranks(found_by, np.repeat(np.arange(len(inp)), counts), scores, by_docno=True)


def _repeated(values: "pd.Series[Any]", counts: Any) -> "pd.Series[Any]":
    dtype = values.dtype if pd.api.types.is_numeric_dtype(values.dtype) else object
    return pd.Series(np.repeat(values.to_numpy(dtype=dtype), counts), dtype=dtype)
