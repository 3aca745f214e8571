"""Data files: where they are looked for, how they are downloaded and checked."""

import csv
import errno
import hashlib
import re
import socket
import threading
import warnings
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest
import requests

from pyterrier_ikat.conversations import download
from pyterrier_ikat.conversations.download import (
    SOURCES,
    OtherDataWarning,
    Source,
    at_hand,
    data_file,
    data_folder,
    is_published,
)
from pyterrier_ikat.errors import DataError, UsageError

NAME = "2023_test_topics.json"
BODY = bytes(range(256)) * 1000
SHA256 = f"sha256:{hashlib.sha256(BODY).hexdigest()}"


class Server:
    """An HTTP server on loopback whose misbehaviour is set by attributes."""

    def __init__(self):
        self.body = BODY
        self.status = 200
        self.cut = None
        self.asked = 0
        outer = self

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self):  # noqa: N802 - the name is http.server's
                outer.asked += 1
                self.send_response(outer.status)
                self.send_header("Content-Length", str(len(outer.body)))
                self.end_headers()
                self.wfile.write(outer.body[: outer.cut])

            def log_message(self, *args):
                pass

        self.http = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self.http.server_port}/{NAME}"
        threading.Thread(target=self.http.serve_forever, args=(0.01,), daemon=True).start()


@pytest.fixture
def server(monkeypatch):
    server = Server()
    monkeypatch.setitem(SOURCES, NAME, Source(server.url, SHA256, "MIT"))
    yield server
    server.http.shutdown()
    server.http.server_close()


def names(folder):
    return sorted(path.name for path in folder.iterdir()) if folder.exists() else []


@pytest.mark.parametrize("algorithm", ["sha256", "md5", "git"])
def test_a_file_is_downloaded_once_with_its_licence_said(
    server, home, monkeypatch, capsys, algorithm
):
    blob = hashlib.sha1(b"blob 256000\0" + BODY).hexdigest()
    checksum = blob if algorithm == "git" else hashlib.new(algorithm, BODY).hexdigest()
    monkeypatch.setitem(SOURCES, NAME, Source(server.url, f"{algorithm}:{checksum}", "MIT"))
    assert data_file(NAME) == data_file(NAME) == home / NAME
    assert (home / NAME).read_bytes() == BODY
    assert (server.asked, names(home)) == (1, [NAME])
    assert capsys.readouterr().err == f"downloading {server.url} (licence: MIT)\n"


def test_a_cut_download_is_not_used(server, home):
    server.cut = 131_072
    with pytest.raises(
        DataError,
        match=f"{server.url}.*check the network, or put 2023_test_topics.json into a folder "
        "yourself",
    ):
        data_file(NAME)
    assert names(home) == []
    server.cut = None
    assert data_file(NAME).read_bytes() == BODY


def test_another_file_is_refused_and_removed(server, home):
    server.body = BODY[:-1] + b"x"
    with pytest.raises(DataError, match=f"is not the expected file: sha256:.* instead of {SHA256}"):
        data_file(NAME)
    assert names(home) == []


def test_a_refusal_and_no_network_are_named_with_the_address(server, home):
    server.status = 404
    for error in (
        "404",
        f"no connection: Connection refused.*or put {NAME} into a folder yourself and set "
        "IKAT_DATA",
    ):
        with pytest.raises(DataError, match=error) as caught:
            data_file(NAME)
        assert server.url in str(caught.value)
        assert not re.search("HTTPConnectionPool|Max retries|Errno", str(caught.value))
        server.http.shutdown()
        server.http.server_close()
    assert names(home) == []


def test_the_users_folder_is_first_and_another_file_named_once(server, tmp_path, monkeypatch):
    (tmp_path / NAME).write_bytes(BODY)
    monkeypatch.setenv("IKAT_DATA", str(tmp_path))
    assert data_file(NAME) == tmp_path / NAME  # the published one: no word
    (tmp_path / NAME).write_bytes(BODY[:-1] + b"x")
    named = (
        rf"{NAME} isn't the published file \(sha256:[0-9a-f]{{64}} instead of .*download "
        rf"{server.url} in its place, unless you mean"
    )
    with pytest.warns(OtherDataWarning, match=named):
        assert data_file(NAME) == tmp_path / NAME
    assert data_file(NAME) == tmp_path / NAME  # once
    (tmp_path / "2025-qrels.txt").write_text("1-1_1 0 d:0 2\n")
    data_file("2025-qrels.txt")  # not published yet: nothing to compare with
    assert (data_folder(), server.asked) == (tmp_path, 0)


def test_what_is_missing_or_unknown_is_named(server, tmp_path, monkeypatch):
    with pytest.raises(
        UsageError, match="no data file '2022.json'; there are 2023_test_topics.json, "
    ):
        data_file("2022.json")
    with pytest.raises(
        DataError,
        match="2025-qrels.txt isn't published yet: once you have it, put it into a folder and "
        "set IKAT_DATA",
    ):
        data_file("2025-qrels.txt")
    monkeypatch.setenv("IKAT_DATA", str(tmp_path))
    with pytest.raises(
        DataError,
        match=f"IKAT_DATA is set to {tmp_path}, but there is no file {NAME} in it; download "
        f"{server.url} into it, or unset",
    ):
        data_file(NAME)
    assert server.asked == 0


