"""A completion while it is written: what of it may be seen already, and the answer that the events of a stream make up."""

import re
import time
from collections.abc import Iterable, Iterator
from typing import Any

from ..completions.usable import printable, split_reasoning
from ..events import Write
from .failures import Transient
from .request import text_and_thought

STREAMED = {"stream": True, "stream_options": {"include_usage": True}}
"""The additional fields of a request for a stream."""
BROKEN = "the server's answer broke off before its end"
PAUSE = 0.02
"""Seconds between two looks at a text: one token of a fast model more or less is not seen."""
_OPEN = re.compile(r"[<\[&◁\uff1c\u3008][^>\];▷\uff1e\u3009\n]{0,40}\Z")
"""An end that may become a mark of reasoning, or a citation."""


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


def read_stream(events: Iterable[Any], writing: Writing) -> Any:
    """The chat completion that consists of the events of a stream; or an event that belongs to none.

    Args:
        events: as the client's stream gives them.
        writing: is told the text.

    Raises:
        Transient: when the stream ends before its answer does.

    Example:
        >>> pieces = ("Roo", None), ("ibos", "stop")
        >>> events = [{"model": "m", "choices": [{"delta": {"content": text}, "finish_reason": end}]} for text, end in pieces]
        >>> read_stream(events, Writing(print))["choices"]
        Roo
        [{'message': {'content': 'Rooibos'}, 'finish_reason': 'stop'}]
    """
    told, choice, message = dict[str, Any](), dict[str, Any](), dict[str, list[Any]]()
    for chunk in _until_lost(events, choice):
        try:
            told |= {name: chunk[name] for name in ("model", "usage") if chunk.get(name)}
            part: dict[str, Any] = next(iter(chunk.get("choices") or []), {})
            text = _add(part.get("delta") or {}, message)
            choice |= {name: part[name] for name in ("finish_reason", "error") if part.get(name)}
        except (TypeError, AttributeError, KeyError):  # no event of a chat completion
            return chunk
        if text:
            writing.add(text)
    if "finish_reason" not in choice:
        raise Transient(None, BROKEN)
    whole = {name: "".join(found) if isinstance(found[0], str) else found for name, found in message.items()}
    return {**told, "choices": [{"message": whole, **choice}]}


def _until_lost(events: Iterable[Any], choice: dict[str, Any]) -> Iterator[Any]:
    """The events. A connection that is lost once the answer is there loses no more than the number of tokens."""
    import openai

    try:
        yield from events
    except openai.APIConnectionError:
        if "finish_reason" not in choice:
            raise


def _add(delta: dict[str, Any], message: dict[str, list[Any]]) -> str:
    """Add what an event brings to the parts of the message; gives the piece of the text."""
    text, thought = text_and_thought(delta.get("content"))
    brought = {**delta, "content": text, "reasoning": delta.get("reasoning") or ("..." if thought else None)}
    for name, piece in brought.items():
        if piece and name != "role":
            found = message.setdefault(name, [])
            if found and type(found[0]) is not type(piece):
                raise TypeError
            found.append(piece)
    return str(text or "")
