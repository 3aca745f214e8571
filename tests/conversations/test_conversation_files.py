"""Files of every form as whole conversations, and the guards of their readers."""

import json

import pytest

from pyterrier_ikat.conversations.topic_files import ids_in, read_conversations, read_topics
from pyterrier_ikat.conversations.topics import CollectionWarning, Conversation, TopicTurn
from pyterrier_ikat.errors import DataError

ASK = {"role": "user", "content": "Which tea?"}
SAY = {"role": "assistant", "content": "Mint."}
MORE = {"role": "user", "content": "And now?"}


def lines(*items):
    return "".join(json.dumps(item) + "\n" for item in items)


def line(qid, messages=(ASK,), **more):
    return {"qid": qid, "messages": list(messages), **more}


def turn(number, text, qid, history=(), **more):
    return TopicTurn(number, text, more.pop("response", ""), qid=qid, history=history, **more)


def test_own_lines_are_turns_of_conversations(write):
    path = write(
        "\n"
        + lines(
            line("a_1", resolved="Which is best?", answer="Mint.", answerability="partial"),
            line("a_7", [ASK, SAY, MORE]),
            line("a_8", ptkb={"2": "I run."}),
            line("a_9", ptkb=["I run."]),
            line(5, [ASK, SAY, MORE]),
            line("a_x", ptkb=[]),
            line("b_c_3"),
        ),
        "turns.jsonl",
    )
    first = turn(
        1, "Which tea?", "a_1", response="Mint.", resolved="Which is best?", answerability="partial"
    )
    assert read_topics(path) == [
        Conversation("a", turns=(first, turn(7, "And now?", "a_7", (ASK, SAY)))),
        Conversation("a", ptkb={"2": "I run."}, turns=(turn(8, "Which tea?", "a_8"),)),
        Conversation("a", ptkb={"1": "I run."}, turns=(turn(9, "Which tea?", "a_9"),)),
        Conversation("5", turns=(turn(2, "And now?", "5", (ASK, SAY)),)),
        Conversation("a_x", turns=(turn(1, "Which tea?", "a_x"),)),
        Conversation("b_c", turns=(turn(3, "Which tea?", "b_c_3"),)),
    ]


@pytest.mark.parametrize(
    ("item", "part"),
    [
        ([], r"an object is expected, found \[\]"),
        (line("a 1"), 'the name "a 1" can\'t be part of a qid'),
        (line(""), 'the name "" can\'t'),
        (line(True), "qid is true, not a text or a whole number"),
        ({"messages": [ASK]}, "qid is missing"),
        ({"qid": "a"}, "messages is missing"),
        (line("a", []), "the last of the messages is not a question"),
        (line("a", [ASK, SAY]), "the last of the messages is not a question"),
        (line("a", [{**ASK, "content": " "}]), "the last of the messages is not a question"),
        (
            line("a", [{**ASK, "role": "bot"}]),
            'message 1: the role is "bot", not user or assistant',
        ),
        (line("a", [ASK, {"role": "user"}]), "message 2: content is missing"),
        ({"qid": "a", "messages": "Tea?"}, 'messages is "Tea\\?", not a list'),
        (line("a", answer=5), "answer is 5, not a text"),
        (line("a", answerability="yes"), 'answerability is "yes": give one of answerable, partial'),
        (line("a", ptkb="I run."), 'ptkb is "I run.", not an object'),
        (line("a", ptkb=[5]), "1 is 5, not a text"),
    ],
)
def test_a_line_that_is_no_turn_is_named_by_its_number(write, item, part):
    path = write(lines(line("first")) + "\n" + lines(item), "turns.jsonl")
    with pytest.raises(DataError, match=f"turns.jsonl, line 3: not of the form.*{part}"):
        read_topics(path)


def test_a_turn_that_occurs_again_is_named(write):
    with pytest.raises(DataError, match=r"line 2: .*a_1 was there before"):
        read_topics(write(lines(line("a_1"), line("a_1")), "turns.jsonl"))


def test_fields_that_nothing_reads_are_told_once_each(write):
    items = [line("a_1", note=1), line("a_2", note=1, more=2), line("a_3")]
    with pytest.warns(CollectionWarning) as told:
        read_topics(write(lines(*items), "turns.jsonl"))
    said = [str(warning.message) for warning in told]
    assert len(said) == 2
    assert "line 1, line 2: nothing reads the field 'note'" in said[0]
    assert "line 2: nothing reads the field 'more'" in said[1]


