"""Scores of runs as trec_eval gives them: turn by turn, their means, significance, and the table."""

import re
import warnings
from collections.abc import Mapping, Sequence
from typing import Any

import ir_measures
import numpy as np
import pandas as pd

from ..arguments import checked
from ..conversations.frame import starts_of_runs
from ..errors import DataError, UsageError
from ..runs.trec import in_trec_eval_order
from .checks import check_form, check_runs, check_shared, with_text_ids
from .measures import TRACK_2023, as_measures, label
from .providers import Rankings, calculators
from .qrels import check_qrels

RANKING = ("qid", "docno", "score", "rank")


class Scorer:
    """Qrels and measures, ready for any number of runs.

    A run is scored as ``trec_eval -c`` does: its scores as 32-bit floats make the order, ties are ordered by docno (descending),
    ranks don't count, and a turn of the qrels that it lacks has zeros. Measures that ir_measures takes from elsewhere see that
    same order. ir_measures takes a frame row by row, and reads the qrels again for every run; it takes dictionaries as they are.
    So the figures are its own, at about a third of the time.

    Args:
        qrels: ``qid``, ``docno``, ``label``; they alone define the turns.
        measures: what to compute.

    Attributes:
        turns: the qids of the qrels, in their order.

    Raises:
        DataError: when the qrels are not clean.

    Example:
        >>> from ir_measures import nDCG
        >>> scorer = Scorer(pd.DataFrame({"qid": ["1_1", "1_2"], "docno": ["a", "b"], "label": [1, 1]}), [nDCG @ 5])
        >>> run = pd.DataFrame({"qid": ["1_1"], "docno": ["a"], "score": [1.0], "rank": [0]})
        >>> scorer.per_turn(scorer.ranking("one", run)).to_dict()
        {'nDCG@5': {'1_1': 1.0, '1_2': 0.0}}
    """

    def __init__(self, qrels: pd.DataFrame, measures: Sequence[ir_measures.Measure]) -> None:
        judged = check_qrels(qrels)
        self.measures = list(measures)
        by_turn: dict[str, dict[str, int]] = {}
        for qid, docno, grade in zip(judged["qid"].tolist(), judged["docno"].tolist(), judged["label"].tolist(), strict=True):
            by_turn.setdefault(qid, {})[docno] = grade
        self.turns = list(by_turn)
        self._calculators = calculators(self.measures, by_turn)

    def ranking(self, name: str, run: pd.DataFrame) -> pd.DataFrame:
        """The run in the order of :func:`~pyterrier_ikat.runs.trec_eval_order`.

        Raises:
            UsageError: when a column is missing.
            DataError: when the run is not clean, an id is no text, or its turns are named with hyphens.
        """
        missing = [column for column in RANKING if column not in run.columns]
        if missing:
            raise UsageError(
                f"run {name} has no {', '.join(missing)} (it has {', '.join(map(str, run.columns))}): give a ranking, such as "
                "read_run(path) returns; ranks come from pt.model.add_ranks(run)"
            )
        run = with_text_ids(f"run {name}", run)
        check_form(f"run {name}", run["qid"].unique(), self.turns)
        try:
            return in_trec_eval_order(run[list(RANKING)])
        except DataError as error:
            raise DataError(f"run {name}: {error}") from error

    def per_turn(self, ranking: pd.DataFrame) -> pd.DataFrame:
        """A row per turn of the qrels (index ``qid``), a column per measure; a turn that the ranking lacks has zeros.

        Raises:
            DataError: when a measure can't be computed on this run.
        """
        wanted = set(self.turns)
        run: Rankings = {qid: (docnos, scores) for qid, docnos, scores in _turns(ranking) if qid in wanted}
        found = {measure: figures for calculate in self._calculators for measure, figures in calculate(run).items()}
        columns = {label(measure): [found[measure].get(turn, 0.0) for turn in self.turns] for measure in self.measures}
        return pd.DataFrame(columns, index=pd.Index(self.turns, name="qid", dtype=object))


