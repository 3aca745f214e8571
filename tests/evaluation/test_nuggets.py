"""Nuggets with a real LLM object whose answers are queued; scores worked out by hand."""

import json
import math

import pandas as pd
import pytest
from fakes import Scripted, scripted

import pyterrier_ikat as ikat
from pyterrier_ikat.errors import DataError, UsageError
from pyterrier_ikat.evaluation.nuggets import (
    _list_of_nuggets,
    assign_nuggets,
    create_nuggets,
    nugget_agreement,
    nugget_means,
    nugget_precision,
    nugget_scores,
    read_nuggets,
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


def requests_of(llm):
    """The turn, prompt and item of each request, by which completions are recorded."""
    asked = []
    ask = llm.ask

    def note(requests, *more):
        asked.extend((request.qid, request.prompt, request.item) for request in requests)
        return ask(requests, *more)

    llm.ask = note
    return asked


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
    ("bad", "told"),
    [
        ("no list", "no list"),
        ('["vital"]', "1 label for 2 nuggets"),
        ('["vital", "very"]', "very"),
        ('["vital", "very", "okay"]', "very"),
        ('["vital", "okay", "okay"]', "3 labels for 2 nuggets"),
    ],
)
def test_a_rating_that_does_not_fit_is_a_failure(bad, told):
    llm, _ = scripted('["a", "b"]', bad)
    with pytest.raises(StageError, match=f"1_1.*{told}"):
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


@pytest.mark.parametrize("text", ["", " \n", None])
def test_a_blank_response_states_no_nugget_without_a_call(text):
    llm, model = scripted()
    assigned = assign_nuggets(said(text), facts(("a", "vital")), llm)
    assert assigned["label"].tolist() == ["not_support"]
    assert model.asked == []


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
    rows = []
    for run, labels in runs.items():
        first, second = labels
        rows.append(("1_1", "a", run, words[first]))
        rows.append(("1_1", "b", run, words[second]))
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
            lambda llm: assign_nuggets(said("a").drop(columns="query"), facts(("a", "vital")), llm),
            UsageError,
            "no column query in the responses",
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


@pytest.mark.parametrize(
    ("text", "nuggets"),
    [
        ('["a.", "b", "A"]', ["b", "a"]),
        ('["  a\\n b  ", "", " ", "c..", "d"]', ["a b", "c", "d"]),
        ('["a", "b", "c", "d"]', ["a", "b", "c"]),
        ('<think>["x"]</think>["a"]', ["a"]),
        ('Here: ["a"] and ["b"]', None),
        ('["a", 2]', None),
        ("[]", []),
        ('["...", "a", " . "]', ["a"]),
        ('["Straße", "STRASSE", "b"]', ["Straße", "b"]),
        ('{"nuggets": 1}', None),
        ("none", None),
    ],
)
def test_nuggets_are_one_list_of_texts_each_once(text, nuggets):
    assert read_nuggets(text, 3) == nuggets


def test_answers_by_schema_are_read_like_texts():
    kind = _list_of_nuggets(2)
    assert kind.parse('["a", "a.", "b", "c"]') == kind.of_json({"nuggets": ["a", "a.", "b", "c"]})
    assert kind.of_json({"nuggets": ["a", "a.", "b", "c"]}) == ["a", "b"]


def test_a_failed_batch_adds_nothing_and_leaves_the_other_turns():
    both = pd.concat([pool(11, "2_1"), pool(1, "1_1").assign(query="How hot?")])
    answers = ['["a"]', '["z"]', "nothing", '["vital"]', '["okay"]']
    llm, model = scripted(*answers)
    found = create_nuggets(both, llm, 7, on_error="fallback")
    assert found.values.tolist() == [["2_1", "a", "vital"], ["1_1", "z", "okay"]]
    first, other, second, *rated = (chat[-1]["content"] for chat in model.asked)
    assert "Which tea?" in first
    assert "text 10" not in first
    assert "How hot?" in other
    assert "text 10" in second
    assert "- a" in second
    assert all("7" in prompt for prompt in (first, other, second))
    assert ["Which tea?" in prompt for prompt in rated] == [True, False]
    [row] = llm.ledger.frame().to_dict("records")
    assert (row["calls"], row["failures"], row["fallbacks"]) == (5, 1, 1)
    with pytest.raises(UsageError, match="max_nuggets=0: give 1 or more"):
        create_nuggets(both, llm, 0)


