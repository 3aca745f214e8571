"""The state of an index on disk, by which a search notices that another index was put in its place meanwhile."""

import os
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

from ..errors import DataError

FileState = tuple[int, ...]
"""A value that changes when a file is written again or replaced; empty where there is none."""


class Replaced(DataError):
    """An index was replaced while it was read."""


class Seen(NamedTuple):
    """What was seen of an index at one moment.

    Attributes:
        states: of its description and of all files that it names, by name.
        described: the description.
    """

    states: dict[str, FileState]
    described: dict[str, Any]


def file_state(path: "Path | str | int") -> FileState:
    """The state of a file: of its name, or of the open file with this number."""
    try:
        about = os.stat(path)
    except OSError:
        return ()
    return (about.st_dev, about.st_ino, about.st_size, about.st_mtime_ns)


def changed_at(state: FileState) -> int:
    """When a file was changed, in nanoseconds; 0 where there is none."""
    return state[-1] if state else 0


def states_of(folder: Path, names: Iterable[str]) -> dict[str, FileState]:
    """The states of files in a folder."""
    return {name: file_state(f"{folder}{os.sep}{name}") for name in names}  # a path for each would take as long as a third of a search


@contextmanager
def open_folder(path: Path) -> Iterator[Path]:
    """The folder that is at ``path`` now: a name that still leads to it where another one is put there, on systems that have such names."""
    if not hasattr(os, "O_DIRECTORY"):  # Windows opens no folders
        yield path
        return
    number = os.open(path, os.O_RDONLY | os.O_DIRECTORY)
    try:
        by_number = Path(f"/proc/self/fd/{number}")
        yield by_number if by_number.is_dir() else path
    finally:
        os.close(number)
