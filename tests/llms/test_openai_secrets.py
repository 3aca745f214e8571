"""A secret planted in the key appears nowhere, and servers are quoted without it."""

import logging
import time
import traceback

import pytest
from chat_server import KEY, Answer, ask, refused, said
from trust.test_parsers import LOOP, LOOPS

from pyterrier_ikat.errors import IkatError
from pyterrier_ikat.llms import llm
from pyterrier_ikat.llms.failures import BadRequest
from pyterrier_ikat.llms.openai import SECRETS, OpenAIBackend, RedactingFilter, hidden, quoted
from pyterrier_ikat.llms.retry import Retry

THERE = "https://host.example/v1"
LOGGERS = [
    "httpx",
    "httpx2",
    "openai._base_client",
    "httpcore.connection",
    "httpcore.http11",
    "httpcore.http2",
    "httpcore.proxy",
    "httpcore.socks",
    "httpcore2.connection",
    "httpcore2.http11",
    "httpcore2.http2",
    "httpcore2.proxy",
    "httpcore2.socks",
]


def test_every_logger_of_the_client_loses_its_secrets(monkeypatch):
    monkeypatch.setenv("MINE", KEY)
    backend = OpenAIBackend("m", base_url=THERE, api_key_env="MINE")
    backend.open()  # the client is imported, which adds filters of its own
    backend.close()
    for name in LOGGERS:
        logging.getLogger(name).filters.clear()
    backend.open()
    backend.close()
    for name in LOGGERS:
        kinds = [type(added) for added in logging.getLogger(name).filters]
        assert kinds == [RedactingFilter]


@pytest.mark.parametrize(
    ("answer", "line"),
    [
        ({"error": {"message": "no"}}, "no"),
        ({"error": {"message": "", "code": 5}}, '{"message": "", "code": 5}'),
        ({"message": {"detail": "no"}}, "no"),
        ({"detail": ["é"]}, '["é"]'),
        ({"message": "both", "error": "first"}, "first"),
        ("", "nothing"),
        ("a  \n b", "a b"),
        ("x" * 400, "x" * 297 + "..."),
        ("key sk-a***b.", "key ***"),
        (" " * 20_000 + "x", "nothing"),
        (None, "null"),
    ],
)
def test_a_servers_message_is_quoted_in_one_line(answer, line):
    assert quoted(answer) == line


def test_secrets_are_hidden_with_codes_between_letters():
    SECRETS.add("planted-secret")
    assert quoted("say planted-\x00secret twice, planted-secret") == "say *** twice, ***"
    SECRETS.discard("planted-secret")
    assert hidden("ab cd ab", ["ab", "cd"]) == "*** *** ***"


def test_a_log_record_is_kept_without_secrets():
    SECRETS.add("planted-secret")
    record = logging.LogRecord("a", 10, "p", 1, "with %s", ("planted-secret",), None)
    assert RedactingFilter().filter(record) is True
    assert (record.getMessage(), record.args, record.exc_text) == ("with ***", (), None)
    error = ValueError("planted-secret")
    broken = logging.LogRecord("a", 10, "p", 1, "x", (), (ValueError, error, None))
    assert RedactingFilter().filter(broken)
    assert "ValueError: ***" in broken.exc_text
    assert broken.exc_info is None
    SECRETS.discard("planted-secret")


PAGES = ["{}", "<html>{}", "<style>{}", "x {}", "<{}"]


@pytest.mark.parametrize("piece", LOOPS, ids=ascii)
def test_no_error_of_a_server_holds_anybody_up(piece):
    for page in (PAGES[0], PAGES[1 + LOOPS.index(piece) % 4]):
        text = page.format((piece * LOOP)[:LOOP]) if "{" not in piece else (piece * LOOP)[:LOOP]
        for answer in (text, {"error": {"message": text}}, [text], {"detail": [{"msg": text}]}):
            started = time.process_time()
            assert len(quoted(answer)) <= 300
            BadRequest("answer", "1_1", quoted(answer))
            assert time.process_time() - started < 1


def test_a_server_is_quoted_without_the_ends_of_a_key():
    assert quoted("Incorrect key: sk-ab*****yz.") == "Incorrect key: ***"
    assert quoted(Answer().headers) == "{}"


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