def test_a_turn_with_few_passages_ends_no_other_turns_batches():
    both = pd.concat([pool(1, "1_1"), pool(21, "2_1")])
    answers = ['["z"]', '["a"]', '["a", "b"]', '["b", "c"]', '["okay"]', '["okay", "okay"]']
    llm, model = scripted(*answers)
    asked = requests_of(llm)
    found = create_nuggets(both, llm)
    assert found["nugget"].tolist() == ["z", "b", "c"]
    prompts = [chat[-1]["content"] for chat in model.asked[:4]]
    assert ["text 20" in prompt for prompt in prompts] == [False] * 3 + [True]
    assert asked == [
        ("1_1", "nuggets_create", "0"),
        ("2_1", "nuggets_create", "0"),
        ("2_1", "nuggets_create", "10"),
        ("2_1", "nuggets_create", "20"),
        ("1_1", "nuggets_importance", "0"),
        ("2_1", "nuggets_importance", "0"),
    ]


def test_each_batch_of_labels_has_a_number_and_failures_count():
    names = [(f"n{number}", "vital") for number in range(21)]
    llm, _ = scripted("?", json.dumps(["support"] * 10), "?")
    asked = requests_of(llm)
    found = assign_nuggets(said("Tea."), facts(*names), llm, on_error="fallback")
    assert asked == [("1_1", "nuggets_assign", item) for item in ("0", "10", "20")]
    assert found["label"].tolist() == [None] * 10 + ["support"] * 10 + [None]
    [row] = llm.ledger.frame().to_dict("records")
    assert (row["failures"], row["fallbacks"]) == (2, 2)


def test_prompts_of_ones_own_are_used_in_each_step(tmp_path):
    for step in ("create", "importance", "assign"):
        (tmp_path / f"nuggets_{step}.jinja").write_text(f"My {step}: {{{{ question }}}}")
    llm, model = scripted('["a"]', '["vital"]', '["support"]')
    found = nugget_precision(said("Tea."), facts(("a", "vital")), llm, prompts=str(tmp_path))
    assert found["all"].tolist() == [1.0]
    assert [chat[-1]["content"] for chat in model.asked] == [
        "My create: Which tea?",
        "My importance: Which tea?",
        "My assign: Which tea?",
    ]


def test_agreement_compares_each_label_with_the_same_label():
    """By hand: half agree, and a quarter would by chance: (.5 - .25) / (1 - .25)."""
    ours = facts(("a", "okay"), ("b", "okay")).assign(label=["support", "not_support"])
    given = ours.assign(label=["support", "partial_support"])
    assert nugget_agreement(ours, given)["kappa"] == pytest.approx(1 / 3)
    for first, second in ((ours, given.assign(run="x")), (ours.assign(run="x"), given)):
        with pytest.raises(UsageError, match="only one of the two has a column run"):
            nugget_agreement(first, second)
    for label in ("Support", "support "):
        with pytest.raises(DataError, match=f"the given labels have '{label}'"):
            nugget_agreement(ours, given.assign(label=label))


def test_the_list_is_cut_at_the_number_that_was_asked_for():
    llm, _ = scripted('["a", "b", "c"]', '["okay", "okay"]')
    assert create_nuggets(pool(1), llm, 2)["nugget"].tolist() == ["a", "b"]
    empty = create_nuggets(pool(0), scripted()[0])
    assert empty.columns.tolist() == ["qid", "nugget", "importance"]
    assert len(empty) == 0


@pytest.mark.parametrize(
    ("of_llm", "given", "raises"),
    [
        ("raise", None, True),
        ("fallback", None, False),
        ("raise", "fallback", False),
        ("fallback", "raise", True),
    ],
)
def test_a_failure_is_an_error_where_call_or_model_says_so(of_llm, given, raises):
    llm = ikat.llm(Scripted("what?"), on_error=of_llm)
    nuggets = facts(("a", "vital"), ("b", "okay"))
    if raises:
        with pytest.raises(StageError, match="nuggets.*1_1"):
            assign_nuggets(said("Tea."), nuggets, llm, on_error=given)
        return
    found = assign_nuggets(said("Tea."), nuggets, llm, on_error=given)
    assert found["label"].tolist() == [None, None]


