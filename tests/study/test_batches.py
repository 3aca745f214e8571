"""A finished batch has all that its turns need.

None is kept that was made while an index changed.
"""

import json

import numpy as np
import pandas as pd
import pyterrier as pt
import pytest

from pyterrier_ikat.conversations.frame import column
from pyterrier_ikat.errors import DataError
from pyterrier_ikat.study import Study
from pyterrier_ikat.study.in_folders import run_in_folders

TOPICS = pd.DataFrame({"qid": ["1_1", "1_2"], "query": ["tea", "milk"]})
FOUND = pd.DataFrame(
    {"qid": ["1_1", "1_1"], "docno": ["a", "b"], "score": [2.0, 1.0], "rank": [0, 1]}
)
QRELS = pd.DataFrame({"qid": ["1_1"], "docno": ["a"], "label": [1]})


def run(system, tmp_path, size=2):
    return run_in_folders(Study({"mine": system}, topics=TOPICS, qrels=QRELS), tmp_path, size)[
        "mine"
    ].folder


def test_a_batch_keeps_tuples_arrays_and_marks(tmp_path):
    found = FOUND.assign(
        qstatements=column([(("10", np.float64(0.5)),)] * 2),
        qfound=column([np.array([7, 3])] * 2),
        used=column([np.True_, None]),
    )
    turns = pt.apply.generic(
        lambda frame: frame.assign(qsubqueries=column([None, ("milk", "cow")][: len(frame)]))
    )
    turns.one_row_per_turn = True
    folder = run(turns >> pt.apply.generic(lambda frame: found[: len(frame)]), tmp_path)
    tea, milk = folder.turns()
    assert (tea["qstatements"], tea["qfound"], tea["used"], tea["passages"]) == (
        [["10", 0.5]],
        [7, 3],
        ["a"],
        2,
    )
    assert (milk["qsubqueries"], milk["passages"]) == (["milk", "cow"], 0)
    assert (folder.path / "run.trec").read_text() == "1_1 Q0 a 1 2 mine\n1_1 Q0 b 2 1 mine\n"


def test_a_batch_that_would_lose_statements_is_refused(tmp_path):
    lost = FOUND.assign(qstatements=column([{"10": 0.5}] * 2))
    with pytest.raises(DataError, match="turn 1_1: qstatements is"):
        run(pt.apply.generic(lambda frame: lost[: len(frame)]), tmp_path)


class Index:
    path, state = "tea.index", "tea"

    def fingerprint(self):
        return self.state


class Finds(pt.Transformer):
    """A retriever whose index changes while it answers a turn."""

    def __init__(self, changes_at):
        super().__init__()
        self.index, self.changes_at = Index(), changes_at

    def transform(self, inp):
        if self.changes_at in inp["qid"].tolist():
            self.index.state = "coffee"
        return inp.assign(docno="a", score=1.0, rank=0)


@pytest.mark.parametrize(("changes_at", "kept"), [("1_2", ["1_1"]), ("1_1", [])])
def test_batch_made_while_an_index_changed_is_not_kept(changes_at, kept, tmp_path):
    system = Finds(changes_at)
    with pytest.raises(
        DataError,
        match=r"what mine uses .* changed during its run \(different parts .*: put back what the "
        r"run began with",
    ):
        run(system, tmp_path, 1)
    turns = [
        json.loads(path.read_text())["qid"]
        for path in (tmp_path / "mine.partial").glob("*.turns.jsonl")
    ]
    assert turns == kept
