"""The experiment table: scores, marks, notes and differences; significance is PyTerrier's."""

import math
import statistics

import numpy as np
import pandas as pd
import pyterrier as pt
import pytest
from ir_measures import AP, RR, NumRet, P, nDCG
from scipy import stats
from scipy.stats import f_oneway, ttest_rel
from small_frames import random_runs
from statsmodels.stats.multitest import multipletests

import pyterrier_ikat as ikat
from pyterrier_ikat.errors import DataError, UsageError
from pyterrier_ikat.evaluation import as_measures, evaluate, label, per_turn
from pyterrier_ikat.evaluation.evaluator import (
    experiment_rows,
    oracle_row,
)
from pyterrier_ikat.evaluation.experiment_table import (
    averaged,
    experiment_table,
    measures_of,
    notes_of,
    pairs_that_differ,
    repeated_rows,
    table,
    variance_shares,
)
from pyterrier_ikat.evaluation.units import (
    Clusters,
    independent,
    note_on_intervals,
    notes_on_unit,
)

FIVE = Clusters("conversation", list("abcde"), "qid")
LOW = [0.2, 0.3, 0.4, 0.3, 0.4]
HIGH = [0.7, 0.81, 0.9, 0.7, 0.8]
SCORES = {
    "base": {"nDCG@5": LOW, "RR(rel=1)": HIGH, "AP(rel=1)": LOW},
    "up": {"nDCG@5": HIGH, "RR(rel=1)": LOW, "AP(rel=1)": [score + 0.1 for score in LOW]},
    "same": {"nDCG@5": LOW, "RR(rel=1)": HIGH, "AP(rel=1)": LOW},
}


def texts(column):
    return [cell.text + cell.mark for cell in column.cells]


def test_arrows_show_directions_and_differences_intervals():
    rows = experiment_rows(SCORES, [nDCG @ 5, RR], "base", FIVE)
    shown = experiment_table([*rows, oracle_row(SCORES, [nDCG @ 5, RR])])
    assert [column.title for column in shown.columns] == ["system", "nDCG@5", "RR(rel=1)"]
    assert texts(shown.columns[0]) == ["base", "up", "same", "oracle"]
    assert texts(shown.columns[1]) == [".3200", ".7820↑", ".3200", ".7820"]
    assert texts(shown.columns[2]) == [".7820", ".3200↓", ".7820", ".3200"]
    assert [cell.best for cell in shown.columns[1].cells] == [False, True, False, True]
    assert shown.caption == shown.below.caption == "nDCG@5, RR(rel=1)"
    assert shown.notes[0] == "Mean over 5 judged turns."
    assert "lower than base: two-sided paired t-test robust to clusters" in shown.notes[2]
    assert "over 5 turns of 5 conversations" in shown.notes[2]
    assert "was taken from its id" in shown.notes[3]
    assert shown.notes[4].startswith("oracle: of each turn the run that is best there by nDCG@5,")
    assert len(shown.notes) == 5
    below = shown.below
    assert [column.title for column in below.columns] == ["system", "nDCG@5", "RR(rel=1)"]
    assert texts(below.columns[0]) == ["up", "same"]
    low = f"{rows[1]['nDCG@5 low']:.4f}"[1:]
    high = f"{rows[1]['nDCG@5 high']:.4f}"[1:]
    assert texts(below.columns[1]) == [f"+.4620 [+{low}, +{high}]", "+.0000 [–]"]
    assert texts(below.columns[2])[0].startswith("-.4620 [-")
    assert below.notes == [
        "Differences from base, with 95 % intervals of the same test, not corrected."
    ]
    assert [column.numeric for column in below.on_screen] == [False, True, True]


