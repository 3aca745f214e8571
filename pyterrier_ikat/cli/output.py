"""Tables, plans and ledgers as commands print them."""

import shutil
import sys
from typing import TYPE_CHECKING

import click

from ..tables import MARKS, Table, wrapped

if TYPE_CHECKING:
    from ..llms import Ledger


def show(table: Table, form: str = "text", *, err: bool = False) -> None:
    """Print a table. In a terminal that is too narrow for it, further columns follow below, after the first one.

    Args:
        table: the table to print.
        form: one of `FORMS`.
        err: print to stderr.
    """
    text, width = table.written(form), shutil.get_terminal_size().columns
    if form == "text" and (sys.stderr if err else sys.stdout).isatty() and max(map(len, text.splitlines())) > width:
        text = _folded(table, width)
    click.echo(text, nl=False, err=err)


def _folded(table: Table, width: int) -> str:
    import pandas as pd

    cells = {column.title: [cell.text + cell.mark for cell in column.cells] for column in table.columns}
    shown = pd.DataFrame(cells).set_index(table.columns[0].title).rename_axis(None).to_string(line_width=width)
    notes = [wrapped(note) for note in table.notes if note != MARKS]
    return "\n".join([*([wrapped(table.title), ""] if table.title else []), shown, "", *notes, ""])


def print_ledger(ledger: "Ledger", about: str = "", *, err: bool = False) -> None:
    """Print the account of the LLM calls. It is omitted if there were no calls and all else is free, like recorded completions."""
    account = ledger.frame()
    if account[["calls", "failures", "cost", "worth"]].fillna(0).to_numpy().any():
        click.echo(err=err)
        show(ledger.shown(f"LLM ledger{about}"), err=err)
