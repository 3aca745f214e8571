"""How many calls are in flight: one until the first has not been refused, fewer when the server says it has too many."""

import threading
from collections.abc import Iterator
from contextlib import contextmanager

from ..copies import Remade

PATIENCE = 0.25
"""Seconds. A wrong key, model or quota is refused sooner than that as a rule, and an answer takes longer."""


class Throttle(Remade):
    """A semaphore whose size adapts to what the server takes.

    It starts at one, so that a wrong key or model name is noticed after one call, and opens to ``most`` with the first call that
    gets through, or when that call has been on its way for ``patience``. Each call that the server refuses because it has too many makes
    it smaller by one, so that it ends at what the server took, but by no more than half for all calls that were in flight at one moment.
    While all of it is in use, it grows by one after as many successes as it is wide.

    Args:
        most: the most calls in flight.
        patience: seconds until the others follow a first call that is not answered yet; if the server refuses it for good only then,
            up to ``most`` calls have been sent (and refused).
    """

    of_this_process = {"_free": threading.Condition, "_busy": int}

    def __init__(self, most: int, patience: float = PATIENCE) -> None:
        self.most, self.patience = most, patience
        self._limit, self._opened, self._busy, self._moment, self._floor = 1.0, False, 0, 0, 1.0
        self._free = threading.Condition()

    @property
    def limit(self) -> int:
        """The calls that may be in flight now."""
        return int(self._limit)

    @property
    def busy(self) -> int:
        """The calls that are in flight."""
        return self._busy

    @contextmanager
    def slot(self) -> Iterator[int]:
        """Wait for a free slot and hold it; gives the moment's mark for `shrink`."""
        with self._free:
            if not self._free.wait_for(self._is_free, timeout=None if self._opened else self.patience):
                self._open()
                self._free.wait_for(self._is_free)
            self._busy += 1
            mark = self._moment
        try:
            yield mark
        finally:
            with self._free:
                self._busy -= 1
                self._free.notify()

    def grow(self) -> None:
        """A call got through."""
        with self._free:
            if not self._opened:
                self._open()
            elif self._busy >= self.limit:
                self._limit = min(float(self.most), self._limit + 1 / self._limit)
                self._free.notify()

    def shrink(self, mark: int) -> None:
        """A call that began at ``mark`` was refused because there are too many."""
        with self._free:
            if mark == self._moment:
                self._moment += 1
                self._floor = max(1.0, self._limit / 2)
            self._limit = max(self._floor, self._limit - 1)

    def _is_free(self) -> bool:
        return self._busy < self.limit

    def _open(self) -> None:
        if not self._opened:
            self._limit, self._opened = float(self.most), True
            self._free.notify_all()
