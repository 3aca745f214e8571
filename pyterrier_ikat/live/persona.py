"""What is known of users: statements from a text file, a topics file or a dataset, and the file of a memory."""

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
    named = (
        path.is_dir() or str(source).startswith(datasets.PREFIX) or str(source) in datasets.DATASETS
    )
    if not named and path.suffix not in (".json", ".jsonl"):
        try:
            statements = list(
                filter(None, map(str.strip, path.read_text(encoding="utf-8-sig").split("\n")))
            )
        except (OSError, ValueError) as error:
            raise DataError(
                f"the persona {path} can't be read ({error}): give UTF-8 text, one statement per line"
            ) from None
        if not statements:
            raise DataError(f"the persona {path} has no statements: give one statement per line")
        return user_of(statements, number=number)
    conversations = datasets.dataset(source).conversations if named else read_topics(path)
    chosen = [one for one in conversations if number in (None, one.number)]
    if len({one.number for one in chosen}) != 1:
        names = list_first(list(dict.fromkeys(one.number for one in conversations)))
        raise UsageError(
            f"{source} has the conversations {names}: choose one with {advice('number=...', '--conversation')}"
        )
    # the newest statements of a conversation whose persona changes
    return Persona(
        chosen[-1].ptkb,
        chosen[-1].number,
        tuple(turn.utterance for one in chosen for turn in one.turns),
    )


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
    if source is not None and ptkb is not None:
        raise UsageError("ptkb and persona both say what is known of the user: omit one")
    if source is not None:
        return read_persona(source, number)
    if number is not None and len(number.split()) != 1:
        raise UsageError(
            f"the conversation's name {number!r} can't be part of a qid: give one word, such as chat-1"
        )
    return Persona(statements_of(ptkb), number or Persona.number)


def read_personas(source: str | Path) -> dict[str, dict[str, str]]:
    """The statements about users, by the user's id: those of ``USER_ID.txt`` in a folder; or under ``""`` those of a file for all.

    Raises:
        UsageError: when there is no such file.
        DataError: when a file can't be read.
    """
    apart = Path(source).is_dir()
    files = sorted(Path(source).glob("*.txt")) if apart else [source]
    if not files:
        raise UsageError(
            f"{source} has no persona: give it a file USER_ID.txt for each user, one statement per line"
        )
    return {Path(file).stem * apart: read_persona(file).ptkb for file in files}


def open_memory(memory: Any, llm: Any, prompts: str | Path | None = None, *, run: str = "") -> Any:
    """A memory that can learn: the given one, or that in a file, which learns with a language model; None for None.

    Raises:
        UsageError: when there is no language model, or the file can't be written.
    """
    if isinstance(memory, str | Path):
        memory = UserMemory(memory, llm, run=run, prompts=None if prompts is None else str(prompts))
    if isinstance(memory, UserMemory):
        memory.require_learning()
    return memory


def known_of(
    memory: UserMemory | None, user: str, persona: Mapping[str, str], session: str, turn: int
) -> Mapping[str, str]:
    """The statements that a turn sees: the persona's, and those that the memory has learned before it."""
    if memory is None:
        return persona
    memory.add(user, persona)
    return memory.known(user, session, turn)
