"""Building an index and searching it on one thread: ours, bm25s, PISA, scipy, torch and faiss.

    python experiments/performance/bench.py search

There are only 700 real passages at hand, so ``real words`` are synthetic passages of real lengths,
with the words of real ones; the others have 180 words each by Zipf's law, whose most frequent ones
are in every passage. Rankings are 1000 deep, docnos and scores, without texts. A query's time is
from its text to its ranking. bm25s and faiss are measured if they are installed; bm25s' words
differ slightly from ours, and faiss gives rows. Times are the smallest of several calls: other
programs on the machine only increase them.
"""

import os
import sqlite3
import tempfile
import zlib
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import partial
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np
import pyterrier as pt
from bench import Row, cpu_seconds

import pyterrier_ikat as ikat
from pyterrier_ikat.retrieve.dense import Vectors
from pyterrier_ikat.retrieve.eager import open_postings
from pyterrier_ikat.retrieve.pisa import has_pisa
from pyterrier_ikat.retrieve.splade import write_impacts
from pyterrier_ikat.retrieve.words import ascii_text

PASSAGES = int(os.environ.get("IKAT_BENCH_PASSAGES", "100000"))
VECTORS = int(os.environ.get("IKAT_BENCH_VECTORS", "200000"))
QUERIES = 16
DEPTH = 1000
SIZE = 384
TAIL = 1 / 250
TAIL_WORDS = 1e9
VOCABULARY = 30_522
OF_A_QUERY = "ms of CPU, 1 thread"
Passages = list[dict[str, str]]


def rows() -> Iterator[Row]:
    """BM25 on both kinds of words, texts, SPLADE and dense vectors."""
    count = PASSAGES + 20 * QUERIES
    corpus = pt.get_dataset("ikat:2023-mini").get_corpus_iter(verbose=False)
    real = texts_of(synthetic(corpus, count))
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        yield from _words(folder, "real words", real)
        yield from _words(folder, "words by Zipf's law", texts_of(zipf(count)))
        yield _texts(folder, real[:PASSAGES])
        yield _splade(folder)
        yield from _dense(folder)


def synthetic(real: Iterable[Mapping[str, str]], count: int, seed: int = 1) -> Iterator[str]:
    """Texts of real lengths with words of ``real``, and one in 250 from a long tail of others."""
    random = np.random.default_rng(seed)
    texts = [passage["text"].split() for passage in real]
    frequencies = Counter(word for text in texts for word in text)
    words = np.array(list(frequencies))
    shares = np.cumsum(list(frequencies.values()))
    lengths = np.array([len(text) for text in texts])
    for length in random.choice(lengths, count):
        numbers = random.integers(shares[-1], size=length)
        drawn = words[np.searchsorted(shares, numbers, side="right")].tolist()
        for place in np.flatnonzero(random.random(length) < TAIL):
            drawn[place] = f"w{int(TAIL_WORDS ** random.random())}x"
        yield " ".join(drawn)


def zipf(count: int) -> Iterator[str]:
    """Texts of 200 words by Zipf's law."""
    random = np.random.default_rng(0)
    shares = np.cumsum(1 / np.arange(1, 200_001))
    for _ in range(count):
        words = np.searchsorted(shares, random.random(200) * shares[-1])
        yield " ".join(f"w{word}" for word in words)


def texts_of(texts: Iterable[str]) -> Passages:
    """Texts as passages, with docnos in the form of the collection's."""
    return [
        {"docno": f"clueweb22-en{n % 47:04}-{n // 47:05}:{n % 9}", "text": text}
        for n, text in enumerate(texts)
    ]


