"""What a turn takes from a result frame, and what its record has."""

import json
import math
from dataclasses import fields

import pandas as pd
import pytest

from pyterrier_ikat.completions.citations import CitedSentence
from pyterrier_ikat.conversations.frame import column
from pyterrier_ikat.llms.ledger import Spend
from pyterrier_ikat.runs import ShownPassage, Turn
from pyterrier_ikat.runs.answered_turn import (
    doubts,
    messages_of,
    plain,
    sources_drawn,
)

FOUND = pd.DataFrame(
    {
        "qid": ["c_1"] * 7,
        "docno": list("gfedcba"),
        "rank": range(6, -1, -1),
        "text": [f"text {docno}" for docno in "gfedcba"],
    }
)
BEST_FIVE = tuple(ShownPassage(docno, f"text {docno}") for docno in "abcde")
ONE = FOUND.tail(1)


@pytest.mark.parametrize(
    ("frame", "turn", "shown"),
    [
        # without a response the best five; a draft that was searched with is no response
        (
            FOUND.assign(qrewrite="which tea"),
            Turn(1, "tea?", "", BEST_FIVE, "which tea"),
            None,
        ),
        (
            ONE.assign(qanswer="a draft"),
            Turn(1, "tea?", "", (ShownPassage("a", "text a"),), draft="a draft"),
            None,
        ),
        # of a response the passages that it is based on
        (
            FOUND.assign(qanswer=" Rooibos. ", used=[False] * 4 + [True, False, True]),
            Turn(1, "tea?", "Rooibos.", (ShownPassage("a", "text a"), ShownPassage("c", "text c"))),
            None,
        ),
        # a system without passages, nothing found, an index without texts, half a character
        (
            pd.DataFrame({"qid": ["c_1"], "query": ["x"], "qanswer": ["Rooibos."]}),
            Turn(1, "tea?", "Rooibos."),
            "Rooibos.",
        ),
        (FOUND.assign(qanswer="x", used=True).head(0), Turn(1, "tea?", ""), "(no passage found)"),
        (ONE.drop(columns="text"), Turn(1, "tea?", "", (ShownPassage("a"),)), "[1] a"),
        (ONE.assign(text=None), Turn(1, "tea?", "", (ShownPassage("a"),)), "[1] a"),
        (
            pd.DataFrame({"qid": ["c_1"], "qanswer": column(["a\ud800b"])}),
            Turn(1, "tea?", "a?b"),
            "a?b",
        ),
    ],
)
def test_what_a_turn_takes_from_a_result_frame(frame, turn, shown):
    found = Turn.of(1, "tea?", frame)
    assert found == turn
    if shown is not None:
        assert repr(found) == shown
        assert shown.partition("] ")[2] in found._repr_html_()


def test_a_turn_without_a_retriever_has_a_response_and_no_draft():
    frame = pd.DataFrame({"qid": ["1_1"], "query": ["x"], "qanswer": ["Rooibos."]})
    turn = Turn.of(1, "tea?", frame, draft="a draft")
    assert (turn.response, turn.draft, turn.sources) == ("Rooibos.", "", ())


def test_given_facts_stand_before_those_of_the_frame():
    frame = pd.DataFrame({"qid": ["1_1"], "docno": ["a"], "score": [1.0], "rank": [0]})
    turn = Turn.of(1, "tea?", frame.assign(qrewrite="of the frame"), rewrite="given")
    assert turn.rewrite == "given"
    assert Turn.of(1, "tea?", frame.assign(qrewrite="of the frame")).rewrite == "of the frame"


def test_texts_of_a_turn_are_those_of_its_first_row():
    rows = {"qid": ["1_1"] * 2, "docno": ["a", "b"], "score": [1.0, 0.0], "rank": [0, 1]}
    frame = pd.DataFrame({**rows, "qrewrite": ["first", "second"]})
    turn = Turn.of(1, "tea?", frame)
    assert turn.rewrite == "first"
    assert [passage.score for passage in turn.sources] == [1.0, 0.0]


def test_cited_passages_are_numbered_from_1_as_they_are_cited():
    entries = [
        {"sentence": "Mint.", "docnos": ["c"], "unknown": []},
        {"sentence": "Tea.", "docnos": ["a", "c"], "unknown": [9]},
    ]
    found = FOUND.assign(qanswer="Mint. Tea.", used=True, qcitations=column([entries] * 7))
    turn = Turn.of(1, "tea?", found)
    assert [passage.docno for passage in turn.sources] == ["c", "a"]
    assert turn.cited == (CitedSentence("Mint.", (1,)), CitedSentence("Tea.", (2, 1), (9,)))


def test_a_turn_has_the_scores_of_the_whole_ranking_best_first():
    scores = [None, 1.0, 2.0, 3.0, 4.0, 5.0, 6.0]
    found = Turn.of(1, "tea?", FOUND.assign(score=scores, url=list("GFEDCBA")))
    assert list(found.citations)[:6] == list("abcdef")
    assert [found.citations[docno] for docno in "abf"] == [6.0, 5.0, 1.0]
    assert math.isnan(found.citations["g"])
    assert found.sources[0] == ShownPassage("a", "text a", 6.0, "A")
    assert Turn.of(1, "tea?", FOUND).citations["a"] == 0.0  # a ranking without scores
    in_order = Turn.of(1, "tea?", FOUND.drop(columns="rank"))
    assert list(in_order.citations) == list("gfedcba")


