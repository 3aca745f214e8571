"""The base class of retrievers from an index, and the result frame of their rankings."""

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

from ..conversations.frame import (
    STALE_WITH_QUERY,
    column,
    each_turn_once,
    report_turns_without_result,
)
from ..operator import Operator, with_fields
from ..order import ranks_and_scores
from ..store.cache import compute_missing, digest, open_cache
from .artifact import OpenIndex
from .rankings import NO_PASSAGES, Ranking, packed, unpacked

TIES_ORDER = "the greatest docno first"
"""Part of a cached ranking's key. Rankings with another order of ties have another key."""
QUERIES_AT_ONCE = 256
RESULT_COLUMNS = ("docno", "score", "rank", "text")


def result_frame(inp: pd.DataFrame, rankings: Mapping[int, Ranking]) -> pd.DataFrame:
    """Return the rows of ``inp`` with their passages, in the order of the rows.

    A ``NoResultWarning`` names the turns without a passage.

    Args:
        inp: a query frame.
        rankings: the rankings by the position of the row in ``inp``. Rows without a ranking have no
            passage.

    Returns:
        All columns of ``inp`` (the same objects), ``docno``, ``score`` and ``rank``, from 0.
    """
    each_turn_once(inp)
    of_rows = [rankings.get(row, NO_PASSAGES) for row in range(len(inp))]
    counts = np.array([len(ranking.docnos) for ranking in of_rows], dtype=np.int64)
    report_turns_without_result(inp, counts)
    replaced = [name for name in (*STALE_WITH_QUERY, *RESULT_COLUMNS) if name in inp.columns]
    if replaced:
        inp = inp.drop(columns=replaced)
    inp = _without_string_dtypes(inp)
    rows = np.repeat(np.arange(len(inp)), counts)
    queries = inp.take(rows).reset_index(drop=True)
    docnos = column(chain.from_iterable(ranking.docnos for ranking in of_rows))
    scores = np.concatenate([NO_PASSAGES.scores, *(ranking.scores for ranking in of_rows)])
    rank, score = ranks_and_scores(rows, scores.astype(np.float64), docnos)
    results = pd.DataFrame({"docno": docnos, "score": score, "rank": rank}, copy=False)
    return pd.concat([queries, results], axis=1)


def _without_string_dtypes(frame: pd.DataFrame) -> pd.DataFrame:
    """Make pandas' string columns object columns, to share a long query over passages."""
    strings = []
    for name, dtype in zip(frame.columns.tolist(), frame.dtypes.tolist(), strict=True):
        is_object = pd.api.types.is_object_dtype(dtype)
        if not is_object and not pd.api.types.is_numeric_dtype(dtype):
            strings.append(name)
    return frame.astype(dict.fromkeys(strings, object)) if strings else frame


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
    """Base of retrievers from an index.

    Each distinct query is searched once, unless its ranking is in the cache. A subclass names its
    settings for the cache (:meth:`settings`) and finds rankings (:meth:`find_rankings`).

    Args:
        index: the index to search.
        num_results: the maximum number of passages per query.
        cache: a file that keeps rankings for other processes and later runs; created if missing.
    """

    activity = "searching {queries}"
    least = {"num_results": 1}
    paths = ("cache",)
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
        super().__post_init__()
        self.index.opened()

    def analysis(self) -> dict[str, Any]:
        """Return the ``stemmer`` and ``stops`` of its index, if it has them."""
        described = self.index.describe()
        return {name: described[name] for name in ("stemmer", "stops") if name in described}

    def queries(self, frame: pd.DataFrame) -> list[Query]:
        """Return the queries of those rows that have one; by default texts that aren't blank."""
        queries = []
        for row, query in enumerate(frame["query"]):
            if isinstance(query, str) and query.strip():
                queries.append(Query(row, query))
        return queries

    def key(self, fingerprint: str, query: Query) -> bytes:
        """Return the cache key: everything that determines a ranking except its depth."""
        content = query.query
        kind = type(content).__name__
        if not isinstance(content, str | bytes):
            content = json.dumps(content)
        settings = json.dumps([getattr(self, name) for name in self.settings])
        return digest(self.label, TIES_ORDER, fingerprint, settings, kind, content)

    @abstractmethod
    def find_rankings(self, opened: OpenIndex, queries: list[Any]) -> Any:
        """Rank the passages of an open index for queries, to the depth ``num_results``."""

    def fuse_rank_cutoff(self, k: int) -> pt.Transformer:
        """Return this retriever with at most ``k`` passages per query, for ``retriever % k``."""
        arguments = self.arguments()
        arguments["num_results"] = min(k, self.num_results)
        return type(self)(**arguments)

    def transform(self, inp: pd.DataFrame) -> pd.DataFrame:
        """Retrieve for each row of a query frame."""
        pt.validate.query_frame(inp, extra_columns=["query"], context=self)
        opened = self.index.opened()
        queries = self.queries(inp)
        keys = [self.key(opened.fingerprint, query) for query in queries]

        def search(missing: list[Query]) -> list[Ranking]:
            rankings: list[Ranking] = self.find_rankings(opened, [query.query for query in missing])
            return rankings

        by_key = compute_missing(
            open_cache(self.cache),
            dict(zip(keys, queries, strict=True)),
            search,
            encode=partial(packed, depth=self.num_results),
            decode=partial(unpacked, depth=self.num_results),
            at_once=QUERIES_AT_ONCE,
            label=self.label,
            unit="query",
        )
        rankings: dict[int, Ranking] = {}
        for key, query in zip(keys, queries, strict=True):
            docnos, scores = by_key[key]
            scaled = scores.astype(np.float64) * query.unit / self.scale
            rankings[query.row] = Ranking(docnos, scaled)
        results = result_frame(inp, rankings)
        return self.index.with_text(results) if self.gives_texts else results

    def __repr__(self) -> str:
        defaults = self._defaults()
        arguments = []
        for name, value in self.arguments().items():
            if name != "index" and value != defaults[name]:
                arguments.append(f"{name}={value!r}")
        return f"{self.index!r}.{self.method}({', '.join(arguments)})"
