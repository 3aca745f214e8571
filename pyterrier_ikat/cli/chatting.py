"""The command that talks to a system."""

from typing import Any

import click

from .group import main, quiet
from .options import resources


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
    from ..llm import Ledger

    ledger = Ledger()
    talk(open_chat(ledger=ledger, **options), echo=click.echo)
    rows = ledger.frame()
    if len(rows):
        click.echo(f"\nLLM ledger:\n{rows.to_string(index=False, na_rep='unknown')}")
