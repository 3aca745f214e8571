"""What a run on the track keeps of its settings, sees of a user, and tells while it plays."""

import pyterrier as pt
import pytest
from fakes import scripted
from test_interact import Look, Model, Three, play, said, system_of
from track_server import NEW, Refused, Track

import pyterrier_ikat as ikat
from pyterrier_ikat.errors import UsageError
from pyterrier_ikat.generate.respond import ABSTENTION
from pyterrier_ikat.live.interactive import InteractiveWarning, interactive_run, track_server
from pyterrier_ikat.live.interactive.player import InteractiveRun, describe_call
from pyterrier_ikat.live.interactive.track_server import TrackServer, UserMessage, fitted
from pyterrier_ikat.llms import Ledger
from pyterrier_ikat.runs import Turn
from pyterrier_ikat.runs.log import turn_event

ONE = (("1-1", "ann", ("Which tea?", "And now?")),)


def message(topic="1-1", utterance="Which tea?", user="ann", history=(), ends=False):
    return UserMessage(
        topic_id=topic,
        user_id=user,
        utterance=utterance,
        history=list(history),
        last_response_of_session=ends,
        last_response_of_run=False,
    )


def test_a_run_keeps_what_must_not_change(tmp_path):
    track = Track(ONE)
    (tmp_path / "ann.txt").write_text("I run.\n")
    run = play(track, tmp_path / "run", persona=tmp_path / "ann.txt")
    kept = {
        "kind": "interactive",
        "system": "mine",
        "run_id": "mine",
        "team": "team-a",
        "debug": False,
        "description": "mine (pyterrier_ikat)",
        "track_persona": False,
        "memory_prompts": {},
    }
    assert {name: run.log.header[name] for name in kept} == kept
    assert track.runs["mine"].about["description"] == "mine (pyterrier_ikat)"
    assert track.runs["mine"].about["track_persona"] == 0
    assert "expression" in run.log.header
    assert len(run.log.header["persona"]) == 32
    assert repr(run) == f"<interactive run in {tmp_path / 'run'}, finished>"
    (tmp_path / "ann.txt").write_text("I cook.\n")
    memory = ikat.UserMemory(tmp_path / "memory.jsonl", scripted()[0])
    for options, told in [
        ({}, "persona"),
        ({"persona": tmp_path / "ann.txt"}, "persona"),
        ({"debug": True}, "debug was False, now True"),
        ({"description": "Ours."}, "description was 'mine .pyterrier_ikat.', now 'Ours.'"),
        ({"memory": memory}, "track_persona was False, now True"),
    ]:
        with pytest.raises(UsageError, match=told):
            play(Track(ONE), tmp_path / "run", **options)
    with pytest.raises(UsageError, match="team was 'team-a', now 'team-b'"):
        play(Track(ONE, team="team-b"), tmp_path / "run")
    plain = play(Track(ONE), tmp_path / "plain", sessions=1)
    assert plain.log.header["persona"] == ""


@pytest.mark.parametrize(
    ("history", "seen"), [(None, [0, 2, 4]), (8000, [0, 2, 4]), (8, [0, 2, 2]), (0, [0, 0, 0])]
)
def test_a_system_sees_the_history_that_is_asked_for(tmp_path, history, seen):
    look = Look()
    track = Track((("1-1", "ann", ("Which tea?", "And mint?", "Is it hot?")),))
    play(track, tmp_path / "run", system=look >> system_of(Model()), history=history)
    assert [len(row["qhistory"]) for row in look.seen] == seen
    assert [row["qturn"] for row in look.seen] == [1, 2, 3]


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


def test_the_account_of_the_caller_counts_a_named_model(tmp_path):
    recorded = tmp_path / "recorded.jsonl"
    recorded.write_text('{"qid": "1-1_1", "stage": "answer", "model": "m", "completion": "Tea."}\n')
    entry = ikat.method(paper="")(lambda llm: ikat.Answer(llm) >> Three())
    ledger = Ledger()
    track = Track((("1-1", "ann", ("Why?",)),))
    llm = f"recorded:{recorded}"
    run = play(track, tmp_path / "run", system={"other": entry}, llm=llm, ledger=ledger)
    assert ledger.frame()["known"].sum() == 1
    assert run.log.header["system"] == "other"


@pytest.mark.parametrize(
    ("system", "told"),
    [
        ({"a": Three(), "b": Three()}, "a run is of one system, and these are a, b"),
        ("human_qr", "annotations of each turn"),
    ],
)
def test_a_system_that_cannot_play_is_named(tmp_path, system, told):
    track = Track(ONE)
    with pytest.raises(UsageError, match=told):
        play(track, tmp_path / "run", system=system)
    assert track.runs == {}


