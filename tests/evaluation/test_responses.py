"""Responses and their judgements: frames, outcomes, and the means worked out by hand."""

import math

import numpy as np
import pandas as pd
import pyterrier as pt
import pytest
from fakes import scripted
from small_responses import answers, means, said, turns, values_of

from pyterrier_ikat.conversations.frame import column
from pyterrier_ikat.errors import DataError, UsageError
from pyterrier_ikat.evaluation import RougeL
from pyterrier_ikat.evaluation.response_judges import (
    Completeness,
    Groundedness,
    NuggetRecall,
    PairwisePreference,
    Relevance,
)
from pyterrier_ikat.evaluation.responses import (
    COUNTED_OUTCOMES,
    Assessment,
    ResponseJudge,
    asked_column,
    evaluate_responses,
    response_frame,
    response_means,
    response_turns,
)
from pyterrier_ikat.runs import RunFolder


def test_means_are_over_what_was_judged_and_the_rest_is_counted():
    llm, _ = scripted(said(score=3), said(score=-1), "no idea", said(score=0))
    judged = evaluate_responses(turns(5), answers(4), [Completeness(llm)])
    assert judged["outcome"].tolist() == ["judged", "unable", "failed", "judged", "no response"]
    assert judged["value"].tolist()[:2] == [3.0, -1.0]
    assert math.isnan(judged["value"][2])
    assert "no verdict of the requested kind in the completion 'no idea'" in judged["reason"][2]
    row = means(judged).loc["completeness"]
    counts = {
        "mean": 1.0,
        "n": 3,
        "no_response": 1,
        "unable": 1,
        "no_basis": 0,
        "failures": 1,
        "turns": 5,
    }
    assert row[list(counts)].to_dict() == counts
    assert llm.ledger.frame()[["stage", "failures"]].values.tolist() == [["judge", 1]]


def test_only_the_first_response_and_its_passages_are_judged():
    llm, backend = scripted(said(verdict="yes"))
    second = answers(1).assign(qanswer="another", text="elsewhere")
    evaluate_responses(turns(1), pd.concat([answers(1), second]), [Groundedness(llm)])
    assert "elsewhere" not in backend.asked[0][0]["content"]
    assert "another" not in backend.asked[0][0]["content"]


def test_turns_define_the_mean_and_other_answers_are_ignored():
    given = pd.DataFrame(
        {"qid": ["9-1_1", "9-1_2", "5-1_1"], "qanswer": ["gold words here", None, "gold"]}
    )
    judged = evaluate_responses(turns(2), given, [RougeL()])
    assert judged[["qid", "value"]].values.tolist() == [["9-1_1", 1.0], ["9-1_2", 0.0]]
    assert means(judged).loc["ROUGE-L", ["mean", "n", "no_response", "turns"]].tolist() == [
        0.5,
        2,
        1,
        2,
    ]


def test_empty_frames():
    llm, backend = scripted()
    judged = evaluate_responses(turns(2)[:0], answers(2)[:0], [RougeL(), Completeness(llm)])
    assert judged.columns.tolist() == ["qid", "judge", "value", "reason", "outcome"]
    assert len(response_means(judged)) == len(backend.asked) == 0


def test_a_run_folders_responses_are_judged_and_not_its_drafts(tmp_path):
    found = pd.DataFrame(
        {
            "qid": ["9-1_1"],
            "docno": ["a"],
            "score": [1.0],
            "rank": [0],
            "qanswer": ["gold words here"],
            "used": [True],
        }
    )
    topics = turns(2)[["qid"]].assign(qanswer="a draft")
    RunFolder(tmp_path / "rtg").write(
        topics, found.assign(qdraft="a draft"), pd.DataFrame(), pd.DataFrame(), {}
    )
    kept = pd.DataFrame(RunFolder(tmp_path / "rtg").turns())
    assert kept["qanswer"].tolist() == ["a draft"] * 2
    judged = evaluate_responses(turns(2), kept, [RougeL()])
    assert judged[["value", "outcome"]].values.tolist() == [[1.0, "judged"], [0.0, "no response"]]


def test_passages_and_nuggets_may_be_arrays():
    llm, _ = scripted(said(verdict="yes"), said(nuggets=[1]))
    given = (
        answers(1)
        .drop(columns=["text", "used"])
        .assign(qpassages=column([np.array(["passage 10"], dtype=object)] * 3))
    )
    nuggets = turns(1).assign(gold_nuggets=column([np.array(["a", "b"], dtype=object)]))
    judged = evaluate_responses(nuggets, given, [Groundedness(llm), NuggetRecall(llm)])
    assert judged["value"].tolist() == [1.0, 0.5]


