"""A chat in the terminal: lines and commands in, answers and commands' results out, and what the system is doing meanwhile."""

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
PROMPT = "\nyou> "
SCREENFUL = 20_000
"""Characters that a screen has at most."""


class Screen:
    """Where a chat is shown: drawn in a terminal, as plain text everywhere else.

    Args:
        stream: the output; None for the standard output.
        width: of the lines; None for that of the terminal, and 100 at most.
    """

    def __init__(self, stream: TextIO | None = None, width: int | None = None) -> None:
        self.stream, self.width = stream, width

    def show(self, drawn: Any) -> None:
        """Print a text or something that rich draws."""
        if self._terminal:
            self._console().print(drawn)
        else:
            print(
                drawn if isinstance(drawn, str) else plain(drawn, self.width or WIDTH),
                file=self.stream or sys.stdout,
                flush=True,
            )

    @contextmanager
    def doing(self, what: str) -> "Iterator[_Step | None]":
        """While the block runs, a line says what is done; the block gets what changes it. None where there is no terminal."""
        if not self._terminal:
            yield None
            return
        from rich.live import Live

        console = self._console()
        step = _Step(what, console)
        with (
            without_bars(),
            Live(console=console, get_renderable=step.drawn, transient=True) as live,
        ):
            step.refresh = live.refresh
            yield step

    @property
    def _terminal(self) -> bool:
        return (self.stream or sys.stdout).isatty()

    def _console(self) -> Any:
        from rich.console import Console

        console = Console(file=self.stream, highlight=False, markup=False, emoji=False)
        console.width = self.width or min(console.width, WIDTH)
        return console


class _Step:
    """The current step with its seconds, below the answer so far, or below its end if it is longer than the screen."""

    def __init__(self, what: str, console: Any) -> None:
        from rich.spinner import Spinner

        self._console, self._spinner, self._written = console, Spinner("dots"), ""
        self.refresh: Callable[[], None] = lambda: None
        self.change(what)

    def change(self, what: str) -> None:
        """Something else is done."""
        self.what, self.since = what, time.monotonic()

    def write(self, text: str) -> None:
        """The answer is so long by now."""
        self._written = strip_controls(text)
        self.refresh()

    def drawn(self) -> Any:
        """As rich asks for it."""
        from rich.console import Group
        from rich.text import Text

        seconds = int(time.monotonic() - self.since)
        self._spinner.update(text=_dim(self.what + f" ({seconds} s)" * (seconds > 0)))
        lines = Text(self._written[-SCREENFUL:]).wrap(self._console, self._console.width)[
            -max(1, self._console.height - 2) :
        ]
        return Group(*lines, self._spinner) if self._written else self._spinner


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
    read, screen = read or keyboard(), screen or Screen()
    _greet(chat, screen)
    with suppress(EOFError, KeyboardInterrupt):
        while True:
            wanted = chat.expected()
            if wanted is not None:
                screen.show(_dim(f"\nrecorded (an empty line says it): {wanted}"))
            _react(chat, read(PROMPT).strip() or wanted or "", screen)
    said = f"\n{counted(len(chat.turns), 'turn')}"
    only = "" if chat.saved == len(chat.turns) else f"only the first {chat.saved} "
    screen.show(f"{said}, {only}saved in {chat.save_to}" if chat.saved else f"{said}, not saved")


def _greet(chat: Chat, screen: Screen) -> None:
    who = (
        f"{counted(len(chat.ptkb), 'statement')} about you"
        if chat.ptkb
        else "no statements about you"
    )
    who += f", {chat.remembered} remembered" * bool(chat.remembered)
    named = f"method {chat.method}, " if chat.method else ""
    screen.show(
        _dim(
            f"{named}{who}. /help lists the commands; Ctrl-C stops an answer, Ctrl-D ends the chat."
        )
    )
    if chat.turns:
        last = chat.turns[-1]
        screen.show(_dim(f"continued after {counted(len(chat.turns), 'turn')}; the last one:"))
        screen.show(f"{PROMPT}{strip_controls(last.utterance)}")
        screen.show(turn_drawn(last))


def _dim(text: str) -> Any:
    from rich.text import Text

    return Text(strip_controls(text), style="dim")


def _react(chat: Chat, line: str, screen: Screen) -> None:
    """Run a command, or say a line and show the turn. An error is shown; Ctrl-C stops it."""
    before = len(chat.turns)
    try:
        if line.startswith("/") and not line.startswith("//"):
            _run(chat, line, screen)
        elif line:
            with screen.doing("thinking") as step:
                chat.say(
                    line.removeprefix("/"), *([] if step is None else [step.change, step.write])
                )
    except IkatError as error:
        screen.show(f"ikat: {strip_controls(str(error))}")
    except BaseException as error:
        if isinstance(error, Terminated) or not was_interrupted(error):
            raise
        screen.show(
            f"(stopped{'' if len(chat.turns) > before else ': nothing of this turn is kept in the chat'})"
        )
    if (
        len(chat.turns) > before
    ):  # also one that couldn't be saved: it was answered, and is in the history
        turn = chat.turns[-1]
        if why := turn.more.get("replaced"):
            screen.show(_dim(f"(replaced after its check: {strip_controls(why)})"))
        screen.show(turn_drawn(turn))


def _run(chat: Chat, line: str, screen: Screen) -> None:
    """Run a command.

    Raises:
        UsageError: for an unknown command, or words after one that takes none.
    """
    typed, _, argument = line.partition(" ")
    name = typed.lower()
    if name not in COMMANDS:
        repair = did_you_mean(name, COMMANDS) or "/help lists the commands"
        raise UsageError(
            f"there is no command {typed}: {repair} (to say a line that begins with a slash, begin it with two)"
        )
    if argument:
        raise UsageError(f"{name} takes nothing after it: type {name} alone")
    if name == "/why":
        screen.show(why_drawn(chat.why().turn, chat.why().account))
    elif name == "/sources":
        screen.show(sources_drawn(chat.why().turn))
    elif name == "/undo":
        turn, saved = chat.undo(), "" if chat.save_to is None else f", also in {chat.save_to}"
        screen.show(
            _dim(f"undone: {turn.utterance} ({counted(len(chat.turns), 'turn')} left{saved})")
        )
    else:
        screen.show(help_drawn([*COMMANDS.items()]))


def keyboard() -> Callable[[str], str]:
    """What asks for the user's next words: with editing and history where the platform has them, and a paste is one message."""
    with suppress(ImportError):
        import readline

        readline.parse_and_bind("set enable-bracketed-paste on")

    def read(prompt: str) -> str:
        line = input(prompt)
        if not sys.stdin.isatty():
            print(line)  # as if it had been typed
        return line

    return read
