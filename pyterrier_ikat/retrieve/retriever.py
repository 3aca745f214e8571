"""Base classes of retrievers that search an index, and the engines of sparse retrievers: the eager engine and PISA."""

import os
from abc import abstractmethod
from collections.abc import Callable, Collection
from copy import copy
from functools import partial
from importlib.util import find_spec
from pathlib import Path
from typing import Any, ClassVar, NamedTuple

import numpy as np
import pandas as pd
import pyterrier as pt

from ..arguments import one_of
from ..errors import UsageError, advice
from ..operator import Operator
from ..store.cache import open_cache
from .artifact import IndexArtifact
from .eager import VERSION, EagerFiles
from .pisa import version
from .ranking import Ranking, cached_rankings, result_frame
from .state import Seen

ENGINES = ("eager", "pisa")
"""The engines of an index. ``"both"`` builds it for both engines."""
BUILDS = (*ENGINES, "both")
EAGER_UP_TO = 500_000
"""Up to this many passages, an index that is built without naming an engine gets the files of the eager engine."""
LARGE, SHORT = 3_000_000, 8
"""If an index of more passages has files for both engines, queries of fewer distinct words go to PISA, and all others to the eager engine.
On 20,000, 100,000 and 1,000,000 passages the eager engine took less CPU time with 5, 10, 20, 50 and 200 words. From 100,000 to 1,000,000
passages its time for 5 words grew five to six times, PISA's three times. So the two curves should cross between 2,500,000 and 4,000,000
passages. With 10 words and more there was no sign of a crossing (``docs/performance.md``)."""
THREADS = min(max(os.cpu_count() or 2, 2), 16)
"""Threads of a search by either engine. With one thread PISA keeps Python's lock while it searches."""


class Query(NamedTuple):
    """The query of one row.

    Attributes:
        row: the row's position in the frame.
        query: text, how often each term counts, or the bytes of a vector.
        unit: the factor of the scores, so that terms of weight 1 score like the words of a query.
        engine: the one of ``ENGINES`` that answers the query, if the index has any.
    """

    row: int
    query: Any
    unit: float = 1.0
    engine: str = ""


class IndexRetriever(Operator):
    """Base of retrievers that search an index. Each distinct query is searched once, unless its ranking is in the cache.

    A subclass defines the cache key of a query (:meth:`key`) and finds rankings (:meth:`find_rankings`).

    Args:
        index: the index to search.
        num_results: the maximum number of passages per query.
        cache: a file that keeps rankings for other processes and later runs; created if missing.
    """

    activity = "searching {queries}"
    label: ClassVar[str]
    method: ClassVar[str]
    """The name of the index's method that makes this retriever."""
    scale: ClassVar[int] = 1
    """The engine's scores are this many times the returned scores."""

    def __init__(self, index: IndexArtifact, num_results: int = 1000, cache: str | Path | None = None) -> None:
        super().__init__()
        if num_results < 1:
            raise UsageError(f"num_results={num_results!r}: retrieve at least one passage per query")
        index.describe()
        self.index: Any = index
        self.num_results = num_results
        self.cache = None if cache is None else str(cache)
        self._opened: dict[tuple[Any, ...], Any] = {}

    def queries(self, frame: pd.DataFrame, seen: Seen) -> list[Query]:
        """The queries of those rows that have one; by default the texts that aren't blank."""
        return [Query(row, query) for row, query in enumerate(frame["query"]) if isinstance(query, str) and query.strip()]

    @abstractmethod
    def key(self, fingerprint: str, query: Query) -> bytes:
        """The cache key: everything that determines a ranking except its depth."""

    @abstractmethod
    def find_rankings(self, seen: Seen, queries: list[Query]) -> list[Ranking]:
        """The rankings of queries to depth ``num_results``, in the given state of the index."""

    def opened(self, seen: Seen, options: tuple[Any, ...], open_retriever: Callable[[Path], Any]) -> Any:
        """The engine's open retriever, opened once per state of the index and options.

        Args:
            seen: the state of the index.
            options: everything else that the open retriever depends on.
            open_retriever: opens it. It gets a name of the index's folder that can't lead to a different folder meanwhile.
        """
        key = (seen, *options)
        if (found := self._opened.get(key)) is None:
            with self.index.held(seen) as folder:
                found = open_retriever(folder)
            for known in [known for known in self._opened if known[0] is not seen]:
                self._opened.pop(known, None)
            self._opened[key] = found
        return found

    def fuse_rank_cutoff(self, k: int) -> pt.Transformer:
        """This retriever with at most ``k`` passages per query, for ``retriever % k``."""
        return type(self)(**{**self.arguments(), "num_results": min(k, self.num_results)})

    def transform(self, inp: pd.DataFrame) -> pd.DataFrame:
        """Retrieve for each row of a query frame."""
        pt.validate.query_frame(inp, extra_columns=["query"], context=self)
        return self.index.of_one_state(partial(self._retrieve, inp))  # type: ignore[no-any-return]

    def _retrieve(self, inp: pd.DataFrame, seen: Seen) -> pd.DataFrame:
        queries, fingerprint = self.queries(inp, seen), self.index.fingerprint_of(seen)
        keys = [self.key(fingerprint, query) for query in queries]

        def find(asked: list[Query]) -> list[Ranking]:
            rankings = self.find_rankings(seen, asked)
            self.index.check_unchanged(seen)  # checked before the rankings are stored under this index
            return rankings

        found = cached_rankings(dict(zip(keys, queries, strict=True)), self.num_results, open_cache(self.cache), find, self.label)
        rankings = {query.row: self._weigh(found[key], query.unit) for key, query in zip(keys, queries, strict=True)}
        results = result_frame(inp, rankings)
        return self.index.with_text(results) if self.gives_texts else results

    def _weigh(self, ranking: Ranking, unit: float) -> Ranking:
        return ranking._replace(scores=ranking.scores.astype(np.float64) * unit / self.scale)

    def __getstate__(self) -> dict[str, Any]:
        return self.__dict__ | {"_opened": {}}  # an open index can't be sent to another process

    def __repr__(self) -> str:
        defaults = self._defaults()
        given = {name: value for name, value in self.arguments().items() if name != "index" and value != defaults[name]}
        return f"{self.index!r}.{self.method}({', '.join(f'{name}={value!r}' for name, value in given.items())})"


