"""The base class of retrievers that search an index, and the result frame of their rankings."""

import json
from abc import abstractmethod
from collections.abc import Mapping, Sequence
from functools import partial
from itertools import chain
from pathlib import Path
from typing import Any, ClassVar, NamedTuple

import numpy as np
import pandas as pd
import pyterrier as pt

from ..arguments import at_least
from ..conversations.frame import (
    STALE_WITH_QUERY,
    column,
    each_turn_once,
    report_turns_without_result,
)
from ..operator import Operator, with_fields
from ..order import ranks_and_scores
from ..store.cache import compute_missing, digest, open_cache
from .artifact import Opened
from .rankings import NO_PASSAGES, Ranking, packed, unpacked

TIES = "the greatest docno first"
"""Part of a cached ranking's key. Rankings with another order of ties have another key."""
AT_ONCE = 256


REPLACED = ("docno", "score", "rank", "text")


def result_frame(inp: pd.DataFrame, rankings: Mapping[int, Ranking]) -> pd.DataFrame:
    """The rows of ``inp`` with their passages, in the order of the rows.

    A ``NoResultWarning`` names the turns without a passage.

    Args:
        inp: a query frame.
        rankings: the rankings by the position of the row in ``inp``. Rows without a ranking have no
            passage.

    Returns:
        All columns of ``inp`` (the same objects), ``docno``, ``score`` and ``rank``, from 0.
    """
    each_turn_once(inp)
    found = [rankings.get(row, NO_PASSAGES) for row in range(len(inp))]
    docnos, scores = zip(
        *found, NO_PASSAGES, strict=True
    )  # at least one element, also for a frame without rows
    counts = np.array(list(map(len, docnos)), dtype=np.int64)[:-1]
    report_turns_without_result(inp, counts)
    if replaced := [name for name in (*STALE_WITH_QUERY, *REPLACED) if name in inp.columns]:
        inp = inp.drop(columns=replaced)
    dtypes = zip(inp.columns.tolist(), inp.dtypes.tolist(), strict=True)
    if others := [
        name
        for name, dtype in dtypes
        if not (pd.api.types.is_object_dtype(dtype) or pd.api.types.is_numeric_dtype(dtype))
    ]:
        inp = inp.astype(
            dict.fromkeys(others, object)
        )  # first: pandas' string columns copy a long query for each passage
    turns = np.repeat(np.arange(len(inp)), counts)
    queries = inp.take(turns).reset_index(drop=True)
    named = column(chain.from_iterable(docnos))
    rank, score = ranks_and_scores(turns, np.concatenate(scores).astype(np.float64), named)
    return pd.concat(
        [queries, pd.DataFrame({"docno": named, "score": score, "rank": rank}, copy=False)], axis=1
    )


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

    A subclass names its settings for the cache (:meth:`settings`) and finds rankings
    (:meth:`find_rankings`).

    Args:
        index: the index to search.
        num_results: the maximum number of passages per query.
        cache: a file that keeps rankings for other processes and later runs; created if missing.
    """

    activity = "searching {queries}"
    label: ClassVar[str]
    method: ClassVar[str]
    """The name of the index's method that makes this retriever."""
    settings: ClassVar[Sequence[str]] = ()
    """The arguments that determine a ranking besides the index, the query and the depth."""
    scale: ClassVar[int] = 1
    """The engine's scores are this many times the returned scores."""

    index: Any  # of the kind that the retriever searches
    num_results: int = 1000
    cache: str | Path | None = None

    def __post_init__(self) -> None:
        at_least(1, num_results=self.num_results)
        self.index.opened()
        self.cache = None if self.cache is None else str(self.cache)

    def analysis(self) -> dict[str, Any]:
        """Return how its index makes words of texts: ``stemmer`` and ``stops``, where it has them."""
        described = self.index.describe()
        return {name: described[name] for name in ("stemmer", "stops") if name in described}

    def queries(self, frame: pd.DataFrame) -> list[Query]:
        """The queries of those rows that have one; by default the texts that aren't blank."""
        return [
            Query(row, query)
            for row, query in enumerate(frame["query"])
            if isinstance(query, str) and query.strip()
        ]

    def key(self, fingerprint: str, query: Query) -> bytes:
        """The cache key: everything that determines a ranking except its depth."""
        kind, asked = type(query.query).__name__, query.query
        content = asked if isinstance(asked, str | bytes) else json.dumps(asked)
        settings = json.dumps([getattr(self, name) for name in self.settings])
        return digest(self.label, TIES, fingerprint, settings, kind, content)

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

        found = compute_missing(
            open_cache(self.cache),
            dict(zip(keys, queries, strict=True)),
            find,
            encode=partial(packed, depth=self.num_results),
            decode=partial(unpacked, depth=self.num_results),
            at_once=AT_ONCE,
            label=self.label,
            unit="query",
        )
        rankings: dict[int, Ranking] = {}
        for key, query in zip(keys, queries, strict=True):
            docnos, scores = found[key]
            rankings[query.row] = Ranking(
                docnos, scores.astype(np.float64) * query.unit / self.scale
            )
        results = result_frame(inp, rankings)
        return self.index.with_text(results) if self.gives_texts else results

    def __repr__(self) -> str:
        defaults = self._defaults()
        given = {
            name: value
            for name, value in self.arguments().items()
            if name != "index" and value != defaults[name]
        }
        return f"{self.index!r}.{self.method}({', '.join(f'{name}={value!r}' for name, value in given.items())})"
