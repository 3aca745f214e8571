"""What a hostile or absent server can do to one call: never longer than its time, never silently, never with a secret kept."""

import contextlib
import gc
import json
import os
import signal
import socket
import sys
import threading
import time
from pathlib import Path

import forked_python
import pytest
from chat_server import DROP, KEY, Answer, ask, refused, said

from pyterrier_ikat.llms import Completion, FatalLLMError, Unavailable, llm, network
from pyterrier_ikat.llms.failures import Transient
from pyterrier_ikat.llms.limits import Retry
from pyterrier_ikat.llms.network import SilentServerWarning
from pyterrier_ikat.llms.openai import ServerLeftOutWarning
from pyterrier_ikat.llms.sending import OtherModelWarning

HEAD = b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\n"
WHOLE = json.dumps(said("late").body).encode()


def drip(client, pieces, every=0.02):
    with contextlib.suppress(OSError):
        for piece in pieces:
            client.sendall(piece)
            time.sleep(every)


def blanks(client):
    """As a server does that keeps the connection alive while it works."""
    drip(client, [HEAD + b"Transfer-Encoding: chunked\r\n\r\n", *[b"1\r\n \r\n"] * 3000])


def headers(client):
    drip(client, [HEAD, *[b"X-A: b\r\n"] * 3000])


def half_a_header(client):
    drip(client, [b"HTTP/1.1 200 OK\r\nX-A: ", *[b"b"] * 3000])


def informational(client):
    drip(client, [b"HTTP/1.1 102 Processing\r\n\r\n"] * 3000)


def body(client):
    drip(client, [HEAD + b"Content-Length: 5000\r\n\r\n", *[WHOLE[at : at + 1] for at in range(len(WHOLE))]])


def without_end(client):
    drip(client, [HEAD + b"Content-Length: 1000000000000\r\n\r\n", *[b" " * 10_000] * 3000], every=0.02)


def events(client):
    head = b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\n\r\n"
    drip(client, [head, *[b": keep-alive\n\n"] * 3000])


def refusal(client):
    drip(client, [b"HTTP/1.1 500 Broken\r\nContent-Length: 5000\r\n\r\n", *[b"x"] * 3000])


ENDED = threading.Event()
"""The test is over."""
LONG = 60
"""Seconds that the servers of these tests may take; what is cut off ends far sooner, on a loaded machine too."""


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
                threads.append(threading.Thread(target=write, args=(clients[-1],), name="server", daemon=True))
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


@pytest.mark.parametrize("write", [blanks, headers, half_a_header, informational, body, without_end, events, refusal, silence])
def test_the_time_of_a_call_is_that_of_the_whole_call(raw, write):
    url, clients = raw(write)
    (failure,), seconds = asked_of(url, tries=2)
    assert failure.reason == "no answer within 0.3 seconds (timeout=...) (given up after 2 tries)"
    assert 0.6 <= seconds < LONG / 2
    assert eventually(lambda: len(clients) == 2)  # one that ran out of time is not used again


def test_a_server_that_does_not_read_the_question_holds_no_call(raw):
    url, _ = raw(silence)
    (failure,), seconds = asked_of(url, "x" * 30_000_000)
    assert failure.reason.startswith("no answer within 0.3 seconds")
    assert seconds < LONG / 2


def test_many_calls_that_run_out_of_time_leave_no_thread_and_no_connection(raw):
    before = set(threading.enumerate())
    url, clients = raw(silence)
    failures, seconds = asked_of(url, *map(str, range(32)), options="timeout=1.5 concurrency=32")
    assert len(failures) == 32
    assert eventually(lambda: len(clients) == 32)
    assert seconds < LONG / 2
    assert all(client.recv(1 << 16) for client in clients)
    assert not any(client.recv(1) for client in clients)  # closed on our side
    assert eventually(lambda: not _threads_of_the_calls(before))


def _threads_of_the_calls(before):
    """The threads begun since, without the server's own."""
    return [thread for thread in set(threading.enumerate()) - before if thread.name != "server"]


