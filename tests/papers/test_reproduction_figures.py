"""A paper's figures, drawn of runs that are written by hand and of the sample's."""

import re
import sys
from dataclasses import replace

import matplotlib
import pandas as pd
import pytest
from click.testing import CliRunner
from papers.made_tables import judgements, printed, random_scores
from papers.written_runs import PAPER, PART, QRELS, TURNS, write

from pyterrier_ikat.cli import main
from pyterrier_ikat.errors import DataError, UsageError
from pyterrier_ikat.papers import Reproduction, draw_figure, find_table, reproduction
from pyterrier_ikat.papers.published import PAPERS
from pyterrier_ikat.papers.reproduction import figure_notes, figure_scores
from pyterrier_ikat.runs import RunFolder

matplotlib.use("Agg")


@pytest.mark.parametrize(
    ("number", "by", "groups"),
    [("figure-4", "depth", [1, 2, 3]), ("figure-3", "conversation", ["1-1"])],
)
def test_a_figure_has_the_means_of_its_systems(made, number, by, groups):
    figure = find_table(PAPER, number)
    figure = replace(figure, part=PART, systems=["ad", "aqd"], kind=by, measure="nDCG@5")
    mine = made("ad", "qr")
    with pytest.raises(DataError, match="none of the systems ad, aqd was run: run the figure's"):
        figure_scores(mine, figure)
    write(mine, "ad", "a x", "x a", "x y")
    write(mine, "qr", "a x", "x a", "x y")
    scores = figure_scores(mine, figure)
    assert scores.columns.tolist() == [by, "ad", "turns"]
    assert scores.columns.name == "nDCG@5"
    assert scores[by].tolist() == groups
    wanted = [1.0, 0.6309298, 0.0]
    assert scores["ad"].tolist() == pytest.approx(
        wanted if by == "depth" else [sum(wanted) / 3], abs=1e-6
    )


def test_a_figure_of_judged_passages_has_points_beside_ours(made, tmp_path):
    figure = replace(find_table(PAPER, "figure-2"), systems=["ad", "aqd", "qr"])
    same = replace(PART, turns=3)
    figure = replace(figure, part=same)
    mine = made("ad", "aqd")
    write(mine, "aqd", "a x", "x a", "x y")
    write(mine, "ad", "x y", "x y", "a x")
    scores = figure_scores(mine, figure)
    assert scores.columns.tolist() == ["system", "ours", "published"]
    ours = dict(zip(scores["system"], scores["ours"], strict=True))
    assert ours == {"aqd": pytest.approx(10 / 3), "ad": pytest.approx(5 / 3)}
    assert scores["published"].tolist() == [figure.points[name] for name in scores["system"]]
    path = draw_figure(mine, figure, tmp_path / "figure.svg")
    text = path.read_text(encoding="utf-8")
    assert "published" in text
    assert "Figure 2: Judged@10" in " ".join(re.findall(">([^<]*)</text>", text))
    from matplotlib import pyplot

    assert pyplot.get_fignums() == []
    other = replace(figure, part=replace(same, turns=4))
    assert figure_scores(mine, other)["published"].isna().all()
    notes = figure_notes(mine, other)
    assert notes[0] == "Ours: 3 turns."
    assert any("so no published points are drawn" in note for note in notes)
    silent = figure_notes(mine, replace(other, kind="depth", measure="nDCG@5"))
    assert not any("published points" in note or "no differences" in note for note in silent)
    assert not any(note.startswith("* ") for note in notes)
    of_ad = figure_notes(mine, replace(other, systems=["ad"]))
    assert not any("qr: " in note for note in of_ad)


def test_a_figure_has_those_points_that_are_printed(made, monkeypatch):
    part = replace(PART, turns=3, measures=["Judged@10"], scores="ad 9\naqd -\n")
    figure = replace(find_table(PAPER, "figure-2"), part=part, systems=["ad", "aqd"])
    mine = made("ad", "aqd")
    for name in ("ad", "aqd"):
        write(mine, name, "a x", "x a", "x y")
    assert figure_scores(mine, figure)["published"].fillna(-1).tolist() == [9, -1]
    shown = []

    def save(axes, path):
        shown.extend(text.get_text() for text in axes.get_legend().get_texts())

    monkeypatch.setattr(reproduction, "save_plot", save)
    draw_figure(mine, figure, "figure.svg")
    assert sorted(shown) == ["ours", "published"]


