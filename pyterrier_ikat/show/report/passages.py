"""The passages of a turn, those of all runs in one list: each text stands there once, beside its place in every run."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import pandas as pd
import pyterrier as pt

from .runs import RunData

LIMITS = (120, 90, 60, 45, 30)
"""So many words of a passage are shown; fewer where the page has many passages. The index has the rest."""
CHARACTERS = 7_500_000
"""What the passages of a page may have together, so that 332 turns of three systems without a common passage stay within 15 MB."""
OPEN_WORDS = 30
"""So many words can be read without opening the passage."""


@dataclass(frozen=True)
class Place:
    """Where a run has a passage: rank from 1, score, and whether its response is based on it."""

    rank: int
    score: float
    used: bool


@dataclass(frozen=True)
class Passage:
    """A passage that at least one run found.

    Attributes:
        docno: its id.
        places: one per run; None where the run doesn't show it.
        label: its relevance; None when not judged.
        beginning: the first words of its text.
        rest: what follows, cut to the limit.
    """

    docno: str
    places: tuple[Place | None, ...]
    label: int | None
    beginning: str
    rest: str


def passages_by_turn(
    runs: Sequence[RunData], qrels: pd.DataFrame | None, texts: pt.Transformer | None, depth: int
) -> tuple[dict[str, list[Passage]], int]:
    """For each turn the best ``depth`` passages of every run and those that a response is based on, by their best rank in any run.

    Returns:
        qid -> passages, and how many words of a passage are kept; 0 where there are no texts.

    Raises:
        DataError: when ``texts`` lacks a passage.
    """
    places: dict[str, dict[str, list[Place | None]]] = {}
    for number, run in enumerate(runs):
        for qid, docno, place in _shown(run, depth):
            found = places.setdefault(qid, {}).setdefault(docno, [None] * len(runs))
            found[number] = place
    labels = _labels(qrels)
    texts_by = _texts(runs, texts, {docno for turn in places.values() for docno in turn})
    limit = word_limit([texts_by.get(docno, "") for turn in places.values() for docno in turn])
    words = {docno: _cut(text, limit) for docno, text in texts_by.items()}
    listed = {
        qid: [
            Passage(docno, tuple(found[docno]), labels.get((qid, docno)), *words.get(docno, ("", "")))
            for docno in sorted(found, key=_by(found))
        ]
        for qid, found in places.items()
    }
    return listed, limit if words else 0


def word_limit(texts: Sequence[str]) -> int:
    """How many words of each text a page can hold.

    Example:
        >>> word_limit(["tea"]), word_limit(["a word " * 500] * 20_000)
        (120, 90)
    """
    sizes = [(len(text), max(len(text.split()), 1)) for text in texts]
    fitting = (limit for limit in LIMITS if sum(size * min(1.0, limit / words) for size, words in sizes) <= CHARACTERS)
    return next(fitting, LIMITS[-1])


def _by(found: Mapping[str, list[Place | None]]) -> Any:
    def best(docno: str) -> tuple[int, int]:
        return min((place.rank, number) for number, place in enumerate(found[docno]) if place is not None)

    return best


def _shown(run: RunData, depth: int) -> Iterator[tuple[str, str, Place]]:
    used = {(qid, docno) for qid, turn in run.turns.items() for docno in turn.get("used", ())}
    wanted = (run.results["rank"] < depth) | run.results["docno"].isin({docno for _, docno in used})
    best = run.results[wanted]
    for qid, docno, rank, score in zip(*(best[name] for name in ("qid", "docno", "rank", "score")), strict=True):
        if rank < depth or (qid, docno) in used:
            yield qid, docno, Place(int(rank) + 1, float(score), (qid, docno) in used)


def _labels(qrels: pd.DataFrame | None) -> dict[tuple[str, str], int]:
    if qrels is None:
        return {}
    return {(qid, docno): int(label) for qid, docno, label in zip(qrels["qid"], qrels["docno"], qrels["label"], strict=True)}


def _texts(runs: Sequence[RunData], texts: pt.Transformer | None, wanted: set[str]) -> dict[str, str]:
    known: dict[str, str] = {}
    for run in runs:
        if "text" in run.results.columns:
            pairs = zip(run.results["docno"], run.results["text"], strict=True)
            known.update((docno, text) for docno, text in pairs if isinstance(text, str))
    lacking = pd.DataFrame({"docno": sorted(wanted - set(known))}, dtype=object)
    if texts is not None and len(lacking):
        loaded = texts.transform(lacking)
        known.update(zip(loaded["docno"], loaded["text"], strict=True))
    return known


def _cut(text: str, limit: int) -> tuple[str, str]:
    words = text.split()
    rest = " ".join(words[OPEN_WORDS:limit])
    return " ".join(words[:OPEN_WORDS]), f"{rest} …" if len(words) > max(limit, OPEN_WORDS) else rest
