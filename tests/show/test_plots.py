"""Plots: what is drawn where, what the axes and legends tell, and what the files hold."""

import os
import re
import subprocess
import sys
from pathlib import Path

import matplotlib
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pyterrier_ikat.errors import DataError, UsageError
from pyterrier_ikat.evaluation import agreement, breakdown
from pyterrier_ikat.llms import Ledger
from pyterrier_ikat.show.ledgers import plot_cost
from pyterrier_ikat.show.plots import (
    COLOURS,
    line_styles,
    plot_agreement,
    plot_breakdown,
    plot_differences,
    plot_labels,
    save_plot,
)

matplotlib.use("Agg")


@pytest.fixture(autouse=True)
def close_all():
    from matplotlib import pyplot

    yield
    pyplot.close("all")


def figures(*values):
    """Figures by turn, of turns in one conversation of two turns after the other."""
    qids = [f"{1 + number // 2}_{1 + number % 2}" for number in range(len(values))]
    return pd.DataFrame({"qid": qids, "nDCG@5": [float(value) for value in values]})


def legend(ax):
    return [text.get_text() for text in ax.get_legend().get_texts()]


def ticks(axis):
    return [tick.get_text() for tick in axis.get_ticklabels()]


def heights(bars):
    return [bar.get_height() for bar in bars]


def spent(**counts):
    found = Ledger()
    found.count("answer", "gpt-4o", **counts)
    return found


@pytest.mark.parametrize(("by", "shown"), [("conversation", ["1 (2)", "2 (2)"]), ("depth", ["1\n(2)", "2\n(2)"])])
def test_a_breakdown_has_every_system_once_and_tells_how_many_turns(by, shown):
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
    assert {line.get_linestyle() for line in ax.lines} == ({"None"} if by == "conversation" else {"-", "--", ":"})


def test_intervals_of_a_depth_are_those_of_students_t():
    """Five turns of depth 2 with 0, 0, 0.5, 1, 1: their deviation is 0.5, the standard error 0.5 / sqrt(5), the quantile 2.7764."""
    one = pd.DataFrame({"qid": [*(f"{number}_2" for number in range(5)), "1_1", "2_1"], "nDCG@5": [0, 0, 0.5, 1, 1, 0, 1.0]})
    table = breakdown({"one": one}, by="depth")
    half = pytest.approx(2.7764 * 0.5 / 5**0.5, abs=1e-4)
    assert table.attrs["half_widths"] == {"one": {1: pytest.approx(12.7062 * 0.5, abs=1e-4), 2: half}}
    ax = plot_breakdown(table)
    two, five = ax.containers[0].lines[2][0].get_segments()
    assert 0.5 - five[0][1] == half
    assert five[1][1] - 0.5 == half
    assert len(two) == 0, "the interval of two turns would be 12 times as high as the plot"
    assert ax.get_ylim() == (0, 1.05)
    assert plot_breakdown(breakdown({"one": one})).containers[0].lines[2] == ()


def of_depths(*turns):
    """A system that scores 0.5 on so many turns of depth 1, 2, ..."""
    return pd.DataFrame({"qid": [f"{c}_{depth}" for depth, many in enumerate(turns, 1) for c in range(many)], "nDCG@5": 0.5})


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
    assert ax.get_xlabel() == f"depth: number of the turn in its conversation (in brackets: turns, {counted})"
    assert len(ticks(ax.xaxis)) == len(shown)


def test_conversations_of_few_turns_are_all_drawn():
    assert len(plot_breakdown(breakdown({"one": of_depths(7, 1)})).lines[0].get_xdata()) == 7


def test_the_turns_under_twenty_depths_do_not_overlap():
    qids = [f"{conversation}_{turn}" for conversation in range(16) for turn in range(1, 21)]
    ax = plot_breakdown(breakdown({"expanded from the history": pd.DataFrame({"qid": qids, "nDCG@5": 0.5})}, by="depth"))
    ax.figure.canvas.draw()
    boxes = [tick.get_window_extent() for tick in ax.get_xticklabels()]
    assert [left for left, right in zip(boxes, boxes[1:], strict=False) if left.x1 >= right.x0] == []


