"""The folder of a chat: its log, by which it is continued, and a topics file that `ikat run` takes."""

import json
import os
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from ...errors import DataError, UsageError, advice, option
from ...runs.answered_turn import Turn
from ...runs.log import Dialogue, Log
from ...store.files import atomic_write
from .remembering import ME

TOPICS = "topics.json"
HEADER = {"kind": "chat", "system": ""}


def topics_of(number: str, ptkb: Mapping[str, str], turns: Sequence[Turn]) -> list[dict[str, Any]]:
    """A chat as a topics file of TREC iKAT 2023 and 2024; ``response_provenance`` has the passages that were used."""
    return [{"number": number, "title": "", "ptkb": dict(ptkb), "turns": [_topic_turn(turn) for turn in turns]}]


def _topic_turn(turn: Turn) -> dict[str, Any]:
    used = [source.docno for source in turn.sources] if turn.response else []
    return {"turn_id": turn.number, "utterance": turn.utterance, "response": turn.response, "response_provenance": used}


def write_topics(path: str | Path, topics: Sequence[Mapping[str, Any]]) -> None:
    """Write a topics file, whole or not at all.

    Raises:
        UsageError: when the file can't be written.
    """
    try:
        with atomic_write(path, "wb") as file:
            file.write(json.dumps(topics, ensure_ascii=False, indent=1).encode("utf-8", "replace"))
    except OSError as error:
        raise _not_saved(path, error) from None


def _not_saved(path: str | Path, error: OSError) -> UsageError:
    repair = advice("save it elsewhere", "repair that, and the next turn saves all turns")
    return UsageError(f"the chat can't be saved in {path} ({error.strerror}): {repair}")


class ChatFolder:
    """The folder that a chat is saved in after each turn.

    Args:
        path: a new folder, or with ``continues`` that of a saved chat.
        continues: whether the folder exists already, and is continued.

    Attributes:
        path: the folder.
        turns: the turns that the log has.

    Raises:
        UsageError: when a new folder already exists, or can't be made.
        DataError: when a folder to continue is missing, or holds no chat.
    """

    def __init__(self, path: str | Path, *, continues: bool = False) -> None:
        self.path, self.turns = Path(path), list[Turn]()
        self._log: Log | None = None
        self._told: Any = None
        if not continues:
            _require_new(self.path)
            return
        self.begun = _read(self.path)
        self._log = Log.create(self.path, HEADER)
        self.turns, self._told = list(self.begun.turns), (self.begun.session, self.begun.more)

    def save(self, number: str, ptkb: Mapping[str, str], memory: str, turns: Sequence[Turn]) -> None:
        """Note what the log lacks, and write the topics file; a chat without turns has none.

        Raises:
            UsageError: when something can't be written, or something else has changed the log since the last turn.
        """
        try:
            log = self._log = self._log or Log.create(self.path, HEADER)
            if (facts := (number, {"ptkb": dict(ptkb), "memory": memory})) != self._told:
                log.begin(number, ME, ptkb=dict(ptkb), memory=memory)
                self._told = facts
            for gone in self.turns[len(turns) :]:
                log.note({"event": "undone", "session": number, "turn": gone.number})
                self.turns.remove(gone)
            for place, turn in enumerate(turns):
                if turn not in self.turns[place : place + 1]:
                    log.append(_kept(turn, number))
                    self.turns[place : place + 1] = [turn]
        except OSError as error:
            raise _not_saved(self.path, error) from None
        if turns:
            write_topics(self.path / TOPICS, topics_of(number, ptkb, turns))
        else:
            (self.path / TOPICS).unlink(missing_ok=True)


def _kept(turn: Turn, number: str) -> Turn:
    """What the log keeps of a turn: the texts of passages stay in the index."""
    sources = tuple(replace(source, text="") for source in turn.sources)
    return replace(turn, session=number, sources=sources, citations={one.docno: one.score for one in sources if one.score is not None})


def _require_new(path: Path) -> None:
    if path.exists():
        repair = advice("continue it with continue_from=...", f"continue it with --continue {path}")
        raise UsageError(f"{path} already exists: save the chat in a new folder, or {repair}")
    there = next(folder for folder in path.absolute().parents if folder.exists())
    if not (there.is_dir() and os.access(there, os.W_OK)):
        raise UsageError(f"the chat can't be saved in {path}: {there} can't be written to; give another folder")


def _read(path: Path) -> Dialogue:
    if path.is_file():
        raise DataError(f"{path} is a file, in which earlier versions saved chats: begin a new chat with {option('save')}, a folder")
    if not Log.is_in(path):
        raise DataError(f"there is no chat {path} to continue: check the path, or begin a new chat with {option('save')}")
    log = Log(path)
    if (kind := log.header.get("kind")) != "chat" or not (found := log.dialogues()):
        raise DataError(f"{path} is not the folder of a chat ({kind}): give a folder that a chat was saved in")
    return found[0]
