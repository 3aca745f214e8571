"""Files of MTRAG, LoCoMo and LongMemEval as conversations."""

import pytest
from small_files import lines, numbers_of

from pyterrier_ikat.conversations.topic_files import ids_in, read_conversations
from pyterrier_ikat.conversations.topics import Conversation, TopicTurn
from pyterrier_ikat.errors import DataError


def task(qid="c<::>2", speaker="user", label="PARTIAL", key="Answerability"):
    return {
        "task_id": qid,
        "input": [
            {"speaker": "user", "text": "Tea?"},
            {"speaker": "agent", "text": "Mint."},
            {"speaker": speaker, "text": "And now?"},
        ],
        "targets": [{"text": "Rye."}],
        key: [label],
        "contexts": [{"document_id": "d2"}, {"document_id": "d1"}, {"document_id": "d2"}],
    }


@pytest.mark.parametrize("key", ["Answerability", "answerability"])
def test_a_task_of_mtrag_is_a_turn_with_its_history(write, key):
    path = write(lines(task(key=key), task("c<::>4", label="unanswerable", key=key)), "t.jsonl")
    history = ({"role": "user", "content": "Tea?"}, {"role": "assistant", "content": "Mint."})
    turns = []
    for number, label in ((2, "partial"), (4, "unanswerable")):
        turns.append(
            TopicTurn(
                number,
                "And now?",
                "Rye.",
                passages=("d2", "d1"),
                qid=f"c<::>{number}",
                history=history,
                answerability=label,
            )
        )
    assert read_conversations(path, "MTRAG") == [Conversation("c", turns=tuple(turns))]


@pytest.mark.parametrize(
    ("changed", "part"),
    [
        (task(speaker="agent"), "the last message is the assistant's"),
        (task(label="maybe"), "the answerability is maybe"),
        ({**task(), "targets": []}, "ValueError|not enough values"),
        ({**task(), "contexts": None}, "TypeError"),
    ],
)
def test_a_task_of_another_form_is_named(write, changed, part):
    with pytest.raises(DataError, match=f"line 1: .*({part}).*; fetch the file again"):
        read_conversations(write(lines(changed), "t.jsonl"), "MTRAG")


def said(dia_id, speaker, text, **more):
    return {"dia_id": dia_id, "speaker": speaker, "text": text, **more}


LOCOMO = {
    "sample_id": "conv-1",
    "conversation": {
        "speaker_a": "Ann",
        "session_1_date_time": "May",
        "session_1": [said("D1:1", "Ann", "Hi."), said("D1:2", "Bob", "Yo.", blip_caption="a dog")],
        "session_2": [said("D2:1", "Ann", "Bye.", blip_caption="")],
    },
    "qa": [
        {"question": "Who?", "answer": 5, "evidence": ["D1:02; D:2:1", "D1:2"], "category": 1},
        {"question": "None?", "answer": "x", "evidence": ["D9:9", "D"], "category": 2},
        {"question": "Why?", "evidence": ["D2:1"], "category": 5},
    ],
    "observation": {
        "session_1_observation": {
            "Ann": [["Ann greets.", "D1:1"], ["Ann knows Bob.", ["D1:1", "D1:2"]]],
            "Bob": [["Bob has a dog.", "D1:2, D7:7"]],
        }
    },
}


def test_a_sample_of_locomo_is_one_conversation(write):
    questions = (
        TopicTurn(1, "Who?", "5", passages=("D1:2", "D2:1"), history=(), category="multi-hop"),
        TopicTurn(3, "Why?", "", passages=("D2:1",), history=(), category="adversarial"),
    )
    assert read_conversations(write([LOCOMO]), "LoCoMo") == [
        Conversation(
            "conv-1",
            ptkb={"D1:1": "Ann: Hi.", "D1:2": "Bob: Yo. [a dog]", "D2:1": "Ann: Bye."},
            turns=questions,
            facts={
                "D1:1%p0": "Ann greets.",
                "D1:1%p1": "Ann knows Bob.",
                "D1:2%p0": "Ann knows Bob.",
                "D1:2%p1": "Bob has a dog.",
            },
        )
    ]
    assert ids_in("D8:6; D:11:026, D30:05, d1:1, D2") == ["D8:6", "D11:26", "D30:5"]


