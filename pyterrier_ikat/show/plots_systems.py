"""Plots that compare systems: by depth, by conversation, turn by turn, and against what they cost."""

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import ir_measures
import numpy as np
import pandas as pd
from ir_measures import nDCG

from ..errors import DataError, UsageError
from ..evaluate import as_measures, label
from ..evaluate.breakdown import SAME, figures_by_run
from .plots_style import BETTER, WORSE, legend_beside, looks, new_axes, plain
from .tables_ledger import Ledgers, ledger_frame

if TYPE_CHECKING:
    from matplotlib.axes import Axes

AMOUNTS = {"calls": "LLM calls", "tokens": "tokens to and from the LLM", "cost": "cost in US dollars"}
"""What systems can be plotted against, and how it is called."""

_MOST_NAMED = 40
"""Turns that can be named under their bars without overlap."""


def plot_breakdown(table: pd.DataFrame, ax: "Axes | None" = None) -> "Axes":
    """Draw what :func:`~pyterrier_ikat.evaluate.breakdown` returned: a line per system over the depth, or its marks for each conversation.

    Source: Abbasiantaeb and Aliannejadi, Generate then Retrieve, Figures 3 and 4.

    Args:
        table: the breakdown.
        ax: the matplotlib Axes to draw on; new ones when None.

    Returns:
        The Axes. Under each depth or conversation stands in brackets how many turns its means are over.

    Raises:
        UsageError: when matplotlib is not installed.

    Example:
        >>> import pandas as pd, pyterrier_ikat as ikat
        >>> figures = pd.DataFrame({"qid": ["9-1_1", "9-1_2"], "nDCG@5": [1.0, 0.5]})
        >>> plot_breakdown(ikat.breakdown({"AD": figures}, by="depth")).get_ylabel()
        'mean nDCG@5'
    """
    by, systems = table.columns[0], [name for name in table.columns[1:] if name != "turns"]
    ax = new_axes(8) if ax is None else ax
    places = list(range(len(table))) if by == "conversation" else table[by].tolist()
    drawn = []
    for name, (colour, marker, line) in zip(systems, looks(), strict=False):
        drawn += ax.plot(places, table[name], color=colour, marker=marker, linestyle=line if by == "depth" else "")
    between = "\n" if by == "depth" else " "
    shown = [f"{key}{between}({turns})" for key, turns in zip(table[by], table["turns"], strict=True)]
    ax.set_xticks(places, shown, rotation=0 if by == "depth" else 90)
    what = "depth: number of the turn in its conversation" if by == "depth" else "conversation"
    ax.set_xlabel(f"{what} (in brackets: turns, {table['turns'].sum()} in all)")
    ax.set_ylabel(f"mean {table.columns.name or 'figure'}")
    ax.set_ylim(bottom=0)
    ax.grid(axis="y" if by == "depth" else "both", alpha=0.3)
    legend_beside(ax, "system", drawn, systems)
    return ax


def plot_differences(
    runs: Mapping[str, pd.DataFrame],
    qrels: pd.DataFrame | None = None,
    measure: ir_measures.Measure | str = nDCG @ 5,
    *,
    baseline: str,
    ax: "Axes | None" = None,
) -> "Axes":
    """Draw by how much one of two systems is better on each turn: a bar per turn, from its greatest gain to its greatest loss.

    Args:
        runs: the two systems, as for :func:`~pyterrier_ikat.evaluate.breakdown`.
        qrels: ``qid``, ``docno``, ``label``; needed for result frames.
        measure: an ir_measures measure or its name.
        baseline: the one of the two that is subtracted.
        ax: the matplotlib Axes to draw on; new ones when None.

    Returns:
        The Axes. Up to 40 turns are named under their bars; a turn without a bar is a tie (less than 1e-9 apart).

    Raises:
        UsageError: when there are not two runs, the baseline is none of them, a result frame comes without qrels, or
            matplotlib is not installed.
        DataError: when the runs' figures are not about the same turns.

    Example:
        >>> import pandas as pd
        >>> base = pd.DataFrame({"qid": ["1_1", "1_2"], "nDCG@5": [0.5, 0.5]})
        >>> other = base.assign(**{"nDCG@5": [0.25, 0.75]})
        >>> plot_differences({"QR": base, "AD": other}, baseline="QR").get_ylabel()
        'nDCG@5: AD − QR'
    """
    if baseline not in runs or len(runs) != 2:
        raise UsageError(f"a difference is between two runs, one of them the baseline {baseline!r}: these are {', '.join(runs) or 'none'}")
    other = next(name for name in runs if name != baseline)
    figures = figures_by_run(runs, qrels, measure)
    change = (figures[other] - figures[baseline]).sort_values(ascending=False, kind="stable")
    ax = new_axes(8) if ax is None else ax
    drawn, told = _bars(ax, change, other, baseline)
    legend_beside(ax, "turns", drawn, told)
    named = len(change) <= _MOST_NAMED
    ax.set_xticks(range(len(change)) if named else [], list(change.index) if named else [], rotation=90)
    ax.set_xlabel(f"{len(change)} turns, sorted by the difference")
    ax.set_ylabel(f"{label(as_measures(measure)[0])}: {plain(other)} − {plain(baseline)}")
    return ax


