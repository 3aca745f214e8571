"""Dense retrieval: exact search for the vector of a query, and an operator that adds that vector."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyterrier as pt

from ..conversations.frame import column
from ..operator import Operator
from ..portable import digest
from .artifact import IndexArtifact
from .ranking import TIES, Ranking
from .retriever import IndexRetriever, Query
from .state import Seen


class DenseRetriever(IndexRetriever):
    """Exact dense retrieval; ``DenseIndex.dense()`` makes it.

    Reads ``qid`` and ``query``; returns the passages of every row, in the order of the rows, with all columns of the row (the same
    objects), ``docno``, ``score``, ``rank`` (from 0), and ``text`` if the index has the passages' text or a loader for it. The score is the
    cosine (-1 to 1) or the dot product of the query's and the passage's vector, depending on how the index was built. It doesn't depend on
    the other passages. Equal scores are ordered by docno, the greatest first, as in trec_eval.

    If the frame has a column ``query_vec`` (a vector), as from ``DenseIndex.query_encoder()`` or from feedback, it is searched instead of
    ``query``. Each distinct query is encoded and searched once, as in :class:`BM25`. It is truncated at the model's limit. A query that is
    blank or not a string has no result. A ``NoResultWarning`` names the turns without results. It names a turn with sub-queries only when
    none of them found anything. ``retriever % k`` retrieves only k passages.

    Source: Reimers and Gurevych, Sentence-BERT, EMNLP 2019; Karpukhin et al., Dense Passage Retrieval, EMNLP 2020.

    Args:
        index: the index to search.
        num_results: the maximum number of passages per query.
        cache: a file that keeps rankings for other processes and later runs; created if missing.
        query_prefix: the text before each query; None takes the index's own prefix.
        device: the device that multiplies vectors. ``"auto"`` is a GPU if there is one. The result is the same on every device.

    Raises:
        UsageError: when ``num_results`` is out of range. At first use, when the model can't be loaded, or isn't the one that encoded the
            passages.
        DataError: when the index is missing or incomplete, or ``query_vec`` isn't a vector of the index's dimensions.

    Example:
        >>> import pyterrier_ikat as ikat
        >>> ikat.DenseIndex("dense.index").dense(num_results=100)  # doctest: +SKIP
        ikat.DenseIndex('dense.index').dense(num_results=100)
    """

    schematic = {"label": "Dense"}
    reads_texts = False
    label, method = "dense", "dense"

    def __init__(
        self,
        index: IndexArtifact,
        num_results: int = 1000,
        cache: str | Path | None = None,
        query_prefix: str | None = None,
        device: str = "auto",
    ) -> None:
        super().__init__(index, num_results, cache)
        self.query_prefix = query_prefix
        self.device = device

    def queries(self, frame: pd.DataFrame, seen: Seen) -> list[Query]:
        """The texts that aren't blank, or ``query_vec``."""
        if "query_vec" not in frame.columns:
            return super().queries(frame, seen)
        vectors = self.index.as_queries(frame["qid"].tolist(), frame["query_vec"].tolist())
        return [Query(row, vector.tobytes()) for row, vector in enumerate(vectors) if vector.any()]

    def key(self, fingerprint: str, query: Query) -> bytes:
        """The cache key: the index, its model and the query."""
        kind = "text" if isinstance(query.query, str) else "vector"
        return digest("dense", TIES, fingerprint, json.dumps(self.query_prefix), kind, query.query)

    def find_rankings(self, seen: Seen, queries: list[Query]) -> list[Ranking]:
        """Search the vectors of the index."""
        given = [query.query for query in queries]
        if isinstance(given[0], str):
            asked = self.index.encode_queries(given, self.query_prefix)
        else:
            asked = np.stack([np.frombuffer(query, dtype=np.float32) for query in given])
        return self.index.search(seen, asked, self.num_results, self.device)  # type: ignore[no-any-return]


class QueryEncoder(Operator):
    """Adds the column ``query_vec``, the vector of ``query`` by an index's model; ``DenseIndex.query_encoder()`` makes it.

    The retrievers of ``DenseIndex.flex`` read it. Rows, their order and all other columns are unchanged. Each distinct query is encoded
    once, and rows with the same query share one vector. A query that is blank or not a string gets a vector of zeros, for which
    ``DenseRetriever`` finds nothing.

    Args:
        index: the index.
        query_prefix: the text before each query; None takes the index's own prefix.

    Raises:
        UsageError: when the model can't be loaded.

    Example:
        >>> import pyterrier_ikat as ikat
        >>> index = ikat.DenseIndex("dense.index")  # doctest: +SKIP
        >>> approximate = index.query_encoder() >> index.flex.faiss_hnsw_retriever()  # doctest: +SKIP
    """

    schematic = {"label": "Encode query"}
    one_row_per_turn = True

    def __init__(self, index: IndexArtifact, query_prefix: str | None = None) -> None:
        super().__init__()
        self.index: Any = index
        self.query_prefix = query_prefix

    def transform(self, inp: pd.DataFrame) -> pd.DataFrame:
        """Encode the queries of a query frame."""
        pt.validate.query_frame(inp, extra_columns=["query"], context=self)
        codes, queries = pd.factorize(inp["query"].to_numpy(dtype=object), use_na_sentinel=False)
        worded = [place for place, query in enumerate(queries) if isinstance(query, str) and query.strip()]
        vectors = np.zeros((len(queries), self.index.describe()["size"]), dtype=np.float32)
        if worded:
            vectors[worded] = self.index.encode_queries([queries[place] for place in worded], self.query_prefix)
        return inp.assign(query_vec=column(vectors).take(codes).set_axis(inp.index))

    def __repr__(self) -> str:
        given = "" if self.query_prefix is None else f"query_prefix={self.query_prefix!r}"
        return f"{self.index!r}.query_encoder({given})"
