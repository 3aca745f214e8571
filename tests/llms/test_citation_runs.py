"""Marks beside each other: where their runs begin and end, and the numbers of ranges."""

import pytest

from pyterrier_ikat.completions.citation_marks import runs
from pyterrier_ikat.completions.citations import read_citations

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


def test_a_line_of_marks_cites_whatever_the_next_line_cites():
    cited = read_citations("Oats are cheap.\n[1] | [2]\nRye keeps [3].", 5)
    assert [sentence.numbers for sentence in cited.sentences] == [(1, 2), (3,)]


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
