"""How transient failures of calls are retried."""

from collections.abc import Callable
from dataclasses import dataclass
from threading import Event

import tenacity

from .failures import Transient
from .pace import LONGEST_WAIT

FIRST_ANSWER = 10.0
"""Seconds after which no call is retried if the server has never answered.

Its address is probably wrong. A try takes 5 seconds.
"""
_backoff = tenacity.wait_exponential_jitter(initial=1, max=LONGEST_WAIT, jitter=1)


@dataclass(frozen=True)
class Retry:
    """How transient failures are retried.

    A server that has never answered is given up within 15 seconds. Calls to other servers are
    retried up to the limits below. The wait doubles from 1 second, with jitter, or it is what the
    server asks for, up to 60 seconds. A server that is asked too often (429) gets the wait that it
    asks for, and the try doesn't count.

    Attributes:
        tries: the number of attempts at one call, including the first, and without those that were
            answered by 429.
        max_seconds: the most seconds that one call waits between its attempts, all waits added up.
        sleep: how to wait. None waits in a way that lets an interrupted run end at once.
    """

    tries: int = 6
    max_seconds: float = 600.0
    sleep: Callable[[float], None] | None = None

    def sleeping(self, stop: Event) -> Callable[[float], object]:
        """How to wait, until ``stop`` is set."""
        return self.sleep or stop.wait

    def loop(
        self, stop: Event, waits: Callable[[int], None] | None = None, is_paced: bool = False
    ) -> tenacity.Retrying:
        """Return a retry loop for one call.

        Args:
            stop: once set, nothing is retried.
            waits: gets the number of tries that count so far, before each wait.
            is_paced: whether the call itself waits after a 429 (see `Pace`).
        """
        attempts = _Attempts(self, is_paced)

        def sleep(seconds: float) -> None:
            if seconds:
                self.sleeping(stop)(seconds)

        def before_sleep(state: tenacity.RetryCallState) -> None:
            if waits is not None:
                waits(attempts.number)

        return tenacity.Retrying(
            retry=tenacity.retry_if_exception_type(Transient),
            wait=attempts.wait,
            stop=tenacity.stop_any(tenacity.stop_when_event_set(stop), attempts.is_last),  # type: ignore[arg-type]
            sleep=sleep,
            before_sleep=before_sleep,
            reraise=True,
        )


class _Attempts:
    """The attempts at one call.

    Attributes:
        number: the attempts that count.
        limited: the seconds that the server asked to wait because it was asked too often.
    """

    def __init__(self, retry: Retry, is_paced: bool) -> None:
        self.retry = retry
        self.is_paced = is_paced
        self.number = 0
        self.limited = 0.0

    def wait(self, state: tenacity.RetryCallState) -> float:
        """Seconds until the next attempt."""
        error = _error_of(state)
        if error.retry_after is None:
            seconds = _backoff(state)
        elif error.limited:
            seconds = error.retry_after
        else:
            seconds = min(error.retry_after, LONGEST_WAIT)
        if not error.limited:
            return seconds
        self.limited += seconds
        return 0.0 if self.is_paced else seconds

    def is_last(self, state: tenacity.RetryCallState) -> bool:
        """Count an attempt. Returns whether no other one follows."""
        error = _error_of(state)
        if not error.limited:
            self.number += 1
        if self.number >= self.retry.tries:
            return True
        waited = state.idle_for + state.upcoming_sleep
        if error.unreached:
            passed = (state.seconds_since_start or 0) + state.upcoming_sleep
            return max(waited, passed) > FIRST_ANSWER
        return max(waited, self.limited) > self.retry.max_seconds


def _error_of(state: tenacity.RetryCallState) -> Transient:
    return state.outcome.exception()  # type: ignore[union-attr, return-value]
