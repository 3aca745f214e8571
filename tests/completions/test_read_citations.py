"""Sentences and their citations, worked out by hand."""

import pytest

from pyterrier_ikat.completions.citations import (
    CitedSentence,
    CitedText,
    count_words,
    cut_at_sentence,
    pieces_with_numbers,
    read_citations,
    sentences_in,
    unfinished,
    while_written,
    whole_sentences,
    with_marks,
    without_marks,
)

LONG = "oats " * 12  # more than the 40 characters that decide what a place is


@pytest.mark.parametrize(
    ("text", "ends"),
    [
        ("Dr. Smith came. He left.", ["Dr. Smith came.", " He left."]),
        ("Oats, approx. Three. End", ["Oats, approx. Three."]),
        ("It is 1. first of all. Then 2. next.", ["It is 1. first of all.", " Then 2. next."]),
        ("1. Oats are cheap. They keep.", ["1. Oats are cheap.", " They keep."]),
        ("Made in the U.S. They left.", ["Made in the U.S. They left."]),
        (f"{LONG}i.e. Yes. No.", [f"{LONG}i.e. Yes.", " No."]),
        ("He said “No.” She left.", ["He said “No.”", " She left."]),
        ("Oats.[1][2] Rye.", ["Oats.[1][2]", " Rye."]),
        ("Oats.** [1] Rye.", ["Oats.**", " [1] Rye."]),
        ("What?! Yes… no. Ok", ["What?!", " Yes… no."]),
        ("One. two. Three", ["One. two."]),
        ("One.Two. Three", ["One.Two."]),
        ("燕麦。好！吗？", ["燕麦。", "好！", "吗？"]),
        ("Line one\nLine two\n\nLine", ["Line one", "\nLine two", ""]),
        ("Line dr.\nLine", []),
        ("\n\nOats. Rye", ["\n\nOats."]),
        ("", []),
    ],
)
def test_a_beginning_ends_with_a_sentence_or_a_line(text, ends):
    beginnings = []
    for end in ends:
        beginnings.append(beginnings[-1] + end if beginnings else end)
    assert whole_sentences(text) == beginnings


@pytest.mark.parametrize(
    ("text", "words", "cut"),
    [
        ("One two. Three four. Five.", 5, "One two. Three four. Five."),
        ("One. Two", 2, "One. Two"),
        ("One two. Three four. Five.", 4, "One two. Three four."),
        ("One two. Three four. Five.", 3, "One two."),
        ("One two. Three four. Five.", 2, "One two."),
        ("One two. Three four. Five.", 1, "One"),
        ("  One  two three", 2, "One  two"),
        ("One\ntwo three\nfour", 2, "One"),
        ("One two three.", 0, ""),
        ("1½ cups of it", 3, "1½ cups of"),
        ("a\u00a0b c d", 2, "a\u00a0b"),
    ],
)
def test_a_text_is_cut_to_the_most_sentences_within_the_words(text, words, cut):
    assert cut_at_sentence(text, words) == cut


def test_words_are_counted_after_normalisation():
    assert count_words("a ﷺ\u2003b") == 6  # the ligature is four words
    assert cut_at_sentence("a ﷺ b", 3) == "a"


def test_sentences_have_no_blanks_around_them():
    assert sentences_in("  Oats keep.  Rye too\n\n - \n- hay") == ["Oats keep.", "Rye too", "- hay"]


