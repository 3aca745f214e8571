"""The file of a chat: a topics file that `ikat run` takes, and from which the chat can be continued."""

import json
import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from ..conversations import read_topics
from ..errors import DataError, UsageError, advice, option
from ..operator import digest
from ..store.files import atomic_write
from .turn import ChatTurn, Source

FIELDS = {"number", "title", "ptkb", "turns", "memory"}
TURN_FIELDS = {"turn_id", "utterance", "response", "response_provenance", "ikat"}
DETAILS = ("rewrite", "queries", "statements", "draft", "seconds", "calls", "cached", "tokens", "cost", "method", "omitted")
"""What the file keeps of a turn beside the fields of a topics file; the texts of passages stay in the index."""


class SavedChat(NamedTuple):
    """A chat as its file has it; ``session`` is its name in a memory, empty without one."""

    number: str
    ptkb: dict[str, str]
    turns: list[ChatTurn]
    session: str = ""


def topics_of(chat: SavedChat) -> list[dict[str, Any]]:
    """A chat as a topics file of TREC iKAT 2023 and 2024; ``response_provenance`` has the passages that were used."""
    memory = {"memory": chat.session} if chat.session else {}
    return [{"number": chat.number, "title": "", "ptkb": dict(chat.ptkb), **memory, "turns": [_saved(turn) for turn in chat.turns]}]


def _saved(turn: ChatTurn) -> dict[str, Any]:
    used = [source.docno for source in turn.sources] if turn.response else []
    details = {name: getattr(turn, name) for name in DETAILS} | {"sources": [[source.docno, source.score] for source in turn.sources]}
    said = {"turn_id": turn.turn_id, "utterance": turn.utterance, "response": turn.response, "response_provenance": used}
    return {**said, "ikat": details}


def as_json(topics: Sequence[Mapping[str, Any]]) -> bytes:
    """A topics file's content."""
    return json.dumps(topics, ensure_ascii=False, indent=1).encode("utf-8", "replace")


def write_chat(path: str | Path, content: bytes) -> None:
    """Write a chat, whole or not at all.

    Raises:
        UsageError: when the file can't be written.
    """
    try:
        with atomic_write(path, "wb") as file:
            file.write(content)
    except OSError as error:
        raise UsageError(f"the chat can't be saved in {path} ({error.strerror}): {_repair('repair that')}") from None


class ChatFile:
    """The file that a chat is saved in after each turn.

    Args:
        path: a new file, or with ``continues`` that of a saved chat.
        continues: whether the file exists already, and is continued.

    Attributes:
        path: the file.

    Raises:
        UsageError: when a new file already exists, or can't be written.
    """

    def __init__(self, path: str | Path, *, continues: bool = False) -> None:
        self.path = Path(path)
        self._ours: set[bytes] = set()
        if continues:
            self._ours.add(digest(self.path.read_bytes()))
        else:
            _require_new(self.path)

    def write(self, topics: Sequence[Mapping[str, Any]]) -> None:
        """Write the chat; without turns, which no topics file may lack, the file is removed.

        Raises:
            UsageError: when the file can't be written, or something else has changed it since the last turn.
        """
        now = self._digest()
        if now is not None and now not in self._ours:
            repair = _repair("move that file away")
            raise UsageError(f"the chat can't be saved in {self.path}: another program has changed that file; {repair}")
        if not topics[0]["turns"]:
            self.path.unlink(missing_ok=True)
            return
        content = as_json(topics)
        self._ours.add(digest(content))  # first: an interrupt may come when the file is in its place
        write_chat(self.path, content)

    def _digest(self) -> bytes | None:
        try:
            return digest(self.path.read_bytes()) if self.path.is_file() else None
        except OSError as error:
            raise UsageError(f"the chat can't be saved in {self.path} ({error.strerror}): {_repair('repair that')}") from None


def _repair(command: str) -> str:
    return advice("save it elsewhere", f"{command}, and the next turn saves all turns")


def _require_new(path: Path) -> None:
    if path.exists():
        repair = advice("continue it with continue_from=...", f"continue it with --continue {path}")
        raise UsageError(f"{path} already exists: save the chat in a new file, or {repair}")
    there = next(folder for folder in path.absolute().parents if folder.exists())
    if not (there.is_dir() and os.access(there, os.W_OK)):
        raise UsageError(f"the chat can't be saved in {path}: {there} can't be written to; give another file")


def read_chat(path: str | Path) -> SavedChat:
    """Read the file of a chat.

    Raises:
        DataError: when it is missing, or not the file of a chat.
    """
    path = Path(path)
    if not path.exists():
        raise DataError(f"there is no chat {path} to continue: check the path, or begin a new chat with {option('save')}")
    (topic, *others), raw = read_topics(path), json.loads(path.read_bytes())
    foreign = set(raw[0]) - FIELDS | {name for turn in raw[0].get("turns", []) for name in set(turn) - TURN_FIELDS}
    if others or foreign or raw[0].get("title"):
        has = "several conversations" if others else f"the field {min(foreign)}" if foreign else "a title"
        raise DataError(
            f"{path} is not the file of a chat, because it has {has}, which would be lost: give a file that a chat was saved in"
        )
    try:
        turns = [_turn(turn.turn_id, entry) for turn, entry in zip(topic.turns, raw[0]["turns"], strict=True)]
    except (TypeError, ValueError, AttributeError, KeyError) as error:
        raise DataError(f"{path} has a turn with a damaged field ikat ({error}): remove this field from all turns") from None
    if [turn.turn_id for turn in turns] != list(range(1, len(turns) + 1)):
        raise DataError(
            f"{path} is not the file of a chat: its turns aren't numbered 1 to {len(turns)}; give a file that a chat was saved in"
        )
    return SavedChat(topic.number, dict(topic.ptkb), turns, str(raw[0].get("memory", "")))


def _turn(turn_id: int, entry: Mapping[str, Any]) -> ChatTurn:
    details = entry.get("ikat") or {}
    sources = details.get("sources") or [[docno, None] for docno in entry.get("response_provenance", [])]
    return ChatTurn(
        turn_id,
        entry["utterance"],
        entry["response"],
        sources=tuple(Source(docno, "", score) for docno, score in sources),
        rewrite=details.get("rewrite", ""),
        queries=tuple(details.get("queries", ())),
        statements=tuple(details.get("statements", ())),
        draft=details.get("draft", ""),
        ranking={docno: score for docno, score in sources if score is not None},
        seconds=details.get("seconds", 0.0),
        calls=details.get("calls", 0),
        cached=details.get("cached", 0),
        tokens=details.get("tokens"),
        cost=details.get("cost"),
        method=details.get("method", ""),
        omitted=details.get("omitted", 0),
    )
