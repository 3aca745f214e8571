"""Interactive runs against a documented or a released server without faults."""

import json
import re
from functools import partial

import pandas as pd
import pyterrier as pt
import pytest
from track_server import (
    DOCUMENTED,
    LAST_WORDS,
    NEW,
    OLD,
    TOKEN,
    TOPICS,
    InProcess,
    Refused,
    Track,
    list_questions,
    tokenizer,
)

import pyterrier_ikat as ikat
from pyterrier_ikat.errors import UsageError
from pyterrier_ikat.live.interactive import (
    InteractiveWarning,
    interact,
    interactive_run,
    track_server,
)
from pyterrier_ikat.live.interactive.track_server import TrackServer
from pyterrier_ikat.llms.failures import FatalLLMError
from pyterrier_ikat.memory.user_memory import NothingLearnedWarning

ADDRESS = "http://localhost:8888/sim"


class Model:
    """Answers each question with its number, and remembers the prompts."""

    def __init__(self, say=lambda number: f"Answer {number}."):
        self.asked = []
        self.say = say

    def generate(self, chats):
        self.asked += chats
        return [self.say(len(self.asked))] * len(chats)


class Three(pt.Transformer):
    """Three passages of each turn, of which the response used two."""

    def transform(self, inp):
        docnos = [
            "clueweb22-en0000-00-00000:0",
            "clueweb22-en0000-00-00000:1",
            "clueweb22-en0000-00-00001:0",
        ]
        scores = [3.0, 2.0, 2.0]
        found = pd.DataFrame(
            {
                "docno": docnos,
                "score": scores,
                "rank": [0, 1, 2],
                "used": [True, True, False],
                "text": ["a", "b", "c"],
            }
        )
        return inp.merge(found, how="cross").assign(qstatements=[[("1", 2.0)]] * 3 * len(inp))


def system_of(model):
    return ikat.Answer(ikat.llm(model)) >> Three()


def play(track, folder, model=None, step=lambda name: None, count=False, **options):
    """A run on the track without waiting; spaCy, slow to import, counts where ``count`` is set."""
    system = options.pop("system", None) or system_of(Model() if model is None else model)
    with pytest.MonkeyPatch.context() as patched:
        patched.setenv("IKAT_TOKEN", TOKEN)
        patched.setattr(
            interactive_run, "TrackServer", partial(TrackServer, transport=InProcess(track, step))
        )
        patched.setattr(track_server, "sleep", lambda seconds: None)
        for module in () if count else (track_server, interactive_run):
            patched.setattr(module, "tokenizer", lambda: str.split)
        return interact(ADDRESS, system, out=folder, **{"run_id": "mine", **options})


def said(turns):
    return [(topic, utterance) for topic, utterance, _ in turns]


EVERY = list_questions(TOPICS)


def written(path, text):
    path.write_text(text)
    return path


class Look(pt.Transformer):
    """Keeps the turns that the system sees."""

    def __init__(self):
        self.seen = []

    def transform(self, inp):
        for _, row in inp.iterrows():
            if row["query"] != "?":
                self.seen.append(row)
        return inp


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


def test_memory_learns_once_per_chat_and_knows_returning_users(tmp_path):
    class Notes(ikat.UserMemory):
        def __init__(self):
            super().__init__(tmp_path / "notes.json")
            self.learned = []
            self.told = {}

        def require_learning(self):
            pass

        def add(self, user, statements):
            self.told[user] = statements

        def known(self, user, session=None, turn=None):
            learned = {}
            for place, (who, _, messages) in enumerate(self.learned):
                if who == user:
                    learned[f"m{place}"] = messages[0]["content"]
            return self.told.get(user, {}) | learned

        def learn(self, *learned):
            self.learned.append(learned)

    track = Track(form=NEW)
    memory = Notes()
    look = Look()
    for _ in range(2):
        play(
            track,
            tmp_path / "run",
            system=look >> system_of(Model()),
            memory=memory,
            persona=written(tmp_path / "all.txt", "I am 46."),
        )
        assert [about[:2] for about in memory.learned] == [
            ("ann", "1-1"),
            ("bob", "2-1"),
            ("ann", "1-2"),
        ]
    assert [message["content"] for message in memory.learned[1][2]] == [
        "Where may I walk?",
        "Answer 4.",
        LAST_WORDS,
    ]
    assert [row["qptkb"] for row in look.seen] == [{"1": "I am 46."}] * 4 + [
        {"1": "I am 46.", "m0": "Which tea has no caffeine?"}
    ] * 2
    made = {"system": "mine", "models": ["Model"], "package": ikat.__version__}
    assert track.runs["mine"].about["extra"] == {**made, "track_persona": True}


def test_a_memory_file_is_of_one_run_which_goes_on_unlearned(tmp_path):
    entry = ikat.method(paper="")(lambda llm: ikat.Answer(llm) >> Three())
    llm = ikat.llm(
        Model(
            lambda number: '[{"message": 1, "words": "caffeine", "statement": "I avoid caffeine."}]'
        )
    )
    learned = tmp_path / "users.json"
    play(Track(), tmp_path / "run", system={"mine": entry}, llm=llm, memory=learned)
    memory = ikat.UserMemory(learned)
    assert memory.known("ann", "1-1", 3) == {}
    assert memory.known("ann", "1-2", 1) == {"1": "I avoid caffeine."}
    with pytest.raises(ikat.DataError, match="users.json"):
        play(
            Track(),
            tmp_path / "other",
            system={"mine": entry},
            llm=llm,
            memory=learned,
            run_id="other",
        )
    with pytest.warns(NothingLearnedWarning) as told:
        run = play(
            Track(),
            tmp_path / "none",
            system={"mine": entry},
            llm=ikat.llm(Model()),
            memory=tmp_path / "none.json",
        )
    why = "no JSON list of statements in the completion of 9 characters"
    assert {str(one.message) for one in told} == {
        f"nothing was learned from conversation 1-1: {why}",
        f"nothing was learned from conversation 2-1: {why}",
        f"nothing was learned from conversation 1-2: {why}",
    }
    assert run.finished
    assert ikat.UserMemory(tmp_path / "none.json").users() == []


def test_a_run_stops_without_the_model_and_learns_when_restarted(tmp_path):
    class Fails:
        """Learns nothing, after it was not available once."""

        asked = 0

        def generate(self, chats):
            self.asked += 1
            if self.asked == 1:
                raise OSError("down")
            return ["[]" for _ in chats]

    memory = ikat.UserMemory(tmp_path / "users.json", Fails())
    track = Track()
    with pytest.raises(ikat.IkatError, match="update_ptkb.*raised OSError: down"):
        play(track, tmp_path / "run", memory=memory)
    assert play(track, tmp_path / "run", memory=memory).finished
    assert memory.llm.ledger.frame()[["calls", "unanswered", "failures"]].values.tolist() == [
        [3, 1, 1]
    ]  # three conversations


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


def test_a_dump_that_cannot_be_fetched_is_told_and_fetched_again(tmp_path, monkeypatch):
    track = Track()
    with monkeypatch.context() as patch:
        patch.setattr(track, "with_dump", False)
        with pytest.warns(InteractiveWarning, match=r"there is no dump.json \(.+ fetches it"):
            play(track, tmp_path / "run")
    assert not (tmp_path / "run" / "dump.json").exists()
    play(track, tmp_path / "run")
    assert (tmp_path / "run" / "dump.json").exists()
