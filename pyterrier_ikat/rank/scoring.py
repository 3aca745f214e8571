"""What the re-rankers share: each distinct thing once, the new order, and errors that say what to do."""

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import pandas as pd

from ..conversations.frame import texts_in, turns_of, well_formed
from ..errors import UsageError
from ..order import by_score, ranked

Floats = npt.NDArray[np.float64]


def as_texts(frame: pd.DataFrame, name: str) -> list[str]:
    """The column as texts that a tokenizer takes.

    Raises:
        DataError: naming the turns of rows without a text.
    """
    return [well_formed(text) for text in texts_in(frame, name)]


def distinct(texts: Sequence[Any]) -> tuple[npt.NDArray[np.int64], list[Any]]:
    """For each of ``texts`` the number of its value, and the distinct values, in the order of their first occurrence."""
    numbers: dict[Any, int] = {}
    codes = np.fromiter((numbers.setdefault(text, len(numbers)) for text in texts), dtype=np.int64, count=len(texts))
    return codes, list(numbers)


def longest_first(lengths: Sequence[int]) -> npt.NDArray[np.int64]:
    """The order in which texts of about equal length stand together, the longest first: batches without padding, memory trouble at once."""
    return np.argsort(-np.asarray(lengths, dtype=np.int64), kind="stable")


def ranked_by(frame: pd.DataFrame, scores: Floats, model: str) -> pd.DataFrame:
    """The frame with these scores, turns in their order of first occurrence, each ranked anew from 0 (see :func:`by_score`).

    Raises:
        DataError: when a row has no qid.
        UsageError: when a score is not a finite number, naming the passage.
    """
    if not np.isfinite(scores).all():
        row = frame.iloc[int(np.flatnonzero(~np.isfinite(scores))[0])]
        raise UsageError(
            f"{model} gave no finite score to passage {row['docno']} of {row['qid']}: "
            "its weights are damaged, or its backend can't run it, use another"
        )
    turn = turns_of(frame)
    order = by_score(frame, turn, scores)
    return ranked(frame.take(order).reset_index(drop=True), turn[order], scores[order], by_docno=True)


def as_given(frame: pd.DataFrame) -> pd.DataFrame:
    """An empty frame with the columns that a re-ranker gives."""
    return frame.assign(score=np.empty(0), rank=np.empty(0, dtype=np.int64))
