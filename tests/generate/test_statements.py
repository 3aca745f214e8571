import pandas as pd
import pyterrier as pt
import pytest
from fakes import scripted
from operators import a_turn, ledger, texts, two_turns

import pyterrier_ikat as ikat
from pyterrier_ikat.llms import StageError


@pytest.mark.parametrize(
    ("form", "completion", "statements", "dropped"),
    [
        ("ids", "The allergy first.\n```json\n[1, 9, 3]\n```", [("1", 1.0), ("3", 0.5)], 1),
        (
            "copies",
            "3. I live in oslo\nI am allergic to camomile.\nI love tea.",
            [("3", 1.0), ("1", 0.5)],
            1,
        ),
        ("scores", 'Sure: {"2": 0, "3": 0.4, "1": 1.2}', [("1", 1.0), ("3", 0.4)], 1),
        ("ids", "[3, 1]\n\n2. Question: And tea?\n   Provenance: [2]", [("3", 1.0), ("1", 0.5)], 1),
        (
            "ids",
            "Statement 3\nStatement 1\n\nStatement 2: about dogs.\n[2]",
            [("3", 1.0), ("1", 0.5)],
            1,
        ),
        ("ids", "[3, 1, 3, 1, 3", [("3", 1.0), ("1", 0.5)], 1),
        ("copies", '["I live in Oslo."]\n\nNot relevant: ["I own a dog."]', [("3", 1.0)], 0),
        ("scores", '{"3": 0.4}\n{"1": 0.9}', [("3", 0.4)], 0),
        ("ids", "[]", [], 0),
        ("copies", "None", [], 0),
        ("scores", "{}", [], 0),
    ],
)
def test_what_the_model_chooses_is_written_best_first(form, completion, statements, dropped):
    llm, _ = scripted(completion)
    turn = a_turn()
    out = ikat.SelectStatements(llm, form)(turn)
    assert out["qstatements"].tolist() == [statements]
    assert out["query"].tolist() == turn["query"].tolist()
    assert "qstatements" not in turn
    assert (ledger(llm, "calls"), ledger(llm, "dropped"), ledger(llm, "fallbacks")) == (
        1,
        dropped,
        0,
    )


@pytest.mark.parametrize("form", ["ids", "copies", "scores"])
def test_the_prompt_shows_persona_question_and_optional_history(form):
    llm, backend = scripted("[]", "[]")
    ikat.SelectStatements(llm, form)(a_turn())
    ikat.SelectStatements(llm, form, history=False, question="qrewrite")(
        a_turn(qrewrite="Which tea helps against a cold?")
    )
    first, second = texts(backend)
    for shown in (
        "1: I am allergic to chamomile., 2: I own a dog., 3: I live in Oslo.",
        "And against a cold?",
        "system: Rooibos.",
    ):
        assert shown in first
    assert [
        one in second
        for one in ("Which tea helps against a cold?", "Rooibos", "And against a cold?")
    ] == [True, False, False]


@pytest.mark.parametrize("form", ["ids", "copies", "scores"])
def test_a_suggestion_is_shown_and_named_in_the_prompt_id(form):
    llm, backend = scripted("[]")
    operator = ikat.SelectStatements(llm, form, given="suggestion")
    turn = a_turn(qsuggestion="Whether the user has allergies.")
    assert operator.requests(turn)[0].prompt == f"statements_{form}_suggested"
    operator(turn)
    assert "Whether the user has allergies." in texts(backend)[0]
    with pytest.raises(pt.validate.InputValidationError, match="qsuggestion"):
        operator(a_turn())


def test_a_turn_without_persona_is_not_asked():
    llm, backend = scripted("[2]")
    assert ikat.SelectStatements(llm)(two_turns())["qstatements"].tolist() == [[("2", 1.0)], []]
    assert len(backend.asked) == 1
    silent, backend = scripted()
    out = ikat.SelectStatements(silent)(pd.DataFrame({"qid": ["1"], "query": ["tea"]}))
    assert (out["qstatements"].tolist(), backend.asked) == ([[]], [])


@pytest.mark.parametrize(
    ("form", "prose"),
    [("scores", "Statement 1 matters most."), ("ids", "Sure, gladly!"), ("copies", "...")],
)
def test_prose_fails_naming_the_turn_and_falls_back_to_none(form, prose):
    with pytest.raises(
        StageError,
        match=r"stage statements: 1 request failed .*chat_2 \(nothing usable in the completion",
    ):
        ikat.SelectStatements(scripted(prose)[0], form)(a_turn())
    llm, _ = scripted(
        "[2]" if form == "ids" else '{"2": 1}' if form == "scores" else "I own a dog.", prose
    )
    both = pd.concat(
        [a_turn(), a_turn().assign(qid="chat_3", qutterance="Really?")], ignore_index=True
    )
    out = ikat.SelectStatements(llm, form, on_error="fallback")(both)
    assert out["qstatements"].tolist() == [[("2", 1.0)], []]
    assert ledger(llm, "fallbacks") == 1
