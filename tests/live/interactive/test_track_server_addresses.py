"""A real address: what is refused before it is called, the token, proxies, and a killed command."""

import logging
import os
import signal
import subprocess
import sys
import time
import traceback
from pathlib import Path

import pytest
from click.testing import CliRunner
from playing import EVERY, ONE, Model, play, said, system_of
from track_server import TOKEN, Refused, Track, TrackServer

import pyterrier_ikat as ikat
from pyterrier_ikat.cli import main
from pyterrier_ikat.errors import UsageError
from pyterrier_ikat.live.interactive import ServerDown, interactive_run, track_server


@pytest.mark.parametrize(
    ("status", "told"),
    [
        (
            401,
            (
                "does not accept the token in IKAT_TOKEN .401: .*Echo of .*: "
                "copy the token of your team again"
            ),
        ),
        (403, "refuses auth/verify .403"),
        (404, "which is the part before /run/start"),
        (307, "refuses auth/verify .307"),
        (400, "does not accept the token in IKAT_TOKEN .400"),
        (418, "refuses auth/verify .418"),
    ],
)
def test_refusals_are_told_without_the_token(tmp_path, caplog, status, told):
    class Echo(Track):
        def answer(self, *call):
            raise Refused(status, f"Echo of Bearer {TOKEN}")

    caplog.set_level(logging.DEBUG)
    with pytest.raises(UsageError, match=told) as raised:
        play(Echo(), tmp_path / "run")
    frames = raised.value.__traceback__
    while frames is not None and "pyterrier_ikat" not in frames.tb_frame.f_code.co_filename:
        frames = frames.tb_next  # without the tests, which know the token
    text = "".join(
        traceback.TracebackException(
            type(raised.value), raised.value, frames, capture_locals=True
        ).format()
    )
    assert TOKEN not in text + caplog.text + str(vars(raised.value)) + repr(raised.value)


def test_what_is_no_server_of_simulated_users_is_said(tmp_path):
    class Page(Track):
        def answer(self, *call):
            return "<html>A chat page</html>"

    with pytest.raises(ServerDown, match="what came is not JSON.: check the address"):
        play(Page(), tmp_path / "run")


def interact(url, folder, **options):
    return ikat.interact(url, system_of(Model()), run_id="mine", out=folder, **options)


@pytest.mark.parametrize(
    ("address", "token", "told"),
    [
        (
            "http://example.org/simulation",
            TOKEN,
            "would send the token unencrypted: give an https:// address",
        ),
        ("https://me:pw-98765@example.org", TOKEN, "without a login or a query"),
        ("https://example.org?token=pw-98765", TOKEN, "without a login or a query"),
        ("example.org", TOKEN, "give the part before /run/start, such as"),
        *(
            ("http://localhost:8888", token, "copy the token of your team again")
            for token in ("", "two words", "tok…")
        ),
        (
            "http://127.0.0.1:9",
            TOKEN,
            r"gave no answer to auth/verify .ConnectError",
        ),  # where nothing listens
    ],
)
def test_an_unusable_address_or_token_is_refused_before_sending(
    monkeypatch, tmp_path, address, token, told
):
    monkeypatch.setenv("IKAT_TOKEN", token)
    with pytest.raises((UsageError, ServerDown), match=told) as raised:
        interact(address, tmp_path / "run")
    assert "pw-98765" not in str(raised.value)
    assert not (tmp_path / "run").exists()


@pytest.fixture(autouse=True)
def at_once_without_spacy(monkeypatch):
    """Waits take no time, nor does the import of spaCy, which counts the words of the answers."""
    monkeypatch.setattr(track_server, "sleep", lambda seconds: None)
    for module in (track_server, interactive_run):
        monkeypatch.setattr(module, "tokenizer", lambda: str.split)


@pytest.fixture
def serve(monkeypatch):
    """Puts a track behind a real address."""
    monkeypatch.setenv("IKAT_TOKEN", f" {TOKEN}\n")
    servers = []

    def make(track):
        servers.append(TrackServer(track))
        return servers[-1].url

    yield make
    for server in servers:
        server.close()


