"""Runs by their names, as everything here takes them that compares runs."""

from collections.abc import Mapping
from typing import Any

import pandas as pd

from ..errors import UsageError


def check_runs(runs: Any) -> None:
    """Whether ``runs`` are result frames by name, one at least.

    Raises:
        UsageError: when not; it says what to give.

    Example:
        >>> check_runs({"AD": pd.DataFrame()})
    """
    if not isinstance(runs, Mapping):
        raise UsageError(f'the runs are a {type(runs).__name__}: give each frame its name, {{"name": frame, ...}}')
    if not runs:
        raise UsageError("there is no run: give at least one")
    for name, run in runs.items():
        if not isinstance(run, pd.DataFrame):
            raise UsageError(f"run {name} is a {type(run).__name__}: give a frame, such as read_run(path) or RunFolder(path).results()")