def test_labels_belong_to_their_turn_in_any_order_of_frames():
    nuggets = pd.concat([facts(("a", "vital"), qid="2_1"), facts(("a", "okay"), ("b", "okay"))])
    responses = pd.concat([said("One."), said("Two.", "2_1").assign(query="How hot?")])
    llm, model = scripted('[" Support"]', '["Not-Support", "partial support"]')
    found = assign_nuggets(responses, nuggets, llm)
    assert found[["qid", "nugget", "label"]].values.tolist() == [
        ["2_1", "a", "support"],
        ["1_1", "a", "not_support"],
        ["1_1", "b", "partial_support"],
    ]
    first, second = (chat[-1]["content"] for chat in model.asked)
    assert "How hot?" in first
    assert "Two." in first
    assert "Which tea?" in second
    scores = nugget_scores(found).set_index("qid")
    assert scores.index.tolist() == ["2_1", "1_1"]
    assert scores["all"].tolist() == [1.0, 0.25]
    assert scores["all strict"].tolist() == [1.0, 0.0]
    assert scores["weighted"].tolist() == [1.0, 0.25]
    assert scores["nuggets"].tolist() == [1, 2]
    assert scores["unlabelled"].tolist() == [0, 0]
    assert math.isnan(scores["vital"]["1_1"])


def test_turns_without_a_label_stay_in_their_place():
    labels = ["support", None, None, "support"]
    qids = ["1_2", "1_1", "1_1", "1_3"]
    assigned = pd.DataFrame({"qid": qids, "importance": "okay", "label": labels})
    scores = nugget_scores(assigned)
    assert scores["qid"].tolist() == ["1_2", "1_1", "1_3"]
    assert scores["nuggets"].tolist() == [1, 0, 1]
    assert scores["unlabelled"].tolist() == [0, 2, 0]
    with pytest.raises(
        DataError, match="the labels have 'vitally', which is not one of vital, okay"
    ):
        nugget_scores(assigned.assign(importance="vitally"))


def test_precision_needs_a_response_and_passes_its_options_on(tmp_path):
    responses = pd.concat([said("Green. Hot."), said("  ", "1_2"), said("Cold.", "1_3")])
    nuggets = facts(("green", "vital"), ("wet", "okay"))
    answers = ['["It is green", "hot"]', '["cold"]', '["vital", "okay"]', '["okay"]']
    llm, model = scripted(*answers, '["support", "not_support"]')
    found = nugget_precision(responses, nuggets, llm)
    assert found[["qid", "all", "weighted", "nuggets"]].values.tolist() == [
        ["1_1", 0.5, pytest.approx(2 / 3), 2],
        ["1_3", 0.0, 0.0, 1],
    ]
    assert "green\nwet" in model.asked[-1][-1]["content"]
    llm, _ = scripted("?", '["cold"]', '["okay"]')
    found = nugget_precision(responses, nuggets, llm, on_error="fallback")
    assert found["qid"].tolist() == ["1_3"]
    llm, _ = scripted('["hot"]', '["cold"]', '["okay"]', '["okay"]', "?")
    found = nugget_precision(responses, nuggets, llm, on_error="fallback")
    assert found["unlabelled"].tolist() == [1, 0]


def test_means_of_nuggets_count_turns_and_nuggets_of_each_system():
    scores = pd.DataFrame({"qid": ["a", "b", "c"], "all": [0.5, None, 1.0], "nuggets": [2, 3, 4]})
    means = nugget_means({"x": scores, "y": scores[:1]})
    assert means[["run", "recall", "turns", "nuggets", "unit", "clusters"]].values.tolist() == [
        ["x", 0.75, 2, 9, "turn", 2],
        ["y", 0.5, 1, 2, "turn", 1],
    ]
    for options, unit in (({"unit": "topic"}, "topic"), ({"dataset": "ikat:sample"}, "topic")):
        of_sample = scores.assign(qid=["1-1_1", "1-2_1", "2-1_1"])
        row = nugget_means({"x": of_sample}, **options).iloc[0]
        assert (row["unit"], row["clusters"]) == (unit, 2)


def test_agreement_skips_what_one_did_not_label():
    ours = facts(("a", "okay"), ("b", "okay"), ("c", "okay"), ("d", "okay"))
    ours = ours.assign(label=["support", "support", None, "not_support"])
    given = ours.assign(label=["support", "not_support", "support", None])[
        ["label", "nugget", "qid"]
    ]
    found = nugget_agreement(ours, given)
    assert (found["nuggets"], found["agreement"]) == (2, 0.5)
    assert found["kappa"] == pytest.approx(0.0)
    with pytest.raises(DataError, match="the two share no nugget with a label"):
        nugget_agreement(ours[2:], given)
    with pytest.raises(DataError, match="nugget a occurs twice in our labels: keep one; labels of"):
        nugget_agreement(pd.concat([ours, ours]), given)
    twice = pd.concat([ours, ours]).assign(run="x")
    with pytest.raises(DataError, match="run x, turn 1_1, nugget a occurs twice .*: keep one$"):
        nugget_agreement(twice, given.assign(run="x"))
