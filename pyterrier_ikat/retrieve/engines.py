"""Retrieval by words or by learned terms: the engine of each query, the eager one or PISA, and what it searches with."""

import os
from collections.abc import Callable, Collection
from copy import copy
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pandas as pd

from ..arguments import one_of
from ..errors import UsageError, advice
from .artifact import IndexArtifact
from .eager import VERSION, Postings
from .eager_files import EagerFiles
from .pisa import version
from .ranking import Ranking
from .retriever import IndexRetriever, Query

ENGINES = ("eager", "pisa")
"""The engines of an index; ``"both"`` builds it for both of them."""
BUILDS = (*ENGINES, "both")
EAGER_UP_TO = 500_000
"""Passages up to which an index gets the files of the eager engine when it is built without naming one."""
LARGE, SHORT = 3_000_000, 8
"""Where an index of more passages has both, queries of fewer distinct words go to PISA, and all others to the eager engine. Over 20,000,
100,000 and 1,000,000 passages the eager engine took less CPU with 5, 10, 20, 50 and 200 words. From 100,000 to 1,000,000 passages its time
for 5 words grew five to six times, PISA's three times: from this, the two cross between 2,500,000 and 4,000,000. With 10 words and more
there was no sign of it (``docs/scale.md``)."""
THREADS = min(max(os.cpu_count() or 2, 2), 16)
"""Threads of a search by either engine. With one thread PISA keeps Python's lock while it searches."""


def has_pisa() -> bool:
    """Whether PISA is installed."""
    return find_spec("pyterrier_pisa") is not None


def require_pisa(path: str) -> None:
    """Make sure that an index's PISA can be used.

    Raises:
        UsageError: where PISA isn't installed.
    """
    if not has_pisa():
        again = advice("ikat.PassageIndex(path).index(corpus, engine='eager')", "`ikat index SOURCE PATH --engine eager`")
        raise UsageError(
            f"{path} is searched by PISA, and pyterrier-pisa isn't installed: it has files for Linux on x86_64 only. "
            f"There, pip install pyterrier-pisa; elsewhere index the passages anew, {again}"
        )


def choose_engine(asked: str | None, there: Collection[str], path: str, size: int = 0, words: int = 0) -> str:
    """The engine that answers a query.

    Args:
        asked: the one that is asked for; None takes the faster one.
        there: those that the index has files of.
        path: the index, for the error.
        size: how many passages it has.
        words: how many distinct words the query has.

    Raises:
        UsageError: when the index hasn't the one that is asked for.
    """
    if asked is None:
        by_pisa = size > LARGE and words < SHORT and has_pisa()
        asked = next(iter(there)) if len(there) == 1 else "pisa" if by_pisa else "eager"
    if asked not in there:
        again = advice(f"engine={asked!r} at PassageIndex.index", f"`ikat index SOURCE PATH --engine {asked}`")
        raise UsageError(
            f"the index {path} has no files for engine={asked!r}, only for {', '.join(there)}: index the passages with {again}"
        )
    if asked == "pisa":
        require_pisa(path)
    return asked


class SparseRetriever(IndexRetriever):
    """Base of retrievers that an engine of this module searches for.

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
