"""Files appear whole or not at all, with the rights that the user's umask gives."""

import os

import pytest

from pyterrier_ikat.errors import UsageError
from pyterrier_ikat.store.files import (
    append_line,
    atomic_write,
    drop_cut_line,
    hold_lock,
    home_folder,
    lock_folders,
    lock_holder,
    read_lines,
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

    monkeypatch.setattr("os.fsync", fsync)
    with (
        pytest.raises(OSError, match="No space left on device: '.*/figures.txt'"),
        atomic_write(tmp_path / "figures.txt") as file,
    ):
        file.write("0.25")


def test_rights_are_those_of_the_umask_which_is_never_touched(tmp_path, monkeypatch):
    before = os.umask(0o027)
    try:
        # Changed for a moment, it would let other threads write files that anybody may write.
        monkeypatch.setattr(
            "os.umask", lambda mask: pytest.fail("the umask is the whole process's")
        )
        with atomic_write(tmp_path / "figures.txt") as file:
            file.write("0.25")
    finally:
        monkeypatch.undo()
        os.umask(before)
    assert (tmp_path / "figures.txt").stat().st_mode & 0o777 == 0o640


def test_the_content_is_on_the_disk_before_the_file_has_its_name(tmp_path, monkeypatch):
    path, rename, done = tmp_path / "figures.txt", os.replace, []

    def fsync(descriptor):
        about = os.fstat(descriptor)
        done.append(("flushed", about.st_ino, about.st_size))

    def replace(source, target):
        done.append(("renamed", os.stat(source).st_ino, os.path.exists(target)))
        rename(source, target)

    monkeypatch.setattr("os.fsync", fsync)
    monkeypatch.setattr("os.replace", replace)
    with atomic_write(path) as file:
        file.write("0.25")
    assert done == [
        ("flushed", path.stat().st_ino, len("0.25")),
        ("renamed", path.stat().st_ino, False),
    ]


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
    one, two, new = tmp_path / "one", tmp_path / "two", tmp_path / "new" / "three"
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
