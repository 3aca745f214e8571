"""The figures of rankings, turn by turn, and their table, in plain Python: a command that reads files needs no frame.

Whatever ir_measures finds installed computes them. Its providers break ties each in its own way: trec_eval's docnos descend, those of
``RR@10`` (MS MARCO's script), ``Judged`` and ``Compat`` ascend, others keep the lines' order. So all but trec_eval get the ranks of its
order as scores, from the number of passages down to 1: there is no tie left to break. A measure of the user's own
(:func:`ir_measures.define`) gets the scores, in that same order.
"""

import re
import warnings
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, TypeAlias

import ir_measures
import numpy as np

from ..errors import DataError, UsageError
from .checks import check_form, check_shared
from .measures import label, provider_of

Judged: TypeAlias = Mapping[str, Mapping[str, int]]
Ranking: TypeAlias = Mapping[str, Mapping[str, float]]
"""Turn -> its passages' scores, in any order."""

Figures: TypeAlias = dict[ir_measures.Measure, dict[str, float]]
Rows: TypeAlias = list[dict[str, Any]]
Calculator: TypeAlias = Callable[[Ranking], Figures]


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

    def __call__(self, run: Ranking) -> Figures:
        found: Figures = {measure: dict.fromkeys(self.turns, float(measure == ir_measures.NumQ)) for measure in self.measures}
        for metric in self.evaluator.iter_calc(dict(run)):
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

    def __call__(self, run: Ranking) -> Figures:
        assert self.provider is not None  # as_measures refuses other measures
        own = self.provider is ir_measures.runtime
        # Digits alone name the turns: gdeval's script takes off what stands before a hyphen, 9-1_3 and 10-1_3 would be one turn.
        names = {qid: qid if own else str(number) for number, qid in enumerate(self.judged) if qid in run}
        back = {name: qid for qid, name in names.items()}
        given = {qid: _in_order(run[qid]) if own else _falling(_in_order(run[qid])) for qid in names}
        try:
            evaluator = self.provider.evaluator([self.measure], {name: dict(self.judged[qid]) for qid, name in names.items()})
            metrics = list(evaluator.iter_calc({name: given[qid] for qid, name in names.items()})) if names else []
        except Exception as error:
            why = f"{type(error).__name__}: {error}"
            raise DataError(
                f"ir_measures can't compute {self.measure} on this run, its provider {self.provider.NAME} stops with {why}"
            ) from error
        return {self.measure: {back[one.query_id]: one.value for one in metrics if one.query_id in back}}


def _in_order(scores: Mapping[str, float]) -> dict[str, float]:
    """A turn's passages as trec_eval orders them: by 32-bit score, then by docno, both descending."""
    with np.errstate(over="ignore"):  # what is beyond 32 bits is infinite, and ties
        single = np.fromiter(scores.values(), dtype=np.float64, count=len(scores)).astype(np.float32)
    pairs = zip(single.tolist(), scores, strict=True)
    falls = bool((single[1:] < single[:-1]).all())
    return {docno: score for score, docno in (pairs if falls else sorted(pairs, reverse=True))}


def _falling(docnos: Mapping[str, float]) -> dict[str, float]:
    """The passages with scores that say their order: the last one has 1."""
    return dict(zip(docnos, map(float, range(len(docnos), 0, -1)), strict=True))


def by_turn(rows: Iterable[tuple[str, str, int]]) -> dict[str, dict[str, int]]:
    """The labels of each turn's passages.

    Example:
        >>> by_turn([("1_1", "a", 2), ("1_1", "b", 0)])
        {'1_1': {'a': 2, 'b': 0}}
    """
    found: dict[str, dict[str, int]] = {}
    for qid, docno, grade in rows:
        found.setdefault(qid, {})[docno] = grade
    return found


class Evaluator:
    """Judgements and measures, ready for any number of rankings.

    Example:
        >>> from ir_measures import nDCG
        >>> Evaluator({"1_1": {"a": 1}, "1_2": {"b": 1}}, [nDCG @ 5]).per_turn({"1_1": {"a": 1.0}})
        {'nDCG@5': [1.0, 0.0]}
    """

    def __init__(self, judged: Judged, measures: Sequence[ir_measures.Measure]) -> None:
        self.measures, self.turns = list(measures), list(judged)
        self._calculators = calculators(self.measures, judged)

    def per_turn(self, ranking: Ranking) -> dict[str, list[float]]:
        """Measure -> a figure for each turn of the judgements; a turn that the ranking lacks has zeros.

        Raises:
            DataError: when a measure can't be computed on this ranking.
        """
        run = {qid: ranking[qid] for qid in self.turns if qid in ranking}
        found = {measure: figures for calculate in self._calculators for measure, figures in calculate(run).items()}
        return {label(measure): [found[measure].get(turn, 0.0) for turn in self.turns] for measure in self.measures}


