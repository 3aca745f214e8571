"""The folder of an index: what may be there before, what is left, and which engine is opened."""

import json
import os
import pickle
import shutil
import tarfile
from contextlib import closing
from itertools import combinations
from pathlib import Path
from types import SimpleNamespace

import pandas as pd
import pyterrier as pt
import pytest
from lz4.frame import LZ4FrameFile

import pyterrier_ikat as ikat
from pyterrier_ikat.errors import commands_advised
from pyterrier_ikat.retrieve import artifact
from pyterrier_ikat.retrieve.artifact import engine_folder, made_by_pyterrier
from pyterrier_ikat.retrieve.texts import TextStore

CORPUS = [{"docno": "d1", "text": "green tea"}, {"docno": "d2", "text": "a tram"}]
MORE = [{"docno": "d3", "text": "mint tea"}]


@pytest.fixture(scope="module")
def built(tmp_path_factory):
    return ikat.PassageIndex(tmp_path_factory.mktemp("built") / "i").index(CORPUS).path


@pytest.fixture
def path(built, tmp_path):
    return str(shutil.copytree(built, tmp_path / "i"))


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


def test_an_open_index_is_one_object_and_a_copy_opens_anew(path):
    index = ikat.PassageIndex(path)
    first = index.opened()
    assert index.opened() is first
    copied = pickle.loads(pickle.dumps(index))
    assert copied == index
    assert copied.opened() is not first
    assert index.opened() is first
    assert index.add(MORE) is index
    assert len(index) == 3
    assert index.opened() is not first


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


def test_an_index_without_texts_has_its_docnos(path):
    (Path(path) / "texts.db").unlink()
    index = ikat.PassageIndex(path)
    assert list(index.docnos(["d2", "x", "d1", "d2"])) == ["d1", "d2"]
    assert list(index.docnos(["d2", "x"])) == ["d2"]
    assert not index.has_text
    with pytest.raises(ikat.DataError, match="has no texts: give ikat.PassageIndex"):
        index.texts(["d1"])
    assert index.build_package(verbose=False) == f"{path}.tar.lz4"
    assert index.bm25().search("tea").columns.tolist() == ["qid", "query", "docno", "score", "rank"]
    loader = pt.apply.generic(lambda rows: rows.assign(text="own " + rows["docno"]))
    own = ikat.PassageIndex(path, text=loader)
    assert own.has_text
    assert own.bm25().search("tea")["text"].tolist() == ["own d1"]
    with pytest.raises(ikat.DataError, match="has no texts: give ikat.PassageIndex"):
        own.texts(["d1"])


def test_texts_are_added_by_docno_in_any_frame(path):
    assert ikat.PassageIndex(path).has_text
    loader = ikat.PassageIndex(path).text_loader(["text"])
    frame = pd.DataFrame({"docno": ["d2", "d1"], "text": "old", "n": [1, 2]})
    loaded = loader(frame)
    assert loaded.to_dict("list") == {
        "docno": ["d2", "d1"],
        "text": ["a tram", "green tea"],
        "n": [1, 2],
    }
    assert loader(frame[:0]).columns.tolist() == ["docno", "text", "n"]
    assert ikat.PassageIndex(path).text_loader("*", verbose=True) == loader
    assert repr(loader) == f"ikat.PassageIndex({path!r}).text_loader()"
    with pytest.raises(ikat.UsageError, match="title"):
        ikat.PassageIndex(path).text_loader("title")
    with pytest.raises(ikat.DataError, match="docno"):
        loader(frame.drop(columns="docno"))


def test_an_index_is_equal_by_its_arguments(tmp_path):
    loader = ikat.TextLoader(tmp_path / "p.jsonl")
    values = [
        ikat.PassageIndex("i"),
        ikat.PassageIndex("j"),
        ikat.PassageIndex("i", text=loader),
        ikat.DenseIndex("i"),
        ikat.DenseIndex("i", "m"),
        ikat.SpladeIndex("i", "m"),
        ikat.SpladeIndex("i", "m", query_model="q"),
        ikat.SpladeIndex("i", "m", text=loader),
        ikat.DenseIndex("i", text=loader),
    ]
    assert len(set(values)) == len({hash(value) for value in values}) == len(values)
    assert [repr(value) for value in values[3:7]] == [
        "ikat.DenseIndex('i')",
        "ikat.DenseIndex('i', 'm')",
        "ikat.SpladeIndex('i', 'm')",
        "ikat.SpladeIndex('i', 'm', query_model='q')",
    ]
    assert repr(values[2]) == f"ikat.PassageIndex('i', text={loader!r})"
    assert ikat.PassageIndex(Path("i")) == values[0]
    assert hash(ikat.PassageIndex(Path("i"))) == hash(values[0])
    assert ikat.DenseIndex("i", Path("m")) == values[4]
    assert ikat.DenseIndex("i", Path("m")).model == "m"
    assert values[0] != "i"
    assert values[0] != values[3]
    assert values[3] != ikat.SpladeIndex("i")
    for first, second in combinations(values, 2):
        assert first != second


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


