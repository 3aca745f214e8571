"""Fusions as one would write them down, one list at a time, and frames and systems to fuse."""

from fractions import Fraction

import numpy as np
import pandas as pd
import pyterrier as pt

from pyterrier_ikat.conversations.frame import column
from pyterrier_ikat.fuse.subqueries import (
    TurnLists,
)
from pyterrier_ikat.operator import Operator

TURNS = pd.DataFrame({"qid": ["t", "u"], "query": ["tea?", "coffee?"]}, dtype=object)


def numbers(*values):
    return np.array(values, dtype=np.int64)


def round_robin(lists):
    lists = [list(docnos) for docnos in lists]
    order = []
    while any(lists):
        for docnos in lists:
            while docnos and docnos[0] in order:
                docnos.pop(0)
            if docnos:
                order.append(docnos.pop(0))
    return order


def best_first(total, places):
    """The sums, greatest first; of equal ones, that of the first place."""
    order = sorted(total, key=lambda docno: (-total[docno], places[docno]))
    return {docno: total[docno] for docno in order}


def rrf_sums(lists, k=60):
    """Passage -> its exact sum, best first."""
    total = {}
    best = {}  # passage -> its best rank, and the first list that has it there
    for number, docnos in enumerate(lists):
        for docno in dict.fromkeys(docnos):
            rank = docnos.index(docno)
            total[docno] = total.get(docno, 0) + Fraction(1, k + 1 + rank)
            best[docno] = min(best.get(docno, (rank, number)), (rank, number))
    return best_first(total, best)


def plain_rrf(lists):
    return list(rrf_sums(lists))


def min_max(scores):
    """The scores between 0 and 1. Equal ones are in the middle."""
    least = min(scores)
    width = max(scores) - least
    if width == 0:
        return [Fraction(1, 2)] * len(scores)
    return [(score - least) / width for score in scores]


def plain_sums(lists, weights, normalise):
    """Passage -> its exact weighted sum, best first.

    ``lists`` are (docno, score), best rank first. A passage that a list lacks has its least score
    there.
    """
    best = {}  # passage -> its best rank, and the first list that has it there
    for number, found in enumerate(lists):
        for rank, (docno, _) in enumerate(found):
            best[docno] = min(best.get(docno, (rank, number)), (rank, number))
    total = dict.fromkeys(best, Fraction(0))
    for found, weight in zip(lists, weights, strict=True):
        scores = [Fraction(score) for _, score in found]
        missing = min(scores)
        if normalise == "min-max":
            scores = min_max(scores)
            missing = 0
        of_list = {}
        for (docno, _), score in zip(found, scores, strict=True):
            of_list.setdefault(docno, score)
        for docno in total:
            total[docno] += Fraction(str(weight)) * of_list.get(docno, missing)
    ordered = best_first(total, best)
    return {docno: float(total) for docno, total in ordered.items()}


def by_rank(lists):
    """The order of weighted sums of lists whose scores count down."""
    scored = []
    for docnos in lists:
        if docnos:
            scores = range(0, -len(docnos), -1)
            scored.append(list(zip(docnos, scores, strict=True)))
    return list(plain_sums(scored, [1] * len(scored), "min-max"))


def frame_of(rows, weights=None):
    """A frame as after ExplodeQueries and a retriever.

    Args:
        rows: of each passage: turn, sub-query, docno, rank and score. Without scores, these count
            down from 10.
        weights: the weight of each sub-query.
    """
    records = []
    for turn, sub, docno, rank, *score in rows:
        records.append(
            {
                "qid_0": turn,
                "qsub": sub,
                "docno": docno,
                "rank": rank,
                "score": score[0] if score else 10.0 - rank,
                "qid": f"{turn}::{sub}",
                "query": f"{turn} sub {sub}",
                "query_0": f"{turn}?",
                "qanswer": f"answer to {turn}",
                "text": f"text of {docno}",
            }
        )
    ranked = ["qid_0", "qsub", "docno", "rank", "score"]
    texts = ["qid", "query", "query_0", "qanswer", "text"]
    found = pd.DataFrame(records, columns=ranked + texts, dtype=object)
    found = found.astype({"qsub": "int64", "rank": "int64", "score": "float64"})
    if weights is not None:
        found["qweight"] = [weights[sub] for sub in found["qsub"]]
    return found


def expanded(turns, weights=None):
    """The same of turn -> list of ranked docnos per sub-query."""
    rows = []
    for turn, lists in turns.items():
        for sub, docnos in enumerate(lists):
            for rank, docno in enumerate(docnos):
                rows.append((turn, sub, docno, rank))
    return frame_of(rows, weights)


def orders(frame):
    """Turn -> its docnos by rank."""
    docnos = {}
    for turn, rows in frame.groupby("qid", sort=False):
        docnos[turn] = rows.sort_values("rank")["docno"].tolist()
    return docnos


class Finds(Operator):
    """A branch that finds given passages for each turn, and sets query columns to given values."""

    schematic = {"label": "Finds"}

    def __init__(self, passages, **columns):
        super().__init__()
        self.passages = passages
        self.columns = columns

    def arguments(self):
        return {"passages": self.passages, "columns": self.columns}

    def transform(self, inp):
        pt.validate.query_frame(inp, extra_columns=["query"], context=self)
        rows = []
        for turn in inp.to_dict("records"):
            for name, values in self.columns.items():
                turn[name] = values.get(turn["qid"])
            for rank, docno in enumerate(self.passages.get(turn["qid"], [])):
                found = {"docno": docno, "score": 9.0 - rank, "rank": rank}
                rows.append({**turn, **found, "text": f"text of {docno}"})
        names = list(dict.fromkeys([*inp.columns, *self.columns, "docno", "score", "rank", "text"]))
        frame = pd.DataFrame(rows, columns=names, dtype=object)
        return frame.astype({"score": "float64", "rank": "int64"})

    def __repr__(self):
        return f"Finds({self.passages!r})"


class Table(Operator):
    """A re-ranker by a function of query and docno.

    It remembers its frames, and gives the rows back in another order.
    """

    schematic = {"label": "Table"}

    def __init__(self, score=lambda query, docno: 0.0):
        super().__init__()
        self.score = score
        self.seen = []

    def transform(self, inp):
        pt.validate.result_frame(inp, extra_columns=["query", "text"], context=self)
        self.seen.append(inp)
        scores = []
        for query, docno in zip(inp["query"], inp["docno"], strict=True):
            scores.append(float(self.score(query, docno)))
        return inp.assign(score=scores).iloc[::-1]


def column_of(frame, name):
    """qid -> the one value that the turn has in the column."""
    values = {}
    for qid, value in zip(frame["qid"], frame[name], strict=True):
        assert values.setdefault(qid, value) == value
    return values


def lists_of(*lists):
    """One turn with these lists of docnos."""
    docnos = []
    parts = []
    for of_list in lists:
        parts.append(slice(len(docnos), len(docnos) + len(of_list)))
        docnos += of_list
    return TurnLists(np.arange(len(docnos)), column(docnos).to_numpy(), parts)


def without(*names):
    return pt.apply.generic(lambda rows: rows.drop(columns=list(names)))


def with_column(**values):
    return pt.apply.generic(lambda rows: rows.assign(**values))
