"""The backend of OpenAI's chat completions without a server: bodies, clients, refusals."""

import json
import os
import pickle
import re
import subprocess
import sys
from types import SimpleNamespace

import httpx
import openai
import pytest
from chat_server import KEY, ask, piece, said

from pyterrier_ikat.completions.json_answers import TEXT, Structure, object_of
from pyterrier_ikat.errors import UsageError
from pyterrier_ikat.llms import FatalLLMError, Reply, Transient, llm
from pyterrier_ikat.llms.failures import BadRequest, Filtered, TooLong, Unanswered
from pyterrier_ikat.llms.openai import OPENAI, PATIENCE_HERE, SECRETS, OpenAIBackend, OtherNameError
from pyterrier_ikat.llms.streaming import STREAMED

HERE = "http://localhost:8000/v1"
THERE = "https://host.example/v1"
TEA = Structure("tea", object_of(tea=TEXT))
SENT = httpx.Request("POST", f"{HERE}/chat/completions")
(REQUEST,) = ask("tea?")
SHAPED = ask("tea?", structure=TEA)[0]


class Client:
    """A client that does one step of a script for each post."""

    def __init__(self, *steps):
        self.steps = list(steps)
        self.posts = []
        self.closed = False

    def post(self, path, **given):
        self.posts.append((path, given))
        step = self.steps.pop(0)
        if isinstance(step, Exception):
            raise step
        return step

    def close(self):
        self.closed = True


class Stream:
    """The body of an answer, which may break."""

    def __init__(self, *pieces):
        self.response = SimpleNamespace(request=SENT, iter_bytes=lambda: self.bytes_of(pieces))

    def bytes_of(self, pieces):
        for one in pieces:
            if isinstance(one, Exception):
                raise one
            yield one

    def __enter__(self):
        return self

    def __exit__(self, *_):
        pass


def backend_with(*steps, **options):
    """A backend over a client with these answers."""
    backend = OpenAIBackend("m", base_url=options.pop("base_url", HERE), **options)
    client = Client(*steps)
    backend._clients[os.getpid()] = client
    return backend, client


def status_error(status, body, **headers):
    response = httpx.Response(status, headers=headers, request=SENT)
    return openai.APIStatusError("no", response=response, body=body)


def lost(kind, cause):
    error = kind(request=SENT)
    error.__cause__ = cause
    return error


def test_a_server_is_known_by_all_that_decides_its_answers(monkeypatch):
    monkeypatch.delenv("OPENAI_BASE_URL", raising=False)
    plain = OpenAIBackend("m", structured="off", body={}, params=None)
    assert plain.identity == {
        "provider": "openai",
        "model": "m",
        "base_url": OPENAI,
        "params": {},
    }
    assert (plain.timeout, plain.concurrency, plain.api_key_env) == (120.0, 32, "OPENAI_API_KEY")
    assert (plain.keeps_beginnings, plain.batch_size, plain.replays) == (True, 1, False)
    full = OpenAIBackend(
        "m",
        base_url=f"{THERE}/",
        api_key_env="MINE",
        params={"seed": 1},
        timeout=3.0,
        concurrency=2,
        structured="on",
        body={"a": 1},
    )
    assert full.identity == {
        "provider": "openai",
        "model": "m",
        "base_url": THERE,
        "params": {"seed": 1},
        "structured": "on",
        "body": {"a": 1},
    }
    assert (full.timeout, full.concurrency, full.api_key_env) == (3.0, 2, "MINE")
    monkeypatch.setenv("OPENAI_BASE_URL", "https://environment.example/v1")
    assert OpenAIBackend("m").url == "https://environment.example/v1"
    assert OpenAIBackend("m", base_url=THERE).url == THERE


@pytest.mark.parametrize(
    "wrong",
    ["host/v1", "ftp://host/v1", "https://me:pw@host/v1", "https://host/v1?key=x", "http://h/ v1"],
)
def test_an_address_with_a_login_or_a_query_is_refused(wrong):
    with pytest.raises(UsageError, match="without a login and a query"):
        OpenAIBackend("m", base_url=wrong)


