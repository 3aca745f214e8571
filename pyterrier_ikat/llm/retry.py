"""When and how often a call is tried again; the same for every backend."""

import math
import time
from collections.abc import Callable
from dataclasses import dataclass
from email.utils import parsedate_to_datetime
from threading import Event

import tenacity

from .connection import CONNECT
from .failures import Transient

LONGEST_WAIT = 60.0
FIRST_ANSWER = 15.0
"""Seconds in which a server that has never answered is given up: a wrong address needs no patience."""


@dataclass(frozen=True)
class Retry:
    """How transient failures are retried.

    A server that has never answered is given up within 15 seconds. One that has is tried again up to the limits below: its
    ``Retry-After`` is obeyed within [0, 60] seconds; else the wait doubles from 1 second, with jitter.

    Attributes:
        tries: attempts at one call, the first one included.
        max_seconds: the most seconds that one call waits between its attempts, all waits added up; no wait begins that would end later.
            Each attempt has its own time-out, and the wait for a free place among the other calls is nobody's failure.
        sleep: how to wait; None waits so that an interrupted run ends at once.
        clock: seconds that never run backwards.
    """

    tries: int = 6
    max_seconds: float = 600.0
    sleep: Callable[[float], None] | None = None
    clock: Callable[[], float] = time.monotonic

    def loop(self, stop: Event) -> tenacity.Retrying:
        """A retry loop for one call.

        Args:
            stop: once set, nothing is tried again.
        """
        began = self.clock()

        def out_of_time(state: tenacity.RetryCallState) -> bool:
            passed = max(state.idle_for, self.clock() - began)
            if _unreached(state) and passed + state.upcoming_sleep + CONNECT > FIRST_ANSWER:
                return True
            return state.idle_for + state.upcoming_sleep > self.max_seconds

        return tenacity.Retrying(
            retry=tenacity.retry_if_exception_type(Transient),
            wait=_wait,
            stop=lambda state: state.attempt_number >= self.tries or stop.is_set() or out_of_time(state),
            sleep=self.sleep or tenacity.sleep_using_event(stop),
            reraise=True,
        )


def seconds_of(header: str | None, now: float) -> float | None:
    """The wait that a ``Retry-After`` header asks for, in seconds, or None when it is absent or makes no sense.

    Args:
        header: a number of seconds or an HTTP date.
        now: seconds since the epoch, to which a date is compared.

    Example:
        >>> seconds_of("2", now=0), seconds_of("Thu, 01 Jan 1970 00:00:09 GMT", now=4), seconds_of("soon", now=0)
        (2.0, 5.0, None)
    """
    if header is None:
        return None
    try:
        return _sensible(float(header))
    except ValueError:
        pass
    try:
        return _sensible(parsedate_to_datetime(header).timestamp() - now)
    except (ValueError, TypeError, OverflowError):
        return None


def _sensible(seconds: float | None) -> float | None:
    return None if seconds is None or not math.isfinite(seconds) or seconds < 0 else min(seconds, LONGEST_WAIT)


_backoff = tenacity.wait_exponential_jitter(initial=1, max=LONGEST_WAIT, jitter=1)


def _error(state: tenacity.RetryCallState) -> BaseException | None:
    return state.outcome.exception() if state.outcome else None


def _unreached(state: tenacity.RetryCallState) -> bool:
    error = _error(state)
    return isinstance(error, Transient) and error.unreached


def _wait(state: tenacity.RetryCallState) -> float:
    error = _error(state)
    asked = _sensible(error.retry_after) if isinstance(error, Transient) else None
    return _backoff(state) if asked is None else asked
