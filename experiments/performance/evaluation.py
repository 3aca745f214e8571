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

TURNS = 332
PASSAGES = 1000
JUDGED = 130
SYSTEMS = 5
KNOWN = 5000
NAMES = {"ndcg_cut.3,5", "ndcg", "P.20", "recall.20,1000", "map"}
"""trec_eval's names of the track's measures."""


def rows() -> Iterator[Row]:
    """`evaluate` on finished runs."""
    runs, qrels = made()
    theirs = {}
    for name, run in runs.items():
        theirs[name] = pyterriers(run.assign(score=-run["rank"].astype(float)))
    judged = pyterriers(qrels)
    our_scores = ikat.evaluate(runs, qrels)[list(map(label, TRACK_2023))].to_numpy(dtype=float)
    their_scores = np.array(with_ir_measures(theirs, judged))
    assert np.abs(our_scores - their_scores).max() < 1e-9, "the scores differ"
    today = median_seconds(lambda: with_ir_measures(theirs, judged))
    yield Row(
        f"evaluation, {SYSTEMS} runs, {TURNS} turns, {len(TRACK_2023)} measures",
        median_seconds(lambda: ikat.evaluate(runs, qrels)),
        {"ir_measures on PyTerrier's frames": today},
        median_seconds(trec_eval(runs, qrels)),
    )


def made() -> tuple[dict[str, pd.DataFrame], pd.DataFrame]:
    """Runs and qrels with ids of real lengths and some tied scores."""
    rng = np.random.default_rng(5)
    qids = [f"{number // 14 + 1}-1_{number % 14 + 1}" for number in range(TURNS)]
    ids = []
    for number in range(KNOWN):
        place = f"{number % 47:04d}-{number % 99:02d}-{number:05d}"
        ids.append(f"clueweb22-en{place}:{number % 30}")
    docnos = np.array(ids, dtype=object)

    def pairs(each: int) -> dict[str, pd.Series]:
        picked = [docnos[rng.choice(KNOWN, each, replace=False)] for _ in qids]
        return {
            "qid": pd.Series(np.repeat(np.array(qids, dtype=object), each)),
            "docno": pd.Series(np.concatenate(picked)),
        }

    scores = np.tile(np.linspace(30, 5, PASSAGES).round(2), TURNS)
    ranks = np.tile(np.arange(PASSAGES), TURNS)
    runs = {}
    for number in range(SYSTEMS):
        columns = {**pairs(PASSAGES), "score": scores, "rank": ranks}
        runs[f"system {number}"] = pd.DataFrame(columns)
    qrels = pd.DataFrame(pairs(JUDGED) | {"label": rng.integers(0, 5, TURNS * JUDGED)})
    return runs, qrels


def pyterriers(frame: pd.DataFrame) -> pd.DataFrame:
    """The frame in the form of PyTerrier's own readers and retrievers."""
    return frame.astype({"qid": "str", "docno": "str"})


def trec_eval(runs: dict[str, pd.DataFrame], qrels: pd.DataFrame) -> Callable[[], Any]:
    """The work of trec_eval itself, on existing dictionaries."""
    judged = {}
    for qid, rows in qrels.groupby("qid"):
        judged[qid] = dict(zip(rows["docno"], rows["label"].tolist(), strict=True))
    rankings = []
    for run in runs.values():
        ranking = {}
        for qid, rows in run.groupby("qid"):
            ranking[qid] = dict(zip(rows["docno"], rows["score"], strict=True))
        rankings.append(ranking)
    return lambda: [pytrec_eval.RelevanceEvaluator(judged, NAMES).evaluate(run) for run in rankings]


def with_ir_measures(runs: dict[str, pd.DataFrame], qrels: pd.DataFrame) -> list[list[float]]:
    """What users of ir_measures write: a row per run, with the measures in the track's order."""
    judged = pt.model.to_ir_measures(qrels)
    measures = list(TRACK_2023)
    rows = []
    for run in runs.values():
        scores = ir_measures.calc_aggregate(measures, judged, pt.model.to_ir_measures(run))
        rows.append([scores[measure] for measure in measures])
    return rows
