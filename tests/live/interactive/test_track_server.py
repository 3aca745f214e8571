"""The calls of the track's server: paths, fields, repeats, errors, and messages of the user."""

import json

import httpx
import pytest
from playing import server_of, user_message

import pyterrier_ikat as ikat
from pyterrier_ikat.errors import DataError, UsageError
from pyterrier_ikat.live.interactive import ServerDown, track_server
from pyterrier_ikat.live.interactive.track_server import (
    ServerRefusal,
    TrackServer,
    UserMessage,
    safe_address,
)

MESSAGE = {
    "topic_id": "1-1",
    "user_id": "ann",
    "utterance": "Why?",
    "history": [{"role": "user", "content": "Tea?"}, {"role": "assistant", "content": "Yes."}],
    "last_response_of_session": False,
    "last_response_of_run": False,
}


@pytest.fixture
def track(monkeypatch):
    """A server that answers from a list, with its calls and the client's waits."""
    monkeypatch.setenv("IKAT_TOKEN", "tok-1")

    class Answers:
        def __init__(self):
            self.answers = []
            self.calls = []
            self.waits = []
            self.told = []

        def __call__(self, request):
            body = json.loads(request.content) if request.content else dict(request.url.params)
            self.calls.append((request.method, request.url.path, body))
            self.token = request.headers["authorization"]
            answer = self.answers.pop(0)
            if isinstance(answer, Exception):
                raise answer
            status, content = answer
            if isinstance(content, str):
                return httpx.Response(status, text=content)
            return httpx.Response(status, json=content)

        def server(self, *answers, **options):
            self.answers = list(answers)
            return TrackServer(
                "https://host/sim/",
                "mine",
                tell=self.told.append,
                transport=httpx.MockTransport(self),
                **options,
            )

    made = Answers()
    monkeypatch.setattr(track_server, "sleep", made.waits.append)
    return made


def test_each_call_has_its_path_and_fields(track):
    server = track.server(
        (200, {"team_id": "t"}),
        *[(200, MESSAGE)] * 4,
        (200, {"open_topics": ["2-1"]}),
        (200, '{"a": 1}\n\n{"b": 2}'),
        (200, {"a": 1}),
    )
    assert server.team() == "t"
    server.start("Ours.", track_persona=True, about={"system": "s"})
    server.proceed("Tea.", {"d1": 0.5}, ["I ski."])
    server.proceed()
    assert server.session() == UserMessage.of(MESSAGE)
    assert server.open_topics() == ["2-1"]
    assert server.dump() == [{"a": 1}, {"b": 2}]
    assert server.dump() == [{"a": 1}]
    assert track.token == "Bearer tok-1"
    run = {"run_id": "mine"}
    persona = {"track_persona": True}
    chosen = {"ptkb_provenance": ["I ski."]}
    none = {"ptkb_provenance": []}
    assert track.calls == [
        ("GET", "/sim/auth/verify", {}),
        (
            "POST",
            "/sim/run/start",
            {**run, "description": "Ours.", **persona, "extra": {"system": "s", **persona}},
        ),
        (
            "POST",
            "/sim/run/continue",
            {**run, "response": "Tea.", "citations": {"d1": 0.5}, "meta": chosen, **chosen},
        ),
        (
            "POST",
            "/sim/run/continue",
            {**run, "response": "", "citations": {}, "meta": none, **none},
        ),
        ("GET", "/sim/run/session", run),
        ("GET", "/sim/run/status", run),
        ("GET", "/sim/run/dump", run),
        ("GET", "/sim/run/dump", run),
    ]


def test_a_debug_run_uses_the_calls_for_debugging(track):
    server = track.server(*[(200, MESSAGE)] * 3, debug=True)
    server.start("x", track_persona=False, about={})
    server.proceed("Tea.")
    server.session()
    assert [path for _, path, _ in track.calls] == [
        "/sim/debug/start",
        "/sim/debug/continue",
        "/sim/debug/session",
    ]
    assert server.debug
    assert track.calls[0][2]["extra"] == {"track_persona": False}


