"""Three turns, two of them judged, and stages that find passages for them."""

import pandas as pd

import pyterrier_ikat as ikat
from pyterrier_ikat.operator import Operator

TOPICS = pd.DataFrame({"qid": ["1_1", "1_2", "1_3"], "query": ["tea", "milk", "ale"]}).assign(
    qutterance=lambda frame: frame["query"]
)
QRELS = pd.DataFrame({"qid": ["1_1", "1_2"], "docno": ["a", "b"], "label": [1, 1]})


class Finds(Operator):
    """Finds one passage for every turn; stops with an error in its call of that number."""

    def __init__(self, docno="a", error=None, at=0):
        super().__init__()
        self.docno = docno
        self.error = error
        self.at = at
        self.seen = []

    def __repr__(self):
        return f"Finds({self.docno!r})"

    def transform(self, inp):
        if len(inp):
            self.seen.append(inp["qid"].tolist())
            if self.error is not None and len(self.seen) > self.at:
                raise self.error
        return inp.assign(docno=self.docno, score=1.0, rank=0)


class FindsByTurn(Operator):
    """Finds a passage for each turn, or what a turn has in ``answers``: passages or an error."""

    def __init__(self, docno="a", **answers):
        super().__init__()
        self.docno = docno
        self.answers = answers
        self.seen = []

    def __repr__(self):
        return f"Finds({self.docno!r})"

    def transform(self, inp):
        if len(inp):
            self.seen.append(inp["qid"].tolist())
        found = []
        for qid in inp["qid"]:
            answer = self.answers.get(f"t{qid}", [self.docno])
            if isinstance(answer, Exception):
                raise answer
            found.append(answer)
        rows = inp.assign(docno=found).explode("docno").dropna(subset=["docno"])
        return rows.reset_index(drop=True).assign(score=1.0, rank=0)


def run(systems, out, **options):
    return ikat.run(systems, **({"topics": TOPICS, "qrels": QRELS, "out": out} | options))
