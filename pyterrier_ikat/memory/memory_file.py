"""The file of a memory: JSON lines that are appended, and rewritten only to forget.

The first line is ``{"format": 2, "run": NAME, "made": ID}``, with a new ID when the file is rewritten. Each other line is an event, see
:mod:`pyterrier_ikat.memory.history`. A line is on the disk before the call that adds it returns. A last line that a kill cut doesn't count,
and the next change removes it.
"""

import glob
import json
import os
import re
import threading
import time
from collections.abc import Iterable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from uuid import uuid4

from ..errors import DataError, UsageError
from ..store.files import append_line, atomic_write
from ..store.locks import hold_lock, lock_holder
from .history import Event, History

FORM = 2
BEGINNING = re.compile(rb'\{\s*"format": (\d+)')
PAUSE, PATIENCE = 0.02, 60.0
"""The seconds between two attempts to lock the file, and the most seconds to wait for the lock."""


class MemoryFile:
    """What is known of users, as the file has it at each look; only what was added since the last look is read.

    Args:
        path: the file; it is made at the first change.
        run: the run that it belongs to; empty for whichever made it.

    Raises:
        UsageError: when the path is a folder.
        DataError: when the file is not a memory, or belongs to another run.
    """

    def __init__(self, path: str | Path, run: str = "") -> None:
        self.path, self.run = Path(path), run
        self._looking, self._writing = threading.RLock(), threading.Lock()
        self._begin()
        if self.path.is_dir():
            raise UsageError(f"{path} is a folder: give a file for the memory of users")
        with self.users():
            pass

    def __reduce__(self) -> tuple[type["MemoryFile"], tuple[Path, str]]:
        return MemoryFile, (self.path, self.run)

    def _begin(self) -> None:
        self._head, self._end, self._changed = b"", 0, 0
        self._users: dict[str, History] = {}
        self.sessions: dict[str, str] = {}
        """The user of each session."""

    @contextmanager
    def users(self) -> Iterator[dict[str, History]]:
        """The users; nothing changes them inside the block, which one thread at a time is in."""
        with self._looking:
            try:
                self._look()
            except BaseException:
                self._begin()
                raise
            yield self._users

    @contextmanager
    def changing(self) -> Iterator[dict[str, History]]:
        """The users, to be changed by :meth:`append` or :meth:`rewrite`: one thread of one process at a time."""
        with self._writing, ExitStack() as held:
            lock, started = self.path.with_name(f".{self.path.name}.lock"), time.monotonic()
            try:
                while not held.enter_context(hold_lock(lock)):
                    if time.monotonic() - started > PATIENCE:
                        raise UsageError(f"the memory {self.path} is held by {lock_holder(lock)}: wait, or stop it")
                    time.sleep(PAUSE)
                for left in self.path.parent.glob(f".{glob.escape(self.path.name)}.*.tmp"):  # by a killed process
                    left.unlink(missing_ok=True)
                with self.users() as users:
                    yield users
            except OSError as error:
                raise UsageError(f"the memory {self.path} can't be written ({error.strerror}): give another file") from None

    def append(self, *events: Event) -> None:
        """Add events, inside :meth:`changing`: they are on the disk when this returns."""
        if not self._head:
            self.rewrite(())
        if self.path.stat().st_size > self._end:  # a line that was cut
            os.truncate(self.path, self._end)
        self.path.chmod(0o600)
        append_line(self.path, "\n".join(json.dumps(event, ensure_ascii=False) for event in events))
        self._look()

    def rewrite(self, events: Iterable[Event]) -> None:
        """Put a file with these events alone in the place of the old one, inside :meth:`changing`: of others no byte is left."""
        with atomic_write(self.path, "wb", private=True) as file:
            for line in ({"format": FORM, "run": self.run, "made": uuid4().hex}, *events):
                file.write(json.dumps(line, ensure_ascii=False).encode("utf-8", "replace") + b"\n")
        self._look()

    def _look(self) -> None:
        """Read what was added since the last look; everything, where the file was rewritten."""
        try:
            with self.path.open("rb") as file:
                head, state = file.readline(), os.fstat(file.fileno())
                edited = state.st_size == self._end and state.st_mtime_ns != self._changed
                if head != self._head or state.st_size < self._end or edited:
                    self._begin()
                    self._check(head + file.readline())
                    self._head, self._end = head, len(head)
                file.seek(self._end)
                lines = file.read().split(b"\n")[:-1]
        except FileNotFoundError:
            self._begin()
            return
        except OSError as error:
            raise UsageError(f"the memory {self.path} can't be read ({error.strerror}): give another file") from None
        try:
            for line in lines:
                self._take(json.loads(line))
        except (ValueError, KeyError, TypeError, AttributeError, RecursionError):  # whose texts would quote the file
            raise self._no_memory() from None
        self._end, self._changed = self._end + sum(len(line) + 1 for line in lines), state.st_mtime_ns

    def _take(self, event: Event) -> None:
        user = event["user"]
        if not isinstance(user, str):
            raise TypeError
        self._users.setdefault(user, History()).take(event)
        if event["session"]:
            self.sessions.setdefault(event["session"], user)

    def _check(self, beginning: bytes) -> None:
        found = BEGINNING.match(beginning)
        if found is None:
            raise self._no_memory()
        if int(found[1]) != FORM:
            raise DataError(f"the memory {self.path} has format {int(found[1])}, but this version reads format {FORM}: give another file")
        try:
            made_by = json.loads(beginning.partition(b"\n")[0])["run"]
        except (ValueError, KeyError):
            raise self._no_memory() from None
        if self.run and made_by != self.run:
            raise DataError(f"the memory {self.path} was not made by the run {self.run}: give each run a file of its own")
        self.run = made_by

    def _no_memory(self) -> DataError:
        return DataError(f"{self.path} is not a memory of users, or is damaged: restore it, or give another file")
