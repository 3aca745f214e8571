"""A secret planted in key and URL appears nowhere."""

import logging
import traceback
from urllib.parse import quote, urlencode

import pytest
from chat_server import KEY, ask, refused, said

from pyterrier_ikat.errors import IkatError
from pyterrier_ikat.llms import llm
from pyterrier_ikat.llms.limits import Retry
from pyterrier_ikat.llms.network import Address, RedactingFilter, redact

PASSWORD, PARAMETER = "pw-planted-98765", "p-planted-43210"


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
        *(refused(status, f"echo {KEY} {PASSWORD} {PARAMETER}") for status in (400, 401, 403, 404, 402, 500, 429)),
        "drop",
    ],
)
def test_no_secret_is_shown_logged_or_stored(server, home, monkeypatch, caplog, answer):
    monkeypatch.setenv("OPENAI_API_KEY", KEY)
    caplog.set_level(logging.DEBUG)
    server.respond = lambda body: answer
    url = server.url.replace("http://", f"http://me:{PASSWORD}@") + f"?api-key={PARAMETER}"
    model = llm(f"openai:m base_url={url}")
    model.retry = Retry(tries=2, sleep=lambda seconds: None)
    everything = seen(model) + repr(model) + str(model.ledger) + caplog.text + repr(model.backend.identity)
    model.close()
    everything += "".join(path.read_bytes().decode("latin-1") for path in home.iterdir())
    for secret in (KEY, PASSWORD, PARAMETER):
        assert secret not in everything
    assert server.calls in (1, 2)
    assert PARAMETER in server.paths[0]
    assert "HTTP Request" in caplog.text or answer == "drop"


@pytest.mark.parametrize(("key", "shown"), [("abcd", "***"), ("abc", "abc"), ("none", "none"), ("", "none")])
def test_a_syllable_and_the_word_for_no_key_are_no_secrets(server, monkeypatch, key, shown):
    monkeypatch.setenv("OPENAI_API_KEY", key)
    server.respond = lambda body: refused(400, f"bad {key or 'none'}")
    (failure,) = llm(f"openai:m base_url={server.url} cache=none").ask(ask("a"))
    assert failure.reason == f"the server rejects the request (400): bad {shown}"


@pytest.mark.parametrize("secret", ["a b&c+d/é", "p%20 w", "plain"])
def test_a_secret_is_known_in_every_form_that_a_url_gives_it(secret):
    for encoded in (urlencode({"key": secret}), f"key={quote(secret)}", f"key={secret}"):
        address = Address(f"http://host/v1?key={quote(secret, safe='')}")
        assert redact(encoded, address.secrets) == "key=***"


def test_an_exception_in_a_log_record_is_redacted_with_its_message(caplog):
    logger = logging.getLogger("httpx")
    hider = RedactingFilter()
    hider.secrets = {PASSWORD, PARAMETER}
    logger.addFilter(hider)
    try:
        raise ValueError(f"Client error for http://host/v1?api-key={PARAMETER}")
    except ValueError:
        logger.warning("failed at %s", PARAMETER, exc_info=True)
    finally:
        logger.removeFilter(hider)
    assert PARAMETER not in caplog.text
    assert "failed at ***" in caplog.text
    assert "ValueError: Client error for http://host/v1?api-key=***" in caplog.text
