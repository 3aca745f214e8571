"""Every form of a mark in every place of a text: sentences, numbers, and where a text is cut."""

import itertools
import re
import sys

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pyterrier_ikat.completions.citations import (
    count_words,
    cut_at_sentence,
    read_citations,
    sentences_in,
    while_written,
    with_marks,
    without_marks,
)

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


def with_mark(sentence, place, mark, blank):
    return sentence[:place] + blank + mark + sentence[place:]


SPOKEN = re.compile(
    r"\b(?:according to|see|in)(?: sources?)?\Z|\b(?:see|in|by|from|of|per|with) documents?\Z",
    re.IGNORECASE,
)


def cited_numbers(cited):
    """The numbers of all sentences, each once, with those of no passage."""
    numbers = []
    for sentence in cited.sentences:
        numbers += [*sentence.numbers, *sentence.unknown]
    return tuple(dict.fromkeys(numbers))


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


def numbers(text, passages=5):
    """Of each sentence the numbers, known and unknown."""
    of_sentences = []
    for sentence in read_citations(text, passages).sentences:
        unknown = [-number for number in sentence.unknown]
        of_sentences.append((*sentence.numbers, *unknown))
    return of_sentences


SAID = "Rooibos has no caffeine [2]. Mate has some.[1, 7] It is old."


@pytest.mark.parametrize(
    ("said", "plain", "cited"),
    [
        (SAID, "Rooibos has no caffeine. Mate has some. It is old.", [(2,), (1, -7), ()]),
        ("Oats keep. [1][2] Rye, too [3], [4].", "Oats keep. Rye, too.", [(1, 2), (3, 4)]),
        ("Oats keep [1-3]. Rye (Doc1, Doc2).", "Oats keep. Rye.", [(1, 2, 3), (1, 2)]),
        # wordings that public runs of iKAT 2024 have
        (
            "It is dry. (Docs 2, 4)\n\nIt pays ([Doc1](#doc1)).",
            "It is dry.\n\nIt pays.",
            [(2, 4), (1,)],
        ),
        (
            "It lasts ([Doc1], [Doc4]). Not here (Document 0).",
            "It lasts. Not here.",
            [(1, 4), (0,)],
        ),
        ("It stays (Reference Passage 3). So (Docs 3 and 4).", "It stays. So.", [(3,), (3, 4)]),
        ("Oats【1†source】 keep. **[2]** Rye too [^3].", "Oats keep. Rye too.", [(1, 2), (3,)]),
        (
            "燕麦便宜[1]。它们耐放。[2]黑麦也是。",
            "燕麦便宜。它们耐放。黑麦也是。",
            [(1,), (2,), ()],
        ),
        (
            "Avena [1]; centeno [2]. ¿Y la cebada? [3]",
            "Avena; centeno. ¿Y la cebada?",
            [(1, 2), (3,)],
        ),
        ("Oats.\n[1]\nRye.", "Oats.\nRye.", [(1,), ()]),
        ("Oats keep. [1].", "Oats keep.", [(1,)]),
        ("Oats keep.\n\nSources:\n[1] The oat\n- [2] The rye", "Oats keep.", [(), (1, 2)]),
        (
            "According to [1], oats keep, as told in [2] and [3].",
            "According to passage 1, oats keep, as told in passages 2 and 3.",
            [(1, 2, 3)],
        ),
        (
            "[1] says so. Passage [2] denies it.",
            "Passage 1 says so. Passage 2 denies it.",
            [(1,), (2,)],
        ),
        ("Oats keep [9].", "Oats keep.", [(-9,)]),
        # words that are also those of code and of intervals
        ("The glycemic index [2] of oats.", "The glycemic index of oats.", [(2,)]),
        (
            "A wide range [1] and a list [1, 2] of teas.",
            "A wide range and a list of teas.",
            [(1, 2)],
        ),
        (
            "A set [3], on a large scale [2][9], in one vector [1].",
            "A set, on a large scale, in one vector.",
            [(3, 2, 1, -9)],
        ),
        (
            "The array [1] after an interval [2] of a day.",
            "The array after an interval of a day.",
            [(1, 2)],
        ),
        ("A range [1, 2, 3] of teas.", "A range of teas.", [(1, 2, 3)]),
        # ranges over brackets
        ("Oats keep [1]–[3]. Rye [1]-[2].", "Oats keep. Rye.", [(1, 2, 3), (1, 2)]),
        ("Oats keep [1] – [3]. Rye [Doc 1] to [Doc 3].", "Oats keep. Rye.", [(1, 2, 3), (1, 2, 3)]),
        (
            "Oats keep (Doc 2)—(Doc 4). Rye [1−3], [4]‑[5].",
            "Oats keep. Rye.",
            [(2, 3, 4), (1, 2, 3, 4, 5)],
        ),
        ("Oats keep [4] & [2]/[1].", "Oats keep.", [(4, 2, 1)]),
        ("A range [1]–[3] of teas.", "A range of teas.", [(1, 2, 3)]),
        # words before a name
        (
            "Oats keep (see Doc 2). Rye (Source: Passage 1, Passage 3).",
            "Oats keep. Rye.",
            [(2,), (1, 3)],
        ),
        ("Oats keep [see Document 2], and rye (cf. Doc 9).", "Oats keep, and rye.", [(2, -9)]),
        # tags around marks
        (
            "Oats keep <b>[1]</b>. Rye <em>[2]</em>, wheat <font size='1'>[3]</font>.",
            "Oats keep. Rye, wheat.",
            [(1,), (2, 3)],
        ),
        ("Oats keep.<sup>[1]</sup> Rye <sup>[2][3]</sup>.", "Oats keep. Rye.", [(1,), (2, 3)]),
        ("Oats <sup>[1]</sup><sup>[2]</sup> keep <cite>[3]</cite>.", "Oats keep.", [(1, 2, 3)]),
        ('Oats keep<sup><a href="#7">[1]</a></sup>. Rye^[2]^.', "Oats keep. Rye.", [(1,), (2,)]),
        # places in passages
        ("Oats keep [Doc 1, p. 3]. Rye (Doc 2, pp. 4-5).", "Oats keep. Rye.", [(1,), (2,)]),
        (
            "Oats keep [1, p. 3; 2, page 4]. Rye [Passage 3, section 2, paragraph 4].",
            "Oats keep. Rye.",
            [(1, 2), (3,)],
        ),
        ("Oats keep [Doc 1 (p. 3)]. Rye [Doc 2: § 4.1].", "Oats keep. Rye.", [(1,), (2,)]),
    ],
)
def test_marks_are_read_and_taken_out(said, plain, cited):
    assert read_citations(said, 5).text == plain
    assert numbers(said) == cited


