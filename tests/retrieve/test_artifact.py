"""An index as a value: opened, compared and packed; its texts, docnos and fingerprint."""

import json
import pickle
import shutil
import tarfile
import threading
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from itertools import combinations
from pathlib import Path

import pandas as pd
import pyterrier as pt
import pytest
from lz4.frame import LZ4FrameFile
from retrieve.folders import CORPUS, MORE, read_description, write_description

import pyterrier_ikat as ikat

PASSAGES = [
    {"docno": "d1", "text": "green tea"},
    {"docno": "d2", "text": "the train runs late"},
    {"docno": "d3", "text": "a green plant"},
]
ASKED = pd.DataFrame({"qid": ["1", "2"], "query": ["green tea", "late train"]}, dtype=object)


@pytest.fixture(scope="module", params=["PassageIndex", "SpladeIndex"])
def index(request, model, tmp_path_factory):
    folder = tmp_path_factory.mktemp("artifact")
    if request.param == "PassageIndex":
        return ikat.PassageIndex(folder / "i").index(PASSAGES)
    return ikat.Splade(model).index(folder / "i", PASSAGES)


@pytest.fixture
def address(tmp_path, monkeypatch):
    """Serve the files of ``tmp_path / "served"``, with another PyTerrier home for downloads."""

    class Quiet(SimpleHTTPRequestHandler):
        def log_message(self, *_):
            """Print nothing."""

    (tmp_path / "served").mkdir()
    monkeypatch.setattr(pt.io, "pyterrier_home", lambda: str(tmp_path / "home"))
    server = ThreadingHTTPServer(
        ("127.0.0.1", 0), partial(Quiet, directory=str(tmp_path / "served"))
    )
    threading.Thread(target=server.serve_forever, daemon=True).start()
    yield f"http://127.0.0.1:{server.server_address[1]}"
    server.shutdown()
    server.server_close()


def test_an_index_is_opened_by_its_folder(index, tmp_path):
    assert pt.Artifact.load(index.path) == index
    found = pt.Artifact.load(index.path, text=index.text_loader())
    assert found.text == index.text_loader()


@pytest.mark.parametrize("change", [lambda data: data + b"x", lambda data: data[:-1]])
def test_a_file_of_another_size_is_not_of_the_index(index, tmp_path, change):
    for name in index.describe()["files"]:
        copy = tmp_path / name
        shutil.copytree(index.path, copy)
        (file,) = copy.rglob(name)
        file.write_bytes(change(file.read_bytes()))
        with pytest.raises(ikat.DataError, match=f"{name} has .* bytes instead of"):
            type(index)(copy).retriever()


@pytest.mark.parametrize("texts", [False, True])
def test_a_package_has_texts_on_request_and_ranks_as_the_index(index, tmp_path, address, texts):
    package = index.build_package(
        str(tmp_path / "served" / "i.tar.lz4"), texts=texts, verbose=False
    )
    with LZ4FrameFile(package) as file, tarfile.open(fileobj=file, mode="r|") as members:
        assert ("texts.db" in [member.name for member in members]) is texts
    opened = type(index).from_url(f"{address}/i.tar.lz4")
    assert opened.has_text is texts
    assert len(opened) == 3
    expected = index.retriever()(ASKED)
    pd.testing.assert_frame_equal(
        opened.retriever()(ASKED), expected if texts else expected.drop(columns="text")
    )
    assert sorted(opened.docnos(["d2", "none", "d1"])) == ["d1", "d2"]
    if texts:
        assert opened.texts(["d1"]) == ["green tea"]
        return
    with pytest.raises(ikat.DataError, match=r"has no texts: give ikat\.\w+\(\.\.\., text="):
        opened.texts(["d1"])
    with pytest.raises(ikat.DataError, match="has no texts to pack: omit texts=True"):
        opened.build_package(str(tmp_path / "again"), texts=True)
    loaded = type(index)(opened.path, text=index.text_loader())
    pd.testing.assert_frame_equal(loaded.retriever()(ASKED), expected)


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


