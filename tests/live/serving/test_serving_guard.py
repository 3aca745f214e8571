"""Who may enter a server, how much they may send, how slowly, and what the log says of them."""

import asyncio
import json
import logging
from types import SimpleNamespace

import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from talking import Client, says, served

import pyterrier_ikat as ikat
from pyterrier_ikat.live.serving import Limits, tokens
from pyterrier_ikat.live.serving.tokens import check_token, find_person, people_of
from pyterrier_ikat.runs import Log

TOKEN = "a-token-of-twenty-signs"
FOREIGN = "https://elsewhere.example"
BEARER = {"authorization": f"Bearer {TOKEN}"}


@pytest.fixture(scope="module")
def local():
    return Client(served(limits=Limits(body=2000, header=1000, read=1.0)))


@pytest.fixture(scope="module")
def guarded():
    return Client(served(token=TOKEN, origins=["https://chat.example/"]))


@pytest.mark.parametrize(
    ("headers", "peer", "status"),
    [
        ({}, "127.0.0.1", 200),
        ({"host": "localhost"}, "::1", 200),
        ({"host": "[::1]:8000"}, "127.0.0.1", 200),
        ({"host": "rebound.example:8000"}, "127.0.0.1", 403),
        ({"host": "127.0.0.1.rebound.example"}, "127.0.0.1", 403),
        ({"host": None}, "127.0.0.1", 403),
        ({}, "192.0.2.7", 403),
        ({"origin": "http://127.0.0.1:8000"}, "127.0.0.1", 200),
        ({"origin": "http://127.0.0.1:9000"}, "127.0.0.1", 403),
        ({"origin": FOREIGN}, "127.0.0.1", 403),
        ({"origin": "null"}, "127.0.0.1", 403),
        ({"sec-fetch-site": "cross-site"}, "127.0.0.1", 403),
        ({"sec-fetch-site": "same-origin"}, "127.0.0.1", 200),
    ],
)
def test_without_a_token_only_this_machine_and_its_own_pages_enter(local, headers, peer, status):
    found, sent, content = local.ask("GET", "/v1/models", headers=headers, client=(peer, 5000))
    assert found == status
    assert "access-control-allow-origin" not in sent
    assert status == 200 or json.loads(content)["error"]["type"] == "invalid_request_error"


def test_a_form_of_a_foreign_page_is_refused(local):
    status, error = local.chat(says("Hi"), headers={"content-type": "text/plain"})
    assert (status, "application/json" in error["error"]["message"]) == (415, True)


def test_a_link_to_the_page_works_and_the_page_runs_only_its_own_scripts(local):
    status, headers, content = local.ask("GET", "/", headers={"sec-fetch-site": "cross-site"})
    assert (status, content[:15].lower()) == (200, b"<!doctype html>")
    assert headers["content-security-policy"].startswith("default-src 'none'; script-src 'sha256-")
    assert "unsafe" not in headers["content-security-policy"]
    assert (headers["x-content-type-options"], headers["cache-control"]) == ("nosniff", "no-store")


@pytest.mark.parametrize("given", [None, "", TOKEN, f"Basic {TOKEN}", "Bearer", f"Bearer {TOKEN}x", f"Bearer {TOKEN[:-1]}", "Bearer \xe9"])
def test_with_a_token_nothing_but_the_page_is_served_without_it(guarded, given):
    for method, path in (("GET", "/v1/models"), ("POST", "/search"), ("GET", "/elsewhere"), ("OPTIONS", "/search")):
        status, headers, content = guarded.ask(method, path, headers={"authorization": given})
        assert (status, headers["www-authenticate"], TOKEN in content.decode()) == (401, "Bearer", False)
    assert guarded.ask("GET", "/", headers={"authorization": given})[0] == 200


def test_with_the_token_other_machines_and_named_pages_enter(guarded):
    more = {"client": ("192.0.2.7", 5000)}
    status, headers, _ = guarded.ask("GET", "/v1/models", headers={**BEARER, "host": "lab.example"}, **more)
    assert (status, "access-control-allow-origin" in headers) == (200, False)
    status, headers, _ = guarded.ask("GET", "/v1/models", headers={**BEARER, "origin": "https://chat.example"}, **more)
    assert (status, headers["access-control-allow-origin"]) == (200, "https://chat.example")
    status, headers, _ = guarded.ask("OPTIONS", "/search", headers={"origin": "https://chat.example"}, **more)
    assert (status, headers["access-control-allow-headers"]) == (204, "authorization, content-type")
    assert guarded.ask("GET", "/v1/models", headers={**BEARER, "origin": FOREIGN}, **more)[0] == 403


