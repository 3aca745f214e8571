"""Judges with a real LLM object whose answers are queued, and the means worked out by hand."""

import json
import math

import numpy as np
import pandas as pd
import pyterrier as pt
import pytest
from fakes import scripted

import pyterrier_ikat as ikat
from pyterrier_ikat.completions.verdicts import NO_REASON, read_score, read_yes_no
from pyterrier_ikat.conversations.frame import column
from pyterrier_ikat.errors import DataError, UsageError
from pyterrier_ikat.evaluation import RougeL
from pyterrier_ikat.evaluation.response_judges import (
    Completeness,
    Correctness,
    Groundedness,
    Naturalness,
    NuggetRecall,
    PairwisePreference,
    Preference,
    Relevance,
)
from pyterrier_ikat.evaluation.responses import (
    Assessment,
    ResponseJudge,
    evaluate_responses,
    response_means,
    response_turns,
)
from pyterrier_ikat.runs import RunFolder


def said(**verdict):
    return json.dumps({"reason": "because", **verdict})


def turns(n=3):
    return pd.DataFrame(
        {
            "qid": [f"9-1_{i}" for i in range(1, n + 1)],
            "qresolved": [f"Question {i}?" for i in range(1, n + 1)],
            "qhistory": [
                [
                    {"role": "user", "content": "Earlier?"},
                    {"role": "assistant", "content": "Before."},
                ]
            ]
            * n,
            "qptkb": [{"1": "I am vegan."}] * n,
            "gold_answer": ["gold words here"] * n,
        }
    )


def answers(n=3):
    rows = [
        (f"9-1_{i}", f"words of {i}", f"passage {i}{p}", p < 2, p)
        for i in range(1, n + 1)
        for p in (2, 1, 0)
    ]
    return pd.DataFrame(rows, columns=["qid", "qanswer", "text", "used", "rank"])


def means(judged):
    return response_means(judged).set_index("judge")


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


@pytest.mark.parametrize("judge", [Completeness, Relevance, Preference])
def test_prompts_show_persona_conversation_and_question(judge):
    llm, backend = scripted(said(score=2))
    evaluate_responses(turns(1), answers(1), [judge(llm)])
    prompt = backend.asked[0][0]["content"]
    for text in (
        "1: I am vegan.",
        "user: Earlier?\nsystem: Before.",
        "Question 1?",
        "<response>\nwords of 1\n</response>",
    ):
        assert text in prompt


def test_the_question_is_the_users_own_and_not_the_systems():
    plain = (
        turns(1)
        .drop(columns="qresolved")
        .assign(query="the system's answer as query", query_0="Question in plain words?")
    )
    for frame in (
        plain,
        plain.assign(query_0="a rewrite", query_1="Question in plain words?"),
        plain.assign(qutterance=plain["query_0"]),
    ):
        llm, backend = scripted(said(score=2))
        evaluate_responses(frame, answers(1), [Relevance(llm)])
        assert (
            "# Last message of the user\nQuestion in plain words?" in backend.asked[0][0]["content"]
        )
        assert "as query" not in backend.asked[0][0]["content"]


def test_naturalness_sees_the_response_alone():
    llm, backend = scripted(said(score=2))
    evaluate_responses(turns(1), answers(1), [Naturalness(llm)])
    assert not any(word in backend.asked[0][0]["content"] for word in ("vegan", "Question"))


def test_groundedness_sees_the_used_passages_in_their_order():
    llm, backend = scripted(said(verdict="yes"), said(verdict="no"))
    given = answers(3).assign(used=lambda frame: frame["used"] & (frame["qid"] != "9-1_3"))
    judged = evaluate_responses(turns(3), given, [Groundedness(llm)])
    assert judged["value"].tolist() == [1.0, 0.0, 0.0]
    assert judged["reason"].tolist()[2] == "the response is based on no passage"
    prompt = backend.asked[0][0]["content"]
    assert prompt.index("passage 10") < prompt.index("passage 11")
    assert "passage 12" not in prompt
    assert len(backend.asked) == 2


def test_correctness_is_yes_or_no_against_the_gold_answer():
    llm, backend = scripted(said(verdict="yes"), said(verdict="no"), said(verdict="perhaps"))
    judged = evaluate_responses(
        turns(4).assign(gold_answer=["Gold 1.", "Gold 2.", "Gold 3.", ""]),
        answers(4),
        [Correctness(llm)],
    )
    assert judged["value"].tolist()[:2] == [1.0, 0.0]
    assert judged["outcome"].tolist() == ["judged", "judged", "failed", "no basis"]
    assert means(judged).loc["correctness", ["mean", "n"]].tolist() == [0.5, 2]
    prompt = backend.asked[0][0]["content"]
    assert "<text>\nGold 1.\n</text>" in prompt
    assert "vegan" not in prompt


