"""The folder of a chat: continued, taken back, and never of something else."""

import json

import pytest
from fakes import scripted

import pyterrier_ikat as ikat
from pyterrier_ikat.conversations import read_topics
from pyterrier_ikat.errors import commands_advised
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


def test_what_is_no_chat_is_not_continued(path, tmp_path):
    (tmp_path / "old.json").write_text("[]")
    with pytest.raises(ikat.DataError, match=r"there is no chat .*old\.json to continue"):
        chat_of(continue_from=tmp_path / "old.json")
    Log.create(tmp_path / "sim", {"kind": "simulated"})
    with pytest.raises(ikat.DataError, match=r"not the folder of a chat \(simulated\)"):
        chat_of(continue_from=tmp_path / "sim")
    with (path / "log.jsonl").open("a") as file:
        file.write(json.dumps({"event": "turn", "session": "tea-1"}) + "\n")
    with pytest.raises(ikat.DataError, match="is no event"):
        chat_of(continue_from=path)


def test_what_does_not_go_together_is_refused(path, tmp_path):
    with pytest.raises(ikat.DataError, match=r"there is no chat .*new to continue"):
        chat_of(continue_from=tmp_path / "new")
    with pytest.raises(ikat.UsageError, match=r"saved in its own folder: omit save_to=\.\.\."):
        chat_of(continue_from=path, save_to=tmp_path / "new")
    with pytest.raises(ikat.UsageError, match="is the conversation tea-1: omit ptkb and number"):
        chat_of(continue_from=path, number="tea-2")
    with pytest.raises(ikat.UsageError, match="has another persona"):
        chat_of(continue_from=path, ptkb=["I like tea."])
    with (
        commands_advised(),
        pytest.raises(ikat.UsageError, match="already exists: save the chat in a new folder, or continue it"),
    ):
        chat_of(save_to=path)
    assert chat_of(continue_from=path, number="tea-1", ptkb=["I avoid caffeine."]).saved == 2
