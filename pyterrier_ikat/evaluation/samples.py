"""Several runs of one system: the mean and the standard deviation of their scores, and where their variance comes from."""

import math
from collections.abc import Mapping, Sequence
from typing import Any, TypeAlias

import ir_measures
import numpy as np

from .evaluator import Rows, aggregated, experiment_rows, is_derived
from .measures import label

Scores: TypeAlias = Mapping[str, Sequence[float]]
"""Measure -> a score for each turn."""

NO_VALUE = float("nan")
AVERAGED = "Before the test, each turn's scores are averaged over the samples."


def averaged(samples: Sequence[Scores]) -> dict[str, list[float]]:
    """The mean of each turn over the samples.

    Example:
        >>> averaged([{"nDCG": [0.0, 0.5]}, {"nDCG": [1.0, 0.5]}])
        {'nDCG': [0.5, 0.5]}
    """
    return {measure: np.mean([np.asarray(one[measure]) for one in samples], axis=0).tolist() for measure in samples[0]}


def variance_shares(scores: Sequence[Sequence[float]]) -> tuple[float, float]:
    """The shares of the variance of turns' scores that come from the turns and from the LLM.

    A one-way random-effects analysis of variance: the turns are the groups, the samples the replicates. With k samples, the variance of
    the LLM is the mean square within turns, that of the turns (mean square between turns - mean square within)/k, at least 0.

    Source of the estimator: Searle, Casella and McCulloch, Variance Components (Wiley, 1992), the balanced one-way classification. Source
    of the question: Lupart et al., Investigating LLM Variability in Personalized Conversational Information Retrieval (SIGIR-AP 2025,
    arXiv 2510.03795).

    Args:
        scores: for each sample a score for each turn, in one order.

    Returns:
        The share of the turns and the share of the LLM, which sum to 1; NaN with fewer than two samples or turns, or without variance.

    Example:
        >>> variance_shares([[0.0, 1.0], [0.0, 1.0]])
        (1.0, 0.0)
    """
    table = np.asarray(scores, dtype=np.float64)
    samples, turns = table.shape
    if samples < 2 or turns < 2:
        return NO_VALUE, NO_VALUE
    means = table.mean(axis=0)
    between = samples * ((means - table.mean()) ** 2).sum() / (turns - 1)
    llm = float(((table - means) ** 2).sum() / (turns * (samples - 1)))
    of_turns = max(0.0, float(between - llm) / samples)
    whole = of_turns + llm
    return (of_turns / whole, llm / whole) if whole else (NO_VALUE, NO_VALUE)


def sampled_rows(systems: Mapping[str, Sequence[Scores]], measures: Sequence[ir_measures.Measure], baseline: str | None) -> Rows:
    """The rows of :func:`~pyterrier_ikat.evaluation.evaluator.experiment_rows` for systems that were run several times.

    Each turn's score is its mean over the samples, so that the paired t-test stays one over turns.

    Source of the test: Smucker, Allan and Carterette, A Comparison of Statistical Significance Tests for Information Retrieval Evaluation
    (CIKM 2007): the topic, here the turn, is the unit.

    Args:
        systems: name -> its samples, at least one.
        measures: the measures.
        baseline: the system that the others are compared with.

    Returns:
        The rows, and per measure `` std`` (over the samples, n - 1) and `` LLM share``, of :func:`variance_shares`; ``samples``.

    Example:
        >>> from ir_measures import nDCG
        >>> rows = sampled_rows({"AD": [{"nDCG@5": [0.5, 0.0]}, {"nDCG@5": [0.5, 1.0]}]}, [nDCG @ 5], None)
        >>> [(row["nDCG@5"], row["samples"], row["turns"]) for row in rows]
        [(0.5, 2, 2)]
    """
    rows = experiment_rows({name: averaged(samples) for name, samples in systems.items()}, measures, baseline)
    return [row | _of_samples(systems[row["name"]], measures) for row in rows]


def _of_samples(samples: Sequence[Scores], measures: Sequence[ir_measures.Measure]) -> dict[str, Any]:
    found: dict[str, Any] = {"samples": len(samples)}
    for measure in measures:
        column = label(measure)
        each = [aggregated(measure, one[column]) for one in samples]
        found[f"{column} std"] = float(np.std(each, ddof=1)) if len(each) > 1 else NO_VALUE
        found[f"{column} LLM share"] = variance_shares([one[column] for one in samples])[1]
    return found


def notes(rows: Rows, baseline: str | None = None) -> list[str]:
    """Notes for a reader of the table, a sentence each; none where no system was run several times."""
    counts = sorted({row["samples"] for row in rows} - {1})
    if not counts:
        return []
    found = [f"\u00b1: standard deviation over {' or '.join(map(str, counts))} samples (runs of the same system)."]
    if baseline is not None and len(rows) > 1:
        found.append(AVERAGED)
    return found + [
        f"{row['name']}: share of the variance of turns' scores that comes from the LLM: {_shares(row)} (the rest: from the turns)."
        for row in rows
        if row["samples"] > 1
    ]


def _shares(row: Mapping[str, Any]) -> str:
    measures = [name for name in row if name not in ("name", "turns") and not is_derived(name)]
    return ", ".join(f"{name} {_percent(row[f'{name} LLM share'])}" for name in measures)


def _percent(share: float) -> str:
    return "n/a" if math.isnan(share) else f"{share:.0%}"
