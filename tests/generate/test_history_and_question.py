"""Summarise, Clarify, OutlineAnswer, and the further forms of Rewrite and Answer."""

import copy

import pandas as pd
import pytest
from fakes import scripted
from operators import PTKB, a_turn, ledger, texts

import pyterrier_ikat as ikat
from pyterrier_ikat.llms import StageError


def long(letter):
    return letter * 150


def talk(turns, number="talk"):
    """The turn frames 1 to ``turns`` of a conversation with the responses aaa..., bbb..., ccc..."""
    messages = []
    frames = []
    for position in range(turns):
        messages = [*messages, {"role": "user", "content": f"Question {position + 1}?"}]
        frames.append(ikat.conversation(messages, number=number))
        messages = [*messages, {"role": "assistant", "content": long("abcdef"[position])}]
    return pd.concat(frames, ignore_index=True)


def responses(history):
    return [message["content"] for message in history if message["role"] == "assistant"]


def test_long_past_responses_but_the_last_are_replaced_once():
    llm, backend = scripted("A!", "Summary: B!")
    turns = talk(4)
    before = copy.deepcopy(turns["qhistory"].tolist())
    out = ikat.generate.Summarise(llm)(turns)
    assert [responses(history) for history in out["qhistory"]] == [
        [],
        [long("a")],
        ["A!", long("b")],
        ["A!", "B!", long("c")],
    ]
    assert turns["qhistory"].tolist() == before
    assert [long("a") in text for text in texts(backend)] == [True, False]
    assert ledger(llm, "calls") == 2
    questions = [message["content"] for message in out["qhistory"][3] if message["role"] == "user"]
    assert questions == ["Question 1?", "Question 2?", "Question 3?"]


def test_a_response_goes_by_the_qid_of_its_own_turn():
    operator = ikat.generate.Summarise(scripted()[0])
    assert [(request.qid, request.prompt) for request in operator.requests(talk(4))] == [
        ("talk_1", "summarise"),
        ("talk_2", "summarise"),
    ]
    plain = talk(3).iloc[[2]].drop(columns="qconversation")
    assert [request.qid for request in operator.requests(plain)] == ["talk_3_1"]


@pytest.mark.parametrize(("least", "asked"), [(150, 1), (151, 0)])
def test_only_responses_of_at_least_the_given_length_are_asked(least, asked):
    assert (
        len(ikat.generate.Summarise(scripted()[0], min_characters=least).requests(talk(3))) == asked
    )


def test_a_response_without_summary_stays_or_is_named_by_turn():
    with pytest.raises(StageError, match=r"stage summarise: 1 request failed .*: talk_1 \("):
        ikat.generate.Summarise(scripted("...")[0])(talk(3))
    llm, _ = scripted("...", "B!")
    out = ikat.generate.Summarise(llm, on_error="fallback")(talk(4))
    assert responses(out["qhistory"][3]) == [long("a"), "B!", long("c")]
    assert ledger(llm, "fallbacks") == 1


@pytest.mark.parametrize(
    ("columns", "shown"),
    [
        ({}, "1: I am allergic to chamomile., 2: I own a dog., 3: I live in Oslo.\n"),
        ({"qstatements": []}, ""),
    ]
    + [
        (
            {"qstatements": [("3", 0.9), ("1", 0.5)]},
            "3: I live in Oslo., 1: I am allergic to chamomile.\n",
        )
    ],
)
def test_clarify_shows_chosen_or_all_statements_and_is_the_query(columns, shown):
    llm, backend = scripted("Clarified utterance: Which tea helps against a cold?")
    out = ikat.generate.Clarify(llm)(a_turn(**columns))
    assert out["query"].tolist() == out["qrewrite"].tolist() == ["Which tea helps against a cold?"]
    assert out["query_0"].tolist() == ["And against a cold?"]
    [text] = texts(backend)
    assert shown in text
    assert [one for one in PTKB.values() if one in text] == [
        one for one in PTKB.values() if one in shown
    ]
    assert "system: Rooibos." in text


@pytest.mark.parametrize(
    ("form", "prompt"), [("elements", "suggest"), ("context", "suggest_context")]
)
def test_suggest_sees_conversation_and_question_but_no_persona(form, prompt):
    llm, backend = scripted("<think>hm</think>Name a tea.")
    operator = ikat.generate.OutlineAnswer(llm, form)
    out = operator(a_turn())
    assert out["qsuggestion"].tolist() == ["Name a tea."]
    assert out["query"].tolist() == ["And against a cold?"]
    assert operator.requests(a_turn())[0].prompt == prompt
    [text] = texts(backend)
    assert "system: Rooibos." in text
    assert "And against a cold?" in text
    assert not any(statement in text for statement in PTKB.values())
    assert ("300 words" in text) == (form == "elements")
    assert ikat.generate.OutlineAnswer(scripted("<think>")[0], on_error="fallback")(a_turn())[
        "qsuggestion"
    ].tolist() == [""]


def test_a_short_rewrite_sees_no_persona():
    llm, backend = scripted("Which tea helps against a cold?")
    out = ikat.Rewrite(llm, "short")(a_turn())
    assert out["qrewrite"].tolist() == ["Which tea helps against a cold?"]
    assert not any(statement in texts(backend)[0] for statement in PTKB.values())
    assert ikat.Rewrite(llm, "short").prompt == "rewrite_short"


def test_an_answer_has_a_set_length_and_its_queries_repeat_it():
    llm, backend = scripted("Ginger tea.", "1. ginger tea")
    (ikat.Answer(llm, words=200) >> ikat.Queries(llm, given="answer", words=200))(a_turn())
    first, second = backend.asked
    assert "at most 200 words" in first[0]["content"]
    assert second[:1] == first
    assert ikat.Answer(llm, words=200).prompt == "answer"


def test_an_answer_from_chosen_statements_has_one_example():
    llm, backend = scripted("Ginger tea.")
    operator = ikat.Answer(llm, statements="chosen")
    operator(a_turn(qstatements=[("1", 1.0)]))
    [text] = texts(backend)
    assert operator.prompt == "answer_one_shot"
    assert text.count("# Example") == 1
    assert "chamomile" in text
    assert "I own a dog" not in text
