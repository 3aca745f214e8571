"""Words on every platform: PISA's own tokens and stems are the measure, where it is installed."""

import itertools
import random
import sys
import threading
from types import SimpleNamespace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import pyterrier_ikat as ikat
from pyterrier_ikat.retrieve import words
from pyterrier_ikat.retrieve.words import ascii_text, tokenize

TRICKY = st.text(st.sampled_from("abcABS.'’0 1\n\t-éß中\x00ı"), max_size=30)


@pytest.mark.parametrize(
    ("text", "terms"),
    [
        ("The U.S. university's trams", ["the", "us", "univers", "tram"]),
        ("U.S.A, a.b.c. x. 3.14 e.g. it’s", ["us", "a", "abc", "x", "3", "14", "eg", "it"]),
        ("don't 'quoted' O'Neill's l'été", ["don", "quot", "o", "s", "l"]),
        ("Café—naïve organization ORGANIZATION", ["cafe", "naiv", "organ", "organ"]),
        ("日本 \x00 --", []),
        (None, []),
    ],
)
def test_words_worked_out_by_hand(text, terms):
    assert tokenize(text, "porter2") == terms


def by_pisa(text, stemmer):
    return list(pytest.importorskip("pyterrier_pisa").tokenize(ascii_text(text), stemmer))


@settings(max_examples=100)
@given(TRICKY | st.text(st.characters(exclude_categories=[]), max_size=40))
def test_any_text_has_the_words_that_pisa_makes_of_it(text):
    for stemmer in ("porter2", "none"):
        assert tokenize(text, stemmer) == by_pisa(text, stemmer)


ENDINGS = ["", "s", "ed", "ing", "ization", "ational", "fulness", "ies", "eedly", "ly", "y", "ogist", "eous", "li", "ment", "able"]


def test_made_up_words_have_the_stems_that_pisa_makes_of_them():
    draw = random.Random(5)
    syllables = ["".join(pair) for pair in itertools.product("bcdfghlmnprstvwy", "aeiouy")]
    made = [f"{''.join(draw.choices(syllables, k=draw.randint(1, 3)))}{draw.choice('stlnd')}{draw.choice(ENDINGS)}" for _ in range(5000)]
    known = "university organization evening news general proceed inning skis dying gently only singly outing herring"
    text = " ".join([*made, known])
    assert tokenize(text, "porter2") == by_pisa(text, "porter2")


@pytest.mark.real_data
def test_real_passages_have_the_words_that_pisa_makes_of_them(ikat_data):
    corpus = ikat.PassageFiles(ikat_data / "2023_test_topics_psg_text.jsonl")
    for passage in itertools.islice(corpus, 300):
        assert tokenize(passage["text"], "porter2") == by_pisa(passage["text"], "porter2")


def test_another_version_of_the_stemmer_is_refused_with_the_repair(monkeypatch):
    newer = SimpleNamespace(Stemmer=lambda _: SimpleNamespace(stemWord=lambda word: word), version=lambda: "3.0.0")
    monkeypatch.setitem(sys.modules, "Stemmer", newer)
    monkeypatch.setattr(words, "_of_thread", threading.local())
    words._stem_one.cache_clear()
    with pytest.raises(ikat.UsageError, match=r"PyStemmer 3.0.0 makes other stems .*pip install 'PyStemmer>=2.2,<3'"):
        tokenize("tea", "porter2")
