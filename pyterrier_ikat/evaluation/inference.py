"""Whether two runs differ: a paired test and an interval, both robust to clusters of turns.

Turns of one conversation depend on each other, so a test that takes turns as independent finds
differences where there are none. Test and interval come from one t-distribution, so that they can't
disagree:

- the estimate is the mean of the differences over turns, which is what the table shows;
- its variance is the cluster-robust estimator CR2, which is without bias if the turns are
  independent of each other;
- the degrees of freedom are those of Bell and McCaffrey, which are few if there are few clusters or
  one of them has most turns.

Source: Bell and McCaffrey, Bias reduction in standard errors for linear regression with multi-stage
samples (Survey Methodology 28(2), 2002); Pustejovsky and Tipton, Small-sample methods for
cluster-robust variance estimation and hypothesis testing in fixed effects models (Journal of
Business and Economic Statistics 36(4), 2018). The regression here has a constant alone, for which
both are short formulas. With one turn in each cluster they are those of the paired t-test.
"""

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

Floats = npt.NDArray[np.float64]

ALPHA = 0.05
TIE_TOLERANCE = 1e-9
"""Scores of a turn are a tie if they differ by less."""
FEWEST = 5
"""The fewest clusters with which a difference is marked as significant."""
NO_VALUE = float("nan")


class Difference(NamedTuple):
    """How two runs differ.

    Attributes:
        mean: the mean of the differences over turns.
        low: the lower bound of the interval of the mean; NaN if it is unknown.
        high: the upper bound.
        p_value: of the two-sided test that the mean is 0; NaN if it is unknown.
        clusters: the number of clusters.
    """

    mean: float
    low: float
    high: float
    p_value: float
    clusters: int


def differences_of(ours: Any, theirs: Any) -> Floats:
    """The differences of two runs' scores, turn by turn; 0 where they are only rounding errors."""
    differences = np.asarray(ours, dtype=np.float64) - np.asarray(theirs, dtype=np.float64)
    return np.where(np.abs(differences) < TIE_TOLERANCE, 0.0, differences)


def compare(
    ours: Sequence[float], theirs: Sequence[float], clusters: Sequence[str], *, level: float = 0.95
) -> Difference:
    """Test whether the mean difference of two runs over turns is 0, and give its interval.

    Nothing is known (NaN) with fewer than two clusters, and without variance between clusters: if
    all clusters have the same mean difference, such as two turns that both differ by .5, the data
    say nothing about how much it varies.

    Args:
        ours: a score for each turn.
        theirs: the baseline's scores for the same turns.
        clusters: the cluster of each turn, such as its conversation. Give the turns themselves for
            a test over independent turns.
        level: the level of confidence of the interval.

    Example:
        >>> clusters = ["1-1", "1-1", "2-1", "3-1"]
        >>> difference = compare([0.5, 0.7, 0.4, 0.9], [0.4, 0.4, 0.4, 0.5], clusters)
        >>> round(difference.mean, 3), round(difference.low, 3), round(difference.high, 3)
        (0.2, -0.192, 0.592)
        >>> round(difference.p_value, 3)
        0.148
    """
    from scipy.stats import t

    differences = differences_of(ours, theirs)
    names, numbers = np.unique(np.asarray(clusters, dtype=str), return_inverse=True)
    mean = float(differences.mean()) if len(differences) else NO_VALUE
    unknown = Difference(mean, NO_VALUE, NO_VALUE, NO_VALUE, len(names))
    if len(names) < 2:
        return unknown
    sizes = np.bincount(numbers).astype(float)
    error, freedom = standard_error(differences - mean, numbers, sizes)
    if error == 0:
        return unknown
    half_width = float(t.ppf((1 + level) / 2, freedom)) * error
    p_value = float(2 * t.sf(abs(mean) / error, freedom))
    return Difference(mean, mean - half_width, mean + half_width, p_value, len(names))


def interval_of_mean(
    values: Sequence[float], clusters: Sequence[str], *, level: float = 0.95
) -> Difference:
    """The mean of scores over turns with its interval, see :func:`compare`.

    The p-value is that of the mean 0.

    Example:
        >>> mean = interval_of_mean([0.5, 0.7, 0.4, 0.9], ["1-1", "1-1", "2-1", "3-1"])
        >>> round(mean.mean, 3), round(mean.low, 3), round(mean.high, 3)
        (0.625, 0.126, 1.124)
    """
    return compare(values, [0.0] * len(values), clusters, level=level)


