"""A chat's history, its file, and what it refuses."""

import pandas as pd
import pyterrier as pt
import pytest
from fakes import scripted
from hypothesis import given, settings
from hypothesis import strategies as st

import pyterrier_ikat as ikat
from pyterrier_ikat.conversations import read_topics, topics_frame
from pyterrier_ikat.conversations.frame import column
from pyterrier_ikat.live.chat import Chat


class System(pt.Transformer):
    """Answers from a list, remembers the frames; an answer of None finds nothing, an error is raised."""

    def __init__(self, *answers, used=True):
        self.answers, self.used, self.seen = list(answers), used, []

    def transform(self, inp):
        self.seen.append(inp)
        answer = self.answers.pop(0)
        if isinstance(answer, BaseException):
            raise answer
        rows = 0 if answer is None else 2
        qid = inp["qid"].iloc[0]
        found = pd.DataFrame({"qid": [qid] * rows, "docno": ["d1", "d2"][:rows], "rank": range(rows), "text": ["one", "two"][:rows]})
        return found.assign(qanswer=column([answer] * rows), used=[True, False][:rows]) if self.used else found


def same(seen, path):
    """Whether the saved chat's turns are the frames that the system saw."""
    pd.testing.assert_frame_equal(topics_frame(read_topics(path)), pd.concat(seen, ignore_index=True))


def test_its_own_answers_become_the_history(tmp_path):
    system = System("Rooibos.", None, "Mint.")
    chat = Chat(system, ["I avoid caffeine."], number="tea-1", save_to=tmp_path / "chat")
    for text in ("Which tea?", "  And cold?", "Or hot?"):
        chat.say(text)
    last = system.seen[-1].iloc[0]
    assert (last["qid"], last["qturn"], last["query"], last["qptkb"]) == ("tea-1_3", 3, "Or hot?", {"1": "I avoid caffeine."})
    assert last["qhistory"] == [
        {"role": "user", "content": "Which tea?"},
        {"role": "assistant", "content": "Rooibos."},
        {"role": "user", "content": "And cold?"},
    ]
    same(system.seen, tmp_path / "chat" / "topics.json")
    assert [turn.passages for turn in read_topics(tmp_path / "chat" / "topics.json")[0].turns] == [("d1",), (), ("d1",)]


@settings(max_examples=25)
@given(
    st.lists(st.tuples(st.text(min_size=1).filter(lambda text: text.strip()), st.none() | st.text()), min_size=1, max_size=4),
    st.dictionaries(st.text("ab1", min_size=1), st.text(st.characters(codec="utf-8"))),
)
def test_a_saved_chat_reads_back_as_the_frames_that_the_system_saw(tmp_path_factory, said, ptkb):
    system = System(*(answer for _, answer in said))
    folder = tmp_path_factory.mktemp("chat") / "new"
    chat = Chat(system, ptkb, save_to=folder)
    for utterance, _ in said:
        chat.say(utterance)
    same(system.seen, folder / "topics.json")


def test_a_system_without_responses_saves_no_provenance(tmp_path):
    chat = Chat(System("", used=False), save_to=tmp_path / "chat")
    assert [source.docno for source in chat.say("Which tea?").sources] == ["d1", "d2"]
    assert read_topics(tmp_path / "chat" / "topics.json")[0].turns[0].passages == ()


def test_a_failed_turn_is_not_kept_and_can_be_said_again(tmp_path):
    system = System("Rooibos.", ikat.DataError("the index is gone"), "Mint.")
    chat = Chat(system, save_to=tmp_path / "chat")
    chat.say("Which tea?")
    saved = (tmp_path / "chat" / "topics.json").read_bytes()
    with pytest.raises(ikat.DataError, match="the index is gone"):
        chat.say("Or hot?")
    assert len(chat.turns) == 1
    assert (tmp_path / "chat" / "topics.json").read_bytes() == saved
    assert chat.say("Or hot?").number == 2
    assert system.seen[1].equals(system.seen[2])


def test_a_kill_between_log_and_topics_loses_no_turn(tmp_path, monkeypatch):
    chat = Chat(System("Rooibos.", "Mint."), save_to=tmp_path / "chat")
    chat.say("Which tea?")

    def killed(*_):
        raise KeyboardInterrupt

    with monkeypatch.context() as patched:
        patched.setattr("os.replace", killed)
        with pytest.raises(KeyboardInterrupt):
            chat.say("Or hot?")
    again = Chat(System("Water."), continue_from=tmp_path / "chat")
    assert [turn.response for turn in again.turns] == ["Rooibos.", "Mint."]
    again.say("And cold?")
    assert len(read_topics(tmp_path / "chat" / "topics.json")[0].turns) == 3


def test_recorded_completions_answer_only_what_is_recorded():
    chat = Chat(System("Rooibos.", "Mint."), number="1-1", script=["Which tea?", "Or  hot?"])
    assert chat.expected() == "Which tea?"
    with pytest.raises(ikat.UsageError, match=r"those of turn 1-1_1 answer only 'Which tea\?': say that, or choose a live LLM"):
        chat.say("Which coffee?")
    assert chat.say("Which  tea? ").response == "Rooibos."
    chat.say("Or hot?")
    assert chat.expected() is None
    with pytest.raises(ikat.UsageError, match="the recorded conversation 1-1 has only 2 turns: go on with a live LLM"):
        chat.say("Thanks.")


def test_a_turn_outlives_a_disk_that_is_full(tmp_path, monkeypatch):
    def full(*_, **__):
        raise OSError(28, "No space left on device")

    chat = Chat(System("Rooibos."), save_to=tmp_path / "chat")
    monkeypatch.setattr("pathlib.Path.open", full)
    with pytest.raises(ikat.UsageError, match=r"can't be saved in .*chat \(No space left on device\): save it elsewhere"):
        chat.say("Which tea?")
    assert chat.turns[0].response == "Rooibos."
    assert chat.saved == 0


def test_an_llm_sees_the_history_and_the_persona():
    llm, backend = scripted("Rooibos.", "Mint.")
    chat = Chat(ikat.Answer(llm), {"7": "I avoid caffeine."})
    chat.say("Which tea?")
    assert chat.say("Or hot?").response == "Mint."
    prompt = backend.asked[1][-1]["content"]
    assert "user: Which tea?\nsystem: Rooibos." in prompt
    assert "7: I avoid caffeine." in prompt
