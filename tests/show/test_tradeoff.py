"""Quality against cost, from finished runs."""

import re

import numpy as np
import pandas as pd
import pyterrier as pt
import pytest
from click.testing import CliRunner
from ir_measures import nDCG
from letters import Letters
from scipy import stats

import pyterrier_ikat as ikat
from pyterrier_ikat.cli import main
from pyterrier_ikat.errors import DataError, UsageError
from pyterrier_ikat.show.plots import save_plot
from pyterrier_ikat.show.tradeoff import _marked, plot_tradeoff, tradeoff


@pytest.fixture(scope="module")
def index(tmp_path_factory):
    path = tmp_path_factory.mktemp("index") / "sample.index"
    return ikat.PassageIndex(path).index(pt.get_dataset("ikat:sample").get_corpus_iter(verbose=False))


@pytest.fixture(scope="module")
def runs(index, tmp_path_factory):
    out = tmp_path_factory.mktemp("runs")
    ikat.run(["aqd", "human_qr"], "ikat:sample", out=out, index=index, llm="recorded:sample", reranker=Letters())
    return [str(out / "aqd"), str(out / "human_qr")]


def test_scores_and_p_values_are_those_of_runs_made_at_these_depths(index, runs):
    data = pt.get_dataset("ikat:sample")
    table = tradeoff(runs, data.get_qrels(), depths=[2, 20], queries=[1, 9])
    assert table[["system", "depth", "queries"]].values.tolist() == [
        ["aqd", 2, "first 1"],
        ["aqd", 20, "first 1"],
        ["aqd", 2, "all"],
        ["aqd", 20, "all"],
        ["human_qr", 2, "all"],
        ["human_qr", 20, "all"],
    ]
    made = {}
    for depth in (2, 20):
        aqd = ikat.methods.aqd(ikat.llm("recorded:sample"), index.bm25(), Letters(), depth=depth)(data.get_topics())
        human = ikat.methods.human_qr(index.bm25(), Letters(), depth=depth)(data.get_topics("manual"))
        for name, run in (("aqd", aqd), ("human_qr", human)):
            made[name, depth] = ikat.evaluation.per_turn(run, data.get_qrels(), [nDCG @ 5])["nDCG@5"]
    best = made["aqd", 2]
    whole = table[table["queries"] == "all"].set_index(["system", "depth"])
    for point, scores in made.items():
        assert whole.loc[point, "nDCG@5"] == pytest.approx(scores.mean(), abs=1e-12)
        if point != ("aqd", 2):
            p = min(1.0, 5 * stats.ttest_rel(scores, best).pvalue)
            assert whole.loc[point, "p"] == pytest.approx(p)
            assert whole.loc[point, "worse"] == (p < 0.05)
    assert table["nDCG@5"].idxmax() == 2
    assert whole.loc[("human_qr", 20), ["pairs", "calls", "tokens", "cost"]].tolist() == [24 * 20, 0, 0, 0.0]
    assert whole["calls"].tolist() == [48, 48, 0, 0]


ROWS = pd.DataFrame(
    {
        "system": ["a", "a", "b"],
        "depth": [10, 100, 10],
        "queries": ["all"] * 3,
        "pairs": [240, 2400, 120],
        "calls": [24, 24, 48],
        "tokens": [pd.NA, pd.NA, 9000],
        "cost": [0.5, 0.5, 0.25],
    }
)


def test_the_cheapest_is_the_least_among_those_that_are_not_significantly_worse():
    turns = np.arange(20) / 40
    scores = {"0": turns + 0.4 + np.tile([0.01, -0.01], 10), "1": turns + 0.405, "2": turns + 0.1 + np.tile([0.01, -0.01], 10)}
    table = _marked(ROWS, {name: {"nDCG@5": values.tolist()} for name, values in scores.items()}, nDCG @ 5)
    assert table["worse"].tolist() == [False, False, True]
    assert table["cheapest"].tolist() == ["pairs, calls, cost", "", ""]
    assert np.isnan(table["p"][1])
    assert table["tokens"].isna().tolist() == [True, True, False]
    assert list(plot_tradeoff(table, "tokens").lines[0].get_xdata()) == [9000.0]
    with pytest.raises(DataError, match="the tokens of these runs are not known"):
        plot_tradeoff(table[:2], "tokens")


def test_of_equal_means_the_one_with_fewer_pairs_is_the_best():
    turns, change = np.arange(20) / 64, np.tile([1, -1], 10) / 64
    scores = {"0": turns + change, "1": turns - change, "2": turns / 2}
    table = _marked(ROWS, {name: {"nDCG@5": values.tolist()} for name, values in scores.items()}, nDCG @ 5)
    assert table["p"].isna().tolist() == [True, False, False]  # the others are compared with it


def points(*rows):
    found = pd.DataFrame(rows, columns=["system", "depth", "pairs", "calls", "nDCG@5"])
    return found.assign(queries="all", p=0.5, worse=False, cheapest="").rename_axis(columns="nDCG@5")


TWO = points(*[("a", d, 240 * n, 24, 0.1 * n) for n, d in enumerate((10, 20, 50), 1)], *[("b", d, 250 * d, 24, 0.3) for d in (1, 2, 3)])


