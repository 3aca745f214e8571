import pandas as pd
import pytest
from ir_measures import nDCG
from small_runs import ranking

from pyterrier_ikat.errors import DataError
from pyterrier_ikat.show.report.material import RunData
from pyterrier_ikat.show.report.rankings import scores_to_show

QRELS = pd.DataFrame({"qid": ["1_1", "1_1", "1_2"], "docno": ["a", "b", "a"], "label": [1, 1, 1]})
ONE = RunData("one", ranking([("1_1", "a", 2.0), ("1_1", "b", 1.0)]))
TWO = RunData("two", ranking([("1_1", "x", 2.0), ("1_1", "a", 1.0), ("1_2", "a", 1.0)]))


def test_a_lost_turn_counts_zero():
    names, figures = scores_to_show([ONE, TWO], QRELS, ["1_1", "1_2", "1_3"], ["P@2", "RR"])
    assert names == ["P(rel=1)@2", "RR(rel=1)"]
    assert figures == {"1_1": [[1.0, 1.0], [0.5, 0.5]], "1_2": [[0.0, 0.0], [0.5, 1.0]]}


def test_turns_that_are_not_shown_do_not_count():
    _, figures = scores_to_show([ONE], QRELS, ["1_1"], [nDCG @ 3])
    assert list(figures) == ["1_1"]


def test_qrels_of_other_turns_are_an_error():
    with pytest.raises(DataError, match=r"none of the turns \(9-1_1, ...\) is judged: the qrels have turns like 1_1"):
        scores_to_show([ONE], QRELS, ["9-1_1"], [nDCG @ 3])


def kept(name, **columns):
    return RunData(name, ONE.results, scores=pd.DataFrame(columns))


def test_without_qrels_the_run_folders_figures_are_shown():
    runs = [kept("one", qid=["1_1"], AP=[0.5]), kept("two", qid=["1_1"], AP=[0.75])]
    names, figures = scores_to_show(runs, None, ["1_1"])
    assert names == ["AP"]
    assert figures == {"1_1": [[0.5], [0.75]]}


@pytest.mark.parametrize("other", [{"qid": ["1_2"], "AP": [0.5]}, {"qid": ["1_1"], "RR": [0.5]}])
def test_figures_that_do_not_fit_together_are_an_error(other):
    with pytest.raises(DataError, match="two and one were measured by other measures or on other turns"):
        scores_to_show([kept("one", qid=["1_1"], AP=[0.5]), kept("two", **other)], None, ["1_1"])


def test_run_folders_share_the_measures_that_all_of_them_have():
    runs = [kept("one", qid=["1_1"], RR=[0.1], AP=[0.5]), kept("two", qid=["1_1"], AP=[0.75])]
    assert scores_to_show(runs, None, ["1_1"]) == (["AP"], {"1_1": [[0.5], [0.75]]})
    with pytest.raises(DataError, match=r"not all of these runs were measured by RR\(rel=1\): give the dataset or the qrels"):
        scores_to_show(runs, None, ["1_1"], ["RR"])


def test_figures_made_with_other_qrels_are_an_error():
    def judged(name, sha):
        return RunData(name, ONE.results, scores=pd.DataFrame({"qid": ["1_1"], "AP": [0.5]}), parameters={"qrels_sha256": sha})

    by_hand = kept("mine", qid=["1_1"], AP=[0.5])
    assert scores_to_show([by_hand, judged("one", "a"), judged("two", "a")], None, ["1_1"])[0] == ["AP"]
    for other in ("b", None):  # None: the figures were being made anew when the command was killed
        with pytest.raises(DataError, match="two and one were measured with other qrels: give the dataset or the qrels"):
            scores_to_show([by_hand, judged("one", "a"), judged("two", other)], None, ["1_1"])


def test_a_run_without_figures_leaves_none():
    assert scores_to_show([kept("one", qid=["1_1"], AP=[0.5]), ONE], None, ["1_1"]) == ([], {})
    assert scores_to_show([kept("one", qid=[], AP=[])], None, ["1_1"]) == ([], {})
