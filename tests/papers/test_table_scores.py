"""A table of our scores beside published ones: rows, differences, letters."""

import math

import numpy as np
import pandas as pd
import pytest
from papers.made_tables import (
    PLAIN,
    ROWS,
    TABLE,
    judgements,
    lines,
    random_scores,
    scores,
    table,
    table_of,
)
from scipy.stats import ttest_rel

import pyterrier_ikat as ikat
from pyterrier_ikat.methods import find
from pyterrier_ikat.methods.catalogue import NIST, PublishedTable
from pyterrier_ikat.papers.paper_scores import Judgements, our_measures
from pyterrier_ikat.papers.published import GPT_35, Row, find_table
from pyterrier_ikat.papers.table import PaperTable, published_tables


def test_ours_published_and_difference_stand_below_each_other():
    made = table(judgements(), scores={"raw": scores(0.6, 0.6, 0.2, 0.2), "ad": scores(0, 0, 0, 1)})
    assert lines(made) == [
        ("raw", "ours", 0.4),
        ("raw", "published", 0.5),
        ("raw", "difference", -0.1),
        ("aqd", "published", 0.25),
        ("ad", "ours", 0.25),
        ("ad", "published", None),
        ("ad", "difference", None),
        ("theirs", "published", 0.9),
    ]
    assert made.frame.columns.tolist() == ["system", "scores", "nDCG", "Judged@10", "turns"]
    turns = made.frame["turns"].tolist()
    assert turns[:2] == [4, 4]
    assert math.isnan(turns[2])


def test_rows_that_were_chosen_stand_without_rows_of_others():
    made = table(judgements(), ROWS[:1], scores={"raw": scores(1, 1, 1, 1)})
    assert [name for name, *_ in lines(made)] == ["raw"] * 3


@pytest.mark.parametrize(
    ("judgements", "beside", "same_turns"),
    [
        (judgements(), True, True),
        (judgements(3), True, False),
        (judgements(5), True, False),
        (judgements(year=2024), False, False),
        (judgements(kind="gpt-4o"), False, False),
        (judgements(kind=None), False, False),
        (judgements(of_some="a part"), False, False),
    ],
)
def test_when_scores_stand_beside_and_are_subtracted(judgements, beside, same_turns):
    count = judgements.qrels["qid"].nunique()
    made = table(judgements, scores={"raw": scores(*[0.5] * count)})
    assert (made.beside, made.same_turns, made.turns) == (beside, same_turns, count)
    kinds = {kind for _, kind, _ in lines(made)}
    assert ("published" in kinds) == beside
    assert ("difference" in kinds) == same_turns
    assert bool(made.judgements.differ_from(TABLE)) != beside


def test_a_table_without_ours_is_the_papers():
    made = PaperTable(TABLE, ROWS, engine="an engine")
    assert (made.turns, made.beside, made.same_turns) == (0, True, False)
    assert lines(made) == [
        ("raw", "published", 0.5),
        ("aqd", "published", 0.25),
        ("ad", "published", None),
        ("theirs", "published", 0.9),
    ]
    notes = " ".join(made.notes)
    assert (
        "Means over 4 turns of iKAT 2023, judged by NIST; the first stage ran on an engine" in notes
    )
    assert "Without a method here: theirs." in notes
    assert "Published letters" in notes
    shown = made.shown()
    assert made.title == "A paper, Table 1"
    assert "scores" not in shown.frame.columns
    text = made.written()
    assert ".5000 b" in text
    assert "(a) raw" in text
    assert "(d) theirs" in text
    assert "5.50" in text


def test_differences_have_a_sign_and_counts_two_decimals():
    made = table(judgements(), ROWS[:2], scores={"raw": scores(0.7, 0.7, 0.7, 0.7, at_ten=9.5)})
    text = made.written()
    assert "+.2000" in text
    assert "-0.50" in text
    assert ".7000" in text
    assert made.title.startswith("A paper, Table 1 (the paper: iKAT 2023, passages, judged by NIST")


