"""The commands of a chat: lines that begin with a slash. No model ever sees them."""

import difflib
from dataclasses import dataclass

from ...errors import UsageError

MARK = "/"


@dataclass(frozen=True)
class Command:
    """A command that the user typed.

    Attributes:
        name: one of ``COMMANDS``, without the slash.
        argument: the words after it; empty where there are none.
    """

    name: str
    argument: str = ""


@dataclass(frozen=True)
class _Kind:
    """What a command takes and does.

    Attributes:
        does: one line for ``/help``.
        argument: the name of the argument that it may take; empty where it takes none.
    """

    does: str
    argument: str = ""


COMMANDS = {
    "why": _Kind("show how the last answer came about: queries, prompts, completions, calls and cost"),
    "sources": _Kind("show the whole passages of the last answer, with their scores"),
    "undo": _Kind("undo the last turn, also in the saved chat"),
    "method": _Kind("show the method, or continue with the method NAME", "NAME"),
    "help": _Kind("list the commands"),
}


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


def list_commands() -> list[tuple[str, str]]:
    """Each command as it is typed, and what it does.

    Example:
        >>> [typed for typed, _ in list_commands()]
        ['/why', '/sources', '/undo', '/method [NAME]', '/help', '//TEXT']
    """
    typed = [(f"{MARK}{name}" + f" [{kind.argument}]" * bool(kind.argument), kind.does) for name, kind in COMMANDS.items()]
    return [*typed, ("//TEXT", "say /TEXT: a line that begins with two slashes is no command")]
