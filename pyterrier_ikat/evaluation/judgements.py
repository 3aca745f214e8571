"""Pools of passages to judge from several runs, and the agreement of two judges."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import ir_measures
import numpy as np
import numpy.typing as npt
import pandas as pd
import pyterrier as pt

from ..arguments import at_least
from ..conversations.frame import object_frame, with_text_ids
from ..conversations.qrels import check_qrels
from ..errors import DataError, UsageError, counted
from ..runs import strictly_decreasing
from ..tables import Table, format_score, of_frame
from .evaluator import check_turn_names
from .measures import TRACK_2023, as_measures, label
from .scores import evaluate, natural_key


def pool_runs(runs: Mapping[str, pd.DataFrame], depth: int = 10) -> pd.DataFrame:
    """The passages in the top ``depth`` of any run. Once they are judged, no run has an unjudged passage there.

    Source: Abbasiantaeb and Aliannejadi, Generate then Retrieve, section 4: the top 10 of all models and baselines, including passages that
    the official judges have seen.

    Args:
        runs: name -> result frame (``qid``, ``docno``, ``score``, ``rank``); the top is by rank.
        depth: how many passages of each turn and run.

    Returns:
        ``qid``, ``docno``: each pair once, sorted by conversation, turn and docno, whatever the order of the runs. So the order doesn't
        tell a judge anything about a passage's rank.

    Raises:
        UsageError: when there are no runs by name, or the depth is below 1.
        DataError: when a run repeats a passage within a turn, has a number as its name, has a score that is not finite, or has scores that
            rise with the rank.

    Example:
        >>> one = pd.DataFrame({"qid": ["1_1"] * 2, "docno": ["b", "c"], "score": [2.0, 1.0], "rank": [0, 1]})
        >>> pool_runs({"one": one, "two": one.assign(docno=["a", "b"])}, depth=1).values.tolist()
        [['1_1', 'a'], ['1_1', 'b']]
    """
    at_least(1, depth=depth)
    pairs = {pair for name, run in runs.items() for pair in _top(name, run, depth)}
    ordered = sorted(pairs, key=lambda pair: (natural_key(pair[0]), pair[1]))
    return object_frame({"qid": [qid for qid, _ in ordered], "docno": [docno for _, docno in ordered]})


def _top(name: str, run: pd.DataFrame, depth: int) -> set[tuple[str, str]]:
    pt.validate.result_frame(run, extra_columns=["score", "rank"])
    try:
        ordered = strictly_decreasing(with_text_ids(f"run {name}", run))
    except DataError as error:
        raise DataError(f"run {name}: {error}") from None
    top = ordered[ordered["rank"] < depth]
    return set(zip(top["qid"], top["docno"], strict=True))


@dataclass(frozen=True, eq=False)
class Agreement:
    """The agreement of two sets of qrels on the pairs that both judged.

    Attributes:
        pairs: the number of pairs that both judged.
        confusion: the counts, with the labels of the first as rows and of the second as columns.
        threshold: the lowest label that counts as relevant.
        binary_confusion: the same counts of not relevant (False) and relevant (True).
        binary: the share of pairs that both call relevant or both call not relevant.
        kappa: Cohen's kappa of the graded labels, unweighted; NaN if it is undefined (both always give the same label).
        binary_kappa: Cohen's kappa of relevant and not relevant.
        tau: Kendall's tau of the two orders of the runs, one value per measure; empty without runs.
    """

    pairs: int
    confusion: pd.DataFrame
    threshold: int
    binary_confusion: pd.DataFrame
    binary: float
    kappa: float
    binary_kappa: float
    tau: "pd.Series[Any]" = field(default_factory=lambda: pd.Series(dtype=float))

    def tables(self) -> list[Table]:
        """The counts of the labels, and of relevant and not relevant, as tables to print. The notes have the agreement."""
        said = [
            f"{counted(self.pairs, 'pair')} judged by both: binary agreement {self.binary:.2%}, kappa {format_score(self.binary_kappa)}; "
            f"kappa of the graded labels {format_score(self.kappa)}",
            *(f"Kendall's tau of the systems by {measure}: {format_score(tau)}" for measure, tau in self.tau.items()),
        ]
        graded = _shown(self.confusion, "Labels of the first file (rows) and of the second (columns)", [])
        return [graded, _shown(self.binary_confusion, f"Relevant, from label {self.threshold} on", said)]

    def __str__(self) -> str:
        return "\n".join(map(str, self.tables())).rstrip("\n")


def _shown(counts: pd.DataFrame, title: str, notes: Sequence[str]) -> Table:
    return of_frame(counts.rename_axis("label").rename_axis(None, axis="columns").reset_index(), notes, title, texts=1)


def agreement(
    qrels_a: pd.DataFrame,
    qrels_b: pd.DataFrame,
    threshold: int = 2,
    *,
    runs: Mapping[str, pd.DataFrame] | None = None,
    measures: Sequence[ir_measures.Measure | str] = TRACK_2023,
) -> Agreement:
    """Compare two judges on the (turn, passage) pairs that both judged.

    Source: Abbasiantaeb and Aliannejadi, Generate then Retrieve, Tables 2 and 4. There, the rows are GPT-3.5 and the columns NIST.

    Args:
        qrels_a: ``qid``, ``docno``, ``label``: the rows of the confusion matrix.
        qrels_b: the same, for the columns.
        threshold: the lowest label that counts as relevant, the same for both. On the scale 0-4 of LLM judging, it is 2.
        runs: name -> result frame, at least two. They show how far the judges agree on which run is better.
        measures: the measures that order the runs. Each is computed over all turns of the qrels.

    Raises:
        UsageError: when there is only one run.
        DataError: when one of the two is not a valid qrels frame, or they have no pair in common.

    Example:
        >>> one = pd.DataFrame({"qid": ["1_1"] * 4, "docno": list("abcd"), "label": [0, 1, 3, 2]})
        >>> two = one.assign(label=[0, 2, 3, 3])
        >>> found = agreement(one, two)
        >>> found.pairs, found.binary, found.binary_kappa, int(found.confusion.loc[2, 3])
        (4, 0.75, 0.5, 1)
    """
    first, second = check_qrels(qrels_a, "the first qrels"), check_qrels(qrels_b, "the second qrels")
    both = _common(first, second)
    a, b = both["label_a"], both["label_b"]
    labels = range(min(a.min(), b.min()), max(a.max(), b.max()) + 1)
    graded, binary = _confusion(a, b, labels), _confusion(a >= threshold, b >= threshold, [False, True])
    return Agreement(
        pairs=len(both),
        confusion=graded,
        threshold=threshold,
        binary_confusion=binary,
        binary=float(np.trace(binary) / len(both)),
        kappa=cohens_kappa(graded),
        binary_kappa=cohens_kappa(binary),
        tau=_tau(runs or {}, (first, second), measures),
    )


def _common(first: pd.DataFrame, second: pd.DataFrame) -> pd.DataFrame:
    check_turn_names("the first qrels", first["qid"].unique(), second["qid"])
    both = first.merge(second, on=["qid", "docno"], suffixes=("_a", "_b"))
    if both.empty:
        raise DataError(
            f"the two qrels have no pair in common (such as {first['qid'][0]} {first['docno'][0]} and {second['qid'][0]} "
            f"{second['docno'][0]}): give judgements of the same topics and passages"
        )
    return both


def _tau(
    runs: Mapping[str, pd.DataFrame], qrels: tuple[pd.DataFrame, pd.DataFrame], measures: Sequence[ir_measures.Measure | str]
) -> "pd.Series[Any]":
    if not runs:
        return pd.Series(dtype=float)
    first, second = (evaluate(runs, one, measures) for one in qrels)
    return pd.Series({label(measure): order_agreement(first, second, measure) for measure in as_measures(measures)})


def _confusion(a: "pd.Series[Any]", b: "pd.Series[Any]", values: Sequence[Any]) -> pd.DataFrame:
    return pd.crosstab(a, b, rownames=["a"], colnames=["b"]).reindex(index=values, columns=values, fill_value=0)


def cohens_kappa(confusion: npt.ArrayLike) -> float:
    """Cohen's kappa of a square confusion matrix, unweighted, by statsmodels.

    Returns:
        1 for complete agreement, 0 for the agreement expected by chance, NaN if chance alone gives complete agreement.

    Example:
        >>> round(cohens_kappa([[20, 5], [10, 15]]), 10)
        0.4
    """
    from statsmodels.stats.inter_rater import cohens_kappa as kappa

    with np.errstate(invalid="ignore"):  # 0 / 0: both always give the same label
        return float(kappa(np.asarray(confusion, dtype=np.float64), return_results=False))


def order_agreement(table_a: pd.DataFrame, table_b: pd.DataFrame, measure: ir_measures.Measure | str) -> float:
    """Kendall's tau (tau-b) of the orders of the same systems in two tables.

    Args:
        table_a: the result of :func:`evaluate` with one set of qrels.
        table_b: the same runs with other qrels.
        measure: the measure that orders them.

    Returns:
        1 for the same order, -1 for the reverse; NaN if one table gives all systems the same score.

    Raises:
        UsageError: when the tables don't have the same systems, or fewer than two.

    Example:
        >>> nist = pd.DataFrame({"name": ["AD", "QR", "QD"], "nDCG@5": [0.3, 0.2, 0.1]})
        >>> round(order_agreement(nist, nist.assign(**{"nDCG@5": [0.9, 0.5, 0.7]}), "nDCG@5"), 4)
        0.3333
    """
    from scipy.stats import kendalltau

    column = label(as_measures(measure)[0])
    both = table_a.merge(table_b, on="name", how="outer", suffixes=("_a", "_b"), validate="one_to_one")
    if len(both) < 2 or both[[f"{column}_a", f"{column}_b"]].isna().any(axis=None):
        raise UsageError(f"an order is compared on the same two or more systems, each once: {', '.join(map(str, both['name']))}")
    return float(kendalltau(both[f"{column}_a"], both[f"{column}_b"]).statistic)
