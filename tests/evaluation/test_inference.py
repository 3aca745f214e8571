"""The test of a mean over turns that is robust to clusters.

It is held against scipy, and against CR2 in full matrices.
"""

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st
from scipy import stats

from pyterrier_ikat.evaluation import compare

NUMBERS = st.integers(-100, 100).map(lambda number: number / 100)


def in_matrices(differences, clusters):
    """CR2 for a regression on a constant, and Satterthwaite's degrees of freedom.

    As Pustejovsky and Tipton (2018) write them: X is a column of ones, H = X (X'X)^-1 X'. A
    cluster's adjustment A is the inverse root of its block of I - H. The variance is the sum of
    (X'X)^-1 x' A e e' A x (X'X)^-1; with independent turns, it is a sum of squares of p'e, whose
    vectors p give the degrees of freedom.
    """
    differences, clusters = np.asarray(differences, dtype=float), np.asarray(clusters)
    turns = len(differences)
    ones = np.ones((turns, 1))
    inverse = np.linalg.inv(ones.T @ ones)
    residual_maker = np.eye(turns) - ones @ inverse @ ones.T
    residuals = residual_maker @ differences
    variance, vectors = 0.0, []
    for name in sorted(set(clusters)):
        rows = np.flatnonzero(clusters == name)
        values, basis = np.linalg.eigh(residual_maker[np.ix_(rows, rows)])
        adjustment = basis @ np.diag(values**-0.5) @ basis.T
        left = (inverse @ ones[rows].T @ adjustment).ravel()
        variance += float(left @ residuals[rows]) ** 2
        vectors.append(residual_maker[:, rows] @ left)
    products = np.array([[one @ other for other in vectors] for one in vectors])
    freedom = np.trace(products) ** 2 / (products**2).sum()
    return np.sqrt(variance), freedom


@given(st.lists(st.tuples(NUMBERS, NUMBERS), min_size=3, max_size=30))
def test_one_turn_per_cluster_is_the_paired_t_test(pairs):
    ours, theirs = np.array(pairs).T
    assume(np.ptp(ours - theirs) > 1e-6)
    found = compare(ours, theirs, [str(place) for place in range(len(ours))])
    wanted = stats.ttest_rel(ours, theirs)
    assert found.p_value == pytest.approx(wanted.pvalue, rel=1e-6, abs=1e-12)
    low, high = wanted.confidence_interval()
    assert (found.low, found.high) == pytest.approx((low, high), abs=1e-9)


@given(st.lists(st.lists(NUMBERS, min_size=1, max_size=12), min_size=2, max_size=8))
def test_it_is_cr2_with_satterthwaites_degrees_of_freedom(groups):
    differences = [value for group in groups for value in group]
    clusters = [str(place) for place, group in enumerate(groups) for _ in group]
    sums = [sum(group) - len(group) * np.mean(differences) for group in groups]
    assume(max(map(abs, sums)) > 1e-3)
    found = compare(differences, [0.0] * len(differences), clusters)
    error, freedom = in_matrices(differences, clusters)
    assert found.mean == pytest.approx(np.mean(differences), abs=1e-12)
    assert found.high - found.mean == pytest.approx(stats.t.ppf(0.975, freedom) * error, rel=1e-5)
    assert found.p_value == pytest.approx(
        2 * stats.t.sf(abs(found.mean) / error, freedom), rel=1e-4, abs=1e-9
    )
    assert found.clusters == len(groups)


@given(st.lists(st.lists(NUMBERS, min_size=1, max_size=6), min_size=1, max_size=8))
def test_p_value_and_interval_never_disagree(groups):
    differences = [value for group in groups for value in group]
    clusters = [str(place) for place, group in enumerate(groups) for _ in group]
    found = compare(differences, [0.0] * len(differences), clusters)
    if np.isnan(found.p_value):
        assert np.isnan([found.low, found.high]).all()
        return
    assume(abs(found.p_value - 0.05) > 1e-9)
    assert (found.p_value < 0.05) == (not found.low <= 0 <= found.high)


def test_turns_moving_with_their_conversation_widen_the_interval():
    clusters = np.repeat(list("abcdef"), 5)
    differences = np.repeat([0.3, -0.1, 0.2, 0.0, 0.25, -0.05], 5) + np.tile(
        [0.01, -0.01, 0.0, 0.02, -0.02], 6
    )
    widths = []
    for names in (clusters, [str(place) for place in range(30)]):
        found = compare(differences, np.zeros(30), names)
        widths.append(found.high - found.low)
    assert widths[0] > 2 * widths[1]


@pytest.mark.parametrize(
    ("ours", "clusters"),
    [
        ([0.5, 0.5], ["a", "b"]),  # equal differences
        ([0.1 + 0.2, 0.3, 0.1 + 0.2], ["a", "b", "c"]),  # equal but for rounding
        (
            [1, 0] * 5,
            ["a", "a", "b", "b", "c", "c", "d", "d", "e", "e"],
        ),  # scipy over the five means: p = 0; CR1: p = 4e-66
        ([0.7, 0.1, 0.1, 0.7, 0.1, 0.7], ["a", "a", "b", "b", "c", "c"]),
        ([0.2, 0.4], ["a", "a"]),  # a single cluster
        ([0.2], ["a"]),
    ],
)
def test_without_variance_between_clusters_nothing_is_known(ours, clusters):
    found = compare(ours, [0.0] * len(ours), clusters)
    assert np.isnan([found.p_value, found.low, found.high]).all()
    assert found.mean == pytest.approx(np.mean(ours))
