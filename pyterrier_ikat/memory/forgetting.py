"""What else holds a user's words, by what the events of a memory note: completions in caches, and the folders of chats."""

import re
from collections.abc import Iterable, Sequence
from functools import partial
from pathlib import Path
from typing import Any

from ..events import Heard
from ..llms.cache import IN_MEMORY, CompletionCache
from ..llms.request import of_chain
from ..runs.answered_turn import Turn
from ..runs.log import Log, turn_event
from .history import Event

FORGOTTEN = "[forgotten]"
NAMES = ("event", "session", "user")


def keys_of(heard: Sequence[Heard]) -> dict[str, list[str]]:
    """Of each cache file, the keys of the completions of these exchanges."""
    found: dict[str, dict[str, None]] = {}
    for llm, (request, _) in heard:
        if llm.cache is not None and llm.cache.path != IN_MEMORY:
            path = str(Path(llm.cache.path).absolute())
            found.setdefault(path, {})[of_chain(request).key(llm.backend.identity)] = None
    return {path: list(keys) for path, keys in found.items()}


def places(asked: Sequence[Heard], saved: str | Path | None) -> dict[str, Any]:
    """Where else the words of an event are, as it notes it."""
    return {"asked": keys_of(asked), **({} if saved is None else {"saved": str(Path(saved).absolute())})}


def tells_of(event: Event, session: str | None, id: str | None) -> bool:
    """Whether an event tells of a statement; without its id, of a session; without both, of the user."""
    if id is not None:
        return event["event"] == "learned" and any(one["id"] == id and one["statement"] for one in event["learned"])
    return session is None or bool(event["session"] == session)


def without(event: Event, id: str | None) -> Event:
    """An event without the text of a statement: what it replaced stays replaced, and its message is not learned from again."""
    return {**event, "learned": [{**one, "statement": "", "words": ""} if one["id"] == id else one for one in event["learned"]]}


def forget_elsewhere(gone: Sequence[Event], events: Sequence[Event], id: str | None) -> None:
    """Remove from caches and saved chats what the events ``gone`` of a user's events tell of; a statement, if it has an id.

    The first conversation that tells of it and all later ones are looked at, because their prompts may have shown it.

    Raises:
        DataError: when a file can't be written.
    """
    first = next(place for place, event in enumerate(events) if event["session"] == gone[0]["session"])
    forget_completions(events[first:])
    forget_saved(gone, events[first:], id)


def forget_completions(events: Iterable[Event]) -> None:
    """Remove the completions that the events note from the cache files that are still there.

    Raises:
        DataError: when a file can't be written.
    """
    keys: dict[str, set[str]] = {}
    for event in events:
        for path, some in event.get("asked", {}).items():
            keys.setdefault(path, set()).update(some)
    for path, some in keys.items():
        if Path(path).exists():
            cache = CompletionCache(path)
            cache.remove(some)
            cache.close()


def forget_saved(gone: Sequence[Event], later: Sequence[Event], id: str | None) -> None:
    """Remove what is forgotten from the folders of chats that are still there.

    Conversations of a user or session are removed. Of a statement the turn that it comes from is replaced, and its words in the other turns
    of this conversation. In later conversations, which knew the statements, their texts are replaced.

    Args:
        gone: the events that tell of it.
        later: the events from the first conversation that tells of it on.
        id: the statement; None for all that was learned.
    """
    learned: dict[str, list[dict[str, Any]]] = {}
    for event in gone:
        learned.setdefault(event["session"], []).extend(one for one in event.get("learned", ()) if id in (None, one["id"]))
    statements = [one["statement"] for some in learned.values() for one in some]
    for folder, session in dict.fromkeys((event["saved"], event["session"]) for event in later if "saved" in event):
        log = Log(folder)
        name = _name_of(session, log) if Log.is_in(folder) else None
        if name is not None and id is None and session in learned:
            log.rewrite(partial(_others, name))
        elif name is not None:
            own = learned.get(session, [])
            words = _pattern([*statements, *(one["words"] for one in own)])
            log.rewrite(_Without(name, {one["message"] for one in own}, words))


def _others(name: str, event: dict[str, Any]) -> dict[str, Any] | None:
    return None if event.get("session") == name else event


def _name_of(session: str, log: Log) -> str | None:
    """The name that a conversation has in the log that a chat saved it in."""
    return next((one.session for one in log.dialogues() if one.more.get("memory") == session), None)


def _pattern(texts: Iterable[str]) -> re.Pattern[str]:
    """A pattern of whole words; spaces and case don't count."""
    pieces = [r"(?<!\w)" + r"\s+".join(map(re.escape, text.split())) + r"(?!\w)" for text in texts if text.strip()]
    return re.compile("|".join(pieces) or "(?!)", re.IGNORECASE)


class _Without:
    """An event of a log without words of a conversation."""

    def __init__(self, name: str, turns: set[int], words: re.Pattern[str]) -> None:
        self.name, self.turns, self.words = name, turns, words

    def __call__(self, event: dict[str, Any]) -> dict[str, Any]:
        if event.get("session") != self.name:
            return event
        if event["event"] == "turn" and event.get("number") in self.turns:
            kept = Turn.read(event)
            return dict(turn_event(Turn(kept.number, FORGOTTEN, FORGOTTEN, session=self.name, method=kept.method, spend=kept.spend)))
        return {key: value if key in NAMES else self._cleaned(value) for key, value in event.items()}

    def _cleaned(self, value: Any) -> Any:
        if isinstance(value, str):
            return self.words.sub(FORGOTTEN, value)
        if isinstance(value, list):
            return [self._cleaned(one) for one in value]
        return {key: one if key == "memory" else self._cleaned(one) for key, one in value.items()} if isinstance(value, dict) else value
