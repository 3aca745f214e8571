"""What a SPLADE index is told apart by: files whatever their size, and the same by any copy where that is asked."""

import os
import shutil

import pytest

import pyterrier_ikat as ikat
from pyterrier_ikat.retrieve.splade import FORMAT, META
from pyterrier_ikat.store.files import write_description
from pyterrier_ikat.store.models import ENDS


@pytest.fixture
def index(tmp_path):
    """An index as far as its fingerprint looks at it; its model's weights have the bytes 1."""
    (tmp_path / "model").mkdir()
    (tmp_path / "model" / "weights").write_bytes(bytes([1]) * 8)
    (tmp_path / "index" / "splade").mkdir(parents=True)
    (tmp_path / "index" / "splade" / "inv.docs").write_bytes(bytes(2 * ENDS + 8))
    write_description(tmp_path / "index" / META, {"format": FORMAT, "model": str(tmp_path / "model"), "count": 1})
    return ikat.SpladeIndex(tmp_path / "index")


def test_a_file_that_changed_in_its_middle_is_another_index(index, tmp_path):
    known = index.fingerprint()
    assert index.fingerprint() == known
    path = tmp_path / "index" / "splade" / "inv.docs"
    with path.open("r+b") as file:
        file.seek(ENDS + 4)
        file.write(b"1")
    os.utime(path, ns=(1, 1))
    with pytest.raises(ikat.DataError, match="is damaged: splade/inv.docs has other content"):
        index.fingerprint()
    (tmp_path / "index" / META).unlink()
    write_description(tmp_path / "index" / META, {"format": FORMAT, "model": str(tmp_path / "model"), "count": 1})
    assert index.fingerprint() != known


def test_the_first_word_is_that_of_every_copy_and_of_no_other_model(index, tmp_path):
    first, second = index.fingerprint().split()
    for name in ("model", "index"):
        (tmp_path / name).rename(tmp_path / f"{name} there")
        shutil.copytree(tmp_path / f"{name} there", tmp_path / name, copy_function=shutil.copyfile)
        for path in (tmp_path / name).rglob("*"):
            os.utime(path, ns=(1, 1))
    copied, changed = index.fingerprint().split()
    assert copied == first
    assert changed != second
    (tmp_path / "model" / "weights").write_bytes(bytes([2]) * 8)
    assert index.fingerprint().split()[0] != first
