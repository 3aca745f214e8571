"""The command line's frame: help texts, and errors as one line and exit code 2."""

import errno
import gc
import os
import signal
import sqlite3
import sys
import threading
import traceback
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import click

from ..errors import IkatError, Terminated, UsageError, commands_advised, was_interrupted
from ..progress import command_line, tell
from ..tables import wrapped

STOPPED = "stopped: finished work is kept, and the same command continues from there"
REPAIRS = {
    **dict.fromkeys((errno.ENOSPC, errno.EDQUOT, errno.EFBIG), "free some space, and run the same command again"),
    **dict.fromkeys((errno.EACCES, errno.EPERM, errno.EROFS), "correct its permissions, or choose another place"),
    errno.ENOENT: "check the path, or give another one",
    **dict.fromkeys((errno.EMFILE, errno.ENFILE), "raise the limit of open files (ulimit -n)"),
}


MAY_BE_EMPTY = ("query_prefix", "passage_prefix")
"""Options for which an empty text has a meaning: no prefix."""
DRAW_THEIR_OWN = ("chat", "serve")
"""Commands that show their progress themselves."""
SECTIONS = ("Prepare", "Run", "Live", "Evaluate", "Inspect", "Submit")
GROUPS = {
    "Systems": "name names index llm reranker given second_llm user_llm judge_llm memory history",
    "Data": "dataset_name dataset qrels turns users persona number pairs judged_by systems",
    "Measures": "of measures measure baseline pairwise repeats judges by depths queries against",
    "Output": "out form plot save_to continue_from only_plan cache description",
}
"""Title -> the options below it in a long help text, by the names of their values. All others are below "Options"."""
WIDEST = 200
"""The longest line of a help text, if the terminal is wide enough."""
LONG = 8
"""A help text with more options than this has groups."""
EXAMPLE = """\
ikat demo
ikat index ikat:2023-mini mini.index
ikat run raw human_qr --dataset ikat:2023-mini --index mini.index --out runs
ikat evaluate runs/* --dataset ikat:2023-mini --baseline raw
ikat report runs/* --out report.html"""


