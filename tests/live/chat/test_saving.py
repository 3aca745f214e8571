"""The folder of a chat: continued, taken back, and never of something else."""

import json

import pytest
from fakes import scripted

import pyterrier_ikat as ikat
from pyterrier_ikat.conversations import read_topics
from pyterrier_ikat.live.chat import Chat
from pyterrier_ikat.runs import Log


def chat_of(*answers, **options):
    return Chat(ikat.Answer(scripted(*answers)[0]), **options)


@pytest.fixture
def path(tmp_path):
    """A chat of two turns."""
    chat = chat_of("Rooibos.", "Mint.", ptkb=["I avoid caffeine."], number="tea-1", save_to=tmp_path / "chat", method="mine")
    chat.say("Which tea?")
    chat.say("Or hot?")
    return tmp_path / "chat"


def utterances(path):
    said = [turn.utterance for turn in read_topics(path / "topics.json")[0].turns]
    assert said == [turn.utterance for turn in Log(path).dialogues()[0].turns]
    return said


def test_a_chat_is_continued_in_its_folder_with_all_that_it_knew(path):
    chat = chat_of("Water.", continue_from=path)
    assert (chat.number, chat.ptkb, chat.save_to, chat.saved) == ("tea-1", {"1": "I avoid caffeine."}, path, 2)
    assert [(turn.response, turn.method) for turn in chat.turns] == [("Rooibos.", "mine"), ("Mint.", "mine")]
    assert chat.turns[0].spend.calls == 1
    assert "(its prompts and completions are no longer available)" in repr(chat.why())
    assert chat.say("And cold?").number == 3
    assert utterances(path) == ["Which tea?", "Or hot?", "And cold?"]
    assert [message["content"] for message in chat.messages()][:4] == ["Which tea?", "Rooibos.", "Or hot?", "Mint."]


def test_a_turn_is_taken_back_from_chat_and_folder(path):
    chat = chat_of("Water.", continue_from=path)
    assert chat.undo().utterance == "Or hot?"
    assert utterances(path) == ["Which tea?"]
    assert chat.say("And cold?").number == 2
    assert utterances(path) == ["Which tea?", "And cold?"]


def test_the_first_turn_taken_back_leaves_no_topics_and_the_next_one_makes_them_again(path):
    chat = chat_of("Water.", continue_from=path)
    chat.undo()
    chat.undo()
    assert not (path / "topics.json").exists()
    assert chat.saved == 0
    with pytest.raises(ikat.UsageError, match="no turn to undo"):
        chat.undo()
    chat.say("And cold?")
    assert utterances(path) == ["And cold?"]


def test_an_interrupt_right_after_the_log_was_written_blocks_no_later_save(path, monkeypatch):
    chat = chat_of("Water.", "Milk.", continue_from=path)
    from pyterrier_ikat.runs import log

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


@pytest.mark.parametrize(
    ("options", "error", "message"),
    [
        ({"number": "my chat"}, ikat.UsageError, "give one word"),
        ({"history": -1}, ikat.UsageError, r"history=\.\.\. is -1"),
        ({"ptkb": "I like tea"}, ikat.UsageError, "ptkb=.*: give a dict of statements by id, or a list of statements"),
        ({"ptkb": {"1": 5}}, ikat.UsageError, "ptkb=.*: give a dict"),
        ({"ptkb": ["I run."], "persona": "ikat:sample"}, ikat.UsageError, "both say what is known of the user: omit one"),
        ({"lmm": "recorded:sample"}, ikat.UsageError, "no option 'lmm': did you mean llm?"),
        ({"save_to": "chat"}, ikat.UsageError, "already exists: save the chat in a new folder, or continue it"),
        ({"save_to": "old.json/chat"}, ikat.UsageError, r"old\.json can't be written to"),
        ({"continue_from": "new"}, ikat.DataError, "there is no chat new to continue"),
        ({"continue_from": "old.json"}, ikat.DataError, r"there is no chat old\.json to continue"),
        ({"continue_from": "simulated"}, ikat.DataError, r"not the folder of a chat \(simulated\)"),
        ({"continue_from": "chat", "save_to": "new"}, ikat.UsageError, r"saved in its own folder: omit save_to=\.\.\."),
        ({"continue_from": "chat", "number": "tea-2"}, ikat.UsageError, "is the conversation tea-1: omit ptkb and number"),
        ({"continue_from": "chat", "ptkb": ["I like tea."]}, ikat.UsageError, "has another persona"),
    ],
)
def test_what_cannot_be_begun_or_continued_is_refused_at_once(path, monkeypatch, options, error, message):
    monkeypatch.chdir(path.parent)
    (path.parent / "old.json").write_text("[]")
    Log.create(path.parent / "simulated", {"kind": "simulated"})
    with pytest.raises(error, match=message):
        chat_of(**options)


def test_a_damaged_log_is_not_continued_and_the_same_persona_is(path):
    assert chat_of(continue_from=path, number="tea-1", ptkb=["I avoid caffeine."]).saved == 2
    with (path / "log.jsonl").open("a") as file:
        file.write(json.dumps({"event": "turn", "session": "tea-1"}) + "\n")
    with pytest.raises(ikat.DataError, match="is no event"):
        chat_of(continue_from=path)
    with pytest.raises(ikat.UsageError, match="say something"):
        chat_of().say(" \n")
