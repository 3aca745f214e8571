"""A chat in the terminal: lines and commands in, answers and commands' results out, and what the system is doing meanwhile."""

import difflib
import sys
import time
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from typing import Any, TextIO

import pandas as pd

from ...errors import IkatError, Terminated, UsageError, counted, was_interrupted
from ...llms import LLM
from ...llms.failures import KEPT
from ...methods import METHODS
from ...operator import parts_of
from ...progress import without_bars
from ...runs.turn_shown import WIDTH, help_drawn, plain, sources_drawn, strip_controls, turn_drawn, why_drawn
from .conversation import Chat

MARK = "/"
"""Begins a line that no model ever sees."""
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
            print(drawn if isinstance(drawn, str) else plain(drawn, self.width or WIDTH), file=self.stream or sys.stdout, flush=True)

    @contextmanager
    def doing(self, what: str) -> "Iterator[_Step | None]":
        """While the block runs, a line says what is done; the block gets what changes it. None where there is no terminal."""
        if not self._terminal:
            yield None
            return
        from rich.live import Live

        console = self._console()
        step = _Step(what, console)
        with without_bars(), _warnings_above(console), Live(console=console, get_renderable=step.drawn, transient=True) as live:
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


@contextmanager
def _warnings_above(console: Any) -> Iterator[None]:
    """In the block, warnings are on separate lines and not at the end of the progress line."""
    before = warnings.showwarning
    warnings.showwarning = lambda message, *_, **__: console.print(f"ikat: warning: {strip_controls(str(message))}")
    try:
        yield
    finally:
        warnings.showwarning = before


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
        lines = Text(self._written[-SCREENFUL:]).wrap(self._console, self._console.width)[-max(1, self._console.height - 2) :]
        return Group(*lines, self._spinner) if self._written else self._spinner


def talk(chat: Chat, read: Callable[[str], str] | None = None, screen: Screen | None = None) -> None:
    """Read the user's lines until the input ends or is interrupted, and show the system's turns.

    Lines that begin with a slash are commands. An error in a turn is shown, and the chat continues; so it does after Ctrl-C while the
    system answers. With recorded completions, an empty line means the recorded utterance.

    Args:
        chat: the conversation, which is changed.
        read: asks for what the user says; the terminal's input by default.
        screen: where to show it; the standard output by default.
    """
    read, screen = keyboard(completions) if read is None else read, Screen() if screen is None else screen
    _greet(chat, screen)
    with suppress(EOFError, KeyboardInterrupt):
        while True:
            wanted = chat.expected()
            if wanted is not None:
                screen.show(_dim(f"\nrecorded (an empty line says it): {wanted}"))
            line = read(PROMPT).strip() or wanted
            if line:
                _take(chat, line, screen)
    said = f"\n{counted(len(chat.turns), 'turn')}"
    only = "" if chat.saved == len(chat.turns) else f"only the first {chat.saved} "
    screen.show(f"{said}, {only}saved in {chat.save_to}" if chat.saved else f"{said}, not saved")


def _greet(chat: Chat, screen: Screen) -> None:
    who = f"{counted(len(chat.ptkb), 'statement')} about you" if chat.ptkb else "no statements about you"
    who += f", {chat.remembered} remembered" * bool(chat.remembered)
    named = f"method {chat.method}, " if chat.method else ""
    screen.show(_dim(f"{named}{who}. /help lists the commands; Ctrl-C stops an answer, Ctrl-D ends the chat."))
    for note in chat.notes:
        screen.show(_dim(note))
    if chat.turns:
        last = chat.turns[-1]
        screen.show(_dim(f"continued after {counted(len(chat.turns), 'turn')}; the last one:"))
        screen.show(f"{PROMPT}{strip_controls(last.utterance)}")
        screen.show(turn_drawn(last))


def _dim(text: str) -> Any:
    from rich.text import Text

    return Text(strip_controls(text), style="dim")


def _take(chat: Chat, line: str, screen: Screen) -> None:
    """Run a command, or say the line; whatever the user can repair is one message."""
    try:
        command = read_command(line)
        if isinstance(command, Command):
            COMMANDS[command.name].run(chat, command.argument, screen)
        else:
            _say(chat, command, screen)
    except IkatError as error:
        screen.show(f"ikat: {strip_controls(str(error))}")


def _say(chat: Chat, text: str, screen: Screen) -> None:
    said = len(chat.turns)
    try:
        with screen.doing("thinking") as step:
            chat.say(text, *([] if step is None else [step.change, step.write]))
    except IkatError as error:
        screen.show(f"ikat: {strip_controls(str(error))}{_made(chat, answered=True) if len(chat.turns) == said else ''}")
    except BaseException as error:
        if isinstance(error, Terminated) or not was_interrupted(error):
            raise
        screen.show(f"(stopped{'' if len(chat.turns) > said else ': nothing of this turn is kept'}{_made(chat)})")
    if len(chat.turns) > said:  # also one that couldn't be saved: it was answered, and is in the history
        turn = chat.turns[-1]
        if why := turn.more.get("replaced"):
            screen.show(_dim(f"(replaced after its check: {strip_controls(why)})"))
        screen.show(turn_drawn(turn))


def _made(chat: Chat, answered: bool = False) -> str:
    """The calls of a turn without an answer, their cost, and where they are; empty where there was none.

    Args:
        chat: the chat.
        answered: omit stages none of whose calls was answered, as an error says it.
    """
    models, account = [part for part in parts_of(chat.system) if isinstance(part, LLM)], chat.spent.frame()
    if answered:
        account = account[account["prompt_tokens"].isna() | (account["prompt_tokens"] > 0)]
    calls, cost = int(account["calls"].sum()), account["cost"].sum(skipna=False)
    if not calls or all(model.backend.replays for model in models):
        return ""
    kept = {model.kept_in for model in models}
    where = KEPT["file"] if kept == {"file"} else KEPT["process"] if kept == {"process"} else "they are not all kept"
    price = "" if pd.isna(cost) else f" ({cost:.4f} USD)"
    return f"; {counted(calls, 'call')}{price} {'were' if calls != 1 else 'was'} made: {where}"


