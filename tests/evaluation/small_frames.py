"""Small frames, runs, run folders and a dataset folder, written by hand or drawn."""

import json

import numpy as np
import pandas as pd
import pytrec_eval

from pyterrier_ikat.runs import RunFolder


def qrels(*rows):
    return pd.DataFrame(rows, columns=["qid", "docno", "label"])


TWO_TURNS = qrels(("1_1", "a", 2), ("1_1", "b", 1), ("1_2", "c", 1))


def run(**turns):
    rows = []
    for qid, docnos in turns.items():
        for rank, docno in enumerate(docnos.split()):
            rows.append((qid, docno, 10.0 - rank, rank))
    return pd.DataFrame(rows, columns=["qid", "docno", "score", "rank"])


def by_turn(frame, column):
    """qid -> docno -> the value of this column, as trec_eval takes judgements and runs."""
    turns = {}
    for qid, rows in frame.groupby("qid"):
        turns[qid] = dict(zip(rows["docno"], rows[column].tolist(), strict=True))
    return turns


def folder(path, results, asked=None, **parameters):
    """A finished run that was asked some turns, by default those of its results."""
    asked = list(dict.fromkeys(results["qid"])) if asked is None else asked
    made = RunFolder(path)
    topics = pd.DataFrame({"qid": asked}, dtype=object)
    made.write(topics, results, topics, pd.DataFrame(), parameters)
    return made


def dataset_folder(path):
    """A folder that is a dataset of one turn, 1_1, without judgements."""
    path.mkdir()
    question = {"role": "user", "content": "Tea?"}
    (path / "topics.jsonl").write_text(json.dumps({"qid": "1_1", "messages": [question]}))
    return path


def random_runs(seed=7, turns=30, names=("one", "two", "three")):
    rng = np.random.default_rng(seed)
    judged = []
    for turn in range(turns):
        for doc in rng.permutation(40)[:15]:
            judged.append((f"9-1_{turn}", f"d{doc}", int(rng.integers(0, 5))))
    runs = {}
    for position, name in enumerate(names):
        rows = []
        for turn in range(turns - position):  # later runs lack turns
            ranking = _by_trec_eval(rng.permutation(40)[:30])
            for rank, (score, docno) in enumerate(ranking):
                rows.append((f"9-1_{turn}", docno, score, rank))
        runs[name] = pd.DataFrame(rows, columns=["qid", "docno", "score", "rank"])
    return runs, pd.DataFrame(judged, columns=["qid", "docno", "label"])


def _by_trec_eval(docs):
    """Rounded scores, which tie, in trec_eval's order: of equal scores the greatest docno first."""
    scored = []
    for place, doc in enumerate(docs):
        scored.append((round(10 - place / 4, 0), f"d{doc}"))
    return sorted(scored, reverse=True)


def direct(run, qrels, names):
    """pytrec_eval called directly, missing turns as zeros."""
    judged = by_turn(qrels, "label")
    found = pytrec_eval.RelevanceEvaluator(judged, set(names)).evaluate(by_turn(run, "score"))
    figures = {}
    for name in names:
        figures[name] = [found.get(qid, {}).get(name, 0.0) for qid in judged]
    return figures
