"""Statements about the user that a model chooses, and examples for it."""

import json

import pandas as pd
import pyterrier as pt
import pytest
from fakes import scripted
from operators import COLD, a_turn, ledger, texts, two_turns

import pyterrier_ikat as ikat
from pyterrier_ikat.errors import DataError, UsageError
from pyterrier_ikat.generate.statements import EXAMPLE_CONVERSATIONS, check_numbered, examples_of
from pyterrier_ikat.llms import StageError

G = ikat.generate


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


def test_statements_are_chosen_for_the_turns_with_a_persona():
    turns = two_turns()[::-1].reset_index(drop=True)
    out = G.SelectStatements(scripted("[2]")[0])(turns)
    assert out["qstatements"].tolist() == [[], [("2", 1.0)]]
    with pytest.raises(DataError, match="other_1"):
        G.SelectStatements(scripted()[0]).requests(turns.assign(qutterance=[" ", COLD]))


def test_a_choice_of_unknown_statements_is_a_kept_failure():
    with pytest.raises(StageError) as info:
        G.SelectStatements(scripted("[9]")[0])(a_turn())
    [failure] = info.value.failures
    assert (failure.qid, failure.kept) == ("chat_2", True)


def test_each_piece_that_names_no_statement_is_counted():
    llm, _ = scripted("[2, 8, 9]")
    G.SelectStatements(llm)(a_turn())
    assert ledger(llm, "dropped") == 2


def test_a_choice_of_unknown_statements_is_one_failure():
    frame = pd.concat([a_turn(qid=name, qutterance=f"{name}?") for name in "xyz"])
    llm, _ = scripted("[9, 8]", "prose", "[9, 2]")
    chosen = G.SelectStatements(llm, on_error="fallback")(frame)
    assert chosen["qstatements"].tolist() == [[], [], [("2", 1.0)]]
    totals = llm.ledger.frame()[["failures", "fallbacks", "dropped"]].sum()
    assert totals.tolist() == [2, 2, 1]
    llm, _ = scripted("[9, 8]")
    with pytest.raises(ikat.IkatError, match="all chosen statements are unknown .no statement 9"):
        G.SelectStatements(llm)(a_turn())
    llm, backend = scripted('{"P3": 0.5}', "I own a dog.")
    named = a_turn().assign(qptkb=[{"P3": "I own a dog."}])
    for form in ("scores", "copies"):
        G.SelectStatements(llm, form)(named)
    with pytest.raises(DataError, match="'P3' is none"):
        G.SelectStatements(llm)(named)
    assert len(backend.asked) == 2


def test_ids_that_are_no_numbers_are_named_with_their_turn():
    check_numbered(["a", "b"], [{"1": "x", "٢": "y"}, {}])
    for wrong in ("P3", "2a", "", "1.5", "²"):
        with pytest.raises(DataError, match=f"turn b: .* the id '{wrong}' is none"):
            check_numbered(["a", "b"], [{"1": "x"}, {"1": "x", wrong: "y"}])


def with_examples(*conversations):
    items = []
    for number, resolved in conversations:
        turn = {
            "turn_id": 1,
            "utterance": f"u{number}",
            "resolved_utterance": resolved,
            "response": f"r{number}",
            "ptkb_provenance": [1, 2],
        }
        plain = {**turn, "turn_id": 2, "resolved_utterance": "", "ptkb_provenance": []}
        items.append({"number": number, "ptkb": {"1": "a", "2": "b"}, "turns": [turn, plain]})
    return items


def test_examples_are_the_first_conversations_with_a_rewrite(tmp_path):
    path = tmp_path / "topics.json"
    path.write_text(json.dumps(with_examples(("c1", ""), ("c2", "R2"), ("c3", "R3"))))
    lines = ["About the user: 1: a, 2: b", "user: uc2", "Statements: [1, 2]", "Rewrite: R2"]
    lines += ["Response: rc2", "user: uc2", "Statements: []", "Rewrite: ", "Response: rc2"]
    assert examples_of(1, str(path), rewrites=True) == ["\n".join(lines)]
    shorter = [line for line in lines if not line.startswith("Rewrite")]
    both = examples_of(2, str(path), rewrites=False)
    assert both == ["\n".join(shorter), "\n".join(shorter).replace("c2", "c3")]
    with pytest.raises(UsageError, match="shots=3: .* has 2 conversations to take as examples"):
        examples_of(3, str(path), rewrites=True)
    assert examples_of(0, "no such data", rewrites=True) == []


def test_examples_of_some_data_are_named_in_their_order(tmp_path, monkeypatch):
    path = tmp_path / "topics.json"
    path.write_text(json.dumps(with_examples(("c1", "R1"), ("c2", "R2"), ("c3", "R3"))))
    monkeypatch.setitem(EXAMPLE_CONVERSATIONS, str(path), ("c3", "c9", "c1"))
    examples = examples_of(2, str(path), rewrites=False)
    assert [example.partition("\nuser: ")[2][:3] for example in examples] == ["uc3", "uc1"]
    with pytest.raises(UsageError, match="has 2 conversations"):
        examples_of(3, str(path), rewrites=False)


DISHES = {str(number): f"I like the dish of number {number} most." for number in range(1, 31)}


@pytest.fixture
def eater():
    return ikat.conversation([{"role": "user", "content": "What do I eat?"}], list(DISHES.values()))


CHOSEN_DISHES = {
    "ids": json.dumps(list(map(int, DISHES))),
    "copies": "\n".join(DISHES.values()),
    "scores": json.dumps(dict.fromkeys(DISHES, 0.5)),
}


@pytest.mark.parametrize("form", CHOSEN_DISHES)
def test_every_statement_is_shown_chosen_and_used(form, eater):
    dishes = [f"dish {number}" for number in DISHES]
    llm, backend = scripted(CHOSEN_DISHES[form], *[f'["{dish}"]' for dish in dishes])
    chosen = ikat.SelectStatements(llm, form)(eater)
    assert [number for number, _ in chosen["qstatements"][0]] == list(DISHES)
    for statement in DISHES.values():
        assert statement in backend.asked[0][-1]["content"]
    appended = G.AppendStatements()(chosen)
    assert appended["query"][0] == " ".join(["What do I eat?", *DISHES.values()])
    assert G.StatementQueries(llm)(chosen)["qsubqueries"][0] == dishes
    found = chosen.assign(docno="d", score=1.0, rank=0, text="Rice.")
    llm, backend = scripted("Rice.")
    ikat.Respond(llm, statements="chosen")(found)
    for statement in DISHES.values():
        assert statement in backend.asked[0][-1]["content"]
