"""What is in the place of an index stays as it is, and each damaged file of an index is named."""

import re

import pytest

import pyterrier_ikat as ikat
from pyterrier_ikat.store.files import sample_checksum
from pyterrier_ikat.store.models import BUNDLED

PASSAGES = [{"docno": "d1", "text": "Rooibos has no caffeine."}]


def test_where_an_index_of_other_passages_is_it_is_left_as_it_is(tmp_path):
    path = tmp_path / "sample.index"
    ikat.PassageIndex(path).index(PASSAGES)
    with pytest.raises(ikat.UsageError, match="sample.index holds an index of other passages, or in another order: remove it,"):
        ikat.DenseIndex(path).index([*PASSAGES, {"docno": "d2", "text": "Coffee has."}], BUNDLED)
    assert [one.name for one in tmp_path.iterdir()] == ["sample.index"]


def test_of_anything_else_it_only_says_that_it_is_there(tmp_path):
    (tmp_path / "notes.txt").touch()
    with pytest.raises(ikat.UsageError, match=f"^{tmp_path} exists already: remove it"):
        ikat.PassageIndex(tmp_path).index(PASSAGES)
    assert [one.name for one in tmp_path.iterdir()] == ["notes.txt"]


@pytest.mark.parametrize("size", [0, 1, 65_536, 70_000, 5_000_000])
@pytest.mark.parametrize("at", [0.0, 0.5, 1.0])
def test_a_checksum_of_places_sees_what_was_overwritten_at_either_end_and_of_a_small_file_anywhere(tmp_path, size, at):
    path = tmp_path / "file"
    path.write_bytes(bytes(range(256)) * (size // 256) + b"x" * (size % 256))
    before = sample_checksum(path)
    assert sample_checksum(path) == before
    if size:
        content = bytearray(path.read_bytes())
        start = min(round(at * size), size - 1) if size <= 4 << 20 or at != 0.5 else size // 3
        width = 1 if size <= 4 << 20 or at != 0.5 else size // 60  # of a large file, a run of zeros as a broken copy leaves
        content[start : start + width] = bytes(1 if content[start] else 2 for _ in content[start : start + width])
        path.write_bytes(content)
        assert sample_checksum(path) != before


@pytest.mark.parametrize("rubbish", [bytes, lambda size: b"\xff" * size])
def test_each_damaged_file_of_an_index_is_named_before_it_is_searched(tmp_path, rubbish):
    ikat.PassageIndex(tmp_path / "i").index([{"docno": f"d{number}", "text": "green tea"} for number in range(20)])
    files = [path for path in sorted((tmp_path / "i").rglob("*")) if path.is_file()]
    assert len(files) > 10
    for path in files:
        whole = path.read_bytes()
        path.write_bytes(rubbish(len(whole)))
        with pytest.raises(ikat.DataError, match=f"{re.escape(path.name)} (can't be read|has other content than was written)"):
            ikat.PassageIndex(tmp_path / "i").describe()
        path.write_bytes(whole)
    assert len(ikat.PassageIndex(tmp_path / "i")) == 20