@pytest.mark.parametrize(
    "said",
    [
        "It was born in [2023], after [1999].",
        "See [oats](https://oats.org), [1](https://oats.org/1) and [rye][1].",
        "Take `a[1]`, x[2] or values = [1, 2].\n```\nb[1]\n```",
        "In the interval [1, 5], on a scale of [1-5], or in [0, 1].",
        "Values in the range of [1, 4], ranges from [1] to [5], intervals [2–3].",
        "Odds fell (95% CI [2, 4]; IQR: [1-3]), between [1, 5] and ranging from [2, 3].",
        "Take list[1], index[2], my_values[3] and set[1, 2].",
        "10<sup>3</sup> m<sup>2</sup>, p. 3.",
        "[1] Oats\n[2] Rye",
        "The second one (2) and three (3 kg), step (1).",
        "Call 1-800-273-TALK (8255), or \\[1\\].",
        "1. Oats.\n2. Rye.",
    ],
)
def test_what_belongs_to_the_text_is_no_citation(said):
    assert read_citations(said, 5).text == said
    assert not any(numbers(said))


def test_the_list_that_is_shown_is_taken_out_again():
    cited = read_citations("Oats keep [2]. Rye [1][3]!\n\nSources: [1], [4]", 5)
    shown = with_marks(cited.text, cited.sentences)
    assert shown == "Oats keep. [2] Rye! [1][3]\n\nSources: [4]"
    assert without_marks(shown) == cited.text == "Oats keep. Rye!"


def test_a_cut_keeps_whole_sentences_with_their_citations():
    cited = read_citations(SAID, 5)
    assert [one[1:] for one in cited.cut(7).sentences] == [((2,), ()), ((1,), (7,))]
    assert cited.cut(7).text == "Rooibos has no caffeine. Mate has some."
    assert cited.cut(2) == (
        "Rooibos has",
        (("Rooibos has", (2,), ()),),
    )  # a first sentence that is too long keeps its citation


def test_a_cut_drops_citations_of_a_sentence_repeated_behind_it():
    cited = read_citations("It is red [1]. It is mild. It is red [2]. It has no caffeine.", 3)
    assert [sentence[:2] for sentence in cited.cut(6).sentences if sentence.text] == [
        ("It is red.", (1,)),
        ("It is mild.", ()),
    ]


def test_a_cut_first_sentence_keeps_its_citation():
    cited = read_citations("Rooibos has no caffeine [2].\n\nSources: [1]", 3).cut(2)
    assert [sentence[:2] for sentence in cited.sentences] == [("Rooibos has", (2,)), ("", (1,))]


def test_sentences_are_counted_without_what_says_nothing():
    assert sentences_in("Two teas:\n- Mint. It cools.\n- Sage\n\n...") == [
        "Two teas:",
        "- Mint.",
        "It cools.",
        "- Sage",
    ]


@pytest.mark.parametrize(
    "said",
    [
        SAID,
        "A (Doc1, Doc2), *so* ([Doc 1](#d)) [oats](http://x) [2023].",
        "燕麦[1]。[2]黑麦",
        "x [1",
        "[",
        "a  \n\n[1][2]",
    ]
    + [
        "Oats [1]–[3]. Rye [1] to [2] is [3] there.",
        "Oats.<sup>[2]</sup> Rye <sup><a href='#'>[1]</a></sup>!",
        "A [Doc 1, p. 3]. B^[2]^ <b>.",
        "A (see Doc 1, Doc 2). B <em>[2]</em>.",
        "Two teas:\n\n- Mint [1].\n- Sage [2]\n  - wild [1][2]\n  - red\n\n"
        "1. Boil it.\n2. Add mint [2].\n\nDone.",
        "### Teas\n\n1. **Rooibos** [1]: red\n   - no caffeine [2]\n2. **Mint**\n\n"
        "> Quoted [1].\n\n---\nEnd.",
        "Teas [2]\n\n| tea | caffeine |\n|---|---|\n| rooibos [1] | none |\n| mate | some [2] |\n\n"
        "End [1].",
        "Run [1]:\n```python\nx = list[1]\n```\nThen `a[1]` [2]. OK",
        "Teas [1].\r\n\r\n* Mint [2]\r\n* Sage",
        "• Mint [1]\n• Sage [2]\n– Rye\n+ Oats [1]\n(a) Tea [2]\n10) Hay",
        "Oats [1].\n\nSources:\n[1] Farming\n[2] Teas",
        "Oats [1].\n\n**References**\n- [1]\n- [2]",
        "Sources of caffeine are:\n- tea [1]\n- mate [2]",
    ],
)
def test_a_response_shown_while_written_begins_the_whole(said):
    whole = shown_whole(read_citations(said, 9))
    for end in range(len(said) + 1):
        assert whole.startswith(while_written(said[:end], 9).rstrip())


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
