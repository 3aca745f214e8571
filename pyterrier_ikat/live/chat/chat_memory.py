"""The memory of a chat: every turn sees what was known before it, and is learned from once it is answered."""

import uuid
import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace

from ...errors import IkatError, Terminated
from ...events import hearing
from ...generate import UserMemory
from ...generate.user_memory import NothingLearnedWarning
from ...llms import LLM, Ledger, StageError
from ...runs.answered_turn import Turn
from ..answering import asked, spent

ME = "me"
"""The id of the user in the memory of a chat: a file is one person's."""


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
                if not heard and not llm.backend.replays:  # nobody hears of calls that were interrupted
                    return turn.with_calls(replace(account.total(), known=0, worth=0.0))
        return turn.with_calls(spent(heard), asked(heard))

    def forget(self, turn: int) -> None:
        """Delete what was learned from a turn of this session and later ones."""
        if self.session:
            self.memory.forget(ME, self.session, turn)


def _warn(error: BaseException) -> None:
    reason = str(error) or "it was stopped"
    if isinstance(error, StageError):
        reason = error.failures[0].reason
    warnings.warn(f"nothing was learned from this turn ({reason}); the next turn learns from both", NothingLearnedWarning, stacklevel=4)
