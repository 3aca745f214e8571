"""What a turn takes from a result frame, and how it shows itself."""

import json
import math
from dataclasses import fields

import pandas as pd
import pytest

from pyterrier_ikat.completions.citations import CitedSentence
from pyterrier_ikat.conversations.frame import column
from pyterrier_ikat.live.chat import Why
from pyterrier_ikat.llms import Completion, Ledger, Request
from pyterrier_ikat.llms.ledger import Spend
from pyterrier_ikat.runs import ShownPassage, Turn
from pyterrier_ikat.runs.answered_turn import (
    background,
    doubts,
    effort,
    messages_of,
    plain,
    sources_drawn,
    turn_drawn,
    why_drawn,
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


def test_derivation_stands_before_the_answer_and_passages_after():
    passage = ShownPassage("d1", " ".join(map(str, range(25))))
    statements = ("I avoid caffeine.",)
    said = "word " * 30 + "\n\nend"
    cited = (CitedSentence("word " * 29 + "word"), CitedSentence("end", (1,)))
    before = ("which tea", ("which tea", "mint"), statements, "Drink mint.")
    turn = Turn(1, "tea?", said, (passage,), *before, {"d1": 2.0}, cited)
    shown = plain(turn_drawn(turn)).split("\n")
    assert shown == [
        "rewrite     which tea",
        "queries     - which tea",
        "            - mint",
        "statements  I avoid caffeine.",
        "draft       Drink mint.",
        "",
        " ".join(["word"] * 20),
        " ".join(["word"] * 10),
        "",
        "end [1]",
        "",
        "[1] d1  0 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18 19 ...",
        "",
        "(0.0 s)",
    ]
    assert repr(turn).split("\n") == shown[:-2]
    page = turn._repr_html_()
    for text in (
        "which tea",
        "mint",
        "I avoid caffeine.",
        "Drink mint.",
        "[1]",
        "d1",
        "18 19",
        "0.0 s",
    ):
        assert text in page


@pytest.mark.parametrize(
    ("queries", "draft", "shown"),
    [
        (("tea?",), "", []),  # searched as it was said
        (("which tea",), "", ["rewrite"]),
        (("Drink mint.",), "Drink mint.", ["rewrite", "draft"]),
        (("which tea", "mint"), "", ["rewrite", "queries"]),
        (("tea?", "which tea", "Drink mint."), "Drink mint.", ["rewrite", "draft"]),
    ],
)
def test_a_query_is_not_shown_twice(queries, draft, shown):
    rewrite = "which tea" if "rewrite" in shown else ""
    turn = Turn(1, "tea?", "x", (), rewrite, queries, draft=draft)
    assert [label for label, _ in background(turn)] == shown


@pytest.mark.parametrize(
    ("fields", "note"),
    [
        ({}, "1.2 s"),
        (
            {"spend": Spend(1, prompt_tokens=8, completion_tokens=4, cost=0.00125)},
            "1 call, 12 tokens, 0.0013 USD, 1.2 s",
        ),
        ({"spend": Spend(2, prompt_tokens=None, cost=None)}, "2 calls, cost unknown, 1.2 s"),
        (
            {"spend": Spend(unanswered=2, cost=None)},
            "2 requests without an answer, cost unknown, 1.2 s",
        ),
        (
            {"spend": Spend(1, unanswered=1, prompt_tokens=8, completion_tokens=4, cost=0.5)},
            "1 call, 12 tokens, 1 request without an answer, 0.5000 USD, 1.2 s",
        ),
        (
            {
                "spend": Spend(1, known=1, prompt_tokens=8, completion_tokens=4, cost=0.5),
                "omitted": 1,
            },
            "1 call, 12 tokens, 0.5000 USD, 1 known completion, 1.2 s, "
            "without the 1 oldest message of the history",
        ),
        (
            {"spend": Spend(known=3), "omitted": 4},
            "3 known completions, 1.2 s, without the 4 oldest messages of the history",
        ),
    ],
)
def test_what_a_turn_took(fields, note):
    assert effort(Turn(1, "tea?", "x", (), seconds=1.23, **fields)) == note


def test_a_citation_of_no_passage_is_named():
    cited = (CitedSentence("Mint.", (1,), (3, 9)), CitedSentence("Tea.", (), (3,)))
    turn = Turn(1, "tea?", "Mint. Tea.", (ShownPassage("d1", "x"),), cited=cited)
    assert repr(turn).endswith("(no passage has the number [3], [9])")
    assert "no passage has the number [3], [9]" in turn._repr_html_()


def test_sources_are_whole_and_have_scores():
    sources = (ShownPassage("d1", "one\ntwo " + "word " * 30, 2.5), ShownPassage("d2", ""))
    turn = Turn(1, "tea?", "x", sources)
    shown = plain(sources_drawn(turn)).split("\n")
    assert shown[:3] == ["[1] d1  (score 2.5000)", "    one", "    two " + " ".join(["word"] * 18)]
    assert shown[-2:] == ["[2] d2", "    (its text is not available)"]
    assert "no passage" in plain(sources_drawn(Turn(1, "tea?", "x", ())))


def test_found_text_never_commands_the_terminal_or_the_page():
    evil = "\x1b[2J\x9b\u202e[bold red]<script>alert(1)</script>[/] [link=file:///etc]\ud800"
    asked = (
        Request([{"role": "user", "content": evil}], evil, "1_1", evil, evil),
        Completion(evil, "m", "stop", None, None, 0.0, False),
    )
    turn = Turn(
        1,
        evil,
        evil,
        (ShownPassage(evil, evil),),
        evil,
        ("x", evil),
        (evil,),
        evil,
        method=evil,
        asked=(asked,),
    )
    why = Why(turn)
    for drawn in (turn_drawn(turn), sources_drawn(turn), why_drawn(turn, None)):
        assert not set(plain(drawn)) & set("\x1b\x9b\u202e\ud800")
        assert "[bold red]<script>" in plain(drawn)
    for page in (turn._repr_html_(), why._repr_html_()):
        assert "<script" not in page
        assert page.count("&lt;script&gt;") >= 6


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


def test_why_has_method_account_prompts_and_their_outcomes():
    request = Request([{"role": "user", "content": "the prompt"}], "rewrite", "1_1")
    completion = Completion("the completion", "m", "stop", None, None, 0.0, False)
    asked = ((request, completion), (request, ValueError("too long")))
    turn = Turn(2, "tea?", "x", spend=Spend(2), seconds=1.5, method="aqd")
    ledger = Ledger()
    ledger.count("rewrite", "m", calls=2, cost=0.125)
    answered = plain(why_drawn(turn.with_calls(Spend(), asked), ledger))
    for text in ("turn 2", "aqd", "the prompt", "the completion", "too long", "0.125", "1.5 s"):
        assert text in answered
    assert "no longer available" not in answered
    assert "no longer available" in plain(why_drawn(turn, None))
    unasked = plain(why_drawn(Turn(1, "tea?", "x"), Ledger()))
    assert unasked == "turn 1\n\n(0.0 s)"


def test_heard_drafts_stand_before_the_frames_answer():
    frame = ONE.assign(qanswer="the last draft")
    assert Turn.of(1, "tea?", frame, draft="all drafts").draft == "all drafts"
    assert Turn.of(1, "tea?", frame).draft == "the last draft"
    responded = Turn.of(1, "tea?", frame.assign(used=True), draft="all drafts")
    assert (responded.draft, responded.response) == ("all drafts", "the last draft")


def test_ids_of_passages_are_texts():
    found = pd.DataFrame({"qid": ["1_1"], "docno": [7], "score": [2.5], "rank": [0]})
    turn = Turn.of(1, "tea?", found)
    assert turn.citations == {"7": 2.5}
    assert turn.sources[0].docno == "7"
