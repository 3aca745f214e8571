"""The command that reproduces a paper's tables and figures."""

from collections.abc import Iterator, Mapping, Sequence
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
    example="""\
ikat paper
ikat paper generate_then_retrieve
ikat paper generate_then_retrieve 3 --resources sample
ikat paper ptkb_2024 2023 --repeats 5 --dataset ikat:2023-mini""",
)
@click.argument("name", required=False, metavar="[PAPER]")
@click.argument("number", required=False, metavar="[TABLE]")
@click.option(
    "--resources",
    help='TOML file with lines such as "gpt-4" = "openai:gpt-4-0613"; or sample, to run offline',
)
@click.option("--index", help='the folder of the index, instead of "bm25" in --resources')
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

    The completions behind table 2023 of ptkb_2024 are public. With --repeats, --dataset, --index or
    --plan it runs without --resources: on ikat:2023-mini at once, on ikat:2023 with an index of the
    collection.
    """
    from ..papers.published import Listing, Matrix, Prompts, find_table
    from ..papers.reproduction import Reproduction

    if name is None:
        click.echo("\n".join(_papers()))
        return
    repeats = options.pop("repeats")
    systems: list[str] | None = None
    if options["systems"]:
        systems = [system.strip() for system in options["systems"].split(",")]
    arguments = {**options, "systems": systems, "repeats": 1 if repeats is None else repeats}
    reproduction = Reproduction(name, resources or {}, **arguments)
    if number is None:
        click.echo("\n".join(_about_paper(reproduction, resources is not None)))
        return
    table = find_table(name, number)
    given = (repeats, options["index"], options["dataset"])
    of_public = only_plan or any(value is not None for value in given)
    if resources is None and of_public and not isinstance(table, Matrix | Listing | Prompts):
        for part in _parts(table, reproduction):
            reproduction.check_public(part)
    elif resources is None or isinstance(table, Listing | Prompts):
        _check_printed(name, number, only_plan, repeats)
        _print_published(name, number, table, reproduction, form)
        return
    if isinstance(table, Matrix):
        _check_matrix_options(name, number, {**options, "repeats": repeats})
        _relabel(table, reproduction, only_plan, form)
    elif only_plan:
        _plan(table, reproduction, form)
    else:
        _reproduce(table, reproduction, f"{name}-{number}.png", form)


def _check_printed(name: str, number: str, only_plan: bool, repeats: int | None) -> None:
    """Check that no option asks to run a table that is only printed."""
    if only_plan:
        raise UsageError(
            "a plan needs models and indexes: give --resources FILE, or --resources sample to plan "
            "for the sample"
        )
    if repeats is not None:
        raise UsageError(
            f"table {number} of {name} is printed as published, and nothing is run for it: omit "
            "--repeats"
        )


def _check_matrix_options(name: str, number: str, options: Mapping[str, Any]) -> None:
    """Check that no option is about systems, which a matrix of labels doesn't have."""
    for option in ("qrels", "judged_by", "turns", "systems", "repeats"):
        if options[option]:
            raise UsageError(
                f"table {number} of {name} is about the labels of all official pairs and scores no "
                f"system: omit --{option.replace('_', '-')}"
            )


def _print_published(
    name: str, number: str, table: Any, reproduction: "Reproduction", form: str
) -> None:
    """Print a table as it was published, and what its rows need."""
    from ..papers.table import published_tables

    is_formatted = form != "text"
    for published in published_tables(name, number):
        show(published, form)
        click.echo(err=is_formatted)
    of_table = {}
    for key, other in _tables(reproduction).items():
        if other is table:
            of_table[key] = other
    click.echo("\n".join(_about(reproduction, of_table, False)), err=is_formatted)


def _tables(reproduction: "Reproduction") -> dict[str, Any]:
    """The tables and figures of a paper."""
    return {**reproduction.paper.tables, **reproduction.paper.figures}


def _papers() -> Iterator[str]:
    """The papers and their tables."""
    from ..papers.published import PAPERS

    for name, paper in PAPERS.items():
        yield name
        yield wrapped(paper.title, "  ")
        if paper.link:
            yield f"  {paper.link}"
        tables = f"  tables {', '.join(paper.tables)}"
        if paper.figures:
            tables += f"; {', '.join(paper.figures)}"
        yield tables
        yield ""
    yield wrapped(
        "`ikat paper PAPER` shows what each row needs; `ikat paper PAPER TABLE --resources FILE` "
        "runs a table."
    )


def _about_paper(reproduction: "Reproduction", with_reasons: bool) -> Iterator[str]:
    """A paper, what the rows of its tables need, and what was decided for it."""
    yield wrapped(reproduction.paper.title)
    if reproduction.paper.link:
        yield reproduction.paper.link
    yield ""
    yield from _about(reproduction, _tables(reproduction), with_reasons)


