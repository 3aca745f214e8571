"""Plots: scores by depth and conversation, wins and losses, agreement and labels."""

from collections.abc import Iterator, Mapping
from itertools import cycle
from pathlib import Path
from typing import TYPE_CHECKING, Any

import ir_measures
import numpy as np
import pandas as pd
from ir_measures import nDCG

from ..conversations import check_qrels
from ..errors import UsageError
from ..evaluation import Agreement, as_measures, label
from ..evaluation.scores import SAME, scores_by_run
from ..store.files import atomic_write

if TYPE_CHECKING:
    from matplotlib.axes import Axes

COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#000000")
"""The palette of Okabe and Ito, Color Universal Design (2008), without its yellow, which is too pale for lines on white."""

BETTER, WORSE = "#0072B2", "#E69F00"
MARKERS = ("o", "s", "^", "D", "v", "P", "X", "*")
LINES = ("-", "--", ":")
HATCHES = ("", "//", "..", "xx", "\\\\", "oo", "++", "--")

_TEXT_AS_TEXT: dict[Any, Any] = {"svg.fonttype": "none", "pdf.fonttype": 42, "svg.hashsalt": "pyterrier_ikat"}
_UNDATED: dict[str, dict[str, Any]] = {".svg": {"Date": None}, ".pdf": {"CreationDate": None}, ".png": {}}
_DOTS_PER_INCH = 200


def line_styles() -> Iterator[tuple[str, str, str]]:
    """Colour, marker and line of each system; all three together repeat after 168 systems."""
    return zip(cycle(COLOURS), cycle(MARKERS), cycle(LINES), strict=False)


def new_axes(width: float = 6.4, height: float = 4.8) -> "Axes":
    """Axes of their own; width and height in inches.

    Raises:
        UsageError: when matplotlib is not installed.
    """
    try:
        from matplotlib import pyplot
    except ImportError:
        raise UsageError("drawing needs matplotlib: pip install pyterrier_ikat[plots]") from None
    return pyplot.subplots(figsize=(width, height), layout="constrained")[1]


def escape_math(text: str) -> str:
    """A name for matplotlib, which takes what stands between two dollar signs as a formula."""
    return text.replace("$", r"\$")


def add_legend(ax: "Axes", title: str, handles: list[Any], names: list[str]) -> None:
    """A legend beside the plot, which hides nothing and takes names that begin with an underscore too."""
    if handles:
        ax.legend(handles, [escape_math(name) for name in names], title=title, loc="upper left", bbox_to_anchor=(1.01, 1), borderaxespad=0)


def save_plot(ax: "Axes", path: str | Path) -> Path:
    """Write a plot for a paper: text stays text that can be searched and edited, the same plot gives the same bytes.

    Args:
        ax: the Axes that a plot returned.
        path: a file that ends with ``.svg``, ``.pdf`` or ``.png`` (200 dots per inch).

    Returns:
        The file.

    Raises:
        UsageError: for another ending.

    Example:
        >>> import pandas as pd, pyterrier_ikat as ikat
        >>> from pyterrier_ikat.show.plots import plot_labels
        >>> qrels = pd.DataFrame({"qid": ["1_1", "1_1"], "docno": ["a", "b"], "label": [0, 2]})
        >>> save_plot(plot_labels({"NIST": qrels}), "labels.svg").name
        'labels.svg'
    """
    from matplotlib import rc_context

    file_format = Path(path).suffix.lower()
    if file_format not in _UNDATED:
        raise UsageError(f"{path}: a plot is saved as {', '.join(_UNDATED)}: end the name with one of them")
    figure: Any = ax.get_figure(root=True)
    with rc_context(_TEXT_AS_TEXT), atomic_write(path, "wb") as file:
        figure.savefig(file, format=file_format[1:], bbox_inches="tight", dpi=_DOTS_PER_INCH, metadata=_UNDATED[file_format])
    return Path(path)


_MOST_NAMED = 40
"""Turns that can be named under their bars without overlap."""


