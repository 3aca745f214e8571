"""Tables for papers: text, LaTeX, Markdown and CSV."""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from html import escape

import pandas as pd

from ..errors import DataError
from ..evaluation.evaluator import format_score, is_derived


@dataclass(frozen=True)
class Cell:
    """One place of a table.

    Attributes:
        text: what is in it.
        best: whether no other figure of the column is greater.
        second: whether only the best are greater.
        significant: whether the figure differs significantly from the baseline's.
    """

    text: str
    best: bool = False
    second: bool = False
    significant: bool = False

    def written(self, text: str, best: tuple[str, str], second: tuple[str, str], star: str) -> str:
        """The cell in some form: its ``text``, escaped for it, between the marks that it has earned.

        Example:
            >>> Cell("1_", best=True, significant=True).written("1-", ("<b>", "</b>"), ("<u>", "</u>"), "*")
            '<b>1-</b>*'
        """
        before, after = best if self.best else second if self.second else ("", "")
        return f"{before}{text}{after}{star * self.significant}"


@dataclass(frozen=True)
class Column:
    """One column.

    Attributes:
        title: its title.
        cells: its places, from above.
        numeric: whether they are figures, which are set to the right.
    """

    title: str
    cells: Sequence[Cell]
    numeric: bool = False

    @property
    def starred(self) -> bool:
        """Whether some figures have a star after them, so that set to the right they would not stand below each other."""
        return any(cell.significant for cell in self.cells)


def marked(figures: Sequence[str], significant: Sequence[bool]) -> list[Cell]:
    """The cells of one measure, the best and second best of them marked.

    Figures that read the same are the same: both are best, or both second best. Nothing is best when there is only one figure.

    Args:
        figures: the figures as they are shown; what is no number is never the best.
        significant: whether each differs from the baseline's.

    Example:
        >>> [(cell.best, cell.second) for cell in marked([".5000", ".4000", ".5000", ".3000"], [False] * 4)]
        [(True, False), (False, True), (True, False), (False, False)]
    """
    values = [_number(text) for text in figures]
    ranked = sorted({value for value in values if value is not None}, reverse=True)
    best, second = [*ranked, None, None][:2] if len(figures) > 1 else (None, None)
    return [
        Cell(text, value is not None and value == best, value is not None and value == second, star)
        for text, value, star in zip(figures, values, significant, strict=True)
    ]


def _number(text: str) -> float | None:
    try:
        return float(text)
    except ValueError:
        return None


_ESCAPED = {
    "\\": r"\textbackslash{}",
    "&": r"\&",
    "%": r"\%",
    "$": r"\$",
    "#": r"\#",
    "_": r"\_",
    "{": r"\{",
    "}": r"\}",
    "~": r"\textasciitilde{}",
    "^": r"\textasciicircum{}",
    "<": r"\textless{}",
    ">": r"\textgreater{}",
    "|": r"\textbar{}",
    '"': "''",
    "[": "{[}",  # after the end of a row it would begin an option, and a star a command of its own
    "*": "{*}",
}


def latex(columns: Sequence[Column], notes: Sequence[str]) -> str:
    """A ``table`` environment, with the notes as its caption."""
    alignment = "".join("r" if column.numeric else "l" for column in columns)
    titles = [latex_escaped(column.title) for column in columns]
    rows = zip(*(map(_latex_cell, column.cells) for column in columns), strict=True)
    lines = [
        r"% \usepackage{booktabs}",
        r"\begin{table}",
        r"\centering",
        rf"\caption{{{' '.join(map(latex_escaped, notes))}}}",
        rf"\begin{{tabular}}{{{alignment}}}",
        r"\toprule",
        rf"{' & '.join(titles)} \\",
        r"\midrule",
        *(rf"{' & '.join(row)} \\" for row in rows),
        r"\bottomrule",
        r"\end{tabular}",
        r"\end{table}",
    ]
    return "\n".join(lines) + "\n"


def latex_escaped(text: str) -> str:
    r"""Text that LaTeX prints as it is, on one line.

    Example:
        >>> latex_escaped("50% of R&D_1 -- {x}")
        '50\\% of R\\&D\\_1 -{}- \\{x\\}'
    """
    on_a_line = " ".join(text.split())
    return "".join(_ESCAPED.get(character, character) for character in on_a_line).replace("--", "-{}-").replace("--", "-{}-")


def _latex_cell(cell: Cell) -> str:
    # the star takes no room, so that the figures stay below each other
    return cell.written(latex_escaped(cell.text), (r"\textbf{", "}"), (r"\underline{", "}"), r"\rlap{$^{*}$}")


