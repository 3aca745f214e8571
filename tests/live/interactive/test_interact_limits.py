"""The limits on a response: spaCy's tokens, citations."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

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


def test_a_long_text_is_cut_at_once():
    text = "One two three four five six seven eight nine. " * 20_000
    turn = fitted(Turn(1, "?", text))
    assert count_spacy_tokens(turn.response) == 250
    assert turn.cut == 200_000 - 250


def test_citations_are_the_best_thousand_and_fall_strictly():
    cited = fitted(
        Turn(1, "?", "Tea.", citations={f"d{number}": 1.0 for number in range(1200)})
    ).citations
    assert list(cited) == [f"d{number}" for number in range(1000)]
    scores = [f"{score:.6f}" for score in cited.values()]
    assert sorted(set(scores), key=float, reverse=True) == scores