def compare(rankings: Mapping[str, Ranking], judged: Judged, measures: Sequence[ir_measures.Measure], baseline: str | None) -> Rows:
    """The rows of :func:`~pyterrier_ikat.evaluation.evaluate`'s table, for rankings whose passages and scores were checked.

    Raises:
        UsageError: when there is no ranking, or the baseline is none of them.
        DataError: when one shares no turn with the judgements or names them with hyphens.
    """
    check_baseline(rankings, baseline)
    evaluator = Evaluator(judged, measures)
    for name, ranking in rankings.items():
        check_form(f"run {name}", ranking, evaluator.turns)
        check_shared(f"run {name}", ranking, evaluator.turns)
    return experiment_rows({name: evaluator.per_turn(ranking) for name, ranking in rankings.items()}, measures, baseline)


ALPHA = 0.05


def experiment_rows(figures: Mapping[str, Any], measures: Sequence[ir_measures.Measure], baseline: str | None) -> Rows:
    """The rows of :func:`~pyterrier_ikat.evaluation.scores.experiment_table`; figures are by name, then by measure."""
    rows = []
    for name, one in figures.items():
        row: dict[str, Any] = {"name": name}
        for measure in measures:
            column = label(measure)
            row[column] = _aggregated(measure, one[column])
            if baseline is not None:
                against = None if name == baseline else np.asarray(figures[baseline][column])
                row |= _compared(column, np.asarray(one[column]), against, len(figures) - 1)
        rows.append(row | {"turns": len(one[label(measures[0])])})
    return rows


def _aggregated(measure: ir_measures.Measure, figures: Iterable[float]) -> float:
    aggregator = measure.aggregator()
    for figure in figures:
        aggregator.add(figure)
    return float(aggregator.result())


def _compared(column: str, ours: Any, theirs: Any, comparisons: int) -> dict[str, Any]:
    if theirs is None:
        better, worse, p = None, None, float("nan")
    else:
        better, worse, p = int((ours > theirs).sum()), int((ours < theirs).sum()), _p_value(ours, theirs)
    shown: dict[str, Any] = {f"{column} +": better, f"{column} -": worse, f"{column} p-value": p}
    if comparisons:
        shown |= {
            f"{column} reject": bool(p <= ALPHA / comparisons),
            f"{column} p-value corrected": float(np.minimum(1.0, p * comparisons)),
        }
    return shown


def _p_value(ours: Any, theirs: Any) -> float:
    from scipy.stats import ttest_rel

    with warnings.catch_warnings():
        warnings.simplefilter("ignore", RuntimeWarning)  # differences all alike, or a single turn: the p-value says so by being NaN or 0
        return float(ttest_rel(ours, theirs).pvalue)


def check_baseline(runs: Mapping[str, object], baseline: str | None, what: str = "runs") -> None:
    """Whether there are runs, and the baseline is one of them.

    Raises:
        UsageError: when not.
    """
    if not runs:
        raise UsageError("there is no run: give at least one")
    if baseline is not None and baseline not in runs:
        raise UsageError(f"the baseline {baseline!r} is none of the {what}: {', '.join(runs)}")


def text_table(rows: Rows, baseline: str | None = None) -> str:
    """The rows as :func:`~pyterrier_ikat.evaluation.format_table` prints them."""
    columns = [["system", *(str(row["name"]) for row in rows)]]
    for name in (name for name in rows[0] if name not in ("name", "turns") and not is_derived(name)):
        columns.append([name, *(shown_figure(row[name]) + _mark(rows, row, name) for row in rows)])
    widths = [max(map(len, column)) for column in columns]
    lines = [" ".join(map(str.rjust, line, widths)) for line in zip(*columns, strict=True)]
    lines += ["", f"Mean over {rows[0]['turns']} judged turns; a turn without results counts 0."]
    if baseline is not None and len(rows) > 1:
        lines.append(f"* differs from {baseline}: two-sided paired t-test, Bonferroni, p < .05.")
    return "\n".join(lines)


def _mark(rows: Rows, row: Mapping[str, Any], name: str) -> str:
    return "*" if row.get(f"{name} reject") else " "


def shown_figure(value: float) -> str:
    """A figure to four decimals, without the zero before the point."""
    return re.sub(r"^(-?)0\.", r"\1.", f"{value:.4f}")


def is_derived(name: str) -> bool:
    """Whether a column of an experiment table compares with the baseline, and is no measure."""
    return name.endswith((" +", " -", " p-value", " reject", " p-value corrected"))
