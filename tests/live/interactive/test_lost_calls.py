"""Calls that were stopped, lost or forgotten: waits, looks, and the second of several topics."""

from dataclasses import replace
from importlib.metadata import version
from types import SimpleNamespace

import pytest
from test_interact import play, said
from test_interact_harness import TOPICS as BOTH
from test_interact_harness import Answers, Killed, check, live, quick  # noqa: F401
from test_track_edges import words_of
from track_server import NEW, Track
from track_server import Refused as Refused422

import pyterrier_ikat as ikat
from pyterrier_ikat.errors import DataError
from pyterrier_ikat.live.interactive import InteractiveWarning, ServerDown, track_server
from pyterrier_ikat.live.interactive.player import InteractiveRun, Player
from pyterrier_ikat.live.interactive.track_server import (
    Dumped,
    ServerRefusal,
    TrackServer,
    UserMessage,
    fitted,
    read_dump,
)
from pyterrier_ikat.llms import StageError
from pyterrier_ikat.llms.failures import Refused, Unavailable
from pyterrier_ikat.llms.ledger import Spend
from pyterrier_ikat.memory.user_memory import NothingLearnedWarning
from pyterrier_ikat.runs import Log, Turn
from pyterrier_ikat.runs.log import turn_event


def kills_at(name, nth=1):
    left = [nth]

    def step(now):
        if now == name:
            left[0] -= 1
            if not left[0]:
                raise Killed(now)

    return step


@pytest.mark.parametrize(
    ("name", "nth", "waits"),
    [
        ("before /run/continue", 1, [2, 8, 30, 60, 120]),
        ("after /run/continue", 1, []),
        ("before /run/continue", 4, [2, 8, 30, 60, 120]),
    ],
)
def test_a_stopped_call_is_waited_for_as_a_slow_one(tmp_path, name, nth, waits):
    track = Track(BOTH)
    answers = Answers()
    slept = []
    with pytest.raises(Killed):
        live(track, tmp_path / "run", answers, step=kills_at(name, nth), sleep=slept.append)
    assert slept == []
    check(track, answers, live(track, tmp_path / "run", answers, sleep=slept.append))
    assert slept == waits


ONE = (("1-1", "ann", ("Which tea?", "And now?", "Or mate?")),)


def test_what_is_done_and_told_names_its_turn(tmp_path):
    done = []
    told = []
    track = Track((*ONE, ("2-1", "bob", ("Where?",))), form=NEW)
    run = play(track, tmp_path / "run", doing=done.append, tell=told.append)
    assert {line.split(" ")[0] for line in done} == {"1-1_1", "1-1_2", "1-1_3", "2-1_1"}
    for line in done:
        assert len(line.split(" ", 1)[1]) > 5
    answered = [line.split(":")[0] for line in told if "answered" in line]
    assert answered == ["1-1_1 answered", "1-1_2 answered", "1-1_3 answered", "2-1_1 answered"]
    assert run.finished
    told.clear()
    again = play(track, tmp_path / "run", tell=told.append)
    assert told == [f"{tmp_path / 'run'} has 4 responses that the server took"]
    assert repr(again) == f"<interactive run in {tmp_path / 'run'}, finished>"
    assert said(track.taken)[-1] == ("2-1", "Where?")


def test_steps_are_told_only_to_whom_they_are_for(tmp_path):
    told = []
    play(Track((("1-1", "ann", ("Which tea?",)),)), tmp_path / "run", tell=told.append)
    assert [line.split(":")[0] for line in told] == ["1-1_1 answered"]


