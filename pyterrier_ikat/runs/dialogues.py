"""The log of conversations between systems and simulated users: interactive runs of the track, and simulations.

A folder has two files. ``dialogue.json`` describes the run: its ``kind`` (``"interactive"`` or ``"simulated"``), its ``system``, and
everything else that must not change when it is continued. ``dialogue.jsonl`` has a line for each event, in the order of time:

===========  =======================================================================================================
``session``  a conversation begins: ``session``, ``user``, ``rubrics`` (id -> the question that is to be answered)
``turn``     the system has answered: the fields of :class:`DialogueTurn`
``sent``     the user has received the response: ``session``, ``turn``
``end``      the conversation ended: ``session``, ``end``, see :data:`ENDS`
===========  =======================================================================================================

An event is on the disk before the next step is taken. A line that was cut by a kill is dropped when the log is opened again.
"""

import json
import threading
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, fields
from pathlib import Path
from typing import Any

from ..errors import DataError, UsageError
from ..store.files import atomic_write
from ..store.lines import append_line, drop_cut_line, read_lines
from .versions import with_package

HEADER, EVENTS = "dialogue.json", "dialogue.jsonl"
FORM = 1
ENDS = ("satisfied", "out of patience", "topic ended", "turn limit")
"""Why a conversation ended: each rubric was met; the user gave up; the track's user had no further question; the run's limit."""


@dataclass(frozen=True)
class DialogueTurn:
    """A user's utterance and the system's response to it.

    Attributes:
        session: the conversation.
        turn: its number in the conversation, from 1.
        utterance: the user's words.
        response: the system's response, as it was sent.
        citations: docno -> score of the cited passages, best first.
        statements: the texts of the statements about the user that the response relies on.
        sources: the cited passages that were shown: ``docno``, ``text``, ``score``.
        rewrite: the query that was made of the utterance.
        queries: the queries that were searched.
        draft: an answer that the system wrote as its query.
        seconds: how long the system took.
        calls: the completions that the system used, whether they were paid for in this turn or known before (``more`` has the numbers
            ``paid_calls`` and ``cached``).
        cost: US dollars of all these completions at their models' prices, so that systems can be compared; None when a price or a token
            count is unknown. ``more`` has the part that was paid, ``paid_cost``, and that of the known ones, ``worth``.
        cut: how many tokens were cut off the response before it was sent.
        met: the ids of the rubrics that the response met first.
        more: other facts about the turn.
    """

    session: str
    turn: int
    utterance: str
    response: str
    citations: Mapping[str, float] = field(default_factory=dict)
    statements: tuple[str, ...] = ()
    sources: tuple[Mapping[str, Any], ...] = ()
    rewrite: str = ""
    queries: tuple[str, ...] = ()
    draft: str = ""
    seconds: float = 0.0
    calls: int = 0
    cost: float | None = None
    cut: int = 0
    met: tuple[str, ...] = ()
    more: Mapping[str, Any] = field(default_factory=dict)


@dataclass
class Dialogue:
    """A conversation.

    Attributes:
        session: its name.
        user: the user's id; the same user may have several conversations.
        rubrics: id -> the question that is to be answered; empty if the run has none.
        turns: the turns, in their order.
        sent: the numbers of the turns whose response the user has received.
        end: why it ended, see :data:`ENDS`; empty while it goes on.
    """

    session: str
    user: str
    rubrics: dict[str, str] = field(default_factory=dict)
    turns: list[DialogueTurn] = field(default_factory=list)
    sent: set[int] = field(default_factory=set)
    end: str = ""

    @property
    def met(self) -> dict[str, int]:
        """Rubric -> the turn that met it."""
        return {rubric: turn.turn for turn in self.turns for rubric in turn.met}

    @property
    def messages(self) -> list[dict[str, str]]:
        """The conversation as chat messages."""
        said = ((role, text) for turn in self.turns for role, text in (("user", turn.utterance), ("assistant", turn.response)))
        return [{"role": role, "content": text} for role, text in said if text]


