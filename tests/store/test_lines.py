"""Files of JSON lines: whole lines are read, a cut one is dropped, a damaged one is named."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pyterrier_ikat.errors import DataError
from pyterrier_ikat.store.files import append_line, drop_cut_line, read_lines


@given(st.integers(0, 60))
def test_a_cut_at_any_byte_loses_only_the_last_line(tmp_path_factory, size):
    path = tmp_path_factory.mktemp("lines") / "a.jsonl"
    for number in range(3):
        append_line(path, f'{{"number": {number}, "é": ""}}')
    whole = path.read_bytes()
    path.write_bytes(whole[:size])
    drop_cut_line(path)
    kept = whole[:size].count(b"\n")
    assert [(line, found["number"]) for line, found in read_lines(path)] == [
        (number + 1, number) for number in range(kept)
    ]
    append_line(path, '{"number": 9}')
    assert [found["number"] for _, found in read_lines(path)] == [*range(kept), 9]


def test_a_missing_file_has_no_lines(tmp_path):
    drop_cut_line(tmp_path / "a")
    assert list(read_lines(tmp_path / "a")) == []


@pytest.mark.parametrize("line", ["{", "[]", "1", ""])
def test_a_damaged_line_is_named(tmp_path, line):
    append_line(tmp_path / "a", "{}")
    append_line(tmp_path / "a", line)
    with pytest.raises(DataError, match="line 2"):
        list(read_lines(tmp_path / "a"))


def test_a_last_line_that_was_cut_is_not_read(tmp_path):
    for cut in (b'{"b"', b'{"b": 1}', b"\r"):
        (tmp_path / "a").write_bytes(b'{"a": "\xe2\x80\xa8"}\n' + cut)
        assert list(read_lines(tmp_path / "a")) == [(1, {"a": "\u2028"})]
