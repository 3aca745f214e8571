"""Who may enter a server, how much they may send, and that no refusal shows a traceback."""

import json
import logging

import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from talking import Client, says, served

import pyterrier_ikat as ikat
from pyterrier_ikat.live.serving import application, running, server

TOKEN = "a-token-of-twenty-signs"
FOREIGN = "https://elsewhere.example"
BEARER = {"authorization": f"Bearer {TOKEN}"}


@pytest.fixture(scope="module")
def local():
    return Client(served())


@pytest.fixture(scope="module")
def guarded():
    return Client(served(token=TOKEN, origins=["https://chat.example"]))


@pytest.mark.parametrize(
    ("headers", "status"),
    [
        ({}, 200),
        ({"host": "localhost"}, 200),
        ({"host": "[::1]:8000"}, 200),
        ({"host": "rebound.example:8000"}, 400),
        ({"host": "127.0.0.1.rebound.example"}, 400),
        ({"host": None}, 400),
        ({"origin": "http://127.0.0.1:8000"}, 200),
        ({"origin": "http://127.0.0.1:9000"}, 403),
        ({"origin": FOREIGN}, 403),
        ({"origin": "null"}, 403),
        ({"host": "rebound.example", "origin": "http://rebound.example"}, 400),
    ],
)
def test_without_a_token_only_local_names_and_own_pages_enter(local, headers, status):
    found, sent, content = local.ask("GET", "/v1/models", headers=headers)
    assert (found, b"Traceback" in content) == (status, False)
    assert "access-control-allow-origin" not in sent


@pytest.mark.parametrize(
    "kind",
    [
        "text/plain",
        "application/x-www-form-urlencoded",
        "multipart/form-data; boundary=x",
        None,
        "application/jsonp",
    ],
)
@pytest.mark.parametrize("path", ["/v1/chat/completions", "/search", "/mcp"])
def test_a_form_of_a_foreign_page_is_refused(local, kind, path):
    status, _, content = local.ask("POST", path, says("Hi"), headers={"content-type": kind})
    assert (status, "application/json" in json.loads(content)["error"]["message"]) == (415, True)


def test_the_page_runs_only_its_own_script(local):
    status, headers, content = local.ask("GET", "/")
    assert (status, content[:15].lower()) == (200, b"<!doctype html>")
    assert headers["content-security-policy"].startswith(
        "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'"
    )
    assert "unsafe" not in headers["content-security-policy"]
    for name, status in (
        ("page.js", 200),
        ("page.css", 200),
        ("../server.py", 404),
        ("%2e%2e/server.py", 404),
    ):
        assert local.ask("GET", f"/page/{name}")[0] == status


@pytest.mark.parametrize(
    "given",
    [
        None,
        "",
        TOKEN,
        f"Basic {TOKEN}",
        "Bearer",
        f"Bearer {TOKEN}x",
        f"Bearer {TOKEN[:-1]}",
        "Bearer \xe9",
    ],
)
def test_with_a_token_nothing_but_the_page_is_served_without_it(guarded, given):
    for method, path in (
        ("GET", "/v1/models"),
        ("POST", "/search"),
        ("GET", "/elsewhere"),
        ("OPTIONS", "/search"),
        ("POST", "/mcp"),
    ):
        status, headers, content = guarded.ask(method, path, headers={"authorization": given})
        assert (status, headers["www-authenticate"], TOKEN in content.decode()) == (
            401,
            "Bearer",
            False,
        )
    for path in ("/", "/page/page.js"):
        assert guarded.ask("GET", path, headers={"authorization": given})[0] == 200


def test_the_token_is_compared_in_a_time_that_tells_nothing(guarded, monkeypatch):
    compared = []
    monkeypatch.setattr(
        application.hmac,
        "compare_digest",
        lambda one, other: compared.append((one, other)) or one == other,
    )
    wrong = {"authorization": "Bearer wrong"}
    assert guarded.ask("GET", "/v1/models", headers=BEARER)[0] == 200
    assert guarded.ask("GET", "/v1/models", headers=wrong)[0] == 401
    assert compared == [(TOKEN.encode(), TOKEN.encode()), (b"wrong", TOKEN.encode())]


def test_with_the_token_other_machines_and_named_pages_enter(guarded):
    status, headers, _ = guarded.ask("GET", "/v1/models", headers={**BEARER, "host": "lab.example"})
    assert (status, "access-control-allow-origin" in headers) == (200, False)
    status, headers, _ = guarded.ask(
        "GET", "/v1/models", headers={**BEARER, "origin": "https://chat.example"}
    )
    assert (status, headers["access-control-allow-origin"]) == (200, "https://chat.example")
    asks = {
        "access-control-request-method": "POST",
        "access-control-request-headers": "authorization, content-type",
    }
    status, headers, _ = guarded.ask(
        "OPTIONS", "/search", headers={"origin": "https://chat.example", **asks}
    )
    assert (status, headers["access-control-allow-origin"]) == (200, "https://chat.example")
    status, headers, _ = guarded.ask("OPTIONS", "/search", headers={"origin": FOREIGN, **asks})
    assert (status, "access-control-allow-origin" in headers) == (400, False)
    assert guarded.ask("GET", "/v1/models", headers={**BEARER, "origin": FOREIGN})[0] == 403


