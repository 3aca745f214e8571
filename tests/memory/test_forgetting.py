"""What was forgotten is in no file that a chat wrote: the memory, the cache of completions, the saved chat."""

import json
import shutil
import stat

import pytest
from fakes import scripted
from trust.killing import killed_before

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


def test_later_chats_lose_the_statement_that_they_knew(chat, tmp_path):
    texts = "1", "Tea in Oslo: I live in Oslo. Ask me.", "[]"
    llm = LLM(Told(*texts), cache=CompletionCache(tmp_path / "llm.sqlite"))
    system, memory = ikat.SelectStatements(llm) >> ikat.Answer(llm), ikat.UserMemory(tmp_path / "me.jsonl", llm)
    Chat(system, memory=memory, save_to=tmp_path / "later").say("Which tea?")
    assert "I live in Oslo." in (tmp_path / "later" / "log.jsonl").read_text()
    memory.forget("me", id="1")
    (left,) = Log(tmp_path / "later").dialogues()
    assert [(turn.utterance, turn.response) for turn in left.turns] == [("Which tea?", "Tea in Oslo: [forgotten] Ask me.")]
    assert b"i live in oslo" not in b"".join(bytes_of(tmp_path).values())


def test_only_whole_words_are_replaced(tmp_path):
    llm = LLM(Told("Good.", learned(1, "No", "I eat no meat."), "I know, nothing: no.", "[]"), cache=None)
    chat = Chat(ikat.Answer(llm), memory=ikat.UserMemory(tmp_path / "me.jsonl", llm), save_to=tmp_path / "chat")
    chat.say("No, thanks.")
    chat.say("Do you know?")
    ikat.UserMemory(tmp_path / "me.jsonl").forget("me", id="1")
    assert Log(tmp_path / "chat").dialogues()[0].turns[1].response == "I know, nothing: [forgotten]."


@pytest.mark.parametrize("later", [True, False])
@pytest.mark.filterwarnings("ignore:nothing was learned")
def test_a_turn_from_which_nothing_could_be_learned_is_forgotten_too(tmp_path, later):
    texts = "The Oslo cafés!", "hm", "Tea.", learned(1, "moved to oslo", "I live in Oslo.")
    llm = LLM(Told(*texts), cache=CompletionCache(tmp_path / "llm.sqlite"))
    chat = Chat(ikat.Answer(llm), memory=ikat.UserMemory(tmp_path / "me.jsonl", llm), save_to=tmp_path / "chat")
    chat.say("I moved to oslo, any café?")
    memory = ikat.UserMemory(tmp_path / "me.jsonl")
    assert (memory.users(), memory.known("me"), memory.memories("me")) == (["me"], {}, [])
    if later:
        chat.say("And tea?")
        memory.forget("me", id="1")
        assert (memory.known("me"), having(tmp_path, b"oslo")) == ({}, [])
    memory.forget("me")
    assert (memory.users(), having(tmp_path, b"oslo"), having(tmp_path, b"caf\\u00e9")) == ([], [], [])


@pytest.mark.parametrize("id", ["1", None])
def test_a_kill_while_forgetting_leaves_it_to_the_next_time(chat, tmp_path, id):
    begun, number, folder = tmp_path.with_name(f"{tmp_path.name}-begun"), 0, tmp_path
    shutil.copytree(tmp_path, begun)
    while killed_before(number, folder, lambda: ikat.UserMemory(folder / "me.jsonl").forget("me", id=id)):
        memory = ikat.UserMemory(folder / "me.jsonl")
        assert len(memory.known("me")) in (2, 1 if id else 0)
        memory.forget("me", id=id)
        assert having(folder, b"oslo") == []
        assert memory.known("me") == ({"2": "I like tea."} if id else {})
        private = [path for path in folder.rglob("*") if path.name in ("me.jsonl", "log.jsonl", "topics.json")]
        assert {stat.S_IMODE(path.stat().st_mode) for path in private} == {0o600}
        shutil.rmtree(folder)
        shutil.copytree(begun, folder)
        number += 1
    assert number >= 6
