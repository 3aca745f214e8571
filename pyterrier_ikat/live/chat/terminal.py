"""A chat in the terminal: lines and commands in, answers out, and meanwhile the current step."""

import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from typing import Any, TextIO

from ...errors import IkatError, Terminated, UsageError, counted, did_you_mean, was_interrupted
from ...progress import without_bars
from ...runs.answered_turn import (
    WIDTH,
    help_drawn,
    plain,
    sources_drawn,
    strip_controls,
    turn_drawn,
    why_drawn,
)
from .conversation import Chat

COMMANDS = {
    "/why": "show how the last answer came about: queries, prompts, completions, calls and cost",
    "/sources": "show the whole passages of the last answer, with their scores",
    "/undo": "undo the last turn, also in the saved chat",
    "/help": "list the commands",
    "//TEXT": "say /TEXT: a line that begins with two slashes is not a command",
    "Ctrl-C": "stop an answer; at the prompt, end the chat",
    "Ctrl-D": "end the chat",
}
INPUT_PROMPT = "\nyou> "
SCREENFUL = 20_000
"""Characters that a screen has at most."""


class Screen:
    """The screen of a chat: drawn in a terminal, as plain text everywhere else.

    Args:
        stream: the output; None for the standard output.
        width: of the lines; None for that of the terminal, and 100 at most.
    """

    def __init__(self, stream: TextIO | None = None, width: int | None = None) -> None:
        self.stream = stream
        self.width = width

    def show(self, drawn: Any) -> None:
        """Print a text or a renderable of rich."""
        if self._terminal:
            self._console().print(drawn)
            return
        text = drawn if isinstance(drawn, str) else plain(drawn, self.width or WIDTH)
        print(text, file=self.stream or sys.stdout, flush=True)

    @contextmanager
    def doing(self, what: str) -> "Iterator[_Activity | None]":
        """Show the current step in a line while the block runs.

        The block gets the object that changes the line; None where there is no terminal.
        """
        if not self._terminal:
            yield None
            return
        from rich.live import Live

        console = self._console()
        activity = _Activity(what, console)
        live = Live(console=console, get_renderable=activity.drawn, transient=True)
        with without_bars(), live:
            activity.refresh = live.refresh
            yield activity

    @property
    def _terminal(self) -> bool:
        return (self.stream or sys.stdout).isatty()

    def _console(self) -> Any:
        from rich.console import Console

        console = Console(file=self.stream, highlight=False, markup=False, emoji=False)
        console.width = self.width or min(console.width, WIDTH)
        return console


class _Activity:
    """The current step with its seconds, below the answer so far.

    Of an answer that is longer than the screen, the end is shown.
    """

    def __init__(self, what: str, console: Any) -> None:
        from rich.spinner import Spinner

        self._console = console
        self._spinner = Spinner("dots")
        self._written = ""
        self.refresh: Callable[[], None] = lambda: None
        self.change(what)

    def change(self, what: str) -> None:
        """Begin another step."""
        self.what = what
        self.since = time.monotonic()

    def write(self, text: str) -> None:
        """Show the answer as far as it is written."""
        self._written = strip_controls(text)
        self.refresh()

    def drawn(self) -> Any:
        """Return the renderable for rich."""
        from rich.console import Group
        from rich.text import Text

        line = self.what
        seconds = int(time.monotonic() - self.since)
        if seconds > 0:
            line += f" ({seconds} s)"
        self._spinner.update(text=_dim(line))
        if not self._written:
            return self._spinner
        lines = Text(self._written[-SCREENFUL:]).wrap(self._console, self._console.width)
        fitting = max(1, self._console.height - 2)
        return Group(*lines[-fitting:], self._spinner)


def talk(
    chat: Chat, read: Callable[[str], str] | None = None, screen: Screen | None = None
) -> None:
    """Read the user's lines until the input ends or is interrupted, and show the system's turns.

    Lines that begin with a slash are commands. An error in a turn is shown, and the chat continues;
    so it does after Ctrl-C while the system answers. With recorded completions, an empty line means
    the recorded utterance.

    Args:
        chat: the conversation, which is changed.
        read: asks for what the user says; the terminal's input by default.
        screen: where to show it; the standard output by default.
    """
    read = read or keyboard()
    screen = screen or Screen()
    _greet(chat, screen)
    with suppress(EOFError, KeyboardInterrupt):
        while True:
            recorded = chat.expected()
            if recorded is not None:
                screen.show(_dim(f"\nrecorded (an empty line says it): {recorded}"))
            line = read(INPUT_PROMPT).strip()
            _react(chat, line or recorded or "", screen)
    turns = counted(len(chat.turns), "turn")
    if not chat.saved:
        screen.show(f"\n{turns}, not saved")
    elif chat.saved == len(chat.turns):
        screen.show(f"\n{turns}, saved in {chat.out}")
    else:
        screen.show(f"\n{turns}, only the first {chat.saved} saved in {chat.out}")


