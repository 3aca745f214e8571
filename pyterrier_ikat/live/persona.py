"""Statements about users: from a text file, a topics file or a dataset, and from a memory."""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ..conversations import datasets, read_topics
from ..conversations.frame import statements_of
from ..errors import DataError, UsageError, advice, list_first
from ..memory import UserMemory


@dataclass(frozen=True)
class Persona:
    """The persona of a chat.

    Attributes:
        ptkb: statement id -> statement.
        number: the conversation's name; qids are ``<number>_<turn>``.
        utterances: the user's utterances, turn by turn, in the persona's topics file.
    """

    ptkb: dict[str, str]
    number: str = "chat"
    utterances: tuple[str, ...] = ()


def read_persona(source: str | Path, number: str | None = None) -> Persona:
    """Read a persona.

    Args:
        source: a text file with one statement per line; a topics file of TREC iKAT, or
            ``topics.jsonl``; or a dataset, such as ``ikat:sample`` or a folder.
        number: the conversation's name; if ``source`` has several conversations, the conversation
            with the wanted persona.

    Raises:
        DataError: when the file is missing, unreadable or holds no statements.
        UsageError: when ``number`` isn't one word, or ``source`` has several conversations and none
            has that name.

    Example:
        >>> persona = read_persona("ikat:sample", "2-1")
        >>> persona.number, len(persona.ptkb), len(persona.utterances)
        ('2-1', 10, 6)
    """
    path = Path(source)
    is_dataset = (
        path.is_dir()
        or str(source).startswith(datasets.IKAT_PREFIX)
        or str(source) in datasets.DATASETS
    )
    if is_dataset:
        conversations = datasets.dataset(source).conversations
    elif path.suffix in (".json", ".jsonl"):
        conversations = read_topics(path)
    else:
        return user_of(_read_statements(path), number=number)
    chosen = [chat for chat in conversations if number is None or chat.number == number]
    if len({chat.number for chat in chosen}) != 1:
        names = list_first(list(dict.fromkeys(chat.number for chat in conversations)))
        repair = advice("number=...", "--conversation")
        raise UsageError(f"{source} has the conversations {names}: choose one with {repair}")
    newest = chosen[-1]  # has the last statements of a conversation whose persona changes
    utterances = [turn.utterance for chat in chosen for turn in chat.turns]
    return Persona(newest.ptkb, newest.number, tuple(utterances))


def _read_statements(path: Path) -> list[str]:
    """Read the lines of a text file, without blank ones."""
    try:
        lines = path.read_text(encoding="utf-8-sig").split("\n")
    except (OSError, ValueError) as error:
        raise DataError(
            f"the persona {path} can't be read ({error}): give UTF-8 text, one statement per line"
        ) from None
    statements = [line.strip() for line in lines if line.strip()]
    if not statements:
        raise DataError(f"the persona {path} has no statements: give one statement per line")
    return statements


def user_of(ptkb: Any, source: str | Path | None = None, number: str | None = None) -> Persona:
    """Make the persona of a chat from statements, or read it.

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
    if source is not None and ptkb is not None:
        raise UsageError("ptkb and persona both say what is known of the user: omit one")
    if source is not None:
        return read_persona(source, number)
    if number is not None and len(number.split()) != 1:
        raise UsageError(
            f"the conversation's name {number!r} can't be part of a qid: "
            "give one word, such as chat-1"
        )
    return Persona(statements_of(ptkb), number or Persona.number)


def read_personas(source: str | Path) -> dict[str, dict[str, str]]:
    """Read the statements about users.

    Args:
        source: a folder with a file ``USER_ID.txt`` for each user, or a file for all users.

    Returns:
        The user's id -> the statements; those of a file for all have the id ``""``.

    Raises:
        UsageError: when there is no such file.
        DataError: when a file can't be read.
    """
    if not Path(source).is_dir():
        return {"": read_persona(source).ptkb}
    files = sorted(Path(source).glob("*.txt"))
    if not files:
        raise UsageError(
            f"{source} has no persona: "
            "give it a file USER_ID.txt for each user, one statement per line"
        )
    return {file.stem: read_persona(file).ptkb for file in files}


def open_memory(memory: Any, llm: Any, prompts: str | Path | None = None, *, run: str = "") -> Any:
    """Open a memory for learning: the given one, or a file with a language model.

    Returns:
        The memory; None for None.

    Raises:
        UsageError: when there is no language model, the file can't be written, or it is no memory.
    """
    if isinstance(memory, str | Path):
        memory = UserMemory(memory, llm, run=run, prompts=None if prompts is None else str(prompts))
    if isinstance(memory, UserMemory):
        memory.require_learning()
    elif memory is not None:
        raise UsageError(f"memory is a {type(memory).__name__}: give a UserMemory, or its file")
    return memory


def known_of(
    memory: UserMemory | None, user: str, persona: Mapping[str, str], session: str, turn: int
) -> Mapping[str, str]:
    """Return the persona's statements, and those learned before this turn."""
    if memory is None:
        return persona
    memory.add(user, persona)
    return memory.known(user, session, turn)
