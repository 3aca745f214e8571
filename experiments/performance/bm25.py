"""BM25 on the queries of this field: ours, PISA as PyTerrier opens it, bm25s, and what the machine's memory would allow.

The index holds synthetic passages (see ``index_build.py``), 100,000 or as many as ``IKAT_BENCH_PASSAGES`` says; it is built in a temporary
folder. Queries are drawn as the passages are: 5 words, an answer's 200 words, and a whole passage. All rankings are 1000 deep. PISA's
default is what a user writes, ``PisaIndex(path).bm25()`` with repeated words counted, so that both rank alike. pyserini isn't compared: it
needs Java and brings a jar that no package registry has by itself.

The limit is that of a retriever that reads every posting of every query term once: bytes of compressed postings over the memory bandwidth
measured here. ``maxscore`` skips, so it can be faster than that on long lists.
"""

import os
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyterrier as pt
from bench import Row, median_seconds
from index_build import build, synthetic, write_files

import pyterrier_ikat as ikat
from pyterrier_ikat.result_cache import ResultCache, digest
from pyterrier_ikat.retrieve.pisa_search import by_pisa
from pyterrier_ikat.retrieve.plain import plain
from pyterrier_ikat.retrieve.ranking import packed, unpacked
from pyterrier_ikat.retrieve.rm3 import stop_terms, tokenize

PASSAGES = int(os.environ.get("IKAT_BENCH_PASSAGES", "100000"))
QUERIES = 32
DEPTH = 1000


def rows() -> Iterator[Row]:
    """Three kinds of queries, the memory of rankings, and Python's progress meanwhile."""
    with tempfile.TemporaryDirectory() as name:
        source, target = Path(name, "passages"), Path(name, "index")
        source.mkdir()
        write_files(source, PASSAGES)
        build(source, target, threads=2)
        index = ikat.PassageIndex(target)
        postings, others = _Postings(index), _bm25s(source)
        for kind, words in (("short query (5 words)", 5), ("answer (200 words)", 200), ("passage query (whole passage)", 10_000)):
            yield _compared(kind, index, _queries(words), postings, others)
        yield _remembered(index, _queries(20))
        yield _progress(index, _queries(200))


def _compared(kind: str, index: ikat.PassageIndex, queries: pd.DataFrame, postings: "_Postings", others: Callable[..., Any]) -> Row:
    ours, alone, pisa = _bare(index, "maxscore", 2), _bare(index, "maxscore", 1), _bare(index, "block_max_wand", 1)
    more: dict[str, Any] = {
        "maxscore on one thread": _per_query(lambda: alone(queries)),
        "whole operator with texts": _per_query(lambda: _operator(index)(queries)),
        "bm25s": _per_query(lambda: others(queries["query"].tolist())),
        "same top 100": _same_top(_operator(index)(queries), pisa(queries)),
    }
    found = postings.of(queries["query"]) / QUERIES
    needed, seconds = found * postings.size, _per_query(lambda: ours(queries))
    more["nanoseconds per posting"] = seconds / found * 1e9
    return Row(
        task=f"{kind}, {PASSAGES:,} passages, {os.cpu_count()} cores, seconds per query",
        ours=seconds,
        today=_per_query(lambda: pisa(queries)),
        instead="PISA through PyTerrier (block_max_wand, one thread)",
        limit=needed / postings.bandwidth,
        why=f"{needed / 1e6:.2f} MB of compressed postings per query over {postings.bandwidth / 1e9:.1f} GB/s of memory, on one core",
        more=more,
    )


def _remembered(index: ikat.PassageIndex, queries: pd.DataFrame) -> Row:
    """What keeping rankings adds to searching them, and what it saves the next system that asks the same."""
    retriever = _bare(index, "maxscore", 2)
    texts = queries["query"].tolist()
    rankings = by_pisa(retriever, "query", texts, DEPTH)
    keys = [digest(text) for text in texts]
    memory = ResultCache()

    def keep() -> None:
        memory.get(keys)
        memory.put({key: packed(ranking, DEPTH) for key, ranking in zip(keys, rankings, strict=True)})

    def recall() -> None:
        for value in memory.get(keys).values():
            unpacked(value, DEPTH)

    searched, kept = median_seconds(lambda: by_pisa(retriever, "query", texts, DEPTH)), median_seconds(keep)
    return Row(
        task=f"{QUERIES} queries of 20 words that another system has asked",
        ours=median_seconds(recall),
        today=searched,
        instead="searching them again",
        limit=None,
        why="",
        more={"keeping them costs, of the first search": kept / searched, "bytes per passage": memory.bytes / QUERIES / DEPTH},
    )