@pytest.mark.parametrize(
    ("url", "here", "renamed"),
    [
        ("http://localhost:1/v1", True, False),
        ("http://127.0.0.1:1/v1", True, False),
        ("http://[::1]:1/v1", True, False),
        ("http://127.0.0.1.example/v1", False, False),
        ("https://api.openai.com/v1", False, True),
        ("https://eu.api.openai.com/v1", False, True),
        ("https://myapi.openai.com/v1", False, False),
        ("https://host.example/api.openai.com", False, False),
    ],
)
def test_where_a_server_is_decides_patience_and_a_name(url, here, renamed):
    backend = OpenAIBackend("m", base_url=url)
    assert (backend.patience == PATIENCE_HERE) == here
    assert backend.completion_limit == renamed


def test_a_body_has_the_parameters_of_model_and_request():
    backend = OpenAIBackend(
        "m", base_url=HERE, params={"seed": 5, "max_tokens": 9, "top_p": 0.5}, body={"extra": 1}
    )
    request = ask("tea?", sample=2, chain=1, params={"max_tokens": 7}, structure=TEA)[0]
    assert backend.body(request) == {
        "model": "m",
        "messages": [{"role": "user", "content": "tea?"}],
        "extra": 1,
        "seed": 1007,
        "max_tokens": 7,
        "top_p": 0.5,
        "response_format": {
            "type": "json_schema",
            "json_schema": {"name": "tea", "strict": True, "schema": TEA.schema},
        },
    }
    backend.completion_limit = True
    renamed = backend.body(ask("tea?")[0])
    assert (renamed["max_completion_tokens"], "max_tokens" in renamed) == (9, False)
    assert backend.identity["params"] == {"seed": 5, "max_tokens": 9, "top_p": 0.5}
    bare = OpenAIBackend("m", base_url=HERE)
    bare.completion_limit = True
    two = ask("a")[0].messages + [{"role": "assistant", "content": "b"}]
    assert bare.body(SHAPED.__class__(two, "answer", "1_1")) == {"model": "m", "messages": two}
    clash = OpenAIBackend("m", base_url=HERE, body={"stop": ["a"]})
    assert clash.body(ask("a", params={"stop": ["b"]})[0])["stop"] == ["b"]


def test_a_message_without_a_text_is_sent_as_well():
    messages = [{"role": "system", "content": ""}, {"role": "user", "content": "tea?"}]
    request = REQUEST.__class__(messages, "answer", "1_1")
    assert OpenAIBackend("m", base_url=HERE).body(request)["messages"] == messages


def test_parameters_stay_when_the_dicts_of_a_caller_change():
    params, body = {"seed": 1}, {"extra": 1}
    backend = OpenAIBackend("m", base_url=HERE, params=params, body=body)
    params["seed"] = body["extra"] = 2
    assert (backend.identity["params"], backend.more) == ({"seed": 1}, {"extra": 1})


def test_a_call_posts_its_body_and_follows_no_redirect():
    backend, client = backend_with(said("fine", model="m").body)
    seen = []
    backend.seen = seen.append
    assert backend.complete([REQUEST]) == [Reply("fine", "m", "stop", 7, 3)]
    assert seen == [said("fine", model="m").body]
    assert client.posts == [
        (
            "/chat/completions",
            {
                "cast_to": object,
                "body": backend.body(REQUEST),
                "options": {"follow_redirects": False},
            },
        )
    ]
    assert (backend.answered, backend.accepted) == (True, True)


FI = json.dumps(piece("fi"))
NE = json.dumps(piece("ne", "stop"))
EVENTS = f"data: {FI}\n\ndata: {NE}\n\n".encode()


@pytest.mark.parametrize(
    "step",
    [
        json.dumps(said("fine").body),
        EVENTS.decode(),
        json.JSONDecodeError("no", EVENTS.decode(), 0),
    ],
    ids=["a text", "events", "events called JSON"],
)
def test_an_answer_is_read_whatever_the_client_makes_of_it(step):
    backend, _ = backend_with(step)
    assert backend.complete([REQUEST])[0].text == "fine"


def test_a_stream_is_asked_for_read_and_shown():
    backend, client = backend_with(Stream(EVENTS[:30], EVENTS[30:]))
    shown = []
    assert backend.stream(REQUEST, shown.append).text == "fine"
    assert shown[0] in ("fi", "fine")
    ((_, given),) = client.posts
    assert given["body"] == {**backend.body(REQUEST), **STREAMED}
    assert given["stream"] is True


def test_a_stream_is_shown_without_the_marks_that_are_named():
    backend, _ = backend_with(Stream(EVENTS.replace(b'"fi"', b'"<ponder>hm</ponder>fi"')))
    backend.reasoning = (("<ponder>", "</ponder>"),)
    shown = []
    assert backend.stream(REQUEST, shown.append).text == "<ponder>hm</ponder>fine"
    assert shown[0] == "fi"


