"""A chat's history and folder: what the system sees, what is kept, continued and undone."""

import _thread
import json

import pandas as pd
import pyterrier as pt
import pytest
from fakes import scripted
from hypothesis import given
from hypothesis import strategies as st

import pyterrier_ikat as ikat
from pyterrier_ikat.conversations import read_topics, topics_frame
from pyterrier_ikat.conversations.frame import column
from pyterrier_ikat.live.chat import Chat
from pyterrier_ikat.runs import Log, log


class System(pt.Transformer):
    """Answers from a list and remembers the frames; None finds nothing, an error is raised."""

    def __init__(self, *answers, used=True):
        self.answers = list(answers)
        self.used = used
        self.seen = []

    def transform(self, inp):
        self.seen.append(inp)
        answer = self.answers.pop(0)
        if isinstance(answer, BaseException):
            raise answer
        rows = 0 if answer is None else 2
        qid = inp["qid"].iloc[0]
        found = pd.DataFrame(
            {
                "qid": [qid] * rows,
                "docno": ["d1", "d2"][:rows],
                "rank": range(rows),
                "text": ["one", "two"][:rows],
            }
        )
        return (
            found.assign(qanswer=column([answer] * rows), used=[True, False][:rows])
            if self.used
            else found
        )


def chat_of(*answers, **options):
    return Chat(ikat.Answer(scripted(*answers)[0]), **options)


def saved_turns(folder):
    return read_topics(folder / "topics.json")[0].turns


def same(seen, path):
    """Whether the saved chat's turns are the frames that the system saw."""
    pd.testing.assert_frame_equal(
        topics_frame(read_topics(path)), pd.concat(seen, ignore_index=True)
    )


def test_its_own_answers_become_the_history(tmp_path):
    system = System("Rooibos.", None, "Mint.")
    chat = Chat(system, ["I avoid caffeine."], number="tea-1", out=tmp_path / "chat")
    for text in ("Which tea?", "  And cold?", "Or hot?"):
        chat.say(text)
    last = system.seen[-1].iloc[0]
    assert (last["qid"], last["qturn"], last["query"], last["qptkb"]) == (
        "tea-1_3",
        3,
        "Or hot?",
        {"1": "I avoid caffeine."},
    )
    assert [(one["role"], one["content"]) for one in last["qhistory"]] == [
        ("user", "Which tea?"),
        ("assistant", "Rooibos."),
        ("user", "And cold?"),
    ]
    same(system.seen, tmp_path / "chat" / "topics.json")
    assert [turn.passages for turn in saved_turns(tmp_path / "chat")] == [("d1",), (), ("d1",)]
    silent = Chat(
        System("", used=False), out=tmp_path / "silent"
    )  # it has no response to be based on passages
    assert [source.docno for source in silent.say("Which tea?").sources] == ["d1", "d2"]
    assert saved_turns(tmp_path / "silent")[0].passages == ()


@given(
    st.lists(
        st.tuples(st.text(min_size=1).filter(lambda text: text.strip()), st.none() | st.text()),
        min_size=1,
        max_size=4,
    ),
    st.dictionaries(st.text("ab1", min_size=1), st.text(st.characters(exclude_categories=["Cs"]))),
)
def test_a_saved_chat_reads_back_as_the_frames_the_system_saw(tmp_path_factory, said, ptkb):
    system = System(*(answer for _, answer in said))
    folder = tmp_path_factory.mktemp("chat") / "new"
    chat = Chat(system, ptkb, out=folder)
    for utterance, _ in said:
        chat.say(utterance)
    same(system.seen, folder / "topics.json")


def test_a_failed_turn_is_not_kept_and_can_be_said_again(tmp_path):
    system = System("Rooibos.", ikat.DataError("the index is gone"), "Mint.")
    chat = Chat(system, out=tmp_path / "chat")
    chat.say("Which tea?")
    saved = (tmp_path / "chat" / "topics.json").read_bytes()
    with pytest.raises(ikat.DataError, match="the index is gone"):
        chat.say("Or hot?")
    assert len(chat.turns) == 1
    assert (tmp_path / "chat" / "topics.json").read_bytes() == saved
    assert chat.say("Or hot?").number == 2
    assert system.seen[1].equals(system.seen[2])


def test_recorded_completions_answer_only_what_is_recorded():
    chat = Chat(System("Rooibos.", "Mint."), number="1-1", script=["Which tea?", "Or  hot?"])
    assert chat.expected() == "Which tea?"
    with pytest.raises(
        ikat.UsageError,
        match=r"those of turn 1-1_1 answer only 'Which tea\?': say that, or choose a live LLM",
    ):
        chat.say("Which coffee?")
    assert chat.say("Which  tea? ").response == "Rooibos."
    chat.say("Or hot?")
    assert chat.expected() is None
    with pytest.raises(
        ikat.UsageError,
        match="turn 1-1_3: the recorded conversation has only 2 turns: go on with a live LLM",
    ):
        chat.say("Thanks.")


def test_a_turn_outlives_a_disk_that_is_full(tmp_path, monkeypatch):
    def full(*_, **__):
        raise OSError(28, "No space left on device")

    chat = Chat(System("Rooibos."), out=tmp_path / "chat")
    monkeypatch.setattr("pyterrier_ikat.runs.log.append_line", full)
    with pytest.raises(
        ikat.UsageError,
        match=r"can't be saved in .*chat \(No space left on device\): save it elsewhere",
    ):
        chat.say("Which tea?")
    assert (chat.turns[0].response, chat.saved) == ("Rooibos.", 0)


def test_a_kill_between_log_and_topics_loses_no_turn(tmp_path, monkeypatch):
    chat = Chat(System("Rooibos.", "Mint."), out=tmp_path / "chat")
    chat.say("Which tea?")

    def killed(*_):
        raise KeyboardInterrupt

    with monkeypatch.context() as patched:
        patched.setattr("pyterrier_ikat.live.chat.conversation.write_topics", killed)
        with pytest.raises(KeyboardInterrupt):
            chat.say("Or hot?")
    again = Chat(System("Water."), continue_from=tmp_path / "chat")
    assert [turn.response for turn in again.turns] == ["Rooibos.", "Mint."]
    again.say("And cold?")
    assert len(saved_turns(tmp_path / "chat")) == 3


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


def test_nothing_is_no_question():
    with pytest.raises(ikat.UsageError, match="say something"):
        chat_of().say(" \n")


def test_ctrl_c_keeps_the_call_under_way_and_asks_no_later_stage(tmp_path):
    class Stopped:
        asked = 0

        def generate(self, chats):
            self.asked += 1
            if self.asked == 1:
                _thread.interrupt_main()
            return ["Rooibos."] * len(chats)

    model = Stopped()
    llm = ikat.llm(model)
    memory = ikat.UserMemory(tmp_path / "memory.jsonl", scripted()[0])
    chat = Chat(ikat.Rewrite(llm) >> ikat.Answer(llm), out=tmp_path / "chat", memory=memory)
    with pytest.raises(KeyboardInterrupt):
        chat.say("Which tea?")
    assert (model.asked, chat.turns, chat.spent.total().calls) == (1, [], 1)
    assert not (tmp_path / "chat").exists()
    assert memory.memories("me") == []