def _turns(ranking: pd.DataFrame) -> list[tuple[str, list[str], list[float]]]:
    """The turns of a ranking, whose rows stand together: each one's qid, docnos and scores."""
    qids, docnos, scores = ranking["qid"].to_numpy(dtype=object), ranking["docno"].tolist(), ranking["score"].tolist()
    starts = starts_of_runs(qids).tolist()
    bounds = zip(starts, [*starts[1:], len(docnos)], strict=False)
    return [(qids[start], docnos[start:end], scores[start:end]) for start, end in bounds]


ALPHA = 0.05


def experiment_table(figures: Mapping[str, pd.DataFrame], measures: Sequence[ir_measures.Measure], baseline: str | None) -> pd.DataFrame:
    """The table of ``pt.Experiment(..., correction="bonferroni")``, from figures that are there already.

    Args:
        figures: name -> a row per turn, a column per measure; see :class:`~pyterrier_ikat.evaluation.scores.Scorer`.
        measures: the measures; each says how it is aggregated (most by the mean, ``NumRet`` by the sum).
        baseline: the system that the others are compared with by a two-sided paired t-test, the p-value times the number
            of comparisons (Bonferroni); without it, or with one system, no p-value is corrected.

    Returns:
        ``name``; per measure its figure and, with a baseline, `` +`` and `` -`` (turns on which the system is better and
        worse), `` p-value``, `` reject`` (at .05) and `` p-value corrected``; ``turns``. A system whose figures are those
        of the baseline on every turn has the p-value NaN.

    Example:
        >>> from ir_measures import nDCG
        >>> one = pd.DataFrame({"nDCG@5": [0.5, 0.25, 0.0]})
        >>> experiment_table({"QR": one, "AD": one + 0.25}, [nDCG @ 5], "QR")[["nDCG@5", "nDCG@5 +", "turns"]].values.tolist()
        [[0.25, nan, 3.0], [0.5, 3.0, 3.0]]
    """
    rows = []
    for name, one in figures.items():
        row: dict[str, Any] = {"name": name}
        for measure in measures:
            column = label(measure)
            row[column] = _aggregated(measure, one[column])
            if baseline is not None:
                against = None if name == baseline else figures[baseline][column].to_numpy()
                row |= _compared(column, one[column].to_numpy(), against, len(figures) - 1)
        rows.append(row | {"turns": len(one)})
    return pd.DataFrame(rows)


def _aggregated(measure: ir_measures.Measure, figures: "pd.Series[Any]") -> float:
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


def evaluate(
    runs: Mapping[str, pd.DataFrame],
    qrels: pd.DataFrame,
    measures: Sequence[ir_measures.Measure | str] = TRACK_2023,
    baseline: str | None = None,
) -> pd.DataFrame:
    """Compare runs as TREC does: the mean over all turns of the qrels, where a turn that a run lacks counts 0.

    The figures are those of ``trec_eval -c``: passages are ordered by score (as 32-bit floats) and ties by docno, both descending;
    ranks don't count. Whatever else ir_measures can compute here gets the same order: one table has one order.

    Args:
        runs: name -> result frame (``qid``, ``docno``, ``score``, ``rank``); turns that are not judged are passed over.
        qrels: ``qid``, ``docno``, ``label``; they alone define the turns.
        measures: ir_measures measures, or their names.
        baseline: the run that the others are compared with, by a two-sided paired t-test with Bonferroni correction.

    Returns:
        PyTerrier's experiment table: one row per run, a column per measure (with its relevance level), with a baseline
        its significance columns, and ``turns``, how many turns the means are over.

    Raises:
        UsageError: when there is no run, they are no frames by name, the baseline is none of them, or one lacks a column.
        DataError: when a run shares no turn with the qrels or names them with hyphens, or run or qrels are not clean.

    Example:
        >>> import pandas as pd
        >>> from ir_measures import nDCG
        >>> run = pd.DataFrame({"qid": ["1_1"], "docno": ["a"], "score": [1.0], "rank": [0]})
        >>> qrels = pd.DataFrame({"qid": ["1_1", "1_2"], "docno": ["a", "b"], "label": [1, 1]})
        >>> evaluate({"one": run}, qrels, [nDCG @ 5])[["name", "nDCG@5", "turns"]].values.tolist()
        [['one', 0.5, 2]]
    """
    check_runs(runs)
    check_baseline(runs, baseline)
    scorer = Scorer(qrels, as_measures(measures))
    figures = {}
    for name, run in runs.items():
        ranking = scorer.ranking(name, run)
        check_shared(f"run {name}", ranking["qid"].unique(), scorer.turns)
        figures[name] = scorer.per_turn(ranking)
    return experiment_table(figures, scorer.measures, baseline)


