"""A frame cut into parts of whole turns, and put together again."""

from collections.abc import Sequence

import numpy as np
import pandas as pd


def cut(frame: pd.DataFrame, partitions: int) -> list[pd.DataFrame]:
    """Cut a frame into at most ``partitions`` parts of about as many turns each; a turn's sub-queries and passages stay together.

    Example:
        >>> turns = pd.DataFrame({"qid": ["a::1", "a::2", "b::1", "c::1"], "qid_0": ["a", "a", "b", "c"]})
        >>> [part["qid"].tolist() for part in cut(turns, 2)]
        [['a::1', 'a::2', 'b::1'], ['c::1']]
    """
    turns, names = pd.factorize(frame["qid_0" if "qid_0" in frame.columns else "qid"])
    count = min(partitions, len(names))
    part_of_row = turns.astype(np.int64) * count // len(names)
    return [frame[part_of_row == part].reset_index(drop=True) for part in range(count)]


def joined(frames: Sequence[pd.DataFrame]) -> pd.DataFrame:
    """The parts below each other, in their order; parts without rows say nothing about columns and their types.

    Example:
        >>> joined([pd.DataFrame({"rank": [0]}), pd.DataFrame({"rank": []}, dtype=object)])["rank"].dtype
        dtype('int64')
    """
    found = [frame for frame in frames if len(frame)] or list(frames[:1])
    return pd.concat(found, ignore_index=True).copy()  # of one part concat makes a view, and what Ray brought can't be written to
