"""A chat that remembers its user: each turn sees what was said before, also in earlier chats."""

import io
import json
import signal
import sys
import threading
import time

import pytest
from fakes import scripted
from test_conversation import System

import pyterrier_ikat as ikat
from pyterrier_ikat.live.chat import Chat, Screen, talk
from pyterrier_ikat.llms import LLM, Backend, Reply
from pyterrier_ikat.llms.ledger import Budget
from pyterrier_ikat.memory.user_memory import NothingLearnedWarning
from pyterrier_ikat.runs import Log
from pyterrier_ikat.runs.answered_turn import effort


def learns(*statements):
    """Completions that each learn one statement, which the user said word for word."""
    completions = []
    for number, text in statements:
        learned = []
        if text:
            learned.append({"message": number, "words": text, "statement": text})
        completions.append(json.dumps(learned))
    return completions


@pytest.fixture
def path(tmp_path):
    return tmp_path / "me.json"


def seen(system):
    return [frame["qptkb"].iloc[0] for frame in system.seen]


def stopped(*arguments, **more):
    raise KeyboardInterrupt


def full(*_, **__):
    raise OSError(28, "No space left on device")


def test_a_turn_sees_what_came_before_and_a_later_chat_sees_all(path):
    llm, _ = scripted(*learns((1, "I own a dog."), (2, ""), (1, "I like tea.")))
    first = System("Nice.", "Yes.")
    second = System("Good.", "Bye.")
    chat = Chat(first, ["I live in Lyon."], memory=ikat.UserMemory(path, llm))
    said = []
    chat.say("I own a dog.", said.append)
    assert said[-1] == "learning about you"
    chat.say("May it come?")
    assert seen(first) == [{"1": "I live in Lyon."}, {"1": "I live in Lyon.", "2": "I own a dog."}]
    later = Chat(second, memory=ikat.UserMemory(path, llm))
    stream = io.StringIO()
    talk(
        later,
        lambda prompt: "I like tea." if not later.turns else stopped(),
        Screen(stream, width=200),
    )
    assert stream.getvalue().startswith("no statements about you, 2 remembered. /help")
    assert seen(second) == [{"1": "I live in Lyon.", "2": "I own a dog."}]
    assert ikat.UserMemory(path).table("me")["session"].str[:5].tolist() == ["", "chat-", "chat-"]


@pytest.mark.parametrize(
    ("stops", "why"), [(False, "no JSON list of statements"), (True, "it was stopped")]
)
def test_an_answer_is_not_lost_when_nothing_can_be_learned(path, monkeypatch, stops, why):
    memory = ikat.UserMemory(path, scripted("hm")[0])
    if stops:
        monkeypatch.setattr(memory, "learn", stopped)
    chat = Chat(System("Nice."), memory=memory)
    with pytest.warns(
        NothingLearnedWarning,
        match=f"nothing was learned from this turn .*{why}.*the next turn learns from both",
    ):
        turn = chat.say("I own a dog.")
    assert (turn.response, len(chat.turns), memory.known("me")) == ("Nice.", 1, {})


class Paid(Backend):
    """Answers with 40 tokens for a prompt of 60; ``before`` is called with each request."""

    def __init__(self, *texts):
        self.texts = list(texts)
        self.before = lambda request: None
        self.model = "paid"
        self.replays = False
        self.identity = {"provider": "fake", "model": str(id(self)), "params": {}}

    def complete(self, requests):
        return [self.reply(request) for request in requests]

    def reply(self, request):
        self.before(request)
        return Reply(self.texts.pop(0), self.model, "stop", prompt_tokens=60, completion_tokens=40)


def paid_chat(path, *texts, **options):
    """A chat, and its backend; a completion costs 1 dollar."""
    llm = LLM(Paid(*texts), budget=Budget(price_in=1e4, price_out=1e4))
    return Chat(ikat.Answer(llm), memory=ikat.UserMemory(path, llm), **options), llm.backend


def test_memory_cost_belongs_to_the_turn_its_file_and_why(path, tmp_path):
    chat, _ = paid_chat(path, "Nice.", *learns((1, "I own a dog.")), out=tmp_path / "chat")
    turn = chat.say("I own a dog.")
    assert (turn.spend.calls, turn.spend.tokens, turn.spend.cost) == (2, 200, 2.0)
    assert [request.stage for request, outcome in turn.asked] == ["answer", "update_ptkb"]
    assert chat.turns == [turn]
    assert Chat(System(), continue_from=tmp_path / "chat").turns[0].spend.cost == 2.0
    assert chat.why().account.frame()[["stage", "cost"]].values.tolist() == [
        ["answer", 1.0],
        ["update_ptkb", 1.0],
    ]
    assert "2. update_ptkb" in repr(chat.why())
    chat, _ = paid_chat(path, "Nice.", "hm")  # it taught nothing
    with pytest.warns(NothingLearnedWarning, match="no JSON list"):
        assert chat.say("I own a cat.").spend.cost == 2.0


