"""Interactive runs against a documented or a released server without faults."""

import json
import re

import pyterrier as pt
import pytest
from fakes import scripted
from playing import EVERY, ONE, Look, Model, Three, play, said, system_of, written
from track_server import DOCUMENTED, NEW, OLD, Refused, Track, tokenizer

import pyterrier_ikat as ikat
from pyterrier_ikat.errors import UsageError
from pyterrier_ikat.live.interactive import InteractiveWarning, interactive_run
from pyterrier_ikat.llms import Ledger
from pyterrier_ikat.llms.failures import FatalLLMError


@pytest.mark.parametrize("form", [DOCUMENTED, OLD, NEW])
def test_each_turn_is_answered_once_and_the_log_equals_the_dump(tmp_path, form):
    track = Track(form=form)
    look = Look()
    told = []
    person = written(tmp_path / "ann.txt", "I like tea.")
    run = play(
        track,
        tmp_path / "run",
        system=look >> system_of(Model()),
        persona=person,
        description="Ours.",
        tell=told.append,
    )
    expected = []
    for number, (topic, utterance) in enumerate(EVERY, 1):
        expected.append((topic, utterance, f"Answer {number}."))
    assert track.taken == expected
    assert run.finished
    dialogues = []
    for one in run.log.dialogues():
        dialogues.append((one.session, one.user, len(one.turns), one.end))
    assert dialogues == [
        ("1-1", "ann", 3, "topic ended"),
        ("2-1", "bob", 1, "topic ended"),
        ("1-2", "ann", 2, "topic ended"),
    ]
    entry = track.runs["mine"].dumped[1]
    assert entry["citations"] == {
        "clueweb22-en0000-00-00000:0": 3.0,
        "clueweb22-en0000-00-00000:1": 2.0,
        "clueweb22-en0000-00-00001:0": pytest.approx(
            1.999998, abs=1e-7
        ),  # lower, also with six decimals
    }
    assert entry["ptkb_provenance"] == ["I like tea."]
    assert track.runs["mine"].about["description"] == "Ours."
    assert len(json.loads((tmp_path / "run" / "dump.json").read_text())) == 6 + 3 * track.released
    assert track.calls[:2] == ["/auth/verify", "/run/start"]
    assert [row["qid"] for row in look.seen] == [
        "1-1_1",
        "1-1_2",
        "1-1_3",
        "2-1_1",
        "1-2_1",
        "1-2_2",
    ]
    said_before = [
        "Which tea has no caffeine?",
        "Answer 1.",
        "And one against a cold?",
        "Answer 2.",
    ]
    assert [message["content"] for message in look.seen[2]["qhistory"]] == said_before
    assert look.seen[3]["qhistory"] == []  # nothing of another conversation
    assert [line.partition(" ")[0] for line in told] == [row["qid"] for row in look.seen]
    assert re.fullmatch(r"1-1_1 answered: \d+\.\d s, the server \d+\.\d s, 1 LLM calls", told[0])
    assert run.log.dialogues()[0].sent[1] > 0


def test_a_system_without_an_answer_tells_the_user_so(tmp_path):
    nothing = pt.apply.generic(
        lambda inp: inp.assign(docno="d", score=1.0, rank=0, used=True).iloc[:0]
    )
    track = Track(topics=(("1-1", "ann", ("Why?",)),))
    with pytest.warns(InteractiveWarning, match="turn 1-1_1: the system wrote no response"):
        play(
            track,
            tmp_path / "run",
            system=ikat.Answer(ikat.llm(Model()), on_error="fallback") >> nothing,
        )
    assert track.taken == [("1-1", "Why?", "The collection has no answer to this.")]


