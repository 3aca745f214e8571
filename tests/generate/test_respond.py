"""Responses from a turn's passages: what is shown, cut, written and planned."""

from contextlib import nullcontext

import numpy as np
import pandas as pd
import pyterrier as pt
import pytest
from fakes import scripted
from operators import (
    MIXED,
    Watch,
    a_turn,
    found,
    ledger,
    mixed,
    no_text_warnings,
    planned,
    results,
    texts,
    two_turns,
)

import pyterrier_ikat as ikat
from pyterrier_ikat.errors import DataError
from pyterrier_ikat.events import observed, observed_by
from pyterrier_ikat.generate.respond import NoTextWarning
from pyterrier_ikat.llms import StageError

G = ikat.generate


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


READERS = {
    "Respond": lambda llm: ikat.Respond(llm, passages=2, cite=True),
    "Decide": lambda llm: G.Decide(llm, passages=2),
    "Condense": lambda llm: G.Condense(llm, passages=2, direct=0),
}


def with_empty(count, *ranks, text=" \n"):
    """A turn's passages, of which those at some ranks have an empty text."""
    results = found(a_turn(), count)
    results.loc[results["rank"].isin(ranks), "text"] = text
    return results


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


def test_each_turn_gets_its_own_prompt_and_response_in_any_order():
    first, second = (two_turns().iloc[[place]] for place in (0, 1))
    turns = [first.assign(qid="10_2"), second.assign(qid="10_10")]
    for order in (turns, turns[::-1]):
        frame = found(pd.concat(order, ignore_index=True), 2)
        qids = frame["qid"].unique().tolist()
        llm, backend = scripted(*[f"About {qid}." for qid in qids])
        operator = ikat.Respond(llm)
        responses = operator(frame)
        assert (responses["qanswer"] == "About " + responses["qid"] + ".").all()
        assert [request.qid for request in operator.requests(frame)] == qids
        for qid, shown in zip(qids, texts(backend), strict=True):
            for other in qids:
                assert (f"of {other}. More" in shown) == (other == qid)


@pytest.mark.parametrize(
    ("passages", "shown", "skipped"),
    [
        (1, ["A."], None),
        (2, ["A.", "C."], "1 passage .*(d1)"),
        (3, ["A.", "C.", "D."], "2 passages"),
    ],
)
def test_empty_passages_are_passed_over_in_the_order_of_ranks(passages, shown, skipped):
    llm, backend = scripted("Mint.")
    responded, warned = no_text_warnings(lambda: ikat.Respond(llm, passages)(MIXED))
    used = responded.loc[responded["used"], "text"].tolist()
    assert used == [text for text in MIXED["text"] if text in shown]
    prompt = texts(backend)[0]
    assert [text for text in ("A.", "C.", "D.") if text in prompt] == shown
    assert sorted(shown, key=prompt.index) == shown
    assert len(warned) == (skipped is not None)
    assert responded["qanswer"].tolist() == ["Mint."] * 5
    assert responded[MIXED.columns.tolist()].equals(MIXED.reset_index(drop=True))


def test_every_passage_needs_a_rank_and_each_turn_a_text():
    llm, _ = scripted()
    ranked = found(two_turns(), 2)
    ranked["rank"] = ranked["rank"].astype(float)
    ranked.loc[3, "rank"] = np.nan
    with pytest.raises(DataError, match="a passage of turn other_1 has no rank"):
        ikat.Respond(llm)(ranked)
    blank = found(two_turns(), 2)
    blank.loc[2:, "text"] = " "
    every = r"all passages of 1 turn have an empty text \(other_1\)"
    with pytest.warns(NoTextWarning), pytest.raises(DataError, match=every):
        ikat.Respond(llm)(blank)
    blank.loc[1, "text"] = None
    with pytest.raises(DataError, match="row has no text in text"):
        ikat.Respond(llm)(blank[:2])


def test_a_passage_and_a_response_are_cut_to_their_words():
    llm, backend = scripted("One two. Three four. Five.", "One two. Three.")
    frame = results((0, "Ab cd. Ef gh. Ij."), (1, "Kl mn op qr."))
    responded = ikat.Respond(llm, 2, words=4, passage_words=3)(frame)
    assert responded["qanswer"].iloc[0] == "One two. Three four."
    assert ledger(llm, "dropped") == 1
    prompt = texts(backend)[0]
    assert "Ab cd." in prompt
    assert "Ef gh" not in prompt
    assert "Kl mn op" in prompt
    assert "qr" not in prompt
    condensed = frame.assign(qpassages=[["St uv. Wx yz. Ab."]] * 2, used=[True, False])
    out = ikat.Respond(llm, words=3, form="condensed", passage_words=2)(condensed)
    assert out["used"].tolist() == [True, False]
    assert "St uv." in texts(backend)[1]
    assert "Wx yz" not in texts(backend)[1]
    assert ledger(llm, "dropped") == 1


@pytest.mark.parametrize(("answer", "limit"), [("One two three.", None), ("One two three four", 3)])
def test_observers_learn_whether_a_response_is_shortened(answer, limit):
    watch = Watch()
    with observed_by(watch):
        ikat.Respond(scripted(answer)[0], words=3)(found(a_turn(), 1))
    assert watch.limits == [limit]


