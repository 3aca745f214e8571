"""Rewrites, clarifications and answers that a model writes."""

import pandas as pd
import pyterrier as pt
import pytest
from fakes import scripted
from operators import PTKB, RUN_ON, a_turn, labelled, ledger, texts, two_turns

import pyterrier_ikat as ikat
from pyterrier_ikat.completions.texts import parse_reasoned_rewrite, parse_rewrite_and_answer
from pyterrier_ikat.llms import StageError


def test_answer_shows_persona_and_history_and_becomes_the_query(turn):
    llm, backend = scripted("Ginger tea.")
    out = ikat.Answer(llm)(turn)
    [[message]] = backend.asked
    assert message["role"] == "user"
    assert (
        "1: I am allergic to chamomile., 2: I own a dog., 3: I live in Oslo." in message["content"]
    )
    assert "user: Which tea has no caffeine?\nsystem: Rooibos." in message["content"]
    assert "And against a cold?" in message["content"]
    assert out["qanswer"].tolist() == out["query"].tolist() == ["Ginger tea."]
    assert out["query_0"].tolist() == ["And against a cold?"]
    assert out["qhistory"][0] is turn["qhistory"][0]
    assert "qanswer" not in turn


def test_the_manual_rewrite_can_stand_in_for_the_utterance(turn):
    llm, backend = scripted("Ginger.")
    ikat.Answer(llm, question="qresolved")(
        turn.assign(qresolved=["Which tea helps against a cold?"])
    )
    assert "Which tea helps against a cold?" in backend.asked[0][0]["content"]
    assert "And against a cold?" not in backend.asked[0][0]["content"]
    with pytest.raises(pt.validate.InputValidationError, match="qresolved"):
        ikat.Answer(llm, question="qresolved")(turn)


def test_an_answer_ends_at_the_next_prompt_and_keeps_headings(turn):
    llm, _ = scripted("# Example\nGinger.\n" + RUN_ON, "# About the user\nYou like tea.")
    assert ikat.Answer(llm)(turn)["qanswer"].tolist() == ["# Example\nGinger."]
    assert ikat.Answer(llm)(turn.assign(qptkb=[{}]))["qanswer"].tolist() == [
        "# About the user\nYou like tea."
    ]
    assert ledger(llm, "dropped") == 1


class Failing:
    def generate(self, prompts):
        completions = []
        for prompt in prompts:
            if "tea" in str(prompt):
                completions.append("ERROR::other")
            else:
                completions.append("Fine.")
        return completions


def test_failed_turns_are_named_after_the_others_finished():
    frame = pd.DataFrame({"qid": ["1", "2", "3"], "query": ["tea", "oats", "more tea"]})
    llm = ikat.llm(Failing())
    with pytest.raises(StageError, match=r"stage answer: 2 requests failed.*: 1, 3 \(.*fallback"):
        ikat.Answer(llm)(frame)
    llm = ikat.llm(Failing())
    out = ikat.Answer(llm, on_error="fallback")(frame)
    assert out["query"].tolist() == ["tea", "Fine.", "more tea"]
    [row] = llm.ledger.frame().to_dict("records")
    assert (row["failures"], row["fallbacks"]) == (2, 2)


def test_the_llm_sets_on_error_unless_the_operator_does(turn):
    forgiving = ikat.llm("recorded:sample on_error=fallback")
    assert repr(forgiving) == "ikat.llm('recorded:sample on_error=fallback')"
    assert forgiving != ikat.llm("recorded:sample")
    failing = ikat.llm(Failing())
    failing.on_error = "fallback"
    assert ikat.Answer(failing)(turn.assign(qutterance=["tea"]))["query"].tolist() == ["tea"]
    with pytest.raises(StageError):
        ikat.Answer(failing, on_error="raise")(turn.assign(qutterance=["more tea"]))
    with pytest.raises(ikat.UsageError, match="on_error is wrong: give raise or fallback"):
        ikat.llm("openai:x on_error=ignore")


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


def test_rewrite_drops_what_was_computed_from_the_old_query(turn):
    llm, _ = scripted('Rewritten query: "Which tea helps against a cold?"')
    out = ikat.Rewrite(llm)(turn.assign(query_toks=[{"tea": 1.0}], query_vec=[[0.1]]))
    assert out["qrewrite"].tolist() == out["query"].tolist() == ["Which tea helps against a cold?"]
    assert not {"query_toks", "query_vec"} & set(out.columns)


def test_a_short_rewrite_sees_no_persona():
    llm, backend = scripted("Which tea helps against a cold?")
    out = ikat.Rewrite(llm, "short")(a_turn())
    assert out["qrewrite"].tolist() == ["Which tea helps against a cold?"]
    assert not any(statement in texts(backend)[0] for statement in PTKB.values())
    assert ikat.Rewrite(llm, "short").prompt == "rewrite_short"