def test_warming_up_opens_the_index(path):
    index = ikat.PassageIndex(path)
    index.warm_up()
    shutil.rmtree(path)
    assert len(index) == 2
    with pytest.raises(ikat.DataError, match="no index at"):
        ikat.PassageIndex(path).warm_up()


def test_a_package_is_named_after_its_folder(path, monkeypatch):
    made = ikat.PassageIndex(path).build_package(verbose=False)
    assert made == f"{path}.tar.lz4"
    assert Path(made).is_file()
    ikat.PassageIndex(path).build_package(f"{path}.own", texts=True, verbose=False)
    assert Path(f"{path}.own").stat().st_size > Path(made).stat().st_size
    (Path(path) / "texts.db").unlink()
    with pytest.raises(ikat.DataError, match="has no texts to pack"):
        ikat.PassageIndex(path).build_package(texts=True)


def test_a_package_is_described_as_its_own_kind(path, tmp_path):
    (Path(path) / "pt_meta.json").write_text('{"format": "of another kind"}')
    package = ikat.PassageIndex(path).build_package(str(tmp_path / "p"), verbose=False)
    with LZ4FrameFile(package) as file, tarfile.open(fileobj=file, mode="r|") as members:
        for member in members:
            if member.name == "pt_meta.json":
                about = json.loads(members.extractfile(member).read())
    assert about["format"] == "ikat_passages"


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


def test_docnos_of_either_engine_are_found_without_texts(path):
    (Path(path) / "texts.db").unlink()
    index = ikat.PassageIndex(path)
    folder = index.opened().folder
    (folder / "docnos.txt").rename(folder / "fwd.documents")  # PISA's name
    assert list(index.docnos(["d2", "x"])) == ["d2"]
    (folder / "docnos.txt").write_text("x\n")
    assert list(index.docnos(["d2", "x"])) == ["x"]  # ours goes first


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


def test_texts_go_to_the_rows_whatever_their_labels(path):
    loader = ikat.PassageIndex(path).text_loader()
    loaded = loader(pd.DataFrame({"docno": ["d2", "d1", "d2"]}, index=[5, 5, 0]))
    assert loaded["text"].tolist() == ["a tram", "green tea", "a tram"]


def test_no_passage_needs_no_index(tmp_path):
    loader = ikat.PassageIndex(tmp_path / "none").text_loader()
    loaded = loader(pd.DataFrame({"docno": []}))
    assert loaded.columns.tolist() == ["docno", "text"]


def test_a_replaced_index_has_another_fingerprint(path):
    index = ikat.PassageIndex(path)
    first = index.fingerprint()
    assert ikat.PassageIndex(path).fingerprint() == first
    ikat.PassageIndex(path).add(MORE)
    with pytest.raises(ikat.DataError, match="was replaced since it was opened: open it again"):
        index.fingerprint()
    assert ikat.PassageIndex(path).fingerprint() != first


def test_a_fingerprint_is_of_passages_and_settings_alone(path):
    before = ikat.PassageIndex(path).fingerprint()
    description = read_description(path)
    reordered = {name: description[name] for name in reversed(description)}
    write_description(path, {**reordered, "files": {}})
    assert ikat.PassageIndex(path).fingerprint() == before
    write_description(path, {**description, "stops": "none"})
    assert ikat.PassageIndex(path).fingerprint() != before


def test_a_moved_index_is_the_same_and_another_text_is_not(path, tmp_path):
    before = ikat.PassageIndex(path).fingerprint()
    moved = shutil.copytree(path, tmp_path / "elsewhere")
    assert ikat.PassageIndex(moved).fingerprint() == before
    for number, corpus in enumerate(([*CORPUS, *MORE], CORPUS[::-1])):
        other = ikat.PassageIndex(tmp_path / str(number)).index(corpus)
        assert other.fingerprint() != before
    at_once = ikat.PassageIndex(tmp_path / "0").fingerprint()
    assert ikat.PassageIndex(path).add(MORE).fingerprint() != at_once  # in two parts
