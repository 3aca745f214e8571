"""Who finds an index where a new one was to be is told first how to open it."""

import pytest

import pyterrier_ikat as ikat
from pyterrier_ikat.errors import commands_advised
from pyterrier_ikat.retrieve import passage_index, splade_index
from pyterrier_ikat.retrieve.whole_folder import free_place, whole_folder

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


@pytest.mark.parametrize(("description", "opens"), [(passage_index.META, ikat.PassageIndex), (splade_index.META, ikat.SpladeIndex)])
def test_each_kind_of_index_is_opened_by_its_own_class(description, opens, tmp_path):
    (tmp_path / description).touch()
    with pytest.raises(ikat.UsageError, match=rf"^ikat\.{opens.__name__}\('.*'\) opens"), whole_folder(tmp_path):
        pass


def test_of_anything_else_it_only_says_that_it_is_there(tmp_path):
    (tmp_path / "notes.txt").touch()
    with pytest.raises(ikat.UsageError, match=f"^{tmp_path} exists already: remove it"):
        free_place(tmp_path)