@pytest.mark.parametrize("by", ["conversation", "depth"])
def test_the_marks_of_fourteen_systems_stand_side_by_side(by):
    ax = plot_breakdown(breakdown({f"s{number}": figures(1, 0.5, 0, 0.2) for number in range(14)}, by=by))
    places = sorted(place for line in ax.lines[:14] for place in line.get_xdata())
    assert len(set(places)) == 28
    assert min(right - left for left, right in zip(places, places[1:], strict=False)) == pytest.approx(0.8 / 14)


def test_a_depth_without_turns_leaves_a_gap():
    one = pd.DataFrame({"qid": ["1_1", "1_4"], "nDCG@5": [0.5, 0.25]})
    assert plot_breakdown(breakdown({"one": one}, by="depth")).lines[0].get_xdata().tolist() == [1, 4]


def test_looks_repeat_only_after_all_of_them():
    found = [look for look, _ in zip(line_styles(), range(169), strict=False)]
    assert len(set(found[:168])) == 168
    assert found[168] == found[0]


def test_every_colour_stands_out_from_white():
    def luminance(colour):
        linear = [part / 12.92 if part <= 0.04045 else ((part + 0.055) / 1.055) ** 2.4 for part in matplotlib.colors.to_rgb(colour)]
        return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]

    assert min(1.05 / (luminance(colour) + 0.05) for colour in COLOURS) > 2


def test_names_with_dollars_and_underscores_are_shown_as_they_are():
    ax = plot_breakdown(breakdown({"_a": figures(1, 0), "$b$ for $2": figures(0, 1)}))
    assert legend(ax) == ["_a", r"\$b\$ for \$2"]
    ax.figure.canvas.draw()


def test_differences_are_bars_from_the_greatest_gain_to_the_greatest_loss():
    base, other = figures(0.5, 0.5, 0.5, 0.5), figures(0.25, 1, 0.5, 0.75)
    ax = plot_differences({"QR": base, "AD": other}, baseline="QR")
    better, worse = ax.containers
    assert heights(better) == [0.5, 0.25]
    assert heights(worse) == [-0.25]
    assert [round(bar.get_x() + bar.get_width() / 2, 9) for bar in (*better, *worse)] == [0, 1, 3]
    assert legend(ax) == ["AD better: 2", "QR better: 1", "ties: 1", "mean +.1250"]
    assert ticks(ax.xaxis) == ["1_2", "2_2", "2_1", "1_1"]
    assert (ax.get_xlabel(), ax.get_ylabel()) == ("4 turns, sorted by the difference", "nDCG@5: AD − QR")
    assert better[0].get_hatch() != worse[0].get_hatch()


@given(st.lists(st.tuples(st.integers(0, 4), st.integers(0, 4)), min_size=1, max_size=50))
@settings(max_examples=15, deadline=None)
def test_bars_are_as_many_as_the_wins_and_losses_of_the_table(pairs):
    from matplotlib import pyplot

    runs = {"QR": figures(*(one / 4 for one, _ in pairs)), "AD": figures(*(two / 4 for _, two in pairs))}
    ax = plot_differences(runs, baseline="QR", ax=pyplot.figure(clear=True, num=1).subplots())
    assert [len(bars) for bars in ax.containers] == [sum(two > one for one, two in pairs), sum(two < one for one, two in pairs)]
    assert legend(ax)[2] == f"ties: {sum(one == two for one, two in pairs)}"
    drawn = sorted(heights(ax.containers[0]) + heights(ax.containers[1]))
    assert drawn == sorted((two - one) / 4 for one, two in pairs if one != two)


@pytest.mark.parametrize(("turns", "named"), [(40, 40), (41, 0)])
def test_turns_are_named_as_long_as_there_is_room(turns, named):
    runs = {"QR": figures(*[0] * turns), "AD": figures(*[1] * turns)}
    assert len(ticks(plot_differences(runs, baseline="QR").xaxis)) == named


