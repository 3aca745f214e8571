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
HIGHER, LOWER = "\u2191", "\u2193"
"""The marks of a score that is significantly higher, or lower, than the baseline's."""
MARKS = "Best bold, second best underlined."
"""The note on marks. Only a table with fonts has it."""


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


def mark_best(scores: Sequence[str], marks: Sequence[str]) -> list[Cell]:
    """The cells of one measure, the best and second best of them marked.

    Scores that read the same are the same: both are best, or both second best. Nothing is best when
    there is only one score.

    Args:
        scores: the scores as they are shown; other values are never the best.
        marks: the mark of each.

    Example:
        >>> [(cell.best, cell.second) for cell in mark_best([".5000", ".4000", ".5000", ".3000"], [""] * 4)]
        [(True, False), (False, True), (True, False), (False, False)]
    """
    numbers = [float(score) if re.fullmatch(r"[-+]?\d*\.?\d+", score) else None for score in scores]
    highest = sorted({number for number in numbers if number is not None}, reverse=True)[:2]
    places = [
        highest.index(number) if number in highest and len(scores) > 1 else None
        for number in numbers
    ]
    return [
        Cell(text, place == 0, place == 1, mark)
        for text, place, mark in zip(scores, places, marks, strict=True)
    ]


_LATEX = str.maketrans(
    {sign: rf"\{sign}" for sign in "&%$#_{}"}
    | {"\\": r"\textbackslash{}", "~": r"\textasciitilde{}", "^": r"\textasciicircum{}"}
    | {
        "<": r"\textless{}",
        ">": r"\textgreater{}",
        "|": r"\textbar{}",
        HIGHER: r"$\uparrow$",
        LOWER: r"$\downarrow$",
    }
)


def escape_latex(text: str) -> str:
    r"""Text that LaTeX prints as it is, on one line.

    Example:
        >>> escape_latex("50% of R&D_1")
        '50\\% of R\\&D\\_1'
    """
    return " ".join(text.split()).translate(_LATEX)


def escape_markdown(text: str) -> str:
    r"""Text that Markdown shows as it is, on one line.

    Example:
        >>> escape_markdown("a|b *c* <d>")
        'a\\|b \\*c\\* \\<d\\>'
    """
    return re.sub(r"([\\`*_{}\[\]<>#|~$&])", r"\\\1", " ".join(text.split()))