def test_three_measures_have_a_row_each_below():
    measures = [nDCG @ 5, RR, AP]
    shown = experiment_table(experiment_rows(SCORES, measures, "base", FIVE), ["Other turns."])
    assert shown.notes[0] == "Other turns."
    below = shown.below
    assert [column.title for column in below.columns] == ["system", "measure", "difference"]
    assert texts(below.columns[0]) == ["up"] * 3 + ["same"] * 3
    assert texts(below.columns[1]) == ["nDCG@5", "RR(rel=1)", "AP(rel=1)"] * 2
    assert texts(below.columns[2])[2] == "+.1000 [–]"  # equal in each conversation
    assert len(below.on_screen) == 4
    untested = [note for note in shown.notes if note.startswith("Not tested")]
    assert len(untested) == 1
    assert untested[0].startswith("Not tested: up by AP(rel=1). A system")
    assert "equal in each conversation don't" in untested[0]
    assert shown.caption == "nDCG@5, RR(rel=1), AP(rel=1)"


def test_a_baseline_in_any_place_has_no_row_below():
    names = ["up", "base"]
    chosen = {name: SCORES[name] for name in names}
    shown = experiment_table(experiment_rows(chosen, [nDCG @ 5], "base", FIVE))
    assert texts(shown.columns[1]) == [".7820↑", ".3200"]
    assert texts(shown.below.columns[0]) == ["up"]
    assert texts(shown.below.columns[1])[0].startswith("+.4620 [+")
    assert pairs_that_differ({"b": HIGH, "a": LOW}, FIVE) == [("b", "a")]


def test_each_measure_without_a_test_is_named():
    scores = {"base": {"AP(rel=1)": [0.5] * 5, "RR(rel=1)": [0.5] * 5}}
    scores["down"] = {"AP(rel=1)": [0.25] * 5, "RR(rel=1)": [0.75] * 5}
    notes = experiment_table(experiment_rows(scores, [AP, RR], "base", FIVE)).notes
    assert any("Not tested: down by AP(rel=1), down by RR(rel=1)." in note for note in notes)


def test_nothing_is_untested_for_one_cluster_or_no_difference():
    one = Clusters("topic", ["x"] * 5)
    for name, clusters in (("up", one), ("same", FIVE)):
        chosen = {"base": SCORES["base"], name: SCORES[name]}
        notes = experiment_table(experiment_rows(chosen, [nDCG @ 5], "base", clusters)).notes
        assert not any(note.startswith("Not tested") for note in notes)
    worse = {"base": {"AP(rel=1)": [0.5] * 5}, "down": {"AP(rel=1)": [0.25] * 5}}
    notes = experiment_table(experiment_rows(worse, [AP], "base", FIVE)).notes
    assert any("Not tested: down by AP" in note for note in notes)
    two = Clusters("topic", list("xxyyy"))
    notes = experiment_table(experiment_rows(worse, [AP], "base", two)).notes
    assert any("Not tested: down by AP" in note for note in notes)


def test_a_table_without_baseline_has_no_marks_and_nothing_below():
    shown = experiment_table(experiment_rows({"one": SCORES["up"]}, [nDCG @ 5], None))
    assert shown.notes == ["Mean over 5 judged turns."]
    assert shown.below is None
    two = experiment_table(experiment_rows(SCORES, [nDCG @ 5], None))
    assert two.notes == ["Mean over 5 judged turns.", "Best bold, second best underlined."]
    assert [cell.mark for cell in two.columns[1].cells] == ["", "", ""]


def test_unknown_scores_and_differences_are_told():
    scores = {"base": {"AP(rel=1)": LOW}, "odd": {"AP(rel=1)": [math.nan] * 5}}
    rows = experiment_rows(scores, [AP], "base", FIVE)
    shown = experiment_table(rows)
    assert texts(shown.columns[1]) == [".3200", "n/a"]
    assert texts(shown.below.columns[1]) == ["–"]


