"""What a dataset adds to the runs of a report: the users' words, judgements, the organisers' answers and the passages' text."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import pandas as pd
import pyterrier as pt

from ...conversations import datasets
from ...conversations.datasets import IkatDataset, full_name
from ...errors import DataError, IkatError, UsageError, advice
from .runs import RunData


@dataclass(frozen=True)
class Material:
    """What is known besides the runs.

    Attributes:
        name: the dataset's; empty without one.
        turns: qid -> the topics' columns and ``gold_answer``, in the order of the topics.
        qrels: ``qid``, ``docno``, ``label``; None where there are none.
        texts: adds ``text`` by ``docno``; None where there are no texts.
        notes: what is not known, and why; shown in the report.
    """

    name: str
    turns: Mapping[str, Mapping[str, Any]]
    qrels: pd.DataFrame | None
    texts: pt.Transformer | None
    notes: tuple[str, ...]


def find_material(
    runs: Sequence[RunData], dataset: IkatDataset | None, qrels: pd.DataFrame | str | None, texts: pt.Transformer | None
) -> Material:
    """Gather what can be had; a dataset that only a run folder names may be out of reach, one that was asked for may not.

    Raises:
        UsageError: for qrels that the dataset does not have, or runs made on different datasets.
        DataError: when a file of the dataset can't be had.
    """
    notes: list[str] = []
    found = _dataset(runs, dataset, notes)
    if found is None and isinstance(qrels, str):
        raise UsageError(f"the qrels {qrels!r} are of no dataset: give the dataset as well, or the qrels as a {advice('frame', 'file')}")
    judged = qrels if isinstance(qrels, pd.DataFrame) else _qrels(found, qrels, notes)
    loader = texts if texts is not None else _texts(found, runs, notes)
    return Material("" if found is None else found.name, {} if found is None else _turns(found), judged, loader, tuple(notes))


def _dataset(runs: Sequence[RunData], dataset: IkatDataset | None, notes: list[str]) -> IkatDataset | None:
    if dataset is not None:
        return dataset
    named = {run.name: full_name(run.parameters["dataset"]) for run in runs if "dataset" in run.parameters}
    if len(set(named.values())) > 1:
        told = ", ".join(f"{name} on {data}" for name, data in named.items())
        raise UsageError(f"the runs were made on different datasets ({told}): make a report of each")
    if not named:
        notes.append("No dataset was given: the users' words and the judgements are shown only where a run has them.")
        return None
    name = next(iter(named.values()))
    try:
        found = datasets.dataset(name)
        found.get_topics("manual")
    except IkatError as error:
        notes.append(f"{name} can't be read, so only what the run folders keep is shown: {error}")
        return None
    return found


def _qrels(dataset: IkatDataset | None, variant: str | None, notes: list[str]) -> pd.DataFrame | None:
    if dataset is None:
        return None
    if variant is not None and variant.startswith("ptkb"):
        raise UsageError(f"the qrels {variant} of {dataset.name} judge statements, and runs rank passages: give other qrels")
    try:
        return dataset.get_qrels(variant)
    except DataError as error:
        if variant is not None:
            raise
        notes.append(f"No relevance labels: {error}")
        return None


def _texts(dataset: IkatDataset | None, runs: Sequence[RunData], notes: list[str]) -> pt.Transformer | None:
    if all("text" in run.results.columns for run in runs):
        return None
    try:
        if dataset is not None:
            return dataset.text_loader()
    except UsageError as error:
        notes.append(f"No passage texts: {error}")
        return None
    repair = advice("give texts=, the text_loader() of the index that was searched", "give --index PATH, the index that was searched")
    notes.append(f"No passage texts: {repair}.")
    return None


def _turns(dataset: IkatDataset) -> dict[str, dict[str, Any]]:
    topics = dataset.get_topics("manual").merge(dataset.get_answers(), on="qid", how="left")
    names = [name for name in topics.columns if name not in ("query", "qhistory")]
    rows = zip(*(topics[name] for name in names), strict=True)
    return {turn["qid"]: turn for turn in (dict(zip(names, row, strict=True)) for row in rows)}
