"""Indexes are PyTerrier artifacts: opened by their folder, packed into a file, read over HTTP."""

import shutil
import tarfile
import threading
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer

import pandas as pd
import pyterrier as pt
import pytest
from lz4.frame import LZ4FrameFile

import pyterrier_ikat as ikat

CORPUS = [
    {"docno": "d1", "text": "green tea"},
    {"docno": "d2", "text": "the train runs late"},
    {"docno": "d3", "text": "a green plant"},
]
ASKED = pd.DataFrame({"qid": ["1", "2"], "query": ["green tea", "late train"]}, dtype=object)


@pytest.fixture(scope="module", params=["PassageIndex", "SpladeIndex"])
def index(request, model, tmp_path_factory):
    folder = tmp_path_factory.mktemp("artifact")
    if request.param == "PassageIndex":
        return ikat.PassageIndex(folder / "i").index(CORPUS)
    return ikat.Splade(model).index(folder / "i", CORPUS)


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