@pytest.mark.parametrize(("reason", "calls"), [("stream is not supported", 2), ("no", 1)])
def test_a_server_that_takes_no_stream_is_asked_for_the_whole(reason, calls):
    backend, client = backend_with(
        status_error(400, {"message": reason}), said("fine", model="m").body
    )
    outcome = backend.stream(REQUEST, [].append)
    assert len(client.posts) == calls
    assert isinstance(outcome, Reply if calls == 2 else BadRequest)


OTHER = {"message": "Unsupported parameter: 'max_tokens'. Use 'max_completion_tokens' instead."}


def test_the_other_name_is_tried_once_and_then_a_failure():
    backend, client = backend_with(
        status_error(400, OTHER), said("fine").body, params={"max_tokens": 7}
    )
    assert backend.complete([REQUEST])[0].text == "fine"
    assert [sorted(given["body"])[0] for _, given in client.posts] == [
        "max_tokens",
        "max_completion_tokens",
    ]
    backend, client = backend_with(status_error(400, OTHER), status_error(400, OTHER))
    (failure,) = backend.complete([REQUEST])
    assert type(failure) is BadRequest
    assert (failure.qid, len(client.posts), backend.accepted) == ("1_1", 2, False)
    streaming, client = backend_with(status_error(400, OTHER), Stream(EVENTS))
    assert streaming.stream(REQUEST, [].append).text == "fine"


def outcome_of(work):
    """What is returned or raised."""
    try:
        return work()
    except (FatalLLMError, Transient) as error:
        return error


REFUSALS = {
    "a redirect": (300, {}, "", FatalLLMError, "redirects \\(300\\)"),
    "another redirect": (399, {}, "", FatalLLMError, "redirects \\(399\\)"),
    "withheld": (400, {"message": "Content Exists Risk"}, "", Filtered, "withheld the prompt"),
    "a wrong key": (401, {"message": "no"}, "", FatalLLMError, "accept the key in VARIABLE \\(401"),
    "no money": (402, {"message": "no"}, "", FatalLLMError, "quota of the key in VARIABLE"),
    "no money now": (402, {"message": "no"}, "accepted", FatalLLMError, "quota of the key"),
    "no money as 429": (429, {"code": "insufficient_quota"}, "accepted", FatalLLMError, "quota of"),
    "forbidden": (403, {"message": "no"}, "", FatalLLMError, "does not allow the call with"),
    "no model": (404, {"message": "no model"}, "", FatalLLMError, "no model 'm', or no such"),
    "no method": (405, {"message": "no"}, "", FatalLLMError, "takes no chat completions"),
    "no model now": (404, {"message": "no"}, "accepted", FatalLLMError, "has no model 'm'"),
    "a proxy": (407, {"message": "no"}, "accepted", FatalLLMError, "the proxy does not allow"),
    "a wrong key as 400": (400, {"message": "incorrect API key"}, "", FatalLLMError, "accept the"),
    "a prompt about keys": (400, {"message": "incorrect API key"}, "accepted", BadRequest, "reje"),
    "too large": (429, {"message": "Request too large"}, "", TooLong, "rejects the request \\(429"),
    "a large message": (400, {"message": "Request too large"}, "", BadRequest, "rejects the re"),
    "timed out": (408, {"message": "no"}, "", Transient, "the server answers 408: no"),
    "a conflict": (409, {}, "", Transient, "the server answers 409"),
    "early": (425, {}, "", Transient, "the server answers 425"),
    "down": (500, {}, "", Transient, "the server answers 500"),
    "overloaded": (529, {}, "", Transient, "the server answers 529"),
    "no schema": (400, {"message": "no json_schema"}, "shaped", FatalLLMError, "omit structured="),
    "no schema, unasked": (400, {"message": "no json_schema"}, "", BadRequest, "rejects the req"),
    "too long by status": (413, {"message": "no"}, "", TooLong, "rejects the request \\(413"),
    "too long by words": (400, {"message": "context length"}, "", TooLong, "rejects the request"),
    "too long by code": (
        400,
        {"message": "no", "code": "context_length_exceeded"},
        "",
        TooLong,
        "400: no",
    ),
    "too long in a list": (400, {"detail": [{"msg": "context length"}]}, "", TooLong, "rejects"),
    "the other name": (400, OTHER, "", OtherNameError, "rejects the request"),
    "anything else": (422, {"message": "no"}, "", BadRequest, "the request \\(422: no\\)"),
    "a word beside": (400, {"detail": "x", "code": "max_tokens_is"}, "", BadRequest, "400: x"),
}


