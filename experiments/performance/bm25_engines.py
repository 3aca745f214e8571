"""The engines of BM25 on one thread: the eager one, PISA and bm25s on the same passages and queries, in CPU seconds.

    IKAT_BENCH_SIZES=20000,100000,1000000 python experiments/performance/bench.py bm25_engines

The passages are synthetic with real lengths (see ``index_build.py``), because only 700 real ones are available. Each size is indexed with
either engine, including texts, on one thread; ``IKAT_BENCH_FOLDER`` names a folder that keeps passages, indexes and the seconds of their
builds for the next call. The rankings are 1000 deep: docnos and scores, without texts. For all engines, the time is from the text of a
query to its ranking: words, stems, sums and order. bm25s, if it is installed, searches with numba on one thread. Its words differ slightly
from ours.

All figures are CPU seconds of the process and its children, the smallest of several calls. Other programs on the machine increase them,
because they share its caches, but less than they increase wall-clock seconds. The limit is the time to read 8 bytes of each posting once,
with the memory bandwidth of one core here.
"""

import json
import os
import resource
import tempfile
from collections.abc import Callable, Iterator
from contextlib import nullcontext
from functools import partial
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyterrier as pt
from bench import Row, anew, cpu_seconds
from bm25_others import bm25s_search, overlap
from index_build import build, synthetic, write_files

import pyterrier_ikat as ikat
from pyterrier_ikat.retrieve import eager
from pyterrier_ikat.retrieve.eager import EagerFiles, LexicalIndex
from pyterrier_ikat.retrieve.pisa import open_bm25, search
from pyterrier_ikat.retrieve.words import ascii_text, stop_terms, tokenize

SIZES = tuple(map(int, os.environ.get("IKAT_BENCH_SIZES", "20000,100000").split(",")))
WORDS = (5, 10, 20, 50, 200)
"""Words of a query. bm25s is only used for the shortest and the longest ones."""
QUERIES = 8
DEPTH = 1000
STATEMENTS = 400
POSTING = 8
"""Bytes: the number of a passage, and an impact."""


def rows() -> Iterator[Row]:
    """The builds for each size, and the engines for each query length."""
    memory = np.ones(1 << 25)  # 256 MiB, more than any cache holds
    bandwidth = memory.nbytes / cpu_seconds(memory.sum, 20)
    kept = os.environ.get("IKAT_BENCH_FOLDER")
    for size in SIZES:
        with nullcontext(kept) if kept else tempfile.TemporaryDirectory() as name:
            folder = Path(name, str(size))
            yield _builds(folder, size)
            by_bm25s = bm25s_search(folder / "passages", DEPTH, threads=1) if find_spec("bm25s") else None
            indexes = ikat.PassageIndex(folder / "eager"), ikat.PassageIndex(folder / "pisa")
            for words in WORDS:
                asked = queries(words)
                task = f"{words} words, {size:,} passages, CPU seconds per query, 1 thread"
                extreme = words in (WORDS[0], WORDS[-1])
                yield from _engines(task, *indexes, asked, by_bm25s if extreme else None, bandwidth)
                if extreme:
                    yield _unread(task, indexes[0], asked)
    yield _statements()


def queries(words: int) -> pd.DataFrame:
    """Queries drawn like the passages."""
    texts = synthetic(pt.get_dataset("ikat:2023-mini").get_corpus_iter(verbose=False), QUERIES * 10, seed=2)
    long = [ascii_text(text).split()[:words] for text in texts if len(text.split()) >= min(words, 200)]
    return pd.DataFrame(
        {"qid": [f"{number}" for number in range(QUERIES)], "query": [" ".join(text) for text in long[:QUERIES]]}, dtype=object
    )


def _engines(
    task: str,
    index: ikat.PassageIndex,
    of_pisa: ikat.PassageIndex,
    asked: pd.DataFrame,
    by_bm25s: Callable[[list[str]], list[list[str]]] | None,
    bandwidth: float,
) -> Iterator[Row]:
    """The eager engine compared with bm25s and with PISA."""
    texts = asked["query"].tolist()
    postings, stops = EagerFiles(index.eager), stop_terms("lucene", "porter2")
    pisa = open_bm25(of_pisa.pisa, stops="lucene", k1=0.9, b=0.4, threads=1)

    def ours() -> list[eager.Ranking]:
        return eager.search(postings, [eager.count_terms(tokenize(text, "porter2"), stops) for text in texts], DEPTH)

    theirs = partial(search, pisa, "query", texts, DEPTH)
    read = np.mean([sum(len(postings.part(number)[0]) for number in _known(postings, text, stops)) for text in texts])
    engines = {"ours": ours, "pisa": theirs, **({} if by_bm25s is None else {"bm25s": partial(by_bm25s, texts)})}
    seconds = {name: cpu_seconds(work) / len(texts) for name, work in engines.items()}
    found, expected = ours(), theirs()
    same = float(np.mean([_agrees(mine, other) for mine, other in zip(found, expected, strict=True)]))
    about: dict[str, Any] = {
        "limit": read * POSTING / bandwidth,
        "why": f"{read:,.0f} postings of {POSTING} bytes over {bandwidth / 1e9:.1f} GB/s, on one core",
    }
    if by_bm25s is not None:
        yield Row(
            task=f"{task}: eager engine, beside bm25s",
            ours=seconds["ours"],
            today=seconds["bm25s"],
            instead="bm25s with numba",
            more={
                "nanoseconds per posting": seconds["ours"] / read * 1e9,
                "of bm25s": seconds["bm25s"] / read * 1e9,
                "top 10 shared with bm25s": overlap([ranking.docnos for ranking in found], by_bm25s(texts)),
            },
            **about,
        )
    yield Row(
        task=f"{task}: eager engine, beside PISA",
        ours=seconds["ours"],
        today=seconds["pisa"],
        instead="PISA with our options (maxscore)",
        more={
            "nanoseconds per posting": seconds["ours"] / read * 1e9,
            "same top 1000, order but for scores within 1e-4": same,
            "score furthest apart": max(map(_apart, found, expected)),
        },
        **about,
    )


