"""The entries of a memory of users: what each turn taught, and what of it holds. Pure functions."""

from collections.abc import Mapping, Sequence
from typing import Any

from ..conversations.frame import is_message
from ..errors import UsageError
from ..portable import digest

Entry = dict[str, Any]
"""What was learned on one call: ``session``, ``turn`` (its last), ``said`` (the digests of the user's messages) and ``learned``."""
Messages = Sequence[Mapping[str, str]]


def check_entries(entries: Sequence[Entry]) -> None:
    """Raises KeyError or TypeError where an entry lacks something."""
    for entry in entries:
        kinds = {"session": str, "turn": int, "said": list, "learned": list}
        statements = [{"id": str, "statement": str, "message": int, "words": str, "replaces": list} for _ in entry["learned"]]
        for fields, wanted in [(entry, kinds), *zip(entry["learned"], statements, strict=True)]:
            if not all(isinstance(fields[name], kind) for name, kind in wanted.items()):
                raise TypeError


def words_of(messages: Messages) -> list[str]:
    """The user's messages."""
    if not all(map(is_message, messages)):
        raise UsageError('a message is not {"role": "user" or "assistant", "content": text}')
    said = [message["content"] for message in messages if message["role"] == "user"]
    if not said:
        raise UsageError("the user has said nothing yet: give a conversation with at least one message of the user")
    return said


def until(messages: Messages, turn: int) -> Messages:
    """The conversation up to the user's message of a turn."""
    places = [place for place, message in enumerate(messages) if message["role"] == "user"]
    return messages[: places[turn - 1] + 1]


def digests(said: Sequence[str]) -> list[str]:
    """Of each message its checksum, by which a message that was changed is recognised."""
    return [digest(text).hex() for text in said]


def last_turn(entries: Sequence[Entry], session: str) -> int:
    """The last turn of a session that was learned from."""
    return max((entry["turn"] for entry in entries if entry["session"] == session), default=0)


def not_taken_back(entries: Sequence[Entry], session: str, said: Sequence[str]) -> list[Entry]:
    """The entries without those that were learned after the first turn that the user now has said otherwise."""
    now, otherwise = digests(said), [len(said) + last_turn(entries, session) + 1]
    for entry in entries:
        if entry["session"] == session:
            start = entry["turn"] - len(entry["said"])
            pairs = enumerate(zip(entry["said"], now[start:], strict=False), start + 1)
            otherwise += [turn for turn, (then, text) in pairs if then != text]
    return [entry for entry in entries if entry["session"] != session or entry["turn"] < min(otherwise)]


def learned_before(entries: Sequence[Entry], session: str, said: Sequence[str]) -> list[dict[str, Any]] | None:
    """What was learned from the last of these messages on an earlier call; None when it wasn't learned from."""
    kept = [entry for entry in not_taken_back(entries, session, said) if entry["session"] == session and entry["turn"] >= len(said)]
    return [one for one in kept[0]["learned"] if one["message"] <= len(said)] if kept else None


def known_in(entries: Sequence[Entry]) -> dict[str, str]:
    """The statements that hold after these entries, by id."""
    known: dict[str, str] = {}
    for one in (one for entry in entries for one in entry["learned"]):
        for number in one["replaces"]:
            known.pop(number, None)
        known[one["id"]] = one["statement"]
    return known


def ids_in(entries: Sequence[Entry]) -> set[str]:
    """The ids that stand for a statement, or stood for one."""
    return {one["id"] for entry in entries for one in entry["learned"]}
