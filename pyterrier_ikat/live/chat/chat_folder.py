"""The folder of a chat: its log, by which it is continued, and a topics file that `ikat run` takes."""

import os
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from ...errors import DataError, UsageError, advice, list_first, option
from ...runs.answered_turn import Turn
from ...runs.log import TOPICS, Dialogue, Log, not_saved, topics_of, write_topics
from ...store.locks import lock_folders
from .chat_memory import ME

HEADER = {"kind": "chat", "system": ""}
KINDS = ("chat", "served")
"""The kinds of logs that a chat continues."""


class ChatFolder:
    """The folder that a chat is saved in after each turn.

    Args:
        path: a new folder, or with ``continues`` that of a saved chat.
        continues: whether the folder exists already, and is continued.
        number: the conversation to continue; needed where the folder has several, as that of a server.

    Attributes:
        path: the folder.
        turns: the turns that the log has.

    Raises:
        UsageError: when a new folder already exists, or can't be made.
        DataError: when a folder to continue is missing, or holds no chat.
    """

    def __init__(self, path: str | Path, *, continues: bool = False, number: str | None = None) -> None:
        self.path, self.turns = Path(path), list[Turn]()
        self._log: Log | None = None
        self._others: list[Dialogue] = []
        self._told: Any = None
        if not continues:
            _require_new(self.path)
            return
        self.begun, self._others = _read(self.path, number)
        self._log = Log.create(self.path, Log(self.path).header)
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
                    log.append(replace(turn.without_texts(), session=number))
                    self.turns[place : place + 1] = [turn]
        except OSError as error:
            raise not_saved(self.path, error) from None
        topics = [topics_of(one.session, one.more["ptkb"], one.turns) for one in self._others if one.turns]
        if topics := [*topics, *([topics_of(number, ptkb, turns)] if turns else [])]:
            write_topics(self.path / TOPICS, topics)
        else:
            (self.path / TOPICS).unlink(missing_ok=True)


def _require_new(path: Path) -> None:
    if path.exists():
        repair = advice("continue it with continue_from=...", f"continue it with --continue {path}")
        raise UsageError(f"{path} already exists: save the chat in a new folder, or {repair}")
    there = next(folder for folder in path.absolute().parents if folder.exists())
    if not (there.is_dir() and os.access(there, os.W_OK)):
        raise UsageError(f"the chat can't be saved in {path}: {there} can't be written to; give another folder")


def _read(path: Path, number: str | None) -> tuple[Dialogue, list[Dialogue]]:
    """The conversation to continue, and the others of the folder."""
    if path.is_file():
        raise DataError(f"{path} is a file, in which earlier versions saved chats: begin a new chat with {option('save')}, a folder")
    if not Log.is_in(path):
        raise DataError(f"there is no chat {path} to continue: check the path, or begin a new chat with {option('save')}")
    log = Log(path)
    if (kind := log.header.get("kind")) not in KINDS or not (found := log.dialogues()):
        raise DataError(f"{path} is not the folder of a chat ({kind}): give a folder that a chat was saved in")
    if kind == "served":
        with lock_folders(path):  # which a server holds while it runs
            pass
    chosen = found if len(found) == 1 else [one for one in found if one.session == number]
    if not chosen:
        names = list_first([one.session for one in found])
        raise UsageError(f"{path} holds {len(found)} conversations ({names}): choose one with {advice('number=...', '--conversation')}")
    return chosen[0], [one for one in found if one is not chosen[0]]