LONGMEMEVAL = {
    "question_id": "q1",
    "question_type": "multi-session",
    "question": "Where?",
    "answer": 3,
    "haystack_session_ids": ["s1", "s2"],
    "haystack_sessions": [
        [
            {"role": "assistant", "content": "Hi.", "has_answer": True},
            {"role": "user", "content": "I run.", "has_answer": True},
        ],
        [
            {"role": "user", "content": 5, "has_answer": False},
            {"role": "assistant", "content": "Yes."},
            {"role": "user", "content": "Bye."},
        ],
    ],
}


def test_a_question_of_longmemeval_is_one_conversation(write):
    ptkb = {"s1:2": "I run.", "s2:1": "5", "s2:3": "Bye."}

    def asked(name, passages, answerability):
        question = TopicTurn(
            1,
            "Where?",
            "3",
            passages=passages,
            history=(),
            answerability=answerability,
            category="multi-session",
        )
        return Conversation(name, ptkb=ptkb, turns=(question,))

    path = write([LONGMEMEVAL, {**LONGMEMEVAL, "question_id": "q2_abs"}])
    assert read_conversations(path, "LongMemEval") == [
        asked("q1", ("s1:2",), "answerable"),
        asked("q2_abs", (), "unanswerable"),
    ]


@pytest.mark.parametrize(
    ("ids", "part"), [(["s1", "s1"], None), (["s2"], "shorter|longer"), (["s1", "s2", "s3"], "er")]
)
def test_the_sessions_of_longmemeval_have_ids_of_their_own(write, ids, part):
    item = {**LONGMEMEVAL, "haystack_session_ids": ids}
    path = write([item])
    if part is None:  # the two sessions have no turn of the same number that differs
        assert len(read_conversations(path, "LongMemEval")[0].ptkb) == 3
        sessions = [LONGMEMEVAL["haystack_sessions"][0], [{}, {"role": "user", "content": "x"}]]
        sessions[1][0] = {"role": "assistant", "content": "y"}
        path = write([{**item, "haystack_sessions": sessions}])
        part = "two sessions have the id s1"
    with pytest.raises(DataError, match=f"conversation 1: .*{part}"):
        read_conversations(path, "LongMemEval")


def test_the_tasks_of_an_object_are_its_conversations(write):
    assert len(read_conversations(write({"tasks": [LOCOMO]}), "LoCoMo")) == 1
    with pytest.raises(DataError, match="no array"):
        read_conversations(write({"tasks": "x"}), "LoCoMo")


def test_a_question_of_longmemeval_is_declined_by_its_id(write):
    session = [{"role": "user", "content": "I like tea.", "has_answer": True}]
    item = {
        "question_id": "q_abs_2",
        "question_type": "temporal",
        "question": "Tea?",
        "answer": 5,
        "haystack_session_ids": ["s"],
        "haystack_sessions": [session],
    }
    (chat,) = read_conversations(write([item]), "LongMemEval")
    (turn,) = chat.turns
    assert (turn.answerability, turn.passages) == ("unanswerable", ())
    assert (turn.response, turn.category, chat.ptkb) == ("5", "temporal", {"s:1": "I like tea."})


def test_the_number_of_a_task_stands_behind_its_last_mark(write):
    path = write(lines(task("a<::>b<::>12"), task("a<::>3")), "t.jsonl")
    chats = read_conversations(path, "MTRAG")
    assert numbers_of(chats) == [("a<::>b", 12, "a<::>b<::>12"), ("a", 3, "a<::>3")]
