"""A chat that remembers its user: each turn sees what was said before, also in earlier chats."""

import io
import json
import signal
import sys
import threading
import time

import pytest
from chats import LEARNED, AnswersFromList, AnswersWithPassage, saved_turns
from fakes import scripted

import pyterrier_ikat as ikat
from pyterrier_ikat.errors import Terminated
from pyterrier_ikat.live.chat import Chat, Screen, talk
from pyterrier_ikat.llms import LLM, Backend, Ledger, Reply
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
def memory_file(tmp_path):
    return tmp_path / "me.json"


def seen(system):
    return [frame["qptkb"].iloc[0] for frame in system.seen]


def stopped(*arguments, **more):
    raise KeyboardInterrupt


def test_a_turn_sees_what_came_before_and_a_later_chat_sees_all(memory_file):
    llm, _ = scripted(*learns((1, "I own a dog."), (2, ""), (1, "I like tea.")))
    first = AnswersFromList("Nice.", "Yes.")
    second = AnswersFromList("Good.", "Bye.")
    chat = Chat(first, ["I live in Lyon."], memory=ikat.UserMemory(memory_file, llm))
    said = []
    chat.say("I own a dog.", said.append)
    assert said[-1] == "learning about you"
    chat.say("May it come?")
    assert seen(first) == [{"1": "I live in Lyon."}, {"1": "I live in Lyon.", "2": "I own a dog."}]
    later = Chat(second, memory=ikat.UserMemory(memory_file, llm))
    stream = io.StringIO()
    talk(
        later,
        lambda prompt: "I like tea." if not later.turns else stopped(),
        Screen(stream, width=200),
    )
    assert stream.getvalue().startswith("no statements about you, 2 remembered. /help")
    assert seen(second) == [{"1": "I live in Lyon.", "2": "I own a dog."}]
    assert ikat.UserMemory(memory_file).table("me")["session"].str[:5].tolist() == [
        "",
        "chat-",
        "chat-",
    ]


def test_a_memory_learns_after_each_turn_and_forgets_with_it(tmp_path):
    words = "I avoid caffeine."
    learned = json.dumps([{"message": 1, "words": words, "statement": words}])
    memory = ikat.UserMemory(tmp_path / "memory.jsonl", scripted(learned, "[]", "[]")[0])
    told = []
    system = AnswersWithPassage("Rooibos.", "Mint.")
    chat = Chat(system, memory=memory, number="tea-1")
    assert chat.remembered == 0
    chat.say(words, told.append)
    assert "learning about you" in told
    assert chat.remembered == len(memory.known("me")) == 1
    chat.undo()
    assert chat.remembered == 0
    assert chat.turns == []


def test_chat_and_memory_share_the_model_and_its_account(tmp_path):
    ledger = Ledger()
    (tmp_path / "mine.py").write_text(
        "import pyterrier_ikat as ikat\n\n\ndef mine(llm):\n    return ikat.Answer(llm)\n"
    )
    recorded = tmp_path / "recorded.jsonl"
    line = '{{"qid": "chat_1", "stage": "{}", "model": "m", "completion": {}}}\n'
    recorded.write_text(line.format("answer", '"Rooibos."') + line.format("update_ptkb", '"[]"'))
    chat = Chat(
        f"{tmp_path / 'mine.py'}:mine",
        llm=f"recorded:{recorded}",
        memory=tmp_path / "me.jsonl",
        script=["Which tea?"],
        ledger=ledger,
    )
    turn = chat.say("Which tea?")
    assert (chat.method, turn.method) == ("mine", "mine")
    stages = ["answer", "update_ptkb"]
    assert ledger.frame()["stage"].tolist() == stages
    assert chat.spent.frame()[["stage", "known"]].values.tolist() == [[one, 1] for one in stages]


def test_a_memory_takes_the_chats_model_and_prompts(tmp_path):
    prompts = tmp_path / "prompts"
    prompts.mkdir()
    (prompts / "update_ptkb.jinja").write_text("Learn from {{ context }}")
    model, backend = scripted(LEARNED)
    chat = Chat(AnswersFromList("Mint."), memory=tmp_path / "me.jsonl", llm=model, prompts=prompts)
    assert chat.say("Which tea?").response == "Mint."
    assert "Learn from" in str(backend.asked[0])
    assert chat.remembered == 1
    for options in ({"llm": model}, {"prompts": prompts}):
        with pytest.raises(ikat.UsageError, match=f"uses {next(iter(options))}="):
            Chat(AnswersFromList("Mint."), **options)


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


def paid_chat(memory_file, *texts, **options):
    """A chat, and its backend; a completion costs 1 dollar."""
    llm = LLM(Paid(*texts), budget=Budget(price_in=1e4, price_out=1e4))
    return Chat(ikat.Answer(llm), memory=ikat.UserMemory(memory_file, llm), **options), llm.backend