def markdown(columns: Sequence[Column], notes: Sequence[str]) -> str:
    """A table with bars, the notes below it."""
    rows = zip(*(map(_markup_cell, column.cells) for column in columns), strict=True)
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


def _markup_cell(cell: Cell) -> str:
    return cell.written(escaped(cell.text), ("**", "**"), ("<ins>", "</ins>"), r"\*")


def _html_cell(cell: Cell) -> str:
    return cell.written(escape(cell.text), ("<b>", "</b>"), ("<u>", "</u>"), "<sup>*</sup>")


def _html_place(tag: str, text: str, column: Column) -> str:
    return f'<{tag} style="text-align: {"right" if _to_the_right(column) else "left"}">{text}</{tag}>'


def _to_the_right(column: Column) -> bool:
    return column.numeric and not column.starred


COUNTS = ("turns", "relevant_turns")


class Table:
    """A table to show, and to take into a paper; it displays itself in a notebook.

    Attributes:
        frame: the figures behind it, as precise as they are.
        columns: what is shown.
        notes: what a reader has to know, a sentence each.
    """

    def __init__(self, frame: pd.DataFrame, columns: Sequence[Column], notes: Sequence[str]) -> None:
        self.frame, self.columns, self.notes = frame, columns, notes

    def latex(self) -> str:
        """A ``table`` environment for LaTeX with the package booktabs, the notes in its caption."""
        return latex(self.columns, self.notes)

    def markdown(self) -> str:
        """A table in Markdown, as GitHub and Jupyter read it, the notes below."""
        return markdown(self.columns, self.notes)

    def csv(self) -> str:
        """All columns of the frame, unrounded: for the experiment table with p-values and numbers of turns won and lost."""
        return str(self.frame.to_csv(index=False))

    def _repr_html_(self) -> str:
        return html(self.columns, self.notes)

    def __str__(self) -> str:
        return self.markdown()


def table(evaluated: pd.DataFrame) -> Table:
    """The experiment table for a paper: the best of each measure bold, the second best underlined, ``*`` what differs from the baseline.

    Source: IRLab@iKAT24, Table 1, which marks best and second best in this way.

    Figures that read the same with four decimals share their mark.

    Args:
        evaluated: what ``ikat.experiment``, ``ikat.evaluation.evaluate`` or ``ikat.evaluation.evaluate_ptkb`` returned.

    Raises:
        DataError: when it is no such table, or its rows are means over different numbers of turns.

    Example:
        >>> import pandas as pd
        >>> found = pd.DataFrame({"name": ["QR", "AQD"], "nDCG@5": [0.25, 0.5], "turns": [24, 24]})
        >>> print(table(found).markdown())
        | system | nDCG@5 |
        | :--- | ---: |
        | QR | <ins>.2500</ins> |
        | AQD | **.5000** |
        <BLANKLINE>
        Means over 24 judged turns; a turn without results counts 0. Best bold, second best underlined.
        <BLANKLINE>
    """
    measures = _measures(evaluated)
    columns = [Column("system", [Cell(str(name)) for name in evaluated["name"]])]
    for name in measures:
        figures = ["n/a" if pd.isna(value) else format_score(value) for value in evaluated[name]]
        columns.append(Column(name, marked(figures, _significant(evaluated, name)), numeric=True))
    return Table(evaluated, columns, _notes(evaluated, measures))


def _measures(evaluated: pd.DataFrame) -> list[str]:
    if not {"name", "turns"} <= set(evaluated.columns) or evaluated.empty:
        found = ", ".join(map(str, evaluated.columns)) or "no column"
        raise DataError(f"this is no experiment table (it has {found}): give what ikat.experiment returned")
    turns = evaluated["turns"].unique()
    if len(turns) > 1:
        raise DataError(f"the rows are means over different turns ({', '.join(map(str, turns))} of them): make a table of each")
    return [name for name in evaluated.columns if name not in ("name", *COUNTS) and not is_derived(name)]


def _significant(evaluated: pd.DataFrame, measure: str) -> list[bool]:
    rejected = evaluated.get(f"{measure} reject")
    return [False] * len(evaluated) if rejected is None else [bool(value) for value in rejected]


def _notes(evaluated: pd.DataFrame, measures: Sequence[str]) -> list[str]:
    notes = [f"Means over {evaluated['turns'].iloc[0]} judged turns; a turn without results counts 0."]
    if len(evaluated) > 1:
        notes.append("Best bold, second best underlined.")
    if f"{measures[0]} reject" in evaluated:
        baseline = evaluated.loc[evaluated[f"{measures[0]} +"].isna(), "name"].iloc[0]
        notes.append(f"* differs from {baseline}: two-sided paired t-test, Bonferroni, p < .05.")
    return notes
