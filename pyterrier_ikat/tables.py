"""Tables: what every command prints, as text, Markdown, LaTeX and CSV, and what notebooks show. Without pandas until a frame is needed."""

import re
import textwrap
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from html import escape
from typing import TYPE_CHECKING, Any

from .errors import UsageError

if TYPE_CHECKING:
    import pandas as pd

FORMS = ("text", "markdown", "latex", "csv")
WIDTH = 80
UNKNOWN, UNKNOWN_NOTE = "\u2013", "\u2013: unknown."
"""The sign for an unknown number, and the note that explains it once."""
FORMULAS = ("=", "+", "-", "@", "\t", "\r")
"""What begins a cell that spreadsheets run."""
HIGHER, LOWER = "\u2191", "\u2193"
"""The marks of a score that is significantly higher, or lower, than the baseline's."""


@dataclass(frozen=True)
class Cell:
    """One cell of a table.

    Attributes:
        text: what is in it.
        best: whether no other score of the column is greater.
        second: whether only the best scores are greater.
        mark: ``HIGHER`` or ``LOWER`` when the score differs significantly from the baseline's.
    """

    text: str
    best: bool = False
    second: bool = False
    mark: str = ""


@dataclass(frozen=True)
class Column:
    """One column.

    Attributes:
        title: its title.
        cells: its places, from above.
        numeric: whether they are numbers, which are set to the right.
    """

    title: str
    cells: Sequence[Cell]
    numeric: bool = False

    @property
    def marked(self) -> bool:
        """Whether a cell has a mark."""
        return any(cell.mark for cell in self.cells)

    @property
    def to_the_right(self) -> bool:
        """Whether Markdown and HTML align it to the right. With marks after some numbers, the digits would not be aligned."""
        return self.numeric and not self.marked


def mark_best(scores: Sequence[str], marks: Sequence[str]) -> list[Cell]:
    """The cells of one measure, the best and second best of them marked.

    Scores that read the same are the same: both are best, or both second best. Nothing is best when there is only one score.

    Args:
        scores: the scores as they are shown; other values are never the best.
        marks: the mark of each.

    Example:
        >>> [(cell.best, cell.second) for cell in mark_best([".5000", ".4000", ".5000", ".3000"], [""] * 4)]
        [(True, False), (False, True), (True, False), (False, False)]
    """
    numbers = [_number(score) for score in scores]
    highest = sorted({number for number in numbers if number is not None}, reverse=True)[:2]
    places = [highest.index(number) if number in highest and len(scores) > 1 else None for number in numbers]
    return [Cell(text, place == 0, place == 1, mark) for text, place, mark in zip(scores, places, marks, strict=True)]


def _number(text: str) -> float | None:
    try:
        return float(text)
    except ValueError:
        return None


_LATEX = str.maketrans(
    {sign: rf"\{sign}" for sign in "&%$#_{}"}
    | {
        sign: rf"\text{name}{{}}"
        for sign, name in zip("\\~^<>|", ("backslash", "asciitilde", "asciicircum", "less", "greater", "bar"), strict=True)
    }
    | {
        '"': "''",
        "\u00b1": r"\textpm{}",
        HIGHER: r"$\uparrow$",
        LOWER: r"$\downarrow$",
        "[": "{[}",
        "*": "{*}",
    }  # after the end of a row, a bracket begins an option and a star changes the command
)


def _inert(value: Any) -> Any:
    """A text that a spreadsheet would run as a formula, with the quotation mark that makes it a text; numbers as they are."""
    if not isinstance(value, str) or not value.startswith(FORMULAS):
        return value
    try:
        float(value)
    except ValueError:
        return f"'{value}"
    return value


def escape_latex(text: str) -> str:
    r"""Text that LaTeX prints as it is, on one line.

    Example:
        >>> escape_latex("50% of R&D_1 -- {x}")
        '50\\% of R\\&D\\_1 -{}- \\{x\\}'
    """
    return " ".join(text.split()).translate(_LATEX).replace("--", "-{}-").replace("--", "-{}-")


def escape_markdown(text: str) -> str:
    r"""Text that Markdown shows as it is, on one line.

    Example:
        >>> escape_markdown("a|b *c* <d>")
        'a\\|b \\*c\\* \\<d\\>'
    """
    return re.sub(r"([\\`*_{}\[\]<>#|~$&])", r"\\\1", " ".join(text.split()))


MARKS = "Best bold, second best underlined."
"""The note on marks. Only a table with fonts has it."""


