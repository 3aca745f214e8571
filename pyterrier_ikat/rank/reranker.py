"""What all re-rankers share: each distinct pair is scored once, rows are ordered by score, and errors are raised."""

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
from ..errors import UsageError
from ..operator import Operator
from ..order import order_by_score, set_ranks
from ..store.cache import Cache, compute_missing, digest

Floats = npt.NDArray[np.float64]


def as_texts(frame: pd.DataFrame, name: str) -> list[str]:
    """The column as texts for a tokenizer.

    Raises:
        DataError: when rows have no text; it names their turns.
    """
    return [well_formed(text) for text in texts_in(frame, name)]


def distinct(texts: Sequence[Any]) -> tuple[npt.NDArray[np.int64], list[Any]]:
    """For each of ``texts`` the number of its value, and the distinct values, in the order of their first occurrence."""
    numbers: dict[Any, int] = {}
    codes = np.fromiter(
        (numbers.setdefault(text, len(numbers)) for text in texts), dtype=np.int64, count=len(texts)
    )
    return codes, list(numbers)


def longest_first(lengths: Sequence[int]) -> npt.NDArray[np.int64]:
    """The order by length, the longest first. Then batches need little padding, and too little memory shows at once."""
    return np.argsort(-np.asarray(lengths, dtype=np.int64), kind="stable")


def ranked_by(frame: pd.DataFrame, scores: Floats, model: str) -> pd.DataFrame:
    """The frame with these scores and new ranks from 0 (see :func:`order_by_score`). Turns are in the order of their first occurrence.

    Raises:
        DataError: when a row has no qid.
        UsageError: when a score is not a finite number; it names the passage.
    """
    if not np.isfinite(scores).all():
        row = frame.iloc[int(np.flatnonzero(~np.isfinite(scores))[0])]
        raise UsageError(
            f"{model} gave no finite score to passage {row['docno']} of {row['qid']}: "
            "its weights are damaged, or its backend can't run it, use another"
        )
    turn = turns_of(frame)
    order = order_by_score(frame, turn, scores)
    return set_ranks(
        frame.take(order).reset_index(drop=True), turn[order], scores[order], by_docno=True
    )


class Reranker(Operator):
    """Base of operators that re-rank passages by their text: a subclass gives the score of each row."""

    loads_models = True
    activity = "re-ranking {passages}"

    @abstractmethod
    def score(self, frame: pd.DataFrame) -> Floats:
        """The score of each row. There is at least one row."""

    def transform(self, inp: pd.DataFrame) -> pd.DataFrame:
        """Re-rank a result frame."""
        pt.validate.result_frame(inp, extra_columns=["query", "text"], context=self)
        if len(inp) == 0:
            return inp.assign(score=np.empty(0), rank=np.empty(0, dtype=np.int64))
        return ranked_by(inp, self.score(inp), repr(self))


Score = Callable[[list[tuple[str, str]]], Floats]

PAIRS_AT_ONCE = 2048
"""The number of pairs scored between two writes to the cache. A killed run loses at most these."""
SCORE = struct.Struct("<d")

scoring = threading.Lock()
"""One thread scores at a time. Other threads may need the same pairs, and would share the same processor anyway."""


def scored_once(
    queries: Sequence[str], texts: Sequence[str], model: bytes, cache: Cache, score: Score
) -> Floats:
    """The score of each query and its text.

    Args:
        queries: one per row.
        texts: one per row.
        model: the model's fingerprint.
        cache: the known scores, to which new ones are added. A score that isn't finite is not kept.
        score: returns the scores of a list of distinct pairs, in their order.
    """
    of_query, of_text = (
        {query: digest(model, query) for query in set(queries)},
        {text: digest(text) for text in set(texts)},
    )
    pairs = list(zip(queries, texts, strict=True))
    keys = [of_query[query] + of_text[text] for query, text in pairs]
    with scoring:
        found = compute_missing(
            cache,
            dict(zip(keys, pairs, strict=True)),
            lambda asked: score(asked).tolist(),
            encode=lambda value: SCORE.pack(value) if math.isfinite(value) else None,
            decode=lambda content: float(*SCORE.unpack(content)),
            at_once=PAIRS_AT_ONCE,
            label="re-ranking",
            unit="pair",
        )
    return np.array([found[key] for key in keys])
