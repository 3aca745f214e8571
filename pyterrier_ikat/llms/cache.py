"""Finished completions in one file, so that no request is paid for twice.

Every completion is kept when it arrives: a killed run repeats no finished call. Many threads and
processes may share a file. Of several that ask the same at the same time, one asks from the front
of its list and the others from the back, and each looks for the answer right before it asks.
"""

import json
import os
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from threading import Lock
from weakref import WeakValueDictionary

from ..store.cache import IN_MEMORY, Cache, CacheKind
from ..store.files import hold_lock, home_folder
from .failures import FAILURES_BY_NAME, LLMFailure, UnknownMark
from .request import PLAIN_READING, Completion, Reading, read

COMPLETIONS = CacheKind(
    "cache of completions",
    0x696B6174,
    "name another one with cache=PATH (cache=none works without a cache)",
)
AGAIN = "the answer is kept, and then read without a call"
"""What a message adds about a kept completion with an unknown mark."""
PROBE = b"probe"
"""The key that is written and removed to find out whether the file can be written."""


def default_path() -> Path:
    """``llm.sqlite`` in ``$IKAT_HOME``, or in the folder ``ikat`` of PyTerrier's home."""
    return home_folder() / "llm.sqlite"


_caches: WeakValueDictionary[str, Cache] = WeakValueDictionary()
_opening = Lock()


def _shared(path: str) -> Cache:
    """The cache in a file, which a process opens once.

    sqlite keeps what belongs to a file as long as anybody has it open. Where the file was removed,
    the next opener starts a new one.
    """
    real_path = os.path.realpath(path)
    with _opening:
        cache = _caches.get(real_path)
        if cache is None or cache.has_moved():
            cache = Cache(path, COMPLETIONS)
            _caches[real_path] = cache
        return cache


class CompletionCache:
    """Completions by key: JSON in a :class:`~pyterrier_ikat.store.cache.Cache`.

    Args:
        path: the file. It is created when it is missing. ``~`` is the home folder. ``":memory:"``
            keeps everything in this process.
    """

    def __init__(self, path: str | Path) -> None:
        expanded = os.path.expanduser(path)
        if expanded == IN_MEMORY:
            self.path = IN_MEMORY
            self._cache = Cache(None, COMPLETIONS)
        else:
            self.path = os.path.abspath(expanded)
            self._cache = _shared(self.path)

    def __reduce__(self) -> tuple[type["CompletionCache"], tuple[str]]:
        # Another process opens the file itself; entries in memory stay here.
        return CompletionCache, (self.path,)

    def get(
        self, keys: Iterable[str], readings: Mapping[str, Reading] | None = None
    ) -> dict[str, Completion | LLMFailure]:
        """The complete completions among these keys, as they are read now.

        One that has an unknown mark is an `UnknownMark` without a stage and a turn.

        Args:
            keys: the keys.
            readings: how the completions of some keys are read.

        Raises:
            DataError: when the file is not a cache, or is damaged.
        """
        outcomes = dict[str, Completion | LLMFailure]()
        values = self._cache.get([key.encode() for key in keys])
        for key, (_written, outcome) in _usable(values, readings).items():
            if isinstance(outcome, LLMFailure) and self.path != IN_MEMORY:
                outcome = type(outcome)("", "", f"{outcome.reason}; {AGAIN}", kept=True)
            outcomes[key] = outcome
        return outcomes

    def put(self, key: str, completion: Completion, reading: Reading = PLAIN_READING) -> Completion:
        """Keep a completion, unless there already is one: the first answer stays.

        Args:
            key: its key.
            completion: as its model wrote it.
            reading: how an earlier one is read.

        Returns:
            the one that is kept, as its model wrote it.

        Raises:
            DataError: when it cannot be written.
        """
        name = key.encode()
        kept = completion

        def add(known: Mapping[bytes, bytes]) -> dict[bytes, bytes | None]:
            nonlocal kept
            earlier = _usable(known, {key: reading})
            if earlier:
                kept, _outcome = earlier[key]
                return {}
            return {name: json.dumps({**vars(completion), "cached": True}).encode()}

        self._cache.revise([name], add)
        return kept

    def put_failure(self, key: str, failure: LLMFailure) -> LLMFailure:
        """Keep why a request of a batch has no completion, until it is asked again.

        A request with a completion keeps it.

        Returns:
            The failure as it is kept.

        Raises:
            DataError: when it cannot be written.
        """
        name = key.encode()
        reason = f"{failure.reason}; without batch=on it is asked again"
        value = json.dumps({"failure": type(failure).__name__, "reason": reason}).encode()
        self._cache.revise([name], lambda known: {} if _usable(known) else {name: value})
        return type(failure)(failure.stage, failure.qid, reason, kept=True)

    def failures(self, keys: Iterable[str]) -> dict[str, LLMFailure]:
        """The failures of those keys that failed in a batch, without their stage and turn."""
        failures = dict[str, LLMFailure]()
        for name, value in self._cache.get([key.encode() for key in keys]).items():
            entry = json.loads(value)
            if "failure" in entry:
                kind = FAILURES_BY_NAME[entry["failure"]]
                failures[name.decode()] = kind("", "", entry["reason"], kept=True)
        return failures

    @contextmanager
    def asking(self) -> Iterator[bool]:
        """Hold the file while requests are asked whose answers it will keep.

        Yields:
            whether nobody else asks for this file at the same time.

        Raises:
            DataError: when the file can't be written.
        """
        self._cache.put({PROBE: b""})
        self._cache.revise([], lambda _: {PROBE: None})
        if self.path == IN_MEMORY:
            yield True
            return
        with hold_lock(Path(f"{self.path}.lock")) as is_first:
            yield is_first

    def close(self) -> None:
        """Close the file. The next use opens it again."""
        self._cache.close()


def _usable(
    values: Mapping[bytes, bytes], readings: Mapping[str, Reading] | None = None
) -> dict[str, tuple[Completion, Completion | LLMFailure]]:
    """The usable completions among some values: as they were written, and as they are read now.

    Usable are whole ones, and those with an unknown mark. Other values are failures of requests in
    batches, and what is not whole.
    """
    usable = dict[str, tuple[Completion, Completion | LLMFailure]]()
    for name, value in values.items():
        key = name.decode()
        reading = PLAIN_READING if readings is None else readings.get(key, PLAIN_READING)
        try:
            written = Completion(**json.loads(value))
            written = replace(written, special=tuple(written.special))
            text, fault = read(written, reading)
        except (TypeError, ValueError):
            continue
        if fault is None:
            usable[key] = written, replace(written, text=text)
        elif fault[0] is UnknownMark:
            usable[key] = written, UnknownMark("", "", fault[1], kept=True)
    return usable
