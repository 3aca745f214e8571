"""Tables as text, Markdown, LaTeX, CSV and in notebooks.

Every command prints them. pandas is imported only when a frame is needed.
"""

import re
import textwrap
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from html import escape
from typing import TYPE_CHECKING, Any

from .errors import UsageError, on_one_line

if TYPE_CHECKING:
    import pandas as pd

TABLE_FORMATS = ("text", "markdown", "latex", "csv")
WIDTH = 80
UNKNOWN = "\u2013"
"""The sign for an unknown number."""
UNKNOWN_NOTE = f"{UNKNOWN}: unknown."
"""The note that explains the sign once."""
HIGHER = "\u2191"
"""The mark of a score that is significantly higher than the baseline's."""
LOWER = "\u2193"
"""The mark of a score that is significantly lower than the baseline's."""
MARKS_NOTE = "Best bold, second best underlined."
"""The note on marks. Only a table with fonts has it."""


LATEX_PACKAGES = r"% \usepackage{booktabs}"
"""The first line of a table for LaTeX."""
LATEX_TOO_WIDE = "% This table may be wider than the page: omit columns, or turn it."
"""The second line of a table for LaTeX that has no form that fits."""
RELEVANCE_LEVEL = re.compile(r"\(rel=(\d+)\)")
"""The level in the name of a measure from which on a grade counts as relevant."""


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
        cells: its cells, from the top.
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
    """Return the cells of one measure, the best and second best of them marked.

    Scores that read the same are the same: both are best, or both second best. Nothing is best when
    there is only one score, or all are the same.

    Args:
        scores: the scores as they are shown; other values are never the best.
        marks: the mark of each.

    Example:
        >>> cells = mark_best([".5000", ".4000", ".5000", ".3000"], [""] * 4)
        >>> [(cell.best, cell.second) for cell in cells]
        [(True, False), (False, True), (True, False), (False, False)]
    """
    numbers = []
    for score in scores:
        numbers.append(float(score) if _NUMBER.fullmatch(score) else None)
    distinct = sorted({number for number in numbers if number is not None}, reverse=True)
    best = distinct[0] if len(distinct) > 1 else None
    second = distinct[1] if len(distinct) > 1 else None
    cells = []
    for score, number, mark in zip(scores, numbers, marks, strict=True):
        is_best = number is not None and number == best
        is_second = number is not None and number == second
        cells.append(Cell(score, is_best, is_second, mark))
    return cells


_NUMBER = re.compile(r"[-+]?\d*\.?\d+")

_LATEX = str.maketrans(
    {
        "&": r"\&",
        "%": r"\%",
        "$": r"\$",
        "#": r"\#",
        "_": r"\_",
        "{": r"\{",
        "}": r"\}",
        "\\": r"\textbackslash{}",
        "~": r"\textasciitilde{}",
        "^": r"\textasciicircum{}",
        "<": r"\textless{}",
        ">": r"\textgreater{}",
        "|": r"\textbar{}",
        HIGHER: r"$\uparrow$",
        LOWER: r"$\downarrow$",
    }
)


def escape_latex(text: str) -> str:
    r"""Return text that LaTeX prints as it is, on one line. A number stays beside its unit ``%``.

    Example:
        >>> escape_latex("50 % of R&D_1")
        '50~\\% of R\\&D\\_1'
    """
    return on_one_line(text).translate(_LATEX).replace(r" \%", r"~\%")


_DIFFERENCES = re.compile(r"[-+.,\d\[\] ]+")
"""A cell of signed numbers, such as a difference with its interval."""
_MINUS = re.compile(r"(?<!\d)-(?=[.\d])")


def _latex_cell(text: str) -> str:
    r"""Like ``escape_latex``; the minus of a number is no hyphen.

    Example:
        >>> _latex_cell("-.0312 [-.1000, +.0376]"), _latex_cell("1-1"), _latex_cell("top-3")
        ('$-$.0312 [$-$.1000, +.0376]', '1-1', 'top-3')
    """
    if _DIFFERENCES.fullmatch(text):
        return _MINUS.sub("$-$", text)
    return escape_latex(text)


