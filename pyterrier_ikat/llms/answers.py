"""The reader of a server's answer: one JSON document, or a stream of events.

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
_BYTE_ORDER_MARK = "\N{ZERO WIDTH NO-BREAK SPACE}"


def lines_of(pieces: Iterable[bytes]) -> Iterator[str]:
    r"""The lines of a body, without their ends and without a byte order mark.

    Only ``\n`` and ``\r\n`` end a line. httpx also splits at other separators, such as U+2028,
    which servers write raw inside JSON.

    Example:
        >>> list(lines_of([b"\xef\xbb\xbfda", b"ta: 1\r\n\nda", b"ta: 2"]))
        ['data: 1', '', 'data: 2']
    """
    rest = b""
    is_first = True
    for piece in itertools.chain(pieces, [b"\n"]):
        *whole, rest = (rest + piece).split(b"\n")
        for line in whole:
            text = line.decode(errors="replace").removesuffix("\r")
            if is_first:
                text = text.removeprefix(_BYTE_ORDER_MARK)
                is_first = False
            yield text


def read_answer(lines: Iterable[str], writing: Writing | None = None) -> Any:
    """The chat completion in a body, as JSON; or whatever else it holds.

    Args:
        lines: its lines.
        writing: gets the text while it comes.

    Raises:
        ValueError: when it is neither JSON nor events.
        Transient: when it breaks off.

    Example:
        >>> events = [{"choices": [{"delta": {"content": text}}]} for text in ("Roo", "ibos")]
        >>> lines = [f"data: {json.dumps(event)}" for event in events]
        >>> read_answer([*lines, "data: [DONE]"])["choices"]
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
    """The data of a stream's events, as JSON, and at last `DONE` if the server sends it.

    The data of an event may have several lines. An event ends as soon as its data is JSON, since
    some servers omit the empty line after it.

    Raises:
        ValueError: for data that is no JSON.
    """
    event = ""
    data = ""
    for line in lines:
        field, _, value = line.partition(":")
        if not line:
            if data and event not in SILENT:
                yield _unread(event, data)
            event = ""
            data = ""
        elif field == "event":
            event = value.strip()
        elif field == "data":
            data = f"{data}\n{value}".strip()
            if data.startswith(DONE):
                yield DONE
                return
            if event in SILENT:
                continue
            parsed = _json(data)
            if parsed is not None:
                has_error = isinstance(parsed, dict) and "error" in parsed
                yield {"error": parsed} if event == "error" and not has_error else parsed
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
    """Parsed JSON; None if the text is none."""
    try:
        return json.loads(text)
    except ValueError:
        return None


def read_stream(events: Iterable[Any], writing: Writing | None = None) -> Any:
    """The chat completion in the events of a stream; or an event that belongs to none.

    An error becomes a field ``error`` beside the rest. Without a finish reason the completion is
    whole only if the server says that the stream is.

    Args:
        events: see `data_of`.
        writing: gets the text.

    Raises:
        Transient: when the stream ends before its answer does; with what it cost, if the server has
            told that.
    """
    import openai

    answer = _Answer()
    is_done = False
    try:
        for event in events:
            if event == DONE:
                is_done = True
                break
            try:
                text = answer.add(event)
            except (TypeError, AttributeError, KeyError):  # no event of a chat completion
                return {**answer.fields, **event} if isinstance(event, dict) else event
            if "error" in answer.fields:
                break
            if text and writing is not None:
                writing.add(text)
    except (openai.APIConnectionError, ValueError) as error:
        is_whole = isinstance(error, openai.APIConnectionError) and "finish_reason" in answer.choice
        if not is_whole and "usage" in answer.fields:
            raise Transient(None, BROKEN, paid=answer.paid()) from None
        if not is_whole:  # else nothing is lost but the number of tokens
            raise
    has_error = "error" in answer.fields
    if not answer.has_choice and (is_done or has_error):
        return {**answer.fields, "choices": []}
    if not (is_done or has_error or "finish_reason" in answer.choice):
        raise Transient(None, BROKEN, unanswered=Unanswered.LOST, paid=answer.paid())
    return {**answer.fields, "choices": [{"message": answer.message, **answer.choice}]}


class _Answer:
    """The parts of a chat completion that have come so far.

    Attributes:
        fields: its model, usage and error.
        choice: why its choice ended.
        message: the message of the choice.
        has_choice: whether an event had one.
    """

    def __init__(self) -> None:
        self.fields: dict[str, Any] = {}
        self.choice: dict[str, Any] = {}
        self.message: dict[str, Any] = {"content": "", "refusal": ""}
        self.has_choice = False

    def paid(self) -> list[Reply]:
        """What the answer has cost, if the server has told that."""
        reply = Reply.without_text(self.fields)
        return [] if reply is None else [reply]

    def add(self, event: Any) -> str:
        """Add an event. Returns the next piece of the text.

        Raises:
            TypeError: when it is no event of a chat completion; or ``AttributeError`` or
                ``KeyError``.
        """
        _take(("model", "error"), event, self.fields)
        usage = usage_in(event)
        if usage is not None:  # some servers send zeros at the end: the numbers before stay
            self.fields["usage"] = usage
        choices = event.get("choices")
        choice = choices[0] if choices else None
        if "error" in self.fields or choice is None:
            return ""
        self.has_choice = True
        delta = choice.get("delta")
        if not delta and not self.message["content"]:
            delta = choice.get("message")  # a server that doesn't stream sends one event
        text = self._add_delta(delta or {})
        _take(("finish_reason", "error"), choice, self.choice)
        return text

    def _add_delta(self, delta: dict[str, Any]) -> str:
        text, has_thought = text_and_thought(delta.get("content") or "")
        self.message["content"] += text
        self.message["refusal"] += delta.get("refusal") or ""
        for name in ("tool_calls", "function_call", "reasoning", "reasoning_content"):
            if delta.get(name):
                self.message[name] = True
        if has_thought:
            self.message["reasoning"] = True
        return str(text)


def _take(names: Iterable[str], source: dict[str, Any], target: dict[str, Any]) -> None:
    """Copy the fields that are not empty."""
    for name in names:
        if source.get(name):
            target[name] = source[name]
