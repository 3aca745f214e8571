"""The lengths and numbers at which a completion is read in another way."""

import json

import pytest

from pyterrier_ikat.completions.json_answers import (
    NUMBER,
    TEXT,
    WHOLE,
    YES_NO,
    Structure,
    choice_of,
    json_values,
    list_of,
    object_of,
    objects_in,
    value_at,
)
from pyterrier_ikat.completions.learned import highest_number, merge, read_learned
from pyterrier_ikat.completions.usable import (
    answer_text,
    collapsed,
    is_loop,
    is_refusal,
    one_line,
    own_turn,
    printable,
    readable,
    unquoted,
    usable_words,
    without_fences,
)

REFUSAL = "I'm sorry, but I can't help with that."


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


@pytest.mark.parametrize(("extra", "refused"), [(0, True), (1, False)])
def test_a_refusal_has_at_most_300_characters(extra, refused):
    text = f"{REFUSAL} Please ask about {'tea ' * 100}"
    text = text[: 299 + extra] + "."
    assert is_refusal(text) is refused
    assert (usable_words(text) == "") is refused


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


def test_what_a_terminal_obeys_is_removed_and_breaks_are_lines():
    assert printable("a\x1b[31mb\x1b]0;title\x07c\x9bd\x00e") == "abce"
    assert printable("a\r\nb\rc\x0bd\x0ce\tf") == "a\nb\nc\nd\ne\tf"
    assert one_line("x" * 500) == "x" * 200
    assert one_line(" a\n\x1b[0m b\u2028c ") == "a b c"


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


ANSWER = Structure(
    "answer",
    object_of(
        text=TEXT,
        share=NUMBER,
        count=WHOLE,
        holds=YES_NO,
        ids=list_of(WHOLE),
        label=choice_of([0, 1]),
    ),
)
FITS = {"text": "a", "share": 0.5, "count": 2, "holds": True, "ids": [1], "label": 1}


@pytest.mark.parametrize(
    ("changed", "fits"),
    [
        ({}, True),
        ({"share": 1}, True),
        ({"ids": []}, True),
        ({"text": 1}, False),
        ({"share": True}, False),
        ({"share": float("inf")}, False),
        ({"count": 2.5}, False),
        ({"count": True}, False),
        ({"holds": 1}, False),
        ({"ids": [1, "2"]}, False),
        ({"ids": [True]}, False),
        ({"label": 2}, False),
        ({"label": True}, False),
        ({"more": 1}, False),
    ],
)
def test_an_answer_as_json_fits_its_schema_exactly(changed, fits):
    answer = {**FITS, **changed}
    assert ANSWER.read(json.dumps(answer)) == (answer if fits else None)
    without = {name: value for name, value in answer.items() if name != "text"}
    assert ANSWER.read(json.dumps(without)) is None
    assert ANSWER.read(f"The answer: {json.dumps(answer)}") is None


@pytest.mark.parametrize(("brackets", "found"), [(49, [[1]]), (50, [])])
def test_a_search_stops_after_50_brackets_that_open_nothing(brackets, found):
    assert json_values("[x " * brackets + "[1]") == found


@pytest.mark.parametrize(("depth", "found"), [(99, True), (100, False)])
def test_lists_are_read_99_deep(depth, found):
    assert (value_at("[" * depth + "]" * depth, 0)[0] is not None) is found


def test_python_values_are_read_as_json_and_objects_found_inside():
    assert json_values("{'a': None, 'b': (1, 2)}") == [{"a": None, "b": [1, 2]}]
    assert json_values("{3, 1, 2}") == [[3, 1, 2]]
    assert json_values("[1], {'a': 2}") == [[1], {"a": 2}]
    assert objects_in([{"a": {"b": 1}}, [{"c": 2}]]) == [{"a": {"b": 1}}, {"b": 1}, {"c": 2}]


SAID = {1: "I moved to Oslo last May.", 2: "My sister lives in Lyon."}


def learned(statement, words="I moved to Oslo", message=1, **more):
    return {"statement": statement, "words": words, "message": message, **more}


@pytest.mark.parametrize(
    ("item", "counts"),
    [
        (learned("I live in Oslo."), True),
        (learned("I live in Oslo.", message="message 1"), True),
        (learned("x" * 300), True),
        (learned("x" * 301), False),
        (learned("Do I live in Oslo?"), False),
        (learned(""), False),
        (learned("I live in Oslo.", message=2), False),
        (learned("I live in Oslo.", message=3), False),
        (learned("I live in Oslo.", message=None), False),
        (learned("I live in Oslo.", words="moved to Os"), False),
        (learned("I moved to Oslo.", words=""), True),  # the statement's own words
        (learned("I live in Oslo.", words=""), False),
    ],
)
def test_a_statement_copies_whole_words_of_its_message(item, counts):
    merged = merge([item], {}, SAID)
    assert len(merged.statements) == int(counts)
    assert len(merged.dropped) == int(not counts)


def test_new_ids_follow_the_highest_and_the_taken_ones():
    known = {"2": "I own a dog.", "x": "I like tea."}
    items = [learned("I live in Oslo."), learned("I moved in May.", "last May")]
    assert list(merge(items, known, SAID).ptkb) == ["2", "x", "3", "4"]
    assert list(merge(items, known, SAID, taken=["9"]).ptkb) == ["2", "x", "10", "11"]
    assert highest_number(["a", "07", "3"]) == 7
    assert highest_number([]) == 0


def test_a_repeat_is_omitted_unless_it_replaces_another_one():
    known = {"1": "I live in Lyon.", "2": "I live in Oslo."}
    assert merge([learned("i live in oslo")], known, SAID).statements == []
    merged = merge([learned("I live in Oslo.", replaces=[1, 1, 2, 7])], known, SAID)
    assert merged.ptkb == {"2": "I live in Oslo."}
    (one,) = merged.statements
    assert (one["id"], one["replaces"], one["statement"]) == ("2", ["1"], "I live in Oslo.")
    assert merged.dropped == ["no known statement '7'"]


@pytest.mark.parametrize(
    ("text", "number"),
    [
        ("[]", 0),
        ('{"statements": []}', 0),
        ('[{"message": 1}, {"statement": "x"}, {"other": 1}]', 2),
        ('[{"message": 1}, {"statement": "x', None),
        ('[{"other": 1}]', None),
        ("I learned much.", None),
    ],
)
def test_a_list_of_learned_statements_is_whole_or_none(text, number):
    found = read_learned(text)
    assert (None if found is None else len(found)) == number
