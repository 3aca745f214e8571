"""A chat with a system, turn by turn: saved, undone, and continued, also with another system."""

import uuid
import warnings
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, replace
from html import escape
from pathlib import Path
from typing import Any

import pyterrier as pt

from ...errors import (
    DataError,
    IkatError,
    Terminated,
    UsageError,
    advice,
    counted,
    list_first,
    option,
)
from ...events import Write, hearing
from ...llm_operator import as_llm
from ...llms import LLM, Ledger, StageError, llm
from ...memory import UserMemory
from ...memory.user_memory import NothingLearnedWarning
from ...methods import find
from ...operator import parts_of
from ...runs.answered_turn import (
    Turn,
    as_html,
    clean_text,
    exchange_drawn,
    messages_of,
    plain,
    strip_controls,
    why_drawn,
)
from ...runs.log import TOPICS, Log, not_saved, topics_of, write_topics
from ...store.files import lock_folders
from ...study.resources import Resources, unused
from ...study.systems import System, open_systems, with_limit
from ..answering import HISTORY_TOKENS, Tell, answer, check_recorded
from ..persona import known_of, open_memory, user_of

USER_ID = "me"
"""The id of the user in a chat's log and memory: a file is one person's."""
CHAT_HEADER = {"kind": "chat", "system": ""}
CONTINUED_KINDS = ("chat", "served")
"""The kinds of logs that a chat continues."""


