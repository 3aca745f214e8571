"""Signs of other scripts, read as those of ASCII."""

import pytest

from pyterrier_ikat.completions.signs import plain_signs


@pytest.mark.parametrize(
    ("text", "plain"),
    [
        ("é1", "é1"),
        ("①⑤", " 1  5 "),
        ("㊿x", " 50 x"),
        ("x²Ⓐ", "x²Ⓐ"),
        ("１२٣", "123"),
        ("【（｛，、،；؛：＃］", "[({,,,;;:#]"),
    ],
)
def test_digits_and_brackets_become_those_of_ascii(text, plain):
    assert plain_signs(text) == plain


@pytest.mark.parametrize(
    ("sign", "plain"),
    list(zip("［］【】〔〕（）｛｝，、،；؛：＃", "[][][](){},,,;;:#", strict=True))
    + [("１", "1"), ("٥", "5"), ("१", "1"), ("③", " 3 "), ("²", "²"), ("茶", "茶")],
)
def test_signs_of_other_scripts_are_read_as_those_of_ascii(sign, plain):
    assert plain_signs(f"a{sign}") == f"a{plain}"
