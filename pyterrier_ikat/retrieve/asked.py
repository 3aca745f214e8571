"""What a query frame asks of PISA: the words of ``query``, or the weighted terms of ``query_toks``."""

import json
import math
from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np
import pandas as pd

from ..errors import DataError
from .plain import plain

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
