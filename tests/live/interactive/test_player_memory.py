"""What a memory learns of the conversations on the track, and whom it knows again."""

import pytest
from playing import Look, Model, NotingMemory, Three, play, system_of, user_message, written
from track_server import LAST_WORDS, NEW, Track

import pyterrier_ikat as ikat
from pyterrier_ikat.live.interactive.player import InteractiveRun, Player
from pyterrier_ikat.llms import StageError
from pyterrier_ikat.llms.failures import Refused, Unavailable
from pyterrier_ikat.memory.user_memory import NothingLearnedWarning
from pyterrier_ikat.runs import Turn
from pyterrier_ikat.runs.log import turn_event


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


def ended(folder, memory, last_words="Thanks."):
    """A player whose conversation has ended after a response."""
    run = InteractiveRun(folder, {"kind": "interactive"})
    run.receive(user_message())
    run.note(turn_event(Turn(1, "Why?", "So.", session="1-1")))
    run.receive(user_message(utterance=last_words, last_response_of_session=True), 1.0)
    told = []
    return Player(None, run, None, {}, memory, None, told.append, None)


def test_a_conversation_is_learned_once_with_its_last_words(tmp_path):
    memory = NotingMemory()
    player = ended(tmp_path / "run", memory)
    for _ in range(2):
        player._learn()
    assert memory.learned == [("ann", "1-1", ["Why?", "So.", "Thanks."])]
    assert player.run.dialogue.learned
    silent = NotingMemory()
    ended(tmp_path / "silent", silent, "")._learn()
    assert silent.learned == [("ann", "1-1", ["Why?", "So."])]
    ended(tmp_path / "none", None)._learn()


DOWN = Unavailable("update_ptkb", "1-1", "it is down")
NO = Refused("update_ptkb", "1-1", "No.")


@pytest.mark.parametrize("failures", [[DOWN], [NO, DOWN]])
def test_what_a_model_that_is_down_has_not_learned_is_left(tmp_path, failures):
    player = ended(tmp_path / "run", NotingMemory(*failures))
    with pytest.raises(StageError):
        player._learn()
    assert not player.run.dialogue.learned


def test_what_cannot_be_learned_is_told_once(tmp_path):
    memory = NotingMemory(NO, Refused("update_ptkb", "1-1", "Never."))
    player = ended(tmp_path / "run", memory)
    with pytest.warns(NothingLearnedWarning) as warned:
        player._learn()
    player._learn()
    assert [str(warning.message) for warning in warned] == [
        f"nothing was learned from conversation 1-1: {NO.reason}"
    ]
    assert len(memory.learned) == 1
