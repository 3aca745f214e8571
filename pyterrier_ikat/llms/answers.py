"""The body of a server's answer, whether it is one JSON document or a stream of events: the one reader of both.

Servers of 2026 send events that OpenAI's own client can't read, so the lines are read here. What
was seen, and where:

- ``retry:`` before an event (openai/openai-python#2721), empty ``data:``
  (router-for-me/CLIProxyAPI#2460);
- comments that keep the connection alive, such as ``: OPENROUTER PROCESSING`` (OpenRouter's guide
  on streaming), and ``event: ping`` with or without JSON (the events of Anthropic's API, passed on
  by gateways);
- no finish reason, or ``""``, to the end (anomalyco/opencode#43882, ollama/ollama#4357);
- errors as an event (``event: error``, OmniRoute#8210: an error beside empty choices;
  mozilla-ai/any-llm#847);
- events although none were asked for (QuantumNous/new-api#5230), JSON as ``text/plain``
  (openai-php/client#723), JSON although a stream was asked for
  (lmstudio-ai/lmstudio-bug-tracker#618).
"""

import itertools
import json
import re
from collections.abc import Iterable, Iterator
from typing import Any

from .failures import Transient, Unanswered
from .request import Reply, text_and_thought
from .streaming import Writing
from .usage import usage_in

BROKEN = "the server's answer broke off before its end"
DONE = "[DONE]"
"""The data of the event that ends a stream. It is no JSON."""
SILENT = ("ping", "heartbeat", "keepalive", "keep-alive")
"""The names of events that only keep a connection alive."""
_FIELD = re.compile(r"(data|event|id|retry)?:")
"""How the first line of a stream begins. A comment begins with the colon."""
_MARK = "\N{ZERO WIDTH NO-BREAK SPACE}"
"""The byte order mark."""


def lines_of(pieces: Iterable[bytes]) -> Iterator[str]:
    r"""The lines of a body, without their ends and without a byte order mark.

    Only ``\n`` and ``\r\n`` end a line. httpx also splits at other separators, such as U+2028,
    which servers write raw inside JSON.

    Example:
        >>> list(lines_of([b"\xef\xbb\xbfda", b"ta: 1\r\n\nda", b"ta: 2"]))
        ['data: 1', '', 'data: 2']
    """
    rest, at_start = b"", True
    for piece in itertools.chain(pieces, [b"\n"]):
        *whole, rest = (rest + piece).split(b"\n")
        for line in whole:
            text = line.decode(errors="replace").removesuffix("\r")
            yield text.removeprefix(_MARK) if at_start else text
            at_start = False


def read_answer(lines: Iterable[str], writing: Writing | None = None) -> Any:
    """The chat completion in a body, as JSON; or whatever else it holds.

    Args:
        lines: its lines.
        writing: is told the text while it comes.

    Raises:
        ValueError: when it is neither JSON nor events.
        Transient: when it breaks off.

    Example:
        >>> pieces = [{"choices": [{"delta": {"content": text}}]} for text in ("Roo", "ibos")]
        >>> read_answer([*(f"data: {json.dumps(piece)}" for piece in pieces), "data: [DONE]"])["choices"]
        [{'message': {'content': 'Rooibos', 'refusal': ''}}]
        >>> read_answer(['{"choices": []}'])
        {'choices': []}
    """
    lines = iter(lines)
    first = next((line for line in lines if line.strip()), "")
    body = itertools.chain([first], lines)
    if _FIELD.match(first):
        return read_stream(data_of(body), writing)
    return json.loads("\n".join(body))


