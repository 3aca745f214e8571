"""The token, the address and the connection of interactive runs; the command, also killed for good."""

import logging
import os
import signal
import sys
import time
import traceback
from pathlib import Path

import forked_python
import pytest
from click.testing import CliRunner
from test_interact import EVERY, Model, play, said, system_of
from track_server import TOKEN, Refused, Track, TrackServer

import pyterrier_ikat as ikat
from pyterrier_ikat.cli import main
from pyterrier_ikat.errors import UsageError
from pyterrier_ikat.live.interactive import ServerDown, track_server

ONE = (("1-1", "ann", ("Which tea?", "And now?")),)


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


def interact(url, folder, **options):
    return ikat.interact(url, system_of(Model()), run_id="mine", out=folder, sleep=lambda seconds: None, **options)


@pytest.mark.parametrize(
    ("status", "told"),
    [
        (401, "does not accept the token in IKAT_TOKEN: copy the token of your team again .401: Echo of "),
        (403, "does not allow this .403"),
        (404, "which is the part before /run/start"),
        (307, "answers with a redirect, and the token is not sent on"),
        (400, "does not accept the token in IKAT_TOKEN: copy the token of your team again .400"),
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
    text = "".join(traceback.TracebackException(type(raised.value), raised.value, frames, capture_locals=True).format())
    assert TOKEN not in text + caplog.text + str(vars(raised.value)) + repr(raised.value)


def test_the_token_is_in_no_file_log_or_object(serve, tmp_path, caplog):
    caplog.set_level(logging.DEBUG)
    url = serve(Track(ONE, faults=["drop after", "drop before"]))
    steps = []
    run = interact(url, tmp_path / "run", tell=steps.append)
    server = track_server.TrackServer(url)
    shown = repr(run) + "".join(steps) + caplog.text + repr(server) + repr(vars(server))
    shown += "".join(path.read_text() for path in tmp_path.rglob("*") if path.is_file())
    assert TOKEN not in shown


@pytest.mark.parametrize(("fault", "options"), [("drop before", {}), ("drop after", {}), ("hang", {"timeout": 0.2})])
def test_over_a_real_connection_a_lost_or_slow_answer_costs_nothing(serve, tmp_path, fault, options):
    track = Track(ONE, faults=["", fault])
    assert interact(serve(track), tmp_path / "run", **options).finished
    assert said(track.taken) == [("1-1", "Which tea?"), ("1-1", "And now?")]
    assert {headers["authorization"] for headers in track.headers} == {f"Bearer {TOKEN}"}


@pytest.mark.parametrize(
    ("address", "token", "told"),
    [
        ("http://example.org/simulation", TOKEN, "would send the token unencrypted: give an https:// address"),
        ("https://me:pw-98765@example.org", TOKEN, "without a login or a query"),
        ("https://example.org?token=pw-98765", TOKEN, "without a login or a query"),
        ("example.org", TOKEN, "give the part before /run/start, such as"),
        *(("http://localhost:8888", token, "copy the token of your team again") for token in ("", "two words", "tok…")),
        ("http://127.0.0.1:9", TOKEN, r"gave no answer to auth/verify .no connection"),  # where nothing listens
    ],
)
def test_an_address_or_token_that_cannot_be_used_is_refused_before_anything_is_sent(monkeypatch, tmp_path, address, token, told):
    monkeypatch.setenv("IKAT_TOKEN", token)
    with pytest.raises((UsageError, ServerDown), match=told) as raised:
        interact(address, tmp_path / "run")
    assert "pw-98765" not in str(raised.value)
    assert not (tmp_path / "run").exists()


def test_what_is_no_server_of_simulated_users_is_said(tmp_path):
    class Page(Track):
        def answer(self, *call):
            return "<html>A chat page</html>"

    with pytest.raises(ServerDown, match="its answer is not JSON.: check the address"):
        play(Page(), tmp_path / "run")


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
        return inp.assign(docno="clueweb22-en0000-00-00000:0", score=1.0, rank=0, used=True, text="", qanswer="Rooibos.")

    def __repr__(self):
        return "Count()"

@ikat.method(paper="")
def answering():
    """Says the same to everybody."""
    return Count()
'''


def test_the_command_is_killed_in_the_middle_of_a_turn_and_continues(serve, tmp_path):
    track = Track()
    url = serve(track)
    (tmp_path / "mine.py").write_text(SLOW)
    (tmp_path / "wait").touch()
    words = ["interact", url, "mine.py:answering", "--run-id", "mine", "--out", "run"]
    call = [sys.executable, "-c", "from pyterrier_ikat.cli import main; main()", *words]
    before = forked_python.Popen(
        call, cwd=tmp_path, stderr=forked_python.DEVNULL, env=os.environ | {"PYTHONPATH": str(Path(__file__).parents[3])}
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
    assert (tmp_path / "seen").read_text().split() == ["1-1_1", "1-1_2", "1-1_2", "1-1_3", "2-1_1", "1-2_1", "1-2_2"]
    assert "1-1_3 answered: " in done.stderr
    assert TOKEN not in done.output