def test_a_file_is_found_in_a_clone_never_by_an_ambiguous_name(tmp_path, monkeypatch):
    monkeypatch.setenv("IKAT_DATA", str(tmp_path / "ikat"))
    qrels = "mtrag/mtrag-human/retrieval_tasks/govt/qrels/dev.tsv"
    reference = "mtrag/mtragun-human/generation_tasks/reference.jsonl"
    for folder in (tmp_path, tmp_path / "ikat"):
        for wanted, there, found in (
            (qrels, "mtrag/qrels/dev.tsv", False),
            (qrels, "mtrag/cloud/qrels/dev.tsv", False),
            (reference, "mtrag/generation_tasks/reference.jsonl", False),  # MTRAG has one, too
            (reference, reference, True),
            (qrels, "mtrag/govt/qrels/dev.tsv", True),
            (qrels, qrels, True),
        ):
            path = folder / there
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text("")
            assert at_hand(wanted) == (path if found else None)
            path.unlink()


def test_the_released_files_are_the_ones_that_a_download_accepts(shared, monkeypatch):
    monkeypatch.setenv("IKAT_DATA", str(shared / "ikat"))
    released = [name for name in SOURCES if at_hand(name) is not None]
    assert len(released) > 100
    assert [name for name in released if not download.is_published(name)] == []


def test_every_source_has_its_address_checksum_and_licence():
    assert [name for name, source in SOURCES.items() if not all(source)] == ["2025-qrels.txt"]
    lengths = {"sha256": 64, "md5": 32, "git": 40}
    for source in SOURCES.values():
        if source.checksum:
            kind, digest = source.checksum.split(":")
            assert len(digest) == lengths[kind]


def test_outputs_go_home_in_their_folder_also_beside_own_data(server, home, tmp_path, monkeypatch):
    name = "outputs/mine/2023_test_topics.json"
    monkeypatch.setitem(SOURCES, name, SOURCES[NAME])
    monkeypatch.setenv("IKAT_DATA", str(tmp_path / "data"))
    assert data_file(name) == home / name
    assert data_file(name).read_bytes() == BODY
    assert (server.asked, (tmp_path / "data").exists()) == (1, False)


@pytest.mark.parametrize("algorithm", ["git", "md5"])
def test_another_checksum_than_sha256_is_compared_too(server, home, monkeypatch, algorithm):
    monkeypatch.setitem(SOURCES, NAME, Source(server.url, f"{algorithm}:{'0' * 32}", "MIT"))
    with pytest.raises(DataError, match=f"expected file: {algorithm}:.* instead of {algorithm}:00"):
        data_file(NAME)
    assert names(home) == []


def test_the_data_folder_is_in_the_home_folder_of_the_user(home, tmp_path, monkeypatch):
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("IKAT_DATA", "~/mine")
    assert data_folder() == tmp_path / "mine"
    monkeypatch.setenv("IKAT_DATA", "")
    assert data_folder() == home


def test_only_a_file_of_a_known_name_is_data(tmp_path, monkeypatch):
    monkeypatch.setenv("IKAT_DATA", str(tmp_path))
    (tmp_path / "2022.json").write_text("[]")
    with pytest.raises(UsageError, match="no data file '2022.json'"):
        data_file("2022.json")
    (tmp_path / NAME).mkdir()
    assert at_hand(NAME) is None


def test_each_line_of_the_list_is_a_source():
    with Path(download.__file__).with_name("sources.tsv").open(encoding="utf-8") as file:
        rows = list(csv.reader(file, delimiter="\t", quoting=csv.QUOTE_NONE))
    assert rows[0] == ["name", "url", "checksum", "licence"]
    assert {name: Source(*rest) for name, *rest in rows[1:]} == SOURCES
    assert list(SOURCES) == [row[0] for row in rows[1:]]
    assert SOURCES["2023_test_topics.json"].licence == "MIT"
    assert SOURCES["2023_test_topics.json"].checksum.startswith("sha256:ff0c1fe67af03cab")


def test_a_file_without_a_folder_lies_in_the_data_folder_alone(home, tmp_path, monkeypatch):
    data = tmp_path / "mine" / "data"
    data.mkdir(parents=True)
    monkeypatch.setenv("IKAT_DATA", str(data))
    for folder in (data.parent, home):
        folder.mkdir(parents=True, exist_ok=True)
        (folder / NAME).write_text("[]")
        assert at_hand(NAME) is None
    (data / NAME).write_text("[]")
    assert at_hand(NAME) == data / NAME


def answer_of(status, reason):
    response = requests.Response()
    response.status_code = status
    response.reason = reason
    return requests.HTTPError(response=response)


