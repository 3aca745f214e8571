"""What a server tells the user who starts it, its token, and how it ends."""

import threading

import httpx
import pyterrier as pt
import pytest
from fakes import scripted
from talking import TOKEN, Talks

import pyterrier_ikat as ikat
from pyterrier_ikat.errors import UsageError
from pyterrier_ikat.live.serving import application, running, server
from pyterrier_ikat.live.serving.passages import PassageAddresses


class Running:
    """A server that is started and ends at once."""

    url = "http://host:1"
    notes = ["a note", "another"]

    def __init__(self):
        self.thread = threading.Thread(target=str)
        self.thread.start()
        self.thread.join()


def test_serve_tells_its_addresses_and_notes(monkeypatch):
    started = []

    class Context:
        def __init__(self, systems, **options):
            started.append((systems, options))

        def __enter__(self):
            return Running()

        def __exit__(self, *error):
            return None

    monkeypatch.setattr(server, "running", Context)
    lines = []
    server.serve("ad", echo=lines.append, out="folder")
    server.serve(["raw"], port=0, echo=lines.append)
    assert started == [
        ("ad", {"port": 8000, "log": True, "out": "folder"}),
        (["raw"], {"port": 0, "log": True}),
    ]
    assert lines[0].splitlines() == [
        "chat page      http://host:1/",
        "models         http://host:1/v1",
        "search         http://host:1/search",
        "a note",
        "another",
        "Ctrl-C stops",
    ]


def test_ctrl_c_ends_a_server_without_an_error(monkeypatch):
    class Context:
        def __init__(self, systems, **options):
            pass

        def __enter__(self):
            return Running()

        def __exit__(self, *error):
            return None

    def interrupted(text):
        raise KeyboardInterrupt

    monkeypatch.setattr(server, "running", Context)
    server.serve("ad", echo=interrupted)


def test_the_notes_of_a_server_name_what_is_not_usual(monkeypatch, tmp_path):
    monkeypatch.delenv("IKAT_SERVE_TOKEN", raising=False)
    answers = {"mine": ikat.Answer(scripted()[0])}
    finds = pt.apply.generic(lambda turns: turns.assign(docno="d", score=1.0, rank=0, text="t"))
    with server.running({**answers, "finds": finds}, out=tmp_path / "out") as running:
        assert running.url.startswith("http://127.0.0.1:")
        notes = running.notes
    assert notes[0].startswith("no token: only this machine is answered")
    assert not any(note.startswith("mine ") for note in notes)
    assert f"conversations whose clients name them are saved in {tmp_path / 'out'}" in notes
    assert not any("Model Context Protocol" in note for note in notes)
    assert not running.thread.is_alive()
    with server.running(answers, token="a-token-of-twenty-signs", mcp=True) as running:
        assert "requests need the token of the argument token" in running.notes[0]
        assert "tools of the Model Context Protocol are at /mcp" in running.notes
        port = int(running.url.rpartition(":")[2])
        with (
            pytest.raises(ikat.UsageError, match="can't be used"),
            server.running(answers, port=port),
        ):
            pass


def test_a_limit_of_words_is_for_systems_that_have_one():
    answers = {"mine": ikat.Answer(scripted()[0])}
    with pytest.raises(ikat.UsageError, match="words"), server.running(answers, words=3):
        pass


def test_requests_are_logged_only_where_that_is_asked_for(monkeypatch, caplog):
    monkeypatch.delenv("IKAT_SERVE_TOKEN", raising=False)
    caplog.set_level("INFO", "uvicorn.access")
    with server.running({"mine": ikat.Answer(scripted()[0])}) as running:
        assert httpx.get(f"{running.url}/v1/models", trust_env=False).status_code == 200
    assert [record for record in caplog.records if record.name == "uvicorn.access"] == []


class Started:
    """Stands in for a server in a thread."""

    made = []

    def __init__(self, *arguments):
        self.application, _, self.notes, self.log = arguments
        self.stopped = False
        self.made.append(self)

    def stop(self):
        self.stopped = True


@pytest.fixture
def started(monkeypatch):
    """The arguments of applications, and the servers that run them."""
    monkeypatch.delenv("IKAT_SERVE_TOKEN", raising=False)
    monkeypatch.delenv("IKAT_TOKEN", raising=False)
    applications = []
    monkeypatch.setattr(application, "application", lambda *given: applications.append(given))
    monkeypatch.setattr(server, "Running", Started)
    monkeypatch.setattr(Started, "made", [])
    return applications


