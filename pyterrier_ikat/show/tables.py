"""Tables for papers in LaTeX, Markdown, HTML and CSV; the experiment table."""

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from html import escape

import pandas as pd

from ..errors import DataError
from ..evaluation.evaluator import format_score, is_derived, with_deviation
from ..evaluation.samples import notes as notes_on_samples


@dataclass(frozen=True)
class Cell:
    """One place of a table.

    Attributes:
        text: what is in it.
        best: whether no other score of the column is greater.
        second: whether only the best are greater.
        significant: whether the score differs significantly from the baseline's.
    """

    text: str
    best: bool = False
    second: bool = False
    significant: bool = False


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
    def to_the_right(self) -> bool:
        """Whether it is set to the right: with stars after some of them, numbers would not stand below each other there."""
        return self.numeric and not any(cell.significant for cell in self.cells)


def mark_best(scores: Sequence[str], significant: Sequence[bool]) -> list[Cell]:
    """The cells of one measure, the best and second best of them marked.

    Scores that read the same are the same: both are best, or both second best. Nothing is best when there is only one score.

    Args:
        scores: the scores as they are shown; what is no number is never the best.
        significant: whether each differs from the baseline's.

    Example:
        >>> [(cell.best, cell.second) for cell in mark_best([".5000", ".4000", ".5000", ".3000"], [False] * 4)]
        [(True, False), (False, True), (True, False), (False, False)]
    """
    ranks = pd.to_numeric(pd.Series(scores), errors="coerce").rank(method="dense", ascending=False)
    several = len(scores) > 1
    return [
        Cell(text, several and rank == 1, several and rank == 2, star) for text, rank, star in zip(scores, ranks, significant, strict=True)
    ]


_LATEX = str.maketrans(
    {sign: rf"\{sign}" for sign in "&%$#_{}"}
    | {
        sign: rf"\text{name}{{}}"
        for sign, name in zip("\\~^<>|", ("backslash", "asciitilde", "asciicircum", "less", "greater", "bar"), strict=True)
    }
    | {
        '"': "''",
        "\u00b1": r"\textpm{}",
        "[": "{[}",
        "*": "{*}",
    }  # after the end of a row a bracket begins an option, and a star a command of its own
)


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
"""The note on marks that only a table with fonts has."""


