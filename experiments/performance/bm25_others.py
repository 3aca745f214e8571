"""BM25 by other libraries, for bm25.py: bm25s, and pyserini in an interpreter of its own.

pyserini 0.25.0 is the last that runs without Java 21; its wheel holds Anserini's jar. Searching needs nothing else but pyjnius and Java:

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
    """What another library took and found for some queries.

    Attributes:
        library: its name.
        how: how it was asked, and what it gave.
        threads: how many it had.
        seconds: per query.
        docnos: the ranking of each query.
    """

    library: str
    how: str
    threads: int
    seconds: float
    docnos: Sequence[Sequence[str]]


def bm25s_search(source: Path, depth: int, threads: int = 2) -> Callable[[list[str]], list[list[str]]]:
    """Index the passages of the folder ``source``; gives the search for the docnos of many queries, by numba."""
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
    """What pyserini took and found for each kind of ``queries``, one by one and in a batch; nothing without its interpreter."""
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
    """The share of the top 10 that both have, the mean over queries."""
    return sum(len(set(mine[:10]) & set(other[:10])) for mine, other in zip(ours, theirs, strict=True)) / 10 / len(ours)
