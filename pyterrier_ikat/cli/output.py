"""The tables that commands print, in one style: drawn with rich in a terminal, and with one line per row everywhere else."""

import re
import sys
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

import click

from ..tables import HIGHER, LOWER, Cell, Column, Table

if TYPE_CHECKING:
    from ..llms import Ledger
    from ..planning import PlanTable

BETWEEN = 2
COLOURS = {HIGHER: "green", LOWER: "red"}
LONGEST_KEYS = 0.5
"""The maximum share of the width for the columns that every part of a wide table repeats."""
LEAST_TEXT = 24
"""Texts are broken into lines of at least this many characters."""


def show(table: Table, form: str = "text", *, err: bool = False) -> None:
    """Print a table.

    Args:
        table: the table to print.
        form: one of `FORMS`; only ``text`` is drawn in a terminal.
        err: print to stderr.
    """
    stream = sys.stderr if err else sys.stdout
    if form == "text" and stream.isatty():
        draw(table, stream)
    else:
        click.echo(_printable(table.written(form), stream), nl=False, err=err)


def _printable(text: str, stream: Any) -> str:
    """The text. If the stream's encoding lacks arrows, plus and minus replace them."""
    try:
        text.encode(getattr(stream, "encoding", None) or "utf-8")
    except UnicodeEncodeError:
        return text.replace(HIGHER, "+").replace(LOWER, "-")
    return text


def draw(table: Table, stream: Any, width: int | None = None) -> None:
    """Draw a table in a terminal. Columns that don't fit next to each other follow below, after the repeated first ones.

    Args:
        table: the table to draw.
        stream: the stream to which it is written.
        width: the terminal's width; None to ask it.
    """
    from rich.console import Console
    from rich.text import Text

    console = Console(file=stream, highlight=False, markup=False, emoji=False, width=width)
    if table.title:
        console.print(Text(f"{table.title}\n", style="bold"))
    for number, columns in enumerate(parts_that_fit(table.columns, console.width)):
        if number:
            console.print()
        console.print(_drawn(columns))
    if table.notes:
        console.print()
    for note in table.notes:
        console.print(Text(note))


def parts_that_fit(columns: Sequence[Column], width: int) -> Iterator[list[Column]]:
    """The columns of each part of a table. A part is at most ``width`` wide, and each one begins with the same texts.

    Example:
        >>> columns = [Column("system", [Cell("raw")]), *(Column(name, [Cell(".5000")], True) for name in ("nDCG@3", "P@5", "R@9"))]
        >>> [[column.title for column in part] for part in parts_that_fit(columns, 20)]
        [['system', 'nDCG@3', 'P@5'], ['system', 'R@9']]
    """
    keys = list(columns[:1])
    for column in columns[1:]:
        if column.numeric or sum(_width(one) + BETWEEN for one in [*keys, column]) > width * LONGEST_KEYS:
            break
        keys.append(column)
    part: list[Column] = []
    for column in columns[len(keys) :]:
        if part and sum(_width(one) + BETWEEN for one in [*keys, *part, column]) - BETWEEN > width:
            yield keys + part
            part = []
        part.append(column)
    yield keys + part


def _width(column: Column) -> int:
    """The smallest width of a column. Numbers and names are not broken, but titles and sentences are."""
    cells = max((len(cell.text) + column.marked for cell in column.cells), default=0)
    sentences = any(" " in cell.text for cell in column.cells) and not column.numeric
    return max(min(cells, LEAST_TEXT) if sentences else cells, *map(len, _title(column).split("\n")))


def _title(column: Column) -> str:
    r"""The title, in several lines if it is longer than the cells. A measure is broken before its cutoff.

    Example:
        >>> _title(Column("R(rel=1)@1000", [Cell(".5000")])), _title(Column("P@5", [Cell(".5000")]))
        ('R\n(rel=1)\n@1000', 'P@5')
    """
    cells = max((len(cell.text) + column.marked for cell in column.cells), default=0)
    return column.title if len(column.title) <= cells else re.sub(r"(?<=\S)[@(]| ", lambda found: "\n" + found[0].strip(), column.title)


def _drawn(columns: Sequence[Column]) -> Any:
    from rich import box
    from rich.table import Table as Drawn
    from rich.text import Text

    drawn = Drawn(box=box.SIMPLE_HEAD, show_edge=False, pad_edge=False, padding=(0, BETWEEN - 1, 0, 0), header_style="bold")
    for column in columns:
        fixed = _width(column) if column.numeric else None
        drawn.add_column(Text(_title(column)), justify="right" if column.numeric else "left", overflow="fold", width=fixed)
    for row in zip(*(column.cells for column in columns), strict=True):
        drawn.add_row(*(_cell(cell, column, Text) for cell, column in zip(row, columns, strict=True)))
    return drawn


def _cell(cell: Cell, column: Column, text: Any) -> Any:
    style = "bold" if cell.best else "underline" if cell.second else ""
    shown = text(cell.text, style=style)
    if column.marked:
        shown = text.assemble((cell.text, style), (cell.mark or " ", COLOURS.get(cell.mark, "")))
    return shown


def print_ledger(ledger: "Ledger", about: str = "", *, err: bool = False) -> None:
    """Print the account of the LLM calls. It is omitted if there were no calls and all else is free, like recorded completions."""
    account = ledger.frame()
    if account[["calls", "failures", "cost", "worth"]].fillna(0).to_numpy().any():
        click.echo(err=err)
        show(ledger.shown(f"LLM ledger{about}"), err=err)


def show_plan(plan: "PlanTable", form: str) -> None:
    """Print a plan."""
    if form == "text" and not len(plan):
        click.echo(str(plan))
    else:
        show(plan.shown(), form)