def test_only_the_first_response_and_its_passages_are_judged():
    llm, backend = scripted(said(verdict="yes"))
    second = answers(1).assign(qanswer="another", text="elsewhere")
    evaluate_responses(turns(1), pd.concat([answers(1), second]), [Groundedness(llm)])
    assert "elsewhere" not in backend.asked[0][0]["content"]
    assert "another" not in backend.asked[0][0]["content"]


def test_pairwise_preference_asks_in_both_orders():
    llm, backend = scripted(*(said(better=one) for one in ("A", "B", "A", "A", "tie", "A")))
    judged = evaluate_responses(turns(3), answers(3), [PairwisePreference(llm)])
    assert judged["value"].tolist() == [
        1.0,
        0.5,
        0.25,
    ]  # won twice; by the order alone; a tie and a loss
    first, second = (chat[0]["content"] for chat in backend.asked[:2])
    assert first.index("words of 1") < first.index("gold words here")
    assert second.index("gold words here") < second.index("words of 1")
    assert judged["reason"][0] == "shown as A: because; shown as B: because"


def test_pairwise_fails_as_a_whole_and_names_its_opponent():
    judge = PairwisePreference(scripted(said(better="A"), "?")[0], against="theirs")
    judged = evaluate_responses(turns(2).assign(theirs=["x", ""]), answers(2), [judge])
    assert judged["outcome"].tolist() == ["failed", "no basis"]
    assert judged["judge"].tolist() == ["preference over theirs"] * 2


def test_nugget_recall():
    llm, backend = scripted(said(nuggets=[1, 2, 9]), said(nuggets=[]), said(nuggets=[7]))
    nuggets = [["tea", "no caffeine", "red", "sweet"], ["a", "b"], ["a"], []]
    judged = evaluate_responses(
        turns(4).assign(gold_nuggets=nuggets), answers(4), [NuggetRecall(llm)]
    )
    assert judged["value"].tolist()[:2] == [0.5, 0.0]
    assert judged["outcome"].tolist() == ["judged", "judged", "failed", "no basis"]
    assert "omitted, not among them: 9" in judged["reason"][0]
    assert "1. tea\n2. no caffeine" in backend.asked[0][0]["content"]
    assert llm.ledger.frame()[["failures", "dropped"]].values.tolist() == [[1, 1]]
    assert means(judged).loc["nugget recall", ["mean", "n"]].tolist() == [0.25, 2]


def test_prompt_ids_replay_recorded_completions(tmp_path):
    ids = {
        "groundedness": {"verdict": "yes"},
        "completeness": {"score": 3},
        "nuggets": {"nuggets": [1]},
        "pairwise": {"better": "A"},
    }
    line = {"qid": "9-1_1", "stage": "judge", "model": "m"}
    lines = [
        line | {"prompt": f"judge_{name}", "completion": said(**verdict)}
        for name, verdict in ids.items()
    ]
    (tmp_path / "judged.jsonl").write_text("\n".join(map(json.dumps, lines)))
    llm = ikat.llm(f"recorded:{tmp_path / 'judged.jsonl'}")
    judges = [
        judge(llm) for judge in (Groundedness, Completeness, NuggetRecall, PairwisePreference)
    ]
    judged = evaluate_responses(turns(1).assign(gold_nuggets=[["a"]]), answers(1), judges)
    assert judged["value"].tolist() == [1.0, 3.0, 1.0, 0.5]


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
    manual, gold = (
        data.get_topics("manual").set_index("qid"),
        data.get_answers().set_index("qid")["gold_answer"],
    )
    found = response_turns(data.conversations, ["1-1_3"])
    expected = [
        {"role": role, "content": text}
        for qid in ("1-1_1", "1-1_2")
        for role, text in (("user", manual.loc[qid, "qresolved"]), ("assistant", gold[qid]))
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


def test_reasons():
    assert read_score("It skips the price.\nScore: 2", -1, 3).reason == "It skips the price."
    assert (
        read_score("Reason: It skips the price.\nScore: 2", -1, 3).reason == "It skips the price."
    )
    assert read_score("2", -1, 3).reason == read_score('{"score": 2}', -1, 3).reason == NO_REASON
    assert read_yes_no("Yes, every figure is there.").reason == "Yes, every figure is there."


@pytest.mark.parametrize("assessment", [Assessment(math.nan, ""), Assessment(None, "")])
def test_a_judge_of_ones_own_gives_a_value_where_it_judged(assessment):
    class Own(ResponseJudge):
        name = "own"

        def judge(self, responses):
            return [assessment] * len(responses)

    with pytest.raises(DataError, match="turn 9-1_1: own judged it, but gives no value"):
        evaluate_responses(turns(1), answers(1), [Own()])
