"""What a turn takes from a result frame, and how it shows itself."""

import pandas as pd

from pyterrier_ikat.chat import ChatTurn, Source

FOUND = pd.DataFrame({"qid": ["c_1"] * 7, "docno": list("gfedcba"), "rank": range(6, -1, -1), "text": [f"text {d}" for d in "gfedcba"]})


def docnos(turn):
    return [source.docno for source in turn.sources]


def test_without_a_response_the_best_five_are_shown():
    turn = ChatTurn.of(1, "tea?", FOUND.assign(qrewrite="which tea"))
    assert turn == ChatTurn(1, "tea?", "", tuple(Source(d, f"text {d}") for d in "abcde"), "which tea")


def test_a_draft_that_was_searched_with_is_no_response():
    assert ChatTurn.of(1, "tea?", FOUND.assign(qanswer="a draft")).response == ""


def test_of_a_response_the_passages_are_shown_that_it_is_based_on():
    turn = ChatTurn.of(2, "tea?", FOUND.assign(qanswer=" Rooibos. ", used=[False] * 4 + [True, False, True]))
    assert turn.response == "Rooibos."
    assert docnos(turn) == ["a", "c"]


def test_a_system_without_passages_only_answers():
    turn = ChatTurn.of(1, "tea?", pd.DataFrame({"qid": ["c_1"], "query": ["x"], "qanswer": ["Rooibos."]}))
    assert (turn.response, turn.sources) == ("Rooibos.", ())
    assert repr(turn) == "Rooibos."


def test_nothing_found():
    turn = ChatTurn.of(1, "tea?", FOUND.assign(qanswer="x", used=True).head(0))
    assert turn == ChatTurn(1, "tea?", "", ())
    assert repr(turn) == "(no passage found)"
    assert "no passage found" in turn._repr_html_()


def test_an_index_without_texts_shows_the_ids():
    turn = ChatTurn.of(1, "tea?", FOUND.drop(columns="text").tail(1))
    assert repr(turn) == "  [1] a  "
    assert ChatTurn.of(1, "tea?", FOUND.assign(text=None).tail(1)) == turn


def test_text_is_wrapped_and_passages_begin():
    passage = Source("d1", " ".join(map(str, range(25))))
    turn = ChatTurn(1, "tea?", "word " * 30 + "\n\nend", (passage,), "which tea")
    assert repr(turn).split("\n") == [
        "(searched for: which tea)",
        " ".join(["word"] * 20),
        " ".join(["word"] * 10),
        "",
        "end",
        "  [1] d1  0 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18 19 ...",
    ]


def test_nothing_of_what_was_found_is_an_order_to_the_terminal_or_the_page():
    evil = "\x1b[2J\x9b<script>alert(1)</script>"
    turn = ChatTurn(1, evil, evil, (Source(evil, evil),), evil)
    assert not set(repr(turn)) & set("\x1b\x9b")
    assert "<script" not in turn._repr_html_()
    assert turn._repr_html_().count("&lt;script&gt;") == 5


def test_half_a_character_is_replaced():
    assert ChatTurn.of(1, "tea?", pd.DataFrame({"qid": ["c_1"], "qanswer": ["a\ud800b"]})).response == "a?b"