READ = {
    # the response: (its text, of each sentence the numbers)
    "Oats keep [1] and rye [2][2].": ("Oats keep and rye.", [(1, 2)]),
    "Oats [1]keep.": ("Oats keep.", [(1,)]),
    "Oats[1]keep.": ("Oatskeep.", [(1,)]),
    "Oats [1] keep! [2].": ("Oats keep!", [(1, 2)]),
    "Oats keep. [1]. Rye.": ("Oats keep. Rye.", [(1,), ()]),
    "Oats keep [1].. Rye.": ("Oats keep.. Rye.", [(1,), ()]),
    "Oats keep.\n[1]\n\nRye.": ("Oats keep.\n\nRye.", [(1,), ()]),
    "Oats.\n- [1] [2]\nRye.": ("Oats.\n-\nRye.", [(1, 2), ()]),
    "Oats keep.[1]. Rye.": ("Oats keep. Rye.", [(1,), ()]),
    "Oats [1]k.": ("Oats k.", [(1,)]),
    "Oats.\n[1] X": ("Oats.\n[1] X", [(), ()]),
    "Oats.\n[1] | [2]\nRye.": ("Oats. |\nRye.", [(1, 2), ()]),
    "Oats.\n[1] | rye [2]\nHay.": ("Oats.\n[1] | rye\nHay.", [(), (2,), ()]),
    "**Oats** keep [1].": ("**Oats** keep.", [(1,)]),
    "Oats?\t[1].": ("Oats?", [(1,)]),
    "Oats\u00a0[1].": ("Oats.", [(1,)]),
    "[3] says no": ("Passage 3 says no", [(3,)]),
    "[1] and [3][1] say so.": ("Passages 1 and 3 say so.", [(1, 3)]),
    "[1] and [3] say so.": ("Passages 1 and 3 say so.", [(1, 3)]),
    "[1, 2, 3] say so.": ("Passages 1, 2 and 3 say so.", [(1, 2, 3)]),
    "[1] Oats": ("[1] Oats", [()]),
    "Mint cools. [1] helps.": ("Mint cools. Passage 1 helps.", [(), (1,)]),
    "Mint cools, e.g. [1] helps.": ("Mint cools, e.g. helps.", [(1,)]),
    "Oats, see [1][2].": ("Oats, see passages 1 and 2.", [(1, 2)]),
    "Oats, see [1][1].": ("Oats, see passage 1.", [(1,)]),
    "Oats keep in [1].": ("Oats keep in passage 1.", [(1,)]),
    "Oats begin [1].": ("Oats begin.", [(1,)]),
    "As passage [1] says.": ("As passage 1 says.", [(1,)]),
    "See passages [1][2].": ("See passages 1 and 2.", [(1, 2)]),
    "See passages [1].": ("See passages.", [(1,)]),
    "See passage [1][2].": ("See passage.", [(1, 2)]),
    "See passage [Doc 1].": ("See passage.", [(1,)]),
    "Shown by document [2].": ("Shown by document 2.", [(2,)]),
    "Shown by source [2].": ("Shown by source.", [(2,)]),
    "Sources [1] and [2] say.": ("Sources 1 and 2 say.", [(1, 2)]),
    "A protein source [1] it is.": ("A protein source it is.", [(1,)]),
    "Oats [0], rye [100], hay [99].": ("Oats [0], rye [100], hay.", [(-99,)]),
    "Oats [99, 100].": ("Oats [99, 100].", [()]),
    "Oats [Doc 0] [Doc 2023].": ("Oats.", [(0, -2023)]),
    "Oats [2] [1999].": ("Oats [1999].", [(2,)]),
    "Oats (Doc 2) [1999].": ("Oats [1999].", [(2,)]),
    "Oats <sup>[1][2]</sup>[1999].": ("Oats[1999].", [(1, 2)]),
    "Oats [1]-[1999].": ("Oats [1]-[1999].", [()]),
    "Oats [4] [3].": ("Oats.", [(3, -4)]),
    "x[1] y": ("x[1] y", [()]),
    "x [1] y": ("x y", [(1,)]),
    "Take list[1].": ("Take list[1].", [()]),
    "The list[1].": ("The list.", [(1,)]),
    "list[1]": ("list[1]", [()]),
    "list[Doc 1]": ("list", [(1,)]),
    "list[1, Doc 2]": ("list", [(1, 2)]),
    "list【1】": ("list", [(1,)]),
    "list(Doc 1)": ("list", [(1,)]),
    "With a[1] doctor": ("With a doctor", [(1,)]),
    "With a[1].": ("With a[1].", [()]),
    "With b[1] doctor": ("With b[1] doctor", [()]),
    "Vitamin d[1]": ("Vitamin d", [(1,)]),
    "Vitamin b and d[1]": ("Vitamin b and d", [(1,)]),
    "Vitamins in list[1]": ("Vitamins in list[1]", [()]),
    "my_var[1]": ("my_var[1]", [()]),
    "y =[1]": ("y =[1]", [()]),
    "y ∈ [1]": ("y ∈ [1]", [()]),
    "y = [Doc 1]": ("y =", [(1,)]),
    "Oats \\[1]": ("Oats \\[1]", [()]),
    "Oats \\[Doc 1]": ("Oats \\[Doc 1]", [()]),
    "[oats][1]": ("[oats][1]", [()]),
    "A range of [1, 2]": ("A range of [1, 2]", [()]),
    "A range of [1, 2, 3]": ("A range of", [(1, 2, 3)]),
    "A range of [Doc 1, 2]": ("A range of", [(1, 2)]),
    "A range of (Doc 1)": ("A range of", [(1,)]),
    "A wide range [1, 2]": ("A wide range", [(1, 2)]),
    "Between [1, 2]": ("Between [1, 2]", [()]),
    "In between [1, 2]": ("In between", [(1, 2)]),
    "Between [1][2]": ("Between", [(1, 2)]),
    "Between [1]–[2]": ("Between [1]–[2]", [()]),
    "Between *[1]–[2]*": ("Between", [(1, 2)]),
    "- [1] Oats": ("- [1] Oats", [()]),
    "Oats.\n- [1], and [2] rye": ("Oats.\n- [1], and [2] rye", [(), ()]),
    "Oats.\n[1], [2], rye [3]": ("Oats.\n[1], [2], rye", [(), (3,)]),
    f"{LONG}\n[1] Oats": (f"{LONG}\n[1] Oats", [(), ()]),
    f"{LONG}[1] Oats": (f"{LONG}Oats", [(1,)]),
    f"{' ' * 39}[1] Oats": ("[1] Oats", [()]),
    f"{' ' * 40}[1] Oats": ("Oats", [(1,)]),
    "Run `a [1]` and\n```\nb [2]\n``` [3].": ("Run `a [1]` and\n```\nb [2]\n```.", [(), (3,)]),
}


