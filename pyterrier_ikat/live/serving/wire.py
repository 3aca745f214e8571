"""Answers, streams and errors in the form of OpenAI's chat protocol; what the server adds to a text never reaches a prompt."""

import json
import math
import re
import time
import uuid
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any

from ...completions.citations import CitedSentence, pieces_with_numbers, with_marks, without_marks
from ...errors import IkatError, list_first
from ...llms import BudgetExceeded, FatalLLMError, StageError
from ...llms.failures import CutOff, Empty, Filtered, Refused, TooLong, Unavailable
from ...llms.ledger import Spend
from ...operator import Operator, every_stage
from ...runs.answered_turn import Turn
from ...study.systems import System
from ..answering import StillTooLong
from .waiting_line import FullError

DONE = b"data: [DONE]\n\n"
DONE_BY = ("rewrite", "queries", "statements", "draft", "seconds", "method", "omitted")
"""The fields of a turn that say how its answer came about, and how long it took."""
HEARTBEAT = b": still working\n\n"
TRY_LATER = 10
"""Seconds after which a client may ask again when the language model was not available."""
OPERATOR = "whoever runs this server"
UNUSABLE = {
    Refused: "it refuses to",
    Filtered: "its provider withholds the text",
    CutOff: "its text was cut off",
    Empty: "it wrote nothing",
    TooLong: "the prompt is too long for it",
}
"""Why a language model gave no answer, for whoever asked."""
PASSAGES_ONLY = "(This method writes no response. Its best passages:)"
NOTHING_FOUND = "(No passage was found.)"


class RequestError(IkatError):
    """A request that can't be served as it is.

    Attributes:
        status: the HTTP status.
        param: the parameter that is wrong, in OpenAI's notation.
        code: a word for programs.
    """

    def __init__(self, message: str, *, status: int = 400, param: str | None = None, code: str | None = None) -> None:
        super().__init__(message)
        self.status, self.param, self.code = status, param, code


def content_of(turn: Turn) -> str:
    r"""The text that a client gets as the assistant's message.

    Behind the sentences of a response stand the numbers of the passages that they cite. A last line has the numbers of other passages that
    the response as a whole is based on. In the place of a response that the method doesn't write, there are the beginnings of its best
    passages.

    Example:
        >>> from pyterrier_ikat.runs import Source
        >>> content_of(Turn(1, "Which tea?", "Rooibos.", (Source("d1", "Rooibos is red."), Source("d2", "Mint."))))
        'Rooibos.\n\nSources: [1][2]'
    """
    if turn.response:
        return with_marks(turn.response, _cited(turn))
    if not turn.sources:
        return NOTHING_FOUND
    shown = [f"[{number}] {source.beginning or source.docno}" for number, source in enumerate(turn.sources, 1)]
    return "\n\n".join([PASSAGES_ONLY, *shown])


def _cited(turn: Turn) -> Sequence[CitedSentence]:
    """What a response cites; one that was not asked for citations rests on all its sources."""
    return [CitedSentence("", tuple(range(1, len(turn.sources) + 1)))] if turn.cited is None else turn.cited


def without_additions(text: str) -> str:
    r"""The response in an assistant's message that a client sends back, without what :func:`content_of` added.

    Example:
        >>> without_additions('Rooibos.\n\nSources: [1][2]'), without_additions(NOTHING_FOUND)
        ('Rooibos.', '')
    """
    if text.lstrip().startswith((PASSAGES_ONLY, NOTHING_FOUND)):
        return ""
    return without_marks(text)


def pieces_of(text: str, length: int = 40) -> list[str]:
    """The text in pieces of whole words, of about ``length`` characters, as a stream sends it.

    Example:
        >>> pieces_of("Rooibos has no caffeine.", 10)
        ['Rooibos has ', 'no caffeine.']
    """
    pieces = [""]
    for word in re.findall(r"\S+\s*|\s+", text):
        if len(pieces[-1]) >= length:
            pieces.append("")
        pieces[-1] += word
    return pieces


def usage(spend: Spend) -> dict[str, int] | None:
    """The tokens of a turn that were paid for, in OpenAI's form; None where a server doesn't report them."""
    if spend.prompt_tokens is None or spend.completion_tokens is None:
        return None
    return {"prompt_tokens": spend.prompt_tokens, "completion_tokens": spend.completion_tokens, "total_tokens": spend.tokens or 0}


