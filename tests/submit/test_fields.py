import pytest

from pyterrier_ikat.submit.problem import short_json


@pytest.mark.parametrize(
    ("value", "words"),
    [
        ({"rank": 1}, "an object of 1"),
        ([1, 2], "an array of 2"),
        (True, "true"),
        (None, "null"),
        (2.5, "2.5"),
        ("café\n", '"café\\n"'),
        ("w" * 100, '"' + "w" * 56 + "..."),
    ],
)
def test_values_are_shown_as_json_and_short(value, words):
    assert short_json(value) == words
