"""A dictionary in sqlite for what is computed once: bytes by key, in memory or in a shared file."""

import hashlib
import logging
import math
import os
import sqlite3
import threading
import warnings
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import NamedTuple, TypeVar
from weakref import WeakSet, finalize

from ..errors import DataError
from ..progress import bar as bar_of

SECONDS_FOR_OTHERS = 60.0
"""How long a process waits for others that write."""
KEYS_AT_ONCE = 500
ROWS_AT_ONCE = 100
BYTES_IN_MEMORY = 1 << 30
BYTES_IN_A_FILE = 10 << 30
IN_MEMORY = ":memory:"
BESIDE = ("-wal", "-shm")
"""How the names of the files end that sqlite keeps beside a database."""

log = logging.getLogger("pyterrier_ikat")
Input = TypeVar("Input")
Value = TypeVar("Value")


class CacheKind(NamedTuple):
    """The kind of the values of a cache.

    Attributes:
        name: the name of its file in errors.
        mark: sqlite's application_id.
        repair: how to name another file.
        bounded: whether the oldest values are removed when there are too many.
    """

    name: str
    mark: int
    repair: str
    bounded: bool = False


RESULTS = CacheKind(
    "cache of results",
    0x696B7263,
    "name another one with cache=PATH, on the command line --cache FILE",
    bounded=True,
)


class CacheMovedWarning(UserWarning):
    """The file of a cache was removed, moved or replaced while it was open."""