def _progress(index: ikat.PassageIndex, queries: pd.DataFrame) -> Row:
    """How much another Python thread gets done while PISA searches, of what it does alone."""
    alone = _counted(lambda: time.sleep(1))
    many = pd.concat([queries] * 4)
    shares = {}
    for threads in (1, 2):
        retriever = _bare(index, "maxscore", threads)
        shares[threads] = _counted(partial(retriever, many)) / alone
    searching = median_seconds(lambda: _bare(index, "maxscore", 2)(queries))
    return Row(
        task=f"{QUERIES} answers searched while Python goes on",
        ours=searching,
        today=None,
        instead="",
        limit=None,
        why="",
        more={f"pace of a Python thread with threads={threads}": share for threads, share in shares.items()},
    )


class _Postings:
    """How many postings a query's terms have, the bytes that one has compressed, and those that the memory gives per second."""

    def __init__(self, index: ikat.PassageIndex) -> None:
        folder = Path(index.path) / "pisa"
        lengths = np.memmap(folder / "inv.docs", dtype="<u4", mode="r")
        terms = (folder / "fwd.terms").read_text(encoding="utf-8").split("\n")[:-1]
        place, self.counts = 2, {}
        for term in terms:
            self.counts[term] = int(lengths[place])
            place += 1 + int(lengths[place])
        compressed = next(folder.glob("*.block_simdbp")).stat().st_size
        self.size = compressed / sum(self.counts.values())
        self.bandwidth = _bandwidth()

    def of(self, queries: "pd.Series[Any]") -> float:
        """How many postings the terms of all ``queries`` have."""
        left_out = stop_terms("lucene", "porter2")
        asked = (set(tokenize(query, "porter2")) - left_out for query in queries)
        return float(sum(self.counts.get(term, 0) for terms in asked for term in terms))


def _bandwidth() -> float:
    memory = np.ones(1 << 25)  # 256 MiB, more than any cache holds
    return memory.nbytes / median_seconds(memory.sum)


def _bare(index: ikat.PassageIndex, algorithm: str, threads: int) -> Any:
    from pyterrier_pisa import PisaIndex

    opened = PisaIndex(str(Path(index.path) / "pisa"), stops="lucene")
    return opened.bm25(num_results=DEPTH, query_algorithm=algorithm, query_weighted=True, threads=threads)


def _operator(index: ikat.PassageIndex) -> Any:
    import pyterrier_ikat.retrieve.bm25 as module

    module.shared = lambda _: ResultCache()  # an empty one, in place of the process's, which would know the queries after the first run
    return index.bm25(num_results=DEPTH)


def _bm25s(source: Path) -> Callable[[list[str]], Any]:
    import bm25s
    import Stemmer

    texts = [passage["text"] for passage in ikat.PassageFiles(source)]
    stemmer, options = Stemmer.Stemmer("english"), {"stopwords": "en", "show_progress": False}
    engine = bm25s.BM25(k1=0.9, b=0.4)
    engine.index(bm25s.tokenize(texts, stemmer=stemmer, **options), show_progress=False)
    return lambda queries: engine.retrieve(bm25s.tokenize(queries, stemmer=stemmer, **options), k=DEPTH, n_threads=2, show_progress=False)


def _queries(words: int) -> pd.DataFrame:
    texts = synthetic(pt.get_dataset("ikat:2023-mini").get_corpus_iter(verbose=False), QUERIES * 10, seed=2)
    long = [plain(text).split()[:words] for text in texts if len(text.split()) >= min(words, 200)]
    return pd.DataFrame(
        {"qid": [f"{number}" for number in range(QUERIES)], "query": [" ".join(text) for text in long[:QUERIES]]}, dtype=object
    )


def _per_query(work: Callable[[], Any]) -> float:
    return median_seconds(work) / QUERIES


def _same_top(ours: pd.DataFrame, theirs: pd.DataFrame) -> float:
    # Both may order passages of the same score as they like, also at the cut: what counts is the score at each rank.
    mine, other = (frame[frame["rank"] < 100].sort_values(["qid", "rank"])["score"].to_numpy(dtype=float) for frame in (ours, theirs))
    return float(np.isclose(mine, other, rtol=1e-4).mean())


def _counted(work: Callable[[], Any]) -> float:
    done, count = threading.Event(), [0]

    def turn() -> None:
        while not done.is_set():
            count[0] += 1

    thread = threading.Thread(target=turn)
    started = time.perf_counter()
    thread.start()
    work()
    took = time.perf_counter() - started
    done.set()
    thread.join()
    return count[0] / took
