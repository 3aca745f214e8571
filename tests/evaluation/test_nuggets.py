"""Nuggets with a real LLM object whose answers are queued; scores worked out by hand."""

import json
import math

import pandas as pd
import pytest
from fakes import scripted

from pyterrier_ikat.errors import DataError, UsageError
from pyterrier_ikat.evaluation.nuggets import (
    assign_nuggets,
    create_nuggets,
    nugget_agreement,
    nugget_precision,
    nugget_scores,
)
from pyterrier_ikat.llms import StageError


def pool(passages, qid="1_1"):
    return pd.DataFrame(
        {
            "qid": qid,
            "query": "Which tea?",
            "docno": [f"d{n}" for n in range(passages)],
            "text": [f"text {n}" for n in range(passages)],
        }
    )


def facts(*named, qid="1_1"):
    return pd.DataFrame(
        {
            "qid": qid,
            "nugget": [name for name, _ in named],
            "importance": [importance for _, importance in named],
        }
    )


def said(text, qid="1_1"):
    return pd.DataFrame({"qid": [qid], "query": ["Which tea?"], "qanswer": [text]})


def test_the_list_grows_in_batches_of_ten_with_vital_first():
    llm, model = scripted('["a", "b"]', '["a", "b", "c"]', '["okay", "vital", "okay"]')
    found = create_nuggets(pool(12), llm)
    assert found.values.tolist() == [
        ["1_1", "b", "vital"],
        ["1_1", "a", "okay"],
        ["1_1", "c", "okay"],
    ]
    first, second, rating = (chat[-1]["content"] for chat in model.asked)
    assert "text 9" in first
    assert "text 10" not in first
    assert "(none)" in first
    assert "text 10" in second
    assert "text 11" in second
    assert "text 0" not in second
    assert "- b" in second
    assert "2. b" in rating


def test_twenty_nuggets_stay_of_thirty():
    names = [f"n{number}" for number in range(40)]
    llm, _ = scripted(json.dumps(names), *[json.dumps(["okay"] * 9 + ["vital"])] * 3)
    found = create_nuggets(pool(1), llm)
    assert len(found) == 20
    assert found["nugget"].tolist()[:4] == ["n9", "n19", "n29", "n0"]


@pytest.mark.parametrize(
    "bad", ["no list", '["vital"]', '["vital", "very"]', '["vital", "okay", "okay"]']
)
def test_a_rating_that_does_not_fit_is_a_failure(bad):
    llm, _ = scripted('["a", "b"]', bad)
    with pytest.raises(StageError, match="1_1"):
        create_nuggets(pool(1), llm, on_error="raise")
    llm, _ = scripted('["a", "b"]', bad)
    assert create_nuggets(pool(1), llm, on_error="fallback")["importance"].tolist() == [
        "okay",
        "okay",
    ]
    [row] = llm.ledger.frame().to_dict("records")
    assert (row["failures"], row["fallbacks"]) == (1, 1)


def test_labels_are_asked_ten_at_a_time_and_only_for_responses():
    named = facts(*[(f"n{number}", "vital") for number in range(11)])
    more = facts(("m", "okay"), qid="1_2")
    llm, model = scripted(json.dumps(["support"] * 9 + ["partial support"]), '["not-support"]')
    found = assign_nuggets(
        pd.concat([said("It is green."), said(" ", "1_2")]), pd.concat([named, more]), llm
    )
    assert found["label"].tolist() == ["support"] * 9 + [
        "partial_support",
        "not_support",
        "not_support",
    ]
    assert len(model.asked) == 2


def test_a_nugget_without_a_label_is_counted_but_not_scored():
    llm, _ = scripted("none of them")
    found = nugget_scores(
        assign_nuggets(
            said("Green."), facts(("a", "vital"), ("b", "okay")), llm, on_error="fallback"
        )
    )
    [row] = found.to_dict("records")
    assert row["unlabelled"] == 2
    assert row["nuggets"] == 0
    assert math.isnan(row["all"])


def test_scores_are_those_of_the_definitions():
    labels = ["support", "partial_support", "not_support", "support", "partial_support"]
    kinds = ["vital", "vital", "vital", "okay", "okay"]
    found = nugget_scores(pd.DataFrame({"qid": "1_1", "importance": kinds, "label": labels})).iloc[
        0
    ]
    assert found["all"] == pytest.approx((1 + 0.5 + 0 + 1 + 0.5) / 5)
    assert found["all strict"] == pytest.approx(2 / 5)
    assert found["vital"] == pytest.approx(1.5 / 3)
    assert found["vital strict"] == pytest.approx(1 / 3)
    assert found["weighted"] == pytest.approx((1.5 + 0.5 * 1.5) / (3 + 0.5 * 2))


