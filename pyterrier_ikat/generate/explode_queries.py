"""From one row per turn to one row per sub-query."""

from collections.abc import Iterable
from typing import Any

import pandas as pd
import pyterrier as pt

from ..conversations.frame import each_turn_once, texts_in, values, with_columns, with_query
from ..errors import DataError, UsageError
from ..operator import Operator


class ExplodeQueries(Operator):
    """Make one row per sub-query, so that any retriever works on each.

    Reads ``qid``, ``query``, ``qsubqueries``. Writes ``qid`` = ``<turn>::<n>`` (unique again), ``qid_0`` (the turn's
    qid), ``qquery`` (the turn's query), ``qsub`` (0, 1, ...) and ``query`` (the sub-query; the turn's query is pushed to
    ``query_0``). ``Interleave``, ``Union``, ``RRF``, ``MeanScore`` and ``RerankAgainst`` undo it. A turn with an empty list, or
    none, keeps its query as its only sub-query. Where the frame has ``qweights`` (see :class:`PassageQueries`), each row
    gets its own ``qweight``, 1 for a turn's query.

    Raises:
        UsageError: when the frame is expanded already.
        DataError: when a turn has several rows, sub-queries that are no list of texts, or another number of weights than of sub-queries.

    Example:
        >>> import pandas as pd, pyterrier_ikat as ikat
        >>> frame = pd.DataFrame([{"qid": "9-1_3", "query": "it?", "qsubqueries": ["a", "b"]}])
        >>> ikat.ExplodeQueries()(frame)[["qid", "query", "query_0"]].values.tolist()
        [['9-1_3::0', 'a', 'it?'], ['9-1_3::1', 'b', 'it?']]
    """

    schematic = {"label": "Explode queries"}

    def transform(self, inp: pd.DataFrame) -> pd.DataFrame:
        """One row per sub-query, in order."""
        pt.validate.query_frame(inp, extra_columns=["query", "qsubqueries"], context=self)
        if "qid_0" in inp.columns:
            raise UsageError(
                "the frame has one row per sub-query already: join them (ikat.Interleave, Union, RRF, RerankAgainst) before ExplodeQueries"
            )
        each_turn_once(inp)
        rows_of = zip(inp["qid"], values(inp, "qsubqueries", []), texts_in(inp, "query"), strict=True)
        lists = [_checked(qid, queries) or [query] for qid, queries, query in rows_of]
        weights = _weights(inp)
        rows = [row for row, queries in enumerate(lists) for _ in queries]
        numbers = [number for queries in lists for number in range(len(queries))]
        texts = [text for queries in lists for text in queries]
        expanded = inp.iloc[rows].reset_index(drop=True)
        qids = [f"{qid}::{number}" for qid, number in zip(expanded["qid"], numbers, strict=True)]
        expanded = with_columns(expanded, qid_0=expanded["qid"], qquery=expanded["query"], qid=qids)
        expanded = expanded.assign(qsub=pd.Series(numbers, dtype="int64"))
        if weights is not None:
            expanded = expanded.assign(qweight=pd.Series(weights, dtype="float64"))
        return with_query(expanded, texts)


def _checked(qid: str, queries: Any) -> list[str]:
    if isinstance(queries, str) or not isinstance(queries, Iterable) or not all(isinstance(query, str) for query in queries):
        raise DataError(f"turn {qid} has the sub-queries {queries!r:.80}: give a list of texts")
    return list(queries)


def _weights(frame: pd.DataFrame) -> list[float] | None:
    if "qweights" not in frame.columns:
        return None
    weights: list[float] = []
    for qid, queries, row in zip(frame["qid"], values(frame, "qsubqueries", []), values(frame, "qweights", []), strict=True):
        if len(queries) != len(row):
            raise DataError(f"turn {qid} has {len(queries)} sub-queries but {len(row)} weights: write both columns anew, or drop qweights")
        weights += [float(weight) for weight in row] or [1.0]
    return weights
