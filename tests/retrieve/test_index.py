"""One folder for BM25, SPLADE and dense vectors over the same passages."""

import json
import tarfile
from pathlib import Path

import pandas as pd
import pytest
from lz4.frame import LZ4FrameFile

import pyterrier_ikat as ikat
from pyterrier_ikat.errors import commands_advised
from pyterrier_ikat.store.models import BUNDLED
from pyterrier_ikat.study.resources import Resources

CORPUS = [
    {"docno": "d2", "text": "green tea"},
    {"docno": "d1", "text": "the train runs late"},
    {"docno": "d3", "text": "a green plant"},
]
ASKED = pd.DataFrame({"qid": ["1", "2"], "query": ["green tea", "late train"]}, dtype=object)


def unpacked(package, folder):
    """Unpack file by file: `extractall` needs a filter from Python 3.12 on, which 3.11.2 lacks."""
    with LZ4FrameFile(package) as file, tarfile.open(fileobj=file, mode="r|") as members:
        for member in members:
            path = folder / member.name
            if member.isfile():
                path.parent.mkdir(parents=True, exist_ok=True)
                path.write_bytes(members.extractfile(member).read())
    return str(folder)


@pytest.fixture(scope="module")
def build(model):
    """Kind -> what builds it at a path."""
    return {
        "bm25": lambda path: ikat.PassageIndex(path).index(iter(CORPUS)),
        "splade": lambda path: ikat.Splade(model).index(path, iter(CORPUS)),
        "dense": lambda path: ikat.DenseIndex(path).index(iter(CORPUS), BUNDLED),
    }


@pytest.fixture(scope="module")
def alone(build, tmp_path_factory):
    """Kind -> what its index finds that is alone in a folder."""
    folder = tmp_path_factory.mktemp("alone")
    found = {}
    for kind, build_alone in build.items():
        found[kind] = build_alone(folder / kind).retriever()(ASKED)
    return found


@pytest.fixture(scope="module")
def together(build, tmp_path_factory):
    path = tmp_path_factory.mktemp("together") / "i"
    for of in build.values():
        of(path)
    return ikat.Index(path)


@pytest.mark.parametrize(
    "order", [("bm25", "splade", "dense"), ("dense", "bm25", "splade"), ("splade", "dense", "bm25")]
)
def test_each_kind_added_to_the_others_finds_as_it_does_alone(build, alone, order, tmp_path):
    for count, kind in enumerate(order, 1):
        build[kind](tmp_path / "i")
        assert sorted(ikat.Index(tmp_path / "i").kinds) == sorted(order[:count])
    index = ikat.Index(tmp_path / "i")
    for kind in order:
        pd.testing.assert_frame_equal(index.open(kind).retriever()(ASKED), alone[kind])
    assert [one.name for one in tmp_path.iterdir()] == ["i"]
    assert sorted(one.name for one in (tmp_path / "i").iterdir()) == [
        "bm25-3",
        "dense-3",
        "pt_meta.json",
        "splade-3",
        "texts.db",
    ]
    for kind in order:
        build[kind](tmp_path / "i")  # they are all there


def test_the_texts_are_those_of_the_folder(together):
    assert together.text_loader()(pd.DataFrame({"docno": ["d1", "d2"]}))["text"].tolist() == [
        "the train runs late",
        "green tea",
    ]
    assert repr(together) == f"ikat.Index({together.path!r})"
    assert together == ikat.Index(together.path) != ikat.Index("elsewhere")
    assert len({together, ikat.Index(together.path)}) == 1


def test_to_an_index_without_texts_nothing_is_added(build, tmp_path):
    package = build["bm25"](tmp_path / "i").build_package(
        str(tmp_path / "i.tar.lz4"), verbose=False
    )
    path = unpacked(package, tmp_path / "bare")
    with pytest.raises(ikat.UsageError, match="exists already: give a new path"):
        build["dense"](path)


