"""A chat in the terminal: the persona, the method, input and output."""

import json
import sys
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from ..conversations import Conversation, conversation, datasets, read_topics
from ..conversations.datasets import DATASETS, PREFIX
from ..errors import DataError, IkatError, UsageError, advice
from ..llms import LLM, Ledger
from ..methods import find
from ..operator import parts_of
from ..running.comparison import check_system, load_models
from ..running.systems import Resources
from .conversation import Chat

PROMPT = "\nyou> "
NUMBER = "chat"


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


def read_persona(source: str | Path | None = None, number: str | None = None) -> Persona:
    """Read a persona.

    Args:
        source: a text file with one statement per line; a JSON file with a list of statements or an object id -> statement; a topics file
            of TREC iKAT, or ``topics.jsonl``; or a dataset, such as ``ikat:sample`` or a folder. None for a user without a persona.
        number: the conversation's name; if ``source`` has several conversations, the conversation with the wanted persona.

    Raises:
        DataError: when the file is missing, unreadable or holds no statements.
        UsageError: when ``number`` isn't one word, or ``source`` has several conversations and none has that name.

    Example:
        >>> persona = read_persona("ikat:sample", "2-1")
        >>> persona.number, len(persona.ptkb), len(persona.utterances)
        ('2-1', 10, 6)
    """
    if number is not None and len(number.split()) != 1:
        raise UsageError(f"the conversation's name {number!r} can't be part of a qid: give one word, such as chat-1")
    if source is None:
        return Persona(number=number or NUMBER)
    path = Path(source)
    if path.is_dir() or str(source).startswith(PREFIX) or (str(source) in DATASETS and not path.exists()):
        data = datasets.dataset(path if path.is_dir() else source)
        return _persona_of(data.conversations, data.name, number)
    if path.suffix == ".jsonl":
        return _persona_of(read_topics(path), str(path), number)
    found = _content(path)
    if isinstance(found, list) and found and all(isinstance(item, dict) for item in found):
        return _persona_of(read_topics(path), str(path), number)
    if not isinstance(found, list | dict):
        raise DataError(f"the persona {path} holds {json.dumps(found)[:40]}: give a JSON list of statements, or a topics file")
    statements = found if isinstance(found, dict) else {str(place): item for place, item in enumerate(found, 1)}
    wrong = next((name for name, statement in statements.items() if not isinstance(statement, str) or not statement.strip()), None)
    if wrong is not None or not statements:
        what = "has no statement" if not statements else f"has no text as statement {wrong}"
        raise DataError(f"the persona {path} {what}: give one statement per line, or a JSON list of statements")
    return Persona(statements, number or NUMBER)


def _content(path: Path) -> Any:
    try:
        text = path.read_bytes().decode("utf-8-sig")
        return json.loads(text) if path.suffix.lower() == ".json" else [line.strip() for line in text.split("\n") if line.strip()]
    except FileNotFoundError:
        raise DataError(f"there is no persona file {path}: check the path") from None
    except (OSError, ValueError, RecursionError) as error:
        raise DataError(f"the persona {path} can't be read ({error}): give UTF-8 text, or JSON in a file that ends in .json") from None


def _persona_of(conversations: list[Conversation], source: str, number: str | None) -> Persona:
    chosen = [one for one in conversations if number in (None, one.number)]
    if len({one.number for one in chosen}) != 1:
        wanted = "several conversations" if number is None else f"no conversation {number}"
        names = dict.fromkeys(one.number for one in conversations)
        raise UsageError(f"{source} has {wanted}: choose one of {', '.join(names)} with {advice('number=...', '--conversation')}")
    newest = chosen[-1]  # of a conversation whose persona changes
    return Persona(newest.ptkb, newest.number, tuple(turn.utterance for one in chosen for turn in one.turns))


def talk(chat: Chat, read: Callable[[str], str] | None = None, echo: Callable[[str], None] = print) -> None:
    """Read the user's lines until the input ends or is interrupted, and print the system's turns.

    An error in a turn is printed, and the chat continues. With recorded completions, an empty line stands for the recorded utterance.

    Args:
        chat: the conversation, which is changed.
        read: asks for a line; the terminal's input by default.
        echo: prints.
    """
    read = read_line if read is None else read
    with suppress(EOFError, KeyboardInterrupt):
        while True:
            wanted = chat.expected()
            if wanted is not None:
                echo(f"\nrecorded (an empty line says it): {wanted}")
            text = read(PROMPT).strip() or wanted
            if text:
                _answer(chat, text, echo)
    said = f"\n{len(chat.turns)} turn{'s' * (len(chat.turns) != 1)}"
    only = "" if chat.saved == len(chat.turns) else f"only the first {chat.saved} "
    echo(f"{said}, {only}saved in {chat.save_to}" if chat.saved else f"{said}, not saved")


def read_line(prompt: str) -> str:
    """A line from the keyboard, with editing where the platform has it; one from a pipe is printed as if it had been typed."""
    with suppress(ImportError):
        import readline  # noqa: F401
    line = input(prompt)
    if not sys.stdin.isatty():
        print(line)
    return line


def _answer(chat: Chat, text: str, echo: Callable[[str], None]) -> None:
    said = len(chat.turns)
    try:
        chat.say(text)
    except IkatError as error:
        echo(f"ikat: {error}")
    if len(chat.turns) > said:  # also one that couldn't be saved: it was answered, and is in the history
        echo(repr(chat.turns[-1]))


def open_chat(
    name: str,
    ledger: Ledger,
    *,
    persona: str | Path | None = None,
    number: str | None = None,
    save_to: str | Path | None = None,
    **options: Any,
) -> Chat:
    """Check every name, load every model, and open a chat.

    Args:
        name: the method.
        ledger: the account that the LLMs count in.
        persona: see :func:`read_persona`.
        number: see :func:`read_persona`.
        save_to: see :class:`Chat`.
        options: the resources, see :class:`~pyterrier_ikat.running.Resources`.

    Raises:
        UsageError: for an unknown or manual method, a missing resource, or a model that can't be loaded.
        DataError: for an index, persona or recorded file that can't be used.
    """
    entry = find(name)
    if entry.manual:
        raise UsageError(f"method {name} needs the manual rewrite of each turn, and a chat has none: choose another")
    who, resources = read_persona(persona, number), Resources.of(options, [entry]).opened(ledger)
    system = resources.build(entry)
    recorded = any(isinstance(one, LLM) and one.backend.replays for one in parts_of(system))
    script = who.utterances if recorded and who.utterances else None
    check_system(name, system, conversation([{"role": "user", "content": "?"}]), resources.index)
    chat = Chat(system, who.ptkb, number=who.number, save_to=save_to, script=script)
    load_models([system])
    return chat
