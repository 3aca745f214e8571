import numpy as np
import pandas as pd
import pytest

from pyterrier_ikat.conversations.frame import column
from pyterrier_ikat.errors import DataError
from pyterrier_ikat.llms import Ledger
from pyterrier_ikat.runs import RunFolder
from pyterrier_ikat.study.batches import Batches

TOPICS = pd.DataFrame({"qid": ["1_1", "1_2"], "query": ["tea", "milk"]})
FOUND = pd.DataFrame({"qid": ["1_1", "1_1"], "docno": ["a", "b"], "score": [2.0, 1.0], "rank": [0, 1]})


def test_a_batch_keeps_tuples_arrays_and_marks(tmp_path):
    batches = Batches(RunFolder(tmp_path / "mine"), {})
    results = FOUND.assign(
        qstatements=column([(("10", np.float64(0.5)),)] * 2), qfound=column([np.array([7, 3])] * 2), used=column([np.True_, None])
    )
    lost = TOPICS.assign(qsubqueries=column([None, ("milk", "cow")]))
    batches.keep(0, lost, results, Ledger())
    [(topics, joined)] = batches.parts(TOPICS)
    assert joined["qstatements"].tolist() == [[["10", 0.5]]] * 2
    assert joined["qfound"].tolist() == [[7, 3]] * 2
    assert joined["used"].tolist() == [True, False]
    assert topics["qsubqueries"].tolist()[1] == ["milk", "cow"]


def test_a_batch_that_would_lose_statements_is_refused(tmp_path):
    results = FOUND.assign(qstatements=column([{"10": 0.5}] * 2))
    with pytest.raises(DataError, match="turn 1_1: qstatements is"):
        Batches(RunFolder(tmp_path / "mine"), {}).keep(0, TOPICS, results, Ledger())