@dataclass(frozen=True, repr=False)
class Why:
    """An account of a turn; it displays itself.

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

    As in a run, every turn is a frame of one row (see ``ikat.conversation``). A saved chat has a
    topics file, and reading it gives the frames that the system saw, but for messages omitted from
    a long history and statements from a memory. A failed turn is not kept and can be repeated.

    **Long conversations.** A turn sees at most ``history`` tokens of the conversation: the oldest
    exchanges are omitted. When a language model still rejects a prompt as too long, the turn is
    retried with half of its history until it fits, and the limit stays so for the rest of the chat.

    Args:
        system: a method's name, or a pipeline from turns to passages. The response is that of
            ``Respond``; a system without ``Respond`` shows only passages.
        ptkb: the statements about the user: a dict id -> statement, or a list of statements.
        persona: in place of ``ptkb``, where they come from, see
            :func:`~pyterrier_ikat.live.persona.read_persona`.
        number: the conversation's name; qids are ``<number>_<turn>``. Of a persona with several
            conversations the wanted one.
        out: a new folder; the chat is saved in it after each turn, as a log and as a topics
            file, ``topics.json``.
        continue_from: the folder of a saved chat, which is continued and saved there. It gives
            ``ptkb`` and ``number``; where a server has saved several conversations in it,
            ``number`` chooses one.
        script: the required utterances, turn by turn, for an LLM that replays recorded completions,
            because these are recorded by turn; of a method that replays some, by default those of
            the persona.
        method: the name of a pipeline.
        history: the most tokens (of 4 characters) of history that a turn sees; None for no limit.
        memory: the memory of this user, or its file, where it learns with ``llm``: it learns from
            each turn, and later turns and chats see what it knows. A file is one person's.
        words: the most words of a response, for a system with :class:`~pyterrier_ikat.Respond`;
            None for its own limit.
        ledger: the account of language models that are given as text; None for a new one.
        **resources: of the method, see :class:`~pyterrier_ikat.study.Resources`.

    Attributes:
        turns: the turns so far.
        method: the name of the system.
        out: the folder in which the chat is saved after each turn; None for none.
        spent: the account of the last attempt to answer, also of one that failed.

    Raises:
        UsageError: for an unknown or manual method, a missing resource or a model that can't be
            loaded; when ``number`` isn't one word, an LLM asks in batches, ``out`` already
            exists or can't be written, or ``memory`` has no language model or can't be written.
        DataError: for an index, persona or recorded file that can't be used; when ``continue_from``
            is missing, or is not the folder of a chat.

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
        out: str | Path | None = None,
        continue_from: str | Path | None = None,
        script: Sequence[str] | None = None,
        method: str = "",
        history: int | None = HISTORY_TOKENS,
        memory: UserMemory | str | Path | None = None,
        words: int | None = None,
        ledger: Ledger | None = None,
        **resources: Any,
    ) -> None:
        if history is not None and history < 0:
            raise UsageError(
                f"{option('history')} is {history}: "
                "give the most tokens of history that a turn sees, 0 or more"
            )
        _check_folder(out, continue_from)
        user = user_of(ptkb, persona, number)
        self.number = user.number
        self.ptkb = user.ptkb
        self.history = history
        self.turns: list[Turn] = []
        self.out = None if out is None else Path(out)
        self.spent = Ledger()
        self._why: Why | None = None
        self._log: Log | None = None
        self._session = ""
        if continue_from is not None:
            given_ptkb = None if ptkb is None and persona is None else user.ptkb
            self._continue(Path(continue_from), number and user.number, given_ptkb)
        self._memory: UserMemory | None = None
        if ledger is None:
            ledger = Ledger()
        self._system = self._opened(system, method, memory, ledger, resources)
        if words is not None:
            [self._system] = with_limit([self._system], words)
        self.method = self._system.name
        if not script and self._system.replays:
            script = user.utterances
        self.script = script or None

    def _opened(
        self,
        system: str | pt.Transformer,
        method: str,
        memory: Any,
        ledger: Ledger,
        resources: dict[str, Any],
    ) -> System:
        """The system, checked; the memory is opened before it."""
        if memory is not None and isinstance(resources.get("llm"), str):
            # one model, so that its budget counts system and memory together
            resources["llm"] = llm(resources["llm"], ledger=ledger)
        self._memory = open_memory(memory, resources.get("llm"), resources.get("prompts"))
        spare = () if memory is None else ("llm", "prompts")
        if isinstance(system, str):
            [opened] = open_systems(
                find(system), ledger, live=True, cite=True, connect=True, spare=spare, **resources
            )
        else:
            given = Resources.of(resources, (), spare=spare)
            if given.prompts is not None and memory is None:
                raise unused("prompts")  # a pipeline has its own
            opened = System.of(system, method)
        if opened.waits:
            raise UsageError(
                "a chat can't wait a day for its answers: "
                "omit batch=on in the specification of the LLM"
            )
        return opened

    def _continue(self, path: Path, number: str | None, ptkb: dict[str, str] | None) -> None:
        """Take over a saved chat."""
        if not Log.is_in(path):
            raise DataError(
                f"there is no chat {path} to continue: "
                f"check the path, or begin a new chat with {option('save')}"
            )
        header = Log(path).header
        kind = header.get("kind")
        if kind not in CONTINUED_KINDS:
            raise DataError(
                f"{path} is not the folder of a chat ({kind}): "
                "give a folder that a chat was saved in"
            )
        if kind == "served":
            with lock_folders(path):  # which a server holds while it runs
                pass
        log = Log.create(path, header)
        saved = [chat for chat in log.known.values() if number is None or chat.session == number]
        if len(saved) != 1:
            conversations = counted(len(log.known), "conversation")
            repair = f"choose one with {advice('number=...', '--conversation')}"
            raise UsageError(
                f"{path} holds {conversations} ({list_first(list(log.known))}): {repair}"
            )
        [chat] = saved
        if ptkb is not None and ptkb != chat.more["ptkb"]:
            argument = advice("ptkb", "--persona")
            raise UsageError(
                f"the chat {path} has another persona: omit {argument}, or begin a new chat"
            )
        self.out = path
        self._log = log
        self.number = chat.session
        self.ptkb = dict(chat.more["ptkb"])
        self.turns = list(chat.turns)
        self._session = chat.more["memory"]

    @property
    def saved(self) -> int:
        """The number of turns in the folder."""
        if self._log is None or self.number not in self._log.known:
            return 0
        return len(self._log.known[self.number].turns)

    @property
    def remembered(self) -> int:
        """The number of statements about the user in the memory; 0 without one."""
        return 0 if self._memory is None else len(self._memory.known(USER_ID))

    def say(self, text: str, tell: Tell | None = None, write: Write | None = None) -> Turn:
        """Say something, and get the system's turn.

        Args:
            text: the user's words.
            tell: called with each stage that begins, in words, such as ``"searching 5 queries"``.
            write: called, in another thread, with the answer as far as the model has written it,
                before it is checked.

        Raises:
            UsageError: when the text is empty or differs from the recorded conversation; also when
                the chat can't be saved, but then the turn is kept in ``turns``.
            IkatError: when the system fails; the turn isn't kept.
        """
        self.spent = Ledger()
        utterance = self._check(text)
        if self._memory is not None and not self._session:
            self._session = self._new_session()
        ptkb = known_of(self._memory, USER_ID, self.ptkb, self._session, len(self.turns) + 1)
        with self._counted():
            turn = answer(
                self._system,
                [*self.messages(), {"role": "user", "content": utterance}],
                ptkb,
                number=self.number,
                history=self.history,
                tell=tell,
                write=write,
            )
            self.history = turn.more.get("history", self.history)
            if self.turns:  # the prompts of all turns would fill the memory
                self.turns[-1] = replace(self.turns[-1], asked=())
            self.turns.append(turn)
            self._why = Why(turn, self.spent)
            self._save()  # before the memory learns: an answer is never lost
            if self._memory is not None:
                turn = self._learned(self._memory, turn, tell)
                self.turns[-1] = turn
                self._why = Why(turn, self.spent)
                self._save()
        return turn

    def _new_session(self) -> str:
        """The chat's name in the memory: a repeated replay is the same session, others are new."""
        if self.script is not None:
            return self.number
        return f"{self.number}-{uuid.uuid4().hex[:8]}"

    @contextmanager
    def _counted(self) -> Iterator[None]:
        """Count the calls of language models inside the block in ``spent``."""
        parts = list(parts_of(self._system.pipeline))
        if self._memory is not None:
            parts.append(self._memory.llm)
        ledgers = {id(part.ledger): part.ledger for part in parts if isinstance(part, LLM)}
        with ExitStack() as stack:
            for ledger in ledgers.values():
                stack.enter_context(ledger.followed_by(self.spent))
            yield

    def _learned(self, memory: UserMemory, turn: Turn, tell: Tell | None) -> Turn:
        """Let the memory learn from a turn; a failure is a warning, because the answer is kept.

        Returns:
            The turn with the calls of the memory.
        """
        if tell is not None:
            tell("learning about you")
        account = Ledger()  # has calls that Ctrl-C interrupted, too
        with as_llm(memory.llm).ledger.followed_by(account), hearing() as heard:
            try:
                memory.learn(USER_ID, self._session, self.messages())
            except (IkatError, KeyboardInterrupt) as error:
                # Ctrl-C stops the learning, not the chat
                if isinstance(error, Terminated):
                    raise
                if isinstance(error, StageError):
                    reason = error.failures[0].reason
                else:
                    reason = str(error) or "it was stopped"
                warnings.warn(
                    f"nothing was learned from this turn ({reason}); "
                    "the next turn learns from both",
                    NothingLearnedWarning,
                    stacklevel=3,
                )
        exchanges = [exchange for stage in heard for exchange in stage.exchanges]
        return turn.with_calls(account.total(), exchanges)

    def why(self) -> Why:
        """Explain the last answer by its prompts and completions, or by its log.

        Raises:
            UsageError: when nothing was said yet.
        """
        if not self.turns:
            raise UsageError("there is no answer yet: say something")
        last = self.turns[-1]
        if self._why is not None and self._why.turn is last:
            return self._why
        return Why(last)

    def undo(self) -> Turn:
        """Undo the last turn, also in the folder and in the memory.

        Returns:
            The turn that was undone.

        Raises:
            UsageError: when nothing was said yet, or something can't be written; the turn then
                stays.
        """
        if not self.turns:
            raise UsageError("there is no turn to undo: nothing was said yet")
        if self._memory is not None and self._session:
            # first: if the turn stays, the memory learns from it again
            self._memory.undo(USER_ID, self._session, self.turns[-1].number)
        turn = self.turns.pop()
        try:
            self._save()
        except BaseException:
            self.turns.append(turn)
            raise
        return turn

    def _save(self) -> None:
        """Add new turns to the log, and write the topics file; a chat without turns has none.

        Raises:
            UsageError: when something can't be written.
        """
        if self.out is None:
            return
        try:
            if self._log is None:
                self._log = Log.create(self.out, CHAT_HEADER)
            self._note_turns(self._log)
        except OSError as error:
            raise not_saved(self.out, error) from None
        topics = topics_of(self._log.known.values())
        if topics:
            write_topics(self.out / TOPICS, topics)
        else:
            (self.out / TOPICS).unlink(missing_ok=True)

    def _note_turns(self, log: Log) -> None:
        """Add new turns and undone ones to the log."""
        details: dict[str, Any] = {"ptkb": self.ptkb, "memory": self._session}
        if self.number not in log.known or log.known[self.number].more != details:
            log.begin(self.number, USER_ID, **details)
        logged = log.known[self.number].turns
        for undone in logged[len(self.turns) :]:
            log.note({"event": "undone", "session": self.number, "turn": undone.number})
        first = max(len(logged) - 1, 0)  # a turn before the last one doesn't change any more
        for position in range(first, len(self.turns)):
            turn = replace(self.turns[position].without_texts(), session=self.number)
            if turn not in logged[position : position + 1]:
                log.append(turn)

    def messages(self) -> list[dict[str, str]]:
        """The history of the next turn; a turn without a response adds only its utterance."""
        return messages_of(self.turns)

    def expected(self) -> str | None:
        """The script's next utterance; None without a script, or after its end."""
        if self.script is None or len(self.turns) >= len(self.script):
            return None
        return self.script[len(self.turns)]

    def _check(self, text: str) -> str:
        utterance = clean_text(text)
        if not utterance:
            raise UsageError("there is nothing to answer: say something")
        if self.script is not None:
            turn = len(self.turns) + 1
            check_recorded(self.script, turn, utterance, f"{self.number}_{turn}")
        return utterance

    def __repr__(self) -> str:
        if not self.turns:
            return f"<chat {self.number}: nothing said yet>"
        exchanges = [f"you> {strip_controls(turn.utterance)}\n{turn!r}" for turn in self.turns]
        return "\n\n".join(exchanges)

    def _repr_html_(self) -> str:
        if not self.turns:
            return f"<i>chat {escape(self.number)}: nothing said yet</i>"
        return "".join(as_html(exchange_drawn(turn)) for turn in self.turns)


def _check_folder(out: str | Path | None, continue_from: str | Path | None) -> None:
    """Check that a chat is saved in a new folder, or continued in its own."""
    if out is not None and continue_from is not None:
        argument = advice("out=...", "--out")
        raise UsageError(f"a chat that is continued is saved in its own folder: omit {argument}")
    if out is not None and Path(out).exists():
        repair = advice("continue it with continue_from=...", f"continue it with --continue {out}")
        raise UsageError(f"{out} already exists: save the chat in a new folder, or {repair}")
