"""The conversations of a server as logs, where its operator asks for them: a log for each system, whose sessions the clients name."""

import hashlib
import itertools
import re
import threading
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path

from ...errors import IkatError, UsageError
from ...runs.answered_turn import Turn
from ...runs.log import TOPICS, Dialogue, Event, Log, session_event, topics_of, turn_event, write_topics
from ...store.locks import lock_folders
from ...study.in_folders import check_names
from ...study.systems import System
from ..answering import settings_of
from .replies import log
from .requests import ChatRequest


class SavedConversations:
    """The logs of a server.

    A request holds the whole conversation, so that its log follows it: where the user has changed an earlier question, the turns from there
    on are replaced; a turn that was answered elsewhere is noted as the client tells it. What begins with another question is another
    conversation, ``<id>.2``, ``<id>.3``, ...

    Args:
        folder: each system gets a folder in it.
        systems: the systems by name.

    Attributes:
        folder: as given.

    Raises:
        UsageError: when a folder holds the conversations of another system, another process writes into it, or it can't be made.
    """

    def __init__(self, folder: str | Path, systems: Mapping[str, System]) -> None:
        self.folder = Path(folder)
        check_names(systems)
        self._lock, self._held = threading.Lock(), ExitStack()
        self._held.enter_context(lock_folders(*(self.folder / name for name in systems)))
        try:
            headers = {
                name: {"kind": "served", "system": name, "recorded": one.replays, **settings_of(one)} for name, one in systems.items()
            }
            self._logs = {name: Log.create(self.folder / name, header) for name, header in headers.items()}
            self._write_topics()  # of what a killed server left
        except BaseException:
            self._held.close()
            raise

    def save(self, system: str, chat: str, asked: ChatRequest, turn: Turn) -> Turn:
        """Note a turn in the conversation that its client calls ``chat``; the turn says whether it is saved.

        A log that can't be written is told in the server's own log: the answer is there, and goes to its user.
        """
        try:
            with self._lock:
                said = list(exchanges(asked.said))
                session, known = self._session(self._logs[system], safe_name(chat), said[0][0])
                self._logs[system].note(*_events(session, asked.metadata.ptkb, turn, known, said))
        except (OSError, UsageError) as error:
            log.error("a conversation with %s can't be saved: %s", system, getattr(error, "strerror", None) or error)
            return turn
        return replace(turn, more={**turn.more, "saved": True})

    def _session(self, written: Log, name: str, first: str) -> tuple[str, Dialogue | None]:
        """The conversation of that name that begins with these words, as the log has it, or a new one."""
        for number in itertools.count(1):
            session = name + f".{number}" * (number > 1)
            known = written.known.get(session)
            if known is None or not known.turns or known.turns[0].utterance == first:
                break
        return session, known

    def close(self) -> None:
        """Write each log's topics file, and let others write into the folders."""
        with self._held:
            self._write_topics()

    def _write_topics(self) -> None:
        for name, written in self._logs.items():
            try:
                if topics := topics_of(written.dialogues()):
                    write_topics(written.folder / TOPICS, topics)
            except IkatError as error:
                log.error("there is no topics file of the conversations with %s: %s", name, error)


def safe_name(chat: str) -> str:
    """The name under which a conversation is saved, which becomes a part of qids: the client's, or its letters and a digest.

    Example:
        >>> safe_name("7d1-a"), safe_name("room 7")
        ('7d1-a', 'room-7-f64ddcb7b2ac1be3')
    """
    if re.fullmatch(r"[A-Za-z0-9][A-Za-z0-9._-]{0,99}", chat):
        return chat
    plain = re.sub(r"[^A-Za-z0-9]+", "-", chat).strip("-")[:60] or "chat"
    return f"{plain}-{hashlib.sha256(chat.encode(errors='surrogatepass')).hexdigest()[:16]}"


def _events(session: str, ptkb: Mapping[str, str], turn: Turn, known: Dialogue | None, said: Sequence[tuple[str, str]]) -> Iterator[Event]:
    """What a request says of its conversation that the log doesn't have."""
    noted = [] if known is None else [one.utterance for one in known.turns]
    if known is None or known.more["ptkb"] != ptkb:
        yield session_event(session, session, ptkb=ptkb, memory="")
    same = next((place for place, (ours, theirs) in enumerate(zip(noted, said, strict=False)) if ours != theirs[0]), len(noted))
    for number, (utterance, response) in enumerate(said[same:-1], same + 1):  # what only the client knows
        yield turn_event(Turn(number, utterance, response, session=session))
    yield turn_event(replace(turn.without_texts(), session=session, number=len(said)))
    for number in range(len(noted), len(said), -1):
        yield {"event": "undone", "session": session, "turn": number}


def exchanges(messages: Sequence[Mapping[str, str]]) -> Iterator[tuple[str, str]]:
    """The user's words and what was said next, of each turn; what the assistant says before the first is omitted.

    Example:
        >>> said = [("assistant", "Welcome!"), ("user", "Hi"), ("user", "Which tea?"), ("assistant", "Rooibos."), ("user", "And cold?")]
        >>> list(exchanges([{"role": role, "content": text} for role, text in said]))
        [('Hi', ''), ('Which tea?', 'Rooibos.'), ('And cold?', '')]
    """
    asked = [place for place, message in enumerate(messages) if message["role"] == "user"]
    for place, following in zip(asked, [*asked[1:], len(messages)], strict=True):
        yield messages[place]["content"], "\n".join(message["content"] for message in messages[place + 1 : following])
