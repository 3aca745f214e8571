"""Commands that look behind a mean: by depth, conversation or cost, and by the judgements of responses and actions."""

from typing import TYPE_CHECKING, Any

import click

from ..errors import UsageError
from ..tables import of_frame
from .evaluate import judged_by, load_runs
from .main import DATASET, FORMAT, QRELS, RUNS, TURNS, dataset_named, main, quiet
from .output import show

if TYPE_CHECKING:
    pass

MEASURE = click.option("--measure", default="nDCG@5", show_default=True, help="an ir_measures name")
PLOT = click.option("--plot", type=click.Path(), help="also draw it into this .png, .svg or .pdf file")


@main.command(section="Inspect", example="ikat breakdown runs/* --dataset ikat:2023-mini --by depth --plot depth.png")
@RUNS
@DATASET
@QRELS
@TURNS
@MEASURE
@click.option("--by", type=click.Choice(["depth", "conversation"]), default="depth", show_default=True, help="how turns are grouped")
@PLOT
@FORMAT
@quiet
def breakdown(
    paths: tuple[str, ...],
    dataset_name: str | None,
    qrels: str | None,
    turns: str | None,
    measure: str,
    by: str,
    plot: str | None,
    form: str,
) -> None:
    """Show the mean score of RUNs by depth of the turn or by conversation.

    Each mean stands beside the number of its turns.
    """
    from ..evaluation import breakdown as break_down

    topics = None if dataset_name is None else dataset_named(dataset_name).get_topics()
    table = break_down(load_runs(paths), judged_by(dataset_name, qrels, turns, paths), measure, by, topics=topics)
    if plot is not None:
        from ..show.plots import plot_breakdown, save_plot

        save_plot(plot_breakdown(table), plot)
    show(of_frame(table), form)


@main.command(
    "tradeoff",
    section="Inspect",
    example="ikat tradeoff runs/* --dataset ikat:2023-mini --depths 10,50,100 \\\n    --plot tradeoff.png",
)
@RUNS
@DATASET
@QRELS
@TURNS
@MEASURE
@click.option("--depths", help="passages of each query, separated by commas; by default 10,20,50,... and the run's own depth")
@click.option("--queries", help="numbers of queries, separated by commas: the first ones, which differs from asking for as many")
@click.option("--against", default="pairs", show_default=True, help="the horizontal axis of the plot: pairs, calls, tokens or cost")
@PLOT
@click.option("--file", "source", type=click.Path(), help="the Python file with the runs' methods, when they are your own")
@FORMAT
@quiet
def tradeoff_command(
    paths: tuple[str, ...], dataset_name: str | None, qrels: str | None, turns: str | None, form: str, **given: Any
) -> None:
    """Show scores and cost of RUNs at smaller depths and with fewer queries.

    A RUN is a folder made by `ikat run`. Nothing is retrieved, re-ranked or asked again: the ranking at a smaller depth is exactly that of
    a run made at that depth. The table marks the cheapest point that is not significantly worse than the best.
    """
    from ..methods import find_all
    from ..show.plots import save_plot
    from ..show.tradeoff import check_amount, plot_tradeoff, tradeoff, tradeoff_table

    check_amount(given["against"])
    judged = judged_by(dataset_name, qrels, turns, paths)
    depths, queries = (_numbers(f"--{name}", given[name]) for name in ("depths", "queries"))
    methods = {} if given["source"] is None else {entry.name: entry for entry in find_all(given["source"])}
    table = tradeoff(paths, judged, given["measure"], depths=depths, queries=queries or (), methods=methods)
    if given["plot"] is not None:
        save_plot(plot_tradeoff(table, given["against"]), given["plot"])
    show(tradeoff_table(table, judged["qid"].nunique()), form)


def _numbers(name: str, text: str | None) -> list[int] | None:
    if text is None:
        return None
    if not all(part.strip().isdecimal() for part in text.split(",")):
        raise UsageError(f"{name} {text!r}: give whole numbers separated by commas, such as 10,20,50")
    return [int(part) for part in text.split(",")]
