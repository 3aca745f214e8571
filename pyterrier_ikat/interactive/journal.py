"""Where an interactive run stands: every step is on the disk before it is taken, so that a killed run continues without repeating one.

``exchange.jsonl`` has a line for each step, in the order of time:

===========  ====================================================================================
``start``    the run is about to be started
``message``  the server sent a user message; it took the response or question before it
``answer``   the system has answered
``sending``  the response is about to be sent
``next``     the next topic is about to be asked for
``unsent``   the server has certainly not taken what was about to be sent
``dropped``  the server lost the session, and sent a user message without having taken the response before it
``kept``     the server has taken a dropped response after all, as its dump shows
``learned``  the memory has learned from a session
===========  ====================================================================================

The log of conversations is brought up to date with it: it has only the turns that the server took.
"""

import itertools
import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import asdict, replace
from typing import Any

from ..runs.dialogues import DialogueLog, DialogueTurn
from ..store.lines import append_line, drop_cut_line, read_lines
from .dumps import DumpEntry, more_than
from .messages import UserMessage

STEPS = "exchange.jsonl"


class Journal:
    """The steps of a run, and where they lead.

    Args:
        log: the log of conversations, in whose folder the steps are kept.

    Attributes:
        message: the newest user message; None before the first.
        session: its conversation.
        topics: conversation -> its topic.
        users: conversation -> its user.
        turns: the turns that the server took.
        pending: the response that the server has not answered yet.
        sending: whether the pending response may have been sent.
        asking: ``"start"`` or ``"next"`` if that was about to be sent, and nothing is known of it yet.
        lost: the responses that were dropped.
        learned: the conversations that the memory has learned from.

    Raises:
        DataError: when the file is damaged.
    """

    def __init__(self, log: DialogueLog) -> None:
        self.path, self.log = log.folder / STEPS, log
        self.message: UserMessage | None = None
        self.session, self.asking = "", ""
        self.topics: dict[str, str] = {}
        self.users: dict[str, str] = {}
        self.turns: list[DialogueTurn] = []
        self.pending: DialogueTurn | None = None
        self.sending = False
        self.lost: list[DialogueTurn] = []
        self.learned: set[str] = set()
        self._logged = _Logged(log)
        drop_cut_line(self.path)
        for _, step in read_lines(self.path):
            self._take(step)

    def note(self, kind: str, **facts: Any) -> None:
        """Note a step; it is on the disk when this returns."""
        step = {"step": kind, **facts}
        append_line(self.path, json.dumps(step))
        self._take(json.loads(json.dumps(step)))

    def answered(self, turn: DialogueTurn) -> None:
        """Note a response of the system, which is not sent yet."""
        self.note("answer", turn=asdict(turn), sending=False)

    def received(self, message: UserMessage, seconds: float | None = None) -> None:
        """Note a user message, and the seconds that the server took for it."""
        self.note("message", message=message.record(), seconds=seconds)

    def dropped(self, message: UserMessage) -> None:
        """Note a user message of a server that lost the session before it."""
        self.note("dropped", message=message.record())

    def keep_dumped(self, entries: Sequence[DumpEntry]) -> None:
        """Note the dropped responses that the server's dump has: an older version of this package could not read every dump."""
        for turn in list(self.lost):
            topic = self.topics[turn.session]
            if more_than(self.texts_on(topic), [entry for entry in entries if entry.topic == topic])[turn.response]:
                self.note("kept", session=turn.session, turn=turn.turn)

    def of_session(self, session: str) -> list[DialogueTurn]:
        """The turns of a conversation that the server took."""
        return [turn for turn in self.turns if turn.session == session]

    def texts_on(self, topic: str) -> list[str]:
        """The responses that the server took on a topic."""
        return [turn.response for turn in self.turns if self.topics[turn.session] == topic]

    def _take(self, step: Mapping[str, Any]) -> None:
        kind = step["step"]
        if kind in ("start", "next"):
            self.asking = kind
        elif kind == "answer":
            given: dict[str, Any] = {name: tuple(value) if isinstance(value, list) else value for name, value in step["turn"].items()}
            self.pending, self.sending = DialogueTurn(**given), step.get("sending", True)  # older versions did not note it
        elif kind == "sending":
            self.sending = True
        elif kind == "unsent":
            self.sending, self.asking = False, ""
        elif kind == "kept":
            self._keep(step["session"], step["turn"])
        elif kind == "dropped":
            self.lost += [] if self.pending is None else [self.pending]
            self.pending = None
            self._receive(UserMessage(**step["message"]), None, begins=True)
        elif kind == "learned":
            self.learned.add(step["session"])
        else:
            self._receive(UserMessage(**step["message"]), step["seconds"])

    def _receive(self, message: UserMessage, seconds: float | None, *, begins: bool = False) -> None:
        before = self.message
        if self.pending is not None:
            turn = replace(self.pending, more={**self.pending.more, "server_seconds": seconds})
            self.turns.append(turn)
            self._logged.take(turn)
        if begins or before is None or before.ends_session or before.topic != message.topic:
            if before is not None and not before.ends_session:
                self._end()
            self._begin(message)
        self.message, self.pending, self.sending, self.asking = message, None, False, ""
        if message.ends_session:
            self._end()

    def _keep(self, session: str, number: int) -> None:
        turn = next(turn for turn in self.lost if (turn.session, turn.turn) == (session, number))
        self.lost.remove(turn)
        self.turns.append(turn)
        self._logged.take(turn)

    def _begin(self, message: UserMessage) -> None:
        """A new conversation, named like its topic; if another one has that name, it gets a number."""
        topic = re.sub(r"\s+", "-", message.topic.strip()) or "topic"
        names = (f"{topic}.{number}" if number > 1 else topic for number in itertools.count(1))
        self.session = next(name for name in names if name not in self.topics)
        self.topics[self.session], self.users[self.session] = message.topic, message.user
        self._logged.begin(self.session, message.user)

    def _end(self) -> None:
        self._logged.end(self.session)


class _Logged:
    """The log of conversations, into which everything is written once."""

    def __init__(self, log: DialogueLog) -> None:
        self._log = log
        self._there: set[tuple[Any, ...]] = set()
        for one in log.dialogues():
            self._there |= {("begin", one.session), *[("end", one.session)] * bool(one.end)}
            self._there |= {("turn", one.session, turn.turn) for turn in one.turns} | {("sent", one.session, turn) for turn in one.sent}

    def begin(self, session: str, user: str) -> None:
        if self._is_new("begin", session):
            self._log.begin(session, user)

    def take(self, turn: DialogueTurn) -> None:
        if self._is_new("turn", turn.session, turn.turn):
            self._log.append(turn)
        if self._is_new("sent", turn.session, turn.turn):
            self._log.mark_sent(turn.session, turn.turn)

    def end(self, session: str) -> None:
        if self._is_new("end", session):
            self._log.end(session, "topic ended")

    def _is_new(self, *key: Any) -> bool:
        new = key not in self._there
        self._there.add(key)
        return new
