"""BM25 in other libraries, for bm25.py: bm25s, and pyserini in its own interpreter.

pyserini 0.25.0 is the last version that runs without Java 21. Its wheel contains Anserini's jar. Apart from it, searching needs only
pyjnius and Java:

    python -m venv pyserini && pyserini/bin/pip install --no-deps pyserini==0.25.0 pyjnius
    IKAT_BENCH_PYSERINI=pyserini/bin/python python experiments/performance/bench.py bm25
"""

import json
import os
import subprocess
import tempfile
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyterrier_ikat as ikat

SCRIPT = Path(__file__).with_name("pyserini_search.py")


@dataclass(frozen=True)
class Other:
    """The time and the results of another library for some queries.

    Attributes:
        library: its name.
        how: how it was called, and what it returned.
        threads: its number of threads.
        seconds: seconds per query.
        docnos: the ranking of each query.
    """

    library: str
    how: str
    threads: int
    seconds: float
    docnos: Sequence[Sequence[str]]


def bm25s_search(source: Path, depth: int, threads: int = 2) -> Callable[[list[str]], list[list[str]]]:
    """Index the passages in the folder ``source``. Returns the search for the docnos of many queries, with numba."""
    import bm25s
    import Stemmer

    passages = list(ikat.PassageFiles(source))
    docnos, stemmer, options = (
        [passage["docno"] for passage in passages],
        Stemmer.Stemmer("english"),
        {"stopwords": "en", "show_progress": False},
    )
    engine = bm25s.BM25(k1=0.9, b=0.4, backend="numba")
    engine.index(bm25s.tokenize([passage["text"] for passage in passages], stemmer=stemmer, **options), show_progress=False)

    def search(queries: list[str]) -> list[list[str]]:
        asked = bm25s.tokenize(queries, stemmer=stemmer, **options)
        found, _ = engine.retrieve(asked, k=depth, n_threads=threads, show_progress=False)
        return [[docnos[number] for number in ranking] for ranking in found.tolist()]

    return search


def pyserini_searches(source: Path, queries: Mapping[str, list[str]]) -> dict[str, list[Other]]:
    """The times and results of pyserini for each kind of ``queries``, one by one and in a batch; nothing without its interpreter."""
    interpreter = os.environ.get("IKAT_BENCH_PYSERINI")
    if not interpreter:
        return {}
    with tempfile.TemporaryDirectory() as name:
        asked, found = Path(name, "queries.json"), Path(name, "found.json")
        asked.write_text(json.dumps(queries), encoding="utf-8")
        subprocess.run([interpreter, SCRIPT, source, asked, found], check=True, stdout=subprocess.DEVNULL)
        measured = json.loads(found.read_text(encoding="utf-8"))
    return {kind: _both_ways(figures) for kind, figures in measured.items()}


def _both_ways(figures: Mapping[str, Any]) -> list[Other]:
    ways = {"one": ("one query after the other", 1), "batch": ("in a batch", 2)}
    return [
        Other(
            "pyserini", f"pyserini {how}, docnos and scores read into Python", threads, figures[way] + figures["reading"], figures["docnos"]
        )
        for way, (how, threads) in ways.items()
    ]


def overlap(ours: Sequence[Sequence[str]], theirs: Sequence[Sequence[str]]) -> float:
    """The share of the top 10 that both have, averaged over queries."""
    return sum(len(set(mine[:10]) & set(other[:10])) for mine, other in zip(ours, theirs, strict=True)) / 10 / len(ours)