_COLUMN_WIDTH = 241
"""The width in points of a column of ACM's sigconf. That of IEEE's conferences has 252."""
_PAGE_WIDTH = 345
"""The width in points of the text of LaTeX's article, the narrowest. ACM's sigconf has 506."""


@dataclass(frozen=True)
class _LatexForm:
    """How a table is set for LaTeX.

    Attributes:
        environment: ``table``, or ``table*`` for a float as wide as the text.
        size: the command of the font's size.
        scale: the width of its letters beside those of 10 points.
        gap: the points to each side of a column.
        room: the points that a table of this form may take.
    """

    environment: str = "table"
    size: str = r"\normalsize"
    scale: float = 1.0
    gap: int = 6
    room: int = _COLUMN_WIDTH

    def fits(self, columns: Sequence[Column]) -> bool:
        """Whether columns have room in this form."""
        width = 0.0
        for column in columns:
            texts = [_width_in_points(column.title)]
            for cell in column.cells:
                bold = _WIDTH_OF_BOLD if cell.best else 1
                texts.append(_width_in_points(cell.text) * bold)
            width += max(texts) * self.scale + 2 * self.gap
        return width <= self.room


_SMALL = _LatexForm(size=r"\small", scale=0.93, gap=4)
_FOOTNOTE = _LatexForm(size=r"\footnotesize", scale=0.85, gap=3)
_SCRIPT = _LatexForm(size=r"\scriptsize", scale=0.8, gap=3)
_IN_COLUMN = (_LatexForm(), _SMALL, _FOOTNOTE)
_ON_PAGE = tuple(
    replace(form, environment="table*", room=_PAGE_WIDTH) for form in (*_IN_COLUMN, _SCRIPT)
)

_WIDTH_OF_BOLD = 1.15
_WIDTHS = {
    2.8: ".,:;'!|ijlI[]",
    3.9: " ()-/_rst",
    7.8: "ABCDEFGHJKLMNOPQRSTUVWXYZmw@+=%&\u00b1",
}
"""The width in points of characters in Computer Modern of 10 points; 5.5 for all others."""
_WIDTH_OF_CHARACTER = {character: width for width, of in _WIDTHS.items() for character in of}


def _width_in_points(text: str) -> float:
    """The width of a text in Computer Modern of 10 points, roughly.

    Example:
        >>> round(_width_in_points("nDCG@3"))  # 41 in LaTeX
        42
    """
    return sum(_WIDTH_OF_CHARACTER.get(character, 5.5) for character in text)


def without_levels(columns: Sequence[Column]) -> tuple[list[Column], list[str]]:
    """The columns with shorter names of measures, and sentences with what these lack.

    A name stays as it is where another column would have the same.

    Example:
        >>> columns = [Column("R(rel=1)@20", []), Column("P(rel=2)@5", []), Column("P@5", [])]
        >>> shorter, sentences = without_levels(columns)
        >>> [column.title for column in shorter], sentences
        (['R@20', 'P(rel=2)@5', 'P@5'], ['R@20: relevant from grade 1 on.'])
    """
    titles = [RELEVANCE_LEVEL.sub("", column.title) for column in columns]
    shorter = []
    measures_of: dict[str, list[str]] = {}
    for column, title in zip(columns, titles, strict=True):
        level = RELEVANCE_LEVEL.search(column.title)
        if level is None or titles.count(title) > 1:
            shorter.append(column)
            continue
        shorter.append(replace(column, title=title))
        measures_of.setdefault(level[1], []).append(title)
    sentences = []
    for level_number, measures in measures_of.items():
        sentences.append(f"{', '.join(measures)}: relevant from grade {level_number} on.")
    return shorter, sentences


