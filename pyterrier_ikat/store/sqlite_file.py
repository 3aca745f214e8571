"""One sqlite file with one table, for any number of threads and processes (WAL), marked as ours in its header.

A damaged or foreign file is an error, never a wrong answer.
"""

import os
import sqlite3
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from weakref import WeakSet

from ..errors import DataError, advice

IN_MEMORY = ":memory:"
WAIT_FOR_OTHERS = 60.0

_files: "WeakSet[SqliteFile]" = WeakSet()
_closed: list["SqliteFile"] = []
_making = threading.Lock()


class SqliteFile:
    """A file that is opened at its first use, and again where it was removed or replaced meanwhile, or the process forks.

    Args:
        path: the file, made when it is missing; ``":memory:"`` keeps everything in this process.
        what: what it is called in errors, such as ``"cache of results"``.
        application_id: the number that marks it in sqlite's header.
        form: the version of its format.
        table: the statement that makes its table.
        hint: how else to go on when it cannot be used.
        option: how the command line names another file.
    """

    def __init__(
        self, path: str, what: str, *, application_id: int, form: int, table: str, hint: str = "", option: str = "cache=PATH"
    ) -> None:
        self.path, self.what, self.hint, self.option = path, what, hint, option
        self.application_id, self.form, self.table = application_id, form, table
        self._lock = threading.Lock()
        self._connection: sqlite3.Connection | None = None
        self._place: tuple[int, int] | None = None
        with _making:
            _files.add(self)

    @contextmanager
    def connection(self) -> Iterator[sqlite3.Connection]:
        """The connection, for one thread at a time; what was begun and not committed is rolled back.

        Raises:
            DataError: when the file can't be read or written, is damaged, or is none of this kind and format.
        """
        with self._lock:
            try:
                if self._place != self._found():  # what is written to a removed file is lost
                    self.close()
                if self._connection is None:
                    self._connection = self._connect()
                    self._place = self._found()
                yield self._connection
            except sqlite3.Error as error:
                self._give_up()
                raise DataError(
                    f"the {self.what} {self.path} cannot be used ({error}): free space or correct its permissions, "
                    f"or move the file away, or name another one with {self._elsewhere()}{self.hint}"
                ) from None
            except BaseException:
                self._give_up()
                raise

    def close(self) -> None:
        """Close the file; the next use opens it again."""
        if self._connection is not None:
            self._connection.close()
        self._connection = None

    def __del__(self) -> None:
        self.close()

    def _elsewhere(self) -> str:
        return advice("cache=PATH", self.option)

    def _give_up(self) -> None:
        if self.path != IN_MEMORY:
            self.close()
        elif self._connection is not None:
            self._connection.rollback()  # closed, it would lose everything

    def _found(self) -> tuple[int, int] | None:
        """Which file lies at the path now."""
        try:
            there = os.stat(self.path)
        except OSError:
            return None
        return there.st_dev, there.st_ino

    def _connect(self) -> sqlite3.Connection:
        if self.path != IN_MEMORY:
            try:
                Path(self.path).parent.mkdir(parents=True, exist_ok=True)
            except OSError as error:
                raise DataError(
                    f"the folder of the {self.what} {self.path} cannot be made ({error}): name another file with {self._elsewhere()}"
                ) from None
        connection = sqlite3.connect(self.path, timeout=WAIT_FOR_OTHERS, isolation_level=None, check_same_thread=False)
        try:
            if not self._is_ours(connection):
                self._create(connection)
        except BaseException:
            connection.close()
            raise
        return connection

    def _is_ours(self, connection: sqlite3.Connection) -> bool:
        if connection.execute("PRAGMA application_id").fetchone()[0] != self.application_id:
            return False
        version = connection.execute("PRAGMA user_version").fetchone()[0]
        if version != self.form:
            raise DataError(
                f"the {self.what} {self.path} has format {version}, this version writes {self.form}: "
                f"name another file with {self._elsewhere()}"
            )
        return True

    def _create(self, connection: sqlite3.Connection) -> None:
        connection.execute("BEGIN IMMEDIATE")
        if not self._is_ours(connection):
            if connection.execute("SELECT 1 FROM sqlite_master").fetchone() or connection.execute("PRAGMA application_id").fetchone()[0]:
                raise DataError(f"{self.path} is a database of something else, no {self.what}: name another file with {self._elsewhere()}")
            connection.execute(self.table)
            connection.execute(f"PRAGMA application_id = {self.application_id}")
            connection.execute(f"PRAGMA user_version = {self.form}")
        connection.execute("COMMIT")
        # Another process may be in the file already; it works in either mode, and the next one to open it finds WAL set or tries no more.
        with suppress(sqlite3.OperationalError):
            connection.execute("PRAGMA journal_mode = WAL")


def _before_fork() -> None:
    """Close the files, once nobody is at them: a process must not have a connection that another one opened."""
    _making.acquire()
    _closed[:] = _files
    for file in _closed:
        file._lock.acquire()
        if file.path != IN_MEMORY:
            file.close()


def _after_fork() -> None:
    for file in _closed:
        file._lock.release()
    _closed.clear()
    _making.release()


os.register_at_fork(before=_before_fork, after_in_parent=_after_fork, after_in_child=_after_fork)
