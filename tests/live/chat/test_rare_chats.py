"""Rare chats: another kind of log, a stopped memory, names with marks, parts of a persona."""

from types import SimpleNamespace

import pytest
from fakes import scripted
from test_conversation import System, chat_of, saved_turns

import pyterrier_ikat as ikat
from pyterrier_ikat.live import persona
from pyterrier_ikat.live.chat import Chat, conversation
from pyterrier_ikat.live.persona import Persona, read_persona, read_personas, user_of
from pyterrier_ikat.memory.user_memory import NothingLearnedWarning
from pyterrier_ikat.runs import Log, Turn
from pyterrier_ikat.runs.log import turn_event
from pyterrier_ikat.store.files import lock_folders


def log_of(folder, kind, *names):
    log = Log.create(folder, {"kind": kind, "system": "mine"})
    for name in names:
        log.begin(name, "me", ptkb={"1": f"I am {name}."}, memory="")
        log.note(turn_event(Turn(1, f"Hi from {name}?", "Hello.", session=name)))
    return folder


def test_a_chat_goes_on_when_its_server_has_stopped(tmp_path):
    folder = log_of(tmp_path / "served", "served", "a", "b")
    with lock_folders(folder), pytest.raises(ikat.IkatError):
        chat_of(continue_from=folder, number="a")
    chat = chat_of("Mint.", continue_from=folder, number="b")
    assert (chat.number, chat.ptkb, chat.saved) == ("b", {"1": "I am b."}, 1)
    assert chat.messages()[0] == {"role": "user", "content": "Hi from b?"}
    chat.say("And now?")
    known = Log(folder).known
    assert [turn.response for turn in known["b"].turns] == ["Hello.", "Mint."]
    assert len(known["a"].turns) == 1
    assert Log(folder).header["kind"] == "served"


def test_the_limit_of_history_is_none_or_not_negative():
    for history in (-1, -8000):
        with pytest.raises(ikat.UsageError, match=rf"history=\.\.\. is {history}: "):
            chat_of(history=history)
    for history, seen in [(0, 0), (None, 2)]:
        system = System("Rooibos.", "Mint.")
        chat = Chat(system, history=history)
        chat.say("Which tea?")
        assert chat.say("Or hot?").omitted == 2 - seen
        assert len(system.seen[1]["qhistory"].iloc[0]) == seen
        assert chat.history == history


def test_a_stopped_memory_stops_no_chat(tmp_path, monkeypatch):
    memory = ikat.UserMemory(tmp_path / "me.jsonl", scripted("[]")[0])
    chat = Chat(System("Rooibos."), memory=memory, out=tmp_path / "chat")
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


def test_an_undone_turn_is_undone_in_the_memory_first(tmp_path, monkeypatch):
    memory = ikat.UserMemory(tmp_path / "me.jsonl", scripted("[]", "[]")[0])
    chat = Chat(System("Rooibos.", "Mint."), memory=memory, out=tmp_path / "chat", number="tea")
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


def test_a_repeated_replay_is_one_session_of_the_memory(tmp_path):
    memory = ikat.UserMemory(tmp_path / "me.jsonl", scripted(*["[]"] * 4)[0])
    sessions = []
    for options in ({"script": ["Which tea?"]}, {"script": ["Which tea?"]}, {}, {"script": []}):
        chat = Chat(System("Rooibos."), memory=memory, number="tea", **options)
        chat.say("Which tea?")
        sessions.append(chat._session)
    assert sessions[:2] == ["tea", "tea"]
    assert len(set(sessions)) == 3
    assert all(session.startswith("tea-") for session in sessions[2:])


def test_a_chat_displays_all_of_its_turns():
    chat = chat_of("Rooibos <i>.", "Mint.", number="a&b")
    assert repr(chat) == "<chat a&b: nothing said yet>"
    assert chat._repr_html_() == "<i>chat a&amp;b: nothing said yet</i>"
    chat.say("Which \x1b[2J <b>?")
    chat.say("Or hot?")
    first, second = repr(chat).split("you> ")[1:]
    assert first.startswith("Which  [2J <b>?\nRooibos <i>.")
    assert first.endswith("\n\n")
    assert second.startswith("Or hot?\nMint.")
    html = chat._repr_html_()
    assert html.index("Rooibos &lt;i&gt;.") < html.index("Or hot?") < html.index("Mint.")
    assert "<b>" not in html
    assert repr(chat.why()).startswith("turn 2\n")
    assert "turn 2" in chat.why()._repr_html_()


