"""Plots of a breakdown: places, lines, intervals, labels, and what is refused."""

import matplotlib
import numpy as np
import pandas as pd
import pytest
from small_plots import bars, evaluated, figures, legend

from pyterrier_ikat.errors import DataError
from pyterrier_ikat.evaluation import breakdown
from pyterrier_ikat.show import plots
from pyterrier_ikat.show.plots import axes_for, plot_breakdown

matplotlib.use("Agg")

pytestmark = pytest.mark.usefixtures("close_all")


def ticks(axis):
    return [tick.get_text() for tick in axis.get_ticklabels()]


def table_of(by, groups, turns, half_widths=None, unit="topic", **systems):
    table = pd.DataFrame({by: groups, **systems, "turns": turns})
    table.attrs = {"half_widths": half_widths or {}, "unit": unit}
    table.columns.name = "RR(rel=1)"
    return table


DEPTHS = table_of(
    "depth",
    [1, 2, 4, 5],
    [9, 4, 5, 4],
    {"one": {1: 0.1, 2: 0.2, 4: 0.3, 5: 0.4}, "two": {1: 0.2}},
    one=[0.5, 0.6, 0.7, 0.8],
    two=[0.1, 0.2, 0.3, 0.4],
)


@pytest.mark.parametrize(
    ("by", "shown"), [("conversation", ["1 (2)", "2 (2)"]), ("depth", ["1\n(2)", "2\n(2)"])]
)
def test_breakdown_has_every_system_once_and_the_turn_count(by, shown):
    runs = {f"s{number}": figures(1, 0.5, 0, number / 20) for number in range(18)}
    table = breakdown(runs, by=by)
    ax = plot_breakdown(table)
    assert ax.get_ylabel() == "mean nDCG@5"
    assert ax.get_xlabel().startswith(by)
    assert ax.get_xlabel().endswith("(in brackets: turns, 4 in all)")
    assert legend(ax) == list(runs)
    assert len({(line.get_color(), line.get_marker()) for line in ax.lines}) == 18
    assert ax.lines[3].get_ydata().tolist() == table["s3"].tolist()
    assert ticks(ax.xaxis) == shown
    assert {line.get_linestyle() for line in ax.lines} == (
        {"None"} if by == "conversation" else {"-", "--", ":"}
    )


def test_names_with_dollars_and_underscores_show_unchanged():
    ax = plot_breakdown(breakdown({"_a": figures(1, 0), "$b$ for $2": figures(0, 1)}))
    assert legend(ax) == ["_a", r"\$b\$ for \$2"]
    ax.figure.canvas.draw()


def test_a_breakdown_is_drawn_into_the_axes_that_are_given():
    table = table_of("depth", [1, 2], [9, 9], one=[1.0, 0.5])
    own = axes_for(width=3)
    assert plot_breakdown(table, own) is own
    assert plot_breakdown(table.rename(columns={"depth": "conversation"}), own) is own


def test_depths_are_drawn_down_to_the_last_one_with_five_turns():
    axes = plot_breakdown(DEPTHS)
    first, second = axes.containers
    assert first[0].get_xdata().tolist() == pytest.approx([0.925, 1.925, 3.925])
    assert second[0].get_xdata().tolist() == pytest.approx([1.075, 2.075, 4.075])
    assert list(first[0].get_ydata()) == [0.5, 0.6, 0.7]
    assert bars(first) == pytest.approx([0.1, np.nan, 0.3], nan_ok=True)
    assert bars(second) == pytest.approx([0.2, np.nan, np.nan], nan_ok=True)
    assert first[0].get_linestyle() == "-"
    assert second[0].get_linestyle() == "--"
    assert first[0].get_marker() != second[0].get_marker()
    assert [tick.get_text() for tick in axes.get_xticklabels()] == ["1\n(9)", "2\n(4)", "4\n(5)"]
    assert axes.get_xlabel() == (
        "depth: number of the turn in its conversation (in brackets: turns, 18 in all; deeper: "
        "fewer than 5)\nvertical lines: 95 % confidence intervals of the means, over topics"
    )
    assert axes.get_ylabel() == "mean RR(rel=1)"
    assert axes.get_figure().get_size_inches().tolist() == [8.0, 4.8]
    assert axes.get_legend().get_title().get_text() == "system"


def test_lines_stand_for_means_of_five_turns_or_more():
    widths = plots._half_widths(DEPTHS, "one")
    assert widths[[0, 2]].tolist() == [0.1, 0.3]
    assert np.isnan(widths[[1, 3]]).all()
    assert np.isnan(plots._half_widths(DEPTHS, "two")[1:]).all()
    assert plots._half_widths(DEPTHS, "three") is None
    assert plots._half_widths(DEPTHS[1:2], "one") is None
    for turns, shown in (([4, 4], 2), ([5, 4], 1), ([4, 5], 2), ([6, 4, 5, 4], 3)):
        table = pd.DataFrame({"depth": range(len(turns)), "turns": turns})
        assert len(plots._with_enough_turns(table)) == shown


