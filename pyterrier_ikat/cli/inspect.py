"""Commands that show runs and costs."""

import click

from .main import FORMAT, MEASURES, QRELS, RUNS, TEXTS, TURNS, main, quiet, text_loader_of
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
@quiet
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
@quiet
def ledger(paths: tuple[str, ...], form: str) -> None:
    """Show the LLM calls, tokens and cost of RUNs by system, stage and model.

    A RUN is a folder made by `ikat run`, `ikat simulate` or `ikat interact`. Costs include all starts of a run, also those that were
    stopped. The table also shows the worth of the completions that came from the cache, and the cost of each system alone.
    """
    from ..show import ledger as account

    show(account(list(paths)), form)
