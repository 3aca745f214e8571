"""ROUGE-L by hand, and the longest common subsequence against its plain definition."""

from itertools import combinations

import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pyterrier_ikat.evaluation import RougeL, TokenF1
from pyterrier_ikat.evaluation.reference_judges import longest_common_subsequence, words


def rouge_l(response, reference):
    [assessment] = RougeL().judge(pd.DataFrame({"qanswer": [response], "gold_answer": [reference]}))
    return assessment.value


@pytest.mark.parametrize(
    ("response", "reference", "expected"),
    [
        ("police killed the gunman", "police kill the gunman", 0.75),  # Lin 2004: L = 3 of 4 and 4
        ("the gunman kill police", "police kill the gunman", 0.5),  # L = 2: "the gunman"
        ("a b c", "a b c d e f", 2 / 3),  # P 1, R .5
        ("a x b y c", "a b c", 0.75),  # P .6, R 1
        ("No. NO!", "no", 2 / 3),
        ("yes", "no", 0.0),
        ("", "no", 0.0),
        ("no", "...", 0.0),
    ],
)
def test_by_hand(response, reference, expected):
    assert rouge_l(response, reference) == pytest.approx(expected)


@pytest.mark.parametrize(
    ("response", "reference", "expected"),
    [
        ("The gunman kills.", "a gunman", 2 / 3),  # without articles: 1 in common, of 2 and 1
        ("tea, tea and tea", "Tea tea!", 2 / 3),  # 2 in common, of 4 and 2
        ("May 7", "7 May", 1.0),
        ("the", "an", 0.0),
        ("yes", "no", 0.0),
    ],
)
def test_the_f1_of_words_by_hand(response, reference, expected):
    [assessment] = TokenF1().judge(pd.DataFrame({"qanswer": [response], "gold_answer": [reference]}))
    assert assessment.value == pytest.approx(expected)


def test_tokenisation():
    assert words("It's 3.5% (Café)\nB12") == ["it", "s", "3", "5", "caf", "b12"]


def by_definition(first, second):
    def is_within(part):
        rest = iter(second)
        return all(word in rest for word in part)

    return max(size for size in range(len(first) + 1) if any(is_within(part) for part in combinations(first, size)))


few = st.lists(st.sampled_from("abc"), max_size=7)


@settings(deadline=None)
@given(few, few)
def test_the_longest_common_subsequence(first, second):
    assert longest_common_subsequence(first, second) == by_definition(first, second)


@given(few, few)
def test_the_f_measure_is_symmetric_and_between_0_and_1(first, second):
    score = rouge_l(" ".join(first), " ".join(second))
    assert 0 <= score <= 1
    assert score == rouge_l(" ".join(second), " ".join(first))
    assert rouge_l(" ".join(first), " ".join(first)) == bool(first)
