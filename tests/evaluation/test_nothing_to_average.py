"""Means over nothing: an error that says what is empty, or NaN where that is the mean."""

import math

import pandas as pd
import pytest

from pyterrier_ikat import evaluation
from pyterrier_ikat.errors import DataError, UsageError

SCORES = pd.DataFrame({"qid": ["1_1", "1_2"], "nDCG@5": [1.0, 0.5]})
ASSESSED = pd.DataFrame({"qid": ["1_1"], "judge": ["x"], "value": [3.0], "outcome": ["judged"]})
NUGGETS = pd.DataFrame({"qid": ["1_1"], "all": [0.5], "nuggets": [2]})
TABLE = pd.DataFrame({"name": ["a", "b"], "nDCG@5": [0.25, 0.5], "turns": [2, 2]})


@pytest.mark.parametrize(
    ("average", "error", "message"),
    [
        (
            lambda: evaluation.breakdown({"AD": SCORES[:0]}),
            DataError,
            "the scores of AD have no turn: look at what they were selected by",
        ),
        (
            lambda: evaluation.differing_pairs({"AD": SCORES[:0], "QR": SCORES[:0]}),
            DataError,
            "the scores of AD have no turn",
        ),
        (
            lambda: evaluation.response_means(ASSESSED.drop(columns="outcome")),
            UsageError,
            "no column outcome in the assessments, .*: give those of evaluate_responses",
        ),
        (lambda: evaluation.nugget_means({}), UsageError, "there is no run: give at least one"),
        (
            lambda: evaluation.nugget_means({"AD": pd.DataFrame()}),
            UsageError,
            "no column qid, all, nuggets in the scores of AD, only none: give those of nugget_sc",
        ),
        (lambda: evaluation.session_means({}), UsageError, "there is no system: give at least one"),
        (
            lambda: evaluation.session_means({"AD": pd.DataFrame()}),
            UsageError,
            "no column end, .* in the sessions of AD, only none: give those of session_measures",
        ),
        (
            lambda: evaluation.order_agreement(TABLE[:0], TABLE[:0], "nDCG@5"),
            UsageError,
            "two or more systems, .*: there is none",
        ),
        (
            lambda: evaluation.order_agreement(
                TABLE, TABLE.assign(**{"nDCG@5": [0.5, None]}), "nDCG@5"
            ),
            UsageError,
            "each with a score nDCG@5: a, b",
        ),
    ],
)
def test_a_mean_over_nothing_says_what_is_empty(average, error, message):
    with pytest.raises(error, match=message):
        average()


def test_systems_without_any_value_have_unknown_means():
    [means] = evaluation.nugget_means({"AD": NUGGETS.assign(all=math.nan)}).to_dict("records")
    assert (means["turns"], means["nuggets"]) == (0, 2)
    assert math.isnan(means["recall"])
    sessions = evaluation.session_means({"AD": evaluation.session_measures([])})
    assert sessions[["name", "sessions", "satisfied"]].values.tolist() == [["AD", 0, 0]]
    assert math.isnan(sessions["rubrics met"][0])


def test_means_of_no_response_have_the_columns_of_others():
    none = evaluation.response_means(ASSESSED[:0])
    assert len(none) == 0
    assert list(none.columns) == list(evaluation.response_means(ASSESSED).columns)


@pytest.mark.parametrize("scores", [[], [[0.5]], [[], []], [[0.5], [0.25]]])
def test_too_little_to_vary_has_unknown_shares(scores):
    assert all(math.isnan(share) for share in evaluation.variance_shares(scores))