def test_repeats_have_deviations_and_sentences_below():
    repeats = {
        "base": [{"NumRet": [1.0, 2.0, 3.0]}],
        "two": [{"NumRet": [1.0, 4.0, 6.0]}, {"NumRet": [2.0, 4.0, 7.0]}],
        "three": [{"NumRet": [0.0, 4.0, 9.0]}, {"NumRet": [3.0, 5, 9]}, {"NumRet": [3.0, 6, 6]}],
    }
    clusters = Clusters("topic", list("xxy"))
    rows = repeated_rows(repeats, [NumRet], "base", clusters, silent=["three"])
    assert [row["repeats"] for row in rows] == [1, 2, 3]
    assert [row["NumRet"] for row in rows] == [6.0, 12.0, 15.0]
    assert math.isnan(rows[0]["NumRet std"])
    assert rows[1]["NumRet std"] == pytest.approx(2**0.5)  # sums of 11 and 13
    assert rows[2]["NumRet std"] == 2.0  # sums of 13, 17 and 15
    assert rows[1]["NumRet LLM share"] == pytest.approx(4 / 77)
    assert rows[2]["NumRet LLM share"] == pytest.approx(21 / 95)
    assert [row["unit"] for row in rows] == ["topic"] * 3
    assert math.isnan(rows[2]["NumRet p-value"])
    assert not math.isnan(rows[1]["NumRet p-value"])
    shown = experiment_table(rows)
    assert texts(shown.columns[1])[0] == "6.0000"
    assert texts(shown.columns[1])[1] == "12.0000±1.4142"
    assert [note for note in shown.notes if "repeats" in note or "share" in note] == [
        "±: standard deviation over 2 or 3 repeats (runs of the same system).",
        "Before the test, each turn's scores are averaged over the repeats.",
        "two: share of the variance of turns' scores that comes from the LLM: NumRet 5% "
        "(the rest: from the turns).",
        "three: share of the variance of turns' scores that comes from the LLM: NumRet 22% "
        "(the rest: from the turns).",
    ]
    alone = experiment_table(repeated_rows({"two": repeats["two"]}, [NumRet], "two")).notes
    assert not any("Before the test" in note for note in alone)
    without = experiment_table(repeated_rows(repeats, [NumRet], None)).notes
    assert not any("Before the test" in note for note in without)
    assert averaged([{"a": [0.0, 1.0], "b": [2.0]}, {"a": [1.0, 1.0], "b": [0.0]}]) == {
        "a": [0.5, 1.0],
        "b": [1.0],
    }


FRAME = pd.DataFrame({"name": ["QR", "AQD"], "nDCG@5": [0.25, 0.5], "turns": [24, 24]})


def test_a_frame_of_scores_is_written_with_what_is_known():
    frame = FRAME.copy()
    frame.attrs = {"turns": ["Mean over 24 judged turns, and more."], "deviations": ["AQD: k."]}
    shown = table(frame)
    assert shown.notes[0] == "Mean over 24 judged turns, and more."
    assert shown.notes[-1] == "note: AQD: k."
    assert notes_of(frame) == ["note: AQD: k."]
    assert shown.frame is frame
    assert table(frame, "csv") == shown.csv()
    assert table(frame, "latex") == shown.latex()
    with pytest.raises(UsageError, match="'html'"):
        table(frame, "html")
    numbered = FRAME.rename(columns={"name": 0})
    with pytest.raises(DataError, match=r"it has 0, nDCG@5, turns\): give what ikat.experiment"):
        table(numbered)
    with pytest.raises(DataError, match="the experiment table has no system"):
        table(FRAME[:0])
    with pytest.raises(DataError, match="means over different turns .24, 23 of them."):
        table(FRAME.assign(turns=[24, 23]))


def test_the_measures_of_a_row_are_what_nothing_else_is():
    row = dict.fromkeys(
        ["name", "P@1", "P@1 +", "P@1 low", "P@1 std", "turns", "relevant_turns", "unit", "repeats"]
    )
    assert measures_of(row) == ["P@1"]
    [numbers] = experiment_rows({"a": {"P(rel=1)@1": [1.0]}}, [P @ 1], None)
    assert measures_of(numbers) == ["P(rel=1)@1"]


def test_pairs_are_tested_by_clusters_and_corrected():
    scores = {"a": LOW, "b": HIGH, "c": [*LOW[:4], 0.41]}
    assert pairs_that_differ(scores, FIVE) == [("a", "b"), ("b", "c")]
    four = Clusters("topic", list("abcdd"))
    assert pairs_that_differ(scores, four) == []
    # by turns p = .0285: one pair of one differs, one of three does not
    near = {"a": [0.0] * 6, "b": [0.1, 0.2, 0.3, 0.1, 0.5, 0.01]}
    turns = Clusters("turn", list("abcdef"))
    assert pairs_that_differ(near, turns) == [("a", "b")]
    three = {**near, "c": [0.0, 0.1, 0.0, 0.1, 0.0, -0.2]}
    assert pairs_that_differ(three, turns) == []
    assert pairs_that_differ({"a": LOW}, turns) == []