def escape_markdown(text: str) -> str:
    r"""Return text that Markdown shows as it is, on one line.

    Example:
        >>> escape_markdown("a|b *c* <d>")
        'a\\|b \\*c\\* \\<d\\>'
    """
    return re.sub(r"([\\`*_{}\[\]<>#|~$&])", r"\\\1", on_one_line(text))


@dataclass(eq=False, repr=False)
class Table:
    """A table to show, or to copy into a paper. It displays itself in a notebook.

    Attributes:
        rows: the values behind it, unrounded.
        columns: what is shown.
        notes: what a reader has to know, a sentence each.
        title: what it is; empty when that is clear.
        below: a second table about the same values, which is shown below.
        on_screen: the columns in a terminal, where they are others. A terminal shows as many beside
            each other as fit.
        caption: what its columns are, which only the caption of a paper's table says.
        label: the name of a table without a title in a paper.
    """

    rows: "pd.DataFrame | Sequence[Mapping[str, Any]]"
    columns: Sequence[Column]
    notes: Sequence[str]
    title: str = ""
    below: "Table | None" = None
    on_screen: Sequence[Column] = ()
    caption: str = ""
    label: str = "results"

    @property
    def frame(self) -> "pd.DataFrame":
        """The values behind it, as a frame."""
        import pandas as pd

        return self.rows if isinstance(self.rows, pd.DataFrame) else pd.DataFrame(self.rows)

    def written(self, form: str = "text") -> str:
        """Return the table in one of the ``TABLE_FORMATS``.

        Raises:
            UsageError: for another form.
        """
        if form not in TABLE_FORMATS:
            raise UsageError(f"the format {form!r} is unknown: choose {', '.join(TABLE_FORMATS)}")
        writers = {
            "text": self.text,
            "markdown": self.markdown,
            "latex": self.latex,
            "csv": self.csv,
        }
        return writers[form]()

    def latex(self, label: str = "") -> str:
        """Return a ``table`` environment for LaTeX with the package booktabs.

        Title and notes are in its caption. A table without either has no number and no label.

        A table that is too wide for one of two columns has shorter names of measures, then a
        smaller font and gap, then the environment ``table*``, which is as wide as the text.

        Args:
            label: for references; by default made of the title. A second table's has an end more.
        """
        table = self
        if not _IN_COLUMN[0].fits(self.columns):
            columns, levels = without_levels(self.columns)
            table = replace(self, columns=columns, notes=[*self.notes, *levels])
        label = label or _label_of(self.title or self.label)
        text = table._latex(label)
        if self.below is None:
            return text
        return f"{text}\n{self.below.latex(f'{label}-intervals')}"

    def _latex(self, label: str) -> str:
        """The environment of this table alone, in the first form that fits."""
        # the mark takes no room: scores stay aligned
        shown = self._marked(_latex_cell, r"\textbf{%s}", r"\underline{%s}", r"\rlap{$^{%s}$}")
        sides = "".join("r" if column.numeric else "l" for column in self.columns)
        tabular = str(shown.to_latex(index=False, escape=False, column_format=sides)).rstrip()
        fitting = [form for form in (*_IN_COLUMN, *_ON_PAGE) if form.fits(self.columns)]
        form = fitting[0] if fitting else _ON_PAGE[-1]
        size = [] if form.size == r"\normalsize" else [form.size]
        if form.gap != 6:
            size.append(rf"\setlength{{\tabcolsep}}{{{form.gap}pt}}")
        lines = [LATEX_PACKAGES]
        if not fitting:
            lines.append(LATEX_TOO_WIDE)
        caption = escape_latex(self._paper_caption())
        if caption:
            lines += [rf"\begin{{{form.environment}}}", rf"\caption{{{caption}}}"]
            lines += [rf"\label{{{label}}}", r"\centering", *size, tabular]
            lines.append(rf"\end{{{form.environment}}}")
        elif size:
            lines += ["{", *size, tabular, "}"]
        else:
            lines.append(tabular)
        return "\n".join(lines) + "\n"

    def markdown(self) -> str:
        """Return a table in Markdown, as GitHub and Jupyter read it, the notes below."""
        shown = self._marked(escape_markdown, "**%s**", "<ins>%s</ins>", "%s")
        sides = []
        for column in self.columns:
            is_right = column.numeric and not column.marked
            sides.append("---:" if is_right else ":---")
        lines = []
        if self.title:
            lines += [f"**{escape_markdown(self.title)}**", ""]
        for row in (shown.columns, sides, *shown.itertuples(index=False, name=None)):
            lines.append(f"| {' | '.join(row)} |")
        if self.notes:
            lines += ["", " ".join(escape_markdown(note) for note in self.notes)]
        text = "\n".join(lines) + "\n"
        return text if self.below is None else f"{text}\n{self.below.markdown()}"

    def text(self) -> str:
        """Return a table for a file or a pipe: a line for each row, the notes below.

        Best and second best scores are not marked.
        """
        padded = [_padded(column) for column in self.columns]
        lines = []
        if self.title:
            lines += [*wrapped(self.title).splitlines(), ""]
        for row in zip(*padded, strict=True):
            lines.append("  ".join(row).rstrip())
        notes = [wrapped(note) for note in self.notes if note != MARKS_NOTE]
        if notes:
            lines += ["", *notes]
        text = "\n".join(lines) + "\n"
        return text if self.below is None else f"{text}\n{self.below.text()}"

    def csv(self) -> str:
        """Return all columns of the frame, unrounded.

        The experiment table also has p-values, intervals and numbers of turns won and lost.
        """
        return str(self.frame.to_csv(index=False))

    def _repr_html_(self) -> str:
        """A table for a notebook, with title and notes below. A wide table scrolls."""
        shown = self._marked(escape, "<b>%s</b>", "<u>%s</u>", "<sup>%s</sup>")
        drawn = shown.to_html(index=False, escape=False, border=0, classes="ikat-table")
        caption = escape(self._caption())
        html = f'<div style="overflow-x: auto">{drawn}<p>{caption}</p></div>'
        return html if self.below is None else html + self.below._repr_html_()

    def __str__(self) -> str:
        return self.text()

    def _caption(self) -> str:
        title = [f"{self.title.rstrip('.')}."] if self.title else []
        return " ".join([*title, *self.notes])

    def _paper_caption(self) -> str:
        """The caption for a paper: what it shows, and each note once."""
        sentences = []
        for text in (self.title, self.caption):
            if text:
                sentences.append(f"{text.rstrip('.')}.")
        for note in dict.fromkeys(self.notes):
            sentences.append(f"{note.removeprefix('note: ').rstrip('.')}.")
        return " ".join(sentences)

    def _marked(
        self, escape: Callable[[str], str], best: str, second: str, sign: str
    ) -> "pd.DataFrame":
        """The cells as texts, escaped and with their marks."""
        import pandas as pd

        def marked(cell: Cell) -> str:
            text = escape(cell.text)
            if cell.best:
                text = best % text
            elif cell.second:
                text = second % text
            if cell.mark:
                text += sign % escape(cell.mark).strip("$")
            return text

        columns = {}
        for position, column in enumerate(self.columns):
            columns[position] = [marked(cell) for cell in column.cells]
        shown = pd.DataFrame(columns, dtype=object)
        return shown.set_axis([escape(column.title) for column in self.columns], axis="columns")