@pytest.mark.parametrize(
    ("fault", "timeout"), [("drop before", 300), ("drop after", 300), ("hang", 0.2)]
)
def test_a_lost_or_slow_real_answer_is_free_and_hides_the_token(
    serve, tmp_path, caplog, monkeypatch, fault, timeout
):
    caplog.set_level(logging.DEBUG)
    monkeypatch.setattr(track_server, "TIMEOUT", timeout)
    track = Track(ONE, faults=["", fault])
    steps = []
    url = serve(track)
    run = interact(url, tmp_path / "run", tell=steps.append)
    assert run.finished
    assert said(track.taken) == [("1-1", "Which tea?"), ("1-1", "And now?")]
    assert {headers["authorization"] for headers in track.headers} == {f"Bearer {TOKEN}"}
    server = track_server.TrackServer(url, "mine")
    shown = repr(run) + "".join(steps) + caplog.text + repr(server) + repr(vars(server))
    assert TOKEN not in shown + "".join(
        path.read_text() for path in tmp_path.rglob("*") if path.is_file()
    )


def team(url):
    return track_server.TrackServer(url, "mine").team()


@pytest.mark.parametrize("name", ["http_proxy", "ALL_PROXY"])
def test_a_proxy_does_not_get_the_token_of_a_local_address(serve, monkeypatch, name):
    for other in ("NO_PROXY", "no_proxy"):
        monkeypatch.delenv(other, raising=False)
    proxy = Track(ONE)
    monkeypatch.setenv(name, serve(proxy))
    assert team(serve(Track(ONE))) == "team-a"
    assert proxy.calls == []


def test_a_redirect_is_not_followed_and_a_proxy_page_is_an_error(serve):
    track = Track(ONE)
    other = Track(ONE)
    url = serve(track)
    there = serve(other)
    track.handle = lambda *call: (307, {}, {"Location": f"{there}/auth/verify?token={TOKEN}"})
    with pytest.raises(
        UsageError, match=f"refuses auth/verify .307: {there}/auth/verify"
    ) as raised:
        team(url)
    assert TOKEN not in str(raised.value)
    assert other.calls == []
    track.handle = lambda *call: (502, "<html>\n<h1>Bad Gateway</h1>" + "x" * 100_000, {})
    with pytest.raises(ServerDown, match="502: .*Bad Gateway") as raised:
        team(url)
    assert len(str(raised.value)) < 400


SLOW = '''
import os, pathlib, time
import pyterrier as pt
import pyterrier_ikat as ikat

class Count(pt.Transformer):
    """Counts the turns, and waits in the one that a file names."""

    def transform(self, inp):
        if inp["query"].iloc[0] != "tea":
            with pathlib.Path("seen").open("a") as file:
                file.write(inp["qid"].iloc[0] + "\\n")
            while pathlib.Path("wait").exists() and inp["qid"].iloc[0] == "1-1_2":
                time.sleep(0.01)
        passage = dict(docno="clueweb22-en0000-00-00000:0", text="", score=1.0, rank=0, used=True)
        return inp.assign(qanswer="Rooibos.", **passage)

    def __repr__(self):
        return "Count()"

@ikat.method(paper="")
def answering():
    """Says the same to everybody."""
    return Count()
'''


def test_the_command_killed_in_the_middle_of_a_turn_continues(serve, tmp_path):
    track = Track()
    url = serve(track)
    (tmp_path / "mine.py").write_text(SLOW)
    (tmp_path / "wait").touch()
    (tmp_path / "spacy.py").write_text(
        "class blank:\n    tokenizer = staticmethod(str.split)\n    def __init__(self, name): "
        "pass\n"
    )  # it takes seconds to load
    words = ["interact", url, "mine.py:answering", "--run-id", "mine", "--out", "run"]
    call = [sys.executable, "-c", "from pyterrier_ikat.cli import main; main()", *words]
    before = subprocess.Popen(
        call,
        cwd=tmp_path,
        stderr=subprocess.DEVNULL,
        env=os.environ | {"PYTHONPATH": str(Path(__file__).parents[3])},
    )
    until = time.monotonic() + 120
    while not (tmp_path / "seen").exists() or "1-1_2" not in (tmp_path / "seen").read_text():
        assert before.poll() is None
        assert time.monotonic() < until
        time.sleep(0.02)
    before.send_signal(signal.SIGKILL)
    before.wait()
    (tmp_path / "wait").unlink()
    assert said(track.taken) == EVERY[:1]
    with pytest.MonkeyPatch.context() as patched:
        patched.chdir(tmp_path)
        done = CliRunner().invoke(main, words)
    assert done.exit_code == 0, done.output
    assert said(track.taken) == EVERY
    assert (tmp_path / "seen").read_text().split() == [
        "1-1_1",
        "1-1_2",
        "1-1_2",
        "1-1_3",
        "2-1_1",
        "1-2_1",
        "1-2_2",
    ]
    assert "1-1_3 answered: " in done.stderr
    assert TOKEN not in done.output
