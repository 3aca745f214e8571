"""Finished runs by name: frames, run folders, run files or submissions, and their judgements."""

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, TypeAlias

import pandas as pd

from ..arguments import by_position
from ..conversations.datasets import IkatDataset, dataset, find_qrels, full_name
from ..conversations.frame import values, with_text_ids
from ..errors import DataError, UsageError, advice, list_first, option
from ..order import scores_by_turn, strictly_decreasing
from ..runs import RunFolder, read_run
from ..runs.folder import checksum_of
from ..store.trec import is_run_file
from ..submit.submissions import read_ranking

RunSource: TypeAlias = pd.DataFrame | RunFolder | str | Path
RANKING_COLUMNS = ("qid", "docno", "score", "rank")
Finished: TypeAlias = (
    Mapping[str, RunSource] | Sequence[RunFolder | str | Path] | RunFolder | str | Path
)


def results_of(name: str, run: RunSource) -> pd.DataFrame:
    """A run as a frame: ``qid``, ``docno``, ``score``, ``rank``.

    Raises:
        UsageError: when it is not a run.
        DataError: when a folder or file can't be read.
    """
    if isinstance(run, pd.DataFrame):
        return run
    if isinstance(run, RunFolder):
        return run.results()
    if not isinstance(run, str | Path):
        raise UsageError(
            f"run {name} is a {type(run).__name__}: "
            "give a frame, a run folder, a run file or a submission"
        )
    if Path(run).is_dir():
        return RunFolder(run).results()
    if is_run_file(Path(run)):
        return read_run(run)
    return read_ranking(run)


def results_to_score(name: str, run: RunSource) -> pd.DataFrame:
    """Like :func:`results_of`; of an unfinished run, the results of its finished batches."""
    if isinstance(run, str | Path) and Path(run).is_dir():
        run = RunFolder(run)
    if isinstance(run, RunFolder):
        return run.results_so_far()
    return results_of(name, run)


def with_names(who: str, frame: pd.DataFrame, names: Sequence[str], repair: str) -> pd.DataFrame:
    """A user's frame, checked for the columns ``names``, with its rows numbered from 0.

    Raises:
        UsageError: when it lacks one.

    Example:
        >>> with_names("the answers", pd.DataFrame({"qid": ["1_1"]}), ("qid", "qanswer"), "add it")
        Traceback (most recent call last):
        pyterrier_ikat.errors.UsageError: no column qanswer in the answers, only qid: add it
    """
    missing = [name for name in names if name not in frame.columns]
    if not missing:
        return by_position(frame)
    if set(missing) <= set(frame.index.names):
        raise UsageError(
            f"{', '.join(missing)} is the index of {who}, not a column: give it with reset_index()"
        )
    columns = ", ".join(map(str, frame.columns)) or "none"
    raise UsageError(f"no column {', '.join(missing)} in {who}, only {columns}: {repair}")


def check_once(who: str, frame: pd.DataFrame, names: Sequence[str], repair: str) -> None:
    """Check that no two rows of a frame have the same values in these columns.

    Raises:
        DataError: when two have.

    Example:
        >>> check_once("the answers", pd.DataFrame({"qid": ["1_1", "1_1"]}), ["qid"], "keep one")
        Traceback (most recent call last):
        pyterrier_ikat.errors.DataError: turn 1_1 occurs twice in the answers: keep one
    """
    repeated = frame[frame.duplicated(list(names))]
    if repeated.empty:
        return
    first = []
    for name in names:
        title = "turn" if name == "qid" else name
        first.append(f"{title} {repeated[name].iloc[0]}")
    raise DataError(f"{', '.join(first)} occurs twice in {who}: {repair}")


def turns_of(system: pd.DataFrame | str | Path) -> pd.DataFrame:
    """A row for each turn of a run folder; a frame as it is.

    Raises:
        DataError: when a folder doesn't have a finished run.
    """
    if isinstance(system, pd.DataFrame):
        return system
    folder = RunFolder(system)
    folder.check_finished()
    return pd.DataFrame(folder.turns() or {"qid": []})


def written_by(
    system: pd.DataFrame | str | Path, name: str, operator: str, read: Callable[[str, Any], Any]
) -> dict[str, Any]:
    """The value of the column ``name`` for each turn of a frame or a run folder.

    ``read(qid, cell)`` converts a cell to the value.

    Raises:
        UsageError: when a frame lacks the column. The message names the ``operator`` that makes it.
        DataError: when rows of a turn differ, or a folder doesn't have a finished run.
    """
    if isinstance(system, pd.DataFrame):
        repair = f"give the output of a pipeline with ikat.{operator}"
        system = with_names("the frame", system, ("qid", name), repair)
    frame = turns_of(system)
    by_turn: dict[str, Any] = {}
    read_cells = set[tuple[str, int]]()  # rows of a turn share their cell: it is read once
    for qid, cell in zip(frame["qid"], values(frame, name), strict=True):
        if (qid, id(cell)) in read_cells:
            continue
        read_cells.add((qid, id(cell)))
        value = read(qid, cell)
        if by_turn.setdefault(qid, value) != value:
            raise DataError(
                f"turn {qid} has rows with different {name}, {by_turn[qid]!r} and {value!r}: "
                "give one per turn"
            )
    return by_turn