def test_differences_of_rankings_are_judged_by_the_qrels():
    qrels = pd.DataFrame({"qid": ["1_1", "1_2"], "docno": ["a", "a"], "label": [1, 1]})
    hit = pd.DataFrame({"qid": ["1_1", "1_2"], "docno": ["a", "b"], "score": [1.0, 1.0], "rank": [0, 0]})
    miss = hit.assign(docno="z")
    assert heights(plot_differences({"hit": hit, "miss": miss}, qrels, "R@20", baseline="miss").containers[0]) == [1.0]


@pytest.mark.parametrize("names", [["QR"], ["QR", "AD", "AQD"], ["AD", "AQD"], []])
def test_a_difference_needs_two_runs_one_of_them_the_baseline(names):
    with pytest.raises(UsageError, match="between two runs, one of them the baseline 'QR': these are"):
        plot_differences({name: figures(1, 0) for name in names}, baseline="QR")


def evaluated():
    return pd.DataFrame({"name": ["raw", "QR", "AD"], "nDCG@5": [0.25, 0.5, 0.75], "turns": [24, 24, 24]})


@pytest.mark.parametrize(
    ("against", "amounts", "title"),
    [
        ("calls", [0, 2, 30], "LLM calls"),
        ("tokens", [0, 120, 420], "tokens to and from the LLM"),
        ("cost", [0, 0.5, 1.5], "cost (USD)"),
    ],
)
def test_a_system_stands_at_its_cost_and_its_figure(against, amounts, title):
    answered = spent(calls=20, prompt_tokens=300, completion_tokens=20, cost=1.0)
    answered.count("queries", "gpt-4o", calls=10, prompt_tokens=50, completion_tokens=50, cost=0.5, known=7)
    ledgers = {"QR": spent(calls=2, prompt_tokens=100, completion_tokens=20, cost=0.5), "raw": Ledger(), "AD": answered}
    ax = plot_cost(evaluated(), ledgers, "nDCG@5", against)
    drawn = [(*line.get_xdata(), *line.get_ydata()) for line in ax.lines]
    assert drawn == list(zip(amounts, [0.25, 0.5, 0.75], strict=True))
    assert legend(ax) == ["raw", "QR", "AD (and 7 cached)"]
    assert (ax.get_xlabel(), ax.get_ylabel()) == (title, "mean nDCG@5 of 24 turns")
    assert len({line.get_marker() for line in ax.lines}) == 3


def test_the_cost_of_run_folders_is_that_of_their_ledgers(folders):
    table = evaluated()[:2].assign(name=["plain", "full"])
    assert [line.get_xdata()[0] for line in plot_cost(table, folders, against="tokens").lines] == [0, 2000]


def test_a_cost_that_is_not_known_is_not_drawn_as_zero():
    ledgers = {"raw": Ledger(), "QR": spent(calls=1, cost=None), "AD": spent(calls=1, cost=1.0)}
    with pytest.raises(DataError, match="QR has unknown cost: plot against another of calls, tokens, cost, or omit the system"):
        plot_cost(evaluated(), ledgers, against="cost")
    with pytest.raises(DataError, match="system AD has no ledger among those of raw, QR"):
        plot_cost(evaluated(), {"raw": Ledger(), "QR": Ledger()})
    with pytest.raises(UsageError, match="against='money' is unknown: choose one of calls, tokens, cost"):
        plot_cost(evaluated(), ledgers, against="money")
    with pytest.raises(UsageError, match="the table has no column R.rel=1.@20"):
        plot_cost(evaluated(), ledgers, "R@20")


def judged(*labels):
    return pd.DataFrame(
        {"qid": [f"1_{place % 2}" for place in range(len(labels))], "docno": [f"d{p}" for p in range(len(labels))], "label": labels}
    )


