"""Files appear whole or not at all, with the rights that the user's umask gives.

Of JSON lines, whole ones are read, a cut one is dropped, a damaged one is named.
"""

import os
import platform
from contextlib import contextmanager
from datetime import datetime, timezone

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pyterrier_ikat.errors import DataError, UsageError
from pyterrier_ikat.store import files
from pyterrier_ikat.store.files import (
    append_line,
    atomic_write,
    drop_cut_line,
    flush,
    hold_lock,
    home_folder,
    lock_folders,
    lock_holder,
    read_lines,
    remove_empty,
)


def test_what_breaks_off_leaves_the_old_file_and_nothing_else(tmp_path):
    path = tmp_path / "new folder" / "figures.txt"
    with atomic_write(path) as file:
        file.write("old")
    with pytest.raises(TypeError), atomic_write(path, "wb") as file:
        file.write("new, but no bytes")
    assert path.read_text() == "old"
    assert os.listdir(path.parent) == ["figures.txt"]


def test_a_full_disk_is_told_with_the_name_of_the_file(tmp_path, monkeypatch):
    def fsync(descriptor):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(files, "fsync", fsync)
    with (
        pytest.raises(OSError, match="No space left on device: '.*/figures.txt'"),
        atomic_write(tmp_path / "figures.txt") as file,
    ):
        file.write("0.25")


def test_rights_are_those_of_the_umask(tmp_path):
    before = os.umask(0o027)
    try:
        with atomic_write(tmp_path / "figures.txt") as file:
            file.write("0.25")
    finally:
        os.umask(before)
    assert (tmp_path / "figures.txt").stat().st_mode & 0o777 == 0o640


def test_the_content_is_on_the_disk_before_the_file_has_its_name(tmp_path, monkeypatch):
    path = tmp_path / "figures.txt"
    flushed = []

    def fsync(descriptor):
        about = os.fstat(descriptor)
        flushed.append((about.st_ino, about.st_size, path.exists()))

    monkeypatch.setattr(files, "fsync", fsync)
    with atomic_write(path) as file:
        file.write("0.25")
    assert flushed == [(path.stat().st_ino, len("0.25"), False)]


def test_a_device_is_written_to_and_stays_a_device(tmp_path):
    device = tmp_path / "null"
    device.symlink_to(os.devnull)
    with atomic_write(device) as file:
        file.write("0.25")
    assert os.listdir(tmp_path) == ["null"]
    assert device.is_char_device()


def test_ctrl_c_leaves_no_file(tmp_path):
    def interrupted():
        with atomic_write(tmp_path / "file") as file:
            file.write("half")
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        interrupted()
    assert list(tmp_path.iterdir()) == []


def test_a_private_file_is_its_owners_alone_from_its_first_byte(tmp_path):
    path = tmp_path / "deep" / "private.txt"
    with atomic_write(path, private=True) as file:
        file.write("a\n")
        (temporary,) = path.parent.iterdir()
        assert temporary.stat().st_mode & 0o777 == 0o600
    assert path.stat().st_mode & 0o777 == 0o600
    assert path.read_bytes() == b"a\n"


def test_a_cut_line_is_dropped_and_whole_ones_stay(tmp_path):
    path = tmp_path / "lines.jsonl"
    drop_cut_line(path)
    assert not path.exists()
    append_line(path, '{"text": "\ud83d"}')
    append_line(path, '{"a": 1}')
    drop_cut_line(path)
    whole = path.read_bytes()
    assert whole == b'{"text": "?"}\n{"a": 1}\n'
    for cut in (b'{"b": ', b"x"):
        path.write_bytes(whole + cut)
        drop_cut_line(path)
        assert path.read_bytes() == whole
    path.write_bytes(b'{"b"')
    drop_cut_line(path)
    assert path.read_bytes() == b""
    path.write_bytes(whole)
    assert list(read_lines(path)) == [(1, {"text": "?"}), (2, {"a": 1})]


def test_a_lock_is_held_by_one_and_is_gone_afterwards(tmp_path):
    path = tmp_path / "deep" / "lock"
    with hold_lock(path) as first:
        with hold_lock(path) as second:
            assert (first, second) == (True, False)
        assert f"process {os.getpid()} on " in lock_holder(path)
        with hold_lock(path) as third:
            assert third is False  # who doesn't hold it doesn't remove it
    assert not path.exists()
    assert lock_holder(path) == "another process"
    path.write_text("process 1 on a killed machine, with a long name that is left over")
    with hold_lock(path) as held:
        assert held
        assert "killed" not in path.read_text()