def test_an_entry_of_a_dump_has_one_response_and_one_text():
    def entry(*responses, topic="7-1_1"):
        return {"metadata": {"topic_id": topic}, "responses": list(responses)}

    words = {"user_utterance": "Why?"}
    good = entry({**words, "text": "So."})
    assert read_dump(iter([good, entry({**words, "assistant_text": None}, topic="7\x07_1_2")])) == [
        Dumped("7-1", "Why?", "So."),
        Dumped("7 _1", "Why?", None),
    ]
    for bad in (
        entry(),
        entry({**words, "text": "a"}, {**words, "text": "b"}),
        entry({**words, "text": "a", "assistant_text": "b"}),
        entry({**words, "words": "a"}),
        entry({**words, "text": 7}),
        entry({**words, "text": ["a"]}),
        entry({"text": "a"}),
        entry({**words, "text": "a"}, topic="71"),
        entry({**words, "text": "a"}, topic=None),
        "entry",
    ):
        with pytest.raises(DataError, match="entry 2 of the server's dump has an unknown form"):
            read_dump([good, bad])


@pytest.mark.parametrize(
    ("kept", "missing"),
    [([], 1), (["Tea."], 2), (["Tea.", "Mint."], 2), (["Tea.", "Tea."], None)],
)
def test_a_dump_has_a_response_for_each_time_it_was_sent(kept, missing):
    turns = [Turn(1, "Which?", "Tea."), Turn(2, "And now?", "Tea.")]
    run = SimpleNamespace(dialogue=SimpleNamespace(turns=turns))
    player = Player(None, run, None, {}, None, None, print, None)
    forgotten = player._forgotten([Dumped("1-1", "", text) for text in kept])
    assert (forgotten and forgotten.number) == missing


@pytest.mark.parametrize("token", ["", " \n", "a b", "töken", "a\nb"])
def test_a_token_has_no_blank_and_is_shown_nowhere(monkeypatch, token):
    monkeypatch.setenv("IKAT_TOKEN", token)
    with pytest.raises(ikat.UsageError, match="IKAT_TOKEN is empty or has a character") as raised:
        TrackServer("https://host", "mine")
    if token.strip():
        assert token not in str(raised.value)


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


def message(**changes):
    fields = {"topic_id": "1-1", "user_id": "ann", "utterance": "Why?", "history": []}
    fields |= {"last_response_of_session": False, "last_response_of_run": False}
    return UserMessage.of(fields | changes)


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
            message(**{name: value})
    assert message(topic_id=7, user_id=8).topic == "7"
    assert message(utterance="no\x1b[2J").utterance == "no [2J"
    assert [message(history=[{"role": "user", "content": "\x07"}]).history[0].content] == [" "]


def test_a_message_on_another_topic_begins_a_session(tmp_path):
    run = InteractiveRun(tmp_path / "run", {"kind": "interactive"})
    first = message()
    second = message(topic_id="2-1", user_id="bob")
    for user_message in (first, second):
        run.receive(user_message)
    assert run.begun == {("1-1", 1): first, ("2-1", 1): second}
    assert [dialogue.user for dialogue in run.log.known.values()] == ["ann", "bob"]
    assert repr(run) == f"<interactive run in {tmp_path / 'run'}, not finished>"
    events = [event["event"] for event in run.log.events()]
    assert events[-4:] == ["session", "message", "session", "message"]


def test_scores_of_a_turn_fall_and_equal_ones_are_parted(monkeypatch):
    monkeypatch.setattr(track_server, "tokenizer", lambda: str.split)
    given = {"d0": 1.0, "d1": 1.0, "d2": 1.0, "d3": 2.0, "d4": 0.12345678}
    scores = fitted(Turn(1, "?", "Tea.", citations=given)).citations
    assert list(scores) == ["d0", "d1", "d2", "d3", "d4"]
    values = list(scores.values())
    assert values == sorted(set(values), reverse=True)
    assert values[0] == 1.0
    assert values[4] == 0.12345678
    many = {str(number): 2000.0 - number for number in range(1001)}
    kept = fitted(Turn(1, "?", "Tea.", citations=many)).citations
    assert list(kept.items()) == list(many.items())[:1000]


class Memory:
    """Notes what it is to learn, and fails as it is told."""

    def __init__(self, *failures):
        self.failures = failures
        self.learned = []

    def learn(self, user, session, messages):
        self.learned.append((user, session, [message["content"] for message in messages]))
        if self.failures:
            raise StageError("update_ptkb", list(self.failures))