@pytest.mark.parametrize(
    ("clusters", "notes"),
    [
        (Clusters("turn", ["a", "b"]), ["treats all turns as independent"]),
        (Clusters("topic", list("abcde")), []),
        (Clusters("topic", list("abcd")), ["5 topics or more, and these are 4. The unit turn"]),
        (Clusters("turn", ["a"], "none"), ["treats all turns", "Nothing names the conv"]),
        (
            Clusters("conversation", list("ab"), "qconversation"),
            ["that of the column qconversation", "5 conversations or more, and these are 2. The"],
        ),
        (Clusters("session", ["a"], of="session"), []),
        (Clusters("user", list("ab"), of="session"), ["5 users or more, and these are 2."]),
    ],
    ids=["turns", "five", "four", "none", "column", "sessions", "users"],
)
def test_notes_say_what_marks_rest_on(clusters, notes):
    found = notes_on_unit(clusters.unit, clusters.number, clusters.source, clusters.of)
    assert len(found) == len(notes)
    for note, part in zip(found, notes, strict=True):
        assert part in note
    if clusters.of == "session" and notes:
        assert found[0].endswith("these are 2.")


def test_what_scores_are_of_counts_in_clusters_too():
    users = Clusters("user", list("aab"), of="session")
    assert users.over() == "3 sessions of 2 users"
    assert (users.is_independent, users.enough) == (False, False)
    sessions = Clusters("session", list("ab"), of="session")
    assert (sessions.over(), sessions.enough) == ("2 sessions", True)
    assert Clusters("turn", list("ab"), of="session").is_independent is False
    means = pd.DataFrame({"unit": "user", "clusters": [2, 2], "unit_from": ""})
    assert note_on_intervals(means).endswith("robust to clusters, over 2 users.")


def test_repeats_have_their_deviation_and_share_below_the_table():
    """By hand: means .5 and .75, n - 1: .1768; the second system was run once."""
    measures = as_measures("nDCG@5")
    systems = {
        "AD": [{"nDCG@5": [0.5, 0.5]}, {"nDCG@5": [0.5, 1.0]}],
        "QR": [{"nDCG@5": [0.25, 0.25]}],
    }
    shown = experiment_table(repeated_rows(systems, measures, "QR", Clusters("turn", ["a", "b"])))
    text = " ".join(shown.text().split())
    assert ".6250±.1768" in text
    assert text.count("±") == 2  # of one score, and in the note
    assert "over 2 repeats" in text
    assert "Before the test, each turn's scores are averaged" in text
    assert "QR: share of the variance" not in text
    alone = experiment_table(repeated_rows({"AD": systems["AD"]}, measures, None)).text()
    assert "averaged over the repeats" not in " ".join(alone.split())
    once = experiment_table(repeated_rows({"QR": systems["QR"]}, measures, None)).text()
    assert "±" not in once


def test_without_variance_the_llms_share_is_not_available():
    repeats = {"AD": [{"nDCG@5": [0.5, 0.5]}] * 3}
    text = experiment_table(repeated_rows(repeats, as_measures("nDCG@5"), None)).text()
    assert "nDCG@5 n/a" in " ".join(text.split())


def test_an_unknown_score_is_not_available_in_the_table():
    scores = pd.DataFrame({"name": ["a", "b"], "nDCG@5": [0.5, np.nan], "turns": [3, 3]})
    assert "n/a" in table(scores).text()


@pytest.mark.parametrize(
    ("frame", "told"),
    [
        (pd.DataFrame(), "it has no column"),
        (pd.DataFrame({"name": ["a"], "turns": [3]}), "not an experiment table"),
        (pd.DataFrame({"name": ["a"], "nDCG@5": [0.5]}), "not an experiment table"),
        (pd.DataFrame({"nDCG@5": [0.5], "turns": [3]}), "not an experiment table"),
        (
            pd.DataFrame({"name": ["a", "b"], "nDCG@5": [0.5, 0.2], "turns": [3, 4]}),
            r"means over different turns \(3, 4 of them\)",
        ),
    ],
)
def test_what_is_no_table_of_scores_is_refused(frame, told):
    with pytest.raises(DataError, match=told):
        table(frame)