@pytest.mark.parametrize(
    ("content", "name", "part"),
    [
        ("[", "a.json", "a.json: can't be read as JSON"),
        ('{"a": 1}\n[', "a.jsonl", "a.jsonl, line 2: can't be read as JSON"),
        ("{}", "a.json", "no array of conversations"),
        ("5", "a.json", "no array of conversations"),
        ("[]", "a.json", "nothing in it; mend it"),
        ("\n \n", "a.jsonl", "nothing in it; a line is"),
        ('["\\ud800"]', "a.json", "can't be read as JSON"),
    ],
)
def test_a_file_that_is_no_json_is_named(write, content, name, part):
    with pytest.raises(DataError, match=part):
        read_topics(
            write(
                content if name == "a.json" else content.replace('{"a": 1}', lines(line("x"))[:-1]),
                name,
            )
        )


def test_a_file_with_a_byte_order_mark_is_read(write):
    assert read_topics(write("\ufeff" + lines(line("a")), "turns.jsonl"))[0].number == "a"
    with pytest.raises(DataError, match="can't be read as JSON"):
        read_topics(write([], "a.json").with_name("other.json"))


def cast_turn(number, **more):
    return {"number": number, "raw_utterance": f"u{number}", **more}


def test_cast_turns_have_their_fields_of_all_years(write):
    topic = {
        "number": 81,
        "title": "Tea",
        "turn": [
            cast_turn(1, manual_canonical_result_id="m", automatic_canonical_result_id="a"),
            cast_turn("2", canonical_result_id="c", manual_canonical_result_id="m", passage="P"),
            {
                "number": 7,
                "utterance": "u7",
                "manual_rewritten_utterance": "r7",
                "automatic_rewritten_utterance": "s7",
            },
        ],
    }
    assert read_topics(write([topic])) == [
        Conversation(
            "81",
            "Tea",
            turns=(
                TopicTurn(1, "u1", "", qid="81_1", passages=("m",)),
                TopicTurn(2, "u2", "P", qid="81_2", passages=("c",)),
                TopicTurn(7, "u7", "", "r7", qid="81_7", automatic="s7"),
            ),
        )
    ]


@pytest.mark.parametrize("turns", [[], [cast_turn(1), cast_turn(1)]])
def test_a_cast_topic_has_each_turn_once(write, turns):
    with pytest.raises(DataError, match="topic 81 has no turns, or one of them twice"):
        read_topics(write([{"number": 81, "turn": turns}]))


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


def test_a_turn_that_occurs_again_later_is_named(write):
    with pytest.raises(DataError, match=r"line 3: .*a_1 was there before"):
        read_topics(write(lines(line("a_1"), line("b_1"), line("a_1")), "turns.jsonl"))


def numbers_of(chats):
    """The conversation, the number and the qid of each turn."""
    numbers = []
    for chat in chats:
        for turn in chat.turns:
            numbers.append((chat.number, turn.turn_id, turn.qid))
    return numbers


def test_numbers_of_turns_are_at_the_end_of_their_ids(write):
    ids = ("a_12", "a_1x", "a_b_3", "a_", "1_1234567890")
    chats = read_topics(write(lines(*map(line, ids)), "turns.jsonl"))
    assert numbers_of(chats) == [
        ("a", 12, "a_12"),
        ("a_1x", 1, "a_1x"),
        ("a_b", 3, "a_b_3"),
        ("a_", 1, "a_"),
        ("1_1234567890", 1, "1_1234567890"),
    ]


@pytest.mark.parametrize("content", [b"\xff", b"[" * 100_000], ids=["no UTF-8", "too deep"])
@pytest.mark.parametrize("name", ["a.json", "a.jsonl"])
def test_a_file_that_no_reader_can_read_is_named(tmp_path, content, name):
    (tmp_path / name).write_bytes(content)
    with pytest.raises(DataError, match=f"^{tmp_path / name}.*can't be read as JSON .*cut short"):
        read_topics(tmp_path / name)


def test_a_line_may_have_signs_that_end_a_line_elsewhere(write):
    question = {"role": "user", "content": "a\u2028b\x85c"}
    text = json.dumps({"qid": "a_1", "messages": [question]}, ensure_ascii=False)
    (chat,) = read_topics(write(f"{text}\n", "turns.jsonl"))
    assert chat.turns[0].utterance == "a\u2028b\x85c"


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
