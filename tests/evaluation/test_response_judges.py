"""Judges of responses with a real LLM object whose answers are queued: prompts and verdicts."""

import json
import math

import pytest
from fakes import scripted
from small_responses import answers, means, said, turns, values_of

import pyterrier_ikat as ikat
from pyterrier_ikat.completions.verdicts import NO_REASON, read_score, read_yes_no
from pyterrier_ikat.errors import DataError
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
    evaluate_responses,
)


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


def test_reasons():
    assert read_score("It skips the price.\nScore: 2", -1, 3).reason == "It skips the price."
    assert (
        read_score("Reason: It skips the price.\nScore: 2", -1, 3).reason == "It skips the price."
    )
    assert read_score("2", -1, 3).reason == read_score('{"score": 2}', -1, 3).reason == NO_REASON
    assert read_yes_no("Yes, every figure is there.").reason == "Yes, every figure is there."


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
