"""What a hostile or absent server can do to one call: never longer than its time, never silently,
never with a secret kept."""

import contextlib
import os
import signal
import socket
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest
from chat_server import DROP, KEY, Answer, ask, refused, said

from pyterrier_ikat.llms import FatalLLMError, llm
from pyterrier_ikat.llms.failures import Transient, Unavailable
from pyterrier_ikat.llms.retry import Retry

ENDED = threading.Event()
"""The test is over."""
LONG = 60
"""Seconds that the servers of these tests may take; what is cut off ends far sooner, on a loaded
machine too."""


def silence(client):
    ENDED.wait(LONG)


def eventually(true):
    ended = time.monotonic() + LONG
    while not true() and time.monotonic() < ended:
        time.sleep(0.01)
    return true()


@pytest.fixture
def raw(monkeypatch):
    """A server that lets a function write whatever it likes, and the clients that it had."""
    monkeypatch.setenv("OPENAI_API_KEY", KEY)
    listening = socket.create_server(("127.0.0.1", 0), backlog=64)
    ENDED.clear()
    clients, threads = [], []

    def accept(write):
        with contextlib.suppress(OSError):
            while True:
                clients.append(listening.accept()[0])
                threads.append(
                    threading.Thread(target=write, args=(clients[-1],), name="server", daemon=True)
                )
                threads[-1].start()

    def serve(write):
        threads.append(threading.Thread(target=accept, args=(write,), name="server", daemon=True))
        threads[-1].start()
        return f"http://127.0.0.1:{listening.getsockname()[1]}/v1", clients

    yield serve
    ENDED.set()
    listening.shutdown(socket.SHUT_RDWR)
    listening.close()
    if threads:
        threads[0].join(120)
    for client in clients:
        client.close()


def asked_of(url, *texts, options="timeout=0.3", tries=1):
    made = llm(f"openai:m base_url={url} cache=none {options}")
    made.retry = Retry(tries=tries, sleep=lambda seconds: None)
    made.open()
    began = time.monotonic()
    try:
        return made.ask(ask(*(texts or ("a",)))), time.monotonic() - began
    finally:
        made.close()


def test_a_silent_server_is_left_after_its_time(raw):
    url, clients = raw(silence)
    (failure,), seconds = asked_of(url, tries=2)
    assert failure.reason == "no answer within 0.3 seconds (timeout=...) (given up after 2 tries)"
    assert 0.6 <= seconds < LONG / 2
    assert eventually(lambda: len(clients) == 2)  # one that ran out of time is not used again


@pytest.mark.parametrize("try_takes", [0.0, 0.5, 5.0])
def test_a_server_that_never_answers_is_given_up_in_15_seconds(monkeypatch, try_takes):
    now, tries = [0.0], []
    monkeypatch.setattr(time, "monotonic", lambda: now[0])

    def sleep(seconds):
        now[0] += seconds

    def work():
        tries.append(sleep(try_takes))
        raise Transient(None, "no connection", unreached=True)

    with pytest.raises(Transient):
        Retry(sleep=sleep).loop(threading.Event())(work)
    assert len(tries) >= 2
    assert now[0] <= 15


def test_only_a_server_that_never_answered_ends_the_run(model, server):
    server.respond = lambda body: DROP
    with pytest.raises(
        FatalLLMError,
        match=r"Server disconnected .*it has never answered, 4 tries.: start it, or correct "
        r"base_url=\.\.\. .done and kept: 0 calls",
    ):
        model("concurrency=2 retries=9").ask(ask(*map(str, range(50))))
    assert server.calls <= 8
    server.script = [said()]
    made = model("retries=1")
    made.ask(ask("first"))
    assert isinstance(made.ask(ask("second"))[0], Unavailable)


@pytest.mark.parametrize(
    "answer", [refused(503, "loading the model"), refused(400), Answer(200, b"<p>wait</p>")]
)
def test_any_answer_shows_that_there_is_a_server(model, server, answer):
    server.script, server.respond = [answer], lambda body: DROP
    made = model("retries=2")
    made.backend.patience = (
        60  # on a busy machine "b" would be sent first, or meanwhile, and get that answer
    )
    assert isinstance(made.ask(ask("a", "b"))[1], Unavailable)


