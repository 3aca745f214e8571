"""Turns that found nothing are named: a warning of retrievers, and of what joins their results."""

import warnings
from typing import Any

import pandas as pd


class NoResultWarning(UserWarning):
    """Some turns got no passage at all, so that evaluation counts them as 0, or none from one branch of a ``Union``."""


def report_turns_without_result(inp: pd.DataFrame, counts: Any) -> None:
    """Name the turns of a query frame none of whose rows found anything in a ``NoResultWarning``; ``counts``: passages per row."""
    turns = inp["qid_0" if "qid_0" in inp.columns else "qid"]
    answered = set(turns[counts > 0])
    without = [turn for turn in dict.fromkeys(turns) if turn not in answered]
    if without:
        shown = ", ".join(map(str, without[:5])) + (", ..." if len(without) > 5 else "")
        message = f"{len(without)} of {turns.nunique()} turns have no passage: {shown}; they count 0 in evaluation"
        warnings.warn(message, NoResultWarning, stacklevel=5)
