"""Statements learned about users over several conversations, in one file."""

import os
from collections.abc import Mapping, Sequence
from datetime import datetime
from pathlib import Path
from typing import Any

import pandas as pd

from ..arguments import at_least, utc
from ..completions.learned import highest_number, merge
from ..completions.matching import normalised
from ..conversations.frame import conversation, object_frame, statements_of, well_formed
from ..errors import UsageError, advice
from ..events import Heard, hearing
from ..generate.update_ptkb import UpdatePtkb
from ..llm_operator import as_llm
from ..llms import LLM, StageError, TooLong
from ..prompts import checksum_of
from .forgetting import forget_elsewhere, places, tells_of, without
from .history import (
    Event,
    History,
    Messages,
    before,
    digests,
    known_in,
    last_turn,
    learned_before,
    memories_in,
    not_taken_back,
    standing,
    until,
    words_of,
)
from .memory_file import MemoryFile

COLUMNS = ("id", "statement", "session", "turn", "words", "when", "until", "holds")


class NothingLearnedWarning(UserWarning):
    """A memory could not learn from what was said; the conversation goes on."""


class UserMemory:
    """Statements about users: since when each holds, and from which turn of which session it comes.

    One session is one conversation. Statements from turn t are visible to later turns and later sessions, never to turn t or an
    earlier one, also when a run is repeated: :meth:`known` gives a repeated turn the statements that it had the first time, if the sessions
    of one user don't overlap in time.

    What is learned, undone and replaced is one history: nothing is deleted but by :meth:`forget`.

    The file holds personal data: only its owner may read it (mode 0600), it is never half written, and no error quotes it. It has one
    event per line, see :mod:`pyterrier_ikat.memory.memory_file`. The cache of the language model keeps completions, which quote users too:
    ``cache=none`` in the model's specification keeps none.

    Args:
        path: the file; it is made when something is learned.
        llm: the model that :meth:`learn` asks, or any value that :func:`pyterrier_ikat.llm` takes.
        run: the run that the statements are learned in. A file of another run is refused, because its users have told the other run
            things that they haven't told this one yet.
        prompts: a folder of your own prompt templates.
        dated: whether :meth:`known` gives each statement with the date and turn in which it was said, as prompts then show it.

    Raises:
        UsageError: when the path is a folder.
        DataError: when the file is not a memory, or belongs to another run.

    Example:
        >>> import pyterrier_ikat as ikat
        >>> class Model:
        ...     def generate(self, chats):
        ...         return ['[{"message": 1, "words": "I am vegan", "statement": "I am vegan."}]']
        >>> memory = ikat.UserMemory("users.jsonl", Model())
        >>> _ = memory.learn("u1", "trip", [{"role": "user", "content": "I am vegan. Where can I eat in Oslo?"}])
        >>> memory.known("u1", "trip", 1), memory.known("u1", "trip", 2), memory.known("u1", "dinner", 1)
        ({}, {'1': 'I am vegan.'}, {'1': 'I am vegan.'})
        >>> memory.known("u1", as_of="2020-01-01")
        {}
        >>> memory.forget("u1")
        >>> memory.known("u1")
        {}
    """

    def __init__(self, path: str | Path, llm: Any = None, *, run: str = "", prompts: str | None = None, dated: bool = False) -> None:
        self.path, self.prompts, self.dated = Path(path), prompts, dated
        self.llm = None if llm is None else as_llm(llm)
        self._file = MemoryFile(path, run)

    @property
    def run(self) -> str:
        """The run that the file belongs to."""
        return self._file.run

    def known(
        self, user: str, session: str | None = None, turn: int | None = None, *, as_of: str | datetime | None = None
    ) -> dict[str, str]:
        """The statements about a user, by id.

        Args:
            user: the user's id.
            session: give only what was known when this session began.
            turn: give only what was known when this turn of the session began, from 1.
            as_of: give only what was known at this time: later events don't count. A date is its beginning, in UTC.
        """
        with self._file.users() as users:
            history = _of(users, user)
            entries: Sequence[Event] = history.entries if as_of is None else standing(history.events, utc(as_of))[0]
            if session:
                entries = before(entries, session, turn or 0)
            now = as_of is None and len(entries) == len(history.entries)
            return dict(history.known(self.dated)) if now else known_in(entries, self.dated)

    def memories(self, user: str, *, as_of: str | datetime | None = None) -> list[dict[str, Any]]:
        """What was ever learned about a user and not forgotten, in its order, as ``qmemories`` has it.

        Returns:
            Dicts of ``id``, ``statement``, ``when`` (UTC), ``session`` and ``turn`` (where it comes from; empty and 0 for :meth:`add`),
            ``words`` (the user's), ``replaces`` (the ids of statements that it contradicts) and ``until`` (when it was replaced or
            undone; None if it holds).
        """
        with self._file.users() as users:
            return memories_in(_of(users, user).events, None if as_of is None else utc(as_of))

    def search(self, user: str, question: str, n: int = 10) -> list[tuple[str, float]]:
        """The ids and scores of the statements that hold and fit a question best, by BM25; none without a common word.

        Words, scores and ties are those of :class:`~pyterrier_ikat.BM25` over an index of these statements.
        """
        at_least(1, n=n)
        with self._file.users() as users:
            return _of(users, user).index.search(question, n)

    def learn(
        self,
        user: str,
        session: str,
        messages: Messages,
        *,
        when: str | datetime | None = None,
        asked: Sequence[Heard] = (),
        saved: str | Path | None = None,
    ) -> list[dict[str, Any]]:
        """Learn from the messages of a session that were not learned from yet; one call of the model.

        If the prompt is too long for the model, it is asked about each half of these messages. A repeated turn is not asked again. If the
        user has undone turns and said something else, the statements of those turns don't hold any more. If the model fails, nothing is
        kept, and the next call learns from these messages too.

        Args:
            user: the user's id.
            session: the session's name; it belongs to one user.
            messages: the whole conversation, oldest first; a response at its end doesn't matter.
            when: when it was said; now by default.
            asked: exchanges with language models whose prompts have these messages, as :func:`pyterrier_ikat.events.hearing` gives them:
                :meth:`forget` removes their completions too.
            saved: the folder of a chat that saves these messages: :meth:`forget` looks there too.

        Returns:
            What was learned, as ``qlearned`` of :class:`UpdatePtkb`.

        Raises:
            UsageError: without a model, without a message of the user, or when the session is another user's.
            StageError: when the model fails.
        """
        said, time = words_of(messages), utc(when)
        entries, _ = self._of_session(user, session)
        if (learned := learned_before(entries, session, said)) is not None:
            return learned
        earlier, found = not_taken_back(entries, session, said), None
        begin = last_turn(earlier, session)
        middle = (begin + len(said)) // 2
        with hearing() as heard:
            try:
                found = self._ask(earlier, session, messages, len(said))
            except BaseException as error:
                too_long = isinstance(error, StageError) and any(isinstance(one, TooLong) for one in error.failures)
                if middle == begin or not too_long:
                    self._note_failure(user, session, time, places([*asked, *heard], saved))
                    raise
        if found is None:
            self.undo(user, session, begin + 1)  # turns that were undone, which the first half may not show
            more: dict[str, Any] = {"when": time, "asked": asked, "saved": saved}
            return [*self.learn(user, session, until(messages, middle), **more), *self.learn(user, session, messages, **more)]
        with self._file.changing():  # another thread or process may have learned something since
            entries, ids = self._of_session(user, session)
            if (learned := learned_before(entries, session, said)) is None:
                earlier = not_taken_back(entries, session, said)
                learned = merge(found, known_in(earlier), dict(enumerate(said, 1)), ids).statements
                new = _learned(user, session, len(said), learned, time)
                new |= {"said": digests(said)[last_turn(earlier, session) :], **places([*asked, *heard], saved)}
                undone = [entry["turn"] for entry in entries if entry not in earlier]
                self._file.append(*([_undone(user, session, min(undone), time)] if undone else []), new)
        return learned

    def add(self, user: str, statements: Mapping[str, str] | Sequence[str], *, when: str | datetime | None = None) -> None:
        """Keep statements that were not learned from a conversation, such as a persona's; known ones are not added again.

        Args:
            user: the user's id.
            statements: a dict id -> statement, or a list of statements. An id that is taken is replaced by a new one.
            when: since when they hold; now by default.
        """
        given, time = statements_of(statements), utc(when)
        with self._file.users() as users:
            new = _new(_of(users, user), given)
        if new:
            with self._file.changing() as users:
                if new := _new(_of(users, user), given):
                    self._file.append(_learned(user, "", 0, new, time))

    def undo(self, user: str, session: str, turn: int = 1, *, when: str | datetime | None = None) -> None:
        """Note that what was learned from a session doesn't hold any more; the history keeps it.

        Args:
            user: the user's id.
            session: the session.
            turn: the first turn that was undone.
            when: when it was undone; now by default.
        """
        time = utc(when)
        with self._file.changing() as users:
            if any(entry["session"] == session and entry["turn"] >= turn for entry in _of(users, user).entries):
                self._file.append(_undone(user, session, turn, time))

    def forget(self, user: str, *, session: str | None = None, id: str | None = None) -> None:
        """Delete a user, a session or a statement for good: no byte of it is left in the file.

        It is also deleted where it was noted that the user's words are: completions are removed from cache files whose prompts have them,
        conversations of a user or session from the folders of chats; of a statement the turn that it comes from, and its words in other
        turns, are replaced there by ``[forgotten]``. Later prompts may have shown the statement: their completions are removed, too, and
        its text is replaced in later chats. What a statement had replaced stays replaced; what a session had replaced holds again.

        Args:
            user: the user's id.
            session: the session; None: everything about the user.
            id: the statement; None: all.

        Raises:
            UsageError: when both a session and a statement are given, or something can't be written.
        """
        if session is not None and id is not None:
            raise UsageError("session and id both say what to forget: omit one")
        with self._file.changing() as users:
            events = _of(users, user).events
            gone = [event for event in events if tells_of(event, session, id)]
            if not gone:
                return
            forget_elsewhere(gone, events, id)  # the memory is last: a forget that was stopped can be repeated
            left = [event if event not in gone else without(event, id) for event in events if id is not None or event not in gone]
            others = [event for other, history in users.items() if other != user for event in history.events]
            self._file.rewrite([*others, *left])

    def require_learning(self) -> None:
        """Check before a conversation begins that the memory can learn from it.

        Raises:
            UsageError: without a model, or when the file can't be written.
        """
        self._model()
        there = next(folder for folder in self.path.absolute().parents if folder.exists())
        if not (there.is_dir() and os.access(there, os.W_OK)):
            raise UsageError(f"the memory {self.path} can't be written: nothing can be put into {there}; give another file")

    def _model(self) -> LLM:
        if self.llm is None:
            raise UsageError("this memory has no language model to learn with: " + advice("give UserMemory(path, llm)", "give --llm"))
        return self.llm

    def users(self) -> list[str]:
        """The ids of the users about whom something was learned, or could have been."""
        with self._file.users() as users:
            return list(users)

    def table(self, user: str) -> pd.DataFrame:
        """Everything that was ever learned about a user, in its order.

        Returns:
            A row per entry of :meth:`memories`: ``id``, ``statement``, ``session``, ``turn``, ``words``, ``when``, ``until``, and ``holds``
            (whether it was neither replaced nor undone).
        """
        rows = [{**one, "holds": one["until"] is None} for one in self.memories(user)]
        return object_frame({name: [row[name] for row in rows] for name in COLUMNS}).astype({"turn": int, "holds": bool})

    def export(self, user: str) -> list[Event]:
        """Everything that the file has about a user: the events, as its lines have them."""
        with self._file.users() as users:
            return list(_of(users, user).events)

    def prompt_checksums(self) -> dict[str, str]:
        """Template -> a checksum of what it renders to on probe inputs."""
        return {UpdatePtkb.stage: checksum_of(UpdatePtkb.stage, folder=self.prompts)}

    def __repr__(self) -> str:
        return f"ikat.UserMemory({str(self.path)!r})"

    def _ask(self, earlier: list[Event], session: str, messages: Messages, turn: int) -> list[dict[str, Any]]:
        """What the model finds."""
        frame = conversation(until(messages, turn), known_in(earlier), number=session)
        update = UpdatePtkb(self._model(), messages=turn - last_turn(earlier, session), prompts=self.prompts, on_error="raise")
        updated: pd.DataFrame = update(frame)
        found: list[dict[str, Any]] = updated["qlearned"].item()
        return found

    def _note_failure(self, user: str, session: str, time: str, places: dict[str, Any]) -> None:
        """Note where the words are that nothing was learned from: who forgets the user has to find them."""
        if any(places.values()):
            with self._file.changing():
                self._file.append({"event": "failed", "when": time, "user": user, "session": session, **places})

    def _of_session(self, user: str, session: str) -> tuple[list[Event], set[str]]:
        """The user's entries and ids; the session has to be theirs."""
        if not session or well_formed(session) != session:
            raise UsageError("the session has no name: give each conversation a name of its own")
        with self._file.users() as users:
            if self._file.sessions.get(session, user) != user:
                raise UsageError(f"the session {session!r} is another user's: give each conversation a name of its own")
            history = _of(users, user)
            return list(history.entries), set(history.ids)


def _of(users: Mapping[str, History], user: str) -> History:
    if not isinstance(user, str) or not user or well_formed(user) != user:  # a file has one letter for all halves of surrogate pairs
        raise UsageError(f"user={user!r}: give the user's id, a text")
    return users.get(user) or History()


def _learned(user: str, session: str, turn: int, learned: list[dict[str, Any]], when: str) -> Event:
    return {"event": "learned", "when": when, "user": user, "session": session, "turn": turn, "said": [], "learned": learned}


def _undone(user: str, session: str, turn: int, when: str) -> Event:
    return {"event": "undone", "when": when, "user": user, "session": session, "turn": turn}


def _new(history: History, given: Mapping[str, str]) -> list[dict[str, Any]]:
    """The statements that the history lacks, with the ids that they get."""
    texts, taken, found = set(history.texts), set(history.ids), []
    for name, text in given.items():
        if normalised(text) not in texts:
            number = name if name not in taken else str(highest_number({*taken, *given}) + 1)
            taken.add(number)
            texts.add(normalised(text))
            found.append({"id": number, "statement": text, "message": 0, "words": "", "replaces": []})
    return found
