"""Figures: scores by depth or conversation, and scores against the cost of LLM calls."""

from collections.abc import Iterator, Sequence
from itertools import cycle
from pathlib import Path
from typing import TYPE_CHECKING, Any

import ir_measures
import numpy as np
import pandas as pd
from ir_measures import nDCG

from ..errors import DataError, UsageError, counted
from ..evaluation import as_measures, label
from ..evaluation.score_frame import notes_on_turns
from ..store.files import atomic_write
from .ledgers import Ledgers, ledger_frame

if TYPE_CHECKING:
    from matplotlib.axes import Axes

COLOURS = (
    *("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#000000"),
    *("#882255", "#999933", "#332288", "#44AA99", "#B15928", "#7F7F7F", "#AA4499"),
)
"""The palette of Okabe and Ito, Color Universal Design (2008), without its yellow, which is too pale for lines on white.

Systems from the eighth on have colours of Paul Tol's scheme "muted", a brown and a grey.
"""
MARKERS = ("o", "s", "^", "D", "v", "P", "X", "*")
LINES = ("-", "--", ":")

AGAINST = {"calls": "LLM calls", "tokens": "tokens to and from the LLM", "cost": "cost (USD)"}
"""The amounts against which systems can be plotted, and their labels."""

_TEXT_AS_TEXT: dict[Any, Any] = {
    "svg.fonttype": "none",
    "pdf.fonttype": 42,
    "svg.hashsalt": "pyterrier_ikat",
}
_UNDATED: dict[str, dict[str, Any]] = {
    ".svg": {"Date": None},
    ".pdf": {"CreationDate": None},
    ".png": {},
}
_FEWEST_TURNS = 5
"""The minimum number of turns for which the mean of a depth is shown. With fewer, the interval is wider than the range of most measures."""


def line_styles() -> Iterator[tuple[str, str, str]]:
    """The colour, marker and line of each system. The combinations repeat after 168 systems."""
    return zip(cycle(COLOURS), cycle(MARKERS), cycle(LINES), strict=False)


def axes_for(ax: "Axes | None" = None, width: float = 8) -> "Axes":
    """The given Axes, or new ones of this width in inches.

    Raises:
        UsageError: when matplotlib is not installed.
    """
    try:
        from matplotlib import pyplot
    except ImportError:
        raise UsageError("drawing needs matplotlib: pip install pyterrier_ikat[plots]") from None
    return pyplot.subplots(figsize=(width, 4.8), layout="constrained")[1] if ax is None else ax


def add_legend(ax: "Axes", title: str, handles: Sequence[Any], names: Sequence[str]) -> None:
    """A legend next to the plot. It accepts names that matplotlib would hide or read as formulas."""
    ax.legend(
        handles,
        [name.replace("$", r"\$") for name in names],
        title=title,
        loc="upper left",
        bbox_to_anchor=(1.01, 1),
    )


def save_plot(ax: "Axes", path: str | Path) -> Path:
    """Write a plot for a paper. Its text can be searched and edited, and the same plot gives the same bytes.

    Args:
        ax: the Axes that a plot returned.
        path: a file that ends with ``.svg``, ``.pdf`` or ``.png`` (200 dots per inch).

    Returns:
        The file.

    Raises:
        UsageError: for another ending.

    Example:
        >>> import pandas as pd, pyterrier_ikat as ikat
        >>> scores = pd.DataFrame({"qid": ["9-1_1", "9-1_2"], "nDCG@5": [1.0, 0.5]})
        >>> save_plot(plot_breakdown(ikat.breakdown({"AD": scores}, by="depth")), "depth.svg").name
        'depth.svg'
    """
    from matplotlib import rc_context

    suffix = Path(path).suffix.lower()
    if suffix not in _UNDATED:
        raise UsageError(
            f"{path}: a plot is saved as {', '.join(_UNDATED)}: end the name with one of them"
        )
    figure: Any = ax.get_figure(root=True)
    with rc_context(_TEXT_AS_TEXT), atomic_write(path, "wb") as file:
        figure.savefig(
            file, format=suffix[1:], bbox_inches="tight", dpi=200, metadata=_UNDATED[suffix]
        )
    return Path(path)


