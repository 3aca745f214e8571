"""The parts of plots and drawings: places, widths, labels, and files."""

import matplotlib
import numpy as np
import pandas as pd
import pyterrier as pt
import pytest

from pyterrier_ikat.errors import DataError, UsageError
from pyterrier_ikat.llms import Ledger
from pyterrier_ikat.methods import METHODS
from pyterrier_ikat.show import drawing, plots
from pyterrier_ikat.show.plots import axes_for, line_styles, plot_breakdown, plot_cost, save_plot

matplotlib.use("Agg")


@pytest.fixture(autouse=True)
def close_all():
    from matplotlib import pyplot

    yield
    pyplot.close("all")


def table_of(by, groups, turns, half_widths=None, unit="topic", **systems):
    table = pd.DataFrame({by: groups, **systems, "turns": turns})
    table.attrs = {"half_widths": half_widths or {}, "unit": unit}
    table.columns.name = "RR(rel=1)"
    return table


def bars(container):
    """The half widths of the vertical lines of a system, NaN where there is none."""
    if not container.has_yerr:
        return None
    [lines] = container[2]
    halves = []
    for segment in lines.get_segments():
        if len(segment) == 0:
            halves.append(np.nan)
        else:
            bottom, top = segment[:, 1]
            halves.append((top - bottom) / 2)
    return halves


DEPTHS = table_of(
    "depth",
    [1, 2, 4, 5],
    [9, 4, 5, 4],
    {"one": {1: 0.1, 2: 0.2, 4: 0.3, 5: 0.4}, "two": {1: 0.2}},
    one=[0.5, 0.6, 0.7, 0.8],
    two=[0.1, 0.2, 0.3, 0.4],
)


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


@pytest.mark.parametrize(
    ("groups", "systems", "width"),
    [(3, 1, 8.0), (40, 1, 12.0), (40, 3, 2 + 40 * 0.27), (200, 9, 24.0), (24, 2, 8.0)],
)
def test_a_figure_is_as_wide_as_its_marks_need(groups, systems, width):
    assert plots._width(groups, systems) == pytest.approx(width)


def test_styles_differ_for_many_systems():
    styles = line_styles()
    first = [next(styles) for _ in range(168)]
    assert len(set(first)) == 168
    assert next(styles) == first[0]
    colours, markers, lines = zip(*first, strict=True)
    assert (len(set(colours)), len(set(markers)), len(set(lines))) == (14, 8, 3)


def test_a_table_without_groups_systems_or_turns_is_refused():
    good = table_of("depth", [1], [9], one=[0.1])
    for table in (good.drop(columns="one"), good.drop(columns="turns"), good[["one", "turns"]]):
        with pytest.raises(DataError, match="this is not a breakdown"):
            plot_breakdown(table)
    partly = table_of("depth", [1, 2], [9, 9], one=[0.1, None], two=[None, None])
    with pytest.raises(DataError, match="no score of two: omit the system"):
        plot_breakdown(partly)


def test_costs_have_bars_of_deviations_and_say_what_was_cached():
    table = pd.DataFrame(
        {"name": ["a$b", "c"], "nDCG@5": [0.25, 0.5], "nDCG@5 std": [0.1, None], "turns": [1, 1]}
    )
    spent = Ledger()
    spent.count("x", "m", calls=2, known=3, prompt_tokens=10, completion_tokens=5, cost=0.5)
    spent.count("y", "m", calls=1, known=1, prompt_tokens=None, completion_tokens=5, cost=0.5)
    axes = plot_cost(table, {"a$b": spent, "c": Ledger()})
    assert [bool(container.has_yerr) for container in axes.containers] == [True, False]
    assert bars(axes.containers[0]) == [pytest.approx(0.1)]
    assert axes.get_ylabel() == "mean nDCG@5 of 1 turn"
    assert axes.get_ylim()[0] == 0
    names = [text.get_text() for text in axes.get_legend().get_texts()]
    assert names == [r"a\$b (and 4 cached)", "c"]
    with pytest.raises(DataError, match="a.b has unknown tokens"):
        plot_cost(table, {"a$b": spent, "c": Ledger()}, against="tokens")


def test_plots_are_saved_by_the_ending_of_their_name(tmp_path):
    axes = axes_for(width=3)
    assert axes.get_figure().get_size_inches().tolist() == [3.0, 4.8]
    assert axes_for(axes) is axes
    for name, start in (("a.PNG", b"\x89PNG"), ("a.pdf", b"%PDF"), ("a.svg", b"<?xml")):
        path = save_plot(axes, str(tmp_path / name))
        assert path == tmp_path / name
        assert path.read_bytes().startswith(start)
        first = path.read_bytes()
        assert save_plot(axes, path).read_bytes() == first
    assert b"<dc:date>" not in (tmp_path / "a.svg").read_bytes()
    with pytest.raises(UsageError, match=r"a.jpg: a plot is saved as .svg, .pdf, .png: end"):
        save_plot(axes, tmp_path / "a.jpg")
    from matplotlib.image import imread

    axes.set_axis_off()
    tall = imread(save_plot(axes_for(width=3), tmp_path / "dots.png")).shape[0]
    assert 800 < tall < 1000  # 4.8 inches of 200 dots


