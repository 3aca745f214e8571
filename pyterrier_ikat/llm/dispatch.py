"""Runs the calls of one stage in threads: bounded, each result at once, nothing new after an error or Ctrl-C."""

from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from threading import Event
from typing import TypeVar

Task = TypeVar("Task")
Result = TypeVar("Result")


class Stopped(Exception):  # noqa: N818 - no error: the task was not begun, because another one ended the stage
    """Raised by a task that finds the stage ended."""


def run_all(
    tasks: Sequence[Task],
    work: Callable[[Task], Result],
    *,
    threads: int,
    stop: Event,
    done: Callable[[Result], None],
) -> tuple[list[Result | None], Exception | None]:
    """Run ``work`` on all ``tasks``, up to ``threads`` at a time.

    Args:
        tasks: what to work on.
        work: called in the threads; an exception ends the stage: no task begins after it, those in flight are finished.
        threads: the most tasks at a time.
        stop: set when the stage ends early; ``work`` may look at it.
        done: called in this thread with every result, in the order in which they arrive.

    Returns:
        The results in the order of the tasks, None for those without, and the first exception.

    Raises:
        KeyboardInterrupt: after the tasks in flight are finished.
    """

    def guarded(task: Task) -> Result:
        if stop.is_set():
            raise Stopped
        try:
            return work(task)
        except BaseException:
            stop.set()
            raise

    results: list[Result | None] = [None] * len(tasks)
    first: Exception | None = None
    with ThreadPoolExecutor(min(threads, len(tasks)), thread_name_prefix="ikat-llm") as pool:
        try:
            places = {pool.submit(guarded, task): place for place, task in enumerate(tasks)}
            for future in as_completed(places):
                error = future.exception()
                if error is None:
                    results[places[future]] = future.result()
                    done(future.result())
                elif isinstance(error, Exception) and not isinstance(error, Stopped):
                    first = first or error
        except BaseException:
            stop.set()
            raise
    return results, first
