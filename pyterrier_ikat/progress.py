"""The progress line, by tqdm: system, stage, finished turns, their rate and the remaining time.

There is one such line for the whole process. Code that works adds an entry to it and removes it at
the end: ``doing`` adds a text, ``bar`` a count. The first count is the bar's own, and those inside
it follow as texts. The line is drawn in a terminal and in a notebook. In a terminal, what is
printed meanwhile stands above it. This module imports nothing heavy: a command draws its line
before its libraries are loaded.
"""

import os
import shutil
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

from .errors import counted, on_one_line, without_controls

REDRAW_SECONDS = 0.1
"""Seconds between two drawings."""
LOADING_VARIABLE = "HF_HUB_DISABLE_PROGRESS_BARS"
"""The user asks for the bars of model loading by setting this variable to 0."""
OFF_VARIABLE = "TQDM_DISABLE"
"""The environment variable that turns the line off, and the bars of other libraries."""
ENDS_OF_PRINTED = ("\n", "\r")
"""The ends of a text after which the line may be drawn: the cursor is at the left."""
COUNT_FORMAT = "{desc}{n_fmt}/{total_fmt}{unit} [{elapsed}<{remaining}, {rate_fmt}{postfix}]{bar}"
TEXT_FORMAT = "{desc} [{elapsed}]{bar}"


class _Tqdm(tqdm):  # type: ignore[type-arg]
    monitor_interval = 0  # no thread, which would outlive a fork


# Whoever draws or prints holds this one lock. (tqdm's own is shared with other processes.)
_Tqdm.set_lock(threading.RLock())  # type: ignore[no-untyped-call]


class Entry:
    """A part of the line: a count, to iterate over or to ``update``, or a text alone.

    It isn't shown where stderr is neither a terminal nor a notebook's.

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
        self.text = desc
        self.counted = counted
        self.total = total or length_hint(counted) or None
        self.unit = unit
        self.n = initial
        self.notes = ""
        self.started = time.monotonic()
        is_off = disable or _hidden.get() or os.environ.get(OFF_VARIABLE, "0") not in ("", "0")
        self.hidden = is_off or not _is_shown()

    def __iter__(self) -> Iterator[Any]:
        with self:
            for item in self.counted:
                yield item
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
        count = f"{self.text} {self.n}/{self.total or '?'}"
        return f"{count}, {self.notes}" if self.notes else count

    def update(self, n: int = 1, **notes: Any) -> None:
        """Advance by ``n`` and show the non-zero named numbers."""
        self.n += n
        self.notes = ", ".join(f"{name}={value}" for name, value in notes.items() if value)
        if not self.hidden:
            LINE.draw()

    def report(self, done: str) -> None:
        """Print a finished line if no progress bar is visible, and a command wants one."""
        if LINE.reports and LINE.bar is None:
            duration = tqdm.format_interval(int(time.monotonic() - self.started))
            print(f"{self.text}: {done} in {duration}", file=sys.stderr, flush=True)


def _is_shown() -> bool:
    """Whether somebody sees the line: stderr is a terminal, or Python runs in a notebook."""
    if sys.stderr is None:
        return False
    if sys.stderr.isatty():
        return True
    ipython: Any = sys.modules.get("IPython")
    shell = None if ipython is None else ipython.get_ipython()
    return hasattr(shell, "kernel")


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
        self._count: Entry | None = None  # the entry whose count is the bar's own
        self._is_row_taken = False  # by a text whose end isn't printed yet

    def change(self, how: Callable[[Entry], None], entry: Entry) -> None:
        """Add or remove an entry. The line disappears with the last one."""
        with _Tqdm.get_lock():
            how(entry)
            count = next((entry for entry in self.entries if entry.unit), None)
            if count is not self._count or not self.entries:
                self._close_bar()
            self._count = count
            if self.entries:
                self._draw()
            else:
                self._is_row_taken = False
                _restore_streams()

    def leave(self) -> None:
        """Forget the line, which belongs to the process that this one was forked from."""
        _Tqdm.set_lock(threading.RLock())  # type: ignore[no-untyped-call]
        for entry in self.entries:
            entry.hidden = True
        self.entries.clear()
        if self.bar is not None:
            self.bar.disable = True
        self.bar = None
        self._is_row_taken = False
        _restore_streams()

    def print_above(self, text: str, stream: Any, *, may_draw: bool) -> int:
        """Write a text into a terminal, in the place of the line, and draw the line below it.

        While the last row of texts isn't finished, the line isn't drawn.

        Args:
            text: the text.
            stream: the terminal.
            may_draw: whether bars of other libraries are drawn there. These find the line
                themselves.
        """
        with _Tqdm.get_lock():
            is_drawing = may_draw and not self._is_row_taken and _is_drawing(text)
            if not self.entries or not text or is_drawing:
                return int(stream.write(text))
            if self.bar is not None and not self._is_row_taken:
                self.bar.clear()
            written = stream.write(text)
            stream.flush()
            self._is_row_taken = not text.endswith(ENDS_OF_PRINTED)
            self._draw()
            return int(written)

    def _close_bar(self) -> None:
        if self.bar is None:
            return
        if self._is_row_taken:
            self.bar.disable = True  # closing it would clear the row
        self.bar.close()
        self.bar = None

    def draw(self) -> None:
        """Redraw at most every 0.1 s."""
        with _Tqdm.get_lock():
            if self.bar is not None and time.time() - self.bar.last_print_t > REDRAW_SECONDS:
                self._draw()

    def _draw(self) -> None:
        if self._is_row_taken:
            return
        count = self._count
        texts = []
        notes = []
        for entry in self.entries:
            if not entry.unit:
                texts.append(entry.text)
            elif entry is count:
                notes.append(entry.notes)
            else:
                notes.append(str(entry))
        if count is not None:
            texts.append(count.text)
        desc = on_one_line(" \u00b7 ".join(text for text in texts if text))
        if desc and count is not None:
            desc += ": "
        postfix = on_one_line(", ".join(note for note in notes if note))
        if self.bar is None:
            _replace_streams(self)
            options = _bar_options(count)
            self.bar = _Tqdm(leave=False, desc=desc, postfix=postfix, **options)
            return
        self.bar.n = 0 if count is None else count.n
        self.bar.last_print_t = time.time()
        self.bar.set_description_str(desc, refresh=False)
        self.bar.set_postfix_str(postfix, refresh=False)
        self.bar.refresh()


def _bar_options(count: Entry | None) -> dict[str, Any]:
    """The options of tqdm's bar for a count, or for texts alone."""
    stream = _without_line(sys.stderr)
    options: dict[str, Any] = {"file": stream}
    if _columns_of(stream) == 0:
        options["ncols"] = shutil.get_terminal_size().columns
    else:
        options["dynamic_ncols"] = True
    if count is None:
        options["bar_format"] = TEXT_FORMAT
        return options
    in_bytes = count.unit == "B"
    options["bar_format"] = COUNT_FORMAT
    options["total"] = count.total
    options["initial"] = count.n
    options["unit"] = "B" if in_bytes else f" {counted(2, count.unit)[2:]}"
    options["unit_scale"] = in_bytes
    return options


