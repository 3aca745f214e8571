"""Finished completions in one sqlite file, so that nothing that was paid for is asked again.

Every completion is committed when it arrives: a killed run keeps all finished calls. Many threads and processes may share a file (WAL).
Values are JSON with their SHA-256 beside them; a damaged value is a miss, a damaged file an error, never a wrong answer.
"""

import hashlib
import json
import os
import sqlite3
from collections.abc import Mapping
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import pyterrier as pt

from ..store.sqlite_file import SqliteFile
from .claims import Claims
from .request import Completion, Request, as_read, fault_of

FORMAT = 1
APPLICATION_ID = 0x696B6174
"""``ikat`` in ASCII: marks our files in sqlite's header."""
TABLE = "CREATE TABLE completions (key TEXT PRIMARY KEY, value TEXT NOT NULL, sha256 TEXT NOT NULL)"


def default_path() -> Path:
    """``llm.sqlite`` in ``$IKAT_HOME``, or in the folder ``ikat`` of PyTerrier's home."""
    home = os.environ.get("IKAT_HOME")
    return (Path(home).expanduser() if home else Path(pt.io.pyterrier_home()) / "ikat") / "llm.sqlite"


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
        path: the file, made when it is missing, ``~`` is the home folder; ``":memory:"`` keeps everything in this process.

    Attributes:
        claims: the keys that are being asked for.
    """

    def __init__(self, path: str | Path) -> None:
        self.path = os.path.expanduser(path)
        self._file = SqliteFile(
            self.path, "cache of completions", application_id=APPLICATION_ID, form=0, table=TABLE, hint=" (cache=none works without)"
        )
        self.claims = Claims(self._file)

    def __reduce__(self) -> tuple[type["Cache"], tuple[str]]:
        return Cache, (self.path,)  # another process opens the file itself; what is kept in memory stays here

    def get(self, key: str) -> Completion | None:
        """The completion under ``key``; None without one, or where it is not whole: earlier versions kept some of those, too.

        Raises:
            DataError: when the file is no cache or damaged.
        """
        with self._file.connection() as connection:
            return _read(connection, key)

    def put(self, key: str, completion: Completion) -> Completion:
        """Store ``completion`` for good, unless there is one already: the first answer stays. Gives the one that is stored.

        Raises:
            DataError: when it cannot be written.
        """
        value = json.dumps(asdict(replace(completion, cached=True)))
        with self._file.connection() as connection:
            connection.execute("BEGIN IMMEDIATE")
            first = _read(connection, key)
            if first is None:
                connection.execute("INSERT OR REPLACE INTO completions VALUES (?, ?, ?)", (key, value, _checksum(key, value.encode())))
            self.claims.end(connection, key)
            connection.execute("COMMIT")
        self.claims.ended(key)
        return completion if first is None else first

    def check_writable(self) -> None:
        """Make sure that what is about to be paid for can be kept.

        Raises:
            DataError: when the file cannot be written.
        """
        with self._file.connection() as connection:
            connection.execute("DELETE FROM completions WHERE key = ''")

    def close(self) -> None:
        """Close the file; the next use opens it again."""
        self._file.close()


def _read(connection: sqlite3.Connection, key: str) -> Completion | None:
    rows = connection.execute("SELECT CAST(value AS BLOB), CAST(sha256 AS BLOB) FROM completions WHERE key = ?", (key,)).fetchall()
    if not rows or _checksum(key, rows[0][0]).encode() != rows[0][1]:
        return None
    try:
        kept = Completion(**json.loads(rows[0][0]))
        return as_read(kept) if fault_of(kept) is None else None
    except (TypeError, ValueError, AttributeError, RecursionError):
        return None


def _checksum(key: str, value: bytes) -> str:
    return hashlib.sha256(key.encode() + b" " + value).hexdigest()