@pytest.mark.parametrize("name", REFUSALS)
def test_each_refusal_is_what_the_user_can_do_about_it(name):
    status, body, state, kind, words = REFUSALS[name]
    backend, _ = backend_with(base_url=THERE, api_key_env="VARIABLE")
    backend.accepted = state == "accepted"
    request = SHAPED if state == "shaped" else REQUEST
    outcome = outcome_of(lambda: backend.refused(request, status, {"error": body}, {}))
    assert type(outcome) is kind
    assert re.search(words, outcome.reason)
    if not isinstance(outcome, FatalLLMError | Transient):
        assert (outcome.stage, outcome.qid) == ("answer", "1_1")
    assert backend.completion_limit == (kind is OtherNameError)


@pytest.mark.parametrize(("status", "limited"), [(429, True), (503, False), (408, False)])
def test_a_busy_server_says_how_long_to_wait(status, limited):
    backend, _ = backend_with(status_error(status, {"message": "busy"}, **{"retry-after": "7"}))
    with pytest.raises(Transient) as raised:
        backend.complete([REQUEST])
    assert (raised.value.retry_after, raised.value.limited) == (7.0, limited)
    with pytest.raises(Transient) as raised:
        backend.refused(REQUEST, status, {"message": "try again in 9s"}, {})
    assert raised.value.retry_after == 9.0
    with pytest.raises(Transient) as raised:
        backend.refused(REQUEST, status, {}, {"retry-after": "Thu, 01 Jan 1970 00:00:09 GMT"})
    assert raised.value.retry_after is None


@pytest.mark.parametrize("status", [401, 403])
def test_an_accepted_key_is_tried_again_and_then_named(status):
    backend, _ = backend_with()
    backend.accepted = True
    with pytest.raises(Transient, match="and has accepted the key before") as raised:
        backend.refused(REQUEST, status, {"message": "no"}, {})
    assert raised.value.lasting.endswith("it has accepted that key before")
    assert str(status) in raised.value.lasting


@pytest.mark.parametrize(
    ("status", "body", "accepted", "hinted"),
    [
        (404, "page not found", False, True),
        (405, {"detail": "no"}, False, True),
        (404, {"message": "no MODEL m"}, False, False),
        (404, "page not found", True, False),
        (401, "no", False, False),
    ],
)
def test_a_better_address_is_proposed_unless_it_is_ruled_out(status, body, accepted, hinted):
    backend, _ = backend_with(base_url="http://localhost:11434")
    backend.accepted = accepted
    outcome = outcome_of(lambda: backend.refused(REQUEST, status, body, {}))
    told = getattr(outcome, "reason", "")
    assert ("try base_url=http://localhost:11434/v1" in told) == hinted
    assert OpenAIBackend("m", base_url=THERE)._hint() == ""


@pytest.mark.parametrize(
    ("error", "unanswered", "unreached", "words"),
    [
        (
            lost(openai.APIConnectionError, httpx.ConnectError("refused")),
            Unanswered.UNSENT,
            True,
            f"no connection to {HERE}: refused",
        ),
        (
            lost(openai.APITimeoutError, httpx.ConnectTimeout("late")),
            Unanswered.UNSENT,
            True,
            f"no connection to {HERE}: late",
        ),
        (
            lost(openai.APITimeoutError, httpx.ReadTimeout("late")),
            Unanswered.LOST,
            False,
            "no answer within 3 seconds (timeout=...)",
        ),
        (
            lost(openai.APIConnectionError, httpx.ReadError("gone")),
            Unanswered.LOST,
            True,
            f"no connection to {HERE}: gone",
        ),
        (
            lost(openai.APIConnectionError, None),
            Unanswered.LOST,
            True,
            f"no connection to {HERE}: Connection error.",
        ),
    ],
    ids=["refused", "no connection in time", "silent", "broken", "without a cause"],
)
def test_a_lost_call_says_whether_it_was_sent(error, unanswered, unreached, words):
    for answered in (False, True):
        backend, _ = backend_with(error, timeout=3.0)
        backend.answered = answered
        with pytest.raises(Transient) as raised:
            backend.complete([REQUEST])
        assert raised.value.reason == words
        assert raised.value.unanswered is unanswered
        assert raised.value.unreached == (unreached and not answered)
        assert backend.answered == answered