def test_a_package_is_named_after_its_folder(path, monkeypatch):
    made = ikat.PassageIndex(path).build_package(verbose=False)
    assert made == f"{path}.tar.lz4"
    assert Path(made).is_file()
    ikat.PassageIndex(path).build_package(f"{path}.own", texts=True, verbose=False)
    assert Path(f"{path}.own").stat().st_size > Path(made).stat().st_size
    (Path(path) / "texts.db").unlink()
    with pytest.raises(ikat.DataError, match="has no texts to pack"):
        ikat.PassageIndex(path).build_package(texts=True)


def test_warming_up_opens_the_index(path):
    index = ikat.PassageIndex(path)
    index.warm_up()
    shutil.rmtree(path)
    assert len(index) == 2
    with pytest.raises(ikat.DataError, match="no index at"):
        ikat.PassageIndex(path).warm_up()


def test_a_replaced_index_has_another_fingerprint(path):
    index = ikat.PassageIndex(path)
    first = index.fingerprint()
    assert ikat.PassageIndex(path).fingerprint() == first
    ikat.PassageIndex(path).add(MORE)
    with pytest.raises(ikat.DataError, match="was replaced since it was opened: open it again"):
        index.fingerprint()
    assert ikat.PassageIndex(path).fingerprint() != first


def test_json_is_written_in_lines(tmp_path):
    artifact.write_json(tmp_path / "a.json", {"a": [1]})
    assert (tmp_path / "a.json").read_text() == '{\n "a": [\n  1\n ]\n}'


def read_description(path):
    """The description of the engine of two passages."""
    return json.loads((Path(path) / "bm25-2" / "ikat.json").read_text())


def write_description(path, description):
    (Path(path) / "bm25-2" / "ikat.json").write_text(json.dumps(description))


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


def test_an_index_that_lost_a_file_since_it_was_opened_is_not_whole(path):
    index = ikat.PassageIndex(path)
    index.opened()
    (Path(path) / "bm25-2" / "docs.npy").unlink()
    with pytest.raises(ikat.DataError, match=r"bm25-2 isn't whole .*docs\.npy.*: copy it again"):
        index.fingerprint()


def test_a_fingerprint_is_of_passages_and_settings_alone(path):
    before = ikat.PassageIndex(path).fingerprint()
    description = read_description(path)
    reordered = {name: description[name] for name in reversed(description)}
    write_description(path, {**reordered, "files": {}})
    assert ikat.PassageIndex(path).fingerprint() == before
    write_description(path, {**description, "stops": "none"})
    assert ikat.PassageIndex(path).fingerprint() != before


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


def test_a_package_is_described_as_its_own_kind(path, tmp_path):
    (Path(path) / "pt_meta.json").write_text('{"format": "of another kind"}')
    package = ikat.PassageIndex(path).build_package(str(tmp_path / "p"), verbose=False)
    with LZ4FrameFile(package) as file, tarfile.open(fileobj=file, mode="r|") as members:
        for member in members:
            if member.name == "pt_meta.json":
                about = json.loads(members.extractfile(member).read())
    assert about["format"] == "ikat_passages"


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


def test_texts_go_to_the_rows_whatever_their_labels(path):
    loader = ikat.PassageIndex(path).text_loader()
    loaded = loader(pd.DataFrame({"docno": ["d2", "d1", "d2"]}, index=[5, 5, 0]))
    assert loaded["text"].tolist() == ["a tram", "green tea", "a tram"]


def test_no_passage_needs_no_index(tmp_path):
    loader = ikat.PassageIndex(tmp_path / "none").text_loader()
    loaded = loader(pd.DataFrame({"docno": []}))
    assert loaded.columns.tolist() == ["docno", "text"]


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


def test_docnos_of_either_engine_are_found_without_texts(path):
    (Path(path) / "texts.db").unlink()
    index = ikat.PassageIndex(path)
    folder = index.opened().folder
    (folder / "docnos.txt").rename(folder / "fwd.documents")  # PISA's name
    assert list(index.docnos(["d2", "x"])) == ["d2"]
    (folder / "docnos.txt").write_text("x\n")
    assert list(index.docnos(["d2", "x"])) == ["x"]  # ours goes first


def test_a_moved_index_is_the_same_and_another_text_is_not(path, tmp_path):
    before = ikat.PassageIndex(path).fingerprint()
    moved = shutil.copytree(path, tmp_path / "elsewhere")
    assert ikat.PassageIndex(moved).fingerprint() == before
    for number, corpus in enumerate(([*CORPUS, *MORE], CORPUS[::-1])):
        other = ikat.PassageIndex(tmp_path / str(number)).index(corpus)
        assert other.fingerprint() != before
    at_once = ikat.PassageIndex(tmp_path / "0").fingerprint()
    assert ikat.PassageIndex(path).add(MORE).fingerprint() != at_once  # in two parts
