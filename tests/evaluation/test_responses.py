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
    rows = []
    for i in range(1, n + 1):
        for rank in (2, 1, 0):
            rows.append((f"9-1_{i}", f"words of {i}", f"passage {i}{rank}", rank < 2, rank))
    return pd.DataFrame(rows, columns=["qid", "qanswer", "text", "used", "rank"])


def values_of(judged):
    """The values of a frame of judgements, None where there is none."""
    values = judged["value"].astype(object)
    return values.where(values.notna(), None).tolist()


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


def test_a_judge_takes_the_templates_of_a_folder_of_ones_own(tmp_path):
    (tmp_path / "response_relevance.jinja").write_text("Mine: {{ response }}, {{ question }}")
    llm, backend = scripted(said(score=2), said(score=3))
    judges = [Relevance(llm, prompts=str(tmp_path)), Completeness(llm, prompts=str(tmp_path))]
    judged = evaluate_responses(turns(1), answers(1), judges)
    assert judged["value"].tolist() == [2.0, 3.0]
    first, second = (chat[0]["content"] for chat in backend.asked)
    assert first.startswith("Mine: words of 1, Question 1?")
    assert "# Last message of the user" in second


def test_naturalness_sees_the_response_alone():
    llm, backend = scripted(said(score=2))
    evaluate_responses(turns(1), answers(1), [Naturalness(llm)])
    prompt = backend.asked[0][0]["content"]
    assert "vegan" not in prompt
    assert "Question" not in prompt


def test_groundedness_sees_the_used_passages_in_their_order():
    llm, backend = scripted(said(verdict="yes"), said(verdict="no"))
    given = answers(3).assign(used=lambda frame: frame["used"] & (frame["qid"] != "9-1_3"))
    judged = evaluate_responses(turns(3), given, [Groundedness(llm)])
    assert judged["value"].tolist() == [1.0, 0.0, 0.0]
    assert judged["reason"].tolist()[2] == "the response is based on no passage"
    assert judged["outcome"].tolist() == ["judged"] * 3
    assert means(judged).loc["groundedness", ["mean", "n"]].tolist() == [1 / 3, 3]
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


@pytest.mark.parametrize(
    ("judge", "basis", "form"),
    [
        (Correctness, {"gold_answer": [["a", "b"]]}, "a text"),
        (PairwisePreference, {"gold_answer": [["a", "b"]]}, "a text"),
        (NuggetRecall, {"gold_nuggets": ["a fact"]}, "a list of texts"),
        (NuggetRecall, {"gold_nuggets": [["a", 1]]}, "a list of texts"),
    ],
)
def test_a_model_is_not_asked_about_a_basis_of_another_type(judge, basis, form):
    llm, backend = scripted()
    [name] = basis
    with pytest.raises(DataError, match=f"^turn 9-1_1: {name} is .*: give {form}$"):
        evaluate_responses(turns(1).assign(**basis), answers(1), [judge(llm)])
    assert backend.asked == []


class RawModel:
    """A model of the user's, which is no LLM of ours."""

    def generate(self, chats):
        return [said(better="A") for _ in chats]


@pytest.mark.parametrize(
    "judge",
    [
        Completeness,
        Correctness,
        Groundedness,
        Naturalness,
        NuggetRecall,
        PairwisePreference,
        Preference,
        Relevance,
    ],
)
def test_a_judge_takes_a_model_that_is_no_llm_yet(judge):
    assert judge(RawModel()).model_name == "RawModel"


def test_a_pairwise_judge_asks_a_model_that_is_no_llm_yet():
    judged = evaluate_responses(turns(1), answers(1), [PairwisePreference(RawModel())])
    assert judged["value"].tolist() == [0.5]