def test_an_agreement_shows_each_count_and_its_share_of_the_row():
    found = agreement(judged(0, 0, 0, 0, 2, 2), judged(0, 0, 0, 2, 2, 2))
    ax = plot_agreement(found, "GPT", "NIST")
    cells = {text.get_position(): text.get_text() for text in ax.texts}
    assert cells[(0, 0)] == "3\n75%"
    assert cells[(2, 0)] == "1\n25%"
    assert cells[(2, 2)] == "2\n100%"
    assert cells[(1, 1)] == "0\n0%"
    assert ax.images[0].get_array().tolist() == [[0.75, 0, 0.25], [0, 0, 0], [0, 0, 1]]
    assert (ax.get_xlabel(), ax.get_ylabel()) == ("label by NIST", "label by GPT (a row is 100 %)")
    assert ticks(ax.xaxis) == ticks(ax.yaxis) == ["0", "1", "2"]
    assert ax.get_title().splitlines() == [
        "6 pairs judged by both, kappa of the labels .667",
        "relevant from label 2 on: agreement 83.3%, kappa .667",
    ]
    dark = {text.get_text() for text in ax.texts if text.get_color() == "white"}
    assert dark == {"3\n75%", "2\n100%"}


def test_an_undefined_kappa_is_called_undefined():
    one = judged(0, 0)
    assert "kappa of the labels undefined" in plot_agreement(agreement(one, one)).get_title()


def test_labels_are_stacked_from_the_lowest_to_the_highest_in_percent():
    ax = plot_labels({"NIST": judged(0, 0, 0, 1), "LLM": judged(4, 0)})
    bars = [[(bar.get_x(), bar.get_width()) for bar in bars] for bars in ax.containers]
    assert bars == [[(0, 75), (0, 50)], [(75, 25), (50, 0)], [(100, 0), (50, 50)]]
    assert legend(ax) == ["0", "1", "4"]
    assert ticks(ax.yaxis) == ["NIST\n4 pairs, 2 turns", "LLM\n2 pairs, 2 turns"]
    assert [text.get_text() for text in ax.texts if text.get_text()] == ["75%", "50%", "25%", "50%"]
    assert len({(bars[0].get_hatch(), bars[0].get_facecolor()) for bars in ax.containers}) == 3
    assert ax.yaxis_inverted()


def test_the_most_frequent_label_is_not_therefore_the_first():
    ax = plot_labels({"NIST": judged(2, 2, 0, 2)})
    assert legend(ax) == ["0", "2"]
    assert [bars[0].get_width() for bars in ax.containers] == [25, 75]


def test_qrels_that_are_none_are_refused():
    with pytest.raises(UsageError, match="there are no qrels"):
        plot_labels({})
    with pytest.raises(DataError, match="the qrels of NIST have no column label"):
        plot_labels({"NIST": judged(0).drop(columns="label")})


def drawings():
    found = {"QR": figures(1, 0.5), "AD": figures(0.5, 0.75)}
    qrels = judged(0, 1, 2)
    table = evaluated()[:1]
    return [
        lambda ax: plot_breakdown(breakdown(found), ax),
        lambda ax: plot_differences(found, baseline="QR", ax=ax),
        lambda ax: plot_cost(table, {"raw": Ledger()}, ax=ax),
        lambda ax: plot_agreement(agreement(qrels, qrels), ax=ax),
        lambda ax: plot_labels({"NIST": qrels}, ax),
    ]


@pytest.mark.parametrize("place", range(5))
def test_every_plot_draws_on_the_axes_it_is_given_and_opens_none(place):
    from matplotlib import pyplot

    given = pyplot.figure().subplots()
    assert drawings()[place](given) is given
    assert pyplot.get_fignums() == [given.figure.number]


def in_a_column():
    found = {"QR": figures(*[1, 0.5] * 25), "AD": figures(*[0.5, 0.75] * 25)}
    qrels = judged(0, 1, 2)
    return {
        "depth": plot_breakdown(breakdown({f"system {n}": of_depths(*[5] * 20) for n in range(14)}, by="depth"), width="column"),
        "conversation": plot_breakdown(breakdown(found), width="column"),
        "differences": plot_differences(found, baseline="QR", width="column"),
        "cost": plot_cost(evaluated()[:1], {"raw": Ledger()}, width="column"),
        "agreement": plot_agreement(agreement(qrels, qrels), width="column"),
        "labels": plot_labels({"NIST": qrels}, width="column"),
    }


