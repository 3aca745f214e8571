"""Retrieval by words or by learned terms: the engine of each query, and what it searches with."""

import os
from collections.abc import Callable
from copy import copy
from pathlib import Path
from typing import Any

import pandas as pd

from ..arguments import one_of
from .artifact import IndexArtifact
from .eager import VERSION, Postings
from .eager_files import EagerFiles
from .engines import ENGINES, choose_engine
from .pisa import version
from .ranking import Ranking
from .retriever import IndexRetriever, Query

THREADS = min(max(os.cpu_count() or 2, 2), 16)
"""Threads of a search by either engine. With one thread PISA keeps Python's lock while it searches."""


class SparseRetriever(IndexRetriever):
    """Base of retrievers that an engine of :mod:`.engines` searches for.

    A subclass gives what the rows of a frame ask (:meth:`asked`), how many words a query has (:meth:`count_words`), and searches by either
    engine.

    Args:
        index: the index to search.
        num_results: passages per query at most.
        cache: a file in which rankings are kept for other processes and later runs; made when missing.
        engine: the engine; None takes the one that the index has, or the faster one.
    """

    def __init__(self, index: IndexArtifact, num_results: int, cache: str | Path | None, engine: str | None) -> None:
        super().__init__(index, num_results, cache)
        if engine is not None:
            one_of(ENGINES, engine=engine)
            choose_engine(engine, index.engines, index.path)
        self.engine = engine
        self._seen: tuple[list[str], int] | None = None

    def queries(self, frame: pd.DataFrame) -> list[Query]:
        """What the rows ask; the index is looked at once per frame."""
        self._seen = (self.index.engines, len(self.index))
        return self.asked(frame)

    def asked(self, frame: pd.DataFrame) -> list[Query]:
        """What the rows ask."""
        return super().queries(frame)

    def count_words(self, query: Any) -> int:
        """How many distinct words a query has."""
        return len(query.split())

    def engine_for(self, query: Any) -> str:
        """The engine that answers a query."""
        engines, size = self._seen or (self.index.engines, len(self.index))
        return choose_engine(self.engine, engines, self.index.path, size, self.count_words(query))

    def made_by(self, query: Any) -> str:
        """Part of a cached ranking's key. The last bits of a score differ by engine, so what is kept is what would be searched."""
        return version() if self.engine_for(query) == "pisa" else VERSION

    def find_rankings(self, fingerprint: str, queries: list[Any]) -> list[Ranking]:
        """Search for each query by its engine."""
        found: dict[int, Ranking] = {}
        for engine, search_by in (("eager", self.search_eager), ("pisa", self.search_pisa)):
            places = [place for place, query in enumerate(queries) if self.engine_for(query) == engine]
            if places:
                found |= zip(places, search_by(fingerprint, [queries[place] for place in places]), strict=True)
        return [found[place] for place in range(len(queries))]

    def search_eager(self, fingerprint: str, queries: list[Any]) -> list[Ranking]:
        """The rankings by the eager engine."""
        raise NotImplementedError

    def search_pisa(self, fingerprint: str, queries: list[Any]) -> list[Ranking]:
        """The rankings by PISA."""
        raise NotImplementedError

    def opened_pisa(self, fingerprint: str, options: tuple[Any, ...], open_retriever: Callable[..., Any]) -> Any:
        """PISA's own retriever: a copy, as it is changed by a search."""
        index = self.index
        described = {Path(name).name for name in index.describe()["files"]}

        def opened(folder: Path) -> Any:
            held = folder / index.pisa.relative_to(index.path)
            return open_retriever(index.pisa, threads=THREADS, described=described, held=held)

        return copy(self.opened(fingerprint, ("pisa", *options), opened))

    def opened_eager(self, fingerprint: str, bm25: tuple[float, float] | None = None) -> Postings:
        """The files of the eager engine; with ``bm25`` impacts are computed for these parameters of BM25."""
        there = self.index.eager.relative_to(self.index.path)
        files: EagerFiles = self.opened(fingerprint, ("eager", bm25), lambda folder: EagerFiles(folder / there, bm25))
        return files.postings()