@pytest.mark.parametrize(
    ("answer", "quoted"),
    [
        ({"error": {"message": "Provider overloaded", "code": 502}}, "Provider overloaded"),
        ({"error": "model runner has stopped"}, "model runner has stopped"),
        ({"detail": "Not Found"}, "Not Found"),
        ({"message": f"hello {KEY}"}, "hello ***"),
        (
            {**said("half").body, "error": {"message": "Provider failed", "code": 502}},
            "Provider failed",
        ),
        ({"choices": []}, '{"choices": []}'),
        ({"error": None, "choices": [{"message": {"content": 5}}]}, '{"error": null, "choices"'),
        (b"<html><h1>Sign in</h1> to the Wi-Fi</html>", "<html><h1>Sign in</h1> to the Wi-Fi"),
        (b"", ""),
        (b"[" * 100_000, "maximum recursion depth exceeded"),
        ("x" * 5000, "x" * 200),
    ],
)
def test_an_answer_without_a_completion_is_quoted(model, server, answer, quoted):
    server.respond = lambda body: Answer(200, answer)
    (failure,) = model("retries=0").ask(ask("a"))
    assert failure.reason.startswith(f"the server's answer holds no completion. It says: {quoted}")
    assert len(failure.reason) < 500
    assert KEY not in str(failure)


@pytest.mark.parametrize(
    "page", [b"Forbidden by the firewall", b'{"detail": "Forbidden by the firewall"}']
)
def test_a_403_quotes_what_the_server_said_in_whatever_form(model, server, page):
    server.respond = lambda body: Answer(403, page)
    with pytest.raises(
        FatalLLMError,
        match="does not allow the call with the key in OPENAI_API_KEY .403: Forbidden by the "
        "firewall",
    ):
        model().ask(ask("a"))


@pytest.mark.parametrize(
    ("status", "location"),
    [
        (301, "https://elsewhere.example/v1/chat/completions"),
        (302, "/login"),
        (308, None),
        (307, "http://["),
    ],
)
def test_no_redirect_is_followed(model, server, status, location):
    server.respond = lambda body: Answer(
        status, {}, {} if location is None else {"Location": location}
    )
    made = model()
    made.backend.patience = (
        60  # on a busy machine the second call would follow before the first is refused
    )
    with pytest.raises(
        FatalLLMError, match=f"redirects .{status}., and no redirect is followed: correct base_url="
    ):
        made.ask(ask("a", "b"))
    assert server.calls == 1


PROGRAM = """
import os, signal, sys, threading
sys.path.insert(0, sys.argv[3])
from chat_server import ask
from pyterrier_ikat.llms import llm, sending

def pressed(*said, **options):  # a second Ctrl-C before the first is dealt with
    print(*said, **options)
    os.kill(os.getpid(), signal.SIGINT)

if "at once" in sys.argv:
    sending.print = pressed
made = llm(f"openai:m base_url={sys.argv[1]} cache={sys.argv[2]} concurrency=4")
try:
    made.ask(ask(*map(str, range(30))))
finally:
    print(threading.active_count(), file=sys.stderr)
"""


@pytest.mark.parametrize("pressed", ["at once", "later"])
def test_the_first_ctrl_c_says_it_waits_and_the_second_ends(server, tmp_path, pressed):
    arrived = threading.Event()
    release = threading.Event()

    def respond(body):
        if body["messages"][0]["content"] not in "01":
            if server.calls == 6:  # "0" and "1" are answered, four wait
                arrived.set()
            release.wait(120)
        return said()

    server.respond = respond
    environment = {
        **os.environ,
        "PYTHONPATH": str(Path(__file__).parents[2]),
        "OPENAI_API_KEY": KEY,
    }
    command = [
        sys.executable,
        "-c",
        PROGRAM,
        server.url,
        str(tmp_path / "llm.sqlite"),
        str(Path(__file__).parent),
        pressed,
    ]
    with subprocess.Popen(command, env=environment, stderr=subprocess.PIPE, text=True) as asking:
        assert arrived.wait(120)
        asking.send_signal(signal.SIGINT)
        line = next(line for line in asking.stderr if "stopping" in line)
        assert (
            line.strip()
            == "stopping: waiting for the calls under way; press Ctrl-C again to end at once"
        )
        if pressed == "later":
            assert asking.poll() is None
            asking.send_signal(signal.SIGINT)
        began = time.monotonic()
        asking.stderr.read()
        asking.wait(120)
    assert time.monotonic() - began < LONG  # the calls under way would take twice as long
    release.set()
    made = llm(f"openai:m base_url={server.url} cache={tmp_path / 'llm.sqlite'}")
    assert [made.peek(request) is not None for request in ask("0", "1")] == [True, True]
    made.close()
