"""A completion while it is written: who reads it, and what of it may be seen already."""

import re
import socket
import threading
import time
from contextlib import suppress

from ..completions.usable import printable, split_reasoning
from ..events import Write

STREAMED = {"stream": True, "stream_options": {"include_usage": True}}
"""The additional fields of a request for a stream."""
PAUSE = 0.02
"""Seconds between two looks at a text: one token of a fast model more or less is not seen."""
_OPEN = re.compile(r"[<\[&◁\uff1c\u3008][^>\];▷\uff1e\u3009\n]{0,40}\Z")
"""An end that may become a mark of reasoning, or a citation."""


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

    Example:
        >>> told = []
        >>> writing = Writing(told.append)
        >>> for piece in ("<think>hm", "</think> Roo", "ibos"):
        ...     writing.add(piece)
        ...     time.sleep(PAUSE)
        >>> told
        ['Roo', 'Rooibos']
    """

    def __init__(self, write: Write) -> None:
        self._write = write
        self._pieces, self._told, self._next = list[str](), "", 0.0

    def add(self, piece: str) -> None:
        """The next piece of the text."""
        self._pieces.append(piece)
        if time.monotonic() < self._next:
            return
        self._pieces = ["".join(self._pieces)]
        said = split_reasoning(_OPEN.sub("", printable(self._pieces[0])))
        if not said.open and said.text != self._told:
            self._told = said.text
            self._write(said.text)
        self._next = time.monotonic() + PAUSE
