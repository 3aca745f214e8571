"""The file of a chat: continued, taken back, and never of something else."""

import json
import os

import pytest
from fakes import scripted

import pyterrier_ikat as ikat
from pyterrier_ikat.chat import Chat
from pyterrier_ikat.conversations import read_topics
from pyterrier_ikat.errors import commands_advised


def chat_of(*answers, **options):
    return Chat(ikat.Answer(scripted(*answers)[0]), **options)


@pytest.fixture
def path(tmp_path):
    """A chat of two turns."""
    chat = chat_of("Rooibos.", "Mint.", ptkb=["I avoid caffeine."], number="tea-1", save_to=tmp_path / "chat.json", method="mine")
    chat.say("Which tea?")
    chat.say("Or hot?")
    return tmp_path / "chat.json"


def utterances(path):
    return [turn.utterance for turn in read_topics(path)[0].turns]


def test_a_chat_is_continued_in_its_file_with_all_that_it_knew(path):
    chat = chat_of("Water.", continue_from=path)
    assert (chat.number, chat.ptkb, chat.save_to, chat.saved) == ("tea-1", {"1": "I avoid caffeine."}, path, 2)
    assert [(turn.response, turn.method) for turn in chat.turns] == [("Rooibos.", "mine"), ("Mint.", "mine")]
    assert chat.turns[0].calls == 1
    assert "(its prompts and completions are no longer available)" in repr(chat.why())
    assert chat.say("And cold?").turn_id == 3
    assert utterances(path) == ["Which tea?", "Or hot?", "And cold?"]
    assert [message["content"] for message in chat.messages()][:4] == ["Which tea?", "Rooibos.", "Or hot?", "Mint."]


def test_sources_come_back_without_their_texts(path):
    topics = json.loads(path.read_text())
    topics[0]["turns"][0]["ikat"]["sources"] = [["d1", 2.5]]
    path.write_text(json.dumps(topics))
    (source,) = chat_of(continue_from=path).turns[0].sources
    assert (source.docno, source.text, source.score) == ("d1", "", 2.5)


def test_a_turn_is_taken_back_from_chat_and_file(path):
    chat = chat_of("Water.", continue_from=path)
    assert chat.undo().utterance == "Or hot?"
    assert utterances(path) == ["Which tea?"]
    assert chat.say("And cold?").turn_id == 2
    assert utterances(path) == ["Which tea?", "And cold?"]


def test_the_first_turn_taken_back_leaves_no_file_and_the_next_one_makes_it_again(path):
    chat = chat_of("Water.", continue_from=path)
    chat.undo()
    chat.undo()
    assert not path.exists()
    assert chat.saved == 0
    with pytest.raises(ikat.UsageError, match="no turn to undo"):
        chat.undo()
    chat.say("And cold?")
    assert utterances(path) == ["And cold?"]


def test_a_file_that_something_else_has_changed_is_left_alone(path):
    chat = chat_of("Water.", continue_from=path)
    path.write_text("[]")
    with pytest.raises(ikat.UsageError, match=r"another program has changed that file; save it elsewhere"):
        chat.say("And cold?")
    with pytest.raises(ikat.UsageError, match="another program"):
        chat.undo()
    assert path.read_text() == "[]"
    assert len(chat.turns) == 3  # what was answered stays


def test_on_the_command_line_a_later_turn_saves_what_one_could_not(path):
    chat, theirs = chat_of("Water.", "Milk.", continue_from=path), path.with_name("theirs.json")
    path.write_text("[]")
    with commands_advised(), pytest.raises(ikat.UsageError, match="move that file away, and the next turn saves all turns"):
        chat.say("And cold?")
    path.rename(theirs)
    chat.say("And warm?")
    assert utterances(path) == ["Which tea?", "Or hot?", "And cold?", "And warm?"]


def test_an_interrupt_right_after_the_file_was_written_blocks_no_later_save(path, monkeypatch):
    chat = chat_of("Water.", "Milk.", continue_from=path)
    replace = os.replace

    def interrupted(one, other):
        replace(one, other)
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr("os.replace", interrupted)
        with pytest.raises(KeyboardInterrupt):
            chat.say("And cold?")
    chat.say("And warm?")
    assert utterances(path)[2:] == ["And cold?", "And warm?"]


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda topics: topics[0].update(title="Tea"), "it has a title"),
        (lambda topics: topics.append({**topics[0], "number": "2"}), "it has several conversations"),
        (lambda topics: topics[0]["turns"][0].update(resolved_utterance="x"), "it has the field resolved_utterance"),
        (lambda topics: topics[0]["turns"].pop(0), "aren't numbered 1 to 1"),
        (lambda topics: topics[0]["turns"][0].update(ikat=[1]), "damaged field ikat"),
        (lambda topics: topics[0]["turns"][0].update(ikat={"sources": 3}), "damaged field ikat"),
        (lambda topics: topics[0]["turns"].clear(), "it has no turns"),
    ],
)
def test_a_file_that_is_not_a_chats_is_not_continued(path, change, message):
    topics = json.loads(path.read_text())
    for turn in topics[0]["turns"]:
        turn |= {"resolved_utterance": ""} if "resolved" in message else {}
    change(topics)
    path.write_text(json.dumps(topics))
    with pytest.raises(ikat.DataError, match=message):
        chat_of(continue_from=path)


def test_what_does_not_go_together_is_refused(path, tmp_path):
    with pytest.raises(ikat.DataError, match=r"there is no chat .*new\.json to continue"):
        chat_of(continue_from=tmp_path / "new.json")
    with pytest.raises(ikat.UsageError, match=r"saved in its own file: omit save_to=\.\.\."):
        chat_of(continue_from=path, save_to=tmp_path / "new.json")
    with pytest.raises(ikat.UsageError, match="is the conversation tea-1: omit ptkb and number"):
        chat_of(continue_from=path, number="tea-2")
    with pytest.raises(ikat.UsageError, match="has another persona"):
        chat_of(continue_from=path, ptkb=["I like tea."])
    with pytest.raises(ikat.UsageError, match=r"already exists: save the chat in a new file, or continue it"):
        chat_of(save_to=path)
    assert chat_of(continue_from=path, number="tea-1", ptkb=["I avoid caffeine."]).saved == 2


def test_a_chat_of_an_earlier_version_is_continued(path):
    topics = json.loads(path.read_text())
    for turn in topics[0]["turns"]:
        del turn["ikat"]
        turn["response_provenance"] = ["d1"]
    path.write_text(json.dumps(topics))
    turn = chat_of(continue_from=path).turns[1]
    assert (turn.response, [source.docno for source in turn.sources]) == ("Mint.", ["d1"])
