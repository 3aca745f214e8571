"""Marks of citations: where a mark and a run of marks end, and which numbers they have."""

import pytest

from pyterrier_ikat.completions.citation_marks import mark_at, run_at, runs

UP_TO_21 = ", ".join(str(number) for number in range(1, 22))
MARKS = {
    # mark: (numbers, whether one has a name, whether it may be an interval)
    "[1]": ((1,), False, False),
    "[1, 2]": ((1, 2), False, True),
    "[1 - 2]": ((1, 2), False, True),
    "[2-1]": ((2, 1), False, True),
    "[1-100]": (tuple(range(1, 101)), False, True),
    "[1-101]": ((1, 101), False, True),
    "[3-3]": ((3,), False, True),
    "[1-2-4]": ((1, 2, 3, 4), False, False),
    "[1, 2, 3]": ((1, 2, 3), False, False),
    "[1; 2]": ((1, 2), False, False),
    "[1 / 2]": ((1, 2), False, False),
    "[1 and 2]": ((1, 2), False, False),
    "[1, 3-5, 9]": ((1, 3, 4, 5, 9), False, False),
    "[Doc 1]": ((1,), True, False),
    "[1, Doc 2]": ((1, 2), True, False),
    "[Doc 1, 2]": ((1, 2), True, False),
    "[1–Doc 3]": ((1, 2, 3), True, False),
    "[1 to 3]": ((1, 2, 3), False, True),
    "(Doc 1)": ((1,), True, False),
    "（Doc 1）": ((1,), True, False),
    "(see Doc 1, 4)": ((1, 4), True, False),
    "[see Doc 1]": ((1,), True, False),
    "[Source: 1]": ((1,), True, False),
    "[e.g., Doc 1]": ((1,), True, False),
    "【1†source】": ((1,), False, False),
    "【4:0†a】": ((0,), True, False),
    "[[1]]": ((1,), False, False),
    "［1］": ((1,), False, False),
    "[^1]": ((1,), False, False),
    "[ 1 ]": ((1,), False, False),
    "[1.]": ((1,), False, False),
    "[1](#a)": ((1,), False, False),
    "[1, p. 3]": ((1,), False, False),
    "[1, p. 3; 2, p. 4]": ((1, 2), False, False),
    "[1 (p. 3)]": ((1,), False, False),
    "[1, p. 3, line 4, sect. 5]": ((1,), False, False),
    "[1234]": ((1234,), False, False),
    "[¹²]": ((12,), False, False),
    "[١]": ((1,), False, False),
    f"[{UP_TO_21}]": (tuple(range(1, 22)), False, False),
}


@pytest.mark.parametrize("mark", MARKS)
def test_a_mark_has_its_numbers_and_ends_behind_its_bracket(mark):
    numbers, named, may_be_interval = MARKS[mark]
    assert mark_at(f"Oats {mark} keep.", 5) == (
        5,
        5 + len(mark),
        numbers,
        named,
        may_be_interval,
    )


@pytest.mark.parametrize(
    "text",
    [
        "(1)",
        "(Doc 1]",
        "[Doc 1)",
        "[see 1]",
        "[cf. 1]",
        "（1）",
        "(Doc 1†source)",
        "【4:0†a",
        "[[1]",
        "[   1]",
        "[1:]",
        "[1](#a b)",
        "[1](https://oats.org)",
        "[1](",
        "[1, p. 3, line 4, sect. 5, fig. 2]",
        "[12345]",
        "[oats]",
        "[]",
        "[1 2]",
        f"[{UP_TO_21}, 22]",
        "oats",
        "",
    ],
)
def test_what_is_no_mark(text):
    assert mark_at(text, 0) is None


def test_a_round_mark_may_stand_before_a_bracket():
    assert mark_at("（Doc 1）(oats)", 0) == (0, 7, (1,), True, False)
    assert mark_at("(Doc 1)(oats)", 0) == (0, 7, (1,), True, False)


