"""The limits on a response: its tokens, its citations and their scores."""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from playing import Words, words_of

import pyterrier_ikat as ikat
from pyterrier_ikat.live.interactive import track_server
from pyterrier_ikat.live.interactive.track_server import count_spacy_tokens, cut_to_tokens, fitted
from pyterrier_ikat.runs import Turn

WORDS = st.sampled_from(
    [
        "Tea",
        "don't",
        "3.5",
        "e.g.",
        "U.S.",
        "end.",
        "so!?",
        "(x)",
        "$5",
        "a-b",
        " ",
        "\n",
        "\n\n",
        "…",
        "«ja»",
        "...",
    ]
)
TEXTS = st.one_of(
    st.text(max_size=80),
    st.lists(WORDS, max_size=60).map(" ".join),
    st.lists(WORDS, max_size=60).map("".join),
)


@given(TEXTS, st.integers(1, 40))
def test_a_cut_text_never_has_more_tokens_than_the_limit(text, limit):
    cut = cut_to_tokens(text, limit)
    assert count_spacy_tokens(cut) <= limit
    assert text.startswith(cut)
    assert cut or not text.strip() or count_spacy_tokens(text.lstrip()) < count_spacy_tokens(text)


@pytest.mark.parametrize(
    ("limit", "kept"),
    [
        (9, "It costs 3.5 euros. Not bad!"),
        (8, "It costs 3.5 euros. Not bad!"),
        (7, "It costs 3.5 euros."),
        (4, "It costs 3.5 euros"),
        (3, "It costs 3.5"),
    ],
)
def test_a_text_is_cut_where_a_sentence_ends(limit, kept):
    assert cut_to_tokens("It costs 3.5 euros. Not bad! And it keeps.", limit) == kept


@pytest.mark.parametrize(
    ("text", "limit", "kept"),
    [
        ("Ask Mr. Smith. He knows it.", 4, "Ask Mr. Smith."),
        ("It is 9 a.m. now. Come in.", 4, "It is 9 a.m."),
        ("Tea. It costs 3.5 euros.", 4, "Tea."),
        ("One two three", 3, "One two three"),
        ("One two three", 2, "One two"),
        ("Tea.\n\nMint is green.", 4, "Tea."),
        ("Tea. Mint. Sage.", 4, "Tea. Mint."),
        ("Tea. Mint. Sage.", 6, "Tea. Mint. Sage."),
        ("Tea. Mint. Sage.", 1, "Tea"),
    ],
)
def test_a_cut_keeps_whole_sentences_where_there_is_one(monkeypatch, text, limit, kept):
    monkeypatch.setattr(track_server, "tokenizer", lambda: words_of)
    assert cut_to_tokens(text, limit) == kept


def test_a_long_text_is_cut_at_once():
    text = "One two three four five six seven eight nine. " * 20_000
    turn = fitted(Turn(1, "?", text))
    assert count_spacy_tokens(turn.response) == 250
    assert turn.cut == 200_000 - 250


@pytest.mark.parametrize(
    ("response", "cut", "share", "fits", "lost"),
    [
        ("  Tea\x07 now. ", 0, 1.0, "Tea  now.", 0),
        ("One two. Three four.", 0, 1.0, "One two. Three four.", 0),
        ("One two. Three four.", 4, 0.9, "One two.", 4 + 2),
        ("", 3, 1.0, "", 3),
    ],
)
def test_a_response_is_fitted_to_a_share_of_its_tokens(
    monkeypatch, response, cut, share, fits, lost
):
    monkeypatch.setattr(track_server, "tokenizer", lambda: Words)
    turn = fitted(Turn(1, "?", response, cut=cut), share)
    assert (turn.response, turn.cut) == (fits, lost)


def test_citations_are_the_best_thousand_and_fall_strictly():
    cited = fitted(
        Turn(1, "?", "Tea.", citations={f"d{number}": 1.0 for number in range(1200)})
    ).citations
    assert list(cited) == [f"d{number}" for number in range(1000)]
    scores = [f"{score:.6f}" for score in cited.values()]
    assert sorted(set(scores), key=float, reverse=True) == scores


def test_scores_of_a_turn_fall_and_equal_ones_are_parted(monkeypatch):
    monkeypatch.setattr(track_server, "tokenizer", lambda: str.split)
    given = {"d0": 1.0, "d1": 1.0, "d2": 1.0, "d3": 2.0, "d4": 0.12345678}
    scores = fitted(Turn(1, "?", "Tea.", citations=given)).citations
    assert list(scores) == ["d0", "d1", "d2", "d3", "d4"]
    values = list(scores.values())
    assert values == sorted(set(values), reverse=True)
    assert values[0] == 1.0
    assert values[4] == 0.12345678
    many = {str(number): 2000.0 - number for number in range(1001)}
    kept = fitted(Turn(1, "?", "Tea.", citations=many)).citations
    assert list(kept.items()) == list(many.items())[:1000]


@pytest.mark.parametrize("score", [float("inf"), float("-inf"), float("nan")])
def test_a_score_that_is_not_finite_is_named(monkeypatch, score):
    monkeypatch.setattr(track_server, "tokenizer", lambda: Words)
    turn = Turn(2, "?", "Tea.", citations={"d1": 1.0, "d2": score}, session="1-1")
    with pytest.raises(ikat.DataError, match=f"turn 1-1_2: passage d2 has the score {score}"):
        fitted(turn)
