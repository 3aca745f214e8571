"""The peak memory of `ikat run aqd` on all 332 turns of 2023: 5 queries each, with 1000 passages and their texts, 1.66 million rows.

    python experiments/performance/bench.py memory

The index has 100,000 synthetic passages (see search.py); a stand-in for the LLM answers at once with five queries of the index's
words. Without a re-ranker, the retrieved passages are interleaved. The cross-encoder re-ranks all 1.66 million. Its operator does its
normal work (it hashes, keeps and sorts), and a stand-in for the model gives a score at once, so the figure doesn't include the model's own
memory. Each run is a separate process. Its memory is that of the process itself (see process_memory.py): the peak, and the peak minus the
memory after loading. The minimum is the result frame of the current turns, each passage's text once, and 24 bytes for each score. The
benchmark needs the released topics (IKAT_DATA).
"""

import itertools
import multiprocessing
import tempfile
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any
from unittest.mock import patch

import numpy as np
import pyterrier as pt
from bench import Row
from process_memory import watched
from search import synthetic

import pyterrier_ikat as ikat
from pyterrier_ikat.runs import RunFolder
from pyterrier_ikat.study import Study
from pyterrier_ikat.study.in_folders import TURNS_AT_ONCE, run_in_folders

PASSAGES = 100_000
TURNS = 332
ROWS = TURNS * 5 * 1000
COLUMNS = 19
"""The number of columns of AQD's result frame on topics of 2023, with 8 bytes per row each."""
PAIR = 24
"""The bytes of a kept score."""


class Queries:
    """A generator that answers every chat with five different queries of twelve words."""

    def __init__(self, words: list[str]) -> None:
        self.words = itertools.cycle(words)

    def generate(self, chats: list[Any]) -> list[str]:
        """One answer per chat."""
        return ["\n".join(f"{n}. {' '.join(itertools.islice(self.words, 12))}" for n in range(1, 6)) for _ in chats]


class Scores:
    """Replaces a cross-encoder's model: a score for each pair at once."""

    def __init__(self) -> None:
        self.pairs = 0

    def __call__(self, *given: Any) -> "np.ndarray":
        """The lengths of the texts. The pairs are the last argument."""
        pairs: Sequence[tuple[str, str]] = given[-1]
        self.pairs += len(pairs)
        return np.array([len(text) for _, text in pairs], dtype=float)


def rows() -> Iterator[Row]:
    """The run in one piece, and in batches of turns as in ``ikat run``; then both with a cross-encoder."""
    with tempfile.TemporaryDirectory() as name:
        index = ikat.PassageIndex(Path(name) / "index")
        docnos = [pt.get_dataset("ikat:2023").get_qrels()["docno"].iloc[0], *(f"p{number:06d}" for number in range(1, PASSAGES))]
        index.index({"docno": docno, "text": text} for docno, text in zip(docnos, _texts(PASSAGES, seed=1), strict=True))
        text_mb = sum(map(len, index.texts(docnos))) / 1e6
        frame_mb = ROWS * COLUMNS * 8 / 1e6
        for reranked, tail in ((False, ""), (True, ", a cross-encoder without its model")):
            for label, batch in (("in one go", TURNS), (f"in batches of {TURNS_AT_ONCE} turns, as ikat run does", TURNS_AT_ONCE)):
                found = _alone(index.path, Path(name) / f"runs-{batch}-{reranked}", batch, reranked)
                least = frame_mb * batch / TURNS + text_mb + found["pairs"] * PAIR / 1e6
                yield Row(f"aqd on {TURNS} turns {label}{tail}", found.pop("seconds"), None, "", None, "", found | {"least (MB)": least})


def _texts(count: int, seed: int) -> Iterator[str]:
    return synthetic(pt.get_dataset("ikat:2023-mini").get_corpus_iter(verbose=False), count, seed)


def _alone(*given: Any) -> dict[str, float]:
    with multiprocessing.get_context("spawn").Pool(1) as pool:
        return pool.apply(run, given)


def run(index: str, out: Path, batch: int, reranked: bool) -> dict[str, float]:
    """The figures of one run in this process.

    Args:
        index: its path.
        out: the folder of the runs.
        batch: the number of turns at a time.
        reranked: whether a cross-encoder re-ranks the passages.
    """
    model = ikat.llm(Queries(" ".join(_texts(2000, seed=2)).split()))
    given = {"llm": model, "reranker": ikat.CrossEncoder("stand-in") if reranked else None}
    scores = Scores()
    with patch.object(ikat.CrossEncoder, "_score", scores):
        study = Study("aqd", "ikat:2023", index=index, **given)
        scores.pairs = 0  # opening scores one, to load the model
        with watched() as held:
            started = time.perf_counter()
            found = run_in_folders(study, out, batch)["aqd"].folder.results()
            seconds = time.perf_counter() - started
    asked = sum(len(turn["qsubqueries"]) for turn in RunFolder(out / "aqd").turns())
    sizes = {"peak (MB)": held[1], "of the run (MB)": held[1] - held[0]}
    return {"seconds": seconds, **sizes, "queries": asked, "pairs": scores.pairs, "rows": len(found)}
