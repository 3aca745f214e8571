"""SPLADE's search on one thread, in CPU seconds: the eager engine, PISA and a product of scipy's matrices.

The index has 100,000 passages, or as many as ``IKAT_BENCH_PASSAGES`` says, with about 150 terms each. Queries have 10, 30 or 100 terms, and
rankings are 1000 deep. Terms and weights are random, a few terms frequent and most of them rare, out of as many as BERT has, because the
time for encoding is the model's. Ours and PISA's rankings have docnos, and scipy's are rows. Times are the smallest of several calls. The
limit is the time to read the 8 bytes of each posting of a query once, with the memory bandwidth of one core here.
"""

import os
import tempfile
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from bench import Row, cpu_seconds

from pyterrier_ikat.retrieve import eager
from pyterrier_ikat.retrieve.eager_writer import write_impacts
from pyterrier_ikat.retrieve.pisa import build_impacts, open_impacts, search

PASSAGES = int(os.environ.get("IKAT_BENCH_PASSAGES", "100000"))
VOCABULARY, DRAWN, AT_ONCE = 30_522, 160, 10_000
TERMS, QUERIES, DEPTH, POSTING = (10, 30, 100), 8, 1000, 8
OFTEN = 1 / np.arange(50, VOCABULARY + 50)


def rows() -> Iterator[Row]:
    """A row for each query length and engine compared with ours."""
    memory = np.ones(1 << 25)  # 256 MiB, more than any cache holds
    bandwidth = memory.nbytes / cpu_seconds(memory.sum, 20)
    with tempfile.TemporaryDirectory() as name:
        folder, draw = Path(name), np.random.default_rng(0)
        files = [write_batch(folder / f"{start:09}.npz", draw, start) for start in range(0, PASSAGES, AT_ONCE)]
        write_impacts(folder / "eager", files)
        build_impacts(folder / "pisa", files)
        ours, pisa = eager.EagerFiles(folder / "eager"), open_impacts(folder / "pisa", threads=1)
        matrix = as_matrix(ours)
        for terms in TERMS:
            asked = [query(draw, terms) for _ in range(QUERIES)]
            work = partial(eager.search, ours, asked, DEPTH)
            others = {
                "PISA (maxscore)": partial(search, pisa, "query_toks", asked, DEPTH),
                "a product of scipy": partial(plain, matrix, asked),
            }
            read = float(np.mean([sum(len(ours.part(number)[0]) for number in ours.find(list(one)) if number >= 0) for one in asked]))
            why = f"{read:,.0f} postings of {POSTING} bytes over {bandwidth / 1e9:.1f} GB/s, on one core"
            seconds = cpu_seconds(work) / QUERIES
            same = np.mean([mine.docnos == theirs.docnos for mine, theirs in zip(work(), others["PISA (maxscore)"](), strict=True)])
            task = f"{terms} terms, {PASSAGES:,} passages, CPU seconds per query, 1 thread: SPLADE's search"
            for instead, other in others.items():
                more = {"rankings equal PISA's": float(same)}
                yield Row(task, seconds, cpu_seconds(other) / QUERIES, instead, read * POSTING / bandwidth, why, more)


def write_batch(path: Path, draw: np.random.Generator, start: int) -> Path:
    """Passages as written by the encoder."""
    count = min(AT_ONCE, PASSAGES - start)
    some = [np.unique(one) for one in draw.choice(VOCABULARY, (count, DRAWN), p=OFTEN / OFTEN.sum())]
    ends = np.cumsum([len(one) for one in some])
    docnos = np.array([f"clueweb22-en{number:08}:0" for number in range(start, start + count)])
    weights = draw.integers(1, 300, ends[-1]).astype(np.uint32)
    np.savez(path, docnos=docnos, ends=ends, terms=np.concatenate(some).astype(np.uint32), weights=weights)
    return path


def query(draw: np.random.Generator, terms: int) -> dict[str, int]:
    """The impacts of a query, by term number."""
    some = draw.choice(VOCABULARY, terms, replace=False, p=OFTEN / OFTEN.sum())
    return {str(term): int(weight) for term, weight in zip(some, draw.integers(1, 300, terms), strict=True)}


def as_matrix(files: eager.EagerFiles) -> Any:
    """The passages and their terms, as stored by a user."""
    from scipy.sparse import csc_matrix

    numbers = files.find([str(term) for term in range(VOCABULARY)])
    parts = [files.part(number) if number >= 0 else (np.empty(0, np.int32), np.empty(0, np.float32)) for number in numbers]
    starts = np.cumsum([0, *(len(docs) for docs, _ in parts)])
    docs, impacts = (np.concatenate(column) for column in zip(*parts, strict=True))
    return csc_matrix((impacts, docs, starts), shape=(files.size, VOCABULARY))


def plain(matrix: Any, asked: list[dict[str, int]]) -> list[Any]:
    """The best rows, as written by a user."""
    found = []
    for one in asked:
        scores = matrix[:, list(map(int, one))] @ np.array(list(one.values()), dtype=np.float32)
        best = np.argpartition(-scores, DEPTH)[:DEPTH]
        found.append(best[np.argsort(-scores[best])])
    return found