def test_folders_are_locked_together_or_not_at_all(tmp_path):
    one = tmp_path / "one"
    two = tmp_path / "two"
    new = tmp_path / "new" / "three"
    with hold_lock(tmp_path / ".two.lock"):
        with (
            pytest.raises(UsageError, match=f"{two} is being made by process {os.getpid()}"),
            lock_folders(two, one, new),
        ):
            pytest.fail("one of them is held")
        assert sorted(path.name for path in tmp_path.iterdir()) == [".two.lock"]
    with lock_folders(one, new):
        assert (tmp_path / "new" / ".three.lock").exists()
    assert list(tmp_path.iterdir()) == []


def test_the_home_folder_is_the_named_one(monkeypatch, tmp_path):
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("IKAT_HOME", "~/mine")
    assert home_folder() == tmp_path / "mine"
    monkeypatch.setenv("IKAT_HOME", "")
    monkeypatch.setenv("PYTERRIER_HOME", str(tmp_path / "pyterrier"))
    assert home_folder() == tmp_path / "pyterrier" / "ikat"


def test_text_has_the_same_bytes_on_every_system_and_bytes_stay(tmp_path):
    path = tmp_path / "a"
    with atomic_write(path) as file:
        file.write("é\n")
        file.write("b\r\n")
    assert path.read_bytes() == b"\xc3\xa9\nb\r\n"
    with atomic_write(str(path), "wb") as file:
        file.write(b"\xff\n")
    assert path.read_bytes() == b"\xff\n"


def test_a_file_of_an_error_is_the_one_that_was_to_be_written(tmp_path):
    (tmp_path / "folder").mkdir()
    (tmp_path / "folder" / "in it").touch()
    with pytest.raises(OSError, match="folder") as failed, atomic_write(tmp_path / "folder"):
        pass
    assert failed.value.filename == str(tmp_path / "folder")
    assert os.listdir(tmp_path) == ["folder"]
    with pytest.raises(FileNotFoundError, match="another file"), atomic_write(tmp_path / "a"):
        (tmp_path / "another file").read_text()
    assert os.listdir(tmp_path) == ["folder"]


def test_what_was_put_into_a_folder_is_flushed_with_it(tmp_path, monkeypatch):
    (tmp_path / "a").write_text("a")
    flushed = []
    descriptors = []

    def fsync(descriptor):
        flushed.append(os.fstat(descriptor).st_ino)
        descriptors.append(descriptor)

    monkeypatch.setattr(files, "fsync", fsync)
    for path in (tmp_path / "a", tmp_path):
        flush(path)
        with pytest.raises(OSError, match="Bad file descriptor"):  # it was closed
            os.fstat(descriptors[-1])
    assert flushed == [(tmp_path / "a").stat().st_ino, tmp_path.stat().st_ino]


def test_a_folder_is_removed_only_if_it_is_empty(tmp_path):
    (tmp_path / "full").mkdir()
    (tmp_path / "full" / "a").touch()
    (tmp_path / "empty").mkdir()
    for name in ("full", "empty", "none"):
        remove_empty(tmp_path / name)
    assert os.listdir(tmp_path) == ["full"]


def test_a_lock_is_released_after_an_error(tmp_path):
    def fails():
        with lock_folders(tmp_path / "new" / "a"):
            assert (tmp_path / "new" / ".a.lock").exists()
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        fails()
    assert list(tmp_path.iterdir()) == []
    with lock_folders(tmp_path / "a"):
        pass


def test_who_holds_a_lock_is_told_by_process_and_machine(tmp_path):
    with hold_lock(tmp_path / "lock"):
        told = lock_holder(tmp_path / "lock")
    assert told.startswith(f"process {os.getpid()} on {platform.node()} since 20")
    assert told.endswith(" UTC")
    (tmp_path / "lock").write_bytes(b"")
    assert lock_holder(tmp_path / "lock") == "another process"
    (tmp_path / "lock").write_bytes(b"\xff")
    assert lock_holder(tmp_path / "lock") == "\ufffd"


def test_a_lock_is_dated_in_utc_wherever_its_holder_is(tmp_path, monkeypatch):
    class Clock:
        @staticmethod
        def now(zone):
            return datetime(2026, 3, 1, 9, 5, 7, tzinfo=timezone.utc).astimezone(zone)

    monkeypatch.setattr(files, "datetime", Clock)
    with hold_lock(tmp_path / "lock"):
        assert lock_holder(tmp_path / "lock").endswith(" since 2026-03-01 09:05:07 UTC")


@pytest.mark.linux
def test_a_fork_leaves_the_lock_to_its_parent(tmp_path):
    with hold_lock(tmp_path / "lock"):
        holding = hold_lock(tmp_path / "other")
        holding.__enter__()
        child = os.fork()
        if child == 0:
            holding.__exit__(None, None, None)
            os._exit(0)
        assert os.waitpid(child, 0)[1] == 0
        assert (tmp_path / "other").exists()
        holding.__exit__(None, None, None)
    assert list(tmp_path.iterdir()) == []


