"""A completion while it is written: what of it may be seen already, and the answer that the events of a stream make up."""

import json
import re
import time
from collections.abc import Callable, Iterable, Iterator
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
    """Passes on what a model writes: printable, without reasoning, and without secrets.

    Args:
        write: gets all of it that may be seen so far.
        clean: takes secrets out of a text that isn't finished.

    Example:
        >>> told = []
        >>> writing = Writing(told.append)
        >>> for piece in ("<think>hm", "</think> Roo", "ibos"):
        ...     writing.add(piece)
        ...     time.sleep(PAUSE)
        >>> told
        ['Roo', 'Rooibos']
    """

    def __init__(self, write: Write, clean: Callable[[str], str] = str) -> None:
        self._write, self._clean = write, clean
        self._pieces, self._told, self._next = list[str](), "", 0.0

    def add(self, piece: str) -> None:
        """The next piece of the text."""
        self._pieces.append(piece)
        if time.monotonic() < self._next:
            return
        self._pieces = ["".join(self._pieces)]
        said = split_reasoning(self._clean(_OPEN.sub("", printable(self._pieces[0]))))
        if not said.open and said.text != self._told:
            self._told = said.text
            self._write(said.text)
        self._next = time.monotonic() + PAUSE


def read_stream(lines: Iterable[str], writing: Writing) -> Any:
    """The chat completion that consists of the events of a stream, or the server's answer if it is not a stream.

    Args:
        lines: of the server's answer.
        writing: is told the text.

    Raises:
        Transient: when the stream ends before its answer does.
        ValueError: when an event is not JSON.

    Example:
        >>> event = 'data: {"model": "m", "choices": [{"delta": {"content": "%s"}, "finish_reason": %s}]}'
        >>> read_stream([event % ("Roo", "null"), "", event % ("ibos", '"stop"')], Writing(print))["choices"]
        Roo
        [{'message': {'content': 'Rooibos'}, 'finish_reason': 'stop'}]
    """
    told, choice, message = dict[str, Any](), dict[str, Any](), dict[str, list[Any]]()
    for data in _events(lines, choice):
        if data == "[DONE]":
            choice.setdefault("finish_reason", None)
            break
        chunk = json.loads(data)
        try:
            if chunk.get("error"):
                return chunk
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


def _events(lines: Iterable[str], choice: dict[str, Any]) -> Iterator[str]:
    """The data of the events. A connection that is lost once the answer is there loses no more than the number of tokens."""
    try:
        for line in lines:
            if line.startswith("data:"):
                yield line[5:].strip()
    except Exception as error:  # the HTTP client's
        if "finish_reason" not in choice:
            raise Transient(None, f"{BROKEN}: {error}") from None


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