def test_enhanced_rewrite_sees_summary_clear_question_and_guess():
    llm, backend = scripted("They spoke about rooibos.", "rooibos against a cold")
    turn = a_turn(qrewrite="Does rooibos help against a cold?", qanswer="It may soothe the throat.")
    out = (
        ikat.generate.Enhance(llm, "summary") >> ikat.Rewrite(llm, "enhanced", question="qrewrite")
    )(turn)
    shown = texts(backend)[1]
    assert out["query"].item() == out["qrewrite"].item() == "rooibos against a cold"
    assert "# Conversation so far\nThey spoke about rooibos.\n" in shown
    assert "# Question\nDoes rooibos help against a cold?" in shown
    assert "# Guess at the answer\nIt may soothe the throat." in shown
    assert "Which tea has no caffeine?" not in shown


def test_without_a_summary_the_enhanced_rewrite_sees_the_history():
    llm, backend = scripted("a", "b")
    for columns in ({}, {"qsummary": ""}):
        ikat.Rewrite(llm, "enhanced", question="qrewrite")(
            a_turn(qrewrite="Clear?", qanswer="Guess.", **columns)
        )
    assert all(
        "user: Which tea has no caffeine?\nsystem: Rooibos." in text for text in texts(backend)
    )


def test_only_the_enhanced_rewrite_sees_the_summary():
    turn = a_turn(qsummary="They spoke of tea.", qanswer="Yes.", qpreferences="- tea")
    for form, has_summary in (("enhanced", True), ("personal", False)):
        llm, backend = scripted("Does mint help?")
        ikat.Rewrite(llm, form)(turn)
        [prompt] = texts(backend)
        assert ("They spoke of tea." in prompt) is has_summary
        assert ("system: Rooibos." in prompt) is not has_summary


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
    ("text", "expected"),
    [
        ("Rewrite: Is mint safe?\nResponse: Yes, it is.", ("Is mint safe?", "Yes, it is.")),
        (
            "Reason: a\nRewrite: Is mint safe?\n\nResponse: Yes.\n\nIt is: really.",
            ("Is mint safe?", "Yes. It is: really."),
        ),
        ("**Rewrite:** Is mint safe?\n**Response:** Yes.", ("Is mint safe?", "Yes.")),
        (
            "Rewritten query:\nIs mint safe?\nAnswer:\nYes.\nResponse: no label any more",
            ("Is mint safe?", "Yes. Response: no label any more"),
        ),
        (
            '{"reason": "a", "rewrite": "Is mint safe?", "response": "Yes."}',
            ("Is mint safe?", "Yes."),
        ),
        (
            "<think>Rewrite: no</think>Rewrite: Is mint safe?\nResponse: Yes.",
            ("Is mint safe?", "Yes."),
        ),
        ("Rewrite: Is mint safe?", None),
        ("Response: Yes.", None),
        ("Response: Yes.\nRewrite: Is mint safe?", None),
        ("Is mint safe? Yes.", None),
        ("Rewrite:\nResponse: Yes.", None),
        ("I'm sorry, but I can't help with that.", None),
        ("", None),
    ],
)
def test_a_rewrite_and_its_answer_are_read_after_their_labels(text, expected):
    assert parse_rewrite_and_answer(text) == expected


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("Reason: it is mint.\nRewrite: Is mint safe?", "Is mint safe?"),
        ("Is mint safe?", "Is mint safe?"),
        ("Rewrite: Is mint safe?\nResponse: Yes.", "Is mint safe?"),
        ("Reason: it is mint.", ""),
        ("Response: Yes.", ""),
    ],
)
def test_a_reason_is_no_rewrite(text, expected):
    assert parse_reasoned_rewrite(text) == expected


def test_an_unusable_completion_falls_back_to_the_question():
    llm, _ = scripted("Rewrite: half", labelled("Is rooibos good against a cold?", "It is."))
    out = ikat.RewriteAndAnswer(llm, on_error="fallback")(two_turns())
    assert out["qrewrite"].tolist() == ["And against a cold?", "Is rooibos good against a cold?"]
    assert out["query"].tolist() == [
        "And against a cold?",
        "Is rooibos good against a cold? It is.",
    ]
    assert out["qanswer"].tolist() == ["", "It is."]
    assert (ledger(llm, "failures"), ledger(llm, "fallbacks")) == (1, 1)


def test_the_prompt_asks_for_what_is_wanted():
    llm, backend = scripted(labelled("a", "b"), "Rewrite: a", "Rewrite: a")
    turn = a_turn()
    ikat.RewriteAndAnswer(llm)(turn)
    assert "qanswer" not in ikat.RewriteAndAnswer(llm, False)(turn)
    ikat.RewriteAndAnswer(llm, answer=False, think=False)(turn)
    assert [("Reason:" in text, "Response:" in text) for text in texts(backend)] == [
        (True, True),
        (True, False),
        (False, False),
    ]
    for text in texts(backend):
        assert "I own a dog." in text
        assert "user: Which tea has no caffeine?" in text


@pytest.mark.parametrize("persona", [True, False])
def test_a_rewrite_and_an_answer_may_see_no_persona(persona):
    llm, backend = scripted("Reason: x\nRewrite: Does mint help?")
    out = ikat.RewriteAndAnswer(llm, answer=False, persona=persona)(a_turn())
    [prompt] = texts(backend)
    for statement in PTKB.values():
        assert (statement in prompt) is persona
    assert out["query"].tolist() == out["qrewrite"].tolist() == ["Does mint help?"]