def ranking_frame(name: str, run: pd.DataFrame) -> pd.DataFrame:
    """A result frame, checked for the columns of a ranking, with its rows numbered from 0.

    Raises:
        UsageError: when it lacks one.
    """
    repair = (
        "give a ranking, such as read_run(path) returns; ranks come from pt.model.add_ranks(run)"
    )
    return with_names(f"run {name}", run, RANKING_COLUMNS, repair)


def ranking_of(name: str, run: pd.DataFrame) -> dict[str, dict[str, float]]:
    """The scores of a result frame by turn.

    They strictly decrease in the order of its ranks, so evaluators have no ties to break.

    Raises:
        UsageError: when a column is missing.
        DataError: when an id is not a text, a turn has a passage twice, a score is not a finite
            number, or scores rise with the rank.
    """
    run = with_text_ids(f"run {name}", ranking_frame(name, run))
    try:
        return scores_by_turn(strictly_decreasing(run))
    except DataError as error:
        raise DataError(f"run {name}: {error}") from None


def folders_in(runs: Mapping[str, RunSource]) -> list[RunFolder]:
    """The runs as folders. Empty when one of them is not a folder."""
    folders = []
    for run in runs.values():
        if isinstance(run, str | Path):
            run = RunFolder(run)
        if not isinstance(run, RunFolder) or not run.path.is_dir():
            return []
        folders.append(run)
    return folders


def dataset_of(folders: Sequence[RunFolder]) -> IkatDataset:
    """The dataset of the runs in these folders.

    Raises:
        UsageError: when one doesn't say it, or they have different ones.
    """
    names = {folder.path.name: folder.parameters().get("dataset") for folder in folders}
    unknown = [run for run, name in names.items() if name is None]
    if unknown:
        raise UsageError(
            f"{list_first(unknown)}: the run does not say which dataset it was made on: "
            f"give {option('dataset')} or {option('qrels')}"
        )
    if len({full_name(str(name)) for name in names.values()}) > 1:
        pairs = ", ".join(f"{run} on {name}" for run, name in names.items())
        raise UsageError(
            f"the runs were made on different datasets ({pairs}): "
            "evaluate the runs of each dataset separately"
        )
    return dataset(str(next(iter(names.values()))))


def known_dataset(
    runs: Mapping[str, RunSource], given: IkatDataset | str | Path | None = None
) -> IkatDataset | None:
    """The dataset of some runs; None if it isn't known.

    It is the given one, else the one that all run folders among the runs name.

    Raises:
        UsageError: when the given dataset doesn't exist.
    """
    if given is not None:
        return dataset(given)
    names = set()
    for run in runs.values():
        if isinstance(run, str | Path) and Path(run).is_dir():
            run = RunFolder(run)
        if isinstance(run, RunFolder):
            names.add(full_name(str(run.parameters().get("dataset"))))
    if len(names) != 1 or "None" in names:
        return None
    try:
        return dataset(names.pop())
    except UsageError:  # a folder that isn't there any more, or a dataset that was an object
        return None


def qrels_of(folders: Sequence[RunFolder]) -> pd.DataFrame:
    """The judgements with which these runs were scored: the default ones of their dataset.

    They include those of turns that the runs were not asked.

    Raises:
        UsageError: like :func:`dataset_of`, and when a run was scored with other judgements, or
            there are none.
        DataError: when the dataset's file is missing.
    """
    data = dataset_of(folders)
    qrels = find_qrels(None, data)
    if qrels.empty:
        raise UsageError(f"{data.name} has no judgements: give {option('qrels')}")
    for folder in folders:
        _check_scored_with(folder, qrels, data.name)
    return qrels


def _check_scored_with(folder: RunFolder, qrels: pd.DataFrame, name: str) -> None:
    """Check that a run was scored with these judgements, all of them or those of its turns."""
    checksum = folder.parameters().get("qrels_sha256")
    if checksum is None or checksum == checksum_of(qrels):
        return
    of_its_turns = qrels[qrels["qid"].isin(folder.turns_so_far())]
    if checksum != checksum_of(of_its_turns):
        repair = advice(
            f"qrels=..., or those of {name} by pt.get_dataset({name!r}).get_qrels()",
            f"--qrels, or --dataset {name} for its own",
        )
        raise UsageError(
            f"{folder.path} was scored with other judgements than the default ones of {name}: "
            f"give {repair}"
        )
