"""The command that reproduces a paper's tables and figures."""

from collections.abc import Iterator, Sequence
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any

import click

from ..errors import UsageError, counted
from ..tables import of_frame, wrapped
from .main import FORMAT, QRELS, TURNS, main, show

if TYPE_CHECKING:
    from ..methods.catalogue import PublishedTable
    from ..papers.published import Matrix
    from ..papers.reproduction import Reproduction


@main.command(
    section="Evaluate",
    example="ikat paper\nikat paper generate_then_retrieve\nikat paper generate_then_retrieve 3 --resources sample\n"
    "ikat paper ptkb_2024 2023 --repeats 5 --dataset ikat:2023-mini",
)
@click.argument("name", required=False, metavar="[PAPER]")
@click.argument("number", required=False, metavar="[TABLE]")
@click.option(
    "--resources",
    help='TOML file with lines such as "gpt-4" = "openai:gpt-4-0613"; or sample, to run offline',
)
@click.option("--dataset", help="another dataset than the table's, such as ikat:2023-mini")
@QRELS
@click.option(
    "--judged-by",
    help="who judged --qrels: NIST or a model; `ikat judge` writes it beside its file",
)
@TURNS
@click.option("--systems", help="only these rows, separated by commas")
@click.option(
    "--repeats",
    type=int,
    help="runs of each system with an LLM, whose means are shown  [default: 1]",
)
@click.option(
    "--out",
    default="papers",
    show_default=True,
    type=click.Path(),
    help="folder of the runs; stopped runs continue",
)
@click.option("--plan", "only_plan", is_flag=True, help="only estimate LLM calls, tokens and cost")
@FORMAT
def paper(
    name: str | None,
    number: str | None,
    resources: str | None,
    only_plan: bool,
    form: str,
    **options: Any,
) -> None:
    """Reproduce a TABLE or figure of a PAPER: our scores beside the published ones.

    Without --resources, the command prints the TABLE as it was published, what each row needs, and
    what we decided. Without TABLE, it does so for all tables, without their scores. Without PAPER,
    it lists the papers and their tables.

    The completions behind table 2023 of ptkb_2024 are public. With --repeats, --dataset or --plan
    it runs without --resources: on ikat:2023-mini at once, on ikat:2023 with an index of the
    collection.
    """
    from ..papers.published import Listing, Matrix, Prompts, find_table
    from ..papers.reproduction import Reproduction
    from ..papers.table import published_tables

    if name is None:
        click.echo("\n".join(_papers()))
        return
    systems, repeats = options.pop("systems"), options.pop("repeats")
    chosen = systems and [one.strip() for one in systems.split(",")]
    found = Reproduction(
        name, resources or {}, systems=chosen, repeats=1 if repeats is None else repeats, **options
    )
    known: dict[str, Any] = {**found.paper.tables, **found.paper.figures}
    if number is None:
        lines = [wrapped(found.paper.title), *([found.paper.link] if found.paper.link else []), ""]
        click.echo("\n".join([*lines, *_about(found, known, resources is not None)]))
        return
    what = find_table(name, number)
    runs = only_plan or repeats is not None or options["dataset"] is not None
    if resources is None and runs and not isinstance(what, Matrix | Listing | Prompts):
        for part in _parts(what, found):
            found.check_public(part)
    elif resources is None or isinstance(what, Listing | Prompts):  # nothing to run
        if only_plan:
            raise UsageError(
                "a plan needs models and indexes: give --resources FILE, or --resources sample to plan for the sample"
            )
        if repeats is not None:
            raise UsageError(
                f"table {number} of {name} is printed as published, and nothing is run for it: omit --repeats"
            )
        for table in published_tables(name, number):
            show(table, form)
            click.echo(err=form != "text")
        of_table = {one: table for one, table in known.items() if table is what}
        click.echo("\n".join(_about(found, of_table, False)), err=form != "text")
        return
    if isinstance(what, Matrix):
        others = ("qrels", "judged_by", "systems", "turns", "repeats")
        given = {**options, "systems": systems, "repeats": repeats}
        unused = [one.replace("_", "-") for one, value in given.items() if value and one in others]
        if unused:
            raise UsageError(
                f"table {number} of {name} is about the labels of all official pairs and scores no system: omit --{unused[0]}"
            )
        _relabel(what, found, only_plan, form)
    elif only_plan:
        _plan(what, found, form)
    else:
        _reproduce(what, found, f"{name}-{number}.png", form)


def _papers() -> Iterator[str]:
    from ..papers.published import PAPERS

    for name, paper in PAPERS.items():
        yield from (name, wrapped(paper.title, "  "), *([f"  {paper.link}"] if paper.link else []))
        yield from (
            f"  tables {', '.join(paper.tables)}"
            + (f"; {', '.join(paper.figures)}" if paper.figures else ""),
            "",
        )
    yield wrapped(
        "`ikat paper PAPER` shows what each row needs; `ikat paper PAPER TABLE --resources FILE` runs a table."
    )


