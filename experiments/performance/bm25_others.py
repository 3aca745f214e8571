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
from pathlib import Path
from typing import Any

import pyterrier_ikat as ikat

SCRIPT = Path(__file__).with_name("pyserini_search.py")


def bm25s_search(source: Path, depth: int) -> Callable[[list[str]], list[list[str]]]:
    """Index the passages of the folder ``source``; gives the search for the docnos of many queries, on 2 threads."""
    import bm25s
    import Stemmer

    passages = list(ikat.PassageFiles(source))
    docnos, stemmer, options = (
        [passage["docno"] for passage in passages],
        Stemmer.Stemmer("english"),
        {"stopwords": "en", "show_progress": False},
    )
    engine = bm25s.BM25(k1=0.9, b=0.4)
    engine.index(bm25s.tokenize([passage["text"] for passage in passages], stemmer=stemmer, **options), show_progress=False)

    def search(queries: list[str]) -> list[list[str]]:
        asked = bm25s.tokenize(queries, stemmer=stemmer, **options)
        found, _ = engine.retrieve(asked, k=depth, n_threads=2, show_progress=False)
        return [[docnos[number] for number in ranking] for ranking in found.tolist()]

    return search


def pyserini_figures(source: Path, queries: Mapping[str, list[str]]) -> dict[str, dict[str, Any]]:
    """For each kind of ``queries`` pyserini's seconds per query and its rankings, or that it was left out."""
    interpreter = os.environ.get("IKAT_BENCH_PYSERINI")
    if not interpreter:
        return {kind: {"pyserini": "left out, IKAT_BENCH_PYSERINI isn't set"} for kind in queries}
    with tempfile.TemporaryDirectory() as name:
        asked, found = Path(name, "queries.json"), Path(name, "found.json")
        asked.write_text(json.dumps(queries), encoding="utf-8")
        subprocess.run([interpreter, SCRIPT, source, asked, found], check=True, stdout=subprocess.DEVNULL)
        measured = json.loads(found.read_text(encoding="utf-8"))
    return {
        kind: {
            "pyserini one by one": figures["one"],
            "pyserini in a batch on 2 threads": figures["batch"],
            "reading pyserini's docnos and scores into Python": figures["reading"],
            "top 10 shared with pyserini (Porter's first stemmer)": figures["docnos"],
        }
        for kind, figures in measured.items()
    }


def overlap(ours: Sequence[Sequence[str]], theirs: Sequence[Sequence[str]]) -> float:
    """The share of the top 10 that both have, the mean over queries."""
    return sum(len(set(mine[:10]) & set(other[:10])) for mine, other in zip(ours, theirs, strict=True)) / 10 / len(ours)
