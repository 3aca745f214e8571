"""The limits on calls: retries and their waits, the number of concurrent calls, and the threads that make them."""

import math
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from email.utils import parsedate_to_datetime
from queue import SimpleQueue
from threading import Event, Thread
from typing import Generic, TypeVar

import tenacity

from ..portable import Remade
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
            Each attempt has its own time-out; the wait for a free slot does not count.
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

        def out_of_time(state: tenacity.RetryCallState) -> bool:
            passed = max(state.idle_for, self.clock() - began)
            error = _transient(state)
            if error and error.unreached and passed + state.upcoming_sleep + CONNECT > FIRST_ANSWER:
                return True
            return state.idle_for + state.upcoming_sleep > self.max_seconds

        return tenacity.Retrying(
            retry=tenacity.retry_if_exception_type(Transient),
            wait=_wait,
            stop=lambda state: state.attempt_number >= self.tries or stop.is_set() or out_of_time(state),
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


def _transient(state: tenacity.RetryCallState) -> Transient | None:
    error = state.outcome.exception() if state.outcome else None
    return error if isinstance(error, Transient) else None


def _wait(state: tenacity.RetryCallState) -> float:
    asked = _sensible(error.retry_after) if (error := _transient(state)) else None
    return _backoff(state) if asked is None else asked


class Throttle(Remade):
    """A semaphore with a size that adapts to the limit of the server.

    It starts at one, so that a wrong key or model name is noticed after one call, and opens to ``most`` with the first call that
    gets through, or when that call has been on its way for ``patience``. Each call that the server refuses because it has too many makes
    the semaphore smaller by one, but calls in flight at the same moment never make it smaller by more than half. So it ends at what the
    server accepted. While it is fully used, it grows by one after as many successes as its size.

    Args:
        most: the most calls in flight.
        patience: seconds after which other calls follow a first call that is not yet answered. If the server refuses the first call
            later than that, up to ``most`` calls have been sent (and refused).
    """

    of_this_process = {"_free": threading.Condition, "_busy": int}

    def __init__(self, most: int, patience: float = 0.25) -> None:
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
        """Wait for a free slot and hold it. Returns the mark of this moment for `shrink`."""
        with self._free:
            while self._busy >= int(self._limit):
                if not self._free.wait(None if self._opened else self.patience):
                    self._open()
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

    def _open(self) -> None:
        if not self._opened:
            self._limit, self._opened = float(self.most), True
            self._free.notify_all()


Task = TypeVar("Task")
Result = TypeVar("Result")


class Stopped(Exception):  # noqa: N818 - not an error: the task was not begun, because another one ended the stage
    """Raised by a task if the stage has ended."""


class Workers(Generic[Task, Result]):
    """Threads that work on tasks and their follow-ups, until all are done or one of them ends the stage.

    Unlike with `concurrent.futures`, the program's end does not wait for the threads: a second Ctrl-C must end it.

    Args:
        work: called in the threads. An exception of any kind ends the stage: no task begins after it, and running tasks are finished.
        done: called in the thread of `run` with every result, in the order in which they arrive. Returns the follow-up tasks,
            which are queued after the waiting ones.
        threads: the most tasks at a time.
        stop: set when the stage ends early; ``work`` may look at it.
        interrupted: called at the first Ctrl-C, before the tasks in flight are waited for.
        abandoned: called at the second one, after which they are not waited for.

    Attributes:
        error: the first exception of a task.
    """

    def __init__(
        self,
        work: Callable[[Task], Result],
        done: Callable[[Result], Iterable[Task] | None],
        *,
        threads: int,
        stop: Event,
        interrupted: Callable[[], None] = lambda: None,
        abandoned: Callable[[], None] = lambda: None,
    ) -> None:
        self.work, self.done, self.most, self.stop = work, done, threads, stop
        self.interrupted, self.abandoned = interrupted, abandoned
        self.error: BaseException | None = None
        self._left = SimpleQueue[Task | None]()
        self._arrived = SimpleQueue[list[Result]]()
        self._open = 0
        self._threads: list[Thread] = []

    def run(self, tasks: Sequence[Task]) -> None:
        """Work on the tasks, and on what follows.

        Raises:
            KeyboardInterrupt: after the tasks in flight are finished, or at once at the second Ctrl-C.
        """
        self._add(tasks)
        self._threads = [Thread(target=self._serve, name=f"ikat-llm_{place}", daemon=True) for place in range(min(self.most, len(tasks)))]
        try:
            for thread in self._threads:
                thread.start()
            while self._open:
                for result in self._arrived.get():
                    self._add(self.done(result) or ())
                self._open -= 1
        except BaseException as error:
            self.stop.set()
            self._end(error)
            raise
        self._end()

    def _add(self, tasks: Iterable[Task]) -> None:
        for task in tasks:
            self._open += 1
            self._left.put(task)

    def _serve(self) -> None:
        while (task := self._left.get()) is not None:
            self._arrived.put(self._work_on(task))

    def _work_on(self, task: Task) -> list[Result]:
        """The task's result. None when the stage has ended."""
        try:
            return [] if self.stop.is_set() else [self.work(task)]
        except BaseException as error:
            self.stop.set()
            if not isinstance(error, Stopped):
                self.error = self.error or error
            return []

    def _end(self, error: BaseException | None = None) -> None:
        """Wait until all threads have finished their task. A second Ctrl-C ends the wait, however soon it follows the first."""
        try:
            if isinstance(error, KeyboardInterrupt):
                self.interrupted()
            for _ in self._threads:
                self._left.put(None)
            for thread in self._threads:
                if thread.is_alive():
                    thread.join()
        except KeyboardInterrupt:
            self.abandoned()
            raise
