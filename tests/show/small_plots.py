"""Tables small enough to be plotted, and what is read from their plots."""

import numpy as np
import pandas as pd


def figures(*values):
    """Figures by turn, of turns in one conversation of two turns after the other."""
    qids = [f"{1 + number // 2}_{1 + number % 2}" for number in range(len(values))]
    return pd.DataFrame({"qid": qids, "nDCG@5": [float(value) for value in values]})


def evaluated():
    return pd.DataFrame(
        {"name": ["raw", "QR", "AD"], "nDCG@5": [0.25, 0.5, 0.75], "turns": [24, 24, 24]}
    )


def legend(ax):
    return [text.get_text() for text in ax.get_legend().get_texts()]


def bars(container):
    """The half widths of the vertical lines of a system, NaN where there is none."""
    if not container.has_yerr:
        return None
    [lines] = container[2]
    halves = []
    for segment in lines.get_segments():
        if len(segment) == 0:
            halves.append(np.nan)
        else:
            bottom, top = segment[:, 1]
            halves.append((top - bottom) / 2)
    return halves
