"""What one user's events come to: the statements that hold, now or at an earlier time, and what BM25 finds among them.

An event is a dict with ``event``, ``when`` (UTC), ``user`` and ``session``. ``"learned"`` has what
was learned on one call: ``turn`` (the last one of the session that was learned from; the session is
empty and the turn 0 for statements that were told), ``said`` (the checksums of the user's messages)
and ``learned``, the statements. ``"undone"`` says that what was learned from ``turn`` of the
session on doesn't hold any more. A statement that was forgotten has an empty text.
"""

from array import array
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from ..completions.statements import normalised
from ..conversations.frame import as_said, is_message
from ..errors import UsageError
from ..retrieve.eager import candidates, count_terms, impacts_of, norms, weigh_term
from ..retrieve.rankings import Ranking, sort_ties
from ..retrieve.words import stop_terms, tokenize
from ..store.cache import digest

STEMMER, K1, B = "porter2", 0.9, 0.4
"""The defaults of :class:`~pyterrier_ikat.PassageIndex` and :class:`~pyterrier_ikat.BM25`."""
Event = dict[str, Any]
Statement = dict[str, Any]
Messages = Sequence[Mapping[str, str]]


class History:
    """What one user's events come to.

    Attributes:
        events: all of them, in their order.
        entries: the events by which something was learned that was not undone since.
        sessions: the sessions that were learned from.
    """

    def __init__(self, events: Iterable[Event] = ()) -> None:
        self.events: list[Event] = []
        self.entries: list[Event] = []
        self.sessions: set[str] = set()
        self._undone: dict[int, str] = {}
        self._holds: dict[str, tuple[Event, Statement]] = {}
        self._known: dict[str, str] = {}
        self._texts: set[str] | None = None
        self._index: StatementIndex | None = None
        for event in events:
            self.take(event)

    def take(self, event: Event) -> None:
        """Add an event.

        Raises:
            KeyError, TypeError: when it is none.
        """
        self.events.append(event)
        self.sessions.add(event["session"])
        if event["event"] == "undone":
            undone = [
                entry
                for entry in self.entries
                if entry["session"] == event["session"] and entry["turn"] >= event["turn"]
            ]
            self._undone |= {id(entry): event["when"] for entry in undone}
            self.entries = [entry for entry in self.entries if id(entry) not in self._undone]
            self._holds, self._known, self._texts, self._index = {}, {}, None, None
            for entry in self.entries:
                self._learn(entry)
        else:
            self.entries.append(event)
            self._learn(event)

    def _learn(self, entry: Event) -> None:
        if self._texts is not None:
            self._texts.update(normalised(one["statement"]) for one in entry["learned"])
        for one in entry["learned"]:
            for number in one["replaces"]:
                self._holds.pop(number, None)
                self._known.pop(number, None)
                if self._index is not None:
                    self._index.put(number, None)
            if one["statement"]:
                self._holds[one["id"]] = entry, one
                self._known[one["id"]] = one["statement"]
                if self._index is not None:
                    self._index.put(one["id"], one["statement"])

    def known(self, dated: bool = False) -> dict[str, str]:
        """The statements that hold, by id."""
        if not dated:
            return dict(self._known)
        return {
            number: as_said(one["statement"], entry["when"], entry["session"], one["message"])
            for number, (entry, one) in self._holds.items()
        }

    def until(self, when: str) -> "History":
        """The history as it was at a time."""
        return History(event for event in self.events if event["when"] <= when)

    def before(self, session: str, turn: int) -> "History":
        """The history as it was when a turn of a session began; what is undone by now was never there."""
        later = (
            place
            for place, entry in enumerate(self.entries)
            if entry["session"] == session and entry["turn"] >= turn
        )
        return History(self.entries[: next(later, None)])

    @property
    def ids(self) -> set[str]:
        """The ids that stand for a statement or stood for one, and those of forgotten ones that others replaced."""
        return {
            number
            for event in self.events
            for one in event.get("learned", ())
            for number in (one["id"], *one["replaces"])
        }

    @property
    def texts(self) -> set[str]:
        """The statements that were learned and not undone, without case and punctuation."""
        if self._texts is None:
            self._texts = {
                normalised(one["statement"]) for entry in self.entries for one in entry["learned"]
            }
        return self._texts

    @property
    def index(self) -> "StatementIndex":
        """The statements that hold, for BM25."""
        if self._index is None:
            self._index = StatementIndex(self.known())
        return self._index

    def memories(self) -> list[dict[str, Any]]:
        """Every statement that isn't forgotten, as an entry of ``qmemories``."""
        replaced = {
            number: entry["when"]
            for entry in self.entries
            for one in entry["learned"]
            for number in one["replaces"]
        }
        found = dict[str, dict[str, Any]]()
        for event in self.events:
            for one in event.get("learned", ()):
                if not one["statement"]:
                    continue
                memory = {name: one[name] for name in ("id", "statement", "words", "replaces")}
                memory.update(when=event["when"], session=event["session"], turn=one["message"])
                memory["until"] = self._undone.get(id(event)) or replaced.get(one["id"])
                known = found.get(one["id"])
                if known is None or known["until"] is not None:
                    found[one["id"]] = memory
                elif memory["until"] is None:  # it was said again, and replaces another one by that
                    known["replaces"] = list(
                        dict.fromkeys([*known["replaces"], *memory["replaces"]])
                    )
        return list(found.values())

    # A session

    def of_session(self, session: str) -> Iterator[Event]:
        """The entries of a session."""
        return (entry for entry in self.entries if entry["session"] == session)

    def last_turn(self, session: str) -> int:
        """The last turn of a session that was learned from."""
        return max((entry["turn"] for entry in self.of_session(session)), default=0)

    def taken_back(self, session: str, said: Sequence[str]) -> int | None:
        """The first turn of a session that was learned from, and that the user now has said otherwise."""
        now = digests(said)
        for entry in self.of_session(session):
            first = entry["turn"] - len(entry["said"])
            for place, (then, text) in enumerate(
                zip(entry["said"], now[first:], strict=False), first
            ):
                if then != text:
                    return place + 1
        return None

    def learned_before(self, session: str, turn: int) -> list[Statement] | None:
        """What was learned on the call that first reached a turn; None when the turn wasn't learned from."""
        entry = next((entry for entry in self.of_session(session) if entry["turn"] >= turn), None)
        return (
            None
            if entry is None
            else [one for one in entry["learned"] if one["statement"] and one["message"] <= turn]
        )


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
        there, scores = (
            np.array(self._there, dtype=bool),
            np.zeros(len(self._ids), dtype=np.float32),
        )
        norm = np.zeros_like(scores)
        norm[there] = norms(np.array(self._lengths)[there], K1, B)
        asked = count_terms(tokenize(question, STEMMER), stop_terms("lucene", STEMMER))
        for term in sorted(
            asked.keys() & self._lists.keys(), reverse=True
        ):  # the order in which every index adds them up
            rows, counts = map(np.array, self._lists[term])
            held = there[rows]
            rows, weight = rows[held], weigh_term(held.sum(), there.sum(), K1)
            scores[rows] += impacts_of(counts[held], norm[rows], weight) * np.float32(asked[term])
        numbers, best = candidates(scores, n)
        found = sort_ties(Ranking([self._ids[row] for row in numbers], best), n)
        return list(zip(found.docnos, found.scores.tolist(), strict=True))


