"""Calls to a search server over a transport in memory: what is tried again, and for how long."""

import json
import ssl
import threading
from types import SimpleNamespace

import httpx
import pytest
import tenacity

from pyterrier_ikat.errors import UsageError
from pyterrier_ikat.events import AskerLeft, asked_by
from pyterrier_ikat.retrieve import server_calls
from pyterrier_ikat.retrieve.server_calls import Call, Caller, ServerError, checked_address

CLIENT = httpx.Client
ASKED = Call("POST", "/search", {"k": "1"}, {"q": "tea"})


class Server:
    """Answers each request by the next of its answers, a response or an error; the last stays."""

    def __init__(self, *answers):
        self.answers = list(answers)
        self.requests = []
        self.waits = []

    def __call__(self, request):
        self.requests.append(request)
        answer = self.answers.pop(0) if len(self.answers) > 1 else self.answers[0]
        if isinstance(answer, Exception):
            raise answer
        return answer


@pytest.fixture
def serve(monkeypatch):
    """Make a server of answers; its ``clients`` are the options of the clients that reach it."""

    def serve(*answers):
        server = Server(*answers)
        server.clients = []

        def connect(verify, **options):
            server.clients.append({**options, "verify": verify})
            return CLIENT(**options, transport=httpx.MockTransport(server))

        def sleep_using(event):
            return lambda seconds: server.waits.append(seconds)

        monkeypatch.setattr(httpx, "Client", connect)
        monkeypatch.setattr(tenacity, "sleep_using_event", sleep_using)
        return server

    return serve


def caller(**changed):
    options = {"api_key_env": "KEY_OF_TESTS", "timeout": 9.0, "concurrency": 2, "tries": 4}
    return Caller("http://host/base", **options | changed)


def failing(status, content="", **headers):
    return httpx.Response(status, content=content, headers=headers)


DONE = httpx.Response(200, json={"done": True})


def test_a_call_is_sent_whole_and_its_answer_parsed(serve, monkeypatch):
    monkeypatch.setenv("KEY_OF_TESTS", " secret\n")
    server = serve(DONE)
    assert caller().answers([ASKED]) == [{"done": True}]
    [request] = server.requests
    assert (request.method, str(request.url)) == ("POST", "http://host/base/search?k=1")
    assert json.loads(request.content) == {"q": "tea"}
    assert request.headers["authorization"] == "Bearer secret"
    [options] = server.clients
    assert options["follow_redirects"] is False
    assert options["timeout"] == httpx.Timeout(9.0, connect=5.0)


def test_a_short_limit_is_that_of_connections_too(serve):
    server = serve(DONE)
    caller(timeout=2.0).answers([Call("GET", "/x")])
    assert server.clients[0]["timeout"] == httpx.Timeout(2.0)
    assert "authorization" not in server.requests[0].headers
    assert server.requests[0].content == b""
    assert str(server.requests[0].url) == "http://host/base/x"


def test_answers_are_in_the_order_of_the_calls(serve):
    server = serve(DONE)
    server.answers = [httpx.Response(200, json={"n": n}) for n in range(5)]
    calls = [Call("GET", f"/{number}") for number in range(5)]
    found = caller(concurrency=1).answers(calls)
    assert found == [{"n": n} for n in range(5)]
    assert [request.url.path for request in server.requests] == [f"/base/{n}" for n in range(5)]
    assert caller().answers([]) == []


def test_a_text_is_given_as_it_is(serve):
    serve(failing(200, "- name: k1"))
    assert caller().answers([Call("GET", "/", of_text=True)]) == [{"text": "- name: k1"}]


@pytest.mark.parametrize("status", [408, 425, 429, 500, 502, 503, 504])
def test_statuses_that_may_pass_are_tried_again(serve, status):
    server = serve(failing(status), failing(status), DONE)
    assert caller().answers([ASKED]) == [{"done": True}]
    assert len(server.requests) == 3
    assert len(server.waits) == 2
    assert 1 <= server.waits[0] <= 2 <= server.waits[1] <= 3  # doubled, with up to a second more


