"""Words on every platform: PISA's own tokens and stems are the measure, where it is installed."""

import itertools
import random
import sys
import threading
import unicodedata
from types import SimpleNamespace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import pyterrier_ikat as ikat
from pyterrier_ikat.retrieve import words
from pyterrier_ikat.retrieve.words import ascii_text, tokenize

TRICKY = st.text(
    st.sampled_from("abcdlmrstvABS.'’ʻ0 1\n\t-éßøœ中μµ\x00ı²½①™№\u200b\xad\u0301"), max_size=30
)
ANY = st.text(st.characters(exclude_categories=[]), max_size=40)


@pytest.mark.parametrize(
    ("text", "terms"),
    [
        ("The U.S. university's trams", ["the", "us", "univers", "tram"]),
        ("U.S.A, a.b.c. x. 3.14 e.g. it’s", ["us", "a", "abc", "x", "3", "14", "eg", "it"]),
        ("don't 'quoted' O'Neill's l'été", ["don", "quot", "oneil", "lete"]),
        ("Café—naïve organization ORGANIZATION", ["cafe", "naiv", "organ", "organ"]),
        ("日本 \x00 --", []),
        (None, []),
    ],
)
def test_words_worked_out_by_hand(text, terms):
    assert tokenize(text, "porter2") == terms


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("Tylenol™ Acme℠ study¹ x² 5½ 7⅞ №5 ①tea ❷tea 1ª", "tylenol acme study x 5 7 5 tea tea 1"),
        (
            "choles\xadterol ze\u200bro\u200cze\u200dro \ufeffwo\u2060rd e\u0301tude "
            "\u202eab\u202c",
            "cholesterol zerozero word etude ab",
        ),
        (
            "Straße GROẞ Søren Æsop œuvre Łódź đ ð þing ısı ĸŋ ħ ŧ",
            "strasse gross soren aesop oeuvre lodz d d thing isi qn h t",
        ),
        ("ƒ Ɓ ɖ ǆ ĳ ŀl ŉ ȣ ꜳ ᴀ ɐ ə", "f b d dz ij ll n ou aa a a a"),
        (
            "O'Boyle O’Neill’s Hawaiʻi Qurʾān l'été o'clock O'Sullivan O'Toole",
            "oboyle oneill hawaii quran lete oclock osullivan otoole",
        ),
        (
            "it's IT’S I'm don't he'd we'll they're I've I'd've the A's",
            "it it i don he we they i i ve the a",
        ),
        ("5 µg 5μg ㎍ µ μου Δμ kμg", "5 ug 5ug ug k g"),
        ("U.S. H₂O ﬁne C++ 1,000 ⅷ Ⓐ ｗｉｄｅ", "us h2o fine c 1 000 viii a wide"),
        ("5 \u212b \u212bngstr\u00f6m K\u01d5ln", "5 a angstrom kuln"),
        ("Ελλάδα Москва 日本語 עברית ไทย हिन्दी", ""),
        ("a\x00b tea\u3000tea tea\u2028tea tea\u20e3tea", "a b tea tea tea tea tea tea"),
        ("3×4 6÷2 a\u0294b", "3 4 6 2 a b"),  # signs among the blocks of letters
    ],
)
def test_other_characters_fold_separate_or_vanish(text, words):
    assert tokenize(text, "none") == words.split()


@settings(max_examples=200)
@given(TRICKY | ANY)
def test_words_are_ascii_and_the_same_in_normal_form(text):
    found = tokenize(text, "none")
    for word in found:
        assert word.isascii()
        assert word.isalnum()
        assert word == word.lower()
    assert found == tokenize(unicodedata.normalize("NFD", text), "none")
    assert found == tokenize(f" {text}\n", "none")


@settings(max_examples=200)
@given(
    TRICKY, st.sampled_from("\xad\u200b\u200c\u200d\u2060\ufeff\u0301\u200e"), st.integers(0, 30)
)
def test_a_character_without_width_changes_nothing(text, invisible, place):
    assert tokenize(text[:place] + invisible + text[place:], "none") == tokenize(text, "none")