# Variance over repeats

# Rows are repeats, columns turns; by turn: (1, 2), (4, 4), (6, 7).
TWO_OF_THREE = [[1.0, 4.0, 6.0], [2.0, 4.0, 7.0]]

# By turn: (0, 3, 3), (4, 5, 6), (9, 9, 6).
THREE_OF_THREE = [[0.0, 4.0, 9.0], [3.0, 5.0, 9.0], [3.0, 6.0, 6.0]]


def test_two_repeats_of_three_turns_by_hand():
    # Means of turns 1.5, 4, 6.5, of all 4. Between: 2 * (6.25 + 0 + 6.25) / 2 = 12.5. Within: (0.5
    # + 0 + 0.5) / 3 = 1/3.
    # Variance of turns (12.5 - 1/3) / 2 = 73/12, of the LLM 1/3 = 4/12.
    assert variance_shares(TWO_OF_THREE) == pytest.approx((73 / 77, 4 / 77))


def test_three_repeats_of_three_turns_by_hand():
    # Means 2, 5, 8, of all 5. Between: 3 * (9 + 0 + 9) / 2 = 27. Within: (6 + 2 + 6) / 6 = 7/3.
    # Turns: (27 - 7/3) / 3 = 74/9, LLM 21/9.
    assert variance_shares(THREE_OF_THREE) == pytest.approx((74 / 95, 21 / 95))


def test_as_scipys_analysis_of_variance_and_plain_python_have_it():
    table = np.random.default_rng(3).normal(size=(5, 40)) + np.random.default_rng(4).normal(size=40)
    within = statistics.mean(statistics.variance(turn) for turn in table.T.tolist())
    between = within * f_oneway(*table.T).statistic
    turns = (between - within) / 5
    assert variance_shares(table.tolist()) == pytest.approx(
        (turns / (turns + within), within / (turns + within))
    )


def test_turns_alike_leave_all_to_the_llm_and_no_share_below_0():
    assert variance_shares([[0.0, 1.0], [1.0, 0.0]]) == (0.0, 1.0)


@pytest.mark.parametrize("scores", [[[0.1, 0.2]], [[0.1], [0.2]], [[0.5, 0.5], [0.5, 0.5]]])
def test_one_sample_one_turn_or_no_variance_has_no_shares(scores):
    assert all(math.isnan(share) for share in variance_shares(scores))


def test_rows_have_mean_deviation_and_a_test_over_averaged_turns():
    ours = [{"nDCG": [0.1, 0.4, 0.6]}, {"nDCG": [0.2, 0.4, 0.7]}]
    base = [{"nDCG": [0.1, 0.2, 0.2]}]
    rows = repeated_rows({"base": base, "ours": ours}, [nDCG], "base")
    rows = {row["name"]: row for row in rows}
    assert averaged(ours)["nDCG"] == pytest.approx([0.15, 0.4, 0.65])
    assert rows["ours"]["nDCG"] == pytest.approx(0.4)
    assert rows["ours"]["nDCG std"] == pytest.approx(statistics.stdev([1.1 / 3, 1.3 / 3]))
    assert rows["ours"]["nDCG p-value"] == pytest.approx(
        ttest_rel([0.15, 0.4, 0.65], [0.1, 0.2, 0.2]).pvalue
    )
    assert rows["ours"]["nDCG LLM share"] == pytest.approx(4 / 77)
    assert (rows["ours"]["repeats"], rows["base"]["repeats"], rows["ours"]["turns"]) == (2, 1, 3)
    assert math.isnan(rows["base"]["nDCG std"])


def test_repeats_equal_to_the_baseline_differ_on_no_turn():
    """The mean of three times .7 is another float than .7.

    A t-test of such differences once had p = .001.
    """
    scores = [0.1, 0.2, 0.3, 0.7, 0.15, 0.35] * 10
    row = repeated_rows(
        {"base": [{"nDCG": scores}], "same": [{"nDCG": scores}] * 3}, [nDCG], "base"
    )[1]
    assert (row["nDCG +"], row["nDCG -"], row["nDCG reject"]) == (0, 0, False)
    assert math.isnan(row["nDCG p-value"])


