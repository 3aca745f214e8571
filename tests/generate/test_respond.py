from contextlib import nullcontext

import pyterrier as pt
import pytest
from fakes import scripted
from operators import a_turn, found, ledger, texts, two_turns

import pyterrier_ikat as ikat
from pyterrier_ikat.generate.respond import NoTextWarning
from pyterrier_ikat.llms import StageError


def test_the_best_passages_are_shown_marked_and_ranking_stays():
    llm, backend = scripted("Ginger tea.", "Rooibos.")
    results = found(two_turns(), 4)
    before = results.copy()
    out = ikat.Respond(llm, passages=2)(results)
    assert out.drop(columns=["qanswer", "used"]).equals(before)
    assert results.equals(before)
    assert out["used"].tolist() == [False, False, True, True] * 2
    assert out["used"].dtype == bool
    assert out["qanswer"].tolist() == ["Ginger tea."] * 4 + ["Rooibos."] * 4
    first, second = texts(backend)
    assert first.index("Passage 0 of chat_2.") < first.index("Passage 1 of chat_2.")
    assert (
        '<passage number="1">\nPassage 0 of chat_2. More.\n</passage>\n'
        '<passage number="2">\nPassage 1' in first
    )
    assert "Passage 2" not in first
    assert "other_1" not in first
    assert "And against a cold?" in first
    assert "system: Rooibos." in first
    assert "I own a dog." in first
    assert "200 words" in first
    assert "Passage 0 of other_1." in second


def with_empty(count, *ranks, text=" \n"):
    """A turn's passages, of which those at some ranks have an empty text."""
    results = found(a_turn(), count)
    results.loc[results["rank"].isin(ranks), "text"] = text
    return results


READERS = {
    "Respond": lambda llm: ikat.Respond(llm, passages=2, cite=True),
    "Decide": lambda llm: ikat.generate.Decide(llm, passages=2),
    "Condense": lambda llm: ikat.generate.Condense(llm, passages=2, direct=0),
}


@pytest.mark.parametrize("name", READERS)
def test_an_empty_passage_is_not_shown_but_the_next_one_and_told(name):
    llm, backend = scripted(
        '{"reason": "x", "action": "answer"} Tea grows [2].', '{"reason": "x", "action": "answer"}'
    )
    with pytest.warns(NoTextWarning, match=r"1 passage with an empty text \(chat_2-0\)"):
        out = READERS[name](llm)(with_empty(4, 0, 3))
    shown = "\n".join(texts(backend))
    assert [f"Passage {rank}" in shown for rank in range(4)] == [False, True, True, False]
    if name == "Respond":
        assert out["used"].tolist() == [
            False,
            True,
            False,
            False,
        ]  # the second passage that was shown is of rank 2


def test_the_fallback_is_the_best_passage_with_a_text():
    with pytest.warns(NoTextWarning):
        out = ikat.Respond(scripted("<think>")[0], words=4, on_error="fallback")(with_empty(2, 0))
    assert out["qanswer"].tolist() == ["Passage 1 of chat_2."] * 2


@pytest.mark.parametrize(
    ("text", "message"),
    [("", "all passages of 1 turn have an empty text .chat_2"), (None, "no text in text")],
)
def test_a_turn_without_any_text_is_refused_before_it_is_asked(text, message):
    llm, backend = scripted("Tea.")
    with (
        pytest.raises(ikat.DataError, match=message),
        pytest.warns(NoTextWarning) if text == "" else nullcontext(),
    ):
        ikat.Respond(llm, passages=2)(with_empty(2, 0, 1, text=text))
    assert backend.asked == []


FORMS = {
    "rag": "respond",
    "passages_only": "respond_passages_only",
    "suggested": "respond_suggested",
}


@pytest.mark.parametrize("form", FORMS)
def test_every_form_shows_passages_statements_and_limit(form):
    llm, backend = scripted("Tea.")
    operator = ikat.Respond(llm, passages=3, words=250, form=form, statements="chosen")
    results = found(a_turn(qstatements=[("1", 1.0)], qsuggestion="Name a tea."), 4)
    operator(results)
    [text] = texts(backend)
    assert [request.prompt for request in operator.requests(results)] == [FORMS[form]]
    assert text.count("<passage number=") == 3
    assert [one in text for one in ("250 words", "chamomile", "I own a dog", "Name a tea.")] == [
        True,
        True,
        False,
        form == "suggested",
    ]


@pytest.mark.parametrize(
    ("arguments", "missing"),
    [({"form": "suggested"}, "qsuggestion"), ({"statements": "chosen"}, "qstatements")],
)
def test_what_is_shown_has_to_be_there(arguments, missing):
    with pytest.raises(pt.validate.InputValidationError, match=missing):
        ikat.Respond(scripted()[0], **arguments)(found(a_turn(), 1))


def test_a_long_response_is_cut_at_a_sentence_and_counted():
    llm, _ = scripted("One two three. Four five six. Seven eight.", "One two three. Four five six.")
    out = ikat.Respond(llm, words=6)(found(two_turns(), 1))
    assert out["qanswer"].tolist() == ["One two three. Four five six."] * 2
    assert ledger(llm, "dropped") == 1
    llm, _ = scripted("One two. Three four five.", "One two.")
    out = ikat.Respond(llm, words=4)(found(two_turns(), 1))
    assert (out["qanswer"][0], ledger(llm, "dropped")) == ("One two.", 1)  # a word too many


def test_a_failed_turn_falls_back_to_its_best_passage():
    with pytest.raises(StageError, match=r"stage respond: 1 request failed .*other_1"):
        ikat.Respond(scripted("Tea.", "<think>")[0])(found(two_turns(), 2))
    llm, _ = scripted("Tea.", "<think>")
    out = ikat.Respond(llm, words=4, on_error="fallback")(found(two_turns(), 2))
    assert out["qanswer"].tolist() == [
        "Tea.",
        "Tea.",
        "Passage 0 of other_1.",
        "Passage 0 of other_1.",
    ]
    assert (ledger(llm, "fallbacks"), ledger(llm, "dropped")) == (1, 0)
