"""The material of a report: the runs, whatever their source, and the additional data from their dataset.

A run folder has the most: the ranking, the system's texts for each turn, its scores, its LLM calls
and how it was made. A submission has ranking, response, chosen statements and cited passages; a
TREC run only the ranking; a result frame its columns.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, TypeAlias

import pandas as pd
import pyterrier as pt

from ...arguments import is_missing
from ...conversations import datasets
from ...conversations.datasets import IkatDataset, QrelsSource, find_qrels, full_name, is_variant
from ...conversations.frame import with_text_ids
from ...conversations.qrels import note_of, read_qrels
from ...errors import DataError, IkatError, UsageError, advice
from ...evaluation.evaluator import name_runs
from ...evaluation.finished_runs import RANKING, with_names
from ...runs import RunFolder, read_run, strictly_decreasing
from ...runs.folder import STAGES
from ...runs.log import Log
from ...runs.turn_lines import as_json, chosen_statements, used_marks
from ...store.trec import is_run_file
from ...submit import Submission, read_submission
from ..ledgers import read_ledger
from .page import Call

RunSource: TypeAlias = str | Path | RunFolder | Log | Submission | pd.DataFrame
Runs: TypeAlias = RunSource | Sequence[RunSource] | Mapping[str, RunSource]


@dataclass(frozen=True)
class RunData:
    """One run.

    Attributes:
        name: its name in the report.
        results: ``qid``, ``docno``, ``score``, ``rank`` (from 0); ``used`` and ``text`` where
            known.
        turns: qid -> what is known about the turn, with the names of ``turns.jsonl``, and as
            ``searched`` the queries that retrievers got.
        scores: ``qid`` and one column per measure, as in ``measures.csv``; None if the run has
            none.
        ledger: the LLM calls, as in ``ledger.csv``; None if unknown.
        parameters: how it was made, as in ``run.json``.
        calls: qid -> the LLM calls of the turn that are stored in the folder.
    """

    name: str
    results: pd.DataFrame
    turns: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    scores: pd.DataFrame | None = None
    ledger: pd.DataFrame | None = None
    parameters: Mapping[str, Any] = field(default_factory=dict)
    calls: Mapping[str, Sequence[Call]] = field(default_factory=dict)

    @property
    def run_on(self) -> set[str] | None:
        """The turns on which the system was run, with and without results; None if unknown."""
        return set(self.turns) if self.parameters else None


def read_runs(runs: Runs, dataset: IkatDataset | None = None) -> list[RunData]:
    """Read one run or several.

    Args:
        runs: one run, a list of runs, or a dict name -> run. A run is the path of a folder made by
            ``ikat run``, of a TREC run file or of a submission; a ``RunFolder``; the result of
            ``ikat.submit.read_submission``; or a result frame.
        dataset: the dataset of submissions.

    Raises:
        UsageError: when there is no run, two have the same name, or something is not a run of
            topics.
        DataError: when a file can't be read.
    """
    return [_read(name, run, dataset) for name, run in name_runs(runs, "run").items()]


def _read(name: str, run: Any, dataset: IkatDataset | None) -> RunData:
    if isinstance(run, RunFolder):
        return _of_folder(name, run)
    if isinstance(run, Submission):
        return _of_submission(name, run)
    if isinstance(run, pd.DataFrame):
        return _of_frame(name, run)
    if not isinstance(run, str | Path):
        raise UsageError(
            f"{name} is a {type(run).__name__}, which is not a run: give a path, a RunFolder, a Submission or a result frame"
        )
    path = Path(run)
    if path.is_dir():
        return _of_folder(name, RunFolder(path))
    if is_run_file(path):
        return RunData(name, read_run(path))
    return _of_submission(name, read_submission(path, dataset))


def _of_folder(name: str, folder: RunFolder) -> RunData:
    searched, calls = read_stages(folder)
    turns = {
        turn["qid"]: turn | ({"searched": searched[turn["qid"]]} if turn["qid"] in searched else {})
        for turn in folder.turns()
    }
    return RunData(
        name,
        folder.results(),
        turns,
        folder.measures().reset_index(),
        read_ledger(folder),
        folder.parameters(),
        calls,
    )


def read_stages(folder: RunFolder) -> tuple[dict[str, list[str]], dict[str, list[Call]]]:
    """The queries that retrievers got on each turn, and its LLM calls; nothing for a folder without ``stages.jsonl.gz``.

    Raises:
        DataError: when the file can't be read.
    """
    searched: dict[str, list[str]] = {}
    calls: dict[str, list[Call]] = {}
    rewritten: dict[str, str] = {}
    for line in folder.stages() if (folder.path / STAGES).is_file() else ():
        qid = line["qid"]
        searched.setdefault(qid, []).extend(query["query"] for query in line.get("found", ()))
        calls.setdefault(qid, []).extend(
            _call(line["stage"], asked) for asked in line.get("asked", ())
        )
        if isinstance(query := line.get("wrote", {}).get("query"), str):
            rewritten[qid] = query
    for (
        qid,
        query,
    ) in (
        rewritten.items()
    ):  # a retriever of another package is not recorded: it got the text that was written last
        searched[qid] = searched[qid] or [query]
    return searched, calls


def _call(stage: str, asked: Mapping[str, Any]) -> Call:
    failed, name = (
        "failure" in asked,
        " ".join(filter(None, (asked.get("prompt"), asked.get("item")))),
    )
    return Call(
        name or "call",
        stage,
        asked["messages"],
        asked["failure" if failed else "completion"],
        failed,
    )


def _of_submission(name: str, run: Submission) -> RunData:
    columns = run.turns[["qid", "qanswer", "qstatements"]].to_numpy(dtype=object).tolist()
    turns = {
        qid: {"response": answer, "qstatements": statements} for qid, answer, statements in columns
    }
    return RunData(name, run.results, _add_used(run.results, turns))


def _of_frame(name: str, frame: pd.DataFrame) -> RunData:
    frame = with_names(
        f"run {name}", frame, RANKING, "give a result frame, such as pipeline(topics)"
    )
    results = strictly_decreasing(with_text_ids(name, frame))
    first = results.drop_duplicates("qid")
    names = [
        column
        for column in first.columns
        if str(column).startswith("q") and column not in ("qid", "query")
    ]
    turns: dict[str, dict[str, Any]] = {}
    for qid, *row in zip(first["qid"], *(first[column] for column in names), strict=True):
        cells = {
            column: value for column, value in zip(names, row, strict=True) if not is_missing(value)
        }
        known = {
            column: chosen_statements(qid, value) if column == "qstatements" else as_json(value)
            for column, value in cells.items()
        }
        turns[qid] = {
            column: value for column, value in known.items() if isinstance(value, str | list | dict)
        }
        if "used" in results.columns:
            turns[qid]["response"] = turns[qid].get("qanswer", "")
    if (
        "query" in first.columns and "qsubqueries" not in names
    ):  # after a fusion of sub-queries it is the turn's own again
        for qid, query in zip(first["qid"], first["query"], strict=True):
            turns[qid] |= {"searched": [query]} if isinstance(query, str) else {}
    return RunData(name, results, _add_used(results, turns))


def _add_used(results: pd.DataFrame, turns: dict[str, dict[str, Any]]) -> dict[str, dict[str, Any]]:
    """The turns with the passages on which each response is based, if known."""
    if "used" not in results.columns:
        return turns
    used = results.loc[used_marks(results)].groupby("qid")["docno"].agg(list)
    return {qid: {**turn, "used": used.get(qid, [])} for qid, turn in turns.items()}


@dataclass(frozen=True)
class Material:
    """The known data in addition to the runs.

    Attributes:
        name: the dataset's name; empty without one.
        turns: qid -> the topics' columns and ``gold_answer``, in the order of the topics.
        qrels: ``qid``, ``docno``, ``label``; None if there are none.
        texts: adds ``text`` by ``docno``; None if there are no texts.
        notes: what is unknown, and why. They are shown in the report.
        titles: conversation -> its subject, if known.
        dataset: the dataset; None without one.
    """

    name: str
    turns: Mapping[str, Mapping[str, Any]]
    qrels: pd.DataFrame | None
    texts: pt.Transformer | None
    notes: tuple[str, ...]
    titles: Mapping[str, str] = field(default_factory=dict)
    dataset: IkatDataset | None = None


def find_material(
    runs: Sequence[RunData],
    dataset: IkatDataset | None,
    qrels: QrelsSource | None,
    texts: pt.Transformer | None,
) -> Material:
    """Collect the available data. A dataset that only a run folder names may be missing, but one that the user names may not.

    Raises:
        UsageError: for qrels that the dataset does not have, or runs with different datasets.
        DataError: when a file of the dataset is missing.
    """
    filled = note_of(qrels).get("filled") if isinstance(qrels, str | Path) else None
    notes = [f"{filled}."] if filled else []
    found = _dataset_of(runs, notes) if dataset is None else dataset
    name, turns = ("", {}) if found is None else (found.name, _topics_by_turn(found))
    judged = _given(qrels) if found is None else _qrels(found, qrels, notes)
    loader = texts if texts is not None else _text_loader(found, runs, notes)
    return Material(
        name, turns, judged, loader, tuple(notes), {} if found is None else _titles(found), found
    )


def _dataset_of(runs: Sequence[RunData], notes: list[str]) -> IkatDataset | None:
    named = {
        run.name: full_name(run.parameters["dataset"])
        for run in runs
        if "dataset" in run.parameters
    }
    if len(set(named.values())) > 1:
        pairs = ", ".join(f"{name} on {data}" for name, data in named.items())
        raise UsageError(
            f"the runs were made on different datasets ({pairs}): make a report of each"
        )
    if not named:
        notes.append(
            "No dataset was given: the users' words and the judgements are shown only where a run has them."
        )
        return None
    name = next(iter(named.values()))
    try:
        found = datasets.dataset(name)
        found.get_topics()
    except IkatError as error:
        notes.append(f"{name} can't be read, so only what the run folders keep is shown: {error}")
        return None
    return found


def only_turns(
    runs: Sequence[RunData], material: Material, turns: Sequence[str]
) -> tuple[list[RunData], Material]:
    """The runs and the material without other turns."""
    wanted = set(turns)
    known = {qid: turn for qid, turn in material.turns.items() if qid in wanted}
    return [_only(run, wanted) for run in runs], replace(material, turns=known)


def _only(run: RunData, turns: set[str]) -> RunData:
    results, scores = run.results[run.results["qid"].isin(turns)], run.scores
    return replace(
        run,
        results=results.reset_index(drop=True),
        turns={qid: turn for qid, turn in run.turns.items() if qid in turns},
        scores=None if scores is None else scores[scores["qid"].isin(turns)].reset_index(drop=True),
    )


def _given(qrels: QrelsSource | None) -> pd.DataFrame | None:
    """The judgements if there is no dataset: a frame, or a file."""
    if qrels is None or isinstance(qrels, pd.DataFrame):
        return qrels
    if not Path(qrels).expanduser().is_file():
        raise UsageError(
            f"the qrels {qrels!r} don't belong to a dataset: give the dataset as well, or the qrels as a {advice('frame', 'file')}"
        )
    return read_qrels(Path(qrels).expanduser())


def _qrels(
    dataset: IkatDataset, qrels: QrelsSource | None, notes: list[str]
) -> pd.DataFrame | None:
    if isinstance(qrels, pd.DataFrame):
        return qrels
    if is_variant(qrels, dataset) and str(qrels).startswith("ptkb"):
        raise UsageError(
            f"the qrels {qrels} of {dataset.name} judge statements, and runs rank passages: give other qrels"
        )
    try:
        return find_qrels(qrels, dataset)
    except DataError as error:
        if qrels is not None:
            raise
        notes.append(f"No relevance labels: {error}")
        return None


def _text_loader(
    dataset: IkatDataset | None, runs: Sequence[RunData], notes: list[str]
) -> pt.Transformer | None:
    if all("text" in run.results.columns for run in runs):
        return None
    try:
        if dataset is not None:
            return dataset.text_loader()
    except UsageError as error:
        notes.append(f"No passage texts: {error}")
        return None
    repair = advice(
        "give texts=, the text_loader() of the index that was searched",
        "give --index PATH, the index that was searched",
    )
    notes.append(f"No passage texts: {repair}.")
    return None


def _titles(dataset: IkatDataset) -> dict[str, str]:
    try:
        return {one.number: one.title for one in dataset.conversations if one.title}
    except IkatError:  # without its manual rewrites, only the turns of a collection are known
        return {}


def _topics_by_turn(dataset: IkatDataset) -> dict[str, dict[str, Any]]:
    try:
        topics = dataset.get_topics("manual")
    except IkatError:  # a collection whose manual rewrites are missing has its utterances
        topics = dataset.get_topics()
    topics = topics.merge(dataset.get_answers(), on="qid", how="left").drop(
        columns=["query", "qhistory"]
    )
    return {turn["qid"]: turn for turn in topics.to_dict("records")}