CHOSEN = [("2", 0.9), ("7", 0.5), ("1", 0.1)]


def test_a_turn_has_the_words_of_its_chosen_statements():
    persona = {"1": "I like tea.", "2": "I avoid caffeine."}
    frame = ONE.reset_index().assign(qptkb=column([persona]), qstatements=column([CHOSEN]))
    assert Turn.of(1, "tea?", frame).statements == ("I avoid caffeine.", "I like tea.")
    assert Turn.of(1, "tea?", frame, statements=("x",)).statements == ("x",)
    for other in (frame.head(0), frame.drop(columns="qptkb"), frame.drop(columns="qstatements")):
        assert Turn.of(1, "tea?", other).statements == ()


def test_heard_drafts_stand_before_the_frames_answer():
    frame = ONE.assign(qanswer="the last draft")
    assert Turn.of(1, "tea?", frame, draft="all drafts").draft == "all drafts"
    assert Turn.of(1, "tea?", frame).draft == "the last draft"
    responded = Turn.of(1, "tea?", frame.assign(used=True), draft="all drafts")
    assert (responded.draft, responded.response) == ("all drafts", "the last draft")


SOURCES = (ShownPassage("d1", "one", 2.0), ShownPassage("d2", "two", 0.0), ShownPassage("d3"))


def test_a_response_of_no_sentences_was_asked_to_cite():
    rows = {"qid": ["1_1"], "docno": ["a"], "rank": [0], "text": ["x"], "used": [True]}
    frame = pd.DataFrame({**rows, "qanswer": ["Yes."], "qcitations": column([[]])})
    turn = Turn.of(1, "tea?", frame)
    assert (turn.sources, turn.cited, turn.cites_none) == ((), (), True)
    assert turn.shown == (ShownPassage("a", "x"),)


@pytest.mark.parametrize(
    ("response", "cited", "sources", "expected"),
    [
        ("Yes.", (), (), True),
        ("Yes.", (CitedSentence("Yes."),), (), True),
        ("Yes.", (CitedSentence("Yes.", (1,)),), SOURCES[:1], False),
        ("Yes.", None, (), False),
        ("", (), (), False),
    ],
)
def test_only_a_response_that_should_cite_can_cite_none(response, cited, sources, expected):
    assert Turn(1, "tea?", response, sources, cited=cited).cites_none is expected


def test_unknown_numbers_stand_in_the_order_of_the_response():
    cited = (CitedSentence("a", (), (9, 3)), CitedSentence("b", (), (3, 5)))
    assert Turn(1, "tea?", "a b", cited=cited).unknown == [9, 3, 5]


@pytest.mark.parametrize(
    ("docnos", "sources", "shown"), [(["c"], ["c"], []), ([], [], list("abcdefg"))]
)
def test_shown_passages_are_kept_where_none_is_cited(docnos, sources, shown):
    entries = [{"sentence": "Mint.", "docnos": docnos, "unknown": []}]
    found = FOUND.assign(qanswer="Mint.", used=True, qcitations=column([entries] * 7))
    turn = Turn.of(1, "tea?", found)
    assert [passage.docno for passage in turn.sources] == sources
    assert [passage.docno for passage in turn.shown] == shown
    assert bool(doubts(turn)) is turn.cites_none is (not sources)
    for docno in sources or shown:
        assert f"text {docno}" in plain(sources_drawn(turn))
    assert ("cites none" in plain(sources_drawn(turn))) is turn.cites_none


# Records and messages


def test_a_record_has_all_fields_but_the_prompts():
    turn = Turn(
        3,
        "tea?",
        "Mint. Tea.",
        (ShownPassage("d1", "x", 2.5, "https://d1"),),
        "which tea",
        ("a", "b"),
        ("I like tea.",),
        "a draft",
        {"d1": 2.5, "d2": 1.0},
        (CitedSentence("Mint.", (1,), (3, 9)), CitedSentence("Tea.", (), (3,))),
        (ShownPassage("d3"),),
        Spend(2, known=1, prompt_tokens=8, completion_tokens=None, cost=0.25),
        1.5,
        "1-1",
        "raw",
        4,
        5,
        ("r1",),
        {"players": {"calls": 1}},
    )
    read = Turn.read(json.loads(json.dumps(turn.record())))
    for field in fields(Turn):
        assert getattr(read, field.name) == getattr(turn, field.name), field.name
    assert read.unknown == [3, 9]
    logged = turn.without_texts()
    assert logged.sources == (ShownPassage("d1", "", 2.5, "https://d1"),)
    assert logged.citations == {"d1": 2.5}


def test_a_turn_of_no_words_adds_no_message():
    turns = [Turn(1, "", "Hello."), Turn(2, "Tea?", "")]
    assert messages_of(turns) == [
        {"role": "assistant", "content": "Hello."},
        {"role": "user", "content": "Tea?"},
    ]


def test_a_logged_turn_has_no_text_of_a_passage():
    turn = Turn(1, "tea?", "x", SOURCES, shown=(ShownPassage("d4", "four", 1.0),))
    logged = turn.without_texts()
    passages = [*logged.sources, *logged.shown]
    assert [passage.text for passage in passages] == ["", "", "", ""]
    assert [passage.docno for passage in passages] == ["d1", "d2", "d3", "d4"]
    assert logged.citations == {"d1": 2.0, "d2": 0.0}