STYLE = """<style>
table.ikat-table { border-collapse: collapse; font-variant-numeric: tabular-nums; margin: 0.5em 0; }
table.ikat-table th, table.ikat-table td { border: 0; padding: 0.25em 0.8em; vertical-align: top; }
table.ikat-table thead tr { border-bottom: 2px solid currentColor; }
table.ikat-table tbody tr { border-bottom: 1px solid rgba(128, 128, 128, 0.35); }
table.ikat-table tbody tr:hover { background: rgba(128, 128, 128, 0.15); }
table.ikat-table caption { caption-side: bottom; font-style: normal; padding: 0.5em 0.8em; text-align: left; }
</style>"""
"""The style of a table in a notebook: rules between the rows, aligned digits, the colours of the page (light or dark)."""


class Table:
    """A table to show, or to copy into a paper. It displays itself in a notebook.

    Attributes:
        columns: what is shown.
        notes: what a reader has to know, a sentence each.
        title: what it is; empty when that is clear.
    """

    def __init__(
        self, frame: "pd.DataFrame | Sequence[Mapping[str, Any]]", columns: Sequence[Column], notes: Sequence[str], title: str = ""
    ):
        self._frame, self.columns, self.notes, self.title = frame, columns, notes, title

    @property
    def frame(self) -> "pd.DataFrame":
        """The values behind it, unrounded."""
        import pandas as pd

        return self._frame if isinstance(self._frame, pd.DataFrame) else pd.DataFrame(self._frame)

    def written(self, form: str = "text") -> str:
        """The table in one of the ``FORMS``.

        Raises:
            UsageError: for another form.
        """
        if form not in FORMS:
            raise UsageError(f"the format {form!r} is unknown: choose {', '.join(FORMS)}")
        return str(getattr(self, form)())

    def latex(self) -> str:
        """A ``table`` environment for LaTeX with the package booktabs, title and notes in its caption."""
        # the mark takes no room, so the scores stay aligned
        titles, rows = self._cells(
            escape_latex, r"\textbf{%s}", r"\underline{%s}", r"\rlap{$^{%s}$}", {HIGHER: r"\uparrow", LOWER: r"\downarrow"}
        )
        lines = [
            r"% \usepackage{booktabs}",
            r"\begin{table}",
            r"\centering",
            rf"\caption{{{' '.join(map(escape_latex, self._caption()))}}}",
            rf"\begin{{tabular}}{{{''.join('r' if column.numeric else 'l' for column in self.columns)}}}",
            r"\toprule",
            rf"{' & '.join(titles)} \\",
            r"\midrule",
            *(rf"{' & '.join(row)} \\" for row in rows),
            r"\bottomrule",
            r"\end{tabular}",
            r"\end{table}",
        ]
        return "\n".join(lines) + "\n"

    def markdown(self) -> str:
        """A table in Markdown, as GitHub and Jupyter read it, the notes below."""
        titles, rows = self._cells(escape_markdown, "**%s**", "<ins>%s</ins>", "%s")
        sides = ["---:" if column.to_the_right else ":---" for column in self.columns]
        above = [f"**{escape_markdown(self.title)}**", ""] if self.title else []
        lines = [f"| {' | '.join(row)} |" for row in (titles, sides, *rows)]
        below = ["", " ".join(map(escape_markdown, self.notes))] if self.notes else []
        return "\n".join([*above, *lines, *below]) + "\n"

    def text(self) -> str:
        """A table for a file or a pipe: a line for each row, without bold and underlined scores, the notes below."""
        titles, rows = self.plain()
        sides = [str.rjust if column.numeric else str.ljust for column in self.columns]
        widths = [max(map(len, cells)) for cells in zip(titles, *rows, strict=True)]
        lines = [
            "  ".join(side(cell, width) for side, cell, width in zip(sides, row, widths, strict=True)).rstrip() for row in (titles, *rows)
        ]
        above = [*wrapped(self.title).splitlines(), ""] if self.title else []
        return "\n".join([*above, *lines, *([""] if self.text_notes() else []), *map(wrapped, self.text_notes())]) + "\n"

    def plain(self) -> tuple[list[str], list[list[str]]]:
        """The titles, and the cells row by row, as text; in a column with marks those without one have a space in its place."""
        columns = [[cell.text + (cell.mark or " " * column.marked) for cell in column.cells] for column in self.columns]
        return [column.title + " " * column.marked for column in self.columns], [list(row) for row in zip(*columns, strict=True)]

    def text_notes(self) -> list[str]:
        """The notes of a table without fonts."""
        return [note for note in self.notes if note != MARKS]

    def csv(self) -> str:
        """All columns of the frame, unrounded: for the experiment table with p-values and numbers of turns won and lost."""
        return str(self.frame.map(_inert).rename(columns=_inert).to_csv(index=False))

    def _repr_html_(self) -> str:
        """A table for a notebook, with title and notes as its caption. A wide table scrolls."""
        titles, rows = self._cells(escape, "<b>%s</b>", "<u>%s</u>", "<sup>%s</sup>")
        sides = ["right" if column.to_the_right else "left" for column in self.columns]

        def row(tag: str, cells: Sequence[str]) -> str:
            places = (f'<{tag} style="text-align: {side}">{cell}</{tag}>' for side, cell in zip(sides, cells, strict=True))
            return f"<tr>{''.join(places)}</tr>"

        caption = f'<caption style="caption-side: bottom; text-align: left">{escape(" ".join(self._caption()))}</caption>'
        body = "".join(row("td", cells) for cells in rows)
        shown = f'<table class="ikat-table">{caption}<thead>{row("th", titles)}</thead><tbody>{body}</tbody></table>'
        return f'{STYLE}<div style="overflow-x: auto">{shown}</div>'

    def __str__(self) -> str:
        return self.text()

    def _caption(self) -> list[str]:
        return [*([f"{self.title.rstrip('.')}."] if self.title else []), *self.notes]

    def _cells(
        self, escape: Callable[[str], str], best: str, second: str, sign: str, signs: Mapping[str, str] | None = None
    ) -> tuple[list[str], list[list[str]]]:
        """The titles, and the cells row by row, escaped and with their marks."""

        def mark(cell: Cell) -> str:
            form = best if cell.best else second if cell.second else "%s"
            return form % escape(cell.text) + (sign % (signs or {}).get(cell.mark, cell.mark) if cell.mark else "")

        rows = zip(*(column.cells for column in self.columns), strict=True)
        return [escape(column.title) for column in self.columns], [list(map(mark, row)) for row in rows]