def test_an_oversized_body_is_refused_before_it_is_kept(local):
    part = {"type": "http.request", "body": b"x" * 300_000, "more_body": True}
    for more in (
        {"chunks": [part] * 5},
        {
            "body": b" " * (application.LARGEST_BODY + 1),
            "headers": {"content-length": str(application.LARGEST_BODY + 1)},
        },
        {"body": b"", "headers": {"content-length": "9" * 30}},
    ):
        status, _, content = local.ask("POST", "/search", **more)
        assert (status, b"Content Too Large" in content, b"Traceback" in content) == (
            413,
            True,
            False,
        )


@pytest.mark.parametrize(
    ("method", "path", "status"),
    [
        ("GET", "/search", 405),
        ("DELETE", "/v1/models", 405),
        ("XYZZY", "/search", 405),
        ("GET", "/elsewhere", 404),
        ("POST", "/", 405),
    ],
)
def test_another_method_or_path_is_refused_in_openai_s_form(local, method, path, status):
    found, _, content = local.ask(method, path)
    error = json.loads(content)["error"]
    assert (found, error["type"]) == (status, "invalid_request_error")
    assert (error["message"] == "Method Not Allowed") == (status == 405)


HEADERS = [
    "host",
    "origin",
    "authorization",
    "content-length",
    "content-type",
    "access-control-request-method",
]


@example({"host": "["})
@example({"content-length": "\xb2"})
@given(
    st.dictionaries(
        st.sampled_from(HEADERS), st.text(st.characters(max_codepoint=255), max_size=12)
    )
)
def test_no_header_makes_the_server_fail(local, headers):
    status, _, content = local.ask("POST", "/search", {"queries": []}, headers=headers)
    assert status in (400, 403, 413, 415)
    assert b"Traceback" not in content


@pytest.mark.parametrize(
    "token",
    [
        "short",
        "with blanks in the middle",
        "überlang-aber-nicht-ascii",
        "line\nbreaks-are-no-header",
    ],
)
def test_a_token_that_can_be_guessed_or_not_be_sent_is_refused(token):
    with (
        pytest.raises(
            ikat.UsageError, match="needs at least 16 letters, .* export IKAT_SERVE_TOKEN="
        ) as refused,
        running("raw", token=token),
    ):
        pass
    assert token not in str(refused.value)


def test_it_is_said_where_the_token_comes_from(monkeypatch):
    monkeypatch.delenv("IKAT_SERVE_TOKEN", raising=False)
    assert server._token("127.0.0.1", None) == (
        None,
        "no token: only this machine is answered; IKAT_SERVE_TOKEN is not set",
    )
    assert "the argument token" in server._token("0.0.0.0", TOKEN)[1]
    monkeypatch.setenv("IKAT_SERVE_TOKEN", TOKEN)
    token, said = server._token("127.0.0.1", None)
    assert (token, "the environment variable IKAT_SERVE_TOKEN" in said, TOKEN in said) == (
        TOKEN,
        True,
        False,
    )


def test_the_token_of_the_team_is_no_key_of_the_server(monkeypatch):
    monkeypatch.delenv("IKAT_SERVE_TOKEN", raising=False)
    monkeypatch.setenv("IKAT_TOKEN", f"{TOKEN}\n")
    with (
        pytest.raises(
            ikat.UsageError,
            match="IKAT_TOKEN is the token of your team .*: export IKAT_SERVE_TOKEN=",
        ),
        running("raw", host="::"),
    ):
        pass
    token, said = server._token("127.0.0.1", None)
    assert (token, "IKAT_TOKEN is the token of your team" in said, TOKEN in said) == (
        None,
        True,
        False,
    )
    monkeypatch.setenv("IKAT_SERVE_TOKEN", TOKEN)
    for argument in (None, TOKEN):
        with pytest.raises(ikat.UsageError, match="is that of IKAT_TOKEN") as refused:
            server._token("127.0.0.1", argument)
        assert TOKEN not in str(refused.value)


def test_the_log_has_no_words_of_anybody(guarded, caplog):
    caplog.set_level(logging.INFO)
    headers = {**BEARER, "cookie": "xyzzy"}
    guarded.chat(says("xyzzy", user="xyzzy"), headers=headers)
    guarded.ask("GET", "/xyzzy", headers=headers)
    assert "xyzzy" not in caplog.text
    assert TOKEN not in caplog.text
