import hashlib
import sys
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest
from click.testing import CliRunner

from pyterrier_ikat.cli import main
from pyterrier_ikat.conversations import download
from pyterrier_ikat.conversations.download import SOURCES, OtherDataWarning, Source, data_file, data_folder
from pyterrier_ikat.errors import DataError, UsageError
from pyterrier_ikat.progress import Line

NAME = "2023_test_topics.json"
BODY = bytes(range(256)) * 1000
SHA256 = f"sha256:{hashlib.sha256(BODY).hexdigest()}"


class Server:
    """An HTTP server on loopback whose misbehaviour is set by attributes."""

    def __init__(self):
        self.body, self.status, self.cut, self.ranges, self.shift = BODY, 200, None, True, 0
        self.asked, self.encodings = [], []
        outer = self

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self):  # noqa: N802 - the name is http.server's
                outer.asked.append(self.headers.get("Range"))
                outer.encodings.append(self.headers.get("Accept-Encoding"))
                outer.answer(self)

            def log_message(self, *args):
                pass

        self.http = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self.http.server_port}/{NAME}"
        threading.Thread(target=self.http.serve_forever, args=(0.01,), daemon=True).start()

    def answer(self, handler):
        wanted = handler.headers.get("Range")
        start = int(wanted[len("bytes=") : -1]) if wanted and self.ranges else 0
        status = 206 if wanted and self.ranges and self.status == 200 else self.status
        if start >= len(self.body):
            status = 416
        handler.send_response(status)
        if status == 206:
            first = start + self.shift
            handler.send_header("Content-Range", f"bytes {first}-{len(self.body) - 1}/{len(self.body)}")
        content = self.body[start:] if status in (200, 206) else b""
        handler.send_header("Content-Length", str(len(content)))
        handler.end_headers()
        handler.wfile.write(content[: self.cut])


@pytest.fixture
def server(monkeypatch):
    server = Server()
    monkeypatch.setitem(SOURCES, NAME, Source(server.url, SHA256, len(BODY)))
    yield server
    server.http.shutdown()
    server.http.server_close()


def names(folder):
    return sorted(path.name for path in folder.iterdir())


def test_a_file_is_downloaded_once(server, home):
    path = data_file(NAME)
    assert path == home / NAME
    assert path.read_bytes() == BODY
    assert data_file(NAME) == path
    assert server.asked == [None]
    assert names(home) == [NAME]


def test_progress_is_shown_in_bytes(server, monkeypatch):
    shown, take = [], Line.take

    def seen(line, entry):
        shown.append((entry.text, entry.unit, entry.n))
        take(line, entry)

    monkeypatch.setattr(Line, "take", seen)
    monkeypatch.setattr(sys.stderr, "isatty", lambda: True)
    data_file(NAME)
    assert shown == [(NAME, "B", len(BODY))]


def test_a_cut_download_is_not_used_and_goes_on_where_it_stopped(server, home):
    server.cut = 131_072
    with pytest.raises(DataError, match="131072 of 256000 bytes are there, run it again to go on") as caught:
        data_file(NAME)
    assert server.url in str(caught.value)
    assert "set IKAT_DATA" in str(caught.value)
    assert names(home) == [f"{NAME}.part"]
    server.cut = None
    assert data_file(NAME).read_bytes() == BODY
    assert server.asked == [None, "bytes=131072-"]
    assert server.encodings == ["identity"] * 2
    assert names(home) == [NAME]


def part(home, content):
    home.mkdir()
    (home / f"{NAME}.part").write_bytes(content)


def test_a_server_without_ranges_sends_all_again(server, home):
    part(home, BODY[:500])
    server.ranges = False
    assert data_file(NAME).read_bytes() == BODY
    assert server.asked == ["bytes=500-"]


def test_a_range_that_starts_elsewhere_is_not_appended(server, home):
    part(home, BODY[:500])
    server.shift = 7
    assert data_file(NAME).read_bytes() == BODY
    assert server.asked == ["bytes=500-", None]


def test_a_part_of_an_older_version_is_dropped(server, home):
    part(home, b"older" * 100)
    assert data_file(NAME).read_bytes() == BODY
    assert server.asked == ["bytes=500-", None]


def test_a_part_that_is_whole_needs_no_transfer(server, home):
    part(home, BODY)
    assert data_file(NAME).read_bytes() == BODY
    assert server.asked == []


def test_a_part_that_is_too_long_is_fetched_anew(server, home):
    part(home, BODY + b"x")
    assert data_file(NAME).read_bytes() == BODY
    assert server.asked == ["bytes=256001-", None]


def test_without_a_known_size_the_digest_alone_decides(server, home, monkeypatch):
    monkeypatch.setitem(SOURCES, NAME, Source(server.url, f"md5:{hashlib.md5(BODY).hexdigest()}"))
    assert data_file(NAME).read_bytes() == BODY


@pytest.mark.parametrize(
    ("body", "part"),
    [(BODY[:-1], "255999 bytes instead of 256000"), (BODY[:-1] + b"x", f"instead of {SHA256[7:]}")],
    ids=["size", "digest"],
)
def test_another_file_is_refused_and_removed(server, home, body, part):
    server.body = body
    with pytest.raises(DataError, match=f"is not the expected file.*{part}"):
        data_file(NAME)
    assert names(home) == []


