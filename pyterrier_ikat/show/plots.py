"""Figures: scores by depth or conversation, and scores against the cost of LLM calls."""

from collections.abc import Iterator, Mapping, Sequence
from itertools import cycle
from pathlib import Path
from typing import TYPE_CHECKING, Any

import ir_measures
import numpy as np
import pandas as pd
from ir_measures import nDCG

from ..errors import DataError, UsageError, counted
from ..evaluation import as_measures, label
from ..evaluation.experiment_table import check_experiment_table
from ..evaluation.score_frame import notes_on_turns
from ..evaluation.scores import GROUP_COLUMNS
from ..store.files import atomic_write
from .ledgers import Ledgers, ledger_frame

if TYPE_CHECKING:
    from matplotlib.axes import Axes

COLOURS = (
    *("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#000000"),
    *("#882255", "#999933", "#332288", "#44AA99", "#B15928", "#7F7F7F", "#AA4499"),
)
"""The palette of Okabe and Ito, Color Universal Design (2008), without the pale yellow.

Systems from the eighth on have colours of Paul Tol's scheme "muted", a brown and a grey.
"""
MARKERS = ("o", "s", "^", "D", "v", "P", "X", "*")
LINE_STYLES = ("-", "--", ":")

AMOUNTS = {"calls": "LLM calls", "tokens": "tokens to and from the LLM", "cost": "cost (USD)"}
"""The amounts against which systems can be plotted, and their labels."""

STRIP = 0.8
DEPTH_STRIP = 0.3
"""The part of a conversation's strip, and of a depth's, that the marks of its systems take."""

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
"""The fewest turns for which the mean of a depth is shown.

With fewer, the interval is wider than the range of most measures.
"""


def line_styles() -> Iterator[tuple[str, str, str]]:
    """The colour, marker and line of each system. The combinations repeat after 168 systems."""
    return zip(cycle(COLOURS), cycle(MARKERS), cycle(LINE_STYLES), strict=False)


def axes_for(ax: "Axes | None" = None, width: float = 8) -> "Axes":
    """The given Axes, or new ones of this width in inches.

    Raises:
        UsageError: when matplotlib is not installed.
    """
    try:
        from matplotlib import pyplot
    except ImportError:
        raise UsageError("drawing needs matplotlib: pip install pyterrier_ikat[plots]") from None
    if ax is not None:
        return ax
    _figure, axes = pyplot.subplots(figsize=(width, 4.8), layout="constrained")
    return axes


def add_legend(ax: "Axes", title: str, handles: Sequence[Any], names: Sequence[str]) -> None:
    """Add a legend, also for names that matplotlib would hide or read as formulas."""
    labels = [name.replace("$", r"\$") for name in names]
    ax.legend(handles, labels, title=title, loc="upper left", bbox_to_anchor=(1.01, 1))