@pytest.mark.parametrize(
    ("status", "error", "unsent", "late", "told"),
    [
        (401, ServerRefusal, True, False, "does not accept the token"),
        (403, ServerRefusal, True, False, "refuses run/continue"),
        (404, ServerRefusal, True, False, "knows no such address or run"),
        (412, ServerRefusal, True, False, "knows this run already"),
        (422, ServerRefusal, True, False, "refuses run/continue"),
        (400, ServerRefusal, True, False, "refuses run/continue"),
        (500, ServerDown, False, False, "gave no answer to run/continue"),
        (502, ServerDown, False, True, "gave no answer to run/continue"),
        (503, ServerDown, False, False, "gave no answer to run/continue"),
        (504, ServerDown, False, True, "gave no answer to run/continue"),
    ],
)
def test_what_a_status_says_of_a_response(track, status, error, unsent, late, told):
    server = track.server((status, {"detail": "so it is"}))
    with pytest.raises(ServerDown, match=told) as raised:
        server.proceed("Tea.")
    assert type(raised.value) is error
    assert (raised.value.status, raised.value.unsent, raised.value.late) == (status, unsent, late)
    assert f"({status}: " in raised.value.why
    assert "so it is" in raised.value.why
    assert track.waits == []


@pytest.mark.parametrize(
    ("failure", "unsent", "late"),
    [
        (httpx.ConnectError("refused"), True, False),
        (httpx.ConnectTimeout("slow"), True, False),
        (httpx.ReadTimeout("slow"), False, True),
        (httpx.ReadError("cut"), False, False),
    ],
)
def test_a_lost_connection_tells_whether_the_call_was_sent(track, failure, unsent, late):
    waits = [1, 2, 4, 8, 15, 30, 60] if unsent else []
    server = track.server(*[failure] * (len(waits) + 1))
    with pytest.raises(ServerDown, match=type(failure).__name__) as raised:
        server.proceed("Tea.")
    assert (raised.value.unsent, raised.value.late, raised.value.status) == (unsent, late, 0)
    assert track.waits == waits
    assert len(track.told) == len(waits)
    assert len(track.calls) == len(waits) + 1
    assert "check the address, or start again later" in str(raised.value)


@pytest.mark.parametrize(
    ("failures", "waits"),
    [
        ([(429, "")], [1]),
        ([(503, ""), (502, ""), httpx.ReadTimeout("slow")], [1, 2, 4]),
        ([httpx.ConnectError("no")] * 7, [1, 2, 4, 8, 15, 30, 60]),
    ],
)
def test_reading_is_repeated_until_an_answer_comes(track, failures, waits):
    server = track.server(*failures, (200, MESSAGE))
    assert server.session().topic == "1-1"
    assert track.waits == waits


def test_a_response_without_time_on_the_server_is_sent_again(track):
    assert track.server((429, "busy"), (200, MESSAGE)).proceed("Tea.").utterance == "Why?"
    assert track.waits == [1]
    assert "waiting 1 s: https://host/sim gave no answer" in track.told[0]


@pytest.mark.parametrize("status", [500, 404, 401])
def test_a_failure_for_good_is_not_asked_again(track, status):
    with pytest.raises(ServerDown):
        track.server((status, "")).session()
    assert track.waits == []


def test_what_is_not_json_counts_as_a_failure_of_the_server(track):
    with pytest.raises(ServerDown, match="what came is not JSON") as raised:
        track.server((200, "<html>")).session()
    assert raised.value.status == 500


def test_a_servers_words_are_one_short_line_without_the_token(track):
    with pytest.raises(ServerDown) as raised:
        track.server((403, "no\n  tok-1 " + "x" * 300)).proceed()
    assert "(403: no *** " in raised.value.why
    assert "tok-1" not in str(raised.value)
    shown = raised.value.why.partition("403: ")[2].rstrip(")")
    assert len(shown) == 200


