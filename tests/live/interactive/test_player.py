"""What a player sees, sends, and tells on the track, turn by turn."""

from dataclasses import replace
from importlib.metadata import version
from types import SimpleNamespace

import pytest
from playing import (
    ONE,
    Look,
    Model,
    NotingMemory,
    Three,
    Words,
    play,
    said,
    system_of,
    user_message,
)
from track_server import LAST_WORDS, NEW, Refused, Track

import pyterrier_ikat as ikat
from pyterrier_ikat.generate.respond import ABSTENTION
from pyterrier_ikat.live.interactive import InteractiveWarning, interactive_run, track_server
from pyterrier_ikat.live.interactive.player import InteractiveRun, Player, describe_call
from pyterrier_ikat.live.interactive.track_server import Dumped, ServerRefusal, UserMessage
from pyterrier_ikat.llms import Ledger
from pyterrier_ikat.llms.ledger import Spend
from pyterrier_ikat.runs import Turn
from pyterrier_ikat.runs.log import turn_event

pytestmark = pytest.mark.usefixtures("token_without_spacy")


# Messages and history


@pytest.mark.parametrize(
    ("history", "seen"), [(None, [0, 2, 4]), (8000, [0, 2, 4]), (8, [0, 2, 2]), (0, [0, 0, 0])]
)
def test_a_system_sees_the_history_that_is_asked_for(tmp_path, history, seen):
    look = Look()
    track = Track((("1-1", "ann", ("Which tea?", "And mint?", "Is it hot?")),))
    play(track, tmp_path / "run", system=look >> system_of(Model()), history=history)
    assert [len(row["qhistory"]) for row in look.seen] == seen
    assert [row["qturn"] for row in look.seen] == [1, 2, 3]


def test_a_history_without_the_newest_utterance(tmp_path):
    class Short(Track):
        def handle(self, *call):
            status, content, headers = super().handle(*call)
            if "history" in content:
                content = {**content, "history": content["history"][:-1]}
            return status, content, headers

    track = Short(ONE, faults=["", "drop after"])
    assert play(track, tmp_path / "run").finished
    assert said(track.taken) == [("1-1", "Which tea?"), ("1-1", "And now?")]


def test_half_characters_and_control_codes_are_not_taken_or_sent(tmp_path):
    topics = (("../1\ud800", "ann", ("Tea \ud800?", "\x1b[31m\0?")),)
    track = Track(topics, form=NEW, faults=["", "", "drop after"])
    run = play(track, tmp_path / "run", Model(lambda number: f"Rooibos\x85 \x01{number}."))
    (one,) = run.log.dialogues()
    assert one.session == "../1\ufffd"
    assert [turn.utterance for turn in one.turns] == ["Tea \ufffd?", " [31m ?"]
    assert [response for *_, response in track.taken] == ["Rooibos  1.", "Rooibos  2."]
    assert sorted(path.name for path in tmp_path.rglob("*.json*")) == ["dump.json", "log.jsonl"]


class AtOnce(Track):
    """The second conversation ends before the system has said anything."""

    def next_topic(self, run):
        if run.open[0][0] != "2-1":
            return super().next_topic(run)
        run.topic = run.open.pop(0)
        run.history = []
        return self.say(run, LAST_WORDS, True)


def test_a_conversation_that_ends_at_once_has_no_turn(tmp_path):
    run = play(AtOnce(), tmp_path / "run")
    assert [(len(one.turns), one.end) for one in run.log.dialogues()] == [
        (many, "topic ended") for many in (3, 0, 2)
    ]
    assert run.finished


def message(topic="1-1", utterance="Which tea?", user="ann", history=(), ends=False):
    return UserMessage(
        topic_id=topic,
        user_id=user,
        utterance=utterance,
        history=list(history),
        last_response_of_session=ends,
        last_response_of_run=False,
    )


