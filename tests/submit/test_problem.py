"""Problems of a file: their places and lines, and the values that are read from it."""

from string import ascii_lowercase

import pytest

from pyterrier_ikat.errors import UsageError
from pyterrier_ikat.submit.problem import (
    Place,
    Problem,
    format_problems,
    list_errors,
    printable,
    read_json_values,
    short_json,
    write_checked,
)


@pytest.mark.parametrize("severity", ["error", "warning"])
def test_equal_problems_are_one_line_with_the_first_five_turns(severity):
    turns = [f"9-1_{number}" for number in range(1, 53)]
    same = [Problem(severity, turn, "responses[0].text", "look") for turn in turns]
    names = "9-1_1, 9-1_2, 9-1_3, 9-1_4, 9-1_5"
    others = [
        Problem("error", "", "run_name", "no"),
        Problem("warning", "9-1_3", "responses[0].text", "other"),
    ]
    assert format_problems([*same, *others]) == [
        f"{severity}: 52 turns ({names} and 47 more), responses[0].text: look",
        "error: run_name: no",
        "warning: turn 9-1_3, responses[0].text: other",
    ]
    assert format_problems(same[:5]) == [f"{severity}: 5 turns ({names}), responses[0].text: look"]


def test_numbers_of_several_digits_are_one_line_with_others():
    problems = [
        Problem("error", "1_1", "passages[3].score", "high"),
        Problem("error", "1_1", "passages[12].score", "high"),
    ]
    assert format_problems(problems) == ["error: turn 1_1, passages[].score: high (2 times)"]


def test_problems_beyond_the_most_lines_are_counted():
    problems = [Problem("error", "", f"field{letter}", "look") for letter in "abcd"]
    assert format_problems(problems, 4) == [
        "error: fielda: look",
        "error: fieldb: look",
        "error: fieldc: look",
        "error: fieldd: look",
    ]
    lines = format_problems(problems, 2)
    assert lines == ["error: fielda: look", "error: fieldb: look", "and 2 more"]


def test_equal_problems_of_one_turn_name_their_number_and_fields():
    twice = [
        Problem("error", "1_1", "passages[3].score", "high"),
        Problem("error", "1_1", "passages[5].score", "high"),
    ]
    assert format_problems(twice) == ["error: turn 1_1, passages[].score: high (2 times)"]
    of_file = [Problem("error", "", "line 3", "cut"), Problem("error", "", "line 5", "cut")]
    assert format_problems(of_file) == ["error: line 3, line 5: cut (2 times)"]
    apart = [Problem(severity, "1_1", "text", "look") for severity in ("error", "warning")]
    assert len(format_problems(apart)) == 2


def test_a_place_names_fields_entries_and_turn():
    place = Place()
    inner = place.at("responses", 0, "passages", 12)
    inner.of_turn("1_1").at("text").warning("look")
    inner.at("score").error("high")
    assert place.problems == [
        Problem("warning", "1_1", "text", "look"),
        Problem("error", "", "responses[0].passages[12].score", "high"),
    ]


def test_texts_in_messages_are_printable_and_short():
    assert printable("a" * 60) == "a" * 60
    assert printable("a" * 61) == "a" * 57 + "..."
    assert printable("a\x1b[2Jb") == "a?[2Jb"
    assert short_json([1, 2]) == "an array of 2"
    assert short_json("caf\u00e9") == '"caf\u00e9"'


@pytest.mark.parametrize(
    ("text", "values", "fields"),
    [
        (b'{"a": 1}', [(1, {"a": 1})], []),
        (b'\xef\xbb\xbf{"a": 1}', [(1, {"a": 1})], [""]),
        (b'{"a": 1}\n\n{"b": 2}\n', [(1, {"a": 1}), (3, {"b": 2})], []),
        (b'{"a": 1}\n \t\n{"b": 2}', [(1, {"a": 1}), (3, {"b": 2})], []),
        (
            '{"a": "one\u2028two\u0085"}\n{"b": 2}'.encode(),
            [(1, {"a": "one\u2028two\u0085"}), (2, {"b": 2})],
            [],
        ),
        (b'{"a": 1}\n{"b"\n', [(1, {"a": 1})], ["line 2"]),
        (b'{"a": 1}\n{"b"\n{"c"\n', [], [""]),
        (b"1\n2\n", [], [""]),
        (b"", [], [""]),
        (b"\xff", [], [""]),
    ],
)
def test_the_values_of_a_file_have_their_lines(tmp_path, text, values, fields):
    (tmp_path / "out").write_bytes(text)
    place = Place()
    assert read_json_values(tmp_path / "out", place) == values
    assert [problem.field for problem in place.problems] == fields


def test_twenty_errors_are_listed_and_the_rest_is_counted():
    problems = [Problem("error", "", f"field {letter}", "bad") for letter in ascii_lowercase[:22]]
    text = list_errors("it is bad", [*problems, Problem("warning", "", "x", "look")])
    lines = text.split("\n")
    assert lines[0] == "it is bad, 22 errors:"
    assert (len(lines), lines[-1]) == (22, "and 2 more")


def test_a_problem_of_the_file_and_one_of_a_turn_are_two_lines():
    problems = [Problem("error", "", "text", "bad"), Problem("error", "1_1", "text", "bad")]
    assert format_problems(problems) == ["error: text: bad", "error: turn 1_1, text: bad"]
    assert str(Problem("error", "", "", "bad")) == "error: bad"


def test_names_in_a_place_can_be_printed():
    place = Place().of_turn("1\x1b_1").at("a\nb", 0, "c\x07")
    place.error("bad")
    [problem] = place.problems
    assert (problem.turn, problem.field) == ("1?_1", "a?b[0].c?")


def test_a_file_is_written_when_the_check_finds_no_error(tmp_path):
    seen = []

    def check(path):
        with open(path, encoding="utf-8") as file:
            seen.append(file.read())
        return [Problem("warning", "", "", "look")]

    found = write_checked(tmp_path / "out", ["a\n", "b\n"], check)
    assert [problem.message for problem in found] == ["look"]
    assert seen == ["a\nb\n"] == [(tmp_path / "out").read_text()]
    with pytest.raises(UsageError, match=r"can't be written \([A-Z][a-z ]+\):"):
        write_checked(tmp_path / "out" / "x", [], check)