def test_response_turns_show_rewrites_and_gold_answers():
    data = pt.get_dataset("ikat:sample")
    manual = data.get_topics("manual").set_index("qid")
    gold = data.get_answers().set_index("qid")["gold_answer"]
    found = response_turns(data.conversations, ["1-1_3"])
    expected = [
        {"role": "user", "content": manual.loc["1-1_1", "qresolved"]},
        {"role": "assistant", "content": gold["1-1_1"]},
        {"role": "user", "content": manual.loc["1-1_2", "qresolved"]},
        {"role": "assistant", "content": gold["1-1_2"]},
    ]
    assert found["qhistory"].tolist() == [expected]
    assert found["gold_answer"].tolist() == [gold["1-1_3"]]
    assert manual.loc["1-1_2", "qresolved"] != manual.loc["1-1_2", "qutterance"]
    with pytest.raises(
        UsageError, match="no turn 1-1-3 in these conversations: their turns are like 1-1_1"
    ):
        response_turns(data.conversations, ["1-1-3"])


@pytest.mark.parametrize(
    ("change", "given", "judge", "error", "word"),
    [
        (
            {},
            answers().drop(columns="used"),
            Groundedness,
            UsageError,
            "no column qpassages .* groundedness.*text and used",
        ),
        (
            {"gold_answer": None},
            answers(),
            lambda llm: RougeL(),
            UsageError,
            "no column gold_answer in .* ROUGE-L",
        ),
        ({"qresolved": None}, answers(), Relevance, UsageError, "no column query .* relevance"),
        (
            {},
            answers().drop(columns="qanswer"),
            Relevance,
            UsageError,
            "no column qanswer in the answers",
        ),
        ({"qid": "9-1_1"}, answers(), Relevance, DataError, "turn 9-1_1 occurs twice"),
        (
            {},
            answers().assign(qid="9-1-1"),
            Relevance,
            DataError,
            "the answers: its turns are like 9-1-1",
        ),
        ({}, answers().assign(qanswer=7), Relevance, DataError, "turn 9-1_1: the response is 7"),
        ({}, answers().assign(used="False"), Relevance, DataError, "turn 9-1_1: used is 'False'"),
        ({"qid": [1, 2, 3]}, answers(), Relevance, DataError, "the turns: the qid 1 is not a text"),
        ({}, answers().assign(qid=7), Relevance, DataError, "the answers: the qid 7 is not a text"),
        (
            {},
            answers().assign(qpassages="x"),
            Groundedness,
            DataError,
            "turn 9-1_1: the response is based on .x.",
        ),
        (
            {},
            answers().assign(text=None),
            Groundedness,
            DataError,
            r"turn 9-1_1: the response is based on \[None",
        ),
    ],
)
def test_bad_input(change, given, judge, error, word):
    frame = turns().assign(**change)
    frame = frame.drop(columns=[name for name, value in change.items() if value is None])
    with pytest.raises(error, match=word):
        evaluate_responses(frame, given, [judge(scripted()[0])])


def test_two_judges_need_two_names():
    llm, _ = scripted()
    assert Groundedness(llm) == Groundedness(llm) != Relevance(llm)
    with pytest.raises(UsageError, match="two judges are called 'relevance'"):
        evaluate_responses(turns(), answers(), [Relevance(llm), Relevance(llm)])


@pytest.mark.parametrize("assessment", [Assessment(math.nan, ""), Assessment(None, "")])
def test_a_judge_of_ones_own_gives_a_value_where_it_judged(assessment):
    class Own(ResponseJudge):
        name = "own"

        def judge(self, responses):
            return [Assessment(1.0, "")] * (len(responses) - 1) + [assessment]

    for count in (1, 2):
        with pytest.raises(DataError, match=f"turn 9-1_{count}: own judged it, but gives no value"):
            evaluate_responses(turns(count), answers(count), [Own()])


def test_each_judge_has_the_columns_that_it_needs():
    llm, model = scripted()
    other = PairwisePreference(llm, against="theirs")
    for judges in ([other], [RougeL(), other]):
        with pytest.raises(UsageError, match="no column theirs in .* for preference over theirs"):
            evaluate_responses(turns(1), answers(1), judges)
    assert not model.asked


