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
    """List the datasets with their contents, public outputs of language models, and named lists of turns."""
    from ..conversations.datasets import full_names
    from ..conversations.public_outputs import listed, turn_lists

    rows = [
        *((name, dataset_named(name).summary) for name in full_names()),
        (
            "irds:NAME",
            "any dataset of ir_datasets, such as irds:vaswani: its queries are turns without a history",
        ),
        (
            "longmemeval:FILE",
            "a file of LongMemEval (untried), questions over a user's turns in many sessions, evidence turns as qrels",
        ),
        ("./FOLDER", "your own: topics.jsonl, passages.jsonl, qrels.txt"),
        *listed(),
        *(
            (f"--turns {name}", f"{counted(len(one.turns), 'turn')}: {one.about} ({one.source})")
            for name, one in turn_lists().items()
        ),
    ]
    click.echo(
        "\n".join(
            f"{click.style(name, fg='cyan')}\n{wrapped(content, INDENT)}" for name, content in rows
        )
    )


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

    found = list(METHODS.values()) if name is None else find_all(name)
    if form != "text":
        show(_as_table(found), form)
    elif name is None or name.endswith(".py"):
        click.echo("\n".join(list_methods(found)))
        one = "NAME" if name is None else f"{name}:NAME"
        whose = _whose(found) if name is None else ""
        click.echo(
            wrapped(
                f"{counted(len(found), 'method')}{whose}. `ikat methods {one}` shows one, and its arguments."
            )
        )
    else:
        click.echo("\n".join(describe(found[0])))


def _whose(found: "Sequence[Method]") -> str:
    """How many of the package's methods come from papers, from the organisers, and from us."""
    from ..methods.catalogue import origin

    counts = Counter(origin(entry) for entry in found)
    papers = {entry.paper for entry in found if origin(entry) == "papers"}
    of_papers = f"{counts['papers']} from {counted(len(papers), 'paper')}"
    return f": {of_papers}, {counted(counts['organisers'], 'baseline')} of the organisers, {counts['ours']} of ours"


def _as_table(found: "Sequence[Method]") -> Table:
    from ..methods import catalogue

    frame = catalogue(found)
    frame.insert(2, "summary", [_plain(entry.summary) for entry in found])
    frame["models"] = [
        ", ".join(f"{resource}: {model}" for resource, model in entry.models.items())
        for entry in found
    ]
    notes = ["llm_calls, queries: per turn; s is the number of chosen statements."]
    return of_frame(frame.drop(columns=["published", "turns"]), notes)


def list_methods(found: "Sequence[Method]") -> Iterator[str]:
    """The names of methods by paper, in lines as wide as the terminal."""
    papers: dict[str, list[str]] = {}
    for entry in found:
        papers.setdefault(entry.paper or "without a paper", []).append(entry.name)
    for paper, names in papers.items():
        yield from (click.style(line, bold=True) for line in wrapped(paper).splitlines())
        yield from (
            click.style(line, fg="cyan") for line in wrapped(" ".join(names), INDENT).splitlines()
        )


def describe(entry: "Method") -> Iterator[str]:
    """A method in detail: its description, expression, resources, and the scores that papers report."""
    from ..methods import TABLES, methods_of
    from ..methods.catalogue import calls_per_turn, published_scores

    yield from wrapped(
        f"{click.style(entry.name, bold=True)}: {entry.paper}" if entry.paper else entry.name
    ).splitlines()
    if entry.description:
        yield ""
        yield from "\n\n".join(
            wrapped(_plain(part)) for part in entry.description.split("\n\n")
        ).splitlines()
    if others := [one.name for one in methods_of(entry.system) if one.name != entry.name]:
        yield from ["", wrapped(f"Same system, other settings: {', '.join(others)}", "", INDENT)]
    yield from ["", broken(entry.expression), ""]
    if values := [f"{name}={value}" for name, value in entry.values.items()]:
        yield wrapped(
            f"Arguments: {', '.join(values)}; give others as {(entry.of or entry).name}:{values[0]}."
        )
    calls, queries = calls_per_turn(entry)
    optional = f"; optional: {', '.join(entry.takes)}" if entry.takes else ""
    yield wrapped(f"Needs {', '.join(entry.needs)}{optional}.")
    yield wrapped(
        f"Per turn: about {_amount(calls, 'LLM call')} and {_amount(queries, 'query')}{STATEMENTS * ('s' in calls + queries)}."
    )
    for resource, models in entry.models.items():
        yield wrapped(f"The paper's {resource}: {models}")
    for name, scores in published_scores(entry).items():
        table = TABLES[name]
        row = ", ".join(f"{measure} {format_score(value)}" for measure, value in scores.items())
        yield ""
        yield wrapped(
            f"{table.paper} ({_amount(table.turns or 'an unknown number of', 'turn')}, {table.qrels}): {row}"
        )


def _amount(number: int | str, noun: str) -> str:
    """A number of things; a text, such as 1 + s, is several."""
    return (
        counted(int(number), noun)
        if str(number).isdecimal()
        else f"{number} {counted(2, noun)[2:]}"
    )


STATEMENTS = "; s is the number of chosen statements"


def _plain(text: str) -> str:
    return " ".join(text.replace("``", "").split())


def broken(expression: str) -> str:
    """An operator expression with each stage of its chain on lines of its own.

    Example:
        >>> print(broken("ikat.Union((a >> b), c >> d) >> ikat.Respond(llm)"))
        ikat.Union((a >> b), c >> d)
        >> ikat.Respond(llm)
    """
    node, places = ast.parse(expression, mode="eval").body, [len(expression)]
    while isinstance(node, ast.BinOp) and isinstance(node.op, ast.RShift):
        node = node.left
        places.append(expression.index(">>", node.end_col_offset))
    stages = [
        expression[start:end] for start, end in zip([0, *places[:0:-1]], places[::-1], strict=True)
    ]
    return "\n".join(wrapped(stage.strip(), "", INDENT) for stage in stages)


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
    help="the run that all others are compared with; by default that of the simulation, `raw`, or the first run",
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

    click.echo(
        make(list(paths), dataset_name, texts=text_loader_of(index_path), **options).save(out)
    )