class _Command(click.Command):
    """A command with a section in the list of commands, and an example below its options.

    Attributes:
        section: one of ``SECTIONS``.
        example: lines that a user can type.
    """

    def __init__(self, *args: Any, section: str, example: str, **more: Any) -> None:
        super().__init__(*args, **more)
        self.section, self.example = section, example

    def invoke(self, ctx: click.Context) -> Any:
        """Run the command. Empty values are errors: an unset variable gives them, and an empty path would mean the working folder."""
        for parameter in self.params:
            value = ctx.params.get(name := parameter.name or "")
            if name not in MAY_BE_EMPTY and any(isinstance(one, str) and not one.strip() for one in _each(value)):
                shown = parameter.opts[0] if isinstance(parameter, click.Option) else parameter.human_readable_name
                raise UsageError(f"{shown} is empty: give a value" + ("" if parameter.required else ", or omit it"))
        # Without the source line that raised it.
        warnings.showwarning = lambda message, *_, **__: tell(f"ikat: warning: {message}")
        if self.name in DRAW_THEIR_OWN:
            return super().invoke(ctx)
        with command_line(f"ikat {self.name}"):
            return super().invoke(ctx)

    def format_options(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """The required options first, then the others, in groups if there are many."""
        records = {
            str(one.name): record for one in self.get_params(ctx) if isinstance(one, click.Option) and (record := one.get_help_record(ctx))
        }
        many = len(records) > LONG
        groups = {"Required": " ".join(str(one.name) for one in self.params if one.required)} | (GROUPS if many else {})
        sections = [(title, [records.pop(name) for name in names.split() if name in records]) for title, names in groups.items()]
        for title, rows in [*sections, ("Options", list(records.values()))]:
            if rows:
                with formatter.section(title):
                    formatter.write_dl(rows)

    def format_epilog(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        _write_example(formatter, self.example)


def _each(value: Any) -> tuple[Any, ...]:
    return value if isinstance(value, tuple) else (value,)


def _write_example(formatter: click.HelpFormatter, example: str) -> None:
    with formatter.section("Examples" if "\nikat " in example else "Example"):
        formatter.write("".join(f"{' ' * formatter.current_indent}{line}\n" for line in example.splitlines()))


class _Group(click.Group):
    """Prints our errors and those of the operating system as one line. Anything else is a defect and keeps its traceback."""

    command_class = _Command

    def main(self, *args: Any, **more: Any) -> Any:
        """Like any group, but stop if a shell has closed stdout (``>&-``), because results could not be printed."""
        if sys.stdout is None:
            if sys.stderr is not None:
                click.echo("ikat: stdout is closed: give it a file or a pipe, such as > FILE", err=True)
            sys.exit(2)
        return super().main(*args, **more)

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Like any group, but without a command, print the names of all commands and where to begin."""
        if not args and not ctx.resilient_parsing:
            click.echo("\n".join(self._overview()))
            ctx.exit(2)
        return super().parse_args(ctx, [_at_home(word) for word in args])

    def _overview(self) -> Iterator[str]:
        yield "Run and compare conversational search systems (TREC iKAT):"
        for section in SECTIONS:
            names = [name for name, one in self.commands.items() if isinstance(one, _Command) and one.section == section]
            yield wrapped(f"{section.ljust(max(map(len, SECTIONS)))}  {', '.join(sorted(names))}", "  ", "          ")
        yield from ("", "Begin with", *(f"  {line}" for line in EXAMPLE.splitlines()), "`ikat --help` says what each command does.")

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """The commands by section, with their whole first sentence in several lines if it is long, because click would cut it."""
        commands = [command for name in self.list_commands(ctx) if isinstance(command := self.get_command(ctx, name), _Command)]
        longest = max(len(str(command.name)) for command in commands)
        for section in SECTIONS:
            rows = [(str(one.name).ljust(longest), one.get_short_help_str(limit=300)) for one in commands if one.section == section]
            with formatter.section(section):
                formatter.write_dl(rows)

    def format_epilog(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        _write_example(formatter, EXAMPLE)

    def invoke(self, ctx: click.Context) -> Any:
        _take_any_text()
        gc.set_threshold(100_000)  # most objects of libraries and runs stay, and frequent garbage collection takes a fifth of the time
        try:
            with _terminated_as_interrupted(), commands_advised():
                return super().invoke(ctx)
        except Exception as error:
            reason, code = _reason(error), getattr(error, "exit_code", 2)
            if reason is None:
                raise
        except KeyboardInterrupt:
            reason, code = STOPPED, 2
        except SystemExit as error:
            if error.__traceback__ is None or (where := _exits_in(error)) is None:
                raise
            reason, code = f"{where} calls sys.exit, which ends the command before its work is done: remove that call", 2
        click.echo(f"ikat: {reason}", err=True)
        sys.exit(code)


def _exits_in(error: SystemExit) -> str | None:
    """The file and line, outside of this package, that ended the process."""
    last = traceback.extract_tb(error.__traceback__)[-1]
    ours = Path(last.filename).is_relative_to(Path(__file__).parent.parent)
    return None if ours else f"{last.filename}, line {last.lineno},"


def _at_home(word: str) -> str:
    """The argument with the home folder for ``~/``, which shells don't expand in ``--out=~/runs``."""
    option, equals, value = word.partition("=") if word.startswith("--") else ("", "", word)
    return option + equals + (os.path.expanduser(value) if value.startswith("~/") else value)


@click.group(cls=_Group, context_settings={"max_content_width": WIDEST})
@click.version_option(package_name="pyterrier_ikat", prog_name="ikat")
def main() -> None:
    """Run and compare the conversational search systems of the TREC iKAT papers.

    Use your own index, language model and re-ranker, or run offline on the bundled sample (ikat demo). `ikat COMMAND --help` explains a
    command.
    """


def _reason(error: BaseException | None) -> str | None:
    """The text to print for an error; None for a defect."""
    if isinstance(error, IkatError):
        return " ".join(str(error).split("\n")) if error.one_line else str(error)
    if isinstance(error, OSError) and error.errno is not None and error.errno != errno.EPIPE:  # click handles a closed pipe
        return _refused_by_system(error)
    if isinstance(error, sqlite3.Error):
        return f"a database can't be used ({error}): free some space, or correct its permissions"
    if isinstance(error, MemoryError):
        return "there is not enough memory: run fewer turns at a time (--batch), or with a smaller model"
    if isinstance(error, RecursionError):
        return "a file is nested too deeply"
    return STOPPED if was_interrupted(error) else None


def _refused_by_system(error: OSError) -> str:
    try:
        os.getcwd()
    except OSError:
        return "your working folder was deleted: change to another one"
    where = "".join(f"{os.fsdecode(name)}: " for name in (error.filename, error.filename2) if isinstance(name, str | bytes))
    repair = REPAIRS.get(error.errno or 0)
    return f"{where}{error.strerror or error}" + (f": {repair}" if repair else "")


def _take_any_text() -> None:
    """If a stream's encoding lacks a character, print its number. Scores must not be lost because of a name."""
    for stream in (sys.stdout, sys.stderr):
        if getattr(stream, "errors", None) == "strict" and hasattr(stream, "reconfigure"):
            stream.reconfigure(errors="backslashreplace")


@contextmanager
def _terminated_as_interrupted() -> Iterator[None]:
    """While the block runs, SIGTERM acts like Ctrl-C, so a job that a cluster stops also keeps its finished work."""
    before = signal.getsignal(signal.SIGTERM)
    if before != signal.SIG_DFL or threading.current_thread() is not threading.main_thread():
        yield
        return
    signal.signal(signal.SIGTERM, _terminate)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)


def _terminate(*_: Any) -> None:
    raise Terminated