def test_precision_seeks_the_responses_facts_in_the_nuggets():
    llm, model = scripted('["x", "y"]', '["okay", "okay"]', '["support", "not_support"]')
    found = nugget_precision(said("x and y"), facts(("x", "vital")), llm)
    assert found["all"].tolist() == [0.5]
    assert "<text>\nx\n</text>" in model.asked[-1][-1]["content"]


def test_agreement_is_that_of_cohen_on_what_both_labelled():
    ours = pd.DataFrame(
        {"qid": "1_1", "nugget": list("abcd"), "label": ["support", "support", "not_support", None]}
    )
    people = pd.DataFrame(
        {
            "qid": "1_1",
            "nugget": list("abcd"),
            "label": ["support", "not_support", "not_support", "support"],
        }
    )
    found = nugget_agreement(ours, people)
    assert found["nuggets"] == 3
    assert found["agreement"] == pytest.approx(2 / 3)
    expected = (2 / 3) - (2 / 3 * 1 / 3 + 1 / 3 * 2 / 3)
    assert found["kappa"] == pytest.approx(expected / (1 - (2 / 3 * 1 / 3 + 1 / 3 * 2 / 3)))


def labels_of(**runs):
    """Labels of the nuggets a and b of one turn, for each run."""
    words = {"s": "support", "n": "not_support"}
    rows = [
        ("1_1", name, run, words[label])
        for run, labels in runs.items()
        for name, label in zip("ab", labels, strict=True)
    ]
    return pd.DataFrame(rows, columns=["qid", "nugget", "run", "label"])


def test_labels_of_several_runs_are_joined_run_by_run():
    ours = labels_of(one="sn", two="ns")
    assert nugget_agreement(ours, ours) == {"nuggets": 4, "agreement": 1.0, "kappa": 1.0}
    assert nugget_agreement(ours, labels_of(two="ss", three="nn")) == {
        "nuggets": 2,
        "agreement": 0.5,
        "kappa": 0.0,
    }


@pytest.mark.parametrize(
    ("change", "error", "message"),
    [
        (
            lambda both: both.drop(columns="run"),
            DataError,
            "turn 1_1, nugget a occurs twice in our labels: .* need a column run",
        ),
        (
            lambda both: both.assign(run="one"),
            DataError,
            "run one, turn 1_1, nugget a occurs twice in our labels: keep one",
        ),
        (
            lambda both: both.replace("support", "yes"),
            DataError,
            "our labels have 'yes', which is not one of support",
        ),
        (lambda both: both.drop(columns="nugget"), UsageError, "no column nugget in our labels"),
        (lambda both: both.assign(qid=1), DataError, "the qid 1 is not a text"),
    ],
)
def test_labels_that_cannot_be_told_apart_are_refused(change, error, message):
    both = labels_of(one="sn", two="ns")
    given = both if "run" in change(both) else both[:2].drop(columns="run")
    with pytest.raises(error, match=message):
        nugget_agreement(change(both), given)


def test_labels_of_two_runs_are_no_score_of_one_turn():
    both = labels_of(one="sn", two="ns").assign(importance="vital")
    with pytest.raises(
        DataError,
        match=(
            "turn 1_1, nugget a occurs twice in the labels: score the labels of each run separately"
        ),
    ):
        nugget_scores(both)
    assert nugget_scores(both[:2])["all"].tolist() == [0.5]
    with pytest.raises(DataError, match="the labels have 'yes'"):
        nugget_scores(both[:2].replace("support", "yes"))


@pytest.mark.parametrize(
    ("call", "error", "word"),
    [
        (
            lambda llm: create_nuggets(pool(1).drop(columns="text"), llm),
            UsageError,
            "no column text in the pool",
        ),
        (
            lambda llm: create_nuggets(pool(1).drop(columns="query"), llm),
            UsageError,
            "no column query in the pool",
        ),
        (
            lambda llm: assign_nuggets(
                pd.concat([said("a"), said("b")]), facts(("a", "vital")), llm
            ),
            DataError,
            "turn 1_1 occurs twice",
        ),
        (
            lambda llm: assign_nuggets(said("a"), facts(("a", "vital"), ("a", "okay")), llm),
            DataError,
            "nugget a occurs twice",
        ),
        (
            lambda llm: assign_nuggets(said("a", "9_9"), facts(("a", "vital")), llm),
            DataError,
            "about a turn of the nuggets",
        ),
        (
            lambda llm: nugget_precision(
                pd.concat([said("a"), said("b")]), facts(("a", "vital")), llm
            ),
            DataError,
            "turn 1_1 occurs twice",
        ),
    ],
)
def test_what_is_missing_or_there_twice_is_named_before_a_call(call, error, word):
    llm, model = scripted()
    with pytest.raises(error, match=word):
        call(llm)
    assert not model.asked
