"""The file of a memory: its lines, runs and locks, and what kills and other programs do to it."""

import json
import os
import shutil
import stat
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from threading import Event, Thread

import filelock
import pytest
from hypothesis import given
from hypothesis import strategies as st
from memory.told_facts import DOG, LYON, TEA, Notes, chat, learned, statement
from trust.killing import killed_before, started

import pyterrier_ikat as ikat
from pyterrier_ikat.memory import memory_file
from pyterrier_ikat.memory.memory_file import LOCK_TIMEOUT, MemoryFile


def test_the_file_has_a_head_and_a_line_for_each_event(tmp_path):
    path = tmp_path / "m.jsonl"
    file = MemoryFile(path, "r")
    event = learned(1, "a", 1, statement("1", "Søt te.\u2028"))
    with file.changing():
        file.append(event, {**event, "user": "v"})
    first, *rest = path.read_bytes().decode().split("\n")
    assert json.loads(first)["run"] == "r"
    assert [json.loads(line) for line in rest[:-1]] == [event, {**event, "user": "v"}]
    assert rest[-1] == ""
    assert "Søt" in rest[0]
    again = MemoryFile(path)
    assert again.run == "r"
    with again.users() as users:
        assert {name: history.events for name, history in users.items()} == {
            "u": [event],
            "v": [{**event, "user": "v"}],
        }
    with file.changing():
        file.rewrite([event])
        with file.users() as users:
            assert list(users) == ["u"]
    assert json.loads(path.read_text().split("\n")[0])["made"] != json.loads(first)["made"]
    with again.users() as users:
        assert list(users) == ["u"]
    assert os.stat(path).st_mode & 0o777 == 0o600


def test_lines_are_added_in_order_and_in_their_letters(tmp_path):
    file = MemoryFile(tmp_path / "m.jsonl")
    first = learned(1, "a", 1, statement("1", "Søt te."))
    second = learned(2, "b", 1, statement("2", "half \ud800"))
    with file.changing():
        file.append(first)
        file.append(learned(2, "b", 1, statement("2", TEA)))
        with file.users() as users:
            assert list(users["u"].known()) == ["1", "2"]
    with file.changing():
        file.rewrite([first, second])
    _, *lines = file.path.read_text(encoding="utf-8").splitlines()
    assert "Søt te." in lines[0]
    with MemoryFile(file.path).users() as users:
        assert users["u"].known() == {"1": "Søt te.", "2": "half ?"}


def test_a_memory_may_lie_in_folders_that_are_not_there_yet(tmp_path):
    memory = ikat.UserMemory(tmp_path / "a" / "b" / "c" / "users.jsonl")
    memory.add("u", [LYON])
    assert ikat.UserMemory(memory.path).known("u") == {"1": LYON}


# Runs and damages


def test_a_file_of_no_run_is_not_taken_by_a_run(tmp_path):
    file = MemoryFile(tmp_path / "m.jsonl")
    with file.changing():
        file.append(learned(1, "a", 1, statement("1", LYON)))
    with pytest.raises(ikat.DataError, match="was not made by the run r: give each run a file"):
        MemoryFile(tmp_path / "m.jsonl", "r")


def test_a_file_belongs_to_one_run(tmp_path, notes):
    memory = ikat.UserMemory(tmp_path / "users.jsonl", notes, run="r1")
    memory.learn("u1", "a", chat(DOG))
    with pytest.raises(
        ikat.DataError, match="was not made by the run r2: give each run a file of its own"
    ):
        ikat.UserMemory(memory.path, notes, run="r2")
    ikat.UserMemory(memory.path, notes).learn("u1", "b", chat(TEA))
    assert len(ikat.UserMemory(memory.path, run="r1").known("u1")) == 2


def test_a_file_stays_its_runs_when_another_program_forgets(tmp_path):
    path = tmp_path / "m.jsonl"
    ikat.UserMemory(path, run="r1").add("u", [LYON, DOG])
    other = ikat.UserMemory(path)
    other.forget("u", id="1")
    assert other.run == "r1"
    assert ikat.UserMemory(path, run="r1").run == "r1"
    with pytest.raises(ikat.DataError, match="was not made by the run r2"):
        ikat.UserMemory(path, run="r2")