def of_depths(*turns):
    """A system that scores 0.5 on so many turns of depth 1, 2, ..."""
    qids = []
    for depth, number in enumerate(turns, 1):
        for conversation in range(number):
            qids.append(f"{conversation}_{depth}")
    return pd.DataFrame({"qid": qids, "nDCG@5": 0.5})


@pytest.mark.parametrize(
    ("turns", "shown", "counted"),
    [
        ((6, 5, 4, 1), [1, 2], "11 in all; deeper: fewer than 5"),
        ((5, 4, 5, 4), [1, 2, 3], "14 in all; deeper: fewer than 5"),
        ((5, 5), [1, 2], "10 in all"),
        ((4, 3), [1, 2], "7 in all"),
    ],
)
def test_lines_end_where_fewer_than_five_turns_are_left(turns, shown, counted):
    """A thin depth between two others stays; where no depth has five turns, all are drawn."""
    ax = plot_breakdown(breakdown({"one": of_depths(*turns)}, by="depth"))
    assert ax.lines[0].get_xdata().tolist() == shown
    assert (
        ax.get_xlabel()
        == f"depth: number of the turn in its conversation (in brackets: turns, {counted})"
    )
    assert len(ticks(ax.xaxis)) == len(shown)


def test_intervals_of_a_depth_are_those_of_students_t():
    """Depth 2 has 0, 0, .5, 1, 1: deviation .5, standard error .5 / sqrt(5), quantile 2.7764."""
    qids = ["0_2", "1_2", "2_2", "3_2", "4_2", "1_1", "2_1"]
    one = pd.DataFrame({"qid": qids, "nDCG@5": [0, 0, 0.5, 1, 1, 0, 1.0]})
    table = breakdown({"one": one}, by="depth")
    half = pytest.approx(2.7764 * 0.5 / 5**0.5, abs=1e-4)
    assert table.attrs["half_widths"] == {
        "one": {1: pytest.approx(12.7062 * 0.5, abs=1e-4), 2: half}
    }
    ax = plot_breakdown(table)
    two, five = ax.containers[0].lines[2][0].get_segments()
    assert 0.5 - five[0][1] == half
    assert five[1][1] - 0.5 == half
    assert len(two) == 0, "the interval of two turns would be 12 times as high as the plot"
    assert ax.get_ylim() == (0, 1.05)
    assert plot_breakdown(breakdown({"one": one})).containers[0].lines[2] == ()


def test_intervals_of_no_unit_name_none():
    half_widths = {"one": {1: 0.1}}
    table = table_of("depth", [1], [9], half_widths, unit=None, one=[0.5])
    assert plot_breakdown(table).get_xlabel().endswith("intervals of the means")


def test_conversations_have_strips_and_no_line():
    table = table_of("conversation", ["a", "b", "c"], [5, 6, 7], one=[0.5, 0.0, 2.0])
    axes = plot_breakdown(table)
    [container] = axes.containers
    assert container[0].get_linestyle() == "None"
    assert list(container[0].get_xdata()) == [0.0, 1.0, 2.0]
    assert axes.get_xlim() == (-0.5, 2.5)
    [strip] = axes.patches
    assert (strip.get_x(), strip.get_width()) == (0.5, 1.0)
    labels = axes.get_xticklabels()
    assert [label.get_text() for label in labels] == ["a (5)", "b (6)", "c (7)"]
    assert labels[0].get_rotation() == 90
    assert axes.get_ylim()[0] == 0
    assert axes.get_ylim()[1] > 2
    assert axes.get_xlabel() == "conversation (in brackets: turns, 18 in all)"


def test_every_second_conversation_has_a_strip():
    table = pd.DataFrame({"conversation": list("abcde"), "one": 0.5, "turns": 5})
    axes = plot_breakdown(table)
    strips = [(strip.get_x(), strip.get_width()) for strip in axes.patches]
    assert strips == [(0.5, 1.0), (2.5, 1.0)]


def many(systems, conversations=6, turns=5):
    scores = {}
    for number in range(systems):
        rows = []
        for one in range(1, conversations + 1):
            for turn in range(1, turns + 1):
                rows.append((f"{one}-1_{turn}", (one * turn + number) % 7 / 7))
        scores[f"s{number}"] = pd.DataFrame(rows, columns=["qid", "nDCG@5"])
    return scores


def test_systems_stand_side_by_side_in_a_conversations_strip():
    ax = plot_breakdown(breakdown(many(7), by="conversation"))
    places = [line.get_xdata() for line in ax.lines[:7]]
    for conversation in range(6):
        those = [float(of_system[conversation]) for of_system in places]
        assert those == sorted(set(those))
        assert conversation - 0.5 < those[0]
        assert those[-1] < conversation + 0.5