def test_a_paid_call_that_ctrl_c_interrupted_is_counted(path, monkeypatch):
    chat, backend = paid_chat(path, "Nice.", "[]")
    waiting = threading.Event()

    def interrupted(request):
        if request.stage == "update_ptkb":
            time.sleep(0.05)  # Python overlooks a signal in the moment in which it begins to wait
            signal.pthread_kill(threading.main_thread().ident, signal.SIGINT)
            assert waiting.wait(60)

    backend.before = interrupted
    monkeypatch.setattr(sys.stderr, "write", lambda text: waiting.set())  # says that it waits
    with pytest.warns(NothingLearnedWarning, match="it was stopped"):
        turn = chat.say("I own a dog.")
    assert effort(turn).startswith("2 calls, 200 tokens, 2.0000 USD, ")
    assert chat.why().account.frame()["calls"].tolist() == [1, 1]


def test_a_turn_taken_back_is_forgotten_even_of_another_process(path, tmp_path):
    llm, backend = scripted(
        *learns((1, "I own a cat."), (1, "I own a dog."), (2, "I like tea."), (2, "I like mate."))
    )
    first = Chat(
        System("Nice.", "Nice.", "Good."),
        memory=ikat.UserMemory(path, llm),
        out=tmp_path / "chat",
    )
    first.say("I own a cat.")
    first.undo()
    assert ikat.UserMemory(path).known("me") == {}
    first.say("I own a dog.")
    first.say("I like tea.")
    again = System("Fine.")
    chat = Chat(again, memory=ikat.UserMemory(path, llm), continue_from=tmp_path / "chat")
    chat.undo()
    (kept,) = ikat.UserMemory(path).known("me").values()
    assert kept == "I own a dog."
    chat.say("I like mate.")
    assert [list(known.values()) for known in seen(again)] == [["I own a dog."]]
    assert len(backend.asked) == 4
    (session,) = set(ikat.UserMemory(path).table("me")["session"])
    Chat(System("Good."), continue_from=tmp_path / "chat").say("I like milk.")  # without the memory
    assert Log(tmp_path / "chat").dialogues()[0].more["memory"] == session


def test_a_turn_stays_when_the_memory_can_not_forget_it(path, tmp_path, monkeypatch):
    chat, _ = paid_chat(path, "Nice.", *learns((1, "I own a dog.")), out=tmp_path / "chat")
    chat.say("I own a dog.")
    monkeypatch.setattr("pyterrier_ikat.memory.memory_file.append_line", full)
    with pytest.raises(ikat.UsageError, match=r"the memory .*me\.json can't be used \(No space"):
        chat.undo()
    assert (len(chat.turns), chat.saved) == (1, 1)


def test_a_memory_that_can_not_learn_is_refused_at_once(path):
    for memory in (ikat.UserMemory(path), path):
        with pytest.raises(ikat.UsageError, match="no language model to learn with"):
            Chat(System(), memory=memory)


def test_a_replay_of_the_sample_is_the_same_session_again(path, tmp_path):
    sample = ikat.dataset("ikat:sample")
    index = ikat.PassageIndex(tmp_path / "index").index(sample.get_corpus_iter(verbose=False))
    for method in ("qr", "qr", "raw"):  # which needs the model for the memory alone
        persona = {
            "persona": "ikat:sample",
            "number": "3-1",
            "index": str(index.path),
            "llm": "recorded:sample",
        }
        chat = Chat(
            method,
            memory=path,
            **persona,
            script=["Does playing music keep the brain young?"] if method == "raw" else None,
        )
        if method == "qr":
            chat.say(chat.expected())
        assert list(ikat.UserMemory(path).known("me", "3-1", 1)) == list("123456789")
        assert ikat.UserMemory(path).known("me")["11"] == "I have never played an instrument."


def test_ids_of_a_persona_may_be_any_text(path):
    odd = ["", "a b", "[1]", "1_1", "²", "007", "\U0001f600"]
    persona = {name: f"Statement {place}." for place, name in enumerate(odd)}
    llm, _ = scripted(*learns((1, "I own a dog."), (2, "")))
    system = System("Nice.", "Yes.")
    chat = Chat(system, persona, memory=ikat.UserMemory(path, llm))
    chat.say("I own a dog.")
    chat.say("May it come?")
    assert seen(system) == [persona, {**persona, "8": "I own a dog."}]
    Chat(
        System("Hm."), {"8": "I own a boat."}, memory=ikat.UserMemory(path, scripted("[]")[0])
    ).say("And I?")
    assert ikat.UserMemory(path).known("me")["9"] == "I own a boat."
