"""Plots of relevance judgements: how two judges agree, and how the labels of several sources are distributed."""

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd

from ..errors import UsageError
from ..evaluate import Agreement, check_qrels
from .plots_style import HATCHES, legend_beside, new_axes, plain

if TYPE_CHECKING:
    from matplotlib.axes import Axes

_DARK = 0.7
"""Share from which on a cell is so dark that its text is white."""
_ROOM_FOR_TEXT = 0.06
"""Share of a bar that has room for its percentage."""


def plot_agreement(found: Agreement, first: str = "first judge", second: str = "second judge", ax: "Axes | None" = None) -> "Axes":
    """Draw the confusion matrix of two judges: in each cell the number of pairs and their share of the row.

    Source: Abbasiantaeb and Aliannejadi, Generate then Retrieve, Tables 2 and 4.

    Args:
        found: what :func:`~pyterrier_ikat.evaluate.agreement` returned.
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
        shown = f"{counts[row, column]:,}\n{shares[row, column]:.0%}"
        ax.text(column, row, shown, ha="center", va="center", color="white" if shares[row, column] > _DARK else "black")
    labels = [str(one) for one in found.confusion.index]
    ax.set_xticks(range(len(labels)), labels)
    ax.set_yticks(range(len(labels)), labels)
    ax.set_xlabel(f"label by {plain(second)}")
    ax.set_ylabel(f"label by {plain(first)} (a row is 100 %)")
    ax.set_title(_told(found), fontsize="medium")
    return ax


def _told(found: Agreement) -> str:
    graded, binary = (f"{kappa:.3f}" if kappa == kappa else "undefined" for kappa in (found.kappa, found.binary_kappa))
    relevant = f"relevant from label {found.threshold} on: agreement {found.binary:.1%}, kappa {binary}"
    return f"{found.pairs:,} pairs judged by both, kappa of the labels {graded}\n{relevant}"


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
    drawn = _stack(ax, shares)
    told = [f"{plain(name)}\n{len(frame):,} pairs, {frame['qid'].nunique()} turns" for name, frame in checked.items()]
    ax.set_yticks(range(len(checked)), told)
    ax.invert_yaxis()
    ax.set_xlim(0, 100)
    ax.set_xlabel("judged pairs of turn and passage (%)")
    legend_beside(ax, "label", drawn, [str(one) for one in shares.index])
    return ax


def _stack(ax: "Axes", shares: pd.DataFrame) -> list[Any]:
    """Bars in a scale from light to dark, which is even for all kinds of colour vision, each label with its own hatch."""
    from matplotlib import colormaps

    colours = colormaps["Blues"](np.linspace(0.1, 0.9, len(shares)))
    drawn, left = [], np.zeros(len(shares.columns))
    for place, row in enumerate(shares.to_numpy()):
        hatch = HATCHES[place % len(HATCHES)]
        drawn.append(
            ax.barh(range(len(row)), 100 * row, left=100 * left, color=colours[place], hatch=hatch, edgecolor="black", linewidth=0.5)
        )
        for bar, share in enumerate(row):
            if share >= _ROOM_FOR_TEXT:
                at = 100 * (left[bar] + share / 2)
                ax.text(at, bar, f"{share:.0%}", ha="center", va="center", bbox={"facecolor": "white", "edgecolor": "none", "pad": 1.5})
        left = left + row
    return drawn