@pytest.mark.parametrize("response", READ)
def test_a_response_is_read_sentence_by_sentence(response):
    text, numbers = READ[response]
    cited = read_citations(response, 3)
    found = []
    for sentence in cited.sentences:
        unknown = tuple(-number for number in sentence.unknown)
        found.append((*sentence.numbers, *unknown))
    assert (cited.text, found) == (text, numbers)


def test_a_line_of_marks_cites_whatever_the_next_line_cites():
    cited = read_citations("Oats are cheap.\n[1] | [2]\nRye keeps [3].", 5)
    assert [sentence.numbers for sentence in cited.sentences] == [(1, 2), (3,)]


def test_a_number_above_99_cites_among_so_many_passages():
    cited = read_citations("Oats [120]. Rye [121].", 120)
    assert cited == ("Oats. Rye [121].", (("Oats.", (120,), ()), ("Rye [121].", (), ())))


SOURCES = {
    # what follows the response: (what is left of it, the numbers of the whole response)
    "\n\nSources:\n- [1] The oat\n\n- [2]: Rye": ("", (1, 2)),
    "\n**References used**\n[3]\n[1][2]": ("", (3, 1, 2)),
    "\nSources:\n[1] Oats\n  \n[2]": ("", (1, 2)),
    "\nCitations: [2]": ("", (2,)),
    "\nSources:\n[1]\nand more": (None, ()),
    "\nSources:\n": ("\nSources:", ()),
    "\nSources: oats": (None, ()),
    "\nOur sources: [1]": ("\nOur sources:", ()),
}