def _about(found: "Reproduction", tables: dict[str, Any], with_reasons: bool) -> Iterator[str]:
    """What the rows of tables need, and what was decided for the paper."""
    from ..papers.published import Figure, Listing, Matrix, Prompts

    for number, table in tables.items():
        if isinstance(table, Matrix):
            judge = table.judge
            yield wrapped(
                f"Table {number}: labels of {judge} against NIST's, iKAT {table.year}; needs {judge.casefold()!r} and 'bm25'"
            )
        elif isinstance(table, Listing):
            yield wrapped(
                f"Table {number}: what the systems are made of: {', '.join(table.systems)}; `ikat methods NAME` shows each"
            )
        elif isinstance(table, Prompts):
            yield wrapped(f"{table.what}: {', '.join(table.templates)}")
        elif isinstance(table, Figure):
            yield from _part(number, found, table.part, with_reasons, table.systems)
        else:
            for part in table:
                yield from _part(f"Table {number}", found, part, with_reasons, part.systems)
        yield ""
    yield "What differs from the paper or was decided:"
    yield from (wrapped(f"- {what} {why}", "", "  ") for what, why in found.paper.deviations)


def _part(
    called: str,
    found: "Reproduction",
    part: "PublishedTable",
    with_reasons: bool,
    systems: Sequence[str],
) -> Iterator[str]:
    turns = counted(part.turns, "turn") if part.turns else "an unknown number of turns"
    yield wrapped(
        f"{called}: iKAT {part.year}, {part.judgements}, {turns}: {', '.join(part.measures)}"
    )
    rows = [row for row in found.rows(part) if row.name in systems]
    yield wrapped(
        f"needs {_judge(part)}, and {', '.join(dict.fromkeys(key for row in rows for key in row.needs))}",
        "  ",
        "  ",
    )
    for row in rows:
        reason = f"; {row.reason}" if with_reasons and row.reason else ""
        yield wrapped(f"{row.name}: needs {', '.join(row.needs)}{reason}", "  ", "  ")


def _judge(part: "PublishedTable") -> str:
    """The judge whose labels a table needs."""
    from ..methods.catalogue import NIST
    from ..papers.published import ANSWERS, JUDGES, STATEMENTS_NIST, STATEMENTS_ORGANISERS

    if part.about == ANSWERS:
        return f"the judges {', '.join(repr(JUDGES[name]) for name in part.measures if JUDGES.get(name))}"
    if part.judgements in (STATEMENTS_NIST, STATEMENTS_ORGANISERS):
        return part.judgements
    return (
        "NIST's judgements"
        if part.judgements == NIST
        else f"labels by {part.judgements} (--qrels FILE)"
    )


def _relabel(matrix: "Matrix", found: "Reproduction", only_plan: bool, form: str) -> None:
    """Judge the official pairs again, and compare the labels with NIST's."""
    from ..papers.reproduction import Relabelled

    labels = Relabelled.of(matrix, found)
    if only_plan:
        show(labels.plan().shown(), form)
    else:
        labels.run()
        show(labels.shown(), form)


def _parts(what: Any, found: "Reproduction") -> "tuple[PublishedTable, ...]":
    """The parts of a table, or the one behind a figure, of which only the drawn systems are run."""
    from ..papers.published import Figure

    if isinstance(what, Figure) and found.systems is None:
        found.systems = list(what.systems)
    return (what.part,) if isinstance(what, Figure) else tuple(what)


def _plan(what: Any, found: "Reproduction", form: str) -> None:
    for place, part in enumerate(_parts(what, found)):
        click.echo(nl=bool(place))
        if len(planned := found.plan(part)):
            show(planned.shown(), form)
        for line in found.beside_the_plan(part):
            click.echo(wrapped(line), err=form != "text")


def _reproduce(what: Any, found: "Reproduction", picture: str, form: str) -> None:
    """Run the systems of a table or figure, and show their scores beside the published ones."""
    from ..papers.published import Figure
    from ..papers.reproduction import draw_figure, figure_notes, figure_scores

    parts, drawn = _parts(what, found), find_spec("matplotlib") is not None
    if isinstance(what, Figure) and not drawn:
        click.echo(
            "ikat: warning: no picture without matplotlib, only its numbers: pip install pyterrier_ikat[plots]",
            err=True,
        )
    for part in parts:
        found.run(part)
    if not isinstance(what, Figure):
        for place, part in enumerate(parts):
            click.echo(nl=bool(place))
            show(found.table(part).shown(), form)
        return
    show(of_frame(figure_scores(found, what), figure_notes(found, what), what.title), form)
    if drawn:
        click.echo(f"\n{draw_figure(found, what, found.root / picture)}", err=form != "text")
