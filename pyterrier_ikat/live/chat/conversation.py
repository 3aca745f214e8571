"""A conversation with a system, turn by turn: it can be saved, undone, and continued with another system."""

import os
import uuid
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, replace
from html import escape
from pathlib import Path
from typing import Any

import pyterrier as pt

from ...errors import DataError, IkatError, Terminated, UsageError, advice, counted, list_first, option
from ...events import Write, hearing
from ...llms import LLM, Ledger, StageError, llm
from ...memory import UserMemory
from ...memory.user_memory import NothingLearnedWarning
from ...methods import find
from ...methods.definition import is_given
from ...operator import parts_of
from ...runs.answered_turn import Turn, as_html, clean_text, exchange_drawn, messages_of, plain, strip_controls, why_drawn
from ...runs.log import TOPICS, Dialogue, Log, not_saved, topics_of, write_topics
from ...store.files import lock_folders
from ...study.resources import Resources
from ...study.systems import ALL, System, open_systems
from ..answering import HISTORY, StillTooLong, Tell, answer, spent
from ..persona import open_memory, user_of

MODELS = ("llm", "second_llm")
ME = "me"
"""The id of the user in a chat's log and memory: a file is one person's."""
HEADER = {"kind": "chat", "system": ""}
KINDS = ("chat", "served")
"""The kinds of logs that a chat continues."""


@dataclass(frozen=True, repr=False)
class Why:
    """How a turn came about; it displays itself.

    Attributes:
        turn: the turn, with its rewrite, queries, statements and draft.
        account: its calls by stage and model. None when they are no longer available.
    """

    turn: Turn
    account: Ledger | None = None

    def __repr__(self) -> str:
        return plain(why_drawn(self.turn, self.account))

    def _repr_html_(self) -> str:
        return as_html(why_drawn(self.turn, self.account))


