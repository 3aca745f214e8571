"""The papers' figures, drawn from finished runs."""

from pathlib import Path
from typing import Any

import pandas as pd

from ..errors import DataError
from ..evaluation import breakdown
from ..show.plots import new_axes, plot_breakdown, save_plot
from .published import Figure
from .reproduction import Reproduction
from .scoring import measures_of


def figure_scores(reproduction: Reproduction, figure: Figure) -> pd.DataFrame:
    """What a figure draws: a row per depth, conversation or system; a column per system, or ours and the published points.

    Raises:
        DataError: when none of its systems was run.
    """
    scores = {name: frame for name, frame in reproduction.scores(figure.part).items() if name in figure.systems}
    if not scores:
        raise DataError(f"none of the systems {', '.join(figure.systems)} was run: run the figure's table first")
    if figure.kind == "judged":
        table = pd.DataFrame({"system": list(scores), "ours": [frame[figure.measure].mean() for frame in scores.values()]})
        points = figure.points if reproduction.table(figure.part).same_turns else {}
        return table.assign(published=[points.get(name, float("nan")) for name in scores])
    turns = list(reproduction.judgements(figure.part).qrels["qid"].drop_duplicates())
    measure = measures_of(figure.part)[figure.measure]
    return breakdown(
        {name: pd.DataFrame({"qid": turns, measure: frame[figure.measure]}) for name, frame in scores.items()},
        measure=measure,
        by=figure.kind,
    )


def draw_figure(reproduction: Reproduction, figure: Figure, path: str | Path) -> Path:
    """Draw a figure into a file; published points stand beside ours where the paper prints numbers, over as many turns."""
    table = figure_scores(reproduction, figure)
    axes: Any = _bars(table, figure.measure) if figure.kind == "judged" else plot_breakdown(table)
    return save_plot(axes, path)


def _bars(table: pd.DataFrame, measure: str) -> Any:
    axes = new_axes(8)
    places = range(len(table))
    axes.bar(places, table["ours"], width=0.6, label="ours", color="tab:blue")
    if table["published"].notna().any():
        axes.plot(places, table["published"], "kD", label="published")
    axes.set_xticks(list(places), list(table["system"]), rotation=60, ha="right")
    axes.set_ylabel(measure)
    axes.legend()
    return axes
