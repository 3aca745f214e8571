"""Finished runs, ours or not: loaded by path, shown side by side."""

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

import ir_measures
import pandas as pd

from ..errors import UsageError
from ..evaluation import TRACK_2023, evaluate, format_table
from . import RunFolder, read_run


def load_runs(paths: Sequence[str]) -> dict[str, pd.DataFrame]:
    """Read run folders, run files and submissions; the name is the folder's or the file's.

    Raises:
        UsageError: when two have the same name.
        DataError: when one cannot be read.
    """
    return {name: _load(path) for name, path in named(paths).items()}


def named(paths: Sequence[str]) -> dict[str, Path]:
    """The paths of runs by their names, that of the folder or the file.

    Raises:
        UsageError: when two have the same name.
    """
    found: dict[str, Path] = {}
    for path in map(Path, paths):
        name = path.resolve().name if path.is_dir() else path.stem
        if name in found:
            raise UsageError(f"two runs are named {name}: rename one, or evaluate them in two calls")
        found[name] = path
    return found


def _load(path: Path) -> pd.DataFrame:
    if path.is_dir():
        return RunFolder(path).results()
    if path.is_file():
        with path.open("rb") as file:
            if file.read(64).lstrip(b"\xef\xbb\xbf \t\r\n").startswith(b"{"):
                from ..submit.reading import read_ranking

                return read_ranking(path)
    return read_run(path)


def show_runs(
    runs: Mapping[str, pd.DataFrame],
    qrels: pd.DataFrame,
    baseline: str | None,
    echo: Callable[[str], None],
    measures: Sequence[ir_measures.Measure] = TRACK_2023,
) -> None:
    """Print the experiment table, and which judged turns a run lacks; nothing without judgements."""
    if qrels.empty:
        return
    echo(format_table(evaluate(runs, qrels, measures, baseline), baseline))
    warn_of_lost_turns(runs, qrels, echo)


def warn_of_lost_turns(runs: Mapping[str, pd.DataFrame], qrels: pd.DataFrame, echo: Callable[[str], None]) -> None:
    """Print which judged turns each run lacks."""
    for name, run in runs.items():
        lost = sorted(set(qrels["qid"]) - set(run["qid"]))
        if lost:
            echo(f"{name} lacks {len(lost)} judged turns: {some_of(lost)}")


def some_of(names: Sequence[str]) -> str:
    """The first ten names, as text."""
    return ", ".join(names[:10]) + (" ..." if len(names) > 10 else "")
