"""The measures of a report: for each turn one row per run, and their means."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import ir_measures
import pandas as pd

from ...errors import DataError
from ...evaluation import per_turn
from .runs import RunData

SAME = 5e-5
"""Figures that differ by less read alike with four decimals."""


@dataclass(frozen=True)
class Figure:
    """A figure.

    Attributes:
        value: the figure.
        change: how far it is above the first run's; None for the first run.
        best: whether no other run is above it and one is below.
    """

    value: float
    change: float | None
    best: bool

    @property
    def side(self) -> str:
        """``"win"``, ``"loss"`` or ``"tie"`` against the first run."""
        change = self.change or 0.0
        return "tie" if abs(change) < SAME else "win" if change > 0 else "loss"


Figures = list[list[Figure]]
"""One list per run, in it one figure per measure."""


def figures_by_turn(
    runs: Sequence[RunData], qrels: pd.DataFrame | None, turns: Sequence[str], measures: Sequence[ir_measures.Measure | str]
) -> tuple[list[str], dict[str, Figures]]:
    """The names of the measures, and for each judged turn the figures of every run; a turn that a run lacks counts 0.

    Without qrels the figures are those of the run folders.

    Raises:
        DataError: when none of the turns is judged, or the run folders have figures of different measures, turns or qrels.
    """
    if qrels is None:
        tables = _kept(runs)
    else:
        judged = qrels[qrels["qid"].isin(turns)]
        if judged.empty:
            raise DataError(f"none of the turns ({turns[0]}, ...) is judged: the qrels have turns like {_first(qrels)}")
        tables = [per_turn(run.results, judged, measures) for run in runs]
    if not tables or tables[0].empty:
        return [], {}
    names = [name for name in tables[0].columns if name != "qid"]
    values = [dict(zip(table["qid"], table[names].to_numpy(dtype=float).tolist(), strict=True)) for table in tables]
    return names, {qid: _compared([rows[qid] for rows in values]) for qid in values[0]}


def means(figures: Mapping[str, Figures]) -> Figures:
    """The mean over the turns, for each run and measure."""
    if not figures:
        return []
    turns = list(figures.values())
    runs, measures = range(len(turns[0])), range(len(turns[0][0]))
    return _compared([[sum(turn[run][measure].value for turn in turns) / len(turns) for measure in measures] for run in runs])


def _first(qrels: pd.DataFrame) -> str:
    return str(qrels["qid"].iloc[0]) if len(qrels) else "none at all"


def _kept(runs: Sequence[RunData]) -> list[pd.DataFrame]:
    tables = [run.figures for run in runs if run.figures is not None]
    if len(tables) < len(runs):
        return []
    for run, table in zip(runs, tables, strict=True):
        if list(table.columns) != list(tables[0].columns) or set(table["qid"]) != set(tables[0]["qid"]):
            raise DataError(
                f"{run.name} and {runs[0].name} were measured by other measures or on other turns: give the dataset or the qrels"
            )
    _check_qrels(runs)
    return tables


def _check_qrels(runs: Sequence[RunData]) -> None:
    """Refuse figures by other qrels; a folder that was written by hand need not say by which its figures are."""
    known = [run for run in runs if "qrels_sha256" in run.parameters]
    for run in known:
        if run.parameters["qrels_sha256"] != known[0].parameters["qrels_sha256"]:
            raise DataError(f"{run.name} and {known[0].name} were measured with other qrels: give the dataset or the qrels")


def _compared(values: list[list[float]]) -> Figures:
    columns = list(zip(*values, strict=True))
    best = [max(column) if max(column) - min(column) >= SAME else math.inf for column in columns]
    return [
        [
            Figure(value, None if number == 0 else value - first, top - value < SAME)
            for value, first, top in zip(row, values[0], best, strict=True)
        ]
        for number, row in enumerate(values)
    ]
