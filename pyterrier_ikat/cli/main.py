"""The command line's frame: help texts in sections with examples, and errors as one line and exit code 2."""

import atexit
import gc
import re
import signal
import sqlite3
import traceback
import warnings
from contextlib import nullcontext
from typing import Any

import click

from ..errors import IkatError, Terminated, commands_advised, was_interrupted
from ..progress import command_line, tell

STOPPED = "stopped: finished work is kept, and the same command continues from there"
DRAW_THEIR_OWN = ("chat", "serve")
"""Commands that show their progress themselves."""
SECTIONS = ("Prepare", "Run", "Live", "Evaluate", "Inspect", "Submit")
GROUPS = {
    "Systems": "index index_path llm llm_spec reranker given user_llm judge_llm style memory",
    "Data": "dataset_name dataset qrels turns users persona number pairs judged_by systems",
    "Measures": "of measures baseline repeats judges by depth agree cost",
    "Output": "out form save_to continue_from only_plan cache",
}
"""Title -> the options below it in a long help text, by the names of their values. All others are below "Options"."""
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
        # Without the source line that raised it.
        warnings.showwarning = lambda message, *_, **__: tell(f"ikat: warning: {message}")
        with nullcontext() if self.name in DRAW_THEIR_OWN else command_line(f"ikat {self.name}"):
            return super().invoke(ctx)

    def format_options(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """The required options first, then the others, in groups if there are many."""
        options = [one for one in self.get_params(ctx) if isinstance(one, click.Option)]
        records = {str(one.name): record for one in options if (record := one.get_help_record(ctx))}
        many = len(records) > LONG
        groups = {"Required": " ".join(str(one.name) for one in self.params if one.required)} | (GROUPS if many else {})
        sections = [(title, [records.pop(name) for name in names.split() if name in records]) for title, names in groups.items()]
        for title, rows in [*sections, ("Options", list(records.values()))]:
            if rows:
                with formatter.section(title):
                    formatter.write_dl(rows)

    def format_epilog(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        _write_example(formatter, self.example)


def _write_example(formatter: click.HelpFormatter, example: str) -> None:
    with formatter.section("Examples" if "\nikat " in example else "Example"):
        formatter.write("".join(f"{' ' * formatter.current_indent}{line}\n" for line in example.splitlines()))


class _Group(click.Group):
    """Prints our errors and those of the operating system as one line. Anything else is a defect and keeps its traceback."""

    command_class = _Command

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Like any group, but an empty text is an error: an unset variable gives it, and would mean all turns or the working folder."""
        for before, word in zip(["ikat", *args], args, strict=False):
            if not word.strip() or re.fullmatch(r"--[\w-]+=\s*", word):
                raise click.UsageError(f"{before if not word.strip() else word} is empty: give a value, or omit it", ctx)
        return super().parse_args(ctx, args)

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """The commands by section, with their whole first sentence, because click would cut it."""
        commands = [command for name in self.list_commands(ctx) if isinstance(command := self.get_command(ctx, name), _Command)]
        for section in SECTIONS:
            with formatter.section(section):
                formatter.write_dl([(f"{one.name:10}", one.get_short_help_str(limit=300)) for one in commands if one.section == section])

    def format_epilog(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        _write_example(formatter, EXAMPLE)

    def invoke(self, ctx: click.Context) -> Any:
        gc.set_threshold(100_000)  # most objects of libraries and runs stay, and frequent garbage collection takes a fifth of the time
        atexit.register(gc.freeze)  # and at the end a second
        before = signal.signal(signal.SIGTERM, _terminate)  # a job that a cluster stops keeps its finished work, as after Ctrl-C
        try:
            with commands_advised():
                return super().invoke(ctx)
        except (Exception, KeyboardInterrupt, SystemExit) as error:
            if (reason := _reason(error)) is None:
                raise
            click.echo(f"ikat: {reason}", err=True)
            raise click.exceptions.Exit(getattr(error, "exit_code", 2)) from None
        finally:
            signal.signal(signal.SIGTERM, before)


def _terminate(*_: Any) -> None:
    raise Terminated


def _reason(error: BaseException) -> str | None:
    """The text to print for an error; None for a defect."""
    if isinstance(error, IkatError):
        return " ".join(str(error).split("\n")) if error.one_line else str(error)
    if isinstance(error, SystemExit):  # in a method of the user
        last = traceback.extract_tb(error.__traceback__)[-1]
        return f"{last.filename}, line {last.lineno}, calls sys.exit, which ends the command before its work is done: remove that call"
    if isinstance(error, OSError) and not isinstance(error, BrokenPipeError):  # click handles a closed pipe
        return str(error)
    if isinstance(error, sqlite3.Error):
        return f"a database can't be used ({error}): free some space, or correct its permissions"
    return STOPPED if was_interrupted(error) else None


@click.group(cls=_Group)
@click.version_option(package_name="pyterrier_ikat", prog_name="ikat")
def main() -> None:
    """Run and compare the conversational search systems of the TREC iKAT papers.

    Use your own index, language model and re-ranker, or run offline on the bundled sample (ikat demo). `ikat COMMAND --help` explains a
    command.
    """
