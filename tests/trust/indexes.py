"""Indexes that a user's frame may have, and that mean nothing."""

import pandas as pd

INDEXES = {
    "equal numbers": lambda rows: pd.Index([0] * rows),
    "numbers with gaps": lambda rows: pd.Index(range(5, 5 + 3 * rows, 3)),
    "numbers in another order": lambda rows: pd.Index(range(rows)[::-1]),
    "two frames joined": lambda rows: pd.Index([row // 2 for row in range(rows)]),
    "texts": lambda rows: pd.Index([f"row {row}" for row in range(rows)], name="qid"),
    "names": lambda rows: pd.Index([f"row {row}" for row in range(rows)], name="name"),
    "days": lambda rows: pd.date_range("2026-01-01", periods=rows, name="when"),
    "nothing": lambda rows: pd.Index([None] * rows, dtype=object),
    "a named range": lambda rows: pd.RangeIndex(rows, name="docno"),
    "two levels": lambda rows: pd.MultiIndex.from_arrays(
        [[1] * rows, range(rows)], names=["rank", "docno"]
    ),
}
"""Name -> what makes an index of so many rows."""


def with_index(frame, name):
    """The frame with an index of this name in ``INDEXES``."""
    return frame.set_axis(INDEXES[name](len(frame)), axis=0)