def plot_breakdown(table: pd.DataFrame, ax: "Axes | None" = None) -> "Axes":
    """Draw the result of :func:`~pyterrier_ikat.evaluation.breakdown`: a line per system over the depth, or marks for each conversation.

    Source: Abbasiantaeb and Aliannejadi, Generate then Retrieve, Figures 3 and 4.

    Args:
        table: the breakdown.
        ax: the matplotlib Axes to draw on. New ones when None.

    Returns:
        The Axes. The marks of the systems stand side by side, in the order of the legend, and each
        conversation has its own strip. The number of turns is in brackets under each depth or
        conversation. The lines end where fewer than five turns are left, if any depth has five.
        Vertical lines are the 95 % confidence intervals of the means of five or more turns, from
        the table's ``attrs``; the label of the axis says so where there are any.

    Raises:
        UsageError: when matplotlib is not installed.

    Example:
        >>> import pandas as pd, pyterrier_ikat as ikat
        >>> scores = pd.DataFrame({"qid": ["9-1_1", "9-1_2"], "nDCG@5": [1.0, 0.5]})
        >>> plot_breakdown(ikat.breakdown({"AD": scores}, by="depth")).get_ylabel()
        'mean nDCG@5'
    """
    by = table.columns[0]
    joined = by == "depth"
    shown = _with_enough_turns(table) if joined else table
    systems = [name for name in table.columns[1:] if name != "turns"]
    axes = axes_for(ax, 8 if joined else _width(len(shown), len(systems)))
    places = shown[by].to_numpy(dtype=float) if joined else np.arange(len(shown), dtype=float)
    offsets = _side_by_side(len(systems), DEPTH_STRIP if joined else STRIP)
    drawn = []
    intervals = False
    for name, offset, (colour, marker, line) in zip(systems, offsets, line_styles(), strict=False):
        half = _half_widths(shown, name)
        intervals = intervals or half is not None
        look: dict[str, Any] = {
            "color": colour,
            "marker": marker,
            "linestyle": line if joined else "",
            "markersize": 5,
            "elinewidth": 1,
        }
        drawn.append(axes.errorbar(places + offset, shown[name], yerr=half, **look))
    if not joined:
        for place in places[1::2]:
            axes.axvspan(place - 0.5, place + 0.5, color="0.94", linewidth=0, zorder=0)
        axes.set_xlim(-0.5, len(shown) - 0.5)
    gap = "\n" if joined else " "
    ticks = [f"{key}{gap}({turns})" for key, turns in zip(shown[by], shown["turns"], strict=True)]
    axes.set_xticks(places, ticks, rotation=0 if joined else 90, fontsize="small")
    axes.set(
        xlabel=_label_of_groups(table, shown, intervals),
        ylabel=f"mean {table.columns.name or 'score'}",
    )
    axes.set_ylim(
        0,
        1.05
        if np.nanmax(shown[systems].to_numpy(dtype=float), initial=0.0) <= 1 < axes.get_ylim()[1]
        else None,
    )
    axes.grid(axis="y", alpha=0.3)
    add_legend(axes, "system", drawn, systems)
    return axes


STRIP, DEPTH_STRIP = 0.8, 0.3
"""The part of the room of a conversation, and of a depth, that the marks of its systems take side by side."""


def _side_by_side(systems: int, room: float) -> "np.ndarray":
    """Where the marks of each system stand, from the middle of a group.

    Example:
        >>> _side_by_side(3, 0.8).round(2).tolist(), _side_by_side(1, 0.8).tolist()
        ([-0.27, 0.0, 0.27], [0.0])
    """
    return (np.arange(systems) - (systems - 1) / 2) * room / max(systems, 1)


def _width(groups: int, systems: int) -> float:
    """The width of a figure in inches in which neighbouring marks can be told apart."""
    return min(24.0, max(8.0, 2 + groups * max(0.25, 0.09 * systems)))


def _label_of_groups(table: pd.DataFrame, shown: pd.DataFrame, intervals: bool) -> str:
    """The label below the groups: what they are, how many turns they have, which turns are scored, and what vertical lines are."""
    by = table.columns[0]
    what = "depth: number of the turn in its conversation" if by == "depth" else by
    deeper = f"; deeper: fewer than {_FEWEST_TURNS}" if len(shown) < len(table) else ""
    lines = [f"{what} (in brackets: turns, {shown['turns'].sum()} in all{deeper})"]
    if intervals:
        unit = table.attrs.get("unit")
        over = f", over {unit}s" if unit else ""
        lines.append(f"vertical lines: 95 % confidence intervals of the means{over}")
    lines += notes_on_turns(table)
    return "\n".join(lines)


