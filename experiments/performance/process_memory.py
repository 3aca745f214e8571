"""The memory of this process without the pages of mapped files (RssAnon of /proc; Linux only)."""

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

EVERY = 0.02
"""Seconds between two measurements."""


def held_mb() -> float:
    """The current megabytes."""
    lines = Path("/proc/self/status").read_text(encoding="utf-8").splitlines()
    return sum(float(line.split()[1]) / 1e3 for line in lines if line.startswith("RssAnon"))


@contextmanager
def watched() -> Iterator[list[float]]:
    """A list of two figures: the megabytes at the beginning, and the maximum so far."""
    found, done = [held_mb()] * 2, threading.Event()

    def look() -> None:
        while not done.wait(EVERY):
            found[1] = max(found[1], held_mb())

    watch = threading.Thread(target=look)
    watch.start()
    try:
        yield found
    finally:
        done.set()
        watch.join()
