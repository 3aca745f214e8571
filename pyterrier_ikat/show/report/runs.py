"""What is known of a run, wherever it comes from: a run folder, a TREC run file, a submission, or a frame at hand.

A run folder tells most: the ranking, what the system wrote for each turn, its figures, its LLM calls and how it was made. A
submission tells ranking, response, chosen statements and cited passages; a TREC run only the ranking; a result frame whatever columns
it has.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeAlias

import pandas as pd

from ...conversations.datasets import IkatDataset
from ...conversations.frame import is_missing, with_text_ids
from ...errors import DataError, UsageError, advice
from ...runs import RunFolder, read_run, trec_eval_order
from ...runs.turns import chosen_statements, plain, used_marks
from ...submit import Submission, read_submission

RunSource: TypeAlias = str | Path | RunFolder | Submission | pd.DataFrame
Runs: TypeAlias = RunSource | Sequence[RunSource] | Mapping[str, RunSource]

_BYTES_TO_TELL = 4096


@dataclass(frozen=True)
class RunData:
    """One run.

    Attributes:
        name: what it is called in the report.
        results: ``qid``, ``docno``, ``score``, ``rank`` (from 0); ``used`` and ``text`` where known.
        turns: qid -> what is known of the turn, under the names of ``turns.jsonl``.
        figures: ``qid`` and one column per measure, as in ``measures.csv``; None where the run has none.
        ledger: the LLM calls, as in ``ledger.csv``; None where unknown.
        parameters: how it was made, as in ``run.json``.
    """

    name: str
    results: pd.DataFrame
    turns: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    figures: pd.DataFrame | None = None
    ledger: pd.DataFrame | None = None
    parameters: Mapping[str, Any] = field(default_factory=dict)

    @property
    def asked(self) -> set[str] | None:
        """The turns that the system was run on, with and without results; None where that isn't known."""
        return set(self.turns) if self.parameters else None


def read_runs(runs: Runs, dataset: IkatDataset | None = None) -> list[RunData]:
    """Read one run or several.

    Args:
        runs: one run, a list of runs, or a dict name -> run. A run is the path of a folder made by ``ikat run``, of a TREC run file or of a
            submission; a ``RunFolder``; what ``ikat.submit.read_submission`` gave; or a result frame.
        dataset: what submissions were made for.

    Raises:
        UsageError: when there is no run, two have one name, or something is no run.
        DataError: when a file can't be read.
    """
    if isinstance(runs, Mapping):
        named = [(str(name), run) for name, run in runs.items()]
    else:
        several = list(runs) if isinstance(runs, list | tuple) else [runs]
        named = [(_name(run), run) for run in several]
    names = [name for name, _ in named]
    twice = next((name for name in names if names.count(name) > 1), None)
    if twice is not None:
        raise UsageError(f"two runs are named {twice}: {advice('give each its name, {name: run, ...}, or rename', 'rename')} a file")
    if not named:
        raise UsageError("there is no run: give at least one")
    return [_read(name, run, dataset) for name, run in named]


def _name(run: Any) -> str:
    if isinstance(run, RunFolder):
        return run.path.name
    if isinstance(run, Submission):
        return run.run_id
    if isinstance(run, str | Path):
        path = Path(run)
        return path.resolve().name if path.is_dir() else path.stem
    return "run"


def _read(name: str, run: Any, dataset: IkatDataset | None) -> RunData:
    if isinstance(run, RunFolder):
        return _of_folder(name, run)
    if isinstance(run, Submission):
        return _of_submission(name, run)
    if isinstance(run, pd.DataFrame):
        return _of_frame(name, run)
    if not isinstance(run, str | Path):
        raise UsageError(f"{name} is a {type(run).__name__}, no run: give a path, a RunFolder, a Submission or a result frame")
    path = Path(run)
    if path.is_dir():
        return _of_folder(name, RunFolder(path))
    if _is_json(path):
        return _of_submission(name, read_submission(path, dataset))
    return RunData(name, read_run(path))


def _is_json(path: Path) -> bool:
    if not path.is_file():
        raise DataError(f"there is no run {path}: give a folder made by `ikat run`, a TREC run file or a submission")
    with path.open("rb") as file:
        return file.read(_BYTES_TO_TELL).lstrip(b"\xef\xbb\xbf \t\r\n")[:1] in (b"{", b"[")


def _of_folder(name: str, folder: RunFolder) -> RunData:
    turns = {turn["qid"]: turn for turn in folder.turns()}
    return RunData(name, folder.results(), turns, _table(folder, "measures.csv"), _table(folder, "ledger.csv"), folder.parameters())


def _table(folder: RunFolder, name: str) -> pd.DataFrame:
    folder.check_lines(name)
    try:
        return pd.read_csv(folder.path / name, dtype={"qid": object})
    except (OSError, ValueError) as error:
        raise DataError(f"{folder.path / name} can't be read ({error}): make the run again") from error


def _of_submission(name: str, run: Submission) -> RunData:
    columns = run.turns[["qid", "qanswer", "qstatements"]].to_numpy(dtype=object).tolist()
    turns = {qid: {"response": answer, "qstatements": statements} for qid, answer, statements in columns}
    return RunData(name, run.results, _with_used(run.results, turns))


def _of_frame(name: str, frame: pd.DataFrame) -> RunData:
    lacking = [column for column in ("qid", "docno", "score", "rank") if column not in frame.columns]
    if lacking:
        raise DataError(f"{name} lacks the columns {', '.join(lacking)}: give a result frame, such as pipeline(topics)")
    results = trec_eval_order(with_text_ids(name, frame))
    first = results.drop_duplicates("qid")
    names = [column for column in first.columns if str(column).startswith("q") and column not in ("qid", "query")]
    rows = zip(first["qid"], *(first[column] for column in names), strict=True)
    turns = {qid: _known(qid, zip(names, row, strict=True)) for qid, *row in rows}
    if "used" in results.columns:
        turns = {qid: {**turn, "response": turn.get("qanswer", "")} for qid, turn in turns.items()}
    return RunData(name, results, _with_used(results, turns))


def _known(qid: str, cells: Iterable[tuple[str, Any]]) -> dict[str, Any]:
    given = ((name, value) for name, value in cells if not is_missing(value))
    found = {name: chosen_statements(qid, value) if name == "qstatements" else plain(value) for name, value in given}
    return {name: value for name, value in found.items() if isinstance(value, str | list | dict)}


def _with_used(results: pd.DataFrame, turns: dict[str, dict[str, Any]]) -> dict[str, dict[str, Any]]:
    if "used" not in results.columns:
        return turns
    shown = results.loc[used_marks(results)]
    used: dict[str, list[str]] = {}
    for qid, docno in zip(shown["qid"], shown["docno"], strict=True):
        used.setdefault(qid, []).append(docno)
    return {qid: {**turn, "used": used.get(qid, [])} for qid, turn in turns.items()}