def test_a_damaged_file_that_is_restored_is_read_again(memory):
    memory.add("u", [LYON])
    memory.add("v", [TEA])
    whole = memory.path.read_bytes()
    memory.path.write_bytes(whole + b'{"user": 5}\n')
    for _ in range(2):
        with pytest.raises(ikat.DataError, match="is not a memory of users, or is damaged"):
            memory.users()
    memory.path.write_bytes(whole)
    assert memory.users() == ["u", "v"]
    assert len(memory.export("u")) == len(memory.export("v")) == 1


@pytest.mark.parametrize(
    "damage",
    [
        lambda file: file.partition(b"\n")[2],
        lambda file: file.replace(b"learned", b"lerned"),
        lambda file: file.replace(b'"id"', b'"it"'),
        lambda file: b'["I own a dog"]',
        lambda file: file.replace(b'"user"', b'"u"'),
        lambda file: file + b"\xff\n",
    ],
)
def test_a_damaged_file_is_refused_without_a_word_of_it(memory, damage):
    memory.learn("u1", "a", chat(DOG))
    memory.path.write_bytes(damage(memory.path.read_bytes()))
    with pytest.raises(ikat.DataError, match="is not a memory of users, or is damaged") as error:
        ikat.UserMemory(memory.path)
    assert "dog" not in str(error.value)
    assert error.value.__cause__ is None


def test_a_removed_or_older_file_is_read_as_it_is(tmp_path):
    memory = ikat.UserMemory(tmp_path / "users.jsonl")
    memory.add("u1", [DOG])
    older = memory.path.read_bytes()
    memory.add("u1", [TEA])
    memory.path.write_bytes(older)  # from a copy
    assert memory.known("u1") == {"1": DOG}
    memory.path.unlink()
    assert memory.known("u1") == {}
    memory.add("u1", [TEA])
    assert ikat.UserMemory(memory.path).known("u1") == {"1": TEA}


# Other programs and threads


def test_other_programs_changes_are_seen_and_others_cannot_read(memory, notes):
    other = ikat.UserMemory(memory.path, notes)
    other.add("u1", [DOG])
    assert memory.known("u1") == {"1": DOG}
    other.forget("u1")
    other.learn("u1", "b", chat("Søt te, 🍵."))
    assert memory.known("u1") == ikat.UserMemory(memory.path).known("u1") == {"1": "Søt te, 🍵."}
    assert memory.users() == other.users() == ["u1"]
    assert stat.S_IMODE(memory.path.stat().st_mode) == 0o600
    assert repr(memory) == f"ikat.UserMemory({str(memory.path)!r})"


def test_users_are_for_one_thread_at_a_time(memory):
    memory.add("u", [LYON])
    begun = Event()

    def use():
        begun.set()
        memory.users()

    other = Thread(target=use)
    with memory._file.users():
        other.start()
        assert begun.wait(20)
        other.join(0.02)
        assert other.is_alive()
    other.join(20)
    assert not other.is_alive()


def test_what_others_write_before_the_lock_is_seen_in_it(memory, monkeypatch):
    """A lock of the file alone, which another program holds until it has changed the file."""
    memory.add("u", [LYON])
    other = ikat.UserMemory(memory.path)
    locks = []

    class Lock:
        def __init__(self, path, timeout):
            locks.append((path, timeout))

        def __enter__(self):
            if len(locks) == 1:
                other.add("u", [DOG])

        def __exit__(self, *error):
            pass

    monkeypatch.setattr("filelock.FileLock", Lock)
    memory.add("u", [TEA])
    assert memory.known("u") == {"1": LYON, "2": DOG, "3": TEA}
    assert locks == [(memory.path.with_name(".users.jsonl.lock"), LOCK_TIMEOUT)] * 2


def test_a_folder_that_takes_no_lock_is_refused_at_once(memory, monkeypatch):
    def lock(path, timeout):
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr("filelock.FileLock", lock)
    with pytest.raises(ikat.UsageError, match=r"can't be used \(Permission denied\): give another"):
        memory.require_learning()


def test_a_lock_that_another_holds_too_long_is_told(memory, monkeypatch):
    monkeypatch.setattr(memory_file, "LOCK_TIMEOUT", 0.01)
    memory.add("u", [LYON])
    path = memory.path.with_name(".users.jsonl.lock")
    with filelock.FileLock(path), pytest.raises(ikat.UsageError) as raised:
        memory.add("u", [DOG])
    assert f"the memory {memory.path} can't be used (" in str(raised.value)
    assert ".users.jsonl.lock" in str(raised.value)
    assert "None" not in str(raised.value)
    assert memory.known("u") == {"1": LYON}