class Chat:
    """Talk to a system: each of its answers becomes part of the history of the next turn.

    Before the first turn every name is checked, and every model of a method loaded.

    As in a run, every turn is a frame of one row (see ``ikat.conversation``). A saved chat has a topics file, and reading it gives the
    frames that the system saw, but for messages omitted from a long history and statements from a memory. A failed turn is not kept and can
    be repeated.

    **Long conversations.** A turn sees at most ``history`` tokens of the conversation: the oldest exchanges are omitted. When a
    language model still rejects a prompt as too long, the limit is set to half of the history that the turn had, for the rest of the
    chat, and the turn is retried once.

    Args:
        system: a method's name, or a pipeline from turns to passages. The response is that of ``Respond``; a system without ``Respond``
            shows only passages.
        ptkb: the statements about the user: a dict id -> statement, or a list of statements.
        persona: in place of ``ptkb``, where they come from, see :func:`~pyterrier_ikat.live.persona.read_persona`.
        number: the conversation's name; qids are ``<number>_<turn>``. Of a persona with several conversations the wanted one.
        save_to: a new folder; the chat is saved in it after each turn, as a log and as a topics file, ``topics.json``.
        continue_from: the folder of a saved chat, which is continued and saved there. It gives ``ptkb`` and ``number``; where a server has
            saved several conversations in it, ``number`` chooses one.
        script: the required utterances, turn by turn, for an LLM that replays recorded completions, because these are recorded by turn;
            of a method that replays some, by default those of the persona.
        method: the name of a pipeline.
        history: the most tokens (of 4 characters) of history that a turn sees; None for no limit.
        memory: the memory of this user, or its file, where it learns with ``llm``: it learns from each turn, and later turns and chats
            see what it knows. A file is one person's.
        ledger: the account of language models that are given as text; None for a new one.
        **resources: of the methods, see :class:`~pyterrier_ikat.study.Resources`; those that one doesn't use are kept for others.

    Attributes:
        turns: the turns so far.
        spent: the account of the last attempt to answer, also of one that failed.

    Raises:
        UsageError: for an unknown or manual method, a missing resource or a model that can't be loaded; when ``number`` isn't one word,
            an LLM asks in batches, ``save_to`` already exists or can't be written, or ``memory`` has no language model or can't be written.
        DataError: for an index, persona or recorded file that can't be used; when ``continue_from`` is missing, or is not the folder of a
            chat.

    Example:
        >>> import pyterrier_ikat as ikat
        >>> from pyterrier_ikat.live.chat import Chat
        >>> class Echo:
        ...     def generate(self, chats):
        ...         return ["Rooibos has none." for chat in chats]
        >>> chat = Chat(ikat.Answer(ikat.llm(Echo())), ["I avoid caffeine."])
        >>> chat.say("Which tea may I drink?").response
        'Rooibos has none.'
        >>> chat.messages()[-1]
        {'role': 'assistant', 'content': 'Rooibos has none.'}
        >>> chat.undo().utterance, len(chat.turns)
        ('Which tea may I drink?', 0)
    """

    def __init__(
        self,
        system: str | pt.Transformer,
        ptkb: Mapping[str, str] | Sequence[str] | None = None,
        *,
        persona: str | Path | None = None,
        number: str | None = None,
        save_to: str | Path | None = None,
        continue_from: str | Path | None = None,
        script: Sequence[str] | None = None,
        method: str = "",
        history: int | None = HISTORY,
        memory: UserMemory | str | Path | None = None,
        ledger: Ledger | None = None,
        **resources: Any,
    ) -> None:
        if history is not None and history < 0:
            raise UsageError(f"{option('history')} is {history}: give the most tokens of history that a turn sees, 0 or more")
        if save_to is not None and continue_from is not None:
            raise UsageError(f"a chat that is continued is saved in its own folder: omit {advice('save_to=...', '--save')}")
        user = user_of(ptkb, persona, number)
        self.number, self.ptkb, self.history = user.number, user.ptkb, history
        self.turns: list[Turn] = []
        self._folder: ChatFolder | None = None
        self._session = ""
        if continue_from is not None:
            known = persona is not None
            self._continue(continue_from, user.number if number or known else None, user.ptkb if ptkb is not None or known else None)
        elif save_to is not None:
            self._folder = ChatFolder(save_to)
        self.spent, self._utterances = Ledger(), script or user.utterances
        self._why: Why | None = None
        self._open_models(ledger, memory, resources)
        if isinstance(system, str):
            self.use(system)
        else:
            self._take(System.of(system, method), script)

    def _open_models(self, ledger: Ledger | None, memory: UserMemory | str | Path | None, resources: dict[str, Any]) -> None:
        """Keep the resources, with each language model once: its budget counts over all methods of the chat."""
        Resources.of(resources, (), spare=ALL)
        self._ledger = Ledger() if ledger is None else ledger
        for name in MODELS:
            if isinstance(given := resources.get(name), str) and is_given(given):
                resources[name] = llm(given, ledger=self._ledger)
        self._resources = resources
        if isinstance(memory, str | Path):
            memory = open_memory(memory, resources.get("llm"), resources.get("prompts"))
        self._memory = None if memory is None else Remembering(memory, self._session)

    def _continue(self, path: str | Path, number: str | None, ptkb: dict[str, str] | None) -> None:
        """Take over a saved chat."""
        self._folder = ChatFolder(path, continues=True, number=number)
        found = self._folder.begun
        if number not in (None, found.session) or ptkb not in (None, found.more["ptkb"]):
            other = f"is the conversation {found.session}" if number not in (None, found.session) else "has another persona"
            repair = advice("omit ptkb and number", "omit --persona and --conversation")
            raise UsageError(f"the chat {path} {other}: {repair}, or begin a new chat")
        self.number, self.ptkb, self.turns = found.session, dict(found.more["ptkb"]), list(found.turns)
        self._session = str(found.more["memory"])

    @property
    def save_to(self) -> Path | None:
        """The folder in which the chat is saved after each turn."""
        return None if self._folder is None else self._folder.path

    @property
    def saved(self) -> int:
        """How many of the turns are in the folder."""
        return 0 if self._folder is None else self._folder.saved

    @property
    def remembered(self) -> int:
        """The number of statements about the user in the memory; 0 without one."""
        return 0 if self._memory is None else len(self._memory.memory.known(ME))

    def use(self, system: str | pt.Transformer) -> None:
        """Continue with another system; the conversation stays.

        Args:
            system: a method's name, for the resources that the chat has, or a pipeline.

        Raises:
            UsageError: when the method can't be loaded, or an LLM asks in batches; the chat then keeps the old system.
            DataError: when a resource of the method can't be used.
        """
        if not isinstance(system, str):
            self._take(System.of(system))
            return
        (loaded,) = open_systems(find(system), self._ledger, live=True, cite=True, connect=True, spare=ALL, **self._resources)
        self._take(loaded, (self._utterances or None) if loaded.replays else None, tuple(_notes(loaded)))

    def _take(self, system: System, script: Sequence[str] | None = None, notes: tuple[str, ...] = ()) -> None:
        if system.waits:
            raise UsageError("a chat can't wait a day for its answers: omit batch=on in the specification of the LLM")
        self.method, self.system, self.script, self.notes, self._ready = system.name, system.pipeline, script, notes, system
        learns = [] if self._memory is None else [self._memory.llm]
        models = [part for part in (*parts_of(self.system), *learns) if isinstance(part, LLM)]
        self._ledgers = list({id(model.ledger): model.ledger for model in models}.values())

    def say(self, text: str, tell: Tell | None = None, write: Write | None = None) -> Turn:
        """Say something, and get the system's turn.

        Args:
            text: the user's words.
            tell: called with each stage that begins, in words, such as ``"searching 5 queries"``.
            write: called, in another thread, with the answer as far as the model has written it, before it is checked.

        Raises:
            UsageError: when the text is empty or differs from the recorded conversation; also when the chat can't be saved, but then the
                turn is kept in ``turns``.
            IkatError: when the system fails; the turn isn't kept.
        """
        self.spent = Ledger()
        utterance, ptkb = self._check(text), self.ptkb
        if self._memory is not None:
            ptkb = self._memory.known(self.number, len(self.turns) + 1, ptkb, replayed=self.script is not None)
        with self._counted():
            turn = self._answered(utterance, ptkb, tell, write)
            if self.turns:  # the prompts of all turns would fill the memory
                self.turns[-1] = replace(self.turns[-1], asked=())
            self.turns.append(turn)
            self._why = Why(turn, self.spent)
            self._save()  # before the memory learns: an answer is never lost
            learned = turn if self._memory is None else self._memory.learn(turn, self.messages(), tell)
        if learned is not turn:
            self.turns[-1], self._why = learned, Why(learned, self.spent)
            self._save()
        return learned

    @contextmanager
    def _counted(self) -> Iterator[None]:
        """In the block, what the language models do is counted in ``spent``."""
        with ExitStack() as stack:
            for ledger in self._ledgers:
                stack.enter_context(ledger.followed_by(self.spent))
            yield

    def _answered(self, utterance: str, ptkb: Mapping[str, str], tell: Tell | None, write: Write | None) -> Turn:
        said = [*self.messages(), {"role": "user", "content": utterance}]
        try:
            turn = answer(self._ready, said, ptkb, number=self.number, history=self.history, halvings=1, tell=tell, write=write)
            self.history = turn.more.get("history", self.history)
        except StillTooLong as error:
            self.history = error.history
            raise
        return turn

    def why(self) -> Why:
        """How the last answer came about, with its prompts and completions; of a turn from a saved chat only what its log has.

        Raises:
            UsageError: when nothing was said yet.
        """
        if not self.turns:
            raise UsageError("there is no answer yet: say something")
        last = self.turns[-1]
        return self._why if self._why is not None and self._why.turn is last else Why(last)

    def undo(self) -> Turn:
        """Undo the last turn, also in the folder and in the memory.

        Returns:
            The turn that was undone.

        Raises:
            UsageError: when nothing was said yet, or something can't be written; the turn then stays.
        """
        if not self.turns:
            raise UsageError("there is no turn to undo: nothing was said yet")
        if self._memory is not None:
            self._memory.undo(self.turns[-1].number)  # first: if the turn stays, the memory learns from it again
        turn = self.turns.pop()
        try:
            self._save()
        except BaseException:
            self.turns.append(turn)
            raise
        return turn

    def _save(self) -> None:
        if self._folder is not None:
            session = self._session if self._memory is None else self._memory.session
            self._folder.save(self.number, self.ptkb, session, self.turns)

    def messages(self) -> list[dict[str, str]]:
        """The conversation so far, as the history of the next turn; a turn without a response adds only its utterance."""
        return messages_of(self.turns)

    def expected(self) -> str | None:
        """The script's next utterance; None without a script, or after its end."""
        return self.script[len(self.turns)] if self.script and len(self.turns) < len(self.script) else None

    def _check(self, text: str) -> str:
        utterance = clean_text(text)
        if not utterance:
            raise UsageError("there is nothing to answer: say something")
        if self.script is None:
            return utterance
        turn, wanted = f"{self.number}_{len(self.turns) + 1}", self.expected()
        if wanted is None:
            raise UsageError(f"the recorded conversation {self.number} has only {counted(len(self.script), 'turn')}: go on with a live LLM")
        if utterance.split() != wanted.split():
            raise UsageError(
                f"the LLM's completions are recorded, and those of turn {turn} answer only {wanted!r}: say that, or choose a live LLM"
            )
        return utterance

    def __repr__(self) -> str:
        said = "\n\n".join(f"you> {strip_controls(turn.utterance)}\n{turn!r}" for turn in self.turns)
        return said or f"<chat {self.number}: nothing said yet>"

    def _repr_html_(self) -> str:
        return "".join(as_html(exchange_drawn(turn)) for turn in self.turns) or f"<i>chat {escape(self.number)}: nothing said yet</i>"


