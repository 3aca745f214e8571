"""The server's answers: the message of a simulated user, the state of a run, and the dump of its responses.

Both forms of a dump's entry are read into one, and every other form is an error. Servers until February 2026 keep a response under
``text``, ``citations`` and ``ptkb_provenance``; the released one under ``assistant_text``, ``assistant_citations`` and ``assistant_meta``,
and what the run was started with under ``extra``.
"""

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, field, replace
from typing import Any

from ...errors import DataError
from ...llms.failures import shorten
from ...runs.turn_shown import strip_controls

REPAIR = "a newer version of this package may know this form"
ROLES = ("user", "assistant")
HIGHEST = 5
"""The highest grade of a simulated user."""
STATES = {"active": "active", "inactive": "inactive", "complete": "complete", "completed": "complete"}
"""The documentation says ``completed``, the released server ``complete``."""


@dataclass(frozen=True)
class UserMessage:
    """The utterance of the simulated user, and the state of the run.

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
    def of(cls, answer: Any) -> "UserMessage":
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
    """The state of a run, according to the server.

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
    def of(cls, answer: Any) -> "RunStatus":
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


@dataclass(frozen=True)
class DumpEntry:
    """A response that the server took, or the user's last words on a topic, which have no response.

    Attributes:
        topic: the topic.
        number: the number of the response in its topic, as the server counts.
        about: ``run_id``, ``team_id``, ``description`` and ``track_persona`` of the run, as far as the server keeps them.
        utterance: the user's words.
        text: the response; None for the user's last words.
        citations: docno -> score; None where the server keeps none.
        statements: the statements that the response relies on; None where the server keeps none.
        references: the passages that the server stores with the response; None if it has none.
        rubric: the question of the user that the response was to answer; empty where it isn't known.
        grade: the user's grade of the response, 0 to 5; None if there is none.
    """

    topic: str
    number: str
    about: Mapping[str, Any]
    utterance: str
    text: str | None
    citations: Mapping[str, float] | None = None
    statements: tuple[str, ...] | None = None
    references: Mapping[str, float] | None = None
    rubric: str = ""
    grade: float | None = None


def read_dump(objects: Iterable[Any]) -> list[DumpEntry]:
    """The entries of a dump.

    The released server stores the rubric of the next question with the grade of a response. So each entry gets the rubric of the previous
    entry on its topic, and the first one of a topic has none.

    Args:
        objects: one for each entry, in either form.

    Raises:
        DataError: naming the first entry and field of another form. Nothing is concluded from such a dump.

    Example:
        >>> said = {"user_utterance": "Which tea?", "assistant_text": "Rooibos.", "assistant_citations": {}, "assistant_meta": {}}
        >>> (entry,) = read_dump([{"metadata": {"run_id": "r", "extra": {}, "topic_id": "1-1_1"}, "responses": [said]}])
        >>> entry.topic, entry.text
        ('1-1', 'Rooibos.')
    """
    entries, asked = list[DumpEntry](), dict[str, str]()
    for number, value in enumerate(objects, 1):
        fields = _Fields(value, f"entry {number}")
        entry = fields.entry()
        if fields.released:
            entry, asked[entry.topic] = replace(entry, rubric=asked.get(entry.topic, "")), entry.rubric
        entries.append(entry)
    return entries


def answers_to(topic: str, entries: Iterable[DumpEntry]) -> list[DumpEntry]:
    """The entries of a topic that have a response."""
    return [entry for entry in entries if entry.topic == topic and entry.text is not None]


def more_than(known: Iterable[str], entries: Iterable[DumpEntry]) -> Counter[str]:
    """How often a dump has each response more often than it is known; a response that the server has twice has two entries."""
    return Counter(entry.text for entry in entries if entry.text is not None) - Counter(known)


class _Fields:
    """The fields of an entry, each of which is checked when it is read."""

    def __init__(self, value: Any, place: str) -> None:
        self.place = place
        self.whole = self._kind(value, "the entry", Mapping)
        self.metadata = self._kind(self.whole.get("metadata"), "metadata", Mapping)
        responses = self._kind(self.whole.get("responses"), "responses", list)
        if len(responses) != 1:
            raise self._other(f"responses has {len(responses)} objects, not one")
        self.response = self._kind(responses[0], "responses[0]", Mapping)

    def entry(self) -> DumpEntry:
        names = [name for name in ("text", "assistant_text") if name in self.response]
        if len(names) != 1:
            raise self._other(f"responses[0] has {' and '.join(names) or 'neither text nor assistant_text'}")
        topic, line, number = self._text(self.metadata, "topic_id").rpartition("_")
        if not (topic and line):
            raise self._other(f"topic_id is {self.metadata['topic_id']!r}, not TOPIC_NUMBER")
        (name,) = names
        released = self.released
        rubric, grade = self._graded()
        return DumpEntry(
            topic,
            number,
            self._about(released),
            self._text(self.response, "user_utterance"),
            None if self.response[name] is None else self._text(self.response, name),
            self._scores(self.response, "assistant_citations" if released else "citations"),
            self._statements(self._object(self.response, "assistant_meta") if released else self.response),
            self._scores(self.whole, "references"),
            rubric,
            None if self.response[name] is None else grade,
        )

    @property
    def released(self) -> bool:
        """Whether it has the form of the released server."""
        return "assistant_text" in self.response

    def _graded(self) -> tuple[str, float | None]:
        """The rubric and the grade in the entry. The server's own users have none."""
        free = self._object(self.response, "user_meta") if self.released else self.response
        rubric, grade = (free.get(name) for name in (("rubric", "rubric_score") if self.released else ("user_rubrik", "user_rubrik_score")))
        if not isinstance(rubric, str) or not isinstance(grade, int | float) or not 0 <= grade <= HIGHEST:
            return "", None
        return rubric, float(grade)

    def _about(self, released: bool) -> dict[str, Any]:
        found = {name: self.metadata.get(name) for name in ("run_id", "team_id", "description")}
        tracked = (self._object(self.metadata, "extra") if released else self.metadata).get("track_persona")
        return {**found, "track_persona": tracked}

    def _statements(self, kept: Mapping[str, Any]) -> tuple[str, ...] | None:
        if (found := kept.get("ptkb_provenance")) is None:
            return None
        texts = self._kind(found, "ptkb_provenance", list)
        if not all(isinstance(text, str) for text in texts):
            raise self._other("ptkb_provenance is not a list of texts")
        return tuple(texts)

    def _scores(self, kept: Mapping[str, Any], name: str) -> Mapping[str, float] | None:
        if (found := kept.get(name)) is None:
            return None
        scores: Mapping[str, float] = self._kind(found, name, Mapping)
        if not all(isinstance(score, int | float) and not isinstance(score, bool) for score in scores.values()):
            raise self._other(f"{name} has a score that is not a number")
        return scores

    def _object(self, kept: Mapping[str, Any], name: str) -> Mapping[str, Any]:
        """A free object; the server keeps null where none was sent."""
        found: Mapping[str, Any] = {} if kept.get(name) is None else self._kind(kept[name], name, Mapping)
        return found

    def _text(self, kept: Mapping[str, Any], name: str) -> str:
        return str(self._kind(kept.get(name), name, str))

    def _kind(self, value: Any, name: str, kind: type) -> Any:
        if not isinstance(value, kind):
            wanted = "a list" if kind is list else "a text" if kind is str else "an object"
            raise self._other(f"{name} is {'missing' if value is None else f'{type(value).__name__}, not {wanted}'}")
        return value

    def _other(self, what: str) -> DataError:
        return DataError(f"{self.place} of the server's dump has an unknown form ({what}): {REPAIR}")
