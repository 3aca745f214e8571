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
    RankingScores,
    check_turn_names,
    judgements_by_turn,
)
from ..evaluation.score_frame import about_turns
from ..evaluation.scored_turns import Asked, choose_turns
from ..evaluation.units import Clusters, find_clusters
from ..generate.sampled_queries import samples_asked
from ..llms import Ledger
from ..llms.recorded import RecordedBackend, StudyBackend
from ..lost_columns import LostColumns
from ..lost_columns import LostColumnsWarning as LostColumnsWarning  # also exported from here
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
    """Systems on a dataset, all checked before anything is run, with every model loaded.

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
        self.ledger = ledger or Ledger()
        self.dataset = None if data is None else str(data.name)
        self.data = data
        opened = open_systems(systems, self.ledger, **resources)
        check_names((system.name for system in opened), in_memory)
        self._turns: dict[bool, AskedTurns] = {}
        self._warned_of = set[int]()
        for manual in {system.method.manual for system in opened}:
            self._turns[manual] = _asked_turns(data, topics, turns, manual)
        if topics is not None:
            check_turn_names("the topics frame", topics["qid"], judgements["qid"])
        self.asked = set[str]()
        for asked in self._turns.values():
            self.asked.update(asked.ids)
        self.qrels = judgements[judgements["qid"].isin(self.asked)].reset_index(drop=True)
        self._judged_docnos = frozenset(judgements["docno"])
        all_turns = topics is None and turns is None
        self.judged = list(dict.fromkeys((judgements if all_turns else self.qrels)["qid"]))
        self.unasked: list[str] = []
        if topics is not None and turns is None:
            for qid in judgements["qid"].unique():
                if qid not in self.asked:
                    self.unasked.append(qid)
        self._check_stages(opened, only_plan, of_dataset=topics is None)
        if data is not None:
            judged_here = judgements if self.qrels.empty else self.qrels
            for index in indexes_of(opened):
                check_collection(index, data, data.name, judged_here)
        if not only_plan:
            for asked in self._turns.values():
                asked.check_once()
            load_models(opened)
        self.systems = _repeats(opened, repeats)

    def _check_stages(
        self, systems: Sequence[System], only_plan: bool, *, of_dataset: bool
    ) -> None:
        """Check that each system's stages fit its turns, and its recorded models know them."""
        for system in systems:
            if of_dataset or not only_plan:
                columns = system.columns(self.turns_of(system).frame)
                if columns is not None and not only_plan:
                    check_ranking(system.name, columns)
            for model in system.models:
                if isinstance(model.backend, RecordedBackend | StudyBackend):
                    model.backend.check_turns(set(self.turns_of(system).ids))

    def turns_of(self, system: System) -> AskedTurns:
        """Return the turns that a system is run on, with manual rewrites only for a manual run."""
        return self._turns[system.method.manual]

    def lost_columns(self, system: System) -> LostColumns:
        """Return what a system's stages drop of its turns. Each stage gets one warning."""
        turns = self.turns_of(system).frame
        return LostColumns(system.name, system.pipeline, turns, self._warned_of)

    def is_of_judged_collection(self, system: System, ranking: RankingScores) -> bool:
        """Return whether a system may find judged passages.

        It found some, if only some that are judged for another turn, or its index has some. Else
        its scores of 0 would say nothing about it.
        """
        for passages in ranking.values():
            if not self._judged_docnos.isdisjoint(passages):
                return True
        return searches_judged(system, self._judged_docnos)

    def clusters(self, turns: Sequence[str], unit: str | None) -> Clusters:
        """Return the clusters of judged turns in tests and intervals."""
        frames = [asked.frame for asked in self._turns.values()]
        return find_clusters(turns, unit, self.data, frames)

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


def _asked_turns(
    data: IkatDataset | None, topics: pd.DataFrame | None, turns: Turns | None, manual: bool
) -> AskedTurns:
    """The turns that manual systems, or the other ones, are run on."""
    asked = AskedTurns.of_dataset(data, manual) if topics is None else AskedTurns.given(topics)
    if turns is None:
        return asked
    return asked.chosen(turns, "the topics frame" if data is None else data.name)


def _repeats(systems: Sequence[System], repeats: int) -> list[System]:
    """``repeats`` runs of each system that asks an LLM.

    Raises:
        UsageError: when ``repeats`` is below 1, or a system has the name of another system's
            repeat.
    """
    if repeats < 1:
        argument = advice(f"repeats={repeats}", f"--repeats {repeats}")
        raise UsageError(f"{argument}: run each system at least once")
    runs = []
    for system in systems:
        for number in range(1, 1 + (repeats if system.models else 1)):
            runs.append(replace(system, repeat=number))
    names_of_repeats = {run.name for run in runs if run.repeat > 1}
    taken = {system.name for system in systems} & names_of_repeats
    if taken:
        raise UsageError(
            f"a system is named {min(taken)!r}, as a repeat of another one: give it another name"
        )
    if repeats > 1:
        for system in systems:
            _warn_of_equal_repeats(system, repeats)
    return runs


def _warn_of_equal_repeats(system: System, repeats: int) -> None:
    """Warn if the repeats of a system would be or may be the same."""
    if not system.models:
        message = (
            f"system {system.name} asks no LLM, so that every repeat would be the same: it is run "
            "once"
        )
        warnings.warn(message, RepeatsWarning, stacklevel=5)
        return
    asked = samples_asked(system.pipeline)
    reasons = {}
    for model in system.models:
        reason = model.backend.repeats(repeats, asked.get(id(model), {}))
        if reason:
            reasons[model] = reason
    if reasons:
        listed = "; ".join(f"{model!r} has {reason}" for model, reason in reasons.items())
        message = f"repeats of {system.name} may be the same: {listed}"
        warnings.warn(message, RepeatsWarning, stacklevel=5)


def _judgements(data: IkatDataset | None, qrels: QrelsSource | None) -> pd.DataFrame:
    """The judgements of a dataset or a user; without rows if there are none."""
    unjudged = pd.DataFrame({"qid": [], "docno": [], "label": []}, dtype=object)
    if data is None:
        if qrels is None:
            return unjudged
        if isinstance(qrels, pd.DataFrame):
            return check_qrels(qrels)
        return read_qrels(str(qrels))
    if is_variant(qrels, data) and str(qrels).startswith(STATEMENTS):
        raise UsageError(
            f"the qrels {qrels} of {data.name} judge PTKB statements, and this is a run of "
            f"passages: give {option('qrels')}"
        )
    try:
        return find_qrels(qrels, data)
    except DataError as error:
        if qrels is not None:
            raise
        # a track publishes judgements after the runs
        message = f"there will be no scores: {error}"
        warnings.warn(message, NotJudgedWarning, stacklevel=4)
        return unjudged
