"""The progress line: the system, the finished turns, the stage, its count, its rate, and the remaining time.

There is one such line for the whole process. Code that works adds an entry to it and removes it at the end: ``doing`` adds a text, ``bar``
a count. The line is redrawn at fixed times, so that it moves while nothing is counted. It is drawn only in a terminal and in a notebook.
Other output appears above it. This module imports nothing heavy: a command draws its line before its libraries are loaded.
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

EVERY = 0.5
"""Seconds from one drawing to the next."""
FIRST = 0.2
"""Seconds until the first drawing. Shorter work needs no line."""
SLOW = 5
"""Seconds after which a count that has not moved shows how long it has been waiting."""
ASKED = "HF_HUB_DISABLE_PROGRESS_BARS"
"""The user asks for the bars of model loading by setting this variable to 0."""
OFF = "TQDM_DISABLE"
"""The environment variable that turns the line off. It also turns off the bars of other libraries."""
PLACE, WORK, TURNS = "place", "work", "turns"
"""What an entry is: where we are, such as a command or a system; what is done; the turns that are done of a system."""


def in_time(seconds: float) -> str:
    """A duration.

    Example:
        >>> in_time(9.4), in_time(75), in_time(3723)
        ('0:09', '1:15', '1:02:03')
    """
    minutes, rest = divmod(int(seconds), 60)
    return f"{minutes // 60}:{minutes % 60:02}:{rest:02}" if minutes >= 60 else f"{minutes}:{rest:02}"


class Entry:
    """A part of the line: a text, and a count where something is counted.

    Args:
        text: what is done.
        kind: one of ``PLACE``, ``WORK``, ``TURNS``.
        counted: what is counted: an iterable, or nothing where ``update`` is called.
        total: how many there are; None for a text alone, and where that isn't known.
        unit: what is counted, in the singular.
        initial: how many were done before.
        gives_way: a count that is begun later is shown in its place.
        line: the line; None if it isn't shown.
    """

    def __init__(
        self,
        text: str,
        kind: str = WORK,
        counted: Iterable[Any] | None = None,
        *,
        total: int | None = None,
        unit: str = "",
        initial: int = 0,
        gives_way: bool = False,
        line: "Line | None" = None,
    ) -> None:
        self.text, self.kind, self.counted, self.gives_way, self.line = text, kind, counted, gives_way, line
        self.total = total or (None if counted is None else length_hint(counted) or None)
        self.unit, self.n, self.initial, self.notes = unit, initial, initial, dict[str, str]()
        self.started = 0.0
        if line is not None and counted is None:
            line.add(self)

    def __iter__(self) -> Iterator[Any]:
        if self.line is not None:  # not before, because a line that never began is not ended
            self.line.add(self)
        try:
            for one in self.counted or ():
                yield one
                self.n += 1
        finally:
            self.close()

    def __enter__(self) -> "Entry":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def update(self, n: int = 1) -> None:
        """Count ``n`` more as done."""
        self.n += n

    def note(self, **notes: Any) -> None:
        """Show numbers next to the count, by name."""
        self.notes = {name: str(value) for name, value in notes.items()}

    def report(self, done: str) -> None:
        """Print that it has finished, where no line shows it."""
        if self.line is not None:
            self.line.report(f"{self.text}: {done} in {in_time(self.line.clock() - self.started)}")

    def close(self) -> None:
        """It is done."""
        if self.line is not None:
            self.line.take(self)

    def shown(self, seconds: float) -> str:
        """Its text after it has existed for so many seconds.

        Example:
            >>> count = Entry("answer", total=24, unit="call")
            >>> count.shown(1)
            'answer 0/24 calls'
            >>> count.shown(9)
            'answer 0/24 calls, 0:09'
            >>> count.update(6)
            >>> count.shown(12)
            'answer 6/24 calls, 0.5/s, 0:36 left'
            >>> Entry("loading a model").shown(12)
            'loading a model 0:12'
        """
        if not self.unit:
            return self.text if self.kind == PLACE else f"{self.text} {in_time(seconds)}"
        done, new = self._amount(self.n), self.n - self.initial
        parts = [f"{done}/{self._amount(self.total)} {self._units()}" if self.total else f"{done} {self._units()}"]
        if new > 0 and seconds > 0:
            rate = new / seconds
            parts.append(f"{self._amount(rate)}/s" if rate >= 0.1 else f"{in_time(1 / rate)} each")
            parts += [f"{in_time((self.total - self.n) / rate)} left"] if self.total and self.total > self.n else []
        elif seconds >= SLOW:
            parts.append(in_time(seconds))
        parts += [f"{name}={value}" for name, value in sorted(self.notes.items()) if value != "0"]
        return " ".join([*([self.text] if self.text else []), ", ".join(parts)])

    def _amount(self, number: float | None) -> str:
        if self.unit == "B":
            return f"{(number or 0) / 1e6:.1f}"
        return f"{number:.3g}" if isinstance(number, float) and number < 100 else f"{number or 0:.0f}"

    def _units(self) -> str:
        return "MB" if self.unit == "B" else f"{self.unit[:-1]}ies" if self.unit[-1:] == "y" else f"{self.unit}s"


class Line:
    """The line; there is one, ``LINE``, and tests make others.

    Args:
        clock: gives the seconds.
        ticks: whether a thread draws it by time; without it ``draw`` does.

    Attributes:
        reports: whether a line is printed for each finished system where there is neither a terminal nor a notebook: commands ask for it.
    """

    def __init__(self, clock: Callable[[], float] = time.monotonic, *, ticks: bool = True) -> None:
        self.clock, self.ticks, self.reports = clock, ticks, False
        self._entries: list[Entry] = []
        self._lock, self._over = threading.RLock(), threading.Event()
        self._screen: _Terminal | _Notebook | None = None

    def add(self, entry: Entry) -> None:
        """Show an entry. The first entry makes the line appear."""
        with self._lock:
            entry.started = self.clock()
            self._entries.append(entry)
            if len(self._entries) == 1:
                self._appear()

    def take(self, entry: Entry) -> None:
        """Remove an entry. The line disappears with the last one."""
        with self._lock:
            if entry in self._entries:
                self._entries.remove(entry)
            if not self._entries:
                self._over.set()
                if self._screen is not None:
                    self._screen.end()
                    self._screen = None

    def draw(self) -> None:
        """Draw it as it is now."""
        with self._lock:
            if self._screen is not None and self._entries:
                self._screen.draw(self.text())

    def text(self) -> str:
        """The places, the finished turns, the newest work, and the count to show: the first one that gives way to no other."""
        now, counts = self.clock(), [one for one in self._entries if one.kind == WORK and one.unit]
        places = [one for one in self._entries if one.kind == PLACE]
        turns = [one for one in self._entries if one.kind == TURNS][-1:]
        work = [one for one in self._entries if one.kind == WORK and not one.unit][-1:]
        count = [one for one in counts if not one.gives_way][:1] or counts[-1:]
        parts = [*(places[1:] or places), *turns, *work, *count]
        shown = [one.shown(now - one.started) for one in parts]
        return " · ".join(shown) + (f" {in_time(now - parts[0].started)}" if parts == places else "")

    def report(self, text: str) -> None:
        """Print what has finished, where no line shows it."""
        if self.reports and self._screen is None:
            print(text, file=sys.stderr, flush=True)

    def _appear(self) -> None:
        if os.environ.get(OFF, "0") not in ("", "0"):
            return
        if sys.stderr is not None and sys.stderr.isatty():
            self._screen = _Terminal()
        elif _in_notebook():
            self._screen = _Notebook()
        else:
            return
        self._over = threading.Event()
        if self.ticks:
            threading.Thread(target=self._tick, args=(self._over,), name="ikat-progress", daemon=True).start()

    def _tick(self, over: threading.Event) -> None:
        wait = FIRST
        while not over.wait(wait):
            with self._lock:
                if not over.is_set():
                    self.draw()
            wait = EVERY


class _Terminal:
    """Draws the line in the last row of a terminal. Text that is printed meanwhile takes the line's place, and the line moves below it."""

    def __init__(self) -> None:
        self.out, self.last, self.lock = sys.stderr, "", threading.RLock()
        self._whole = True
        self._before = sys.stdout, sys.stderr
        self._ours = [_Above(stream, self) if stream is not None and stream.isatty() else stream for stream in self._before]
        sys.stdout, sys.stderr = self._ours

    def draw(self, text: str) -> None:
        with self.lock:
            if self._whole:  # other code printed a part of a row, such as a question
                text = text[: self._columns() - 1]
                self.out.write("\r" + text.ljust(len(self.last)))
                self.out.flush()
                self.last = text

    def clear(self) -> None:
        if self.last:
            self.out.write("\r" + " " * len(self.last) + "\r")
            self.out.flush()
            self.last = ""

    def printed(self, stream: Any, text: str) -> Any:
        with self.lock:
            self.clear()
            if text:
                self._whole = text.endswith("\n")
            return stream.write(text)

    def end(self) -> None:
        with self.lock:
            self.clear()
        if [sys.stdout, sys.stderr] == self._ours:  # other code may have wrapped our stream
            sys.stdout, sys.stderr = self._before

    def _columns(self) -> int:
        try:
            return os.get_terminal_size(self.out.fileno()).columns or 80
        except (OSError, ValueError):
            return 80


