"""What all re-rankers share.

Each distinct pair is scored once, rows are ordered by score, and errors are raised.
"""

import math
import struct
import threading
from abc import abstractmethod
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import pandas as pd
import pyterrier as pt

from ..conversations.frame import texts_in, turns_of, well_formed
from ..operator import Operator
from ..order import finite_scores, order_by_score, set_ranks
from ..store.cache import Cache, compute_missing, digest

Floats = npt.NDArray[np.float64]


def as_texts(frame: pd.DataFrame, name: str) -> list[str]:
    """Return a column as texts for a tokenizer.

    Raises:
        DataError: when rows have no text; it names their turns.
    """
    return [well_formed(text) for text in texts_in(frame, name)]


def distinct(texts: Sequence[Any]) -> tuple[npt.NDArray[np.int64], list[Any]]:
    """Number the distinct texts in the order of their first occurrence.

    Returns:
        For each of ``texts`` its number, and the distinct texts.
    """
    numbers: dict[Any, int] = {}
    of_texts = [numbers.setdefault(text, len(numbers)) for text in texts]
    return np.array(of_texts, dtype=np.int64), list(numbers)


def longest_first(lengths: Sequence[int]) -> npt.NDArray[np.int64]:
    """Return the order by length, the longest first.

    Then batches need little padding, and too little memory shows at once.
    """
    return np.argsort(-np.asarray(lengths, dtype=np.int64), kind="stable")


def ranked_by(frame: pd.DataFrame, scores: Floats, model: str) -> pd.DataFrame:
    """Set these scores and new ranks from 0, and order each turn by :func:`order_by_score`.

    Turns are in the order of their first occurrence.

    Raises:
        DataError: when a row has no qid, or a score is not a finite number.
    """
    scores = finite_scores(frame.assign(score=scores), model)
    turn = turns_of(frame)
    order = order_by_score(frame, turn, scores)
    ordered = frame.take(order).reset_index(drop=True)
    return set_ranks(ordered, turn[order], scores[order], by_docno=True)


class Reranker(Operator):
    """Base of operators that re-rank passages by their text; a subclass scores each row."""

    loads_models = True
    activity = "re-ranking {passages}"

    @abstractmethod
    def score(self, frame: pd.DataFrame) -> Floats:
        """Return the score of each row. There is at least one row."""

    def transform(self, inp: pd.DataFrame) -> pd.DataFrame:
        """Re-rank a result frame."""
        pt.validate.result_frame(inp, extra_columns=["query", "text"], context=self)
        if len(inp) == 0:
            return inp.assign(score=np.empty(0), rank=np.empty(0, dtype=np.int64))
        return ranked_by(inp, self.score(inp), repr(self))


Score = Callable[[list[tuple[str, str]]], Floats]

PAIRS_AT_ONCE = 2048
"""The number of pairs scored between two writes to the cache. A killed run loses at most these."""
SCORE_BYTES = struct.Struct("<d")

scoring = threading.Lock()
"""One thread scores at a time.

Other threads may need the same pairs, and would share the same processor anyway.
"""


def scored_once(
    queries: Sequence[str], texts: Sequence[str], model: bytes, cache: Cache, score: Score
) -> Floats:
    """Return the score of each query and its text.

    Args:
        queries: one per row.
        texts: one per row.
        model: the model's fingerprint.
        cache: the known scores, to which new ones are added. A score that isn't finite is not kept.
        score: returns the scores of a list of distinct pairs, in their order.
    """
    query_digests = {query: digest(model, query) for query in set(queries)}
    text_digests = {text: digest(text) for text in set(texts)}
    keys = []
    pairs = {}
    for query, text in zip(queries, texts, strict=True):
        key = query_digests[query] + text_digests[text]
        keys.append(key)
        pairs[key] = (query, text)

    def compute(part: list[tuple[str, str]]) -> list[float]:
        return score(part).tolist()  # type: ignore[no-any-return]

    with scoring:
        scores = compute_missing(
            cache,
            pairs,
            compute,
            encode=_if_finite,
            decode=_read_score,
            at_once=PAIRS_AT_ONCE,
            label="re-ranking",
            unit="pair",
        )
    return np.array([scores[key] for key in keys])


def _if_finite(score: float) -> bytes | None:
    return SCORE_BYTES.pack(score) if math.isfinite(score) else None


def _read_score(content: bytes) -> float:
    [score] = SCORE_BYTES.unpack(content)
    return float(score)
