"""The folder of an index: what may be there before, what is left, and which engine is opened."""

import json
import os
import shutil
from contextlib import closing
from pathlib import Path
from types import SimpleNamespace

import pyterrier as pt
import pytest
from retrieve.folders import CORPUS, MORE, read_description, write_description

import pyterrier_ikat as ikat
from pyterrier_ikat.errors import commands_advised
from pyterrier_ikat.retrieve import artifact
from pyterrier_ikat.retrieve.artifact import engine_folder, made_by_pyterrier
from pyterrier_ikat.retrieve.texts import TextStore


def found(path, query="tea"):
    return ikat.PassageIndex(path).bm25().search(query)["docno"].tolist()


def names(path):
    return sorted(file.name for file in Path(path).iterdir())


@pytest.mark.parametrize(
    ("folders", "expected"),
    [
        ([], None),
        (["bm25-2"], "bm25-2"),
        (["bm25-9", "bm25-10", "bm25-2"], "bm25-10"),
        (["bm25-x", "bm25-", "bm25-1.5", "bm25"], None),
        (["bm25-0"], None),
        (["dense-7", "bm25-3"], "bm25-3"),
    ],
)
def test_the_engine_is_that_of_the_most_passages(tmp_path, folders, expected):
    for name in folders:
        (tmp_path / name).mkdir()
    found = engine_folder(tmp_path, "bm25")
    assert found == (None if expected is None else tmp_path / expected)


@pytest.mark.parametrize(
    ("files", "is_theirs"),
    [
        (["pt_meta.json", "inv.docs"], True),
        (["pt_pisa_config.json"], True),
        (["inv.docs"], False),
        (["pt_meta.json"], False),
        (["pt_meta.json", "segments_1"], False),
        (["pt_meta.json", "inv.docs", "texts.db"], False),
        (["pt_meta.json", "inv.docs", "ikat.json"], False),
        (["pt_meta.json", "inv.docs", "bm25-2/ikat.json"], False),
    ],
)
def test_an_index_of_pyterrier_is_told_from_ours(tmp_path, files, is_theirs):
    for name in files:
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text("{}")
    assert made_by_pyterrier(tmp_path) is is_theirs


@pytest.mark.parametrize("below", ["", "i", "deep/i"])
def test_no_index_is_made_in_the_place_of_a_file(tmp_path, below):
    (tmp_path / "file").write_text("notes")
    with pytest.raises(ikat.UsageError, match=f"{tmp_path / 'file'} is a file, and an index is a"):
        ikat.PassageIndex(tmp_path / "file" / below).index(CORPUS)
    assert names(tmp_path) == ["file"]


def test_an_empty_folder_and_a_missing_parent_are_filled(tmp_path):
    (tmp_path / "empty").mkdir()
    for path in (tmp_path / "empty", tmp_path / "new" / "deep" / "i"):
        assert found(ikat.PassageIndex(path).index(CORPUS).path) == ["d1"]
        assert names(path) == ["bm25-2", "pt_meta.json", "texts.db"]


def test_a_folder_of_other_files_is_left_alone(tmp_path):
    (tmp_path / "a.txt").touch()
    (tmp_path / "b.txt").touch()
    with pytest.raises(ikat.UsageError, match=f"{tmp_path} exists already: give a new path"):
        ikat.PassageIndex(tmp_path).index(CORPUS)
    assert names(tmp_path) == ["a.txt", "b.txt"]


def test_what_a_killed_build_left_is_removed(path):
    folder = Path(path)
    shutil.rmtree(folder / "bm25-2")
    for name in (".bm25.partial", ".bm25.parts"):
        (folder / name / "deep").mkdir(parents=True)
    (folder / ".bm25.partial" / "docs.npy").write_text("half")
    (folder / ".bm25.partial" / "left.npy").write_text("of another build")
    (folder / ".dense.parts").mkdir()  # of another build that goes on later
    (folder / ".ikat.json.tmp").touch()
    (folder / "dense-2").mkdir()
    ikat.PassageIndex(path).index(CORPUS)
    assert names(path) == [".dense.parts", "bm25-2", "dense-2", "pt_meta.json", "texts.db"]
    assert "left.npy" not in names(folder / "bm25-2")
    assert found(path) == ["d1"]