def test_a_debug_run_uses_budget_and_needs_its_session_to_resume(tmp_path):
    track = Track(budget=2, faults=["", "drop after"])
    play(track, tmp_path / "one", debug=True, sessions=2)
    assert (track.budget, track.runs) == (0, {})
    dumped = track.debugged["mine"].dumped
    assert [(one["topic"], one["user_utterance"]) for one in dumped] == EVERY[:4]
    with pytest.raises(UsageError, match="refuses .*/start .403: .*You exceeded"):
        play(track, tmp_path / "two", debug=True, run_id="other")
    track = Track(faults=["", "drop after"], not_debugged=("session", "status", "dump"))
    told = (
        "does not show whether it took the response to turn 1-1_1 .* a new run id in a new folder"
    )
    with pytest.raises(ikat.DataError, match=told):
        play(track, tmp_path / "three", debug=True)


def test_a_second_process_is_refused(tmp_path):
    inner = []

    def step(name):
        if name == "before /run/start":
            with pytest.raises(UsageError, match="is being made by process"):
                play(Track(), tmp_path / "run")
            inner.append(name)

    play(Track(), tmp_path / "run", step=step, sessions=1)
    assert inner


def test_each_user_may_have_a_persona(tmp_path):
    (tmp_path / "people").mkdir()
    with pytest.raises(UsageError, match="has no persona: give it a file USER_ID.txt"):
        play(Track(), tmp_path / "none", persona=tmp_path / "people")
    written(tmp_path / "people" / "ann.txt", "I like tea.\nI am vegan.")
    model = Model()
    play(Track(), tmp_path / "run", model, persona=tmp_path / "people")
    assert ["I am vegan." in str(prompt) for prompt in model.asked] == [
        True,
        True,
        True,
        False,
        True,
        True,
    ]


def test_persona_by_user_and_for_nobody_else(tmp_path):
    (tmp_path / "people").mkdir()
    (tmp_path / "people" / "ann.txt").write_text("I run.\n")
    track = Track((*ONE, ("2-1", "bob", ("Where?",))), form=NEW)
    look = Look()
    play(track, tmp_path / "run", system=look >> system_of(Model()), persona=tmp_path / "people")
    assert [row["qptkb"] for row in look.seen] == [{"1": "I run."}, {"1": "I run."}, {}]


FORTY = "".join(f"{number} two three four five six seven eight nine. " for number in range(40))
"""Sentences of ten tokens."""


def test_a_long_response_is_cut_at_a_sentence_again_if_needed(tmp_path):
    class Strict(Track):
        def check(self, body):
            if len(body["response"]) > 1000:
                raise Refused(422, "Response is too long.")  # and not how long

    for kind, name in ((Track, "counts"), (Strict, "refuses")):
        track = kind(topics=(("1-1", "ann", ("Why?",)),), limit=200)
        run = play(track, tmp_path / name, Model(lambda number: FORTY), count=True)
        ((_, _, response),) = track.taken
        kept = len(tokenizer()(response))
        assert kept == 190 if kind is Track else 800 < len(response) <= 1000
        assert response.endswith("nine.")  # a whole sentence
        (turn,) = run.log.dialogues()[0].turns
        assert (turn.response, turn.cut) == (response, 400 - kept)


def test_a_stopped_run_continues_and_another_one_is_refused(tmp_path):
    track = Track()
    model = Model()
    told = []
    assert not play(track, tmp_path / "run", model, sessions=1).finished
    assert said(track.taken) == EVERY[:3]
    for folder, options, why in [
        ("run", {"run_id": "other"}, "run_id was 'mine', now 'other'"),
        ("run", {"system": ikat.Answer(ikat.llm(Model()))}, "expression was"),
        (
            "again",
            {},
            (
                r"knows this run already .412: .*Active run.*: continue it in its folder; if that "
                r"is lost"
            ),
        ),
    ]:
        with pytest.raises(UsageError, match=why):
            play(track, tmp_path / folder, **options)
    assert play(track, tmp_path / "run", model, tell=told.append).finished
    assert told[0].endswith("run has 3 responses that the server took")
    assert said(track.taken) == EVERY
    assert len(model.asked) == 6  # none for the end of a topic
    assert track.calls.count("/run/continue") == 6 + 2
    play(track, tmp_path / "run", model)
    assert (len(model.asked), track.calls[-2:]) == (6, ["/auth/verify", "/run/dump"])
    play(track, tmp_path / "two", run_id="two")
    with pytest.raises(UsageError, match="refuses .*/start .403: .*You exceeded"):
        play(track, tmp_path / "three", run_id="three")


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


