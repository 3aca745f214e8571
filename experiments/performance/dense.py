"""Dense search: ours, pyterrier_dr's exact retrievers, plain numpy, and the limit of the machine.

The index holds 1,000,000 random vectors of 384 dimensions, or as many as ``IKAT_BENCH_VECTORS`` says, in a file of a temporary folder;
queries are also random vectors, and rankings are 1000 deep. All searches use vectors, because the time to encode queries is the model's.

All times are CPU seconds, the smallest of several calls. Set OMP_NUM_THREADS=1 to compare them on one thread.

The limit is the larger of two times that are measured here: reading all vectors once, and multiplying them at this machine's rate for the
product of 64 queries with a block of vectors that fits in the processor's cache. Ours computes the product in 32 bits, and multiplies the
vectors that may be among the best again in 64 bits, so that scores don't depend on the other queries. ``index.dense()`` returns frames with
docnos, like FlexIndex's retrievers. Plain numpy and faiss (if it is installed) return rows.
"""

import os
import tempfile
from collections.abc import Iterator
from functools import partial
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from bench import Row, anew, cpu_seconds
from process_memory import watched

import pyterrier_ikat as ikat
from pyterrier_ikat.retrieve import dense_writer
from pyterrier_ikat.retrieve.dense_search import search_vectors

VECTORS = int(os.environ.get("IKAT_BENCH_VECTORS", "1000000"))
SIZE, DEPTH, QUERIES, TURNS = 384, 1000, 64, 332 * 5
AT_ONCE = 64
BLOCK = 2048


def rows() -> Iterator[Row]:
    """A few queries with all alternatives, and those of a whole run."""
    with tempfile.TemporaryDirectory() as name:
        index = build(Path(name, "index"), VECTORS)
        vectors = index.flex.np_vecs()
        reading, rate = cpu_seconds(lambda: vectors.view(np.int64).max()), product_rate()
        for count, repeats in ((QUERIES, 3), (TURNS, 1)):
            asked = queries(count)
            product = 2 * count * VECTORS * SIZE / rate
            why = (
                f"the larger of reading the vectors once ({reading:.3g} s) and their product at {rate / 1e9:.0f} GFLOP/s ({product:.3g} s)"
            )
            yield from _searches(index, vectors, asked, max(reading, product), why, repeats)


def _searches(index: ikat.DenseIndex, vectors: Any, asked: pd.DataFrame, limit: float, why: str, repeats: int) -> Iterator[Row]:
    held = np.stack(asked["query_vec"])
    task = f"{len(asked)} queries, {VECTORS:,} vectors of {SIZE}, top {DEPTH}, CPU seconds"
    seconds = partial(cpu_seconds, repeats=repeats, warm=int(repeats > 1))
    today = {
        "FlexIndex.np_retriever()": partial(index.flex.np_retriever(num_results=DEPTH), asked),
        "FlexIndex.torch_retriever()": partial(index.flex.torch_retriever(num_results=DEPTH), asked),
        f"plain numpy ({AT_ONCE} queries at a time)": partial(plain, vectors, held),
    }
    if find_spec("faiss"):
        today["faiss-cpu, IndexFlatIP, rows and scores"] = partial(faiss_index(vectors).search, held, DEPTH)
    dense = index.dense(num_results=DEPTH)
    with watched() as memory:
        ours = seconds(lambda: anew(dense, asked))
    more = {
        "MB in memory, beside the mapped file": memory[1] - memory[0],
        "same top 10": same_top(dense(asked), today["FlexIndex.np_retriever()"]()),
    }
    for number, (instead, work) in enumerate(today.items()):
        yield Row(f"{task}: index.dense()", ours, seconds(work), instead, limit, why, more if number == 0 else {})
    alone = seconds(lambda: search_vectors(vectors, held, DEPTH, longest=1.0))
    yield Row(f"{task}: its search alone", alone, None, "", limit, why)


def build(path: Path, count: int) -> ikat.DenseIndex:
    """An index of random vectors, without texts."""
    path.mkdir()
    draw = np.random.default_rng(0)
    passages = ((f"clueweb22-en{number:08}:0", "text") for number in range(count))
    encoded = dense_writer.encode_passages(
        path / "dense", path.with_name("progress"), passages, lambda texts: unit_vectors(draw, len(texts)), made_by="", total=count
    )
    dense_writer.finish_flex(path / "dense", encoded)
    index = ikat.DenseIndex(path)
    made_with = {"model": "random", "encoded_by": "random", "similarity": "cosine", "query_prefix": None, "passage_prefix": None}
    made_of = {"format": 2, "count": count, "sha256": "", "vectors": count, "size": SIZE, "longest": encoded.longest}
    index.write_meta(path, {**made_of, **made_with})
    return index


def unit_vectors(draw: np.random.Generator, count: int) -> Any:
    """Random vectors of length 1."""
    found = draw.standard_normal((count, SIZE), dtype=np.float32)
    return found / np.linalg.norm(found, axis=1, keepdims=True)


def queries(count: int) -> pd.DataFrame:
    """A query frame with vectors."""
    held = list(unit_vectors(np.random.default_rng(1), count))
    return pd.DataFrame({"qid": [str(number) for number in range(count)], "query": "tea", "query_vec": held})


def product_rate() -> float:
    """Operations per second of the product of queries with a block of vectors, the best of many."""
    draw = np.random.default_rng(2)
    some, block, scores = unit_vectors(draw, QUERIES), unit_vectors(draw, BLOCK), np.empty((QUERIES, BLOCK), np.float32)
    return 2 * QUERIES * BLOCK * SIZE / cpu_seconds(lambda: np.matmul(some, block.T, out=scores), 20)


def plain(vectors: Any, held: Any) -> list[Any]:
    """The best rows, as written by a user."""
    found = []
    for start in range(0, len(held), AT_ONCE):
        scores = held[start : start + AT_ONCE] @ vectors.T
        best = np.argpartition(-scores, DEPTH, axis=1)[:, :DEPTH]
        found.append(np.take_along_axis(best, np.argsort(-np.take_along_axis(scores, best, axis=1), axis=1), axis=1))
    return found


def faiss_index(vectors: Any) -> Any:
    """The vectors in faiss, whose exact index keeps a copy in memory."""
    import faiss

    found = faiss.IndexFlatIP(SIZE)
    found.add(np.ascontiguousarray(vectors))
    return found


def same_top(ours: pd.DataFrame, other: pd.DataFrame, depth: int = 10) -> float:
    """The share of each query's first passages that are also among the first ones of the other ranking."""
    first = [frame[frame["rank"] < depth].groupby("qid")["docno"].agg(set) for frame in (ours, other)]
    return float(np.mean([len(one & two) / depth for one, two in zip(*first, strict=True)]))