class DialogueLog:
    """The conversations of one system, in a folder.

    Several threads may write into one log; several processes need a lock around it.

    Args:
        folder: the folder.

    Attributes:
        folder: the folder.

    Example:
        >>> log = DialogueLog.create("sims/raw", {"kind": "simulated", "system": "raw"})
        >>> log.begin("u1", "u1", {"r1": "Which tea has no caffeine?"})
        >>> log.append(DialogueTurn("u1", 1, "Which tea may I drink?", "Rooibos.", met=("r1",)))
        >>> log.end("u1", "satisfied")
        >>> [(one.session, one.met, one.end) for one in DialogueLog("sims/raw").dialogues()]
        [('u1', {'r1': 1}, 'satisfied')]
    """

    def __init__(self, folder: str | Path) -> None:
        self.folder = Path(folder)
        self._lock = threading.Lock()

    @classmethod
    def create(cls, folder: str | Path, header: Mapping[str, Any]) -> "DialogueLog":
        """The log in a folder, which is new or has the same header.

        Raises:
            UsageError: when the folder holds something else, or a log with another header; the differences are named.
        """
        log = cls(folder)
        if (log.folder / HEADER).exists():
            log.check(header)
            known = log.header.get("packages", [])
            if (packages := with_package(known, log.folder)) != known:
                log._write_header({**header, "packages": packages})
            drop_cut_line(log.folder / EVENTS)
            return log
        if log.folder.exists() and any(not one.name.startswith(".") for one in log.folder.iterdir()):
            raise UsageError(f"{folder} is not empty, and holds no log of conversations: give a new folder")
        log._write_header({**header, "packages": with_package([], log.folder)})
        return log

    def _write_header(self, header: Mapping[str, Any]) -> None:
        with atomic_write(self.folder / HEADER) as file:
            json.dump({"form": FORM, **header}, file, ensure_ascii=False, indent=1)

    def check(self, header: Mapping[str, Any]) -> None:
        """Check that the log is that of a run with this header, whatever versions of this package made it.

        Raises:
            UsageError: when it has another one; the differences are named.
        """
        found, wanted = self.header, json.loads(json.dumps({"form": FORM, **header}))
        if differs := [name for name in dict.fromkeys([*found, *wanted]) if name != "packages" and found.get(name) != wanted.get(name)]:
            told = "; ".join(f"{name} was {found.get(name)!r}, now {wanted.get(name)!r}" for name in differs)
            raise UsageError(f"{self.folder} holds other conversations ({told}): choose another folder, or repeat the first call")

    @staticmethod
    def is_in(folder: str | Path) -> bool:
        """Whether a folder holds a log of conversations."""
        return (Path(folder) / HEADER).is_file()

    @property
    def header(self) -> dict[str, Any]:
        """The description of the run.

        Raises:
            DataError: when the folder has none, or it can't be read.
        """
        path = self.folder / HEADER
        try:
            found = json.loads(path.read_text(encoding="utf-8"))
        except (OSError, ValueError) as error:
            raise DataError(f"{path} can't be read ({error}): give a folder that ikat interact or ikat simulate made") from None
        if not isinstance(found, dict) or found.get("form") != FORM:
            raise DataError(f"{path} is not a description of conversations in form {FORM}: make the folder again with this version")
        return found

    def begin(self, session: str, user: str, rubrics: Mapping[str, str] | None = None) -> None:
        """Note that a conversation begins."""
        self._write({"event": "session", "session": session, "user": user, "rubrics": dict(rubrics or {})})

    def append(self, turn: DialogueTurn) -> None:
        """Add a turn."""
        self._write({"event": "turn", **asdict(turn)})

    def mark_sent(self, session: str, turn: int) -> None:
        """Note that the user has received a response."""
        self._write({"event": "sent", "session": session, "turn": turn})

    def end(self, session: str, why: str) -> None:
        """Note that a conversation ended."""
        self._write({"event": "end", "session": session, "end": why})

    def dialogues(self) -> list[Dialogue]:
        """The conversations, in the order in which they began.

        Raises:
            DataError: naming the line that can't be read.
        """
        found: dict[str, Dialogue] = {}
        for number, event in read_lines(self.folder / EVENTS):
            try:
                _take(found, event)
            except (KeyError, TypeError, AttributeError) as error:
                raise DataError(
                    f"{self.folder / EVENTS}, line {number}, is not an event ({error!r}): remove the folder and run again"
                ) from None
        return list(found.values())

    def _write(self, event: Mapping[str, Any]) -> None:
        with self._lock:
            append_line(self.folder / EVENTS, json.dumps(event, ensure_ascii=False))


def _take(found: dict[str, Dialogue], event: Mapping[str, Any]) -> None:
    """Add an event to the conversations."""
    kind, session = event["event"], event["session"]
    if kind == "session":
        found.setdefault(session, Dialogue(session, event["user"], dict(event["rubrics"])))
    elif kind == "turn":
        known = {one.name for one in fields(DialogueTurn)}
        given: dict[str, Any] = {name: tuple(value) if isinstance(value, list) else value for name, value in event.items() if name in known}
        found[session].turns.append(DialogueTurn(**given))
    elif kind == "sent":
        found[session].sent.add(event["turn"])
    elif kind == "end":
        found[session].end = event["end"]
    else:
        raise KeyError(kind)
