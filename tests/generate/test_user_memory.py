"""What is known of a user at which turn of which session, worked out by hand."""

import json
import os
import pickle
import signal
import stat
import subprocess
import sys
import threading

import pytest
from fakes import scripted
from hypothesis import given, settings
from hypothesis import strategies as st
from operators import texts

import pyterrier_ikat as ikat
from pyterrier_ikat.generate import user_memory
from pyterrier_ikat.store.locks import hold_lock


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
    return ikat.UserMemory(tmp_path / "users.json", notes)


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


def test_a_memory_can_be_sent_to_another_process(memory):
    memory.learn("u1", "a", chat("I own a dog."))
    sent = pickle.loads(pickle.dumps(memory))
    sent.learn("u1", "b", chat("I like tea."))
    assert memory.known("u1") == sent.known("u1") == {"1": "I own a dog.", "2": "I like tea."}


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
    memory = ikat.UserMemory(tmp_path / "users.json", llm)
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
    assert memory.table("u1").values.tolist() == [
        ["1", "I live in Lyon.", "", 0, "", False],
        ["2", "I live in Oslo.", "a", 2, "I live in Oslo.", True],
    ]
    assert memory.table("u2").empty


def test_a_user_a_session_or_its_last_turns_are_forgotten(memory):
    memory.learn("u1", "a", chat("I live in Lyon."))
    memory.learn("u1", "a", chat("I live in Lyon.", "I own a dog."))
    memory.learn("u1", "b", chat("I live in Oslo."))
    memory.learn("u2", "c", chat("I like tea."))
    memory.forget("u1", "a", 2)
    assert memory.known("u1") == {"3": "I live in Oslo."}
    memory.forget("u1", "b")
    assert memory.known("u1") == {"1": "I live in Lyon."}
    memory.forget("u1")
    memory.forget("nobody")
    assert (memory.known("u1"), memory.known("u2")) == ({}, {"1": "I like tea."})
    assert "Lyon" not in memory.path.read_text()


def test_nobody_else_may_read_the_file_and_it_is_read_anew(memory, notes, tmp_path):
    memory.learn("u1", "a", chat("I own a dog."))
    memory.path.chmod(0o644)
    memory.learn("u1", "b", chat("Søt te, 🍵."))
    assert stat.S_IMODE(memory.path.stat().st_mode) == 0o600
    assert [path.name for path in tmp_path.iterdir()] == ["users.json"]
    assert list(ikat.UserMemory(memory.path).known("u1").values()) == ["I own a dog.", "Søt te, 🍵."]
    assert repr(memory) == f"ikat.UserMemory({str(memory.path)!r})"


def test_a_session_belongs_to_one_user_and_a_file_to_one_run(tmp_path, notes):
    memory = ikat.UserMemory(tmp_path / "users.json", notes, run="r1")
    memory.learn("u1", "a", chat("I own a dog."))
    with pytest.raises(ikat.UsageError, match="the session 'a' is another user's"):
        memory.learn("u2", "a", chat("I own a dog."))
    with pytest.raises(ikat.DataError, match="was not made by the run r2: give each run a file of its own"):
        ikat.UserMemory(memory.path, notes, run="r2")
    ikat.UserMemory(memory.path, notes).learn("u1", "b", chat("I like tea."))
    assert len(ikat.UserMemory(memory.path, run="r1").known("u1")) == 2


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda memory: memory.learn("", "a", chat("Hi.")), "user='': give the user's id"),
        (lambda memory: memory.known(5), "user=5: give the user's id"),
        (lambda memory: memory.learn("u1", "", chat("Hi.")), "the session has no name"),
        (lambda memory: memory.learn("u1", "a", []), "the user has said nothing yet"),
        (lambda memory: memory.learn("u1", "a", [{"role": "user"}]), "a message is not"),
        (
            lambda memory: ikat.UserMemory(memory.path).learn("u1", "a", chat("Hi.")),
            r"no language model to learn with: give UserMemory\(path, llm",
        ),
        (lambda memory: ikat.UserMemory(memory.path.parent), "is a folder: give a file"),
        (lambda memory: ikat.UserMemory(5), "path=5: give a text or a path"),
    ],
)
def test_a_refusal_says_what_to_give(memory, call, message):
    with pytest.raises(ikat.UsageError, match=message):
        call(memory)