def _label_of(title: str) -> str:
    """The label of a table for a paper, such as ``tab:llm-ledger``."""
    words = re.findall(r"[a-z0-9]+", title.casefold())
    return "tab:" + "-".join(words[:5])


def _padded(column: Column) -> list[str]:
    """The title and cells of a column, all as wide as the widest of them."""
    room_for_mark = " " if column.marked else ""
    texts = [column.title + room_for_mark]
    for cell in column.cells:
        texts.append(cell.text + (cell.mark or room_for_mark))
    width = max(len(text) for text in texts)
    if column.numeric:
        return [text.rjust(width) for text in texts]
    return [text.ljust(width) for text in texts]


def of_frame(
    frame: "pd.DataFrame",
    notes: Sequence[str] = (),
    title: str = "",
    *,
    texts: int | None = None,
    decimals: int | Mapping[str, int] = 4,
) -> Table:
    """Return a frame as a table: numbers to the right, those with a fraction rounded.

    A number with a fraction is a score, unless its column has decimals of its own.

    Args:
        frame: the values.
        notes: what a reader has to know.
        title: what it is.
        texts: how many columns, from the left, are texts; by default those that don't hold numbers.
        decimals: of scores, 4 by default; or of amounts such as seconds and US dollars, by the
            title of a column.

    Example:
        >>> import pandas as pd
        >>> frame = pd.DataFrame({"run": ["qr", "aqd"], "turns": [3, 12], "nDCG": [0.5, None]})
        >>> print(of_frame(frame))
        run  turns   nDCG
        qr       3  .5000
        aqd     12      –
        <BLANKLINE>
        –: unknown.
        <BLANKLINE>
    """
    from pandas.api.types import is_bool_dtype, is_numeric_dtype

    columns = []
    has_unknown = False
    for position, name in enumerate(frame.columns):
        values = frame.iloc[:, position]
        holds_numbers = bool(is_numeric_dtype(values)) and not is_bool_dtype(values)
        is_numeric = holds_numbers if texts is None else position >= texts
        form = _form_of(values, name, decimals)
        cells = []
        for value, is_missing in zip(values, values.isna(), strict=True):
            if not is_missing:
                cells.append(Cell(form(value)))
            elif holds_numbers:
                cells.append(Cell(UNKNOWN))
            else:
                cells.append(Cell(""))
        columns.append(Column(str(name), cells, is_numeric))
        if is_numeric and any(cell.text == UNKNOWN for cell in cells):
            has_unknown = True
    return Table(frame, columns, [*notes, UNKNOWN_NOTE] if has_unknown else notes, title)


