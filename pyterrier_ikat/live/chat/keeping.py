"""The storage of a chat: a folder from which it can be continued, and what a memory learned about its user.

The folder has the chat's log and a topics file that `ikat run` takes. Every turn sees what the memory knew before it, and is learned from
once it is answered.
"""

import os
import uuid
import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from ...errors import DataError, IkatError, Terminated, UsageError, advice, list_first, option
from ...events import hearing
from ...llms import LLM, Ledger, StageError
from ...memory import UserMemory
from ...memory.user_memory import NothingLearnedWarning
from ...runs.answered_turn import Turn
from ...runs.log import TOPICS, Dialogue, Log, not_saved, topics_of, write_topics
from ...store.locks import lock_folders
from ..answering import spent

ME = "me"
"""The id of the user in a chat's log and memory: a file is one person's."""
HEADER = {"kind": "chat", "system": ""}
KINDS = ("chat", "served")
"""The kinds of logs that a chat continues."""


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

    @property
    def size(self) -> int:
        """The number of statements that hold."""
        return len(self.memory.known(ME))

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
                _warn(error)
                if not heard and not llm.backend.replays:  # interrupted calls are not reported
                    return turn.with_calls(replace(account.total(), known=0, worth=0.0))
        return turn.with_calls(spent(heard), [exchange for _, exchange in heard])

    def undo(self, turn: int) -> None:
        """Note that what was learned from a turn of this session and later ones doesn't hold any more."""
        if self.session:
            self.memory.undo(ME, self.session, turn)


def _warn(error: BaseException) -> None:
    reason = str(error) or "it was stopped"
    if isinstance(error, StageError):
        reason = error.failures[0].reason
    warnings.warn(f"nothing was learned from this turn ({reason}); the next turn learns from both", NothingLearnedWarning, stacklevel=4)