def test_the_number_of_tries_is_a_limit(serve):
    server = serve(failing(503, "full"))
    with pytest.raises(ServerError, match="^http://host/base: the server answers 503: full$"):
        caller(tries=3).answers([ASKED])
    assert len(server.requests) == 3


@pytest.mark.parametrize(("wait", "tries"), [("0", 2), ("600", 2), ("601", 1)])
def test_a_wait_that_is_asked_for_is_waited_if_short(serve, wait, tries):
    server = serve(failing(503, "full", **{"retry-after": wait}))
    told = rf"503: full \(it asks to wait {wait} seconds\)"
    with pytest.raises(ServerError, match=told):
        caller(tries=2).answers([ASKED])
    assert len(server.requests) == tries
    assert server.waits == [float(wait)] * (tries - 1)


@pytest.mark.parametrize(
    ("error", "tries", "told"),
    [
        (httpx.ConnectError("refused"), 3, r"no connection \(refused\)"),
        (httpx.ConnectTimeout("late"), 3, r"no connection \(late\)"),
        (httpx.ReadTimeout("late"), 4, r"no answer within 9 seconds \(timeout=...\)"),
        (httpx.ReadError("reset"), 4, r"the connection broke \(reset\)"),
        (httpx.RemoteProtocolError("half"), 4, r"the connection broke \(half\)"),
        (httpx.InvalidURL("odd"), 1, r"the call can't be made \(odd\)"),
        (httpx.DecodingError("odd"), 1, r"the call can't be made \(odd\)"),
    ],
)
def test_a_connection_that_fails_is_tried_again_while_it_helps(serve, error, tries, told):
    server = serve(error)
    with pytest.raises(ServerError, match=f"^http://host/base: {told}$"):
        caller().answers([ASKED])
    assert len(server.requests) == tries


def test_one_try_is_one_try_also_without_a_connection(serve):
    server = serve(httpx.ConnectError("refused"))
    with pytest.raises(ServerError):
        caller(tries=1).answers([ASKED])
    assert len(server.requests) == 1


@pytest.mark.parametrize("how", ["cause", "context"])
def test_a_certificate_that_fails_is_not_tried_again(serve, how):
    certificate = ssl.SSLCertVerificationError("x")
    certificate.verify_message = "self-signed"
    error = httpx.ConnectError("tls")
    setattr(error, f"__{how}__", certificate)
    server = serve(error)
    with pytest.raises(ServerError, match=r"isn't trusted \(self-signed\).*SSL_CERT_FILE"):
        caller().answers([ASKED])
    assert len(server.requests) == 1


@pytest.mark.parametrize(
    ("answer", "told"),
    [
        (failing(301, location="/x"), r"redirects \(301\), and no redirect is followed"),
        (failing(399), r"redirects \(399\)"),
        (failing(400, "bad"), r"refuses the call \(400: bad\)"),
        (failing(201, "{}"), r"refuses the call \(201: \{\}\)"),
        (failing(204), r"refuses the call \(204: \)"),
        (failing(404, "gone"), r"refuses the call \(404: gone\)"),
        (failing(200, "[1]"), r"answers no JSON object, but: \[1\]"),
        (failing(200, "<p>"), "answers no JSON object, but: <p>"),
        (failing(200, "[" * 200_000), r"answers no JSON object, but: \[\[\["),
    ],
)
def test_what_does_not_pass_is_told_at_once(serve, answer, told):
    server = serve(answer)
    with pytest.raises(ServerError, match=told):
        caller().answers([ASKED])
    assert len(server.requests) == 1


def test_an_error_with_status_200_is_tried_again(serve):
    server = serve(failing(200, '{"error": "busy"}'), DONE)
    assert caller().answers([ASKED]) == [{"done": True}]
    serve(failing(200, '{"error": null, "scores": {}}'))
    with pytest.raises(ServerError, match="the server answers an error: null"):
        caller(tries=1).answers([ASKED])
    assert len(server.requests) == 2