def test_systems_that_differ_on_all_turns_get_letters():
    low = scores(0.1, 0.2, 0.1, 0.2)
    high = scores(0.8, 0.9, 0.81, 0.9)
    made = table(judgements(), scores={"raw": low, "aqd": high, "ad": low + 0.0})
    found = {key: value for key, value in made.significant().items() if key[1] == "nDCG"}
    assert found == {("raw", "nDCG"): "b", ("aqd", "nDCG"): "ac", ("ad", "nDCG"): "b"}
    assert "Letters of ours" in " ".join(made.notes)
    of_blocks = PublishedTable(**{**vars(TABLE), "blocks": (["raw", "ad"],)})
    alone = table(judgements(), part=of_blocks, scores={"raw": low, "aqd": high, "ad": low})
    assert alone.significant() == {}
    other = table(judgements(3), scores={"raw": low[:3], "aqd": high[:3]})
    assert other.significant() == {}


def test_repeats_have_deviations_and_notes_their_systems():
    rows = [
        Row(find("raw"), {}, notes=("another model",)),
        Row(find("aqd"), {}, ("bm25",)),
        ROWS[2],
    ]
    made = table(
        judgements(),
        rows,
        scores={"raw": scores(0.5, 0.5, 0.5, 0.5)},
        deviations={"raw": pd.Series({"nDCG": 0.01, "Judged@10": 0.0})},
        repeats=3,
        engine="an engine",
    )
    assert [row[:2] for row in lines(made)][:3] == [
        ("raw*", "ours"),
        ("raw", "± of ours"),
        ("raw", "published"),
    ]
    notes = " ".join(made.notes)
    assert "Ours are means of 3 runs" in notes
    assert "* another model (raw)" in notes
    assert "The paper's first stage ran on an engine." in notes
    assert "aqd: not run, " in notes
    assert "ad: it wrote no passages, or is not run yet." in notes
    sample = table(judgements(), rows, sample=True, engine="an engine", scores={})
    assert "an engine" not in " ".join(sample.notes)


def test_papers_measures_have_levels_and_depths():
    names = ["P@5", "P(rel=2)@20", "Recall", "Recall@100", "MRR", "mAP", "nDCG@3", "Judged@10"]
    part = PublishedTable(**{**vars(TABLE), "measures": names, "scores": ""})
    assert list(our_measures(part).values()) == [
        "P(rel=1)@5",
        "P(rel=2)@20",
        "R(rel=1)@1000",
        "R(rel=1)@100",
        "RR(rel=1)",
        "AP(rel=1)",
        "nDCG@3",
        "Judged@10",
    ]
    sets = PublishedTable(
        **{**vars(TABLE), "measures": ["Precision", "Recall", "F1"], "scores": ""}
    )
    assert list(our_measures(sets).values()) == ["SetP(rel=1)", "SetR(rel=1)", "SetF(rel=1)"]


def test_a_figure_is_its_points_or_is_refused():
    [points] = published_tables("generate_then_retrieve", "figure-2")
    assert points.frame.columns[0] == "system"
    assert len(points.frame) > 0
    printed = ikat.papers.find_table("generate_then_retrieve", "figure-2").points
    rows = points.frame.set_index("system")
    assert rows["Judged@10"].to_dict() == printed
    with pytest.raises(ikat.UsageError, match="prints no numbers of figure-3"):
        published_tables("generate_then_retrieve", "figure-3")


def test_scores_that_stand_alone_have_no_published_ones():
    scored = {"raw": scores(1, 1, 1)}
    compared = "the published scores over"
    assert compared in " ".join(table(judgements(3), scores=scored).notes)
    for alone in (
        judgements(3, year=2024),
        judgements(3, kind="gpt-4o"),
        judgements(3, of_some="a part"),
    ):
        notes = " ".join(table(alone, scores=scored).notes)
        assert "No published score stands beside ours" in notes
        assert compared not in notes