def ended(folder, memory, last_words="Thanks."):
    """A player whose conversation has ended after a response."""
    run = InteractiveRun(folder, {"kind": "interactive"})
    run.receive(message())
    run.note(turn_event(Turn(1, "Why?", "So.", session="1-1")))
    run.receive(message(utterance=last_words, last_response_of_session=True), 1.0)
    told = []
    return Player(None, run, None, {}, memory, None, told.append, None)


DOWN = Unavailable("update_ptkb", "1-1", "it is down")
NO = Refused("update_ptkb", "1-1", "No.")


def test_a_conversation_is_learned_once_with_its_last_words(tmp_path):
    memory = Memory()
    player = ended(tmp_path / "run", memory)
    for _ in range(2):
        player._learn()
    assert memory.learned == [("ann", "1-1", ["Why?", "So.", "Thanks."])]
    assert player.run.dialogue.learned
    silent = Memory()
    ended(tmp_path / "silent", silent, "")._learn()
    assert silent.learned == [("ann", "1-1", ["Why?", "So."])]
    ended(tmp_path / "none", None)._learn()


@pytest.mark.parametrize("failures", [[DOWN], [NO, DOWN]])
def test_what_a_model_that_is_down_has_not_learned_is_left(tmp_path, failures):
    player = ended(tmp_path / "run", Memory(*failures))
    with pytest.raises(StageError):
        player._learn()
    assert not player.run.dialogue.learned


def test_what_cannot_be_learned_is_told_once(tmp_path):
    memory = Memory(NO, Refused("update_ptkb", "1-1", "Never."))
    player = ended(tmp_path / "run", memory)
    with pytest.warns(NothingLearnedWarning) as warned:
        player._learn()
    player._learn()
    assert [str(warning.message) for warning in warned] == [
        f"nothing was learned from conversation 1-1: {NO.reason}"
    ]
    assert len(memory.learned) == 1


def test_what_failed_for_good_is_sent_again_without_a_wait(tmp_path):
    track = Track(BOTH)
    answers = Answers()
    slept = []
    step = kills_at("before /run/continue", 2)
    with pytest.raises(Killed):
        live(track, tmp_path / "run", answers, step=step, sleep=slept.append)
    journal = InteractiveRun(tmp_path / "run", Log(tmp_path / "run").header)
    assert (journal.under_way, journal.turn.number) == (True, 2)
    journal.note({"event": "stuck", "why": "it failed"})
    before = len(track.calls)
    check(track, answers, live(track, tmp_path / "run", answers, sleep=slept.append))
    assert slept == []
    calls = [path.rpartition("/")[2] for path in track.calls[before:]]
    assert calls[:4] == ["verify", "session", "continue", "continue"]


class ShortOnly(Track):
    """Finds a response of more than three words too long."""

    def check(self, body):
        if len(body["response"].split()) > 3:
            raise Refused422(422, "Response is too long.")


class Longer(Answers):
    """Answers in two sentences."""

    def __call__(self, *args, **options):
        turn = super().__call__(*args, **options)
        return replace(turn, response=f"It is {turn.number}. So it is.")


def test_a_cut_response_is_sent_at_once_and_nothing_is_asked(tmp_path, monkeypatch):
    monkeypatch.setattr(track_server, "tokenizer", lambda: words_of)
    track = ShortOnly((("1-1", "ann", ("Why?", "How?")),))
    slept = []
    run = live(track, tmp_path / "run", Longer(), sleep=slept.append)
    assert slept == []
    calls = [path.rpartition("/")[2] for path in track.calls]
    assert calls[:6] == ["verify", "start", "continue", "continue", "continue", "continue"]
    assert "session" not in calls
    assert [response for *_, response in track.taken] == ["It is 1.", "It is 2."]
    kinds = [event["event"] for event in run.log.events()]
    turn = ["turn", "sending"]
    assert kinds[4:10] == [*turn, "unsent", *turn, "sent"]