def _notes(system: System) -> Iterator[str]:
    """Notes for the user about a method before the first turn."""
    if system.writes_response is False:
        yield f"{system.name} writes no response: you see the best passages, and the history has only your words"
    if system.unused:
        yield f"{system.name} doesn't use {list_first(list(map(option, system.unused)))}: another method of this chat may"


class ChatFolder:
    """The folder that a chat is saved in after each turn.

    Args:
        path: a new folder, or with ``continues`` that of a saved chat.
        continues: whether the folder exists already, and is continued.
        number: the conversation to continue; needed where the folder has several, as that of a server.

    Attributes:
        path: the folder.
        begun: the conversation that is continued.

    Raises:
        UsageError: when a new folder already exists, or can't be made.
        DataError: when a folder to continue is missing, or holds no chat.
    """

    def __init__(self, path: str | Path, *, continues: bool = False, number: str | None = None) -> None:
        self.path = Path(path)
        self._log: Log | None = None
        self._name = ""
        if not continues:
            _require_new(self.path)
            return
        self.begun = _chosen(self.path, number)
        self._name = self.begun.session
        self._log = Log.create(self.path, Log(self.path).header)

    @property
    def saved(self) -> int:
        """How many turns of the chat the log has."""
        return 0 if self._log is None or self._name not in self._log.known else len(self._log.known[self._name].turns)

    def save(self, number: str, ptkb: Mapping[str, str], memory: str, turns: Sequence[Turn]) -> None:
        """Note what the log lacks, and write the topics file; a chat without turns has none.

        Raises:
            UsageError: when something can't be written, or something else has changed the log since the last turn.
        """
        try:
            log = self._log = self._log or Log.create(self.path, HEADER)
            self._name = number
            if number not in log.known or log.known[number].more != {"ptkb": dict(ptkb), "memory": memory}:
                log.begin(number, ME, ptkb=dict(ptkb), memory=memory)
            noted = log.known[number].turns
            for gone in noted[len(turns) :]:
                log.note({"event": "undone", "session": number, "turn": gone.number})
            for place, turn in enumerate(turns):
                if (kept := replace(turn.without_texts(), session=number)) not in noted[place : place + 1]:
                    log.append(kept)
        except OSError as error:
            raise not_saved(self.path, error) from None
        if topics := topics_of(log.known.values()):
            write_topics(self.path / TOPICS, topics)
        else:
            (self.path / TOPICS).unlink(missing_ok=True)


