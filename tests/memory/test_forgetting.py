"""What was forgotten is in no file that a chat wrote: the memory, the cache of completions, the saved chat."""

import json

import pytest
from fakes import scripted

import pyterrier_ikat as ikat
from pyterrier_ikat.live.chat import Chat
from pyterrier_ikat.llms import LLM, Backend, Reply
from pyterrier_ikat.llms.cache import CompletionCache
from pyterrier_ikat.runs import Log


def learned(number, words, statement):
    return json.dumps([{"message": number, "words": words, "statement": statement}])


class Told(Backend):
    """Gives its completions one after the other."""

    def __init__(self, *texts):
        self.texts = list(texts)
        self.model, self.replays, self.identity = "told", False, {"provider": "fake", "model": "told", "params": {}}

    def complete(self, requests):
        return [Reply(self.texts.pop(0), self.model, "stop") for _ in requests]


@pytest.fixture
def chat(tmp_path):
    """Two turns: the first one says something that the user wants to be forgotten, and the system repeats it."""
    texts = "The Oslo cafés!", learned(1, "moved to OSLO", "I live in Oslo."), "Tea.", learned(2, "I like tea", "I like tea.")
    llm = LLM(Told(*texts), cache=CompletionCache(tmp_path / "llm.sqlite"))
    chat = Chat(ikat.Answer(llm), memory=ikat.UserMemory(tmp_path / "me.jsonl", llm), save_to=tmp_path / "chat")
    chat.say("I  just moved to oslo, any café?")
    chat.say("And I like tea.")
    return chat


def bytes_of(folder):
    return {path.relative_to(folder).as_posix(): path.read_bytes().lower() for path in folder.rglob("*") if path.is_file()}


def having(folder, word):
    return sorted(name for name, found in bytes_of(folder).items() if word in found)


def test_a_user_is_forgotten_in_every_file(chat, tmp_path):
    ikat.UserMemory(tmp_path / "other.jsonl").add("me", ["I was in Oslo."])
    assert {"me.jsonl", "chat/log.jsonl", "chat/topics.json"} <= set(having(tmp_path, b"oslo"))
    assert any(name.startswith("llm.sqlite") for name in having(tmp_path, b"caf\\u00e9s"))
    ikat.UserMemory(tmp_path / "me.jsonl").forget("me")
    assert having(tmp_path, b"oslo") == ["other.jsonl"]
    assert having(tmp_path, b"tea") == []
    assert Log(tmp_path / "chat").dialogues() == []


def test_a_statement_is_forgotten_with_its_message_and_the_rest_stays(chat, tmp_path):
    memory = ikat.UserMemory(tmp_path / "me.jsonl")
    memory.forget("me", id="1")
    assert having(tmp_path, b"oslo") == []
    assert having(tmp_path, b"tea") == ["chat/log.jsonl", "chat/topics.json", "me.jsonl"]  # the cache: later prompts had both
    assert memory.known("me") == {"2": "I like tea."}
    (left,) = Log(tmp_path / "chat").dialogues()
    assert [turn.utterance for turn in left.turns] == ["[forgotten]", "And I like tea."]
    again = Chat(ikat.Answer(scripted("Nice.")[0]), continue_from=tmp_path / "chat")
    assert [turn.utterance for turn in again.turns] == ["[forgotten]", "And I like tea."]
    assert [turn.utterance for turn in ikat.dataset(tmp_path / "chat" / "topics.json").conversations[0].turns][0] == "[forgotten]"


def test_what_is_no_longer_there_does_not_stop_forgetting(chat, tmp_path):
    for path in [*(tmp_path / "chat").iterdir(), *tmp_path.glob("llm.sqlite*")]:
        if path.is_file():
            path.unlink()
    memory = ikat.UserMemory(tmp_path / "me.jsonl")
    memory.forget("me", session=memory.memories("me")[0]["session"])
    assert (memory.users(), memory.known("me")) == ([], {})