def test_a_home_that_cannot_be_made_is_told(monkeypatch):
    def fails():
        raise OSError("read-only")

    monkeypatch.delenv("IKAT_HOME", raising=False)
    monkeypatch.setattr("pyterrier.io.pyterrier_home", fails)
    with pytest.raises(DataError, match=r"\(read-only\): set IKAT_HOME to a folder"):
        home_folder()


def test_only_a_parent_made_for_a_lock_is_removed(tmp_path):
    (tmp_path / "there").mkdir()
    with lock_folders(tmp_path / "there" / "a", tmp_path / "new" / "a"):
        assert (tmp_path / "new").exists()
    assert os.listdir(tmp_path) == ["there"]


def test_folders_are_locked_in_one_order_whatever_is_asked(tmp_path, monkeypatch):
    locked = []

    @contextmanager
    def hold(path):
        locked.append(path.name)
        yield True

    monkeypatch.setattr("pyterrier_ikat.store.files.hold_lock", hold)
    with lock_folders(tmp_path / "b", tmp_path / "a", tmp_path / "c"):
        assert locked == [".a.lock", ".b.lock", ".c.lock"]


def test_a_lock_file_that_was_removed_meanwhile_locks_nothing(tmp_path, monkeypatch):
    def too_late(descriptor, *, blocking):
        assert blocking is False
        (tmp_path / "lock").unlink()
        return True

    monkeypatch.setattr("filelock.lock_descriptor", too_late)
    with hold_lock(tmp_path / "lock") as held:
        assert held is False


def test_an_appended_line_is_whole_when_it_is_flushed_to_disk(tmp_path, monkeypatch):
    sizes = []
    monkeypatch.setattr(files, "fsync", lambda opened: sizes.append(os.fstat(opened).st_size))
    for _ in range(2):
        append_line(tmp_path / "a", "é")
    assert sizes == [3, 6]


def test_names_that_differ_behind_a_dot_have_their_own_locks(tmp_path):
    with lock_folders(tmp_path / "v1.0"), lock_folders(tmp_path / "v1.1"):
        assert sorted(os.listdir(tmp_path)) == [".v1.0.lock", ".v1.1.lock"]


@pytest.mark.parametrize("private", [False, True])
def test_bytes_replace_a_file_and_are_private_if_asked(tmp_path, private):
    path = tmp_path / "a"
    path.write_bytes(b"a longer content than before")
    with atomic_write(path, "wb", private=private) as file:
        file.write(b"\xff\r\n")
    assert path.read_bytes() == b"\xff\r\n"
    assert (path.stat().st_mode & 0o077 == 0) is private
    with atomic_write(path, private=private) as file:
        file.write("é\n")
    assert path.read_bytes() == b"\xc3\xa9\n"
    assert os.listdir(tmp_path) == ["a"]


def test_the_last_of_several_folders_may_be_the_one_that_is_held(tmp_path):
    with (
        hold_lock(tmp_path / ".c.lock"),
        pytest.raises(UsageError, match=f"^{tmp_path / 'c'} is being made by process"),
        lock_folders(tmp_path / "a", tmp_path / "b", tmp_path / "c"),
    ):
        pytest.fail("the last one is held")
    assert list(tmp_path.iterdir()) == []


# JSON lines


@given(st.integers(0, 60))
def test_a_cut_at_any_byte_loses_only_the_last_line(tmp_path_factory, size):
    path = tmp_path_factory.mktemp("lines") / "a.jsonl"
    for number in range(3):
        append_line(path, f'{{"number": {number}, "é": ""}}')
    whole = path.read_bytes()
    path.write_bytes(whole[:size])
    drop_cut_line(path)
    kept = whole[:size].count(b"\n")
    assert [(line, found["number"]) for line, found in read_lines(path)] == [
        (number + 1, number) for number in range(kept)
    ]
    append_line(path, '{"number": 9}')
    assert [found["number"] for _, found in read_lines(path)] == [*range(kept), 9]


def test_a_missing_file_has_no_lines(tmp_path):
    drop_cut_line(tmp_path / "a")
    assert list(read_lines(tmp_path / "a")) == []


@pytest.mark.parametrize("line", ["{", "[]", "1", ""])
def test_a_damaged_line_is_named(tmp_path, line):
    append_line(tmp_path / "a", "{}")
    append_line(tmp_path / "a", line)
    with pytest.raises(DataError, match="line 2"):
        list(read_lines(tmp_path / "a"))


def test_a_last_line_that_was_cut_is_not_read(tmp_path):
    for cut in (b'{"b"', b'{"b": 1}', b"\r"):
        (tmp_path / "a").write_bytes(b'{"a": "\xe2\x80\xa8"}\n' + cut)
        assert list(read_lines(tmp_path / "a")) == [(1, {"a": "\u2028"})]
