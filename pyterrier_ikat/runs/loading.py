"""Finished runs, ours or not: loaded by path, shown side by side."""

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

import ir_measures
import pandas as pd

from ..evaluation import TRACK_2023, evaluate, format_table
from ..store.trec import is_run_file, named
from . import RunFolder, read_run


def load_runs(paths: Sequence[str]) -> dict[str, pd.DataFrame]:
    """Read run folders, run files and submissions; the name is the folder's or the file's.

    Raises:
        UsageError: when two have the same name.
        DataError: when one cannot be read.
    """
    return {name: load_run(path) for name, path in named(paths).items()}


def load_run(path: Path) -> pd.DataFrame:
    """Read a run folder, a run file or a submission."""
    if path.is_dir():
        return RunFolder(path).results()
    if is_run_file(path):
        return read_run(path)
    from ..submit.reading import read_ranking

    return read_ranking(path)


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
