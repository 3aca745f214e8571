"""Finished completions in one file, so that no request is paid for twice.

Every completion is kept when it arrives: a killed run repeats no finished call. Many threads and processes may share a file; while one of
them asks a request, the others wait for it. A process never waits while it is asking, so there is no deadlock.
"""

import json
import logging
import os
import time
from collections.abc import Collection, Iterable, Iterator, Mapping
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import asdict, replace
from itertools import count
from pathlib import Path
from threading import Lock
from uuid import uuid4
from weakref import finalize

import pyterrier as pt

from ..errors import DataError
from ..store.cache import Cache, Kind
from ..store.locks import hold_lock, lock_holder, remove_empty
from .failures import KINDS, LLMFailure
from .request import Completion, cleaned, read

IN_MEMORY = ":memory:"
COMPLETIONS = Kind("cache of completions", b"ikat", "cache=PATH", " (cache=none works without a cache)")
PAUSES = (0.005, 0.1)
"""The first and the longest wait between two checks of what others ask, in seconds."""
REPORT_AFTER = 5.0

log = logging.getLogger("pyterrier_ikat")


def default_path() -> Path:
    """``llm.sqlite`` in ``$IKAT_HOME``, or in the folder ``ikat`` of PyTerrier's home."""
    home = os.environ.get("IKAT_HOME")
    return (Path(home).expanduser() if home else Path(pt.io.pyterrier_home()) / "ikat") / "llm.sqlite"