def _about(
    reproduction: "Reproduction", tables: Mapping[str, Any], with_reasons: bool
) -> Iterator[str]:
    """What the rows of tables need, and what was decided for the paper."""
    from ..papers.published import Figure, Listing, Matrix, Prompts

    for number, table in tables.items():
        if isinstance(table, Matrix):
            yield wrapped(
                f"Table {number}: labels of {table.judge} against NIST's, iKAT {table.year}; needs "
                f"{table.judge.casefold()!r} and 'bm25'"
            )
        elif isinstance(table, Listing):
            yield wrapped(
                f"Table {number}: what the systems are made of: {', '.join(table.systems)}; `ikat "
                "methods NAME` shows each"
            )
        elif isinstance(table, Prompts):
            yield wrapped(f"{table.what}: {', '.join(table.templates)}")
        elif isinstance(table, Figure):
            yield from _part(number, reproduction, table.part, with_reasons, table.systems)
        else:
            for part in table:
                title = f"Table {number}"
                yield from _part(title, reproduction, part, with_reasons, part.systems)
        yield ""
    yield "What differs from the paper or was decided:"
    for what, why in reproduction.paper.deviations:
        yield wrapped(f"- {what} {why}", "", "  ")


def _part(
    title: str,
    reproduction: "Reproduction",
    part: "PublishedTable",
    with_reasons: bool,
    systems: Sequence[str],
) -> Iterator[str]:
    """What the rows of a part of a table need.

    Args:
        title: the table's name.
        reproduction: the paper.
        part: the part.
        with_reasons: whether to say why a row can't be run.
        systems: the rows.
    """
    turns = counted(part.turns, "turn") if part.turns else "an unknown number of turns"
    measures = ", ".join(part.measures)
    yield wrapped(f"{title}: iKAT {part.year}, {part.judgements}, {turns}: {measures}")
    rows = [row for row in reproduction.rows(part) if row.name in systems]
    needs = dict.fromkeys(key for row in rows for key in row.needs)
    yield wrapped(f"needs {_judge(part)}, and {', '.join(needs)}", "  ", "  ")
    for row in rows:
        reason = f"; {row.reason}" if with_reasons and row.reason else ""
        yield wrapped(f"{row.name}: needs {', '.join(row.needs)}{reason}", "  ", "  ")


def _judge(part: "PublishedTable") -> str:
    """The judge whose labels a table needs."""
    from ..methods.catalogue import NIST
    from ..papers.published import ANSWERS, JUDGES, STATEMENTS_NIST, STATEMENTS_ORGANISERS

    if part.about == ANSWERS:
        judges = [repr(JUDGES[name]) for name in part.measures if JUDGES.get(name)]
        return f"the judges {', '.join(judges)}"
    if part.judgements in (STATEMENTS_NIST, STATEMENTS_ORGANISERS):
        return part.judgements
    if part.judgements == NIST:
        return "NIST's judgements"
    return f"labels by {part.judgements} (--qrels FILE)"


def _relabel(matrix: "Matrix", reproduction: "Reproduction", only_plan: bool, form: str) -> None:
    """Judge the official pairs again, and compare the labels with NIST's."""
    from ..papers.reproduction import Relabelled

    labels = Relabelled.of(matrix, reproduction)
    if only_plan:
        show(labels.plan().shown(), form)
    else:
        labels.run()
        show(labels.shown(), form)


def _parts(table: Any, reproduction: "Reproduction") -> "tuple[PublishedTable, ...]":
    """The parts of a table, or the one behind a figure, of which only the drawn systems are run."""
    from ..papers.published import Figure

    if not isinstance(table, Figure):
        return tuple(table)
    if reproduction.systems is None:
        reproduction.systems = list(table.systems)
    return (table.part,)


def _plan(table: Any, reproduction: "Reproduction", form: str) -> None:
    """Show the plan of each part of a table or figure."""
    for number, part in enumerate(_parts(table, reproduction)):
        if number:
            click.echo()
        plan = reproduction.plan(part)
        if len(plan):
            show(plan.shown(), form)
        for line in reproduction.beside_the_plan(part):
            click.echo(wrapped(line), err=form != "text")


def _reproduce(table: Any, reproduction: "Reproduction", picture: str, form: str) -> None:
    """Run the systems of a table or figure, and show their scores beside the published ones."""
    from ..papers.published import Figure
    from ..papers.reproduction import draw_figure, figure_notes, figure_scores

    parts = _parts(table, reproduction)
    can_draw = find_spec("matplotlib") is not None
    if isinstance(table, Figure) and not can_draw:
        click.echo(
            "ikat: warning: no picture without matplotlib, only its numbers: pip install "
            "pyterrier_ikat[plots]",
            err=True,
        )
    for part in parts:
        reproduction.run(part)
    if not isinstance(table, Figure):
        for number, part in enumerate(parts):
            if number:
                click.echo()
            show(reproduction.table(part).shown(), form)
        return
    scores = figure_scores(reproduction, table)
    show(of_frame(scores, figure_notes(reproduction, table), table.title), form)
    if can_draw:
        path = draw_figure(reproduction, table, reproduction.root / picture)
        click.echo(f"\n{path}", err=form != "text")
