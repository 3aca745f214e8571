"""What a server tells the user who starts it, and how it ends."""

import threading

import httpx
import pyterrier as pt
import pytest
from fakes import scripted

import pyterrier_ikat as ikat
from pyterrier_ikat.live.serving import server


class Running:
    """A server that is started and ends at once."""

    url = "http://host:1"
    notes = ["a note", "another"]

    def __init__(self):
        self.thread = threading.Thread(target=str)
        self.thread.start()
        self.thread.join()


def test_serve_tells_its_addresses_and_notes(monkeypatch):
    started = []

    class Context:
        def __init__(self, systems, **options):
            started.append((systems, options))

        def __enter__(self):
            return Running()

        def __exit__(self, *error):
            return None

    monkeypatch.setattr(server, "running", Context)
    lines = []
    server.serve("ad", echo=lines.append, out="folder")
    server.serve(["raw"], port=0, echo=lines.append)
    assert started == [
        ("ad", {"port": 8000, "log": True, "out": "folder"}),
        (["raw"], {"port": 0, "log": True}),
    ]
    assert lines[0].splitlines() == [
        "chat page      http://host:1/",
        "models         http://host:1/v1",
        "search         http://host:1/search",
        "a note",
        "another",
        "Ctrl-C stops",
    ]


def test_ctrl_c_ends_a_server_without_an_error(monkeypatch):
    class Context:
        def __init__(self, systems, **options):
            pass

        def __enter__(self):
            return Running()

        def __exit__(self, *error):
            return None

    def interrupted(text):
        raise KeyboardInterrupt

    monkeypatch.setattr(server, "running", Context)
    server.serve("ad", echo=interrupted)


def test_the_notes_of_a_server_name_what_is_not_usual(monkeypatch, tmp_path):
    monkeypatch.delenv("IKAT_SERVE_TOKEN", raising=False)
    answers = {"mine": ikat.Answer(scripted()[0])}
    finds = pt.apply.generic(lambda turns: turns.assign(docno="d", score=1.0, rank=0, text="t"))
    with server.running({**answers, "finds": finds}, out=tmp_path / "out") as running:
        assert running.url.startswith("http://127.0.0.1:")
        notes = running.notes
    assert notes[0].startswith("no token: only this machine is answered")
    assert not any(note.startswith("mine ") for note in notes)
    assert f"conversations whose clients name them are saved in {tmp_path / 'out'}" in notes
    assert not any("Model Context Protocol" in note for note in notes)
    assert not running.thread.is_alive()
    with server.running(answers, token="a-token-of-twenty-signs", mcp=True) as running:
        assert "requests need the token of the argument token" in running.notes[0]
        assert "tools of the Model Context Protocol are at /mcp" in running.notes
        port = int(running.url.rpartition(":")[2])
        with (
            pytest.raises(ikat.UsageError, match="can't be used"),
            server.running(answers, port=port),
        ):
            pass


def test_a_limit_of_words_is_for_systems_that_have_one():
    answers = {"mine": ikat.Answer(scripted()[0])}
    with pytest.raises(ikat.UsageError, match="words"), server.running(answers, words=3):
        pass


def test_requests_are_logged_only_where_that_is_asked_for(monkeypatch, caplog):
    monkeypatch.delenv("IKAT_SERVE_TOKEN", raising=False)
    caplog.set_level("INFO", "uvicorn.access")
    with server.running({"mine": ikat.Answer(scripted()[0])}) as running:
        assert httpx.get(f"{running.url}/v1/models", trust_env=False).status_code == 200
    assert [record for record in caplog.records if record.name == "uvicorn.access"] == []