def test_an_index_that_is_there_is_tidied_too(path):
    folder = Path(path)
    for name in ("bm25-1", "bm25-half", ".bm25.partial"):
        (folder / name).mkdir()
    (folder / "pt_meta.json").unlink()
    ikat.PassageIndex(path).index(CORPUS)
    assert names(path) == ["bm25-2", "pt_meta.json", "texts.db"]
    about = json.loads((folder / "pt_meta.json").read_text())
    hint = {"package_hint": "pyterrier_ikat"}
    assert about == {"type": "sparse_index", "format": "ikat_passages", **hint}


def test_the_description_has_parts_settings_and_sizes(path):
    folder = Path(path) / "bm25-2"
    described = json.loads((folder / "ikat.json").read_text())
    sizes = {file.name: file.stat().st_size for file in folder.iterdir()}
    del sizes["ikat.json"]
    assert described == {
        "format": 5,
        "parts": described["parts"],
        "stemmer": "porter2",
        "stops": "lucene",
        "bm25": [0.9, 0.4],
        "engine": "eager",
        "files": sizes,
    }
    assert [count for count, _ in described["parts"]] == [2]
    ikat.PassageIndex(path).add(MORE)
    again = json.loads((Path(path) / "bm25-3" / "ikat.json").read_text())
    assert [count for count, _ in again["parts"]] == [2, 1]
    assert again["parts"][0] == described["parts"][0]
    assert set(again["files"]) == set(described["files"])


def test_other_settings_are_named_before_anything_is_read(path):
    never = iter([1 / 1, None])
    with pytest.raises(ikat.UsageError, match=r"an index with stemmer 'porter2', not 'none'"):
        ikat.PassageIndex(path).index(never, stemmer="none")
    assert next(never) == 1


def test_additions_made_while_it_is_opened_are_seen(path, monkeypatch):
    index = ikat.PassageIndex(path)
    whole = ikat.PassageIndex._engine
    calls = []

    def engine(self, folder, described):
        calls.append(folder.name)
        if len(calls) == 1:
            monkeypatch.setattr(ikat.PassageIndex, "_engine", whole)
            ikat.PassageIndex(path).add(MORE)
            monkeypatch.setattr(ikat.PassageIndex, "_engine", engine)
        return whole(self, folder, described)

    monkeypatch.setattr(ikat.PassageIndex, "_engine", engine)
    assert len(index) == 3
    assert calls == ["bm25-2", "bm25-3"]


def test_a_missing_file_is_named_with_the_repair(path):
    (Path(path) / "bm25-2" / "docs.npy").unlink()
    with pytest.raises(ikat.DataError, match=r"bm25-2 isn't whole .*docs\.npy.*: copy it again"):
        ikat.PassageIndex(path).opened()


@pytest.mark.parametrize(
    ("make", "reason"),
    [
        (lambda folder: None, "there is no such folder"),
        (lambda folder: folder.mkdir(), "the folder holds no such index"),
    ],
)
def test_what_is_missing_is_made_by_the_named_call(tmp_path, make, reason):
    make(tmp_path / "i")
    told = rf"no index at .*i: {reason}; make it with ikat\.PassageIndex\('.*i'\)\.index\(corpus\)"
    with pytest.raises(ikat.DataError, match=told):
        ikat.PassageIndex(tmp_path / "i").opened()


def test_a_folder_with_another_kind_is_ours(path):
    with pytest.raises(ikat.DataError, match="the folder holds no such index; make it with"):
        ikat.DenseIndex(path).opened()
    (Path(path) / "texts.db").unlink()
    with pytest.raises(ikat.DataError, match="the folder holds no such index; make it with"):
        ikat.DenseIndex(path).opened()


def test_nothing_is_added_where_no_texts_are(path, tmp_path):
    (Path(path) / "texts.db").unlink()
    with pytest.raises(ikat.DataError, match="has no texts, so nothing can be added"):
        ikat.PassageIndex(path).add(MORE)
    assert names(path) == ["bm25-2", "pt_meta.json"]
    for missing in (tmp_path / "none", tmp_path):
        with pytest.raises(ikat.DataError, match="has no texts, so nothing can be added"):
            ikat.PassageIndex(missing).add(MORE)


