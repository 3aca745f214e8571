"""Finished completions in one sqlite file, so that nothing that was paid for is asked again.

Every completion is committed when it arrives: a killed run keeps all finished calls. Many threads and processes may share a file (WAL).
Values are JSON with their SHA-256 beside them; a damaged value is a miss, a damaged file an error, never a wrong answer.
"""

import contextlib
import hashlib
import json
import os
import sqlite3
import threading
from collections.abc import Mapping
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import pyterrier as pt

from ..errors import DataError
from .request import Completion, Request

FORMAT = 1
APPLICATION_ID = 0x696B6174
"""``ikat`` in ASCII: marks our files in sqlite's header."""
WAIT_FOR_OTHERS = 60.0


def default_path() -> Path:
    """``llm.sqlite`` in ``$IKAT_HOME``, or in the folder ``ikat`` of PyTerrier's home."""
    home = os.environ.get("IKAT_HOME")
    return (Path(home) if home else Path(pt.io.pyterrier_home()) / "ikat") / "llm.sqlite"


def key_of(identity: Mapping[str, Any], request: Request) -> str:
    """The cache key: equal exactly when the same question goes to the same model in the same way.

    Args:
        identity: the backend's (provider, model, base URL, default decoding parameters).
        request: its messages, parameters and sample number count; stage, turn and prompt name don't.
    """
    content = {
        **identity,
        "format": FORMAT,
        "messages": [dict(message) for message in request.messages],
        "params": {**identity.get("params", {}), **request.params},
        "sample": request.sample,
    }
    return hashlib.sha256(json.dumps(content, sort_keys=True, separators=(",", ":")).encode()).hexdigest()


class Cache:
    """Completions by key.

    Args:
        path: the file, made when it is missing; ``":memory:"`` keeps everything in this process.
    """

    def __init__(self, path: str | Path) -> None:
        self.path = str(path)
        self._connection: sqlite3.Connection | None = None
        self._process = 0
        self._lock = threading.Lock()

    def get(self, key: str) -> Completion | None:
        """The completion under ``key``, or None.

        Raises:
            DataError: when the file is no cache or damaged.
        """
        rows = self._run("SELECT value, sha256 FROM completions WHERE key = ?", key)
        if not rows or _checksum(key, rows[0][0]) != rows[0][1]:
            return None
        try:
            return Completion(**json.loads(rows[0][0]))
        except (TypeError, ValueError):
            return None

    def put(self, key: str, completion: Completion) -> None:
        """Store ``completion`` for good.

        Raises:
            DataError: when it cannot be written.
        """
        value = json.dumps(asdict(replace(completion, cached=True)))
        self._run("INSERT OR REPLACE INTO completions VALUES (?, ?, ?)", key, value, _checksum(key, value))

    def check_writable(self) -> None:
        """Make sure that what is about to be paid for can be kept.

        Raises:
            DataError: when the file cannot be written.
        """
        self._run("DELETE FROM completions WHERE key = ''")

    def close(self) -> None:
        """Close the file; the next use opens it again."""
        if self._connection is not None and self._process == os.getpid():
            self._connection.close()
        self._connection = None

    def __del__(self) -> None:
        self.close()

    def _run(self, statement: str, *values: str) -> list[Any]:
        with self._lock:
            try:
                return self._open().execute(statement, values).fetchall()
            except sqlite3.Error as error:
                raise DataError(
                    f"the cache of completions {self.path} cannot be used ({error}): free space or correct its "
                    "permissions, or move the file away, or name another one with cache=PATH (cache=none works without)"
                ) from None

    def _open(self) -> sqlite3.Connection:
        if self._connection is None or self._process != os.getpid():
            self._connection, self._process = _connect(self.path), os.getpid()
        return self._connection


def _checksum(key: str, value: Any) -> str:
    return hashlib.sha256(f"{key} {value}".encode()).hexdigest()


def _connect(path: str) -> sqlite3.Connection:
    if path != ":memory:":
        try:
            Path(path).parent.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise DataError(f"the folder of the cache {path} cannot be made ({error}): name another file with cache=PATH") from None
    connection = sqlite3.connect(path, timeout=WAIT_FOR_OTHERS, isolation_level=None, check_same_thread=False)
    try:
        if not _is_ours(connection):
            _create(connection, path)
    except BaseException:
        connection.close()
        raise
    return connection


def _is_ours(connection: sqlite3.Connection) -> bool:
    return bool(connection.execute("PRAGMA application_id").fetchone()[0] == APPLICATION_ID)


def _create(connection: sqlite3.Connection, path: str) -> None:
    connection.execute("BEGIN IMMEDIATE")
    if not _is_ours(connection):
        if connection.execute("SELECT 1 FROM sqlite_master").fetchone() or connection.execute("PRAGMA application_id").fetchone()[0]:
            raise DataError(f"{path} is a database of something else, no cache of completions: name another file with cache=PATH")
        connection.execute("CREATE TABLE completions (key TEXT PRIMARY KEY, value TEXT NOT NULL, sha256 TEXT NOT NULL)")
        connection.execute(f"PRAGMA application_id = {APPLICATION_ID}")
    connection.execute("COMMIT")
    # Another process may be in the file already; it works in either mode, and the next one to open it finds WAL set or tries no more.
    with contextlib.suppress(sqlite3.OperationalError):
        connection.execute("PRAGMA journal_mode = WAL")
