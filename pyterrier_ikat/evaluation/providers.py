"""What computes the figures: whatever ir_measures finds installed, each provider on one and the same order of the passages.

ir_measures' providers break ties each in its own way: trec_eval's docnos descend, those of ``RR@10`` (MS MARCO's script), ``Judged``
and ``Compat`` ascend, others keep the lines' order. So they get the ranks as scores, from the number of passages down to 1: there
is no tie left to break. A measure of the user's own (:func:`ir_measures.define`) gets the scores, in that same order.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeAlias

import ir_measures
import numpy as np
from ir_measures.providers import Provider

from ..errors import DataError

Judged: TypeAlias = Mapping[str, Mapping[str, int]]
Rankings: TypeAlias = Mapping[str, tuple[Sequence[str], Sequence[float]]]
"""Turn -> its passages, best first, and their scores."""

Figures: TypeAlias = dict[ir_measures.Measure, dict[str, float]]
Calculator: TypeAlias = Callable[[Rankings], Figures]


def provider_of(measure: ir_measures.Measure) -> Provider | None:
    """The first of ir_measures' providers that knows the measure and is installed.

    Example:
        >>> from ir_measures import RR
        >>> provider_of(RR).NAME, provider_of(RR @ 10).NAME
        ('pytrec_eval', 'msmarco')
    """
    providers = ir_measures.DefaultPipeline.providers
    return next((one for one in providers if one.supports(measure) and one.is_available()), None)


def calculators(measures: Sequence[ir_measures.Measure], judged: Judged) -> list[Calculator]:
    """What gives the figures of a run, turn by turn, for all these measures.

    Measures that can share one pass of trec_eval do. Gains of one's own and ``judged_only`` would reach other measures in the same
    pass of ir_measures' provider: such a measure has a pass of its own.
    """
    found: list[Calculator] = []
    together = [one for one in measures if _is_trec_eval(one) and not _is_apart(one)]
    if together:
        found.append(_TrecEval(together, judged))
    for measure in measures:
        if _is_trec_eval(measure) and _is_apart(measure):
            found.append(_TrecEval([measure], judged))
        elif not _is_trec_eval(measure):
            found.append(_Other(measure, judged))
    return found


def _is_trec_eval(measure: ir_measures.Measure) -> bool:
    return provider_of(measure) is ir_measures.pytrec_eval


def _is_apart(measure: ir_measures.Measure) -> bool:
    return bool(measure.params.get("gains") or measure.params.get("judged_only"))


class _TrecEval:
    """Measures of trec_eval, in one pass."""

    def __init__(self, measures: Sequence[ir_measures.Measure], judged: Judged) -> None:
        self.measures, self.turns = measures, list(judged)
        self.evaluator = ir_measures.pytrec_eval.evaluator(measures, {qid: _readable(labels) for qid, labels in judged.items()})

    def __call__(self, run: Rankings) -> Figures:
        found: Figures = {measure: dict.fromkeys(self.turns, float(measure == ir_measures.NumQ)) for measure in self.measures}
        for metric in self.evaluator.iter_calc(_falling(run)):
            if metric.query_id in run:
                found[metric.measure][metric.query_id] = metric.value
        return found


def _readable(labels: Mapping[str, int]) -> Mapping[str, int]:
    """A turn's judgements with one from 0 on: without any, trec_eval reads what the turn before has left, or ends nowhere."""
    return labels if max(labels.values()) >= 0 else {**labels, "a passage of no run": 0}


class _Other:
    """A measure that trec_eval doesn't have."""

    def __init__(self, measure: ir_measures.Measure, judged: Judged) -> None:
        self.measure, self.judged, self.provider = measure, judged, provider_of(measure)

    def __call__(self, run: Rankings) -> Figures:
        assert self.provider is not None  # as_measures refuses other measures
        own = self.provider is ir_measures.runtime
        # Digits alone name the turns: gdeval's script takes off what stands before a hyphen, 9-1_3 and 10-1_3 would be one turn.
        names = {qid: qid if own else str(number) for number, qid in enumerate(self.judged) if qid in run}
        back = {name: qid for qid, name in names.items()}
        given = _scored(run) if own else _falling(run)
        try:
            evaluator = self.provider.evaluator([self.measure], {name: dict(self.judged[qid]) for qid, name in names.items()})
            metrics = list(evaluator.iter_calc({name: given[qid] for qid, name in names.items()})) if names else []
        except Exception as error:
            why = f"{type(error).__name__}: {error}"
            raise DataError(
                f"ir_measures can't compute {self.measure} on this run, its provider {self.provider.NAME} stops with {why}"
            ) from error
        return {self.measure: {back[one.query_id]: one.value for one in metrics if one.query_id in back}}


def _falling(run: Rankings) -> dict[str, dict[str, float]]:
    """Each turn's passages with scores that say their order: the last one has 1."""
    longest = max((len(docnos) for docnos, _ in run.values()), default=0)
    scores = [float(place) for place in range(longest, 0, -1)]
    return {qid: dict(zip(docnos, scores[longest - len(docnos) :], strict=True)) for qid, (docnos, _) in run.items()}


def _scored(run: Rankings) -> dict[str, dict[str, Any]]:
    """Each turn's passages with their scores as trec_eval reads them, which rise nowhere."""
    with np.errstate(over="ignore"):
        return {qid: dict(zip(docnos, np.asarray(scores, dtype=np.float32).tolist(), strict=True)) for qid, (docnos, scores) in run.items()}
