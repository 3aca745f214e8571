"""The limits on calls: retries and their waits, how many at a time, and what they may cost."""

import math
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from email.utils import parsedate_to_datetime
from threading import Event
from typing import Protocol

import tenacity

from ..errors import UsageError
from ..operator import Remade
from .failures import BudgetExceeded, FatalLLMError, Transient
from .network import CONNECT
from .request import Completion, Reply

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


class Spending(Protocol):
    """What has been spent in a place by everybody, over restarts and processes.

    Attributes:
        where: the place, in words.
    """

    where: str

    def total(self, model: str, price_in: float | None, price_out: float | None) -> float:
        """US dollars so far; calls of ``model`` whose cost is not known are counted at these prices."""
        ...


class Budget(Remade):
    """Prices, what was spent at them, and a limit; safe to share between threads.

    Args:
        price_in: US dollars per million prompt tokens, or None when not known.
        price_out: US dollars per million completion tokens, or None when not known.
        limit: the most US dollars to spend, or None for no limit. Calls in flight when it is reached are still finished.
        model: the model whose prices they are.

    Attributes:
        spent: US dollars that were spent through this object.

    Raises:
        UsageError: for a limit without prices.

    Example:
        >>> budget = Budget(price_in=2.5, price_out=10)
        >>> budget.cost(Reply("yes", prompt_tokens=1000, completion_tokens=100))
        0.0035
    """

    of_this_process = {"_lock": threading.Lock, "_spending": lambda: None}

    def __init__(
        self, *, price_in: float | None = None, price_out: float | None = None, limit: float | None = None, model: str = ""
    ) -> None:
        if limit is not None and (price_in is None or price_out is None):
            raise UsageError("a budget needs prices: add price_in=... and price_out=... (US dollars per million tokens)")
        self.price_in, self.price_out, self.limit, self.model = price_in, price_out, limit, model
        self.spent = 0.0
        self._spending: Spending | None = None
        self._lock = threading.Lock()

    def cost(self, reply: Reply | Completion) -> float | None:
        """US dollars for the call that gave ``reply``, or None when a price or a token count is not known."""
        if self.price_in is None or self.price_out is None or reply.prompt_tokens is None or reply.completion_tokens is None:
            return None
        return (self.price_in * reply.prompt_tokens + self.price_out * reply.completion_tokens) / 1e6

    def spend(self, cost: float | None) -> None:
        """Add the cost of a call.

        Raises:
            FatalLLMError: when there is a limit that an unknown cost makes void.
        """
        if cost is None and self.limit is not None:
            raise FatalLLMError("the server does not tell how many tokens a call used, so that no budget can be kept: run without budget=")
        with self._lock:
            self.spent += cost or 0.0

    @contextmanager
    def counting(self, spending: Spending) -> Iterator[None]:
        """Until the block ends, the limit is for all that is spent there."""
        before, self._spending = self._spending, spending
        try:
            yield
        finally:
            self._spending = before

    @property
    def used(self) -> float:
        """US dollars that count for the limit."""
        return self.spent if self._spending is None else self._spending.total(self.model, self.price_in, self.price_out)

    def check(self) -> None:
        """Make sure that another call may be sent.

        Raises:
            BudgetExceeded: when the limit is reached.
            FatalLLMError: when it is not known what the run folder has cost.
        """
        if self.limit is not None and (used := self.used) >= self.limit:
            raise BudgetExceeded(spent=used, budget=self.limit, where="" if self._spending is None else self._spending.where)

    def shown(self) -> dict[str, str]:
        """The cost so far, for a progress bar; empty when the prices are not known."""
        if self.price_in is None or self.price_out is None:
            return {}
        return {"cost": f"${self.spent:.4f}" if self.limit is None else f"${self.used:.4f} of ${self.limit:g}"}


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
