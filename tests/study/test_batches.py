import json

import numpy as np
import pandas as pd
import pyterrier as pt
import pytest

from pyterrier_ikat.conversations.frame import column
from pyterrier_ikat.errors import DataError
from pyterrier_ikat.llms import Ledger
from pyterrier_ikat.runs import RunFolder
from pyterrier_ikat.study.batches import Batches
from pyterrier_ikat.study.identity import parameters_of

TOPICS = pd.DataFrame({"qid": ["1_1", "1_2"], "query": ["tea", "milk"]})
FOUND = pd.DataFrame({"qid": ["1_1", "1_1"], "docno": ["a", "b"], "score": [2.0, 1.0], "rank": [0, 1]})


def test_a_batch_keeps_tuples_arrays_and_marks(tmp_path):
    batches = Batches(RunFolder(tmp_path / "mine"), {})
    results = FOUND.assign(
        qstatements=column([(("10", np.float64(0.5)),)] * 2), qfound=column([np.array([7, 3])] * 2), used=column([np.True_, None])
    )
    lost = TOPICS.assign(qsubqueries=column([None, ("milk", "cow")]))
    assert batches.keep(0, lost, results, Ledger()) == {"1_1": {"a": 2.0, "b": 1.0}}
    files = {name: b"".join(pieces).decode() for name, pieces in batches.joined().items()}
    tea, milk = map(json.loads, files["turns.jsonl"].splitlines())
    assert (tea["qstatements"], tea["qfound"], tea["used"], tea["passages"]) == ([["10", 0.5]], [7, 3], ["a"], 2)
    assert (milk["qsubqueries"], milk["passages"]) == (["milk", "cow"], 0)
    assert files["run.trec"] == "1_1 Q0 a 1 2 mine\n1_1 Q0 b 2 1 mine\n"


def test_a_batch_that_would_lose_statements_is_refused(tmp_path):
    results = FOUND.assign(qstatements=column([{"10": 0.5}] * 2))
    with pytest.raises(DataError, match="turn 1_1: qstatements is"):
        Batches(RunFolder(tmp_path / "mine"), {}).keep(0, TOPICS, results, Ledger())


class Index:
    path, state = "tea.index", "tea"

    def fingerprint(self):
        return self.state


class Finds(pt.Transformer):
    """A retriever whose index changes while it answers turn 1_2."""

    def __init__(self):
        super().__init__()
        self.index = Index()

    def transform(self, inp):
        if "1_2" in inp["qid"].tolist():
            self.index.state = "coffee"
        return inp.assign(docno="a", score=1.0, rank=0)


def test_a_batch_that_was_made_while_an_index_changed_is_not_kept(tmp_path):
    system = Finds()
    batches = Batches(RunFolder(tmp_path / "mine"), parameters_of(system))
    with pytest.raises(DataError, match="tea.index was replaced or changed while a run used it: put back what the run began with"):
        batches.run(system, TOPICS, [], 1)
    assert batches.finished() == {"1_1"}


def test_a_run_whose_index_changed_before_its_first_batch_keeps_nothing(tmp_path):
    system = Finds()
    batches = Batches(RunFolder(tmp_path / "mine"), parameters_of(system))
    system.index.state = "mint"
    with pytest.raises(DataError, match="tea.index was replaced or changed"):
        batches.run(system, TOPICS[:1], [], 1)
    assert batches.finished() == set()
