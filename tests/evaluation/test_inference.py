"""The test of a mean over turns that is robust to clusters.

It is held against scipy, and against CR2 in full matrices.
"""

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st
from scipy import stats
from statsmodels.stats.proportion import proportion_confint

from pyterrier_ikat.evaluation import compare
from pyterrier_ikat.evaluation.inference import (
    degrees_of_freedom,
    differences_of,
    interval_of_mean,
    interval_of_share,
)

NUMBERS = st.integers(-100, 100).map(lambda number: number / 100)


def names_of(sizes):
    """The name of each turn's cluster: as many turns of each as its size says."""
    return np.repeat(np.arange(len(sizes)), sizes).astype(str).tolist()


def in_matrices(differences, clusters):
    """CR2 for a regression on a constant, and Satterthwaite's degrees of freedom.

    As Pustejovsky and Tipton (2018) write them: X is a column of ones, H = X (X'X)^-1 X'. A
    cluster's adjustment A is the inverse root of its block of I - H. The variance is the sum of
    (X'X)^-1 x' A e e' A x (X'X)^-1; with independent turns, it is a sum of squares of p'e, whose
    vectors p give the degrees of freedom.
    """
    differences = np.asarray(differences, dtype=float)
    clusters = np.asarray(clusters)
    turns = len(differences)
    ones = np.ones((turns, 1))
    inverse = np.linalg.inv(ones.T @ ones)
    residual_maker = np.eye(turns) - ones @ inverse @ ones.T
    residuals = residual_maker @ differences
    variance = 0.0
    vectors = []
    for name in sorted(set(clusters)):
        rows = np.flatnonzero(clusters == name)
        values, basis = np.linalg.eigh(residual_maker[np.ix_(rows, rows)])
        adjustment = basis @ np.diag(values**-0.5) @ basis.T
        left = (inverse @ ones[rows].T @ adjustment).ravel()
        variance += float(left @ residuals[rows]) ** 2
        vectors.append(residual_maker[:, rows] @ left)
    products = np.array(vectors) @ np.array(vectors).T  # clusters x clusters
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
    differences = np.concatenate(groups).tolist()
    clusters = names_of([len(group) for group in groups])
    mean = np.mean(differences)
    sums = [sum(group) - len(group) * mean for group in groups]
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
    differences = np.concatenate(groups).tolist()
    clusters = names_of([len(group) for group in groups])
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


@pytest.mark.parametrize("level", [0.5, 0.9, 0.95, 0.99])
@pytest.mark.parametrize("sizes", [[1, 1, 1, 1], [3, 2, 4], [12, 1, 1, 1], [2, 2]])
def test_interval_and_test_by_the_formulas_in_matrices(sizes, level):
    clusters = names_of(sizes)
    draw = np.random.default_rng(sum(sizes))
    ours = draw.random(len(clusters))
    theirs = draw.random(len(clusters))
    error, freedom = in_matrices(ours - theirs, clusters)
    mean = np.mean(ours - theirs)
    half = stats.t.ppf((1 + level) / 2, freedom) * error
    found = compare(ours, theirs, clusters, level=level)
    assert found.mean == pytest.approx(mean)
    assert (found.low, found.high) == pytest.approx((mean - half, mean + half))
    assert found.p_value == pytest.approx(2 * stats.t.sf(abs(mean) / error, freedom))
    assert found.clusters == len(sizes)
    alone = interval_of_mean(ours - theirs, clusters, level=level)
    assert alone == pytest.approx(found)


def test_the_default_level_is_95_percent():
    scores = [0.1, 0.4, 0.2, 0.9]
    clusters = list("abcd")
    low, high = stats.ttest_1samp(scores, 0).confidence_interval(0.95)
    assert compare(scores, [0.0] * 4, clusters)[1:3] == pytest.approx((low, high))
    assert interval_of_mean(scores, clusters)[1:3] == pytest.approx((low, high))
    shares = interval_of_share([True, False, True], list("abc"))
    assert shares == pytest.approx(proportion_confint(2, 3, 0.05, "wilson"))


@pytest.mark.parametrize(
    ("ours", "theirs", "expected"),
    [
        (0.5, 0.2, 0.3),
        (0.2, 0.5, -0.3),
        (0.3, 0.1 + 0.2, 0.0),  # a rounding error
        (1e-8, 0.0, 1e-8),
        (2e-9, 0.0, 2e-9),
        (5e-10, 0.0, 0.0),
        (-5e-10, 0.0, 0.0),
    ],
)
def test_only_rounding_errors_are_no_differences(ours, theirs, expected):
    [difference] = differences_of([ours], [theirs])
    assert difference == pytest.approx(expected, rel=1e-6, abs=0)


@pytest.mark.parametrize(
    ("hits", "clusters", "effective"),
    [
        ("1101", "abcd", 4),  # each turn its own cluster: Wilson's interval
        ("1", "a", 1),
        ("1111", "aabb", 2),  # all or none: a cluster counts once
        ("0000", "aabc", 3),
        ("1111", "abcd", 4),
        ("10101010", "aabbccdd", 8),  # clusters that are all alike: not more than all turns
    ],
)
def test_how_many_turns_a_share_rests_on(hits, clusters, effective):
    hits = [hit == "1" for hit in hits]
    share = sum(hits) / len(hits)
    expected = proportion_confint(share * effective, effective, 0.05, "wilson")
    found = interval_of_share(hits, list(clusters))
    if clusters == "aabbccdd":  # Korn and Graubard's factor for few degrees of freedom is below 1
        assert found[0] <= expected[0] < share < expected[1] <= found[1]
    else:
        assert found == pytest.approx(expected)


@pytest.mark.parametrize("level", [0.8, 0.95, 0.99])
def test_a_shares_interval_at_any_level_by_the_formulas(level):
    """Korn and Graubard: turns / design effect, times the squared ratio of t's quantiles."""
    hits = [1, 1, 0, 1, 1, 0, 0, 1]
    clusters = list("aabbcccd")
    share = np.mean(hits)
    error, freedom = in_matrices(hits, clusters)
    effect = max(error**2 / (share * (1 - share) / 7), 1)
    quantile = (1 + level) / 2
    effective = 8 / effect * (stats.t.ppf(quantile, 7) / stats.t.ppf(quantile, freedom)) ** 2
    expected = proportion_confint(share * effective, effective, 1 - level, "wilson")
    assert interval_of_share(hits, clusters, level=level) == pytest.approx(expected)


def test_a_share_of_nothing_or_of_one_cluster_has_no_interval():
    for hits, clusters in (([], []), ([True, False], ["a", "a"]), ([True, True], ["a", "a"])):
        assert np.isnan(interval_of_share(hits, clusters)).all()
    assert np.isnan(compare([], [], []).mean)
    assert compare([], [], []).clusters == 0


@pytest.mark.parametrize(
    ("sizes", "freedom"),
    [([1, 1], 1), ([1, 1, 1], 2), ([3, 3, 3], 2), ([1] * 10, 9), ([5, 5], 1)],
)
def test_equal_clusters_have_one_degree_less_than_they_are(sizes, freedom):
    assert degrees_of_freedom(np.array(sizes, dtype=float)) == pytest.approx(freedom)
