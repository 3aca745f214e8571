"""The errors that a user can meet: what was wrong, where, and how to repair it."""

import difflib
import re
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager

RESOURCE_OPTIONS = (
    "second_llm",
    "responders",
    "retriever",
    "rewriter",
    "expander",
    "prompts",
    "texts",
    "splade_model",
    "splade_query_model",
)
"""Resources that the command line takes as ``--resources NAME=...``."""
_CONTROLS = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069]")
_advises_commands = False


class IkatError(Exception):
    """Base of every error of this package that the user can repair.

    The message is complete by itself. The command line prints it as one line and exits with
    ``exit_code``.

    Attributes:
        one_line: False where the message lists faults, a line for each.
        exit_code: of the command line.
    """

    one_line = True
    exit_code = 2


class DataError(IkatError):
    """A file, such as topics, qrels, a run or an index, is missing, cut short or malformed."""


class UsageError(IkatError, ValueError):
    """An argument is wrong, or names something unknown, such as a method or an option."""


class Terminated(KeyboardInterrupt):
    """SIGTERM on the command line. It ends the process, also where Ctrl-C only stops an answer."""


def was_interrupted(error: BaseException | None) -> bool:
    """Return whether an error is an interrupt, or that of an interrupted native library.

    Example:
        >>> was_interrupted(KeyboardInterrupt()), was_interrupted(ValueError())
        (True, False)
    """
    if error is None or isinstance(error, KeyboardInterrupt):
        return error is not None
    return isinstance(error.__cause__ or error.__context__, KeyboardInterrupt)


def advice(python: str, command: str) -> str:
    """Return advice for an error message: ``python`` in Python, ``command`` on the command line.

    Example:
        >>> advice("give texts=...", "give --index PATH")
        'give texts=...'
    """
    return command if _advises_commands else python


def option(name: str) -> str:
    """Return an option as the user writes it.

    Example:
        >>> option("second_llm")
        'second_llm=...'
    """
    if name in RESOURCE_OPTIONS:
        return advice(f"{name}=...", f"--resources {name}=...")
    return advice(f"{name}=...", f"--{name.replace('_', '-')}")


def did_you_mean(mistyped: str, known: Iterable[str]) -> str:
    """Return the known name that a mistyped one means, as a question; empty for no similar name.

    Letter case is ignored.

    Example:
        >>> did_you_mean("temprature", ["temperature", "top_p"]), did_you_mean("x", ["temperature"])
        ('did you mean temperature?', '')
    """
    names = list(known)
    near = difflib.get_close_matches(mistyped, names, n=1, cutoff=0.7)
    if near:
        return f"did you mean {near[0]}?"
    folded = {name.casefold(): name for name in reversed(names)}  # the first name of an alias
    near = difflib.get_close_matches(mistyped.casefold(), folded, n=1, cutoff=0.7)
    return f"did you mean {folded[near[0]]}?" if near else ""


def list_first(names: Sequence[object], most: int = 5) -> str:
    """Return the first names, and how many follow, as text.

    Example:
        >>> list_first(["1_1", "1_2", "1_3"]), list_first(range(12))
        ('1_1, 1_2, 1_3', '0, 1, 2, 3, 4 and 7 more')
    """
    listed = ", ".join(map(str, names[:most]))
    if len(names) <= most:
        return listed
    return f"{listed} and {len(names) - most} more"


def counted(number: int, singular: str, plural: str = "") -> str:
    """Return a number and what is counted, as text.

    Args:
        number: how many.
        singular: the words for one of them.
        plural: those for any other number; by default ``singular`` with a plural's ending.

    Example:
        >>> counted(1, "query"), counted(1204, "query"), counted(2, "turn has", "turns have")
        ('1 query', '1,204 queries', '2 turns have')
    """
    if number == 1:
        return f"1 {singular}"
    if not plural:
        plural = f"{singular[:-1]}ies" if re.search("[^aeiou]y$", singular) else f"{singular}s"
    return f"{number:,} {plural}"


def without_controls(text: str) -> str:
    """Return a text with blanks for control characters, except line feeds and tabs.

    A terminal would obey them.

    Example:
        >>> without_controls("tea" + chr(27) + "[2J")
        'tea [2J'
    """
    return _CONTROLS.sub(" ", text)


def on_one_line(text: str) -> str:
    """Return the words of a text, without control characters, on one line.

    Example:
        >>> on_one_line("oat " + chr(10) + chr(27) + "milk")
        'oat milk'
    """
    return " ".join(without_controls(text).split())


@contextmanager
def commands_advised() -> Iterator[None]:
    """Advise commands in messages inside the block, because the user is at the command line."""
    global _advises_commands
    before = _advises_commands
    _advises_commands = True
    try:
        yield
    finally:
        _advises_commands = before
