"""Tables in a terminal, which fit its width: rich draws them.

A table that is too wide is drawn in blocks: each has the columns of names, and as many of the
others as fit.
"""

from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from ..errors import on_one_line
from ..tables import MARKS_NOTE, WIDTH, Cell, Column, Table, without_levels, wrapped

if TYPE_CHECKING:
    from rich.console import Console
    from rich.text import Text

GAP = 2
"""Spaces between two columns."""


def draw(table: Table, console: "Console") -> str:
    """Return the text that draws a table in a terminal, with its notes and the table below.

    Args:
        table: the table.
        console: the terminal.

    Example:
        >>> import io
        >>> from rich.console import Console
        >>> names = Column("system", [Cell("raw")])
        >>> recall = Column("R(rel=1)@1000", [Cell(".7324")], numeric=True)
        >>> precision = Column("AP(rel=1)", [Cell(".3331")], numeric=True)
        >>> scores = Table([], [names, recall, precision], ["Mean over 24 turns."])
        >>> print(draw(scores, Console(file=io.StringIO(), width=24)))
        system  R@1000     AP
        raw      .7324  .3331
        <BLANKLINE>
        Mean over 24 turns.
        R@1000, AP: relevant
        from grade 1 on.
        <BLANKLINE>
    """
    with console.capture() as captured:
        _draw(table, console, set())
    return captured.get()


def _draw(table: Table, console: "Console", known: set[str]) -> None:
    """Draw a table, without the notes on levels that stand above it."""
    width = min(console.width, WIDTH)
    columns = _on_one_line(table.on_screen or table.columns)
    levels: list[str] = []
    if _width(columns) > console.width:
        columns, levels = without_levels(columns)
    if table.title:
        _print_text(f"{wrapped(on_one_line(table.title), width=width)}\n", console)
    for number, block in enumerate(_blocks(columns, console.width)):
        if number:
            console.print()
        console.print(_drawn(block))
    notes = []
    for note in table.notes:
        if note != MARKS_NOTE or console.color_system is not None:
            notes.append(note)
    notes += [level for level in levels if level not in known]
    if notes:
        console.print()
    for note in notes:
        _print_text(wrapped(on_one_line(note), width=width), console)
    if table.below is not None:
        console.print()
        _draw(table.below, console, known | set(levels))


def _on_one_line(columns: Sequence[Column]) -> list[Column]:
    """The columns without control characters and line breaks."""
    cleaned = []
    for column in columns:
        cells = [replace(cell, text=on_one_line(cell.text)) for cell in column.cells]
        cleaned.append(replace(column, title=on_one_line(column.title), cells=cells))
    return cleaned


def _print_text(text: str, console: "Console") -> None:
    console.print(text, markup=False, highlight=False, emoji=False, soft_wrap=True)


def _blocks(columns: Sequence[Column], width: int) -> list[list[Column]]:
    """The columns by block: those of names are in each, and the others as they fit.

    Columns of names that are wider than half of the terminal are folded.
    """
    if _width(columns) <= width:
        return [list(columns)]
    number = 0
    while number < len(columns) and not columns[number].numeric:
        number += 1
    names = list(columns[:number])
    room = width - min(_width(names), width // 2)
    blocks: list[list[Column]] = []
    left = 0
    for column in columns[number:]:
        needed = GAP + _width([column])
        if needed > left:
            blocks.append(list(names))
            left = room
        blocks[-1].append(column)
        left -= needed
    return blocks or [names]


def _width(columns: Sequence[Column]) -> int:
    """The width of a line of a table."""
    from rich.cells import cell_len

    width = GAP * (len(columns) - 1)
    for column in columns:
        room_for_mark = 1 if column.marked else 0
        texts = [column.title, *[cell.text for cell in column.cells]]
        width += max(cell_len(text) for text in texts) + room_for_mark
    return width


def _drawn(columns: Sequence[Column]) -> object:
    """A table of rich. Names are folded where there is no room, numbers never."""
    from rich.table import Table as Drawn
    from rich.text import Text

    drawn = Drawn(box=None, padding=(0, GAP, 0, 0), pad_edge=False, header_style="")
    for column in columns:
        if column.numeric:
            drawn.add_column(_cell(Cell(column.title), column), no_wrap=True)
        else:
            drawn.add_column(Text(column.title), overflow="fold")
    for row in range(len(columns[0].cells)):
        drawn.add_row(*[_cell(column.cells[row], column) for column in columns])
    return drawn


def _cell(cell: Cell, column: Column) -> "Text":
    """A cell: the best is bold, the second best underlined; a number stands to the right."""
    from rich.text import Text

    style = ""
    if cell.best:
        style = "bold"
    elif cell.second:
        style = "underline"
    drawn = Text().append(cell.text, style)
    if column.marked:
        drawn.append(cell.mark or " ")
    if column.numeric:  # rich would take the room for a mark away
        drawn.pad_left(_width([column]) - drawn.cell_len)
    return drawn
