"""A table of our scores beside published ones, on a small table worked out by hand."""

import math

import pandas as pd
import pytest

import pyterrier_ikat as ikat
from pyterrier_ikat.conversations.public_outputs import turn_lists
from pyterrier_ikat.methods import find
from pyterrier_ikat.methods.catalogue import NIST, PublishedTable
from pyterrier_ikat.papers.paper_scores import Judgements, our_measures
from pyterrier_ikat.papers.published import Row
from pyterrier_ikat.papers.table import PaperTable, published_tables

TABLE = PublishedTable(
    key="small",
    paper="A paper, Table 1",
    year=2023,
    qrels="of NIST",
    measures=["nDCG", "Judged@10"],
    scores="raw .5000b 10\naqd .2500 5.50\nad - 10\ntheirs .9000 10\n",
    turns=4,
)


def judged(turns=4, kind=NIST, year=2023, **more):
    qrels = pd.DataFrame({"qid": [f"1_{n}" for n in range(turns)], "docno": "d", "label": 1})
    return Judgements(qrels, kind, year, **more)


def scores(*ndcg, at_ten=10.0):
    return pd.DataFrame({"nDCG": list(ndcg), "Judged@10": at_ten})


ROWS = [Row(find(name), {}) for name in ("raw", "aqd", "ad")]


def table(judgements, rows=ROWS, part=TABLE, **more):
    return PaperTable(part, rows, judgements, **more)


def lines(made):
    """System, whose scores, and nDCG of each row: None for a score that is not there."""
    found = []
    for row in made.frame.to_dict("records"):
        score = None if math.isnan(row["nDCG"]) else round(row["nDCG"], 4)
        found.append((row["system"], row["scores"], score))
    return found


def test_ours_published_and_difference_stand_below_each_other():
    made = table(judged(), scores={"raw": scores(0.6, 0.6, 0.2, 0.2), "ad": scores(0, 0, 0, 1)})
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
    made = table(judged(), ROWS[:1], scores={"raw": scores(1, 1, 1, 1)})
    assert [name for name, *_ in lines(made)] == ["raw"] * 3