def test_what_other_turns_say_is_not_looked_at():
    given = answers(2).drop(columns="used").astype(object)
    given.loc[given["qid"] == "9-1_2", "qanswer"] = 7
    frame = response_frame(turns(1), given)
    assert frame["qanswer"].tolist() == ["words of 1"]
    both = given.assign(qpassages=column([["mine"]] * len(given)), used=True)
    assert response_frame(turns(1), both)["qpassages"].tolist() == [["mine"]]


class Length(ResponseJudge):
    """Judges by the number of letters, where it can."""

    name = "length"
    needs = ("gold_answer",)
    basis = "gold_answer"

    def judge(self, responses):
        self.asked = responses
        assessments = []
        for text in responses["qanswer"]:
            if len(text) > 1:
                assessments.append(Assessment(float(len(text)), "letters"))
            else:
                assessments.append(Assessment(None, "", "unable"))
        return assessments


def test_each_turn_has_the_outcome_of_what_it_lacks():
    gold = ["g", " ", "g", None, "g", ["g"], [], ("g",)]
    given = ["abc", "abc", " ", " ", "a", "abcd", "abc", "ab"]
    frame = turns(8).assign(gold_answer=column(gold))
    judge = Length()
    judged = evaluate_responses(
        frame, pd.DataFrame({"qid": frame["qid"], "qanswer": given}), [judge]
    )
    assert judged["outcome"].tolist() == [
        "judged",
        "no basis",
        "no response",
        "no basis",
        "unable",
        "judged",
        "no basis",
        "judged",
    ]
    assert values_of(judged) == [3.0, None, 0.0, None, None, 4.0, None, 2.0]
    assert judge.asked["qanswer"].tolist() == ["abc", "a", "abcd", "ab"]
    assert judge.asked.index.tolist() == [0, 1, 2, 3]
    assert judged["reason"][1] == "the turn has no gold_answer"
    assert judged["reason"][2] == "the system gave no response"
    row = means(judged).loc["length"]
    assert row[["n", "no_response", "unable", "no_basis", "failures", "turns"]].tolist() == [
        4,
        1,
        1,
        3,
        0,
        8,
    ]
    assert row["mean"] == 9 / 4
    assert (row["unit"], row["clusters"]) == ("conversation", 1)


def test_judges_stand_in_their_order_in_table_and_means():
    judged = evaluate_responses(turns(2), answers(2), [RougeL(), Length()])
    assert judged["judge"].tolist() == ["ROUGE-L"] * 2 + ["length"] * 2
    assert response_means(judged)["judge"].tolist() == ["ROUGE-L", "length"]
    by_turn = response_means(judged, unit="turn").iloc[0]
    assert (by_turn["unit"], by_turn["clusters"], by_turn["unit_from"]) == ("turn", 2, "")


@pytest.mark.parametrize(
    ("needs", "repair"),
    [
        (("qpassages",), "give the answers with text and used, as ikat.Respond does"),
        (("qcitations",), "run a system that asks for citations"),
        (("gold_answer",), "take the turns from response_turns"),
        (("mine",), "add it to the turns"),
    ],
)
def test_a_column_that_a_judge_needs_is_named_with_its_source(needs, repair):
    judge = Length()
    judge.needs = needs
    with pytest.raises(UsageError, match=f"no column {needs[0]} in .* for length, .*: {repair}"):
        evaluate_responses(
            turns(1).drop(columns="gold_answer"), answers(1)[["qid", "qanswer"]], [judge]
        )


@pytest.mark.parametrize(
    ("needs", "repair"),
    [
        (("gold_answer", "qcitations", "mine"), "run a system that asks for citations"),
        (("gold_answer", "mine", "qcitations"), "add it to the turns$"),
    ],
)
def test_the_first_column_that_a_judge_lacks_has_its_repair(needs, repair):
    judge = Length()
    judge.needs = needs
    with pytest.raises(UsageError, match=f"no column .* in the turns for length, .*: {repair}"):
        evaluate_responses(turns(1), answers(1), [judge])


@pytest.mark.parametrize("cell", [7, True, {"a": "b"}])
def test_a_basis_that_is_no_text_or_list_says_nothing(cell):
    judged = evaluate_responses(turns(1).assign(gold_answer=column([cell])), answers(1), [Length()])
    assert judged["outcome"].tolist() == ["no basis"]


