"""Commands that show runs and costs."""

from typing import Any

import click

from ..errors import UsageError
from .main import main
from .options import DATASET, FORMAT, MEASURES, PLOT, QRELS, RUNS, TEXTS, TURNS, judged_by, text_loader_of
from .output import show


@main.command(section="Inspect", example="ikat report runs/* --out report.html")
@RUNS
@click.option("--dataset", "dataset_name", help="has the utterances, judgements and passages; by default the dataset of the run folders")
@QRELS
@TURNS
@TEXTS
@MEASURES
@click.option("--passages", default=20, show_default=True, help="passages shown of each run and turn")
@click.option("--out", required=True, type=click.Path(dir_okay=False), help="the HTML file to write")
def report(
    paths: tuple[str, ...],
    dataset_name: str | None,
    qrels: str | None,
    turns: str | None,
    index_path: str | None,
    measures: str | None,
    passages: int,
    out: str,
) -> None:
    """Write one HTML file that shows RUNs as conversations to read and compare.

    A RUN is a folder made by `ikat run`, a TREC run file or a submission. Or all are folders made by `ikat simulate` or `ikat interact`:
    then the conversations of the systems with each user are shown side by side.
    """
    from ..evaluation import as_measures
    from ..show import report as make

    wanted = None if measures is None else as_measures(measures)
    texts = text_loader_of(index_path)
    click.echo(make(list(paths), dataset_name, qrels=qrels, turns=turns, texts=texts, measures=wanted, passages=passages).save(out))


@main.command(section="Inspect", example="ikat ledger runs/*")
@RUNS
@FORMAT
def ledger(paths: tuple[str, ...], form: str) -> None:
    """Show the LLM calls, tokens and cost of RUNs by system, stage and model.

    A RUN is a folder made by `ikat run`, `ikat simulate` or `ikat interact`. Costs include all starts of a run, also those that were
    stopped. The table also shows the worth of the completions that came from the cache, and the cost of each system alone.
    """
    from ..show import ledger as account

    show(account(list(paths)), form)


@main.command(
    "tradeoff",
    section="Inspect",
    example="ikat tradeoff runs/* --dataset ikat:2023-mini --depths 10,50,100 \\\n    --plot tradeoff.png",
)
@RUNS
@DATASET
@QRELS
@TURNS
@click.option("--measure", default="nDCG@5", show_default=True, help="an ir_measures name")
@click.option("--depths", help="passages of each query, separated by commas; by default 10,20,50,... and the run's own depth")
@click.option("--queries", help="numbers of queries, separated by commas: the first ones, which differs from asking for as many")
@click.option("--against", default="pairs", show_default=True, help="the horizontal axis of the plot: pairs, calls, tokens or cost")
@PLOT
@click.option("--file", "source", type=click.Path(), help="the Python file with the runs' methods, when they are your own")
@FORMAT
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
