"""The state of an index on disk. By it a search notices that the index was replaced meanwhile."""

import json
import os
import threading
from abc import abstractmethod
from collections.abc import Callable, Collection, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar, TypeVar

from ..errors import DataError, IkatError
from ..portable import digest

ATTEMPTS = 10
"""The maximum number of times that a search starts again because the index was replaced meanwhile."""
Result = TypeVar("Result")

FileState = tuple[int, ...]
"""A value that changes when a file is rewritten or replaced; empty if there is no file."""


class Replaced(DataError):
    """An index was replaced while it was read."""


@dataclass(frozen=True, eq=False)
class Seen:
    """The state of an index at one moment. It is the same object as long as the index is unchanged.

    Attributes:
        states: the states of the description and of all files that it names, by name.
        described: the description.
        checksum: the checksum of the description without its files.
        engines: the engines that the index has files for.
    """

    states: dict[str, FileState]
    described: dict[str, Any]
    checksum: str
    engines: list[str]


def file_state(path: "Path | str | int") -> FileState:
    """The state of a file, given its path or the number of the open file."""
    try:
        about = os.stat(path)
    except OSError:
        return ()
    return (about.st_dev, about.st_ino, about.st_size, about.st_mtime_ns)


def changed_at(state: FileState) -> int:
    """The time at which a file was changed, in nanoseconds; 0 if there is no file."""
    return state[-1] if state else 0


def states_of(folder: Path, names: Iterable[str]) -> dict[str, FileState]:
    """The states of files in a folder."""
    return {name: file_state(f"{folder}{os.sep}{name}") for name in names}  # a Path for each would take a third of the time of a search


@contextmanager
def open_folder(path: Path) -> Iterator[Path]:
    """A name of the folder that is at ``path`` now. On systems with such names, it leads to this folder even if ``path`` is replaced."""
    if not hasattr(os, "O_DIRECTORY"):  # Windows can't open folders
        yield path
        return
    number = os.open(path, os.O_RDONLY | os.O_DIRECTORY)
    try:
        by_number = Path(f"/proc/self/fd/{number}")
        yield by_number if by_number.is_dir() else path
    finally:
        os.close(number)


_looking = threading.Lock()


class WatchedFolder:
    """The folder of an index. It may be replaced at any time, but all that is read together comes from one index."""

    path: Any
    descriptions: ClassVar[tuple[str, ...]]
    """The files that describe the index. When one of them, or a file that they name, changes, the description is read again."""
    promised: str | None = None
    """The fingerprint that the index must keep while a run uses it."""
    _seen: Seen | None = None

    @abstractmethod
    def _read_description(self, folder: Path) -> dict[str, Any]:
        """The description in a folder, checked, with the names of the ``files``."""

    @abstractmethod
    def _engines_in(self, files: Collection[str]) -> list[str]:
        """The engines whose files are all among the index's files."""

    def describe(self) -> dict[str, Any]:
        """The index's description, read again when the index was replaced.

        Raises:
            DataError: when the index is missing, incomplete, or in another format.
        """
        return self.look().described

    def fingerprint(self) -> str:
        """A checksum that changes with the passages and the build settings."""
        return self.fingerprint_of(self.look())

    def fingerprint_of(self, seen: Seen) -> str:
        """The fingerprint of the index in the given state."""
        return seen.checksum

    def look(self) -> Seen:
        """The current state of the index. It is the same object as long as neither the description nor a file changes."""
        folder = Path(self.path)
        with _looking:
            if self._seen is None or self._seen.states != states_of(folder, self._seen.states):
                self._seen = self._read(folder)
            return self._seen

    def _read(self, folder: Path) -> Seen:
        for _ in range(ATTEMPTS):
            before = states_of(folder, self.descriptions)
            try:
                described = self._read_description(folder)
            except (FileNotFoundError, IkatError) as error:  # a description of one index, and files of another
                if isinstance(error, IkatError) and states_of(folder, self.descriptions) == before:
                    raise
                continue
            states = states_of(folder, [*self.descriptions, *described["files"]])
            if all(states[name] == state for name, state in before.items()):
                content = {name: value for name, value in described.items() if name != "files"}
                checksum = digest(json.dumps(content, sort_keys=True)).hex()
                return Seen(states, described, checksum, self._engines_in(described["files"]))
        raise self._was_replaced(f"{ATTEMPTS} times while it was opened: wait until it stays")

    def of_one_state(self, work: Callable[[Seen], Result]) -> Result:
        """The result of ``work`` on one state of the index. If the index is replaced meanwhile, ``work`` starts again.

        Args:
            work: gets the current state of the index, and passes it to :meth:`check_unchanged` before it stores anything.

        Raises:
            Replaced: when the index isn't the one that a run began with, or is replaced again and again.
        """
        for _ in range(ATTEMPTS):
            seen = self.look()
            try:
                if self.promised is not None and self.fingerprint_of(seen) != self.promised:
                    break
                found = work(seen)
                self.check_unchanged(seen)
                return found
            except Exception:  # also errors of PISA and the operating system about files that are gone
                if self.look() is seen:
                    raise
        if self.promised is not None:
            raise self._was_replaced("while a run used it: put back the index that the run began with, or start the run again elsewhere")
        raise self._was_replaced(f"{ATTEMPTS} times while it was searched: wait until it stays, and search again")

    def check_unchanged(self, seen: Seen) -> None:
        """Check that the index is still in the given state.

        Raises:
            Replaced: when it was replaced by another index.
        """
        if self.look() is not seen:
            raise self._was_replaced("while it was searched: search again")

    def _was_replaced(self, when: str) -> Replaced:
        return Replaced(f"the index {self.path} was replaced by another one {when}")

    @contextmanager
    def held(self, seen: Seen) -> Iterator[Path]:
        """The folder of the index in the given state, to open files in it. None of them belongs to another index.

        Raises:
            Replaced: when another index is at the path, or is put there meanwhile.
        """
        with open_folder(Path(self.path)) as folder:
            self._check_held(folder, seen)
            yield folder
            self._check_held(folder, seen)

    def _check_held(self, folder: Path, seen: Seen) -> None:
        self.check_unchanged(seen)
        if states_of(folder, seen.states) != seen.states:
            raise self._was_replaced("while it was opened: search again")
