"""Every form of a mark, in every place of a sentence: sentence and numbers are right."""

import itertools
import re
import sys

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pyterrier_ikat.completions.citations import read_citations, while_written, with_marks

FORMS = {
    "[1]": (1,), "[1][2]": (1, 2), "[1] [2]": (1, 2), "[1, 2]": (1, 2), "[1,2]": (1, 2),
    "[1], [2]": (1, 2), "[1] and [2]": (1, 2), "[1-3]": (1, 2, 3), "[1–3]": (1, 2, 3),
    "[1]–[3]": (1, 2, 3), "[1] to [3]": (1, 2, 3), "[1; 2]": (1, 2), "[1 and 2]": (1, 2),
    "[1, 2, and 4]": (1, 2, 4), "[1 & 2]": (1, 2), "[Doc 1]": (1,), "[Doc 1, p. 3]": (1,),
    "[Doc 1 (p. 3)]": (1,), "[Passage 2]": (2,), "[Document 1, Document 2]": (1, 2),
    "(Doc 1, Doc 2)": (1, 2), "(Doc1)": (1,), "(see Doc 1)": (1,), "(Docs 2, 4)": (2, 4),
    "(Docs 2, pp. 4-5)": (2,), "[see Document 2]": (2,), "(Source: Passage 1)": (1,),
    "([Passage 3](#3))": (3,), "[1](#doc1)": (1,), "([1])": (1,), "([1], [2])": (1, 2),
    "(see [1])": (1,), "**[1]**": (1,), "*[1]*": (1,), "**[1][2]**": (1, 2),
    "**[1]**, **[2]**": (1, 2), "<sup>[1]</sup>": (1,), "<sup>[1][2]</sup>": (1, 2),
    "<cite>[2]</cite>": (2,), '<sup><a href="#1">[1]</a></sup>': (1,), "[^1]": (1,),
    "^[1]^": (1,), "【1】": (1,), "【1†source】": (1,), "[1†source]": (1,), "［1］": (1,),
    "［１］": (1,), "[١]": (1,), "[[1]]": (1,), "[[1, 2]]": (1, 2), '[Doc "1"]': (1,),
    "[9]": (9,), "[cite 1]": (1,), "[cite: 1, 2]": (1, 2), "【4:0†source】": (0,),
    "【12:3†oats and rye.pdf】": (0,), "[1,2,]": (1, 2), "[1.]": (1,), "[¹]": (1,), "〔1〕": (1,),
    "[#1]": (1,), "[Source: 2]": (2,), "(Source: 2)": (2,), "(Reference: 2, 3)": (2, 3),
}  # fmt: skip
MARKS = sorted(mark for mark, numbers in FORMS.items() if numbers)
SENTENCES = (
    "Legumes are good protein sources.",
    "The glycemic index of oats is low.",
    "It is in the healthy range.",
    "What is it made of?",
    "Take vitamin c.",
    "Ask your doctor, e.g. Dr. Smith, before you fly.",
    "The U.S. has 5% less, at $5.50 a cup.",
    "Oats (whole ones) keep for 2 years; rye keeps longer.",
    "“Oats keep”, she said, and that was it!",
    "A wide range of teas, on a large scale, is on the list.",
    "Read more on the scale of it, by then, with them, and from where it came.",
    "Beans are a source of iron and the best document of it",
    "燕麦便宜，耐放。",
    "La avena es barata, ¿no?",
    "Use `a[1]` and x = [1, 2] for it.",
)
SPOKEN = re.compile(
    r"\b(?:according to|see|in)(?: sources?)?\Z|\b(?:see|in|by|from|of|per|with) documents?\Z",
    re.IGNORECASE,
)


def places(sentence):
    """Where a mark may stand: outside of code, behind each word or around its punctuation."""
    code = re.search("`.*$", sentence)
    ends = []
    for found in re.finditer(r"\w+|[^\w\s]+", sentence):
        end = found.end()
        if code and end >= code.start():
            continue
        opens = sentence[end - 1] in "([{¿“$.:`"
        goes_on = sentence[end : end + 1] in (".", "%")
        if end == len(sentence) or not (opens or goes_on):
            ends.append(end)
    return ends


def cited_numbers(cited):
    """The numbers of all sentences, each once, with those of no passage."""
    numbers = []
    for sentence in cited.sentences:
        numbers += [*sentence.numbers, *sentence.unknown]
    return tuple(dict.fromkeys(numbers))


def shown_whole(cited):
    """A text with its marks, the passages numbered in the order in which it cites them."""
    numbers = []
    for sentence in cited.sentences:
        numbers += sentence.numbers
    shown = {number: place for place, number in enumerate(dict.fromkeys(numbers), 1)}
    sentences = []
    for sentence in cited.sentences:
        places = tuple(shown[number] for number in sentence.numbers)
        sentences.append(sentence._replace(numbers=places))
    return with_marks(cited.text, sentences)


def with_mark(sentence, place, mark, blank):
    return sentence[:place] + blank + mark + sentence[place:]


WORDS = [
    "oats",
    "rye",
    "keeps",
    "wide",
    "sources",
    "cheap",
    "with",
    "of",
    "from",
    "the",
    "document",
    "by",
    "made",
    "per",
    "its",
    "see",
    "in",
]
words = st.lists(st.sampled_from(WORDS), min_size=2, max_size=9).map(
    lambda chosen: " ".join(["oats", *chosen])
)
sentences = st.one_of(
    st.sampled_from(SENTENCES),
    st.builds("{}{}".format, words, st.sampled_from([".", "!", "", "?"])),
)


