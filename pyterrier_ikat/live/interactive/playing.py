"""The play of an interactive run: a response to each user message, from what is known of the user, until there is no further question."""

import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Protocol

from ...generate.respond import ABSTENTION
from ...llms import StageError, Unavailable
from ...memory.user_memory import NothingLearnedWarning
from ...runs.answered_turn import Turn, messages_of
from ...study.systems import System
from ..answering import HISTORY, answer
from .delivery import Sender
from .journal import Journal
from .response_limits import fit_citations, fit_response
from .server_answers import UserMessage


class Memory(Protocol):
    """What is known about the users who come back; :class:`~pyterrier_ikat.memory.UserMemory` is one."""

    def known(self, user: str, session: str | None = None, turn: int | None = None) -> Mapping[str, str]:
        """The statements about a user that were known when a turn of a session began, by id."""
        ...

    def add(self, user: str, statements: Mapping[str, str]) -> None:
        """Keep statements of a persona; known ones are not added again."""
        ...

    def learn(self, user: str, session: str, messages: Sequence[Mapping[str, str]]) -> Any:
        """Learn from a conversation that has ended. After a kill it is called again with the same arguments."""
        ...


class HistoryDiffersWarning(UserWarning):
    """The server's history of a conversation differs from what was said; the server's is used."""


class NoResponseWarning(UserWarning):
    """The system wrote no response; the user is told that there is no answer."""


@dataclass
class RunPlayer:
    """Plays one run.

    Args:
        sender: sends the responses; its ``tell`` is called with each step of the system too, with the turn's id before it.
        system: the system.
        personas: user -> the statements known about the user from the beginning.
        memory: learns about users who come back.
        history: see :func:`~pyterrier_ikat.live.answering.answer`.
    """

    sender: Sender
    system: System
    personas: Callable[[str], Mapping[str, str]] = lambda user: {}
    memory: Memory | None = None
    history: int | None = HISTORY
    _warned: set[str] = field(default_factory=set)

    @property
    def journal(self) -> Journal:
        """The steps so far."""
        return self.sender.journal

    def play(self, description: str, *, about: Mapping[str, Any] | None = None, most: int | None = None) -> None:
        """Start or continue the run, until it ends or ``most`` conversations have ended; the organisers keep ``about``."""
        message = self.journal.message or self.sender.start(description, track_persona=self.memory is not None, about=about or {})
        while True:
            if message.ends_session:
                self._learn()
                if message.ends_run or (most is not None and len(self.journal.dialogues) >= most):
                    return
                message = self.sender.next_topic(message)
            else:
                message = self.sender.exchange(message, self._answer)

    def _answer(self, message: UserMessage) -> Turn:
        """The system's answer to a message, as it is going to be sent."""
        session = self.journal.session
        number = len(self.journal.dialogues[session].taken) + 1
        qid = f"{session}_{number}"
        said, ptkb, tell = self._messages(qid, message), self._known(message.user, session, number), self.sender.tell
        told = (lambda step: tell(f"{qid} {step}")) if tell else None
        made = answer(self.system, said, ptkb, number=session, turn=number, history=self.history, tell=told)
        response, cut = fit_response(made.response)
        if not response:
            why = f"turn {qid}: the system wrote no response, because it found no passage; the user is told: {ABSTENTION}"
            warnings.warn(why, NoResponseWarning, stacklevel=2)
            response = ABSTENTION
        citations = fit_citations(qid, made.citations)
        return replace(made, session=session, utterance=message.utterance, response=response, citations=citations, cut=cut, asked=())

    def _known(self, user: str, session: str, turn: int) -> Mapping[str, str]:
        """The statements about a user: of the persona, and of earlier conversations."""
        persona = self.personas(user)
        if self.memory is None:
            return persona
        if persona:
            self.memory.add(user, persona)
        return self.memory.known(user, session, turn)

    def _messages(self, qid: str, message: UserMessage) -> list[dict[str, str]]:
        """The conversation as the server has it; a difference from what was said is a warning."""
        ours = messages_of(self.journal.dialogues[self.journal.session].taken)
        ours.append({"role": "user", "content": message.utterance})
        theirs = message.messages()
        if not message.history and len(ours) > 1:
            self._warn("empty", f"turn {qid}: the server sends no history that can be read, so the one of the log is used")
            return ours
        if theirs != ours and sorted(map(str, message.history)) in (sorted(map(str, ours)), sorted(map(str, ours[:-1]))):
            self._warn("order", f"turn {qid}: the server's history is in another order, so the one of the log is used")
            return ours
        if theirs != ours:
            pairs = zip(theirs, ours, strict=False)
            place = next((number for number, (one, other) in enumerate(pairs, 1) if one != other), min(len(theirs), len(ours)) + 1)
            told = f"turn {qid}: message {place} of the server's history differs from what was said; the server's history is used"
            self._warn(self.journal.session, told)
        return theirs

    def _warn(self, key: str, told: str) -> None:
        if key not in self._warned:
            self._warned.add(key)
            warnings.warn(told, HistoryDiffersWarning, stacklevel=4)

    def _learn(self) -> None:
        """Let the memory learn from the conversation that ended, once."""
        one = self.journal.dialogues[self.journal.session]
        if self.memory is None or one.learned:
            return
        messages = messages_of(one.taken)
        if self.journal.message is not None and self.journal.message.utterance:
            messages.append({"role": "user", "content": self.journal.message.utterance})
        try:
            self.memory.learn(one.user, one.session, messages)
        except StageError as error:
            if any(isinstance(one, Unavailable) for one in error.failures):
                raise  # the run stops, as at an answer, and learns when it is started again
            # asked again it would fail again, and the run could never go on
            told = f"nothing was learned from conversation {one.session}: {error.failures[0].reason}"
            warnings.warn(told, NothingLearnedWarning, stacklevel=3)
        self.journal.note({"event": "learned", "session": one.session})
