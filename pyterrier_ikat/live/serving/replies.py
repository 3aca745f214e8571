"""Answers, streams and errors in the form of OpenAI's chat protocol; what the server adds to a text never reaches a prompt."""

import html
import logging
import re
import time
import traceback
import uuid
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any
from urllib.parse import quote

from markdown_it import MarkdownIt
from markdown_it.rules_core import StateCore
from pydantic_core import to_json as encoded

from ...completions.citations import CitedSentence, pieces_with_numbers, with_marks, without_marks
from ...errors import IkatError, list_first
from ...llms import BudgetExceeded, FatalLLMError, StageError
from ...llms.failures import Unavailable
from ...llms.ledger import Spend
from ...operator import Operator, every_stage
from ...runs.answered_turn import ShownPassage, Turn
from ...study.systems import System
from ..answering import StillTooLong

log = logging.getLogger("pyterrier_ikat.live.serving")
OPERATOR = "whoever runs this server"
PASSAGES_ONLY = "(This method writes no response. Its best passages:)"
NOTHING_FOUND = "(No passage was found.)"
TOLD = (
    "response",
    "rewrite",
    "queries",
    "statements",
    "draft",
    "seconds",
    "method",
    "omitted",
    "unknown",
    "cites_none",
)
"""What an answer says of its turn."""
TITLE = 70
"""Characters of a passage's first words, as a client shows them for its title."""
LONGEST = 50_000
"""Characters of an answer that are read as Markdown; longer ones are shown as they are."""


class Failure(Exception):
    """An error as a client gets it.

    Attributes:
        status: the HTTP status.
        message: for a person.
        type: OpenAI's word for the kind of error.
        code: a word for programs.
        param: the field that is wrong.
    """

    def __init__(
        self,
        status: int,
        message: str,
        *,
        type: str = "invalid_request_error",
        code: str | None = None,
        param: str | None = None,
    ) -> None:
        super().__init__(message)
        self.status, self.message, self.type, self.code, self.param = (
            status,
            message,
            type,
            code,
            param,
        )

    @property
    def record(self) -> dict[str, Any]:
        """The body of the response."""
        return {
            "error": {
                "message": self.message,
                "type": self.type,
                "param": self.param,
                "code": self.code,
            }
        }


def failure_of(error: BaseException) -> Failure:
    """An error as a client gets it. What only the operator can repair is logged, without any word of a user.

    Example:
        >>> failure_of(KeyError("secret")).message
        'the system failed unexpectedly: the log of the server says where'
    """
    if isinstance(error, Failure):
        return error
    if isinstance(error, StillTooLong):
        message = "the prompt is too long for the language model, even without the history: ask a shorter question, or choose another model"
        return Failure(400, message, code="context_length_exceeded", param="messages")
    if isinstance(error, StageError):
        return _of_stage(error)
    if not isinstance(error, IkatError):
        places = " < ".join(
            f"{one.name} ({one.filename}:{one.lineno})"
            for one in traceback.extract_tb(error.__traceback__)[:-7:-1]
        )
        log.error(
            "unexpected %s in %s; its message may hold a user's words and is omitted",
            type(error).__name__,
            places,
        )
        told = "the system failed unexpectedly: the log of the server says where"
        return Failure(500, told, type="server_error", code="internal_error")
    log.error("%s", error)
    if isinstance(error, BudgetExceeded):
        told = f"the budget of this service is spent: {OPERATOR} can raise it"
        return Failure(402, told, type="insufficient_quota", code="budget_exceeded")
    if isinstance(error, FatalLLMError):
        return Failure(
            502,
            f"the language model can't be asked: {OPERATOR} has to repair it",
            type="llm_error",
            code="llm_unusable",
        )
    told = f"the system failed: {OPERATOR} finds the reason in the log of the server"
    return Failure(500, told, type="server_error", code="system_failed")


def _of_stage(error: StageError) -> Failure:
    """What a model says may quote a user, so that the log has only the kinds of its failures."""
    told = [
        one.reason if isinstance(one, Unavailable) else type(one).__name__ for one in error.failures
    ]
    log.error("stage %s: %s", error.stage, list_first(told))
    if any(isinstance(one, Unavailable) for one in error.failures):
        return Failure(
            503,
            "the language model does not answer: ask again later",
            type="llm_error",
            code="llm_unavailable",
        )
    message = f"the language model gave no answer ({told[0]}): ask in other words"
    return Failure(502, message, type="llm_error", code="llm_failed")


