"""Answers, streams and errors in the form of OpenAI's chat protocol."""

import logging
import re
import time
import traceback
import uuid
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any
from urllib.parse import quote

from pydantic_core import to_json as encoded

from ...completions.citations import with_marks, without_marks
from ...errors import IkatError, counted, list_first
from ...llms import BudgetExceeded, FatalLLMError, StageError
from ...llms.failures import Unavailable
from ...llms.ledger import Spend
from ...operator import Operator, every_stage
from ...runs.answered_turn import ShownPassage, Turn
from ...study.systems import System
from ..answering import StillTooLong
from .drawing import DrawnBlocks, as_html, cited_sentences
from .passages import Address
from .searching import search_facts

log = logging.getLogger("pyterrier_ikat.live.serving")
OPERATOR = "whoever runs this server"
PASSAGES_ONLY = "(This method writes no response. Its best passages:)"
NOTHING_FOUND = "(No passage was found.)"
TURN_FACTS = (
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
"""The fields of a turn that are sent with its answer."""
TITLE_CHARACTERS = 70
"""Characters of a passage's first words, as the page shows them for its title."""
LINK_CHARACTERS = 30
"""Characters of the title of a link: Open WebUI cuts longer ones in the middle (Source.svelte)."""
_SOURCE_IN_PAPER = re.compile(r" \((?:section|table|figure)[^)]*\)", re.IGNORECASE)
_ROLE = re.compile(r":\w+:`([^`]*)`")


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
        self.status = status
        self.message = message
        self.type = type
        self.code = code
        self.param = param

    @property
    def record(self) -> dict[str, Any]:
        """The body of the response."""
        fields = {
            "message": self.message,
            "type": self.type,
            "param": self.param,
            "code": self.code,
        }
        return {"error": fields}


def failure_of(error: BaseException) -> Failure:
    """Describe an error to a client, and log it for the operator, without a user's words.

    Example:
        >>> failure_of(KeyError("secret")).message
        'the system failed unexpectedly: the log of the server says where'
    """
    if isinstance(error, Failure):
        return error
    if isinstance(error, StillTooLong):
        return Failure(
            400,
            "the prompt is too long for the language model, even without the history: "
            "ask a shorter question, or choose another model",
            code="context_length_exceeded",
            param="messages",
        )
    if isinstance(error, StageError):
        return _of_stage(error)
    if not isinstance(error, IkatError):
        return _unexpected(error)
    log.error("%s", error)
    if isinstance(error, BudgetExceeded):
        message = f"the budget of this service is spent: {OPERATOR} can raise it"
        return Failure(402, message, type="insufficient_quota", code="budget_exceeded")
    if isinstance(error, FatalLLMError):
        message = f"the language model can't be asked: {OPERATOR} has to repair it"
        return Failure(502, message, type="llm_error", code="llm_unusable")
    message = f"the system failed: {OPERATOR} finds the reason in the log of the server"
    return Failure(500, message, type="server_error", code="system_failed")


def _unexpected(error: BaseException) -> Failure:
    """Log the origin of an unexpected error, the innermost frame first."""
    frames = traceback.extract_tb(error.__traceback__)[:-7:-1]
    log.error(
        "unexpected %s in %s; its message may hold a user's words and is omitted",
        type(error).__name__,
        " < ".join(f"{frame.name} ({frame.filename}:{frame.lineno})" for frame in frames),
    )
    message = "the system failed unexpectedly: the log of the server says where"
    return Failure(500, message, type="server_error", code="internal_error")


def _of_stage(error: StageError) -> Failure:
    """Log only the kinds of a model's failures, because their texts may quote a user."""
    reasons = []
    for failure in error.failures:
        if isinstance(failure, Unavailable):
            reasons.append(failure.reason)
        else:
            reasons.append(type(failure).__name__)
    log.error("stage %s: %s", error.stage, list_first(reasons))
    if any(isinstance(failure, Unavailable) for failure in error.failures):
        message = "the language model does not answer: ask again later"
        return Failure(503, message, type="llm_error", code="llm_unavailable")
    message = f"the language model gave no answer ({reasons[0]}): ask in other words"
    return Failure(502, message, type="llm_error", code="llm_failed")


def content_of(turn: Turn) -> str:
    r"""Write the assistant's message for a client.

    Behind the sentences of a response stand the numbers of the passages that they cite. A last line
    has the numbers of other passages that the response as a whole is based on. In the place of a
    response that the method doesn't write, there are the beginnings of its best passages.

    Example:
        >>> from pyterrier_ikat.runs import ShownPassage
        >>> passages = (ShownPassage("d1", "Rooibos is red."), ShownPassage("d2", "Mint."))
        >>> content_of(Turn(1, "Which tea?", "Rooibos.", passages))
        'Rooibos.\n\nSources: [1][2]'
    """
    if turn.response:
        return with_marks(turn.response, cited_sentences(turn))
    if not turn.sources:
        return NOTHING_FOUND
    paragraphs = [PASSAGES_ONLY]
    for number, source in enumerate(turn.sources, 1):
        paragraphs.append(f"[{number}] {source.beginning or source.docno}")
    return "\n\n".join(paragraphs)


def why_changed(turn: Turn) -> str:
    """Say why the response differs from what its model wrote; empty if it is the same.

    Example:
        >>> why_changed(Turn(1, "Which tea?", "Rooibos.", more={"shortened": 200}))
        'shortened to 200 words'
    """
    words = turn.more.get("shortened")
    if words:
        return f"shortened to {counted(words, 'word')}"
    return str(turn.more.get("replaced", ""))


def without_additions(text: str) -> str:
    r"""Remove the additions of :func:`content_of` from a returned assistant's message.

    What the server adds to a text never reaches a prompt.

    Example:
        >>> without_additions('Rooibos.\n\nSources: [1][2]'), without_additions(NOTHING_FOUND)
        ('Rooibos.', '')
    """
    if text.lstrip().startswith((PASSAGES_ONLY, NOTHING_FOUND)):
        return ""
    return without_marks(text).strip()


def title_of(source: ShownPassage) -> str:
    """Return a passage's first words, or its id if the index has no text."""
    if len(source.text) <= TITLE_CHARACTERS:
        return source.text or source.docno
    beginning = source.text[:TITLE_CHARACTERS]
    whole_words = beginning.rpartition(" ")[0]
    return f"{whole_words or beginning} ..."


def link_title(source: ShownPassage) -> str:
    r"""Return the title of a link to a passage: its first line, or whole words of a long one.

    The first line of a passage with a title is its title. Without text it is the id.

    Example:
        >>> link_title(ShownPassage("d1", "Rooibos and its growers, told by those who drink it."))
        'Rooibos and its growers, told'
        >>> link_title(ShownPassage("d2", "Red tea\nRooibos is a plant of the Cederberg."))
        'Red tea'
    """
    line = " ".join(source.text.strip().partition("\n")[0].split())
    if len(line) <= LINK_CHARACTERS:
        return line or source.docno
    whole_words = line[: LINK_CHARACTERS + 1].rpartition(" ")[0]
    return whole_words or line[:LINK_CHARACTERS]


def url_of(source: ShownPassage, address: Address | None) -> str:
    """Return the address of a passage: its document's, or one of this server, or a mere name.

    Args:
        source: the passage.
        address: gives the server's own; None where it has none.
    """
    if source.url:
        return source.url
    if address is None:
        return f"urn:passage:{quote(source.docno)}"
    return address(source.docno)


def annotations(turn: Turn, content: str, address: Address | None) -> list[dict[str, Any]]:
    """The sources as OpenAI names them, in the order of [1], [2], ...

    With them chat pages such as Open WebUI link the passages.
    """
    links = []
    for number, source in enumerate(turn.sources, 1):
        mark = f"[{number}]"
        start = max(content.find(mark), 0)
        link = {
            "url": url_of(source, address),
            "title": link_title(source),
            "start_index": start,
            "end_index": start + len(mark),
        }
        links.append({"type": "url_citation", "url_citation": link})
    return links


def citations(turn: Turn, address: Address | None = None) -> list[dict[str, Any]]:
    """The passages of an answer, in the order of [1], [2], ..."""
    passages = []
    for source in turn.sources:
        passage = {
            "id": source.docno,
            "title": title_of(source),
            "text": source.text,
            "score": source.score,
            "url": url_of(source, address),
        }
        passages.append(passage)
    return passages


def usage(spend: Spend) -> dict[str, int] | None:
    """Return the paid tokens of a turn in OpenAI's form; None if they are unknown."""
    if spend.prompt_tokens is None or spend.completion_tokens is None:
        return None
    return {
        "prompt_tokens": spend.prompt_tokens,
        "completion_tokens": spend.completion_tokens,
        "total_tokens": spend.tokens or 0,
    }


def as_json(value: Any) -> str:
    """Write a value as JSON; a score like NaN becomes null.

    Example:
        >>> as_json({"score": float("nan")})
        '{"score":null}'
    """
    return encoded(value, inf_nan_mode="null").decode()


@dataclass(frozen=True)
class ChatReply:
    """The objects of one reply, with a common id.

    Args:
        model: the name of the system.
        ignored: the parts of the request that have no effect.
        address: gives the addresses of passages; None where they have none.
    """

    model: str
    ignored: Sequence[str] = ()
    address: Address | None = None
    id: str = field(default_factory=lambda: f"chatcmpl-{uuid.uuid4().hex}")
    created: int = field(default_factory=lambda: int(time.time()))

    def completion(self, turn: Turn) -> dict[str, Any]:
        """The whole answer."""
        content = content_of(turn)
        message = {
            "role": "assistant",
            "content": content,
            "refusal": None,
            "annotations": annotations(turn, content, self.address),
        }
        choice = {"index": 0, "message": message, "finish_reason": "stop", "logprobs": None}
        return {
            **self._object("chat.completion", [choice]),
            "usage": usage(turn.spend),
            **self._facts(turn),
        }

    def chunk(
        self, delta: Mapping[str, Any], finish_reason: str | None = None, **more: Any
    ) -> dict[str, Any]:
        """A part of a stream."""
        choice = {"index": 0, "delta": delta, "finish_reason": finish_reason, "logprobs": None}
        return {**self._object("chat.completion.chunk", [choice]), **more}

    def text(self, text: str, sent: str, why: str) -> list[dict[str, Any]]:
        """Return the chunks for turning the text sent so far into ``text``.

        Where the beginning has changed, the first chunk takes back what was sent, and says why.
        """
        if text.startswith(sent):
            chunks = []
            new = text[len(sent) :]
        else:
            chunks = [self.chunk({}, ikat={"replaced": why})]
            new = text
        if new:
            chunks.append(self.chunk({"content": new}))
        return chunks

    def blocks(self, drawn: DrawnBlocks) -> dict[str, Any]:
        """The finished blocks of an answer that is being written, drawn for the page."""
        return self.chunk({}, ikat={"block": drawn.html, "until": drawn.until})

    def end(self, turn: Turn, sent: str) -> dict[str, Any]:
        """The last part of an answer: its sources, and the answer drawn for the page.

        The page asks for streams alone.

        Args:
            turn: the answered turn.
            sent: the text that its reader had before the checked one.
        """
        content = content_of(turn)
        facts = self._facts(turn)
        facts["ikat"]["html"] = as_html(turn)
        facts["ikat"]["replaced"] = ""
        if not content.startswith(sent):
            facts["ikat"]["replaced"] = turn.more.get("replaced", "")
        delta = {"annotations": annotations(turn, content, self.address)}
        return {**self.chunk(delta, "stop"), **facts}

    def usage(self, turn: Turn) -> dict[str, Any]:
        """The part after the last one, with the tokens."""
        return {**self._object("chat.completion.chunk", []), "usage": usage(turn.spend)}

    def _facts(self, turn: Turn) -> dict[str, Any]:
        """Return the fields of an answer beside the protocol: its passages, and its account."""
        facts = {name: getattr(turn, name) for name in TURN_FACTS}
        facts |= asdict(turn.spend)
        facts["tokens"] = turn.spend.tokens
        facts["shown"] = [passage.docno for passage in turn.shown]
        facts["ignored"] = self.ignored
        facts["saved"] = bool(turn.more.get("saved"))
        facts["shortened"] = turn.more.get("shortened")
        return {"citations": citations(turn, self.address), "ikat": facts}

    def _object(self, kind: str, choices: list[Any]) -> dict[str, Any]:
        return {
            "id": self.id,
            "object": kind,
            "created": self.created,
            "model": self.model,
            "choices": choices,
        }


def about(system: System) -> str:
    """Describe a system in a plain sentence: by its method, or by the work of its stages."""
    summary = _SOURCE_IN_PAPER.sub("", system.method.summary)
    if summary:
        plain = _ROLE.sub(r"\1", summary).replace("``", "")
        sentence = plain.partition(". ")[0].rstrip(".")
        return f"{sentence}."
    steps: dict[str, None] = {}
    for stage in every_stage(system.pipeline):
        if isinstance(stage, Operator) and stage.activity:
            steps[re.sub(r" \{\w+\}", "", stage.activity)] = None
    return f"Works by {', '.join(steps)}." if steps else ""


def model_object(system: System, created: int) -> dict[str, Any]:
    """A system in the list of models."""
    first_words = dict.fromkeys(chat.turns[0].utterance for chat in system.recorded)
    return {
        "id": system.name,
        "object": "model",
        "created": created,
        "owned_by": "pyterrier_ikat",
        "about": about(system),
        "writes_response": system.writes_response,
        "search": search_facts(system),
        "examples": list(first_words)[:3],
    }
