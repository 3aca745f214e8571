"""Scores of runs as from trec_eval: their table, for each turn, by conversation and depth, and against a baseline."""

import re
import warnings
from collections.abc import Mapping, Sequence
from typing import Any

import ir_measures
import pandas as pd
from ir_measures import nDCG

from ..arguments import is_missing, one_of
from ..conversations.frame import column, with_text_ids
from ..conversations.qrels import judgements_in
from ..errors import DataError, UsageError, advice, list_first
from ..runs import RunFolder
from .evaluator import (
    TRACK_2023,
    Evaluator,
    OtherTurnsWarning,
    aggregated,
    as_measures,
    check_baseline,
    experiment_rows,
    judgements_by_turn,
    label,
    name_runs,
    oracle_row,
    turn_scores,
    warn_of_other_turns,
)
from .experiment_table import difference_interval, units_of
from .finished_runs import Finished, check_once, folders_in, qrels_of, ranking_of, results_of

GROUPS = {"conversation": "qconversation", "depth": "qturn", "category": "qcategory"}
"""By what the scores of turns are grouped -> the column that says it."""

Measure = ir_measures.Measure | str
Measures = Sequence[Measure] | Measure


def make_evaluator(qrels: pd.DataFrame, measures: Measures) -> Evaluator:
    """The evaluator of runs with these judgements and measures; see :class:`~pyterrier_ikat.evaluation.evaluator.Evaluator`."""
    return Evaluator(judgements_by_turn(judgements_in(qrels)), as_measures(measures))


def evaluate(
    runs: Finished,
    qrels: pd.DataFrame | None = None,
    measures: Sequence[Measure] = TRACK_2023,
    baseline: str | None = None,
    *,
    oracle: bool = False,
    by: str | None = None,
) -> pd.DataFrame:
    """Compare runs like TREC: with the mean over all turns of the qrels. A turn that is missing from a run counts 0.

    The scores are those of ``trec_eval -c``. The order of passages is that of the ranks from the system: tied scores are lowered by the
    smallest step before trec_eval, or another provider of ir_measures, reads them. So a run has the same scores here as in
    :func:`pyterrier_ikat.run` and :func:`pyterrier_ikat.experiment`. In run files, ties are ordered by docno, as in trec_eval.

    Args:
        runs: name -> result frame (``qid``, ``docno``, ``score``, ``rank``), run folder, run file or submission, or a list of such paths;
            turns that are not judged are ignored.
        qrels: ``qid``, ``docno``, ``label``; only they define the turns. Run folders know theirs: the default ones of their dataset, for
            their turns.
        measures: ir_measures measures, or their names.
        baseline: the run with which the others are compared, in a two-sided paired t-test with Bonferroni correction.
        by: the unit of the intervals: ``"turn"``, ``"conversation"`` or ``"topic"``. With it and a baseline, each measure has two more
            columns, `` low`` and `` high``: the interval of the difference (see :func:`~pyterrier_ikat.evaluation.difference_interval`).
        oracle: whether to add a last row with the scores of the best run for each turn, by the first measure. No system can know this run.

    Returns:
        PyTerrier's experiment table: one row per run, a column per measure (with its relevance level), with a baseline its significance
        columns, and ``turns``, over how many turns the means are.

    Raises:
        UsageError: when there is no run, a frame has no name, the baseline is not among the runs, a run lacks a column, or the judgements
            are unknown.
        DataError: when a run shares no turn or no passage with the qrels or names turns with hyphens, or run or qrels are not clean.

    Warns:
        OtherTurnsWarning: when a run has other turns than the qrels, or run folders were made for different turns.

    Example:
        >>> run = pd.DataFrame({"qid": ["1_1"], "docno": ["a"], "score": [1.0], "rank": [0]})
        >>> qrels = pd.DataFrame({"qid": ["1_1", "1_2"], "docno": ["a", "b"], "label": [1, 1]})
        >>> evaluate({"one": run}, qrels, [nDCG @ 5])[["name", "nDCG@5", "turns"]].values.tolist()
        [['one', 0.5, 2]]
    """
    named = name_runs(runs)
    check_baseline(named, baseline)
    if qrels is None:
        if not (folders := folders_in(named)):
            raise UsageError("there are no judgements: give qrels=... Only run folders of a dataset know theirs")
        qrels = qrels_of(folders)
        _warn_of_fewer_turns(folders, qrels)
    evaluator = make_evaluator(qrels, measures)
    rankings = {name: ranking_of(name, results_of(name, run)) for name, run in named.items()}
    scores = turn_scores(rankings.items(), evaluator)
    rows = experiment_rows(scores, evaluator.measures, baseline)
    if by is not None and baseline is not None:
        units = units_of(evaluator.turns, by)
        for row in (row for row in rows if row["name"] != baseline):
            for measure in evaluator.measures:
                name, of_all = label(measure), aggregated(measure, [1.0] * len(units))  # as many as turns for a sum, such as NumRet
                bounds = difference_interval(scores[row["name"]][name], scores[baseline][name], units)
                row[f"{name} low"], row[f"{name} high"] = (bound * of_all for bound in bounds)
    if oracle:
        rows.append(oracle_row(scores, evaluator.measures))
    for name, ranking in rankings.items():
        warn_of_other_turns(f"run {name}", ranking, evaluator.turns)
    return pd.DataFrame(rows)