UNSENT = ["ConnectError", "ConnectTimeout", "PoolTimeout", "UnsupportedProtocol", "ProxyError"]
SENT_ALREADY = ["ReadTimeout", "WriteTimeout", "ReadError", "WriteError", "RemoteProtocolError"]


@pytest.mark.parametrize("name", [*UNSENT, *SENT_ALREADY])
def test_only_what_was_not_sent_costs_nothing(name):
    backend, _ = backend_with()
    cause = getattr(httpx, name)("odd")
    for kind in (openai.APIConnectionError, openai.APITimeoutError):
        expected = Unanswered.UNSENT if name in UNSENT else Unanswered.LOST
        assert backend._lost(lost(kind, cause)).unanswered is expected


def test_a_proxys_password_is_not_shown():
    SECRETS.add("planted-password")
    error = lost(openai.APIConnectionError, httpx.ProxyError("planted-password"))
    backend, _ = backend_with(error)
    with pytest.raises(Transient, match=r": \*\*\*'"):
        backend.complete([REQUEST])
    SECRETS.discard("planted-password")


@pytest.mark.parametrize(
    "error",
    [
        status_error(400, {"message": "no"}),
        openai.APIError("odd", SENT, body=None),
        ValueError("odd"),
        RecursionError("deep"),
    ],
    ids=["refused", "no answer of the protocol", "no JSON", "too deep"],
)
def test_whatever_a_server_answers_shows_that_it_is_there(error):
    backend, _ = backend_with(error)
    outcome_of(lambda: backend.complete([REQUEST]))
    assert (backend.answered, backend.accepted) == (True, False)


def test_half_a_character_is_the_fault_of_its_turn():
    error = UnicodeEncodeError("utf-8", "\ud800", 0, 1, "surrogates")
    backend, _ = backend_with(error)
    (failure,) = backend.complete([REQUEST])
    assert type(failure) is BadRequest
    assert (failure.qid, failure.unanswered) == ("1_1", Unanswered.UNSENT)
    assert "half a character" in failure.reason


USAGE = {"prompt_tokens": 9, "completion_tokens": 1}
NO_COMPLETION = {
    "an error": ({"error": {"message": "down"}}, Unanswered.REFUSED, None),
    "an error and usage": ({"error": "down", "usage": USAGE}, Unanswered.REFUSED, 9),
    "an error beside choices": (
        {"error": {"code": 403}, "choices": [{}], "usage": USAGE},
        Unanswered.LOST,
        9,
    ),
    "no choices": ({"choices": [], "usage": USAGE}, Unanswered.LOST, 9),
    "a page": ("<p>welcome</p>", Unanswered.LOST, None),
}


@pytest.mark.parametrize("name", NO_COMPLETION)
def test_an_answer_without_a_completion_says_what_it_cost(name):
    answer, unanswered, paid = NO_COMPLETION[name]
    step = json.JSONDecodeError("no", answer, 0) if isinstance(answer, str) else answer
    backend, _ = backend_with(step, base_url=THERE)
    with pytest.raises(Transient, match="holds no completion. It says: ") as raised:
        backend.complete([REQUEST])
    assert raised.value.unanswered is unanswered
    assert [reply.prompt_tokens for reply in raised.value.paid] == ([] if paid is None else [paid])


def test_an_error_with_status_200_is_refused_by_its_code():
    for more in ({}, {"choices": []}, {"choices": None}):
        backend, _ = backend_with({"error": {"code": 403, "message": "no"}, **more})
        with pytest.raises(FatalLLMError, match="does not allow the call"):
            backend.complete([REQUEST])


@pytest.mark.parametrize(
    ("url", "accepted", "page", "is_fatal"),
    [
        ("http://localhost:1", False, "<html>hello", True),
        ("http://localhost:1", True, "<html>hello", False),
        ("http://localhost:1", False, "odd words", False),
        (THERE, False, "<html>hello", False),
    ],
)
def test_a_page_at_an_odd_address_ends_the_stage(url, accepted, page, is_fatal):
    backend, _ = backend_with(json.JSONDecodeError("no", page, 0), base_url=url)
    backend.accepted = accepted
    outcome = outcome_of(lambda: backend.complete([REQUEST]))
    assert isinstance(outcome, FatalLLMError) == is_fatal
    assert page in outcome.reason
    assert ("; the address is probably wrong" in outcome.reason) == is_fatal


