"""How a turn is shown: its answer, passages and doubts, why it was answered so, what it took."""

import pandas as pd
import pytest
from rich.text import Text

from pyterrier_ikat.completions.citations import CitedSentence
from pyterrier_ikat.live.chat import Why
from pyterrier_ikat.llms import Completion, Ledger, Request
from pyterrier_ikat.llms.ledger import Spend
from pyterrier_ikat.runs import ShownPassage, Turn
from pyterrier_ikat.runs.answered_turn import (
    as_html,
    background,
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


def test_a_turn_that_found_nothing_says_so_below_its_rewrite():
    turn = Turn(1, "tea?", "", rewrite="which tea")
    assert repr(turn).split("\n") == ["rewrite     which tea", "", "(no passage found)"]


def test_a_notebook_shows_the_utterance_and_the_answer():
    page = Turn(1, "Which tea?", "Rooibos.", seconds=2.0)._repr_html_()
    assert page.index("Which tea?") < page.index("Rooibos.") < page.index("2.0 s")


def test_a_labelled_text_has_no_blanks_around_it():
    turn = Turn(1, "tea?", "x", statements=("  I like tea. ", "\nI sleep badly."))
    assert plain(turn_drawn(turn, note=False)).split("\n")[:2] == [
        "statements  - I like tea.",
        "            - I sleep badly.",
    ]


def test_an_exchange_begins_with_words_and_ends_with_its_cost():
    turn = Turn(1, "Which tea?", "Mint.", seconds=2.0)
    assert plain(exchange_drawn(turn)).split("\n") == ["Which tea?", "", "Mint.", "", "(2.0 s)"]


def test_a_drawing_is_as_wide_as_the_terminal():
    turn = Turn(1, "tea?", "word " * 30)
    assert max(map(len, plain(turn_drawn(turn), 20).split("\n"))) <= 20
    assert plain(turn_drawn(turn, note=False)).split("\n") == [
        " ".join(["word"] * 20),
        " ".join(["word"] * 10),
    ]
    assert " ".join(["word"] * 20) in as_html(turn_drawn(turn))


def test_a_drawing_for_a_notebook_has_its_styles_in_it():
    drawn = as_html(Text("Sources", style="bold"))
    assert '<span style="font-weight: bold">Sources</span>' in drawn


def test_a_drawing_for_a_notebook_prints_nothing(capsys):
    assert "Mint." in as_html(Turn(1, "Which tea?", "Mint."))
    assert capsys.readouterr().out == ""


# Doubts and costs


def test_a_citation_of_no_passage_is_named():
    cited = (CitedSentence("Mint.", (1,), (3, 9)), CitedSentence("Tea.", (), (3,)))
    turn = Turn(1, "tea?", "Mint. Tea.", (ShownPassage("d1", "x"),), cited=cited)
    assert repr(turn).endswith("(no passage has the number [3], [9])")
    assert "no passage has the number [3], [9]" in turn._repr_html_()


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


def test_tokens_are_shown_where_none_was_counted():
    spend = Spend(1, prompt_tokens=0, completion_tokens=0, cost=0.0)
    assert effort(Turn(1, "tea?", "x", spend=spend)) == "1 call, 0 tokens, 0.0000 USD, 0.0 s"


# Passages


def test_sources_are_whole_and_have_scores():
    sources = (ShownPassage("d1", "one\ntwo " + "word " * 30, 2.5), ShownPassage("d2", ""))
    turn = Turn(1, "tea?", "x", sources)
    shown = plain(sources_drawn(turn)).split("\n")
    assert shown[:3] == ["[1] d1  (score 2.5000)", "    one", "    two " + " ".join(["word"] * 18)]
    assert shown[-2:] == ["[2] d2", "    (its text is not available)"]
    assert "no passage" in plain(sources_drawn(Turn(1, "tea?", "x", ())))


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


@pytest.mark.parametrize(("count", "end"), [(19, "18"), (20, "19"), (21, "19 ...")])
def test_only_a_longer_passage_is_cut(count, end):
    passage = ShownPassage("d1", " ".join(map(str, range(count))))
    assert passage.beginning == " ".join(map(str, range(min(count, 20) - 1))) + f" {end}"


def test_a_long_docno_is_folded_and_whole():
    docno = "clueweb22-" + "0123456789" * 12
    shown = plain(sources_drawn(Turn(1, "tea?", "x", (ShownPassage(docno, "text"),))))
    assert docno in "".join(shown.replace("\n", "").split())


# Why, and what was asked


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


def test_the_words_of_a_user_are_drawn_without_controls():
    turn = Turn(1, "Which\x1b[2J tea?", "Mint.")
    assert plain(exchange_drawn(turn)).split("\n")[0] == "Which [2J tea?"


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


def test_ids_of_passages_are_texts():
    found = pd.DataFrame({"qid": ["1_1"], "docno": [7], "score": [2.5], "rank": [0]})
    turn = Turn.of(1, "tea?", found)
    assert turn.citations == {"7": 2.5}
    assert turn.sources[0].docno == "7"