def test_plots_for_a_column_are_as_wide_as_it_with_letters_that_can_be_read(tmp_path):
    for name, ax in in_a_column().items():
        saved = save_plot(ax, tmp_path / f"{name}.svg").read_text(encoding="utf-8")
        assert float(re.search(r'<svg[^>]* width="([\d.]+)pt"', saved)[1]) / 72 <= 3.36, name
        texts = [text for text in ax.figure.findobj(matplotlib.text.Text) if text.get_text()]
        assert {6 <= text.get_fontsize() <= 8 for text in texts} == {True}, name
    assert matplotlib.rcParams["font.size"] == matplotlib.rcParamsDefault["font.size"]


@pytest.mark.parametrize("name", ["depth", "conversation"])
def test_what_is_named_in_a_column_does_not_overlap(name):
    ax = in_a_column()[name]
    ax.figure.canvas.draw()
    boxes = [tick.get_window_extent() for tick in ax.get_xticklabels()]
    assert len(boxes) > 5
    assert [left for left, right in zip(boxes, boxes[1:], strict=False) if left.x1 >= right.x0] == []
    assert ax.get_legend().get_window_extent().y0 >= ax.bbox.y1, "the legend is above the plot"


def test_an_unknown_width_is_refused():
    with pytest.raises(UsageError, match='width=\'wide\' is unknown: choose "page" or "column"'):
        plot_labels({"NIST": judged(0, 1)}, width="wide")


def test_a_saved_plot_keeps_its_text_and_is_the_same_file_every_time(tmp_path):
    for suffix in ("svg", "pdf", "png"):
        one, two = (save_plot(plot_labels({"NIST": judged(0, 1)}), tmp_path / f"{number}.{suffix}").read_bytes() for number in range(2))
        assert one == two
        assert len(one) > 1000
    svg = (tmp_path / "0.svg").read_text(encoding="utf-8")
    assert "2 pairs, 2 turns" in re.sub("<[^>]*>", "", svg)
    assert b"/Subtype /CIDFontType2" in (tmp_path / "0.pdf").read_bytes()
    assert matplotlib.rcParams["svg.fonttype"] == matplotlib.rcParamsDefault["svg.fonttype"]
    with pytest.raises(UsageError, match=r"labels.docx: a plot is saved as .svg, .pdf, .png"):
        save_plot(plot_labels({"NIST": judged(0, 1)}), tmp_path / "labels.docx")
    assert not (tmp_path / "labels.docx").exists()


def test_without_matplotlib_the_error_says_how_to_install_it(monkeypatch):
    monkeypatch.setitem(sys.modules, "matplotlib.pyplot", None)
    monkeypatch.delattr(matplotlib, "pyplot", raising=False)
    with pytest.raises(UsageError, match=r"pip install pyterrier_ikat\[plots\]"):
        plot_labels({"NIST": judged(0, 1)})


def test_a_plot_leaves_a_backend_that_shows_plots_as_it_is(tmp_path):
    """Jupyter's backend turns showing on when it is loaded, which the first plot does."""
    (tmp_path / "shows.py").write_text(
        "import matplotlib\nfrom matplotlib.backends.backend_agg import FigureCanvasAgg as FigureCanvas\nmatplotlib.interactive(True)\n"
    )
    program = """
import matplotlib, pandas as pd
from pyterrier_ikat.show.plots import plot_labels
plot_labels({"NIST": pd.DataFrame({"qid": ["1_1", "1_1"], "docno": ["a", "b"], "label": [0, 2]})})
print(matplotlib.get_backend(), matplotlib.is_interactive())
"""
    path = os.pathsep.join([str(tmp_path), str(Path(__file__).parents[2])])
    environment = {**os.environ, "MPLBACKEND": "module://shows", "PYTHONPATH": path}
    done = subprocess.run([sys.executable, "-c", program], env=environment, capture_output=True, text=True, timeout=120)
    assert done.stdout.split() == ["module://shows", "True"], done.stderr