@pytest.mark.parametrize(
    ("broken", "kind"),
    [
        (httpx.ReadTimeout("late"), "no answer within"),
        (httpx.RemoteProtocolError("gone"), "no connection"),
    ],
)
def test_a_stream_that_breaks_is_a_lost_call(broken, kind):
    backend, _ = backend_with(Stream(EVENTS[:40], broken))
    with pytest.raises(Transient, match=kind) as raised:
        backend.stream(REQUEST, [].append)
    assert raised.value.unanswered is Unanswered.LOST
    if kind == "no connection":
        assert raised.value.reason.endswith(": gone")


def test_what_belongs_to_no_request_is_fatal_when_refused():
    backend, _ = backend_with()
    assert backend.result(lambda client: client) is backend._clients[os.getpid()]

    def refuse(client):
        raise status_error(400, {"message": "no such file"})

    with pytest.raises(FatalLLMError, match="no such file"):
        backend.result(refuse)


def test_a_client_is_made_once_a_process_and_after_closing(monkeypatch):
    monkeypatch.setenv("MINE", f" {KEY}\n")
    backend = OpenAIBackend("m", base_url=THERE, api_key_env="MINE", timeout=3.0)
    client = backend.open()
    assert (client.api_key, str(client.base_url), client.max_retries) == (KEY, f"{THERE}/", 0)
    assert (client.timeout.read, client.timeout.connect) == (3.0, 5.0)
    assert backend.open() is client
    backend._clients = {os.getppid(): client}  # as in a forked process
    other = backend.open()
    assert other is not client
    backend.close()
    assert backend.open() not in (client, other)
    fake = Client()
    backend._clients = {os.getpid(): fake}
    backend.close()
    backend.close()
    assert fake.closed


def test_another_process_makes_connections_of_its_own(monkeypatch):
    backend, _ = backend_with(base_url=HERE)
    backend.answered = backend.accepted = True
    backend._clients = {os.getpid(): "a connection"}
    other = pickle.loads(pickle.dumps(backend))
    assert other == backend
    assert (other._clients, other.answered, other.accepted) == ({}, False, False)


@pytest.mark.parametrize(
    ("url", "key", "sent"),
    [(HERE, "", "none"), (HERE, " sk-1 ", "sk-1"), (THERE, "sk-2", "sk-2"), (THERE, "", None)]
    + [(THERE, "none", "none"), (THERE, "abc", "abc")]
    + [(HERE, "sk…1", None), (HERE, "sk\x01", None)],
)
def test_a_key_is_needed_elsewhere_and_must_be_one(monkeypatch, url, key, sent):
    monkeypatch.setenv("MINE", key)
    monkeypatch.setenv("OPENAI_API_KEY", "sk-other")
    backend = OpenAIBackend("m", base_url=url, api_key_env="MINE")
    if sent is None:
        with pytest.raises(FatalLLMError, match="MINE"):
            backend.open()
    else:
        assert backend.open().api_key == sent
        assert (sent in SECRETS) == (sent in ("sk-1", "sk-2"))  # neither a word nor a syllable
        backend.close()


def test_an_answer_of_no_protocol_is_quoted_by_its_error():
    backend, _ = backend_with(openai.APIError("odd words", SENT, body=None), base_url=THERE)
    with pytest.raises(Transient, match="It says: odd words") as raised:
        backend.complete([REQUEST])
    assert (raised.value.unanswered, raised.value.paid) == (Unanswered.LOST, [])


EARLY = """
import sys, threading
import pyterrier_ikat as ikat
assert "openai" not in sys.modules
ikat.llm("openai:m base_url=http://127.0.0.1:9/v1 cache=none")
importing = [thread for thread in threading.enumerate() if thread.name == "ikat-import"]
assert "openai" in sys.modules or importing
"""


def test_the_client_is_imported_while_the_pipeline_is_built():
    subprocess.run([sys.executable, "-W", "ignore", "-c", EARLY], check=True, timeout=120)


@pytest.mark.parametrize(
    ("address", "patience"), [("http://localhost:8000/v1", 0.05), ("https://example.org/v1", 0.25)]
)
def test_a_server_on_this_machine_gets_less_time_for_its_refusal(address, patience):
    assert llm(f"openai:m base_url={address} cache=none").backend.patience == patience
