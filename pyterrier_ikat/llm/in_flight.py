"""Which requests are on their way, so that threads that ask the same at one moment pay for it once."""

import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager


class InFlight:
    """The cache keys that the threads of this process are asking for."""

    def __init__(self) -> None:
        self._ends: dict[str, threading.Event] = {}
        self._lock = threading.Lock()

    @contextmanager
    def claim(self, keys: Sequence[str]) -> Iterator[tuple[list[str], set[threading.Event]]]:
        """Claim those of ``keys`` that no other thread has claimed, until the block ends.

        Gives the keys that are claimed, and what will be set when the others are free. Who waits for that outside of the block never
        waits in a circle.
        """
        end, ours = threading.Event(), list[str]()
        try:  # from here on, so that a Ctrl-C never leaves a claim behind
            with self._lock:
                others = {self._ends[key] for key in keys if key in self._ends}
                ours = [key for key in keys if key not in self._ends]
                self._ends.update(dict.fromkeys(ours, end))
            yield ours, others
        finally:
            with self._lock:
                for key in ours:
                    self._ends.pop(key, None)
            end.set()