def as_json(value: Any) -> bytes:
    """The value as JSON in UTF-8; a score that is not finite becomes null, a lone surrogate a question mark.

    Example:
        >>> as_json({"score": float("nan")})
        b'{"score": null}'
    """
    return json.dumps(_finite(value), ensure_ascii=False, allow_nan=False).encode("utf-8", "replace")


def _finite(value: Any) -> Any:
    if isinstance(value, Mapping):
        return {name: _finite(one) for name, one in value.items()}
    if isinstance(value, list | tuple):
        return [_finite(one) for one in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value


def event(value: Any) -> bytes:
    """A server-sent event."""
    return b"data: " + as_json(value) + b"\n\n"


def citations(turn: Turn) -> list[dict[str, Any]]:
    """The passages of an answer, in the order of [1], [2], ..."""
    return [{"id": source.docno, "text": source.text, "score": source.score} for source in turn.sources]


def account(turn: Turn, ignored: Sequence[str]) -> dict[str, Any]:
    """How an answer came about; ``pieces`` are those of its text, with the numbers behind them."""
    told = {name: getattr(turn, name) for name in DONE_BY}
    kept = {"ignored": ignored, "saved": bool(turn.more.get("saved"))}
    pieces = pieces_with_numbers(turn.response, _cited(turn)) if turn.response else []
    cited = {"pieces": pieces, "unknown": turn.unknown, "cites_none": turn.cites_none, "shown": [one.docno for one in turn.shown]}
    return {"response": turn.response, **cited, **told, **asdict(turn.spend), "tokens": turn.spend.tokens, **kept}


@dataclass(frozen=True)
class Reply:
    """The objects of one reply, which share an id.

    Args:
        model: the name of the system.
        ignored: the parts of the request that have no effect.
    """

    model: str
    ignored: Sequence[str] = ()
    id: str = field(default_factory=lambda: f"chatcmpl-{uuid.uuid4().hex}")
    created: int = field(default_factory=lambda: int(time.time()))

    def completion(self, turn: Turn) -> dict[str, Any]:
        """The whole answer."""
        message = {"role": "assistant", "content": content_of(turn), "refusal": None}
        choice = {"index": 0, "message": message, "finish_reason": "stop", "logprobs": None}
        return self._object("chat.completion", [choice]) | {"usage": usage(turn.spend), **self._more(turn)}

    def beginning(self) -> dict[str, Any]:
        """The first chunk of a stream."""
        return self._chunk({"role": "assistant", "content": ""})

    def activity(self, step: str) -> dict[str, Any]:
        """A chunk without text that says what the system does."""
        return self._chunk({}) | {"ikat": {"activity": step}}

    def text(self, text: str, sent: str = "", why: str = "") -> Iterable[dict[str, Any]]:
        """The chunks after which a client has ``text``.

        Args:
            text: the text.
            sent: what it has already. A chunk takes it back where the text does not begin with it.
            why: the reason for that.
        """
        if not text.startswith(sent):
            yield self._chunk({}) | {"ikat": {"replaced": why}}
            sent = ""
        for piece in filter(None, pieces_of(text[len(sent) :])):
            yield self._chunk({"content": piece})

    def end(self, turn: Turn) -> dict[str, Any]:
        """The last chunk of an answer, with its citations."""
        return self._chunk({}, "stop") | self._more(turn)

    def usage(self, turn: Turn) -> dict[str, Any]:
        """The chunk after the last one, with the tokens."""
        return self._object("chat.completion.chunk", []) | {"usage": usage(turn.spend)}

    def _more(self, turn: Turn) -> dict[str, Any]:
        return {"citations": citations(turn), "ikat": account(turn, self.ignored)}

    def _chunk(self, delta: dict[str, str], finish_reason: str | None = None) -> dict[str, Any]:
        return self._object("chat.completion.chunk", [{"index": 0, "delta": delta, "finish_reason": finish_reason, "logprobs": None}])

    def _object(self, kind: str, choices: list[Any]) -> dict[str, Any]:
        return {"id": self.id, "object": kind, "created": self.created, "model": self.model, "choices": choices}


def steps_of(system: System) -> list[str]:
    """What a system does for an answer, in its stages' own words, each once."""
    words = [stage.activity for stage in every_stage(system.pipeline) if isinstance(stage, Operator)]
    return list(dict.fromkeys(re.sub(r" \{\w+\}", "", said) for said in words if said))


def in_plain_words(summary: str) -> str:
    """A docstring's first sentences without what only readers of the paper or the code use.

    Example:
        >>> in_plain_words("QD: up to ``n`` queries, each re-ranked by itself (section 3). As :func:`cfda_auto`.")
        'QD: up to n queries, each re-ranked by itself. As cfda_auto.'
    """
    return re.sub(r":\w+:`([^`]*)`", r"\1", re.sub(r" \((?:section|table|figure)[^)]*\)", "", summary, flags=re.IGNORECASE)).replace(
        "``", ""
    )


def model_object(system: System, created: int) -> dict[str, Any]:
    """A system in the list of models."""
    return {
        "id": system.name,
        "object": "model",
        "created": created,
        "owned_by": "pyterrier_ikat",
        "title": in_plain_words(system.method.summary),
        "paper": system.method.paper,
        "steps": steps_of(system),
        "writes_response": bool(system.writes_response),
    }


@dataclass(frozen=True)
class Failure:
    """An error as a client gets it.

    Attributes:
        status: the HTTP status.
        message: for a person.
        type: OpenAI's word for the kind of error.
        code: a word for programs.
        param: the parameter that is wrong.
        retry_after: seconds after which the same request may succeed.
    """

    status: int
    message: str
    type: str = "invalid_request_error"
    code: str | None = None
    param: str | None = None
    retry_after: int | None = None

    def record(self) -> dict[str, Any]:
        """In OpenAI's form."""
        return {"error": {"message": self.message, "type": self.type, "param": self.param, "code": self.code}}


def failure_of(error: BaseException) -> Failure:
    """An error as a client sees it, in words for whoever asked: no address, path or advice that only the server's operator can use.

    Example:
        >>> failure_of(RequestError("there is no model 'gpt'", status=404)).status, failure_of(KeyError("secret")).message
        (404, 'the system failed unexpectedly: the log of the server says where')
    """
    if isinstance(error, RequestError):
        return Failure(error.status, str(error), code=error.code, param=error.param)
    if isinstance(error, FullError):
        why = "the server is stopping" if error.stopping else "too many requests are waiting"
        code = "stopping" if error.stopping else "overloaded"
        return Failure(503, f"{why}: ask again in {error.seconds} seconds", "server_error", code, retry_after=error.seconds)
    if isinstance(error, BudgetExceeded):
        return Failure(402, f"the budget of this service is spent: {OPERATOR} can raise it", "insufficient_quota", "budget_exceeded")
    if isinstance(error, FatalLLMError):
        return Failure(502, f"the language model can't be asked: {OPERATOR} has to repair it", "llm_error", "llm_unusable")
    if isinstance(error, StillTooLong):
        message = "the prompt is too long for the language model, even without the history: ask a shorter question, or choose another model"
        return Failure(400, message, code="context_length_exceeded", param="messages")
    if isinstance(error, StageError):
        if any(isinstance(one, Unavailable) for one in error.failures):
            message = f"the language model does not answer: ask again in {TRY_LATER} seconds"
            return Failure(503, message, "llm_error", "llm_unavailable", retry_after=TRY_LATER)
        why = next((words for kind, words in UNUSABLE.items() if isinstance(error.failures[0], kind)), "its answer can't be used")
        return Failure(502, f"the language model gave no answer ({why}): ask in other words", "llm_error", "llm_failed")
    if isinstance(error, IkatError):
        return Failure(500, f"the system failed: {OPERATOR} finds the reason in the log of the server", "server_error", "system_failed")
    return Failure(500, "the system failed unexpectedly: the log of the server says where", "server_error", "internal_error")


def for_operator(error: BaseException) -> str | None:
    """What only the server's operator can repair, for the log; None where there is nothing. What a model says may quote a user."""
    if isinstance(error, StageError):
        told = [one.reason if isinstance(one, Unavailable) else type(one).__name__ for one in error.failures]
        return f"stage {error.stage}: {list_first(told)}"
    return str(error) if isinstance(error, IkatError) and not isinstance(error, RequestError | FullError | StillTooLong) else None