def _warn_of_fewer_turns(folders: Sequence[RunFolder], qrels: pd.DataFrame) -> None:
    """Warn of folders that were made for fewer of the judged turns than others."""
    made = {folder.path.name: {turn["qid"] for turn in folder.turns()} & set(qrels["qid"]) for folder in folders}
    every = set().union(*made.values())
    if fewer := [f"{name} {len(own)}" for name, own in made.items() if own != every]:
        what = f"the runs were made for different turns (of {len(every)}: {list_first(fewer)}): a turn that a run lacks counts 0"
        warnings.warn(what, OtherTurnsWarning, stacklevel=3)


def per_turn(run: pd.DataFrame, qrels: pd.DataFrame, measures: Sequence[Measure] = TRACK_2023) -> pd.DataFrame:
    """The scores of one run for each turn.

    Returns:
        One row per turn of the qrels: ``qid`` and a column per measure. A turn that is missing from the run has zeros.

    Raises:
        UsageError: when the run lacks a column.
        DataError: when run or qrels are not clean, or share no turn or no passage.

    Example:
        >>> run = pd.DataFrame({"qid": ["1_1"], "docno": ["a"], "score": [1.0], "rank": [0]})
        >>> qrels = pd.DataFrame({"qid": ["1_1", "1_2"], "docno": ["a", "b"], "label": [1, 1]})
        >>> per_turn(run, qrels, [nDCG @ 5]).values.tolist()
        [['1_1', 1.0], ['1_2', 0.0]]
    """
    evaluator, ranking = make_evaluator(qrels, measures), ranking_of("to evaluate", run)
    (scores,) = turn_scores([("to evaluate", ranking)], evaluator).values()
    return pd.DataFrame({"qid": column(evaluator.turns), **scores})


def natural_key(text: str) -> tuple[Any, ...]:
    """A sorting key that puts ``9-1_3`` before ``9-1_12`` and ``10-1_1``.

    Example:
        >>> sorted(["10-1_1", "9-1_12", "9-1_3"], key=natural_key)
        ['9-1_3', '9-1_12', '10-1_1']
    """
    return tuple(int(part) if place % 2 else part for place, part in enumerate(re.split("([0-9]+)", text)))