@pytest.mark.parametrize("end", SOURCES)
def test_a_list_of_sources_belongs_to_the_whole_response(end):
    left, numbers = SOURCES[end]
    cited = read_citations(f"Oats keep.{end}", 3)
    of_sources = [sentence.numbers for sentence in cited.sentences if not sentence.text]
    if left is not None:
        assert cited.text == f"Oats keep.{left}"
    else:
        assert cited.text.startswith("Oats keep.\nSources:")
    assert of_sources == ([numbers] if numbers else [])


def test_only_the_last_list_of_sources_is_taken_out():
    cited = read_citations("Oats.\nSources:\n[1]\n\nSources:\n[2]", 3)
    assert cited == (
        "Oats.\nSources:",
        (("Oats.", (), ()), ("Sources:", (1,), ()), ("", (2,), ())),
    )


def test_a_response_read_for_fewer_or_more_passages():
    cited = CitedText("a", (CitedSentence("x", (1, 3), (7,)), CitedSentence("y")))
    assert cited.among(2).sentences == (("x", (1,), (3, 7)), ("y", (), ()))
    assert cited.among(8).sentences == (("x", (1, 3, 7), ()), ("y", (), ()))
    assert cited.among(0).unknown == [1, 3, 7]
    assert cited.among(2).text == "a"


@pytest.mark.parametrize(
    ("words", "text", "sentences"),
    [
        (
            9,
            "One two. Three four. Five.",
            [("One two.", (1,)), ("Three four.", (2,)), ("Five.", ())],
        ),
        (4, "One two. Three four.", [("One two.", (1,)), ("Three four.", (2,))]),
        (3, "One two.", [("One two.", (1,))]),
        (1, "One", [("One", (1,))]),
    ],
)
def test_a_cut_response_keeps_its_sentences_and_sources(words, text, sentences):
    cited = read_citations("One two [1]. Three four [2]. Five.\n\nSources: [3]", 3).cut(words)
    assert cited.text == text
    assert [sentence[:2] for sentence in cited.sentences] == [*sentences, ("", (3,))]


def test_a_cut_within_a_sentence_keeps_what_it_cites():
    twice = CitedText("Yes. Yes.", (CitedSentence("Yes.", (1,)), CitedSentence("Yes.", (2,))))
    assert twice.cut(1) == ("Yes.", (("Yes.", (1,), ()),))
    long = CitedText(
        "One two three. One", (CitedSentence("One two three.", (1,)), CitedSentence("One"))
    )
    assert long.cut(2) == ("One two", (("One two", (1,), ()),))
    assert CitedText("One two three.").cut(2) == ("One two", ())


PIECES = [
    (
        "Tea. Tea.",
        [CitedSentence("Tea.", (1,)), CitedSentence("Tea.", (2,))],
        [("Tea.", (1,)), (" Tea.", (2,))],
        "Tea. [1] Tea. [2]",
    ),
    (
        "Tea. More",
        [CitedSentence("Tea.", (1,)), CitedSentence("", (1, 2))],
        [("Tea.", (1,)), (" More", ()), ("\n\nSources:", (2,))],
        "Tea. [1] More\n\nSources: [2]",
    ),
    (
        "Tea.",
        [CitedSentence("Mint.", (4,)), CitedSentence("Tea.", (1,)), CitedSentence("", (4, 5))],
        [("Tea.", (1,)), ("\n\nSources:", (4, 5))],
        "Tea. [1]\n\nSources: [4][5]",
    ),
    ("Tea. Mint.", [CitedSentence("Mint."), CitedSentence("Tea.", (1,))],
     [("Tea. Mint.", ()), ("\n\nSources:", (1,))], "Tea. Mint.\n\nSources: [1]"),
    ("", [], [], ""),
]  # fmt: skip


@pytest.mark.parametrize(("text", "sentences", "pieces", "marked"), PIECES)
def test_a_text_is_shown_with_its_numbers(text, sentences, pieces, marked):
    assert pieces_with_numbers(text, sentences) == pieces
    assert with_marks(text, sentences) == marked