class Table:
    """A table to show, and to take into a paper; it displays itself in a notebook.

    Attributes:
        frame: the scores behind it, as precise as they are.
        columns: what is shown.
        notes: what a reader has to know, a sentence each.
    """

    def __init__(self, frame: pd.DataFrame, columns: Sequence[Column], notes: Sequence[str]) -> None:
        self.frame, self.columns, self.notes = frame, columns, notes

    def latex(self) -> str:
        """A ``table`` environment for LaTeX with the package booktabs, the notes in its caption."""
        # the star takes no room, so that the scores stay below each other
        titles, rows = self._cells(escape_latex, r"\textbf{%s}", r"\underline{%s}", r"\rlap{$^{*}$}")
        lines = [
            r"% \usepackage{booktabs}",
            r"\begin{table}",
            r"\centering",
            rf"\caption{{{' '.join(map(escape_latex, self.notes))}}}",
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
        titles, rows = self._cells(escape_markdown, "**%s**", "<ins>%s</ins>", r"\*")
        sides = ["---:" if column.to_the_right else ":---" for column in self.columns]
        lines = [f"| {' | '.join(row)} |" for row in (titles, sides, *rows)]
        return "\n".join([*lines, "", " ".join(map(escape_markdown, self.notes))]) + "\n"

    def text(self) -> str:
        """A table for a terminal, without bold and underlined scores, the notes below."""
        titles, rows = self._cells(str, "%s", "%s", "*")
        sides = [str.rjust if column.to_the_right else str.ljust for column in self.columns]
        widths = [max(map(len, cells)) for cells in zip(titles, *rows, strict=True)]
        lines = [" ".join(side(cell, width) for side, cell, width in zip(sides, row, widths, strict=True)) for row in (titles, *rows)]
        return "\n".join([*lines, "", *(note for note in self.notes if note != MARKS)]) + "\n"

    def csv(self) -> str:
        """All columns of the frame, unrounded: for the experiment table with p-values and numbers of turns won and lost."""
        return str(self.frame.to_csv(index=False))

    def _repr_html_(self) -> str:
        """A table for a notebook, the notes as its caption."""
        titles, rows = self._cells(escape, "<b>%s</b>", "<u>%s</u>", "<sup>*</sup>")
        sides = ["right" if column.to_the_right else "left" for column in self.columns]

        def row(tag: str, cells: Sequence[str]) -> str:
            places = (f'<{tag} style="text-align: {side}">{cell}</{tag}>' for side, cell in zip(sides, cells, strict=True))
            return f"<tr>{''.join(places)}</tr>"

        caption = f'<caption style="caption-side: bottom; text-align: left">{escape(" ".join(self.notes))}</caption>'
        body = "".join(row("td", cells) for cells in rows)
        return f"<table>{caption}<thead>{row('th', titles)}</thead><tbody>{body}</tbody></table>"

    def __str__(self) -> str:
        return self.markdown()

    def _cells(self, escape: Callable[[str], str], best: str, second: str, star: str) -> tuple[list[str], list[list[str]]]:
        """The titles, and the cells row by row, escaped and between the marks that they have earned."""

        def mark(cell: Cell) -> str:
            form = best if cell.best else second if cell.second else "%s"
            return form % escape(cell.text) + star * cell.significant

        rows = zip(*(column.cells for column in self.columns), strict=True)
        return [escape(column.title) for column in self.columns], [list(map(mark, row)) for row in rows]


def table(evaluated: pd.DataFrame) -> Table:
    """The experiment table for a paper: the best of each measure bold, the second best underlined, ``*`` what differs from the baseline.

    Source: IRLab@iKAT24, Table 1, which marks best and second best in this way.

    Scores that read the same with four decimals share their mark.

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
        scores = ["n/a" if pd.isna(value) else format_score(value) for value in evaluated[name]]
        rejected = evaluated.get(f"{name} reject", [False] * len(evaluated))
        marked = mark_best(scores, [bool(value) for value in rejected])
        deviations = evaluated.get(f"{name} std", [None] * len(evaluated))
        cells = [replace(cell, text=with_deviation(cell.text, one)) for cell, one in zip(marked, deviations, strict=True)]
        columns.append(Column(name, cells, numeric=True))
    return Table(evaluated, columns, _notes(evaluated, measures))


def _measures(evaluated: pd.DataFrame) -> list[str]:
    if not {"name", "turns"} <= set(evaluated.columns) or evaluated.empty:
        found = ", ".join(map(str, evaluated.columns)) or "no column"
        raise DataError(f"this is no experiment table (it has {found}): give what ikat.experiment returned")
    turns = evaluated["turns"].unique()
    if len(turns) > 1:
        raise DataError(f"the rows are means over different turns ({', '.join(map(str, turns))} of them): make a table of each")
    return [name for name in evaluated.columns if name not in ("name", "turns", "relevant_turns") and not is_derived(name)]


def _notes(evaluated: pd.DataFrame, measures: Sequence[str]) -> list[str]:
    notes = [f"Means over {evaluated['turns'].iloc[0]} judged turns; a turn without results counts 0."]
    if len(evaluated) > 1:
        notes.append(MARKS)
    baseline = None
    if f"{measures[0]} reject" in evaluated:
        baseline = evaluated.loc[evaluated[f"{measures[0]} +"].isna(), "name"].iloc[0]
        notes.append(f"* differs from {baseline}: two-sided paired t-test, Bonferroni, p < .05.")
    if "samples" in evaluated:
        notes += notes_on_samples(evaluated.to_dict("records"), baseline)
    return notes