class Cache:
    """Bytes by key for any number of threads, and with a file also for any number of processes.

    A kill loses no value that was put.

    A file that was removed, moved or replaced while it was open is noticed at the next use, with a
    warning: the file that is then at the path is used, and a new one is created if there is none.
    An unbounded cache also writes there what it had. Windows lets nobody remove an open file.

    Args:
        path: the sqlite file, created at its first use. None keeps everything in memory.
        kind: the kind of the values. A file of another kind is an error.
        max_bytes: the maximum size of a bounded cache. None means 1 GiB in memory and 10 GiB in a
            file. The oldest values are removed first.

    Raises:
        DataError: at use, when the file can't be read or written, is damaged, or is not a cache of
            this kind.

    Warns:
        CacheMovedWarning: at use, when the file isn't the one that was opened.

    Example:
        >>> from pyterrier_ikat.store.cache import Cache
        >>> cache = Cache()
        >>> cache.put({b"tea": b"green"})
        >>> cache.get([b"tea", b"coffee"])
        {b'tea': b'green'}
    """

    def __init__(
        self,
        path: str | Path | None = None,
        kind: CacheKind = RESULTS,
        max_bytes: float | None = None,
    ) -> None:
        if path is None:
            self.path = IN_MEMORY
            default = BYTES_IN_MEMORY
        else:
            self.path = os.path.abspath(
                path
            )  # a file may have any name, also :memory: or file:x?mode=memory
            default = BYTES_IN_A_FILE
        self.kind = kind
        self.max_bytes = max_bytes or (default if kind.bounded else math.inf)
        self._warned_full = False
        self._connection: sqlite3.Connection | None = None
        self._closing: finalize[..., Cache] | None = None
        self._files: dict[str, Identity | None] = {}
        self._rescued: sqlite3.Connection | None = None
        self._lock = threading.Lock()
        _caches.add(self)

    def get(self, keys: Sequence[bytes]) -> dict[bytes, bytes]:
        """The values of those keys that have one."""
        with self.connection() as connection:
            return _read(connection, keys)

    def put(self, items: Mapping[bytes, bytes]) -> None:
        """Store ``items``, all or none of them, replacing the old values of their keys."""
        self.revise([], lambda _: items)

    def revise(
        self,
        keys: Sequence[bytes],
        change: Callable[[Mapping[bytes, bytes]], Mapping[bytes, bytes | None]],
    ) -> None:
        """Look up ``keys`` and store what ``change`` makes of their values.

        No thread or process changes anything in between.

        Args:
            keys: the keys to look up.
            change: gets the known values and returns the values to store, by key. None removes a
                key.
        """
        with self.connection() as connection:
            connection.execute("BEGIN IMMEDIATE")
            items = change(_read(connection, keys))
            removed = [(key,) for key, value in items.items() if value is None]
            stored = [(key, value) for key, value in items.items() if value is not None]
            connection.executemany("DELETE FROM cache WHERE key = ?", removed)
            connection.executemany("INSERT OR REPLACE INTO cache VALUES (?, ?)", stored)
            self._remove_oldest(connection)
            connection.execute("COMMIT")

    def has_moved(self) -> bool:
        """Whether another file is at the path than the one that is open, or none."""
        with self._lock:
            return self._connection is not None and self._has_moved()

    @contextmanager
    def connection(self) -> Iterator[sqlite3.Connection]:
        """The connection, for one thread at a time. Uncommitted changes are rolled back."""
        with self._lock:
            try:
                yield self._open()
            except (sqlite3.Error, OSError) as error:
                raise self.unusable(error) from None
            finally:
                if self._connection is not None and self._connection.in_transaction:
                    self._connection.rollback()

    def close(self) -> None:
        """Close the file. The next use opens it again."""
        with self._lock:
            self._close()

    def _close(self) -> None:
        if self._closing is not None:
            self._closing()
        self._connection = None
        self._closing = None

    def _open(self) -> sqlite3.Connection:
        """The connection to the file that is at the path now."""
        if self._connection is not None and self._has_moved():
            self._leave()
        if self._connection is None:
            self._connection = self._connect()
            # No __del__: some modules are unloaded before.
            self._closing = finalize(self, self._connection.close)
            self._files = _identities(self.path, *_beside(self.path))
        if self._rescued is not None:
            self._write_again(self._connection, self._rescued)
        return self._connection

    def _has_moved(self) -> bool:
        if self.path == IN_MEMORY:
            return False
        now = _identities(*self._files)
        for name, opened in self._files.items():
            if opened is not None and opened != now[name]:
                return True
        self._files = now  # sqlite makes the files beside it when it needs them
        return False

    def _leave(self) -> None:
        """Close a file that has moved, and keep what it holds if that can't be computed again."""
        if self._connection is not None and not self.kind.bounded:
            # A temporary file, which nobody sees.
            rescued = sqlite3.connect("", check_same_thread=False)
            self._connection.backup(rescued)
            self._rescued = rescued
        self._close()  # before the path is opened again: sqlite would share the files beside it
        entries = "its entries are kept and written into a new file"
        if self._rescued is None:
            entries = "its entries are lost and computed again when needed"
        warnings.warn(
            f"the {self.kind.name} {self.path} was removed, moved or replaced while it was open: "
            f"{entries}. To start afresh, remove it when nothing uses it",
            CacheMovedWarning,
            stacklevel=2,
        )

    def _write_again(self, connection: sqlite3.Connection, rescued: sqlite3.Connection) -> None:
        """Add the entries of a file that was left. Entries of this one stay."""
        connection.execute("BEGIN IMMEDIATE")
        rows = rescued.execute("SELECT key, value FROM cache ORDER BY rowid")
        connection.executemany("INSERT OR IGNORE INTO cache VALUES (?, ?)", rows)
        connection.execute("COMMIT")
        rescued.close()
        self._rescued = None

    def unusable(self, error: Exception) -> DataError:
        """The error that says why the file cannot be used, and what to do."""
        return DataError(
            f"the {self.kind.name} {self.path} cannot be used ({error}): free space, correct its "
            f"permissions, copy it again if it is damaged, or {self.kind.repair}"
        )

    def _connect(self) -> sqlite3.Connection:
        if self.path != IN_MEMORY:
            Path(self.path).parent.mkdir(parents=True, exist_ok=True)
            _remove_stale(self.path)
        connection = sqlite3.connect(
            self.path, timeout=SECONDS_FOR_OTHERS, isolation_level=None, check_same_thread=False
        )
        try:
            if _pragma(connection, "application_id") != self.kind.mark:
                self._create(connection)
            connection.execute("PRAGMA synchronous = NORMAL")
            # Makes the files beside it, which `_has_moved` looks at.
            connection.execute("SELECT 1 FROM sqlite_master").fetchone()
        except BaseException:
            connection.close()
            raise
        return connection

    def _create(self, connection: sqlite3.Connection) -> None:
        connection.execute("BEGIN IMMEDIATE")
        mark = _pragma(connection, "application_id")
        if mark != self.kind.mark:  # otherwise another process has created it meanwhile
            if mark or connection.execute("SELECT 1 FROM sqlite_master").fetchone():
                raise DataError(
                    f"{self.path} is a database of something else, not a {self.kind.name}: "
                    f"{self.kind.repair}"
                )
            connection.execute("CREATE TABLE cache (key BLOB PRIMARY KEY, value BLOB NOT NULL)")
            connection.execute(f"PRAGMA application_id = {self.kind.mark}")
        connection.execute("COMMIT")
        # Another process may already use the file. Both modes work, and the next process that opens
        # it finds WAL set or doesn't try again.
        with suppress(sqlite3.OperationalError):
            connection.execute("PRAGMA journal_mode = WAL")

    def _remove_oldest(self, connection: sqlite3.Connection) -> None:
        if not self.kind.bounded:
            return
        oldest = f"SELECT rowid FROM cache ORDER BY rowid LIMIT {ROWS_AT_ONCE}"
        while _bytes_used(connection) > self.max_bytes:
            removed = connection.execute(f"DELETE FROM cache WHERE rowid IN ({oldest})").rowcount
            if not removed:
                return
            if not self._warned_full:
                self._warned_full = True
                log.warning(
                    "the %s (%s, %d MiB) is full: the oldest entries are removed, and computed "
                    "again when needed",
                    self.kind.name,
                    "in memory" if self.path == IN_MEMORY else self.path,
                    int(self.max_bytes) >> 20,
                )