@pytest.mark.parametrize(
    "end",
    [
        "[1", "(", "[1]", "[1] and", "[1] to ", "*", "**", "^", "<sup", "<sup>", "【1", "[1]–",
        "[1](", "[1](#doc", "[1] th", "([1", "**[1]**", "  ", "[" * 100, "[1][2][3",
    ],
)  # fmt: skip
def test_what_may_become_a_mark_is_held_back(end):
    text = unfinished(f"Mint cools {end}", 3).text
    assert text == "Mint cools"


@pytest.mark.parametrize("end", ["<b>x", "[1] or", "(a) b", "a", "2023", "[x] y"])
def test_what_is_no_mark_is_not_held_back(end):
    assert unfinished(f"Mint cools {end}", 0).text.endswith(end[-1])


@pytest.mark.parametrize(
    ("end", "shown"),
    [
        ("Sour", ""),
        ("**Sour", ""),
        ("**Sources", ""),
        (">", ">"),
        ("Sources:\n[1] Oats\n-", ""),
        ("Sources:\n\n[1] Oats\n\n[2] Rye", ""),
        ("Source used", ""),
        ("References cited", ""),
        ("Sources:", ""),
        ("Sources: [1]", ""),
        ("Sources:\n[1] Oa", ""),
        ("Sources:\n[1]\nx", "Sources:\nx"),
        ("Sources:\n[1]\n- ", ""),
        ("Sour tea", "Sour tea"),
        ("x", "x"),
    ],
)
def test_a_title_of_sources_is_held_back_until_it_is_none(end, shown):
    text = unfinished(f"Mint.\n{end}", 3).text
    assert text == f"Mint.\n{shown}".strip()


@pytest.mark.parametrize(
    ("text", "words", "shown"),
    [
        ("Rooibos has none [3]. Mint [1][3]. It", None, "Rooibos has none. [1] Mint. [2][1] It"),
        ("Rooibos has none [3]. Mint [1][3]. It", 5, "Rooibos has none. [1] Mint. [2][1] It"),
        ("Rooibos has none [3]. Mint [1][3]. It", 4, "Rooibos has none. [1] Mint. [2][1]"),
        ("Rooibos has none [3]. Mint [1][3]. It", 3, "Rooibos has none. [1]"),
        ("Rooibos has none [3]. Mint [1][3]. It", 2, "Rooibos has [1]"),
        ("Tea is [1] red", 3, "Tea is red"),
        ("Tea is [1] red", 9, "Tea is red"),
        ("Tea [2].\n\nSources: [4]\n", None, "Tea."),
        ("Tea [2]. Mint.\n\nSources: [4]\n", None, "Tea. [1] Mint."),
        ("- Tea [1].\n- ", None, "- Tea."),
        ("[9] Tea [1]. Tea [2]. X", None, "[9] Tea. [1] Tea. [2] X"),
        ("", None, ""),
        ("- ", None, ""),
        ("Tea [1]. Tea", None, "Tea. [1] Tea"),
        ("[1", None, ""),
    ],
)
def test_a_text_is_shown_while_it_is_written(text, words, shown):
    assert while_written(text, 5, words) == shown


def test_marks_are_removed_whatever_their_numbers():
    assert without_marks("Tea [1] [7]. It (Doc 2) is red since [2023].") == (
        "Tea. It is red since [2023]."
    )


def test_a_mark_of_another_search_cites_nothing_that_was_shown():
    assert read_citations("Oats 【4:0†source】.", 3).sentences == (("Oats.", (), (0,)),)


def test_each_unknown_number_counts_as_often_as_it_is_cited():
    cited = read_citations("Mint [9]. Sage [9][8][9]. Tea [1].", 3)
    assert cited.unknown == [9, 9, 8]
    assert cited.among(8).unknown == [9, 9]
    assert cited.among(9).unknown == []


def test_the_last_of_several_lists_of_sources_is_held_back():
    text = "Mint.\n\nSources:\n[2] B\n\nMore.\n\nSources:\n[1] A"
    assert while_written(text, 3).rstrip() == "Mint.\n\nSources:\n[2] B\n\nMore."
