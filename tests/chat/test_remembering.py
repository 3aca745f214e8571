"""A chat that remembers its user: each turn sees what was said before it, in this chat and in earlier ones."""

import json

import pytest
from fakes import scripted
from test_conversation import System

import pyterrier_ikat as ikat
from pyterrier_ikat.chat import Chat, open_chat
from pyterrier_ikat.chat.remembering import NothingLearnedWarning


def learns(*statements):
    """Completions that each learn one statement, which the user said word for word."""
    return [json.dumps([{"message": number, "words": text, "statement": text}] if text else []) for number, text in statements]


@pytest.fixture
def path(tmp_path):
    return tmp_path / "me.json"


def seen(system):
    return [frame["qptkb"].iloc[0] for frame in system.seen]


def test_a_turn_sees_what_was_said_before_it_and_a_later_chat_sees_all(path):
    llm, _ = scripted(*learns((1, "I own a dog."), (2, ""), (1, "I like tea.")))
    first, second = System("Nice.", "Yes."), System("Good.", "Bye.")
    chat = Chat(first, ["I live in Lyon."], memory=ikat.UserMemory(path, llm))
    said = []
    chat.say("I own a dog.", said.append)
    assert said[-1] == "learning about you"
    chat.say("May it come?")
    assert seen(first) == [{"1": "I live in Lyon."}, {"1": "I live in Lyon.", "2": "I own a dog."}]
    Chat(second, memory=ikat.UserMemory(path, llm)).say("I like tea.")
    assert seen(second) == [{"1": "I live in Lyon.", "2": "I own a dog."}]
    assert ikat.UserMemory(path).table("me")["session"].str[:5].tolist() == ["", "chat-", "chat-"]


def test_a_turn_that_is_taken_back_is_forgotten(path):
    llm, _ = scripted(*learns((1, "I own a dog."), (1, "I own a cat.")))
    system = System("Nice.", "Nice.")
    chat = Chat(system, memory=ikat.UserMemory(path, llm))
    chat.say("I own a dog.")
    chat.undo()
    assert ikat.UserMemory(path).known("me") == {}
    chat.say("I own a cat.")
    assert (seen(system), list(ikat.UserMemory(path).known("me").values())) == ([{}, {}], ["I own a cat."])


def stopped(*arguments):
    raise KeyboardInterrupt


@pytest.mark.parametrize(("stops", "why"), [(False, "no JSON list of statements"), (True, "it was stopped")])
def test_an_answer_is_not_lost_when_nothing_can_be_learned(path, monkeypatch, stops, why):
    memory = ikat.UserMemory(path, scripted("hm")[0])
    if stops:
        monkeypatch.setattr(memory, "learn", stopped)
    chat = Chat(System("Nice."), memory=memory)
    with pytest.warns(NothingLearnedWarning, match=f"nothing was learned from this turn .*{why}.*the next turn makes up for it"):
        turn = chat.say("I own a dog.")
    assert (turn.response, len(chat.turns), memory.known("me")) == ("Nice.", 1, {})


def test_a_memory_needs_a_model_before_the_first_turn(path):
    with pytest.raises(ikat.UsageError, match="a memory learns with a language model: give llm="):
        open_chat("raw", memory=path)


def test_a_replay_of_the_sample_is_the_same_session_again(path, tmp_path):
    sample = ikat.dataset("ikat:sample")
    index = ikat.PassageIndex(tmp_path / "index").index(sample.get_corpus_iter(verbose=False))
    persona = {"persona": "ikat:sample", "number": "3-1", "index": str(index.path), "llm": "recorded:sample"}
    for _ in range(2):
        chat = open_chat("qr", memory=path, **persona)
        chat.say(chat.expected())
        assert list(ikat.UserMemory(path).known("me", "3-1", 1)) == list("123456789")
        assert ikat.UserMemory(path).known("me")["11"] == "I have never played an instrument."