def test_an_oversized_body_is_refused_before_it_is_kept(local):
    many = [{"type": "http.request", "body": b"x" * 500, "more_body": True}] * 9 + [{"type": "http.request", "body": b""}]
    for more in (
        {"chunks": many},
        {"body": b" " * 3000, "headers": {"content-length": "3000"}},
        {"body": b"", "headers": {"content-length": "9" * 30}},
    ):
        status, headers, content = local.ask("POST", "/v1/chat/completions", **more)
        assert (status, headers["connection"], json.loads(content)["error"]["code"]) == (413, "close", "too_large")


def test_an_oversized_header_is_refused(local):
    assert local.ask("GET", "/v1/models", headers={"cookie": "x" * 1000})[0] == 431
    assert local.ask("GET", "/v1/models", query=b"x" * 1000)[0] == 431
    assert local.ask("GET", "/" + "x" * 1000)[0] == 431


def test_a_body_with_two_ends_is_refused(local):
    status, headers, _ = local.ask("POST", "/search", {}, headers={"content-length": "2", "transfer-encoding": "chunked"})
    assert (status, headers["connection"]) == (400, "close")


def test_a_body_that_does_not_arrive_is_given_up():
    client = Client(served(limits=Limits(read=0.02)))
    status, _, content = client.ask("POST", "/search", chunks=[{"type": "http.request", "body": b"{", "more_body": True}])
    assert (status, json.loads(content)["error"]["message"][:35]) == (408, "the body did not arrive within 0.02")


def test_a_client_that_leaves_gets_nothing(local, caplog):
    caplog.set_level(logging.INFO)
    body = [{"type": "http.request", "body": b"{", "more_body": True}, {"type": "http.disconnect"}]
    assert local.ask("POST", "/search", chunks=body)[0] == 0
    assert "POST /search 499" in caplog.text


def test_a_client_that_does_not_read_is_given_up():
    async def go():
        guard = served(limits=Limits(send=0.01))

        async def receive():
            return {"type": "http.request", "body": b""}

        async def send(message):
            await asyncio.sleep(3600)

        scope = {"type": "http", "method": "GET", "path": "/v1/models", "query_string": b"", "client": None, "root_path": ""}
        await guard(scope | {"headers": [(b"host", b"localhost")]}, receive, send)

    asyncio.run(go())


def test_the_log_has_no_words_of_anybody(guarded, caplog):
    caplog.set_level(logging.INFO, "pyterrier_ikat.live.serving")
    words = {"query": b"q=xyzzy", "headers": {**BEARER, "cookie": "xyzzy"}}
    guarded.chat(says("xyzzy", user="xyzzy"), **words)
    guarded.ask("GET", "/xyzzy", **words)
    guarded.ask("XYZZY", "/v1/models", **words)
    lines = [record.getMessage().rsplit(" ", 2)[0] for record in caplog.records]
    assert lines == ["POST /v1/chat/completions 200", "GET (another path) 404", "(another method) /v1/models 405"]
    assert TOKEN not in caplog.text


HEADERS = ["host", "origin", "authorization", "content-length", "content-type", "sec-fetch-site"]


@example({"host": "["})
@example({"content-length": "\xb2"})
@given(st.dictionaries(st.sampled_from(HEADERS), st.text(st.characters(max_codepoint=255), max_size=12)))
def test_no_header_makes_the_server_fail(local, headers):
    status, _, content = local.ask("POST", "/search", {"queries": []}, headers=headers)
    assert status in (400, 403, 413, 415)
    assert json.loads(content)["error"]["message"]


@pytest.mark.parametrize("token", ["short", "with blanks in the middle", "überlang-aber-nicht-ascii", "line\nbreaks-are-no-header"])
def test_a_token_that_can_be_guessed_or_not_be_sent_is_refused(token):
    with pytest.raises(ikat.UsageError, match="needs at least 16 letters, .* export IKAT_TOKEN=") as refused:
        check_token(token)
    assert token not in str(refused.value)


@pytest.mark.parametrize("origin", ["chat.example", "*", "null", "https://", "https://chat.example/page"])
def test_what_is_no_origin_of_a_page_is_refused(origin):
    with pytest.raises(ikat.UsageError, match="is not the origin of a page: give scheme and host"):
        served(token=TOKEN, origins=[origin])


