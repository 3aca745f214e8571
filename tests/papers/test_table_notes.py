"""Notes below a table of our scores: turns, unjudged passages, judges, stand-ins."""

import numpy as np
import pandas as pd
from papers.made_tables import PLAIN, ROWS, judgements, random_scores, scores, table, table_of

from pyterrier_ikat.conversations.public_outputs import turn_lists
from pyterrier_ikat.methods import METHODS, find
from pyterrier_ikat.methods.catalogue import PublishedTable
from pyterrier_ikat.papers.paper_scores import Judgements
from pyterrier_ikat.papers.published import GPT_35, Row, find_table
from pyterrier_ikat.papers.table import PaperTable


def test_turns_that_were_left_out_or_unknown_are_told():
    made = table(
        judgements(3, unjudged=2, about_turns=("About.",)), scores={"raw": scores(1, 1, 1)}
    )
    notes = " ".join(made.notes)
    assert notes.startswith("About.")
    assert "2 of the turns of turns= are not judged" in notes
    assert "Ours are means over 3 turns, the published scores over 4" in notes
    assert made.notes_of_a_figure[0] == "Ours: 3 turns."


LISTED = next(iter(turn_lists()))


def test_notes_say_what_scores_are_of_and_what_is_missing():
    rows = [ROWS[0], Row(find("aqd"), {}, notes=("n1", "n2")), Row(find("ad"), {}, notes=("n2",))]
    made = table(
        judgements(3, unjudged=2, listed=LISTED),
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


def test_one_turn_that_is_not_judged_is_told_with_its_list():
    turns = turn_lists()[LISTED]
    notes = table(judgements(unjudged=1, listed=LISTED), scores={}).notes
    assert f"Turns, as none are given: {LISTED}, {turns.about} ({turns.source})." in notes
    assert f"1 of the turns of {LISTED} are not judged, and left out." in notes


def test_the_unjudged_share_is_of_ours_and_the_papers():
    part = PublishedTable(**{**vars(PLAIN), "scores": "raw .5 9\naqd .2 5\nad .1 10\n"})
    both = {"raw": scores(*[0.5] * 4, at_ten=8.0), "aqd": scores(*[0.5] * 4, at_ten=6.0)}

    def share(judgements, ours):
        notes = table(judgements, part=part, scores=ours).notes
        return [note for note in notes if note.startswith("Unjudged")]

    rows = "Unjudged in the top 10, over the 2 rows outside the track's pool:"
    assert share(judgements(), both) == [f"{rows} ours 30.00%, published 30.00%."]
    assert share(judgements(), {"ad": scores(*[0.5] * 4)}) == [f"{rows} published 30.00%."]
    one = "Unjudged in the top 10, over the row outside the track's pool:"
    assert share(judgements(), {"raw": both["raw"]}) == [f"{one} ours 20.00%."]
    assert share(judgements(year=2024), both) == [f"{rows} ours 30.00%."]
    assert share(judgements(year=2024), {}) == []


def test_the_unjudged_share_is_over_rows_the_track_did_not_pool():
    """The paper's text says 72.78 %.

    The 13 rounded rows of its Table 3 give 35.30 of 130 judged.
    """
    [part] = find_table("generate_then_retrieve", "3")
    assert "over the 13 rows outside the track's pool: published 72.85%." in " ".join(
        table_of(part, judgements(3)).notes
    )
    published = part.frame().loc[list(part.systems), "Judged@10"]
    seeds = dict.fromkeys(published[published < 10].index, 0)
    every = table_of(part, judgements(3), seeds)
    judged = np.mean([every.scores[name]["Judged@10"].mean() for name in seeds])
    assert f"ours {1 - judged / 10:.2%}, published 72.85%" in " ".join(every.notes)
    some = " ".join(table_of(part, judgements(3), {"ad": 0, "llama10": 1}).notes)
    unjudged = 1 - random_scores(part, 0, 3)["Judged@10"].mean() / 10
    assert f"over the row outside the track's pool: ours {unjudged:.2%}." in some
    pooled_alone = " ".join(table_of(part, judgements(3), {"llama10": 1}).notes)
    assert "over the 13 rows outside the track's pool: published 72.85%." in pooled_alone
    [other] = find_table("generate_then_retrieve", "1")
    assert "Unjudged" not in " ".join(table_of(other, judgements(3, GPT_35)).notes)


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
    made = PaperTable(part, ROWS[:2], judgements(2), {"raw": values})
    notes = " ".join(made.notes)
    assert "LLMeval: the share of responses" in notes
    assert "Columns that no judge filled: BEM by 'bem'. A resources file" in notes
    assert "aqd: it wrote no responses, or is not run yet." in notes
    filled = PaperTable(part, ROWS[:2], judgements(2), {"raw": values.fillna(0.5)})
    assert "Columns that no judge filled" not in " ".join(filled.notes)
    partly = values.assign(Groundedness=[1.0, None], **{"Rouge-L": None}).astype(float)
    of_three = PublishedTable(
        **{**vars(part), "measures": [*part.measures, "Rouge-L"], "scores": "raw .5 .5 .5\n"}
    )
    notes = " ".join(PaperTable(of_three, ROWS[:1], judgements(2), {"raw": partly}).notes)
    assert "Columns that no judge filled: BEM by 'bem'. A" in notes
    assert "raw, Groundedness: a mean over 1 turn, the judge gave no value" in notes
    on_a_list = PaperTable(part, ROWS[:2], judgements(2, listed=LISTED), {"raw": values})
    notes = " ".join(on_a_list.notes)
    assert f"Turns, as none are given: {LISTED}, " in notes
    assert "LLMeval: the share of responses" in notes
    nothing = PaperTable(part, ROWS[:2], judgements(2))
    assert "Columns that no judge filled" not in " ".join(nothing.notes)


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
        notes = PaperTable(part, rows, judgements(3), scored).notes
        assert not any("no judge filled" in note for note in notes)
    assert [note for note in notes if "a mean over" in note] == [
        "raw, BEM: a mean over 2 turns, the judge gave no value on the others."
    ]


def test_columns_without_a_judge_name_the_keys_that_fill_them():
    [part] = find_table("infosense_2024", "4")
    row = Row(METHODS["short_long_2"], {})
    frame = pd.DataFrame(float("nan"), index=range(3), columns=part.measures)
    frame["Rouge-L"] = 0.5
    frame["R-Nuggets"] = [0.2, float("nan"), 0.4]
    table = PaperTable(part, [row], Judgements(judgements(3).qrels, None, 2024), {row.name: frame})
    [note] = [note for note in table.notes if "no judge filled" in note]
    for key in (
        "BEM by 'bem'",
        "Groundedness by 'groundedness'",
        "LLMeval SOLAR by 'solar'",
        "LLMeval GPT-4o by 'gpt-4o'",
    ):
        assert key in note
    assert "by 'nuggets'" not in note
    full = PaperTable(
        part, [row], Judgements(judgements(3).qrels, None, 2024), {row.name: frame.fillna(0.1)}
    )
    assert "no judge filled" not in " ".join(full.notes)


def test_a_mean_over_fewer_turns_says_so():
    [part] = find_table("infosense_2024", "4")
    table = table_of(part, judgements(4, None, 2024), {"short_long_2": 1})
    assert not [note for note in table.notes if "gave no value" in note]
    table.scores["short_long_2"].loc[:1, "Groundedness"] = np.nan
    assert (
        "short_long_2, Groundedness: a mean over 2 turns, the judge gave no value on the others."
        in table.notes
    )


def test_the_sample_is_called_no_evidence():
    made = table(judgements(year=None), scores={"raw": scores(1.0)}, sample=True)
    notes = " ".join(made.notes)
    assert "is no evidence" in notes
    assert "No published score stands beside ours" not in notes


def test_replayed_completions_of_the_authors_are_named():
    spec = "recorded:personalizedcir"
    part = PublishedTable(**{**vars(PLAIN), "recorded": {"gpt-4": spec, "x": "recorded:other"}})
    rows = [Row(find("raw"), {"llm": f"{spec} temperature=0"}), ROWS[1]]

    def named(rows, **ours):
        notes = table(judgements(), rows, part, scores=ours, repeats=2).notes
        return [note for note in notes if note.startswith("Completions: ")]

    [note] = named(rows, raw=scores(*[0.5] * 4))
    assert note.startswith(f"Completions: {spec}, the authors' own, from https://github.com/")
    assert named(rows, aqd=scores(*[0.5] * 4)) == []
    assert named(ROWS, raw=scores(*[0.5] * 4)) == []
    notes = " ".join(table(judgements(), rows, part, scores={}, repeats=2).notes)
    assert "means of 2 runs" not in notes
    assert "LLMeval" not in notes


def test_a_figure_has_no_notes_on_letters():
    made = table(judgements(), ROWS[:1], scores={"raw": scores(*[0.5] * 4)})
    assert any(note.startswith("Published letters") for note in made.notes)
    assert not any(note.startswith("Letters of ours") for note in made.notes)  # nothing to test
    assert made.notes_of_a_figure == ["Ours: 4 turns."]