# Engines


def has_pisa() -> bool:
    """Whether PISA is installed."""
    return find_spec("pyterrier_pisa") is not None


def require_pisa(path: str) -> None:
    """Check that PISA can be used for an index.

    Raises:
        UsageError: when PISA isn't installed.
    """
    if not has_pisa():
        again = advice("ikat.PassageIndex(path).index(corpus, engine='eager')", "`ikat index SOURCE PATH --engine eager`")
        raise UsageError(
            f"{path} is searched by PISA, and pyterrier-pisa isn't installed: it has files for Linux on x86_64 only. "
            f"There, pip install pyterrier-pisa; elsewhere index the passages again, {again}"
        )


def choose_engine(asked: str | None, there: Collection[str], path: str, size: int = 0, query: str | dict[str, int] = "") -> str:
    """The engine that answers a query.

    Args:
        asked: the engine that the user chose; None takes the faster one.
        there: the engines that the index has files for.
        path: the index, for the error message.
        size: the number of passages in the index.
        query: the words of the query, or how often each of its terms counts.

    Raises:
        UsageError: when the index has no files for the chosen engine.
    """
    if asked is None:
        by_pisa = size > LARGE and len(query if isinstance(query, dict) else set(query.split())) < SHORT and has_pisa()
        asked = next(iter(there)) if len(there) == 1 else "pisa" if by_pisa else "eager"
    if asked not in there:
        again = advice(f"engine={asked!r} at PassageIndex.index", f"`ikat index SOURCE PATH --engine {asked}`")
        raise UsageError(
            f"the index {path} has no files for engine={asked!r}, only for {', '.join(there)}: index the passages with {again}"
        )
    if asked == "pisa":
        require_pisa(path)
    return asked


def made_by(engine: str) -> str:
    """Part of a cached ranking's key. The last bits of a score differ between engines, so each engine has its own cached rankings."""
    return version() if engine == "pisa" else VERSION


class SparseRetriever(IndexRetriever):
    """Base of retrievers that search with an engine. A subclass implements the search for both engines.

    Args:
        index: the index to search.
        num_results: the maximum number of passages per query.
        cache: a file that keeps rankings for other processes and later runs; created if missing.
        engine: the engine. None takes the one that the index has, or the faster one.
    """

    def __init__(self, index: IndexArtifact, num_results: int, cache: str | Path | None, engine: str | None) -> None:
        super().__init__(index, num_results, cache)
        if engine is not None:
            one_of(ENGINES, engine=engine)
            choose_engine(engine, index.engines, index.path)
        self.engine = engine

    def queries(self, frame: pd.DataFrame, seen: Seen) -> list[Query]:
        """The queries of the rows, each with its engine."""
        return self.by_engine(super().queries(frame, seen), seen)

    def by_engine(self, queries: list[Query], seen: Seen) -> list[Query]:
        """The queries, each with the engine that answers it."""
        there, path, size = seen.engines, self.index.path, seen.described["count"]
        return [query._replace(engine=choose_engine(self.engine, there, path, size, query.query)) for query in queries]

    def find_rankings(self, seen: Seen, queries: list[Query]) -> list[Ranking]:
        """Search for each query with its engine."""
        asked: dict[str, dict[int, Any]] = {}
        for place, query in enumerate(queries):
            asked.setdefault(query.engine, {})[place] = query.query
        found: dict[int, Ranking] = {}
        for engine, by_place in asked.items():
            search_by = self.search_pisa if engine == "pisa" else self.search_eager
            found |= zip(by_place, search_by(seen, list(by_place.values())), strict=True)
        return [found[place] for place in range(len(queries))]

    @abstractmethod
    def search_eager(self, seen: Seen, queries: list[Any]) -> list[Ranking]:
        """The rankings of the eager engine."""

    @abstractmethod
    def search_pisa(self, seen: Seen, queries: list[Any]) -> list[Ranking]:
        """The rankings of PISA."""

    def opened_pisa(self, seen: Seen, options: tuple[Any, ...], open_retriever: Callable[..., Any]) -> Any:
        """PISA's own retriever. It is a copy, because a search changes it."""
        index = self.index
        described = {Path(name).name for name in seen.described["files"]}

        def opened(folder: Path) -> Any:
            held = folder / index.pisa.relative_to(index.path)
            return open_retriever(index.pisa, threads=THREADS, described=described, held=held)

        return copy(self.opened(seen, ("pisa", *options), opened))

    def opened_eager(self, seen: Seen, bm25: tuple[float, float] | None = None) -> EagerFiles:
        """The files of the eager engine. With ``bm25``, impacts are computed for these BM25 parameters."""
        index = self.index
        files: EagerFiles = self.opened(
            seen, ("eager", bm25), lambda folder: EagerFiles(folder / index.eager.relative_to(index.path), bm25)
        )
        return files