@dataclass(eq=False, repr=False)
class Table:
    """A table to show, or to copy into a paper. It displays itself in a notebook.

    Attributes:
        rows: the values behind it, unrounded.
        columns: what is shown.
        notes: what a reader has to know, a sentence each.
        title: what it is; empty when that is clear.
        below: a second table about the same values, which is shown below.
    """

    rows: "pd.DataFrame | Sequence[Mapping[str, Any]]"
    columns: Sequence[Column]
    notes: Sequence[str]
    title: str = ""
    below: "Table | None" = None

    @property
    def frame(self) -> "pd.DataFrame":
        """The values behind it, as a frame."""
        import pandas as pd

        return self.rows if isinstance(self.rows, pd.DataFrame) else pd.DataFrame(self.rows)

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
        sides = "".join("r" if column.numeric else "l" for column in self.columns)
        shown = self._marked(
            escape_latex, r"\textbf{%s}", r"\underline{%s}", r"\rlap{$^{%s}$}"
        )  # the mark takes no room: scores stay aligned
        made = str(
            shown.to_latex(
                index=False,
                escape=False,
                column_format=sides,
                caption=escape_latex(self._caption()),
            )
        )
        return made if self.below is None else f"{made}\n{self.below.latex()}"

    def markdown(self) -> str:
        """A table in Markdown, as GitHub and Jupyter read it, the notes below."""
        shown = self._marked(escape_markdown, "**%s**", "<ins>%s</ins>", "%s")
        sides = [
            "---:" if column.numeric and not column.marked else ":---" for column in self.columns
        ]
        lines = [
            f"| {' | '.join(row)} |"
            for row in (shown.columns, sides, *shown.itertuples(index=False, name=None))
        ]
        above = [f"**{escape_markdown(self.title)}**", ""] if self.title else []
        below = ["", " ".join(map(escape_markdown, self.notes))] if self.notes else []
        made = "\n".join([*above, *lines, *below]) + "\n"
        return made if self.below is None else f"{made}\n{self.below.markdown()}"

    def text(self) -> str:
        """A table for a file or a pipe: a line for each row, without bold and underlined scores, the notes below."""
        columns = [
            [cell.text + (cell.mark or " " * column.marked) for cell in column.cells]
            for column in self.columns
        ]
        padded = []
        for column, cells in zip(self.columns, columns, strict=True):
            whole = [column.title + " " * column.marked, *cells]
            padded.append(
                [
                    (str.rjust if column.numeric else str.ljust)(cell, max(map(len, whole)))
                    for cell in whole
                ]
            )
        lines = ["  ".join(row).rstrip() for row in zip(*padded, strict=True)]
        notes = [note for note in self.notes if note != MARKS]
        above = [*wrapped(self.title).splitlines(), ""] if self.title else []
        made = "\n".join([*above, *lines, *[""] * bool(notes), *map(wrapped, notes)]) + "\n"
        return made if self.below is None else f"{made}\n{self.below.text()}"

    def csv(self) -> str:
        """All columns of the frame, unrounded: for the experiment table with p-values, intervals and numbers of turns won and lost."""
        return str(self.frame.to_csv(index=False))

    def _repr_html_(self) -> str:
        """A table for a notebook, with title and notes below. A wide table scrolls."""
        import pandas as pd

        shown = self._marked(escape, "<b>%s</b>", "<u>%s</u>", "<sup>%s</sup>")
        with pd.option_context("display.max_colwidth", None):
            drawn = shown.to_html(index=False, escape=False, border=0, classes="ikat-table")
        made = f'<div style="overflow-x: auto">{drawn}<p>{escape(self._caption())}</p></div>'
        return made if self.below is None else made + self.below._repr_html_()

    def __str__(self) -> str:
        return self.text()

    def _caption(self) -> str:
        return " ".join([*([f"{self.title.rstrip('.')}."] if self.title else []), *self.notes])

    def _marked(
        self, escape: Callable[[str], str], best: str, second: str, sign: str
    ) -> "pd.DataFrame":
        """The cells as texts, escaped and with their marks."""
        import pandas as pd

        def mark(cell: Cell) -> str:
            form = best if cell.best else second if cell.second else "%s"
            return form % escape(cell.text) + (
                sign % escape(cell.mark).strip("$") if cell.mark else ""
            )

        shown = pd.DataFrame(
            {place: list(map(mark, column.cells)) for place, column in enumerate(self.columns)},
            dtype=object,
        )
        return shown.set_axis([escape(column.title) for column in self.columns], axis="columns")


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
        decimals: of scores, 4 by default; or of amounts such as seconds and US dollars, by the
            title of a column.

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
        form: Callable[[Any], str] = str
        if is_float_dtype(values) and not isinstance(decimals, int) and name in decimals:
            form = f"{{:,.{decimals[name]}f}}".format
        elif is_float_dtype(values):
            form = partial(format_score, decimals=decimals if isinstance(decimals, int) else 4)
        numbers = is_numeric_dtype(values) and not is_bool_dtype(values)
        missing = UNKNOWN if numbers else ""
        cells = [
            Cell(missing if lost else form(value))
            for value, lost in zip(values, values.isna(), strict=True)
        ]
        columns.append(Column(str(name), cells, bool(numbers) if texts is None else place >= texts))
    unknown = any(
        column.numeric and cell.text == UNKNOWN for column in columns for cell in column.cells
    )
    return Table(frame, columns, [*notes, UNKNOWN_NOTE] if unknown else notes, title)


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
    options: dict[str, Any] = {"break_long_words": False, "break_on_hyphens": False}
    return textwrap.fill(
        text, WIDTH, initial_indent=indent, subsequent_indent=indent + hanging, **options
    )