@pytest.mark.parametrize(
    ("judgements", "beside", "same_turns"),
    [
        (judged(), True, True),
        (judged(3), True, False),
        (judged(5), True, False),
        (judged(year=2024), False, False),
        (judged(kind="gpt-4o"), False, False),
        (judged(kind=None), False, False),
        (judged(of_some="a part"), False, False),
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
    made = table(judged(), ROWS[:2], scores={"raw": scores(0.7, 0.7, 0.7, 0.7, at_ten=9.5)})
    text = made.written()
    assert "+.2000" in text
    assert "-0.50" in text
    assert ".7000" in text
    assert made.title.startswith("A paper, Table 1 (the paper: iKAT 2023, passages, judged by NIST")


def test_systems_that_differ_on_all_turns_get_letters():
    low = scores(0.1, 0.2, 0.1, 0.2)
    high = scores(0.8, 0.9, 0.81, 0.9)
    made = table(judged(), scores={"raw": low, "aqd": high, "ad": low + 0.0})
    found = {key: value for key, value in made.significant().items() if key[1] == "nDCG"}
    assert found == {("raw", "nDCG"): "b", ("aqd", "nDCG"): "ac", ("ad", "nDCG"): "b"}
    assert "Letters of ours" in " ".join(made.notes)
    of_blocks = PublishedTable(**{**vars(TABLE), "blocks": (["raw", "ad"],)})
    alone = table(judged(), part=of_blocks, scores={"raw": low, "aqd": high, "ad": low})
    assert alone.significant() == {}
    other = table(judged(3), scores={"raw": low[:3], "aqd": high[:3]})
    assert other.significant() == {}


def test_repeats_have_deviations_and_notes_their_systems():
    rows = [
        Row(find("raw"), {}, notes=("another model",)),
        Row(find("aqd"), {}, ("bm25",)),
        ROWS[2],
    ]
    made = table(
        judged(),
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
    sample = table(judged(), rows, sample=True, engine="an engine", scores={})
    assert "an engine" not in " ".join(sample.notes)


def test_turns_that_were_left_out_or_unknown_are_told():
    made = table(judged(3, unjudged=2, about_turns=("About.",)), scores={"raw": scores(1, 1, 1)})
    notes = " ".join(made.notes)
    assert notes.startswith("About.")
    assert "2 of the turns of turns= are not judged" in notes
    assert "Ours are means over 3 turns, the published scores over 4" in notes
    assert made.notes_of_a_figure[0] == "Ours: 3 turns."


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
    assert compared in " ".join(table(judged(3), scores=scored).notes)
    for alone in (judged(3, year=2024), judged(3, kind="gpt-4o"), judged(3, of_some="a part")):
        notes = " ".join(table(alone, scores=scored).notes)
        assert "No published score stands beside ours" in notes
        assert compared not in notes


def test_a_row_has_ours_deviation_published_and_difference():
    made = table(
        judged(),
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


LISTED = next(iter(turn_lists()))
PLAIN = PublishedTable(
    **{**vars(TABLE), "scores": "raw .5000 10\naqd .2500 5.50\nad - 10\n", "blocks": ()}
)


def test_letters_of_ours_stand_beside_scores_that_differ():
    low = scores(0.1, 0.2, 0.1, 0.2)
    high = scores(0.8, 0.9, 0.81, 0.9)
    ours = {"raw": low, "aqd": high, "ad": low}
    blocks = PublishedTable(**{**vars(PLAIN), "blocks": (["raw", "aqd"], ["aqd", "ad"])})
    made = table(judged(), part=blocks, scores=ours)
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
    plain = table(judged(), part=PLAIN, scores=ours)
    assert [cell.text for cell in plain.shown().columns[0].cells][0] == "raw"
    assert "Published letters" not in " ".join(plain.notes)
    fewer = table(judged(3), part=blocks, scores={"raw": low[:3]})
    assert [cell.text for cell in fewer.shown().columns[0].cells][0] == "raw"


def test_notes_say_what_scores_are_of_and_what_is_missing():
    rows = [ROWS[0], Row(find("aqd"), {}, notes=("n1", "n2")), Row(find("ad"), {}, notes=("n2",))]
    made = table(
        judged(3, unjudged=2, listed=LISTED),
        rows,
        part=PublishedTable(**{**vars(PLAIN), "turns": None}),
        scores={"raw": scores(0.5, None, 0.5)},
        engine="Lucene",
    )
    notes = made.notes
    assert (
        "Ours are means over 3 turns, the published scores over an unknown number, which are not "
        "published: so no differences and no significance are shown. turns=... names the turns."
    ) in notes
    [of_list] = [note for note in notes if note.startswith("Turns, as none are given")]
    assert f": {LISTED}, " in of_list
    assert f"2 of the turns of {LISTED} are not judged, and left out." in notes
    assert "raw, nDCG: a mean over 2 turns, the judge gave no value on the others." in notes
    assert notes[-2:] == ["* n1 (aqd)", "* n2 (aqd, ad)"]
    assert "aqd: it wrote no passages, or is not run yet." in notes
    assert not any(note.startswith("raw: ") for note in notes)
    published = PaperTable(PublishedTable(**{**vars(PLAIN), "turns": None}), ROWS, engine="X")
    assert published.notes[1].startswith("Means over an unknown number of turns of iKAT 2023")
    assert len(published.notes) == 2
    assert made.notes_of_a_figure == ["Ours: 3 turns.", *made._notes_on_scores(made.judgements)]


def test_the_unjudged_share_is_of_ours_and_the_papers():
    part = PublishedTable(**{**vars(PLAIN), "scores": "raw .5 9\naqd .2 5\nad .1 10\n"})
    both = {"raw": scores(*[0.5] * 4, at_ten=8.0), "aqd": scores(*[0.5] * 4, at_ten=6.0)}

    def share(judgements, ours):
        notes = table(judgements, part=part, scores=ours).notes
        return [note for note in notes if note.startswith("Unjudged")]

    rows = "Unjudged in the top 10, over the 2 rows outside the track's pool:"
    assert share(judged(), both) == [f"{rows} ours 30.00%, published 30.00%."]
    assert share(judged(), {"ad": scores(*[0.5] * 4)}) == [f"{rows} published 30.00%."]
    one = "Unjudged in the top 10, over the row outside the track's pool:"
    assert share(judged(), {"raw": both["raw"]}) == [f"{one} ours 20.00%."]
    assert share(judged(year=2024), both) == [f"{rows} ours 30.00%."]
    assert share(judged(year=2024), {}) == []


def test_responses_have_notes_on_their_judges():
    part = PublishedTable(
        **{
            **vars(PLAIN),
            "about": "responses",
            "measures": ["Groundedness", "BEM"],
            "scores": "raw .5 .5\naqd .2 .2\n",
        }
    )
    values = pd.DataFrame({"Groundedness": [1.0, 0.0], "BEM": [None, None]}, dtype=float)
    made = PaperTable(part, ROWS[:2], judged(2), {"raw": values})
    notes = " ".join(made.notes)
    assert "LLMeval: the share of responses" in notes
    assert "Columns that no judge filled: BEM by 'bem'. A resources file" in notes
    assert "aqd: it wrote no responses, or is not run yet." in notes
    filled = PaperTable(part, ROWS[:2], judged(2), {"raw": values.fillna(0.5)})
    assert "Columns that no judge filled" not in " ".join(filled.notes)
    partly = values.assign(Groundedness=[1.0, None], **{"Rouge-L": None}).astype(float)
    of_three = PublishedTable(
        **{**vars(part), "measures": [*part.measures, "Rouge-L"], "scores": "raw .5 .5 .5\n"}
    )
    notes = " ".join(PaperTable(of_three, ROWS[:1], judged(2), {"raw": partly}).notes)
    assert "Columns that no judge filled: BEM by 'bem'. A" in notes
    assert "raw, Groundedness: a mean over 1 turn, the judge gave no value" in notes
    on_a_list = PaperTable(part, ROWS[:2], judged(2, listed=LISTED), {"raw": values})
    notes = " ".join(on_a_list.notes)
    assert f"Turns, as none are given: {LISTED}, " in notes
    assert "LLMeval: the share of responses" in notes
    nothing = PaperTable(part, ROWS[:2], judged(2))
    assert "Columns that no judge filled" not in " ".join(nothing.notes)


def test_the_sample_is_called_no_evidence():
    made = table(judged(year=None), scores={"raw": scores(1.0)}, sample=True)
    notes = " ".join(made.notes)
    assert "is no evidence" in notes
    assert "No published score stands beside ours" not in notes


def test_kinds_of_tables_are_shown_as_they_were_published():
    [matrix] = published_tables("generate_then_retrieve", "4")
    assert matrix.title.startswith("Labels of ")
    assert matrix.frame.columns[0] == "label"
    assert matrix.frame["notes"][0] == " ".join(matrix.notes)
    assert [column.numeric for column in matrix.columns[:2]] == [False, True]
    shown = {}
    for name, paper in ikat.papers.PAPERS.items():
        for number, table in paper.tables.items():
            shown.setdefault(type(table).__name__, published_tables(name, number))
    [listing] = shown["Listing"]
    assert "ikat methods NAME" in listing.notes[0]
    assert listing.frame.iloc[0, 0]
    [prompts] = shown["Prompts"]
    assert prompts.frame["template"].str.endswith(".jinja").all()
    titles = [cell.text for cell in prompts.columns[0].cells]
    assert [title for title in titles if title] == prompts.frame["template"].tolist()
    assert titles[0] == prompts.frame["template"][0]
    assert all(cell.text.strip() for cell in prompts.columns[1].cells)
    [points] = published_tables("generate_then_retrieve", "figure-2")
    assert points.notes[1].startswith("From ")


def test_a_turn_with_several_judged_passages_is_one_turn():
    twice = judged()
    twice = Judgements(pd.concat([twice.qrels, twice.qrels.assign(docno="e")]), NIST, 2023)
    made = table(twice, scores={"raw": scores(0.5, 0.5, 0.5, 0.5)})
    assert (made.turns, made.same_turns) == (4, True)


def test_without_a_score_of_ours_the_published_ones_are_shown():
    nothing = table(judged(year=2024))
    assert lines(nothing) == [
        ("raw", "published", 0.5),
        ("aqd", "published", 0.25),
        ("ad", "published", None),
    ]
    alone = table(judged(year=2024), scores={"raw": scores(*[0.5] * 4)})
    assert lines(alone) == [("raw", "ours", 0.5)]
    assert [cell.text for cell in alone.shown().columns[0].cells] == ["raw"]
    for made in (nothing, alone):
        notes = " ".join(made.notes)
        assert "Published letters" not in notes
        assert "Without a method here" not in notes
        assert "Letters of ours" not in notes
    beside = " ".join(table(judged(), scores={"raw": scores(*[0.5] * 4)}).notes)
    assert "Published letters" in beside
    assert "Without a method here" not in beside


def test_replayed_completions_of_the_authors_are_named():
    spec = "recorded:personalizedcir"
    part = PublishedTable(**{**vars(PLAIN), "recorded": {"gpt-4": spec, "x": "recorded:other"}})
    rows = [Row(find("raw"), {"llm": f"{spec} temperature=0"}), ROWS[1]]

    def named(rows, **ours):
        notes = table(judged(), rows, part, scores=ours, repeats=2).notes
        return [note for note in notes if note.startswith("Completions: ")]

    [note] = named(rows, raw=scores(*[0.5] * 4))
    assert note.startswith(f"Completions: {spec}, the authors' own, from https://github.com/")
    assert named(rows, aqd=scores(*[0.5] * 4)) == []
    assert named(ROWS, raw=scores(*[0.5] * 4)) == []
    notes = " ".join(table(judged(), rows, part, scores={}, repeats=2).notes)
    assert "means of 2 runs" not in notes
    assert "LLMeval" not in notes


def test_a_figure_has_no_notes_on_letters():
    made = table(judged(), ROWS[:1], scores={"raw": scores(*[0.5] * 4)})
    assert any(note.startswith("Published letters") for note in made.notes)
    assert not any(note.startswith("Letters of ours") for note in made.notes)  # nothing to test
    assert made.notes_of_a_figure == ["Ours: 4 turns."]


def test_one_turn_that_is_not_judged_is_told_with_its_list():
    turns = turn_lists()[LISTED]
    notes = table(judged(unjudged=1, listed=LISTED), scores={}).notes
    assert f"Turns, as none are given: {LISTED}, {turns.about} ({turns.source})." in notes
    assert f"1 of the turns of {LISTED} are not judged, and left out." in notes


def test_a_measure_has_a_judge_if_any_system_has_its_scores():
    part = PublishedTable(
        **{**vars(PLAIN), "about": "responses", "measures": ["BEM"], "scores": "raw .5\naqd .2\n"}
    )
    values = {
        "raw": pd.DataFrame({"BEM": [0.5, 0.5, None]}, dtype=float),
        "aqd": pd.DataFrame({"BEM": [None] * 3}, dtype=float),
    }
    rows = [Row(find("raw"), {}, notes=("other",)), ROWS[1]]
    for scored in (dict(reversed(values.items())), values):
        notes = PaperTable(part, rows, judged(3), scored).notes
        assert not any("no judge filled" in note for note in notes)
    assert [note for note in notes if "a mean over" in note] == [
        "raw, BEM: a mean over 2 turns, the judge gave no value on the others."
    ]


def test_a_system_with_arguments_has_its_name_in_the_table():
    name = "ptkb_str:shots=1"
    part = PublishedTable(**{**vars(PLAIN), "scores": f"raw .5 10\n{name} .2 8\n"})
    rows = [Row(find(system), {}, written=system) for system in ("raw", name)]
    made = table(judged(), rows, part, scores={name: scores(*[0.5] * 4)})
    assert lines(made)[1:] == [
        (name, "ours", 0.5),
        (name, "published", 0.2),
        (name, "difference", 0.3),
    ]
    assert [note for note in made.notes if "not run yet" in note] == [
        "raw: it wrote no passages, or is not run yet."
    ]


def test_a_title_is_of_the_paper_and_its_scores_are_numbers():
    made = table(judged(kind="gpt-4o"), scores={"raw": scores(*[0.5] * 4)})
    assert made.title == "A paper, Table 1 (the paper: iKAT 2023, passages, judged by NIST)"
    numeric = [column.numeric for column in made.shown().columns]
    assert numeric == [False, False, True, True, True]
