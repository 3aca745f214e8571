"""What models gave for what they were given, by hash: in memory, or in one sqlite file that many threads and processes share.

A file's values have their checksum beside them: a damaged value is a miss, a damaged or foreign file an error, never a wrong answer.
"""

import hashlib
import logging
import os
import sqlite3
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path

from .sqlite_file import SqliteFile

FORMAT = 1
APPLICATION_ID = 0x696B7263
"""``ikrc`` in ASCII: marks our files in sqlite's header."""
TABLE = "CREATE TABLE results (key BLOB PRIMARY KEY, value BLOB NOT NULL, checksum BLOB NOT NULL)"
OF_AN_ITEM = 250
"""Bytes that an item in memory takes beside those of its key and value: two Python objects and a place in a dictionary."""
KEYS_AT_ONCE = 500

log = logging.getLogger("pyterrier_ikat")
_known: dict[str | None, "ResultCache"] = {}
_opening = threading.Lock()


def digest(*parts: str | bytes) -> bytes:
    """A key of 16 bytes (BLAKE2b), other for other ``parts`` or other bounds between them; a string counts as its UTF-8 bytes.

    Example:
        >>> from pyterrier_ikat.store.results import digest
        >>> digest("ab", "c") == digest("a", "bc")
        False
    """
    found = hashlib.blake2b(digest_size=16)
    for part in parts:
        content = part.encode("utf-8", "surrogatepass") if isinstance(part, str) else part
        found.update(len(content).to_bytes(8, "little") + content)
    return found.digest()


def shared(path: str | Path | None = None) -> "ResultCache":
    """The cache of this file, or the one in memory: the same object for the same file throughout the process."""
    place = None if path is None else os.path.realpath(os.path.expanduser(path))
    with _opening:
        return _known.setdefault(place, ResultCache(place))


def keep_in(path: str | Path) -> None:
    """From now on, operators without a ``cache`` of their own keep what they find in this file, and find what is in it."""
    place = os.path.realpath(os.path.expanduser(path))
    with _opening:
        _known[None] = _known.setdefault(place, ResultCache(place))


class ResultCache:
    """Bytes by key, for any number of threads; with a file, for any number of processes, too.

    Args:
        path: the sqlite file, made when it is missing; it grows without bound. None keeps everything in memory.
        max_bytes: what is kept in memory at most; what was put longest ago goes first.

    Raises:
        DataError: at use, when the file can't be read or written, is damaged, or is no cache of this version.

    Example:
        >>> from pyterrier_ikat.store.results import ResultCache, digest
        >>> cache = ResultCache()
        >>> cache.put({digest("tea"): b"green"})
        >>> cache.get([digest("tea"), digest("coffee")]) == {digest("tea"): b"green"}
        True
    """

    def __init__(self, path: str | Path | None = None, max_bytes: int = 1 << 30) -> None:
        self.path = None if path is None else str(path)
        self.max_bytes = max_bytes
        self.bytes = 0
        self._kept: dict[bytes, bytes] = {}
        self._full = False
        self._lock = threading.Lock()
        self._file = None if self.path is None else _file(self.path)

    def get(self, keys: Sequence[bytes]) -> dict[bytes, bytes]:
        """What is known, by key; keys without a value are left out."""
        if self._file is None:
            with self._lock:
                return {key: self._kept[key] for key in keys if key in self._kept}
        with self._file.connection() as connection:
            return dict(_read(connection, keys))

    def put(self, items: Mapping[bytes, bytes]) -> None:
        """Keep ``items``, all or none of them in a file, in the place of what their keys had."""
        self.revise([], lambda _: items)

    def revise(self, keys: Sequence[bytes], revised: Callable[[Mapping[bytes, bytes]], Mapping[bytes, bytes]]) -> None:
        """Keep what ``revised`` makes of what is known of ``keys``; no thread or process puts anything between."""
        if self._file is None:
            with self._lock:
                self._keep(revised({key: self._kept[key] for key in keys if key in self._kept}))
            return
        with self._file.connection() as connection:
            connection.execute("BEGIN IMMEDIATE")
            items = revised(dict(_read(connection, keys)))
            rows = ((key, value, digest(key, value)) for key, value in items.items())
            connection.executemany("INSERT OR REPLACE INTO results VALUES (?, ?, ?)", rows)
            connection.execute("COMMIT")

    def close(self) -> None:
        """Close the file; the next use opens it again."""
        if self._file is not None:
            self._file.close()

    def _keep(self, items: Mapping[bytes, bytes]) -> None:
        for key, value in items.items():
            self._drop(key)
            self._kept[key] = value
            self.bytes += _size(key, value)
        if self.bytes > self.max_bytes and not self._full:
            self._full = True
            log.warning(
                "the memory for searches and scores (%d MiB) is full: what was kept first is computed again where it is needed; "
                "a file keeps everything (ikat run --cache FILE, cache=FILE)",
                self.max_bytes >> 20,
            )
        while self.bytes > self.max_bytes:
            self._drop(next(iter(self._kept)))

    def _drop(self, key: bytes) -> None:
        if key in self._kept:
            self.bytes -= _size(key, self._kept.pop(key))


def _file(path: str) -> SqliteFile:
    return SqliteFile(path, "cache of results", application_id=APPLICATION_ID, form=FORMAT, table=TABLE, option="--cache FILE")


def _size(key: bytes, value: bytes) -> int:
    return len(key) + len(value) + OF_AN_ITEM


def _read(connection: sqlite3.Connection, keys: Sequence[bytes]) -> Iterator[tuple[bytes, bytes]]:
    for start in range(0, len(keys), KEYS_AT_ONCE):
        part = keys[start : start + KEYS_AT_ONCE]
        wanted = ", ".join("?" * len(part))
        for key, value, checksum in connection.execute(f"SELECT key, value, checksum FROM results WHERE key IN ({wanted})", part):
            if isinstance(value, bytes) and digest(key, value) == checksum:
                yield key, value
