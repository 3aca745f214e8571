"""BM25 on the queries of this field: ours, PISA as opened by PyTerrier, bm25s, pyserini, and the limit of the machine's memory.

The index holds synthetic passages (see ``index_build.py``), 100,000 or as many as ``IKAT_BENCH_PASSAGES`` says; it is built in a temporary
folder. Queries are drawn like the passages: 5 words, an answer's 200 words, and a whole passage, 8 of each, searched in one call. All
rankings are 1000 deep, and every call begins with an empty cache.

Two things are compared. ``index.bm25()`` is the operator as a user calls it: rankings with ordered ties, and the passages' texts from the
index. It is compared with what a user would write for the same frame: PISA's default, ``PisaIndex(path).bm25()`` with counted repeated
words, so that both rankings are the same, and the texts from a dictionary. A dictionary fits in memory for a million passages but not for
the full collection. PISA alone gives docnos and scores: with our options, on one thread and on two, compared with its default, which uses
one, and with bm25s and pyserini (in ``bm25_others.py``) on as many threads. pyserini is omitted unless ``IKAT_BENCH_PYSERINI`` names an
interpreter that has it.

Random words are a hard case for ``maxscore`` and for Lucene, which skip passages that can't reach the top, because no passage here fits a
long query much better than the others. bm25s sums scores that it computed during indexing. It was faster than ours on the long queries (2
to 3 times, on as many threads) and slower on short ones. pyserini stems with Porter's first stemmer, ours and bm25s with his second. The
top 10 of such random queries also differ for bm25s, although it has our stop words and parameters.

``bm25_engines.py`` compares the eager engine with PISA and bm25s on one thread. The figures here are PISA's.

The limit of the operator is PISA alone, called in the same way. The limit of PISA is a retriever that reads every posting of every query
term once: the bytes of compressed postings divided by the memory bandwidth measured here. ``maxscore`` skips postings, so it can be faster
than that on long lists.
"""

import os
import tempfile
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyterrier as pt
from bench import Row, anew, median_seconds
from bm25_others import Other, bm25s_search, overlap, pyserini_searches
from index_build import build, synthetic, write_files

import pyterrier_ikat as ikat
from pyterrier_ikat.portable import digest
from pyterrier_ikat.retrieve.pisa import open_bm25, search
from pyterrier_ikat.retrieve.ranking import packed, unpacked
from pyterrier_ikat.retrieve.words import ascii_text, stop_terms, tokenize
from pyterrier_ikat.store.cache import Cache

PASSAGES = int(os.environ.get("IKAT_BENCH_PASSAGES", "100000"))
QUERIES = 8
KINDS = {"short query (5 words)": 5, "answer (200 words)": 200, "passage query (whole passage)": 10_000}
DEPTH = 1000
THREADS = (1, 2)


def rows() -> Iterator[Row]:
    """Three kinds of queries, the memory of rankings, and Python's progress meanwhile."""
    with tempfile.TemporaryDirectory() as name:
        source, target = Path(name, "passages"), Path(name, "index")
        source.mkdir()
        write_files(source, PASSAGES)
        build(source, target, threads=2)
        index = ikat.PassageIndex(target)
        texts = {passage["docno"]: passage["text"] for passage in ikat.PassageFiles(source)}
        queries = {kind: _queries(words) for kind, words in KINDS.items()}
        postings, by_bm25s = _Postings(index), bm25s_search(source, DEPTH)
        pyserini = pyserini_searches(source, {kind: asked["query"].tolist() for kind, asked in queries.items()})
        for kind, asked in queries.items():
            task = f"{kind}, {PASSAGES:,} passages, seconds per query"
            yield _operator(task, index, asked, texts)
            yield from _alone(task, index, asked, postings)
            yield from _beside(task, index, asked, [_bm25s(by_bm25s, asked), *pyserini.get(kind, ())])
        yield _remembered(index, _queries(20))
        yield _progress(index, queries["answer (200 words)"])


def _operator(task: str, index: ikat.PassageIndex, queries: pd.DataFrame, texts: Mapping[str, str]) -> Row:
    """The operator as called by a user, against PISA's default with the texts."""
    operator, default = index.bm25(num_results=DEPTH, engine="pisa"), _bare(index, "block_max_wand", 1)
    alone = open_bm25(index.pisa, stops="lucene", k1=0.9, b=0.4, threads=min(max(os.cpu_count() or 2, 2), 16))
    alone.num_results = DEPTH
    return Row(
        task=f"{task}: index.bm25(engine='pisa') with texts, {alone.threads} threads",
        ours=_per_query(lambda: anew(operator, queries)),
        today=_per_query(lambda: with_texts_of(default(queries), texts)),
        instead="PISA's default through PyTerrier (block_max_wand, 1 thread), texts from a dictionary in memory",
        limit=_per_query(lambda: alone(queries)),
        why=f"PISA alone as the operator asks it (maxscore, {alone.threads} threads): docnos and scores, no texts",
        more={"same top 100": _same_top(operator(queries), default(queries))},
    )


def with_texts_of(found: pd.DataFrame, texts: Mapping[str, str]) -> pd.DataFrame:
    """The ranking with the passages' texts, as written by a user."""
    return found.assign(text=[texts[docno] for docno in found["docno"]])


