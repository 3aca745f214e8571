"""Evaluation: `ikat.evaluate` on object columns, ir_measures on PyTerrier's string columns.

    python experiments/performance/bench.py evaluation

The shape is that of a full run of 2023: 332 turns x 1000 passages x 5 systems, 130 judgements per
turn, and the track's seven measures. Both give the same scores, to 1e-9. The limit is trec_eval's C
code, with its dictionaries built beforehand.
"""

from collections.abc import Callable, Iterator
from typing import Any

import ir_measures
import numpy as np
import pandas as pd
import pyterrier as pt
import pytrec_eval
from bench import Row, median_seconds

import pyterrier_ikat as ikat
from pyterrier_ikat.evaluation import TRACK_2023, label

TURNS, PASSAGES, JUDGED, SYSTEMS, KNOWN = 332, 1000, 130, 5, 5000
NAMES = {"ndcg_cut.3,5", "ndcg", "P.20", "recall.20,1000", "map"}
"""trec_eval's names of the track's measures."""


def rows() -> Iterator[Row]:
    """`evaluate` on finished runs."""
    runs, qrels = made()
    theirs, judged = (
        {
            name: pyterriers(run.assign(score=-run["rank"].astype(float)))
            for name, run in runs.items()
        },
        pyterriers(qrels),
    )
    found = ikat.evaluate(runs, qrels)[list(map(label, TRACK_2023))].to_numpy(dtype=float)
    assert np.abs(found - np.array(with_ir_measures(theirs, judged))).max() < 1e-9, (
        "the scores differ"
    )
    others = {
        "ir_measures on PyTerrier's frames": median_seconds(
            lambda: with_ir_measures(theirs, judged)
        )
    }
    stage = f"evaluation, {SYSTEMS} runs, {TURNS} turns, {len(TRACK_2023)} measures"
    yield Row(
        stage,
        median_seconds(lambda: ikat.evaluate(runs, qrels)),
        others,
        median_seconds(trec_eval(runs, qrels)),
    )


def made() -> tuple[dict[str, pd.DataFrame], pd.DataFrame]:
    """Runs and qrels with ids of real lengths and some tied scores."""
    rng = np.random.default_rng(5)
    qids = [f"{number // 14 + 1}-1_{number % 14 + 1}" for number in range(TURNS)]
    docnos = np.array(
        [
            f"clueweb22-en{number % 47:04d}-{number % 99:02d}-{number:05d}:{number % 30}"
            for number in range(KNOWN)
        ],
        dtype=object,
    )

    def pairs(each: int) -> dict[str, pd.Series]:
        picked = [docnos[rng.choice(KNOWN, each, replace=False)] for _ in qids]
        return {
            "qid": pd.Series(np.repeat(np.array(qids, dtype=object), each)),
            "docno": pd.Series(np.concatenate(picked)),
        }

    scores, ranks = (
        np.tile(np.linspace(30, 5, PASSAGES).round(2), TURNS),
        np.tile(np.arange(PASSAGES), TURNS),
    )
    runs = {
        f"system {number}": pd.DataFrame(pairs(PASSAGES) | {"score": scores, "rank": ranks})
        for number in range(SYSTEMS)
    }
    qrels = pd.DataFrame(pairs(JUDGED) | {"label": rng.integers(0, 5, TURNS * JUDGED)})
    return runs, qrels


def pyterriers(frame: pd.DataFrame) -> pd.DataFrame:
    """The frame in the form of PyTerrier's own readers and retrievers."""
    return frame.astype({"qid": "str", "docno": "str"})


def trec_eval(runs: dict[str, pd.DataFrame], qrels: pd.DataFrame) -> Callable[[], Any]:
    """The work of trec_eval itself, on existing dictionaries."""
    judged = {
        qid: dict(zip(rows["docno"], rows["label"].tolist(), strict=True))
        for qid, rows in qrels.groupby("qid")
    }
    found = [
        {
            qid: dict(zip(rows["docno"], rows["score"], strict=True))
            for qid, rows in run.groupby("qid")
        }
        for run in runs.values()
    ]
    return lambda: [pytrec_eval.RelevanceEvaluator(judged, NAMES).evaluate(run) for run in found]


def with_ir_measures(runs: dict[str, pd.DataFrame], qrels: pd.DataFrame) -> list[list[float]]:
    """What users of ir_measures write: a row per run, with the measures in the track's order."""
    judged, measures = pt.model.to_ir_measures(qrels), list(TRACK_2023)
    found = [
        ir_measures.calc_aggregate(measures, judged, pt.model.to_ir_measures(run))
        for run in runs.values()
    ]
    return [[figures[measure] for measure in measures] for figures in found]
