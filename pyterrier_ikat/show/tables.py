"""Tables for papers: the experiment table with the best and second best marked, in LaTeX, Markdown and CSV."""

from collections.abc import Sequence

import pandas as pd

from ..errors import DataError
from ..evaluate.table import is_derived, shown_figure
from .tables_cells import Cell, Column, marked
from .tables_latex import latex
from .tables_markup import html, markdown

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
        evaluated: what ``ikat.experiment``, ``ikat.evaluate.evaluate`` or ``ikat.evaluate.evaluate_ptkb`` returned.

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
        figures = ["n/a" if pd.isna(value) else shown_figure(value) for value in evaluated[name]]
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