def check_baseline(runs: Mapping[str, object], baseline: str | None, what: str = "runs") -> None:
    """Whether there are runs, and the baseline is one of them.

    Raises:
        UsageError: when not.
    """
    if not runs:
        raise UsageError("there is no run: give at least one")
    if baseline is not None and baseline not in runs:
        raise UsageError(f"the baseline {baseline!r} is none of the {what}: {', '.join(runs)}")


@checked
def per_turn(run: pd.DataFrame, qrels: pd.DataFrame, measures: Sequence[ir_measures.Measure | str] = TRACK_2023) -> pd.DataFrame:
    """The figures of one run, turn by turn.

    Returns:
        One row per turn of the qrels: ``qid`` and a column per measure; a turn that the run lacks has zeros.

    Raises:
        UsageError: when the run lacks a column.
        DataError: when run or qrels are not clean.

    Example:
        >>> import pandas as pd
        >>> from ir_measures import nDCG
        >>> run = pd.DataFrame({"qid": ["1_1"], "docno": ["a"], "score": [1.0], "rank": [0]})
        >>> qrels = pd.DataFrame({"qid": ["1_1", "1_2"], "docno": ["a", "b"], "label": [1, 1]})
        >>> per_turn(run, qrels, [nDCG @ 5]).values.tolist()
        [['1_1', 1.0], ['1_2', 0.0]]
    """
    check_runs({"to evaluate": run})
    scorer = Scorer(qrels, as_measures(measures))
    return scorer.per_turn(scorer.ranking("to evaluate", run)).reset_index()


def format_table(table: pd.DataFrame, baseline: str | None = None) -> str:
    """An experiment table for the terminal, with significance marks.

    Args:
        table: what :func:`evaluate` returned.
        baseline: the run it was compared with.

    Returns:
        The table: figures to four decimals, ``*`` where a run differs from the baseline (two-sided paired t-test,
        Bonferroni, p < .05), and a line that says what the means are over.
    """
    measures = [name for name in table.columns if name not in ("name", "turns") and not is_derived(name)]
    shown = pd.DataFrame({"system": table["name"]})
    for name in measures:
        marks = _marks(table, name)
        shown[name] = [f"{shown_figure(value)}{mark}" for value, mark in zip(table[name], marks, strict=True)]
    lines = [shown.to_string(index=False), "", f"Mean over {table['turns'].iloc[0]} judged turns; a turn without results counts 0."]
    if baseline is not None and len(table) > 1:
        lines.append(f"* differs from {baseline}: two-sided paired t-test, Bonferroni, p < .05.")
    return "\n".join(lines)


def shown_figure(value: float) -> str:
    """A figure to four decimals, without the zero before the point."""
    return re.sub(r"^(-?)0\.", r"\1.", f"{value:.4f}")


def is_derived(name: str) -> bool:
    """Whether a column of an experiment table compares with the baseline, and is no measure."""
    return name.endswith((" +", " -", " p-value", " reject", " p-value corrected"))


def _marks(table: pd.DataFrame, name: str) -> list[str]:
    rejected = f"{name} reject"
    return [" " if rejected not in table or not value else "*" for value in table.get(rejected, [False] * len(table))]
