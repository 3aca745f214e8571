"""Files appear whole or not at all, with the rights that the user's umask gives."""

import os

import pytest

from pyterrier_ikat.store.files import atomic_write


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
