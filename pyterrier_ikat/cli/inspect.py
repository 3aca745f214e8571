"""Commands that show methods, datasets, runs and costs, and talk to a system."""

from typing import Any

import click

from ..errors import UsageError
from .main import MEASURES, QRELS, RUNS, TEXTS, TURNS, dataset_named, main, print_ledger, quiet, resources, text_loader_of


@main.command()
def datasets() -> None:
    """List the datasets and what each offers."""
    from ..conversations.datasets import full_names

    for name in full_names():
        click.echo(f"{name:<15} {dataset_named(name).summary}")
    click.echo(f"{'irds:NAME':<15} any dataset of ir_datasets, such as irds:vaswani: its queries are turns without a history")
    click.echo(f"{'./FOLDER':<15} your own: topics.jsonl, passages.jsonl, qrels.txt")


@main.command()
@click.argument("name", required=False)
@click.option("--draw", "drawing", type=click.Path(dir_okay=False), help="with NAME: draw it into this .svg or .html")
def methods(name: str | None, drawing: str | None) -> None:
    """List all methods, or show the one named NAME in detail; FILE.py lists those of a file, FILE.py:NAME shows one."""
    from ..methods import METHODS, TABLES, catalogue, find_all
    from ..methods.catalogue import per_turn, scores_of
    from ..show import draw

    if drawing is not None:
        if name is None:
            raise UsageError("--draw draws one method: give its NAME")
        click.echo(draw(name).save(drawing))
        return

    found = list(METHODS.values()) if name is None else find_all(name)
    if name is None or name.endswith(".py"):
        shown = catalogue(found)[["name", "llm_calls", "queries", "depth", "manual", "tables"]]
        click.echo(shown.to_string(index=False, na_rep=""))
        one = "NAME" if name is None else f"{name}:NAME"
        click.echo(f"\n{len(found)} methods; s is the number of chosen statements. `ikat methods {one}` shows one in detail.")
        return
    [entry] = found
    click.echo(f"{entry.name}: {entry.paper}\n\n{entry.expression}\n")
    takes = f", takes {', '.join(entry.takes)}" if entry.takes else ""
    calls, queries = per_turn(entry)
    click.echo(f"needs {', '.join(entry.needs)}{takes}; about {calls} LLM calls and {queries} queries per turn")
    for resource, models in entry.models.items():
        click.echo(f"the paper's {resource}: {models}")
    for table_name, scores in scores_of(entry).items():
        row = ", ".join(f"{measure} {value:.4f}" for measure, value in scores.items())
        table = {**TABLES, **entry.tables}[table_name]
        click.echo(f"{table.paper} ({table.turns or 'an unknown number of'} turns, {table.qrels}): {row}")


@main.command()
@click.option("--method", "name", required=True, help="a method of `ikat methods`")
@resources
@click.option("--persona", metavar="FILE", help="statements one per line, a JSON list of them, a topics file, or a dataset")
@click.option("--conversation", "number", help="the chat's name; of a topics file or dataset, the conversation whose persona is taken")
@click.option("--save", "save_to", type=click.Path(), help="a new topics file; written after each turn")
@quiet
def chat(**options: Any) -> None:
    """Talk to a METHOD over your own index; its answers become the history.

    Ctrl-C or Ctrl-D ends the chat. With `--llm recorded:sample --persona ikat:sample --conversation 1-1` the sample's conversation replays.
    """
    from ..chat import open_chat, talk
    from ..llms import Ledger

    ledger = Ledger()
    talk(open_chat(ledger=ledger, **options), echo=click.echo)
    print_ledger(ledger)


@main.command()
@RUNS
@click.option(
    "--dataset", "dataset_name", help="its utterances, judgements and passages; by default those of the dataset that run folders name"
)
@QRELS
@TURNS
@TEXTS
@MEASURES
@click.option("--passages", default=20, show_default=True, help="passages of each run and turn")
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
    """Show RUNs as conversations to read: run folders, TREC run files or submissions, in one HTML file."""
    from ..evaluation import TRACK_2023, as_measures
    from ..show import report as show

    wanted = TRACK_2023 if measures is None else as_measures(measures)
    texts = text_loader_of(index_path)
    click.echo(show(list(paths), dataset_name, qrels=qrels, turns=turns, texts=texts, measures=wanted, passages=passages).save(out))


@main.command()
@RUNS
@click.option("--format", "form", type=click.Choice(["text", "latex", "markdown", "csv"]), default="text", show_default=True)
@quiet
def ledger(paths: tuple[str, ...], form: str) -> None:
    """Show what the LLM calls of RUNs, folders made by `ikat run`, came to: by system, stage and model.

    Costs are those of all starts of a run, also of one that was stopped; beside them stands what came from the cache, its worth, and what
    each system would cost alone.
    """
    from ..show import ledger as account

    click.echo(getattr(account(list(paths)), form)(), nl=False)