def test_a_package_has_one_kind_and_opens_as_that(together, tmp_path, alone):
    for kind in together.kinds:
        package = together.open(kind).build_package(
            str(tmp_path / f"{kind}.tar.lz4"), texts=True, verbose=False
        )
        opened = ikat.Index(unpacked(package, tmp_path / kind))
        assert opened.kinds == [kind]
        pd.testing.assert_frame_equal(opened.open().retriever()(ASKED), alone[kind])


def test_words_are_meant_where_there_are_several_or_it_is_said(together, build, tmp_path):
    one = str(build["bm25"](tmp_path / "i").path)
    path = together.path
    opened = [ikat.Index(path).open(kind) for kind in together.kinds]
    assert [type(index) for index in opened] == [
        ikat.PassageIndex,
        ikat.SpladeIndex,
        ikat.DenseIndex,
    ]
    assert type(ikat.Index(one).open()) is type(ikat.Index(path).open()) is ikat.PassageIndex
    vectors = str(build["splade"](tmp_path / "vectors").path)
    build["dense"](tmp_path / "vectors")
    for (where, *kind), message in (
        ((vectors,), r"holds splade, dense: choose one, retriever='splade' or retriever='dense'$"),
        ((one, "dense"), r"holds bm25, not dense: `ikat index SOURCE .*/i --dense MODEL` adds it"),
        ((one, "bm52"), r"retriever='bm52' is unknown: give one of bm25, splade, dense"),
        ((path, "bm25", "some/model"), "is a passage index for BM25: omit splade_model="),
        (
            (str(tmp_path / "none"), "dense"),
            "there is no such folder; make it with ikat.DenseIndex",
        ),
    ):
        with pytest.raises((ikat.UsageError, ikat.DataError), match=message):
            ikat.Index(where).open(*kind)
    with (
        commands_advised(),
        pytest.raises(
            ikat.UsageError, match=r"choose one, --resources retriever=splade or --res.*=dense$"
        ),
    ):
        ikat.Index(vectors).open()
    with pytest.raises(
        ikat.UsageError,
        match="retriever='dense' names what the folder of index=... holds: give that folder, too",
    ):
        Resources(retriever="dense").opened(None, {})


def test_a_model_that_has_moved_is_named_as_the_folder_is_opened(together):
    assert ikat.Index(together.path).open("dense", BUNDLED) == ikat.DenseIndex(
        together.path, BUNDLED
    )


@pytest.mark.parametrize("added", [[], [{"docno": "d4", "text": "a red plant"}]])
def test_an_index_of_another_version_is_refused_and_built_again(added, tmp_path):
    path = str(tmp_path / "i")
    index = ikat.PassageIndex(path).index(CORPUS)
    ikat.DenseIndex(path).index(CORPUS, BUNDLED)
    expected = index.bm25()(ASKED)
    about = Path(path) / "bm25-3" / "ikat.json"
    described = json.loads(about.read_text(encoding="utf-8"))
    about.write_text(json.dumps({**described, "format": described["format"] - 1}), encoding="utf-8")
    line = (
        rf"has format {described['format'] - 1}, .*: build it again with "
        rf"ikat\.PassageIndex\('.*i'\)\.index\(corpus\)$"
    )
    for refused in (
        lambda: ikat.PassageIndex(path).bm25(),
        lambda: ikat.Index(path).open(),
        lambda: ikat.Index(path).add(added or CORPUS),
    ):
        with pytest.raises(ikat.DataError, match=line):
            refused()
    with (
        commands_advised(),
        pytest.raises(ikat.DataError, match=r"build it again with `ikat index SOURCE .*i`$"),
    ):
        ikat.PassageIndex(path).opened()
    assert len(ikat.DenseIndex(path)) == 3  # the other kinds have the same format as before
    built = ikat.PassageIndex(path).index(CORPUS)
    pd.testing.assert_frame_equal(built.bm25()(ASKED), expected)
    assert len(built.add(added) if added else built) == 3 + len(added)
