"""Which requests are on their way, in the cache's own file, so that threads and processes that ask the same at one moment pay for it once.

A claim is held during one call. It lapses when its process has ended, or when somebody has watched it for as long as a call may take: no
clock of another machine is trusted. Nobody who holds a claim waits for another one, so that nobody waits in a circle.
"""

import json
import logging
import os
import platform
import sqlite3
import time
from collections.abc import Collection, Iterator
from contextlib import contextmanager, suppress
from functools import cache
from itertools import count
from pathlib import Path

from ..errors import DataError
from ..store.sqlite_file import IN_MEMORY, SqliteFile

TABLE = "CREATE TABLE IF NOT EXISTS claims (key TEXT PRIMARY KEY, owner TEXT NOT NULL, seconds REAL NOT NULL)"
KEYS_AT_ONCE = 500
PAUSES = (0.005, 0.1)
"""The first and the longest wait between two looks at what others hold."""
TELL_AFTER = 5.0

log = logging.getLogger("pyterrier_ikat")
_ours: set[str] = set()
"""The owners of this process whose calls are on their way."""
_numbers = count()


class Claims:
    """The cache keys that threads and processes are asking for.

    Args:
        file: the cache's file.
    """

    def __init__(self, file: SqliteFile) -> None:
        self._file = file
        self._held: dict[str, str] = {}
        self._watched: dict[str, tuple[str, float]] = {}

    @contextmanager
    def holding(self, keys: Collection[str], seconds: float) -> Iterator[set[str]]:
        """Claim those of ``keys`` that nobody has claimed, until the block ends; gives them.

        Args:
            keys: what is to be asked.
            seconds: how long that may take; then others may ask it, too.

        Raises:
            DataError: when the file can't be written.
        """
        owner = json.dumps([_host(), os.getpid(), _since(os.getpid()), next(_numbers)])
        _ours.add(owner)
        try:
            claimed = self._claim(keys, owner, seconds)
            yield claimed
        finally:
            _ours.discard(owner)
            self._release(keys, owner)

    def end(self, connection: sqlite3.Connection, key: str) -> None:
        """End the claim of ``key`` in a transaction that stores its answer."""
        connection.execute(TABLE)
        connection.execute("DELETE FROM claims WHERE key = ?", (key,))

    def ended(self, key: str) -> None:
        """That transaction is committed."""
        self._held.pop(key, None)

    def wait(self, keys: Collection[str]) -> list[str]:
        """Wait until one of ``keys`` is free; gives all that are."""
        pause, longest = PAUSES
        started, told = time.monotonic(), False
        while len(held := self.held(keys)) == len(keys):
            if not told and time.monotonic() - started > TELL_AFTER:
                told = True
                log.warning("waiting for %d answers that others ask for: %s", len(held), _shown(held.values()))
            time.sleep(pause)
            pause = min(1.5 * pause, longest)
        return [key for key in keys if key not in held]

    def held(self, keys: Collection[str]) -> dict[str, str]:
        """Those of ``keys`` that are claimed, with their owners."""
        with self._file.connection() as connection:
            connection.execute(TABLE)
            return self._live(connection, list(keys))

    def _claim(self, keys: Collection[str], owner: str, seconds: float) -> set[str]:
        with self._file.connection() as connection:
            connection.execute("PRAGMA synchronous = NORMAL")  # what a power failure undoes is no claim of a living process
            connection.execute("BEGIN IMMEDIATE")
            connection.execute(TABLE)
            free = set(keys) - self._live(connection, list(keys)).keys()
            connection.executemany("INSERT OR REPLACE INTO claims VALUES (?, ?, ?)", [(key, owner, seconds) for key in free])
            connection.execute("COMMIT")
            connection.execute("PRAGMA synchronous = FULL")
        self._held.update(dict.fromkeys(free, owner))
        return free

    def _release(self, keys: Collection[str], owner: str) -> None:
        left = [key for key in keys if self._held.get(key) == owner]
        for key in left:
            del self._held[key]
        if left:
            with suppress(DataError), self._file.connection() as connection:  # a claim that stays is known by its owner to have ended
                connection.execute("DELETE FROM claims WHERE owner = ?", (owner,))

    def _live(self, connection: sqlite3.Connection, keys: list[str]) -> dict[str, str]:
        rows = [row for start in range(0, len(keys), KEYS_AT_ONCE) for row in _rows(connection, keys[start : start + KEYS_AT_ONCE])]
        at_work = {owner: self._at_work(owner) for owner in {owner for _, owner, _ in rows}}
        return {key: owner for key, owner, seconds in rows if at_work[owner] and self._in_time(key, owner, seconds)}

    def _at_work(self, owner: str) -> bool:
        try:
            host, process, since, _ = json.loads(owner)
        except (TypeError, ValueError):
            return False
        if (host, process) == (_host(), os.getpid()):
            return owner in _ours
        if self._file.path == IN_MEMORY:  # made before a fork, whose answers go into another memory
            return False
        return host != _host() or _runs(process, since)

    def _in_time(self, key: str, owner: str, seconds: float) -> bool:
        now = time.monotonic()
        if self._watched.get(key, ("", now))[0] != owner:
            self._watched[key] = (owner, now)
        return now - self._watched[key][1] < seconds


def _rows(connection: sqlite3.Connection, keys: list[str]) -> list[tuple[str, str, float]]:
    wanted = ", ".join("?" * len(keys))
    return connection.execute(f"SELECT key, owner, seconds FROM claims WHERE key IN ({wanted})", keys).fetchall()


def _shown(owners: Collection[str]) -> str:
    found = {tuple(json.loads(owner)[:2]) for owner in owners}
    return ", ".join(sorted(f"process {process} on {host.split()[0]}" for host, process in found))


@cache
def _host() -> str:
    """What processes have in common that know each other by number: the machine since its start, and the container."""
    found = [platform.node() or "localhost"]
    with suppress(OSError):
        found.append(Path("/proc/sys/kernel/random/boot_id").read_text().strip())
        found.append(os.readlink("/proc/self/ns/pid"))
    return " ".join(found)


def _runs(process: int, since: str | None) -> bool:
    try:
        os.kill(process, 0)
    except ProcessLookupError:
        return False
    except OSError:
        pass  # somebody else's
    now = _since(process)
    return since is None or now is None or now == since


def _since(process: int) -> str | None:
    """When a process began, in the kernel's words; empty when it has ended and is not collected yet, None where nobody tells."""
    try:
        fields = Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()
    except OSError:
        return None
    return "" if fields[0] in "ZX" else fields[19]
