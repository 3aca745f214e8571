"""Small things of an answered turn: its fields from frames and records, and each line drawn."""

import pandas as pd
import pytest

from pyterrier_ikat.completions.citations import CitedSentence
from pyterrier_ikat.conversations.frame import column
from pyterrier_ikat.llms import Completion, Request
from pyterrier_ikat.llms.ledger import Spend
from pyterrier_ikat.runs import ShownPassage, Turn
from pyterrier_ikat.runs.answered_turn import (
    as_html,
    doubts,
    effort,
    exchange_drawn,
    help_drawn,
    messages_of,
    plain,
    sources_drawn,
    turn_drawn,
    why_drawn,
)

SOURCES = (ShownPassage("d1", "one", 2.0), ShownPassage("d2", "two", 0.0), ShownPassage("d3"))


@pytest.mark.parametrize(("count", "end"), [(19, "18"), (20, "19"), (21, "19 ...")])
def test_only_a_longer_passage_is_cut(count, end):
    passage = ShownPassage("d1", " ".join(map(str, range(count))))
    assert passage.beginning == " ".join(map(str, range(min(count, 20) - 1))) + f" {end}"


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


def exchange(prompt, text, stage="rewrite", item=""):
    messages = [{"role": "system", "content": "Be short."}, {"role": "user", "content": prompt}]
    completion = Completion(text, "m", "stop", None, None, 0.0, False)
    return Request(messages, stage, "1_1", stage, item), completion


def test_further_calls_follow_earlier_ones_in_no_record():
    first = exchange("p1", "c1")
    second = exchange("p2", "c2")
    turn = Turn(1, "tea?", "x", asked=(first,), spend=Spend(1, cost=0.5))
    later = turn.with_calls(Spend(2, cost=0.25), [second])
    assert later.asked == (first, second)
    assert (later.spend.calls, later.spend.cost) == (3, 0.75)
    assert "asked" not in later.record()


def test_a_logged_turn_has_no_text_of_a_passage():
    turn = Turn(1, "tea?", "x", SOURCES, shown=(ShownPassage("d4", "four", 1.0),))
    logged = turn.without_texts()
    passages = [*logged.sources, *logged.shown]
    assert [passage.text for passage in passages] == ["", "", "", ""]
    assert [passage.docno for passage in passages] == ["d1", "d2", "d3", "d4"]
    assert logged.citations == {"d1": 2.0, "d2": 0.0}


def test_tokens_are_shown_where_none_was_counted():
    spend = Spend(1, prompt_tokens=0, completion_tokens=0, cost=0.0)
    assert effort(Turn(1, "tea?", "x", spend=spend)) == "1 call, 0 tokens, 0.0000 USD, 0.0 s"


def test_marks_stand_behind_cited_sentences_alone():
    cited = (CitedSentence("Mint."), CitedSentence("Tea.", (1, 2)), CitedSentence("Or milk."))
    turn = Turn(1, "tea?", "Mint. Tea. Or milk.", SOURCES[:2], cited=cited)
    lines = plain(turn_drawn(turn, note=False)).split("\n")
    assert lines == ["Mint. Tea. [1][2] Or milk.", "", "[1] d1  one", "[2] d2  two"]
    assert turn.marked == "Mint. Tea. [1][2] Or milk."


def test_numbers_behind_a_sentence_keep_their_order():
    cited = (CitedSentence("Mint.", (2, 1)),)
    turn = Turn(1, "tea?", "Mint.", SOURCES[:2], cited=cited)
    assert plain(turn_drawn(turn, note=False)).split("\n")[0] == "Mint. [2][1]"
    assert messages_of([turn])[1]["content"] == "Mint."


def test_each_doubt_about_the_citations_is_told():
    turn = Turn(1, "tea?", "x", cited=(CitedSentence("x", (), (9,)),), shown=SOURCES[:1])
    assert doubts(turn) == [
        "no passage has the number [9]",
        "the answer cites none of the passages that it was shown",
    ]
    assert repr(turn).split("\n") == [
        "x",
        "(no passage has the number [9])",
        "(the answer cites none of the passages that it was shown)",
    ]
    assert doubts(Turn(1, "tea?", "x", SOURCES)) == []


def test_a_turn_that_found_nothing_says_so_below_its_rewrite():
    turn = Turn(1, "tea?", "", rewrite="which tea")
    assert repr(turn).split("\n") == ["rewrite     which tea", "", "(no passage found)"]


