"""Fusions as one would write them down, one list at a time, and frames and systems to fuse."""

from fractions import Fraction

import numpy as np
import pandas as pd
import pyterrier as pt

from pyterrier_ikat.operator import Operator

TURNS = pd.DataFrame({"qid": ["t", "u"], "query": ["tea?", "coffee?"]}, dtype=object)


def numbers(*values):
    return np.array(values, dtype=np.int64)


def round_robin(lists):
    lists, order = [list(docnos) for docnos in lists], []
    while any(lists):
        for docnos in lists:
            while docnos and docnos[0] in order:
                docnos.pop(0)
            if docnos:
                order.append(docnos.pop(0))
    return order


def rrf_sums(lists, k=60):
    """Passage -> its exact sum, best first."""
    ranks = {}
    for number, docnos in enumerate(lists):
        for docno in dict.fromkeys(docnos):
            ranks.setdefault(docno, []).append((docnos.index(docno), number))
    total = {
        docno: sum(Fraction(1, k + 1 + rank) for rank, _ in found) for docno, found in ranks.items()
    }
    return {
        docno: total[docno]
        for docno in sorted(ranks, key=lambda docno: (-total[docno], min(ranks[docno])))
    }


def plain_rrf(lists):
    return list(rrf_sums(lists))


def plain_sums(lists, weights, normalise):
    """Passage -> its exact weighted sum, best first.

    ``lists`` are (docno, score), best rank first.
    """
    total, best = {}, {}
    for number, (found, weight) in enumerate(zip(lists, weights, strict=True)):
        scores = [Fraction(score) for _, score in found]
        least, width = min(scores), max(scores) - min(scores)
        missing, places = least, scores
        if normalise == "min-max":
            missing, places = (
                0,
                [(score - least) / width if width else Fraction(1, 2) for score in scores],
            )
        of_list = {}
        for rank, ((docno, _), place) in enumerate(zip(found, places, strict=True)):
            of_list.setdefault(docno, place)
            best[docno] = min(best.get(docno, (rank, number)), (rank, number))
        for docno in {docno for of_other in lists for docno, _ in of_other}:
            total[docno] = total.get(docno, 0) + Fraction(str(weight)) * of_list.get(docno, missing)
    return {
        docno: float(total[docno])
        for docno in sorted(total, key=lambda docno: (-total[docno], best[docno]))
    }


def by_rank(lists):
    """The order of weighted sums of lists whose scores count down."""
    scored = [[(docno, -rank) for rank, docno in enumerate(found)] for found in lists if found]
    return list(plain_sums(scored, [1] * len(scored), "min-max"))


def frame_of(rows, weights=None):
    """A frame as after ExplodeQueries and a retriever, of rows (turn, sub-query, docno.

    Rank and, if it isn't to count down, score).
    """
    found = pd.DataFrame(
        [
            {"qid_0": row[0], "qsub": row[1], "docno": row[2], "rank": row[3], "score": row[-1]}
            for row in rows
        ],
        dtype=object,
    )
    found = found.reindex(columns=["qid_0", "qsub", "docno", "rank", "score"]).astype(
        {"qsub": "int64", "rank": "int64", "score": "float64"}
    )
    if rows and len(rows[0]) == 4:
        found["score"] = 10.0 - found["rank"]
    texts = {
        "qid": [f"{turn}::{sub}" for turn, sub, *_ in rows],
        "query": [f"{turn} sub {sub}" for turn, sub, *_ in rows],
        "query_0": [f"{turn}?" for turn, *_ in rows],
        "qanswer": [f"answer to {turn}" for turn, *_ in rows],
        "text": [f"text of {docno}" for _, _, docno, *_ in rows],
    }
    found = found.assign(
        **{name: pd.Series(values, dtype=object) for name, values in texts.items()}
    )
    return (
        found if weights is None else found.assign(qweight=[weights[sub] for sub in found["qsub"]])
    )


def expanded(turns, weights=None):
    """The same of turn -> list of ranked docnos per sub-query."""
    lists = [
        (turn, sub, docnos) for turn, of_turn in turns.items() for sub, docnos in enumerate(of_turn)
    ]
    return frame_of(
        [
            (turn, sub, docno, rank)
            for turn, sub, docnos in lists
            for rank, docno in enumerate(docnos)
        ],
        weights,
    )


def orders(frame):
    return {
        turn: rows.sort_values("rank")["docno"].tolist()
        for turn, rows in frame.groupby("qid", sort=False)
    }


class Finds(Operator):
    """A branch that finds given passages for each turn, and sets query columns to given values."""

    schematic = {"label": "Finds"}

    def __init__(self, passages, **columns):
        super().__init__()
        self.passages, self.columns = passages, columns

    def arguments(self):
        return {"passages": self.passages, "columns": self.columns}

    def transform(self, inp):
        pt.validate.query_frame(inp, extra_columns=["query"], context=self)
        rows = [
            {**turn, **{name: value.get(turn["qid"]) for name, value in self.columns.items()}}
            | {"docno": docno, "score": 9.0 - rank, "rank": rank, "text": f"text of {docno}"}
            for turn in inp.to_dict("records")
            for rank, docno in enumerate(self.passages.get(turn["qid"], []))
        ]
        names = list(dict.fromkeys([*inp.columns, *self.columns, "docno", "score", "rank", "text"]))
        return pd.DataFrame(rows, columns=names, dtype=object).astype(
            {"score": "float64", "rank": "int64"}
        )

    def __repr__(self):
        return f"Finds({self.passages!r})"


class Table(Operator):
    """A re-ranker by a function of query and docno.

    That remembers its frames and gives the rows back in another order.
    """

    schematic = {"label": "Table"}

    def __init__(self, score=lambda query, docno: 0.0):
        super().__init__()
        self.score, self.seen = score, []

    def transform(self, inp):
        pt.validate.result_frame(inp, extra_columns=["query", "text"], context=self)
        self.seen.append(inp)
        return inp.assign(
            score=[
                float(self.score(*pair)) for pair in zip(inp["query"], inp["docno"], strict=True)
            ]
        ).iloc[::-1]


def column_of(frame, name):
    """qid -> the one value that the turn has in the column."""
    found = {}
    for qid, value in zip(frame["qid"], frame[name], strict=True):
        assert found.setdefault(qid, value) == value
    return found
