"""The experiment table: rows of scores as a table to show, with the best of each measure and the significant differences marked."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from ..tables import HIGHER, LOWER, MARKS, Cell, Column, Table, mark_best
from .evaluator import Rows, format_score, is_derived, with_deviation
from .samples import notes as notes_on_samples


def experiment_table(rows: Rows) -> Table:
    """The table of the rows that :func:`~pyterrier_ikat.evaluation.evaluator.experiment_rows` gave, or those of samples.

    Scores that read the same with four decimals share their mark.

    Args:
        rows: a row per system, at least one, with means over the same turns.

    Example:
        >>> from ir_measures import nDCG
        >>> from pyterrier_ikat.evaluation.evaluator import experiment_rows
        >>> scores = {"QR": {"nDCG@5": [0.2, 0.3, 0.4]}, "AD": {"nDCG@5": [0.7, 0.81, 0.9]}}
        >>> print(experiment_table(experiment_rows(scores, [nDCG @ 5], "QR")))
        system  nDCG@5
        QR       .3000
        AD       .8033↑
        <BLANKLINE>
        Mean over 3 judged turns; a turn without results counts 0.
        ↑ significantly higher, ↓ significantly lower than QR: two-sided paired t-test,
        Bonferroni, p < .05.
        <BLANKLINE>
    """
    measures = measures_of(rows[0])
    base = next((row for row in rows if f"{measures[0]} reject" in row and _unknown(row[f"{measures[0]} +"])), None)
    columns = [Column("system", [Cell(str(row["name"])) for row in rows]), *(_column(rows, name, base) for name in measures)]
    return Table(rows, columns, _notes(rows, base))


def measures_of(row: Mapping[str, Any]) -> list[str]:
    """The measures of a row of an experiment table."""
    return [name for name in row if name not in ("name", "turns", "relevant_turns") and not is_derived(name)]


def _column(rows: Rows, measure: str, base: Mapping[str, Any] | None) -> Column:
    scores = ["n/a" if _unknown(row[measure]) else format_score(row[measure]) for row in rows]
    cells = mark_best(scores, [_mark(row, measure, base) for row in rows])
    several = [row.get(f"{measure} std") for row in rows]
    return Column(
        measure, [replace(cell, text=with_deviation(cell.text, one)) for cell, one in zip(cells, several, strict=True)], numeric=True
    )


def _mark(row: Mapping[str, Any], measure: str, base: Mapping[str, Any] | None) -> str:
    if base is None or not row.get(f"{measure} reject"):
        return ""
    return HIGHER if row[measure] > base[measure] else LOWER


def _notes(rows: Rows, base: Mapping[str, Any] | None) -> Sequence[str]:
    notes = [f"Mean over {rows[0]['turns']} judged turns; a turn without results counts 0."]
    if len(rows) > 1:
        notes.append(MARKS)
    if base is not None:
        notes.append(f"{HIGHER} significantly higher, {LOWER} significantly lower than {base['name']}: {TEST}.")
    if "samples" in rows[0]:
        notes += notes_on_samples(rows, None if base is None else base["name"])
    return notes


TEST = "two-sided paired t-test, Bonferroni, p < .05"


def _unknown(value: Any) -> bool:
    return value is None or value != value