def refused():
    error = OSError(errno.ECONNREFUSED, "Connection refused")
    outer = requests.ConnectionError(RuntimeError("pool"))
    outer.args[0].reason = error
    return outer


def unnamed():
    error = requests.ConnectionError()
    error.__cause__ = socket.gaierror(-2, "Name or service not known")
    return error


@pytest.mark.parametrize(
    ("error", "said"),
    [
        (answer_of(404, "Not Found"), "(status 404 Not Found)"),
        (answer_of(503, ""), "(status 503)"),
        (requests.ReadTimeout("x"), "(it doesn't answer in time)"),
        (requests.ConnectTimeout("x"), "(it doesn't answer in time)"),
        (requests.exceptions.SSLError("self-signed"), "(the certificate isn't accepted: self-sig"),
        (refused(), "(no connection: Connection refused)"),
        (unnamed(), "(no connection: Name or service not known)"),
        (requests.ConnectionError(), "(no connection: ConnectionError)"),
        (requests.TooManyRedirects("30"), "(TooManyRedirects: 30)"),
    ],
    ids=range(9),
)
def test_a_failed_download_says_why(error, said, monkeypatch, capsys):
    def get(url, timeout):
        assert timeout == (15, 60)
        raise error

    monkeypatch.setattr(requests, "get", get)
    name = "memory/locomo10.json"
    with pytest.raises(DataError) as raised:
        data_file(name)
    text = str(raised.value)
    assert text.startswith(f"{SOURCES[name].url} can't be fetched {said}")
    assert text.endswith(f"put {name} into a folder yourself and set IKAT_DATA to that folder")
    assert f"downloading {SOURCES[name].url} (licence: " in capsys.readouterr().err


FILES = {
    "a/b/c/d.txt": Source("http://x/d", "git:12e7e3aabd45cbeca21a3d4a1fa5de2dc5ed7b9d", "MIT"),
    "a/e/d.txt": Source("http://x/e", "sha256:" + "0" * 64, "MIT"),
    "a/b/only.txt": Source("http://x/o", "", "MIT"),
    "memory/m.txt": Source("http://x/m", "md5:0cc175b9c0f1b6a831c399e269772661", "MIT"),
    "coming.txt": Source("", "", "MIT"),
}


@pytest.fixture
def files(monkeypatch, tmp_path):
    """The folder of the user, with other files in the table."""
    monkeypatch.setattr(download, "SOURCES", FILES)
    folder = tmp_path / "data"
    folder.mkdir()
    monkeypatch.setenv("IKAT_DATA", str(folder))
    download._check.cache_clear()
    yield folder
    download._check.cache_clear()


def put(path, text="a"):
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
    return path


def test_a_file_is_looked_for_in_folders_from_the_nearest(files, home, monkeypatch):
    name = "a/b/c/d.txt"
    assert at_hand(name) is None
    last = put(home / "a/b/c/d.txt")
    assert at_hand(name) == last
    beside = put(files.parent / "a/b/c/d.txt")
    assert at_hand(name) == beside
    short = put(files / "a/c/d.txt")
    assert at_hand(name) == short
    own = put(files / name)
    assert at_hand(name) == own
    put(files / "a/d.txt")  # of two files that end so
    own.unlink()
    short.unlink()
    beside.unlink()
    last.unlink()
    assert at_hand(name) is None
    assert at_hand("a/b/only.txt") is None
    only = put(files / "a/only.txt")
    assert at_hand("a/b/only.txt") == only
    put(files.parent / "coming.txt")
    assert at_hand("coming.txt") is None
    monkeypatch.delenv("IKAT_DATA")
    assert data_folder() == home
    put(files.parent / "a/b/c/d.txt")
    assert at_hand(name) is None


def test_a_file_is_the_published_one_by_its_checksum(files):
    put(files / "memory/m.txt")
    assert is_published("memory/m.txt")
    put(files / "a/b/only.txt")
    assert not is_published("a/b/only.txt")
    blob = put(files / "a/b/c/d.txt", "what is up, doc?")
    with pytest.warns(OtherDataWarning) as told:
        assert not is_published("a/b/c/d.txt")
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert not is_published("a/b/c/d.txt")
        assert data_file("a/b/c/d.txt") == blob
    assert len(told) == 1
    message = str(told[0].message)
    assert "git:bd9dbf5aae1a3862dd1526723246b20206e5fc37 instead of git:12e7" in message
    assert "download http://x/d in its place" in message


def test_a_missing_file_is_named_with_what_to_do(files):
    with pytest.raises(UsageError, match="no data file 'x'; there are a/b/c/d.txt, a/e/d.txt"):
        data_file("x")
    with pytest.raises(DataError, match="coming.txt isn't published yet"):
        data_file("coming.txt")
    with pytest.raises(DataError, match="there is no file a/e/d.txt in it; download http://x/e"):
        data_file("a/e/d.txt")