def content_of(turn: Turn) -> str:
    r"""The text that a client gets as the assistant's message.

    Behind the sentences of a response stand the numbers of the passages that they cite. A last line
    has the numbers of other passages that the response as a whole is based on. In the place of a
    response that the method doesn't write, there are the beginnings of its best passages.

    Example:
        >>> from pyterrier_ikat.runs import ShownPassage
        >>> content_of(Turn(1, "Which tea?", "Rooibos.", (ShownPassage("d1", "Rooibos is red."), ShownPassage("d2", "Mint."))))
        'Rooibos.\n\nSources: [1][2]'
    """
    if turn.response:
        return with_marks(turn.response, _cited(turn))
    if not turn.sources:
        return NOTHING_FOUND
    shown = [
        f"[{number}] {source.beginning or source.docno}"
        for number, source in enumerate(turn.sources, 1)
    ]
    return "\n\n".join([PASSAGES_ONLY, *shown])


def _cited(turn: Turn) -> Sequence[CitedSentence]:
    """What a response cites; one that was not asked for citations rests on all its sources."""
    return (
        [CitedSentence("", tuple(range(1, len(turn.sources) + 1)))]
        if turn.cited is None
        else turn.cited
    )


def without_additions(text: str) -> str:
    r"""The response in an assistant's message that a client sends back, without what :func:`content_of` added.

    Example:
        >>> without_additions('Rooibos.\n\nSources: [1][2]'), without_additions(NOTHING_FOUND)
        ('Rooibos.', '')
    """
    return (
        ""
        if text.lstrip().startswith((PASSAGES_ONLY, NOTHING_FOUND))
        else without_marks(text).strip()
    )


_MARK = re.compile("\ue000([0-9]+)\ue001")
_MARKDOWN = (
    MarkdownIt("commonmark", {"html": False, "breaks": True}).enable("table").disable("image")
)
_MARKDOWN.validateLink = lambda url: re.match("https?://", url, re.IGNORECASE) is not None  # type: ignore[method-assign]
_MARKDOWN.add_render_rule(
    "heading_open", lambda *_: "<p><strong>"
)  # the page has headings of its own
_MARKDOWN.add_render_rule("heading_close", lambda *_: "</strong></p>\n")
_MARKDOWN.add_render_rule(
    "text",
    lambda self, tokens, place, *_: _MARK.sub(
        r'<button type="button" class="cite">[\1]</button>', html.escape(tokens[place].content)
    ),
)


def _align_cells(state: StateCore) -> None:
    """Columns of a table keep their alignment by an attribute: the page forbids inline styles."""
    for token in state.tokens:
        style = token.attrs.pop("style", None)
        if style is not None:
            token.attrs["align"] = str(style).removeprefix("text-align:")


_MARKDOWN.core.ruler.push("align_cells", _align_cells)


def as_html(turn: Turn) -> str:
    r"""A response for the page: its Markdown without HTML and images, links of http and https, and a button for each citation.

    Example:
        >>> from pyterrier_ikat.runs import ShownPassage
        >>> as_html(Turn(1, "Which tea?", "*Rooibos* <b>.", (ShownPassage("d1"),), cited=(CitedSentence("*Rooibos* <b>.", (1,)),)))
        '<p><em>Rooibos</em> &lt;b&gt;. <button type="button" class="cite">[1]</button></p>\n'
    """
    text = ""
    for piece, numbers in pieces_with_numbers(turn.response, _cited(turn)):
        marks = "".join(f"\ue000{number}\ue001" for number in numbers)
        text += (
            re.sub("[\ue000\ue001\u202a-\u202e\u2066-\u2069]", "", piece)
            + " " * bool(marks)
            + marks
        )
    text = re.sub(
        "\\|[ ]*((\ue000[0-9]+\ue001)+)$", r"\1 |", text, flags=re.MULTILINE
    )  # behind a row of a table
    drawn = _MARKDOWN.render(text) if len(text) <= LONGEST else f"<p>{html.escape(text)}</p>"
    return _MARK.sub(r"[\1]", drawn)  # in code, and in what can hold no button


def title_of(source: ShownPassage) -> str:
    """A passage's first words, or its id where the index has no text."""
    first = source.text[: TITLE + 1]
    return (
        f"{first[:TITLE].rpartition(' ')[0] or first[:TITLE]} ..."
        if len(first) > TITLE
        else first or source.docno
    )


def annotations(turn: Turn, content: str) -> list[dict[str, Any]]:
    """The sources as OpenAI names them, in the order of [1], [2], ...: with them chat pages such as Open WebUI link the passages."""
    found = []
    for number, source in enumerate(turn.sources, 1):
        start = max(content.find(f"[{number}]"), 0)
        url = source.url or f"urn:passage:{quote(source.docno)}"
        cited = {
            "url": url,
            "title": title_of(source),
            "start_index": start,
            "end_index": start + len(f"[{number}]"),
        }
        found.append({"type": "url_citation", "url_citation": cited})
    return found


