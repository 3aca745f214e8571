"""The state of an interactive run: each step is in its log before it is taken, so a killed run continues without repeating one.

Between the events of every log (:mod:`pyterrier_ikat.runs.log`) an interactive run notes:

===========  ====================================================================================
``start``    the run is about to be started
``message``  the server sent a user message
``sending``  the response is about to be sent
``next``     the next topic is about to be asked for
``unsent``   the server has certainly not taken what was about to be sent
===========  ====================================================================================

The content of one answer of the server (it took the response, the next message, the end of a conversation and the beginning of another) is
one line.
"""

import itertools
import re
from collections.abc import Iterator, Sequence
from typing import Any

from ...runs.answered_turn import Turn
from ...runs.log import Event, Log, turn_event
from .server_answers import DumpEntry, UserMessage, answers_to, more_than


class Journal:
    """The steps of a run, and where they lead.

    Args:
        log: the log, in which the steps are kept.

    Attributes:
        message: the newest user message; None before the first.
        session: its conversation.
        dialogues: the conversations by name, as the log knows them.
        sending: whether the pending response may have been sent.
        asking: ``"start"`` or ``"next"`` if that was about to be sent, and nothing is known of it yet.

    Raises:
        DataError: when the log is damaged.
    """

    def __init__(self, log: Log) -> None:
        self.log = log
        self.message: UserMessage | None = None
        self.session, self.asking, self.sending = "", "", False
        self.dialogues = log.known
        for event in log.events():
            self._take(event)

    @property
    def finished(self) -> bool:
        """Whether the users have no further question."""
        return self.message is not None and self.message.ends_run

    @property
    def pending(self) -> Turn | None:
        """The response that the server has not answered yet."""
        turns = self.dialogues[self.session].turns if self.session else []
        return next((turn for turn in turns if turn.number not in self.dialogues[self.session].sent), None)

    def note(self, *events: Event) -> None:
        """Note what happened at one moment; it is on the disk when this returns."""
        self.log.note(*events)
        for event in events:
            self._take(event)

    def step(self, kind: str) -> None:
        """Note what is about to be sent, or that it was not."""
        self.note({"event": kind})

    def answered(self, turn: Turn) -> None:
        """Note a response of the system, which is not sent yet."""
        self.note(turn_event(turn))

    def received(self, message: UserMessage, seconds: float | None = None) -> None:
        """Note a user message, and the seconds that the server took for it: it has taken the pending response."""
        turn, before = self.pending, self.message
        sent = [] if turn is None else [{"event": "sent", "session": turn.session, "turn": turn.number, "seconds": seconds}]
        begins = before is None or before.ends_session or before.topic != message.topic
        self.note(*sent, *self._around(message, begins))

    def dropped(self, message: UserMessage) -> None:
        """Note a user message of a server that lost the session before it, and with it the pending response."""
        turn = self.pending
        lost = [] if turn is None else [{"event": "dropped", "session": turn.session, "turn": turn.number}]
        self.note(*lost, *self._around(message, begins=True))

    def keep_dumped(self, entries: Sequence[DumpEntry]) -> None:
        """Note the dropped responses that the server's dump has."""
        for one in self.dialogues.values():
            topic = one.more["topic"]
            for turn in list(one.lost):
                if more_than(self.texts_on(topic), [entry for entry in entries if entry.topic == topic])[turn.response]:
                    self.note({"event": "kept", "session": one.session, "turn": turn.number})

    def keep_grades(self, entries: Sequence[DumpEntry]) -> None:
        """Note the grades that the server's dump has, unless they are known."""
        for session, number, grade, rubric in self.grades_in(entries):
            if self.dialogues[session].grades.get(number) != (grade, rubric):
                self.note({"event": "graded", "session": session, "turn": number, "grade": grade, "rubric": rubric})

    def grades_in(self, entries: Sequence[DumpEntry]) -> Iterator[tuple[str, int, float, str]]:
        """Session and number of each turn that a dump has a grade of, the grade, and its rubric."""
        for topic in dict.fromkeys(str(one.more["topic"]) for one in self.dialogues.values()):
            turns = [turn for one in self.dialogues.values() if one.more["topic"] == topic for turn in one.taken]
            for entry in answers_to(topic, entries):
                place = next((place for place, turn in enumerate(turns) if turn.response == entry.text), None)
                if place is None:
                    continue  # the server has it twice
                turn, turns = turns[place], turns[place + 1 :]
                if entry.grade is not None:
                    yield turn.session, turn.number, entry.grade, entry.rubric

    def texts_on(self, topic: str) -> list[str]:
        """The responses that the server took on a topic."""
        return [turn.response for one in self.dialogues.values() if one.more["topic"] == topic for turn in one.taken]

    def _take(self, event: Event) -> None:
        kind = event["event"]
        if kind in ("start", "next"):
            self.asking = kind
        elif kind == "session":
            self.session = event["session"]
        elif kind in ("turn", "sending"):
            self.sending = kind == "sending"
        elif kind in ("unsent", "message"):
            self.sending, self.asking = False, ""
        if kind == "message":
            self.message = UserMessage(**event["message"])

    def _around(self, message: UserMessage, begins: bool) -> Iterator[dict[str, Any]]:
        """A message, with the end of the conversation before it, the begin of its own, and the end of its own."""
        session = self.session
        if begins:
            if session and not self.dialogues[session].end:
                yield _end(session)
            session = self._name(message.topic)
            yield {"event": "session", "session": session, "user": message.user, "rubrics": {}, "more": {"topic": message.topic}}
        yield {"event": "message", "message": message.record()}
        if message.ends_session:
            yield _end(session)

    def _name(self, topic: str) -> str:
        """A new conversation is named like its topic; if another one has that name, it gets a number."""
        word = re.sub(r"\s+", "-", topic.strip()) or "topic"
        names = (f"{word}.{number}" if number > 1 else word for number in itertools.count(1))
        return next(name for name in names if name not in self.dialogues)


def _end(session: str) -> dict[str, Any]:
    return {"event": "end", "session": session, "end": "topic ended"}
