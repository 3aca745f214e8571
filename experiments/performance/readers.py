"""One index with 16 threads that constantly search and fetch texts: how many results are wrong or missing, and whether memory grows.

    IKAT_BENCH_PASSAGES=1000000 IKAT_BENCH_SECONDS=600 python experiments/performance/bench.py readers

The index holds synthetic passages (see ``search.py``), 100,000 or as many as ``IKAT_BENCH_PASSAGES`` says, and is read for 20 seconds
or as many as ``IKAT_BENCH_SECONDS`` says. All threads share one index and one retriever, without a cache. Each thread searches for one to
three queries at a time, drawn from queries of 3, 10, 50 and 200 words and whole passages, with 1000 passages each, and then reads the texts
of random passages. Every docno and score is compared with the results of one thread before the others began, and every text with a checksum
of the indexed text. Memory is that of the process itself (see ``process_memory.py``).
"""

import os
import random
import tempfile
import threading
import time
import zlib
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pandas as pd
import pyterrier as pt
from bench import Row
from process_memory import held_mb, watched
from search import synthetic

import pyterrier_ikat as ikat
from pyterrier_ikat.store.cache import Cache

PASSAGES = int(os.environ.get("IKAT_BENCH_PASSAGES", "100000"))
SECONDS = float(os.environ.get("IKAT_BENCH_SECONDS", "20"))
READERS, DEPTH, FETCHED = 16, 1000, 200
LENGTHS, OF_EACH = (3, 10, 50, 200, 10_000), 8


def rows() -> Iterator[Row]:
    """The one row."""
    with tempfile.TemporaryDirectory() as name:
        index, checksums = _built(Path(name) / "index")
        task = _Task(index, checksums)
        figures = task.run()
    queries = figures["queries"]
    yield Row(
        f"{READERS} threads read {PASSAGES:,} passages for {SECONDS:g} s, seconds per query", SECONDS / queries, None, "", None, "", figures
    )


def _built(path: Path) -> "tuple[ikat.PassageIndex, np.ndarray]":
    """The index, and the checksum of each passage's text."""
    checksums = np.zeros(PASSAGES, dtype=np.uint32)

    def corpus() -> Iterator[dict[str, str]]:
        for number, text in enumerate(synthetic(_real(), PASSAGES)):
            checksums[number] = zlib.crc32(text.encode())
            yield {"docno": _docno(number), "text": text}

    return ikat.PassageIndex(path).index(corpus()), checksums


class _Task:
    """The work of the threads, the right results, and the counts."""

    def __init__(self, index: ikat.PassageIndex, checksums: "np.ndarray") -> None:
        import pyterrier_ikat.retrieve.retriever as module

        module.open_cache = lambda _: Cache()  # an empty one each time, in place of the process's, which would know the answers
        self.index, self.checksums, self.queries = index, checksums, _queries()
        self.retriever = index.bm25(num_results=DEPTH)
        self.right = [self.retriever(self._asked([number]))[["docno", "score"]] for number in range(len(self.queries))]
        self.counted: Counter[str] = Counter(queries=0, results=0, texts=0, wrong=0, missing=0, errors=0)
        self.errors: list[str] = []
        self.lock = threading.Lock()

    def run(self) -> dict[str, float | str]:
        """Read until the time is over."""
        ends = time.monotonic() + SECONDS
        with watched() as memory:
            readers = [threading.Thread(target=self._read, args=(seed, ends)) for seed in range(READERS)]
            for reader in readers:
                reader.start()
            time.sleep(SECONDS / 2)
            halfway = held_mb()
            for reader in readers:
                reader.join()
        shown: dict[str, float | str] = {"first errors": "; ".join(self.errors[:3])} if self.errors else {}
        sizes = {"MB before": memory[0], "MB at half time": halfway, "MB at the end": held_mb(), "MB at most": memory[1]}
        return {**self.counted, **sizes, **shown}

    def _read(self, seed: int, ends: float) -> None:
        draw = random.Random(seed)
        while time.monotonic() < ends:
            numbers = draw.sample(range(len(self.queries)), draw.randint(1, 3))
            try:
                found = self._searched(numbers)
                found.update(self._fetched(draw.choices(range(PASSAGES), k=FETCHED)))
            except Exception as error:
                found = Counter(errors=1)
                self.errors.append(repr(error))
            with self.lock:
                self.counted.update(found)

    def _searched(self, numbers: list[int]) -> "Counter[str]":
        found, counted = self.retriever(self._asked(numbers)), Counter(queries=len(numbers))
        for number in numbers:
            mine, right = found[found["qid"] == str(number)], self.right[number]
            missing = len(set(right["docno"]) - set(mine["docno"]))
            counted.update(results=len(mine), missing=missing, wrong=self._wrong_texts(mine))
            pairs = [list(zip(frame["docno"], frame["score"], strict=True)) for frame in (mine, right)]
            counted["wrong"] += sum(one != other for one, other in zip(*pairs, strict=False)) + max(len(mine) - len(right), 0)
        return counted

    def _fetched(self, numbers: list[int]) -> "Counter[str]":
        docnos = [_docno(number) for number in numbers]
        found = pd.DataFrame({"docno": docnos, "text": self.index.texts(docnos)})
        return Counter(texts=len(found), wrong=self._wrong_texts(found))

    def _wrong_texts(self, found: pd.DataFrame) -> int:
        rows = zip(found["docno"], found["text"], strict=True)
        return sum(zlib.crc32(text.encode()) != int(self.checksums[int(docno.removeprefix("p"))]) for docno, text in rows)

    def _asked(self, numbers: list[int]) -> pd.DataFrame:
        return pd.DataFrame({"qid": list(map(str, numbers)), "query": [self.queries[number] for number in numbers]}, dtype=object)


def _docno(number: int) -> str:
    return f"p{number:07d}"


def _queries() -> list[str]:
    texts = synthetic(_real(), OF_EACH * len(LENGTHS), seed=2)
    return [" ".join(next(texts).split()[:length]) for length in LENGTHS for _ in range(OF_EACH)]


def _real() -> "Iterator[dict[str, str]]":
    return pt.get_dataset("ikat:2023-mini").get_corpus_iter(verbose=False)  # type: ignore[no-any-return]
