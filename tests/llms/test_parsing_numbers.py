"""Grades and scales within texts."""

import re

import pytest

from pyterrier_ikat.completions.verdicts import grade, without_scale

GRADES = ["3", "3.", "3.0", "3,0", "3/4", "3 / 4 stars", "3 out of 4", "3 (out of 4)", "3 of 4", "3: fine", "3, not 4, as", "3-fold"]
GRADES += ["3, 2 huts", "3 - 20 huts", "3 and 2 huts", "3 (of the 5 huts)", "3/4 — 2 huts", "3\n2. fee", "3 stars", "3 or so"]
NO_GRADES = ["3/5", "3%", "3.0 %", "3 percent", "3 to 4", "3 or 4", "3-4", "3 - 4", "3–4", "3~4", "3...4", "3, 4", "3 4", "3 bis 4", "3,5"]
NO_GRADES += [
    "3.5",
    "3 out of 10",
    "3 (out of 10)",
    "3 points of 10",
    "3 stars out of 5",
    "3 von 5",
    "3/40",
    "3/4 or 2/4",
    "3/4, 2/4",
    "3/4.5",
]


@pytest.mark.parametrize("text", GRADES)
def test_a_number_that_stands_for_itself_is_a_grade(text):
    found = re.match(grade(4), text)
    assert found is not None
    assert found[1] == "3"


@pytest.mark.parametrize("text", NO_GRADES)
def test_a_share_a_range_and_a_number_on_another_scale_are_none(text):
    assert re.match(grade(4), text) is None


def test_a_sign_belongs_to_the_number_unless_it_joins_two_words():
    assert re.match(grade(3), "-1")[1] == "-1"
    assert re.search(grade(3), "score-1")[1] == "1"


@pytest.mark.parametrize("scale", ["0-4", "0 - 4", "0–4", "0 to 4", "0 TO 4"])
def test_a_scale_that_is_repeated_is_taken_out(scale):
    assert without_scale(f"Score ({scale}): 2", 4) == "Score (): 2"
    assert without_scale(f"Score ({scale}): 2", 3) == f"Score ({scale}): 2"
    assert without_scale("10-4 and 0-4.5", 4) == "10-4 and 0-4.5"