def test_memory_cost_belongs_to_the_turn_its_file_and_why(memory_file, tmp_path):
    chat, _ = paid_chat(memory_file, "Nice.", *learns((1, "I own a dog.")), out=tmp_path / "chat")
    turn = chat.say("I own a dog.")
    assert (turn.spend.calls, turn.spend.tokens, turn.spend.cost) == (2, 200, 2.0)
    assert [request.stage for request, outcome in turn.asked] == ["answer", "update_ptkb"]
    assert chat.turns == [turn]
    assert Chat(AnswersFromList(), continue_from=tmp_path / "chat").turns[0].spend.cost == 2.0
    assert chat.why().account.frame()[["stage", "cost"]].values.tolist() == [
        ["answer", 1.0],
        ["update_ptkb", 1.0],
    ]
    assert "2. update_ptkb" in repr(chat.why())
    chat, _ = paid_chat(memory_file, "Nice.", "hm")  # it taught nothing
    with pytest.warns(NothingLearnedWarning, match="no JSON list"):
        assert chat.say("I own a cat.").spend.cost == 2.0


def test_a_paid_call_that_ctrl_c_interrupted_is_counted(memory_file, monkeypatch):
    chat, backend = paid_chat(memory_file, "Nice.", "[]")
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


# Nothing can be learned


@pytest.mark.parametrize(
    ("stops", "why"), [(False, "no JSON list of statements"), (True, "it was stopped")]
)
def test_an_answer_is_not_lost_when_nothing_can_be_learned(memory_file, monkeypatch, stops, why):
    memory = ikat.UserMemory(memory_file, scripted("hm")[0])
    if stops:
        monkeypatch.setattr(memory, "learn", stopped)
    chat = Chat(AnswersFromList("Nice."), memory=memory)
    with pytest.warns(
        NothingLearnedWarning,
        match=f"nothing was learned from this turn .*{why}.*the next turn learns from both",
    ):
        turn = chat.say("I own a dog.")
    assert (turn.response, len(chat.turns), memory.known("me")) == ("Nice.", 1, {})


def test_a_stopped_memory_stops_no_chat(tmp_path, monkeypatch):
    memory = ikat.UserMemory(tmp_path / "me.jsonl", scripted("[]")[0])
    chat = Chat(AnswersFromList("Rooibos."), memory=memory, out=tmp_path / "chat")
    told = []

    def stopped(user, session, messages):
        told.append((user, [message["content"] for message in messages]))
        raise KeyboardInterrupt

    monkeypatch.setattr(memory, "learn", stopped)
    with pytest.warns(NothingLearnedWarning, match=r"this turn \(it was stopped\); the next turn"):
        turn = chat.say("Which tea?", tell=told.append)
    assert told[-2:] == ["learning about you", ("me", ["Which tea?", "Rooibos."])]
    assert (turn.response, chat.saved, len(chat.turns)) == ("Rooibos.", 1, 1)
    assert chat.why().turn is chat.turns[-1]


def test_what_a_memory_cannot_write_costs_no_answer(tmp_path, monkeypatch):
    memory = ikat.UserMemory(tmp_path / "me.jsonl", scripted(LEARNED)[0])
    chat = Chat(AnswersFromList("Rooibos."), memory=memory, out=tmp_path / "chat")

    def full(*_):
        raise ikat.DataError("the disk is full")

    monkeypatch.setattr(memory, "learn", full)
    with pytest.warns(NothingLearnedWarning, match=r"this turn \(the disk is full\)"):
        assert chat.say("Which tea?").response == "Rooibos."
    assert chat.saved == 1


def test_a_terminated_process_learns_nothing_more(tmp_path, monkeypatch):
    memory = ikat.UserMemory(tmp_path / "me.jsonl", scripted(LEARNED)[0])
    chat = Chat(AnswersFromList("Rooibos."), memory=memory, out=tmp_path / "chat")

    def ends(*_):
        raise Terminated

    monkeypatch.setattr(memory, "learn", ends)
    with pytest.raises(Terminated):
        chat.say("Which tea?")
    assert (chat.saved, chat.turns[0].response) == (1, "Rooibos.")


def test_why_nothing_was_learned_is_the_models_failure_alone(tmp_path):
    memory = ikat.UserMemory(tmp_path / "me.jsonl", scripted("hm")[0])
    with pytest.warns(NothingLearnedWarning) as told:
        Chat(AnswersFromList("Rooibos."), memory=memory).say("Which tea?")
    assert str(told[0].message).startswith("nothing was learned from this turn (no JSON list")


def test_a_memory_that_can_not_learn_is_refused_at_once(memory_file):
    for memory in (ikat.UserMemory(memory_file), memory_file):
        with pytest.raises(ikat.UsageError, match="no language model to learn with"):
            Chat(AnswersFromList(), memory=memory)


# Turns taken back