# Significance

MEASURES = [nDCG @ 5, P(rel=2) @ 20, NumRet]


def pyterriers(runs, qrels, baseline, correction):
    topics = pd.DataFrame({"qid": qrels["qid"].unique(), "query": "q"})
    return pt.Experiment(
        runs, topics, qrels, MEASURES, baseline=baseline, correction=correction, verbose=False
    )


@pytest.mark.parametrize(("baseline", "correction"), [("two", "bonferroni"), (None, None)])
def test_the_table_is_pyterriers(baseline, correction):
    runs, qrels = random_runs(turns=12, names=("one", "two", "three", "four"))
    theirs = pyterriers(runs, qrels, baseline, correction).assign(turns=12)
    unit = None if baseline is None else "turn"
    ours = evaluate(runs, qrels, MEASURES, baseline, unit=unit)
    added = {"unit", "clusters", "unit_from"}
    for measure in MEASURES:
        added |= {f"{label(measure)} low", f"{label(measure)} high"}
    shared = [name for name in ours.columns if name not in added]
    assert set(shared) == set(theirs.columns)
    pd.testing.assert_frame_equal(
        ours[shared], theirs[shared], check_dtype=False, atol=1e-12, rtol=1e-9
    )
    topics = pd.DataFrame({"qid": qrels["qid"].unique(), "query": "q"})
    pd.testing.assert_frame_equal(
        ikat.experiment(
            runs, measures=MEASURES, baseline=baseline, topics=topics, qrels=qrels, unit=unit
        ),
        ours,
    )


def test_bonferroni_is_statsmodels():
    runs, qrels = random_runs(turns=25, names=("one", "two", "three", "four"))
    table = evaluate(runs, qrels, [nDCG @ 5], "three", unit="turn").set_index("name").drop("three")
    base = per_turn(runs["three"], qrels, [nDCG @ 5])["nDCG@5"]
    p = []
    for name in table.index:
        scores = per_turn(runs[name], qrels, [nDCG @ 5])["nDCG@5"]
        p.append(stats.ttest_rel(scores, base).pvalue)
    reject, corrected, _, _ = multipletests(p, alpha=0.05, method="bonferroni")
    assert table["nDCG@5 p-value"].tolist() == pytest.approx(p)
    assert table["nDCG@5 p-value corrected"].tolist() == pytest.approx(corrected)
    assert table["nDCG@5 reject"].tolist() == reject.tolist()


def test_a_system_like_the_baseline_has_no_p_value_and_no_mark():
    runs, qrels = random_runs(turns=5)
    table = evaluate(
        {"one": runs["one"], "same": runs["one"], "two": runs["two"]}, qrels, [nDCG @ 5], "one"
    ).set_index("name")
    assert np.isnan(table.loc["same", "nDCG@5 p-value"])
    assert table.loc["same", ["nDCG@5 +", "nDCG@5 -", "nDCG@5 reject"]].tolist() == [0, 0, False]


def test_one_turn_and_one_system():
    runs, qrels = random_runs(turns=1, names=("one", "two"))
    both = {
        "one": runs["one"],
        "two": runs["one"].assign(docno=runs["one"]["docno"].to_numpy()[::-1]),
    }
    assert np.isnan(evaluate(both, qrels, [nDCG @ 5], "one")["nDCG@5 p-value"][1])
    assert "nDCG@5 reject" not in evaluate({"one": runs["one"]}, qrels, [nDCG @ 5], "one")


def test_many_pairs_ask_for_smaller_p_values():
    """The differences .1, .2, .3, .4 have t = 3.87 and p = .03.

    They are significant alone, not as one of three pairs.
    """
    scores = {"low": [0.1, 0.2, 0.3, 0.4], "high": [0.2, 0.4, 0.6, 0.8]}
    assert pairs_that_differ(scores, independent(4)) == [("low", "high")]
    assert pairs_that_differ(scores | {"other": [0.9, 0.0, 0.5, 0.2]}, independent(4)) == []
