"""Mean, deviation and shares of variance over repeats.

They are worked out by hand and by independent implementations.
"""

import math
import statistics

import numpy as np
import pytest
from ir_measures import nDCG
from scipy.stats import f_oneway, ttest_rel

from pyterrier_ikat.evaluation.experiment_table import averaged, repeated_rows, variance_shares

# Rows are repeats, columns turns; by turn: (1, 2), (4, 4), (6, 7).
TWO_OF_THREE = [[1.0, 4.0, 6.0], [2.0, 4.0, 7.0]]
# By turn: (0, 3, 3), (4, 5, 6), (9, 9, 6).
THREE_OF_THREE = [[0.0, 4.0, 9.0], [3.0, 5.0, 9.0], [3.0, 6.0, 6.0]]


def test_two_repeats_of_three_turns_by_hand():
    # Means of turns 1.5, 4, 6.5, of all 4. Between: 2 * (6.25 + 0 + 6.25) / 2 = 12.5. Within: (0.5
    # + 0 + 0.5) / 3 = 1/3.
    # Variance of turns (12.5 - 1/3) / 2 = 73/12, of the LLM 1/3 = 4/12.
    assert variance_shares(TWO_OF_THREE) == pytest.approx((73 / 77, 4 / 77))


def test_three_repeats_of_three_turns_by_hand():
    # Means 2, 5, 8, of all 5. Between: 3 * (9 + 0 + 9) / 2 = 27. Within: (6 + 2 + 6) / 6 = 7/3.
    # Turns: (27 - 7/3) / 3 = 74/9, LLM 21/9.
    assert variance_shares(THREE_OF_THREE) == pytest.approx((74 / 95, 21 / 95))


def test_as_scipys_analysis_of_variance_and_plain_python_have_it():
    table = np.random.default_rng(3).normal(size=(5, 40)) + np.random.default_rng(4).normal(size=40)
    within = statistics.mean(statistics.variance(turn) for turn in table.T.tolist())
    between = within * f_oneway(*table.T).statistic
    turns = (between - within) / 5
    assert variance_shares(table.tolist()) == pytest.approx(
        (turns / (turns + within), within / (turns + within))
    )


def test_turns_alike_leave_all_to_the_llm_and_no_share_below_0():
    assert variance_shares([[0.0, 1.0], [1.0, 0.0]]) == (0.0, 1.0)


@pytest.mark.parametrize("scores", [[[0.1, 0.2]], [[0.1], [0.2]], [[0.5, 0.5], [0.5, 0.5]]])
def test_one_sample_one_turn_or_no_variance_has_no_shares(scores):
    assert all(math.isnan(share) for share in variance_shares(scores))


def test_rows_have_mean_deviation_and_a_test_over_averaged_turns():
    ours = [{"nDCG": [0.1, 0.4, 0.6]}, {"nDCG": [0.2, 0.4, 0.7]}]
    base = [{"nDCG": [0.1, 0.2, 0.2]}]
    rows = repeated_rows({"base": base, "ours": ours}, [nDCG], "base")
    rows = {row["name"]: row for row in rows}
    assert averaged(ours)["nDCG"] == pytest.approx([0.15, 0.4, 0.65])
    assert rows["ours"]["nDCG"] == pytest.approx(0.4)
    assert rows["ours"]["nDCG std"] == pytest.approx(statistics.stdev([1.1 / 3, 1.3 / 3]))
    assert rows["ours"]["nDCG p-value"] == pytest.approx(
        ttest_rel([0.15, 0.4, 0.65], [0.1, 0.2, 0.2]).pvalue
    )
    assert rows["ours"]["nDCG LLM share"] == pytest.approx(4 / 77)
    assert (rows["ours"]["repeats"], rows["base"]["repeats"], rows["ours"]["turns"]) == (2, 1, 3)
    assert math.isnan(rows["base"]["nDCG std"])


def test_repeats_equal_to_the_baseline_differ_on_no_turn():
    """The mean of three times .7 is another float than .7.

    A t-test of such differences once had p = .001.
    """
    scores = [0.1, 0.2, 0.3, 0.7, 0.15, 0.35] * 10
    row = repeated_rows(
        {"base": [{"nDCG": scores}], "same": [{"nDCG": scores}] * 3}, [nDCG], "base"
    )[1]
    assert (row["nDCG +"], row["nDCG -"], row["nDCG reject"]) == (0, 0, False)
    assert math.isnan(row["nDCG p-value"])
