"""What is known of one user: events in the order in which they were kept, and what follows from them.

An event is a dict with ``event``, ``when`` (UTC) and ``user``. ``"learned"`` has what was learned on one call: ``session``, ``turn`` (its
last; empty and 0 for statements that were told), ``said`` (the checksums of the user's messages) and ``learned``, the statements; perhaps
``asked`` (of each cache file, the keys of completions whose prompts have these messages) and ``saved`` (the folder of a chat). ``"undone"``
says that what was learned from ``turn`` of ``session`` on doesn't hold any more. ``"failed"`` says that nothing could be learned, and has
``session``, ``asked`` and perhaps ``saved``. A statement that was forgotten has an empty text.
"""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from ..completions.matching import normalised
from ..conversations.frame import is_message
from ..errors import UsageError
from ..portable import digest
from ..retrieve.eager import LexicalIndex

Event = dict[str, Any]
Messages = Sequence[Mapping[str, str]]
STATEMENT = {"id": str, "statement": str, "message": int, "words": str, "replaces": list}
FIELDS: Mapping[str, Mapping[str, type]] = {
    "learned": {"when": str, "session": str, "turn": int, "said": list, "learned": list},
    "undone": {"when": str, "session": str, "turn": int},
    "failed": {"when": str, "session": str, "asked": dict},
}


class History:
    """What one user's events come to.

    Attributes:
        events: all of them, in their order.
        entries: the events by which something was learned that was not undone since.
        known: the statements that hold, by id.
        ids: the ids that stand for a statement, or stood for one.
    """

    def __init__(self, events: Iterable[Event] = ()) -> None:
        self.events: list[Event] = []
        self.entries: list[Event] = []
        self.known: dict[str, str] = {}
        self.ids: set[str] = set()
        self._places: dict[str, list[int]] = {}
        self._undone: dict[int, str] = {}
        self._texts: set[str] | None = None
        self._index: LexicalIndex | None = None
        for event in events:
            self.take(event)

    def take(self, event: Event) -> None:
        """Add an event.

        Raises:
            KeyError, TypeError: when it is none.
        """
        _check(event, FIELDS[event["event"]])
        self.events.append(event)
        if event["event"] == "failed":
            return
        self._index = None
        if event["event"] == "undone":
            self._undone |= {id(entry): event["when"] for entry in self.entries if _undoes(event, entry)}
            self.entries = [entry for entry in self.entries if not _undoes(event, entry)]
            self.known, self._texts, self._places = known_in(self.entries), None, {}
            for place, entry in enumerate(self.entries):
                self._places.setdefault(entry["session"], []).append(place)
            return
        for one in event["learned"]:
            _check(one, STATEMENT)
            self.ids.add(one["id"])
            if self._texts is not None:
                self._texts.add(normalised(one["statement"]))
        self._places.setdefault(event["session"], []).append(len(self.entries))
        self.entries.append(event)
        _add(self.known, event)

    def before(self, session: str, turn: int) -> Sequence[Event]:
        """The entries before a turn of a session."""
        later = (place for place in self._places.get(session, ()) if self.entries[place]["turn"] >= turn)
        return self.entries[: next(later, None)]

    @property
    def texts(self) -> set[str]:
        """The statements that were learned and not undone, without case and punctuation."""
        if self._texts is None:
            self._texts = {normalised(one["statement"]) for entry in self.entries for one in entry["learned"]}
        return self._texts

    @property
    def index(self) -> LexicalIndex:
        """The statements that hold, for BM25; it is made anew after each event."""
        if self._index is None:
            self._index = LexicalIndex(self.known.items())
        return self._index

    def memories(self) -> list[dict[str, Any]]:
        """Every statement that isn't forgotten, as an entry of ``qmemories``."""
        replaced = {number: entry["when"] for entry in self.entries for one in entry["learned"] for number in one["replaces"]}
        learned = [(event, one) for event in self.events if event["event"] == "learned" for one in event["learned"] if one["statement"]]
        return [
            {
                **{name: one[name] for name in ("id", "statement")},
                **{name: event[name] for name in ("when", "session")},
                "turn": one["message"],
                **{name: one[name] for name in ("words", "replaces")},
                "until": self._undone.get(id(event)) or replaced.get(one["id"]),
            }
            for event, one in learned
        ]


def _check(found: Mapping[str, Any], fields: Mapping[str, type]) -> None:
    if not all(isinstance(found[name], kind) for name, kind in fields.items()):
        raise TypeError


def _undoes(event: Event, entry: Event) -> bool:
    return bool(entry["session"] == event["session"] and entry["turn"] >= event["turn"])


def _add(known: dict[str, str], entry: Event) -> None:
    for one in entry["learned"]:
        for number in one["replaces"]:
            known.pop(number, None)
        if one["statement"]:
            known[one["id"]] = one["statement"]


def known_in(entries: Iterable[Event]) -> dict[str, str]:
    """The statements that hold after these entries, by id."""
    known: dict[str, str] = {}
    for entry in entries:
        _add(known, entry)
    return known


def words_of(messages: Messages) -> list[str]:
    """The user's messages."""
    if not all(map(is_message, messages)):
        raise UsageError('a message is not {"role": "user" or "assistant", "content": text}')
    said = [message["content"] for message in messages if message["role"] == "user"]
    if not said:
        raise UsageError("the user has said nothing yet: give a conversation with at least one message of the user")
    return said


def until(messages: Messages, turn: int) -> Messages:
    """The conversation up to the user's message of a turn."""
    places = [place for place, message in enumerate(messages) if message["role"] == "user"]
    return messages[: places[turn - 1] + 1]


def digests(said: Sequence[str]) -> list[str]:
    """Of each message its checksum, by which a message that was changed is recognised."""
    return [digest(text).hex() for text in said]


def last_turn(entries: Sequence[Event], session: str) -> int:
    """The last turn of a session that was learned from."""
    return max((entry["turn"] for entry in entries if entry["session"] == session), default=0)


def not_taken_back(entries: Sequence[Event], session: str, said: Sequence[str]) -> list[Event]:
    """The entries without those that were learned after the first turn that the user now has said otherwise."""
    now, otherwise = digests(said), [len(said) + last_turn(entries, session) + 1]
    for entry in entries:
        if entry["session"] == session:
            start = entry["turn"] - len(entry["said"])
            pairs = enumerate(zip(entry["said"], now[start:], strict=False), start + 1)
            otherwise += [turn for turn, (then, text) in pairs if then != text]
    return [entry for entry in entries if entry["session"] != session or entry["turn"] < min(otherwise)]


def learned_before(entries: Sequence[Event], session: str, said: Sequence[str]) -> list[dict[str, Any]] | None:
    """What was learned from the last of these messages on an earlier call; None when it wasn't learned from."""
    kept = [entry for entry in not_taken_back(entries, session, said) if entry["session"] == session and entry["turn"] >= len(said)]
    return [one for one in kept[0]["learned"] if one["statement"] and one["message"] <= len(said)] if kept else None