@pytest.mark.parametrize("status", [401, 403])
@pytest.mark.parametrize(
    ("key", "told"),
    [
        ("", "needs a key in the environment variable KEY_OF_TESTS"),
        ("secret", "refuses the key in KEY_OF_TESTS"),
    ],
)
def test_a_key_that_is_missing_or_refused_is_told(serve, monkeypatch, status, key, told):
    monkeypatch.setenv("KEY_OF_TESTS", key)
    server = serve(failing(status, "the key secret"))
    with pytest.raises(ServerError, match=told) as refused:
        caller().answers([ASKED])
    assert len(server.requests) == 1
    assert f"({status}: the key " in str(refused.value)
    assert ("secret" in str(refused.value)) is (key == "")


@pytest.mark.parametrize("key", ["sécret", "two\nlines", "a\x7fb"])
def test_a_key_with_odd_characters_is_not_shown(serve, monkeypatch, key):
    monkeypatch.setenv("KEY_OF_TESTS", key)
    server = serve(DONE)
    with pytest.raises(UsageError, match="the key in KEY_OF_TESTS has a character") as refused:
        caller().answers([ASKED])
    assert key not in str(refused.value)
    assert server.requests == []


@pytest.mark.parametrize(
    ("body", "words"),
    [
        ({"error": {"message": "full"}}, "full"),
        ({"error": "full", "detail": "x"}, "full"),
        ({"message": "full", "detail": "x"}, "full"),
        ({"detail": "full"}, "full"),
        ({"detail": [{"loc": 1}]}, '[{"loc": 1}]'),
        ({"other": 1}, '{"other": 1}'),
        ("two\n  lines", "two lines"),
        ("\x1b[31mred\0", "red"),
        ("x" * 300, "x" * 300),
        ("x" * 301, "x" * 297 + "..."),
    ],
)
def test_a_servers_words_are_one_short_line(body, words):
    assert caller()._words(body) == words


def test_nothing_is_tried_again_after_another_call_has_failed(serve):
    server = serve(failing(503))
    stopped = threading.Event()
    stopped.set()
    with httpx.Client(verify=False) as client, pytest.raises(ServerError, match="503"):
        caller()._answer(client, stopped, ASKED)
    assert len(server.requests) == 1


def test_a_failure_ends_the_waits_of_other_calls(serve, monkeypatch):
    server = serve(DONE)
    together = threading.Barrier(2)

    def answer(request):
        server.requests.append(request.url.path)
        if len(server.requests) <= 2:
            together.wait(20)  # two calls are made at once
        return failing(503 if request.url.path == "/base/busy" else 400)

    monkeypatch.setattr(Server, "__call__", lambda self, request: answer(request))
    waiting = lambda event: lambda seconds: event.wait(0.5)  # noqa: E731
    monkeypatch.setattr(tenacity, "sleep_using_event", waiting)
    with pytest.raises(ServerError, match="400"):
        caller().answers([Call("GET", "/bad"), Call("GET", "/busy")])
    assert server.requests.count("/base/busy") <= 2  # of four


def test_who_has_left_gets_no_answer(serve):
    serve(DONE)
    left = threading.Event()
    with asked_by(left):
        assert len(caller().answers([ASKED])) == 1
        left.set()
        with pytest.raises(AskerLeft):
            caller().answers([ASKED])


@pytest.mark.parametrize(("url", "verified"), [("http://host", False), ("https://host", True)])
def test_certificates_are_read_where_they_are_checked(serve, url, verified):
    server = serve(DONE)
    Caller(url, "KEY_OF_TESTS", 9.0, 1, 1).answers([ASKED])
    assert server.clients[0]["verify"] is verified


def test_waits_double_up_to_a_minute():
    waits = []
    for attempt in (1, 2, 3, 7, 20):
        error = server_calls._AgainError("busy")
        outcome = SimpleNamespace(exception=lambda error=error: error)
        state = SimpleNamespace(attempt_number=attempt, outcome=outcome)
        waits.append(server_calls._seconds_to_wait(state))
    for wait, least in zip(waits, (1, 2, 4, 60, 60), strict=True):
        assert least <= wait <= min(least + 1, 60)


@pytest.mark.parametrize(
    ("url", "address"),
    [
        ("http://host:8000", "http://host:8000"),
        ("https://host/path/", "https://host/path"),
        ("http://host//", "http://host"),
    ],
)
def test_an_address_has_no_slash_at_its_end(url, address):
    assert checked_address(url) == address


