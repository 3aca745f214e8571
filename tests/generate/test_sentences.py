import pytest
from hypothesis import given
from hypothesis import strategies as st

from pyterrier_ikat.completions.citations import count_words, cut_at_sentence

TEXT = "Oats are cheap. Do they keep well? Yes!"


KEPT = {
    9: TEXT,
    8: TEXT,
    7: "Oats are cheap. Do they keep well?",
    6: "Oats are cheap.",
    3: "Oats are cheap.",
    2: "Oats are",
}


@pytest.mark.parametrize("words", KEPT)
def test_the_text_ends_where_a_sentence_ends(words):
    assert cut_at_sentence(TEXT, words) == KEPT[words]


def test_at_the_limit_not_even_blanks_are_touched():
    assert cut_at_sentence("  Oats  are cheap.\n", 3) == "  Oats  are cheap.\n"


@pytest.mark.parametrize(
    ("text", "words", "kept"),
    [
        ("oats rye spelt barley", 3, "oats rye spelt"),
        ("Ask Dr. Berg about oats. She knows.", 6, "Ask Dr. Berg about oats."),
        ("Ask Dr. Berg about oats.", 4, "Ask Dr. Berg about"),
        ("Some grains, e.g. Oats, keep. Others rot.", 6, "Some grains, e.g. Oats, keep."),
        ("Pay 3.50 for it. Or less.", 5, "Pay 3.50 for it."),
        ('He said "oats." Then he left.', 4, 'He said "oats."'),
        ("- oats\n- rye and spelt\n- wheat", 5, "- oats"),
        ("Oats keep well.[1] Rye does not.[2, 3]", 4, "Oats keep well.[1]"),
        ("Oats keep well.[2, 3] Rye does not.", 5, "Oats keep well.[2, 3]"),
        ("Do this: 1. Soak the oats. 2. Drain them.", 8, "Do this: 1. Soak the oats."),
        ("It takes about 20. Then stop there.", 5, "It takes about 20."),
        ("Hafer hält. Über Roggen weiß ich nichts.", 4, "Hafer hält."),
        ("Овёс дешёв. Рожь тоже хороша.", 3, "Овёс дешёв."),
        ("燕麦 很便宜。大麦 也是。小麦 呢？", 2, "燕麦 很便宜。"),
    ],
)
def test_other_texts(text, words, kept):
    assert cut_at_sentence(text, words) == kept


def test_words_are_counted_after_normalisation():
    ligature = "\ufdfa"  # one sign that NFKC writes as four words
    assert count_words(ligature) == 4
    assert count_words("no\u00a0break") == 2
    assert cut_at_sentence(f"Oats. {ligature}", 4) == "Oats."


@given(st.text(alphabet="ab .!?\n。\ufdfa…A"), st.integers(1, 8))
def test_a_cut_text_begins_the_text_and_keeps_the_limit(text, words):
    kept = cut_at_sentence(text, words)
    assert text.strip().startswith(kept.strip())
    assert count_words(kept) <= words
    assert kept == text or count_words(text) > words
