import pandas as pd
import pytest
from small_runs import ranking

from pyterrier_ikat.show.report.reasons import Relevant, explain, further_down, reasons_by_turn, relevant_by_turn
from pyterrier_ikat.show.report.runs import RunData

QRELS = pd.DataFrame({"qid": ["1_1"] * 3 + ["1_2"], "docno": ["a", "b", "c", "a"], "label": [1, 4, 0, 0]})
QR, AQD = ("qr", 0), ("aqd", 1)


def test_relevant_passages_have_their_ranks_at_any_depth_the_highest_label_first():
    one = RunData("one", ranking([("1_1", f"x{number}", 100.0 - number) for number in range(30)] + [("1_1", "a", 1.0), ("1_2", "a", 1.0)]))
    two = RunData("two", ranking([("1_1", "b", 2.0), ("1_1", "c", 1.0)]))
    found = relevant_by_turn([one, two], QRELS)
    assert found == {"1_1": [Relevant("b", 4, (None, 1)), Relevant("a", 1, (31, None))], "1_2": []}
    assert relevant_by_turn([one], None) == {}


@pytest.mark.parametrize(
    ("relevant", "told"),
    [
        ([("walk-019", 4, (4, 1))], "aqd finds walk-019 (label 4) at rank 1, qr at 4."),
        ([("walk-019", 4, (1, 4))], "qr finds walk-019 (label 4) at rank 1, aqd at 4."),
        ([("a", 2, (None, 57))], "aqd finds a (label 2) at rank 57, qr does not find it."),
        # 3 / log2(2) - 3 / log2(6) = 1.84 for qr, 2 / log2(3) - 2 / log2(4) = 0.26 for aqd
        (
            [("a", 3, (1, 5)), ("b", 2, (3, 2))],
            "qr finds a (label 3) at rank 1, aqd at 5. aqd finds b (label 2) at rank 2, qr at 3.",
        ),
        # for aqd a gives 1 / log2(2) - 1 / log2(3) = 0.37, b 4 / log2(4) - 4 / log2(8) = 0.67
        ([("a", 1, (2, 1)), ("b", 4, (7, 3))], "aqd finds b (label 4) at rank 3, qr at 7."),
        ([("a", 1, (2, 2)), ("b", 4, (None, None))], "qr and aqd rank all relevant passages alike."),
        ([("a", 1, (None, None))], "Neither qr nor aqd finds a relevant passage."),
        ([], "No passage is judged relevant."),
    ],
)
def test_the_passages_that_make_the_difference_are_named(relevant, told):
    assert explain(QR, AQD, [Relevant(*one) for one in relevant]) == told


def test_every_pair_of_runs_has_a_sentence_and_a_run_that_lacks_the_turn_says_so():
    runs = [
        RunData("one", ranking([("1_1", "b", 2.0)])),
        RunData("two", ranking([("1_1", "a", 2.0)])),
        RunData("new", ranking([("1_2", "a", 1.0)]), {"1_2": {}}, parameters={"method": "new"}),
    ]
    assert reasons_by_turn(runs, relevant_by_turn(runs, QRELS)) == {
        "1_1": [
            "one finds b (label 4) at rank 1, two does not find it. two finds a (label 1) at rank 1, one does not find it.",
            "new was not run on this turn.",
            "new was not run on this turn.",
        ],
        "1_2": ["No passage is judged relevant."] * 3,
    }


def test_relevant_passages_that_no_run_shows_are_listed_the_best_first():
    relevant = [Relevant("a", 4, (None, None)), Relevant("b", 3, (21, 30)), Relevant("c", 2, (1, 40)), Relevant("d", 1, (None, 99))]
    assert [one.docno for one in further_down(relevant, {"c"})] == ["b", "d"]
    assert [one.docno for one in further_down(relevant, {"c"}, most=1)] == ["b"]