def citations(turn: Turn) -> list[dict[str, Any]]:
    """The passages of an answer, in the order of [1], [2], ..."""
    return [
        {"id": one.docno, "title": title_of(one), "text": one.text, "score": one.score}
        for one in turn.sources
    ]


def usage(spend: Spend) -> dict[str, int] | None:
    """The tokens of a turn that were paid for, in OpenAI's form; None where a server doesn't report them."""
    if spend.prompt_tokens is None or spend.completion_tokens is None:
        return None
    return {
        "prompt_tokens": spend.prompt_tokens,
        "completion_tokens": spend.completion_tokens,
        "total_tokens": spend.tokens or 0,
    }


def as_json(value: Any) -> str:
    """The value as JSON; a score that is not finite becomes null.

    Example:
        >>> as_json({"score": float("nan")})
        '{"score":null}'
    """
    return encoded(value, inf_nan_mode="null").decode()


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
        content = content_of(turn)
        message = {
            "role": "assistant",
            "content": content,
            "refusal": None,
            "annotations": annotations(turn, content),
        }
        choice = {"index": 0, "message": message, "finish_reason": "stop", "logprobs": None}
        return (
            self._object("chat.completion", [choice])
            | {"usage": usage(turn.spend)}
            | self._more(turn)
        )

    def chunk(
        self, delta: Mapping[str, Any], finish_reason: str | None = None, **more: Any
    ) -> dict[str, Any]:
        """A part of a stream."""
        choice = {"index": 0, "delta": delta, "finish_reason": finish_reason, "logprobs": None}
        return self._object("chat.completion.chunk", [choice]) | more

    def text(self, text: str, sent: str, why: str) -> list[dict[str, Any]]:
        """The parts after which a client that has ``sent`` has ``text``; one takes it back, and says why, where it begins otherwise."""
        taken = [] if text.startswith(sent) else [self.chunk({}, ikat={"replaced": why})]
        new = text if taken else text[len(sent) :]
        return taken + ([self.chunk({"content": new})] if new else [])

    def end(self, turn: Turn) -> dict[str, Any]:
        """The last part of an answer, with its sources, and the answer drawn for the page, which asks for streams alone."""
        more = self._more(turn)
        more["ikat"]["html"] = as_html(turn)
        return self.chunk({"annotations": annotations(turn, content_of(turn))}, "stop") | more

    def usage(self, turn: Turn) -> dict[str, Any]:
        """The part after the last one, with the tokens."""
        return self._object("chat.completion.chunk", []) | {"usage": usage(turn.spend)}

    def _more(self, turn: Turn) -> dict[str, Any]:
        facts = (
            {name: getattr(turn, name) for name in TOLD}
            | asdict(turn.spend)
            | {"tokens": turn.spend.tokens}
        )
        facts |= {"shown": [one.docno for one in turn.shown]}
        return {
            "citations": citations(turn),
            "ikat": facts | {"ignored": self.ignored, "saved": bool(turn.more.get("saved"))},
        }

    def _object(self, kind: str, choices: list[Any]) -> dict[str, Any]:
        return {
            "id": self.id,
            "object": kind,
            "created": self.created,
            "model": self.model,
            "choices": choices,
        }


def about(system: System) -> str:
    """One sentence on a system, in plain words: of its method, or of what its stages do."""
    summary = re.sub(
        r" \((?:section|table|figure)[^)]*\)", "", system.method.summary, flags=re.IGNORECASE
    )
    if summary:
        return (
            re.sub(r":\w+:`([^`]*)`", r"\1", summary)
            .replace("``", "")
            .partition(". ")[0]
            .rstrip(".")
            + "."
        )
    words = [
        stage.activity for stage in every_stage(system.pipeline) if isinstance(stage, Operator)
    ]
    steps = dict.fromkeys(re.sub(r" \{\w+\}", "", said) for said in words if said)
    return f"Works by {', '.join(steps)}." if steps else ""


def model_object(system: System, created: int) -> dict[str, Any]:
    """A system in the list of models."""
    known = {"id": system.name, "object": "model", "created": created, "owned_by": "pyterrier_ikat"}
    examples = list(dict.fromkeys(one.turns[0].utterance for one in system.recorded))[:3]
    return known | {
        "about": about(system),
        "writes_response": bool(system.writes_response),
        "examples": examples,
    }