def plot_breakdown(table: pd.DataFrame, ax: "Axes | None" = None) -> "Axes":
    """Draw the result of :func:`~pyterrier_ikat.evaluation.breakdown`: a line per system over the depth, or marks for each conversation.

    Source: Abbasiantaeb and Aliannejadi, Generate then Retrieve, Figures 3 and 4.

    Args:
        table: the breakdown.
        ax: the matplotlib Axes to draw on; new ones when None.

    Returns:
        The Axes. The number of turns stands in brackets under each depth or conversation. Systems stand side by side. Over the depth,
        vertical lines show the 95 % confidence intervals of the means of five turns or more, from the table's ``attrs``.

    Raises:
        UsageError: when matplotlib is not installed.

    Example:
        >>> import pandas as pd, pyterrier_ikat as ikat
        >>> scores = pd.DataFrame({"qid": ["9-1_1", "9-1_2"], "nDCG@5": [1.0, 0.5]})
        >>> plot_breakdown(ikat.breakdown({"AD": scores}, by="depth")).get_ylabel()
        'mean nDCG@5'
    """
    by, systems = table.columns[0], [name for name in table.columns[1:] if name != "turns"]
    of_depth = by == "depth"
    ax = new_axes(_width_for(systems, len(table))) if ax is None else ax
    places = table[by].to_numpy(dtype=float) if of_depth else np.arange(len(table), dtype=float)
    shifts = (np.arange(len(systems)) - (len(systems) - 1) / 2) * _ROOM_OF_SYSTEMS / max(len(systems), 1)
    enough = table["turns"].to_numpy() >= _FEWEST_TURNS
    intervals = table.attrs.get("half_widths", {}) if of_depth and enough.any() else {}
    drawn = []
    for name, shift, (colour, marker, line) in zip(systems, shifts, line_styles(), strict=False):
        of_system = intervals.get(name, {})
        widths = np.where(enough, [of_system.get(key, np.nan) for key in table[by]], np.nan)
        look: dict[str, Any] = {"color": colour, "marker": marker, "markersize": 5, "linestyle": line if of_depth else "", "linewidth": 1}
        drawn.append(ax.errorbar(places + shift, table[name], yerr=widths if intervals else None, elinewidth=0.8, **look))
    ticks = [f"{key}{chr(10) if of_depth else ' '}({turns})" for key, turns in zip(table[by], table["turns"], strict=True)]
    ax.set_xticks(places, ticks, rotation=0 if of_depth else 90)
    what = "depth: number of the turn in its conversation" if of_depth else "conversation"
    xlabel = f"{what} (in brackets: turns, {table['turns'].sum()} in all)"
    ax.set(xlabel=xlabel, ylabel=f"mean {table.columns.name or 'score'}", ylim=(0, None))
    if len(places):
        ax.set_xlim(places[0] - 0.5, places[-1] + 0.5)
    if np.nanmax(table[systems].to_numpy(dtype=float), initial=0.0) <= 1:  # an interval may end where no score is
        ax.set_ylim(0, min(ax.get_ylim()[1], 1.05))
    ax.grid(axis="y", alpha=0.3)
    for start in places[1:]:  # between two depths or conversations
        ax.axvspan(start - 0.5, start - 0.5, color="black", alpha=0.15, linewidth=0.8)
    add_legend(ax, _WITH_INTERVALS if intervals else "system", drawn, systems)
    return ax


_ROOM_OF_SYSTEMS = 0.8
"""Share of the room between two depths in which the systems stand side by side."""


_FEWEST_TURNS = 5
"""Turns from which on a mean has its interval drawn: that of fewer is wider than the range of most measures."""

_WITH_INTERVALS = f"system: mean, and 95 % interval\nof {_FEWEST_TURNS} turns or more"


def _width_for(systems: list[str], groups: int) -> float:
    """Inches for marks side by side and for the legend."""
    plot = max(0.09 * groups * len(systems), 0.36 * groups, 5.0)
    return min(plot, 16.0) + 1.0 + 0.09 * max(map(len, [*systems, *_WITH_INTERVALS.split("\n")]))


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
        runs: the two systems, as for :func:`~pyterrier_ikat.evaluation.breakdown`.
        qrels: ``qid``, ``docno``, ``label``; needed for result frames.
        measure: an ir_measures measure or its name.
        baseline: the one of the two that is subtracted.
        ax: the matplotlib Axes to draw on; new ones when None.

    Returns:
        The Axes. Up to 40 turns are named under their bars; a turn without a bar is a tie (less than 1e-9 apart).

    Raises:
        UsageError: when there are not two runs, the baseline is none of them, a result frame comes without qrels, or
            matplotlib is not installed.
        DataError: when the runs' scores are not about the same turns.

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
    scores = scores_by_run(runs, qrels, measure)
    change = (scores[other] - scores[baseline]).sort_values(ascending=False, kind="stable")
    ax = new_axes(8) if ax is None else ax
    places, heights = np.arange(len(change)), change.to_numpy()
    better, worse = heights >= SAME, heights <= -SAME
    drawn = [
        ax.bar(places[better], heights[better], color=BETTER, width=0.9),
        ax.bar(places[worse], heights[worse], color=WORSE, width=0.9, hatch="//", edgecolor="white", linewidth=0),
        ax.axhline(0, color="black", linewidth=0.8),
        ax.axhline(heights.mean(), color="black", linestyle="--", linewidth=1),
    ]
    ties = f"ties: {(~better & ~worse).sum()}"
    add_legend(
        ax, "turns", drawn, [f"{other} better: {better.sum()}", f"{baseline} better: {worse.sum()}", ties, f"mean {heights.mean():+.4f}"]
    )
    named = len(change) <= _MOST_NAMED
    ax.set_xticks(range(len(change)) if named else [], list(change.index) if named else [], rotation=90, fontsize="small")
    ylabel = f"{label(as_measures(measure)[0])}: {escape_math(other)} − {escape_math(baseline)}"
    ax.set(xlabel=f"{len(change)} turns, sorted by the difference", ylabel=ylabel)
    return ax


_DARK = 0.7
"""Share from which on a cell is so dark that its text is white."""
_ROOM_FOR_TEXT = 0.06
"""Share of a bar that has room for its percentage."""


