"""Plots: scores by depth and conversation, wins and losses, agreement and labels."""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from itertools import cycle
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, TypeAlias

import ir_measures
import numpy as np
import pandas as pd
from ir_measures import nDCG

from ..conversations import check_qrels
from ..errors import UsageError, counted
from ..evaluation import Agreement, as_measures, label
from ..evaluation.scores import SAME, scores_by_run
from ..store.files import atomic_write
from ..tables import format_score

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

Width: TypeAlias = Literal["page", "column"]
COLUMN = 3.33
"""The width in inches of one of two columns, as in ACM's format. ACL's and IEEE's differ by less than a third of an inch."""
_IN_COLUMN: dict[Any, Any] = {
    **{"font.size": 8, "axes.labelsize": 8, "axes.linewidth": 0.6, "lines.markersize": 3.5, "lines.linewidth": 1},
    **{"legend.fontsize": 7, "legend.title_fontsize": 7, "legend.handlelength": 1.5, "legend.columnspacing": 1, "hatch.linewidth": 0.6},
}


def line_styles() -> Iterator[tuple[str, str, str]]:
    """The colour, marker and line of each system. The combinations repeat after 168 systems."""
    return zip(cycle(COLOURS), cycle(MARKERS), cycle(LINES), strict=False)


@contextmanager
def axes_for(ax: "Axes | None", inches: tuple[float, float], width: Width = "page") -> Iterator["Axes"]:
    """The Axes to draw on. Inside the block, letters and marks have the right size.

    Args:
        ax: given Axes. New ones when None.
        inches: width and height of new ones on a page.
        width: ``"column"`` makes new ones as wide as a column of a paper, half as high, with letters of 7 and 8 points.

    Raises:
        UsageError: when the width is unknown, or matplotlib is not installed.
    """
    if width not in ("page", "column"):
        raise UsageError(f'width={width!r} is unknown: choose "page" or "column"')
    try:
        from matplotlib import interactive, is_interactive, pyplot, rc_context
    except ImportError:
        raise UsageError("drawing needs matplotlib: pip install pyterrier_ikat[plots]") from None
    narrow = width == "column"
    with rc_context(_IN_COLUMN if narrow else {}):
        if ax is None:
            ax = pyplot.subplots(figsize=(COLUMN, inches[1] / 2) if narrow else inches, layout="constrained")[1]
        if narrow:
            ax.tick_params(labelsize=7, length=2)  # ticks are made when they are drawn, out of this context
        yield ax
        shown = is_interactive()
    interactive(shown)  # the first plot loads a notebook's backend, which turns this on, and the context would turn it off again


def is_narrow(ax: "Axes") -> bool:
    """Whether the figure of these Axes is as narrow as a column."""
    figure: Any = ax.get_figure(root=True)
    return bool(figure.get_figwidth() <= COLUMN)


def escape_math(text: str) -> str:
    """A name for matplotlib, which would read the text between two dollar signs as a formula."""
    return text.replace("$", r"\$")