def _greet(chat: Chat, screen: Screen) -> None:
    greeting = f"method {chat.method}, " if chat.method else ""
    if chat.ptkb:
        greeting += f"{counted(len(chat.ptkb), 'statement')} about you"
    else:
        greeting += "no statements about you"
    if chat.remembered:
        greeting += f", {chat.remembered} remembered"
    keys = "/help lists the commands; Ctrl-C stops an answer, Ctrl-D ends the chat."
    screen.show(_dim(f"{greeting}. {keys}"))
    if chat.turns:
        last = chat.turns[-1]
        screen.show(_dim(f"continued after {counted(len(chat.turns), 'turn')}; the last one:"))
        screen.show(f"{INPUT_PROMPT}{strip_controls(last.utterance)}")
        screen.show(turn_drawn(last))


def _dim(text: str) -> Any:
    from rich.text import Text

    return Text(strip_controls(text), style="dim")


def _react(chat: Chat, line: str, screen: Screen) -> None:
    """Run a command, or say a line and show the turn. An error is shown; Ctrl-C stops it."""
    turns_before = len(chat.turns)
    try:
        if line.startswith("/") and not line.startswith("//"):
            _run_command(chat, line, screen)
        elif line:
            _say(chat, line.removeprefix("/"), screen)
    except IkatError as error:
        screen.show(f"ikat: {strip_controls(str(error))}")
    except BaseException as error:
        if isinstance(error, Terminated) or not was_interrupted(error):
            raise
        if len(chat.turns) > turns_before:
            screen.show("(stopped)")
        else:
            screen.show("(stopped: nothing of this turn is kept in the chat)")
    if len(chat.turns) > turns_before:
        # also a turn that couldn't be saved: it was answered, and is in the history
        turn = chat.turns[-1]
        why = turn.more.get("replaced")
        if why:
            screen.show(_dim(f"(replaced after its check: {strip_controls(why)})"))
        words = turn.more.get("shortened")
        if words:
            screen.show(_dim(f"(shortened to {counted(words, 'word')})"))
        screen.show(turn_drawn(turn))


def _say(chat: Chat, text: str, screen: Screen) -> None:
    """Say something, and show the current step meanwhile."""
    with screen.doing("thinking") as activity:
        if activity is None:
            chat.say(text)
        else:
            chat.say(text, activity.change, activity.write)


def _run_command(chat: Chat, line: str, screen: Screen) -> None:
    """Run a command.

    Raises:
        UsageError: for an unknown command, or words after one that takes none.
    """
    typed, _, argument = line.partition(" ")
    name = typed.lower()
    if name not in COMMANDS:
        repair = did_you_mean(name, COMMANDS) or "/help lists the commands"
        raise UsageError(
            f"there is no command {typed}: {repair} "
            "(to say a line that begins with a slash, begin it with two)"
        )
    if argument:
        raise UsageError(f"{name} takes nothing after it: type {name} alone")
    if name == "/why":
        screen.show(why_drawn(chat.why().turn, chat.why().account))
    elif name == "/sources":
        screen.show(sources_drawn(chat.why().turn))
    elif name == "/undo":
        turn = chat.undo()
        remaining = f"{counted(len(chat.turns), 'turn')} left"
        if chat.out is not None:
            remaining += f", also in {chat.out}"
        screen.show(_dim(f"undone: {turn.utterance} ({remaining})"))
    else:
        screen.show(help_drawn([*COMMANDS.items()]))


def keyboard() -> Callable[[str], str]:
    """Return a function that reads the user's words, with line editing where the platform has it.

    A paste of several lines is one message.
    """
    with suppress(ImportError):
        import readline

        readline.parse_and_bind("set enable-bracketed-paste on")

    def read(prompt: str) -> str:
        line = input(prompt)
        if not sys.stdin.isatty():
            print(line)  # as if it had been typed
        return line

    return read
