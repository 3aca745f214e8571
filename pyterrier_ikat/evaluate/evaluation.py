"""Runs against qrels: the table of ``pt.Experiment``, with its traps closed."""

from collections.abc import Mapping, Sequence

import ir_measures
import pandas as pd

from ..arguments import checked
from ..errors import UsageError
from .figures import Scorer
from .measures import TRACK_2023, as_measures
from .named_runs import check_runs
from .same_turns import check_shared
from .significance import experiment_table


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
