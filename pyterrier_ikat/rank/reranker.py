"""What all re-rankers share: each distinct pair is scored once, rows are ordered by score, and errors are raised."""

import threading
from abc import abstractmethod
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import pandas as pd
import pyterrier as pt

from ..conversations.frame import texts_in, turns_of, well_formed
from ..errors import UsageError
from ..operator import Operator
from ..order import order_by_score, set_ranks
from ..portable import digest
from ..store.cache import Cache, parts_of

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
    codes = np.fromiter((numbers.setdefault(text, len(numbers)) for text in texts), dtype=np.int64, count=len(texts))
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
    return set_ranks(frame.take(order).reset_index(drop=True), turn[order], scores[order], by_docno=True)


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


Hashes = npt.NDArray[np.bytes_]
Numbers = npt.NDArray[np.int64]
Score = Callable[[list[tuple[str, str]]], Floats]

PAIRS_AT_ONCE = 2048
"""The number of pairs scored between two writes to the cache. A killed run loses at most these."""
HASH, SCORE = np.dtype("S16"), np.dtype(np.float64)

scoring = threading.Lock()
"""One thread scores at a time. Other threads may need the same pairs, and would share the same processor anyway."""


def scored_once(queries: Sequence[str], texts: Sequence[str], model: bytes, cache: Cache, score: Score) -> Floats:
    """The score of each query and its text.

    Args:
        queries: one per row.
        texts: one per row.
        model: the model's fingerprint.
        cache: the known scores, to which new ones are added. A score that isn't finite is not kept.
        score: returns the scores of a list of distinct pairs, in their order.
    """
    query_codes, query_values = distinct(queries)
    text_codes, text_values = distinct(texts)
    pairs, places = np.unique(query_codes * len(text_values) + text_codes, return_inverse=True)
    of_query, of_text = np.divmod(pairs, len(text_values))
    keys = [digest(model, query) for query in query_values]
    hashes = np.array([digest(text) for text in text_values], dtype=HASH)[of_text]
    with scoring:
        scores = _known(cache, keys, of_query, hashes)
        missing = np.flatnonzero(np.isnan(scores))
        for place in parts_of(len(missing), PAIRS_AT_ONCE, "re-ranking", "pair"):
            part = missing[place]
            asked = [(query_values[query], text_values[text]) for query, text in zip(of_query[part], of_text[part], strict=True)]
            scores[part] = score(asked)
            _keep(cache, keys, of_query[part], hashes[part], scores[part])
    return np.asarray(scores[places])


def _known(cache: Cache, keys: Sequence[bytes], of_query: Numbers, hashes: Hashes) -> Floats:
    """The scores in the cache, and NaN for the others; ``of_query`` must be sorted."""
    scores = np.full(len(hashes), np.nan)
    entries = cache.get(keys)
    bounds = np.searchsorted(of_query, np.arange(len(keys) + 1))
    for key, start, end in zip(keys, bounds[:-1], bounds[1:], strict=True):
        if key in entries:
            scores[start:end] = look_up(entries[key], hashes[start:end])
    return scores


def _keep(cache: Cache, keys: Sequence[bytes], of_query: Numbers, hashes: Hashes, scores: Floats) -> None:
    of_key = {keys[number]: of_query == number for number in np.unique(of_query)}

    def with_ours(entries: Mapping[bytes, bytes]) -> dict[bytes, bytes]:
        return {key: merged(entries.get(key, b""), hashes[ours], scores[ours]) for key, ours in of_key.items()}

    cache.revise(list(of_key), with_ours)


def merged(entry: bytes, hashes: Hashes, scores: Floats) -> bytes:
    """The entry with these scores added. Scores that aren't finite are omitted."""
    old_hashes, old_scores = _arrays(entry)
    finite = np.isfinite(scores)
    all_hashes, first = np.unique(np.concatenate([old_hashes, hashes[finite]]), return_index=True)
    return bytes(all_hashes.tobytes() + np.concatenate([old_scores, scores[finite]])[first].tobytes())


def look_up(entry: bytes, hashes: Hashes) -> Floats:
    """The scores of these texts, and NaN for texts without a score."""
    known, scores = _arrays(entry)
    if len(known) == 0:
        return np.full(len(hashes), np.nan)
    places = np.minimum(np.searchsorted(known, hashes), len(known) - 1)
    return np.where(known[places] == hashes, scores[places], np.nan)


def _arrays(entry: bytes) -> tuple[Hashes, Floats]:
    count = len(entry) // (HASH.itemsize + SCORE.itemsize)
    return np.frombuffer(entry, HASH, count), np.frombuffer(entry, SCORE, count, count * HASH.itemsize)