def _bars(ax: "Axes", change: "pd.Series[Any]", other: str, baseline: str) -> tuple[list[Any], list[str]]:
    places, heights = np.arange(len(change)), change.to_numpy()
    better, worse = heights >= SAME, heights <= -SAME
    ties = len(change) - int(better.sum()) - int(worse.sum())
    drawn = [
        ax.bar(places[better], heights[better], color=BETTER, width=0.9),
        ax.bar(places[worse], heights[worse], color=WORSE, width=0.9, hatch="//", edgecolor="white", linewidth=0),
        ax.axhline(0, color="black", linewidth=0.8),
        ax.axhline(heights.mean(), color="black", linestyle="--", linewidth=1),
    ]
    told = [f"{other} better: {better.sum()}", f"{baseline} better: {worse.sum()}", f"ties: {ties}", f"mean {heights.mean():+.4f}"]
    return drawn, told


def plot_cost(
    table: pd.DataFrame,
    ledgers: Ledgers,
    measure: ir_measures.Measure | str = nDCG @ 5,
    against: str = "calls",
    ax: "Axes | None" = None,
) -> "Axes":
    """Draw how good each system is against what its LLM calls came to.

    Args:
        table: what ``ikat.evaluate.evaluate`` or ``ikat.experiment`` returned.
        ledgers: the systems' accounts: folders made by ``ikat run``, or a dict name -> folder or ``Ledger``; see
            :func:`~pyterrier_ikat.show.tables_ledger.ledger_frame`.
        measure: one of the table's measures.
        against: ``"calls"``, ``"tokens"`` (sent and received) or ``"cost"`` (US dollars), of all turns together. What a
            cache answered cost nothing; the legend tells how many requests that were.
        ax: the matplotlib Axes to draw on; new ones when None.

    Returns:
        The Axes, with a marker for each system of the table.

    Raises:
        UsageError: when the table lacks the measure, ``against`` is unknown, or matplotlib is not installed.
        DataError: when a system has no ledger, or its tokens or cost are unknown.

    Example:
        >>> import pandas as pd
        >>> from pyterrier_ikat.llm import Ledger
        >>> spent = Ledger()
        >>> spent.count("rewrite", "gpt-4o", calls=2)
        >>> table = pd.DataFrame({"name": ["raw", "QR"], "nDCG@5": [0.25, 0.5], "turns": [2, 2]})
        >>> plot_cost(table, {"raw": Ledger(), "QR": spent}).get_xlabel()
        'LLM calls'
    """
    column = label(as_measures(measure)[0])
    if column not in table.columns:
        raise UsageError(f"the table has no column {column}: evaluate with this measure")
    if against not in AMOUNTS:
        raise UsageError(f"against={against!r} is unknown: choose one of {', '.join(AMOUNTS)}")
    spent = _spent(ledger_frame(ledgers), table["name"].tolist(), against)
    ax = new_axes(8) if ax is None else ax
    drawn, names = [], []
    for (name, figure), (colour, marker, _) in zip(zip(table["name"], table[column], strict=True), looks(), strict=False):
        amount, cached = spent[name]
        drawn += ax.plot(amount, figure, color=colour, marker=marker, linestyle="", markersize=9)
        names.append(f"{name} (and {cached} cached)" if cached else name)
    ax.set_xlabel(AMOUNTS[against])
    ax.set_ylabel(f"mean {column} of {table['turns'].iloc[0]} turns")
    ax.set_ylim(bottom=0)
    ax.margins(x=0.08)
    ax.grid(alpha=0.3)
    legend_beside(ax, "system", drawn, names)
    return ax


def _spent(ledger: pd.DataFrame, systems: list[str], against: str) -> dict[str, tuple[float, int]]:
    columns = ["prompt_tokens", "completion_tokens"] if against == "tokens" else [against]
    found = {}
    for name in systems:
        rows = ledger[ledger["system"] == name]
        if rows.empty:
            raise DataError(
                f"system {name} has no ledger among those of {', '.join(ledger['system'].unique())}: give its run folder or ledger"
            )
        amounts = rows[columns]
        if amounts.isna().any(axis=None):
            raise DataError(f"{name} has unknown {against}: plot against another of {', '.join(AMOUNTS)}, or leave the system out")
        found[name] = float(amounts.to_numpy(dtype=float).sum()), int(rows["cache_hits"].sum())
    return found