def test_a_row_has_ours_deviation_published_and_difference():
    made = table(
        judgements(),
        [Row(find("raw"), {}, notes=("note",)), ROWS[1]],
        scores={"raw": scores(0.6, 0.6, 0.2, 0.2, at_ten=8.0)},
        deviations={"raw": pd.Series({"nDCG": 0.0125, "Judged@10": 0.5})},
        repeats=2,
    )
    rows = made.frame.astype(object).where(made.frame.notna(), None).values.tolist()
    assert rows == [
        ["raw*", "ours", pytest.approx(0.4), 8.0, 4],
        ["raw", "± of ours", 0.0125, 0.5, None],
        ["raw", "published", 0.5, 10.0, 4],
        ["raw", "difference", pytest.approx(-0.1), -2.0, None],
        ["aqd", "published", 0.25, 5.5, 4],
    ]
    shown = made.shown()
    cells = {}
    for column in shown.columns:
        cells[column.title] = [cell.text for cell in column.cells]
    assert cells == {
        "system": ["(a) raw*", "(a) raw", "(a) raw", "(a) raw", "(b) aqd"],
        "scores": ["ours", "± of ours", "published", "difference", "published"],
        "nDCG": [".4000", ".0125", ".5000 b", "-.1000", ".2500"],
        "Judged@10": ["8.00", "0.50", "10.00", "-2.00", "5.50"],
        "turns": ["4", "", "4", "", "4"],
    }
    assert shown.frame["notes"].tolist() == [" ".join(made.notes)] * 5
    assert shown.title == made.title
    assert made.written("csv").startswith("system,scores,nDCG")
    assert made._repr_html_() == shown._repr_html_()


def test_letters_of_ours_stand_beside_scores_that_differ():
    low = scores(0.1, 0.2, 0.1, 0.2)
    high = scores(0.8, 0.9, 0.81, 0.9)
    ours = {"raw": low, "aqd": high, "ad": low}
    blocks = PublishedTable(**{**vars(PLAIN), "blocks": (["raw", "aqd"], ["aqd", "ad"])})
    made = table(judgements(), part=blocks, scores=ours)
    first = [cell.text for cell in made.shown().columns[2].cells]
    assert first == [
        ".1500 b",
        ".5000",
        "-.3500",
        ".8525 ac",
        ".2500",
        "+.6025",
        ".1500 b",
        "-",
        "-",
    ]
    assert [cell.text for cell in made.shown().columns[0].cells][:4] == ["(a) raw"] * 3 + [
        "(b) aqd"
    ]
    plain = table(judgements(), part=PLAIN, scores=ours)
    assert [cell.text for cell in plain.shown().columns[0].cells][0] == "raw"
    assert "Published letters" not in " ".join(plain.notes)
    fewer = table(judgements(3), part=blocks, scores={"raw": low[:3]})
    assert [cell.text for cell in fewer.shown().columns[0].cells][0] == "raw"


def test_a_turn_with_several_judged_passages_is_one_turn():
    twice = judgements()
    twice = Judgements(pd.concat([twice.qrels, twice.qrels.assign(docno="e")]), NIST, 2023)
    made = table(twice, scores={"raw": scores(0.5, 0.5, 0.5, 0.5)})
    assert (made.turns, made.same_turns) == (4, True)


def test_without_a_score_of_ours_the_published_ones_are_shown():
    nothing = table(judgements(year=2024))
    assert lines(nothing) == [
        ("raw", "published", 0.5),
        ("aqd", "published", 0.25),
        ("ad", "published", None),
    ]
    alone = table(judgements(year=2024), scores={"raw": scores(*[0.5] * 4)})
    assert lines(alone) == [("raw", "ours", 0.5)]
    assert [cell.text for cell in alone.shown().columns[0].cells] == ["raw"]
    for made in (nothing, alone):
        notes = " ".join(made.notes)
        assert "Published letters" not in notes
        assert "Without a method here" not in notes
        assert "Letters of ours" not in notes
    beside = " ".join(table(judgements(), scores={"raw": scores(*[0.5] * 4)}).notes)
    assert "Published letters" in beside
    assert "Without a method here" not in beside


def test_a_system_with_arguments_has_its_name_in_the_table():
    name = "ptkb_str:shots=1"
    part = PublishedTable(**{**vars(PLAIN), "scores": f"raw .5 10\n{name} .2 8\n"})
    rows = [Row(find(system), {}, written=system) for system in ("raw", name)]
    made = table(judgements(), rows, part, scores={name: scores(*[0.5] * 4)})
    assert lines(made)[1:] == [
        (name, "ours", 0.5),
        (name, "published", 0.2),
        (name, "difference", 0.3),
    ]
    assert [note for note in made.notes if "not run yet" in note] == [
        "raw: it wrote no passages, or is not run yet."
    ]


def test_a_title_is_of_the_paper_and_its_scores_are_numbers():
    made = table(judgements(kind="gpt-4o"), scores={"raw": scores(*[0.5] * 4)})
    assert made.title == "A paper, Table 1 (the paper: iKAT 2023, passages, judged by NIST)"
    numeric = [column.numeric for column in made.shown().columns]
    assert numeric == [False, False, True, True, True]