def test_an_answer_in_time_is_taken_however_it_comes(raw):
    def write(client):
        drip(client, [HEAD + b"Content-Length: %d\r\n\r\n" % len(WHOLE), b"", *[WHOLE[at : at + 40] for at in range(0, len(WHOLE), 40)]])

    (completion,), _ = asked_of(raw(write)[0], options="timeout=20")
    assert completion.text == "late"


def test_calls_one_after_the_other_share_a_connection_and_those_at_the_same_time_have_their_own(raw):
    both = threading.Barrier(2)

    def write(client):
        with contextlib.suppress(OSError, threading.BrokenBarrierError):
            while question := client.recv(1 << 16):
                if b"both" in question:
                    both.wait(LONG)
                if question.endswith(b"}"):  # the headers may come by themselves
                    client.sendall(HEAD + b"Content-Length: %d\r\n\r\n%b" % (len(WHOLE), WHOLE))

    url, clients = raw(write)
    made = llm(f"openai:m base_url={url} cache=none timeout={LONG}")
    for text in "abc":
        assert made.ask(ask(text))[0].text == "late"
    assert len(clients) == 1
    assert [one.text for one in made.ask(ask("both 1", "both 2"))] == ["late", "late"]
    assert len(clients) == 2
    made.close()
    assert eventually(lambda: not any(line for server in made.backend.servers.all for line in server.idle))


def test_each_try_has_the_whole_time(raw):
    def write(client):
        if len(clients) == 1:
            silence(client)
        drip(client, [HEAD + b"Content-Length: %d\r\n\r\n%b" % (len(WHOLE), WHOLE)])

    url, clients = raw(write)
    (completion,), _ = asked_of(url, options="timeout=1", tries=2)
    assert completion.text == "late"


def test_any_number_of_seconds_is_a_time(server, monkeypatch):
    monkeypatch.setenv("OPENAI_API_KEY", KEY)
    assert llm(f"openai:m base_url={server.url} timeout=1e300 cache=none").ask(ask("a"))[0].text == "answer to a"


def test_a_name_that_nobody_looks_up_in_time(server, monkeypatch):
    look_up, release = socket.getaddrinfo, threading.Event()
    monkeypatch.setattr(socket, "getaddrinfo", lambda *given, **named: [release.wait(120), look_up(*given, **named)][1])
    monkeypatch.setattr(network, "CONNECT", 0.2)
    with pytest.raises(FatalLLMError, match="no connection to .*: it is not reached within 0.2 seconds .it has never answered, 1 try"):
        asked_of(server.url, options="timeout=5")
    release.set()


class Clock:
    """Time that passes only where somebody sleeps, or a try takes some."""

    def __init__(self, try_takes=0.0):
        self.now, self.try_takes, self.tries = 0.0, try_takes, 0

    def sleep(self, seconds):
        self.now += seconds

    def failing(self, **kwargs):
        def work():
            self.tries += 1
            self.now += self.try_takes
            raise Transient(None, "no connection", **kwargs)

        with pytest.raises(Transient):
            Retry(sleep=self.sleep, clock=lambda: self.now).loop(threading.Event())(work)
        return self


@pytest.mark.parametrize("try_takes", [0.0, 0.5, 2.0, 5.0])
def test_a_server_that_never_answered_is_given_up_within_15_seconds(try_takes):
    clock = Clock(try_takes).failing(unreached=True)
    assert clock.tries >= 2
    assert clock.now <= 15


def test_once_it_has_answered_the_usual_limits_hold():
    clock = Clock().failing(unreached=False)
    assert clock.tries == 6
    assert clock.now >= 31


def test_a_server_that_never_answered_ends_the_run_and_one_that_has_does_not(model, server):
    server.respond = lambda body: DROP
    with pytest.raises(
        FatalLLMError, match=r"Server disconnected .*it has never answered, 4 tries.: start it, or correct base_url=\.\.\. .0 calls"
    ):
        model("concurrency=2 retries=9").ask(ask(*map(str, range(50))))
    assert server.calls <= 8
    server.script = [said()]
    made = model("retries=1")
    made.ask(ask("first"))
    assert isinstance(made.ask(ask("second"))[0], Unavailable)