@given(
    sentences, st.sampled_from(MARKS), st.sampled_from([" ", ""]), st.randoms(use_true_random=False)
)
@settings(max_examples=400)
def test_a_sentence_without_its_mark_is_the_sentence(sentence, mark, blank, random):
    place = random.choice(places(sentence))
    if (
        not re.search(r"[\w.!?。]\Z", sentence[:place])
        or SPOKEN.search(sentence[:place])
        or sentence[place:].startswith("'")
    ):
        return
    cited = read_citations(with_mark(sentence, place, mark, blank), 5)
    assert (cited.text, cited_numbers(cited)) == (sentence, FORMS[mark])


@pytest.mark.parametrize(
    "noun",
    [
        "sources",
        "a wide range",
        "vitamin c",
        "the index",
        "a list",
        "hepatitis b",
        "its reference",
        "the document",
    ],
)
def test_the_words_before_a_mark_stay(noun):
    for mark in MARKS:
        for blank, behind in itertools.product(
            (" ", ""), (".", ", and more.", " and cheap.", " of it.")
        ):
            cited = read_citations(f"Oats have {noun}{blank}{mark}{behind}", 5)
            numbers = (*cited.sentences[0].numbers, *cited.sentences[0].unknown)
            assert (cited.text, numbers) == (f"Oats have {noun}{behind}", FORMS[mark])


@pytest.mark.parametrize(
    ("said", "plain"),
    [
        ("According to [1], oats keep.", "According to passage 1, oats keep."),
        ("According to **[1]** oats keep.", "According to passage 1 oats keep."),
        ("According to passage [2], oats keep.", "According to passage 2, oats keep."),
        ("Oats keep, see [1] and [3].", "Oats keep, see passages 1 and 3."),
        ("Oats keep, as told in [2].", "Oats keep, as told in passage 2."),
        ("[1] says so.", "Passage 1 says so."),
        ("Oats keep.\n[1] and [3] say so.", "Oats keep.\nPassages 1 and 3 say so."),
        ("Passage [2] denies it.", "Passage 2 denies it."),
        ("Passages [1] and [2] deny it.", "Passages 1 and 2 deny it."),
        ("Source [2] denies it.", "Source 2 denies it."),
        ("Oats keep, e.g. [1] when dry.", "Oats keep, e.g. when dry."),
        ("The U.S. [1] has oats.", "The U.S. has oats."),
        (
            "Legumes are good protein sources [1] and cheap.",
            "Legumes are good protein sources and cheap.",
        ),
        ("What bread is made of [2].", "What bread is made of."),
        ("It is shown by [1].", "It is shown by."),
        ("It cites the source [2] of it.", "It cites the source of it."),
        ("See the documents [1].", "See the documents."),
        ("It keeps\u00a0[1].", "It keeps."),
        ("It keeps\u202f[1], too.", "It keeps, too."),
    ],
)
def test_a_mark_becomes_words_only_where_the_sentence_speaks_it(said, plain):
    assert read_citations(said, 5).text == plain


@pytest.mark.parametrize(
    ("said", "cites"),
    [
        ("It is in the healthy range [1, 2].", True),
        ("It is in a range of [1, 2].", False),
        ("The 95% CI [1, 2] is wide.", False),
        ("On a scale from [1, 5] it is four.", False),
        ("Take vitamin c[2].", True),
        ("Take vitamins b and c[2].", True),
        ("Try plan b[1].", True),
        ("Her body mass index[2] is low.", True),
        ("Take x[2].", False),
        ("Use list[1] here.", False),
        ("The price list[1] is long.", True),
        ("Set values = [1] here.", False),
        ("See [oats][1] there.", False),
        ("Oats keep [2023], for [0] years.", False),
    ],
)
def test_intervals_indices_and_years_are_told_from_citations(said, cites):
    cited = read_citations(said, 5)
    assert bool(cited.sentences[0].numbers) == cites
    assert (cited.text == said) == (not cites)


@given(
    st.sampled_from(SENTENCES[:9]),
    st.sampled_from(MARKS),
    st.sampled_from([" ", ""]),
    st.randoms(use_true_random=False),
)
@settings(max_examples=150)
def test_text_shown_while_written_is_the_beginning_of_the_whole(sentence, mark, blank, random):
    behind_words = []
    for place in places(sentence):
        if re.search(r"[\w.!?。]\Z", sentence[:place]):
            behind_words.append(place)
    place = random.choice(behind_words)
    said = with_mark(sentence, place, mark, blank) + " Rye keeps [3], too."
    whole = shown_whole(read_citations(said, 9))
    for end in range(len(said) + 1):
        assert whole.startswith(while_written(said[:end], 9).rstrip())


PIECES = (
    "[1]",
    "[1",
    "[[",
    "(Doc 1",
    "(see ",
    "([1]",
    "**[1]",
    "<sup>[1]",
    "<sup>",
    "^[1]",
    "【1†",
    "[1, ",
    "[1-",
    "[1] to ",
    "[1].",
    "\n[1]",
)


def calls(text):
    """How many calls of Python functions it takes to read a text."""
    counted = 0

    def count(frame, event, argument):
        nonlocal counted
        counted += event == "call"

    sys.setprofile(count)
    try:
        read_citations(text, 5)
    finally:
        sys.setprofile(None)
    return counted


@pytest.mark.parametrize("piece", PIECES)
def test_the_work_grows_with_the_length_of_the_text(piece):
    short = calls(f"Oats {piece * 50} end.")
    long = calls(f"Oats {piece * 400} end.")
    assert long < 100 + 9 * short


def test_a_passage_of_number_0_is_unknown():
    cited = read_citations("Oats keep [passage 0].", 2)
    assert (cited.sentences[0].numbers, cited.sentences[0].unknown) == ((), (0,))
