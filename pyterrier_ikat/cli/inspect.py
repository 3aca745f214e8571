"""Commands that list datasets and methods, show one method, and show runs."""

import ast
from collections import Counter
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

import click

from ..errors import counted
from ..tables import Table, format_score, of_frame, wrapped
from .main import (
    FORMAT,
    MEASURES,
    QRELS,
    RUNS,
    TEXTS,
    TURNS,
    UNIT,
    dataset_named,
    main,
    show,
    text_loader_of,
)

if TYPE_CHECKING:
    from ..methods import Method

INDENT = "  "


@main.command(section="Prepare", example="ikat datasets")
def datasets() -> None:
    """List the datasets, public outputs of language models, and named lists of turns."""
    from ..conversations.datasets import full_names
    from ..conversations.public_outputs import output_rows, turn_lists

    rows = [(name, dataset_named(name).summary) for name in full_names()]
    rows += [
        (
            "irds:NAME",
            "any dataset of ir_datasets, such as irds:vaswani: its queries are turns without a "
            "history",
        ),
        (
            "longmemeval:FILE",
            "a file of LongMemEval (untried), questions over a user's turns in many sessions, "
            "evidence turns as qrels",
        ),
        ("./FOLDER", "your own: topics.jsonl, passages.jsonl, qrels.txt"),
    ]
    rows += output_rows()
    for name, turns in turn_lists().items():
        size = counted(len(turns.turns), "turn")
        rows.append((f"--turns {name}", f"{size}: {turns.about} ({turns.source})"))
    for name, content in rows:
        click.echo(click.style(name, fg="cyan"))
        click.echo(wrapped(content, INDENT))


@main.command(
    section="Inspect", example="ikat methods\nikat methods gtr\nikat methods my_systems.py:gate"
)
@click.argument("name", required=False)
@FORMAT
def methods(name: str | None, form: str) -> None:
    """List all methods by paper, or show the method NAME in detail, with its arguments.

    FILE.py lists the methods of a Python file, and FILE.py:NAME shows one of them. A METHOD of
    other commands may have arguments, such as mq4cs:n=3 or raw:retriever=dense. Formats other than
    text also show LLM calls and queries per turn, depth, models and the paper's tables.
    """
    from ..methods import METHODS, find_all

    entries = list(METHODS.values()) if name is None else find_all(name)
    if form != "text":
        show(_as_table(entries), form)
        return
    if name is not None and not name.endswith(".py"):
        click.echo("\n".join(describe(entries[0])))
        return
    click.echo("\n".join(list_methods(entries)))
    count = counted(len(entries), "method")
    if name is None:
        count += _origins(entries)
    example = "NAME" if name is None else f"{name}:NAME"
    click.echo(wrapped(f"{count}. `ikat methods {example}` shows one, and its arguments."))


def _origins(entries: "Sequence[Method]") -> str:
    """How many of the package's methods come from papers, from the organisers, and from us."""
    from ..methods.catalogue import origin

    counts = Counter(origin(entry) for entry in entries)
    papers = {entry.paper for entry in entries if origin(entry) == "papers"}
    return (
        f": {counts['papers']} from {counted(len(papers), 'paper')}, "
        f"{counted(counts['organisers'], 'baseline')} of the organisers, {counts['ours']} of ours"
    )


def _as_table(entries: "Sequence[Method]") -> Table:
    """The methods with their costs and models."""
    from ..methods import catalogue

    frame = catalogue(entries)
    frame.insert(2, "summary", [_plain(entry.summary) for entry in entries])
    models = []
    for entry in entries:
        of_entry = [f"{resource}: {model}" for resource, model in entry.models.items()]
        models.append(", ".join(of_entry))
    frame["models"] = models
    notes = ["llm_calls, queries: per turn; s is the number of chosen statements."]
    return of_frame(frame.drop(columns=["published", "turns"]), notes)


def list_methods(entries: "Sequence[Method]") -> Iterator[str]:
    """The names of methods by paper, in lines as wide as the terminal."""
    papers: dict[str, list[str]] = {}
    for entry in entries:
        papers.setdefault(entry.paper or "without a paper", []).append(entry.name)
    for paper, names in papers.items():
        for line in wrapped(paper).splitlines():
            yield click.style(line, bold=True)
        for line in wrapped(" ".join(names), INDENT).splitlines():
            yield click.style(line, fg="cyan")


