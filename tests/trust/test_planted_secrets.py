"""Secrets planted in key.

URL and headers, looked for in everything that a user, a log or a file gets to see.
"""

import logging
import pickle
import traceback
from pathlib import Path

import pytest
from click.testing import CliRunner
from IPython.core.formatters import DisplayFormatter
from llms.chat_server import KEY, Answer, ask, refused, said

import pyterrier_ikat as ikat
from pyterrier_ikat.cli import main
from pyterrier_ikat.errors import IkatError, UsageError
from pyterrier_ikat.live.chat import Chat
from pyterrier_ikat.llms import FatalLLMError, Ledger, llm
from pyterrier_ikat.llms.retry import Retry
from pyterrier_ikat.study import Study

PASSWORD = "pw-planted-98765"
ECHO = f"Bearer {KEY}"


@pytest.fixture
def address(server, monkeypatch, caplog):
    """The server's address; a key is set, and logs are kept at DEBUG."""
    monkeypatch.setenv("OPENAI_API_KEY", KEY)
    caplog.set_level(logging.DEBUG)
    return server.url


@pytest.fixture
def model(address):
    made = llm(f"openai:m base_url={address} on_error=fallback")
    made.retry = Retry(tries=1)
    yield made
    made.close()


def leaked(text):
    """Those of the secrets that are in the text."""
    return [secret for secret in (KEY, PASSWORD) if secret in text]


def written(folder):
    """What all files below a folder hold, one after another."""
    files = [path for path in Path(folder).rglob("*") if path.is_file()]
    return "".join(path.read_bytes().decode("latin-1") for path in files)


def shown(thing):
    """What a notebook, a terminal and a debugger show."""
    return str(DisplayFormatter().format(thing)[0]) + repr(thing) + str(thing)


def command(*arguments, **options):
    done = CliRunner().invoke(main, [str(argument) for argument in arguments], **options)
    assert done.exit_code == options.get("expected", 0), done.output
    return done.output


def test_run_report_chat_and_submission_of_the_command_line(
    server, address, sample_index, tmp_path, caplog
):
    server.respond = lambda body: Answer(
        200, said("1. a walk\n2. heath in bloom").body, {"X-Echo": ECHO}
    )
    common = ("--index", sample_index, "--llm", f"openai:m base_url={address}")
    said_by = command("run", "aqd", "--dataset", "ikat:sample", *common, "--out", tmp_path / "runs")
    said_by += command(
        "run", "aqd", "--dataset", "ikat:sample", *common, "--out", tmp_path / "runs", "--plan"
    )
    said_by += command("report", tmp_path / "runs" / "aqd", "--out", tmp_path / "report.html")
    said_by += command("evaluate", tmp_path / "runs" / "aqd", "--cost")
    said_by += command("evaluate", tmp_path / "runs" / "aqd", "--dataset", "ikat:sample")
    said_by += command(
        "chat", "aqd", *common, "--out", tmp_path / "chat", input="Where may I walk?\n"
    )
    assert len(server.headers) > 40
    assert (tmp_path / "chat" / "topics.json").is_file()
    assert (
        "openai:m base_url=http://127.0.0.1" in (tmp_path / "runs" / "aqd" / "run.json").read_text()
    )
    assert leaked(said_by + caplog.text + written(tmp_path)) == []


@pytest.mark.parametrize("status", [401, 500])
def test_a_run_that_fails(server, address, sample_index, tmp_path, caplog, status):
    server.respond = lambda body: refused(status, ECHO, **{"X-Echo": ECHO})
    spec = f"openai:m base_url={address} retries=0"
    asked = (
        "--dataset",
        "ikat:sample",
        "--turns",
        "1-1_1",
        "--index",
        sample_index,
        "--llm",
        spec,
        "--out",
        tmp_path / "runs",
    )
    done = CliRunner().invoke(main, ["run", "aqd", *map(str, asked)])
    assert done.exit_code == 2
    assert leaked(done.output + caplog.text + written(tmp_path)) == []


