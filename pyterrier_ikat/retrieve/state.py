"""The state of an index on disk, by which a search notices that another index was put in its place meanwhile."""

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
"""How often a search begins again because the index was replaced meanwhile."""
Result = TypeVar("Result")

FileState = tuple[int, ...]
"""A value that changes when a file is written again or replaced; empty where there is none."""


class Replaced(DataError):
    """An index was replaced while it was read."""


@dataclass(frozen=True, eq=False)
class Seen:
    """What was seen of an index at one moment: one object as long as it stays as it is.

    Attributes:
        states: of its description and of all files that it names, by name.
        described: the description.
        checksum: of the description without its files.
        engines: those that the index has files of.
    """

    states: dict[str, FileState]
    described: dict[str, Any]
    checksum: str
    engines: list[str]


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


_looking = threading.Lock()


class WatchedFolder:
    """The folder of an index, in whose place another one may be put at any time: what is read together is of one of them."""

    path: Any
    descriptions: ClassVar[tuple[str, ...]]
    """The files that describe the index: when one of them or of the files that they name changes, the description is read again."""
    promised: str | None = None
    """The fingerprint that the index has to keep as long as a run uses it."""
    _seen: Seen | None = None

    @abstractmethod
    def _read_description(self, folder: Path) -> dict[str, Any]:
        """The description in a folder, checked, with the names of the ``files``."""

    @abstractmethod
    def _engines_in(self, files: Collection[str]) -> list[str]:
        """The engines that have what they need among the index's files."""

    def describe(self) -> dict[str, Any]:
        """The index's description, read again when the index was replaced.

        Raises:
            DataError: when the index is missing, incomplete, or in another format.
        """
        return self.look().described

    def fingerprint(self) -> str:
        """A checksum that differs for other passages or other build settings."""
        return self.fingerprint_of(self.look())

    def fingerprint_of(self, seen: Seen) -> str:
        """The fingerprint of the index as it was seen."""
        return seen.checksum

    def look(self) -> Seen:
        """What is to be seen of the index now: the same object as long as neither its description nor a file of it changed."""
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
            except (FileNotFoundError, IkatError) as error:  # of one index, and files of another
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
        """What ``work`` gives while the index stays as it is; it begins again where another index was put in its place meanwhile.

        Args:
            work: gets the index as it is seen now, to be given to :meth:`check_unchanged` before anything is kept.

        Raises:
            Replaced: when the index isn't the one that was promised to a run, or is replaced again and again.
        """
        for _ in range(ATTEMPTS):
            seen = self.look()
            try:
                if self.promised is not None and self.fingerprint_of(seen) != self.promised:
                    break
                found = work(seen)
                self.check_unchanged(seen)
                return found
            except Exception:  # also what PISA and the operating system say of files that are gone
                if self.look() is seen:
                    raise
        if self.promised is not None:
            raise self._was_replaced("while a run used it: put back the index that the run began with, or start the run again elsewhere")
        raise self._was_replaced(f"{ATTEMPTS} times while it was searched: wait until it stays, and search again")

    def check_unchanged(self, seen: Seen) -> None:
        """Check that the index is as it was seen.

        Raises:
            Replaced: when another one is in its place.
        """
        if self.look() is not seen:
            raise self._was_replaced("while it was searched: search again")

    def _was_replaced(self, when: str) -> Replaced:
        return Replaced(f"the index {self.path} was replaced by another one {when}")

    @contextmanager
    def held(self, seen: Seen) -> Iterator[Path]:
        """The folder of the index as it was seen, to open files in it: none of them is another index's.

        Raises:
            Replaced: when another index is there, or is put there meanwhile.
        """
        with open_folder(Path(self.path)) as folder:
            self._check_held(folder, seen)
            yield folder
            self._check_held(folder, seen)

    def _check_held(self, folder: Path, seen: Seen) -> None:
        self.check_unchanged(seen)
        if states_of(folder, seen.states) != seen.states:
            raise self._was_replaced("while it was opened: search again")
