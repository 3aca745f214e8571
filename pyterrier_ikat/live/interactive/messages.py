"""What the server says of a run: the message of a simulated user, and where the run stands."""

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import Any, Self

from ...errors import DataError
from ...llms.failures import shorten
from ...runs.turn_drawn import strip_controls
from .dumps import REPAIR

ROLES = ("user", "assistant")
STATES = {"active": "active", "inactive": "inactive", "complete": "complete", "completed": "complete"}
"""The documentation says ``completed``, the released server ``complete``."""


@dataclass(frozen=True)
class UserMessage:
    """What the simulated user says, and where the run stands.

    Attributes:
        topic: the topic's id.
        user: the user's id; the same user may have several topics.
        utterance: the user's words.
        history: the conversation so far, as the server keeps it; empty if it sends none, or none that can be read.
        timestamp: the server's.
        ends_session: whether the user has no further question; the next call asks for the next topic.
        ends_run: whether there is no further topic either.
    """

    topic: str
    user: str
    utterance: str
    history: list[dict[str, str]] = field(default_factory=list)
    timestamp: str = ""
    ends_session: bool = False
    ends_run: bool = False

    @classmethod
    def of(cls, answer: Any) -> Self:
        """The message in the server's answer.

        Raises:
            DataError: when it holds none, naming the field.
        """
        if not isinstance(answer, Mapping):
            raise DataError(f"the server's answer is not a user message but {type(answer).__name__}: check the address")
        ends_session, ends_run = (_flag(answer, name) for name in ("last_response_of_session", "last_response_of_run"))
        history, ends = _history(answer.get("history")), ends_session or ends_run
        topic = _text(answer, "topic_id", ends_run and not history)  # a run without any topic
        user, utterance = (_text(answer, name, ends) for name in ("user_id", "utterance"))
        return cls(topic, user, utterance, history, str(answer.get("timestamp") or ""), ends, ends_run)

    def messages(self) -> list[dict[str, str]]:
        """The conversation with this utterance at its end: some servers include it in the history."""
        said = {"role": "user", "content": self.utterance}
        return self.history if self.history and self.history[-1] == said else [*self.history, said]

    def record(self) -> dict[str, Any]:
        """The fields as JSON."""
        return asdict(self)


@dataclass(frozen=True)
class RunStatus:
    """Where a run stands, as the server says it.

    Attributes:
        state: ``active``, ``inactive`` (the server was started again, and has no conversation) or ``complete``; a run may be complete
            while its last conversation goes on.
        open: the topics that have not begun, and with some servers the current one.
        done: the other topics.
    """

    state: str
    open: tuple[str, ...]
    done: tuple[str, ...]

    @classmethod
    def of(cls, answer: Any) -> Self:
        """The status in the server's answer.

        Raises:
            DataError: when it has an unknown form.
        """
        found = answer if isinstance(answer, dict) else {}
        state = STATES.get(str(found.get("status")))
        topics = [found.get(name) for name in ("open_topics", "done_topics")]
        if state is None or not all(isinstance(one, list) for one in topics):
            raise DataError(f"the status of the run has an unknown form ({shorten(str(answer))[:80]}): {REPAIR}")
        started, done = (tuple(map(str, one)) for one in topics if isinstance(one, list))
        return cls(state, started, done)


def _flag(answer: Mapping[str, Any], name: str) -> bool:
    value = answer.get(name)
    if not isinstance(value, bool):  # the text "false" must not end a conversation
        raise _no_message(answer, name, "true or false")
    return value


def _text(answer: Mapping[str, Any], name: str, ends: bool) -> str:
    value = answer.get(name)
    if isinstance(value, str) or (isinstance(value, int) and not isinstance(value, bool)):
        return str(value)
    if value is None and ends:
        return ""
    raise _no_message(answer, name, "a text")


def _no_message(answer: Mapping[str, Any], name: str, wanted: str) -> DataError:
    found = f"is {str(answer[name])[:40]!r}, not {wanted}" if name in answer else "is missing"
    return DataError(f"the server's answer is not a user message ({name} {found}): check the address, or ask the organisers")


def _history(found: Any) -> list[dict[str, str]]:
    messages = found if isinstance(found, list) else []
    if not all(isinstance(one, Mapping) and one.get("role") in ROLES for one in messages):
        return []
    contents = [one.get("content") for one in messages]
    if not all(text is None or isinstance(text, str) for text in contents):
        return []
    return [{"role": one["role"], "content": text or ""} for one, text in zip(messages, contents, strict=True)]


def cleaned(value: Any) -> Any:
    """JSON without halves of characters, which no file and no tokenizer takes, and without control characters, which command a terminal.

    Example:
        >>> cleaned({"utterance": "Tea " + chr(0xD800) + chr(27) + "[2J"})
        {'utterance': 'Tea � [2J'}
    """
    if isinstance(value, str):
        return strip_controls(value)
    if isinstance(value, list):
        return [cleaned(one) for one in value]
    if isinstance(value, dict):
        return {strip_controls(name): cleaned(one) for name, one in value.items()}
    return value