def _why(chat: Chat, argument: str, screen: Screen) -> None:
    why = chat.why()
    screen.show(why_drawn(why.turn, why.account))


def _sources(chat: Chat, argument: str, screen: Screen) -> None:
    screen.show(sources_drawn(chat.why().turn))


def _undo(chat: Chat, argument: str, screen: Screen) -> None:
    turn = chat.undo()
    left = f"{counted(len(chat.turns), 'turn')} left"
    saved = "" if chat.save_to is None else f", also in {chat.save_to}"
    screen.show(_dim(f"undone: {turn.utterance} ({left}{saved})"))


def _method(chat: Chat, argument: str, screen: Screen) -> None:
    if argument:
        with screen.doing(f"loading {argument}"):
            chat.use(argument)
    screen.show(_dim(f"method {chat.method or repr(chat.system)}"))
    for note in chat.notes:
        screen.show(_dim(note))


def _help(chat: Chat, argument: str, screen: Screen) -> None:
    keys = [("Ctrl-C", "stop an answer; at the prompt, end the chat"), ("Ctrl-D", "end the chat")]
    screen.show(help_drawn([*list_commands(), *keys]))


@dataclass(frozen=True)
class _Kind:
    """The argument and the effect of a command.

    Attributes:
        does: one line for ``/help``.
        run: does it.
        argument: the name of the argument that it may take; empty where it takes none.
    """

    does: str
    run: Callable[[Chat, str, Screen], None]
    argument: str = ""


COMMANDS = {
    "why": _Kind("show how the last answer came about: queries, prompts, completions, calls and cost", _why),
    "sources": _Kind("show the whole passages of the last answer, with their scores", _sources),
    "undo": _Kind("undo the last turn, also in the saved chat", _undo),
    "method": _Kind("show the method, or continue with the method NAME", _method, "NAME"),
    "help": _Kind("list the commands", _help),
}


@dataclass(frozen=True)
class Command:
    """A command that the user typed.

    Attributes:
        name: one of ``COMMANDS``, without the slash.
        argument: the words after it; empty where there are none.
    """

    name: str
    argument: str = ""


def read_command(line: str) -> Command | str:
    """A line as a command, or as the words to say.

    Args:
        line: what the user typed. A line that begins with two slashes is said with one.

    Raises:
        UsageError: for an unknown command, or an argument that the command does not take.

    Example:
        >>> read_command("/method gtr"), read_command("Which tea?"), read_command("//etc is full, why?")
        (Command(name='method', argument='gtr'), 'Which tea?', '/etc is full, why?')
    """
    line = line.strip()
    if not line.startswith(MARK):
        return line
    if line.startswith(MARK * 2):
        return line.removeprefix(MARK)
    typed, _, argument = line.removeprefix(MARK).partition(" ")
    name, argument = typed.lower(), argument.strip()
    if name not in COMMANDS:
        near = difflib.get_close_matches(name, COMMANDS, 1)
        repair = f"did you mean /{near[0]}?" if near else "/help lists the commands"
        raise UsageError(f"there is no command /{typed}: {repair} (to say a line that begins with a slash, begin it with two)")
    if argument and not COMMANDS[name].argument:
        raise UsageError(f"/{name} takes nothing after it: type /{name} alone")
    return Command(name, argument)


def completions(typed: str) -> list[str]:
    """The possible last words of a command: commands, and after ``/method`` the names of methods.

    Example:
        >>> completions("/me"), completions("/method raw_h"), completions("Which tea?")
        (['/method '], ['raw_hybrid'], [])
    """
    name, given, argument = typed.removeprefix(MARK).partition(" ")
    if not typed.startswith(MARK):
        return []
    if given:
        names = [one.name for one in METHODS.values() if not one.manual] if name == "method" else []
        return [one for one in names if one.startswith(argument)]
    return [f"{MARK}{one}" + " " * bool(kind.argument) for one, kind in COMMANDS.items() if one.startswith(name)]


def list_commands() -> list[tuple[str, str]]:
    """Each command as it is typed, and what it does.

    Example:
        >>> [typed for typed, _ in list_commands()]
        ['/why', '/sources', '/undo', '/method [NAME]', '/help', '//TEXT']
    """
    typed = [(f"{MARK}{name}" + f" [{kind.argument}]" * bool(kind.argument), kind.does) for name, kind in COMMANDS.items()]
    return [*typed, ("//TEXT", "say /TEXT: a line that begins with two slashes is not a command")]


def keyboard(complete: Callable[[str], list[str]]) -> Callable[[str], str]:
    """What asks for the user's next words: with editing where the platform has it, where Tab completes, and a paste is one message.

    Args:
        complete: returns the words that can replace the last one, from the text before the cursor.
    """
    with suppress(ImportError):
        import readline

        def word(text: str, number: int) -> str | None:
            found = complete(readline.get_line_buffer()[: readline.get_endidx()])
            return found[number] if number < len(found) else None

        readline.set_completer_delims(" ")
        readline.set_completer(word)
        mac = "libedit" in (readline.__doc__ or "")  # which can't take a paste as a whole
        for setting in ["bind ^I rl_complete"] if mac else ["tab: complete", "set enable-bracketed-paste on"]:
            readline.parse_and_bind(setting)

    def read(prompt: str) -> str:
        line = input(prompt)
        if not sys.stdin.isatty():
            print(line)  # as if it had been typed
        return line

    return read
