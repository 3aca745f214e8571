"""One system has one score: its ranks are the order that every evaluator sees."""

import pandas as pd
import pyterrier as pt
import pytest

import pyterrier_ikat as ikat
from pyterrier_ikat.evaluation import per_turn
from pyterrier_ikat.runs import RunFolder, read_run
from pyterrier_ikat.show.report.material import read_runs
from pyterrier_ikat.show.report.rankings import scores_to_show

TOPICS = pd.DataFrame({"qid": ["1_1", "1_2"], "query": "tea", "qutterance": "Tea?"})
QRELS = pd.DataFrame({"qid": ["1_1", "1_2"], "docno": ["z", "a"], "label": 1})


def test_a_system_with_ties_has_one_score_wherever_it_is_scored(tmp_path):
    """In both turns a is first and z second, tied: trec_eval alone would put z first.

    By hand 1/log2(3) and 1: the mean is .8155.
    """
    found = pd.DataFrame({"docno": ["z", "a"], "score": 0.5, "rank": [1, 0]})
    tied = pt.apply.generic(lambda turns: turns.merge(found, how="cross"))
    frame = tied(TOPICS)
    given = {"topics": TOPICS, "qrels": QRELS, "measures": ["nDCG@3", "RR@10"]}
    tables = [
        ikat.run({"tied": tied}, out=tmp_path / "runs", **given).table,
        ikat.experiment({"tied": tied}, **given),
        ikat.experiment({"tied": frame}, **given),
        ikat.evaluate({"tied": frame}, QRELS, given["measures"]),
        ikat.evaluate(
            {"tied": RunFolder(tmp_path / "runs" / "tied").results()}, QRELS, given["measures"]
        ),
        ikat.evaluate(
            {"tied": read_run(tmp_path / "runs" / "tied" / "run.trec")}, QRELS, given["measures"]
        ),
    ]
    for table in tables:
        assert table[
            ["nDCG@3", "RR@10" if "RR@10" in table else "RR(rel=1)@10"]
        ].values.tolist() == [[pytest.approx(0.8154648768), 0.75]]
    assert per_turn(frame, QRELS, ["nDCG@3"])["nDCG@3"].tolist() == [
        pytest.approx(0.6309297536),
        1.0,
    ]
    assert scores_to_show(read_runs({"tied": frame}), QRELS, ["1_1", "1_2"], ["RR@10"])[1] == {
        "1_1": [[0.5]],
        "1_2": [[1.0]],
    }
    assert ikat.pool_runs({"tied": frame}, 1)["docno"].tolist() == ["a", "a"]