def test_each_point_has_one_label_in_the_colour_of_its_line_and_none_covers_another():
    ax = plot_tradeoff(TWO)
    ax.figure.canvas.draw()
    assert [text.get_text() for text in ax.texts] == ["10", "20", "50", "1", "2", "3"]
    assert [text.get_color() for text in ax.texts] == [ax.lines[0].get_color()] * 3 + [ax.lines[2].get_color()] * 3
    boxes = [text.get_window_extent() for text in ax.texts]
    assert [one for place, one in enumerate(boxes) for other in boxes[:place] if one.overlaps(other)] == []


def test_depths_in_the_same_place_share_a_label():
    """Depths 1 to 3 of b need the same calls and score the same; those of a score differently."""
    assert [text.get_text() for text in plot_tradeoff(TWO, "calls").texts] == ["10", "20", "50", "1\u20133"]


@pytest.mark.parametrize(
    ("most", "shown"), [(2_400, ["200", "500", "1,000", "2,000"]), (2_400_000, ["100", "1,000", "10,000", "100,000", "1,000,000"])]
)
def test_ticks_are_plain_numbers(most, shown):
    """The axis goes on for 12 % of its powers of ten: from 182 to 3164, and from 79 to 7.2 million."""
    ax = plot_tradeoff(points(("a", 10, 240, 0, 0.1), ("a", 20, most, 0, 0.2)))
    ax.figure.canvas.draw()
    low, high = ax.get_xlim()
    assert [tick.get_text() for tick in ax.get_xticklabels() if low <= tick.get_position()[0] <= high] == shown
    assert [tick for tick in ax.get_xticklabels(minor=True) if tick.get_text()] == []
    ax = plot_tradeoff(points(("a", 10, 240, 2_000_000, 0.1), ("a", 20, 480, 4_000_000, 0.2)), "calls")
    ax.figure.canvas.draw()
    assert "2,000,000" in [tick.get_text() for tick in ax.get_xticklabels()]


def test_a_tradeoff_for_a_column_is_as_wide_as_it(tmp_path):
    saved = save_plot(plot_tradeoff(TWO, width="column"), tmp_path / "t.svg").read_text()
    assert float(re.search(r'<svg[^>]* width="([\d.]+)pt"', saved)[1]) / 72 <= 3.36


def test_the_command_prints_and_draws(runs, tmp_path):
    plot = tmp_path / "t.svg"
    done = CliRunner().invoke(
        main, ["tradeoff", *runs, "--dataset", "ikat:sample", "--depths", "2,20", "--queries", "1", "--plot", str(plot)]
    )
    assert done.exit_code == 0, done.output
    assert "Mean over 24 judged turns" in done.output
    assert "The first n queries of a turn are not the same as asking for n." in done.output
    assert ">aqd, first 1<" in plot.read_text()
    assert "first n: not the same as asking for n" in plot.read_text()
    done = CliRunner().invoke(main, ["tradeoff", runs[1], "--dataset", "ikat:sample", "--format", "csv"])
    assert [line.split(",")[:3] for line in done.output.splitlines()[1:]] == [
        ["human_qr", str(depth), "all"] for depth in (10, 20, 50, 100, 200, 500, 1000)
    ]


def test_only_the_turns_that_are_named_count(runs):
    done = CliRunner().invoke(main, ["tradeoff", runs[1], "--dataset", "ikat:sample", "--depths", "1000", "--turns", "1-1_1,1-1_2"])
    assert done.exit_code == 0, done.output
    assert "Mean over 2 judged turns" in done.output
    evaluated = CliRunner().invoke(
        main, ["evaluate", runs[1], "--dataset", "ikat:sample", "--turns", "1-1_1,1-1_2", "--measures", "nDCG@5"]
    )
    [score] = [line.split()[1] for line in evaluated.output.splitlines() if line.split()[:1] == ["human_qr"]]
    assert score in done.output.replace("0.", ".")


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (["--depths", "2,x"], "--depths '2,x': give whole numbers"),
        (["--depths", "2000"], "depth 2000 is more than the 1000 of"),
        (["--depths", "0"], "depths and queries from 1 on"),
        (["--depths", "5", "--against", "turns", "--plot", "x.png"], "choose one of pairs, calls, tokens, cost"),
    ],
)
def test_what_cannot_be_shown_is_said_in_one_line(runs, options, said):
    done = CliRunner().invoke(main, ["tradeoff", runs[0], "--dataset", "ikat:sample", *options])
    assert (done.exit_code, said in done.output) == (2, True), done.output


def test_a_method_of_a_file_is_found_there(index, tmp_path):
    source = "import pyterrier_ikat as ikat\n\ndef mine(retriever, *, depth=50):\n    return ikat.RawUtterance() >> retriever % depth\n"
    (tmp_path / "mine.py").write_text(source.replace("def mine", "@ikat.method\ndef mine"))
    ikat.run(f"{tmp_path / 'mine.py'}:mine", "ikat:sample", out=tmp_path / "runs", index=index)
    asked = ["tradeoff", str(tmp_path / "runs" / "mine"), "--dataset", "ikat:sample", "--depths", "5,50"]
    refused = CliRunner().invoke(main, asked)
    assert "its method mine is not in the catalogue: give the Python file that has it" in refused.output
    done = CliRunner().invoke(main, [*asked, "--file", str(tmp_path / "mine.py")])
    assert done.exit_code == 0, done.output


def test_runs_are_asked_for():
    with pytest.raises(UsageError, match="at least one run"):
        tradeoff([], pt.get_dataset("ikat:sample").get_qrels())
