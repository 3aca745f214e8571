"""Statements learned about users over several conversations, in one file."""

import glob
import json
import os
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import pandas as pd

from ..arguments import checked
from ..completions.learned import highest_number, merge
from ..completions.matching import normalised
from ..conversations.frame import conversation, object_frame, statements_of
from ..errors import DataError, UsageError, advice
from ..llm_operator import as_llm
from ..llms import LLM, StageError, TooLong
from ..prompts import checksum_of
from ..store.files import atomic_write
from ..store.locks import hold_lock, lock_holder
from .update_ptkb import (
    Entry,
    Messages,
    UpdatePtkb,
    check_entries,
    digests,
    ids_in,
    known_in,
    last_turn,
    learned_before,
    not_taken_back,
    until,
    words_of,
)

FORM = 1
PAUSE, PATIENCE = 0.02, 60.0
"""The seconds between two attempts to lock the file, and the most seconds to wait for the lock."""


class NothingLearnedWarning(UserWarning):
    """A memory could not learn from what was said; the conversation goes on."""


class UserMemory:
    """Statements about users, and from which turn of which session each comes.

    One session is one conversation. Statements from turn t are visible to later turns and later sessions, never to turn t or an
    earlier one, also when a run is repeated: :meth:`known` gives a repeated turn the statements that it had the first time, if the sessions
    of one user don't overlap in time.

    The file holds personal data: only its owner may read it (mode 0600), it is never half written, and no error quotes it. The cache of
    the language model keeps completions, which quote users too: ``cache=none`` in the model's specification keeps none.

    Args:
        path: the file; it is made when something is learned.
        llm: the model that :meth:`learn` asks, or any value that :func:`pyterrier_ikat.llm` takes.
        run: the run that the statements are learned in. A file of another run is refused, because its users have told the other run
            things that they haven't told this one yet.
        prompts: a folder of your own prompt templates.

    Raises:
        UsageError: when the path is a folder.
        DataError: when the file is not a memory, or belongs to another run.

    Example:
        >>> import pyterrier_ikat as ikat
        >>> class Model:
        ...     def generate(self, chats):
        ...         return ['[{"message": 1, "words": "I am vegan", "statement": "I am vegan."}]']
        >>> memory = ikat.UserMemory("users.json", Model())
        >>> _ = memory.learn("u1", "trip", [{"role": "user", "content": "I am vegan. Where can I eat in Oslo?"}])
        >>> memory.known("u1", "trip", 1), memory.known("u1", "trip", 2), memory.known("u1", "dinner", 1)
        ({}, {'1': 'I am vegan.'}, {'1': 'I am vegan.'})
        >>> memory.forget("u1")
        >>> memory.known("u1")
        {}
    """

    @checked
    def __init__(self, path: str | Path, llm: Any = None, *, run: str = "", prompts: str | None = None) -> None:
        self.path, self.run, self.prompts = Path(path), run, prompts
        self.llm = None if llm is None else as_llm(llm)
        self._writing = threading.Lock()
        if self.path.is_dir():
            raise UsageError(f"{path} is a folder: give a file for the memory of users")
        self._read()

    def known(self, user: str, session: str | None = None, turn: int | None = None) -> dict[str, str]:
        """The statements about a user, by id.

        Args:
            user: the user's id.
            session: give only what was known when this session began.
            turn: give only what was known when this turn of the session began, from 1.
        """
        entries = self._entries(user)
        if session:
            later = (place for place, entry in enumerate(entries) if entry["session"] == session and entry["turn"] >= (turn or 0))
            entries = entries[: next(later, None)]
        return known_in(entries)

    def learn(self, user: str, session: str, messages: Messages) -> list[dict[str, Any]]:
        """Learn from the messages of a session that were not learned from yet; one call of the model.

        If the prompt is too long for the model, it is asked about each half of these messages. A repeated turn is not asked again. If the
        user has undone turns and said something else, the statements of those turns are forgotten. If the model fails, nothing is
        kept, and the next call learns from these messages too.

        Args:
            user: the user's id.
            session: the session's name; it belongs to one user.
            messages: the whole conversation, oldest first; a response at its end doesn't matter.

        Returns:
            What was learned, as ``qlearned`` of :class:`UpdatePtkb`.

        Raises:
            UsageError: without a model, without a message of the user, or when the session is another user's.
            StageError: when the model fails.
        """
        said = words_of(messages)
        entries = self._of_session(user, session)
        if (learned := learned_before(entries, session, said)) is not None:
            return learned
        try:
            found = self._ask(not_taken_back(entries, session, said), session, messages, len(said))
        except StageError as error:
            begin = last_turn(not_taken_back(entries, session, said), session)
            middle = (begin + len(said)) // 2
            if middle == begin or not any(isinstance(one, TooLong) for one in error.failures):
                raise
            self.forget(user, session, begin + 1)  # turns that were undone, which the first half may not show
            return [*self.learn(user, session, until(messages, middle)), *self.learn(user, session, messages)]
        with self._changing() as users:  # another thread or process may have learned something since
            entries = self._of_session(user, session)
            if (learned := learned_before(entries, session, said)) is None:
                before = not_taken_back(entries, session, said)
                learned = merge(found, known_in(before), dict(enumerate(said, 1)), ids_in(entries)).statements
                new = {"session": session, "turn": len(said), "said": digests(said)[last_turn(before, session) :], "learned": learned}
                users[user] = [*before, new]
        return learned

    def add(self, user: str, statements: Mapping[str, str] | Sequence[str]) -> None:
        """Keep statements that were not learned from a conversation, such as a persona's; known ones are not added again.

        Args:
            user: the user's id.
            statements: a dict id -> statement, or a list of statements. An id that is taken is replaced by a new one.
        """
        given = statements_of(statements)
        if self._new(self._entries(_user(user)), given):
            with self._changing() as users:
                entries = users.setdefault(user, [])
                if new := self._new(entries, given):
                    entries.append({"session": "", "turn": 0, "said": [], "learned": new})

    def forget(self, user: str, session: str | None = None, turn: int = 1) -> None:
        """Delete a user, or what was learned from a session of theirs.

        Args:
            user: the user's id.
            session: the session; None: everything about the user.
            turn: the first turn of the session to delete.
        """
        if self._entries(user):
            with self._changing() as users:
                left = users.pop(user, [])
                left = [entry for entry in left if session is not None and (entry["session"] != session or entry["turn"] < turn)]
                users.update({user: left} if left else {})

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
        return list(self._read())

    def table(self, user: str) -> pd.DataFrame:
        """Everything that was ever learned about a user, in the order of time.

        Returns:
            ``id``, ``statement``, ``session`` and ``turn`` (where it comes from; empty and 0 for :meth:`add`), ``words`` (the user's),
            ``holds`` (whether no later statement has replaced it).
        """
        entries = self._entries(user)
        rows = [(entry, one) for entry in entries for one in entry["learned"]]
        holds = known_in(entries)
        return object_frame(
            {
                "id": [one["id"] for _, one in rows],
                "statement": [one["statement"] for _, one in rows],
                "session": [entry["session"] for entry, _ in rows],
                "turn": [one["message"] for _, one in rows],
                "words": [one["words"] for _, one in rows],
                "holds": [one["id"] in holds for _, one in rows],
            }
        ).astype({"turn": int, "holds": bool})

    def prompt_checksums(self) -> dict[str, str]:
        """Template -> a checksum of what it renders to on probe inputs."""
        return {UpdatePtkb.stage: checksum_of(UpdatePtkb.stage, folder=self.prompts)}

    def __getstate__(self) -> dict[str, Any]:
        return {name: value for name, value in self.__dict__.items() if name != "_writing"}  # a lock is this process's own

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state, _writing=threading.Lock())

    def __repr__(self) -> str:
        return f"ikat.UserMemory({str(self.path)!r})"

    def _ask(self, before: list[Entry], session: str, messages: Messages, turn: int) -> list[dict[str, Any]]:
        frame = conversation(until(messages, turn), known_in(before), number=session)
        update = UpdatePtkb(self._model(), messages=turn - last_turn(before, session), prompts=self.prompts, on_error="raise")
        updated: pd.DataFrame = update(frame)
        found: list[dict[str, Any]] = updated["qlearned"].item()
        return found

    def _of_session(self, user: str, session: str) -> list[Entry]:
        """The user's entries; the session has to be theirs."""
        if not session:
            raise UsageError("the session has no name: give each conversation a name of its own")
        for other, entries in self._read().items():
            if other != user and any(entry["session"] == session for entry in entries):
                raise UsageError(f"the session {session!r} is another user's: give each conversation a name of its own")
        return self._entries(user)

    def _new(self, entries: Sequence[Entry], given: Mapping[str, str]) -> list[dict[str, Any]]:
        texts = {normalised(one["statement"]) for entry in entries for one in entry["learned"]}
        taken, found = ids_in(entries), []
        for name, text in given.items():
            if normalised(text) not in texts:
                number = name if name not in taken else str(highest_number({*taken, *given}) + 1)
                taken.add(number)
                texts.add(normalised(text))
                found.append({"id": number, "statement": text, "message": 0, "words": "", "replaces": []})
        return found

    def _entries(self, user: str) -> list[Entry]:
        return self._read().get(_user(user), [])

    def _read(self) -> dict[str, list[Entry]]:
        try:
            with self.path.open(encoding="utf-8") as file:
                found = json.load(file)
            users: dict[str, list[Entry]] = found["users"]
            form, made_by = found["format"], found["run"]
            check_entries([entry for entries in users.values() for entry in entries])
        except FileNotFoundError:
            return {}
        except OSError as error:
            raise UsageError(f"the memory {self.path} can't be read ({error.strerror}): give another file") from None
        except (ValueError, KeyError, TypeError, AttributeError, RecursionError):  # whose texts would quote the file
            raise DataError(f"{self.path} is not a memory of users, or is damaged: restore it, or give another file") from None
        if form != FORM:
            raise DataError(f"the memory {self.path} has format {form}, but this version reads format {FORM}: give another file")
        if self.run and made_by != self.run:
            raise DataError(f"the memory {self.path} was not made by the run {self.run}: give each run a file of its own")
        self.run = made_by
        return users

    @contextmanager
    def _changing(self) -> Iterator[dict[str, list[Entry]]]:
        """The users, to be changed; they are written at the end of the block. One thread of one process at a time."""
        with self._writing, ExitStack() as held:
            lock, started = self.path.with_name(f".{self.path.name}.lock"), time.monotonic()
            try:
                while not held.enter_context(hold_lock(lock)):
                    if time.monotonic() - started > PATIENCE:
                        raise UsageError(f"the memory {self.path} is held by {lock_holder(lock) or 'another process'}: wait, or stop it")
                    time.sleep(PAUSE)
                users = self._read()
                yield users
                for left in self.path.parent.glob(f".{glob.escape(self.path.name)}.*.tmp"):  # by a killed process
                    left.unlink(missing_ok=True)
                with atomic_write(self.path, private=True) as file:
                    json.dump({"format": FORM, "run": self.run, "users": users}, file, indent=1)
            except OSError as error:
                raise UsageError(f"the memory {self.path} can't be written ({error.strerror}): give another file") from None


def _user(user: str) -> str:
    if not isinstance(user, str) or not user:
        raise UsageError(f"user={user!r}: give the user's id, a text")
    return user