def describe(entry: "Method") -> Iterator[str]:
    """A method in detail: its description, expression and resources, and its published scores."""
    title = entry.name
    if entry.paper:
        title = f"{click.style(entry.name, bold=True)}: {entry.paper}"
    yield wrapped(title)
    for paragraph in entry.description.split("\n\n") if entry.description else ():
        yield ""
        yield wrapped(_plain(paragraph))
    yield from _settings(entry)
    yield from _needs(entry)
    yield from _published(entry)


def _settings(entry: "Method") -> Iterator[str]:
    """The other settings of a method's system, its expression and its arguments."""
    from ..methods import methods_of

    others = [other.name for other in methods_of(entry.system) if other.name != entry.name]
    if others:
        yield ""
        yield wrapped(f"Same system, other settings: {', '.join(others)}", "", INDENT)
    yield ""
    yield one_stage_per_line(entry.expression)
    yield ""
    values = [f"{name}={value}" for name, value in entry.values.items()]
    if values:
        original = entry.of or entry
        example = f"{original.name}:{values[0]}"
        yield wrapped(f"Arguments: {', '.join(values)}; give others as {example}.")


def _needs(entry: "Method") -> Iterator[str]:
    """The resources of a method, and what it asks and searches per turn."""
    from ..methods.catalogue import calls_per_turn

    needs = f"Needs {', '.join(entry.needs) or 'nothing'}"
    if entry.takes:
        needs += f"; optional: {', '.join(entry.takes)}"
    yield wrapped(f"{needs}.")
    calls, queries = calls_per_turn(entry)
    per_turn = f"Per turn: about {_amount(calls, 'LLM call')} and {_amount(queries, 'query')}"
    if "s" in calls + queries:
        per_turn += "; s is the number of chosen statements"
    yield wrapped(f"{per_turn}.")
    for resource, models in entry.models.items():
        yield wrapped(f"The paper's {resource}: {models}")


def _published(entry: "Method") -> Iterator[str]:
    """The scores of a method that papers report."""
    from ..methods import TABLES
    from ..methods.catalogue import published_scores

    for name, scores in published_scores(entry).items():
        table = TABLES[name]
        turns = _amount(table.turns or "an unknown number of", "turn")
        row = ", ".join(f"{measure} {format_score(value)}" for measure, value in scores.items())
        yield ""
        yield wrapped(f"{table.paper} ({turns}, {table.qrels}): {row}")


def _amount(number: int | str, noun: str) -> str:
    """A number of things; a text, such as 1 + s, is several."""
    if str(number).isdecimal():
        return counted(int(number), noun)
    return f"{number} {counted(2, noun).removeprefix('2 ')}"


def _plain(text: str) -> str:
    return " ".join(text.replace("``", "").split())


def one_stage_per_line(expression: str) -> str:
    """An operator expression with each stage of its chain on lines of its own.

    Example:
        >>> print(one_stage_per_line("ikat.Union((a >> b), c >> d) >> ikat.Respond(llm)"))
        ikat.Union((a >> b), c >> d)
        >> ikat.Respond(llm)
    """
    try:
        node = ast.parse(expression, mode="eval").body
    except SyntaxError:  # a stage of the user's is shown as <... object at 0x...>
        from ..foreign import ADDRESS

        return wrapped(ADDRESS.sub("", expression), "", INDENT)
    stages = []
    end = len(expression)
    while isinstance(node, ast.BinOp) and isinstance(node.op, ast.RShift):
        node = node.left
        start = expression.index(">>", node.end_col_offset)
        stages.append(expression[start:end])
        end = start
    stages.append(expression[:end])
    return "\n".join(wrapped(stage.strip(), "", INDENT) for stage in reversed(stages))


@main.command(section="Inspect", example="ikat report runs/* --out report.html")
@RUNS
@click.option(
    "--dataset",
    "dataset_name",
    help="dataset with the utterances, judgements and passages; by default that of the run folders",
)
@QRELS
@TURNS
@TEXTS
@MEASURES
@click.option(
    "--baseline",
    help="the run that all others are compared with; by default that of the simulation, `raw`, or "
    "the first run",
)
@UNIT
@click.option(
    "--out", required=True, type=click.Path(dir_okay=False), help="the HTML file to write"
)
def report(
    paths: tuple[str, ...],
    dataset_name: str | None,
    index_path: str | None,
    out: str,
    **options: Any,
) -> None:
    """Write one HTML file that shows RUNs as conversations to read and compare.

    A RUN is a folder made by `ikat run`, a TREC run file or a submission. If all RUNs are folders
    made by `ikat simulate` or `ikat interact`, the report shows the conversations of the systems
    with each user side by side.
    """
    from ..show import report as make

    texts = text_loader_of(index_path)
    page = make(list(paths), dataset_name, texts=texts, **options)
    click.echo(page.save(out))
