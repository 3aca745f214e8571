"""The log of conversations with a system: chats, served ones, interactive runs and simulations.

A folder has one file, ``log.jsonl``, to which a line is appended for each event, in the order of
time:

``log``
    the first line describes the log: its ``kind`` (``"chat"``, ``"served"``, ``"interactive"`` or
    ``"simulated"``), its ``system``, and everything else that must not change when it is continued
``compared``
    the simulation compares its systems with a baseline: ``baseline``; the last one counts
``session``
    a conversation begins: ``session``, ``user``, ``rubrics`` (id -> the question to answer),
    ``more``
``turn``
    the system has answered: the fields of :class:`~.answered_turn.Turn`; a later one of the same
    number replaces it
``sent``
    the user has received the response: ``session``, ``turn``, ``seconds`` until the user's reply
``undone``
    the user has taken the turn back: ``session``, ``turn``
``learned``
    the memory has learned from the conversation: ``session``
``end``
    the conversation ended: ``session``, ``end``, see :data:`ENDS`

A front may note its own steps between them (:data:`STEPS`). Events of one moment are one line,
``{"events": [...]}``. A line is on disk before the next step begins. A line that a kill cut short
is dropped when the log is opened again.
"""

import json
import os
import threading
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from ..errors import DataError, UsageError, advice
from ..store.files import append_line, atomic_write, drop_cut_line, read_lines
from .answered_turn import Turn, messages_of

LOG_KINDS = {
    "chat": "a chat",
    "served": "served conversations",
    "interactive": "an interactive run",
    "simulated": "a simulation",
}
"""The description of a log in words, by its ``kind``."""
PRIVATE_KINDS = ("chat", "served")
"""The kinds of logs that only their owner may read: people's own words."""
LOG_FILE = "log.jsonl"
TOPICS = "topics.json"
ENDS = ("satisfied", "out of patience", "topic ended", "turn limit")
"""Why a conversation ended.

Each rubric was met; the user gave up; the track's user had no further question; the run's limit.
"""
PLAYERS = "players"
"""The key in a turn's ``more`` of the calls of its simulated user and judge, as `Spend` fields."""
STEPS = ("log", "compared", "message", "sending", "unsent", "stuck")
"""Events that don't change a conversation.

An interactive run needs them to continue: :mod:`pyterrier_ikat.live.interactive.player`.
"""

Event = Mapping[str, Any]


@dataclass
class Dialogue:
    """A conversation.

    Attributes:
        session: its name.
        user: the user's id. The same user may have several conversations.
        rubrics: id -> the question to answer; empty if the run has none.
        turns: the turns, in their order.
        sent: the number of each turn whose response the user has received -> the seconds until the
            user's reply; None if not measured.
        end: why it ended, see :data:`ENDS`; empty until then.
        more: other facts about it.
        learned: whether a memory has learned from it.
    """

    session: str
    user: str
    rubrics: dict[str, str] = field(default_factory=dict)
    turns: list[Turn] = field(default_factory=list)
    sent: dict[int, float | None] = field(default_factory=dict)
    end: str = ""
    more: dict[str, Any] = field(default_factory=dict)
    learned: bool = False

    @property
    def met(self) -> dict[str, int]:
        """Rubric -> the first turn that met it."""
        return {rubric: turn.number for turn in reversed(self.turns) for rubric in turn.met}

    @property
    def taken(self) -> list[Turn]:
        """The turns whose response the user has received."""
        return [turn for turn in self.turns if turn.number in self.sent]

    @property
    def messages(self) -> list[dict[str, str]]:
        """The conversation as chat messages."""
        return messages_of(self.turns)