def _words(folder: Path, kind: str, passages: Passages) -> Iterator[Row]:
    """The build, and short and long queries drawn like the passages."""
    corpus, unseen = passages[:PASSAGES], [one["text"].split() for one in passages[PASSAGES:]]
    indexes, built = {}, {}
    for engine in ("eager", "pisa") if has_pisa() else ("eager",):
        index = ikat.PassageIndex(folder / f"{kind} {engine}")
        built[engine] = cpu_seconds(partial(index.index, corpus, engine=engine), repeats=1, warm=0)
        indexes[engine] = index.opened().engine.at(0.9, 0.4)
    by_bm25s: Callable[[list[str]], Any] | None = None
    if find_spec("bm25s"):
        made: list[Any] = []
        built["bm25s"] = cpu_seconds(
            lambda: made.append(bm25s_search([one["text"] for one in corpus])), repeats=1, warm=0
        )
        by_bm25s = made[-1]
    ours = built.pop("eager")
    yield Row(
        f"an index of {PASSAGES:,} passages with texts, {kind}",
        ours,
        built,
        unit="s of CPU, 1 thread",
    )
    for count in (5, 200):
        asked = [
            ascii_text(" ".join(words[:count])) for words in unseen if len(words) >= min(count, 150)
        ][:QUERIES]
        ways: dict[str, Callable[[], Any]] = (
            {} if by_bm25s is None else {"bm25s with numba": partial(by_bm25s, asked)}
        )
        more = {}
        if "pisa" in indexes:
            ways["PISA"] = partial(indexes["pisa"].rankings, asked, DEPTH)
            both = zip(
                indexes["eager"].rankings(asked, DEPTH),
                indexes["pisa"].rankings(asked, DEPTH),
                strict=True,
            )
            shared = [len(set(a.docnos) & set(b.docnos)) / len(a.docnos) for a, b in both]
            more = {f"shared of PISA's first {DEPTH}": float(np.mean(shared))}
        seconds = cpu_seconds(partial(indexes["eager"].rankings, asked, DEPTH)) / len(asked)
        others = {name: cpu_seconds(way) / len(asked) for name, way in ways.items()}
        yield Row(
            f"BM25, a query of {count} words, {PASSAGES:,} passages, {kind}",
            seconds,
            others,
            unit=OF_A_QUERY,
            more=more,
        )


def bm25s_search(texts: list[str]) -> Callable[[list[str]], Any]:
    """An index of bm25s, and its search for several queries."""
    import bm25s
    import Stemmer

    options = {"stemmer": Stemmer.Stemmer("english"), "stopwords": "en", "show_progress": False}
    engine = bm25s.BM25(k1=0.9, b=0.4, backend="numba")
    engine.index(bm25s.tokenize(texts, **options), show_progress=False)
    return lambda asked: engine.retrieve(
        bm25s.tokenize(asked, **options), k=DEPTH, n_threads=1, show_progress=False
    )


def _texts(folder: Path, passages: Passages) -> Row:
    """The texts of a ranking's passages."""
    index, connection = (
        ikat.PassageIndex(folder / "real words eager"),
        sqlite3.connect(folder / "zlib.db"),
    )
    connection.execute("CREATE TABLE texts (docno TEXT PRIMARY KEY, text BLOB)")
    connection.executemany(
        "INSERT INTO texts VALUES (?, ?)",
        ((one["docno"], zlib.compress(one["text"].encode())) for one in passages),
    )
    draw = np.random.default_rng(3)
    asked = [
        [
            passages[number]["docno"]
            for number in draw.choice(len(passages), min(DEPTH, PASSAGES), replace=False)
        ]
        for _ in range(5)
    ]

    def by_zlib(docnos: Sequence[str]) -> list[str]:
        marks = ",".join("?" * len(docnos))
        found = dict(
            connection.execute(f"SELECT docno, text FROM texts WHERE docno IN ({marks})", docnos)
        )
        return [zlib.decompress(found[docno]).decode() for docno in docnos]

    assert index.texts(asked[0]) == by_zlib(asked[0])

    def seconds(read: Callable[[Sequence[str]], list[str]]) -> float:
        return cpu_seconds(lambda: [read(docnos) for docnos in asked]) / len(asked)

    ours, today = seconds(index.texts), seconds(by_zlib)
    return Row(
        f"the texts of {len(asked[0])} passages",
        ours,
        {"sqlite with a zlib per text": today},
        unit=OF_A_QUERY,
    )