def compute_missing(
    cache: Cache,
    inputs: Mapping[bytes, Input],
    compute: Callable[[list[Input]], Iterable[Value]],
    *,
    encode: Callable[[Value], bytes | None],
    decode: Callable[[bytes], Value | None],
    at_once: int,
    label: str,
    unit: str,
) -> dict[bytes, Value]:
    """The value of each key. Only values missing from ``cache`` are computed.

    Every part is stored as soon as it is done.

    Args:
        cache: the cache in which values are looked up and stored.
        inputs: for each key, the input of the computation.
        compute: returns the values of up to ``at_once`` inputs, in their order.
        encode: a value as bytes, or None if it must not be stored.
        decode: bytes as a value, or None if they can't be used, so that the value is computed
            again.
        at_once: the number of values computed before they are stored. A kill loses at most these.
        label: the text of the progress bar.
        unit: the unit that the progress bar counts.
    """
    values: dict[bytes, Value] = {}
    for key, content in cache.get(list(inputs)).items():
        value = decode(content)
        if value is not None:
            values[key] = value
    missing = [key for key in inputs if key not in values]
    # The bar of a single part would appear when all is done.
    with bar_of(total=len(missing), desc=label, unit=unit, disable=len(missing) <= at_once) as bar:
        for start in range(0, len(missing), at_once):
            part = missing[start : start + at_once]
            computed = compute([inputs[key] for key in part])
            stored: dict[bytes, bytes] = {}
            for key, value in zip(part, computed, strict=True):
                values[key] = value
                encoded = encode(value)
                if encoded is not None:
                    stored[key] = encoded
            cache.put(stored)
            bar.update(len(part))
    return values


def digest(*parts: str | bytes) -> bytes:
    """A key of 16 bytes (BLAKE2b), which changes with any part and with how the parts are split.

    Args:
        parts: bytes, or strings, which count as their UTF-8 bytes.

    Example:
        >>> from pyterrier_ikat.store.cache import digest
        >>> digest("ab", "c") == digest("a", "bc")
        False
    """
    key = hashlib.blake2b(digest_size=16)
    for part in parts:
        content = part.encode("utf-8", "surrogatepass") if isinstance(part, str) else part
        key.update(len(content).to_bytes(8, "little") + content)
    return key.digest()


_opened: dict[str | None, Cache] = {}
"""The caches of results of this process, by path; under None that of operators without one."""
_opening = threading.Lock()


def open_cache(path: str | Path | None = None) -> Cache:
    """The cache of results in this file, or the cache in memory.

    One file has the same object throughout the process.
    """
    real_path = None if path is None else os.path.realpath(os.path.expanduser(path))
    with _opening:
        if real_path not in _opened:
            _opened[real_path] = Cache(real_path)
        return _opened[real_path]


def set_default_cache(path: str | Path) -> None:
    """Let operators that name no cache use the file ``path`` from now on, instead of memory."""
    _opened[None] = open_cache(path)


Identity = tuple[int, int]
"""The device and inode of a file."""


def _identities(*names: str) -> dict[str, Identity | None]:
    """The identities of some files; None for a file that isn't there."""
    identities: dict[str, Identity | None] = {}
    for name in names:
        try:
            state = os.stat(name)
        except OSError:
            identities[name] = None
        else:
            identities[name] = (state.st_dev, state.st_ino)
    return identities


def _beside(path: str) -> list[str]:
    """The files that sqlite keeps beside a database."""
    return [os.path.realpath(path) + end for end in BESIDE]


def _remove_stale(path: str) -> None:
    """Remove what a removed database has left beside it.

    It is of no use, and a new database would share it with a process that still has the old one
    open.
    """
    # The files beside are looked at before the database. Those of a new database come after it, so
    # if it is still not there, these are of the removed one.
    before = _identities(*_beside(path))
    if os.path.exists(path):
        return
    for name, identity in _identities(*before).items():
        if identity is not None and identity == before[name]:
            Path(name).unlink(missing_ok=True)


def _pragma(connection: sqlite3.Connection, name: str) -> int:
    return int(connection.execute(f"PRAGMA {name}").fetchone()[0])


def _bytes_used(connection: sqlite3.Connection) -> int:
    pages = _pragma(connection, "page_count") - _pragma(connection, "freelist_count")
    return pages * _pragma(connection, "page_size")


def _read(connection: sqlite3.Connection, keys: Sequence[bytes]) -> dict[bytes, bytes]:
    values: dict[bytes, bytes] = {}
    for start in range(0, len(keys), KEYS_AT_ONCE):
        part = keys[start : start + KEYS_AT_ONCE]
        marks = ", ".join("?" * len(part))
        rows = connection.execute(f"SELECT key, value FROM cache WHERE key IN ({marks})", part)
        values.update(rows)
    return values


_caches: "WeakSet[Cache]" = WeakSet()


def _close_all() -> None:
    """Close the files before a fork: a process must not use the connection of another one."""
    for cache in list(_caches):
        if cache.path != IN_MEMORY:
            cache.close()


def _unlock_all() -> None:
    for cache in list(_caches):
        cache._lock = threading.Lock()


if hasattr(os, "register_at_fork"):  # Windows has no fork
    os.register_at_fork(before=_close_all, after_in_child=_unlock_all)