class Log:
    """The conversations of one system, in a folder.

    Several threads may write into one log. Several processes need a lock.

    Args:
        folder: the folder.

    Attributes:
        folder: the folder.
        path: the file.

    Example:
        >>> log = Log.create("sims/raw", {"kind": "simulated", "system": "raw"})
        >>> log.begin("u1", "u1", {"r1": "Which tea has no caffeine?"})
        >>> log.append(Turn(1, "Which tea may I drink?", "Rooibos.", session="u1", met=("r1",)))
        >>> log.end("u1", "satisfied")
        >>> [dialogue] = Log("sims/raw").dialogues()
        >>> dialogue.session, dialogue.met, dialogue.end
        ('u1', {'r1': 1}, 'satisfied')
    """

    def __init__(self, folder: str | Path) -> None:
        self.folder = Path(folder)
        self.path = self.folder / LOG_FILE
        self._known: dict[str, Dialogue] | None = None
        self._lock = threading.Lock()

    @classmethod
    def create(cls, folder: str | Path, header: Mapping[str, Any]) -> "Log":
        """Open the log in a folder. The folder is new, or its log has the same header.

        Raises:
            UsageError: when the folder holds something else, or a log with another header. The
                error names the differences.
            DataError: when the log can't be read.
        """
        log = cls(folder)
        drop_cut_line(log.path)
        if log.path.exists() and log.path.stat().st_size > 0:
            log.check(header)
            return log
        if log.folder.exists():
            for path in log.folder.iterdir():
                if path != log.path and not path.name.startswith("."):
                    raise UsageError(
                        f"{folder} is not empty, and holds no log of conversations: give a new "
                        "folder"
                    )
        log.folder.mkdir(parents=True, exist_ok=True)
        if header.get("kind") in PRIVATE_KINDS:
            log.path.touch(0o600)
        log.note({"event": "log", **header})
        return log

    def check(self, header: Mapping[str, Any]) -> None:
        """Check that the log belongs to a run with this header.

        Raises:
            UsageError: when the log has another header. The error names the differences.
        """
        before = self.header
        wanted = json.loads(json.dumps(header))
        differences = []
        for name in dict.fromkeys([*before, *wanted]):
            if before.get(name) != wanted.get(name):
                differences.append(f"{name} was {before.get(name)!r}, now {wanted.get(name)!r}")
        if differences:
            raise UsageError(
                f"{self.folder} holds other conversations ({'; '.join(differences)}): choose "
                "another folder, or repeat the first call"
            )

    @staticmethod
    def is_in(folder: str | Path) -> bool:
        """Whether a folder holds a log of conversations."""
        return (Path(folder) / LOG_FILE).is_file()

    @property
    def header(self) -> dict[str, Any]:
        """The description of the log.

        Raises:
            DataError: when the folder has no log, or the log can't be read.
        """
        first = next(self.events(), {})
        if first.get("event") != "log":
            raise DataError(
                f"{self.path} does not begin as a log: give a folder that ikat chat, interact or "
                "simulate made"
            )
        first.pop("event")
        return first

    @property
    def kind(self) -> str:
        """The kind of log in words, such as ``"a simulation"``."""
        return LOG_KINDS.get(str(self.header.get("kind")), "conversations")

    @property
    def baseline(self) -> str | None:
        """The system that the others of a simulation are compared with; None if none was named."""
        baseline = None
        for event in self.events():
            if event["event"] == "compared":
                baseline = event["baseline"]
        return baseline

    def compare(self, baseline: str | None) -> None:
        """Note the system that the others are compared with, unless the log already has it.

        It may change when a simulation continues.
        """
        if baseline is not None and baseline != self.baseline:
            self.note({"event": "compared", "baseline": baseline})

    def begin(
        self, session: str, user: str, rubrics: Mapping[str, str] | None = None, **more: Any
    ) -> None:
        """Note that a conversation begins; ``more`` are other facts about it."""
        self.note(session_event(session, user, rubrics, **more))

    def append(self, turn: Turn) -> None:
        """Add a turn."""
        self.note(turn_event(turn))

    def end(self, session: str, why: str) -> None:
        """Note that a conversation ended."""
        self.note({"event": "end", "session": session, "end": why})

    def note(self, *events: Event) -> None:
        """Append events of one moment: all of them are on disk on return, or none after a kill.

        Raises:
            OSError: when the file can't be written. Then it has none of the events.
        """
        entry = events[0] if len(events) == 1 else {"events": events}
        line = json.dumps(entry, ensure_ascii=False)
        with self._lock:
            size = self.path.stat().st_size if self.path.exists() else 0
            try:
                append_line(self.path, line)
            except OSError:
                with suppress(OSError):
                    os.truncate(self.path, size)
                raise
            if self._known is not None:
                for event in _events_in(json.loads(line)):
                    apply_event(self._known, event)

    def events(self) -> Iterator[dict[str, Any]]:
        """The events, in the order of time.

        Raises:
            DataError: naming the line that can't be read.
        """
        for number, line in read_lines(self.path):
            events = _events_in(line)
            if not isinstance(events, list):
                raise DataError(
                    f"{self.path}, line {number}, has no list of events: remove the folder and run "
                    "again"
                )
            yield from events

    @property
    def known(self) -> dict[str, Dialogue]:
        """The conversations by name, for the writer of the log. Each event noted here changes them.

        Raises:
            DataError: naming the line that can't be read.
        """
        with self._lock:
            if self._known is None:
                self._known = {dialogue.session: dialogue for dialogue in self.dialogues()}
            return self._known

    def dialogues(self) -> list[Dialogue]:
        """The conversations on disk, in the order in which they began.

        Raises:
            DataError: naming the line that can't be read.
        """
        dialogues: dict[str, Dialogue] = {}
        for event in self.events():
            try:
                apply_event(dialogues, event)
            except (KeyError, TypeError, ValueError) as error:
                raise DataError(
                    f"{self.path}: {str(event)[:80]} is no event ({error!r}): remove the folder "
                    "and run again"
                ) from None
        return list(dialogues.values())


