"""Small frames, run folders and a dataset folder, written by hand."""

import json

import pandas as pd

from pyterrier_ikat.runs import RunFolder


def qrels(*rows):
    return pd.DataFrame(rows, columns=["qid", "docno", "label"])


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
