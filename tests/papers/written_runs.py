"""Runs of a paper that are written by hand, on three turns of the sample."""

import pandas as pd

from pyterrier_ikat.papers import find_table
from pyterrier_ikat.runs import RunFolder

PAPER = "generate_then_retrieve"
[PART] = find_table(PAPER, "3")
TURNS = ["1-1_1", "1-1_2", "1-1_3"]
QRELS = pd.DataFrame({"qid": TURNS, "docno": "a", "label": 1})
FOUND = {"first": "a x", "second": "x a", "none": "x y"}


def results(*docnos):
    rows = []
    for qid, of_turn in zip(TURNS, docnos, strict=False):
        for rank, docno in enumerate(of_turn.split()):
            rows.append((qid, docno, -float(rank), rank))
    return pd.DataFrame(rows, columns=["qid", "docno", "score", "rank"])


def write(made, name, *docnos, turns=TURNS, **columns):
    topics = pd.DataFrame({"qid": turns}, dtype=object).assign(**columns)
    folder = RunFolder(made.out(PART) / name)
    folder.write(topics, results(*docnos), pd.DataFrame(), pd.DataFrame(), {})
    return folder
