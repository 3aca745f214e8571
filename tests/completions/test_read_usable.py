"""The cleaners that every parser begins with: loops, refusals, fences, prompts and signs."""

import pytest

from pyterrier_ikat.completions.usable import (
    LONGEST_REFUSAL,
    answer_text,
    collapsed,
    is_loop,
    is_refusal,
    one_line,
    own_turn,
    printable,
    printable_signs,
    readable,
    says_no_query,
    unquoted,
    usable_text,
    usable_words,
    without_fences,
)


@pytest.mark.parametrize(
    ("text", "printed"),
    [
        ("\x1b[31mred\x1b[0m\x00\r\n", "red\n"),
        ("a\rb\x0bc\x1cd\r\ne", "a\nb\nc\nd\ne"),
        ("\x1b]0;title\x07x", "x"),
        ("\x9bMx\x1b", "x"),
        ("a\tb\nc\x85d", "a\tb\nc\x85d"),
        ("é\ud800", "é\ufffd"),
        ("plain", "plain"),
    ],
)
def test_only_printable_text_is_left(text, printed):
    assert printable(text) == printed


def test_a_name_is_one_line_of_200_characters():
    assert one_line(" a\n\tb\x1b[1m\u200b c ") == "a b c"
    assert one_line("x" * 300) == "x" * 200
    assert one_line("  x" * 150) == "x " * 100
    assert one_line(" " * 3999 + "xy") == "x"
    assert printable_signs("a\u200b\nb c") == "a  b c"


def test_texts_are_printable_and_names_short():
    assert printable("a\tb\r\nc\x1b[1mbold\x1b[0m\x1b]8;;http://x\x1b\\link") == "a\tb\ncboldlink"
    assert printable("מים, 中文, 🙂, é\u2028") == "מים, 中文, 🙂, é\u2028"
    assert one_line("a\tb\n c" + "d" * 999) == "a b c" + "d" * 195


def test_what_a_terminal_obeys_is_removed_and_breaks_are_lines():
    assert printable("a\x1b[31mb\x1b]0;title\x07c\x9bd\x00e") == "abce"
    assert printable("a\r\nb\rc\x0bd\x0ce\tf") == "a\nb\nc\nd\ne\tf"
    assert one_line("x" * 500) == "x" * 200
    assert one_line(" a\n\x1b[0m b\u2028c ") == "a b c"


@pytest.mark.parametrize(
    ("text", "inner"),
    [
        ("'a'", "a"),
        ('"a",', "a"),
        ('"a" , ', '"a" , '),
        ('"a" ,', "a"),
        ('"a, "', "a"),
        ("“a”", "a"),
        ("«' a '»", "a"),
        ('""a""', "a"),
        ('"a" and "b"', '"a" and "b"'),
        ("'it's'", "it's"),
        ("''", ""),
        ('"', '"'),
        ('"a', '"a'),
        ('a"', 'a"'),
        ("", ""),
    ],
)
def test_marks_around_a_whole_text_are_removed(text, inner):
    assert unquoted(text) == inner


@pytest.mark.parametrize(
    ("text", "inner"),
    [
        ('"Mint?"', "Mint?"),
        ("'Mint?',", "Mint?"),
        ('"mint" or "basil"', '"mint" or "basil"'),
        ("“«Mint»”", "Mint"),
        ("\"'Mint'\"", "Mint"),
        ('""Mint""', "Mint"),
        ("\"'mint' or sage\"", "'mint' or sage"),
        ('"Mint",', "Mint"),
        ('"Mint,"', "Mint"),
        ("Mint", "Mint"),
        ('"', '"'),
    ],
)
def test_marks_around_the_whole_text_are_removed(text, inner):
    assert unquoted(text) == inner


def test_lines_of_fences_are_removed():
    assert without_fences("```json\n[1]\n  ```\nx ```y```") == "\n[1]\n\nx ```y```"