def plot_agreement(found: Agreement, first: str = "first judge", second: str = "second judge", ax: "Axes | None" = None) -> "Axes":
    """Draw the confusion matrix of two judges: in each cell the number of pairs and their share of the row.

    Source: Abbasiantaeb and Aliannejadi, Generate then Retrieve, Tables 2 and 4.

    Args:
        found: the result of :func:`~pyterrier_ikat.evaluation.agreement`.
        first: who gave the labels of the rows.
        second: who gave the labels of the columns.
        ax: the matplotlib Axes to draw on; new ones when None.

    Returns:
        The Axes; the darker a cell, the greater its share of the row.

    Raises:
        UsageError: when matplotlib is not installed.

    Example:
        >>> import pandas as pd, pyterrier_ikat as ikat
        >>> qrels = pd.DataFrame({"qid": ["1_1"] * 3, "docno": list("abc"), "label": [0, 1, 3]})
        >>> plot_agreement(ikat.agreement(qrels, qrels), "GPT-4o", "NIST").get_xlabel()
        'label by NIST'
    """
    counts = found.confusion.to_numpy()
    shares = counts / np.maximum(counts.sum(axis=1, keepdims=True), 1)
    ax = new_axes(6.4, 5.6) if ax is None else ax
    ax.imshow(shares, cmap="Blues", vmin=0, vmax=1)
    for row, column in np.ndindex(*counts.shape):
        text = f"{counts[row, column]:,}\n{shares[row, column]:.0%}"
        ax.text(column, row, text, ha="center", va="center", color="white" if shares[row, column] > _DARK else "black")
    labels = [str(one) for one in found.confusion.index]
    ax.set_xticks(range(len(labels)), labels)
    ax.set_yticks(range(len(labels)), labels)
    ax.set(xlabel=f"label by {escape_math(second)}", ylabel=f"label by {escape_math(first)} (a row is 100 %)")
    graded, binary = (f"{kappa:.3f}" if kappa == kappa else "undefined" for kappa in (found.kappa, found.binary_kappa))
    relevant = f"relevant from label {found.threshold} on: agreement {found.binary:.1%}, kappa {binary}"
    ax.set_title(f"{found.pairs:,} pairs judged by both, kappa of the labels {graded}\n{relevant}", fontsize="medium")
    return ax


def plot_labels(qrels: Mapping[str, pd.DataFrame], ax: "Axes | None" = None) -> "Axes":
    """Draw how the relevance labels are distributed: a bar per source, stacked from the lowest label to the highest.

    Args:
        qrels: source -> ``qid``, ``docno``, ``label``.
        ax: the matplotlib Axes to draw on; new ones when None.

    Returns:
        The Axes. Beside each bar stands how many pairs and turns it is about, in it the percentages from 6 % on.

    Raises:
        UsageError: when there is no source, or matplotlib is not installed.
        DataError: when one of them is no clean qrels frame.

    Example:
        >>> import pandas as pd
        >>> qrels = pd.DataFrame({"qid": ["1_1", "1_2"], "docno": ["a", "a"], "label": [0, 2]})
        >>> plot_labels({"NIST": qrels}).get_yticklabels()[0].get_text().splitlines()
        ['NIST', '2 pairs, 2 turns']
    """
    if not qrels:
        raise UsageError('there are no qrels: give {"NIST": qrels, ...}')
    checked = {name: check_qrels(frame, f"the qrels of {name}") for name, frame in qrels.items()}
    shares = pd.DataFrame({name: frame["label"].value_counts(normalize=True) for name, frame in checked.items()}).fillna(0.0).sort_index()
    ax = new_axes(8, 1.8 + 0.7 * len(checked)) if ax is None else ax
    from matplotlib import colormaps

    drawn, lefts = [], 100 * (shares.cumsum() - shares).to_numpy()
    colours = colormaps["Blues"](np.linspace(0.1, 0.9, len(shares)))  # from light to dark, even for all kinds of colour vision
    for row, left, colour, hatch in zip(shares.to_numpy(), lefts, colours, cycle(HATCHES), strict=False):
        drawn.append(ax.barh(range(len(row)), 100 * row, left=left, color=colour, hatch=hatch, edgecolor="black", linewidth=0.5))
        texts = [f"{share:.0%}" if share >= _ROOM_FOR_TEXT else "" for share in row]
        ax.bar_label(drawn[-1], texts, label_type="center", bbox={"facecolor": "white", "edgecolor": "none", "pad": 1.5})
    counts = [f"{escape_math(name)}\n{_counted(frame)}" for name, frame in checked.items()]
    ax.set_yticks(range(len(checked)), counts)
    ax.set(xlim=(0, 100), ylim=(len(checked) - 0.5, -0.5), xlabel="judged pairs of turn and passage (%)")
    add_legend(ax, "label", drawn, [str(one) for one in shares.index])
    return ax


def _counted(qrels: pd.DataFrame) -> str:
    turns = qrels["qid"].nunique()
    return f"{len(qrels):,} pair{'s' * (len(qrels) != 1)}, {turns} turn{'s' * (turns != 1)}"