def save_plot(ax: "Axes", path: str | Path) -> Path:
    """Write a plot for a paper. Its text can be searched, and equal plots are equal files.

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
        endings = ", ".join(_UNDATED)
        raise UsageError(f"{path}: a plot is saved as {endings}: end the name with one of them")
    figure: Any = ax.get_figure(root=True)
    metadata = _UNDATED[suffix]
    with rc_context(_TEXT_AS_TEXT), atomic_write(path, "wb") as file:
        figure.savefig(file, format=suffix[1:], bbox_inches="tight", dpi=200, metadata=metadata)
    return Path(path)


def plot_breakdown(table: pd.DataFrame, ax: "Axes | None" = None) -> "Axes":
    """Draw a breakdown: a line per system over the depth, or marks for each conversation.

    Source: Abbasiantaeb and Aliannejadi, Generate then Retrieve, Figures 3 and 4.

    Args:
        table: the result of :func:`~pyterrier_ikat.evaluation.breakdown`.
        ax: the matplotlib Axes to draw on. New ones when None.

    Returns:
        The Axes. The marks of the systems stand side by side, in the order of the legend, and each
        conversation has its own strip. The number of turns is in brackets under each depth or
        conversation. The lines end where fewer than five turns are left, if any depth has five.
        Vertical lines are the 95 % confidence intervals of the means of five or more turns, from
        the table's ``attrs``; the label of the axis says so where there are any.

    Raises:
        UsageError: when matplotlib is not installed.
        DataError: when it is not a breakdown, has no row, or a system has no score.

    Example:
        >>> import pandas as pd, pyterrier_ikat as ikat
        >>> scores = pd.DataFrame({"qid": ["9-1_1", "9-1_2"], "nDCG@5": [1.0, 0.5]})
        >>> plot_breakdown(ikat.breakdown({"AD": scores}, by="depth")).get_ylabel()
        'mean nDCG@5'
    """
    systems = _check_breakdown(table)
    by_depth = table.columns[0] == "depth"
    if by_depth:
        shown = _with_enough_turns(table)
        positions = shown["depth"].to_numpy(dtype=float)
        axes = axes_for(ax)
    else:
        shown = table
        positions = np.arange(len(shown), dtype=float)
        axes = axes_for(ax, _width(len(shown), len(systems)))
    half_widths = {name: _half_widths(shown, name) for name in systems}
    handles = _draw_systems(axes, shown, positions, half_widths, by_depth)
    if not by_depth:
        for position in positions[1::2]:
            axes.axvspan(position - 0.5, position + 0.5, color="0.94", linewidth=0, zorder=0)
        axes.set_xlim(-0.5, len(shown) - 0.5)
    _label_groups(axes, shown, positions, by_depth)
    intervals = any(half is not None for half in half_widths.values())
    axes.set(
        xlabel=_label_of_groups(table, shown, intervals),
        ylabel=f"mean {table.columns.name or 'score'}",
    )
    highest = np.nanmax(shown[systems].to_numpy(dtype=float), initial=0.0)
    if highest <= 1 < axes.get_ylim()[1]:
        axes.set_ylim(0, 1.05)
    else:
        axes.set_ylim(0, None)
    axes.grid(axis="y", alpha=0.3)
    add_legend(axes, "system", handles, systems)
    return axes


def _check_breakdown(table: pd.DataFrame) -> list[str]:
    """Return the systems of a breakdown, each of which has a score.

    Raises:
        DataError: when it is not a breakdown, has no row, or a system has no score.
    """
    names = list(table.columns)
    systems = [name for name in names[1:] if name != "turns"]
    if not systems or names[0] not in GROUP_COLUMNS or "turns" not in names:
        columns = ", ".join(map(str, names)) or "no column"
        raise DataError(
            f"this is not a breakdown (it has {columns}): "
            "give what ikat.breakdown returned, with a system or more"
        )
    if table.empty:
        raise DataError(f"the breakdown has no {names[0]}: look at what it was selected by")
    without = [name for name in systems if table[name].isna().all()]
    if without:
        raise DataError(f"the breakdown has no score of {', '.join(without)}: omit the system")
    return systems


def _draw_systems(
    axes: "Axes",
    shown: pd.DataFrame,
    positions: "np.ndarray",
    half_widths: "Mapping[str, np.ndarray | None]",
    by_depth: bool,
) -> list[Any]:
    """Draw the marks of each system, side by side; by depth a line joins them."""
    offsets = _side_by_side(len(half_widths), DEPTH_STRIP if by_depth else STRIP)
    handles = []
    for (name, half_width), offset, (colour, marker, line) in zip(
        half_widths.items(), offsets, line_styles(), strict=False
    ):
        handle = axes.errorbar(
            positions + offset,
            shown[name],
            yerr=half_width,
            color=colour,
            marker=marker,
            linestyle=line if by_depth else "",
            markersize=5,
            elinewidth=1,
        )
        handles.append(handle)
    return handles


def _label_groups(
    axes: "Axes", shown: pd.DataFrame, positions: "np.ndarray", by_depth: bool
) -> None:
    """Name each depth or conversation, with its number of turns."""
    gap = "\n" if by_depth else " "
    groups = zip(shown.iloc[:, 0], shown["turns"], strict=True)
    ticks = [f"{group}{gap}({turns})" for group, turns in groups]
    axes.set_xticks(positions, ticks, rotation=0 if by_depth else 90, fontsize="small")


def _side_by_side(systems: int, room: float) -> "np.ndarray":
    """Where the marks of each system stand, from the middle of a group.

    Example:
        >>> _side_by_side(3, 0.8).round(2).tolist(), _side_by_side(1, 0.8).tolist()
        ([-0.27, 0.0, 0.27], [0.0])
    """
    from_middle = np.arange(systems) - (systems - 1) / 2
    return from_middle * room / max(systems, 1)


def _width(groups: int, systems: int) -> float:
    """The width of a figure in inches in which neighbouring marks can be told apart."""
    width_of_group = max(0.25, 0.09 * systems)
    return min(24.0, max(8.0, 2 + groups * width_of_group))


def _label_of_groups(table: pd.DataFrame, shown: pd.DataFrame, intervals: bool) -> str:
    """The label below the groups: what they are, their turns, and what vertical lines are."""
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
    [enough] = np.nonzero(table["turns"].to_numpy() >= _FEWEST_TURNS)
    if len(enough) == 0:
        return table
    return table.iloc[: enough[-1] + 1]


def _half_widths(table: pd.DataFrame, name: str) -> "np.ndarray | None":
    """Half of each group's interval, NaN where it has too few turns; None without intervals."""
    known = table.attrs.get("half_widths", {}).get(name, {})
    enough = table["turns"].to_numpy() >= _FEWEST_TURNS
    if not known or not enough.any():
        return None
    widths = np.array([known.get(group, np.nan) for group in table.iloc[:, 0]])
    widths[~enough] = np.nan
    return widths


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
        DataError: when the table is not an experiment table, has no row, or its rows are means over
            different numbers of turns; when a system has no score or ledger, or its tokens or cost
            are unknown.

    Example:
        >>> import pandas as pd
        >>> from pyterrier_ikat.llms import Ledger
        >>> spent = Ledger()
        >>> spent.count("rewrite", "gpt-4o", calls=2)
        >>> table = pd.DataFrame({"name": ["raw", "QR"], "nDCG@5": [0.25, 0.5], "turns": [2, 2]})
        >>> plot_cost(table, {"raw": Ledger(), "QR": spent}).get_xlabel()
        'LLM calls'
    """
    check_experiment_table(table)
    column = label(as_measures(measure)[0])
    if column not in table.columns:
        raise UsageError(f"the table has no column {column}: evaluate with this measure")
    if against not in AMOUNTS:
        raise UsageError(f"against={against!r} is unknown: choose one of {', '.join(AMOUNTS)}")
    without = table.loc[table[column].isna(), "name"]
    if len(without):
        raise DataError(
            f"the table has no score {column} of {', '.join(without)}: plot another measure, or "
            "omit the system"
        )
    spent = ledger_frame(ledgers)
    axes = axes_for(ax)
    names = []
    handles = []
    deviations = table.get(f"{column} std", [np.nan] * len(table))
    for name, score, deviation, (colour, marker, _line) in zip(
        table["name"], table[column], deviations, line_styles(), strict=False
    ):
        amount, cached = _spent_by(spent, name, against)
        handle = axes.errorbar(
            amount,
            score,
            yerr=None if pd.isna(deviation) else deviation,
            color=colour,
            marker=marker,
            linestyle="",
            capsize=4,
        )
        handles.append(handle)
        names.append(f"{name} (and {cached} cached)" if cached else name)
    turns = counted(table["turns"].iloc[0], "turn")
    axes.set(xlabel=AMOUNTS[against], ylabel=f"mean {column} of {turns}", ylim=(0, None))
    axes.grid(alpha=0.3)
    add_legend(axes, "system", handles, names)
    return axes


def _spent_by(ledger: pd.DataFrame, name: str, against: str) -> tuple[float, int]:
    """The cost of a system's calls, and the number of requests that the cache answered."""
    rows = ledger[ledger["system"] == name]
    if rows.empty:
        others = ", ".join(ledger["system"].unique())
        raise DataError(
            f"system {name} has no ledger among those of {others}: give its run folder or ledger"
        )
    columns = ["prompt_tokens", "completion_tokens"] if against == "tokens" else [against]
    amounts = rows[columns]
    if amounts.isna().any(axis=None):
        raise DataError(
            f"{name} has unknown {against}: "
            f"plot against another of {', '.join(AMOUNTS)}, or omit the system"
        )
    return float(amounts.sum().sum()), int(rows["known"].sum())
