"""Plots: what is drawn where, what the axes and legends tell, and what the files hold."""

import re
import sys

import matplotlib
import pandas as pd
import pytest

from pyterrier_ikat.errors import DataError, UsageError
from pyterrier_ikat.evaluation import breakdown
from pyterrier_ikat.llms import Ledger
from pyterrier_ikat.show.plots import (
    plot_breakdown,
    plot_cost,
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


def spent(**counts):
    found = Ledger()
    found.count("answer", "gpt-4o", **counts)
    return found


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


def test_names_with_dollars_and_underscores_show_unchanged():
    ax = plot_breakdown(breakdown({"_a": figures(1, 0), "$b$ for $2": figures(0, 1)}))
    assert legend(ax) == ["_a", r"\$b\$ for \$2"]
    ax.figure.canvas.draw()


def evaluated():
    return pd.DataFrame(
        {"name": ["raw", "QR", "AD"], "nDCG@5": [0.25, 0.5, 0.75], "turns": [24, 24, 24]}
    )


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
    answered.count(
        "queries", "gpt-4o", calls=10, prompt_tokens=50, completion_tokens=50, cost=0.5, known=7
    )
    ledgers = {
        "QR": spent(calls=2, prompt_tokens=100, completion_tokens=20, cost=0.5),
        "raw": Ledger(),
        "AD": answered,
    }
    ax = plot_cost(evaluated(), ledgers, "nDCG@5", against)
    drawn = [(*line.get_xdata(), *line.get_ydata()) for line in ax.lines]
    assert drawn == list(zip(amounts, [0.25, 0.5, 0.75], strict=True))
    assert legend(ax) == ["raw", "QR", "AD (and 7 cached)"]
    assert (ax.get_xlabel(), ax.get_ylabel()) == (title, "mean nDCG@5 of 24 turns")
    assert len({line.get_marker() for line in ax.lines}) == 3


def test_the_cost_of_run_folders_is_that_of_their_ledgers(folders):
    table = evaluated()[:2].assign(name=["plain", "full"])
    ax = plot_cost(table, folders, against="tokens")
    assert [line.get_xdata()[0] for line in ax.lines] == [0, 2000]


def test_a_cost_that_is_not_known_is_not_drawn_as_zero():
    ledgers = {"raw": Ledger(), "QR": spent(calls=1, cost=None), "AD": spent(calls=1, cost=1.0)}
    with pytest.raises(
        DataError,
        match="QR has unknown cost: plot against another of calls, tokens, cost, or omit "
        "the system",
    ):
        plot_cost(evaluated(), ledgers, against="cost")
    with pytest.raises(DataError, match="system AD has no ledger among those of raw, QR"):
        plot_cost(evaluated(), {"raw": Ledger(), "QR": Ledger()})
    with pytest.raises(
        UsageError, match="against='money' is unknown: choose one of calls, tokens, cost"
    ):
        plot_cost(evaluated(), ledgers, against="money")
    with pytest.raises(UsageError, match="the table has no column R.rel=1.@20"):
        plot_cost(evaluated(), ledgers, "R@20")


BROKEN_COSTS = {
    "no row": (evaluated()[:0], "the experiment table has no system: look at what it was sel"),
    "no column": (pd.DataFrame(), "not an experiment table .it has no column.: give what"),
    "turns": (figures(1, 0), "not an experiment table .it has qid, nDCG@5.: give what"),
    "other turns": (evaluated().assign(turns=[24, 24, 7]), "different turns .24, 7 of them."),
    "a score": (
        evaluated().assign(**{"nDCG@5": [0.25, None, 0.75]}),
        "no score nDCG@5 of QR: plot another measure, or omit the system",
    ),
    "all scores": (evaluated().assign(**{"nDCG@5": float("nan")}), "nDCG@5 of raw, QR, AD: plot"),
}


@pytest.mark.parametrize(("table", "message"), BROKEN_COSTS.values(), ids=BROKEN_COSTS)
def test_a_cost_without_scores_is_refused_before_it_is_drawn(table, message):
    from matplotlib import pyplot

    with pytest.raises(DataError, match=message):
        plot_cost(table, {"raw": Ledger(), "QR": Ledger(), "AD": Ledger()})
    assert pyplot.get_fignums() == []


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


def test_a_single_group_of_a_single_run_is_drawn():
    for by in ("conversation", "depth"):
        ax = plot_breakdown(by_turn(by, AD=[0.5]))
        ax.figure.canvas.draw()
        assert ax.lines[0].get_ydata().tolist() == [0.5]
    one = plot_cost(evaluated()[:1], {"raw": Ledger()})
    assert one.lines[0].get_ydata().tolist() == [0.25]


@pytest.mark.parametrize(
    "plot",
    [
        lambda ax: plot_breakdown(breakdown({"QR": figures(1, 0.5), "AD": figures(0.5, 0.75)}), ax),
        lambda ax: plot_cost(evaluated()[:1], {"raw": Ledger()}, ax=ax),
    ],
)
def test_every_plot_draws_on_the_axes_it_is_given_and_opens_none(plot):
    from matplotlib import pyplot

    given = pyplot.figure().subplots()
    assert plot(given) is given
    assert pyplot.get_fignums() == [given.figure.number]


def drawn():
    return plot_breakdown(breakdown({"QR": figures(1, 0.5)}))


def test_saved_plot_keeps_its_text_and_is_always_the_same_file(tmp_path):
    for name in ("0.svg", "1.svg", "0.pdf", "0.png"):
        assert len(save_plot(drawn(), tmp_path / name).read_bytes()) > 1000
    assert (tmp_path / "0.svg").read_bytes() == (tmp_path / "1.svg").read_bytes()
    svg = (tmp_path / "0.svg").read_text(encoding="utf-8")
    assert "mean nDCG@5" in re.sub("<[^>]*>", "", svg)
    assert b"/Subtype /CIDFontType2" in (tmp_path / "0.pdf").read_bytes()
    assert matplotlib.rcParams["svg.fonttype"] == matplotlib.rcParamsDefault["svg.fonttype"]
    with pytest.raises(UsageError, match=r"plot.docx: a plot is saved as .svg, .pdf, .png"):
        save_plot(drawn(), tmp_path / "plot.docx")
    assert not (tmp_path / "plot.docx").exists()


def test_without_matplotlib_the_error_says_how_to_install_it(monkeypatch):
    monkeypatch.setitem(sys.modules, "matplotlib.pyplot", None)
    monkeypatch.delattr(matplotlib, "pyplot", raising=False)
    with pytest.raises(UsageError, match=r"pip install pyterrier_ikat\[plots\]"):
        drawn()


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
