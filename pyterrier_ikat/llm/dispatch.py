"""Runs the calls of one stage in threads: bounded, each result at once, nothing new after an error or Ctrl-C."""

from collections import deque
from collections.abc import Callable, Sequence
from contextlib import suppress
from queue import Empty, SimpleQueue
from threading import Event, Thread, current_thread
from typing import Generic, TypeVar

Task = TypeVar("Task")
Result = TypeVar("Result")
LOST = 5.0


class Stopped(Exception):  # noqa: N818 - no error: the task was not begun, because another one ended the stage
    """Raised by a task that finds the stage ended."""


def run_all(
    tasks: Sequence[Task],
    work: Callable[[Task], Result],
    *,
    threads: int,
    stop: Event,
    done: Callable[[Result], None],
    interrupted: Callable[[], None] = lambda: None,
    abandoned: Callable[[], None] = lambda: None,
) -> tuple[list[Result | None], Exception | None]:
    """Run ``work`` on all ``tasks``, up to ``threads`` at a time.

    Args:
        tasks: what to work on.
        work: called in the threads; an exception ends the stage: no task begins after it, those in flight are finished.
        threads: the most tasks at a time.
        stop: set when the stage ends early; ``work`` may look at it.
        done: called in this thread with every result, in the order in which they arrive.
        interrupted: called at the first Ctrl-C, before the tasks in flight are waited for.
        abandoned: called at the second one, after which nobody waits for them.

    Returns:
        The results in the order of the tasks, None for those without, and the first exception.

    Raises:
        KeyboardInterrupt: after the tasks in flight are finished, or at once at the second Ctrl-C.
    """
    pool = _Pool(tasks, work, stop)
    try:
        pool.start(min(threads, len(tasks)))
        pool.collect(done)
    except BaseException as error:
        stop.set()
        try:
            if isinstance(error, KeyboardInterrupt):
                interrupted()
            pool.collect(lambda result: None)
        except KeyboardInterrupt:
            abandoned()
            raise
        raise
    return pool.results, pool.error


class _Pool(Generic[Task, Result]):
    """Threads that the program's end does not wait for, other than those of `concurrent.futures`: a second Ctrl-C has to end it."""

    def __init__(self, tasks: Sequence[Task], work: Callable[[Task], Result], stop: Event) -> None:
        self.results: list[Result | None] = [None] * len(tasks)
        self.error: Exception | None = None
        self._work, self._stop, self._left = work, stop, deque(enumerate(tasks))
        self._threads: set[Thread] = set()
        self._arrived: SimpleQueue[tuple[int, Result] | Exception | Thread] = SimpleQueue()

    def start(self, threads: int) -> None:
        """Begin in as many threads."""
        for number in range(threads):
            thread = Thread(target=self._serve, name=f"ikat-llm_{number}", daemon=True)
            self._threads.add(thread)
            thread.start()

    def collect(self, done: Callable[[Result], None]) -> None:
        """Take what arrives until every thread has ended."""
        while self._threads:
            found = self._next()
            if isinstance(found, Thread):
                self._threads.discard(found)
            elif isinstance(found, tuple):
                self.results[found[0]] = found[1]
                done(found[1])
            elif found is not None and not isinstance(found, Stopped):
                self.error = self.error or found

    def _next(self) -> "tuple[int, Result] | Exception | Thread | None":
        try:
            return self._arrived.get(timeout=LOST)
        except Empty:  # a Ctrl-C between taking a thread's last word and noting it
            self._threads = {thread for thread in self._threads if thread.is_alive()}
            return None

    def _serve(self) -> None:
        with suppress(IndexError):
            while not self._stop.is_set():
                self._do(*self._left.popleft())
        self._arrived.put(current_thread())

    def _do(self, place: int, task: Task) -> None:
        try:
            self._arrived.put((place, self._work(task)))
        except BaseException as error:
            self._stop.set()
            if isinstance(error, Exception):
                self._arrived.put(error)
