"""The table of means of a report: values, differences with intervals and marks, and its note."""

import math

import pytest

from pyterrier_ikat.evaluation.evaluator import compare_with_baseline
from pyterrier_ikat.evaluation.units import Clusters
from pyterrier_ikat.show.report.means import Mean, ShownMeasure, compare_means, comparison_note


@pytest.mark.parametrize(
    ("measure", "value", "signed", "text"),
    [
        (ShownMeasure("x"), 0.5, False, ".5000"),
        (ShownMeasure("x"), 0.5, True, "+.5000"),
        (ShownMeasure("x"), -0.5, True, "−.5000"),
        (ShownMeasure("x"), -0.5, False, "−.5000"),
        (ShownMeasure("x"), -0.0009, False, "−.0009"),
        *((ShownMeasure("x", 1), n / 10, True, f"+.{n}") for n in range(1, 10)),
        (ShownMeasure("x"), 0.00001, True, ".0000"),
        (ShownMeasure("x"), -0.00001, True, ".0000"),
        (ShownMeasure("x", 2), 1.0, False, "1.00"),
        (ShownMeasure("x", 2, share=False), 1234.567, True, "+1,234.57"),
        (ShownMeasure("x", 0, share=False), 0.4, True, "0"),
        (ShownMeasure("x"), math.nan, True, "–"),
    ],
)
def test_a_value_is_written_with_its_sign_and_decimals(measure, value, signed, text):
    assert measure.text(value, signed=signed) == text


SIX = Clusters("conversation", list("aabbccddeeff"), "qid")


def means_of(base, ours, measure, clusters=SIX, more=()):
    others = [[value] for value in more]
    values = {}
    for turn, (of_base, of_ours) in enumerate(zip(base, ours, strict=True)):
        values[str(turn)] = [[of_base], [of_ours], *others]
    means = [[sum(base) / len(base)], [sum(ours) / len(ours)], *others]
    return [row[0] for row in compare_means(means, values, [measure], clusters)]


def test_a_difference_has_an_interval_a_side_and_an_arrow():
    base = [0.1, 0.2] * 6
    ours = [0.6, 0.7, 0.61, 0.72, 0.6, 0.7, 0.63, 0.7, 0.6, 0.7, 0.6, 0.75]
    test = compare_with_baseline(ours, base, SIX, 1)
    first, second = means_of(base, ours, ShownMeasure("x"))
    interval = f"[+{test['low']:.4f}, +{test['high']:.4f}]".replace("0.", ".")
    assert first == Mean(pytest.approx(0.15), ".1500", best=False)
    assert second == Mean(sum(ours) / 12, ".6592", True, "+.5092", "win", "↑", interval)
    first, second = means_of(base, ours, ShownMeasure("x", better=-1))
    assert (first.best, second.best, second.side, second.mark) == (True, False, "loss", "↑")
    _, second = means_of(ours, base, ShownMeasure("x"))
    assert (second.side, second.mark, second.change) == ("loss", "↓", "−.5092")
    _, second = means_of(ours, base, ShownMeasure("x", better=-1))
    assert (second.side, second.mark) == ("win", "↓")
    _, second = means_of(base, ours, ShownMeasure("x", better=0))
    assert second == Mean(sum(ours) / 12, ".6592")
    _, second = means_of(base, ours, ShownMeasure("x", tested=False))
    assert (second.change, second.side, second.interval) == ("+.5092", "", "")
    four = Clusters("topic", list("aaabbbcccddd"))
    _, second = means_of(base, ours, ShownMeasure("x"), four)
    assert (second.side, second.mark, second.interval[:2]) == ("", "", "[+")
    one = Clusters("topic", ["a"] * 12)
    assert means_of(base, ours, ShownMeasure("x"), one)[1].interval == ""


def test_a_test_of_several_systems_is_corrected_and_whole():
    base = [0.0, 0.0, 0.0, 0.0, 0.0, 0.0]
    ours = [0.1, 0.2, 0.3, 0.1, 0.5, 0.01]  # p = .0285
    by_turn = Clusters("turn", list("abcdef"))
    assert means_of(base, ours, ShownMeasure("x"), by_turn)[1].side == "win"
    assert means_of(base, ours, ShownMeasure("x"), by_turn, [0.5])[1].side == ""
    _, second, third = means_of(base, ours, ShownMeasure("x"), by_turn, [math.nan])
    assert (second.change, second.interval) == ("+.2017", "")
    assert third == Mean(pytest.approx(math.nan, nan_ok=True), "–")
    values = {"t": [[math.nan], [0.5]], "u": [[0.0], [0.5]]}
    [[first], [second]] = compare_means([[math.nan], [0.5]], values, [ShownMeasure("x")], by_turn)
    assert (first.text, second.text, second.change, second.best) == ("–", ".5000", "", False)


def test_each_measure_is_tested_by_its_own_values():
    clusters = Clusters("turn", list("abcdef"))
    values = {}
    for number, name in enumerate("abcdef"):
        values[name] = [[0.0, 1.0], [0.1 + number / 100, 1.0], [0.0, 0.5 - number / 100]]
    means = [[0.0, 1.0], [0.125, 1.0], [0.0, 0.475]]
    measures = [ShownMeasure("x"), ShownMeasure("y")]
    first, second, third = compare_means(means, values, measures, clusters)
    assert [(mean.side, mean.change) for mean in first] == [("", ""), ("", "")]
    assert [(mean.side, mean.change) for mean in second] == [("win", "+.1250"), ("", ".0000")]
    assert [(mean.side, mean.change) for mean in third] == [("", ".0000"), ("loss", "−.5250")]
    lacking = {}
    for name, (of_first, _, of_third) in values.items():
        lacking[name] = [of_first, [math.nan, 1.0], of_third]
    rows = compare_means(means, lacking, measures, clusters)
    assert rows[2][0].interval == ""  # a system lacks a value
    assert rows[2][1].side == "loss"


def test_means_that_look_alike_are_both_best_or_none():
    clusters = Clusters("turn", ["a"])
    means = [[0.5], [0.50001], [0.2]]
    rows = compare_means(means, {"a": means}, [ShownMeasure("x")], clusters)
    assert [row[0].best for row in rows] == [True, True, False]
    rows = compare_means(means[:2], {"a": means[:2]}, [ShownMeasure("x")], clusters)
    assert [row[0].best for row in rows] == [False, False]


@pytest.mark.parametrize(
    ("better", "best"), [(1, [False, True]), (-1, [True, False]), (0, [False] * 2)]
)
def test_the_best_mean_is_the_highest_the_lowest_or_none(better, best):
    sessions = [str(number) for number in range(6)]
    values = {one: [[1.0], [2.0]] for one in sessions}
    measure = ShownMeasure("cost", better=better, tested=False)
    means = compare_means([[1.0], [2.0]], values, [measure], Clusters("turn", sessions))
    assert [of_system[0].best for of_system in means] == best


def test_the_note_says_what_differences_and_marks_rest_on():
    assert comparison_note(Clusters("user", list("ab"), of="session"), "raw") == (
        "Differences are from raw. ↑ significantly higher, ↓ significantly lower: two-sided paired "
        "t-test robust to clusters, over 2 sessions of 2 users, Bonferroni, p < .05. The intervals "
        "of 95 % are of the same test, not corrected. Nothing is marked: a test needs 5 users or "
        "more, and these are 2."
    )
    assert "was taken from its id" in comparison_note(SIX, "raw")
