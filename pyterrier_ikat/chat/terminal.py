"""A chat in the terminal: the method, input and output."""

import sys
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

from ..conversations import conversation
from ..errors import IkatError, UsageError
from ..llms import LLM, Ledger
from ..methods import find
from ..operator import parts_of
from ..running.comparison import check_system, load_models
from ..running.systems import Resources
from .conversation import Chat
from .persona import read_persona

PROMPT = "\nyou> "


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
    chat = Chat(system, who.ptkb, number=who.number, save_to=save_to, script=script, method=name)
    load_models([system])
    return chat
