"""The file of a memory: JSON lines that are appended, and rewritten only to forget.

The first line is ``{"run": NAME, "made": ID}``, with a new ID when the file is rewritten. Each
other line is an event, see :mod:`pyterrier_ikat.memory.history`. A line is on the disk before the
call that adds it returns. A last line that a kill cut doesn't count, and the next change removes
it.
"""

import glob
import json
import os
import threading
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from uuid import uuid4

from ..errors import DataError, UsageError
from ..store.files import append_line, atomic_write
from .history import Event, History

PATIENCE = 60.0
"""The most seconds to wait for another process that changes the file."""


class MemoryFile:
    """What is known of users, as the file has it at each look; only what was added since the last look is read.

    Args:
        path: the file; it is made at the first change.
        run: the run that it belongs to; empty for whichever made it.

    Raises:
        UsageError: when the file can't be read.
        DataError: when the file is not a memory, or belongs to another run.
    """

    def __init__(self, path: str | Path, run: str = "") -> None:
        self.path, self.run = Path(path), run
        self._looking = threading.RLock()
        self._begin(b"")
        with self.users():
            pass

    def _begin(self, head: bytes) -> None:
        """Begin a look at a whole file, whose first line is ``head``."""
        self._head, self._end = head, len(head)
        self._users: dict[str, History] = {}
        if head:
            made_by = json.loads(head)["run"]
            if self.run not in ("", made_by):
                raise DataError(
                    f"the memory {self.path} was not made by the run {self.run}: give each run a file of its own"
                )
            self.run = made_by

    @contextmanager
    def users(self) -> Iterator[dict[str, History]]:
        """The users; nothing changes them inside the block, which one thread at a time is in."""
        try:
            with self._looking:
                self._look()
                yield self._users
        except OSError as error:
            raise UsageError(
                f"the memory {self.path} can't be used ({error.strerror or error}): give another file"
            ) from None

    @contextmanager
    def changing(self) -> Iterator[dict[str, History]]:
        """The users, to be changed by :meth:`append` or :meth:`rewrite`: one thread of one process at a time."""
        from filelock import FileLock  # its import takes a while

        with self.users():
            self.path.parent.mkdir(parents=True, exist_ok=True)
            with FileLock(self.path.with_name(f".{self.path.name}.lock"), timeout=PATIENCE):
                for left in self.path.parent.glob(
                    f".{glob.escape(self.path.name)}.*.tmp"
                ):  # by a killed process
                    left.unlink()
                self._look()
                yield self._users

    def append(self, *events: Event) -> None:
        """Add events, inside :meth:`changing`: they are on the disk when this returns."""
        if not self._head:
            self.rewrite(())
        if self.path.stat().st_size > self._end:  # a line that was cut
            os.truncate(self.path, self._end)
        append_line(self.path, "\n".join(json.dumps(event, ensure_ascii=False) for event in events))
        self._look()

    def rewrite(self, events: Iterable[Event]) -> None:
        """Put a file with these events alone in the place of the old one, inside :meth:`changing`: of others no byte is left."""
        with atomic_write(self.path, "wb", private=True) as file:
            for line in ({"run": self.run, "made": uuid4().hex}, *events):
                file.write(json.dumps(line, ensure_ascii=False).encode("utf-8", "replace") + b"\n")
        self._look()

    def _look(self) -> None:
        """Read what was added since the last look; everything, where the file was rewritten."""
        try:
            with self.path.open("rb") as file:
                head = file.readline()
                if head != self._head or os.fstat(file.fileno()).st_size < self._end:
                    self._begin(head)
                file.seek(self._end)
                lines = file.read().split(b"\n")[:-1]
            for event in map(json.loads, lines):
                self._users.setdefault(event["user"], History()).take(event)
            self._end += sum(len(line) + 1 for line in lines)
        except FileNotFoundError:
            self._begin(b"")
        except (ValueError, KeyError, TypeError):  # whose texts would quote the file
            self._begin(b"")
            raise DataError(
                f"{self.path} is not a memory of users, or is damaged: restore it, or give another file"
            ) from None