def test_a_turn_taken_back_is_forgotten_even_of_another_process(memory_file, tmp_path):
    llm, backend = scripted(
        *learns((1, "I own a cat."), (1, "I own a dog."), (2, "I like tea."), (2, "I like mate."))
    )
    first = Chat(
        AnswersFromList("Nice.", "Nice.", "Good."),
        memory=ikat.UserMemory(memory_file, llm),
        out=tmp_path / "chat",
    )
    first.say("I own a cat.")
    first.undo()
    assert ikat.UserMemory(memory_file).known("me") == {}
    first.say("I own a dog.")
    first.say("I like tea.")
    again = AnswersFromList("Fine.")
    chat = Chat(again, memory=ikat.UserMemory(memory_file, llm), continue_from=tmp_path / "chat")
    chat.undo()
    (kept,) = ikat.UserMemory(memory_file).known("me").values()
    assert kept == "I own a dog."
    chat.say("I like mate.")
    assert [list(known.values()) for known in seen(again)] == [["I own a dog."]]
    assert len(backend.asked) == 4
    (session,) = set(ikat.UserMemory(memory_file).table("me")["session"])
    Chat(AnswersFromList("Good."), continue_from=tmp_path / "chat").say(
        "I like milk."
    )  # without the memory
    assert Log(tmp_path / "chat").dialogues()[0].more["memory"] == session


def full(*_, **__):
    raise OSError(28, "No space left on device")


def test_a_turn_stays_when_the_memory_can_not_forget_it(memory_file, tmp_path, monkeypatch):
    chat, _ = paid_chat(memory_file, "Nice.", *learns((1, "I own a dog.")), out=tmp_path / "chat")
    chat.say("I own a dog.")
    monkeypatch.setattr("pyterrier_ikat.memory.memory_file.append_line", full)
    with pytest.raises(ikat.UsageError, match=r"the memory .*me\.json can't be used \(No space"):
        chat.undo()
    assert (len(chat.turns), chat.saved) == (1, 1)


def test_an_undone_turn_is_undone_in_the_memory_first(tmp_path, monkeypatch):
    memory = ikat.UserMemory(tmp_path / "me.jsonl", scripted("[]", "[]")[0])
    chat = Chat(
        AnswersFromList("Rooibos.", "Mint."), memory=memory, out=tmp_path / "chat", number="tea"
    )
    chat.say("Which tea?")
    chat.say("Or hot?")
    undone = []
    monkeypatch.setattr(memory, "undo", lambda *args: undone.append((*args, len(chat.turns))))
    assert chat.undo().number == 2
    [(user, session, number, turns)] = undone
    assert (user, session.startswith("tea-"), number, turns) == ("me", True, 2, 2)
    assert [turn.utterance for turn in saved_turns(tmp_path / "chat")] == ["Which tea?"]
    assert chat.undo().number == 1
    with pytest.raises(ikat.UsageError, match="nothing was said yet"):
        chat.undo()
    with pytest.raises(ikat.UsageError, match="there is no answer yet: say something"):
        chat.why()
    assert not (tmp_path / "chat" / "topics.json").exists()


def test_a_memory_forgets_nothing_of_a_chat_that_it_did_not_hear(saved, tmp_path, monkeypatch):
    memory = ikat.UserMemory(tmp_path / "me.jsonl", scripted(LEARNED)[0])
    chat = Chat(AnswersFromList(), continue_from=saved, memory=memory)
    forgotten = []
    monkeypatch.setattr(memory, "undo", lambda *args: forgotten.append(args))
    chat.undo()
    assert (forgotten, chat.saved) == ([], 1)


# Sessions and personas


def test_a_replay_of_the_sample_is_the_same_session_again(memory_file, tmp_path):
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
            memory=memory_file,
            **persona,
            script=["Does playing music keep the brain young?"] if method == "raw" else None,
        )
        if method == "qr":
            chat.say(chat.expected())
        assert list(ikat.UserMemory(memory_file).known("me", "3-1", 1)) == list("123456789")
        assert (
            ikat.UserMemory(memory_file).known("me")["11"] == "I have never played an instrument."
        )


def test_a_repeated_replay_is_one_session_of_the_memory(tmp_path):
    memory = ikat.UserMemory(tmp_path / "me.jsonl", scripted(*["[]"] * 4)[0])
    sessions = []
    for options in ({"script": ["Which tea?"]}, {"script": ["Which tea?"]}, {}, {"script": []}):
        chat = Chat(AnswersFromList("Rooibos."), memory=memory, number="tea", **options)
        chat.say("Which tea?")
        sessions.append(chat._session)
    assert sessions[:2] == ["tea", "tea"]
    assert len(set(sessions)) == 3
    assert all(session.startswith("tea-") for session in sessions[2:])


def test_ids_of_a_persona_may_be_any_text(memory_file):
    odd = ["", "a b", "[1]", "1_1", "²", "007", "\U0001f600"]
    persona = {name: f"Statement {place}." for place, name in enumerate(odd)}
    llm, _ = scripted(*learns((1, "I own a dog."), (2, "")))
    system = AnswersFromList("Nice.", "Yes.")
    chat = Chat(system, persona, memory=ikat.UserMemory(memory_file, llm))
    chat.say("I own a dog.")
    chat.say("May it come?")
    assert seen(system) == [persona, {**persona, "8": "I own a dog."}]
    Chat(
        AnswersFromList("Hm."),
        {"8": "I own a boat."},
        memory=ikat.UserMemory(memory_file, scripted("[]")[0]),
    ).say("And I?")
    assert ikat.UserMemory(memory_file).known("me")["9"] == "I own a boat."
