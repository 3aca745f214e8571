"""Rankings as the rows of a result frame: object columns, and no copy of what the queries' rows hold."""

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import pandas as pd

from ..conversations.frame import STALE_WITH_QUERY, each_turn_once
from ..no_result import report_turns_without_result
from ..order import ranked
from .ranking import NOTHING, Ranking

REPLACED = ("docno", "score", "rank", "text")


def result_frame(inp: pd.DataFrame, rankings: Mapping[int, Ranking]) -> pd.DataFrame:
    """The rows of ``inp`` with their passages, in the order of the rows.

    Turns without a passage are named in a ``NoResultWarning``.

    Args:
        inp: a query frame.
        rankings: by a row's position in ``inp``; rows without a ranking have no passage.

    Returns:
        All columns of ``inp`` (the same objects), ``docno``, ``score`` and ``rank``, from 0.
    """
    each_turn_once(inp)
    found = [rankings.get(row, NOTHING) for row in range(len(inp))]
    counts = np.array([len(ranking.docnos) for ranking in found], dtype=np.int64)
    report_turns_without_result(inp, counts)
    kept = inp.drop(columns=[name for name in (*STALE_WITH_QUERY, *REPLACED) if name in inp.columns])
    columns: dict[str, Any] = {str(name): _repeated(kept[name], counts) for name in kept.columns}
    docnos = np.empty(counts.sum(), dtype=object)
    docnos[:] = [docno for ranking in found for docno in ranking.docnos]
    scores = np.concatenate([NOTHING.scores, *(ranking.scores for ranking in found)]).astype(np.float64)
    found_by = pd.DataFrame({**columns, "docno": pd.Series(docnos, dtype=object)}, copy=False)
    return ranked(found_by, np.repeat(np.arange(len(inp)), counts), scores, by_docno=True)


def with_texts(frame: pd.DataFrame, texts: Callable[[list[str]], list[str]]) -> pd.DataFrame:
    """``frame`` with the column ``text`` by ``docno``; a distinct passage's text is fetched once, and its rows share it."""
    codes, docnos = pd.factorize(frame["docno"].to_numpy(dtype=object), use_na_sentinel=False)
    found = np.empty(len(docnos), dtype=object)
    found[:] = texts(docnos.tolist()) if len(docnos) else []
    return frame.assign(text=pd.Series(found[codes], index=frame.index, dtype=object))


def _repeated(values: "pd.Series[Any]", counts: Any) -> "pd.Series[Any]":
    dtype = values.dtype if pd.api.types.is_numeric_dtype(values.dtype) else object
    return pd.Series(np.repeat(values.to_numpy(dtype=dtype), counts), dtype=dtype)