def interval_of_share(
    hits: Sequence[bool], clusters: Sequence[str], *, level: float = 0.95
) -> tuple[float, float]:
    """Wilson's interval of a share of turns, with an effective number of turns.

    The effective number is that of independent turns that would tell as much as these clusters.
    It is the number of turns divided by the design effect: CR2's variance of the share by that of
    independent turns, at least 1. It is lowered further for the few degrees of freedom of CR2. If
    the share is 0 or 1 the effect is unknown, and each cluster counts once.

    Source: Franco, Little, Louis and Slud, Comparative study of confidence intervals for
    proportions in complex sample surveys (Journal of Survey Statistics and Methodology 7(3), 2019),
    Wilson's interval with an effective sample size, and Korn and Graubard's degrees of freedom.

    Args:
        hits: whether each turn counts.
        clusters: the cluster of each turn. If these are the turns themselves, it is Wilson's
            interval.
        level: the level of confidence.

    Returns:
        The lower and the upper bound; NaN without turns, or with several turns of a single cluster.

    Example:
        >>> [round(bound, 3) for bound in interval_of_share([True] * 7, list("abcdefg"))]
        [0.646, 1.0]
        >>> hits = [True, True, False, True, True, False, False]
        >>> [round(bound, 3) for bound in interval_of_share(hits, list("aabbccc"))]
        [0.124, 0.926]
    """
    from statsmodels.stats.proportion import proportion_confint

    turns = len(hits)
    names, numbers = np.unique(np.asarray(clusters, dtype=str), return_inverse=True)
    if turns == 0 or (turns > 1 and len(names) == 1):
        return NO_VALUE, NO_VALUE
    values = np.asarray(hits, dtype=np.float64)
    share = float(values.mean())
    if len(names) == turns:
        effective = float(turns)
    elif share in (0, 1):
        effective = float(len(names))
    else:
        effective = _effective_turns(values, numbers, level)
    low, high = proportion_confint(share * effective, effective, alpha=1 - level, method="wilson")
    return float(low), float(high)


def _effective_turns(hits: Floats, numbers: npt.NDArray[np.intp], level: float) -> float:
    """The number of independent turns that would tell as much about a share, at most all turns.

    Args:
        hits: 1 or 0 for each turn.
        numbers: the number of the cluster of each turn, from 0.
        level: the level of confidence.
    """
    from scipy.stats import t

    turns = len(hits)
    share = float(hits.mean())
    error, freedom = standard_error(hits - share, numbers, np.bincount(numbers).astype(float))
    variance_if_independent = share * (1 - share) / (turns - 1)
    design_effect = max(error**2 / variance_if_independent, 1.0)
    upper = (1 + level) / 2
    for_freedom = float(t.ppf(upper, turns - 1) / t.ppf(upper, freedom)) ** 2
    return min(turns / design_effect * for_freedom, float(turns))


def standard_error(
    residuals: Floats, numbers: npt.NDArray[np.intp], sizes: Floats
) -> tuple[float, float]:
    """The standard error CR2 of a mean, and its degrees of freedom.

    With N turns, n of them in a cluster, and the sum S of the cluster's residuals, the variance is
    the sum of S^2 / (1 - n / N) over the clusters, divided by N^2. The divisor 1 - n / N is what
    the mean takes away from a cluster's own residuals.

    Args:
        residuals: the differences less their mean, by turn.
        numbers: the number of the cluster of each turn, from 0.
        sizes: the turns of each cluster, at least two clusters.
    """
    turns = sizes.sum()
    divisors = 1 - sizes / turns
    sums = np.bincount(numbers, residuals)
    is_rounding = np.abs(sums) < TIE_TOLERANCE * sizes  # what is left of residuals that cancel out
    sums = np.where(is_rounding, 0.0, sums)
    error = float(np.sqrt((sums**2 / divisors).sum()) / turns)
    return error, degrees_of_freedom(sizes)


def degrees_of_freedom(sizes: Floats) -> float:
    """Bell and McCaffrey's degrees of freedom of a mean, for clusters of these sizes.

    If the turns are independent, the weighted sums of the clusters have the covariances of
    ``products`` (shape: clusters, clusters). The degrees of freedom are Satterthwaite's: the square
    of the trace, divided by the sum of the squares.

    Example:
        >>> round(degrees_of_freedom(np.array([1.0, 1.0, 1.0, 1.0])), 6)
        3.0
        >>> round(degrees_of_freedom(np.array([12.0, 1.0, 1.0, 1.0])), 2)
        1.34
    """
    turns = sizes.sum()
    weights = 1 / np.sqrt(1 - sizes / turns)
    products = np.outer(weights, weights) * (np.diag(sizes) - np.outer(sizes, sizes) / turns)
    return float(np.trace(products) ** 2 / (products**2).sum())