def test_recorded_words_are_expected_to_the_end_of_the_script():
    chat = chat_of("a", "b", script=["Which tea?", "Or hot?"], number="1-1")
    told = []
    for words in ("Which tea?", " Or  hot? "):
        told.append(chat.expected())
        chat.say(words)
    assert [*told, chat.expected()] == ["Which tea?", "Or hot?", None]
    with pytest.raises(ikat.UsageError, match="turn 1-1_3: the recorded conversation has only 2"):
        chat.say("Or hot?")
    with pytest.raises(ikat.UsageError, match="there is nothing to answer"):
        chat_of(script=["Which tea?"]).say(" \t\n")
    assert chat_of(script=()).expected() is None


def test_a_chats_method_is_opened_live_with_spare_resources(monkeypatch, tmp_path):
    calls = []
    opened = conversation.open_systems

    def open_systems(method, ledger, **options):
        calls.append((method.name, options))
        return opened(method, ledger, **options)

    monkeypatch.setattr(conversation, "open_systems", open_systems)
    (tmp_path / "mine.py").write_text(
        "import pyterrier_ikat as ikat\n\n\ndef mine(llm):\n    return ikat.Answer(llm)\n"
    )
    model = scripted("Tea.")[0]
    memory = ikat.UserMemory(tmp_path / "me.jsonl", model)
    name = f"{tmp_path / 'mine.py'}:mine"
    for options in ({}, {"memory": memory}):
        Chat(name, llm=model, **options)
    spare = [options.pop("spare") for _, options in calls]
    assert spare == [(), ("llm", "prompts")]
    live = {"live": True, "cite": True, "connect": True, "llm": model}
    assert calls == [("mine", live)] * 2


# Personas


def chats_of(*chats):
    made = []
    for number, ptkb, utterances in chats:
        turns = [SimpleNamespace(utterance=text) for text in utterances]
        made.append(SimpleNamespace(number=number, ptkb=ptkb, turns=turns))
    return made


def test_a_conversation_in_parts_has_all_words(monkeypatch):
    chats = chats_of(
        ("2-1", {"1": "c"}, ["d"]),
        ("1-1", {"1": "a"}, ["a", "b"]),
        ("1-1", {"1": "a", "2": "b"}, ["c"]),
    )
    monkeypatch.setattr(persona, "read_topics", lambda path: chats)
    whole = Persona({"1": "a", "2": "b"}, "1-1", ("a", "b", "c"))
    assert read_persona("topics.json", "1-1") == user_of(None, "topics.jsonl", "1-1") == whole
    for number in (None, "3-1"):
        with pytest.raises(ikat.UsageError, match="has the conversations 2-1, 1-1: choose one"):
            read_persona("topics.json", number)
    del chats[0]
    assert read_persona("topics.json") == whole


def test_files_of_people_are_read_by_their_names(tmp_path):
    for name, text in [("bob", "\ufeff I ski. \n\n\u2028x\n"), ("ann.b", "I run.")]:
        (tmp_path / f"{name}.txt").write_text(text, encoding="utf-8")
    (tmp_path / "notes.md").write_text("no persona")
    people = {"ann.b": {"1": "I run."}, "bob": {"1": "I ski.", "2": "x"}}
    assert read_personas(tmp_path) == people
    assert list(read_personas(tmp_path)) == ["ann.b", "bob"]
    assert read_personas(tmp_path / "bob.txt") == {"": people["bob"]}
    (tmp_path / "bad.txt").write_bytes(b"\xff\xfe")
    with pytest.raises(ikat.DataError, match=r"bad\.txt can't be read .*: give UTF-8 text"):
        read_personas(tmp_path)
    (tmp_path / "bad.txt").write_text(" \n")
    with pytest.raises(ikat.DataError, match=r"bad\.txt has no statements"):
        read_persona(tmp_path / "bad.txt")


@pytest.mark.parametrize("number", ["", "a b", " ", "a\n b"])
def test_the_name_of_a_persona_is_one_word(number):
    with pytest.raises(ikat.UsageError, match="can't be part of a qid"):
        user_of(["I run."], number=number)
    assert user_of(["I run."], number="a") == Persona({"1": "I run."}, "a")
    assert user_of(None) == Persona({}, "chat")
