"""A chat's folder: what is saved, continued, taken back, and outlives a kill or a full disk."""

import json

import pytest
from chats import AnswersFromList, chat_of, same, saved_turns
from fakes import scripted
from hypothesis import given
from hypothesis import strategies as st

import pyterrier_ikat as ikat
from pyterrier_ikat.live.chat import Chat
from pyterrier_ikat.runs import Log, Turn, log
from pyterrier_ikat.runs.log import turn_event
from pyterrier_ikat.store.files import lock_folders


@given(
    st.lists(
        st.tuples(st.text(min_size=1).filter(lambda text: text.strip()), st.none() | st.text()),
        min_size=1,
        max_size=4,
    ),
    st.dictionaries(st.text("ab1", min_size=1), st.text(st.characters(exclude_categories=["Cs"]))),
)
def test_a_saved_chat_reads_back_as_the_frames_the_system_saw(tmp_path_factory, said, ptkb):
    system = AnswersFromList(*(answer for _, answer in said))
    folder = tmp_path_factory.mktemp("chat") / "new"
    chat = Chat(system, ptkb, out=folder)
    for utterance, _ in said:
        chat.say(utterance)
    same(system.seen, folder / "topics.json")


def test_a_turn_outlives_a_disk_that_is_full(tmp_path, monkeypatch):
    def full(*_, **__):
        raise OSError(28, "No space left on device")

    chat = Chat(AnswersFromList("Rooibos."), out=tmp_path / "chat")
    monkeypatch.setattr("pyterrier_ikat.runs.log.append_line", full)
    with pytest.raises(
        ikat.UsageError,
        match=r"can't be saved in .*chat \(No space left on device\): save it elsewhere",
    ):
        chat.say("Which tea?")
    assert (chat.turns[0].response, chat.saved) == ("Rooibos.", 0)


def test_a_kill_between_log_and_topics_loses_no_turn(tmp_path, monkeypatch):
    chat = Chat(AnswersFromList("Rooibos.", "Mint."), out=tmp_path / "chat")
    chat.say("Which tea?")

    def killed(*_):
        raise KeyboardInterrupt

    with monkeypatch.context() as patched:
        patched.setattr("pyterrier_ikat.live.chat.conversation.write_topics", killed)
        with pytest.raises(KeyboardInterrupt):
            chat.say("Or hot?")
    again = Chat(AnswersFromList("Water."), continue_from=tmp_path / "chat")
    assert [turn.response for turn in again.turns] == ["Rooibos.", "Mint."]
    again.say("And cold?")
    assert len(saved_turns(tmp_path / "chat")) == 3


def test_each_turn_is_logged_once_a_changed_persona_before_it(tmp_path):
    chat = chat_of("Rooibos.", "Mint.", out=tmp_path / "chat", ptkb=["I run."])
    chat.say("Which tea?")
    chat.ptkb = {"1": "I run.", "2": "I cook."}
    chat.say("Or hot?")
    [dialogue] = Log(tmp_path / "chat").dialogues()
    assert dialogue.more["ptkb"] == {"1": "I run.", "2": "I cook."}
    assert [turn.response for turn in dialogue.turns] == ["Rooibos.", "Mint."]
    events = list(Log(tmp_path / "chat").events())
    assert [event["event"] for event in events[1:]] == ["session", "turn", "session", "turn"]


# Continued chats


@pytest.fixture
def path(tmp_path):
    """A chat of two turns."""
    chat = chat_of(
        "Rooibos.",
        "Mint.",
        ptkb=["I avoid caffeine."],
        number="tea-1",
        out=tmp_path / "chat",
        method="mine",
    )
    chat.say("Which tea?")
    chat.say("Or hot?")
    return tmp_path / "chat"


def utterances(path):
    said = [turn.utterance for turn in saved_turns(path)]
    assert said == [turn.utterance for turn in Log(path).dialogues()[0].turns]
    return said


def test_a_chat_is_continued_in_its_folder_with_all_that_it_knew(path):
    llm, backend = scripted("Water.")
    chat = Chat(ikat.Answer(llm), continue_from=path)
    assert (chat.number, chat.ptkb, chat.out, chat.saved) == (
        "tea-1",
        {"1": "I avoid caffeine."},
        path,
        2,
    )
    assert [(turn.response, turn.method) for turn in chat.turns] == [
        ("Rooibos.", "mine"),
        ("Mint.", "mine"),
    ]
    assert chat.turns[0].spend.calls == 1
    assert "(its prompts and completions are no longer available)" in repr(chat.why())
    assert chat.say("And cold?").number == 3
    assert utterances(path) == ["Which tea?", "Or hot?", "And cold?"]
    prompt = backend.asked[0][-1]["content"]
    assert "user: Which tea?\nsystem: Rooibos.\nuser: Or hot?\nsystem: Mint." in prompt
    assert "1: I avoid caffeine." in prompt
    assert chat_of(continue_from=path, number="tea-1", ptkb=["I avoid caffeine."]).saved == 3


