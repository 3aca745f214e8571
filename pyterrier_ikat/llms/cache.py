"""Finished completions in one file, so that no request is paid for twice.

Every completion is kept when it arrives: a killed run repeats no finished call. Many threads and
processes may share a file. Of several that ask the same at the same time, one asks from the front
of its list and the others from the back, and each looks for the answer right before it asks.
"""

import json
import os
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager, nullcontext, suppress
from dataclasses import replace
from pathlib import Path
from threading import Lock
from weakref import WeakValueDictionary

from ..store.cache import IN_MEMORY, Cache, CacheKind
from ..store.files import hold_lock, home_folder
from .failures import KINDS, LLMFailure, UnknownMark
from .request import PLAIN, Completion, Reading, read

COMPLETIONS = CacheKind(
    "cache of completions",
    0x696B6174,
    "name another one with cache=PATH (cache=none works without a cache)",
)
AGAIN = "the answer is kept, and then read without a call"
"""What is said of a kept completion with an unknown mark."""
PROBE = b"probe"
"""The key that is written and removed to find out whether the file can be written."""


def default_path() -> Path:
    """``llm.sqlite`` in ``$IKAT_HOME``, or in the folder ``ikat`` of PyTerrier's home."""
    return home_folder() / "llm.sqlite"


_caches: WeakValueDictionary[str, Cache] = WeakValueDictionary()
_opening = Lock()


def _shared(path: str) -> Cache:
    """The cache in a file, which a process opens once: sqlite keeps what belongs to a file as long as anybody has it open.

    Where the file was removed, whoever opens it now starts anew.
    """
    place = os.path.realpath(path)
    with _opening:
        cache = _caches.get(place)
        if cache is None or cache.has_moved():
            cache = _caches[place] = Cache(path, COMPLETIONS)
        return cache


class CompletionCache:
    """Completions by key: JSON in a :class:`~pyterrier_ikat.store.cache.Cache`.

    Args:
        path: the file. It is created when it is missing. ``~`` is the home folder. ``":memory:"``
            keeps everything in this process.
    """

    def __init__(self, path: str | Path) -> None:
        place = os.path.expanduser(path)
        self.path = place if place == IN_MEMORY else os.path.abspath(place)
        self._cache = Cache(None, COMPLETIONS) if self.path == IN_MEMORY else _shared(self.path)

    def __reduce__(self) -> tuple[type["CompletionCache"], tuple[str]]:
        return CompletionCache, (
            self.path,
        )  # another process opens the file itself; entries in memory stay here

    def get(
        self, keys: Iterable[str], readings: Mapping[str, Reading] | None = None
    ) -> dict[str, Completion | LLMFailure]:
        """The completions of those keys that have a whole one, as they are read now.

        One that has an unknown mark is an `UnknownMark` without a stage and a turn.

        Args:
            keys: the keys.
            readings: how the completions of some keys are read.

        Raises:
            DataError: when the file is not a cache, or is damaged.
        """
        found = dict[str, Completion | LLMFailure]()
        for key, (_, now) in _usable(
            self._cache.get([key.encode() for key in keys]), readings
        ).items():
            found[key] = now
            if isinstance(now, LLMFailure) and self.path != IN_MEMORY:
                found[key] = type(now)("", "", f"{now.reason}; {AGAIN}", kept=True)
        return found

    def put(self, key: str, completion: Completion, reading: Reading = PLAIN) -> Completion:
        """Keep ``completion``, unless there already is one: the first answer stays. Returns the one that is kept, as its model wrote it.

        Args:
            key: its key.
            completion: as its model wrote it.
            reading: how an earlier one is read.

        Raises:
            DataError: when it cannot be written.
        """
        kept = {key: completion}

        def add(known: Mapping[bytes, bytes]) -> dict[bytes, bytes | None]:
            earlier = _usable(known, {key: reading})
            if earlier:
                kept[key] = earlier[key][0]
                return {}
            return {key.encode(): json.dumps({**vars(completion), "cached": True}).encode()}

        self._cache.revise([key.encode()], add)
        return kept[key]

    def put_failure(self, key: str, failure: LLMFailure) -> LLMFailure:
        """Keep why a request of a batch has no completion, until it is asked again. A request with a completion keeps it.

        Returns:
            The failure as it is kept.

        Raises:
            DataError: when it cannot be written.
        """
        reason = f"{failure.reason}; without batch=on it is asked again"
        value = json.dumps({"failure": type(failure).__name__, "reason": reason}).encode()
        self._cache.revise(
            [key.encode()], lambda known: {} if _usable(known) else {key.encode(): value}
        )
        return type(failure)(failure.stage, failure.qid, reason, kept=True)

    def failures(self, keys: Iterable[str]) -> dict[str, LLMFailure]:
        """The failures of those of ``keys`` that failed in a batch, without their stage and turn."""
        known = {
            key.decode(): json.loads(value)
            for key, value in self._cache.get([key.encode() for key in keys]).items()
        }
        return {
            key: KINDS[one["failure"]]("", "", one["reason"], kept=True)
            for key, one in known.items()
            if "failure" in one
        }

    @contextmanager
    def asking(self) -> Iterator[bool]:
        """While requests are asked whose answers will be kept. Yields whether nobody else asks for this file at the same time.

        Raises:
            DataError: when the file can't be written.
        """
        self._cache.put({PROBE: b""})
        self._cache.revise([], lambda _: {PROBE: None})
        with (
            nullcontext(True)
            if self.path == IN_MEMORY
            else hold_lock(Path(f"{self.path}.lock")) as first
        ):
            yield first

    def close(self) -> None:
        """Close the file. The next use opens it again."""
        self._cache.close()


def _usable(
    known: Mapping[bytes, bytes], readings: Mapping[str, Reading] | None = None
) -> dict[str, tuple[Completion, Completion | LLMFailure]]:
    """The completions among some values that are whole, or have an unknown mark: as they were written, and as they are read now.

    Other values are failures of requests in batches, and what is not whole.
    """
    found = dict[str, tuple[Completion, Completion | LLMFailure]]()
    for value_key, value in known.items():
        key = value_key.decode()
        with suppress(TypeError, ValueError):
            kept = Completion(**json.loads(value))
            kept = replace(kept, special=tuple(kept.special))
            text, fault = read(kept, (readings or {}).get(key, PLAIN))
            if fault is None:
                found[key] = kept, replace(kept, text=text)
            elif fault[0] is UnknownMark:
                found[key] = kept, UnknownMark("", "", fault[1], kept=True)
    return found
