"""Systems, their turns and the judgements, all checked before anything is paid for."""

import warnings
from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from functools import cached_property
from pathlib import Path
from typing import Any

import pandas as pd

from ..conversations import dataset as dataset_named
from ..conversations.datasets import IkatDataset, QrelsSource, Turns, find_qrels, is_variant
from ..conversations.ikat_dataset import STATEMENTS
from ..conversations.qrels import check_qrels, read_qrels
from ..errors import DataError, UsageError, advice, option
from ..evaluation.evaluator import (
    NotJudgedWarning,
    Ranking,
    check_turn_names,
    judgements_by_turn,
)
from ..evaluation.score_frame import about_turns
from ..evaluation.scored_turns import Asked, choose_turns
from ..evaluation.units import Clusters, find_clusters
from ..generate.sampled_queries import samples_asked
from ..llms import Ledger
from ..llms.recorded import RecordedBackend, StudyBackend
from .systems import (
    System,
    Systems,
    check_collection,
    check_names,
    check_ranking,
    indexes_of,
    load_models,
    open_systems,
    searches_judged,
)
from .turns import AskedTurns


class RepeatsWarning(UserWarning):
    """The runs of a system that is run several times may be the same."""


class Study:
    """Systems on a dataset, all checked before anything is run: every name and resource is known, and every model is loaded.

    Args:
        systems: as for :func:`pyterrier_ikat.run`.
        dataset: an iKAT dataset or its name.
        topics: the turns, instead of the dataset's.
        qrels: the judgements: a frame, the name of a variant of the dataset's, or a TREC qrels
            file.
        turns: only these turns.
        repeats: the number of runs of each system that asks an LLM.
        ledger: the ledger of the LLMs that are given as text.
        only_plan: whether nothing will be run. Then no model is loaded, and a system need not end
            in a ranking.
        in_memory: whether the systems get no folders, so that their names may be any text.
        **resources: see :class:`~pyterrier_ikat.study.Resources`.

    Attributes:
        systems: the systems, with each repeat as a separate system.
        qrels: the judgements of their turns; empty if none is judged.
        judged: the judged turns, without those that the user didn't choose.
        asked: the turns that systems are run on.
        unasked: judged turns missing from the given topics.
        dataset: the dataset's own name. A dataset may have several, such as sample and ikat:sample.
        data: the dataset; None if there are only topics.
        ledger: the ledger.

    Raises:
        UsageError: for an unknown option, turn or variant, a missing or unused resource, a model
            that can't be loaded, or a system that fails on the topics or doesn't make a ranking.
        DataError: for an index or recorded file that can't be used, or a duplicate turn.
    """

    def __init__(
        self,
        systems: Systems,
        dataset: IkatDataset | str | Path | None = None,
        *,
        topics: pd.DataFrame | None = None,
        qrels: QrelsSource | None = None,
        turns: Turns | None = None,
        repeats: int = 1,
        ledger: Ledger | None = None,
        only_plan: bool = False,
        in_memory: bool = False,
        **resources: Any,
    ) -> None:
        if dataset is None and topics is None:
            raise UsageError(
                'there is nothing to run on: give a dataset such as "ikat:sample", or topics=...'
            )
        data: Any = None if dataset is None else dataset_named(dataset)
        judgements = _judgements(data, qrels)
        self.ledger, self.dataset, self.data = (
            ledger or Ledger(),
            None if data is None else str(data.name),
            data,
        )
        opened = open_systems(systems, self.ledger, **resources)
        check_names((one.name for one in opened), in_memory)
        self._turns: dict[bool, AskedTurns] = {}
        for manual in {one.method.manual for one in opened}:
            found = (
                AskedTurns.of_dataset(data, manual) if topics is None else AskedTurns.given(topics)
            )
            if turns is not None:
                found = found.chosen(turns, "the topics frame" if data is None else data.name)
            self._turns[manual] = found
        if topics is not None:
            check_turn_names("the topics frame", topics["qid"], judgements["qid"])
        self.asked = {qid for found in self._turns.values() for qid in found.ids}
        here = judgements[judgements["qid"].isin(self.asked)].reset_index(drop=True)
        self.qrels = here
        self._judged_docnos = frozenset(judgements["docno"])
        self.judged = list(
            dict.fromkeys((judgements if topics is None and turns is None else here)["qid"])
        )
        self.unasked = (
            []
            if topics is None or turns is not None
            else [qid for qid in judgements["qid"].unique() if qid not in self.asked]
        )
        for one in opened:
            columns = (
                one.columns(self.turns_of(one).frame) if topics is None or not only_plan else None
            )
            if columns is not None and not only_plan:
                check_ranking(one.name, columns)
            for model in one.models:
                if isinstance(model.backend, RecordedBackend | StudyBackend):
                    model.backend.check_turns(set(self.turns_of(one).ids))
        if data is not None:
            for index in indexes_of(opened):
                check_collection(index, data, data.name, judgements if here.empty else here)
        if not only_plan:
            for found in self._turns.values():
                found.check_once()
            load_models(opened)
        self.systems = _repeats(opened, repeats)

    def turns_of(self, system: System) -> AskedTurns:
        """The turns that a system is run on. They have the manual rewrites only for a manual run."""
        return self._turns[system.method.manual]

    def is_of_judged_collection(self, system: System, ranking: Ranking) -> bool:
        """Whether a system may find judged passages: it found some, be they judged for a turn that isn't asked, or its index has some.

        Else its scores of 0 would say nothing about it.
        """
        if any(docno in self._judged_docnos for passages in ranking.values() for docno in passages):
            return True
        return searches_judged(system, self._judged_docnos)

    def clusters(self, turns: Sequence[str], unit: str | None) -> Clusters:
        """The clusters of judged turns in tests and intervals."""
        return find_clusters(
            turns, unit, self.data, [asked.frame for asked in self._turns.values()]
        )

    def about_turns(
        self, scores: pd.DataFrame, found: Mapping[str, Collection[str]]
    ) -> pd.DataFrame:
        """The scores with sentences on their turns.

        Args:
            scores: the scores.
            found: run -> the turns for which it has passages.
        """
        scored = choose_turns(self.judged, dict.fromkeys(found, Asked(self.asked)))
        return about_turns(scores, scored.sentences(found))

    @cached_property
    def labels(self) -> dict[str, dict[str, int]]:
        """The judgements: turn -> passage -> label."""
        return judgements_by_turn(
            self.qrels[["qid", "docno", "label"]].itertuples(index=False, name=None)
        )