def with_locals(error, inner):
    """The traceback of an error with the values of all local names."""
    shown = traceback.TracebackException(type(error), error, inner, capture_locals=True)
    return "".join(shown.format())


@pytest.mark.parametrize("status", [401, 500])
def test_tracebacks_with_locals_and_pickled_errors_hide_secrets(server, model, status):
    server.respond = lambda body: refused(status, ECHO)
    try:
        outcomes = model.ask(ask("a"))
    except IkatError as error:
        outcomes = [error]
        inner = error.__traceback__.tb_next  # without this function, which knows the secrets
        text = with_locals(error, inner) + traceback.format_exc()
        assert leaked(text) == []
    assert leaked("".join(shown(outcome) + str(vars(outcome)) for outcome in outcomes)) == []
    assert leaked(pickle.dumps([vars(outcome) for outcome in outcomes]).decode("latin-1")) == []


def test_everything_that_displays_itself(server, address, model, sample_index, tmp_path):
    index = ikat.PassageIndex(sample_index)
    system = ikat.Answer(model) >> ikat.MultiQuery(model) >> index.bm25() >> ikat.Interleave()
    chat = Chat(system)
    turn = chat.say("Where may I walk?")
    spec = f"openai:m base_url={address}"
    given = {"index": sample_index, "llm": spec}
    study = Study("aqd", "ikat:sample", **given)
    planned = ikat.plan("aqd", "ikat:sample", **given)
    drawing = ikat.show.draw(system)
    things = [
        model,
        model.ledger,
        system,
        *system,
        drawing,
        chat,
        turn,
        study,
        planned,
        study.systems,
        Ledger(),
    ]
    things += [drawing.html, model.backend.identity, model.ask(ask("a")), vars(model)]
    assert leaked("".join(map(shown, things))) == []


def test_a_server_that_redirects_or_echoes_at_debug(server, model, caplog):
    server.script = [Answer(307, {}, {"Location": f"{server.url}/elsewhere", "Set-Cookie": ECHO})]
    with pytest.raises(
        FatalLLMError, match="redirects .307., and no redirect is followed"
    ) as raised:
        model.ask(ask("a"))
    assert server.calls == 1
    assert leaked(str(raised.value)) == []
    assert "receive_response_headers.complete" in caplog.text
    assert leaked(caplog.text) == []


def test_key_that_no_header_can_hold_is_told_before_sending(server, monkeypatch):
    monkeypatch.setenv("OPENAI_API_KEY", f"{KEY}…")
    with pytest.raises(
        FatalLLMError, match=r"the key in OPENAI_API_KEY has a character that no key has"
    ) as raised:
        llm(f"openai:m base_url={server.url}").ask(ask("a"))
    error = raised.value
    assert leaked(with_locals(error, error.__traceback__)) == []
    assert server.calls == 0


@pytest.mark.parametrize(
    "spec",
    [
        f"http://me:{PASSWORD}@host/v1",
        f"openai:http://me:{PASSWORD}@host/v1",
        f"openai:m http://me:{PASSWORD}@host/v1",
        f"openai:m http://me:{PASSWORD}@host/v1?a=b",
        f"openai:m base_url=me:{PASSWORD}@host",
        f"openai:m base_url=http://me:{PASSWORD}@host:port/v1",
        f"openai:m base_url=http://me:{PASSWORD}@host/v1",
        f"openai:m base_url=http://host/v1?api-key={PASSWORD}",
        f"openai:m timeout=http://me:{PASSWORD}@host/v1",
        f"openai:m api_key_env={KEY}",
        f"openai:m api_key={KEY}",
        f"openai:m key={KEY}",
    ],
)
def test_a_misplaced_secret_is_refused_and_not_repeated(spec):
    with pytest.raises(UsageError) as raised:
        llm(spec)
    assert leaked(shown(raised.value) + "".join(traceback.format_exception(raised.value))) == []