@pytest.mark.parametrize(
    ("text", "length", "count"),
    [
        ("ab" * 700, 240, 1),
        ("x" * 1199, 1199, 0),
        ("x" * 1200, 240, 1),
        ("abc" * 400 + "abz", 243, 1),
        ("z" + "abc" * 400, 241, 1),
        (("x" * 63 + "y") * 20, 256, 1),
        (("x" * 64 + "y") * 20, 1300, 0),
        ("x" * 1200 + "yz" + "x" * 1300, 482, 2),
        ("a" * 1201, 240, 1),
        ("a" * 1300 + "bcd" * 500, 480, 2),
        ("\ud800" + "a" * 1300, 241, 1),
        ("abcde" * 300 + "ab", 242, 1),
    ],
)
def test_a_long_repetition_is_cut_to_whole_pieces(text, length, count):
    short, found = collapsed(text)
    assert (len(short), found) == (length, count)
    assert short[:200] == text[:200]
    assert short[-2:] == text[-2:]


@pytest.mark.parametrize(
    ("piece", "times", "count", "length"),
    [
        ("ab", 600, 1, 240),
        ("ab", 599, 0, 1198),
        ("abcdefg", 172, 1, 245),  # whole pieces
        ("x" * 63 + "y", 19, 1, 256),
        ("x" * 64 + "y", 30, 0, 1950),
    ],
)
def test_a_repetition_of_1200_characters_is_shortened(piece, times, count, length):
    text, found = collapsed(piece * times)
    assert (found, len(text)) == (count, length)
    before, after = "Mint. ", "\nBasil."
    text, found = collapsed(before + piece * times + after)
    assert (found, len(text)) == (count, length + len(before) + len(after))
    assert text.startswith(before + piece[:1])
    assert text.endswith(after)


def test_each_repetition_is_counted_and_shortened():
    text, count = collapsed("ab" * 700 + " and " + "xyz" * 500)
    assert (text, count) == ("ab" * 120 + " and " + "xyz" * 80, 2)
    assert readable(text) == (text, [])
    assert readable("ab" * 700)[1] == ["1 long repetition"]
    assert readable("ab" * 700 + " and " + "xyz" * 500)[1] == ["2 long repetitions"]
    assert readable("ab" * 700, whole=True) == ("ab" * 700, [])