class CompletionCache:
    """Completions by key.

    A completion is JSON in a :class:`~pyterrier_ikat.store.cache.Cache`. While a request is running, its key holds a claim: the name of a
    lock that its process holds, its number, and how many seconds the call may take. A claim lapses when its process has ended, or when
    another process has watched it for that long. The clocks of other machines are not trusted.

    Args:
        path: the file. It is created when it is missing. ``~`` is the home folder. ``":memory:"`` keeps everything in this process.
    """

    def __init__(self, path: str | Path) -> None:
        self.path = os.path.expanduser(path)
        self._cache = Cache(None if self.path == IN_MEMORY else self.path, COMPLETIONS)
        self._claimed: set[str] = set()
        self._watched: dict[bytes, float] = {}
        self._numbers = count()
        self._locking = Lock()
        self._lock = ""
        self._end: finalize[..., CompletionCache] | None = None

    def __reduce__(self) -> tuple[type["CompletionCache"], tuple[str]]:
        return CompletionCache, (self.path,)  # another process opens the file itself; entries in memory stay here

    def get(self, keys: Iterable[str]) -> dict[str, Completion]:
        """The completions of those keys that have a complete one. Earlier versions also kept incomplete ones.

        Raises:
            DataError: when the file is not a cache, or is damaged.
        """
        return _completions(self._cache.get([key.encode() for key in keys]))

    def put(self, key: str, completion: Completion) -> Completion:
        """Keep ``completion``, unless there already is one: the first answer stays. Returns the one that is kept.

        Raises:
            DataError: when it cannot be written.
        """
        first = [completion]

        def add(known: Mapping[bytes, bytes]) -> dict[bytes, bytes | None]:
            if (earlier := _completion(known.get(key.encode(), b""))) is None:
                return {key.encode(): json.dumps(asdict(replace(completion, cached=True))).encode()}
            first[:] = [earlier]
            return {}

        self._cache.revise([key.encode()], add, durable=True)
        self._claimed.discard(key)
        return first[0]

    def put_failure(self, key: str, failure: LLMFailure) -> None:
        """Keep why a request of a batch has no completion, until it is asked again. A request with a completion keeps it.

        Raises:
            DataError: when it cannot be written.
        """
        value = json.dumps({"failure": type(failure).__name__, "reason": failure.reason}).encode()

        def add(known: Mapping[bytes, bytes]) -> dict[bytes, bytes | None]:
            return {} if _completions(known) else {key.encode(): value}

        self._cache.revise([key.encode()], add, durable=True)

    def failures(self, keys: Iterable[str]) -> dict[str, LLMFailure]:
        """The failures of those of ``keys`` that failed in a batch, without their stage and turn."""
        known = self._cache.get([key.encode() for key in keys])
        return {key.decode(): found for key, value in known.items() if (found := _failure(value)) is not None}

    def remove(self, keys: Iterable[str]) -> None:
        """Remove the completions of keys, so that no byte of their texts is left in the file.

        Raises:
            DataError: when it cannot be written.
        """
        self._cache.remove([key.encode() for key in keys])

    @contextmanager
    def claim(self, keys: Collection[str], seconds: float) -> Iterator[tuple[dict[str, Completion], set[str]]]:
        """Until the block ends, claim those of ``keys`` that have no completion and that no other process has claimed.

        Args:
            keys: the keys of the requests to ask.
            seconds: how long that may take. After that, others may also ask them.

        Yields:
            The completions that there are, and the claimed keys.

        Raises:
            DataError: when the file can't be written.
        """
        hits, ours = dict[str, Completion](), set[str]()
        claim = json.dumps([self._own_lock(), next(self._numbers), seconds]).encode()

        def add(known: Mapping[bytes, bytes]) -> dict[bytes, bytes | None]:
            hits.update(_completions(known))
            ours.update(set(keys) - hits.keys() - self._owners(known).keys())
            return {key.encode(): claim for key in ours}

        def remove(known: Mapping[bytes, bytes]) -> dict[bytes, bytes | None]:
            return {key: None for key, value in known.items() if value == claim}

        self._cache.revise([key.encode() for key in keys], add)
        self._claimed |= ours
        try:
            yield hits, ours
        finally:
            if left := ours & self._claimed:
                self._claimed -= left
                with suppress(DataError):  # a claim that stays lapses
                    self._cache.revise([key.encode() for key in left], remove)

    def wait(self, keys: Collection[str]) -> list[str]:
        """Wait until another process's claim on one of ``keys`` has ended. Returns all unclaimed keys."""
        pause, longest = PAUSES
        started, reported = time.monotonic(), False
        while len(owners := self.owners(keys)) == len(keys):
            if not reported and time.monotonic() - started > REPORT_AFTER:
                reported = True
                who = ", ".join(sorted({owner.partition(" since ")[0] for owner in owners.values()}))
                log.warning("waiting for %d answers that other processes ask for: %s", len(owners), who)
            time.sleep(pause)
            pause = min(1.5 * pause, longest)
        return [key for key in keys if key not in owners]

    def owners(self, keys: Collection[str]) -> dict[str, str]:
        """Those of ``keys`` that are claimed, with who claims them, in words."""
        return self._owners(self._cache.get([key.encode() for key in keys]))

    def close(self) -> None:
        """Close the file. The next use opens it again."""
        self._cache.close()
        if self._end is not None:
            self._end()
        self._lock, self._end = "", None

    def _owners(self, known: Mapping[bytes, bytes]) -> dict[str, str]:
        owners = {value: self._owner(value) for value in set(known.values())}
        return {key.decode(): owner for key, value in known.items() if (owner := owners[value]) is not None}

    def _owner(self, value: bytes) -> str | None:
        try:
            lock, _, seconds = json.loads(value)
        except (TypeError, ValueError):
            return None  # a completion
        now = time.monotonic()
        if now - self._watched.setdefault(value, now) >= seconds:
            return None
        if self.path == IN_MEMORY:
            return lock if lock == self._own_lock() else None  # a forked process has a copy of the claims of its parent
        return lock_holder(self._locks / lock)

    def _own_lock(self) -> str:
        """The lock that this process holds from its first claim on, until it ends or closes the cache."""
        process = f"{os.getpid()}-"
        if self.path == IN_MEMORY:
            return process
        with self._locking:
            if not self._lock.startswith(process):
                name, held = f"{process}{uuid4().hex}", ExitStack()
                try:
                    held.enter_context(hold_lock(self._locks / name))
                except OSError as error:
                    raise self._cache.unusable(error) from None
                self._lock, self._end = name, finalize(self, _release, held, self._locks)
            return self._lock

    @property
    def _locks(self) -> Path:
        return Path(f"{self.path}.claims")


def _release(held: ExitStack, folder: Path) -> None:
    held.close()
    remove_empty(folder)


def _failure(value: bytes) -> LLMFailure | None:
    try:
        kept = json.loads(value)
        return KINDS[kept["failure"]]("", "", kept["reason"], kept=True)
    except (TypeError, ValueError, KeyError, RecursionError):
        return None


def _completions(known: Mapping[bytes, bytes]) -> dict[str, Completion]:
    return {key.decode(): found for key, value in known.items() if (found := _completion(value)) is not None}


def _completion(value: bytes) -> Completion | None:
    try:
        kept = Completion(**cleaned(json.loads(value)))
        text, fault = read(kept)
        return replace(kept, text=text) if fault is None else None
    except (TypeError, ValueError, KeyError, AttributeError, RecursionError):
        return None