@pytest.mark.parametrize(
    "url",
    ["host", "ftp://host", "http://", "http://me@host", "http://h?k=1", "http://h#k", None, 7, ""],
)
def test_what_is_no_address_is_refused(url):
    with pytest.raises(UsageError, match="the address of a search server is http://HOST:PORT"):
        checked_address(url)


def test_a_wait_in_the_words_of_a_server_is_waited(serve):
    server = serve(httpx.Response(429, json={"error": "Please try again in 7s."}), DONE)
    assert caller().answers([ASKED]) == [{"done": True}]
    assert server.waits == [7.0]


def test_half_a_key_at_the_end_of_long_words_is_not_shown(monkeypatch):
    key = "sk-0123456789abcdef"
    monkeypatch.setenv("KEY_OF_TESTS", key)
    for filled in range(285, 305):
        words = caller()._words("x" * filled + key)
        assert "sk-" not in words
        assert len(words) <= 300


def test_ctrl_c_ends_the_other_calls(serve, monkeypatch):
    serve(DONE)
    events = []

    class Recorded(threading.Event):
        def __init__(self):
            super().__init__()
            events.append(self)

    def interrupted():
        raise KeyboardInterrupt

    monkeypatch.setattr(server_calls, "threading", SimpleNamespace(Event=Recorded))
    monkeypatch.setattr(server_calls, "check_asker", interrupted)
    with pytest.raises(KeyboardInterrupt):
        caller().answers([ASKED])
    assert [event.is_set() for event in events] == [True]


def test_a_query_that_no_encoding_has_is_told_at_once(serve):
    server = serve(UnicodeEncodeError("utf-8", "\ud800", 0, 1, "surrogates not allowed"))
    with pytest.raises(ServerError, match=r"^http://host/base: the call can't be made \('utf-8"):
        caller().answers([ASKED])
    assert len(server.requests) == 1


def test_a_certificate_is_found_behind_several_errors(serve):
    certificate = ssl.SSLCertVerificationError("x")
    certificate.verify_message = "expired"
    between = OSError("handshake")
    between.__context__ = certificate
    error = httpx.ConnectError("tls")
    error.__cause__ = between
    server = serve(error)
    with pytest.raises(ServerError, match=r"isn't trusted \(expired\)"):
        caller().answers([ASKED])
    assert len(server.requests) == 1


@pytest.mark.parametrize("url", ["HTTP://Host:8000", "https://[::1]:8000", "http://10.0.0.1"])
def test_rare_forms_of_an_address_stay_as_they_are(url):
    assert checked_address(url) == url


@pytest.mark.parametrize("url", ["http://:secret@host", "http://:8000", "//host", "http:host"])
def test_an_address_needs_a_scheme_and_a_host_and_no_login(url):
    with pytest.raises(UsageError, match="the address of a search server is"):
        checked_address(url)


def test_every_place_of_a_key_in_a_servers_words_is_hidden(monkeypatch):
    monkeypatch.setenv("KEY_OF_TESTS", "secret")
    assert caller()._words({"error": {"detail": "secret or secret"}}) == "*** or ***"
    assert caller()._words({"other": ["secret"]}) == '{"other": ["***"]}'
    assert caller()._words({"message": {"detail": {"error": "deep"}}}) == "deep"


@pytest.mark.parametrize("status", [300, 307, 308])
def test_any_redirect_is_told_as_one(serve, status):
    server = serve(failing(status))
    with pytest.raises(ServerError, match=rf"redirects \({status}\)"):
        caller().answers([ASKED])
    assert len(server.requests) == 1


def test_a_text_is_wanted_only_of_what_was_answered(serve):
    for answer, told in (
        (failing(404, "gone"), r"refuses the call \(404: gone\)"),
        (failing(302), r"redirects \(302\)"),
        (failing(503, "full"), "the server answers 503: full"),
    ):
        serve(answer)
        with pytest.raises(ServerError, match=told):
            caller(tries=1).answers([Call("GET", "/", of_text=True)])
    serve(failing(200, '{"error": "x"}'))
    text = {"text": '{"error": "x"}'}
    assert caller().answers([Call("GET", "/", of_text=True)]) == [text]