@pytest.mark.parametrize("piece", ["no, ", "a", "0123456789" * 6, "x\n", "🙂 "])
def test_a_long_repetition_collapses_to_whole_pieces_counted(piece):
    times = 16_000 // len(piece)
    left, count = collapsed(f"Well: {piece * times}... yes. {piece * times}")
    assert count == 2
    pieces = -(-240 // len(piece))
    assert left == f"Well: {piece * pieces}... yes. {piece * pieces}"
    assert collapsed(left) == (left, 0)


@pytest.mark.parametrize(
    ("text", "loop"),
    [
        ("a" * 99, False),
        ("a" * 100, True),
        ("b" * 49 + "a" * 100, True),
        ("xy" * 50 + "a" * 100, False),
        ("xyz" * 33 + "a" * 100, True),
        (("x" * 63 + "y") * 4, True),
        (("x" * 63 + "y") * 3 + "x" * 63, False),
        (("x" * 64 + "y") * 4, False),
        ("abcd" * 26 + "ab", True),
        ("a" * 150 + "end", False),
    ],
)
def test_a_text_that_repeats_to_its_end_is_a_loop(text, loop):
    assert is_loop(text) == loop


@pytest.mark.parametrize(
    ("text", "loop"),
    [
        ("tea, " * 20, True),
        ("tea, " * 19 + "tea,", False),  # 99 characters
        ("mint " * 10 + "tea, " * 25, True),
        ("m" + "int " * 25 + "x" * 30 + "tea, " * 26, False),  # less than half
        ("x" * 64 * 4, True),
        ("abcdefgh" * 8 * 3, True),
        ("".join(chr(97 + n % 26) + str(n) for n in range(60)) * 3, False),  # a longer piece
    ],
)
def test_a_loop_fills_half_of_a_text_and_100_characters(text, loop):
    assert is_loop(text) is loop


LONGEST = "I'm sorry, but I can't help with this request" + "." * 255
REFUSALS = {
    "I'm sorry, but I can't help with that.": True,
    "I’m sorry, I can’t assist.": True,
    "I can't": True,
    "We are unable to process the request.": True,
    "Unfortunately, I am not able to.": True,
    "I must decline to answer that.": True,
    "I can't help you with oats": True,
    "As an AI language model, I cannot do that.": True,
    "As an AI, I don't have opinions.": True,
    "**I cannot comply with this request.**": True,
    "I'm unable to answer this question. Please ask another.": True,
    "I won't do so. Let me know. If you wish, ask.": True,
    "I cannot\n\nassist.": True,
    "Sorry, I cannot assist with that request, but I can help with others.": True,
    "No queries are needed.": True,
    "I won't do so. However, try this.": False,
    "I won't do so. Let me know. Oats keep.": False,
    "I won't do so. Please ask, but oats keep.": False,
    "I cannot provide information on it; see a doctor.": False,
    "I cannot recommend oats.": False,
    "I'm sorry, but rooibos has no caffeine.": False,
    "None needed.": False,
    LONGEST: True,
    f"{LONGEST}.": False,
    "No queries." + " " * 590: False,
    "No queries." + " " * 589: True,
    "": False,
    " ": False,
}


@pytest.mark.parametrize("text", REFUSALS)
def test_a_text_that_only_declines_is_a_refusal(text):
    assert is_refusal(text) == REFUSALS[text]


def test_a_long_text_is_no_refusal():
    refusal = "I cannot help with that request"
    assert is_refusal(refusal + " and so on" * 20)
    assert len(refusal + " and so on" * 30) > LONGEST_REFUSAL
    assert not is_refusal(refusal + " and so on" * 30)


REFUSAL = "I'm sorry, but I can't help with that."


@pytest.mark.parametrize(("extra", "refused"), [(0, True), (1, False)])
def test_a_refusal_has_at_most_300_characters(extra, refused):
    text = f"{REFUSAL} Please ask about {'tea ' * 100}"
    text = text[: 299 + extra] + "."
    assert is_refusal(text) is refused
    assert (usable_words(text) == "") is refused


def test_a_refusal_behind_reasoning_is_no_answer():
    assert usable_text("<think>hm</think> I can't help with that.") == ""
    assert usable_text("<think>I can't help with that.</think> Paris") == "Paris"


NO_QUERY = {
    "No queries are needed because the answer is above.": True,
    "There are no relevant queries.": True,
    "I cannot think of any queries.": True,
    "It does not need any search.": True,
    "There is no need to search.": True,
    "**None needed.**": True,
    "Not applicable.": True,
    "No queries are needed. The answer is above.": True,
    "\n\nNo queries are needed!\n\nSee above.": True,
    "No queries are needed. 1. tea.": False,
    "No queries are needed.\n1. tea": False,
    "No queries are needed.\nSee above": False,
    "No queries are needed. See above.\nTea instead.": False,
    "No queries are needed, but here is one.": False,
    "No queries are needed. However, tea is.": False,
    "no sugar cake recipes": False,
    "No.": False,
    "": False,
    "No queries.\n" + "x" * 288 + ".": True,
    "No queries.\n" + "x" * 289 + ".": False,
    "There’s no need to search.": True,
    "No queries are needed because of it, but tea is.": False,
    "no search queries tutorial": False,
}


@pytest.mark.parametrize("text", NO_QUERY)
def test_a_text_may_say_that_there_is_no_query(text):
    assert says_no_query(text) == NO_QUERY[text]


@pytest.mark.parametrize(
    ("text", "words", "answer"),
    [
        ("<think>hm</think> Paris", "Paris", "Paris"),
        ("(None)", "", None),
        ("n/a.", "", None),
        ("none of it", "none of it", "none of it"),
        ("...", "...", None),
        ("I can't help with that.", "", None),
    ],
)
def test_an_answer_says_something(text, words, answer):
    assert usable_words(text) == words
    assert answer_text(text) == answer


@pytest.mark.parametrize(
    ("text", "answer"),
    [
        ("Mint.", "Mint."),
        ("None.", None),
        (" n/a ", None),
        ("**null**", None),
        ("Nonesuch", "Nonesuch"),
        ("...", None),
        ("7", "7"),
        ("", None),
        (REFUSAL, None),
    ],
)
def test_an_answer_has_a_letter_or_digit_and_says_something(text, answer):
    assert answer_text(text) == answer


@pytest.mark.parametrize(
    ("text", "own"),
    [
        ("[8]\n\n2. Question: And?\n x", "[8]\n\n"),
        ("[1]\n- Human : x\nuser: y", "[1]\n"),
        ("Question: a\nb", "Question: a\nb"),
        ("a:\nUser: b", "a:\nUser: b"),
        ("a: \n\nUser: b", "a: \n\nUser: b"),
        ("  \nuser: b", "  \nuser: b"),
        ("a user: b", "a user: b"),
    ],
)
def test_the_next_question_is_left_out(text, own):
    assert own_turn(text) == own


NEXT = "# Example 3\n# About the user\nx"
LOOP = "no, " * 500


@pytest.mark.parametrize(
    ("text", "whole", "read", "omitted"),
    [
        ("tea", False, "tea", []),
        ("# Task\nx", False, "", ["repeats: '# Task"]),
        ("# Task\nx", True, "", ["repeats: '# Task"]),
        ("<think>a</think># Role", False, "", ["repeats: '<think>"]),
        ("# About the user\nx", False, "", ["repeats: '# About"]),
        ("# About the user\nx", True, "# About the user\nx", []),
        (f"a\n{NEXT}", False, "a\n", ["invented: '# Example 3\\n# About the user\\nx'"]),
        (f"a\n{NEXT}", True, "a\n", ["invented: '# Example 3"]),
        (f"\n{NEXT}", True, f"\n{NEXT}", []),
        ("# Queries\na", False, "# Queries\na", []),
        (LOOP, True, LOOP, []),
        (LOOP, False, "no, " * 60, ["1 long repetition"]),
        (f"{LOOP}y{LOOP}", False, f"{'no, ' * 60}y{'no, ' * 60}", ["2 long repetitions"]),
        (f"{LOOP}\n{NEXT}", False, "no, " * 60 + "\n", ["invented", "1 long repetition"]),
    ],
)
def test_a_parser_reads_no_prompt_and_no_loop(text, whole, read, omitted):
    own, told = readable(text, whole)
    assert own == read
    assert len(told) == len(omitted)
    for line, part in zip(told, omitted, strict=True):
        assert part in line


def test_fences_and_the_next_question_are_left_out():
    assert without_fences("```json\n[1]\n```") == "\n[1]\n"
    assert own_turn("Mint.\nQuestion: Which tea?") == "Mint.\n"
    assert own_turn("Mint.\n2. User: Which tea?") == "Mint.\n"
    assert own_turn("Question: Which tea?") == "Question: Which tea?"
    assert own_turn("The queries are:\nQuestion: x") == "The queries are:\nQuestion: x"


def test_of_a_prompt_that_follows_only_the_answer_is_read():
    text = "Mint.\n\n# About the user\n1: I own a dog."
    read, omitted = readable(text)
    assert read == "Mint.\n\n"
    assert len(omitted) == 1
    read, omitted = readable("# Task\nAnswer.")
    assert (read, len(omitted)) == ("", 1)
    own = "# About the user\nYou like mint."
    assert readable(own)[0] == ""
    assert readable(own, whole=True) == (own, [])