def breakdown(
    runs: Finished,
    qrels: pd.DataFrame | None = None,
    measure: Measure = nDCG @ 5,
    by: str = "conversation",
    *,
    topics: pd.DataFrame | None = None,
) -> pd.DataFrame:
    """The mean of each conversation, of each depth (turn number), or of each category of questions, for every system.

    Source: Abbasiantaeb and Aliannejadi, Generate then Retrieve, Figures 3 and 4.

    Args:
        runs: runs as :func:`evaluate` takes them, or name -> the scores of a run for each turn: ``qid`` and a column named like the
            measure, as in the result of :func:`per_turn` and in the ``measures.csv`` of a run folder.
        qrels: ``qid``, ``docno``, ``label``; needed for rankings.
        measure: an ir_measures measure or its name.
        by: ``"conversation"``, ``"depth"`` or ``"category"``.
        topics: ``qid``, ``qconversation``, ``qturn``: needed if qids are not ``<conversation>_<turn>`` and no run has these columns for all
            turns. For categories ``qid`` and ``qcategory``, as in ``ikat.dataset("locomo:").get_topics("manual")``.

    Returns:
        One row per conversation, depth or category, in their natural order: that column, one column per system, and ``turns``, over how
        many turns each mean is. A judged turn that is missing from a run counts 0. The columns' name is the measure.
        ``attrs["half_widths"]`` has half
        of the 95 % confidence interval (Student's t) of each mean of two or more turns, by system and by conversation or depth. The
        interval treats turns as independent of each other. The turns of one conversation are not.

    Raises:
        UsageError: for another ``by``, a run named like a column of the table, or a result frame without qrels.
        DataError: when the conversation or category of a turn is unknown, or the runs' scores are not about the same turns.

    Example:
        >>> scores = pd.DataFrame({"qid": ["9-1_1", "9-1_2", "10-1_1"], "nDCG@5": [1.0, 0.5, 0.25]})
        >>> breakdown({"AD": scores}, by="depth").values.tolist()
        [[1.0, 0.625, 2.0], [2.0, 0.5, 1.0]]
    """
    one_of(GROUPS, by=by)
    runs = {name: run if isinstance(run, pd.DataFrame) else results_of(name, run) for name, run in name_runs(runs).items()}
    taken = [name for name in runs if name in (by, "turns")]
    if taken:
        raise UsageError(f"a run is named {taken[0]!r}, as a column of the breakdown: rename it")
    from scipy.stats import t

    scores = scores_by_run(runs, qrels, measure)
    groups = pd.Series(_groups(scores.index, by, [*runs.values(), *([] if topics is None else [topics])]), index=scores.index, name=by)
    grouped = scores.groupby(groups, sort=False)
    widths = grouped.sem().mul(t.ppf(0.975, grouped.size() - 1), axis=0)
    table = grouped.mean().assign(turns=grouped.size())
    table = table.loc[sorted(table.index, key=lambda key: natural_key(str(key)))]
    table.attrs["half_widths"] = {name: widths[name].dropna().to_dict() for name in scores}
    return table.reset_index().rename_axis(columns=label(as_measures(measure)[0]))


def _groups(qids: Sequence[str], by: str, frames: Sequence[pd.DataFrame]) -> list[Any]:
    """The conversation, turn number or category of each qid."""
    known: dict[str, Any] = {}
    for frame in frames:
        if {"qid", GROUPS[by]} <= set(frame.columns):
            known |= {qid: group for qid, group in zip(frame["qid"], frame[GROUPS[by]], strict=True) if not is_missing(group)}
    for qid in (qid for qid in qids if qid not in known):
        conversation, _, turn = qid.rpartition("_")
        if by == "category" or not conversation or not turn.isdecimal():
            which = qid if by == "category" else f"{qid!r}, which is not <conversation>_<turn>"
            python = f'topics=..., a frame with qid and {GROUPS[by]}, such as dataset.get_topics("manual")'
            raise DataError(f"nothing says the {by} of turn {which}: give {advice(python, '--dataset, whose turns these are')}")
        known[qid] = conversation if by == "conversation" else int(turn)
    return [known[qid] for qid in qids]


def scores_by_run(runs: Mapping[str, pd.DataFrame], qrels: pd.DataFrame | None, measure: Measure) -> pd.DataFrame:
    """The scores of several runs side by side: one row per turn (index: qid), one column per run; arguments as for :func:`breakdown`.

    Raises:
        UsageError: when there is no run, or a result frame comes without qrels.
        DataError: when the runs' scores are not about the same turns.
    """
    columns = {name: _scores_of(name, frame, qrels, measure) for name, frame in runs.items()}
    first, turns = next(iter(columns.items()))
    for name, scores in columns.items():
        differing = sorted(set(scores.index) ^ set(turns.index), key=natural_key)
        if differing:
            raise DataError(f"{name} and {first} have scores of different turns ({list_first(differing)}): use the same qrels for both")
    return pd.DataFrame(columns)


def _scores_of(name: str, frame: pd.DataFrame, qrels: pd.DataFrame | None, measure: Measure) -> "pd.Series[Any]":
    wanted = label(as_measures(measure)[0])
    if "docno" in frame.columns:
        if qrels is None:
            raise UsageError(f"{name} is a ranking: give the qrels to judge it with")
        evaluator = make_evaluator(qrels, measure)
        found = turn_scores([(name, ranking_of(name, frame))], evaluator)[name][wanted]
        return pd.Series(found, index=pd.Index(evaluator.turns, name="qid", dtype=object))
    if wanted not in frame.columns or "qid" not in frame.columns:
        raise DataError(f"{name} has no scores {wanted} by qid, only the columns {', '.join(map(str, frame.columns))}")
    frame = with_text_ids(name, frame, ["qid"])
    check_once(f"the scores {wanted} of {name}", frame, ["qid"], "keep one")
    scores = frame.set_index("qid")[wanted].astype(float)
    if scores.isna().any():
        raise DataError(f"{name} has no score {wanted} for turn {scores.index[scores.isna()][0]}: a turn without results counts 0")
    return scores
