"""How transient failures are retried."""

import math
import time
from collections.abc import Callable
from dataclasses import dataclass
from email.utils import parsedate_to_datetime
from threading import Event

import tenacity

from .failures import Transient

LONGEST_WAIT = 60.0
CONNECT = 5.0
"""Seconds until a server counts as not reached. A busy server takes less than one second to accept a connection."""
FIRST_ANSWER = 15.0
"""Seconds after which calls to a server that has never answered are given up. Its address is probably wrong."""


@dataclass(frozen=True)
class Retry:
    """How transient failures are retried.

    A server that has never answered is given up within 15 seconds. Calls to other servers are retried up to the limits below: their
    ``Retry-After`` is obeyed within [0, 60] seconds; else the wait doubles from 1 second, with jitter.

    Attributes:
        tries: the number of attempts at one call, including the first.
        max_seconds: the most seconds that one call waits between its attempts, all waits added up; no wait begins that would end later.
        sleep: how to wait. None waits in a way that lets an interrupted run end at once.
        clock: seconds that never run backwards.
    """

    tries: int = 6
    max_seconds: float = 600.0
    sleep: Callable[[float], None] | None = None
    clock: Callable[[], float] = time.monotonic

    def loop(self, stop: Event, waits: Callable[[int], None] | None = None) -> tenacity.Retrying:
        """A retry loop for one call.

        Args:
            stop: once set, nothing is retried.
            waits: gets the number of tries so far, before each wait.
        """
        began = self.clock()

        def ends(state: tenacity.RetryCallState) -> bool:
            if state.attempt_number >= self.tries or stop.is_set():
                return True
            passed = max(state.idle_for, self.clock() - began)
            if _failure(state).unreached and passed + state.upcoming_sleep + CONNECT > FIRST_ANSWER:
                return True
            return state.idle_for + state.upcoming_sleep > self.max_seconds

        return tenacity.Retrying(
            retry=tenacity.retry_if_exception_type(Transient),
            wait=_wait,
            stop=ends,
            sleep=self.sleep or tenacity.sleep_using_event(stop),
            before_sleep=None if waits is None else lambda state: waits(state.attempt_number),
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
    try:
        return _sensible(float(header or ""))
    except ValueError:
        pass
    try:
        return _sensible(parsedate_to_datetime(header or "").timestamp() - now)
    except (ValueError, TypeError, OverflowError):
        return None


def _sensible(seconds: float) -> float | None:
    return min(seconds, LONGEST_WAIT) if math.isfinite(seconds) and seconds >= 0 else None


_backoff = tenacity.wait_exponential_jitter(initial=1, max=LONGEST_WAIT, jitter=1)


def _failure(state: tenacity.RetryCallState) -> Transient:
    assert state.outcome is not None
    error = state.outcome.exception()
    assert isinstance(error, Transient)  # nothing else is retried
    return error


def _wait(state: tenacity.RetryCallState) -> float:
    asked = _failure(state).retry_after
    seconds = None if asked is None else _sensible(asked)
    return _backoff(state) if seconds is None else seconds