def test_a_system_of_others_may_respond(tmp_path):
    track = Track((("1-1", "ann", ("Why?",)),))
    play(track, tmp_path / "run", system=Look() >> Three() >> Says())
    assert [response for *_, response in track.taken] == ["Because 1-1_1."]


class Says(pt.Transformer):
    """Responds in a column, which nobody can know before: it fails with a frame without rows."""

    def transform(self, inp):
        [qid] = inp["qid"].unique()
        return inp.assign(qanswer=f"Because {qid}.")


def test_a_methods_response_cites_and_a_memory_takes_its_prompts(tmp_path):
    entry = ikat.method(paper="")(lambda llm: Three() >> ikat.Respond(llm))
    (tmp_path / "update_ptkb.jinja").write_text("Learn from {{ context }}")
    model = Model(lambda number: "Tea." if number == 1 else "[]")
    play(
        Track((("1-1", "ann", ("Why?",)),)),
        tmp_path / "run",
        system={"mine": entry},
        llm=ikat.llm(model),
        memory=tmp_path / "users.json",
        prompts=tmp_path,
    )
    response, learning = model.asked
    assert "by their numbers" in str(response)
    assert "Learn from" in str(learning)


def test_without_its_tokenizer_nothing_is_begun(tmp_path, monkeypatch):
    def lacking():
        raise UsageError("an interactive run counts tokens with spaCy")

    monkeypatch.setattr(interactive_run, "tokenizer", lacking)
    monkeypatch.setenv("IKAT_TOKEN", "tok")
    with pytest.raises(UsageError, match="with spaCy"):
        ikat.interact("https://host", system_of(Model()), run_id="mine", out=tmp_path / "run")
    assert list(tmp_path.iterdir()) == []


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


def test_a_system_sees_a_qid_without_white_space(tmp_path):
    look = Look()
    track = Track((("green tea", "ann", ("Which?", "And now?")),))
    play(track, tmp_path / "run", system=look >> system_of(Model()))
    assert [row["qid"] for row in look.seen] == ["green-tea_1", "green-tea_2"]


def test_words_with_two_blanks_are_answered_once(tmp_path):
    track = Track((("1-1", "ann", ("Which  tea? ",)),))
    run = play(track, tmp_path / "run")
    assert [turn.utterance for turn in run.log.known["1-1"].taken] == ["Which  tea? "]


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


def test_persona_by_user_and_for_nobody_else(tmp_path):
    (tmp_path / "people").mkdir()
    (tmp_path / "people" / "ann.txt").write_text("I run.\n")
    track = Track((*ONE, ("2-1", "bob", ("Where?",))), form=NEW)
    look = Look()
    play(track, tmp_path / "run", system=look >> system_of(Model()), persona=tmp_path / "people")
    assert [row["qptkb"] for row in look.seen] == [{"1": "I run."}, {"1": "I run."}, {}]


@pytest.mark.parametrize(
    ("response", "cut", "share", "fits", "lost"),
    [
        ("  Tea\x07 now. ", 0, 1.0, "Tea  now.", 0),
        ("One two. Three four.", 0, 1.0, "One two. Three four.", 0),
        ("One two. Three four.", 4, 0.9, "One two.", 4 + 2),
        ("", 3, 1.0, "", 3),
    ],
)
def test_a_response_is_fitted_to_a_share_of_its_tokens(
    monkeypatch, response, cut, share, fits, lost
):
    monkeypatch.setattr(track_server, "tokenizer", lambda: Words)
    turn = fitted(Turn(1, "?", response, cut=cut), share)
    assert (turn.response, turn.cut) == (fits, lost)


class Words(list):
    """The words of a text, with their places; it stands in for spaCy's tokens."""

    def __init__(self, text):
        super().__init__()
        at = 0
        for word in text.split():
            at = text.index(word, at)
            self.append(Word(at))
            at += len(word)


class Word:
    def __init__(self, at):
        self.idx = at


@pytest.mark.parametrize("score", [float("inf"), float("-inf"), float("nan")])
def test_a_score_that_is_not_finite_is_named(monkeypatch, score):
    monkeypatch.setattr(track_server, "tokenizer", lambda: Words)
    turn = Turn(2, "?", "Tea.", citations={"d1": 1.0, "d2": score}, session="1-1")
    with pytest.raises(ikat.DataError, match=f"turn 1-1_2: passage d2 has the score {score}"):
        fitted(turn)


@pytest.mark.parametrize(
    ("address", "trusts"), [("https://host/sim", True), ("http://localhost:1", False)]
)
def test_proxies_of_the_environment_are_for_encrypted_calls(monkeypatch, address, trusts):
    monkeypatch.setenv("IKAT_TOKEN", "  tok-1\n")
    server = TrackServer(address, "mine")
    assert server._client.trust_env is trusts
    assert server._client.headers["authorization"] == "Bearer tok-1"
    assert (server._client.timeout.read, server._client.timeout.connect) == (300, 10)