@pytest.mark.parametrize(
    "status", [{"open_topics": "2-1"}, {"topics": []}, [], "text", {"open_topics": None}]
)
def test_a_status_of_another_form_is_an_error_with_its_words(track, status):
    with pytest.raises(DataError, match="status of the run has an unknown form"):
        track.server((200, json.dumps(status))).open_topics()


def test_a_long_status_is_shown_in_part(track):
    with pytest.raises(DataError) as raised:
        track.server((200, {"topics": "x" * 500})).open_topics()
    assert str(raised.value).count("x") < 200


@pytest.mark.parametrize("answer", [{}, {"team_id": 7}, ["t"]])
def test_a_server_that_names_no_team_is_refused(track, answer):
    with pytest.raises(DataError, match="does not name the team of the token"):
        track.server((200, json.dumps(answer))).team()


@pytest.mark.parametrize("run_id", ["", "two words", "a\nb", "a\tb", "a\n", "a\x00"])
def test_a_run_id_is_one_word(track, run_id):
    with pytest.raises(UsageError, match="is not one word"):
        TrackServer("https://host", run_id)
    assert TrackServer("https://host", "tée-1").shown == "https://host"


@pytest.mark.parametrize(
    ("address", "expected"),
    [
        ("https://host/sim/", "https://host/sim"),
        ("https://host", "https://host"),
        ("http://localhost:8888/sim", "http://localhost:8888/sim"),
        ("http://127.0.0.1/", "http://127.0.0.1"),
        ("http://[::1]:1", "http://[::1]:1"),
        ("http://[::1]:8/a/", "http://[::1]:8/a"),
        ("http://host", None),
        ("http://127.0.0.2", None),
        ("http://localhost.example.org", None),
        ("ftp://host", None),
        ("https://", None),
        ("https://a@host", None),
        ("https://a:word@host", None),
        ("https://host/?run=1", None),
        ("https://host?x=1", None),
        ("host/sim", None),
    ],
)
def test_addresses_are_encrypted_or_of_this_machine(address, expected):
    if expected is None:
        with pytest.raises(UsageError):
            safe_address(address)
    else:
        assert safe_address(address) == expected


def test_errors_of_the_server_say_what_to_do():
    down = ServerDown("it is gone", status=503, late=True)
    assert str(down) == (
        "it is gone: check the address, or start again later; the same command continues the run"
    )
    assert (down.why, down.status, down.unsent, down.late) == ("it is gone", 503, False, True)
    refusal = ServerRefusal("it refuses", "repair it", 403, unsent=True)
    assert str(refusal) == "it refuses: repair it"
    assert (refusal.why, refusal.status, refusal.unsent, refusal.late) == (
        "it refuses",
        403,
        True,
        False,
    )
    assert isinstance(refusal, ikat.UsageError)


def test_words_of_a_server_command_no_terminal(monkeypatch):
    with pytest.raises(ServerRefusal) as raised:
        server_of(monkeypatch, 403, "no\x1b[2J\u202e way").team()
    for code in ("\x1b", "\u202e"):
        assert code not in str(raised.value)
    assert "(403: no [2J" in raised.value.why
    assert raised.value.status == 403
    with pytest.raises(ServerRefusal) as raised:
        server_of(monkeypatch, 400, "bad").team()
    assert raised.value.status == 400


@pytest.mark.parametrize("token", ["", " \n", "a b", "töken", "a\nb"])
def test_a_token_has_no_blank_and_is_shown_nowhere(monkeypatch, token):
    monkeypatch.setenv("IKAT_TOKEN", token)
    with pytest.raises(ikat.UsageError, match="IKAT_TOKEN is empty or has a character") as raised:
        TrackServer("https://host", "mine")
    if token.strip():
        assert token not in str(raised.value)


@pytest.mark.parametrize(
    ("address", "trusts"), [("https://host/sim", True), ("http://localhost:1", False)]
)
def test_proxies_of_the_environment_are_for_encrypted_calls(monkeypatch, address, trusts):
    monkeypatch.setenv("IKAT_TOKEN", "  tok-1\n")
    server = TrackServer(address, "mine")
    assert server._client.trust_env is trusts
    assert server._client.headers["authorization"] == "Bearer tok-1"
    assert (server._client.timeout.read, server._client.timeout.connect) == (300, 10)


