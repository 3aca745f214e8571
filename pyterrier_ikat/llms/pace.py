"""The pace of calls to a model: slower after its server has answered 429 (too many requests)."""

import math
import random
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import datetime, timedelta
from threading import Condition
from typing import Any

from .failures import RateLimited, Transient

LOOK = 0.25
"""Seconds between two checks whether a waiting call is still wanted."""
LONGEST_WAIT = 60.0
"""Seconds of the longest wait that no server asked for."""


class Pace:
    """The calls of a model that are under way, of all threads that ask it.

    After a 429 one call alone tries again, when the wait is over that the server asked for; each
    answer allows one call more. Calls that a server refuses may count for its limit, too (OpenAI's
    guide on rate limits), so waiting threads don't ask at the same time.

    Attributes:
        waited: seconds of the waits since the last answer.
    """

    def __init__(self) -> None:
        self._changed = Condition()
        self._under_way = 0
        self._most = 0  # calls at a time; 0: no limit
        self._round = 0  # the number of waits so far
        self._in_a_row = 0  # the number of waits since the last answer
        self._until = 0.0
        self.waited = 0.0

    def __reduce__(self) -> Any:
        return Pace, ()  # another process has calls and a clock of its own

    @contextmanager
    def call(
        self, most_seconds: float, sleep: Callable[[float], object], is_over: Callable[[], bool]
    ) -> Iterator[None]:
        """Wait until a call may begin; the block makes it.

        Args:
            most_seconds: how long a stage waits without an answer.
            sleep: how to wait for a time.
            is_over: whether the call isn't wanted any more. The block has to look at it, too.

        Raises:
            RateLimited: when the server asks for a longer wait.
        """
        begun_in = self._enter(sleep, is_over)
        try:
            yield
        except Transient as error:
            if error.limited:
                self._slow_down(error, begun_in, most_seconds)
            raise
        else:
            if not is_over():
                self._speed_up(begun_in)
        finally:
            with self._changed:
                self._under_way -= 1
                self._changed.notify_all()

    def _enter(self, sleep: Callable[[float], object], is_over: Callable[[], bool]) -> int:
        """Take a place among the calls under way. Returns the number of waits before the call."""
        with self._changed:
            while self._most and self._under_way >= self._most and not is_over():
                self._changed.wait(LOOK)
            self._under_way += 1
        waited_until = 0.0
        while waited_until < self._until and not is_over():
            waited_until = self._until
            left = waited_until - time.monotonic()
            if left > 0:
                sleep(left)  # another refusal may come meanwhile
        return self._round

    def _slow_down(self, error: Transient, begun_in: int, most_seconds: float) -> None:
        with self._changed:
            is_new = begun_in == self._round  # else it was on its way when another one was refused
            wait = error.retry_after
            if wait is None:
                backoff = 2.0 ** min(self._in_a_row, 10) + random.random()
                wait = min(backoff, LONGEST_WAIT) if is_new else 0.0
            if is_new:
                self._round += 1
                self._in_a_row += 1
                self.waited += wait
            self._most = 1
            self._until = max(self._until, time.monotonic() + wait)
            waited = max(self.waited, wait)
        if waited > most_seconds:
            raise RateLimited(_too_long(error, wait, most_seconds)) from None

    def _speed_up(self, begun_in: int) -> None:
        with self._changed:
            if begun_in < self._round:  # it was on its way when another one was refused
                return
            self._in_a_row, self.waited = 0, 0.0
            if self._most:
                self._most += 1


def _too_long(error: Transient, wait: float, most_seconds: float) -> str:
    """What to say about a wait that is too long."""
    longest = in_words(most_seconds)
    if error.retry_after is None:
        return f"{error.reason}, and has done so for {longest}: run again later"
    now = datetime.now()
    end = now + timedelta(seconds=min(wait, 1e8))
    clock = f"{end:%H:%M}" if end.date() == now.date() else f"{end:%Y-%m-%d %H:%M}"
    return (
        f"{error.reason}; it asks to wait {in_words(wait)}, and a stage waits no longer than "
        f"{longest}: run again after {clock}"
    )


def in_words(seconds: float) -> str:
    """A duration in words.

    Example:
        >>> in_words(12.3), in_words(600), in_words(12000)
        ('13 s', '10 min', '3 h 20 min')
    """
    minutes, rest = divmod(math.ceil(seconds), 60)
    if minutes == 0:
        return f"{rest} s"
    if rest > 0:
        minutes += 1
    hours, minutes = divmod(minutes, 60)
    return f"{hours} h {minutes} min" if hours else f"{minutes} min"
