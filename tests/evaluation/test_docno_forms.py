"""A run whose docnos have another form than the judged ones is an error with both forms.

One of other passages is told.
"""

import re

import pandas as pd
import pyterrier as pt
import pytest
from hypothesis import given
from hypothesis import strategies as st

import pyterrier_ikat as ikat
from pyterrier_ikat.evaluation import per_turn
from pyterrier_ikat.evaluation.evaluator import NotJudgedWarning, other_forms
from pyterrier_ikat.runs import RunFolder

TURNS = ["1_1", "1_2"]


def judging(*docnos):
    of_turns = [pd.DataFrame({"qid": qid, "docno": list(docnos), "label": 1}) for qid in TURNS]
    return pd.concat(of_turns, ignore_index=True)


def finding(*docnos):
    rows = []
    for qid in TURNS:
        for rank, docno in enumerate(docnos):
            rows.append((qid, docno, -float(rank), rank))
    return pd.DataFrame(rows, columns=["qid", "docno", "score", "rank"])


@pytest.mark.parametrize(
    ("ours", "theirs"),
    [
        ("r:0", "r"),
        ("r", "r:0"),
        ("ClueWeb22-en0000-94-02275:0", "clueweb22-en0000-94-02275:0"),
        ("r ", "r"),
        ("r", "r\u00a0"),
        (
            "MARCO_D59235-7",
            "MARCO_D59235",
        ),  # the organisers' collection of passages and the judged documents of CAsT 2021
        ("MARCO_D59235", "MARCO_D59235-7"),
        ("7.0", "7"),  # numbers that pandas read as floats
        ("D1:3", "D1"),
        ("KILT_12", "kilt_12-3"),
    ],
)
def test_another_form_is_an_error_with_both_forms(ours, theirs):
    both = re.escape(f"its passages are like {ours!r}, the judged ones like {theirs!r}")
    topics = pd.DataFrame({"qid": TURNS, "query": "q"})
    for score in (
        lambda: ikat.evaluate({"x": finding("n", ours)}, judging(theirs, "other")),
        lambda: ikat.breakdown({"x": finding("n", ours)}, judging(theirs)),
        lambda: per_turn(finding(ours), judging(theirs)),
        lambda: ikat.report({"x": finding(ours)}, qrels=judging(theirs)),
        lambda: ikat.experiment({"x": finding(ours)}, topics=topics, qrels=judging(theirs)),
    ):
        with pytest.raises(ikat.DataError, match=both):
            score()


def test_a_run_with_docnos_of_another_form_is_kept_unscored(tmp_path):
    given = {"topics": pd.DataFrame({"qid": TURNS, "query": "q"}), "out": tmp_path}
    systems = {"x": pt.Transformer.from_df(finding("r:0"))}
    with pytest.raises(
        ikat.DataError,
        match="its passages are like 'r:0', the judged ones like 'r', .* convert the docnos",
    ):
        ikat.run(systems, qrels=judging("r"), **given)
    folder = RunFolder(tmp_path / "x")
    assert len(folder.results()) == 2
    assert folder.measures().empty


def test_other_passages_are_told_and_count_0():
    with pytest.warns(
        NotJudgedWarning,
        match=r"none of its 2 passages is judged \(they are like y:3, the judged ones like x:1\)",
    ):
        table = ikat.evaluate({"x": finding("y:3", "x:2")}, judging("x:1"), ["nDCG@5"])
    assert table["nDCG@5"].tolist() == [0.0]


def test_one_passage_as_it_is_judged_does_not_hide_the_others():
    """Of twelve judged documents one has an id that is its passage's, too."""
    judged = [f"D{number}" for number in range(11)] + ["E"]
    with pytest.raises(
        ikat.DataError, match="its passages are like 'D0-1', the judged ones like 'D0'"
    ):
        ikat.evaluate(
            {"x": finding("E", *(f"D{number}-1" for number in range(11)))}, judging(*judged)
        )


def test_a_passage_that_looks_like_another_form_is_no_error():
    """Apollo is judged, and Apollo-11 is another page."""
    assert ikat.evaluate(
        {"x": finding("Apollo-11", "Apollo")}, judging("Apollo", "Apollo-12"), ["R@5"]
    )["R(rel=1)@5"].tolist() == [0.5]


PASSAGES = st.sets(st.from_regex(r"[a-z]{1,3}[:-][0-9]{1,2}", fullmatch=True))


@given(PASSAGES, PASSAGES)
def test_two_numbers_are_two_passages(found, judged):
    assert other_forms(found - judged, judged) == []