def test_a_figure_has_each_scored_turn_once(made):
    figure = replace(find_table(PAPER, "figure-4"), part=PART, systems=["ad"], measure="nDCG@5")
    more = pd.concat([QRELS, QRELS.assign(docno="x", label=0)], ignore_index=True)
    mine = made("ad", qrels=more.sort_values("qid", kind="stable"))
    write(mine, "ad", "a x", "x a", turns=TURNS[:2])
    scores = figure_scores(mine, figure)
    assert scores["depth"].tolist() == [1, 2]
    assert scores["ad"].tolist() == pytest.approx([1.0, 0.6309298], abs=1e-6)


def test_a_figures_notes_are_of_its_own_systems_and_means(made):
    figure = replace(find_table(PAPER, "figure-4"), part=PART, systems=["ad"], measure="nDCG@5")
    mine = made("ad", "human_qr", repeats=2)
    for name in ("ad", "ad.repeat-2", "human_qr"):
        write(mine, name, "a x", "x a", "x y")
    assert any("means of 2 runs" in note for note in mine.table(PART).notes)
    notes = figure_notes(mine, figure)
    assert notes[0] == "Ours: 3 turns."
    assert len(notes) > 2
    assert not any("means of 2 runs" in note for note in notes)
    assert any(note.startswith("llm: the paper has ") for note in notes)


@pytest.mark.parametrize(("turns", "points"), [(133, [3.42, 10.0]), (132, [])])
def test_a_figure_has_published_points_over_as_many_turns(monkeypatch, turns, points):
    figure = find_table("generate_then_retrieve", "figure-2")
    made = Reproduction("generate_then_retrieve", {})
    monkeypatch.setattr(made, "judgements", lambda part: judgements(turns))
    monkeypatch.setattr(
        made, "scores", lambda part: {name: random_scores(part, 1, turns) for name in ("qd", "aqd")}
    )
    assert figure_scores(made, figure)["published"].dropna().tolist() == points


def test_a_figure_has_the_notes_of_a_table_beside_it_and_in_it(tmp_path, two_turns):
    arguments = [
        "generate_then_retrieve",
        "figure-4",
        "--resources",
        "sample",
        "--systems",
        "ad",
        "--out",
        str(tmp_path),
    ]
    said = " ".join(printed(*arguments).split())
    assert "is no evidence" in said
    assert "Ours: 2 turns." in said
    assert "the paper: iKAT 2023, passages, judged by NIST" in said
    made = Reproduction("generate_then_retrieve", "sample", out=tmp_path, systems=["ad"])
    drawn = draw_figure(
        made, find_table("generate_then_retrieve", "figure-4"), tmp_path / "f.svg"
    ).read_text(encoding="utf-8")
    assert "is no evidence" in " ".join(drawn.split())
    assert RunFolder(tmp_path / "ikat-sample" / "ad").complete
    assert len(figure_scores(made, find_table("generate_then_retrieve", "figure-4")))


FIGURES = []
for name, paper in PAPERS.items():
    FIGURES += [(name, number) for number in paper.figures]


@pytest.fixture(scope="module")
def out(tmp_path_factory):
    """One folder for the runs of all figures, of which several show the same system."""
    return tmp_path_factory.mktemp("papers")


@pytest.mark.parametrize(("name", "number"), FIGURES)
def test_a_figure_without_matplotlib_is_numbers_and_a_warning(
    name, number, out, monkeypatch, two_turns
):
    ours = ["matplotlib", *(name for name in sys.modules if name.startswith("matplotlib."))]
    for module in ours:
        monkeypatch.setitem(sys.modules, module, None)
    figure = find_table(name, number)
    arguments = [
        "paper",
        name,
        number,
        "--resources",
        "sample",
        "--systems",
        figure.systems[0],
        "--out",
        str(out),
    ]
    found = CliRunner().invoke(main, [*arguments, "--format", "csv"])
    assert found.exit_code == 0, found.output
    assert len(found.stdout.strip().splitlines()) > 1
    assert "pip install pyterrier_ikat[plots]" in found.stderr.splitlines()[0]
    assert not list(out.rglob("*.png"))
    made = Reproduction(name, "sample", out=out, systems=[figure.systems[0]])
    with pytest.raises(UsageError, match=r"pip install pyterrier_ikat\[plots\]"):
        draw_figure(made, figure, out / "f.svg")
