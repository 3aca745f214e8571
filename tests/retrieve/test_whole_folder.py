"""Who finds an index where a new one was to be is told first how to open it."""

import re

import pytest

import pyterrier_ikat as ikat
from pyterrier_ikat.errors import commands_advised
from pyterrier_ikat.retrieve import passage_index, splade
from pyterrier_ikat.retrieve.artifact import refuse_other_index
from pyterrier_ikat.store.files import atomic_folder, sample_checksum

PASSAGES = [{"docno": "d1", "text": "Rooibos has no caffeine."}]


def test_where_an_index_of_another_kind_is_it_says_first_how_that_is_opened(tmp_path):
    path = tmp_path / "sample.index"
    ikat.PassageIndex(path).index(PASSAGES)
    with pytest.raises(ikat.UsageError) as raised:
        ikat.Splade("some/model").index(path, PASSAGES)
    said = f"ikat.PassageIndex('{path}') opens the index that is there; for a new one: {path} exists already: remove it,"
    assert str(raised.value) == f"{said} or give a path where nothing is"
    with commands_advised(), pytest.raises(ikat.UsageError, match=rf"^--index {path} takes the index that is there; for a new one: "):
        ikat.Splade("some/model").index(path, PASSAGES)


@pytest.mark.parametrize(("description", "opens"), [(passage_index.META, ikat.PassageIndex), (splade.META, ikat.SpladeIndex)])
def test_each_kind_of_index_is_opened_by_its_own_class(description, opens, tmp_path):
    (tmp_path / description).touch()
    with pytest.raises(ikat.UsageError, match=rf"^ikat\.{opens.__name__}\('.*'\) opens"):
        refuse_other_index(tmp_path)


def test_of_anything_else_it_only_says_that_it_is_there(tmp_path):
    (tmp_path / "notes.txt").touch()
    with pytest.raises(ikat.UsageError, match=f"^{tmp_path} exists already: remove it"), atomic_folder(tmp_path):
        pass


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
