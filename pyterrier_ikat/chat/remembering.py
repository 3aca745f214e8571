"""The memory of a chat: every turn sees what was known before it, and is learned from once it is answered."""

import uuid
import warnings
from collections.abc import Callable, Mapping, Sequence

from ..errors import IkatError, Terminated
from ..generate import UserMemory
from ..llms import StageError

ME = "me"
"""The id of the user in the memory of a chat: a file is one person's."""


class NothingLearnedWarning(UserWarning):
    """The memory could not learn from a turn; the next turn makes up for it."""


class Remembering:
    """A chat's session in a memory; without a memory it does nothing.

    Args:
        memory: the memory.
    """

    def __init__(self, memory: UserMemory | None) -> None:
        self.memory, self._session = memory, ""

    def known(self, number: str, turn: int, ptkb: Mapping[str, str], *, replayed: bool) -> Mapping[str, str]:
        """The statements that a turn sees: the persona's, and those that were learned before it.

        Args:
            number: the chat's name.
            turn: the turn's number, from 1.
            ptkb: the persona.
            replayed: whether the chat replays recorded completions: a repeated replay is the same session, any other chat is a new one.
        """
        if self.memory is None:
            return ptkb
        self._session = self._session or (number if replayed else f"{number}-{uuid.uuid4().hex[:8]}")
        self.memory.tell(ME, ptkb)
        return self.memory.known(ME, self._session, turn)

    def learn(self, messages: Sequence[Mapping[str, str]], tell: Callable[[str], None] | None = None) -> None:
        """Learn from the turns so far; a failure is a warning, because the answer is there and must not be lost."""
        if self.memory is None:
            return
        if tell is not None:
            tell("learning about you")
        try:
            self.memory.learn(ME, self._session, messages)
        except (IkatError, KeyboardInterrupt) as error:  # Ctrl-C stops the learning, not the chat
            if isinstance(error, Terminated):
                raise
            said = error.failures[0].reason if isinstance(error, StageError) else str(error)
            reason = "it was stopped" if isinstance(error, KeyboardInterrupt) else said
            warnings.warn(
                f"nothing was learned from this turn ({reason}); the next turn makes up for it", NothingLearnedWarning, stacklevel=3
            )

    def forget(self, turn: int) -> None:
        """Delete what was learned from a turn of this session and later ones."""
        if self.memory is not None and self._session:
            self.memory.forget(ME, self._session, turn)