@pytest.mark.parametrize(
    ("columns", "asked"),
    [
        (["query", "qutterance", "qresolved"], "qresolved"),
        (["query", "query_0", "qutterance"], "qutterance"),
        (["query", "query_0"], "query_0"),
        (["query"], "query"),
    ],
)
def test_the_question_is_of_the_first_column_that_is_there(columns, asked):
    assert asked_column(pd.DataFrame(columns=columns), "the turns") == asked
    with pytest.raises(
        UsageError, match="no column query in the pool, .*: add the question as qres"
    ):
        asked_column(pd.DataFrame({"qid": []}), "the pool")


def test_chosen_turns_keep_their_order_and_lacking_are_named():
    chats = pt.get_dataset("ikat:sample").conversations
    found = response_turns(iter(chats), iter(["1-1_3", "1-1_1"]))
    assert found["qid"].tolist() == ["1-1_1", "1-1_3"]
    assert found.index.tolist() == [0, 1]
    assert {"qresolved", "qgoldptkb", "qptkb", "gold_answer"} <= set(found.columns)
    assert len(response_turns(chats)) == 24
    with pytest.raises(UsageError, match="no turn 8_8, 9_9 in these"):
        response_turns(chats, ["8_8", "1-1_1", "9_9"])


@pytest.mark.parametrize(
    ("cell", "texts"),
    [(None, []), (float("nan"), []), ([], []), (["a"], ["a"]), ('["a"]', None), (["a", 1], None)],
)
def test_passages_of_a_response_are_a_list_of_texts(cell, texts):
    given = pd.DataFrame({"qid": ["9-1_1"], "qanswer": ["Tea."], "qpassages": column([cell])})
    if texts is None:
        with pytest.raises(DataError, match="turn 9-1_1: the response is based on .*: give a list"):
            response_frame(turns(1), given)
    else:
        assert response_frame(turns(1), given)["qpassages"].tolist() == [texts]


def test_answers_of_no_turn_have_their_columns_too():
    frame = response_frame(turns(1), answers(1)[:0])
    assert frame[["qanswer", "qpassages"]].values.tolist() == [["", []]]


def test_a_response_that_is_no_text_is_refused_even_if_false():
    for odd in (0, False, []):
        given = pd.DataFrame({"qid": ["9-1_1", "9-1_2"], "qanswer": column(["Tea.", odd])})
        with pytest.raises(DataError, match="turn 9-1_2: the response is .*, no text"):
            response_frame(turns(2), given)


def test_passages_of_the_first_response_stand_by_rank_or_row():
    rows = [
        ("9-1_1", "A.", "c", True, 2),
        ("9-1_1", "A.", "a", True, 0),
        ("9-1_1", "B.", "x", True, 1),
        ("9-1_1", "A.", "b", False, 1),
        ("9-1_2", "B.", "y", False, 0),
        ("9-1_3", "A.", "z", True, 0),
    ]
    given = pd.DataFrame(rows, columns=["qid", "qanswer", "text", "used", "rank"])
    frame = response_frame(turns(4), given)
    assert frame["qanswer"].tolist() == ["A.", "B.", "A.", ""]
    assert frame["qpassages"].tolist() == [["a", "c"], [], ["z"], []]
    unranked = response_frame(turns(4), given.drop(columns="rank"))
    assert unranked["qpassages"].tolist() == [["c", "a"], [], ["z"], []]


def test_means_of_each_judge_have_clusters_of_its_own_turns():
    rows = [
        ("1-1_1", "a", 1.0, "judged"),
        ("1-1_1", "b", 3.0, "judged"),
        ("2-1_1", "a", -1.0, "unable"),
        ("2-1_1", "b", 0.0, "no response"),
        ("2-2_1", "b", None, "failed"),
    ]
    judged = pd.DataFrame(rows, columns=["qid", "judge", "value", "outcome"])
    table = response_means(judged, dataset="ikat:sample")
    columns = ["judge", "mean", "n", *COUNTED_OUTCOMES, "turns", "unit", "clusters", "unit_from"]
    assert table[columns].values.tolist() == [
        ["a", 1.0, 1, 0, 1, 0, 0, 2, "topic", 1, ""],
        ["b", 1.5, 2, 1, 0, 0, 1, 3, "topic", 2, ""],
    ]
    by_id = response_means(judged)
    assert by_id["unit"].tolist() == ["conversation"] * 2
    assert by_id["unit_from"].tolist() == ["qid"] * 2
