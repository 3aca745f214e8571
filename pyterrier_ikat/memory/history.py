"""The state that results from one user's events.

The state is the statements that hold, now or at an earlier time. BM25 searches them.

An event is a dict with ``event``, ``when`` (UTC), ``user`` and ``session``. ``"learned"`` has what
was learned on one call: ``turn`` (the last one of the session that was learned from; the session is
empty and the turn 0 for statements that were told), ``said`` (the checksums of the user's messages)
and ``learned``, the statements. ``"undone"`` says that what was learned from ``turn`` of the
session on doesn't hold any more. A statement that was forgotten has an empty text.
"""

from array import array
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np

from ..completions.statements import normalised
from ..conversations.frame import as_said, is_message
from ..errors import UsageError
from ..retrieve.eager import candidates, count_terms, impacts_of, norms, weigh_term
from ..retrieve.rankings import Ranking, sort_ties
from ..retrieve.words import stop_terms, tokenize
from ..store.cache import digest

STEMMER = "porter2"
K1 = 0.9
B = 0.4
"""The defaults of :class:`~pyterrier_ikat.PassageIndex` and :class:`~pyterrier_ikat.BM25`."""
MemoryEvent = dict[str, Any]
Statement = dict[str, Any]
Messages = Sequence[Mapping[str, str]]