@pytest.mark.parametrize(
    ("topic", "session"), [("1-1", "1-1"), (" tea  and\tmint ", "tea-and-mint"), (" ", "topic")]
)
def test_a_conversation_is_named_like_its_topic(tmp_path, topic, session):
    run = InteractiveRun(tmp_path / "run", {"kind": "interactive"})
    assert (run.session, run.turn, run.finished) == ("", None, False)
    run.receive(message(topic, user="ann b"))
    assert (run.session, run.dialogue.user) == (session, "ann b")
    again = InteractiveRun(tmp_path / "run", {"kind": "interactive"})
    assert (again.session, again.message, again.under_way) == (session, run.message, False)
    assert again.begun == {(session, 1): run.message}


def test_a_message_on_another_topic_begins_a_session(tmp_path):
    run = InteractiveRun(tmp_path / "run", {"kind": "interactive"})
    first = user_message()
    second = user_message(topic_id="2-1", user_id="bob")
    for received in (first, second):
        run.receive(received)
    assert run.begun == {("1-1", 1): first, ("2-1", 1): second}
    assert [dialogue.user for dialogue in run.log.known.values()] == ["ann", "bob"]
    assert repr(run) == f"<interactive run in {tmp_path / 'run'}, not finished>"
    events = [event["event"] for event in run.log.events()]
    assert events[-4:] == ["session", "message", "session", "message"]


def test_a_system_sees_a_qid_without_white_space(tmp_path):
    look = Look()
    track = Track((("green tea", "ann", ("Which?", "And now?")),))
    play(track, tmp_path / "run", system=look >> system_of(Model()))
    assert [row["qid"] for row in look.seen] == ["green-tea_1", "green-tea_2"]


def test_words_with_two_blanks_are_answered_once(tmp_path):
    track = Track((("1-1", "ann", ("Which  tea? ",)),))
    run = play(track, tmp_path / "run")
    assert [turn.utterance for turn in run.log.known["1-1"].taken] == ["Which  tea? "]


# Responses


def test_a_response_is_to_this_turn_and_these_words(tmp_path):
    run = InteractiveRun(tmp_path / "run", {"kind": "interactive"})
    run.receive(message())
    for number, utterance in [(2, "Which tea?"), (1, "Which mate?")]:
        run.note(turn_event(Turn(number, utterance, "Tea.", session="1-1")))
        assert run.turn is None
    run.note(turn_event(Turn(1, "Which tea?", "Mint.", session="1-1")))
    assert run.turn.response == "Mint."
    assert describe_call(run.turn) == "the response to turn 1-1_1"
    assert describe_call(None) == "the question for a topic"
    run.receive(message(utterance="Thanks.", ends=True), seconds=2.5)
    assert (run.turn, run.dialogue.sent, run.dialogue.end) == (None, {1: 2.5}, "topic ended")
    run.receive(message("2-1", user="bob"))
    assert (run.session, run.dialogue.user, run.dialogue.end) == ("2-1", "bob", "")


def test_a_run_knows_whether_a_call_is_under_way(tmp_path):
    run = InteractiveRun(tmp_path / "run", {"kind": "interactive"})
    run.receive(message())
    for event, under_way in [
        ({"event": "sending"}, True),
        ({"event": "unsent"}, False),
        ({"event": "sending"}, True),
        (turn_event(Turn(1, "Which tea?", "Tea.", session="1-1")), False),
        ({"event": "sending"}, True),
    ]:
        run.note(event)
        assert run.under_way is under_way
    run.note({"event": "stuck", "why": "it failed"})
    again = InteractiveRun(tmp_path / "run", {"kind": "interactive"})
    assert (again.under_way, again.stuck) == (True, "it failed")
    again.receive(message(utterance="And now?"))
    assert (again.under_way, again.stuck) == (False, "")


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


def test_a_response_is_sent_with_what_it_rests_on(tmp_path):
    run = InteractiveRun(tmp_path / "run", {"kind": "interactive", "description": "Ours."})
    run.receive(user_message())
    turn = Turn(1, "Why?", "So.", citations={"d1": 0.5}, statements=("I run.", "I cook."))
    server = Refuses()
    for sent in (turn, None):
        assert sends(server, run, sent, again=True) == "proceeded"
    assert server.calls == [("proceed", "So.", {"d1": 0.5}, ("I run.", "I cook.")), ("proceed",)]


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


