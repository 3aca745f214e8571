import pytest

from pyterrier_ikat.submit.problem import MAX_32_BIT, short_json


@pytest.mark.parametrize(
    ("value", "words"),
    [
        ({"rank": 1}, "an object of 1"),
        ([1, 2], "an array of 2"),
        (10**400, "a number of more than 38 digits"),
        (-(10**400), "a number of more than 38 digits"),
        (int(MAX_32_BIT), "340282346638528859811704183484516925440"),
        (True, "true"),
        (None, "null"),
        (2.5, "2.5"),
        ("café\n", '"café\\n"'),
        ("w" * 100, '"' + "w" * 56 + "..."),
    ],
)
def test_values_are_shown_as_json_and_short(value, words):
    assert short_json(value) == words