def test_concurrent_processes_and_threads_lose_and_mix_nothing(tmp_path):
    path = tmp_path / "users.jsonl"

    def work(process):
        one = ikat.UserMemory(path, Notes())
        with ThreadPoolExecutor(6) as threads:
            running = []
            for user in ("u0", "u1"):
                i_am = f"I am {process} of {user}"
                running += [
                    threads.submit(one.add, user, [f"{i_am}, told."]),
                    threads.submit(one.learn, user, f"{process}-1", chat(f"{i_am}, once.")),
                    threads.submit(one.learn, user, f"{process}-2", chat(f"{i_am}, twice.")),
                ]
            for call in running:
                call.result()

    children = [started(partial(work, process)) for process in "abc"]
    for child in children:
        assert os.waitpid(child, 0)[1] == 0
    for user in ("u0", "u1"):
        found = ikat.UserMemory(path).known(user)
        assert sorted(found.values()) == [
            f"I am a of {user}, once.",
            f"I am a of {user}, told.",
            f"I am a of {user}, twice.",
            f"I am b of {user}, once.",
            f"I am b of {user}, told.",
            f"I am b of {user}, twice.",
            f"I am c of {user}, once.",
            f"I am c of {user}, told.",
            f"I am c of {user}, twice.",
        ]
        assert list(found) == ["1", "2", "3", "4", "5", "6", "7", "8", "9"]


# Kills


CHANGES = [
    (lambda memory: memory.add("u1", [DOG]), {"1": DOG}),
    (lambda memory: memory.learn("u1", "a", chat(LYON)), {"1": DOG, "2": LYON}),
    (lambda memory: memory.forget("u1", id="1"), {"2": LYON}),
]
"""What begins a file, adds a line to it, and writes it anew, and what is known then."""


def test_a_kill_keeps_all_that_was_acknowledged_and_nothing_half(tmp_path):
    acknowledged = tmp_path / "acknowledged"
    number = 0
    folder = tmp_path / "memory"
    path = folder / "users.jsonl"
    states = [{}, *[known for _, known in CHANGES]]

    def work():
        one = ikat.UserMemory(path, Notes())
        for count, (change, _) in enumerate(CHANGES, 1):
            change(one)
            acknowledged.write_text(str(count))

    # imports what no killed process imports again
    ikat.UserMemory(tmp_path / "other.jsonl", Notes()).learn("u1", "a", chat(LYON))
    acknowledged.write_text("0")
    while killed_before(number, folder, work):
        done = int(acknowledged.read_text())
        assert ikat.UserMemory(path).known("u1") in states[done : done + 2]
        for file in folder.rglob("*users*"):
            assert file.suffix == ".lock" or stat.S_IMODE(file.stat().st_mode) == 0o600
        ikat.UserMemory(path).add("u2", [TEA])
        assert list(folder.glob(".*.tmp")) == []
        shutil.rmtree(folder)
        acknowledged.write_text("0")
        number += 1
    assert number >= 12
    assert ikat.UserMemory(path).known("u1") == states[-1]


@given(st.data())
def test_a_line_that_a_kill_cut_at_any_byte_does_not_count(tmp_path_factory, data):
    memory = ikat.UserMemory(tmp_path_factory.mktemp("m") / "users.jsonl")
    memory.add("u1", [DOG])
    acknowledged = memory.path.stat().st_size
    memory.add("u1", ["Søt te, 🍵."])
    whole = memory.path.read_bytes()
    end = data.draw(st.integers(acknowledged, len(whole) - 1))
    memory.path.write_bytes(whole[:end])
    left = ikat.UserMemory(memory.path)
    assert left.known("u1") == memory.known("u1") == {"1": DOG}
    left.add("u1", [TEA])
    assert memory.known("u1") == {"1": DOG, "2": TEA}


def test_what_a_killed_rewrite_left_is_removed_by_any_name(tmp_path):
    memory = ikat.UserMemory(tmp_path / "users[1].jsonl")
    memory.add("u1", [DOG])
    left = tmp_path / ".users[1].jsonl.0123.tmp"
    other = tmp_path / ".users1.jsonl.0123.tmp"
    left.write_text("personal data")
    other.write_text("personal data")
    memory.add("u1", [TEA])
    assert not left.exists()
    assert other.exists()
