"""Who may enter a server, how much they may send, and that no refusal shows a traceback."""

import json
import logging
import re

import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from talking import TOKEN, Client, Fails, Talks, events, says, served

import pyterrier_ikat as ikat
from pyterrier_ikat.live.serving import application
from pyterrier_ikat.llms import BudgetExceeded, FatalLLMError, StageError
from pyterrier_ikat.llms.failures import Refused, Unavailable

FOREIGN = "https://elsewhere.example"


@pytest.fixture(scope="module")
def local():
    return Client(served())


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


@pytest.fixture(scope="module")
def guarded():
    return Client(served(token=TOKEN, origins=["https://chat.example"]))


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


BEARER = {"authorization": f"Bearer {TOKEN}"}


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


def test_the_log_has_no_words_of_anybody(guarded, caplog):
    caplog.set_level(logging.INFO)
    headers = {**BEARER, "cookie": "xyzzy"}
    guarded.chat(says("xyzzy", user="xyzzy"), headers=headers)
    guarded.ask("GET", "/xyzzy", headers=headers)
    assert "xyzzy" not in caplog.text
    assert TOKEN not in caplog.text


# Addresses and headers


def test_models_are_listed_and_found_by_name(two_models):
    status, _, content = two_models.ask("GET", "/v1/models")
    listed = json.loads(content)
    assert (status, listed["object"]) == (200, "list")
    assert [model["id"] for model in listed["data"]] == ["talks", "other"]
    status, _, content = two_models.ask("GET", "/v1/models/other")
    assert (status, json.loads(content)) == (200, listed["data"][1])
    status, _, content = two_models.ask("GET", "/v1/models/none")
    error = json.loads(content)["error"]
    assert (status, error["code"], error["param"]) == (404, "model_not_found", "model")
    assert "'none': give one of talks, other" in error["message"]


def test_only_a_single_model_needs_no_name(two_models):
    body = {"messages": [{"role": "user", "content": "Which tea?"}]}
    status, answer = two_models.chat(body)
    assert (status, answer["error"]["param"]) == (404, "model")
    status, answer = Client(served({"mine": Talks("Mint.")})).chat(body)
    assert (status, answer["model"], answer["ikat"]["response"]) == (200, "mine", "Mint.")


@pytest.mark.parametrize(
    ("headers", "status"),
    [
        ({"authorization": f"Bearer {TOKEN}"}, 200),
        ({"authorization": f"bearer   {TOKEN} "}, 200),
        ({"authorization": f"Basic {TOKEN}"}, 401),
        ({"authorization": TOKEN}, 401),
        ({"content-type": "Application/JSON; charset=utf-8"}, 401),
    ],
)
def test_the_scheme_of_a_token_is_bearer(headers, status):
    guarded = Client(served(token=TOKEN))
    assert guarded.ask("GET", "/v1/models", headers=headers)[0] == status


@pytest.mark.parametrize(
    ("kind", "status"),
    [
        ("application/json", 200),
        ("Application/JSON; charset=utf-8", 200),
        (" application/json ", 200),
        ("application/json-seq", 415),
        ("text/json", 415),
    ],
)
def test_a_body_has_to_be_of_json_type(two_models, kind, status):
    assert two_models.chat(says("Hi"), headers={"content-type": kind})[0] == status


def test_a_stream_is_kept_by_no_proxy(two_models):
    body = says("Hi", stream=True)
    _, headers, content = two_models.ask("POST", "/v1/chat/completions", body)
    assert headers["cache-control"] == "no-store"
    assert "usage" not in events(content)[-1]
    assert two_models.ask("GET", "/answers/none")[0] == 404


@pytest.mark.parametrize(
    ("path", "instead"),
    [
        ("/chat/completions", "POST /v1/chat/completions"),
        ("/v1/responses", "POST /v1/chat/completions"),
        ("/v1/responses/", "OpenAIChatCompletionsModel"),
        ("/v1/completions", "POST /v1/chat/completions"),
        ("/v1/embeddings", "POST /search"),
    ],
)
def test_a_client_at_another_address_is_told_the_right_one(client, path, instead):
    status, answer = client.post(path, {"model": "talks", "input": "Which tea?"})
    assert status == 404
    assert instead in answer["error"]["message"]


# Failures


@pytest.mark.parametrize(
    ("error", "status", "code", "words", "logged"),
    [
        (
            FatalLLMError("no server answers at http://inner:1"),
            502,
            "llm_unusable",
            "can't be asked",
            "no server answers",
        ),
        (
            StageError("answer", [Unavailable("answer", "1", "503 of http://inner:1")]),
            503,
            "llm_unavailable",
            "ask again later",
            "503",
        ),
        (
            StageError("answer", [Refused("answer", "1", "No xyzzy.")]),
            502,
            "llm_failed",
            "(Refused)",
            "answer: Refused",
        ),
        (
            BudgetExceeded(spent=2.0, budget=1.0, where="runs/inner"),
            402,
            "budget_exceeded",
            "budget of this",
            "runs/inner has cost 2",
        ),
        (
            ikat.DataError("the index /inner/a is gone"),
            500,
            "system_failed",
            "in the log of",
            "the index /inner/a is gone",
        ),
        (KeyError("xyzzy"), 500, "internal_error", "", "unexpected KeyError in transform"),
    ],
)
def test_a_failure_is_told_to_the_reader_its_reason_to_operators(
    caplog, error, status, code, words, logged
):
    found, answer = Client(served({"talks": Fails(error)})).chat(says("My secret word is xyzzy."))
    assert (found, answer["error"]["code"], words in answer["error"]["message"]) == (
        status,
        code,
        True,
    )
    assert not re.search(
        "inner|run it again|run again|on_error|cache|base_url", answer["error"]["message"]
    )
    assert logged in caplog.text
    assert "xyzzy" not in caplog.text + json.dumps(answer)


def test_a_system_that_exits_ends_only_its_answer(caplog):
    client = Client(served({"talks": Fails(SystemExit(3)), "other": Talks("Mint.")}))
    with caplog.at_level(logging.ERROR, "pyterrier_ikat.live.serving"):
        status, answer = client.chat(says("Which tea?"))
    assert (status, answer["error"]["code"]) == (500, "internal_error")
    assert "unexpected SystemExit in transform" in caplog.text
    assert client.chat(says("Which tea?", model="other"))[0] == 200