def _require_new(path: Path) -> None:
    if path.exists():
        repair = advice("continue it with continue_from=...", f"continue it with --continue {path}")
        raise UsageError(f"{path} already exists: save the chat in a new folder, or {repair}")
    there = next(folder for folder in path.absolute().parents if folder.exists())
    if not (there.is_dir() and os.access(there, os.W_OK)):
        raise UsageError(f"the chat can't be saved in {path}: {there} can't be written to; give another folder")


def _chosen(path: Path, number: str | None) -> Dialogue:
    """The conversation to continue."""
    if not Log.is_in(path):
        raise DataError(f"there is no chat {path} to continue: check the path, or begin a new chat with {option('save')}")
    log = Log(path)
    if (kind := log.header.get("kind")) not in KINDS or not (found := log.dialogues()):
        raise DataError(f"{path} is not the folder of a chat ({kind}): give a folder that a chat was saved in")
    if kind == "served":
        with lock_folders(path):  # which a server holds while it runs
            pass
    chosen = found if len(found) == 1 else [one for one in found if one.session == number]
    if not chosen:
        names = list_first([one.session for one in found])
        raise UsageError(f"{path} holds {len(found)} conversations ({names}): choose one with {advice('number=...', '--conversation')}")
    return chosen[0]


class Remembering:
    """A chat's session in a memory.

    Args:
        memory: the memory.
        session: the session of a chat that is continued; empty for a new one.

    Attributes:
        llm: the language model that the memory asks.
        session: the session; empty before the first turn that the memory sees.

    Raises:
        UsageError: when the memory has no language model, or its file can't be written.
    """

    def __init__(self, memory: UserMemory, session: str = "") -> None:
        memory.require_learning()
        self.memory, self.session = memory, session
        self.llm: LLM = memory.llm  # type: ignore[assignment]

    def known(self, number: str, turn: int, ptkb: Mapping[str, str], *, replayed: bool) -> dict[str, str]:
        """The statements that a turn sees: the persona's, and those that were learned before it.

        Args:
            number: the chat's name.
            turn: the turn's number, from 1.
            ptkb: the persona.
            replayed: whether the chat replays recorded completions: a repeated replay is the same session, any other chat is a new one.
        """
        self.session = self.session or (number if replayed else f"{number}-{uuid.uuid4().hex[:8]}")
        self.memory.add(ME, ptkb)
        return dict(self.memory.known(ME, self.session, turn))

    def learn(self, turn: Turn, messages: Sequence[Mapping[str, str]], tell: Callable[[str], None] | None = None) -> Turn:
        """Learn from the turns so far; a failure is a warning, because the answer is there and must not be lost.

        Args:
            turn: the last turn.
            messages: the conversation, the last turn's among it.
            tell: called when it begins.

        Returns:
            The last turn with the calls of the memory, also of one that could not learn.
        """
        if tell is not None:
            tell("learning about you")
        llm, account = self.llm, Ledger()
        with llm.ledger.followed_by(account), hearing() as heard:
            try:
                self.memory.learn(ME, self.session, messages)
            except (IkatError, KeyboardInterrupt) as error:  # Ctrl-C stops the learning, not the chat
                if isinstance(error, Terminated):
                    raise
                reason = error.failures[0].reason if isinstance(error, StageError) else str(error) or "it was stopped"
                told = f"nothing was learned from this turn ({reason}); the next turn learns from both"
                warnings.warn(told, NothingLearnedWarning, stacklevel=3)
                if not heard and not llm.backend.replays:  # interrupted calls are not reported
                    return turn.with_calls(replace(account.total(), known=0, worth=0.0))
        return turn.with_calls(spent(heard), [exchange for _, exchange in heard])

    def undo(self, turn: int) -> None:
        """Note that what was learned from a turn of this session and later ones doesn't hold any more."""
        if self.session:
            self.memory.undo(ME, self.session, turn)
