"""BM25 over a :class:`PassageIndex`."""

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
from .asked import Asked, asked
from .pisa import check_bm25, version
from .pisa_search import TIES, by_pisa
from .ranking import Ranking, each_once
from .result_frame import result_frame, with_texts

if TYPE_CHECKING:
    from .passage_index import PassageIndex


class BM25(Operator):
    """BM25 retrieval that carries the passages' text; ``PassageIndex.bm25()`` makes it.

    Reads ``qid`` and ``query``; gives for every row its passages, in the order of the rows: all columns of the row (the same objects),
    ``docno``, ``score``, ``rank`` (from 0) and
    ``text``. Equal scores go by docno, the greatest first, as in trec_eval. Repeated words of a query count. A query of which nothing is
    left (empty, only stop words, not a string) has no result; turns with none are named in a ``NoResultWarning``: an expanded turn only
    when none of its sub-queries found anything.
    Where there is a column ``query_toks`` (dict term -> weight), as from ``RM3``, it is searched in the place of ``query``: its terms are
    the index's already, neither stemmed nor stopped, and count as often as they weigh, to 1/10,000 of the heaviest.
    The score is PISA's: the sum over the query's words of ``idf * (k1 + 1) * tf / (tf + k1 * (1 - b + b * length / mean length))`` with
    ``idf = log((N - df + 0.5) / (df + 0.5))``, Robertson's, and at least 1e-6: a word of half of the passages counts next to nothing.
    Lucene's idf, ``log(1 + ...)`` of the same, weighs such words more. That is all the difference: on words drawn at random bm25s shares
    the whole top 10 with Robertson's idf, .84 to .94 of it with Lucene's; on the 700 passages of ikat:2023-mini Lucene's shares .94.
    ``bm25 % k`` retrieves just k.
    Each distinct query is searched once, whatever number of rows, turns and systems ask it: rankings, without text, are kept in the
    process's shared memory (1 GiB at most, some 25,000 queries of 1000 passages) or in the file ``cache``.
    Source: Robertson and Zaragoza, The Probabilistic Relevance Framework, 2009; k1 and b as in
    Abbasiantaeb and Aliannejadi, Generate then Retrieve, section 4.

    Args:
        index: the index to search.
        k1: how slowly repetitions of a word in a passage saturate.
        b: how much long passages are held back, 0 to 1.
        num_results: passages per query at most.
        cache: a file in which rankings are kept for other processes and later runs; made when missing.

    Raises:
        UsageError: when ``k1``, ``b`` or ``num_results`` is out of range.
        DataError: when the index isn't there or isn't whole, or a row's ``query_toks`` isn't a dict of weights.

    Example:
        >>> import pyterrier_ikat as ikat
        >>> ikat.PassageIndex("mini.index").bm25(k1=1.2, b=0.75)  # doctest: +SKIP
        ikat.PassageIndex('mini.index').bm25(k1=1.2, b=0.75)
    """

    schematic = {"label": "BM25"}

    def __init__(
        self, index: "PassageIndex", k1: float = 0.9, b: float = 0.4, num_results: int = 1000, cache: str | Path | None = None
    ) -> None:
        super().__init__()
        check_bm25(k1, b)
        if num_results < 1:
            raise UsageError(f"num_results={num_results!r}: retrieve at least one passage per query")
        index.describe()
        self.index = index
        self.k1 = k1
        self.b = b
        self.num_results = num_results
        self.cache = None if cache is None else str(cache)
        self._pisa: dict[tuple[str, bool, float, float], Any] = {}

    def fuse_rank_cutoff(self, k: int) -> "BM25":
        """This retriever with ``k`` passages per query at most, for ``bm25 % k``."""
        return BM25(self.index, self.k1, self.b, min(k, self.num_results), self.cache)

    def transform(self, inp: pd.DataFrame) -> pd.DataFrame:
        """Retrieve for each row of a query frame."""
        pt.validate.query_frame(inp, extra_columns=["query"], context=self)
        check_bm25(self.k1, self.b)  # which pt.GridSearch sets
        questions = asked(inp)
        index = self.index.fingerprint()
        keys = [self._key(index, question) for question in questions]
        queries = {key: question.query for key, question in zip(keys, questions, strict=True)}
        found = each_once(queries, self.num_results, shared(self.cache), partial(self._search, index), "BM25")
        rankings = {question.row: _weighed(found[key], question.unit) for key, question in zip(keys, questions, strict=True)}
        return with_texts(result_frame(inp, rankings), self.index.texts)

    def _key(self, index: str, question: Asked) -> bytes:
        kind = "text" if isinstance(question.query, str) else "terms"
        return digest("bm25", version(), TIES, index, f"{self.k1:g} {self.b:g}", kind, question.key())

    def _search(self, index: str, queries: list[Any]) -> list[Ranking]:
        terms = not isinstance(queries[0], str)
        return by_pisa(copy(self._retriever(index, terms)), "query_toks" if terms else "query", queries, self.num_results)

    def _retriever(self, index: str, terms: bool) -> Any:
        key = (index, terms, self.k1, self.b)
        if key not in self._pisa:
            threads = min(max(os.cpu_count() or 2, 2), 16)  # with one thread PISA keeps Python's lock while it searches
            self._pisa[key] = self.index.retriever(self.k1, self.b, self.num_results + 1, threads, terms)
        return self._pisa[key]

    def __getstate__(self) -> dict[str, Any]:
        return self.__dict__ | {"_pisa": {}}  # an open index can't be sent to another process

    def __repr__(self) -> str:
        defaults = {"k1": 0.9, "b": 0.4, "num_results": 1000, "cache": None}
        shown = [f"{name}={value!r}" for name, value in self.arguments().items() if name in defaults and value != defaults[name]]
        return f"{self.index!r}.bm25({', '.join(shown)})"


def _weighed(ranking: Ranking, unit: float) -> Ranking:
    return ranking._replace(scores=ranking.scores.astype(np.float64) * unit)