@pytest.mark.parametrize(
    "damage",
    [
        lambda text: text[:-20],
        lambda text: text.replace("learned", "lerned"),
        lambda text: text.replace('"turn": 1', '"turn": "one"'),
        lambda text: text.replace('"id"', '"it"'),
        lambda text: '["I own a dog"]',
        lambda text: text.encode() + b"\xff",
    ],
)
def test_a_damaged_file_is_refused_without_a_word_of_it(memory, damage):
    memory.learn("u1", "a", chat("I own a dog."))
    damaged = damage(memory.path.read_text())
    memory.path.write_bytes(damaged if isinstance(damaged, bytes) else damaged.encode())
    for use in (lambda: ikat.UserMemory(memory.path), lambda: memory.known("u1"), lambda: memory.learn("u1", "b", chat("Hi."))):
        with pytest.raises(ikat.DataError, match="is not a memory of users, or is damaged") as error:
            use()
        assert "dog" not in str(error.value)
        assert error.value.__cause__ is None


def test_another_format_is_refused(memory):
    memory.path.write_text(json.dumps({"format": 9, "run": "", "users": {}}))
    with pytest.raises(ikat.DataError, match="has format 9, this version reads format 1"):
        memory.known("u1")


def test_a_file_that_cannot_be_written_is_named(tmp_path, notes):
    (tmp_path / "file").write_text("")
    with pytest.raises(ikat.UsageError, match=r"can't be (read|written) \(Not a directory\): give another file"):
        ikat.UserMemory(tmp_path / "file" / "users.json", notes).add("u1", ["I like tea."])


def test_nothing_is_lost_when_threads_learn_at_once(tmp_path, notes):
    memories = [ikat.UserMemory(tmp_path / "users.json", notes) for _ in range(2)]
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


def test_a_file_that_stays_locked_is_an_error_that_names_the_holder(memory, monkeypatch):
    monkeypatch.setattr(user_memory, "PATIENCE", 0.0)
    with (
        hold_lock(memory.path.with_name(".users.json.lock")),
        pytest.raises(ikat.UsageError, match=f"is held by process {os.getpid()} on .*: wait, or stop it"),
    ):
        memory.add("u1", ["I like tea."])


KILLED = """
import os, signal, sys
import pyterrier_ikat as ikat
memory = ikat.UserMemory(sys.argv[1])
memory.add("u1", ["I own a dog."])
os.replace = lambda *paths: os.kill(os.getpid(), signal.SIGKILL)
memory.add("u1", ["I like tea."])
"""


def test_a_kill_while_writing_leaves_the_file_whole_and_its_rest_is_removed(memory, notes, tmp_path):
    killed = subprocess.run([sys.executable, "-c", KILLED, memory.path], capture_output=True, timeout=300)
    assert killed.returncode == -signal.SIGKILL, killed.stderr.decode()[-500:]
    left = list(tmp_path.glob(".users.json.*.tmp"))
    assert len(left) == 1
    assert stat.S_IMODE(left[0].stat().st_mode) == 0o600
    assert memory.known("u1") == {"1": "I own a dog."}
    memory.forget("u1")
    assert [path.name for path in tmp_path.iterdir()] == ["users.json"]
    assert "dog" not in memory.path.read_text()


sayings = st.lists(st.sampled_from(["I own a dog.", "I live in Lyon.", "I live in Oslo.", "Tea?"]), min_size=1, max_size=3)


@settings(max_examples=10)
@given(st.lists(sayings, min_size=1, max_size=3), st.integers(0, 8))
def test_a_run_that_is_repeated_from_any_turn_gives_each_turn_the_same_statements(tmp_path_factory, sessions, begin):
    notes = Notes()
    memory = ikat.UserMemory(tmp_path_factory.mktemp("m") / "users.json", notes)

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