@pytest.mark.parametrize("answer", [refused(503, "loading the model"), refused(400), Answer(200, b"<p>wait</p>")])
def test_any_answer_shows_that_there_is_a_server(model, server, answer):
    server.script, server.respond = [answer], lambda body: DROP
    made = model("retries=2")
    made.throttle.patience = 60  # on a busy machine "b" would be sent first, or meanwhile, and get that answer
    assert isinstance(made.ask(ask("a", "b"))[1], Unavailable)


def test_one_dead_server_of_two_is_no_reason_to_end(server, monkeypatch):
    monkeypatch.setenv("OPENAI_API_KEY", KEY)
    with pytest.warns(ServerLeftOutWarning):
        (completion,), _ = asked_of(f"http://127.0.0.1:9/v1,{server.url}", options="", tries=6)
    assert isinstance(completion, Completion)


def test_a_server_that_takes_a_call_and_is_silent_is_named_meanwhile(raw, monkeypatch):
    monkeypatch.setattr(network, "SILENT", 0.05)
    url, _ = raw(silence)
    with pytest.warns(SilentServerWarning, match=r"has not answered for [\d.]+ seconds. Each attempt waits up to 0.4 .timeout=") as told:
        asked_of(url, "a", "b", options="timeout=0.4")
    assert len(told) == 1


@pytest.mark.parametrize(("silent", "tries"), [(0.25, 3), (0.14, 2)])
def test_a_silent_server_is_named_though_each_try_ends_sooner(raw, monkeypatch, silent, tries):
    monkeypatch.setattr(network, "SILENT", silent)
    url, _ = raw(silence)
    with pytest.warns(SilentServerWarning, match="Each attempt waits up to 0.1 ") as told:
        (failure,), _ = asked_of(url, options="timeout=0.1", tries=tries)
    assert len(told) == 1
    assert isinstance(failure, Unavailable)