@settings(max_examples=200)
@given(TRICKY, st.sampled_from("¹²³½¾①⑳❶™℠№"), st.integers(0, 30))
def test_a_sign_that_separates_is_a_space(text, sign, place):
    assert tokenize(text[:place] + sign + text[place:], "none") == tokenize(
        text[:place] + " " + text[place:], "none"
    )


def by_pisa(text, stemmer):
    return list(pytest.importorskip("pyterrier_pisa").tokenize(ascii_text(text), stemmer))


@given(TRICKY | ANY)
def test_any_text_has_the_words_that_pisa_makes_of_it(text):
    for stemmer in ("porter2", "none"):
        assert tokenize(text, stemmer) == by_pisa(text, stemmer)


ENDINGS = [
    "",
    "s",
    "ed",
    "ing",
    "ization",
    "ational",
    "fulness",
    "ies",
    "eedly",
    "ly",
    "y",
    "ogist",
    "eous",
    "li",
    "ment",
    "able",
]


def test_made_up_words_have_the_stems_that_pisa_makes_of_them():
    draw = random.Random(5)
    syllables = ["".join(pair) for pair in itertools.product("bcdfghlmnprstvwy", "aeiouy")]
    made = []
    for _ in range(5000):
        stem = "".join(draw.choices(syllables, k=draw.randint(1, 3)))
        made.append(stem + draw.choice("stlnd") + draw.choice(ENDINGS))
    known = (
        "university organization evening news general proceed inning skis dying gently only "
        "singly outing herring"
    )
    text = " ".join([*made, known])
    assert tokenize(text, "porter2") == by_pisa(text, "porter2")


@pytest.mark.real_data
def test_real_passages_have_the_words_that_pisa_makes_of_them(ikat_data):
    corpus = ikat.PassageFiles(ikat_data / "2023_test_topics_psg_text.jsonl")
    for passage in itertools.islice(corpus, 300):
        assert tokenize(passage["text"], "porter2") == by_pisa(passage["text"], "porter2")


def test_another_stemmer_version_is_refused_with_the_repair(monkeypatch):
    newer = SimpleNamespace(
        Stemmer=lambda _: SimpleNamespace(stemWord=lambda word: word), version=lambda: "3.0.0"
    )
    monkeypatch.setitem(sys.modules, "Stemmer", newer)
    monkeypatch.setattr(words, "_of_thread", threading.local())
    words._stem_word.cache_clear()
    with pytest.raises(
        ikat.UsageError,
        match=r"PyStemmer 3.0.0 makes other stems .*pip install 'PyStemmer>=2.2,<3'",
    ):
        tokenize("tea", "porter2")


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("O’Neill", ["oneill"]),
        ("l’été", ["lete"]),
        ("Hawaiʻi", ["hawaii"]),
        ("it’s", ["it"]),
        ("µg", ["ug"]),
        ("5μ", ["5"]),
        ("U.S.", ["us"]),
        ("O\u2019\u0301Neill", ["oneill"]),
        ("ﬁ’x", ["fix"]),
        ("\u212bngstr", ["angstr"]),  # the sign for the unit, an A and a ring
    ],
)
def test_a_sign_alone_in_its_text_is_read_as_beside_others(text, words):
    assert tokenize(text, "none") == words


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("\u025a \u1d95 \u2094 \u018f", "a a a a"),
        ("\u2184 \ua73e \xd0 \u1d06", "c c d d"),
        ("\u01f6 \u0196 \u1d7c \u014a \u01a6", "hv i i n r"),
        ("\u1e9c \u1e9d \xde \ua766 \ua767", "s s th th th"),
        ("\ua768 \u01f7 \u01bf \u021c \u021d", "v w w z z"),
        ("\u0180 \u0253 \u1d03 \u1efd \u2c61 \ua741 \ua7fb", "b b b v l k f"),
    ],
)
def test_letters_of_every_block_are_those_of_lucene(text, words):
    """Source: apache/lucene, ASCIIFoldingFilter.java."""
    assert tokenize(text, "none") == words.split()
