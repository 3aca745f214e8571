"""The command line's frame, and what commands share.

Help texts have sections with examples, and errors are one line and exit code 2. Commands share
options, the objects that these name (datasets, judgements, turns, runs, resources), and how tables
are printed.
"""

import atexit
import gc
import re
import signal
import sqlite3
import sys
import traceback
import warnings
from collections.abc import Callable, Mapping, Sequence
from contextlib import nullcontext
from functools import wraps
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar, cast

import click

from ..errors import (
    IkatError,
    Terminated,
    UsageError,
    commands_advised,
    did_you_mean,
    was_interrupted,
    without_controls,
)
from ..progress import command_line, tell
from ..store.files import PARTIAL_ENDING
from ..tables import TABLE_FORMATS, Table
from .screen import draw

if TYPE_CHECKING:
    import pandas as pd

    from ..llms import Ledger


STOPPED = "stopped: finished work is kept, and the same command continues from there"
DRAW_THEIR_OWN = ("chat", "serve")
"""Commands that show their progress themselves."""
SECTIONS = ("Prepare", "Run", "Live", "Evaluate", "Inspect", "Submit")
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
        self.section = section
        self.example = example

    def invoke(self, ctx: click.Context) -> Any:
        # Without the source line that raised it.
        warnings.showwarning = lambda message, *_, **__: tell(f"ikat: warning: {message}")
        with nullcontext() if self.name in DRAW_THEIR_OWN else command_line(f"ikat {self.name}"):
            return super().invoke(ctx)

    def format_epilog(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        _write_example(formatter, self.example)


def _write_example(formatter: click.HelpFormatter, example: str) -> None:
    with formatter.section("Examples" if "\nikat " in example else "Example"):
        for line in example.splitlines():
            formatter.write(f"{' ' * formatter.current_indent}{line}\n")


class _Group(click.Group):
    """Print our errors and those of the operating system as one line.

    Anything else is a defect and keeps its traceback.
    """

    command_class = _Command

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Like any group, but an empty text is an error.

        An unset variable gives it, and it would mean all turns or the working folder.
        """
        for before, word in pairwise(["ikat", *args]):
            if not word.strip():
                raise click.UsageError(f"{before} is empty: give a value, or omit it", ctx)
            if re.fullmatch(r"--[\w-]+=\s*", word):
                raise click.UsageError(f"{word} is empty: give a value, or omit it", ctx)
        return super().parse_args(ctx, args)

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """The commands by section, with their whole first sentence, because click would cut it."""
        rows: dict[str, list[tuple[str, str]]] = {section: [] for section in SECTIONS}
        for name in self.list_commands(ctx):
            command = self.get_command(ctx, name)
            if isinstance(command, _Command):
                summary = command.get_short_help_str(limit=300)
                rows[command.section].append((f"{command.name:10}", summary))
        for section, commands in rows.items():
            with formatter.section(section):
                formatter.write_dl(commands)

    def format_epilog(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        _write_example(formatter, EXAMPLE)

    def invoke(self, ctx: click.Context) -> Any:
        # Most objects of libraries and runs stay, and frequent garbage collection takes a fifth of
        # the time, and at the end a second.
        gc.set_threshold(100_000)
        atexit.register(gc.freeze)
        # A job that a cluster stops keeps its finished work, as after Ctrl-C.
        before = signal.signal(signal.SIGTERM, _terminate)
        try:
            with commands_advised():
                return super().invoke(ctx)
        except (Exception, KeyboardInterrupt, SystemExit) as error:
            reason = _reason(error)
            if reason is None:
                raise
            click.echo(f"ikat: {without_controls(reason)}", err=True)
            raise click.exceptions.Exit(getattr(error, "exit_code", 2)) from None
        finally:
            signal.signal(signal.SIGTERM, before)


def _terminate(*_: Any) -> None:
    raise Terminated


def _reason(error: BaseException) -> str | None:
    """The text to print for an error; None for a defect."""
    if isinstance(error, IkatError):
        return str(error).replace("\n", " ") if error.one_line else str(error)
    if isinstance(error, SystemExit):  # in a method of the user
        last = traceback.extract_tb(error.__traceback__)[-1]
        return (
            f"{last.filename}, line {last.lineno}, calls sys.exit, which ends the command before "
            "its work is done: remove that call"
        )
    # Click handles a closed pipe.
    if isinstance(error, OSError) and not isinstance(error, BrokenPipeError):
        return str(error)
    if isinstance(error, sqlite3.Error):
        return f"a database can't be used ({error}): free some space, or correct its permissions"
    return STOPPED if was_interrupted(error) else None


@click.group(cls=_Group)
@click.version_option(package_name="pyterrier_ikat", prog_name="ikat")
def main() -> None:
    """Run and compare the conversational search systems of the TREC iKAT papers.

    Use your own index, language model and re-ranker, or run offline on the bundled sample (ikat
    demo). `ikat COMMAND --help` explains a command.
    """


Command = TypeVar("Command", bound=Callable[..., Any])

ENDS_OF_PAGES = {".html", ".png", ".pdf"}
"""How names of reports and plots end."""
RESUMES = "an unfinished run: `ikat run` continues it"


def _runs_so_far(_: click.Context, __: click.Parameter, paths: tuple[str, ...]) -> tuple[str, ...]:
    """The RUNs without what a pattern such as ``runs/*`` matches beside them.

    That is: reports, plots, indexes, and runs that have just begun.
    """
    beside: dict[str, str] = {}
    for path in paths:
        if Path(path).suffix in ENDS_OF_PAGES:
            beside[path] = "no run"
        elif Path(path).suffix == PARTIAL_ENDING and not any(Path(path).glob("[0-9]*.turns.jsonl")):
            beside[path] = RESUMES
        elif (Path(path) / "pt_meta.json").is_file():
            beside[path] = "an index"
    return _without(paths, beside)


def _runs_among(
    context: click.Context, parameter: click.Parameter, paths: tuple[str, ...]
) -> tuple[str, ...]:
    """Like :func:`_runs_so_far`, also without unfinished runs."""
    return without_unfinished(_runs_so_far(context, parameter, paths))


def without_unfinished(paths: tuple[str, ...]) -> tuple[str, ...]:
    """The RUNs without unfinished ones; all of them if none is finished."""
    unfinished = [path for path in paths if Path(path).suffix == PARTIAL_ENDING]
    return _without(paths, dict.fromkeys(unfinished, RESUMES))


def _without(paths: tuple[str, ...], beside: Mapping[str, str]) -> tuple[str, ...]:
    """The paths without some of them, each of which is named with what it is."""
    if len(beside) == len(paths):
        return paths  # the command says what is wrong with them
    for path, what in beside.items():
        click.echo(f"ikat: warning: {path} is omitted: it is {what}", err=True)
    return tuple(path for path in paths if path not in beside)


RUNS = click.argument("paths", nargs=-1, required=True, metavar="RUN...", callback=_runs_among)
RUNS_SO_FAR = click.argument(
    "paths", nargs=-1, required=True, metavar="RUN...", callback=_runs_so_far
)
MEASURES = click.option(
    "--measures",
    help="measures of ir_measures, or your own as FILE.py:NAME, separated by commas; by default "
    "the track's",
)
TURNS = click.option(
    "--turns",
    help="only these turns: ids with commas, a file with one per line, or a list named in `ikat "
    "datasets`",
)
QRELS = click.option(
    "--qrels",
    help="a TREC qrels file, or the name of one of the dataset's qrels, such as provenance",
)
TEXTS = click.option("--index", "index_path", help="passage index with the texts")
DATASET = click.option(
    "--dataset",
    "dataset_name",
    help="dataset whose qrels are used, such as ikat:2023-mini; run folders know theirs",
)
FORMAT = click.option(
    "--format",
    "form",
    type=click.Choice(TABLE_FORMATS),
    default="text",
    show_default=True,
    help="how tables are printed",
)
BASELINE = click.option(
    "--baseline",
    help="the system that all others are compared with; significant differences are marked",
)
UNIT = click.option(
    "--unit",
    type=click.Choice(["turn", "conversation", "topic", "user"]),
    help="of which turns tests and intervals assume that they depend on each other: those of one "
    "conversation, topic or user, or none (turn); by default what the dataset says",
)

RESOURCES = (
    click.option(
        "--index",
        help="folder made by `ikat index`, an index of Lucene, or a PISA index of SPLADE vectors",
    ),
    click.option(
        "--llm",
        help='the language model: "openai:gpt-4o temperature=0", hf:MODEL, recorded:FILE or '
        "recorded:sample",
    ),
    click.option(
        "--reranker",
        help="a cross-encoder, bi:NAME, colbert:NAME, monot5:NAME, listwise:LLM, ensemble, or "
        "FILE.py:NAME, or several with commas",
    ),
    click.option(
        "--resources",
        "given",
        multiple=True,
        metavar="FILE|NAME=VALUE",
        help='a TOML file with lines such as second_llm = "openai:gpt-4o"; sample, for recorded '
        "completions; or a line NAME=VALUE. May be repeated. Names: second_llm, responders, "
        "retriever, rewriter, expander, prompts, statements, texts, splade_model, "
        "splade_query_model",
    ),
)


def resources(command: Command, every: bool = False) -> Command:
    """Add the options for a method's resources: index, LLMs, models.

    Args:
        command: the function of the command.
        every: whether it also gets resources that only other methods take.
    """

    @wraps(command)
    def run(*args: Any, given: tuple[str, ...], **options: Any) -> Any:
        methods = None if every else options.get("names") or [options["name"]]
        named: dict[str, str] = {}
        for argument in given:
            if "=" in argument and not Path(argument).exists():
                named |= _named(argument)
            else:
                named |= _in_file(argument, methods)
        if "record" in options:
            options["replayed"] = named.get("llm")  # also where --llm names another model
        for name, value in named.items():
            if options.get(name) is None:
                options[name] = value
        return command(*args, **options)

    decorated: Any = run
    for option in reversed(RESOURCES):
        decorated = option(decorated)
    return cast(Command, decorated)


def _named(text: str) -> dict[str, str]:
    """The resource of a line NAME=VALUE."""
    from ..study.systems import RESOURCE_NAMES

    name, _, value = text.partition("=")
    name = name.strip()
    value = value.strip()
    if not value:
        raise UsageError(f"--resources {text}: it is empty: give a value")
    if name not in RESOURCE_NAMES:
        repair = did_you_mean(name, RESOURCE_NAMES)
        if not repair:
            repair = f"give a file, or NAME=VALUE with one of {', '.join(RESOURCE_NAMES)}"
        raise UsageError(f"--resources {text}: there is no resource {name!r}: {repair}")
    return {name: value}


def _in_file(path: str, methods: Sequence[str] | None) -> dict[str, str]:
    """The resources in a file that the methods take; all if there are no methods."""
    from ..papers.published import OF_THE_SAMPLE, SAMPLE, read_resources
    from ..study.resources import taken_by
    from ..study.systems import RESOURCE_NAMES, methods_in

    lines = OF_THE_SAMPLE if path == SAMPLE else read_resources(path)
    taken = set(RESOURCE_NAMES) if methods is None else taken_by(methods_in(list(methods)))
    if taken & {"llm", "second_llm"}:
        taken.add("prompts")
    return {name: text for name, text in lines.items() if name in taken}


def dataset_named(name: str) -> Any:
    """The dataset with this name."""
    from ..conversations import dataset

    return dataset(name)


def text_loader_of(index_path: str | None) -> Any:
    """An operator that adds the texts of the index in ``--index``; None without one."""
    from ..retrieve import Index

    return None if index_path is None else Index(index_path).text_loader()


def judged_by(
    dataset_name: str | None, qrels: str | None, turns: str | None = None, paths: Sequence[str] = ()
) -> "pd.DataFrame":
    """The judgements that ``--dataset``, ``--qrels`` and ``--turns`` name.

    Without the first two, they are those that the run folders know.

    Raises:
        UsageError: when neither a dataset nor qrels are named, or a turn isn't judged.
    """
    from ..conversations import read_qrels
    from ..conversations.datasets import find_qrels, of_turns

    if dataset_name is not None:
        data = dataset_named(dataset_name)
        source = f"{data.name}'s qrels"
        if qrels:
            source += f" {qrels}"
        return of_turns(find_qrels(qrels, data), turns, source)
    if qrels is not None:
        return of_turns(read_qrels(qrels), turns, qrels)
    from ..evaluation.evaluator import name_runs
    from ..evaluation.finished_runs import folders_in, qrels_of

    folders = folders_in(name_runs(paths)) if paths else []
    if not folders:
        raise UsageError(
            "nothing to evaluate against: give --dataset NAME or --qrels FILE; only run folders "
            "know their dataset"
        )
    return of_turns(qrels_of(folders), turns, "the dataset of the runs")


def turns_of(dataset_name: str, turns: str | None, qrels: str | None = None) -> list[str] | None:
    """The turns that ``--turns`` names, of those that ``--qrels`` judges; None without either.

    Raises:
        UsageError: when a turn isn't there, or isn't judged.
    """
    from ..conversations.datasets import read_turns

    if qrels is not None:
        return list(judged_by(dataset_name, qrels, turns)["qid"].drop_duplicates())
    data = dataset_named(dataset_name)
    return None if turns is None else read_turns(turns, data.get_topics()["qid"], data.name)


def load_runs(paths: Sequence[str]) -> "dict[str, pd.DataFrame]":
    """Runs by their names, those of the folders or files."""
    from ..evaluation.evaluator import name_runs
    from ..evaluation.finished_runs import results_of

    return {name: results_of(name, path) for name, path in name_runs(paths).items()}


def tell_circular(judges: Sequence[str], paths: Sequence[str], *, err: bool = True) -> None:
    """Say which of the run folders are judged by a model that their systems asked."""
    from ..show.ledgers import asked_by, circular

    for line in circular(judges, asked_by(paths)):
        click.echo(line, err=err)


def show(table: Table, form: str = "text", *, err: bool = False) -> None:
    """Print a table in one of `TABLE_FORMATS`. In a terminal, text fits its width."""
    stream = sys.stderr if err else sys.stdout
    if form == "text" and stream.isatty():
        from rich.console import Console

        text = draw(table, Console(file=stream))
    else:
        text = table.written(form)
    click.echo(text, nl=False, err=err)


def print_ledger(ledger: "Ledger", about: str = "", *, err: bool = False) -> None:
    """Print the account of the LLM calls.

    It is omitted if there were no calls and all else is free, like recorded completions.
    """
    from ..llms.ledger import account_table

    account = ledger.frame()
    amounts = account[["calls", "unanswered", "failures", "cost", "worth"]]
    if amounts.fillna(0).to_numpy().any():
        click.echo(err=err)
        show(account_table(account, title=f"LLM ledger{about}"), err=err)