def test_prompt_ids_replay_recorded_completions(tmp_path):
    line = {"qid": "9-1_1", "stage": "judge", "model": "m"}
    lines = [
        {**line, "prompt": "judge_groundedness", "completion": said(verdict="yes")},
        {**line, "prompt": "judge_completeness", "completion": said(score=3)},
        {**line, "prompt": "judge_nuggets", "completion": said(nuggets=[1])},
        {**line, "prompt": "judge_pairwise", "completion": said(better="A")},
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


ALL = [Completeness, Relevance, Naturalness, Preference]


@pytest.mark.parametrize("judge", ALL)
def test_a_grade_is_on_the_scale_of_its_judge(judge):
    lowest, highest = {"completeness": (-1, 3), "relevance": (-1, 3)}.get(judge.name, (0, 4))
    grades = [lowest - 1, lowest, 0, 1, highest, highest + 1]
    llm, _ = scripted(*(said(score=grade) for grade in grades))
    frame = turns(6)
    judged = evaluate_responses(frame, answers(6), [judge(llm)])
    assert values_of(judged) == [None, lowest, 0, 1, highest, None]
    unable = "unable" if lowest < 0 else "judged"
    assert judged["outcome"].tolist() == ["failed", unable, *["judged"] * 3, "failed"]
    assert judged["reason"].tolist()[1:5] == ["because"] * 4
    schema = judge(llm).kind.structure.schema
    assert schema["properties"]["score"]["enum"] == list(range(lowest, highest + 1))


def test_a_prompt_shows_only_what_a_judge_may_see():
    shown = {
        Groundedness: ["passage 10"],
        Correctness: ["Question 1?", "gold words here"],
        NuggetRecall: ["Question 1?", "1. a fact"],
        PairwisePreference: ["Question 1?", "vegan", "Earlier?", "gold words here"],
        Naturalness: [],
    }
    every = {"Question 1?", "vegan", "Earlier?", "gold words here", "passage 10", "1. a fact"}
    frame = turns(1).assign(gold_nuggets=[["a fact"]])
    for judge, texts in shown.items():
        llm, backend = scripted(*["?"] * 2)
        evaluate_responses(frame, answers(1), [judge(llm)])
        prompt = backend.asked[0][0]["content"]
        assert "words of 1" in prompt
        assert {text for text in every if text in prompt} >= set(texts)
        for hidden in {"vegan", "gold words here", "passage 10", "1. a fact"} - set(texts):
            if judge in (Groundedness, Correctness, Naturalness):
                assert hidden not in prompt
    for judge in (Groundedness, Naturalness):
        llm, backend = scripted("?")
        evaluate_responses(frame[["qid"]], answers(1), [judge(llm)])
        assert "words of 1" in backend.asked[0][0]["content"]
    bare = frame.drop(columns=["qhistory", "qptkb"])
    llm, backend = scripted(said(score=1))
    judged = evaluate_responses(bare, answers(1), [Completeness(llm)])
    assert judged["value"].tolist() == [1.0]
    assert "vegan" not in backend.asked[0][0]["content"]


def test_requests_are_told_apart_by_judge_and_order():
    llm, _ = scripted()
    row = turns(1).assign(qanswer="ours", question="Which?", theirs="x").to_dict("records")[0]
    first, second = PairwisePreference(llm, against="theirs").requests(row)
    assert (first.qid, first.prompt, first.item) == ("9-1_1", "judge_pairwise", "as A")
    assert (second.stage, second.prompt, second.item) == ("judge", "judge_pairwise", "as B")
    [one] = Naturalness(llm).requests(row)
    assert (one.prompt, one.item) == ("judge_naturalness", "")
    assert Naturalness(llm).model_name == llm.model
    assert Groundedness(llm).requests({**row, "qpassages": []}) == []


@pytest.mark.parametrize(
    ("numbers", "value", "reason"),
    [
        ([1, 2], 1.0, "states nuggets 1, 2 of 2: because"),
        ([], 0.0, "states nuggets none of 2: because"),
        ([2, 3, 0], 0.5, "states nuggets 2 of 2 (omitted, not among them: 3, 0): because"),
        ([3], None, "the model names the nuggets [3] of 1 to 2"),
        ([0], None, "the model names the nuggets [0] of 1 to 2"),
    ],
)
def test_nuggets_are_counted_by_their_numbers(numbers, value, reason):
    llm, _ = scripted(said(nuggets=numbers))
    frame = turns(1).assign(gold_nuggets=[["a", "b"]])
    judged = evaluate_responses(frame, answers(1), [NuggetRecall(llm)])
    assert judged["reason"].tolist() == [reason]
    found = judged["value"][0]
    assert (None if math.isnan(found) else found) == value


@pytest.mark.parametrize(
    ("as_a", "as_b", "value"),
    [("A", "B", 1.0), ("B", "A", 0.0), ("A", "A", 0.5), ("B", "B", 0.5), ("tie", "B", 0.75)],
)
def test_a_preference_is_the_mean_of_both_orders(as_a, as_b, value):
    llm, _ = scripted(said(better=as_a), said(better=as_b))
    judged = evaluate_responses(turns(1), answers(1), [PairwisePreference(llm)])
    assert judged["value"].tolist() == [value]
    llm, _ = scripted("?", said(better="A"))
    assert evaluate_responses(turns(1), answers(1), [PairwisePreference(llm)])[
        "outcome"
    ].tolist() == ["failed"]


class Length(ResponseJudge):
    """Judges by the number of letters, where it can."""

    name, needs, basis = "length", ("gold_answer",), "gold_answer"

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
