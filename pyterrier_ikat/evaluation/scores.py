"""Scores of runs as from trec_eval: means, by turn, by conversation and depth, in pairs."""

import math
import re
import warnings
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import ir_measures
import pandas as pd
from ir_measures import nDCG

from ..arguments import is_missing, one_of
from ..conversations.datasets import IkatDataset, Turns, find_qrels, of_turns
from ..conversations.datasets import dataset as dataset_named
from ..conversations.frame import column, with_text_ids
from ..conversations.qrels import judgements_in
from ..errors import DataError, UsageError, advice, list_first
from .evaluator import (
    TRACK_2023,
    Evaluator,
    NotTestedWarning,
    RankingScores,
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
from .experiment_table import pairs_that_differ
from .finished_runs import (
    Finished,
    RunSource,
    check_once,
    folders_in,
    known_dataset,
    qrels_of,
    ranking_frame,
    ranking_of,
    results_to_score,
)
from .inference import interval_of_mean
from .score_frame import about_turns
from .scored_turns import ScoredTurns, scored_judgements
from .units import Clusters, check_unit, find_clusters

GROUP_COLUMNS = {"conversation": "qconversation", "depth": "qturn", "category": "qcategory"}
"""By what the scores of turns are grouped -> the column that says it."""

Measure = ir_measures.Measure | str
Measures = Sequence[Measure] | Measure


def make_evaluator(qrels: pd.DataFrame, measures: Measures) -> Evaluator:
    """The evaluator of runs with these judgements and measures."""
    return Evaluator(judgements_by_turn(judgements_in(qrels)), as_measures(measures))


def evaluate(
    runs: Finished,
    qrels: pd.DataFrame | None = None,
    measures: Sequence[Measure] = TRACK_2023,
    baseline: str | None = None,
    *,
    oracle: bool = False,
    unit: str | None = None,
    dataset: IkatDataset | str | Path | None = None,
    turns: Turns | None = None,
) -> pd.DataFrame:
    """Compare runs as TREC does: by the mean over all turns of the qrels.

    A turn that is missing from a run counts 0.

    A run folder knows the turns that it was asked: only these are scored. Of several folders, these
    are the turns that all of them were asked; of a run that is not finished, those of its finished
    batches. Frames and files don't know their turns. The lines below the table say which turns the
    means are over, and how many of them a run lacks.

    The scores are those of ``trec_eval -c``. The order of passages is that of the ranks from the
    system: tied scores are lowered by the smallest step before trec_eval, or another provider of
    ir_measures, reads them. So a run has the same scores here as in :func:`pyterrier_ikat.run` and
    :func:`pyterrier_ikat.experiment`. In run files, ties are ordered by docno, as in trec_eval.

    Args:
        runs: name -> result frame (``qid``, ``docno``, ``score``, ``rank``), run folder, run file
            or submission, or a list of such paths; turns that are not judged are ignored.
        qrels: ``qid``, ``docno``, ``label``. Run folders know theirs, the default ones of their
            dataset, and so does ``dataset``.
        measures: ir_measures measures, or their names.
        baseline: the run with which the others are compared, in a two-sided paired t-test that is
            robust to clusters of turns, with Bonferroni correction. The test and the 95 % interval
            are from one t-distribution, see :func:`~pyterrier_ikat.evaluation.compare`.
        oracle: whether to add a last row with the scores of the best run for each turn, by the
            first measure. No system can know this run.
        unit: what a cluster is: ``"conversation"``, ``"topic"``, ``"user"``, or ``"turn"`` for
            independent turns, as in ``pt.Experiment``. By default the unit that the dataset
            declares; without a dataset, the conversation of ``qconversation`` or of the ids
            ``<conversation>_<turn>``, else the turn. With fewer than five clusters no difference
            counts as significant.
        dataset: the dataset of the turns. By default the one that the run folders name.
        turns: the turns to score, all of them judged: a list of ids, or the path of a file with one
            id per line.

    Returns:
        PyTerrier's experiment table: one row per run, a column per measure (with its relevance
        level), ``turns``, over how many turns the means are, and with a baseline its significance
        columns, for each measure `` low`` and `` high``, the interval of the difference, and
        ``unit``, ``clusters`` (their number) and ``unit_from`` (how the unit is known if no dataset
        declares it). ``attrs["turns"]`` has the sentences about the turns.

    Raises:
        UsageError: when there is no run, a frame has no name, the baseline is not among the runs, a
            run lacks a column, or the judgements are unknown.
        DataError: when a run shares no turn with the qrels, its turns or docnos have another form,
            folders have no common turn, or run or qrels are not clean.

    Warns:
        OtherTurnsWarning: when a frame or file has other turns than the qrels.
        NotJudgedWarning: when no passage of a run is judged.
        NotTestedWarning: when a run found nothing for any judged turn. It has no p-value.

    Example:
        >>> run = pd.DataFrame({"qid": ["1_1"], "docno": ["a"], "score": [1.0], "rank": [0]})
        >>> qrels = pd.DataFrame({"qid": ["1_1", "1_2"], "docno": ["a", "b"], "label": [1, 1]})
        >>> evaluate({"one": run}, qrels, [nDCG @ 5])[["name", "nDCG@5", "turns"]].values.tolist()
        [['one', 0.5, 2]]
    """
    named = name_runs(runs)
    check_baseline(named, baseline)
    check_unit(unit, baseline)
    all_judged = judgements_by_turn(judgements_in(_judgements(named, qrels, dataset)))
    judged, scored = scored_judgements(named, all_judged, turns)
    evaluator = Evaluator(judged, as_measures(measures))
    results = {name: results_to_score(name, run) for name, run in named.items()}
    rankings = {name: ranking_of(name, frame) for name, frame in results.items()}
    scores = turn_scores(rankings.items(), evaluator)
    clusters = None
    silent: list[str] = []
    if baseline is not None:
        data = known_dataset(named, dataset)
        clusters = find_clusters(evaluator.turns, unit, data, results.values())
        silent = find_silent(rankings, evaluator.turns)
    rows = experiment_rows(scores, evaluator.measures, baseline, clusters, silent=silent)
    if oracle:
        rows.append(oracle_row(scores, evaluator.measures))
    if turns is None:
        for name in scored.strangers:
            # Judged turns that were left out, because a folder wasn't asked them, aren't foreign.
            of_run = [qid for qid in rankings[name] if qid in judged or qid not in all_judged]
            warn_of_other_turns(f"run {name}", of_run, evaluator.turns)
    return about_turns(pd.DataFrame(rows), scored.sentences(rankings))


def _judgements(
    named: Mapping[str, RunSource],
    qrels: pd.DataFrame | None,
    dataset: IkatDataset | str | Path | None,
) -> pd.DataFrame:
    """The given judgements, else the default ones of the given dataset or of the run folders.

    Raises:
        UsageError: when there are none.
    """
    if qrels is not None:
        return qrels
    folders = folders_in(named)
    if folders:
        return qrels_of(folders)
    if dataset is None:
        raise UsageError(
            "there are no judgements: give qrels=... Only run folders of a dataset know theirs"
        )
    return find_qrels(None, dataset_named(dataset))


def find_silent(rankings: Mapping[str, RankingScores], turns: Sequence[str]) -> list[str]:
    """The systems that found nothing for any of the turns, as if they had never run.

    Warns:
        NotTestedWarning: when there are such systems.
    """
    silent = []
    for name, ranking in rankings.items():
        if not any(ranking.get(qid) for qid in turns):
            silent.append(name)
    if silent:
        warnings.warn(
            f"{list_first(silent)} found nothing for any judged turn: every score is 0, "
            "and no difference is tested",
            NotTestedWarning,
            stacklevel=3,
        )
    return silent


def per_turn(
    run: pd.DataFrame, qrels: pd.DataFrame, measures: Sequence[Measure] = TRACK_2023
) -> pd.DataFrame:
    """The scores of one run for each turn.

    Returns:
        One row per turn of the qrels: ``qid`` and a column per measure. A turn that is missing from
        the run has zeros.

    Raises:
        UsageError: when the run lacks a column.
        DataError: when run or qrels are not clean, share no turn, or have docnos of different
            forms.

    Warns:
        NotJudgedWarning: when no passage of the run is judged. Each score is 0.

    Example:
        >>> run = pd.DataFrame({"qid": ["1_1"], "docno": ["a"], "score": [1.0], "rank": [0]})
        >>> qrels = pd.DataFrame({"qid": ["1_1", "1_2"], "docno": ["a", "b"], "label": [1, 1]})
        >>> per_turn(run, qrels, [nDCG @ 5]).values.tolist()
        [['1_1', 1.0], ['1_2', 0.0]]
    """
    evaluator = make_evaluator(qrels, measures)
    ranking = ranking_of("to evaluate", run)
    [scores] = turn_scores([("to evaluate", ranking)], evaluator).values()
    return pd.DataFrame({"qid": column(evaluator.turns), **scores})


def natural_key(text: str) -> tuple[Any, ...]:
    """A sorting key that puts ``9-1_3`` before ``9-1_12`` and ``10-1_1``.

    Example:
        >>> sorted(["10-1_1", "9-1_12", "9-1_3"], key=natural_key)
        ['9-1_3', '9-1_12', '10-1_1']
    """
    key: list[Any] = re.split("([0-9]+)", text)  # text and digits in turn
    for number in range(1, len(key), 2):
        key[number] = int(key[number])
    return tuple(key)


def breakdown(
    runs: Finished,
    qrels: pd.DataFrame | None = None,
    measure: Measure = nDCG @ 5,
    by: str = "conversation",
    *,
    topics: pd.DataFrame | None = None,
    unit: str | None = None,
    dataset: IkatDataset | str | Path | None = None,
    turns: Turns | None = None,
) -> pd.DataFrame:
    """The mean of each conversation, depth (turn number) or category, for every system.

    Source: Abbasiantaeb and Aliannejadi, Generate then Retrieve, Figures 3 and 4.

    Args:
        runs: runs as :func:`evaluate` takes them, or name -> the scores of a run for each turn:
            ``qid`` and a column named like the measure, as in the result of :func:`per_turn` and in
            the ``measures.csv`` of a run folder.
        qrels: ``qid``, ``docno``, ``label``; needed for rankings where :func:`evaluate` needs them.
        measure: an ir_measures measure or its name.
        by: ``"conversation"``, ``"depth"`` or ``"category"``.
        topics: ``qid``, ``qconversation``, ``qturn``: needed if qids are not
            ``<conversation>_<turn>`` and no run has these columns for all turns. For categories
            ``qid`` and ``qcategory``, as in ``ikat.dataset("locomo:").get_topics("manual")``.
        unit: what the clusters of turns are, as for :func:`evaluate`.
        dataset: the dataset of the turns. By default the one that the run folders name.
        turns: the turns to score, all of them judged; by default those of :func:`evaluate`.

    Returns:
        One row per conversation, depth or category, in their natural order: that column, one column
        per system, and ``turns``, over how many turns each mean is. A judged turn that is missing
        from a run counts 0. The columns' name is the measure. ``attrs["turns"]`` has the sentences
        about the turns. ``attrs["half_widths"]`` has half of the 95 % confidence interval of each
        mean over two or more clusters, by system and by conversation, depth or category. It is
        robust to clusters of turns, like those of :func:`evaluate`. ``attrs["unit"]`` is what a
        cluster is.

    Raises:
        UsageError: for another ``by``, a run named like a column of the table, or a result frame
            without qrels.
        DataError: when the conversation or category of a turn is unknown, a run has no scores, or
            the runs' scores are not about the same turns.

    Example:
        >>> scores = pd.DataFrame({"qid": ["9-1_1", "9-1_2", "10-1_1"], "nDCG@5": [1.0, 0.5, 0.25]})
        >>> breakdown({"AD": scores}, by="depth").values.tolist()
        [[1.0, 0.625, 2.0], [2.0, 0.5, 1.0]]
    """
    one_of(GROUP_COLUMNS, by=by)
    named = name_runs(runs)
    frames = _frames_of(named, turns)
    for name in (by, "turns"):
        if name in named:
            raise UsageError(f"a run is named {name!r}, as a column of the breakdown: rename it")
    sentences: list[str] = []
    ranked = [name for name, frame in frames.items() if "docno" in frame.columns]
    if ranked:
        all_judged = _judgements(named, qrels, dataset)
        qrels, scored = _of_scored_turns({name: named[name] for name in ranked}, all_judged, turns)
        turns_of = {name: set(ranking_frame(name, frames[name])["qid"]) for name in ranked}
        sentences = scored.sentences(turns_of)
    scores = scores_by_run(frames, qrels, measure)
    described = list(frames.values())
    if topics is not None:
        described.append(topics)
    groups = pd.Series(_groups(scores.index, by, described), index=scores.index, name=by)
    grouped = scores.groupby(groups, sort=False)
    table = grouped.mean().assign(turns=grouped.size())
    table = table.loc[sorted(table.index, key=lambda group: natural_key(str(group)))]
    clusters = find_clusters(scores.index, unit, known_dataset(named, dataset), described)
    table.attrs["half_widths"] = _half_widths(scores, groups, clusters)
    table.attrs["unit"] = clusters.unit
    table = table.reset_index().rename_axis(columns=label(as_measures(measure)[0]))
    return about_turns(table, sentences)


def _frames_of(named: Mapping[str, RunSource], turns: Turns | None) -> dict[str, pd.DataFrame]:
    """The frame of each run; one of scores has only the chosen turns."""
    frames = {}
    for name, run in named.items():
        frame = results_to_score(name, run)
        if turns is not None and "docno" not in frame.columns and "qid" in frame.columns:
            frame = of_turns(with_text_ids(name, frame, ["qid"]), turns, f"the scores of {name}")
        frames[name] = frame
    return frames


def _of_scored_turns(
    runs: Mapping[str, RunSource], qrels: pd.DataFrame, turns: Turns | None
) -> tuple[pd.DataFrame, ScoredTurns]:
    """The judgements of the turns that runs are scored on, as a frame, and what these turns are."""
    all_judged = judgements_by_turn(judgements_in(qrels))
    judged, scored = scored_judgements(runs, all_judged, turns)
    return qrels[qrels["qid"].isin(judged)], scored


def _half_widths(
    scores: pd.DataFrame, groups: "pd.Series[Any]", clusters: Clusters
) -> dict[str, dict[Any, float]]:
    """Half of the interval of each mean: system -> group. Groups without one are missing."""
    cluster_of = pd.Series(list(clusters.names), index=scores.index)
    half_widths: dict[str, dict[Any, float]] = {}
    for name in scores:
        of_system: dict[Any, float] = {}
        for group, in_group in scores[name].groupby(groups, sort=False):
            mean = interval_of_mean(in_group.tolist(), cluster_of[in_group.index].tolist())
            if not math.isnan(mean.high):
                of_system[group] = mean.high - mean.mean
        half_widths[str(name)] = of_system
    return half_widths


def _groups(qids: Sequence[str], by: str, frames: Sequence[pd.DataFrame]) -> list[Any]:
    """The conversation, turn number or category of each qid."""
    group_of: dict[str, Any] = {}
    for frame in frames:
        if {"qid", GROUP_COLUMNS[by]} <= set(frame.columns):
            for qid, group in zip(frame["qid"], frame[GROUP_COLUMNS[by]], strict=True):
                if not is_missing(group):
                    group_of[qid] = group
    return [group_of[qid] if qid in group_of else _group_from_id(qid, by) for qid in qids]


def _group_from_id(qid: str, by: str) -> Any:
    """The conversation or turn number in an id."""
    conversation, _, number = qid.rpartition("_")
    if by != "category" and conversation and number.isdecimal():
        return conversation if by == "conversation" else int(number)
    which = qid
    if by != "category":
        which = f"{qid!r}, which is not <conversation>_<turn>"
    frame = f"a frame with qid and {GROUP_COLUMNS[by]}"
    repair = advice(
        f'topics=..., {frame}, such as dataset.get_topics("manual")',
        "--dataset, whose turns these are",
    )
    raise DataError(f"nothing says the {by} of turn {which}: give {repair}")


def differing_pairs(
    runs: Finished,
    qrels: pd.DataFrame | None = None,
    measure: Measure = nDCG @ 5,
    *,
    unit: str | None = None,
    dataset: IkatDataset | str | Path | None = None,
    turns: Turns | None = None,
) -> list[tuple[str, str]]:
    """The pairs of runs whose scores differ significantly.

    The test is that of :func:`evaluate`, with Bonferroni's correction over all pairs.

    Args:
        runs: as for :func:`evaluate`, or name -> the scores of a run for each turn, as for
            :func:`breakdown`.
        qrels: as for :func:`evaluate`.
        measure: an ir_measures measure or its name.
        unit: what the clusters of turns are, as for :func:`evaluate`.
        dataset: the dataset of the turns. By default the one that the run folders name.
        turns: the turns to score, as for :func:`evaluate`.

    Example:
        >>> frame = pd.DataFrame({"qid": [f"{number}_1" for number in range(6)]})
        >>> at = {"a": [1, 2, 2, 1, 2, 2], "b": [3, 4, 4, 4, 3, 4], "c": [1, 2, 2, 1, 2, 1]}
        >>> runs = {}
        >>> for name, ranks in at.items():  # of the only relevant passage
        ...     runs[name] = frame.assign(**{"RR(rel=1)": [1 / rank for rank in ranks]})
        >>> differing_pairs(runs, measure="RR")
        [('a', 'b'), ('b', 'c')]
    """
    named = name_runs(runs)
    frames = _frames_of(named, turns)
    rankings = {name: named[name] for name, frame in frames.items() if "docno" in frame.columns}
    if rankings:
        qrels, _ = _of_scored_turns(rankings, _judgements(named, qrels, dataset), turns)
    scores = scores_by_run(frames, qrels, measure)
    clusters = find_clusters(scores.index, unit, known_dataset(named, dataset), frames.values())
    return pairs_that_differ({str(name): scores[name].tolist() for name in scores}, clusters)


def scores_by_run(
    runs: Mapping[str, pd.DataFrame], qrels: pd.DataFrame | None, measure: Measure
) -> pd.DataFrame:
    """The scores of several runs side by side; arguments as for :func:`breakdown`.

    There is one row per turn (index: qid) and one column per run.

    Raises:
        UsageError: when there is no run, or a result frame comes without qrels.
        DataError: when a run has no scores, or the runs' scores are not about the same turns.
    """
    columns = {name: _scores_of(name, frame, qrels, measure) for name, frame in runs.items()}
    first, of_first = next(iter(columns.items()))
    if of_first.empty:
        raise DataError(f"the scores of {first} have no turn: look at what they were selected by")
    for name, scores in columns.items():
        differing = sorted(set(scores.index) ^ set(of_first.index), key=natural_key)
        if differing:
            raise DataError(
                f"{name} and {first} have scores of different turns ({list_first(differing)}): "
                "use the same qrels for both"
            )
    return pd.DataFrame(columns)


def _scores_of(
    name: str, frame: pd.DataFrame, qrels: pd.DataFrame | None, measure: Measure
) -> "pd.Series[Any]":
    title = label(as_measures(measure)[0])
    if "docno" in frame.columns:
        if qrels is None:
            raise UsageError(f"{name} is a ranking: give the qrels to judge it with")
        evaluator = make_evaluator(qrels, measure)
        [by_measure] = turn_scores([(name, ranking_of(name, frame))], evaluator).values()
        turns = pd.Index(evaluator.turns, name="qid", dtype=object)
        return pd.Series(by_measure[title], index=turns)
    if title not in frame.columns or "qid" not in frame.columns:
        columns = ", ".join(map(str, frame.columns))
        raise DataError(f"{name} has no scores {title} by qid, only the columns {columns}")
    frame = with_text_ids(name, frame, ["qid"])
    check_once(f"the scores {title} of {name}", frame, ["qid"], "keep one")
    scores = frame.set_index("qid")[title].astype(float)
    missing = scores.index[scores.isna()]
    if len(missing):
        raise DataError(
            f"{name} has no score {title} for turn {missing[0]}: a turn without results counts 0"
        )
    return scores