def topics_of(dialogues: Iterable[Dialogue]) -> list[dict[str, Any]]:
    """Conversations as topics of TREC iKAT 2023 and 2024, without those that have no turn.

    ``response_provenance`` has the passages that were used.
    """
    topics = []
    for dialogue in dialogues:
        turns = []
        for turn in dialogue.turns:
            passages = [passage.docno for passage in turn.sources] if turn.response else []
            turns.append(
                {
                    "turn_id": turn.number,
                    "utterance": turn.utterance,
                    "response": turn.response,
                    "response_provenance": passages,
                }
            )
        if turns:
            ptkb = dict(dialogue.more.get("ptkb", {}))
            topics.append({"number": dialogue.session, "title": "", "ptkb": ptkb, "turns": turns})
    return topics


def write_topics(path: str | Path, topics: Sequence[Mapping[str, Any]]) -> None:
    """Write a topics file, which only its owner may read, whole or not at all.

    Raises:
        UsageError: when the file can't be written.
    """
    try:
        with atomic_write(path, "wb", private=True) as file:
            file.write(json.dumps(topics, ensure_ascii=False, indent=1).encode("utf-8", "replace"))
    except OSError as error:
        raise not_saved(path, error) from None


def not_saved(path: str | Path, error: OSError) -> UsageError:
    """The error that a conversation can't be saved."""
    repair = advice("save it elsewhere", "repair that, and the next turn saves all turns")
    return UsageError(f"the chat can't be saved in {path} ({error.strerror}): {repair}")


def session_event(
    session: str, user: str, rubrics: Mapping[str, str] | None = None, **more: Any
) -> Event:
    """The event that a conversation begins."""
    return {
        "event": "session",
        "session": session,
        "user": user,
        "rubrics": dict(rubrics or {}),
        "more": more,
    }


def turn_event(turn: Turn) -> Event:
    """The event that the system has answered."""
    return {"event": "turn", **turn.record()}


def _events_in(line: Mapping[str, Any]) -> Sequence[Any]:
    return line.get("events", [line])  # type: ignore[no-any-return]


def apply_event(dialogues: dict[str, Dialogue], event: Event) -> None:
    """Change the conversations, which are given by name, by an event.

    Raises:
        KeyError, TypeError, ValueError: when it isn't an event.
    """
    kind = event["event"]
    if kind in STEPS:
        return
    session = event["session"]
    if kind == "session":
        begun = Dialogue(session, event["user"], dict(event["rubrics"]))
        dialogue = dialogues.setdefault(session, begun)
        dialogue.more |= event["more"]
        return
    dialogue = dialogues[session]
    if kind == "turn":
        _set_turn(dialogue.turns, Turn.read(event))
    elif kind == "sent":
        dialogue.sent[event["turn"]] = event["seconds"]
    elif kind == "undone":
        numbers = [turn.number for turn in dialogue.turns]
        if event["turn"] not in numbers:
            raise KeyError(f"turn {event['turn']}")
        del dialogue.turns[numbers.index(event["turn"])]
    elif kind == "learned":
        dialogue.learned = True
    elif kind == "end":
        dialogue.end = event["end"]
    else:
        raise KeyError(kind)


def _set_turn(turns: list[Turn], turn: Turn) -> None:
    """Replace the turn of the same number, or add this one."""
    numbers = [before.number for before in turns]
    if turn.number in numbers:
        turns[numbers.index(turn.number)] = turn
    else:
        turns.append(turn)
