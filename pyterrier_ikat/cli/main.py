"""The command line's frame: errors as one line and exit code 2, and the options that commands share."""

import errno
import gc
import os
import signal
import sqlite3
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import reduce, wraps
from typing import Any, TypeVar

import click

from ..errors import IkatError, commands_advised

STOPPED = "stopped; what is finished is kept, and the same command goes on from there"
REPAIRS = {
    **dict.fromkeys((errno.ENOSPC, errno.EDQUOT, errno.EFBIG), "make room, and run the same command again"),
    **dict.fromkeys((errno.EACCES, errno.EPERM, errno.EROFS), "correct its permissions, or name another place"),
    **dict.fromkeys((errno.EMFILE, errno.ENFILE), "raise the limit of open files (ulimit -n)"),
}


class _Group(click.Group):
    """Prints our errors, and what the system refuses, as one line; anything else is a defect and keeps its traceback."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        return super().parse_args(ctx, [_at_home(word) for word in args])

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """The commands with their whole first sentence, over several lines where it is long: click cuts it."""
        commands = [(name, self.get_command(ctx, name)) for name in self.list_commands(ctx)]
        with formatter.section("Commands"):
            formatter.write_dl([(name, command.get_short_help_str(limit=300)) for name, command in commands if command is not None])

    def invoke(self, ctx: click.Context) -> Any:
        _take_any_text()
        gc.set_threshold(100_000)  # most objects of libraries and runs stay: looking for garbage often takes a fifth of the time
        try:
            with _terminated_as_interrupted(), commands_advised():
                return super().invoke(ctx)
        except Exception as error:
            reason, code = _reason(error), getattr(error, "exit_code", 2)
            if reason is None:
                raise
        except KeyboardInterrupt:
            reason, code = STOPPED, 2
        click.echo(f"ikat: {reason}", err=True)
        sys.exit(code)


def _at_home(word: str) -> str:
    """The argument with the home folder for ``~/``, which shells leave in ``--out=~/runs``."""
    option, equals, value = word.partition("=") if word.startswith("--") else ("", "", word)
    return option + equals + (os.path.expanduser(value) if value.startswith("~/") else value)


@click.group(cls=_Group)
@click.version_option(package_name="pyterrier_ikat", prog_name="ikat")
def main() -> None:
    """Conversational search systems of the TREC iKAT papers, on your index and your LLM."""


def dataset_named(name: str) -> Any:
    """The dataset of that name."""
    from ..conversations import dataset

    return dataset(name)


def text_loader_of(index_path: str | None) -> Any:
    """What adds the texts of the index of ``--index``; None without one."""
    from ..retrieve import Index

    return None if index_path is None else Index(index_path).text_loader()


def print_ledger(ledger: Any, about: str = "") -> None:
    """Print what the LLM calls came to, where there were any."""
    rows = ledger.frame()
    if len(rows):
        click.echo(f"\nLLM ledger{about}:\n{rows.to_string(index=False, na_rep='unknown')}")


def quiet(command: Callable[..., None]) -> Callable[..., None]:
    """Show warnings as one line each, without the source line that raised them."""

    @wraps(command)
    def run(*args: Any, **kwargs: Any) -> None:
        import warnings

        warnings.showwarning = lambda message, *_, **__: click.echo(f"ikat: warning: {message}", err=True)
        command(*args, **kwargs)

    return run


def _reason(error: BaseException | None) -> str | None:
    """What to print of an error; None of a defect."""
    if isinstance(error, IkatError):
        return " ".join(str(error).split("\n")) if error.one_line else str(error)
    if isinstance(error, OSError) and error.errno is not None and error.errno != errno.EPIPE:  # of a closed pipe click takes care
        return _refused_by_system(error)
    if isinstance(error, sqlite3.Error):
        return f"a database can't be used ({error}): make room, or correct its permissions"
    if isinstance(error, MemoryError):
        return "there is not enough memory: run fewer turns at a time (--batch), or with a smaller model"
    if isinstance(error, RecursionError):
        return "a file is nested too deeply"
    if error is not None and isinstance(error.__cause__ or error.__context__, KeyboardInterrupt):
        return STOPPED  # a native library that was interrupted says only that something went wrong
    return None


def _refused_by_system(error: OSError) -> str:
    try:
        os.getcwd()
    except OSError:
        return "the folder that you work in is gone: change to another one"
    where = "".join(f"{os.fsdecode(name)}: " for name in (error.filename, error.filename2) if isinstance(name, str | bytes))
    repair = REPAIRS.get(error.errno or 0)
    return f"{where}{error.strerror or error}" + (f": {repair}" if repair else "")


def _take_any_text() -> None:
    """Where a stream's encoding lacks a character, print its number: scores must not be lost because of a name."""
    for stream in (sys.stdout, sys.stderr):
        if getattr(stream, "errors", None) == "strict" and hasattr(stream, "reconfigure"):
            stream.reconfigure(errors="backslashreplace")


@contextmanager
def _terminated_as_interrupted() -> Iterator[None]:
    """While the block runs, SIGTERM is what Ctrl-C is: what a cluster stops keeps what is finished, too."""
    before = signal.getsignal(signal.SIGTERM)
    if before != signal.SIG_DFL or threading.current_thread() is not threading.main_thread():
        yield
        return
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)


Command = TypeVar("Command", bound=Callable[..., Any])

RUNS = click.argument("paths", nargs=-1, required=True, metavar="RUN...")
MEASURES = click.option("--measures", help="separated by commas; the track's by default")
TURNS = click.option("--turns", help="only these turns: ids with commas, or a file with one on each line")
QRELS = click.option("--qrels", help="a TREC qrels file, or the name of a variant of the dataset's qrels")
JUDGED_TURNS = click.option("--qrels", help="only the turns that are judged here: a TREC qrels file, or a variant of the dataset's qrels")
TEXTS = click.option("--index", "index_path", help="the passage index that the texts come from")

RESOURCES = (
    click.option("--index", help="folder made by `ikat index`, or a PISA index of SPLADE vectors"),
    click.option("--retriever", help="bm25, splade or dense, where the folder of --index holds several"),
    click.option(
        "--splade-model",
        help="the model that encoded the passages of a SPLADE or dense index that does not say it, or whose model has moved",
    ),
    click.option("--splade-query-model", help="another model for the queries of a SPLADE index, fine-tuned from that of its passages"),
    click.option("--texts", metavar="PASSAGE_INDEX", help="folder of an index that has the texts of one without any"),
    click.option("--llm", help='such as "openai:gpt-4o temperature=0", recorded:FILE or recorded:sample'),
    click.option("--second-llm", help="the LLM that writes the answer in ..._given, the second one of gtr"),
    click.option("--dense", metavar="DENSE_INDEX", help="folder of an index with dense vectors, where --index has none"),
    click.option(
        "--reranker",
        help="a cross-encoder's name, bi:NAME for a bi-encoder, colbert:NAME, monot5:NAME, listwise:LLM, ensemble, or several with commas",
    ),
    click.option("--rewriter", help="a T5 or BART rewriter's name, such as castorini/t5-base-canard"),
    click.option("--expander", help="ConvGQR's T5 expansion model"),
    click.option("--prompts", type=click.Path(), help="folder of your own prompt templates; those missing there come from the package"),
)


def resources(command: Command) -> Command:
    """The options that name what a method runs on: index, LLMs, models."""
    return reduce(lambda decorated, option: option(decorated), reversed(RESOURCES), command)