def test_a_run_that_is_there_goes_on_only_after_a_lost_start(tmp_path):
    run = InteractiveRun(tmp_path / "run", {"kind": "interactive", "description": "Ours."})
    about = {"system": "rtg", "models": ["small", "large"], "package": version("pyterrier_ikat")}
    for memory in (None, NotingMemory()):
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


# What is told


def test_steps_waits_and_cuts_are_told(tmp_path, monkeypatch):
    class Strict(Track):
        def check(self, body):
            if len(body["response"].split()) > 5:
                raise Refused(422, "Response is too long.")

    for module in (track_server, interactive_run):
        monkeypatch.setattr(module, "tokenizer", lambda: Words)
    doing = []
    told = []
    ledger = Ledger()
    run = play(
        Strict((("1-1", "ann", ("Why?",)),), faults=["429"]),
        tmp_path / "run",
        Model(lambda number: "One two. Three four. Five six."),
        doing=doing.append,
        tell=told.append,
        ledger=ledger,
        count=True,
    )
    assert doing == ["1-1_1 drafting an answer", "1-1_1 running Three"]
    assert told[0].startswith("waiting 1 s: http")
    assert told[-1].startswith("1-1_1 answered: ")
    [turn] = run.log.dialogues()[0].turns
    assert told[-1].endswith(f"1 LLM calls, {turn.cut} tokens cut")
    assert (turn.response, turn.cut, turn.asked) == ("One two. Three four.", 2, ())
    assert list(run.log.dialogues()[0].sent) == [1]


def test_a_silent_system_is_told_with_the_turn_and_the_words(tmp_path):
    class Silent(Three):
        def transform(self, inp):
            return super().transform(inp).iloc[:0]

    track = Track(ONE)
    with pytest.warns(InteractiveWarning) as told:
        play(track, tmp_path / "run", system=ikat.Answer(ikat.llm(Model())) >> Silent())
    assert [str(one.message).split(": ")[0] for one in told] == ["turn 1-1_1", "turn 1-1_2"]
    assert [response for *_, response in track.taken] == [ABSTENTION] * 2
    assert said(track.taken) == [("1-1", "Which tea?"), ("1-1", "And now?")]


THREE_QUESTIONS = (("1-1", "ann", ("Which tea?", "And now?", "Or mate?")),)


def test_what_is_done_and_told_names_its_turn(tmp_path):
    done = []
    told = []
    track = Track((*THREE_QUESTIONS, ("2-1", "bob", ("Where?",))), form=NEW)
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


def accepts(folder, reply, seconds=None, **changes):
    """What is told when the server sends this message after a response."""
    run = InteractiveRun(folder, {"kind": "interactive"})
    run.receive(user_message())
    turn = Turn(1, "Why?", "So.", session="1-1", seconds=1.25, spend=Spend(calls=2, known=1))
    turn = replace(turn, **changes)
    run.note(turn_event(turn))
    told = []
    Player(None, run, None, {}, None, None, told.append, None)._accept(reply, turn, seconds)
    return told, run


ANSWERED = [{"role": "user", "content": "Why?"}, {"role": "assistant", "content": "So."}]


def test_what_the_server_took_is_told_with_its_times(tmp_path):
    reply = user_message(utterance="And?", history=ANSWERED)
    told, run = accepts(tmp_path / "a", reply, 2.5, cut=7)
    facts = "1.2 s, the server 2.5 s, 3 LLM calls, 7 tokens cut"
    assert told == [f"1-1_1 answered: {facts}"]
    assert run.dialogue.sent == {1: 2.5}
    told, run = accepts(tmp_path / "b", reply)
    assert told == ["1-1_1 answered: 1.2 s, 3 LLM calls"]
    assert run.dialogue.sent == {1: None}


def test_a_response_that_the_server_lost_is_not_told_as_answered(tmp_path):
    other = user_message(topic_id="2-1", user_id="bob")
    with pytest.warns(InteractiveWarning, match="the conversation on topic 1-1, .* turn 1-1_1: it"):
        told, run = accepts(tmp_path / "run", other, 2.5)
    assert (told, run.session, run.log.known["1-1"].sent) == ([], "2-1", {})
    told, run = accepts(tmp_path / "same", user_message())
    assert (told, run.dialogue.sent) == ([], {})
