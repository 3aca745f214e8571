"""The server's dump of a run: both forms of an entry are read into one, and every other form is an error.

Servers until February 2026 keep a response under ``text``, ``citations`` and ``ptkb_provenance``; the released one under
``assistant_text``, ``assistant_citations`` and ``assistant_meta``, and what the run was started with under ``extra``.
"""

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from ...errors import DataError

REPAIR = "a newer version of this package may know this form"


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
        references: the passages that the server keeps beside the response; None where it has none.
    """

    topic: str
    number: str
    about: Mapping[str, Any]
    utterance: str
    text: str | None
    citations: Mapping[str, float] | None = None
    statements: tuple[str, ...] | None = None
    references: Mapping[str, float] | None = None


def read_dump(objects: Iterable[Any]) -> list[DumpEntry]:
    """The entries of a dump.

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
    return [_Fields(value, f"entry {number}").entry() for number, value in enumerate(objects, 1)]


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
        released = name != "text"
        return DumpEntry(
            topic,
            number,
            self._about(released),
            self._text(self.response, "user_utterance"),
            None if self.response[name] is None else self._text(self.response, name),
            self._scores(self.response, "assistant_citations" if released else "citations"),
            self._statements(self._object(self.response, "assistant_meta") if released else self.response),
            self._scores(self.whole, "references"),
        )

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
            raise self._other(f"{name} has a score that is no number")
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
