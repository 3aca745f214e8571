"""Retrieval over a :class:`SpladeIndex`."""

import os
from copy import copy
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd
import pyterrier as pt

from ..errors import UsageError
from ..operator import Operator
from ..result_cache import digest, shared
from .impacts import SCALE
from .pisa import version
from .pisa_search import TIES, by_pisa
from .ranking import Ranking, each_once
from .result_frame import result_frame

if TYPE_CHECKING:
    from .splade_index import SpladeIndex


class SpladeRetriever(Operator):
    """Learned sparse retrieval; ``SpladeIndex.retriever()`` makes it.

    Reads ``qid`` and ``query``; gives for every row its passages, in the order of the rows: all columns of the row (the same objects),
    ``docno``, ``score``, ``rank`` (from 0), and ``text`` where the index has the passages' text or a loader for it. The score is the dot
    product of the query's and the passage's vector, their weights rounded to hundredths. Equal scores go by docno, the greatest
    first, as in trec_eval.
    Each distinct query is encoded and searched once, as by :class:`BM25`; it is cut off at the tokens that the model can read. A query
    that is blank, not a string, or encoded as an empty vector has no
    result; turns with none are named in a ``NoResultWarning``: an expanded turn only when none of its sub-queries found anything.
    ``retriever % k`` retrieves just k. Source: Formal et al., From Distillation to Hard Negative Sampling, SIGIR 2022; in iKAT:
    IRLab@iKAT24, section 3.1.

    Args:
        index: the index to search.
        num_results: passages per query at most.
        cache: a file in which rankings are kept for other processes and later runs; made when missing.

    Raises:
        UsageError: when ``num_results`` is out of range; at first use, when the model can't be loaded.
        DataError: when the index isn't there, isn't whole, or wasn't made by this model.

    Example:
        >>> import pyterrier_ikat as ikat
        >>> ikat.SpladeIndex("splade.index").retriever(num_results=100)  # doctest: +SKIP
        ikat.SpladeIndex('splade.index').retriever(num_results=100)
    """

    schematic = {"label": "SPLADE"}

    def __init__(self, index: "SpladeIndex", num_results: int = 1000, cache: str | Path | None = None) -> None:
        super().__init__()
        if num_results < 1:
            raise UsageError(f"num_results={num_results!r}: retrieve at least one passage per query")
        index.describe()
        self.index = index
        self.num_results = num_results
        self.cache = None if cache is None else str(cache)
        self._pisa: dict[str, Any] = {}

    def fuse_rank_cutoff(self, k: int) -> "SpladeRetriever":
        """This retriever with ``k`` passages per query at most, for ``retriever % k``."""
        return SpladeRetriever(self.index, min(k, self.num_results), self.cache)

    def transform(self, inp: pd.DataFrame) -> pd.DataFrame:
        """Retrieve for each row of a query frame."""
        pt.validate.query_frame(inp, extra_columns=["query"], context=self)
        asked = {row: query for row, query in enumerate(inp["query"]) if isinstance(query, str) and query.strip()}
        index = self.index.fingerprint()
        keys = {query: digest("splade", version(), TIES, index, query) for query in dict.fromkeys(asked.values())}
        queries = {key: query for query, key in keys.items()}
        found = each_once(queries, self.num_results, shared(self.cache), partial(self._search, index), "SPLADE")
        weighed = {key: ranking._replace(scores=ranking.scores.astype(np.float64) / SCALE**2) for key, ranking in found.items()}
        rankings = {row: weighed[keys[query]] for row, query in asked.items()}
        return self.index.with_text(result_frame(inp, rankings))

    def _search(self, index: str, queries: list[str]) -> list[Ranking]:
        vectors = self.index.encode_queries(queries)
        return by_pisa(copy(self._retriever(index)), "query_toks", vectors, self.num_results)

    def _retriever(self, index: str) -> Any:
        if index not in self._pisa:
            threads = min(max(os.cpu_count() or 2, 2), 16)  # with one thread PISA keeps Python's lock while it searches
            self._pisa[index] = self.index.pisa_retriever(self.num_results, threads)
        return self._pisa[index]

    def __getstate__(self) -> dict[str, Any]:
        return self.__dict__ | {"_pisa": {}}  # an open index can't be sent to another process

    def __repr__(self) -> str:
        shown = [f"num_results={self.num_results!r}"] if self.num_results != 1000 else []
        shown += [f"cache={self.cache!r}"] if self.cache is not None else []
        return f"{self.index!r}.retriever({', '.join(shown)})"
