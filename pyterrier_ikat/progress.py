"""The progress line: the system, the stage, the finished turns, their rate and the remaining time, by tqdm.

There is one such line for the whole process. Code that works adds an entry to it and removes it at
the end: ``doing`` adds a text, ``bar`` a count. The first count is the bar's own, and those inside
it follow as texts. The line is drawn in a terminal and in a notebook. This module imports nothing
heavy: a command draws its line before its libraries are loaded.
"""

import os
import sys
import threading
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from importlib import import_module
from importlib.util import find_spec
from operator import length_hint
from typing import Any

from tqdm import tqdm

from .errors import counted

EVERY = 0.1
"""Seconds between two drawings."""
ASKED = "HF_HUB_DISABLE_PROGRESS_BARS"
"""The user asks for the bars of model loading by setting this variable to 0."""
OFF = "TQDM_DISABLE"
"""The environment variable that turns the line off, and the bars of other libraries."""
COUNT = "{desc}{n_fmt}/{total_fmt}{unit} [{elapsed}<{remaining}, {rate_fmt}{postfix}]{bar}"
TEXT = "{desc} [{elapsed}]{bar}"


class _Tqdm(tqdm):  # type: ignore[type-arg]
    monitor_interval = 0  # no thread, which would outlive a fork


_Tqdm.set_lock(threading.RLock())  # type: ignore[no-untyped-call]  # tqdm's own one is shared with other processes


class Entry:
    """A part of the line: a count, to go through or to ``update`` in a block ``with`` it, or a text alone.

    It isn't shown where nobody looks: where stderr is neither a terminal nor a notebook's.

    Args:
        counted: what is counted: an iterable, or nothing where ``update`` is called.
        desc: what is done.
        total: how many there are; None for a text alone, and where that isn't known.
        unit: what is counted, in the singular. Empty for a text.
        initial: how many were done before.
        disable: show nothing.

    Example:
        >>> list(bar([1, 2], desc="counting"))
        [1, 2]
    """

    def __init__(
        self,
        counted: Iterable[Any] = (),
        *,
        desc: str = "",
        total: int | None = None,
        unit: str = "step",
        initial: int = 0,
        disable: bool = False,
    ) -> None:
        self.text, self.counted, self.total, self.unit, self.n = (
            desc,
            counted,
            total or length_hint(counted) or None,
            unit,
            initial,
        )
        self.notes, self.started = "", time.monotonic()
        off = (
            disable
            or _hidden.get()
            or os.environ.get(OFF, "0") not in ("", "0")
            or sys.stderr is None
        )
        notebook = getattr(sys.modules.get("IPython"), "get_ipython", lambda: None)()
        self.hidden = off or not (sys.stderr.isatty() or hasattr(notebook, "kernel"))

    def __iter__(self) -> Iterator[Any]:
        with self:
            for one in self.counted:
                yield one
                self.update()

    def __enter__(self) -> "Entry":
        self.started = time.monotonic()
        if not self.hidden:
            LINE.change(LINE.entries.append, self)
        return self

    def __exit__(self, *_: object) -> None:
        if not self.hidden:
            LINE.change(LINE.entries.remove, self)

    def __str__(self) -> str:
        return f"{self.text} {self.n}/{self.total or '?'}{', ' * bool(self.notes)}{self.notes}"

    def update(self, n: int = 1, **notes: Any) -> None:
        """Count ``n`` more as done, and show numbers behind the count, by name, but for zeros."""
        self.n += n
        self.notes = ", ".join(f"{name}={value}" for name, value in notes.items() if value)
        if not self.hidden:
            LINE.draw()

    def report(self, done: str) -> None:
        """Print that it has finished, where a command asked for that and no line shows it."""
        if LINE.reports and LINE.bar is None:
            seconds = int(time.monotonic() - self.started)
            print(
                f"{self.text}: {done} in {tqdm.format_interval(seconds)}",
                file=sys.stderr,
                flush=True,
            )


class Line:
    """The line; there is one, ``LINE``.

    Attributes:
        entries: what it shows.
        bar: tqdm's bar, while there is a line.
        reports: whether a line is printed for each finished system where there is neither a
            terminal nor a notebook: commands ask for it.
    """

    def __init__(self) -> None:
        self.entries: list[Entry] = []
        self.bar: Any = None
        self.reports = False
        self._of: Entry | None = None
        self._lock = threading.RLock()

    def change(self, how: Callable[[Entry], None], entry: Entry) -> None:
        """Add or remove an entry. The line disappears with the last one."""
        with self._lock:
            how(entry)
            first = next((one for one in self.entries if one.unit), None)
            if self.bar is not None and (first is not self._of or not self.entries):
                self.bar.close()
                self.bar = None
            self._of = first
            if self.entries:
                self._draw()

    def draw(self) -> None:
        """Draw it as it is now, unless it was drawn a moment ago."""
        with self._lock:
            if self.bar is not None and time.time() - self.bar.last_print_t > EVERY:
                self._draw()

    def _draw(self) -> None:
        first = self._of
        desc = " \u00b7 ".join(
            filter(
                None,
                [*(one.text for one in self.entries if not one.unit), first.text if first else ""],
            )
        )
        inner = [one.notes if one is first else str(one) for one in self.entries if one.unit]
        desc, postfix = desc + ": " * bool(desc and first), ", ".join(filter(None, inner))
        if self.bar is None:
            more: dict[str, Any] = {"bar_format": TEXT}
            if first is not None:
                unit = "B" if first.unit == "B" else f" {counted(2, first.unit)[2:]}"
                more = {
                    "bar_format": COUNT,
                    "total": first.total,
                    "initial": first.n,
                    "unit": unit,
                    "unit_scale": unit == "B",
                }
            self.bar = _Tqdm(leave=False, dynamic_ncols=True, desc=desc, postfix=postfix, **more)
        else:
            self.bar.n, self.bar.last_print_t = first.n if first else 0, time.time()
            self.bar.set_description_str(desc, refresh=False)
            self.bar.set_postfix_str(postfix, refresh=False)
            self.bar.refresh()


LINE = Line()
"""The line of this process."""
_hidden: ContextVar[bool] = ContextVar("hidden", default=False)


bar = Entry


def doing(text: str) -> Entry:
    """An entry without a count: while a block ``with`` it runs, the line has its text."""
    return Entry(desc=text, unit="")


def tell(text: str) -> None:
    """Print a text to stderr, above the line."""
    if sys.stderr is not None:
        _Tqdm.write(text, file=sys.stderr)


@contextmanager
def command_line(name: str) -> Iterator[None]:
    """While a command runs, the line begins with its name. Where no line is drawn, finished work is printed."""
    before, LINE.reports = LINE.reports, True
    try:
        with doing(name):
            yield
    finally:
        LINE.reports = before


@contextmanager
def without_bars() -> Iterator[None]:
    """Inside the block, nothing is added to the line, because another entry describes the work."""
    before = _hidden.set(True)
    try:
        yield
    finally:
        _hidden.reset(before)


@contextmanager
def without_loading_bars() -> Iterator[None]:
    """While the block runs, transformers and huggingface_hub show no bars, unless the user asks for them (``ASKED``)."""
    if os.environ.get(ASKED) == "0" or find_spec("transformers") is None:
        yield
        return
    logging: Any = import_module("transformers.utils.logging")
    enabled = logging.is_progress_bar_enabled()
    logging.disable_progress_bar()
    try:
        yield
    finally:
        if enabled:
            logging.enable_progress_bar()
