"""Finished runs, ours or not: loaded by path, shown side by side."""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import ir_measures
import pandas as pd

from ..evaluation import TRACK_2023, evaluate, format_table, label, per_turn
from ..store.trec import is_run_file, named
from .folder import RunFolder
from .trec import read_run, strictly_decreasing
from .turns import Part, of_frame


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


class Rankings(Mapping[str, pd.DataFrame]):
    """Name -> ranking of finished runs, each read when it is asked for."""

    def __init__(self, folders: dict[str, RunFolder]) -> None:
        self._folders = folders

    def __getitem__(self, name: str) -> pd.DataFrame:
        return self._folders[name].results()

    def __iter__(self) -> Iterator[str]:
        return iter(self._folders)

    def __len__(self) -> int:
        return len(self._folders)


class Figures:
    """The figures of a run that comes in parts, and how many of its passages are judged."""

    def __init__(self, qrels: pd.DataFrame) -> None:
        self.qrels, self.judged = qrels, 0
        self._parts = [pd.DataFrame(columns=["qid", *map(label, TRACK_2023)])]

    def counting(self, parts: Iterable[Part]) -> Iterator[Part]:
        """The parts, added while they go by."""
        for topics, results in parts:
            self.add(topics["qid"], results)
            yield topics, results

    def add(self, qids: Iterable[str], results: pd.DataFrame) -> None:
        """Add the ranking of these turns."""
        qrels = self.qrels[self.qrels["qid"].isin(qids)]
        if len(qrels):
            self._parts.append(per_turn(strictly_decreasing(results), qrels))
            self.judged += len(results[["qid", "docno"]].merge(qrels[["qid", "docno"]]))

    def frame(self) -> pd.DataFrame:
        """A row for each turn of the qrels, in their order: zeros for those that were not added."""
        found = pd.concat(self._parts[len(self._parts) > 1 :]).set_index("qid")
        return found.reindex(pd.Index(self.qrels["qid"].unique(), name="qid"), fill_value=0.0).reset_index()

    def about(self) -> dict[str, Any]:
        """What the run folder says of them."""
        return {"qrels_sha256": of_frame(self.qrels), "judged_passages": self.judged}
