"""Commands that show what there is."""

import click

from ..errors import UsageError
from .group import dataset_named, main


@main.command()
def datasets() -> None:
    """List the datasets and what each offers."""
    from ..conversations.datasets import DATASETS

    for name in DATASETS:
        click.echo(f"{f'ikat:{name}':<15} {dataset_named(name).summary}")


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
        click.echo(f"\n{len(found)} methods; s is the number of chosen statements. `ikat methods NAME` shows one in detail.")
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