class History:
    """The state that results from one user's events.

    Attributes:
        events: all of them, in their order.
        entries: the events by which something was learned that was not undone since.
        sessions: the sessions that were learned from.
    """

    def __init__(self, events: Iterable[MemoryEvent] = ()) -> None:
        self.events: list[MemoryEvent] = []
        self.entries: list[MemoryEvent] = []
        self.sessions: set[str] = set()
        self._undone: dict[int, str] = {}  # id of an event -> when it was undone
        self._current: dict[str, tuple[MemoryEvent, Statement]] = {}
        self._texts: set[str] | None = None
        self._index: StatementIndex | None = None
        for event in events:
            self.take(event)

    def take(self, event: MemoryEvent) -> None:
        """Add an event.

        Raises:
            KeyError, TypeError: when it isn't an event.
        """
        self.events.append(event)
        self.sessions.add(event["session"])
        if event["event"] == "undone":
            self._undo(event)
        else:
            self.entries.append(event)
            self._learn(event)

    def _undo(self, event: MemoryEvent) -> None:
        remaining = []
        for entry in self.entries:
            if entry["session"] == event["session"] and entry["turn"] >= event["turn"]:
                self._undone[id(entry)] = event["when"]
            else:
                remaining.append(entry)
        self.entries = remaining
        self._current = {}
        self._texts = None
        self._index = None
        for entry in remaining:
            self._learn(entry)

    def _learn(self, entry: MemoryEvent) -> None:
        for statement in entry["learned"]:
            if self._texts is not None:
                self._texts.add(normalised(statement["statement"]))
            for replaced_id in statement["replaces"]:
                self._current.pop(replaced_id, None)
                if self._index is not None:
                    self._index.put(replaced_id, None)
            # A statement that is said again holds since it was first said.
            if statement["statement"] and statement["id"] not in self._current:
                self._current[statement["id"]] = (entry, statement)
                if self._index is not None:
                    self._index.put(statement["id"], statement["statement"])

    def known(self, dated: bool = False) -> dict[str, str]:
        """Return the statements that hold, by id; ``dated`` adds where and when each was said."""
        texts = {}
        for statement_id, (entry, statement) in self._current.items():
            text = statement["statement"]
            if dated:
                text = as_said(text, entry["when"], entry["session"], statement["message"])
            texts[statement_id] = text
        return texts

    def until(self, when: str) -> "History":
        """Return the history as it was at a time."""
        return History(event for event in self.events if event["when"] <= when)

    def before(self, session: str, turn: int) -> "History":
        """Return the history when a turn of a session began, without what is undone now."""
        for number, entry in enumerate(self.entries):
            if entry["session"] == session and entry["turn"] >= turn:
                return History(self.entries[:number])
        return History(self.entries)

    @property
    def ids(self) -> set[str]:
        """Every id that was ever given or replaced, those of forgotten statements included."""
        ids = set()
        for statement in self._statements(self.events):
            ids.add(statement["id"])
            ids.update(statement["replaces"])
        return ids

    @property
    def texts(self) -> set[str]:
        """The statements that were learned and not undone, without case and punctuation."""
        if self._texts is None:
            learned = self._statements(self.entries)
            self._texts = {normalised(statement["statement"]) for statement in learned}
        return self._texts

    @staticmethod
    def _statements(events: Iterable[MemoryEvent]) -> list[Statement]:
        statements = []
        for event in events:
            statements += event.get("learned", ())
        return statements

    @property
    def index(self) -> "StatementIndex":
        """The statements that hold, for BM25."""
        if self._index is None:
            self._index = StatementIndex(self.known())
        return self._index

    def memories(self) -> list[dict[str, Any]]:
        """Return every statement that isn't forgotten, as an entry of ``qmemories``."""
        replaced_at = {}
        for entry in self.entries:
            for statement in entry["learned"]:
                for replaced_id in statement["replaces"]:
                    replaced_at[replaced_id] = entry["when"]
        memories: dict[str, dict[str, Any]] = {}
        for event in self.events:
            for statement in event.get("learned", ()):
                if not statement["statement"]:
                    continue
                statement_id = statement["id"]
                until = replaced_at.get(statement_id) or self._undone.get(id(event))
                earlier = memories.get(statement_id)
                if earlier is None or earlier["until"] is not None:
                    # new, or learned again after it was undone or replaced
                    memories[statement_id] = _as_memory(event, statement, until)
                elif until is None:  # it holds, was said again, and replaces more
                    replaces = [*earlier["replaces"], *statement["replaces"]]
                    earlier["replaces"] = list(dict.fromkeys(replaces))
        return list(memories.values())

    # A session

    def of_session(self, session: str) -> list[MemoryEvent]:
        """Return the entries of a session."""
        return [entry for entry in self.entries if entry["session"] == session]

    def last_turn(self, session: str) -> int:
        """Return the last turn of a session that was learned from, or 0."""
        return max((entry["turn"] for entry in self.of_session(session)), default=0)

    def first_changed_turn(self, session: str, messages: Sequence[str]) -> int | None:
        """Return the first learned turn with another user message now, or None."""
        current = digests(messages)
        for entry in self.of_session(session):
            first = entry["turn"] - len(entry["said"])
            pairs = zip(entry["said"], current[first:], strict=False)
            for turn, (old, new) in enumerate(pairs, first + 1):
                if old != new:
                    return turn
        return None

    def learned_before(self, session: str, turn: int) -> list[Statement] | None:
        """Return what was learned on the call that first reached a turn; None if no call did."""
        for entry in self.of_session(session):
            if entry["turn"] >= turn:
                learned = []
                for statement in entry["learned"]:
                    if statement["statement"] and statement["message"] <= turn:
                        learned.append(statement)
                return learned
        return None


