"""The command that reproduces a paper's tables and figures."""

from importlib.util import find_spec
from typing import TYPE_CHECKING, Any

import click

from ..errors import UsageError, counted
from ..tables import of_frame, wrapped
from .main import main
from .options import FORMAT, QRELS, TURNS
from .output import show, show_plan

if TYPE_CHECKING:
    from ..methods.tables import PublishedTable
    from ..papers.reproduction import Reproduction


@main.command(
    section="Evaluate",
    example="ikat paper\nikat paper generate_then_retrieve\nikat paper generate_then_retrieve 3 --resources sample",
)
@click.argument("name", required=False, metavar="[PAPER]")
@click.argument("number", required=False, metavar="[TABLE]")
@click.option(
    "--resources",
    help='TOML file with lines such as "gpt-4" = "openai:gpt-4-0613 temperature=0" and prompts = "FOLDER"; or sample, to run offline',
)
@click.option("--dataset", help="another dataset than the table's, such as ikat:2023-mini")
@QRELS
@click.option("--judged-by", help="who judged --qrels: NIST or a model; `ikat judge` writes it beside its file")
@TURNS
@click.option("--systems", help="only these rows, separated by commas")
@click.option("--out", default="papers", show_default=True, type=click.Path(), help="folder of the runs; stopped runs continue")
@click.option("--plan", "only_plan", is_flag=True, help="only estimate LLM calls, tokens and cost")
@FORMAT
def paper(name: str | None, number: str | None, resources: str | None, only_plan: bool, form: str, **options: Any) -> None:
    """Reproduce a TABLE or figure of a PAPER: our scores beside the published ones.

    Without --resources, the command prints the TABLE as it was published. Without TABLE, it lists the rows of the paper's tables and what
    each row needs. Without PAPER, it lists the papers and their tables.
    """
    from ..papers.published import Listing, Prompts, find_table
    from ..papers.table import published_tables

    if name is None:
        click.echo(_papers())
    elif number is None:
        click.echo(_rows(name, resources, options))
    else:
        if isinstance(find_table(name, number), Listing | Prompts):  # nothing to run
            resources = None
        if resources is None:
            if only_plan:
                raise UsageError("a plan needs models and indexes: give --resources FILE, or --resources sample to plan for the sample")
            for place, table in enumerate(published_tables(name, number)):
                click.echo(nl=bool(place))
                show(table, form)
            return
        _table(name, number, resources, only_plan, form, options)


def _papers() -> str:
    from ..papers.published import PAPERS

    lines = []
    for name, paper in PAPERS.items():
        lines += [name, wrapped(paper.title, "  "), *([f"  {paper.link}"] if paper.link else [])]
        lines += [f"  tables {', '.join(paper.tables)}" + (f"; {', '.join(paper.figures)}" if paper.figures else ""), ""]
    said = "`ikat paper PAPER` shows what each row needs; `ikat paper PAPER TABLE --resources FILE` runs a table."
    return "\n".join([*lines, wrapped(said)])


def _reproduction(name: str, resources: Any, options: dict[str, Any]) -> "Reproduction":
    from ..papers.reproduction import Reproduction

    systems = None if options["systems"] is None else [one.strip() for one in options["systems"].split(",")]
    given = {key: options[key] for key in ("dataset", "out", "qrels", "judged_by", "turns")}
    return Reproduction(name, resources, systems=systems, **given)


def _rows(name: str, resources: str | None, options: dict[str, Any]) -> str:
    from ..papers.published import Listing, Matrix, Prompts, find_paper

    found, paper = _reproduction(name, resources or {}, options), find_paper(name)
    lines = [wrapped(paper.title), *([paper.link] if paper.link else [])]
    for number, table in paper.tables.items():
        if isinstance(table, Matrix):
            said = f"Table {number}: labels of {table.judge} against NIST's, iKAT {table.year}; needs {table.judge.casefold()!r} and 'bm25'"
            lines += ["", wrapped(said)]
        elif isinstance(table, Listing):
            systems = ", ".join(table.systems)
            lines += ["", wrapped(f"Table {number}: what the systems are made of: {systems}; `ikat methods NAME` shows each")]
        elif isinstance(table, Prompts):
            lines += ["", wrapped(f"{table.what}: {', '.join(table.templates)}")]
        else:
            lines += [line for part in table for line in _part(number, found, part, resources)]
    return "\n".join([*lines, *(["", f"Figures: {', '.join(paper.figures)}"] if paper.figures else [])])


