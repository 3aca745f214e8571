"""Index folders of other packages: what they are, and what opens them."""

import json

import pytest

import pyterrier_ikat as ikat
from pyterrier_ikat.retrieve.formats import FORMATS, format_of, how_to_open, is_lucene
from pyterrier_ikat.study import open_systems

FILES = {
    # an index of Anserini 0.22.1, and one that a copy left without its commit
    "segments_2l": "Lucene",
    "_0.cfs": "Lucene",
    # terrierteam/pyterrier_pisa, __init__.py
    "pt_pisa_config.json": "PISA",
    # terrier-org/terrier-core, IndexOnDisk.java
    "data.properties": "Terrier",
    # terrierteam/pyterrier_dr, flex/core.py
    "vecs.f4": "pyterrier_dr's FlexIndex",
    # naver/splade, splade/indexing/inverted_index.py
    "array_index.h5py": "naver's SPLADE",
}
OPENED_BY = {
    "data.properties": "pt.terrier.Retriever",
    "vecs.f4": "pyterrier_dr.FlexIndex",
    "array_index.h5py": "naver/splade",
}


def folder_with(tmp_path, name):
    folder = tmp_path / "theirs"
    folder.mkdir()
    (folder / name).write_bytes(b"{}")
    return folder


@pytest.mark.parametrize("name", FILES)
def test_a_format_is_told_by_its_files(tmp_path, name):
    assert format_of(folder_with(tmp_path, name)).name == FILES[name]


def test_each_row_of_the_table_is_tried_here():
    assert {entry.name for entry in FORMATS} == set(FILES.values())


def test_the_description_of_pyterrier_names_pisa(tmp_path):
    folder = folder_with(tmp_path, "pt_meta.json")
    assert format_of(folder) is None
    (folder / "pt_meta.json").write_text(json.dumps({"type": "sparse_index", "format": "pisa"}))
    assert format_of(folder).name == "PISA"


@pytest.mark.parametrize("name", OPENED_BY)
def test_what_opens_a_foreign_index_is_one_line(tmp_path, name):
    folder = folder_with(tmp_path, name)
    for opening in (
        lambda: ikat.PassageIndex(folder).bm25(),
        lambda: ikat.DenseIndex(folder).dense(),
        lambda: open_systems(["raw"], index=str(folder)),
    ):
        with pytest.raises(ikat.IkatError, match=OPENED_BY[name]) as caught:
            opening()
        assert FILES[name] in str(caught.value)
        assert "remove" not in str(caught.value)
        assert "\n" not in str(caught.value)


def test_an_unknown_folder_is_shown_by_its_files(tmp_path):
    folder = folder_with(tmp_path, "essay.txt")
    with pytest.raises(ikat.DataError, match=r"no index that is known here, but essay\.txt"):
        open_systems(["raw"], index=str(folder))


def test_an_index_can_be_made_in_an_empty_folder(tmp_path):
    with pytest.raises(ikat.DataError, match="make it with"):
        open_systems(["raw"], index=str(tmp_path))


@pytest.mark.parametrize("name", [*FILES, "essay.txt"])
def test_nothing_is_built_over_a_foreign_folder(tmp_path, name):
    folder = folder_with(tmp_path, name)
    named = rf" as an index of {FILES[name]}" if name in FILES else ""
    with pytest.raises(ikat.UsageError, match=f"exists already{named}: give a new path") as caught:
        ikat.PassageIndex(folder).index([{"docno": "d1", "text": "tea"}])
    assert "remove" not in str(caught.value)
    assert [path.name for path in folder.iterdir()] == [name]


def test_half_an_index_of_lucene_is_to_be_copied_again(tmp_path):
    folder = folder_with(tmp_path, "_0.fdt")
    with pytest.raises(ikat.DataError, match="isn't whole .*copy it again"):
        open_systems(["raw"], index=str(folder))


def test_a_folder_without_lucenes_files_is_no_lucene_index(tmp_path):
    for folder, reason in ((tmp_path, "the folder is empty"), (tmp_path / "no", "no such folder")):
        with pytest.raises(ikat.UsageError, match=reason):
            ikat.LuceneIndex(folder).bm25()


def test_any_description_that_names_no_format_is_of_none(tmp_path):
    for content in ("[1]", "no JSON", '{"format": "other"}', '{"format": null}'):
        (tmp_path / "pt_meta.json").write_text(content)
        assert format_of(tmp_path) is None
    (tmp_path / "segments_1").mkdir()  # a folder is no file of Lucene
    assert format_of(tmp_path) is None


@pytest.mark.parametrize(
    ("names", "told"),
    [
        ([], ""),
        ([".hidden"], ""),
        (
            ["d", "c", "b", "a", ".hidden"],
            "{path} holds no index that is known here, but a, b, c and 1 more: "
            "give the folder of an index",
        ),
        (
            ["segments_1"],
            "{path} is an index of Lucene: open it with ikat.LuceneIndex({path!r})",
        ),
        (
            ["inv.docs"],
            "{path} is an index of PISA: open it with ikat.SpladeIndex({path!r}, model)",
        ),
        (
            ["vecs.f4"],
            "{path} is an index of pyterrier_dr's FlexIndex: open it with retriever=an encoder of "
            "pyterrier_dr >> pyterrier_dr.FlexIndex({path!r}).retriever()",
        ),
    ],
    ids=["empty", "hidden", "unknown", "Lucene", "PISA", "FlexIndex"],
)
def test_how_a_folder_is_opened_is_told_in_one_line(tmp_path, names, told):
    for name in names:
        (tmp_path / name).write_bytes(b"")
    assert how_to_open(tmp_path) == told.format(path=str(tmp_path))
    assert is_lucene(tmp_path) is (names == ["segments_1"])


def test_a_file_or_nothing_in_the_place_of_a_folder(tmp_path):
    assert how_to_open(tmp_path / "none") == ""
    (tmp_path / "file").write_bytes(b"")
    told = f"{tmp_path / 'file'} is a file: give the folder of an index"
    assert how_to_open(tmp_path / "file") == told


@pytest.mark.parametrize(
    ("name", "expected"),
    [("_3.si", "Lucene"), ("_1a.fdt", "Lucene"), ("segments_1", "Lucene"), ("inv.docs", "PISA")],
)
def test_one_file_of_a_format_is_enough(tmp_path, name, expected):
    assert format_of(folder_with(tmp_path, name)).name == expected


def test_the_first_format_of_the_table_is_that_of_a_mixed_folder(tmp_path):
    folder = folder_with(tmp_path, "vecs.f4")
    assert not is_lucene(folder)
    (folder / "segments_1").touch()
    assert is_lucene(folder)


@pytest.mark.parametrize(
    ("names", "shown"),
    [
        (["a"], "a"),
        (["b", "a"], "a, b"),
        (["c", "b", "a"], "a, b, c"),
        (["e", "d", "c", "b", "a"], "a, b, c and 2 more"),
    ],
)
def test_the_first_three_names_of_a_folder_are_shown(tmp_path, names, shown):
    for name in names:
        (tmp_path / name).touch()
    told = f"{tmp_path} holds no index that is known here, but {shown}: give the folder of an index"
    assert how_to_open(tmp_path) == told