@pytest.mark.parametrize(
    ("options", "allowed", "hosts"),
    [
        ({}, [], []),
        ({"origins": "HTTPS://Chat.Example/"}, ["https://chat.example"], []),
        ({"origins": ["http://a/", "http://B:1"]}, ["http://a", "http://b:1"], []),
        (
            {"public_url": "https://Front.Example:8443/ikat/", "origins": ["http://a"]},
            ["http://a", "https://front.example:8443"],
            ["Front.Example"],
        ),
        ({"public_url": "http://[::1]:80"}, ["http://[::1]:80"], ["[::1]"]),
        ({"public_url": "https://front"}, ["https://front"], ["front"]),
    ],
)
def test_pages_and_hosts_of_a_server_are_those_named(started, options, allowed, hosts):
    with server.running({"talks": Talks()}, token=TOKEN, **options) as running:
        assert not running.stopped
    [(made, token, pages, extra, names)] = started
    assert (token, pages, names, extra) == (TOKEN, allowed, hosts, ((), None))
    assert running.stopped
    assert list(made.systems) == ["talks"]
    assert (made.saved, made.workers.total_tokens, running.log) == (None, 16, False)
    assert (made.passages is None) is ("public_url" not in options)
    if made.passages is not None:
        base = options["public_url"].rstrip("/")
        address = made.passages.of("a", "b")
        assert address.startswith(f"{base}/passages/b?model=a&signature=")
        assert address == PassageAddresses(base, TOKEN).of("a", "b")


def test_all_models_and_logs_are_closed_after_an_error(started, tmp_path, monkeypatch):
    closed = []
    monkeypatch.setattr(type(scripted()[0]), "close", lambda self: closed.append(self))
    both = [scripted()[0] for _ in range(2)]
    systems = {"a": ikat.Answer(both[0]), "b": ikat.Rewrite(both[1]) >> ikat.Answer(both[0])}
    with (
        pytest.raises(ZeroDivisionError),
        server.running(systems, out=tmp_path, workers=3, public_url="http://h", log=True) as run,
    ):
        raise ZeroDivisionError
    assert run.stopped
    assert closed == both
    assert started[0][0].workers.total_tokens == 3
    with ikat.store.files.lock_folders(tmp_path / "a", tmp_path / "b"):
        pass  # others may write
    assert run.notes[1:] == [
        f"conversations whose clients name them are saved in {tmp_path}",
        "cited passages open without a token at http://h/passages/..., until the server stops",
        "passages of a have no address: its index gives no texts by id",
        "passages of b have no address: its index gives no texts by id",
    ]
    assert run.log


# The token


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


@pytest.mark.parametrize(
    ("host", "token", "is_refused"),
    [
        ("127.0.0.1", None, False),
        ("localhost", None, False),
        ("::1", None, False),
        ("0.0.0.0", None, True),
        ("192.168.0.7", None, True),
        ("0.0.0.0", TOKEN, False),
        ("127.0.0.1", "x" * 15, True),
        ("127.0.0.1", "x" * 16, False),
    ],
)
def test_other_machines_need_a_token(monkeypatch, host, token, is_refused):
    for name in ("IKAT_SERVE_TOKEN", "IKAT_TOKEN"):
        monkeypatch.delenv(name, raising=False)
    if is_refused:
        with pytest.raises(UsageError, match="export IKAT_SERVE_TOKEN="):
            server._token(host, token)
        return
    assert server._token(host, token)[0] == token


def test_a_token_given_comes_before_that_of_the_environment(monkeypatch):
    monkeypatch.setenv("IKAT_SERVE_TOKEN", "of-the-environment")
    assert server._token("0.0.0.0", None)[0] == "of-the-environment"
    assert server._token("0.0.0.0", TOKEN)[0] == TOKEN
    assert server._token("127.0.0.1", "")[0] is None  # an explicit empty one


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


@pytest.mark.parametrize(
    ("team", "token"), [(f" {TOKEN}\n", TOKEN), (TOKEN, f"{TOKEN} "), (TOKEN, f"\n{TOKEN}")]
)
def test_the_token_of_the_team_is_known_with_blanks_around_it(monkeypatch, team, token):
    monkeypatch.setenv("IKAT_TOKEN", team)
    with pytest.raises(UsageError, match="is that of IKAT_TOKEN") as refused:
        server._token("127.0.0.1", token)
    assert TOKEN not in str(refused.value)
    monkeypatch.setenv("IKAT_TOKEN", "  ")
    assert "team" not in server._token("127.0.0.1", "")[1]