def test_an_empty_passage_of_two_turns_is_told_once():
    frame = mixed(2).sort_values("rank", ignore_index=True)
    frame["docno"] = frame["docno"].str[-2:]
    frame.loc[frame["docno"] == "-0", "text"] = ""
    with pytest.warns(NoTextWarning, match=r"1 passage with an empty text \(-0\)"):
        ikat.Respond(scripted("a", "b")[0])(frame)


def test_passages_used_before_do_not_matter_to_a_response():
    frame = found(a_turn(), 3).assign(used=[True, False, False])
    llm, backend = scripted("Mint [1].")
    out = ikat.Respond(llm, 2)(frame)
    assert out["used"].tolist() == [False, True, True]
    assert "Passage 2" not in texts(backend)[0]
    assert out["qanswer"].unique().tolist() == ["Mint [1]."]  # no citation was asked for


@pytest.mark.parametrize("answers", [("One.", "One two three four."), ("One two three four", "a")])
def test_observers_learn_if_any_response_is_shortened(answers):
    watch = Watch()
    with observed_by(watch):
        ikat.Respond(scripted(*answers)[0], words=3)(found(two_turns(), 1))
    assert watch.limits == [3]


@pytest.mark.parametrize(
    ("text", "cite", "limits"),
    [
        ("One two three", False, []),
        ("One two three four", False, [3]),
        ("One two three [1]. ", True, []),
        ("One two three [1]. Four", True, [3]),
    ],
)
def test_observers_learn_of_the_limit_while_it_is_written(text, cite, limits):
    watch = Watch()
    frame = found(a_turn(), 2)
    operator = ikat.Respond(scripted()[0], words=3, cite=cite)

    def write():
        operator.while_written(frame)(text)
        return frame

    with observed_by(watch):
        observed(operator, frame, write)
    assert watch.limits == limits


def test_the_fallback_is_a_passage_without_its_margins():
    frame = found(a_turn(), 1).assign(text="\n  Mint helps. ")
    llm, _ = scripted("")
    out = ikat.Respond(llm, on_error="fallback")(frame)
    assert out["qanswer"].item() == "Mint helps."


def test_a_responder_is_copied_with_another_limit_or_citations():
    llm, _ = scripted()
    one = ikat.Respond(llm, 3, words=50, form="passages_only", abstention="No.")
    assert one.limited(9) == ikat.Respond(llm, 3, words=9, form="passages_only", abstention="No.")
    cites = ikat.Respond(llm, 3, 50, "passages_only", abstention="No.", cite=True)
    assert one.citing() == cites
    assert one.abstains_with() == "No."
    assert ikat.Respond(llm, form="condensed").citing() is None
    with pytest.raises(ikat.UsageError, match="a summary of several passages can't be cited"):
        ikat.Respond(llm, form="condensed", cite=True)


def test_what_is_shown_of_a_text_while_it_is_written():
    llm, _ = scripted()
    assert ikat.Answer(llm).while_written(a_turn())("A [1]. B") == "A [1]. B"
    frame = found(a_turn(), 2)
    plain = ikat.Respond(llm, words=3).while_written(frame)
    assert [plain(text) for text in ("A [1].", "A b c. D")] == ["A [1].", "A b c."]
    citing = ikat.Respond(llm, words=3, cite=True).while_written(frame)
    shown = [
        citing(text) for text in ("Tea [2].", "Tea [2]. Rye [9]. Hay", "Oat tea. Rye [1]. Hay now")
    ]
    assert shown == ["Tea.", "Tea. [1] Rye. Hay", "Oat tea. Rye. [1]"]
    assert citing("Tea [3]. Hay") == "Tea. Hay"  # two passages were shown


@pytest.mark.parametrize(
    ("make", "columns"),
    [
        (G.Condense, {"qpassages", "used"}),
        (lambda llm: ikat.BestResponse([ikat.Respond(llm)] * 2, llm), {"qanswer", "qresponder"}),
    ],
    ids=["condense", "best"],
)
def test_no_passage_of_any_turn_asks_nothing(make, columns):
    llm, backend = scripted()
    out = make(llm)(found(a_turn(), 1)[:0])
    assert len(out) == 0
    assert columns <= set(out.columns)
    assert backend.asked == []


@pytest.mark.parametrize("make", [G.Decide, G.Condense, ikat.Respond])
def test_a_frame_without_ranks_is_refused(make):
    with pytest.raises(pt.validate.InputValidationError, match="rank"):
        make(scripted()[0])(found(a_turn(), 1).drop(columns="rank"))
    frame = found(two_turns(), 1).astype({"rank": float})
    frame["rank"] = np.nan
    with pytest.raises(DataError, match="a passage of turn chat_2 has no rank"):
        make(scripted()[0])(frame)


def test_a_plan_counts_the_passages_that_are_shown():
    llm = scripted()[0]
    responders = [ikat.Respond(llm)] * 2
    for make in (
        lambda count: G.Decide(llm, count),
        lambda count: ikat.Respond(llm, count),
        lambda count: ikat.BestResponse(responders, scripted()[0], count),
    ):
        tokens = {}
        for count in (1, 2, 8):
            tokens[count] = planned(make(count))[-1]["prompt_tokens"]
        of_a_passage = tokens[2] - tokens[1]
        assert of_a_passage > 300  # two turns, and 150 words a passage
        assert abs(tokens[8] - tokens[2] - 6 * of_a_passage) < 20
