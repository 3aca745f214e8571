"""The peak memory of `ikat run aqd` on all 332 turns of 2023: 5 queries each with 1000 passages and their texts, 1.66 million rows.

    python experiments/performance/bench.py memory

The index has 100,000 synthetic passages (see index_build.py); a stand-in for the LLM answers at once with five queries of the index's
words.
Each run is a process of its own. Its memory is what it holds itself (RssAnon of /proc, every 20 ms), without the pages of files that it
maps: the peak less what it held when everything was loaded, and the peak itself. Linux only; needs the released topics (IKAT_DATA).
"""

import itertools
import multiprocessing
import os
import tempfile
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyterrier as pt
from bench import Row
from index_build import synthetic

import pyterrier_ikat as ikat
from pyterrier_ikat.runs import RunFolder
from pyterrier_ikat.session import TURNS_AT_ONCE, Session

PASSAGES = 100_000
TURNS = 332
ROWS = TURNS * 5 * 1000
COLUMNS = 19
"""Columns of AQD's result frame on topics of 2023, 8 bytes a row each."""


class Queries:
    """A generator that answers every chat with five queries of twelve words, other ones each time."""

    def __init__(self, words: list[str]) -> None:
        self.words = itertools.cycle(words)

    def generate(self, chats: list[Any]) -> list[str]:
        """One answer per chat."""
        return ["\n".join(f"{n}. {' '.join(itertools.islice(self.words, 12))}" for n in range(1, 6)) for _ in chats]


def rows() -> Iterator[Row]:
    """The run in one go, and in batches of turns as ``ikat run`` does it."""
    with tempfile.TemporaryDirectory() as name:
        index = ikat.PassageIndex(Path(name) / "index")
        index.index({"docno": f"p{number:06d}", "text": text} for number, text in enumerate(_texts(PASSAGES, seed=1)))
        text_mb = sum(map(len, index.texts([f"p{number:06d}" for number in range(PASSAGES)]))) / 1e6
        frame_mb = ROWS * COLUMNS * 8 / 1e6
        for label, batch in (("in one go", TURNS), (f"in batches of {TURNS_AT_ONCE} turns, as ikat run does", TURNS_AT_ONCE)):
            found = _alone(index.path, Path(name) / f"runs-{batch}", batch)
            least = frame_mb * batch / TURNS + text_mb
            yield Row(f"aqd on {TURNS} turns {label}", found.pop("seconds"), None, "", None, "", found | {"least_mb": least})


def _texts(count: int, seed: int) -> Iterator[str]:
    return synthetic(pt.get_dataset("ikat:2023-mini").get_corpus_iter(verbose=False), count, seed)


def _alone(index: str, out: Path, batch: int) -> dict[str, float]:
    with multiprocessing.get_context("spawn").Pool(1) as pool:
        return pool.apply(_run, (index, out, batch))


def _run(index: str, out: Path, batch: int) -> dict[str, float]:
    model = ikat.llm(Queries(" ".join(_texts(2000, seed=2)).split()))
    session = Session.open(
        pt.get_dataset("ikat:2023"), "ikat:2023", ["aqd"], index_path=index, out=str(out), stand_ins={"llm": model}, batch=batch
    )
    held, started, done = [_held_mb()], time.perf_counter(), threading.Event()
    watch = threading.Thread(target=_watch, args=(held, done))
    watch.start()
    found = session.run()["aqd"]
    seconds = time.perf_counter() - started
    done.set()
    watch.join()
    turns = RunFolder(out / "aqd").turns()
    asked = sum(len(turn["qsubqueries"]) for turn in turns)
    return {"seconds": seconds, "peak_mb": max(held), "of_the_run_mb": max(held) - held[0], "queries": asked, "rows": len(found)}


def _watch(held: list[float], done: threading.Event) -> None:
    while not done.wait(0.02):
        held.append(_held_mb())


def _held_mb() -> float:
    lines = Path(f"/proc/{os.getpid()}/status").read_text(encoding="utf-8").splitlines()
    return sum(float(line.split()[1]) / 1e3 for line in lines if line.startswith("RssAnon"))
