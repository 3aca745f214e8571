"""A table in Markdown, as GitHub and Jupyter read it, and in HTML."""

import re
from collections.abc import Sequence
from html import escape

from .tables_cells import Cell, Column


def markdown(columns: Sequence[Column], notes: Sequence[str]) -> str:
    """A table with bars, the notes below it."""
    rows = zip(*(map(_cell, column.cells) for column in columns), strict=True)
    lines = [
        _line([escaped(column.title) for column in columns]),
        _line(["---:" if _to_the_right(column) else ":---" for column in columns]),
        *map(_line, rows),
        "",
        " ".join(map(escaped, notes)),
    ]
    return "\n".join(lines) + "\n"


def escaped(text: str) -> str:
    r"""Text that Markdown shows as it is, on one line.

    Example:
        >>> escaped("a|b *c* <d>")
        'a\\|b \\*c\\* \\<d\\>'
    """
    return re.sub(r"([\\`*_{}\[\]<>#|~$&])", r"\\\1", " ".join(text.split()))


def html(columns: Sequence[Column], notes: Sequence[str]) -> str:
    """A table for a notebook, the notes as its caption."""
    titles = "".join(_html_place("th", escape(column.title), column) for column in columns)
    rows = zip(*([_html_place("td", _html_cell(cell), column) for cell in column.cells] for column in columns), strict=True)
    body = "".join(f"<tr>{''.join(row)}</tr>" for row in rows)
    caption = f'<caption style="caption-side: bottom; text-align: left">{escape(" ".join(notes))}</caption>'
    return f"<table>{caption}<thead><tr>{titles}</tr></thead><tbody>{body}</tbody></table>"


def _line(cells: Sequence[str]) -> str:
    return f"| {' | '.join(cells)} |"


def _cell(cell: Cell) -> str:
    return cell.written(escaped(cell.text), ("**", "**"), ("<ins>", "</ins>"), r"\*")


def _html_cell(cell: Cell) -> str:
    return cell.written(escape(cell.text), ("<b>", "</b>"), ("<u>", "</u>"), "<sup>*</sup>")


def _html_place(tag: str, text: str, column: Column) -> str:
    return f'<{tag} style="text-align: {"right" if _to_the_right(column) else "left"}">{text}</{tag}>'


def _to_the_right(column: Column) -> bool:
    return column.numeric and not column.starred