class StatementIndex:
    """BM25 over a changing set of statements.

    Words, scores and ties are those of a :class:`LexicalIndex` of the current statements.

    Example:
        >>> index = StatementIndex({"1": "I own a dog.", "2": "I like tea."})
        >>> index.put("1", None)
        >>> index.put("3", "My dogs like tea.")
        >>> [number for number, score in index.search("Which dog?", 10)]
        ['3']
    """

    def __init__(self, statements: Mapping[str, str]) -> None:
        # A statement has a row. The row of a removed one stays, and doesn't count.
        self._ids: list[str] = []
        self._rows: dict[str, int] = {}
        self._present = array("b")
        self._lengths = array("I")
        self._postings: dict[str, tuple[array[int], array[int]]] = {}  # term -> rows and counts
        for statement_id, text in statements.items():
            self.put(statement_id, text)

    def put(self, statement_id: str, text: str | None) -> None:
        """Add a statement or replace the one with this id; None removes it."""
        if statement_id in self._rows:
            self._present[self._rows.pop(statement_id)] = False
        if text is None:
            return
        terms = tokenize(text, STEMMER)
        row = len(self._ids)
        self._rows[statement_id] = row
        self._ids.append(statement_id)
        self._present.append(True)
        self._lengths.append(len(terms))
        for term, count in Counter(terms).items():
            rows, counts = self._postings.setdefault(term, (array("I"), array("I")))
            rows.append(row)
            counts.append(count)

    def search(self, question: str, n: int) -> list[tuple[str, float]]:
        """Return the ids and scores of the best statements."""
        present = np.array(self._present, dtype=bool)
        norm = np.zeros(len(self._ids), dtype=np.float32)
        norm[present] = norms(np.array(self._lengths)[present], K1, B)
        scores = np.zeros_like(norm)
        query = count_terms(tokenize(question, STEMMER), stop_terms("lucene", STEMMER))
        shared = query.keys() & self._postings.keys()
        for term in sorted(shared, reverse=True):  # the order in which every index adds them up
            rows = np.array(self._postings[term][0])
            counts = np.array(self._postings[term][1])
            counted = present[rows]
            rows = rows[counted]
            weight = weigh_term(counted.sum(), present.sum(), K1)
            impacts = impacts_of(counts[counted], norm[rows], weight)
            scores[rows] += impacts * np.float32(query[term])
        best_rows, best_scores = candidates(scores, n)
        ranking = Ranking([self._ids[row] for row in best_rows], best_scores)
        ranking = sort_ties(ranking, n)
        return list(zip(ranking.docnos, ranking.scores.tolist(), strict=True))


def without(events: Sequence[MemoryEvent], statement_id: str) -> list[MemoryEvent]:
    """Remove a statement's text from events; keep the rest, so that it isn't learned again.

    What the statement had replaced holds again, or is replaced by what replaced the statement.
    """
    freed: list[str] = []
    for event in events:
        for statement in event.get("learned", ()):
            if statement["id"] == statement_id:
                freed += statement["replaces"]
    remaining = []
    for event in events:
        if event.get("learned"):
            learned = []
            for statement in event["learned"]:
                learned.append(_without(statement, statement_id, freed))
            event = {**event, "learned": learned}
        remaining.append(event)
    return remaining


def _without(statement: Statement, statement_id: str, freed: Sequence[str]) -> Statement:
    if statement["id"] == statement_id:
        return {**statement, "statement": "", "words": "", "replaces": []}
    if statement_id in statement["replaces"]:
        replaces = list(dict.fromkeys([*statement["replaces"], *freed]))
        return {**statement, "replaces": replaces}
    return statement


def _as_memory(event: MemoryEvent, statement: Statement, until: str | None) -> dict[str, Any]:
    """Return a learned statement as an entry of ``qmemories``."""
    return {
        "id": statement["id"],
        "statement": statement["statement"],
        "words": statement["words"],
        "replaces": statement["replaces"],
        "when": event["when"],
        "session": event["session"],
        "turn": statement["message"],
        "until": until,
    }


def words_of(messages: Messages) -> list[str]:
    """Return the user's messages."""
    if not all(is_message(message) for message in messages):
        raise UsageError('a message is not {"role": "user" or "assistant", "content": text}')
    texts = [message["content"] for message in messages if message["role"] == "user"]
    if not texts:
        raise UsageError(
            "the user has said nothing yet: give a conversation with at least one message of the "
            "user"
        )
    return texts


def digests(messages: Sequence[str]) -> list[str]:
    """Return a checksum of each message, by which a changed message is recognised."""
    return [digest(text).hex() for text in messages]
