"""Each distinct (model, query, text) is scored once, whatever number of rows, turns, stages, systems and runs it stands in.

A model's scores for one query are one value in the cache: the sorted hashes of the texts, then the scores. 24 bytes a pair, no text.
"""

import threading
from collections.abc import Callable, Iterator, Mapping, Sequence

import numpy as np
import numpy.typing as npt
from tqdm.auto import tqdm

from ..result_cache import ResultCache, digest
from .scoring import Floats, distinct

Hashes = npt.NDArray[np.bytes_]
Numbers = npt.NDArray[np.int64]
Score = Callable[[list[tuple[str, str]]], Floats]

PAIRS_AT_ONCE = 2048
"""What is scored before it is kept: a killed run loses no more."""
HASH, SCORE = np.dtype("S16"), np.dtype(np.float64)

scoring = threading.Lock()
"""One thread scores at a time: others may be about to ask for the same pairs, and would share the same processor anyway."""


def scored_once(queries: Sequence[str], texts: Sequence[str], model: bytes, cache: ResultCache, score: Score) -> Floats:
    """The score of each query with the text beside it.

    Args:
        queries: one per row.
        texts: one per row.
        model: its fingerprint.
        cache: what is known; takes up what is found. A score that isn't finite is not kept.
        score: gives the scores of a list of distinct pairs, in their order.
    """
    query_codes, query_values = distinct(queries)
    text_codes, text_values = distinct(texts)
    pairs, places = np.unique(query_codes * len(text_values) + text_codes, return_inverse=True)
    of_query, of_text = np.divmod(pairs, len(text_values))
    keys = [digest(model, query) for query in query_values]
    hashes = np.array([digest(text) for text in text_values], dtype=HASH)[of_text]
    with scoring:
        scores = _known(cache, keys, of_query, hashes)
        for part in _parts(np.flatnonzero(np.isnan(scores))):
            asked = [(query_values[query], text_values[text]) for query, text in zip(of_query[part], of_text[part], strict=True)]
            scores[part] = score(asked)
            _keep(cache, keys, of_query[part], hashes[part], scores[part])
    return np.asarray(scores[places])


def _parts(missing: Numbers) -> Iterator[Numbers]:
    with tqdm(total=len(missing), desc="re-ranking", unit="pair", delay=2, leave=False) as bar:
        for start in range(0, len(missing), PAIRS_AT_ONCE):
            part = missing[start : start + PAIRS_AT_ONCE]
            yield part
            bar.update(len(part))


def _known(cache: ResultCache, keys: Sequence[bytes], of_query: Numbers, hashes: Hashes) -> Floats:
    """The scores that the cache has, NaN for the others; ``of_query`` must be sorted."""
    scores = np.full(len(hashes), np.nan)
    entries = cache.get(keys)
    bounds = np.searchsorted(of_query, np.arange(len(keys) + 1))
    for key, start, end in zip(keys, bounds[:-1], bounds[1:], strict=True):
        if key in entries:
            scores[start:end] = look_up(entries[key], hashes[start:end])
    return scores


def _keep(cache: ResultCache, keys: Sequence[bytes], of_query: Numbers, hashes: Hashes, scores: Floats) -> None:
    of_key = {keys[number]: of_query == number for number in np.unique(of_query)}

    def with_ours(entries: Mapping[bytes, bytes]) -> dict[bytes, bytes]:
        return {key: merged(entries.get(key, b""), hashes[ours], scores[ours]) for key, ours in of_key.items()}

    cache.revise(list(of_key), with_ours)


def merged(entry: bytes, hashes: Hashes, scores: Floats) -> bytes:
    """The entry with these scores, too; those that aren't finite are left out."""
    old_hashes, old_scores = _arrays(entry)
    finite = np.isfinite(scores)
    all_hashes, first = np.unique(np.concatenate([old_hashes, hashes[finite]]), return_index=True)
    return bytes(all_hashes.tobytes() + np.concatenate([old_scores, scores[finite]])[first].tobytes())


def look_up(entry: bytes, hashes: Hashes) -> Floats:
    """The scores of these texts, NaN where the entry has none."""
    known, scores = _arrays(entry)
    if len(known) == 0:
        return np.full(len(hashes), np.nan)
    places = np.minimum(np.searchsorted(known, hashes), len(known) - 1)
    return np.where(known[places] == hashes, scores[places], np.nan)


def _arrays(entry: bytes) -> tuple[Hashes, Floats]:
    count = len(entry) // (HASH.itemsize + SCORE.itemsize)
    return np.frombuffer(entry, HASH, count), np.frombuffer(entry, SCORE, count, count * HASH.itemsize)
