"""What is known about the simulated users: personas from files, and a memory of earlier conversations."""

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Protocol

from ...errors import UsageError
from ...portable import digest
from ..persona import read_persona


class Memory(Protocol):
    """What is known about the users who come back; :class:`~pyterrier_ikat.generate.UserMemory` is one."""

    def known(self, user: str, session: str | None = None, turn: int | None = None) -> Mapping[str, str]:
        """The statements about a user that were known when a turn of a session began, by id."""
        ...

    def add(self, user: str, statements: Mapping[str, str]) -> None:
        """Keep statements of a persona; known ones are not added again."""
        ...

    def learn(self, user: str, session: str, messages: Sequence[Mapping[str, str]]) -> Any:
        """Learn from a conversation that has ended. After a kill it is called again with the same arguments."""
        ...


class Personas:
    """The statements about each user: of a file for all, or of the file of that name.

    Args:
        source: a file for all users, or a folder with a file for each; None for users without a persona.

    Raises:
        UsageError: when the folder has no persona.
        DataError: when a file can't be read.

    Example:
        >>> personas = Personas(None)
        >>> personas("f3333f5c"), personas.checksum()
        ({}, '')
    """

    def __init__(self, source: str | Path | None) -> None:
        path = None if source is None else Path(source)
        self._by_user: dict[str, dict[str, str]] | None = None
        self._all: dict[str, str] = {}
        if path is not None and path.is_dir() and not (path / "topics.jsonl").exists():
            files = sorted(file for file in path.iterdir() if file.suffix in (".txt", ".json", ".jsonl"))
            self._by_user = {file.stem: read_persona(file).ptkb for file in files}
            if not self._by_user:
                raise UsageError(f"the folder {path} has no persona: give it a file USER_ID.txt or USER_ID.json for each user")
        elif source is not None:
            self._all = read_persona(source).ptkb

    def __call__(self, user: str) -> Mapping[str, str]:
        """The statements about a user, by id."""
        return self._all if self._by_user is None else self._by_user.get(user, {})

    def checksum(self) -> str:
        """A checksum of all statements; empty where there are none."""
        held = self._all if self._by_user is None else self._by_user
        return digest(json.dumps(held, sort_keys=True)).hex() if held else ""
