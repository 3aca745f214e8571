"""Plots: systems at their costs, the axes that they are drawn on, their styles and files."""

import re
import sys

import matplotlib
import pandas as pd
import pytest
from small_plots import bars, evaluated, figures, legend

from pyterrier_ikat.errors import DataError, UsageError
from pyterrier_ikat.evaluation import breakdown
from pyterrier_ikat.llms import Ledger
from pyterrier_ikat.show.plots import axes_for, line_styles, plot_breakdown, plot_cost, save_plot

matplotlib.use("Agg")

pytestmark = pytest.mark.usefixtures("close_all")


def spent(**counts):
    found = Ledger()
    found.count("answer", "gpt-4o", **counts)
    return found


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


def test_costs_have_bars_of_deviations_and_say_what_was_cached():
    table = pd.DataFrame(
        {"name": ["a$b", "c"], "nDCG@5": [0.25, 0.5], "nDCG@5 std": [0.1, None], "turns": [1, 1]}
    )
    ledger = Ledger()
    ledger.count("x", "m", calls=2, known=3, prompt_tokens=10, completion_tokens=5, cost=0.5)
    ledger.count("y", "m", calls=1, known=1, prompt_tokens=None, completion_tokens=5, cost=0.5)
    axes = plot_cost(table, {"a$b": ledger, "c": Ledger()})
    assert [bool(container.has_yerr) for container in axes.containers] == [True, False]
    assert bars(axes.containers[0]) == [pytest.approx(0.1)]
    assert axes.get_ylabel() == "mean nDCG@5 of 1 turn"
    assert axes.get_ylim()[0] == 0
    names = [text.get_text() for text in axes.get_legend().get_texts()]
    assert names == [r"a\$b (and 4 cached)", "c"]
    with pytest.raises(DataError, match="a.b has unknown tokens"):
        plot_cost(table, {"a$b": ledger, "c": Ledger()}, against="tokens")


def test_a_cost_is_of_all_stages_in_the_amount_that_is_asked():
    table = pd.DataFrame({"name": ["a", "b"], "nDCG@5": [0.25, 0.5], "turns": [4, 4]})
    ledger = Ledger()
    ledger.count("x", "m", calls=2, prompt_tokens=10, completion_tokens=5, cost=0.5)
    ledger.count("y", "m", calls=1, prompt_tokens=1, completion_tokens=2, cost=0.25)
    for against, amount, words in (
        ("calls", 3, "LLM calls"),
        ("tokens", 18, "tokens to and from the LLM"),
        ("cost", 0.75, "cost (USD)"),
    ):
        axes = plot_cost(table, {"a": ledger, "b": Ledger()}, against=against)
        assert [box[0].get_xdata().item() for box in axes.containers] == [amount, 0]
        assert [box[0].get_ydata().item() for box in axes.containers] == [0.25, 0.5]
        assert (axes.get_xlabel(), axes.get_ylabel()) == (words, "mean nDCG@5 of 4 turns")
    own = axes_for(width=3)
    assert plot_cost(table, {"a": ledger, "b": Ledger()}, ax=own) is own


def test_a_cost_is_plotted_below_the_highest_score():
    table = pd.DataFrame({"name": ["a"], "nDCG@5": [3.0], "turns": [4]})
    assert plot_cost(table, {"a": Ledger()}).get_ylim()[1] > 3


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


def test_a_cost_that_cannot_be_plotted_is_refused():
    table = pd.DataFrame({"name": ["a", "b"], "nDCG@5": [0.25, 0.5], "turns": [4, 4]})
    ledger = Ledger()
    ledger.count("x", "m", calls=2, cost=0.5)
    with pytest.raises(DataError, match="no score nDCG@5 of a, b: plot another measure"):
        plot_cost(table.assign(**{"nDCG@5": [None, None]}), {"a": ledger, "b": ledger})
    with pytest.raises(DataError, match="system b has no ledger among those of a, c"):
        plot_cost(table, {"a": ledger, "c": ledger})
    with pytest.raises(UsageError, match="no column AP"):
        plot_cost(table, {"a": ledger, "b": ledger}, measure="AP")
    for against in ("x", "known"):
        with pytest.raises(UsageError, match=f"against='{against}' is unknown"):
            plot_cost(table, {"a": ledger, "b": ledger}, against=against)


def test_a_single_group_of_a_single_run_is_drawn():
    for by in ("conversation", "depth"):
        ax = plot_breakdown(breakdown({"AD": figures(0.5)}, by=by))
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


def test_styles_differ_for_many_systems():
    styles = line_styles()
    first = [next(styles) for _ in range(168)]
    assert len(set(first)) == 168
    assert next(styles) == first[0]
    colours, markers, lines = zip(*first, strict=True)
    assert (len(set(colours)), len(set(markers)), len(set(lines))) == (14, 8, 3)


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


def test_a_plot_inside_a_larger_figure_is_saved_with_it(tmp_path):
    from matplotlib import pyplot

    part = pyplot.figure(figsize=(2, 2)).subfigures(1, 2)[0]
    assert save_plot(part.subplots(), tmp_path / "part.svg").read_bytes().startswith(b"<?xml")


def test_a_plot_for_a_paper_has_no_date(tmp_path):
    axes = axes_for(width=3)
    assert b"/CreationDate" not in save_plot(axes, tmp_path / "a.pdf").read_bytes()
    assert b"dc:date" not in save_plot(axes, tmp_path / "a.svg").read_bytes()


def test_without_matplotlib_the_error_says_how_to_install_it(monkeypatch):
    monkeypatch.setitem(sys.modules, "matplotlib.pyplot", None)
    monkeypatch.delattr(matplotlib, "pyplot", raising=False)
    with pytest.raises(UsageError, match=r"pip install pyterrier_ikat\[plots\]"):
        drawn()