# Tables of real papers, with scores drawn at random


@pytest.mark.parametrize(
    ("judged", "reason"),
    [
        (judgements(103, year=2023), "about iKAT 2024, these about 2023"),
        (judgements(103, year=None), "about iKAT 2024, these about another collection"),
        (judgements(103, kind=GPT_35, year=2024), "by NIST, these by gpt-3.5-turbo"),
        (judgements(103, kind=None, year=2024), "by NIST, these by judges that"),
    ],
)
def test_another_year_or_judge_stands_beside_no_published_score(judged, reason):
    table = table_of(find_table("irlab_2024", "1")[0], judged, {"gpt4qr_deberta": 0})
    assert reason in " ".join(table.notes)
    ours = table.frame[table.frame["system"] == "gpt4qr_deberta"]
    assert ours["scores"].tolist() == ["ours"]
    assert "difference" not in table.written()


def test_other_turns_show_both_counts_and_no_difference():
    part = find_table("irlab_2024", "1")[0]
    table = table_of(part, judgements(102, year=2024), {"gpt4qr_deberta": 0})
    ours = table.frame[table.frame["system"] == "gpt4qr_deberta"]
    assert ours[["scores", "turns"]].values.tolist() == [["ours", 102], ["published", 103]]
    assert table.significant() == {}
    same = table_of(part, judgements(103, year=2024), {"gpt4qr_deberta": 0})
    [difference] = same.frame[same.frame["scores"] == "difference"].to_dict("records")
    expected = random_scores(part, 0, 103)["nDCG"].mean() - 0.5420
    assert difference["nDCG"] == pytest.approx(expected)


def test_systems_of_a_block_are_tested_pairwise():
    part = find_table("generate_then_retrieve", "3")[0]
    table = table_of(part, judgements(133), {name: seed for seed, name in enumerate(part.systems)})
    low = dict(table.scores)
    low["qd"] = low["qd"] - 0.3
    low["qr"] = low["qr"] - 0.3
    table = PaperTable(part, table.rows, table.judgements, low)
    found = table.significant()
    pairs_of_the_block = 6
    letters = ""
    for letter, other in (("b", "aqd"), ("c", "aqd_human"), ("d", "aqd_a")):
        pvalue = ttest_rel(low["qd"]["nDCG"], low[other]["nDCG"]).pvalue
        if pvalue * pairs_of_the_block < 0.05:
            letters += letter
    assert found["qd", "nDCG"] == letters == "bcd"
    assert found["qr", "nDCG"] == "jlm"
    assert ("human_qr", "nDCG") in found
    assert "k" in found["human_qr", "nDCG"]


@pytest.mark.parametrize("form", ["text", "latex", "markdown", "csv"])
def test_notes_and_refusals_are_in_every_format(form):
    part = find_table("generate_then_retrieve", "3")[0]
    table = table_of(part, judgements(133, year=2024), {"qd": 0, "aqd": 1})
    said = " ".join(table.written(form).split())
    assert "about iKAT 2023, these about 2024" in said
    published = part.frame().loc["qd"]
    for value in published[published < 1]:
        assert f"{value:.4f}".removeprefix("0") not in said
    both = table_of(part, judgements(133), {"qd": 0, "aqd": 1}).written(form)
    assert "difference" in both
    assert "about iKAT" not in both


def test_means_of_several_runs_stand_beside_the_published_ones():
    [part] = find_table("ptkb_2024", "2023")
    runs = [random_scores(part, seed, 176) for seed in range(3)]
    mean = sum(runs) / 3
    spread = {"ptkb_none": pd.DataFrame([one.mean() for one in runs]).std()}
    rows = [Row(find("ptkb_none"), {"llm": "recorded:personalizedcir"})]
    table = PaperTable(
        part, rows, judgements(176), {"ptkb_none": mean}, repeats=3, deviations=spread
    )
    assert table.frame["scores"].tolist() == ["ours", "± of ours", "published", "difference"]
    means = [one["nDCG@3"].mean() for one in runs]
    assert table.frame["nDCG@3"].tolist() == pytest.approx(
        [np.mean(means), np.std(means, ddof=1), 0.1835, np.mean(means) - 0.1835]
    )
    assert "means of 3 runs" in " ".join(table.notes)
