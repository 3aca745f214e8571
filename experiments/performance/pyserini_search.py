"""BM25 with Anserini, run by bm25.py in an interpreter that has pyserini: ``python pyserini_search.py PASSAGES QUERIES OUT``.

It does the same as ``pyserini.search.lucene.LuceneSearcher`` with the Java class that this wraps, because importing the wrapper needs
torch, transformers and faiss.
"""

import json
import statistics
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

DEPTH, THREADS = 1000, 2


def main(passages: str, queries: str, out: str) -> None:
    """Index the folder ``passages`` and write, for each list of queries in the JSON file, seconds for one query and the docnos found."""
    from pyserini.pyclass import autoclass

    with tempfile.TemporaryDirectory() as index:
        options = {"collection": "JsonCollection", "input": passages, "index": index, "generator": "DefaultLuceneDocumentGenerator"}
        arguments = [text for name, value in options.items() for text in (f"-{name}", value)]
        autoclass("io.anserini.index.IndexCollection").main([*arguments, "-threads", str(THREADS), "-stemmer", "porter"])
        searcher = autoclass("io.anserini.search.SimpleSearcher")(index)
        searcher.set_bm25(0.9, 0.4)
        asked = json.loads(Path(queries).read_text(encoding="utf-8"))
        for _ in range(5):  # Java compiles code that runs often
            _batch(searcher, [text for texts in asked.values() for text in texts])
        found = {kind: _measured(searcher, texts) for kind, texts in asked.items()}
    Path(out).write_text(json.dumps(found), encoding="utf-8")


def _measured(searcher: Any, texts: list[str]) -> dict[str, Any]:
    rankings = [searcher.search(text, DEPTH) for text in texts]
    seconds = {
        "one": _seconds(lambda: [searcher.search(text, DEPTH) for text in texts]),
        "batch": _seconds(lambda: _batch(searcher, texts)),
        "reading": _seconds(lambda: [[(hit.docid, hit.score) for hit in hits] for hits in rankings]),
    }
    return {**{name: taken / len(texts) for name, taken in seconds.items()}, "docnos": [[hit.docid for hit in hits] for hits in rankings]}


def _batch(searcher: Any, texts: list[str]) -> None:
    from pyserini.pyclass import autoclass

    queries, names = autoclass("java.util.ArrayList")(), autoclass("java.util.ArrayList")()
    for number, text in enumerate(texts):
        queries.add(text)
        names.add(str(number))
    searcher.batch_search(queries, names, DEPTH, THREADS)


def _seconds(work: Callable[[], Any]) -> float:
    taken = []
    for _ in range(3):
        started = time.perf_counter()
        work()
        taken.append(time.perf_counter() - started)
    return statistics.median(taken)


if __name__ == "__main__":
    main(*sys.argv[1:])
