"""What else holds a user's words, by what the events of a memory note: completions in caches, and the folders of chats."""

import re
from collections.abc import Iterable, Sequence
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


def forget_conversation(event: Event) -> None:
    """Remove the conversation of an event from the folder of the chat that saved it, if it is still there."""
    log, name = _saved(event)
    if log is not None:
        log.rewrite(lambda found: None if found.get("session") == name else found)


def forget_words(event: Event, id: str) -> None:
    """Replace the turn that a statement comes from, and its words in other turns, in the folder of the chat that saved it."""
    log, name = _saved(event)
    for one in event["learned"] if log is not None else ():
        if one["id"] == id:
            texts = [r"\s+".join(map(re.escape, text.split())) for text in (one["words"], one["statement"]) if text]
            log.rewrite(_Without(name, one["message"], re.compile("|".join(texts), re.IGNORECASE)))


def _saved(event: Event) -> tuple[Any, str]:
    """The log that has the conversation of an event, and the conversation's name there; None where there is none."""
    folder = event.get("saved")
    if folder is None or not Log.is_in(folder):
        return None, ""
    log = Log(folder)
    name = next((one.session for one in log.dialogues() if one.more.get("memory") == event["session"]), None)
    return (None, "") if name is None else (log, name)


class _Without:
    """An event of a log without words of a conversation."""

    def __init__(self, name: str, turn: int, words: re.Pattern[str]) -> None:
        self.name, self.turn, self.words = name, turn, words

    def __call__(self, event: dict[str, Any]) -> dict[str, Any]:
        if event.get("session") != self.name:
            return event
        if event["event"] == "turn" and event.get("number") == self.turn:
            kept = Turn.read(event)
            return dict(turn_event(Turn(self.turn, FORGOTTEN, FORGOTTEN, session=self.name, method=kept.method, spend=kept.spend)))
        return {key: value if key in NAMES else self._cleaned(value) for key, value in event.items()}

    def _cleaned(self, value: Any) -> Any:
        if isinstance(value, str):
            return self.words.sub(FORGOTTEN, value)
        if isinstance(value, list):
            return [self._cleaned(one) for one in value]
        return {key: one if key == "memory" else self._cleaned(one) for key, one in value.items()} if isinstance(value, dict) else value