def data_of(lines: Iterable[str]) -> Iterator[Any]:
    """What the events of a stream say, as JSON, and at last `DONE` if the server sends it.

    The data of an event may have several lines. It is given as soon as it is JSON, since some
    servers omit the empty line after it.

    Raises:
        ValueError: for data that is no JSON.
    """
    event, data = "", ""
    for line in lines:
        field, _, value = line.partition(":")
        if not line:
            if data and event not in SILENT:
                yield _unread(event, data)
            event, data = "", ""
        elif field == "event":
            event = value.strip()
        elif field == "data":
            data = f"{data}\n{value}".strip()
            if data.startswith(DONE):
                yield DONE
                return
            found = _json(data) if data and event not in SILENT else None
            if found is not None:
                told = isinstance(found, dict) and "error" in found
                yield {"error": found} if event == "error" and not told else found
                data = ""
    if data and event == "error":  # another event without an end broke off
        yield _unread(event, data)


def _unread(event: str, data: str) -> Any:
    """An event whose data is no JSON: an error in words.

    Raises:
        ValueError: when it is no error.
    """
    return {"error": data} if event == "error" else json.loads(data)


def _json(text: str) -> Any:
    try:
        return json.loads(text)
    except ValueError:
        return None


def read_stream(events: Iterable[Any], writing: Writing | None = None) -> Any:
    """The chat completion that consists of the events of a stream; or an event that belongs to none.

    An error becomes a field ``error`` beside what was told before it. Without a finish reason the
    completion is whole only if the server says that the stream is.

    Args:
        events: see `data_of`.
        writing: is told the text.

    Raises:
        Transient: when the stream ends before its answer does; with what it cost, if the server has
            told that.
    """
    import openai

    told, choice, message = dict[str, Any](), dict[str, Any](), {"content": "", "refusal": ""}
    is_there = is_done = False
    try:
        for event in events:
            if event == DONE:
                is_done = True
                break
            try:
                told.update({name: event[name] for name in ("model", "error") if event.get(name)})
                usage = usage_in(event)
                if usage is not None:  # some servers tell zeros at the end: the numbers before stay
                    told["usage"] = usage
                if "error" in told:
                    break
                part = next(iter(event.get("choices") or []), None)
                if part is None:
                    continue
                is_there = True
                if part.get("usage"):  # Moonshot: earendil-works/pi#2017
                    told["usage"] = part["usage"]
                text = _add(part, message)
                choice.update(
                    {name: part[name] for name in ("finish_reason", "error") if part.get(name)}
                )
            except (TypeError, AttributeError, KeyError):  # no event of a chat completion
                return {**told, **event} if isinstance(event, dict) else event
            if text and writing is not None:
                writing.add(text)
    except (openai.APIConnectionError, ValueError) as error:
        ended = isinstance(error, openai.APIConnectionError) and "finish_reason" in choice
        if not ended and "usage" in told:
            raise Transient(None, BROKEN, paid=_paid(told)) from None
        if not ended:  # else nothing is lost but the number of tokens
            raise
    if not is_there and (is_done or "error" in told):
        return {**told, "choices": []}
    if not (is_done or "finish_reason" in choice or "error" in told):
        raise Transient(None, BROKEN, unanswered=Unanswered.LOST, paid=_paid(told))
    return {**told, "choices": [{"message": message, **choice}]}


def _paid(told: dict[str, Any]) -> list[Reply]:
    """What a broken stream has cost, if the server has told that."""
    reply = Reply.without_text(told)
    return [] if reply is None else [reply]


def _add(part: dict[str, Any], message: dict[str, Any]) -> str:
    """Add what an event brings to the message; gives the piece of the text."""
    delta = part.get("delta")
    if not delta and not message["content"]:
        delta = part.get("message")  # a server that does not stream sends the whole as one event
    delta = delta or {}
    text, thought = text_and_thought(delta.get("content") or "")
    message["content"] += text
    message["refusal"] += delta.get("refusal") or ""
    there = [
        name
        for name in ("tool_calls", "function_call", "reasoning", "reasoning_content")
        if delta.get(name)
    ]
    message.update(dict.fromkeys([*there, *["reasoning"] * thought], True))
    return str(text)
