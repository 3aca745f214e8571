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
from .history import History, MemoryEvent

LOCK_TIMEOUT = 60.0
"""The maximum number of seconds to wait for another process that changes the file."""


class MemoryFile:
    """The histories of all users, kept in step with the file.

    Each look reads only what was added since the last one.

    Args:
        path: the file; it is made at the first change.
        run: the run that it belongs to; empty for whichever made it.

    Raises:
        UsageError: when the file can't be read.
        DataError: when the file is not a memory, or belongs to another run.
    """

    def __init__(self, path: str | Path, run: str = "") -> None:
        self.path = Path(path)
        self.run = run
        self._lock = threading.RLock()
        self._begin(b"")
        with self.users():
            pass

    def _begin(self, head: bytes) -> None:
        """Begin to read a file from its start. ``head`` is its first line."""
        self._head = head
        self._end = len(head)
        self._users: dict[str, History] = {}
        if not head:
            return
        run = json.loads(head)["run"]
        if self.run not in ("", run):
            raise DataError(
                f"the memory {self.path} was not made by the run {self.run}: "
                "give each run a file of its own"
            )
        self.run = run

    @contextmanager
    def users(self) -> Iterator[dict[str, History]]:
        """Give access to the users, to one thread at a time; nothing changes them meanwhile."""
        try:
            with self._lock:
                self._look()
                yield self._users
        except OSError as error:
            raise UsageError(
                f"the memory {self.path} can't be used ({error.strerror or error}): "
                "give another file"
            ) from None

    @contextmanager
    def changing(self) -> Iterator[dict[str, History]]:
        """Give access to the users for a change by :meth:`append` or :meth:`rewrite`.

        One thread of one process at a time is in the block.
        """
        from filelock import FileLock  # its import takes a while

        with self.users():
            self.path.parent.mkdir(parents=True, exist_ok=True)
            with FileLock(self.path.with_name(f".{self.path.name}.lock"), timeout=LOCK_TIMEOUT):
                # Remove what a killed process has left.
                for leftover in self.path.parent.glob(f".{glob.escape(self.path.name)}.*.tmp"):
                    leftover.unlink()
                self._look()
                yield self._users

    def append(self, *events: MemoryEvent) -> None:
        """Add events, inside :meth:`changing`: they are on the disk when this returns."""
        if not self._head:
            self.rewrite(())
        if self.path.stat().st_size > self._end:  # a kill cut the last line
            os.truncate(self.path, self._end)
        append_line(self.path, "\n".join(json.dumps(event, ensure_ascii=False) for event in events))
        self._look()

    def rewrite(self, events: Iterable[MemoryEvent]) -> None:
        """Replace the file by one with these events, inside :meth:`changing`.

        No byte of other events is left.
        """
        head = {"run": self.run, "made": uuid4().hex}
        with atomic_write(self.path, "wb", private=True) as file:
            for line in (head, *events):
                file.write(json.dumps(line, ensure_ascii=False).encode("utf-8", "replace") + b"\n")
        self._look()

    def _look(self) -> None:
        """Read what was added since the last look; read everything if the file was rewritten."""
        try:
            with self.path.open("rb") as file:
                head = file.readline()
                if head != self._head or os.fstat(file.fileno()).st_size < self._end:
                    self._begin(head)
                file.seek(self._end)
                lines = file.read().split(b"\n")[:-1]
            for line in lines:
                event = json.loads(line)
                self._users.setdefault(event["user"], History()).take(event)
                self._end += len(line) + 1
        except FileNotFoundError:
            self._begin(b"")
        except (ValueError, KeyError, TypeError):  # whose texts would quote the file
            self._begin(b"")
            raise DataError(
                f"{self.path} is not a memory of users, or is damaged: "
                "restore it, or give another file"
            ) from None
