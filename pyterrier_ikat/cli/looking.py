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
    """List the methods; with NAME, show one whole."""
    from ..methods import METHODS, catalogue, method
    from ..methods.published import TABLES
    from ..show import draw

    if drawing is not None:
        if name is None:
            raise UsageError("--draw draws one method: give its NAME")
        click.echo(draw(name).save(drawing))
        return

    if name is None:
        table = catalogue()
        shown = table[["name", "llm_calls", "queries", "depth", "manual", "tables"]]
        click.echo(shown.to_string(index=False, na_rep=""))
        click.echo(f"\n{len(METHODS)} methods. `ikat methods NAME` shows one whole.")
        return
    entry = method(name)
    click.echo(f"{entry.name}: {entry.paper}\n\n{entry.expression}\n")
    takes = f", takes {', '.join(entry.takes)}" if entry.takes else ""
    click.echo(f"needs {', '.join(entry.needs)}{takes}; per turn at most {entry.llm_calls} LLM calls and {entry.queries} queries")
    for resource, models in entry.models.items():
        click.echo(f"the paper's {resource}: {models}")
    for table_name, figures in entry.published.items():
        row = ", ".join(f"{measure} {value:.4f}" for measure, value in figures.items())
        table = TABLES[table_name]
        click.echo(f"{table.paper} ({table.turns or 'an unknown number of'} turns, {table.qrels}): {row}")
