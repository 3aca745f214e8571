"""A secret planted in the key appears nowhere."""

import logging
import traceback

import pytest
from chat_server import KEY, ask, refused, said

from pyterrier_ikat.errors import IkatError
from pyterrier_ikat.llms import llm
from pyterrier_ikat.llms.retry import Retry


def seen(model):
    """Everything that a user or a file gets to see of one ask."""
    try:
        outcomes = model.ask(ask("a"))
    except IkatError as error:
        return repr(error) + "".join(traceback.format_exception(error))
    return "".join(f"{outcome!r}{outcome}" for outcome in outcomes)


@pytest.mark.parametrize(
    "answer",
    [
        said(),
        said(""),
        refused(400, f"echo {KEY}"),
        refused(401, f"echo {KEY}"),
        refused(403, f"echo {KEY}"),
        refused(404, f"echo {KEY}"),
        refused(402, f"echo {KEY}"),
        refused(500, f"echo {KEY}"),
        refused(429, f"echo {KEY}"),
        "drop",
    ],
)
def test_no_secret_is_shown_logged_or_stored(server, home, monkeypatch, caplog, answer):
    monkeypatch.setenv("OPENAI_API_KEY", KEY)
    caplog.set_level(logging.DEBUG)
    server.respond = lambda body: answer
    model = llm(f"openai:m base_url={server.url}")
    model.retry = Retry(tries=2, max_seconds=2, sleep=lambda seconds: None)
    everything = (
        seen(model) + repr(model) + str(model.ledger) + caplog.text + repr(model.backend.identity)
    )
    model.close()
    everything += "".join(path.read_bytes().decode("latin-1") for path in home.iterdir())
    assert KEY not in everything
    assert server.calls in (1, 2)
    assert KEY in server.headers[0]["authorization"]
    assert "HTTP Request" in caplog.text or answer == "drop"


@pytest.mark.parametrize(
    ("key", "shown"), [("abcd", "***"), ("abc", "abc"), ("none", "none"), ("", "none")]
)
def test_a_syllable_and_the_word_for_no_key_are_no_secrets(server, monkeypatch, key, shown):
    monkeypatch.setenv("OPENAI_API_KEY", key)
    server.respond = lambda body: refused(400, f"bad {key or 'none'}")
    (failure,) = llm(f"openai:m base_url={server.url} cache=none").ask(ask("a"))
    assert failure.reason == f"the server rejects the request (400: bad {shown})"


def test_a_logged_exception_is_redacted_with_its_message(monkeypatch, caplog):
    monkeypatch.setenv("OPENAI_API_KEY", KEY)
    llm("openai:m cache=none").open()
    try:
        raise ValueError(f"Client error with Bearer {KEY}")
    except ValueError:
        logging.getLogger("httpx").warning("failed with %s", KEY, exc_info=True)
    assert KEY not in caplog.text
    assert "failed with ***" in caplog.text
    assert "ValueError: Client error with Bearer ***" in caplog.text