def without(events: Sequence[Event], id: str) -> list[Event]:
    """Events without the text of a statement, whose message is not learned from again.

    What it had replaced holds again, or is replaced by what replaced the statement itself.
    """
    freed = list[str]()
    for event in events:
        for one in event.get("learned", ()):
            if one["id"] == id:
                freed += one["replaces"]
    left = list[Event]()
    for event in events:
        learned = [_without(one, id, freed) for one in event.get("learned", ())]
        left.append({**event, "learned": learned} if learned else event)
    return left


def _without(one: Statement, id: str, freed: Sequence[str]) -> Statement:
    if one["id"] == id:
        return {**one, "statement": "", "words": "", "replaces": []}
    if id in one["replaces"]:
        return {**one, "replaces": list(dict.fromkeys([*one["replaces"], *freed]))}
    return one


def words_of(messages: Messages) -> list[str]:
    """The user's messages."""
    if not all(map(is_message, messages)):
        raise UsageError('a message is not {"role": "user" or "assistant", "content": text}')
    said = [message["content"] for message in messages if message["role"] == "user"]
    if not said:
        raise UsageError(
            "the user has said nothing yet: give a conversation with at least one message of the user"
        )
    return said


def digests(said: Sequence[str]) -> list[str]:
    """Of each message its checksum, by which a message that was changed is recognised."""
    return [digest(text).hex() for text in said]
