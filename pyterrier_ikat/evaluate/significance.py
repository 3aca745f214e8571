"""The experiment table: means of figures turn by turn, and whether they differ from a baseline's."""

import warnings
from collections.abc import Mapping, Sequence
from typing import Any

import ir_measures
import numpy as np
import pandas as pd

from .measures import label

ALPHA = 0.05


def experiment_table(figures: Mapping[str, pd.DataFrame], measures: Sequence[ir_measures.Measure], baseline: str | None) -> pd.DataFrame:
    """The table of ``pt.Experiment(..., correction="bonferroni")``, from figures that are there already.

    Args:
        figures: name -> a row per turn, a column per measure; see :class:`~pyterrier_ikat.evaluate.figures.Scorer`.
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