def _alone(task: str, index: ikat.PassageIndex, queries: pd.DataFrame, postings: "_Postings") -> Iterator[Row]:
    """PISA alone: our options on one thread and on two, against its default."""
    default = _bare(index, "block_max_wand", 1)
    today, expected = _per_query(lambda: default(queries)), default(queries)
    read = postings.of(queries["query"]) / QUERIES
    needed = read * postings.size
    for threads in THREADS:
        ours = partial(_bare(index, "maxscore", threads), queries)
        seconds = _per_query(ours)
        yield Row(
            task=f"{task}: {_named(threads)}",
            ours=seconds,
            today=today,
            instead="PISA's default through PyTerrier (block_max_wand, 1 thread)",
            limit=needed / postings.bandwidth,
            why=f"{needed / 1e6:.2f} MB of compressed postings per query over {postings.bandwidth / 1e9:.1f} GB/s of memory, on one core",
            more={"same top 100": _same_top(ours(), expected), "nanoseconds per posting": seconds / read * 1e9},
        )


def _beside(task: str, index: ikat.PassageIndex, queries: pd.DataFrame, others: Iterable[Other]) -> Iterator[Row]:
    """PISA alone with our options, against other libraries on as many threads."""
    for other in others:
        ours = partial(_bare(index, "maxscore", other.threads), queries)
        found = ours().groupby("qid")["docno"].agg(list)[queries["qid"]].tolist()
        yield Row(
            task=f"{task}: {_named(other.threads)}, beside {other.library}",
            ours=_per_query(ours),
            today=other.seconds,
            instead=other.how,
            limit=None,
            why="",
            more={f"top 10 shared with {other.library}": overlap(found, other.docnos)},
        )


def _bm25s(search: Callable[[list[str]], list[list[str]]], queries: pd.DataFrame) -> Other:
    texts = queries["query"].tolist()
    return Other("bm25s", "bm25s, docnos and scores", 2, _per_query(lambda: search(texts)), search(texts))


def _named(threads: int) -> str:
    return f"PISA alone with our options (maxscore, {threads} thread{'s' * (threads > 1)})"


def _remembered(index: ikat.PassageIndex, queries: pd.DataFrame) -> Row:
    """The cost of keeping rankings, and the time that this saves for the next system with the same queries."""
    retriever = _bare(index, "maxscore", 2)
    texts = queries["query"].tolist()
    rankings = search(retriever, "query", texts, DEPTH)
    keys = [digest(text) for text in texts]
    memory = Cache()

    def keep() -> None:
        memory.get(keys)
        memory.put({key: packed(ranking, DEPTH) for key, ranking in zip(keys, rankings, strict=True)})

    def recall() -> None:
        for value in memory.get(keys).values():
            unpacked(value, DEPTH)

    searched, kept = median_seconds(lambda: search(retriever, "query", texts, DEPTH)), median_seconds(keep)
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
    """How much work another Python thread does while PISA searches, as a share of what it does alone."""
    alone, _ = _counted(lambda: time.sleep(1))
    many, shares, seconds = pd.concat([queries] * 4), {}, 0.0
    for threads in THREADS:
        pace, seconds = _counted(partial(_bare(index, "maxscore", threads), many))
        shares[threads] = pace / alone
    return Row(
        task=f"{4 * QUERIES} answers searched while Python goes on",
        ours=seconds,
        today=None,
        instead="",
        limit=None,
        why="",
        more={f"pace of a Python thread with threads={threads}": share for threads, share in shares.items()},
    )


class _Postings:
    """The number of postings of a query's terms, the bytes of a compressed posting, and the bytes that the memory delivers per second."""

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
    memory = np.ones(1 << 25)  # 256 MiB, more than any cache
    return memory.nbytes / median_seconds(memory.sum)


def _bare(index: ikat.PassageIndex, algorithm: str, threads: int) -> Any:
    from pyterrier_pisa import PisaIndex

    opened = PisaIndex(str(Path(index.path) / "pisa"), stops="lucene")
    return opened.bm25(num_results=DEPTH, query_algorithm=algorithm, query_weighted=True, threads=threads)


def _queries(words: int) -> pd.DataFrame:
    texts = synthetic(pt.get_dataset("ikat:2023-mini").get_corpus_iter(verbose=False), QUERIES * 10, seed=2)
    long = [ascii_text(text).split()[:words] for text in texts if len(text.split()) >= min(words, 200)]
    return pd.DataFrame(
        {"qid": [f"{number}" for number in range(QUERIES)], "query": [" ".join(text) for text in long[:QUERIES]]}, dtype=object
    )


def _per_query(work: Callable[[], Any]) -> float:
    return median_seconds(work, warm=0) / QUERIES  # the median of three runs isn't the cold one


def _same_top(ours: pd.DataFrame, theirs: pd.DataFrame) -> float:
    # Both may order passages with the same score freely, also at the cutoff, so the score at each rank is compared.
    mine, other = (frame[frame["rank"] < 100].sort_values(["qid", "rank"])["score"].to_numpy(dtype=float) for frame in (ours, theirs))
    return float(np.isclose(mine, other, rtol=1e-4).mean())


def _counted(work: Callable[[], Any]) -> tuple[float, float]:
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
    return count[0] / took, took
