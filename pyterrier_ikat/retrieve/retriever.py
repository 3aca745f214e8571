"""The base class of retrievers that search an index."""

import json
from abc import abstractmethod
from pathlib import Path
from typing import Any, ClassVar, NamedTuple

import numpy as np
import pandas as pd
import pyterrier as pt

from ..arguments import at_least
from ..operator import Operator, with_fields
from ..portable import digest
from ..store.cache import open_cache
from .artifact import Opened
from .ranking import TIES, Ranking, cached_rankings, result_frame


class Query(NamedTuple):
    """The query of one row.

    Attributes:
        row: the row's position in the frame.
        query: text, how often each term counts, or the bytes of a vector.
        unit: the factor of the scores, so that terms of weight 1 score like the words of a query.
    """

    row: int
    query: Any
    unit: float = 1.0


@with_fields
class IndexRetriever(Operator):
    """Base of retrievers that search an index. Each distinct query is searched once, unless its ranking is in the cache.

    A subclass names its settings for the cache (:meth:`settings`) and finds rankings (:meth:`find_rankings`).

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

    index: Any  # of the kind that the retriever searches
    num_results: int = 1000
    cache: str | Path | None = None

    def __post_init__(self) -> None:
        at_least(1, num_results=self.num_results)
        self.index.opened()
        self.cache = None if self.cache is None else str(self.cache)

    def queries(self, frame: pd.DataFrame) -> list[Query]:
        """The queries of those rows that have one; by default the texts that aren't blank."""
        return [Query(row, query) for row, query in enumerate(frame["query"]) if isinstance(query, str) and query.strip()]

    def settings(self) -> str:
        """What determines a ranking besides the index, the query and the depth."""
        return ""

    def key(self, fingerprint: str, query: Query) -> bytes:
        """The cache key: everything that determines a ranking except its depth."""
        kind, asked = type(query.query).__name__, query.query
        content = asked if isinstance(asked, str | bytes) else json.dumps(asked)
        return digest(self.label, TIES, fingerprint, self.settings(), kind, content)

    @abstractmethod
    def find_rankings(self, opened: Opened, queries: list[Any]) -> Any:
        """The rankings of queries to depth ``num_results`` in an open index."""

    def fuse_rank_cutoff(self, k: int) -> pt.Transformer:
        """This retriever with at most ``k`` passages per query, for ``retriever % k``."""
        return type(self)(**{**self.arguments(), "num_results": min(k, self.num_results)})

    def transform(self, inp: pd.DataFrame) -> pd.DataFrame:
        """Retrieve for each row of a query frame."""
        pt.validate.query_frame(inp, extra_columns=["query"], context=self)
        opened, queries = self.index.opened(), self.queries(inp)
        keys = [self.key(opened.fingerprint, query) for query in queries]

        def find(asked: list[Query]) -> list[Ranking]:
            found: list[Ranking] = self.find_rankings(opened, [query.query for query in asked])
            return found

        found = cached_rankings(dict(zip(keys, queries, strict=True)), self.num_results, open_cache(self.cache), find, self.label)
        rankings = {query.row: self._weigh(found[key], query.unit) for key, query in zip(keys, queries, strict=True)}
        results = result_frame(inp, rankings)
        return self.index.with_text(results) if self.gives_texts else results

    def _weigh(self, ranking: Ranking, unit: float) -> Ranking:
        return ranking._replace(scores=ranking.scores.astype(np.float64) * unit / self.scale)

    def __repr__(self) -> str:
        defaults = self._defaults()
        given = {name: value for name, value in self.arguments().items() if name != "index" and value != defaults[name]}
        return f"{self.index!r}.{self.method}({', '.join(f'{name}={value!r}' for name, value in given.items())})"