@pytest.mark.parametrize(
    ("options", "error", "message"),
    [
        ({"number": "my chat"}, ikat.UsageError, "give one word"),
        ({"history": -1}, ikat.UsageError, r"history=\.\.\. is -1"),
        (
            {"ptkb": "I like tea"},
            ikat.UsageError,
            "ptkb=.*: give a dict of statements by id, or a list of statements",
        ),
        ({"ptkb": {"1": 5}}, ikat.UsageError, "ptkb=.*: give a dict"),
        (
            {"ptkb": ["I run."], "persona": "ikat:sample"},
            ikat.UsageError,
            "both say what is known of the user: omit one",
        ),
        ({"lmm": "recorded:sample"}, ikat.UsageError, "there is no option 'lmm'"),
        (
            {"out": "chat"},
            ikat.UsageError,
            "already exists: save the chat in a new folder, or continue it",
        ),
        ({"continue_from": "new"}, ikat.DataError, "there is no chat new to continue"),
        ({"continue_from": "old.json"}, ikat.DataError, r"there is no chat old\.json to continue"),
        ({"continue_from": "simulated"}, ikat.DataError, r"not the folder of a chat \(simulated\)"),
        (
            {"continue_from": "interactive"},
            ikat.DataError,
            r"not the folder of a chat \(interactive\)",
        ),
        ({"continue_from": "damaged"}, ikat.DataError, "is no event"),
        (
            {"continue_from": "chat", "out": "new"},
            ikat.UsageError,
            r"saved in its own folder: omit out=\.\.\.",
        ),
        (
            {"continue_from": "chat", "number": "tea-2"},
            ikat.UsageError,
            r"holds 1 conversation \(tea-1\): choose one with number=",
        ),
        (
            {"continue_from": "chat", "ptkb": ["I like tea."]},
            ikat.UsageError,
            "has another persona",
        ),
    ],
)
def test_what_cannot_be_begun_or_continued_is_refused_at_once(
    path, monkeypatch, options, error, message
):
    monkeypatch.chdir(path.parent)
    (path.parent / "old.json").write_text("[]")
    for kind in ("simulated", "interactive"):
        Log.create(kind, {"kind": kind})
    with Log.create("damaged", {"kind": "chat"}).path.open("a") as file:
        file.write(json.dumps({"event": "turn", "session": "tea-1"}) + "\n")
    with pytest.raises(error, match=message):
        chat_of(**options)
    assert not (path.parent / "new").exists()


@pytest.mark.parametrize(
    ("ptkb", "persona", "is_refused"),
    [
        (None, None, False),
        (["I run."], None, False),
        ([], None, True),
        (None, "same.txt", False),
        (None, "other.txt", True),
    ],
)
def test_a_chat_goes_on_with_the_persona_that_it_had(saved, ptkb, persona, is_refused):
    (saved.parent / "same.txt").write_text("I run.\n")
    (saved.parent / "other.txt").write_text("I cook.\n")
    options = {"ptkb": ptkb, "persona": persona and saved.parent / persona}
    if is_refused:
        with pytest.raises(ikat.UsageError, match="has another persona"):
            chat_of(continue_from=saved, **options)
        return
    chat = chat_of("Water.", continue_from=saved, **options)
    chat.say("And cold?")
    assert (chat.ptkb, chat.number, chat.saved) == ({"1": "I run."}, "tea-1", 3)


def test_a_folder_of_several_chats_needs_a_name(tmp_path):
    log = Log.create(tmp_path / "chats", {"kind": "chat", "system": ""})
    for name in ("a", "b"):
        log.begin(name, "me", ptkb={"1": name}, memory="")
    for number in (None, "c"):
        with pytest.raises(ikat.UsageError, match=r"holds 2 conversations \(a, b\): choose one"):
            chat_of(continue_from=tmp_path / "chats", number=number)
    chat = chat_of(continue_from=tmp_path / "chats", number="b")
    assert (chat.number, chat.ptkb, chat.saved) == ("b", {"1": "b"}, 0)
    chat.ptkb["1"] = "changed"
    assert log.known["b"].more["ptkb"] == {"1": "b"}


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


# Turns taken back


def test_turns_are_taken_back_from_chat_and_folder(path):
    chat = chat_of("Water.", "Milk.", continue_from=path)
    assert chat.undo().utterance == "Or hot?"
    assert utterances(path) == ["Which tea?"]
    assert chat.say("And cold?").number == 2
    assert utterances(path) == ["Which tea?", "And cold?"]
    chat.undo()
    chat.undo()
    assert not (path / "topics.json").exists()
    assert chat.saved == 0
    with pytest.raises(ikat.UsageError, match="no turn to undo"):
        chat.undo()
    chat.say("And warm?")
    assert utterances(path) == ["And warm?"]


def test_an_interrupt_after_writing_the_log_blocks_no_later_save(path, monkeypatch):
    chat = chat_of("Water.", "Milk.", continue_from=path)
    append = log.append_line

    def interrupted(*arguments):
        append(*arguments)
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(log, "append_line", interrupted)
        with pytest.raises(KeyboardInterrupt):
            chat.say("And cold?")
    chat.say("And warm?")
    assert utterances(path)[2:] == ["And cold?", "And warm?"]


def test_a_turn_that_cannot_be_taken_back_on_disk_stays(saved, monkeypatch):
    chat = chat_of(continue_from=saved)

    def full(*_):
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as patched:
        patched.setattr("pyterrier_ikat.runs.log.append_line", full)
        with pytest.raises(ikat.UsageError, match="No space left"):
            chat.undo()
    assert [turn.utterance for turn in chat.turns] == ["Which tea?", "Or hot?"]
    assert chat.undo().utterance == "Or hot?"
    assert [turn.utterance for turn in saved_turns(saved)] == ["Which tea?"]


def test_an_undo_that_is_interrupted_leaves_the_turn(saved, monkeypatch):
    chat = chat_of(continue_from=saved)

    def interrupted(*_):
        raise KeyboardInterrupt

    with monkeypatch.context() as patched:
        patched.setattr("pyterrier_ikat.runs.log.append_line", interrupted)
        with pytest.raises(KeyboardInterrupt):
            chat.undo()
    assert [turn.utterance for turn in chat.turns] == ["Which tea?", "Or hot?"]
