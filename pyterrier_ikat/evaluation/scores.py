"""Scores of runs as trec_eval gives them, from frames to frames: turn by turn, and their table."""

from collections.abc import Mapping, Sequence

import ir_measures
import pandas as pd

from ..arguments import checked
from ..conversations.frame import starts_of_runs
from ..errors import DataError, UsageError
from ..runs.trec import in_trec_eval_order
from .checks import check_form, check_runs, check_shared, with_text_ids
from .measures import TRACK_2023, as_measures
from .qrels import check_qrels
from .scoring import Evaluator, by_turn, check_baseline, experiment_rows, text_table

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
        self._evaluator = Evaluator(
            by_turn(zip(*(judged[name].tolist() for name in ("qid", "docno", "label")), strict=True)), self.measures
        )
        self.turns = self._evaluator.turns

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
        return pd.DataFrame(self._evaluator.per_turn(by_qid(ranking)), index=pd.Index(self.turns, name="qid", dtype=object))


def by_qid(ranking: pd.DataFrame) -> dict[str, dict[str, float]]:
    """The scores of a ranking that has each passage once: turn -> passage -> score."""
    qids, docnos, scores = ranking["qid"].to_numpy(dtype=object), ranking["docno"].tolist(), ranking["score"].tolist()
    starts = starts_of_runs(qids).tolist()
    found: dict[str, dict[str, float]] = {}
    for start, end in zip(starts, [*starts[1:], len(docnos)], strict=False):
        found.setdefault(qids[start], {}).update(zip(docnos[start:end], scores[start:end], strict=True))
    return found


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
    return pd.DataFrame(experiment_rows(figures, measures, baseline))


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
    return text_table(table.to_dict("records"), baseline)