def _columns_of(stream: Any) -> int | None:
    """The columns of a terminal, 0 if it doesn't know them; None for another stream."""
    try:
        return os.get_terminal_size(stream.fileno()).columns
    except (AttributeError, OSError, ValueError):
        return None


class _AboveLine:
    """A terminal's stream, whose texts are printed above the line.

    Args:
        stream: the stream.
        line: the line.
        may_draw: whether bars of other libraries are drawn there.
    """

    def __init__(self, stream: Any, line: Line, may_draw: bool) -> None:
        self.stream = stream
        self._line = line
        self._may_draw = may_draw

    def write(self, text: str) -> int:
        """Write a text as the stream does."""
        return self._line.print_above(text, self.stream, may_draw=self._may_draw)

    def writelines(self, lines: Iterable[str]) -> None:
        """Write texts as the stream does."""
        for line in lines:
            self.write(line)

    def __getattr__(self, name: str) -> Any:
        return getattr(self.stream, name)


def _without_line(stream: Any) -> Any:
    """The stream itself."""
    return stream.stream if isinstance(stream, _AboveLine) else stream


def _is_drawing(text: str) -> bool:
    """Whether a text is a step of drawing a bar: it returns, goes up, or goes to another row."""
    return text.startswith(("\r", "\x1b[A")) or not text.strip("\n")


def _replace_streams(line: Line) -> None:
    """Let texts for the terminal be printed above the line."""
    if not sys.stderr.isatty():  # a notebook
        return
    for name in ("stdout", "stderr"):
        stream = getattr(sys, name)
        if stream is None or isinstance(stream, _AboveLine) or not stream.isatty():
            continue
        setattr(sys, name, _AboveLine(stream, line, name == "stderr"))


def _restore_streams() -> None:
    for name in ("stdout", "stderr"):
        setattr(sys, name, _without_line(getattr(sys, name)))


LINE = Line()
"""The line of this process."""
if hasattr(os, "register_at_fork"):  # not on Windows
    os.register_at_fork(after_in_child=LINE.leave)
_hidden: ContextVar[bool] = ContextVar("hidden", default=False)


bar = Entry


def doing(text: str) -> Entry:
    """Return an entry without a count: inside a block ``with`` it, the line has its text."""
    return Entry(desc=text, unit="")


def tell(text: str) -> None:
    """Print a text to stderr, above the line, without control characters."""
    if sys.stderr is not None:
        _Tqdm.write(without_controls(text), file=sys.stderr)


@contextmanager
def command_line(name: str) -> Iterator[None]:
    """Begin the line with a command's name while it runs.

    Where no line is drawn, finished work is printed.
    """
    before = LINE.reports
    LINE.reports = True
    try:
        with doing(name):
            yield
    finally:
        LINE.reports = before


@contextmanager
def without_bars() -> Iterator[None]:
    """Add nothing to the line inside the block, because another entry describes the work."""
    before = _hidden.set(True)
    try:
        yield
    finally:
        _hidden.reset(before)


@contextmanager
def without_loading_bars() -> Iterator[None]:
    """Hide the bars of transformers and huggingface_hub, unless the user asks for them."""
    if os.environ.get(LOADING_VARIABLE) == "0" or find_spec("transformers") is None:
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