def test_one_origin_may_be_given_as_a_text(guarded):
    one = Client(served(token=TOKEN, origins="HTTPS://Chat.example"))
    assert one.ask("OPTIONS", "/search", headers={"origin": "https://chat.example"})[0] == 204


def test_the_token_is_in_no_repr(guarded):
    assert TOKEN not in repr(guarded.application)


def test_health_needs_no_token_says_nothing_and_is_not_logged(local, guarded, caplog):
    caplog.set_level(logging.INFO)
    for one in (local, guarded):
        status, _, content = one.ask("GET", "/healthz")
        assert (status, content) == (200, b'{"status": "ok"}')
    assert "healthz" not in caplog.text


PEOPLE = """# who may ask
ann  token-of-ann-0123456   2

bert token-of-bert-0123456
"""


@pytest.fixture
def several(tmp_path, monkeypatch):
    """A client of a server with the tokens of two people, and the seconds that pass there."""
    (tmp_path / "tokens").write_text(PEOPLE)
    now = [1000.0]
    monkeypatch.delenv("IKAT_TOKEN", raising=False)
    monkeypatch.setattr(tokens, "time", SimpleNamespace(monotonic=lambda: now[0]))
    application = served(tokens=tmp_path / "tokens", save_to=tmp_path / "served")
    yield Client(application), now
    application.service.logs.close()


def bearer(name):
    return {"headers": {"authorization": f"Bearer token-of-{name}-0123456"}}


def test_each_person_has_a_token_and_a_rate_of_their_own(several):
    client, now = several

    def ask(name):
        status, headers, content = client.ask("POST", "/v1/chat/completions", says("Hi"), **bearer(name))
        return status, headers.get("retry-after"), json.loads(content)

    statuses = []
    for seconds in (0, 20, 39, 1, 1, 19):
        now[0] += seconds
        statuses.append(ask("ann")[:2])
    assert statuses == [(200, None), (200, None), (429, "1"), (200, None), (429, "19"), (200, None)]
    assert [ask("bert")[0] for _ in range(5)] == [200] * 5
    assert ask("carl")[0] == 401
    assert client.ask("GET", "/v1/models", **bearer("ann"))[0] == 200
    error = ask("ann")[2]["error"]
    assert (error["code"], error["message"]) == ("rate_limited", "your token allows 2 requests in a minute: ask again in 40 seconds")
    assert "token-of" not in repr(client.application)


def test_nobody_gets_at_the_saved_conversation_of_somebody_else(several, tmp_path):
    for name in ("ann", "bert"):
        several[0].chat(says(f"I am {name}.", metadata={"chat_id": "7d1"}), **bearer(name))
    assert [one.session for one in Log(tmp_path / "served" / "talks").dialogues()] == ["ann.7d1", "bert.7d1"]


def test_every_token_is_compared_in_full(tmp_path, monkeypatch):
    (tmp_path / "tokens").write_text(PEOPLE)
    people, compared = people_of(None, tmp_path / "tokens"), []
    monkeypatch.setattr(tokens.hmac, "compare_digest", lambda one, other: compared.append((len(one), len(other))) or one == other)
    assert find_person(people, "token-of-ann-0123456").name == "ann"
    assert find_person(people, "t") is None
    assert compared == [(32, 32)] * 4


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("carl", "line 5: give NAME TOKEN"),
        ("carl token-of-carl-0123456 often", "line 5: give NAME TOKEN"),
        ("carl token-of-carl-0123456 0", "line 5: give NAME TOKEN"),
        ("a/b token-of-carl-0123456", "line 5: give NAME TOKEN"),
        ("carl token-of", "line 5: the token .* needs at least 16 letters"),
        ("ann token-of-carl-0123456", "line 5: this name or token is in an earlier line, too"),
        ("carl token-of-ann-0123456", "line 5: this name or token is in an earlier line, too"),
        (None, r"tokens can't be read \(No such file"),
    ],
)
def test_a_file_of_tokens_is_checked_and_no_token_told(tmp_path, line, message):
    if line is not None:
        (tmp_path / "tokens").write_text(PEOPLE + line)
    with pytest.raises(ikat.UsageError, match=message) as refused:
        people_of(None, tmp_path / "tokens")
    assert "token-of" not in str(refused.value)


def test_a_token_without_a_name_stands_not_beside_those_of_people(tmp_path):
    with pytest.raises(ikat.UsageError, match=r"there are a token \(IKAT_TOKEN\) and those in .*: give it a line with a name there"):
        people_of(TOKEN, tmp_path / "tokens")