def test_a_new_engine_is_on_the_disk_before_it_has_its_name(path, monkeypatch):
    engine = Path(path) / "bm25-3"
    flushed_before = set()

    def flush(file):
        if not engine.exists():
            flushed_before.add(file.name)

    monkeypatch.setattr(artifact, "flush", flush)
    (Path(path) / "pt_meta.json").write_text("of another kind")
    ikat.PassageIndex(path).add(MORE)
    assert {".bm25.partial", *os.listdir(engine)} <= flushed_before
    assert (Path(path) / "pt_meta.json").read_text() == "of another kind"


def test_texts_without_an_engine_are_no_index_to_add_to(path):
    shutil.rmtree(Path(path) / "bm25-2")
    with pytest.raises(ikat.DataError, match="nothing can be added"):
        ikat.PassageIndex(path).add(MORE)
    with pytest.raises(ikat.DataError, match="the folder holds no such index; make it with"):
        ikat.PassageIndex(path).opened()
    assert ikat.PassageIndex(path).index(CORPUS).texts(["d1"]) == ["green tea"]


def test_json_is_written_in_lines(tmp_path):
    artifact.write_json(tmp_path / "a.json", {"a": [1]})
    assert (tmp_path / "a.json").read_text() == '{\n "a": [\n  1\n ]\n}'


@pytest.mark.parametrize("lacking", ["format", "parts", "files", "engine"])
def test_a_description_without_a_field_is_not_whole(path, lacking):
    description = read_description(path)
    del description[lacking]
    write_description(path, description)
    with pytest.raises(ikat.DataError, match=f"bm25-2 isn't whole .*{lacking}.*: copy it again"):
        ikat.PassageIndex(path).opened()


@pytest.mark.parametrize("lacking", ["format", "parts", "files"])
@pytest.mark.parametrize(
    "use",
    [
        lambda path: len(ikat.PassageIndex(path)),
        lambda path: ikat.PassageIndex(path).index(CORPUS),
        lambda path: ikat.PassageIndex(path).add(MORE),
    ],
    ids=["len", "index", "add"],
)
def test_an_engine_without_a_field_is_nowhere_a_bare_error(path, use, lacking):
    description = read_description(path)
    del description[lacking]
    write_description(path, description)
    with pytest.raises(ikat.DataError, match=f"bm25-2 isn't whole .*{lacking}.*: copy it again"):
        use(path)


@pytest.mark.parametrize("content", ["", "{", "[]", "4"])
def test_a_damaged_description_is_not_built_upon(path, content):
    (Path(path) / "bm25-2" / "ikat.json").write_text(content)
    with pytest.raises(ikat.DataError, match=r"bm25-2 isn't whole .ikat\.json.*: copy it again"):
        ikat.PassageIndex(path).index(CORPUS)


def test_an_opened_index_that_lost_a_file_is_not_whole(path):
    index = ikat.PassageIndex(path)
    index.opened()
    (Path(path) / "bm25-2" / "docs.npy").unlink()
    with pytest.raises(ikat.DataError, match=r"bm25-2 isn't whole .*docs\.npy.*: copy it again"):
        index.fingerprint()


@pytest.mark.parametrize("loader", [None, pt.Transformer.identity()], ids=["own", "loader"])
def test_as_many_texts_of_other_passages_are_refused(path, loader):
    (Path(path) / "texts.db").unlink()
    with closing(TextStore(Path(path), create=True)) as store:
        store.write([("d1", "black tea"), ("d2", "a tram")])
    with pytest.raises(ikat.DataError, match="has texts of other passages: copy it again"):
        ikat.PassageIndex(path, text=loader).opened()


def test_a_corpus_without_passages_leaves_no_folder(tmp_path):
    with pytest.raises(ikat.DataError, match="the corpus has no passage"):
        ikat.PassageIndex(tmp_path / "i").index([])
    assert list(tmp_path.iterdir()) == []


class Encodes:
    """An index with vectors beside another; ``made`` has what it was brought up with."""

    ENCODES = True

    def __init__(self):
        self.made = []
        self.fails = False

    def opened(self):
        if self.fails:
            raise ikat.UsageError("encoded with another model")
        return SimpleNamespace(described={"model": "m", "files": {}, "parts": []})

    def _bring_up(self, store, made_with, **options):
        self.made.append((store.count, made_with, options))


