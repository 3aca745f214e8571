"""What is known of one user: events in the order in which they were kept, and what follows from them.

An event is a dict with ``event``, ``when`` (UTC) and ``user``. ``"learned"`` has what was learned on one call: ``session``, ``turn`` (its
last; empty and 0 for statements that were told), ``said`` (the checksums of the user's messages) and ``learned``, the statements; perhaps
``asked`` (of each cache file, the keys of completions whose prompts have these messages) and ``saved`` (the folder of a chat). ``"undone"``
says that what was learned from ``turn`` of ``session`` on doesn't hold any more. ``"failed"`` says that nothing could be learned, and has
``session``, ``asked`` and perhaps ``saved``. A statement that was forgotten has an empty text.
"""

from array import array
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np

from ..completions.matching import normalised
from ..conversations.frame import as_said, is_message
from ..errors import UsageError
from ..portable import digest
from ..retrieve.eager import candidates, count_terms, impacts_of, norms, weigh_term
from ..retrieve.ranking import Ranking, sort_ties
from ..retrieve.words import stop_terms, tokenize

STEMMER, K1, B = "porter2", 0.9, 0.4
"""The defaults of :class:`~pyterrier_ikat.PassageIndex` and :class:`~pyterrier_ikat.BM25`."""
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
        ids: the ids that stand for a statement, or stood for one, and those of forgotten ones that others replaced.
    """

    def __init__(self) -> None:
        self.events: list[Event] = []
        self.entries: list[Event] = []
        self.ids: set[str] = set()
        self._known: dict[bool, dict[str, str]] = {}
        self._texts: set[str] | None = None
        self._index: StatementIndex | None = None

    def take(self, event: Event) -> None:
        """Add an event.

        Raises:
            KeyError, TypeError: when it is none.
        """
        _check(event, FIELDS[event["event"]])
        for one in event.get("learned", ()):
            _check(one, STATEMENT)
        self.events.append(event)
        if event["event"] == "undone":
            self.entries = [entry for entry in self.entries if not _undoes(event, entry)]
            self._known, self._texts, self._index = {}, None, None
        elif event["event"] == "learned":
            self._learn(event)

    def _learn(self, event: Event) -> None:
        self.entries.append(event)
        self.ids.update(number for one in event["learned"] for number in (one["id"], *one["replaces"]))
        for dated, known in self._known.items():
            _with([event], known, dated)
        if self._texts is not None:
            self._texts.update(normalised(one["statement"]) for one in event["learned"])
        if self._index is not None:
            for number in [number for one in event["learned"] for number in (*one["replaces"], one["id"])]:
                self._index.put(number, self.known().get(number))

    def known(self, dated: bool = False) -> dict[str, str]:
        """The statements that hold, by id."""
        if dated not in self._known:
            self._known[dated] = known_in(self.entries, dated)
        return self._known[dated]

    @property
    def texts(self) -> set[str]:
        """The statements that were learned and not undone, without case and punctuation."""
        if self._texts is None:
            self._texts = {normalised(one["statement"]) for entry in self.entries for one in entry["learned"]}
        return self._texts

    @property
    def index(self) -> "StatementIndex":
        """The statements that hold, for BM25."""
        if self._index is None:
            self._index = StatementIndex(self.known())
        return self._index


class StatementIndex:
    """BM25 over statements that come and go, with the words, scores and ties of a :class:`LexicalIndex` of those that are there.

    Example:
        >>> index = StatementIndex({"1": "I own a dog.", "2": "I like tea."})
        >>> index.put("1", None)
        >>> index.put("3", "My dogs like tea.")
        >>> [number for number, score in index.search("Which dog?", 10)]
        ['3']
    """

    def __init__(self, statements: Mapping[str, str]) -> None:
        self._ids: list[str] = []
        self._rows: dict[str, int] = {}
        self._there, self._lengths = array("b"), array("I")
        self._lists: dict[str, tuple[array[int], array[int]]] = {}
        for number, text in statements.items():
            self.put(number, text)

    def put(self, number: str, text: str | None) -> None:
        """Put a statement in the place of the one with its id; None removes that one."""
        if number in self._rows:
            self._there[self._rows.pop(number)] = False
        if text is not None:
            terms, row = tokenize(text, STEMMER), len(self._ids)
            self._rows[number] = row
            self._ids.append(number)
            self._there.append(True)
            self._lengths.append(len(terms))
            for term, count in Counter(terms).items():
                rows, counts = self._lists.setdefault(term, (array("I"), array("I")))
                rows.append(row)
                counts.append(count)

    def search(self, question: str, n: int) -> list[tuple[str, float]]:
        """The ids and scores of the best statements."""
        there, scores = np.array(self._there, dtype=bool), np.zeros(len(self._ids), dtype=np.float32)
        norm = np.zeros_like(scores)
        norm[there] = norms(np.array(self._lengths)[there], K1, B)
        asked = count_terms(tokenize(question, STEMMER), stop_terms("lucene", STEMMER))
        for term in sorted(asked.keys() & self._lists.keys(), reverse=True):  # the order in which every index adds them up
            rows, counts = map(np.array, self._lists[term])
            held = there[rows]
            rows, weight = rows[held], weigh_term(held.sum(), there.sum(), K1)
            scores[rows] += impacts_of(counts[held], norm[rows], weight) * np.float32(asked[term])
        numbers, best = candidates(scores, n)
        found = sort_ties(Ranking([self._ids[row] for row in numbers], best)).best(n)
        return list(zip(found.docnos, found.scores.tolist(), strict=True))


def standing(events: Iterable[Event], latest: str | None = None) -> tuple[list[Event], dict[int, str]]:
    """The entries that were not undone until a time, and when the others were, by the id of the object."""
    entries: list[Event] = []
    undone: dict[int, str] = {}
    for event in events:
        if latest is not None and event["when"] > latest:
            continue
        if event["event"] == "learned":
            entries.append(event)
        elif event["event"] == "undone":
            undone |= {id(entry): event["when"] for entry in entries if _undoes(event, entry)}
            entries = [entry for entry in entries if id(entry) not in undone]
    return entries, undone


def memories_in(events: Sequence[Event], latest: str | None = None) -> list[dict[str, Any]]:
    """Every statement that isn't forgotten, as an entry of ``qmemories``: as it was at a time, or now."""
    entries, undone = standing(events, latest)
    replaced = {number: entry["when"] for entry in entries for one in entry["learned"] for number in one["replaces"]}
    there = {id(entry) for entry in entries} | undone.keys()
    learned = [(event, one) for event in events if id(event) in there for one in event["learned"] if one["statement"]]
    return [
        {
            **{name: one[name] for name in ("id", "statement")},
            **{name: event[name] for name in ("when", "session")},
            "turn": one["message"],
            **{name: one[name] for name in ("words", "replaces")},
            "until": undone.get(id(event)) or replaced.get(one["id"]),
        }
        for event, one in learned
    ]


def before(entries: Sequence[Event], session: str, turn: int) -> Sequence[Event]:
    """The entries before a turn of a session."""
    later = (place for place, entry in enumerate(entries) if entry["session"] == session and entry["turn"] >= turn)
    return entries[: next(later, None)]


def _check(found: Mapping[str, Any], fields: Mapping[str, type]) -> None:
    if not all(isinstance(found[name], kind) for name, kind in fields.items()):
        raise TypeError


def _undoes(event: Event, entry: Event) -> bool:
    return bool(entry["session"] == event["session"] and entry["turn"] >= event["turn"])


def known_in(entries: Iterable[Event], dated: bool = False) -> dict[str, str]:
    """The statements that hold after these entries, by id."""
    return _with(entries, {}, dated)


def _with(entries: Iterable[Event], known: dict[str, str], dated: bool) -> dict[str, str]:
    for entry in entries:
        for one in entry["learned"]:
            if one["replaces"]:
                for number in one["replaces"]:
                    known.pop(number, None)
            if text := one["statement"]:
                known[one["id"]] = as_said(text, entry["when"], entry["session"], one["message"]) if dated else text
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