@pytest.mark.parametrize(
    ("answer", "quoted"),
    [
        ({"error": {"message": "Provider overloaded", "code": 502}}, "Provider overloaded"),
        ({"error": "model runner has stopped"}, "model runner has stopped"),
        ({"detail": "Not Found"}, "Not Found"),
        ({"message": f"hello {KEY}"}, "hello ***"),
        ({"choices": []}, '{"choices": []}'),
        ({"error": None, "choices": [{"message": {"content": 5}}]}, '{"error": null, "choices"'),
        (b"<html><style>p {}</style><body><h1>Sign in</h1> to the Wi-Fi</body></html>", "Sign in to the Wi-Fi"),
        (b"", "nothing"),
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
    "page", [b"<h1>Forbidden</h1> by the firewall", b"Forbidden by the firewall", b'{"detail": "Forbidden by the firewall"}']
)
def test_a_403_quotes_what_the_server_said_in_whatever_form(model, server, page):
    server.respond = lambda body: Answer(403, page)
    with pytest.raises(FatalLLMError, match="does not allow the call with the key in OPENAI_API_KEY .403.: Forbidden by the firewall"):
        model().ask(ask("a"))


def test_a_key_that_a_server_shows_in_part_is_not_quoted(model, server):
    server.respond = lambda body: refused(401, "Incorrect API key provided: sk-pl********6789. You can find it")
    with pytest.raises(FatalLLMError, match=r"\(401: Incorrect API key provided: \*\*\* You can find it\)"):
        model().ask(ask("a"))


@pytest.mark.parametrize(
    ("status", "location"), [(301, "https://elsewhere.example/v1/chat/completions"), (302, "/login"), (308, None), (307, "http://[")]
)
def test_no_redirect_is_followed(model, server, status, location):
    server.respond = lambda body: Answer(status, {}, {} if location is None else {"Location": location})
    made = model()
    made.throttle.patience = 60  # on a busy machine the second call would follow before the first is refused
    with pytest.raises(FatalLLMError, match=f"redirects to .* .{status}., and no redirect is followed: correct base_url="):
        made.ask(ask("a", "b"))
    assert server.calls == 1


def test_a_secret_in_a_completion_is_removed_before_it_is_kept(model, server, home):
    server.respond = lambda body: Answer(200, said(f"Your key is {KEY}.").body | {"model": f"m {KEY}"})
    with pytest.warns(OtherModelWarning, match=r"'m \*\*\*' answers instead of 'm'"):
        (completion,) = model().ask(ask("a"))
    assert (completion.text, completion.model) == ("Your key is ***.", "m ***")
    assert not any(KEY.encode() in path.read_bytes() for path in home.rglob("*") if path.is_file())


@pytest.mark.parametrize("key", ["EMPTY", "ollama", "lm-studio", "password"])
def test_a_word_that_is_given_as_a_key_stays_a_word(model, server, monkeypatch, key):
    monkeypatch.setenv("OPENAI_API_KEY", key)
    server.respond = lambda body: said(f"the {key} is")
    assert model().ask(ask("a"))[0].text == f"the {key} is"


@pytest.mark.parametrize(
    ("variable", "value", "why"),
    [
        ("HTTPS_PROXY", "socks5://me:secret-pw@host:1", "a SOCKS proxy needs the package socksio"),
        ("ALL_PROXY", "foo://me:secret-pw@host:1", "foo://"),
        ("HTTP_PROXY", "http://me:secret-pw@host:port", "Invalid port"),
        ("SSL_CERT_FILE", "/no/such/file.pem", "No such file"),
        ("SSL_CERT_FILE", __file__, "no certificate"),
    ],
)
def test_a_proxy_or_certificate_that_can_not_be_used_is_named(monkeypatch, variable, value, why):
    monkeypatch.setenv("OPENAI_API_KEY", KEY)
    monkeypatch.setenv(variable, value)
    with pytest.raises(FatalLLMError, match=f"{why}.*: correct the environment, which sets .*{variable}") as raised:
        llm("openai:m").ask(ask("a"))
    assert "secret-pw" not in str(raised.value)
    assert raised.value.__cause__ is None


PROGRAM = """
import signal, sys, threading
sys.path.insert(0, sys.argv[3])
from chat_server import ask
from pyterrier_ikat.llms import llm
made = llm(f"openai:m base_url={sys.argv[1]} cache={sys.argv[2]} concurrency=4")
try:
    made.ask(ask(*map(str, range(30))))
finally:
    print(threading.active_count(), file=sys.stderr)
"""


def test_the_first_ctrl_c_says_that_it_waits_and_the_second_one_ends(server, tmp_path):
    arrived, release = threading.Event(), threading.Event()

    def respond(body):
        if body["messages"][0]["content"] not in "01":
            if server.calls == 6:  # "0" and "1" are answered, four wait
                arrived.set()
            release.wait(120)
        return said()

    server.respond = respond
    environment = {**os.environ, "PYTHONPATH": str(Path(__file__).parents[2]), "OPENAI_API_KEY": KEY}
    command = [sys.executable, "-c", PROGRAM, server.url, str(tmp_path / "llm.sqlite"), str(Path(__file__).parent)]
    with forked_python.Popen(command, env=environment, stderr=forked_python.PIPE, text=True) as asking:
        assert arrived.wait(120)
        asking.send_signal(signal.SIGINT)
        line = next(line for line in asking.stderr if "stopping" in line)
        assert line.strip() == "stopping: waiting for the 4 calls under way; press Ctrl-C again to end at once"
        assert asking.poll() is None
        asking.send_signal(signal.SIGINT)
        began = time.monotonic()
        asking.stderr.read()
        asking.wait(120)
    assert time.monotonic() - began < LONG
    release.set()
    made = llm(f"openai:m base_url={server.url} cache={tmp_path / 'llm.sqlite'}")
    assert [made.peek(request) is not None for request in ask("0", "1")] == [True, True]
    made.close()


def test_what_is_cut_off_is_told_so_and_tried_by_nobody(raw):
    def write(client):
        client.recv(1 << 16)
        made.backend.cut()
        silence(client)

    url, clients = raw(write)
    made = llm(f"openai:m base_url={url} cache=none timeout={LONG}")
    made.retry = Retry(tries=1)
    began = time.monotonic()
    with pytest.raises(FatalLLMError, match="no connection"):
        made.ask(ask("a"))
    assert time.monotonic() - began < LONG / 2
    made.close()
    gc.collect()