def _with_enough_turns(table: pd.DataFrame) -> pd.DataFrame:
    """The depths down to the last one with enough turns; all depths if none has enough."""
    enough = np.flatnonzero(table["turns"].to_numpy() >= _FEWEST_TURNS)
    return table.iloc[: enough[-1] + 1] if len(enough) else table


def _half_widths(table: pd.DataFrame, name: str) -> "np.ndarray | None":
    """Half of the interval at each depth; NaN where too few turns are left, and None without intervals."""
    known = table.attrs.get("half_widths", {}).get(name, {})
    enough = table["turns"].to_numpy() >= _FEWEST_TURNS
    widths = [
        known.get(depth, np.nan) if shown else np.nan
        for depth, shown in zip(table.iloc[:, 0], enough, strict=True)
    ]
    return np.array(widths) if known and enough.any() else None


def plot_cost(
    table: pd.DataFrame,
    ledgers: Ledgers,
    measure: ir_measures.Measure | str = nDCG @ 5,
    against: str = "calls",
    ax: "Axes | None" = None,
) -> "Axes":
    """Draw the score of each system against the cost of its LLM calls.

    Args:
        table: the result of ``ikat.evaluation.evaluate`` or ``ikat.experiment``.
        ledgers: the systems' accounts: folders made by ``ikat run``, or a dict name -> folder or
            ``Ledger``; see :func:`~pyterrier_ikat.show.ledger_frame`.
        measure: one of the table's measures.
        against: ``"calls"``, ``"tokens"`` (sent and received) or ``"cost"`` (US dollars), of all
            turns together. Requests that a cache answered cost nothing. The legend has their
            number.
        ax: the matplotlib Axes to draw on. New ones when None.

    Returns:
        The Axes, with a marker for each system of the table. A system that was run several times
        (``repeats=``) also has a bar with the standard deviation over the repeats, at the costs of
        the plain run.

    Raises:
        UsageError: when the table lacks the measure, ``against`` is unknown, or matplotlib is not
            installed.
        DataError: when a system has no ledger, or its tokens or cost are unknown.

    Example:
        >>> import pandas as pd
        >>> from pyterrier_ikat.llms import Ledger
        >>> spent = Ledger()
        >>> spent.count("rewrite", "gpt-4o", calls=2)
        >>> table = pd.DataFrame({"name": ["raw", "QR"], "nDCG@5": [0.25, 0.5], "turns": [2, 2]})
        >>> plot_cost(table, {"raw": Ledger(), "QR": spent}).get_xlabel()
        'LLM calls'
    """
    column = label(as_measures(measure)[0])
    if column not in table.columns:
        raise UsageError(f"the table has no column {column}: evaluate with this measure")
    if against not in AGAINST:
        raise UsageError(f"against={against!r} is unknown: choose one of {', '.join(AGAINST)}")
    axes, spent, names, drawn = axes_for(ax), ledger_frame(ledgers), [], []
    deviations = table.get(f"{column} std", [np.nan] * len(table))
    for name, score, deviation, look in zip(
        table["name"], table[column], deviations, line_styles(), strict=False
    ):
        amount, cached = _spent_by(spent, name, against)
        bar = None if pd.isna(deviation) else deviation
        drawn.append(
            axes.errorbar(
                amount, score, yerr=bar, color=look[0], marker=look[1], linestyle="", capsize=4
            )
        )
        names.append(f"{name} (and {cached} cached)" if cached else name)
    axes.set(
        xlabel=AGAINST[against],
        ylabel=f"mean {column} of {counted(table['turns'].iloc[0], 'turn')}",
        ylim=(0, None),
    )
    axes.grid(alpha=0.3)
    add_legend(axes, "system", drawn, names)
    return axes


def _spent_by(ledger: pd.DataFrame, name: str, against: str) -> tuple[float, int]:
    """The cost of a system's calls, and the number of requests that the cache answered."""
    rows = ledger[ledger["system"] == name]
    if rows.empty:
        raise DataError(
            f"system {name} has no ledger among those of {', '.join(ledger['system'].unique())}: give its run folder or ledger"
        )
    amounts = rows[["prompt_tokens", "completion_tokens"] if against == "tokens" else [against]]
    if amounts.isna().any(axis=None):
        raise DataError(
            f"{name} has unknown {against}: plot against another of {', '.join(AGAINST)}, or omit the system"
        )
    return float(amounts.sum().sum()), int(rows["known"].sum())
