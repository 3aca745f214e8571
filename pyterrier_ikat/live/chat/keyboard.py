"""The keyboard of a chat: what is pasted is one message, and Tab completes commands and names."""

import select
import sys
from collections.abc import Callable
from contextlib import suppress
from typing import Any

PASTED = 0.05
"""Seconds within which the next line of a paste is there."""


class Keyboard:
    """Asks for what the user says, with editing where the platform has it.

    Several lines that are there at once are one message. A terminal that marks what is pasted gives them whole; of others the lines are
    read that wait already, up to one that begins with ``alone``. Lines of a pipe are messages of their own, and printed as if they had
    been typed.

    Args:
        complete: returns the words that can replace the last one, from the text before the cursor.
        alone: begins a line that is never a part of others.
    """

    def __init__(self, complete: Callable[[str], list[str]], alone: str = "/") -> None:
        self.alone = alone
        self._left: list[str] = []
        with suppress(ImportError):
            import readline

            _edit_with(readline, complete)

    def __call__(self, prompt: str) -> str:
        """The user's next utterance."""
        if self._left:
            print(f"{prompt}{self._left[0]}")
            return self._left.pop()
        lines = [input(prompt)]
        if not sys.stdin.isatty():
            print(lines[0])
        elif lines[0].strip() and not lines[0].startswith(self.alone):
            with suppress(EOFError):
                self._read_on(lines)
        return "\n".join(lines)

    def _read_on(self, lines: list[str]) -> None:
        while _waits():
            line = input()
            if line.startswith(self.alone):
                self._left.append(line)
                return
            lines.append(line)


def _waits() -> bool:
    """Whether a line waits already."""
    try:
        return bool(select.select([sys.stdin], [], [], PASTED)[0])
    except (OSError, ValueError):  # on Windows, it takes no terminal
        return False


def _edit_with(readline: Any, complete: Callable[[str], list[str]]) -> None:
    """Have Tab complete, and take a paste as a whole. On a Mac, the module speaks the language of libedit, which can't do the latter."""

    def word(text: str, number: int) -> str | None:
        found = complete(readline.get_line_buffer()[: readline.get_endidx()])
        return found[number] if number < len(found) else None

    readline.set_completer_delims(" ")
    readline.set_completer(word)
    if "libedit" in (readline.__doc__ or ""):
        readline.parse_and_bind("bind ^I rl_complete")
        return
    readline.parse_and_bind("tab: complete")
    readline.parse_and_bind("set enable-bracketed-paste on")
