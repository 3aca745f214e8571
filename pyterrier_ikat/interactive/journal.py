"""Where an interactive run stands: every step is on the disk before it is taken, so that a killed run continues without repeating one.

``exchange.jsonl`` has a line for each step, in the order of time:

===========  ====================================================================================
``start``    the run is about to be started
``message``  the server sent a user message; it took the response or question before it
``answer``   a response is about to be sent
``next``     the next topic is about to be asked for
``dropped``  the server lost the session, and sent a user message without having taken the response before it
``learned``  the memory has learned from a session
===========  ====================================================================================

The log of conversations is brought up to date with it: it has only the turns that the server took.
"""

import itertools
import json
import re
from collections.abc import Mapping
from dataclasses import asdict, replace
from typing import Any

from ..runs.dialogues import DialogueLog, DialogueTurn
from ..store.lines import append_line, drop_cut_line, read_lines
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
        pending: the response that was about to be sent, if nothing is known of it yet.
        asking: ``"start"`` or ``"next"`` if that was about to be sent, and nothing is known of it yet.
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
        """Note a response that is about to be sent."""
        self.note("answer", turn=asdict(turn))

    def received(self, message: UserMessage, seconds: float | None = None) -> None:
        """Note a user message, and the seconds that the server took for it."""
        self.note("message", message=message.record(), seconds=seconds)

    def dropped(self, message: UserMessage) -> None:
        """Note a user message of a server that lost the session before it."""
        self.note("dropped", message=message.record())

    def of_session(self, session: str) -> list[DialogueTurn]:
        """The turns of a conversation that the server took."""
        return [turn for turn in self.turns if turn.session == session]

    def of_topic(self, topic: str) -> int:
        """How many responses the server took on a topic."""
        return sum(self.topics[turn.session] == topic for turn in self.turns)

    def _take(self, step: Mapping[str, Any]) -> None:
        kind = step["step"]
        if kind in ("start", "next"):
            self.asking = kind
        elif kind == "answer":
            given: dict[str, Any] = {name: tuple(value) if isinstance(value, list) else value for name, value in step["turn"].items()}
            self.pending = DialogueTurn(**given)
        elif kind == "dropped":
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
        self.message, self.pending, self.asking = message, None, ""
        if message.ends_session:
            self._end()

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