def test_a_refusal_is_named_with_its_address(server, home):
    server.status = 404
    with pytest.raises(DataError, match="404") as caught:
        data_file(NAME)
    assert server.url in str(caught.value)
    assert names(home) == []


def test_no_network_is_named_with_address_and_folder(server, home):
    server.http.shutdown()
    server.http.server_close()
    with pytest.raises(DataError, match=f"or put {NAME} into a folder yourself and set IKAT_DATA") as caught:
        data_file(NAME)
    assert server.url in str(caught.value)
    assert "\n" not in str(caught.value)


def test_a_home_that_can_not_be_written_is_named(server, home):
    home.write_text("a file where the folder should be")
    with pytest.raises(DataError, match="can't be written.*IKAT_HOME"):
        data_file(NAME)


def test_a_cut_file_in_the_home_folder_is_refused(server, home):
    home.mkdir()
    (home / NAME).write_bytes(BODY[:100])
    with pytest.raises(DataError, match="100 bytes instead of 256000; delete it"):
        data_file(NAME)
    assert server.asked == []


def test_the_users_folder_comes_first_and_another_file_is_named_once(server, tmp_path, monkeypatch):
    (tmp_path / NAME).write_bytes(BODY)
    monkeypatch.setenv("IKAT_DATA", str(tmp_path))
    assert data_file(NAME) == tmp_path / NAME  # the published one: no word
    (tmp_path / NAME).write_bytes(BODY[:-1] + b"x")
    named = rf"{NAME} isn't the published file \(sha256 [0-9a-f]{{64}} instead of .*download {server.url} in its place, unless you mean"
    with pytest.warns(OtherDataWarning, match=named):
        assert data_file(NAME) == tmp_path / NAME
    assert data_file(NAME) == tmp_path / NAME  # once
    (tmp_path / NAME).write_text("a newer version")
    with pytest.warns(OtherDataWarning, match="15 bytes instead of 256000"):
        data_file(NAME)
    (tmp_path / "2025-qrels.txt").write_text("1-1_1 0 d:0 2\n")
    data_file("2025-qrels.txt")  # not published yet: nothing to compare with
    assert data_folder() == tmp_path
    assert server.asked == []


@pytest.mark.filterwarnings("default::pyterrier_ikat.conversations.download.OtherDataWarning")
def test_every_file_that_is_not_the_published_one_is_named_on_the_command_line(ikat_data, tmp_path, monkeypatch):
    for name in ("2023_test_topics.json", "2023-qrels.all-turns.txt"):
        (tmp_path / name).write_bytes((ikat_data / name).read_bytes().replace(b"\n", b"\r\n"))
    monkeypatch.setenv("IKAT_DATA", str(tmp_path))
    run = (tmp_path / "2023-qrels.all-turns.txt").read_text().split()
    (tmp_path / "one.trec").write_text(f"{run[0]} Q0 {run[2]} 1 1.0 one\n")
    done = CliRunner().invoke(main, ["report", str(tmp_path / "one.trec"), "--dataset", "2023", "--out", str(tmp_path / "r.html")])
    warned = [line for line in done.stderr.splitlines() if line.startswith("ikat: warning: ") and "isn't the published file" in line]
    assert {Path(line.partition(" isn't")[0].split()[-1]).name for line in warned} == {"2023_test_topics.json", "2023-qrels.all-turns.txt"}
    assert len(warned) == 2


def test_a_file_that_the_users_folder_lacks_is_named_with_the_folder(server, tmp_path, monkeypatch):
    monkeypatch.setenv("IKAT_DATA", str(tmp_path))
    with pytest.raises(DataError, match="unset IKAT_DATA") as caught:
        data_file(NAME)
    for part in (str(tmp_path), NAME, server.url):
        assert part in str(caught.value)
    assert server.asked == []


def test_what_nobody_publishes_is_said_so(server, tmp_path, monkeypatch):
    with pytest.raises(DataError, match="2025-qrels.txt isn't published yet"):
        data_file("2025-qrels.txt")
    monkeypatch.setenv("IKAT_DATA", str(tmp_path))
    with pytest.raises(DataError, match="isn't published yet: put it there once you have it"):
        data_file("2025-qrels.txt")


def test_an_unknown_file_lists_the_known_ones():
    with pytest.raises(UsageError, match="no data file '2022.json'; there are 2023_test_topics.json, "):
        data_file("2022.json")


def test_the_default_folder_is_in_pyterriers_home(tmp_path, monkeypatch):
    for name in ("IKAT_DATA", "IKAT_HOME"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("PYTERRIER_HOME", str(tmp_path / "pt"))
    assert data_folder() == tmp_path / "pt" / "ikat"


def test_the_released_files_are_the_ones_that_a_download_accepts(ikat_data):
    released = [name for name in SOURCES if (ikat_data / name).is_file()]
    assert len(released) == 10
    assert [download._difference(SOURCES[name], ikat_data / name) for name in released] == [""] * 10
    assert all(SOURCES[name].url.endswith(f"/{name}") for name in released)