RUNS = {
    # the marks: (where their run ends, numbers, whether they may be an interval)
    "[1][2]": (6, (1, 2), False),
    "[1]; and [2]": (12, (1, 2), False),
    "[1]    [2]": (3, (1,), False),
    "[1] or [2]": (3, (1,), False),
    "[1]\n[2]": (3, (1,), False),
    "[1]–[3]": (7, (1, 2, 3), True),
    "[1] to [3]": (10, (1, 2, 3), True),
    "[3]–[1]": (7, (3, 1), True),
    "[1]–[3, 7]": (10, (1, 2, 3, 7), False),
    "[1]-[2][3]": (10, (1, 2, 3), False),
    "[1][2]-[4]": (10, (1, 2, 3, 4), False),
    "[1, 2]-[4]": (10, (1, 2, 3, 4), False),
    "[Doc 1]–[3]": (11, (1, 2, 3), False),
    "[1, 2]": (6, (1, 2), True),
    "[1](#a)[2]": (10, (1, 2), False),
    "[1][oats]": (3, (1,), False),
    "**[1]**": (7, (1,), False),
    "*[1] and [2]*": (13, (1, 2), False),
    "**([1])**": (9, (1,), False),
    "**<b>[1]</b>**": (14, (1,), False),
    "**^[1]**": (8, (1,), False),
    "([1] [2])": (9, (1, 2), False),
    "( [1] )": (7, (1,), False),
    "(sources: [1])": (14, (1,), False),
    "<sup>[1]</sup>": (14, (1,), False),
    "<sup><a href='x'>[1]</a></sup>": (30, (1,), False),
    "<sup>[1][2]</sup><sup>[3]</sup>": (31, (1, 2, 3), False),
    "^[1]^": (5, (1,), False),
    "^[1] is": (4, (1,), False),
    "^(Doc 1)": (8, (1,), False),
}


@pytest.mark.parametrize("text", RUNS)
def test_a_run_ends_behind_its_last_mark_and_its_wrapping(text):
    end, numbers, may_be_interval = RUNS[text]
    run = run_at(text, 0)
    assert (run.start, run.end, run.numbers, run.may_be_interval) == (
        0,
        end,
        numbers,
        may_be_interval,
    )


@pytest.mark.parametrize("named", ["[Doc 1][2]", "[1][Doc 2]", "([Doc 1])", "*[Doc 1]–[3]*"])
def test_a_run_has_a_name_if_one_of_its_marks_has(named):
    assert run_at(named, 0).named
    assert not run_at(named.replace("Doc ", ""), 0).named


@pytest.mark.parametrize("text", ["**[1]*", "([1]", "（[1]）", "<sup>[1]", "<div>[1]</div>", "^1^"])
def test_a_run_that_is_not_closed_is_none(text):
    assert run_at(text, 0) is None


@pytest.mark.parametrize(
    ("between", "numbers"),
    [
        ((), [(1,), (2, 3), (4,)]),
        ((2,), [(1,), (2, 3), (4,)]),
        ((3,), [(2, 3), (4,)]),
        ((0, 8), [(1,)]),
        ((0, 9), [(1,), (2, 3)]),
        ((9, 15), [(3,)]),
    ],
)
def test_the_runs_that_begin_in_a_part_are_given_in_order(between, numbers):
    text = "a [1] b [2][3] [x] [7](http) (Doc 4)"
    assert [run.numbers for run in runs(text, *between)] == numbers


def test_behind_what_is_no_mark_the_next_is_found():
    assert [(run.start, run.end) for run in runs("[[x] [1] ([2] [3]")] == [(5, 8), (10, 17)]


TEXT = "Oats [1] and rye [2]. Tea [3]."


@pytest.mark.parametrize(
    ("start", "end", "numbers"),
    [
        (0, None, [(1,), (2,), (3,)]),
        (0, TEXT.index("[2]"), [(1,)]),
        (0, TEXT.index("[3]"), [(1,), (2,)]),
        (TEXT.index("[2]"), TEXT.index("[3]"), [(2,)]),
        (TEXT.index("[2]") + 1, None, [(3,)]),
    ],
)
def test_only_marks_that_begin_in_the_given_part_are_read(start, end, numbers):
    assert [run.numbers for run in runs(TEXT, start, end)] == numbers


@pytest.mark.parametrize(
    ("text", "numbers"),
    [
        ("[1]–[3]", (1, 2, 3)),
        ("[1]–[3, 5]", (1, 2, 3, 5)),
        ("[1, 2]–[4]", (1, 2, 3, 4)),
        ("[1] to [3, 5][7]", (1, 2, 3, 5, 7)),
        ("[1]-[2], [4]-[6]", (1, 2, 4, 5, 6)),
        ("[3]–[1, 5]", (3, 1, 5)),
        ("[1]–[200]", (1, 200)),
    ],
)
def test_a_range_of_marks_has_all_numbers_and_those_beside(text, numbers):
    (run,) = runs(text)
    assert (run.start, run.end, run.numbers) == (0, len(text), numbers)