# Messages of the user


def message(**changes):
    return UserMessage.of({**MESSAGE, **changes})


def test_a_message_knows_its_turn_and_conversation():
    newest = {"role": "user", "content": "Why?"}
    read = message()
    assert (read.topic, read.user, read.utterance) == ("1-1", "ann", "Why?")
    assert read.messages == [*MESSAGE["history"], newest]
    assert message(history=[*MESSAGE["history"], newest]).messages == read.messages
    assert message(history=[]).messages == [newest]
    assert (read.number, message(history=[]).number) == (2, 1)
    assert read.position == ("1-1", 2, False)
    assert message(last_response_of_session=True).position == ("1-1", 2, True)
    assert message(last_response_of_run=True).ends_run


@pytest.mark.parametrize(
    ("changes", "at_work"),
    [
        ({}, False),
        ({"history": []}, False),
        ({"utterance": "Yes."}, True),  # the response itself
        ({"utterance": "Tea?"}, False),
        ({"history": [{"role": "user", "content": "Yes."}], "utterance": "Yes."}, False),
    ],
)
def test_a_server_at_work_shows_the_response_as_the_message(changes, at_work):
    assert message(**changes).at_work is at_work


PLAIN_MESSAGE = {"topic_id": "1-1", "user_id": "u", "utterance": "Why?", "history": []}
PLAIN_MESSAGE |= {"last_response_of_session": False, "last_response_of_run": False}


@pytest.mark.parametrize(
    ("field", "value", "told"),
    [
        (
            "last_response_of_session",
            "false",
            "last_response_of_session: Input should be a valid boolean",
        ),
        ("last_response_of_run", None, "last_response_of_run: Input should be a valid boolean"),
        ("utterance", None, "utterance: Input should be a valid string"),
        ("user_id", True, "user_id: Input should be a valid string"),
        ("history", [{"role": "human", "content": "Why?"}], "history.0.role"),
    ],
)
def test_a_missing_or_mistyped_field_is_named_and_not_guessed(field, value, told):
    without = {name: known for name, known in PLAIN_MESSAGE.items() if name != field}
    for found, why in (
        ({**PLAIN_MESSAGE, field: value}, told),
        (without, f"{field}: Field required"),
    ):
        with pytest.raises(DataError, match=why):
            UserMessage.of(found)


def test_numbers_as_ids_and_fields_nobody_knows():
    assert UserMessage.of({**PLAIN_MESSAGE, "topic_id": 7, "mood": "good"}).topic == "7"


def test_a_field_of_another_type_is_named():
    for field, value in [
        ("utterance", None),
        ("last_response_of_session", 1),
        ("last_response_of_run", "false"),
        ("history.1.role", "system"),
        ("history.1.content", None),
    ]:
        name, _, rest = field.partition(".")
        if rest:
            good = {"role": "user", "content": "Hi"}
            value = [good, {**good, rest.partition(".")[2]: value}]
        with pytest.raises(DataError, match=rf"not a user message \({field}: "):
            user_message(**{name: value})
    assert user_message(topic_id=7, user_id=8).topic == "7"
    assert user_message(utterance="no\x1b[2J").utterance == "no [2J"
    assert [user_message(history=[{"role": "user", "content": "\x07"}]).history[0].content] == [" "]


def test_a_question_asked_again_is_another_turn():
    history = [{"role": "user", "content": "Why?"}, {"role": "assistant", "content": "So."}]
    fields = {"topic_id": "1-1", "user_id": "ann", "utterance": "Why?", "history": history}
    fields |= {"last_response_of_session": False, "last_response_of_run": False}
    message = UserMessage.of(fields)
    assert message.messages == [*history, {"role": "user", "content": "Why?"}]
    assert message.position == ("1-1", 2, False)