def test_a_notebook_shows_the_utterance_and_the_answer():
    page = Turn(1, "Which tea?", "Rooibos.", seconds=2.0)._repr_html_()
    assert page.index("Which tea?") < page.index("Rooibos.") < page.index("2.0 s")


def test_a_source_with_the_score_0_shows_it():
    lines = plain(sources_drawn(Turn(1, "tea?", "x", SOURCES))).split("\n")
    assert lines == [
        "[1] d1  (score 2.0000)",
        "    one",
        "[2] d2  (score .0000)",
        "    two",
        "[3] d3",
        "    (its text is not available)",
    ]


def test_a_source_of_blanks_is_not_available():
    turn = Turn(1, "tea?", "x", (ShownPassage("d1", " \n "),))
    assert plain(sources_drawn(turn)).split("\n") == ["[1] d1", "    (its text is not available)"]


def test_sources_of_a_turn_without_citations_are_the_shown():
    turn = Turn(1, "tea?", "x", cited=(), shown=SOURCES[:1])
    first, *others = plain(sources_drawn(turn)).split("\n")
    assert "cites none of these" in first
    assert others == ["[1] d1  (score 2.0000)", "    one"]


def test_why_a_turn_was_answered_so_lists_numbered_requests():
    asked = (
        exchange("Rewrite this.", "Which tea?"),
        exchange("Judge.", "yes", "judge", "d1"),
        (exchange("Again.", "", "")[0], ValueError("too long")),
    )
    turn = Turn(3, "tea?", "x", rewrite="Which tea?", asked=asked, spend=Spend(3), seconds=1.0)
    lines = plain(why_drawn(turn, None)).split("\n")
    assert lines == [
        *("turn 3", "rewrite     Which tea?"),
        *("", "1. rewrite", "Be short.", "", "Rewrite this.", "->", "Which tea?"),
        *("", "2. judge d1", "Be short.", "", "Judge.", "->", "yes"),
        *("", "3.", "Be short.", "", "Again.", "->", "(failed: too long)"),
        *("", f"({effort(turn)})"),
    ]


def test_prompts_that_were_not_kept_are_no_longer_available():
    for spend, told in [(Spend(known=2), True), (Spend(1), True), (Spend(), False)]:
        shown = plain(why_drawn(Turn(1, "tea?", "x", spend=spend), None))
        assert ("no longer available" in shown) is told
    kept = Turn(1, "tea?", "x", asked=(exchange("p", "c"),), spend=Spend(1))
    assert "no longer available" not in plain(why_drawn(kept, None))


def test_typed_commands_stand_beside_what_they_do():
    rows = [("/why", "shows the prompts"), ("/sources", "shows the passages")]
    assert plain(help_drawn(rows)).split("\n") == [
        "/why      shows the prompts",
        "/sources  shows the passages",
    ]


def test_a_drawing_is_as_wide_as_the_terminal():
    turn = Turn(1, "tea?", "word " * 30)
    assert max(map(len, plain(turn_drawn(turn), 20).split("\n"))) <= 20
    assert plain(turn_drawn(turn, note=False)).split("\n") == [
        " ".join(["word"] * 20),
        " ".join(["word"] * 10),
    ]
    assert " ".join(["word"] * 20) in as_html(turn_drawn(turn))


def test_a_long_docno_is_folded_and_whole():
    docno = "clueweb22-" + "0123456789" * 12
    shown = plain(sources_drawn(Turn(1, "tea?", "x", (ShownPassage(docno, "text"),))))
    assert docno in "".join(shown.replace("\n", "").split())


def test_a_labelled_text_has_no_blanks_around_it():
    turn = Turn(1, "tea?", "x", statements=("  I like tea. ", "\nI sleep badly."))
    assert plain(turn_drawn(turn, note=False)).split("\n")[:2] == [
        "statements  - I like tea.",
        "            - I sleep badly.",
    ]


def test_an_exchange_begins_with_words_and_ends_with_its_cost():
    turn = Turn(1, "Which tea?", "Mint.", seconds=2.0)
    assert plain(exchange_drawn(turn)).split("\n") == ["Which tea?", "", "Mint.", "", "(2.0 s)"]


def test_a_drawing_for_a_notebook_prints_nothing(capsys):
    assert "Mint." in as_html(Turn(1, "Which tea?", "Mint."))
    assert capsys.readouterr().out == ""


def test_the_words_of_a_user_are_drawn_without_controls():
    turn = Turn(1, "Which\x1b[2J tea?", "Mint.")
    assert plain(exchange_drawn(turn)).split("\n")[0] == "Which [2J tea?"