def _splade(folder: Path) -> Row:
    """Random terms and weights, a few frequent and most rare: encoding takes the model's time."""
    from scipy.sparse import csc_matrix

    draw, often = np.random.default_rng(0), 1 / np.arange(50, VOCABULARY + 50)
    files = []
    for start in range(0, PASSAGES, 10_000):
        count = min(10_000, PASSAGES - start)
        some = [
            np.unique(one) for one in draw.choice(VOCABULARY, (count, 160), p=often / often.sum())
        ]
        ends, docnos = (
            np.cumsum([len(one) for one in some]),
            np.array([f"d{number:08}" for number in range(start, start + count)]),
        )
        terms, weights = (
            np.concatenate(some).astype(np.int32),
            draw.integers(1, 300, ends[-1]).astype(np.uint32),
        )
        files.append(folder / f"{start:08}.npz")
        np.savez(
            files[-1],
            **{
                "0.docnos": docnos,
                "0.data": weights,
                "0.indices": terms,
                "0.indptr": np.concatenate([[0], ends]),
            },
        )
    (folder / "splade").mkdir()
    write_impacts(folder / "splade", files, None)
    ours = open_postings(folder / "splade")
    matrix = csc_matrix(
        (ours.impacts, ours.docs, ours.starts), shape=(PASSAGES, len(ours.starts) - 1)
    )
    drawn = [
        draw.choice(VOCABULARY, 30, replace=False, p=often / often.sum()) for _ in range(QUERIES)
    ]
    asked = [
        {
            str(term): int(weight)
            for term, weight in zip(one, draw.integers(1, 300, 30), strict=True)
        }
        for one in drawn
    ]

    def plain() -> None:
        for one in asked:
            numbers = [ours.columns[term] for term in one]
            scores = matrix[:, numbers] @ np.array(list(one.values()), dtype=np.float32)
            best = np.argpartition(-scores, min(DEPTH, PASSAGES - 1))[:DEPTH]
            best[np.argsort(-scores[best])]

    seconds, today = (
        cpu_seconds(lambda: ours.rankings(asked, DEPTH)) / QUERIES,
        cpu_seconds(plain) / QUERIES,
    )
    return Row(
        f"SPLADE, a query of 30 terms, {PASSAGES:,} passages",
        seconds,
        {"a product of scipy, rows": today},
        unit=OF_A_QUERY,
    )


def _dense(folder: Path) -> Iterator[Row]:
    """A few queries, and those of a whole run."""
    import torch

    torch.set_num_threads(1)
    draw = np.random.default_rng(0)
    vectors = draw.standard_normal((VECTORS, SIZE), dtype=np.float32)
    vectors /= np.linalg.norm(vectors, axis=1, keepdims=True)
    vectors.tofile(folder / "vecs.f4")
    (folder / "docnos.txt").write_text("".join(f"d{number:08}\n" for number in range(VECTORS)))
    ours, tensor = Vectors(folder, SIZE), torch.from_numpy(vectors)
    for count, repeats in ((64, 5), (1660, 1)):
        queries = vectors[
            draw.choice(VECTORS, min(count, VECTORS), replace=False)
        ] + 0.3 * draw.standard_normal(SIZE, dtype=np.float32)
        asked, depth = torch.from_numpy(queries), min(DEPTH, VECTORS)
        ways: dict[str, Callable[[], Any]] = {
            "torch's matmul and topk, rows": partial(_best, asked, tensor, depth)
        }
        if find_spec("faiss"):
            import faiss

            faiss.omp_set_num_threads(1)
            flat = faiss.IndexFlatIP(SIZE)
            flat.add(vectors)
            ways["faiss-cpu, IndexFlatIP, rows"] = partial(flat.search, queries, depth)
        seconds = cpu_seconds(partial(ours.rankings, queries, DEPTH, "cpu"), repeats=repeats)
        others = {name: cpu_seconds(way, repeats=repeats) for name, way in ways.items()}
        yield Row(
            f"dense search, {count} queries, {VECTORS:,} vectors of {SIZE}",
            seconds,
            others,
            unit="s of CPU, 1 thread",
        )


def _best(queries: Any, vectors: Any, depth: int) -> Any:
    return (queries @ vectors.T).topk(depth)
