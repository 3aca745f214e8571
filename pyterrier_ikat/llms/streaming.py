"""A completion while it is written: its reader, and the part that may be shown."""

import re
import time

from ..completions.forms import forms
from ..completions.reasoning import NamedMarks, names_in, split_reasoning, unknown_mark
from ..completions.usable import printable
from ..events import Write
from .request import PLAIN_READING, Reading

STREAMED = {"stream": True, "stream_options": {"include_usage": True}}
"""The additional fields of a request for a stream."""
PAUSE = 0.02
"""Seconds between two looks at a text: one token of a fast model more or less is not seen."""
_UNFINISHED = re.compile(
    r"(?:[\[&◁◀⟨⟪\uff1c\u3008]|<(?!\s))[^<>\];▷▶⟩⟫\uff1e\u3009\n]{0,250}\Z|<<[^<>\n]{0,20}>?\Z"
)
"""The end of a text that may become a mark or a citation."""


class Reader:
    """Passes on what a model writes to its reader, until that raises an error.

    Attributes:
        error: the reader's error; it is raised when the call is finished and kept.
    """

    def __init__(self, write: Write) -> None:
        self._write = write
        self.error: Exception | None = None

    def __call__(self, text: str) -> None:
        """Pass on the text so far."""
        if self.error is not None:
            return
        try:
            self._write(text)
        except Exception as error:
            self.error = error


class Writing:
    """Passes on what a model writes: printable, and without reasoning.

    Args:
        write: gets the whole text that may be seen so far.
        reading: how the finished completion is read.

    Example:
        >>> texts = []
        >>> writing = Writing(texts.append)
        >>> for piece in ("<think>hm", "</think> Roo", "ibos"):
        ...     writing.add(piece)
        ...     time.sleep(PAUSE)
        >>> texts
        ['Roo', 'Rooibos']
    """

    def __init__(self, write: Write, reading: Reading = PLAIN_READING) -> None:
        self._write = write
        self._reading = reading
        self._text = ""
        self._shown = ""
        self._pieces: list[str] = []
        self._next = 0.0

    def add(self, piece: str) -> None:
        """Add the next piece of the text, and pass on what may be seen."""
        self._pieces.append(piece)
        if time.monotonic() < self._next:
            return
        self._text += "".join(self._pieces)
        self._pieces.clear()
        seen = seen_so_far(printable(self._text), self._reading)
        if seen is not None and seen != self._shown:
            self._shown = seen
            self._write(seen)
        self._next = time.monotonic() + PAUSE


def seen_so_far(text: str, reading: Reading = PLAIN_READING) -> str | None:
    """The beginning of an unfinished completion as the finished one will show it.

    Args:
        text: what is written so far.
        reading: how the finished completion is read.

    Returns:
        the text, or None while it isn't known what may be shown.

    Example:
        >>> [seen_so_far("<think>hm</think>Mint <b"[:end]) for end in (5, 10, 19, 22, 25)]
        [None, None, 'Mi', 'Mint', 'Mint']
    """
    known = forms(reading.named)
    settled = known.half_a_mention.sub("", _UNFINISHED.sub("", text))
    settled = _without_half_a_mark(settled, reading.named)
    if known.worded_begins.match(settled) and not known.worded.match(settled):
        return None
    split = split_reasoning(settled, reading.named)
    beginning = " ".join(split.text.split()).casefold()
    if any(word.startswith(beginning) for word in known.beginnings):
        return None
    if split.open or unknown_mark(split.text, reading.messages):
        return None
    tag = re.match(r"<([\w:.-]+)", split.text)
    if tag and tag[1].casefold() in names_in(reading.messages):
        return None  # what follows decides whether the tag is around all of it
    return split.text


def _without_half_a_mark(text: str, named: NamedMarks) -> str:
    """Remove an end that may become a mark with which named reasoning begins."""
    longest = 0
    for opening, _ in named:
        for length in range(longest + 1, min(len(opening), len(text) + 1)):
            if text[-length:].casefold() == opening[:length].casefold():
                longest = length
    return text[: len(text) - longest]
