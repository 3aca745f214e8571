"""What servers say in other ways than the documentation has it, and where the token must not go."""

import pytest
from test_interact import play, said
from track_server import LAST_WORDS, TOKEN, Run, Track, TrackServer

from pyterrier_ikat.errors import DataError, UsageError
from pyterrier_ikat.live.interactive import ServerDown, UserMessage, track_server

ONE = (("1-1", "ann", ("Why?", "How?")),)
MESSAGE = {
    "topic_id": "1-1",
    "user_id": "u",
    "utterance": "Why?",
    "history": [],
    "last_response_of_session": False,
    "last_response_of_run": False,
}


class Changed(Track):
    """A track whose user messages are changed on their way."""

    def __init__(self, change, *given, **options):
        super().__init__(*given, **options)
        self.change = change

    def handle(self, *call):
        status, content, headers = super().handle(*call)
        if isinstance(content, dict) and "topic_id" in content:
            content = {**content, **self.change(content)}
        return status, content, headers


@pytest.mark.parametrize(
    ("field", "value", "told"),
    [
        ("last_response_of_session", "false", "last_response_of_session: Input should be a valid boolean"),
        ("last_response_of_run", None, "last_response_of_run: Input should be a valid boolean"),
        ("utterance", None, "utterance: Input should be a valid string"),
        ("user_id", True, "user_id: Input should be a valid string"),
        ("history", [{"role": "human", "content": "Why?"}], "history.0.role"),
    ],
)
def test_a_field_of_another_type_or_none_is_named_and_not_guessed(field, value, told):
    with pytest.raises(DataError, match=told):
        UserMessage.of({**MESSAGE, field: value})
    alias = {name: known for name, known in MESSAGE.items() if name != field}
    with pytest.raises(DataError, match=f"{field}: Field required"):
        UserMessage.of(alias)


def test_numbers_as_ids_fields_nobody_knows_and_an_end_without_words():
    assert UserMessage.of({**MESSAGE, "topic_id": 7, "mood": "good"}).topic == "7"
    ended = UserMessage.of({**MESSAGE, "utterance": None, "last_response_of_run": True})
    assert (ended.utterance, ended.ends_session, ended.ends_run) == ("", True, True)


def test_a_history_without_the_newest_utterance(tmp_path):
    track = Changed(lambda message: {"history": message["history"][:-1]}, ONE, faults=["", "drop after"])
    assert play(track, tmp_path / "run").finished
    assert said(track.taken) == [("1-1", "Why?"), ("1-1", "How?")]


def test_half_characters_and_control_characters_of_a_user(tmp_path):
    topics = (("../1\ud800", "ann", ("Tea \ud800?", "\x1b[31m\0?")),)
    run = play(Track(topics), tmp_path / "run")
    (one,) = run.log.dialogues()
    assert one.session == "../1\ufffd"
    assert [turn.utterance for turn in one.turns] == ["Tea \ufffd?", " [31m ?"]
    assert sorted(path.name for path in tmp_path.rglob("*.json*")) == ["dump.json", "log.jsonl"]


class AtOnce(Track):
    """The second conversation ends before the system has said anything."""

    def next_topic(self, run):
        if run.open[0][0] != "2-1":
            return super().next_topic(run)
        run.topic, run.history = run.open.pop(0), []
        return self.say(run, LAST_WORDS, True)


def test_a_conversation_that_ends_at_once_has_no_turn(tmp_path):
    run = play(AtOnce(), tmp_path / "run")
    assert [(one.session, len(one.turns), one.end) for one in run.log.dialogues()] == [
        ("1-1", 3, "topic ended"),
        ("2-1", 0, "topic ended"),
        ("1-2", 2, "topic ended"),
    ]


def test_a_run_without_topics_has_ended(tmp_path):
    class Zero(Track):
        def start(self, runs, body, area):
            nobody = dict.fromkeys(("topic_id", "user_id", "utterance", "history"))
            run = runs[body["run_id"]] = Run({}, [])
            run.message = {**nobody, "last_response_of_session": True, "last_response_of_run": True}
            return run.message

        def status(self, run):
            return {"status": "completed", "open_topics": [], "done_topics": []}

    run = play(Zero(), tmp_path / "run")
    assert run.finished
    assert run.log.dialogues()[0].turns == []


@pytest.fixture
def two(monkeypatch):
    """Two servers; the second one must not see the token."""
    monkeypatch.setenv("IKAT_TOKEN", TOKEN)
    servers = [TrackServer(Track(ONE)), TrackServer(Track(ONE))]
    yield servers
    for server in servers:
        server.close()


def team(url, **options):
    return track_server.TrackServer(url, sleep=lambda seconds: None, **options).team()


@pytest.mark.parametrize("name", ["http_proxy", "ALL_PROXY"])
def test_a_proxy_does_not_get_the_token_of_an_address_on_this_machine(two, monkeypatch, name):
    for other in ("NO_PROXY", "no_proxy"):
        monkeypatch.delenv(other, raising=False)
    monkeypatch.setenv(name, two[1].url)
    assert team(two[0].url) == "team-a"
    assert two[1].track.calls == []


def test_a_redirect_is_named_and_not_followed(two):
    two[0].track.handle = lambda *call: (307, {}, {"Location": f"{two[1].url}/auth/verify?token={TOKEN}"})
    with pytest.raises(UsageError, match=f"the token is not sent on: .*{two[1].url}/auth/verify") as raised:
        team(two[0].url)
    assert TOKEN not in str(raised.value)
    assert two[1].track.calls == []


def test_a_page_of_a_proxy_is_an_error_in_a_line(two):
    two[0].track.handle = lambda *call: (502, "<html>\n<h1>Bad Gateway</h1>" + "x" * 100_000, {})
    with pytest.raises(ServerDown, match="502: Bad Gateway") as raised:
        team(two[0].url)
    assert len(str(raised.value)) < 300