def _repeats(systems: Sequence[System], repeats: int) -> list[System]:
    """``repeats`` runs of each system that asks an LLM.

    Raises:
        UsageError: when ``repeats`` is below 1, or a system has the name of another system's
            repeat.
    """
    if repeats < 1:
        raise UsageError(
            f"{advice(f'repeats={repeats}', f'--repeats {repeats}')}: run each system at least once"
        )
    found = [
        replace(one, repeat=number)
        for one in systems
        for number in range(1, 1 + (repeats if one.models else 1))
    ]
    if taken := {one.name for one in systems} & {one.name for one in found if one.repeat > 1}:
        raise UsageError(
            f"a system is named {min(taken)!r}, as a repeat of another one: give it another name"
        )
    for one in systems if repeats > 1 else ():
        asked = samples_asked(one.pipeline)
        reasons = {
            model: why
            for model in one.models
            if (why := model.backend.repeats(repeats, asked.get(id(model), {})))
        }
        told = f"repeats of {one.name} may be the same: {'; '.join(f'{model!r} has {why}' for model, why in reasons.items())}"
        if not one.models:
            told = f"system {one.name} asks no LLM, so that every repeat would be the same: it is run once"
        if reasons or not one.models:
            warnings.warn(told, RepeatsWarning, stacklevel=4)
    return found


def _judgements(data: Any, qrels: QrelsSource | None) -> pd.DataFrame:
    unjudged = pd.DataFrame({"qid": [], "docno": [], "label": []}, dtype=object)
    if data is None:
        return (
            unjudged
            if qrels is None
            else check_qrels(qrels)
            if isinstance(qrels, pd.DataFrame)
            else read_qrels(str(qrels))
        )
    if is_variant(qrels, data) and str(qrels).startswith(STATEMENTS):
        raise UsageError(
            f"the qrels {qrels} of {data.name} judge PTKB statements, and this is a run of passages: give {option('qrels')}"
        )
    try:
        return find_qrels(qrels, data)
    except DataError as error:
        if qrels is not None:
            raise
        warnings.warn(
            f"there will be no scores: {error}", NotJudgedWarning, stacklevel=4
        )  # a track publishes judgements after the runs
        return unjudged
