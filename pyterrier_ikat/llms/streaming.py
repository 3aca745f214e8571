"""A completion while it is written: who reads it, and what of it may be seen already."""

import re
import time

from ..completions.forms import forms
from ..completions.reasoning import names_in, split_reasoning, unknown_mark
from ..completions.usable import printable
from ..events import Write
from .request import PLAIN, Reading

STREAMED = {"stream": True, "stream_options": {"include_usage": True}}
"""The additional fields of a request for a stream."""
PAUSE = 0.02
"""Seconds between two looks at a text: one token of a fast model more or less is not seen."""
_UNFINISHED = re.compile(
    r"(?:[\[&◁◀⟨⟪\uff1c\u3008]|<(?!\s))[^<>\];▷▶⟩⟫\uff1e\u3009\n]{0,250}\Z|<<[^<>\n]{0,20}>?\Z"
)
"""An end that may become a mark, or a citation."""


class Reader:
    """Passes on what a model writes to its reader, until that raises an error.

    Attributes:
        error: the reader's error; it is raised when the call is finished and kept.
    """

    def __init__(self, write: Write) -> None:
        self._write = write
        self.error: Exception | None = None

    def __call__(self, text: str) -> None:
        """Give them what is written so far."""
        if self.error is not None:
            return
        try:
            self._write(text)
        except Exception as error:
            self.error = error


class Writing:
    """Passes on what a model writes: printable, and without reasoning.

    Args:
        write: gets all of it that may be seen so far.
        reading: how the finished completion is read.

    Example:
        >>> told = []
        >>> writing = Writing(told.append)
        >>> for piece in ("<think>hm", "</think> Roo", "ibos"):
        ...     writing.add(piece)
        ...     time.sleep(PAUSE)
        >>> told
        ['Roo', 'Rooibos']
    """

    def __init__(self, write: Write, reading: Reading = PLAIN) -> None:
        self._write, self._reading = write, reading
        self._pieces, self._told, self._next = list[str](), "", 0.0

    def add(self, piece: str) -> None:
        """The next piece of the text."""
        self._pieces.append(piece)
        if time.monotonic() < self._next:
            return
        self._pieces = ["".join(self._pieces)]
        said = seen_so_far(printable(self._pieces[0]), self._reading)
        if said is not None and said != self._told:
            self._told = said
            self._write(said)
        self._next = time.monotonic() + PAUSE


def seen_so_far(text: str, reading: Reading = PLAIN) -> str | None:
    """The part of an unfinished completion that may be seen, which is how the finished one begins. None while that can't be told.

    Args:
        text: what is written so far.
        reading: how the finished completion is read.

    Example:
        >>> [seen_so_far("<think>hm</think>Mint <b"[:end]) for end in (5, 10, 19, 22, 25)]
        [None, None, 'Mi', 'Mint', 'Mint']
    """
    known = forms(reading.named)
    settled = known.half_a_mention.sub("", _UNFINISHED.sub("", text))
    if known.worded_begins.match(settled) and not known.worded.match(settled):
        return None
    said = split_reasoning(settled, reading.named)
    begins = " ".join(said.text.split()).casefold()
    if any(word.startswith(begins) for word in known.beginnings):
        return None
    if said.open or unknown_mark(said.text, reading.messages):
        return None
    asked = re.match(r"<([\w:.-]+)", said.text)
    if asked and asked[1].casefold() in names_in(
        reading.messages
    ):  # what follows decides whether the tag is around all of it
        return None
    return said.text