def add_legend(ax: "Axes", title: str, handles: list[Any], names: list[str]) -> None:
    """A legend next to the plot, or above a narrow one. It hides nothing, and accepts names that begin with an underscore."""
    if not handles:
        return
    place: dict[str, Any] = {"loc": "upper left", "bbox_to_anchor": (1.01, 1)}
    if is_narrow(ax):
        columns = 2 if max(map(len, names)) <= _SHORT_NAME else 1
        place = {"loc": "lower left", "bbox_to_anchor": (0, 1.02), "ncols": columns, "frameon": False}
        figure: Any = ax.get_figure(root=True)
        figure.set_figheight(figure.get_figheight() + _LEGEND_LINE * (-(-len(names) // columns) + 1 + title.count("\n")))
    ax.legend(handles, [escape_math(name) for name in names], title=title, alignment="left", borderaxespad=0, **place)


_SHORT_NAME, _LEGEND_LINE = 18, 0.14
"""How many letters a name may have so that two fit above a narrow plot, and the height in inches of a line of its legend."""


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
        figure.savefig(
            file, format=file_format[1:], bbox_inches="tight", pad_inches="layout", dpi=_DOTS_PER_INCH, metadata=_UNDATED[file_format]
        )
    return Path(path)


_MOST_NAMED = {"page": 40, "column": 24}
"""How many turns can be named under their bars without overlap."""


def plot_breakdown(table: pd.DataFrame, ax: "Axes | None" = None, *, width: Width = "page") -> "Axes":
    """Draw the result of :func:`~pyterrier_ikat.evaluation.breakdown`: a line per system over the depth, or marks for each conversation.

    Source: Abbasiantaeb and Aliannejadi, Generate then Retrieve, Figures 3 and 4.

    Args:
        table: the breakdown.
        ax: the matplotlib Axes to draw on. New ones when None.
        width: ``"page"``, or ``"column"`` for a column of a paper with two of them (3.33 inches, small letters, the legend above).

    Returns:
        The Axes. The number of turns is in brackets under each depth or conversation. Systems are side by side. The lines end where fewer
        than five turns are left, if any depth has five. Over the depth, vertical lines show the 95 % confidence intervals of the means of
        five or more turns, from the table's ``attrs``.

    Raises:
        UsageError: when the width is unknown, or matplotlib is not installed.

    Example:
        >>> import pandas as pd, pyterrier_ikat as ikat
        >>> scores = pd.DataFrame({"qid": ["9-1_1", "9-1_2"], "nDCG@5": [1.0, 0.5]})
        >>> plot_breakdown(ikat.breakdown({"AD": scores}, by="depth")).get_ylabel()
        'mean nDCG@5'
    """
    of_depth = table.columns[0] == "depth"
    shown = _with_enough_turns(table) if of_depth else table
    systems = [name for name in table.columns[1:] if name != "turns"]
    with axes_for(ax, (_width_for(systems, len(shown)), 4.8), width) as axes:
        places = shown["depth"].to_numpy(dtype=float) if of_depth else np.arange(len(shown), dtype=float)
        drawn, title = (_lines if of_depth else _marks)(axes, shown, systems, places)
        _name_groups(axes, shown, places, left_out=len(table) - len(shown))
        axes.set(ylabel=f"mean {table.columns.name or 'score'}", ylim=(0, None))
        if np.nanmax(shown[systems].to_numpy(dtype=float), initial=0.0) <= 1:  # an interval may end beyond all scores
            axes.set_ylim(0, min(axes.get_ylim()[1], 1.05))
        axes.grid(axis="y", alpha=0.3)
        add_legend(axes, title, drawn, systems)
    return axes


def _with_enough_turns(table: pd.DataFrame) -> pd.DataFrame:
    """The depths down to the last one with enough turns; all depths if none has enough."""
    enough = np.flatnonzero(table["turns"].to_numpy() >= _FEWEST_TURNS)
    return table.iloc[: enough[-1] + 1] if len(enough) else table


def _side_by_side(systems: list[str]) -> np.ndarray:
    return (np.arange(len(systems)) - (len(systems) - 1) / 2) * _ROOM_OF_SYSTEMS / max(len(systems), 1)


def _lines(ax: "Axes", table: pd.DataFrame, systems: list[str], places: np.ndarray) -> tuple[list[Any], str]:
    """A line per system over the depth, with intervals if there are any. Returns the lines and the legend's title."""
    enough = table["turns"].to_numpy() >= _FEWEST_TURNS
    intervals = table.attrs.get("half_widths", {}) if enough.any() else {}
    drawn = []
    for name, shift, (colour, marker, line) in zip(systems, _side_by_side(systems), line_styles(), strict=False):
        of_system = intervals.get(name, {})
        widths = np.where(enough, [of_system.get(depth, np.nan) for depth in table["depth"]], np.nan)
        look: dict[str, Any] = {"color": colour, "marker": marker, "markersize": 3 if is_narrow(ax) else 5, "linestyle": line}
        drawn.append(ax.errorbar(places + shift, table[name], yerr=widths if intervals else None, elinewidth=0.8, linewidth=1, **look))
    return drawn, _WITH_INTERVALS if intervals else "system"


def _marks(ax: "Axes", table: pd.DataFrame, systems: list[str], places: np.ndarray) -> tuple[list[Any], str]:
    """A mark per system and conversation. Returns the marks and the legend's title."""
    drawn = []
    for name, shift, (colour, marker, _) in zip(systems, _side_by_side(systems), line_styles(), strict=False):
        look: dict[str, Any] = {"color": colour, "marker": marker, "markersize": 3 if is_narrow(ax) else 5, "linestyle": ""}
        drawn.append(ax.errorbar(places + shift, table[name], **look))
    return drawn, "system"


def _name_groups(ax: "Axes", table: pd.DataFrame, places: np.ndarray, left_out: int) -> None:
    """Names of depths or conversations with their turns under the axis, as many as fit under a narrow plot, with a line between two."""
    of_depth, narrow = table.columns[0] == "depth", is_narrow(ax)
    gap = "\n" if of_depth else " "
    ticks = [f"{key}{gap}({turns})" for key, turns in zip(table.iloc[:, 0], table["turns"], strict=True)]
    step = max(1, -(-len(ticks) // (_NAMED_DEPTHS if of_depth else _MOST_NAMED["column"]))) if narrow else 1
    ax.set_xticks(places[::step], ticks[::step], rotation=0 if of_depth else 90)
    what = "conversation"
    if of_depth:
        what = "depth: number of the turn in its conversation" + "\n" * narrow
    deeper = f"; deeper: fewer than {_FEWEST_TURNS}" * bool(left_out)
    ax.set_xlabel(f"{what}{' ' * (not what.endswith(chr(10)))}(in brackets: turns, {table['turns'].sum()} in all{deeper})")
    if len(places):
        ax.set_xlim(places[0] - 0.5, places[-1] + 0.5)
    for start in places[1:]:
        ax.axvspan(start - 0.5, start - 0.5, color="black", alpha=0.15, linewidth=0.8)


_NAMED_DEPTHS = 12
"""How many depths can be named under a narrow plot."""


_ROOM_OF_SYSTEMS = 0.8
"""The share of the space between two depths that the systems use side by side."""


_FEWEST_TURNS = 5
"""The minimum number of turns for which the mean of a depth is shown. With fewer, the interval is wider than the range of most measures."""

_WITH_INTERVALS = f"system: mean, and 95 % interval\nof {_FEWEST_TURNS} turns or more"


def _width_for(systems: list[str], groups: int) -> float:
    """The width in inches for marks side by side and for the legend."""
    plot = max(0.09 * groups * len(systems), 0.36 * groups, 5.0)
    return min(plot, 16.0) + 1.0 + 0.09 * max(map(len, [*systems, *_WITH_INTERVALS.split("\n")]))


def plot_differences(
    runs: Mapping[str, pd.DataFrame],
    qrels: pd.DataFrame | None = None,
    measure: ir_measures.Measure | str = nDCG @ 5,
    *,
    baseline: str,
    ax: "Axes | None" = None,
    width: Width = "page",
) -> "Axes":
    """Draw by how much one of two systems is better on each turn: a bar per turn, from the greatest gain to the greatest loss.

    Args:
        runs: the two systems, as for :func:`~pyterrier_ikat.evaluation.breakdown`.
        qrels: ``qid``, ``docno``, ``label``. Needed for result frames.
        measure: an ir_measures measure or its name.
        baseline: the system that is subtracted.
        ax: the matplotlib Axes to draw on. New ones when None.
        width: ``"page"``, or ``"column"``: see :func:`plot_breakdown`.

    Returns:
        The Axes. Up to 40 turns are named under their bars. A turn without a bar is a tie (less than 1e-9 apart).

    Raises:
        UsageError: when there are not two runs, the baseline is not one of them, a result frame comes without qrels, or matplotlib is not
            installed.
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
    with axes_for(ax, (8, 4.8), width) as axes:
        places, heights = np.arange(len(change)), change.to_numpy()
        better, worse = heights >= SAME, heights <= -SAME
        drawn = [
            axes.bar(places[better], heights[better], color=BETTER, width=0.9),
            axes.bar(places[worse], heights[worse], color=WORSE, width=0.9, hatch="//", edgecolor="white", linewidth=0),
            axes.axhline(0, color="black", linewidth=0.8),
            axes.axhline(heights.mean(), color="black", linestyle="--", linewidth=1),
        ]
        ties = f"ties: {(~better & ~worse).sum()}"
        add_legend(
            axes,
            "turns",
            drawn,
            [
                f"{other} better: {better.sum()}",
                f"{baseline} better: {worse.sum()}",
                ties,
                f"mean {format_score(heights.mean(), signed=True)}",
            ],
        )
        named = len(change) <= _MOST_NAMED["column" if is_narrow(axes) else "page"]
        axes.set_xticks(range(len(change)) if named else [], list(change.index) if named else [], rotation=90, fontsize="small")
        ylabel = f"{label(as_measures(measure)[0])}: {escape_math(other)} − {escape_math(baseline)}"
        axes.set(xlabel=f"{counted(len(change), 'turn')}, sorted by the difference", ylabel=ylabel)
    return axes


_DARK = 0.7
"""The share above which a cell is so dark that its text is white."""
_ROOM_FOR_TEXT = 0.06
"""The minimum share of a bar that has room for its percentage."""


def plot_agreement(
    found: Agreement, first: str = "first judge", second: str = "second judge", ax: "Axes | None" = None, *, width: Width = "page"
) -> "Axes":
    """Draw the confusion matrix of two judges. Each cell has the number of pairs and their share of the row.

    Source: Abbasiantaeb and Aliannejadi, Generate then Retrieve, Tables 2 and 4.

    Args:
        found: the result of :func:`~pyterrier_ikat.evaluation.agreement`.
        first: who gave the labels of the rows.
        second: who gave the labels of the columns.
        ax: the matplotlib Axes to draw on. New ones when None.
        width: ``"page"``, or ``"column"``: see :func:`plot_breakdown`.

    Returns:
        The Axes. The darker a cell, the greater its share of the row.

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
    with axes_for(ax, (6.4, 5.6), width) as axes:
        axes.imshow(shares, cmap="Blues", vmin=0, vmax=1)
        for row, column in np.ndindex(*counts.shape):
            text = f"{counts[row, column]:,}\n{shares[row, column]:.0%}"
            axes.text(column, row, text, ha="center", va="center", color="white" if shares[row, column] > _DARK else "black")
        labels = [str(one) for one in found.confusion.index]
        axes.set_xticks(range(len(labels)), labels)
        axes.set_yticks(range(len(labels)), labels)
        axes.set(xlabel=f"label by {escape_math(second)}", ylabel=f"label by {escape_math(first)} (a row is 100 %)")
        graded, binary = (format_score(kappa, 3) if kappa == kappa else "undefined" for kappa in (found.kappa, found.binary_kappa))
        relevant = f"relevant from label {found.threshold} on: agreement {found.binary:.1%}, kappa {binary}"
        axes.set_title(f"{counted(found.pairs, 'pair')} judged by both, kappa of the labels {graded}\n{relevant}", fontsize="medium")
    return axes


def plot_labels(qrels: Mapping[str, pd.DataFrame], ax: "Axes | None" = None, *, width: Width = "page") -> "Axes":
    """Draw how the relevance labels are distributed: a bar per source, stacked from the lowest label to the highest.

    Args:
        qrels: source -> ``qid``, ``docno``, ``label``.
        ax: the matplotlib Axes to draw on. New ones when None.
        width: ``"page"``, or ``"column"``: see :func:`plot_breakdown`.

    Returns:
        The Axes. Each bar has its number of pairs and turns next to it, and in it the percentages from 6 % on.

    Raises:
        UsageError: when there is no source, or matplotlib is not installed.
        DataError: when one of them is not a clean qrels frame.

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
    with axes_for(ax, (8, 1.8 + 0.7 * len(checked)), width) as axes:
        from matplotlib import colormaps

        drawn, lefts = [], 100 * (shares.cumsum() - shares).to_numpy()
        colours = colormaps["Blues"](np.linspace(0.1, 0.9, len(shares)))  # from light to dark, evenly for all kinds of colour vision
        for row, left, colour, hatch in zip(shares.to_numpy(), lefts, colours, cycle(HATCHES), strict=False):
            drawn.append(axes.barh(range(len(row)), 100 * row, left=left, color=colour, hatch=hatch, edgecolor="black", linewidth=0.5))
            texts = [f"{share:.0%}" if share >= _ROOM_FOR_TEXT else "" for share in row]
            axes.bar_label(drawn[-1], texts, label_type="center", bbox={"facecolor": "white", "edgecolor": "none", "pad": 1.5})
        counts = [f"{escape_math(name)}\n{_counted(frame)}" for name, frame in checked.items()]
        axes.set_yticks(range(len(checked)), counts)
        axes.set(xlim=(0, 100), ylim=(len(checked) - 0.5, -0.5), xlabel="judged pairs of turn and passage (%)")
        add_legend(axes, "label", drawn, [str(one) for one in shares.index])
    return axes


def _counted(qrels: pd.DataFrame) -> str:
    turns = qrels["qid"].nunique()
    return f"{counted(len(qrels), 'pair')}, {counted(turns, 'turn')}"