class Refuses:
    """A server that refuses to start a run with a status, if any, and notes what is called."""

    def __init__(self, status=0):
        self.status = status
        self.calls = []

    def start(self, description, *, track_persona, about):
        self.calls.append(("start", description, track_persona, about))
        if self.status:
            raise ServerRefusal("it refuses", "repair it", self.status, unsent=True)
        return "started"

    def proceed(self, *response):
        self.calls.append(("proceed", *response))
        return "proceeded"


def sends(server, run, turn=None, again=False, memory=None):
    models = [SimpleNamespace(model=name) for name in ("small", "large")]
    system = SimpleNamespace(name="rtg", models=models)
    return Player(server, run, system, {}, memory, None, print, None)._send(turn, again)


def test_a_run_that_is_there_goes_on_only_after_a_lost_start(tmp_path):
    run = InteractiveRun(tmp_path / "run", {"kind": "interactive", "description": "Ours."})
    about = {"system": "rtg", "models": ["small", "large"], "package": version("pyterrier_ikat")}
    for memory in (None, Memory()):
        server = Refuses()
        assert sends(server, run, memory=memory) == "started"
        assert server.calls == [("start", "Ours.", memory is not None, about)]
    known = Refuses(412)
    assert sends(known, run, again=True) == "proceeded"
    assert [name for name, *_ in known.calls] == ["start", "proceed"]
    for status, again in [(412, False), (403, True), (401, True), (404, False)]:
        server = Refuses(status)
        with pytest.raises(ServerRefusal) as raised:
            sends(server, run, again=again)
        assert (raised.value.status, len(server.calls)) == (status, 1)


def test_a_response_is_sent_with_what_it_rests_on(tmp_path):
    run = InteractiveRun(tmp_path / "run", {"kind": "interactive", "description": "Ours."})
    run.receive(message())
    turn = Turn(1, "Why?", "So.", citations={"d1": 0.5}, statements=("I run.", "I cook."))
    server = Refuses()
    for sent in (turn, None):
        assert sends(server, run, sent, again=True) == "proceeded"
    assert server.calls == [("proceed", "So.", {"d1": 0.5}, ("I run.", "I cook.")), ("proceed",)]


def accepts(folder, reply, seconds=None, **changes):
    """What is told when the server sends this message after a response."""
    run = InteractiveRun(folder, {"kind": "interactive"})
    run.receive(message())
    turn = Turn(1, "Why?", "So.", session="1-1", seconds=1.25, spend=Spend(calls=2, known=1))
    turn = replace(turn, **changes)
    run.note(turn_event(turn))
    told = []
    Player(None, run, None, {}, None, None, told.append, None)._accept(reply, turn, seconds)
    return told, run


ANSWERED = [{"role": "user", "content": "Why?"}, {"role": "assistant", "content": "So."}]


def test_what_the_server_took_is_told_with_its_times(tmp_path):
    reply = message(utterance="And?", history=ANSWERED)
    told, run = accepts(tmp_path / "a", reply, 2.5, cut=7)
    facts = "1.2 s, the server 2.5 s, 3 LLM calls, 7 tokens cut"
    assert told == [f"1-1_1 answered: {facts}"]
    assert run.dialogue.sent == {1: 2.5}
    told, run = accepts(tmp_path / "b", reply)
    assert told == ["1-1_1 answered: 1.2 s, 3 LLM calls"]
    assert run.dialogue.sent == {1: None}


def test_a_response_that_the_server_lost_is_not_told_as_answered(tmp_path):
    other = message(topic_id="2-1", user_id="bob")
    with pytest.warns(InteractiveWarning, match="the conversation on topic 1-1, .* turn 1-1_1: it"):
        told, run = accepts(tmp_path / "run", other, 2.5)
    assert (told, run.session, run.log.known["1-1"].sent) == ([], "2-1", {})
    told, run = accepts(tmp_path / "same", message())
    assert (told, run.dialogue.sent) == ([], {})
