"""Rankings of distinct queries, each searched once, as the rows of a result frame."""

import json
import math
import struct
from collections.abc import Callable, Mapping
from itertools import islice
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import pandas as pd
from tqdm.auto import tqdm

from ..conversations.frame import STALE_WITH_QUERY, each_turn_once
from ..conversations.no_result import report_turns_without_result
from ..errors import DataError
from ..order import set_ranks
from ..store.results import ResultCache
from .plain import plain

AT_ONCE = 256
HEADER = struct.Struct("<II")


class Ranking(NamedTuple):
    """The passages of one query, best first, and their scores."""

    docnos: list[str]
    scores: npt.NDArray[np.floating[Any]]

    def best(self, depth: int) -> "Ranking":
        """The first ``depth`` of them."""
        return Ranking(self.docnos[:depth], self.scores[:depth])


NOTHING = Ranking([], np.empty(0, dtype=np.float32))


def packed(ranking: Ranking, depth: int) -> bytes:
    """A ranking of PISA, searched to ``depth``, as bytes: depth, number of passages, scores in PISA's 32 bits, docnos by line."""
    scores = ranking.scores.astype("<f4").tobytes()
    return HEADER.pack(depth, len(ranking.docnos)) + scores + "\n".join(ranking.docnos).encode()


def unpacked(value: bytes, depth: int) -> Ranking | None:
    """The first ``depth`` passages of a packed ranking; None when it was searched less deep and may have missed some."""
    searched, count = HEADER.unpack_from(value)
    if searched < depth and count == searched:
        return None
    scores = np.frombuffer(value, "<f4", count, HEADER.size)
    docnos = value[HEADER.size + scores.nbytes :].decode().split("\n") if count else []
    return Ranking(docnos, scores).best(depth)


def each_once(
    queries: Mapping[bytes, Any], depth: int, cache: ResultCache, search: Callable[[list[Any]], list[Ranking]], label: str
) -> dict[bytes, Ranking]:
    """The ranking of each query; only those that ``cache`` doesn't have are searched.

    Args:
        queries: by a key that stands for everything that decides the ranking but the depth.
        depth: passages per query at most.
        cache: where rankings are kept, empty ones too. A deeper ranking serves: its beginning is the shallower one.
        search: gives the rankings of up to 256 queries, ``depth`` deep.
        label: the progress bar's.
    """
    known = ((key, unpacked(value, depth)) for key, value in cache.get(list(queries)).items())
    found = {key: ranking for key, ranking in known if ranking is not None}
    missing = iter([key for key in queries if key not in found])
    with tqdm(total=len(queries), initial=len(found), desc=label, unit="query", delay=2, leave=False) as bar:
        while batch := list(islice(missing, AT_ONCE)):
            new = dict(zip(batch, search([queries[key] for key in batch]), strict=True))
            cache.put({key: packed(ranking, depth) for key, ranking in new.items()})
            found |= new
            bar.update(len(batch))
    return found


STEPS = 10_000
"""PISA takes whole numbers as weights: the heaviest term of a query gets this one. A million would be 300 times as slow."""


class Asked(NamedTuple):
    """What one row asks.

    Attributes:
        row: its position in the frame.
        query: as PISA takes it: text, or how often each term counts.
        unit: by which the scores are to be multiplied, so that terms of weight 1 score like the words of a query.
    """

    row: int
    query: str | dict[str, int]
    unit: float

    def key(self) -> bytes:
        """Bytes that are equal where the query is."""
        return (self.query if isinstance(self.query, str) else json.dumps(self.query)).encode()


def asked(frame: pd.DataFrame) -> list[Asked]:
    """What those rows of a query frame ask that ask for anything.

    Raises:
        DataError: when ``query_toks`` is there and isn't a dict of terms to finite weights in every row.
    """
    if "query_toks" not in frame.columns:
        texts = [plain(query) for query in frame["query"]]
        return [Asked(row, text, 1.0) for row, text in enumerate(texts) if text.strip()]
    weighted = [_checked(qid, toks) for qid, toks in zip(frame["qid"], frame["query_toks"], strict=True)]
    units = [max(toks.values(), default=0.0) / STEPS for toks in weighted]
    found = [Asked(row, _steps(toks, unit), unit) for row, (toks, unit) in enumerate(zip(weighted, units, strict=True))]
    return [one for one in found if one.query]


def _checked(qid: str, toks: Any) -> dict[str, float]:
    if not isinstance(toks, Mapping) or not all(isinstance(w, int | float | np.number) and math.isfinite(w) for w in toks.values()):
        raise DataError(f"query_toks of {qid} is {str(toks)[:80]}: give a dict of terms to weights, or drop the column to search query")
    return {str(term): float(weight) for term, weight in toks.items() if weight > 0}


def _steps(toks: Mapping[str, float], unit: float) -> dict[str, int]:
    steps = {plain(term): round(weight / unit) for term, weight in toks.items()}
    return {term: count for term, count in sorted(steps.items()) if count > 0}


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
    return set_ranks(found_by, np.repeat(np.arange(len(inp)), counts), scores, by_docno=True)


def with_texts(frame: pd.DataFrame, texts: Callable[[list[str]], list[str]]) -> pd.DataFrame:
    """``frame`` with the column ``text`` by ``docno``; a distinct passage's text is fetched once, and its rows share it."""
    codes, docnos = pd.factorize(frame["docno"].to_numpy(dtype=object), use_na_sentinel=False)
    found = np.empty(len(docnos), dtype=object)
    found[:] = texts(docnos.tolist()) if len(docnos) else []
    return frame.assign(text=pd.Series(found[codes], index=frame.index, dtype=object))


def _repeated(values: "pd.Series[Any]", counts: Any) -> "pd.Series[Any]":
    dtype = values.dtype if pd.api.types.is_numeric_dtype(values.dtype) else object
    return pd.Series(np.repeat(values.to_numpy(dtype=dtype), counts), dtype=dtype)