@pytest.mark.parametrize(
    ("name", "columns"),
    [
        ("retriever", ["qid", "query", "docno", "text", "score", "rank"]),
        ("dense", ["qid", "query", "docno", "text", "score", "rank"]),
        ("rewriter", ["qid", "query", "qrewrite"]),
        ("expander", ["qid", "query", "qrewrite"]),
        ("reranker", ["qid", "query", "score", "rank"]),
    ],
)
def test_a_stand_in_has_the_columns_of_a_real_resource(name, columns):
    stage = drawing._Resource(name)
    frame = pd.DataFrame({"qid": ["1_1"], "query": ["tea"]})
    found = stage.transform(frame)
    assert found.columns.tolist() == columns
    assert len(found) == 0
    again = stage.transform(frame.assign(score=1.0, text="x"))
    assert set(again.columns) == {*columns, "score", "text"}
    assert stage.schematic == {"label": name.capitalize(), "help_url": ""}


def test_a_drawing_leaves_pyterriers_look_up_as_it_was(tmp_path):
    before = pt.documentation.url_for_class
    drawn = drawing.draw("aqd")
    assert pt.documentation.url_for_class is before

    def fail():
        with drawing._offline():
            raise KeyError(pt.documentation.url_for_class(int))

    with pytest.raises(KeyError, match="None"):
        fail()
    assert pt.documentation.url_for_class is before
    path = drawn.save(str(tmp_path / "aqd.html"))
    assert path.read_text(encoding="utf-8") == (
        f'<!doctype html><meta charset="utf-8">{drawn.html}'
    )
    assert repr(drawn) == "<drawing>"


def test_models_and_resources_of_a_method_are_stand_ins():
    roles = set()
    for method in METHODS.values():
        roles.update(method.resources.values())
    assert {role for role in roles if role.endswith("llm")} == {"llm", "second_llm"}
    drawn = drawing.draw("human_qr").html
    assert "qresolved" in drawn
    assert "qresolved" not in drawing.draw("raw").html


def test_an_unknown_score_leaves_a_gap():
    table = table_of("depth", [1, 2], [9, 9], one=[1.0, None], two=[0.5, 0.25])
    axes = plot_breakdown(table)
    assert axes.get_ylim() == (0, pytest.approx(1.05))
    assert axes.containers[1][0].get_ydata()[1] == 0.25


def test_a_breakdown_is_drawn_into_the_axes_that_are_given():
    table = table_of("depth", [1, 2], [9, 9], one=[1.0, 0.5])
    own = axes_for(width=3)
    assert plot_breakdown(table, own) is own
    assert plot_breakdown(table.rename(columns={"depth": "conversation"}), own) is own


def test_intervals_of_no_unit_name_none():
    half_widths = {"one": {1: 0.1}}
    table = table_of("depth", [1], [9], half_widths, unit=None, one=[0.5])
    assert plot_breakdown(table).get_xlabel().endswith("intervals of the means")


def test_a_breakdown_without_rows_is_refused():
    empty = table_of("depth", [], [], one=[])
    with pytest.raises(DataError, match="the breakdown has no depth"):
        plot_breakdown(empty)


def test_a_cost_is_of_all_stages_in_the_amount_that_is_asked():
    table = pd.DataFrame({"name": ["a", "b"], "nDCG@5": [0.25, 0.5], "turns": [4, 4]})
    spent = Ledger()
    spent.count("x", "m", calls=2, prompt_tokens=10, completion_tokens=5, cost=0.5)
    spent.count("y", "m", calls=1, prompt_tokens=1, completion_tokens=2, cost=0.25)
    for against, amount, words in (
        ("calls", 3, "LLM calls"),
        ("tokens", 18, "tokens to and from the LLM"),
        ("cost", 0.75, "cost (USD)"),
    ):
        axes = plot_cost(table, {"a": spent, "b": Ledger()}, against=against)
        assert [box[0].get_xdata().item() for box in axes.containers] == [amount, 0]
        assert [box[0].get_ydata().item() for box in axes.containers] == [0.25, 0.5]
        assert (axes.get_xlabel(), axes.get_ylabel()) == (words, "mean nDCG@5 of 4 turns")
    own = axes_for(width=3)
    assert plot_cost(table, {"a": spent, "b": Ledger()}, ax=own) is own


def test_a_cost_that_cannot_be_plotted_is_refused():
    table = pd.DataFrame({"name": ["a", "b"], "nDCG@5": [0.25, 0.5], "turns": [4, 4]})
    spent = Ledger()
    spent.count("x", "m", calls=2, cost=0.5)
    with pytest.raises(DataError, match="no score nDCG@5 of a, b: plot another measure"):
        plot_cost(table.assign(**{"nDCG@5": [None, None]}), {"a": spent, "b": spent})
    with pytest.raises(DataError, match="system b has no ledger among those of a, c"):
        plot_cost(table, {"a": spent, "c": spent})
    with pytest.raises(UsageError, match="no column AP"):
        plot_cost(table, {"a": spent, "b": spent}, measure="AP")
    for against in ("x", "known"):
        with pytest.raises(UsageError, match=f"against='{against}' is unknown"):
            plot_cost(table, {"a": spent, "b": spent}, against=against)


def test_a_plot_inside_a_larger_figure_is_saved_with_it(tmp_path):
    from matplotlib import pyplot

    part = pyplot.figure(figsize=(2, 2)).subfigures(1, 2)[0]
    assert save_plot(part.subplots(), tmp_path / "part.svg").read_bytes().startswith(b"<?xml")


def test_a_plot_of_many_conversations_is_wide():
    table = table_of("conversation", [str(number) for number in range(40)], 5, one=0.5)
    assert plot_breakdown(table).get_figure().get_size_inches().tolist() == [12.0, 4.8]


def test_a_cost_is_plotted_below_the_highest_score():
    table = pd.DataFrame({"name": ["a"], "nDCG@5": [3.0], "turns": [4]})
    assert plot_cost(table, {"a": Ledger()}).get_ylim()[1] > 3