def _part(number: str, found: "Reproduction", part: "PublishedTable", resources: str | None) -> list[str]:
    from ..papers.paper_resources import keys_of

    turns = counted(part.turns, "turn") if part.turns else "an unknown number of turns"
    lines = ["", wrapped(f"Table {number}: iKAT {part.year}, {part.judgements}, {turns}: {', '.join(part.measures)}")]
    rows = found.rows(part)
    keys = dict.fromkeys(key for row in rows for keys in keys_of(row.method).values() for key in keys)
    lines.append(wrapped(f"needs {_judge(part)}, and {', '.join(map(repr, keys))}", "  ", "  "))
    for row in rows:
        needs = ", ".join(repr(key) for keys in keys_of(row.method).values() for key in keys)
        lines.append(wrapped(f"{row.name}: needs {needs}", "  ", "  "))
        if resources is not None:
            lines.append(f"    {row.reason or row.command(found.dataset(part).name, str(found.out(part)))}")
    return lines


def _judge(part: "PublishedTable") -> str:
    """The judge whose labels a table needs."""
    from ..methods.differences import model_key
    from ..methods.tables import NIST
    from ..papers.paper_resources import JUDGES
    from ..papers.published import ANSWERS, STATEMENTS_NIST, STATEMENTS_ORGANISERS

    if part.about == ANSWERS:
        return f"the judges {', '.join(repr(JUDGES[name]) for name in part.measures if JUDGES.get(name))}"
    if part.judgements in (NIST, STATEMENTS_NIST, STATEMENTS_ORGANISERS):
        return "NIST's judgements" if part.judgements == NIST else part.judgements
    return f"the judge {model_key(part.judgements)!r} (or its labels: --qrels FILE)"


def _table(name: str, number: str, resources: str, only_plan: bool, form: str, options: dict[str, Any]) -> None:
    from ..papers.agreement import Relabelled, judge_spec
    from ..papers.published import Figure, Listing, Matrix, Prompts, find_table
    from ..papers.reproduction import draw_figure, figure_scores, texts_of

    what, found = find_table(name, number), _reproduction(name, resources, options)
    if isinstance(what, Matrix):
        _refuse_unused(options, f"table {number} of {name}")
        data = found.of_year(what.year)
        texts = texts_of(found.index_of("bm25"))
        labels = Relabelled(what, data, judge_spec(found.resources, what), found.root / data.name.replace(":", "-"), texts, found.prompts)
        if only_plan:
            show_plan(labels.plan(), form)
            return
        labels.run()
        show(labels.shown(), form)
        return
    assert not isinstance(what, Listing | Prompts)
    parts = (what.part,) if isinstance(what, Figure) else what
    if isinstance(what, Figure) and found.systems is None:
        found.systems = list(what.systems)  # don't pay for what isn't drawn
    for place, part in enumerate(parts) if only_plan else ():
        click.echo(nl=bool(place))
        show_plan(found.plan(part), form)
        for line in _beside_the_plan(part, found):
            click.echo(wrapped(line), err=form != "text")
    if only_plan:
        return
    drawn = find_spec("matplotlib") is not None
    if isinstance(what, Figure) and not drawn:
        click.echo("ikat: warning: no picture without matplotlib, only its numbers: pip install pyterrier_ikat[plots]", err=True)
    for part in parts:
        found.run(part)
    if isinstance(what, Figure):
        shown = found.table(what.part)
        show(of_frame(figure_scores(found, what), shown.notes_of_a_figure, shown.title), form)
        if drawn:
            click.echo(f"\n{draw_figure(found, what, found.root / f'{name}-{number}.png')}", err=form != "text")
        return
    for place, part in enumerate(parts):
        click.echo(nl=bool(place))
        show(found.table(part).shown(), form)


def _beside_the_plan(part: "PublishedTable", found: "Reproduction") -> list[str]:
    """Lines in addition to the plan of a table: rows that can't be run, and a note on its judges."""
    from ..papers.published import ANSWERS

    rows = found.rows(part)
    lines = [f"{row.name} is not run: {row.reason}." for row in rows if row.reason]
    if (pool := found.pool(part)) is not None:
        lines.append(pool.said_of_a_plan(sum(not row.reason for row in rows), found.judgements(part).qrels["qid"].nunique()))
    asks = "This plan omits the judges of responses that the resources name: each is asked about every response."
    return lines + [asks] * (part.about == ANSWERS)


def _refuse_unused(options: dict[str, Any], table: str) -> None:
    for name in ("qrels", "judged_by", "turns", "systems"):
        if options[name] is not None:
            raise UsageError(f"{table} is about the labels of all official pairs and scores no system: omit --{name.replace('_', '-')}")