class _Above:
    """A stream of the terminal in which the line is drawn."""

    def __init__(self, stream: Any, terminal: _Terminal) -> None:
        self._stream, self._terminal = stream, terminal

    def write(self, text: str) -> Any:
        return self._terminal.printed(self._stream, text)

    def writelines(self, lines: Iterable[str]) -> None:
        for line in lines:
            self.write(line)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._stream, name)


class _Notebook:
    """Draws the line below a notebook's cell, without widgets."""

    def __init__(self) -> None:
        self._shown: Any = None

    def draw(self, text: str) -> None:
        data = {"text/plain": text}
        if self._shown is None:
            self._shown = import_module("IPython.display").display(data, raw=True, display_id=True)
        else:
            self._shown.update(data, raw=True)

    def end(self) -> None:
        if self._shown is not None:
            self._shown.update({"text/plain": ""}, raw=True)


def _in_notebook() -> bool:
    found = getattr(sys.modules.get("IPython"), "get_ipython", lambda: None)()
    return hasattr(found, "kernel")


LINE = Line()
"""The line of this process."""
_hidden: ContextVar[bool] = ContextVar("hidden", default=False)


def bar(counted: Iterable[Any] | None = None, *, desc: str = "", disable: bool = False, **more: Any) -> Entry:
    """A count on the line: to go through, or to ``update``.

    Args:
        counted: what is counted.
        desc: what is done.
        disable: show nothing.
        **more: other arguments of `Entry`.

    Example:
        >>> list(bar([1, 2], desc="counting"))
        [1, 2]
    """
    unit = more.pop("unit", "step")
    return Entry(desc, more.pop("kind", WORK), counted, unit=unit, line=None if disable or _hidden.get() else LINE, **more)


def doing(text: str, kind: str = WORK) -> Entry:
    """An entry without a count: the line has its text until it is closed, or while a block ``with`` it runs."""
    return Entry(text, kind, line=None if _hidden.get() else LINE)


@contextmanager
def command_line(name: str) -> Iterator[None]:
    """While a command runs, the line begins with its name. Where no line is drawn, finished work is printed."""
    before, LINE.reports = LINE.reports, True
    try:
        with doing(name, PLACE):
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
