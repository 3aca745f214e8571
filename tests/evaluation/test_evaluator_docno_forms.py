"""A run whose docnos have another form than the judged ones is an error with both forms."""

import re

import pandas as pd
import pyterrier as pt
import pytest
from hypothesis import given
from hypothesis import strategies as st

import pyterrier_ikat as ikat
from pyterrier_ikat.evaluation import as_measures, per_turn
from pyterrier_ikat.evaluation.evaluator import (
    Evaluator,
    NotJudgedWarning,
    other_forms,
)
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


def test_docnos_are_of_another_form_by_case_blanks_or_a_number():
    judged = ["D1", "d2:3", "d3", "d4-1", "d5"]
    found = ["d1", "D2:3", "d2", "d3:0", "d 3", "d4-2", "d4_1", "d5#12", "x"]
    assert other_forms(found, judged) == [
        ("D2:3", "d2:3"),
        ("d 3", "d3"),
        ("d1", "D1"),
        ("d2", "d2:3"),
        ("d3:0", "d3"),
        ("d5#12", "d5"),
    ]
    assert other_forms(["STRASSE:1", "d\u00a01"], ["Straße", "d1"]) == [
        ("STRASSE:1", "Straße"),
        ("d\u00a01", "d1"),
    ]


@pytest.mark.parametrize(("same", "told"), [(0, True), (1, False), (2, False)])
def test_a_tenth_of_the_judged_passages_show_the_form(same, told):
    """Of twenty judged passages two are a tenth; one is as many as are found in another form."""
    judged = {"1_1": {f"d{number}": 1 for number in range(20)}}
    ranking = dict.fromkeys([f"d{number}" for number in range(same)] + ["D19:0"], 1.0)
    evaluator = Evaluator(judged, as_measures("P@5"))
    assert bool(evaluator.of_other_form({"1_1": ranking})) is told


@pytest.mark.parametrize(
    ("same", "others", "unjudged", "told"),
    [(1, 2, 0, True), (2, 3, 0, False), (2, 3, 50, False), (1, 1, 50, False), (1, 2, 50, True)],
)
def test_the_form_is_that_of_judged_passages_not_of_found(same, others, unjudged, told):
    """A tenth of the twenty judged ones as they are, or else more of them in another form."""
    judged = {"1_1": {f"d{number}": 1 for number in range(20)}}
    found = [f"d{number}" for number in range(same)]
    found += [f"D{19 - number}:0" for number in range(others)]
    found += [f"x{number}" for number in range(unjudged)]
    evaluator = Evaluator(judged, as_measures("P@5"))
    assert bool(evaluator.of_other_form({"1_1": dict.fromkeys(found, 1.0)})) is told