def test_as_many_conversations_as_asked_for_and_no_more(tmp_path):
    track = Track()
    model = Model()
    for sessions, turns in [(1, 3), (1, 3), (2, 4), (5, 6)]:
        run = play(track, tmp_path / "run", model, sessions=sessions)
        assert said(track.taken) == EVERY[:turns]
        assert run.finished == (sessions == 5)
    assert len(model.asked) == 6


# What is refused


def test_what_cannot_be_played_or_sent_is_refused(tmp_path, monkeypatch):
    monkeypatch.delenv("PLANTED", raising=False)
    keyless = ikat.Answer(ikat.llm("openai:small api_key_env=PLANTED cache=none")) >> Three()
    broken = pt.apply.generic(
        lambda frame: frame.assign(score=[float("nan"), 1.0, 0.0] * (len(frame) // 3))
    )
    cases = [
        (
            {
                "system": system_of(Model())
                >> pt.apply.generic(lambda frame: frame.drop(columns="used"))
            },
            UsageError,
            "writes no response",
        ),
        ({"system": keyless}, FatalLLMError, "there is no key"),
        *(
            ({"run_id": run_id}, UsageError, "is not one word")
            for run_id in ("", "a b", "a\n", "a\0")
        ),
        (
            {"system": system_of(Model()) >> broken},
            ikat.DataError,
            "turn 1-1_1: passage clueweb22-en0000-00-00000:0 has the score nan",
        ),
    ]
    for number, (options, error, told) in enumerate(cases):
        track = Track()
        with pytest.raises(error, match=told):
            play(track, tmp_path / str(number), **options)
        assert (track.taken, not track.runs) == ([], "score" not in told)

    class Strict(Track):
        def check(self, body):
            raise Refused(422, [{"loc": ["body", "citations"], "msg": "Citations key is invalid"}])

    with pytest.raises(
        UsageError, match="refuses run/continue .422: .*citations.*Citations key is invalid"
    ):
        play(Strict(), tmp_path / "strict")


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


def test_without_its_tokenizer_nothing_is_begun(tmp_path, monkeypatch):
    def lacking():
        raise UsageError("an interactive run counts tokens with spaCy")

    monkeypatch.setattr(interactive_run, "tokenizer", lacking)
    monkeypatch.setenv("IKAT_TOKEN", "tok")
    with pytest.raises(UsageError, match="with spaCy"):
        ikat.interact("https://host", system_of(Model()), run_id="mine", out=tmp_path / "run")
    assert list(tmp_path.iterdir()) == []


# Systems and dumps


class Says(pt.Transformer):
    """Responds in a column, which nobody can know before: it fails with a frame without rows."""

    def transform(self, inp):
        [qid] = inp["qid"].unique()
        return inp.assign(qanswer=f"Because {qid}.")


def test_a_system_of_others_may_respond(tmp_path):
    track = Track((("1-1", "ann", ("Why?",)),))
    play(track, tmp_path / "run", system=Look() >> Three() >> Says())
    assert [response for *_, response in track.taken] == ["Because 1-1_1."]


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


def test_a_dump_that_cannot_be_fetched_is_told_and_fetched_again(tmp_path, monkeypatch):
    track = Track()
    with monkeypatch.context() as patch:
        patch.setattr(track, "with_dump", False)
        with pytest.warns(InteractiveWarning, match=r"there is no dump.json \(.+ fetches it"):
            play(track, tmp_path / "run")
    assert not (tmp_path / "run" / "dump.json").exists()
    play(track, tmp_path / "run")
    assert (tmp_path / "run" / "dump.json").exists()


def test_a_dump_is_written_anew_by_each_call(tmp_path):
    track = Track(ONE, form=NEW)
    for _ in range(2):
        play(track, tmp_path / "run")
        assert len(json.loads((tmp_path / "run" / "dump.json").read_text())) == 3