def test_fourteen_systems_have_colours_that_differ():
    ax = plot_breakdown(breakdown(many(14), by="conversation"))
    assert len({line.get_color() for line in ax.lines[:14]}) == 14


def test_label_explains_vertical_lines_where_there_are_any():
    with_lines = plot_breakdown(breakdown(many(2), by="depth", unit="turn")).get_xlabel()
    assert with_lines.endswith("vertical lines: 95 % confidence intervals of the means, over turns")
    without = breakdown(many(2), by="conversation", unit="conversation")
    assert "vertical lines" not in plot_breakdown(without).get_xlabel()


def test_a_plot_of_many_conversations_is_wide():
    table = table_of("conversation", [str(number) for number in range(40)], 5, one=0.5)
    assert plot_breakdown(table).get_figure().get_size_inches().tolist() == [12.0, 4.8]


@pytest.mark.parametrize(
    ("groups", "systems", "width"),
    [(3, 1, 8.0), (40, 1, 12.0), (40, 3, 2 + 40 * 0.27), (200, 9, 24.0), (24, 2, 8.0)],
)
def test_a_figure_is_as_wide_as_its_marks_need(groups, systems, width):
    assert plots._width(groups, systems) == pytest.approx(width)


def test_scores_up_to_one_have_an_axis_up_to_one():
    for highest, top in ((1.0, 1.05), (0.99, 1.05)):
        axes = plot_breakdown(table_of("depth", [1, 2], [9, 9], one=[0.1, highest]))
        assert axes.get_ylim() == (0, pytest.approx(top))
    low = plot_breakdown(table_of("depth", [1, 2], [9, 9], one=[0.1, 0.2]))
    assert low.get_ylim()[0] == 0
    assert low.get_ylim()[1] < 0.3
    nameless = table_of("depth", [1], [9], one=[0.1])
    nameless.columns.name = None
    nameless.attrs["turns"] = ["Mean over 9 judged turns.", "one lacks 1 judged turn."]
    axes = plot_breakdown(nameless)
    assert axes.get_ylabel() == "mean score"
    assert axes.get_xlabel().splitlines()[-1] == "one lacks 1 judged turn."


def test_an_unknown_score_leaves_a_gap():
    table = table_of("depth", [1, 2], [9, 9], one=[1.0, None], two=[0.5, 0.25])
    axes = plot_breakdown(table)
    assert axes.get_ylim() == (0, pytest.approx(1.05))
    assert axes.containers[1][0].get_ydata()[1] == 0.25


def test_a_table_without_groups_systems_or_turns_is_refused():
    good = table_of("depth", [1], [9], one=[0.1])
    for table in (good.drop(columns="one"), good.drop(columns="turns"), good[["one", "turns"]]):
        with pytest.raises(DataError, match="this is not a breakdown"):
            plot_breakdown(table)
    partly = table_of("depth", [1, 2], [9, 9], one=[0.1, None], two=[None, None])
    with pytest.raises(DataError, match="no score of two: omit the system"):
        plot_breakdown(partly)


def test_a_breakdown_without_rows_is_refused():
    empty = table_of("depth", [], [], one=[])
    with pytest.raises(DataError, match="the breakdown has no depth"):
        plot_breakdown(empty)


def by_turn(by="conversation", **scores):
    return breakdown({name: figures(*values) for name, values in scores.items()}, by=by)


BROKEN_BREAKDOWNS = {
    "no conversation": (by_turn(AD=[1, 0])[:0], "the breakdown has no conversation: look at what"),
    "no depth": (by_turn("depth", AD=[1, 0])[:0], "the breakdown has no depth: look at what"),
    "no column": (pd.DataFrame(), "not a breakdown .it has no column.: give what ikat.breakdown"),
    "no system": (by_turn(AD=[1, 0])[["conversation", "turns"]], "not a breakdown .it has conv"),
    "no turns": (by_turn(AD=[1, 0]).drop(columns="turns"), "not a breakdown .it has conv"),
    "other table": (evaluated(), "not a breakdown .it has name, nDCG@5, turns."),
    "all scores": (
        by_turn(AD=[1, 0], QR=[1, 1]).assign(QR=float("nan")),
        "the breakdown has no score of QR: omit the system",
    ),
}


@pytest.mark.parametrize(("table", "message"), BROKEN_BREAKDOWNS.values(), ids=BROKEN_BREAKDOWNS)
def test_a_breakdown_without_scores_is_refused_before_drawing(table, message):
    from matplotlib import pyplot

    with pytest.raises(DataError, match=message):
        plot_breakdown(table)
    assert pyplot.get_fignums() == []