def _form_of(
    values: "pd.Series[Any]", title: Any, decimals: int | Mapping[str, int]
) -> Callable[[Any], str]:
    """The function that shows the values of a column."""
    from pandas.api.types import is_float_dtype

    if not is_float_dtype(values):
        return str
    if isinstance(decimals, int):
        return partial(format_score, decimals=decimals)
    if title in decimals:
        return f"{{:,.{decimals[title]}f}}".format
    return format_score


def format_score(value: float, decimals: int = 4, *, signed: bool = False) -> str:
    """Return a score as it is shown everywhere: four decimals, and no zero before the point.

    Args:
        value: the score, or a difference of two.
        decimals: how many; fewer for a score that is published so.
        signed: whether a difference has its sign.

    Example:
        >>> format_score(0.8608), format_score(1), format_score(-0.0312)
        ('.8608', '1.0000', '-.0312')
        >>> format_score(0.0312, signed=True), format_score(-0.00001)
        ('+.0312', '.0000')
    """
    sign = "+" if signed else ""
    shown = round(value, decimals) + 0.0  # which makes -0.0 a plain zero
    return re.sub(r"^([-+]?)0\.", r"\1.", f"{shown:{sign}.{decimals}f}")


def wrapped(text: str, indent: str = "", hanging: str = "", width: int = WIDTH) -> str:
    """Return a text in lines of at most 80 characters.

    Args:
        text: the text.
        indent: before each line.
        hanging: the text before each line except the first.
        width: the most characters of a line.

    Example:
        >>> [len(line) <= 80 for line in wrapped("word " * 30).splitlines()]
        [True, True]
    """
    options: dict[str, Any] = {"break_long_words": False, "break_on_hyphens": False}
    return textwrap.fill(
        text, width, initial_indent=indent, subsequent_indent=indent + hanging, **options
    )
