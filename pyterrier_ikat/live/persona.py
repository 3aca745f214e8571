"""What is known of users: statements from a text file, JSON, a topics file or a dataset, and the file of a memory."""

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from ..conversations import Conversation, datasets, read_topics
from ..conversations.datasets import DATASETS, PREFIX
from ..conversations.frame import is_persona
from ..errors import DataError, UsageError, advice, list_first, option
from ..memory import UserMemory

NUMBER = "chat"
EVERYBODY = ""
"""The key of statements about all users."""


@dataclass(frozen=True)
class Persona:
    """The persona of a chat.

    Attributes:
        ptkb: statement id -> statement.
        number: the conversation's name; qids are ``<number>_<turn>``.
        utterances: the user's utterances, turn by turn, in the persona's topics file.
    """

    ptkb: dict[str, str] = field(default_factory=dict)
    number: str = NUMBER
    utterances: tuple[str, ...] = ()


def read_persona(source: str | Path, number: str | None = None) -> Persona:
    """Read a persona.

    Args:
        source: a text file with one statement per line; a JSON file with a list of statements or an object id -> statement; a topics file
            of TREC iKAT, or ``topics.jsonl``; or a dataset, such as ``ikat:sample`` or a folder.
        number: the conversation's name; if ``source`` has several conversations, the conversation with the wanted persona.

    Raises:
        DataError: when the file is missing, unreadable or holds no statements.
        UsageError: when ``number`` isn't one word, or ``source`` has several conversations and none has that name.

    Example:
        >>> persona = read_persona("ikat:sample", "2-1")
        >>> persona.number, len(persona.ptkb), len(persona.utterances)
        ('2-1', 10, 6)
    """
    path = Path(source)
    if path.is_dir() or (not path.exists() and (str(source).startswith(PREFIX) or str(source) in DATASETS)):
        return _persona_of(datasets.dataset(source).conversations, source, number)
    try:
        text = path.read_text(encoding="utf-8-sig")
        found = json.loads(text) if path.suffix.lower() == ".json" else [line.strip() for line in text.split("\n") if line.strip()]
    except (OSError, ValueError) as error:
        raise DataError(f"the persona {path} can't be read ({error}): give UTF-8 text, or JSON in a file that ends in .json") from None
    if path.suffix == ".jsonl" or (isinstance(found, list) and found and isinstance(found[0], dict)):
        return _persona_of(read_topics(path), source, number)
    if not found or not is_persona(found) or not all(text.strip() for text in (found.values() if isinstance(found, dict) else found)):
        raise DataError(
            f"the persona {path} has no statements, or a blank one: give one statement per line, a JSON list of them, or a topics file"
        )
    return user_of(found, number=number)


def user_of(ptkb: Any, source: str | Path | None = None, number: str | None = None) -> Persona:
    """Who talks: the statements themselves, or where they come from.

    Args:
        ptkb: a dict id -> statement, or a list of statements; None for none, or with ``source``.
        source: see :func:`read_persona`.
        number: the conversation's name.

    Raises:
        UsageError: when ``ptkb`` is something else, both are given, or ``number`` isn't one word.
        DataError: see :func:`read_persona`.

    Example:
        >>> user_of(["I like tea."]).ptkb
        {'1': 'I like tea.'}
    """
    if source is not None:
        if ptkb is not None:
            raise UsageError("ptkb and persona both say what is known of the user: omit one")
        return read_persona(source, number)
    if not is_persona(ptkb):
        raise UsageError(f"ptkb={repr(ptkb)[:80]}: give a dict of statements by id, or a list of statements such as ['I like tea.']")
    if number is not None and len(number.split()) != 1:
        raise UsageError(f"the conversation's name {number!r} can't be part of a qid: give one word, such as chat-1")
    statements = ptkb if isinstance(ptkb, Mapping) else {str(place): text for place, text in enumerate(ptkb or [], 1)}
    return Persona(dict(statements), number or NUMBER)


def _persona_of(conversations: list[Conversation], source: str | Path, number: str | None) -> Persona:
    chosen = [one for one in conversations if number in (None, one.number)]
    if len({one.number for one in chosen}) != 1:
        names = list_first(list(dict.fromkeys(one.number for one in conversations)))
        raise UsageError(f"{source} has the conversations {names}: choose one with {advice('number=...', '--conversation')}")
    newest = chosen[-1]  # of a conversation whose persona changes
    return Persona(newest.ptkb, newest.number, tuple(turn.utterance for one in chosen for turn in one.turns))


def read_personas(source: str | Path) -> dict[str, dict[str, str]]:
    """The statements about users, by the user's id: of the file of that name in a folder, or under :data:`EVERYBODY` of a file for all.

    Raises:
        UsageError: when there is no statement.
        DataError: when a file can't be read.
    """
    folder = Path(source)
    if folder.is_dir() and not (folder / "topics.jsonl").exists():
        files = sorted(file for file in folder.iterdir() if file.suffix in (".txt", ".json", ".jsonl"))
        found = {file.stem: read_persona(file).ptkb for file in files}
    else:
        found = {EVERYBODY: read_persona(source).ptkb}
    if not any(found.values()):
        raise UsageError(f"{source} has no persona: give it a file USER_ID.txt or USER_ID.json for each user")
    return found


def open_memory(memory: Any, llm: Any, prompts: str | Path | None = None, *, run: str = "") -> Any:
    """A memory that can learn: the given one, or that in a file, which learns with a language model; None for None.

    Raises:
        UsageError: when there is no language model, or the file can't be written.
    """
    if isinstance(memory, str | Path):
        if not hasattr(llm, "ask"):
            raise UsageError(f"a memory learns with a language model: give {option('llm')}")
        memory = UserMemory(memory, llm, run=run, prompts=None if prompts is None else str(prompts))
    if isinstance(memory, UserMemory):
        memory.require_learning()
    return memory


def known_of(memory: UserMemory | None, user: str, persona: Mapping[str, str], session: str, turn: int) -> Mapping[str, str]:
    """The statements that a turn sees: the persona's, and those that the memory has learned before it."""
    if memory is None:
        return persona
    if persona:
        memory.add(user, persona)
    return memory.known(user, session, turn)