def of_frame(
    frame: "pd.DataFrame",
    notes: Sequence[str] = (),
    title: str = "",
    *,
    texts: int | None = None,
    decimals: int | Mapping[str, int] = 4,
) -> Table:
    """A frame as a table: numbers to the right, those with a fraction rounded. Such a number is a score, unless it has decimals of its own.

    Args:
        frame: the values.
        notes: what a reader has to know.
        title: what it is.
        texts: how many columns, from the left, are texts; by default those that don't hold numbers.
        decimals: of scores, 4 by default; or of amounts such as seconds and US dollars, by the title of a column.

    Example:
        >>> import pandas as pd
        >>> print(of_frame(pd.DataFrame({"run": ["qr", "aqd"], "turns": [3, 12], "nDCG": [0.5, None]})))
        run  turns   nDCG
        qr       3  .5000
        aqd     12      –
        <BLANKLINE>
        –: unknown.
        <BLANKLINE>
    """
    from pandas.api.types import is_bool_dtype, is_float_dtype, is_numeric_dtype

    columns = []
    for place, name in enumerate(frame.columns):
        values = frame.iloc[:, place]
        form = _form(str(name), decimals) if is_float_dtype(values) else str
        numbers = is_numeric_dtype(values) and not is_bool_dtype(values)
        missing = UNKNOWN if numbers else ""
        cells = [Cell(missing if lost else form(value)) for value, lost in zip(values, values.isna(), strict=True)]
        columns.append(Column(str(name), cells, bool(numbers) if texts is None else place >= texts))
    unknown = any(column.numeric and cell.text == UNKNOWN for column in columns for cell in column.cells)
    return Table(frame, columns, [*notes, UNKNOWN_NOTE] if unknown else notes, title)


def _form(title: str, decimals: int | Mapping[str, int]) -> Callable[[float], str]:
    if isinstance(decimals, int):
        return partial(format_score, decimals=decimals)
    return f"{{:,.{decimals[title]}f}}".format if title in decimals else format_score


def format_score(value: float, decimals: int = 4, *, signed: bool = False) -> str:
    """A score as it is shown everywhere: with four decimals, and without the zero before the point.

    Args:
        value: the score, or a difference of two.
        decimals: how many; fewer for a score that is published so.
        signed: whether a difference has its sign.

    Example:
        >>> format_score(0.8608), format_score(1), format_score(-0.0312), format_score(0.0312, signed=True)
        ('.8608', '1.0000', '-.0312', '+.0312')
    """
    return re.sub(r"^([-+]?)0\.", r"\1.", f"{value:{'+' * signed}.{decimals}f}")


def wrapped(text: str, indent: str = "", hanging: str = "") -> str:
    """A text in lines of at most 80 characters.

    Args:
        text: the text.
        indent: before each line.
        hanging: the text before each line except the first.

    Example:
        >>> [len(line) <= 80 for line in wrapped("word " * 30).splitlines()]
        [True, True]
    """
    lines = textwrap.TextWrapper(WIDTH, break_long_words=False, break_on_hyphens=False)
    lines.initial_indent, lines.subsequent_indent = indent, indent + hanging
    return lines.fill(text)
