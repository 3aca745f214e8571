"""A completion while it is written: who reads it, and what of it may be seen already."""

import re
import socket
import threading
import time
from contextlib import suppress

from ..completions.forms import forms
from ..completions.reasoning import names_in, split_reasoning, unknown_mark
from ..completions.usable import printable
from ..events import Write
from .request import PLAIN, Reading

STREAMED = {"stream": True, "stream_options": {"include_usage": True}}
"""The additional fields of a request for a stream."""
PAUSE = 0.02
"""Seconds between two looks at a text: one token of a fast model more or less is not seen."""
_UNFINISHED = re.compile(r"(?:[\[&◁◀⟨⟪\uff1c\u3008]|<(?!\s))[^<>\];▷▶⟩⟫\uff1e\u3009\n]{0,250}\Z|<<[^<>\n]{0,20}>?\Z")
"""An end that may become a mark, or a citation."""


class Reader:
    """Whoever reads what a model writes, and may leave while it is silent.

    Attributes:
        left: whether their calls were cut because they have left.
    """

    def __init__(self, write: Write) -> None:
        self._write, self._text, self._sockets = write, "", list[socket.socket]()
        self._lock = threading.Lock()
        self.left = False

    def __call__(self, text: str) -> None:
        """Give them what is written so far."""
        with self._lock:
            self._text = text
            self._write(text)

    def again(self) -> None:
        """Give them the same text again, in whichever thread."""
        with self._lock:
            self._write(self._text)

    def waits_for(self, connection: socket.socket) -> None:
        """A call for them waits for a connection."""
        self._sockets.append(connection)
        if self.left:
            self.cut()

    def cut(self) -> None:
        """End the connections of their calls. A thread that waits for one wakes up, which closing it would not do."""
        self.left = True
        for one in self._sockets:
            with suppress(OSError):  # it has ended by itself
                socket.socket.shutdown(one, socket.SHUT_RDWR)  # also below TLS


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
    beginning = " ".join(settled.split()).casefold()
    if any(word.startswith(beginning) for word in known.beginnings):
        return None
    if known.worded_begins.match(settled) and not known.worded.match(settled):
        return None
    said = split_reasoning(settled, reading.named)
    if said.open or unknown_mark(said.text, reading.messages):
        return None
    asked = re.match(r"<([\w:.-]+)", said.text)
    if asked and asked[1].casefold() in names_in(reading.messages):  # what follows decides whether the tag is around all of it
        return None
    return said.text