def _unread(task: str, index: ikat.PassageIndex, asked: pd.DataFrame) -> Row:
    """The operator in a run in which no later stage reads the passages' texts, and in one in which a stage does."""
    operator = index.bm25(num_results=DEPTH, engine="eager")
    seen = index.look()
    search = partial(operator.find_rankings, seen, operator.queries(asked, seen))
    unread, read, alone = (
        cpu_seconds(work) / len(asked) for work in (partial(anew, operator.without_texts(), asked), partial(anew, operator, asked), search)
    )
    return Row(
        task=f"{task}: index.bm25(engine='eager') in a run, where no stage reads the texts",
        ours=unread,
        today=read,
        instead="where a stage reads them",
        limit=alone,
        why="its search alone, without frame, cache and texts",
        more={"texts of the passages": read - unread},
    )


def _known(postings: eager.Postings, text: str, stops: frozenset[str]) -> list[int]:
    return [number for number in postings.find(list(eager.count_terms(tokenize(text, "porter2"), stops))) if number >= 0]


def _agrees(mine: eager.Ranking, other: eager.Ranking) -> bool:
    """Whether the scores are the same within 1e-4, and also the passages, except those whose scores differ by less than that."""
    if len(mine.docnos) != len(other.docnos) or not np.allclose(mine.scores, other.scores, rtol=1e-4):
        return False
    moved = [place for place, (a, b) in enumerate(zip(mine.docnos, other.docnos, strict=True)) if a != b]
    scores = dict(zip(other.docnos, other.scores.tolist(), strict=True))
    last = other.scores[-1] if len(other.scores) else 0.0
    return all(np.isclose(scores.get(mine.docnos[place], last), other.scores[place], rtol=1e-4) for place in moved)


def _apart(mine: eager.Ranking, other: eager.Ranking) -> float:
    size = min(len(mine.scores), len(other.scores))
    return float(np.max(np.abs(mine.scores[:size] / other.scores[:size] - 1), initial=0))


def _builds(folder: Path, size: int) -> Row:
    """An index for either engine, including texts. Indexes from an earlier call are reused."""
    source, noted = folder / "passages", folder / "builds.json"
    if not noted.exists():
        source.mkdir(parents=True)
        write_files(source, size)
        noted.write_text(json.dumps({engine: _cpu_of_build(source, folder / engine, engine) for engine in ("eager", "pisa")}))
    seconds = json.loads(noted.read_text())
    files = {engine: [path for path in (folder / engine).rglob("*") if path.is_file()] for engine in seconds}
    sizes = {engine: sum(path.stat().st_size for path in paths if path.name != "texts.lz4") for engine, paths in files.items()}
    return Row(
        task=f"an index of {size:,} passages for the eager engine, threads=1, CPU seconds",
        ours=seconds["eager"],
        today=seconds["pisa"],
        instead="an index for PISA, threads=1",
        limit=None,
        why="",
        more={"bytes per passage beside the texts": sizes["eager"] / size, "of PISA": sizes["pisa"] / size},
    )


def _cpu_of_build(source: Path, target: Path, engine: str) -> float:
    """The CPU seconds of a build, including PISA's process."""
    before = _cpu()
    build(source, target, threads=1, engine=engine)
    return _cpu() - before


def _cpu() -> float:
    used = (resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN))
    return sum(one.ru_utime + one.ru_stime for one in used)


def _statements() -> Row:
    """The time to rank the statements of one user: an index in memory, and one search."""
    words = [
        "tea",
        "tram",
        "river",
        "garden",
        "mint",
        "sage",
        "coffee",
        "oats",
        "bus",
        "spring",
        "herbs",
        "sweet",
        "allergic",
        "nuts",
        "vegetarian",
        "likes",
        "hates",
        "visits",
        "plays",
    ]
    draw = np.random.default_rng(4)
    statements = [(str(number), " ".join(draw.choice(words, 12)) + f" w{number}") for number in range(STATEMENTS)]
    index = LexicalIndex(statements)
    return Row(
        task=f"{STATEMENTS} statements indexed in memory, CPU seconds",
        ours=cpu_seconds(lambda: LexicalIndex(statements)),
        today=None,
        instead="",
        limit=None,
        why="",
        more={"a search of them": cpu_seconds(lambda: index.search("which herbs and teas do I like?"))},
    )