@pytest.fixture
def encodes(monkeypatch):
    """An index with vectors in every folder, and devices that are there."""
    encodes = Encodes()
    monkeypatch.setattr(artifact, "usable_devices", lambda devices: devices)
    monkeypatch.setattr(ikat.PassageIndex, "_indexes_in", lambda index, folder: [index, encodes])
    return encodes


@pytest.mark.parametrize("devices", [None, ["a", "b"]])
def test_devices_are_for_the_indexes_that_encode(path, encodes, devices):
    index = ikat.PassageIndex(path).add(MORE, devices=devices)
    assert encodes.made == [(3, {"model": "m"}, {"devices": devices})]
    assert len(index) == 3


def test_encoded_parts_are_of_the_passages_and_of_their_first(path, monkeypatch):
    folders = []
    monkeypatch.setattr(artifact, "encode_parts", lambda folder, *rest: folders.append(folder))
    monkeypatch.setattr(ikat.DenseIndex, "_read", lambda index, old: {"parts": [[2, "x"]]})
    index = ikat.DenseIndex(path)
    with closing(TextStore(Path(path))) as store:
        for _ in range(2):
            index._encode_new(store, None, {"encoded_by": "e"}, 9, dict)
        store.add([("d3", "mint tea")])
        index._encode_new(store, None, {"encoded_by": "e"}, 9, dict)
        index._encode_new(store, Path("old"), {"encoded_by": "e"}, 9, dict)
    assert folders[0] == folders[1]
    assert len(set(folders)) == 3
    assert {folder.parent for folder in folders} == {Path(path) / ".dense.parts"}


def test_another_model_is_told_before_passages_are_stored(path, encodes):
    encodes.fails = True
    with pytest.raises(ikat.UsageError, match="encoded with another model"):
        ikat.PassageIndex(path).add(MORE)
    with closing(TextStore(Path(path))) as store:
        assert store.count == 2


def test_an_index_adds_by_its_own_model(path):
    (Path(path) / "dense-2").mkdir()
    moved = ikat.DenseIndex(path, "moved/model")
    indexes = {index.KIND: index for index in moved._indexes_in(Path(path))}
    assert indexes == {"bm25": ikat.PassageIndex(path), "dense": moved}


@pytest.mark.parametrize(
    ("kind", "options"),
    [
        (ikat.PassageIndex, ""),
        (ikat.DenseIndex, " --dense MODEL"),
        (ikat.SpladeIndex, " --splade MODEL"),
    ],
)
def test_the_command_that_makes_an_index_has_its_options(tmp_path, kind, options):
    line = f"make it with `ikat index SOURCE {tmp_path / 'i'}{options}`"
    with commands_advised(), pytest.raises(ikat.DataError) as raised:
        kind(tmp_path / "i").opened()
    assert str(raised.value).endswith(line)


def test_passages_of_two_additions_are_lacking_together(path):
    with closing(TextStore(Path(path))) as store:
        store.add([("d3", "mint tea")])
        store.add([("d4", "a bus"), ("d5", "a train")])
    with pytest.warns(UserWarning, match=r"bm25 of .* lacks the last 3 passages"):
        index = ikat.PassageIndex(path).opened()
    assert len(index.texts.parts) == 3


def test_a_later_addition_of_other_passages_is_refused(path, built):
    ikat.PassageIndex(path).add(MORE)
    (Path(path) / "texts.db").unlink()
    shutil.copy(Path(built) / "texts.db", path)
    with closing(TextStore(Path(path))) as store:
        store.add([("d3", "black tea")])
    with pytest.raises(ikat.DataError, match="has texts of other passages: copy it again"):
        ikat.PassageIndex(path).opened()
    with closing(TextStore(Path(path))) as store:
        assert store.count == 3


def test_texts_of_fewer_passages_than_the_engine_are_refused(path, built):
    ikat.PassageIndex(path).add(MORE)
    (Path(path) / "texts.db").unlink()
    shutil.copy(Path(built) / "texts.db", path)
    with pytest.raises(ikat.DataError, match="has texts of other passages"):
        ikat.PassageIndex(path).opened()
