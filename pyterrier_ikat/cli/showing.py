"""Commands that show runs."""

from pathlib import Path

import click

from .group import dataset_named, main, quiet


@main.command()
@click.argument("paths", nargs=-1, required=True, metavar="RUN...")
@click.option(
    "--dataset", "dataset_name", help="its utterances, judgements and passages; by default those of the dataset that run folders name"
)
@click.option("--qrels", "qrels_name", help="judge by this TREC qrels file, or by this variant of the dataset's qrels")
@click.option("--index", "index_path", help="the passage index that the texts come from")
@click.option("--measures", help="separated by commas; the track's by default")
@click.option("--passages", default=20, show_default=True, help="passages of each run and turn")
@click.option("--out", required=True, type=click.Path(dir_okay=False), help="the HTML file to write")
@quiet
def report(
    paths: tuple[str, ...],
    dataset_name: str | None,
    qrels_name: str | None,
    index_path: str | None,
    measures: str | None,
    passages: int,
    out: str,
) -> None:
    """Show RUNs as conversations to read: run folders, TREC run files or submissions, in one HTML file."""
    from ..conversations.qrels import read_qrels
    from ..evaluate import TRACK_2023, parse_measures
    from ..evaluate.measures import split_measures
    from ..retrieve import PassageIndex
    from ..show import report as show

    wanted = TRACK_2023 if measures is None else parse_measures(split_measures(measures))
    qrels = read_qrels(Path(qrels_name)) if qrels_name is not None and Path(qrels_name).is_file() else qrels_name
    texts = None if index_path is None else PassageIndex(index_path).text_loader()
    dataset = None if dataset_name is None else dataset_named(dataset_name)
    click.echo(show(list(paths), dataset, qrels=qrels, texts=texts, measures=wanted, passages=passages).save(out))


@main.command()
@click.argument("paths", nargs=-1, required=True, metavar="RUN...")
@click.option("--format", "form", type=click.Choice(["markdown", "latex", "csv"]), default="markdown", show_default=True)
@quiet
def ledger(paths: tuple[str, ...], form: str) -> None:
    """Show what the LLM calls of RUNs, folders made by `ikat run`, came to: by system, stage and model.

    Costs are those of all starts of a run, also of one that was stopped; beside them stands what came from the cache, its worth, and what
    each system would cost alone.
    """
    from ..show import ledger as account

    click.echo(getattr(account(list(paths)), form)(), nl=False)
