"""The material of a report: the runs, whatever their source, and the data from their dataset.

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
from ...evaluation.finished_runs import RANKING_COLUMNS, with_names
from ...runs import RunFolder, read_run, strictly_decreasing
from ...runs.folder import STAGES_FILE
from ...runs.log import Log
from ...runs.turn_lines import as_json, chosen_statements, used_marks
from ...store.trec import is_run_file
from ...submit import Submission, read_submission
from ..ledgers import read_ledger
from .content import Call

ShownRun: TypeAlias = str | Path | RunFolder | Log | Submission | pd.DataFrame
Runs: TypeAlias = ShownRun | Sequence[ShownRun] | Mapping[str, ShownRun]

DEFAULT_BASELINE = "raw"
"""The run with which the others are compared if no baseline is named."""


def baseline_first(names: Sequence[str], baseline: str | None) -> list[str]:
    """The names with the baseline before the others: the given one, ``raw`` or the first.

    Example:
        >>> baseline_first(["qr", "raw", "aqd"], None)
        ['raw', 'qr', 'aqd']
    """
    if baseline is None:
        baseline = DEFAULT_BASELINE if DEFAULT_BASELINE in names else names[0]
    return [baseline, *(name for name in names if name != baseline)]


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
            f"{name} is a {type(run).__name__}, which is not a run: "
            "give a path, a RunFolder, a Submission or a result frame"
        )
    path = Path(run)
    if path.is_dir():
        return _of_folder(name, RunFolder(path))
    if is_run_file(path):
        return RunData(name, read_run(path))
    return _of_submission(name, read_submission(path, dataset))


def _of_folder(name: str, folder: RunFolder) -> RunData:
    searched, calls = read_stages(folder)
    turns = {}
    for turn in folder.turns():
        qid = turn["qid"]
        turns[qid] = turn
        if qid in searched:
            turns[qid] = {**turn, "searched": searched[qid]}
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
    """Read the queries that retrievers got on each turn, and its LLM calls.

    A folder without ``stages.jsonl.gz`` has neither.

    Raises:
        DataError: when the file can't be read.
    """
    searched: dict[str, list[str]] = {}
    calls: dict[str, list[Call]] = {}
    if not (folder.path / STAGES_FILE).is_file():
        return searched, calls
    rewritten: dict[str, str] = {}
    for line in folder.stages():
        qid = line["qid"]
        searched.setdefault(qid, []).extend(query["query"] for query in line.get("found", ()))
        of_stage = [_call(line["stage"], call) for call in line.get("asked", ())]
        calls.setdefault(qid, []).extend(of_stage)
        query = line.get("wrote", {}).get("query")
        if isinstance(query, str):
            rewritten[qid] = query
    # a retriever of another package is not recorded: it got the text that was written last
    for qid, query in rewritten.items():
        if not searched[qid]:
            searched[qid] = [query]
    return searched, calls


def _call(stage: str, call: Mapping[str, Any]) -> Call:
    """A call of a stage, as the folder has it."""
    words = [word for word in (call.get("prompt"), call.get("item")) if word]
    failed = "failure" in call
    return Call(
        name=" ".join(words) or "call",
        stage=stage,
        messages=call["messages"],
        completion=call["failure"] if failed else call["completion"],
        failed=failed,
    )


def _of_submission(name: str, run: Submission) -> RunData:
    turns = {}
    for qid, answer, statements in zip(
        run.turns["qid"], run.turns["qanswer"], run.turns["qstatements"], strict=True
    ):
        turns[qid] = {"response": answer, "qstatements": statements}
    return RunData(name, run.results, _add_used(run.results, turns))


def _of_frame(name: str, frame: pd.DataFrame) -> RunData:
    frame = with_names(
        f"run {name}", frame, RANKING_COLUMNS, "give a result frame, such as pipeline(topics)"
    )
    results = strictly_decreasing(with_text_ids(name, frame))
    first = results.drop_duplicates("qid")
    turns: dict[str, dict[str, Any]] = {qid: {} for qid in first["qid"]}
    for column in first.columns:
        if not str(column).startswith("q") or column in ("qid", "query"):
            continue
        for qid, value in zip(first["qid"], first[column], strict=True):
            if is_missing(value):
                continue
            known = chosen_statements(qid, value) if column == "qstatements" else as_json(value)
            if isinstance(known, str | list | dict):
                turns[qid][column] = known
    if "used" in results.columns:
        for turn in turns.values():
            turn["response"] = turn.get("qanswer", "")
    # after a fusion of sub-queries the query is the turn's own again
    if "query" in first.columns and "qsubqueries" not in first.columns:
        for qid, query in zip(first["qid"], first["query"], strict=True):
            if isinstance(query, str):
                turns[qid]["searched"] = [query]
    return RunData(name, results, _add_used(results, turns))


def _add_used(results: pd.DataFrame, turns: dict[str, dict[str, Any]]) -> dict[str, dict[str, Any]]:
    """The turns with the passages on which each response is based, if known."""
    if "used" not in results.columns:
        return turns
    used = results.loc[used_marks(results)].groupby("qid")["docno"].agg(list)
    with_used = {}
    for qid, turn in turns.items():
        with_used[qid] = {**turn, "used": used.get(qid, [])}
    return with_used


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
    """Collect the available data.

    A dataset that only a run folder names may be missing, but one that the user names may not.

    Raises:
        UsageError: for qrels that the dataset does not have, or runs with different datasets.
        DataError: when a file of the dataset is missing.
    """
    notes = []
    filled = note_of(qrels).get("filled") if isinstance(qrels, str | Path) else None
    if filled:
        notes.append(f"{filled}.")
    if dataset is None:
        dataset = _dataset_of(runs, notes)
    if dataset is None:
        judged = _given(qrels)
        if texts is None:
            texts = _text_loader(None, runs, notes)
        return Material("", {}, judged, texts, tuple(notes))
    turns = _topics_by_turn(dataset)
    judged = _qrels(dataset, qrels, notes)
    if texts is None:
        texts = _text_loader(dataset, runs, notes)
    return Material(dataset.name, turns, judged, texts, tuple(notes), _titles(dataset), dataset)


def _dataset_of(runs: Sequence[RunData], notes: list[str]) -> IkatDataset | None:
    """The dataset that the run folders name, if it can be read; otherwise a note says why not."""
    named = {}
    for run in runs:
        if "dataset" in run.parameters:
            named[run.name] = full_name(run.parameters["dataset"])
    if not named:
        notes.append(
            "No dataset was given: "
            "the users' words and the judgements are shown only where a run has them."
        )
        return None
    names = set(named.values())
    if len(names) > 1:
        pairs = ", ".join(f"{run} on {name}" for run, name in named.items())
        raise UsageError(
            f"the runs were made on different datasets ({pairs}): make a report of each"
        )
    [name] = names
    try:
        dataset = datasets.dataset(name)
        dataset.get_topics()
    except IkatError as error:
        notes.append(f"{name} can't be read, so only what the run folders keep is shown: {error}")
        return None
    return dataset


def only_turns(
    runs: Sequence[RunData], material: Material, turns: Sequence[str]
) -> tuple[list[RunData], Material]:
    """The runs and the material without other turns."""
    wanted = set(turns)
    known = {qid: turn for qid, turn in material.turns.items() if qid in wanted}
    return [_only(run, wanted) for run in runs], replace(material, turns=known)


def _only(run: RunData, turns: set[str]) -> RunData:
    results = run.results[run.results["qid"].isin(turns)].reset_index(drop=True)
    scores = run.scores
    if scores is not None:
        scores = scores[scores["qid"].isin(turns)].reset_index(drop=True)
    known = {qid: turn for qid, turn in run.turns.items() if qid in turns}
    return replace(run, results=results, turns=known, scores=scores)


def _given(qrels: QrelsSource | None) -> pd.DataFrame | None:
    """The judgements if there is no dataset: a frame, or a file."""
    if qrels is None or isinstance(qrels, pd.DataFrame):
        return qrels
    path = Path(qrels).expanduser()
    if not path.is_file():
        form = advice("frame", "file")
        raise UsageError(
            f"the qrels {qrels!r} don't belong to a dataset: "
            f"give the dataset as well, or the qrels as a {form}"
        )
    return read_qrels(path)


def _qrels(
    dataset: IkatDataset, qrels: QrelsSource | None, notes: list[str]
) -> pd.DataFrame | None:
    if isinstance(qrels, pd.DataFrame):
        return qrels
    if is_variant(qrels, dataset) and str(qrels).startswith("ptkb"):
        raise UsageError(
            f"the qrels {qrels} of {dataset.name} judge statements, and runs rank passages: "
            "give other qrels"
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
        conversations = dataset.conversations
    except IkatError:  # without its manual rewrites, only the turns of a collection are known
        return {}
    return {chat.number: chat.title for chat in conversations if chat.title}


def _topics_by_turn(dataset: IkatDataset) -> dict[str, dict[str, Any]]:
    try:
        topics = dataset.get_topics("manual")
    except IkatError:  # a collection whose manual rewrites are missing has its utterances
        topics = dataset.get_topics()
    topics = topics.merge(dataset.get_answers(), on="qid", how="left")
    records = topics.drop(columns=["query", "qhistory"]).to_dict("records")
    return {turn["qid"]: turn for turn in records}
