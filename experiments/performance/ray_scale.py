"""More than one machine: the overhead of a Ray cluster, and how far the results of an index in parts are from those of one index.

The cluster has two nodes of one core on this machine, so the figures show the overhead and not the speed-up. The second part needs
IKAT_DATA.
"""

import os
import pickle
import tempfile
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

import ir_measures
import pandas as pd
import pyterrier as pt
from bench import Row, anew, median_seconds

import pyterrier_ikat as ikat
from pyterrier_ikat import MergeShards
from pyterrier_ikat.distribute import on_ray

TURNS, DEPTH, PARTS = 332, 300, 4
STORE = 400 * 1024 * 1024
MEASURES = [ir_measures.nDCG @ 5, ir_measures.R @ 20]


def rows() -> Iterator[Row]:
    """The rows of this benchmark."""
    yield _transport()
    yield from _index_in_parts()


def _transport() -> Row:
    os.environ["RAY_USAGE_STATS_ENABLED"] = "0"
    import ray
    from ray.cluster_utils import Cluster

    cluster = Cluster(initialize_head=True, head_node_args={"num_cpus": 1, "object_store_memory": STORE, "include_dashboard": False})
    cluster.add_node(num_cpus=1, object_store_memory=STORE)
    ray.init(address=cluster.address, log_to_driver=False)
    try:
        frame = _results()
        spread = on_ray(pt.Transformer.identity(), 8)
        return Row(
            task=f"a stage that does nothing, on Ray: {TURNS} turns x {DEPTH} passages with their texts, 8 parts, there and back",
            ours=median_seconds(lambda: spread(frame)),
            today=None,
            instead="",
            limit=median_seconds(lambda: pickle.loads(pickle.dumps(pickle.loads(pickle.dumps(frame))))),
            why="the frame written and read by pickle twice, in one process",
            more={"same": spread(frame).equals(frame), "MB": round(len(pickle.dumps(frame)) / 1e6)},
        )
    finally:
        ray.shutdown()
        cluster.shutdown()


def _results() -> pd.DataFrame:
    texts = [f"{number} " + "words of a passage " * 40 for number in range(20_000)]
    places = [(turn * 37 + rank * 61) % len(texts) for turn in range(TURNS) for rank in range(DEPTH)]
    history = [[{"role": "user", "content": f"{turn} and what came before " * 50}] for turn in range(TURNS)]
    columns: dict[str, Any] = {
        "qid": [f"{turn // 12}_{turn}" for turn in range(TURNS) for _ in range(DEPTH)],
        "query": [f"question {turn}" for turn in range(TURNS) for _ in range(DEPTH)],
        "qhistory": [history[turn] for turn in range(TURNS) for _ in range(DEPTH)],
        "docno": [f"d{place}" for place in places],
        "text": [texts[place] for place in places],
    }
    ranks = [rank for _ in range(TURNS) for rank in range(DEPTH)]
    return pd.DataFrame(columns, dtype=object).assign(score=[1.0 / (rank + 1) for rank in ranks], rank=ranks)


def _index_in_parts() -> Iterator[Row]:
    data = pt.get_dataset("ikat:2023-mini")
    corpus = list(data.get_corpus_iter(verbose=False))
    topics = data.get_topics("manual")
    topics = topics.assign(query=topics["qresolved"])
    size = -(-len(corpus) // PARTS)
    ways = {
        "dealt out in turn": [corpus[part::PARTS] for part in range(PARTS)],
        "runs of neighbours": [corpus[start : start + size] for start in range(0, len(corpus), size)],
    }
    with tempfile.TemporaryDirectory() as folder:
        whole = ikat.PassageIndex(Path(folder) / "whole").index(corpus).bm25()
        one = whole(topics)
        for name, parts in ways.items():
            indexes = [ikat.PassageIndex(Path(folder) / f"{name} {number}").index(part) for number, part in enumerate(parts)]
            merged = MergeShards([index.bm25() for index in indexes])
            yield Row(
                task=f"BM25 over {len(corpus)} passages in {PARTS} indexes ({name}), {len(topics)} resolved utterances",
                ours=median_seconds(partial(anew, merged, topics)),
                today=median_seconds(partial(anew, whole, topics)),
                instead="one index",
                limit=None,
                why="",
                more={
                    "top 10 shared": _shared(one, merged(topics)),
                    **_figures(merged(topics), data),
                    **_figures(one, data, " of one index"),
                },
            )


def _shared(one: pd.DataFrame, other: pd.DataFrame) -> float:
    first, second = (frame[frame["rank"] < 10].groupby("qid")["docno"].agg(set) for frame in (one, other))
    return float(sum(len(found & second.get(qid, set())) / len(found) for qid, found in first.items()) / len(first))


def _figures(run: pd.DataFrame, data: Any, tail: str = "") -> dict[str, float]:
    named = run.rename(columns={"qid": "query_id", "docno": "doc_id"})
    qrels = data.get_qrels().rename(columns={"qid": "query_id", "docno": "doc_id", "label": "relevance"})
    return {f"{measure}{tail}": value for measure, value in ir_measures.calc_aggregate(MEASURES, qrels, named).items()}
