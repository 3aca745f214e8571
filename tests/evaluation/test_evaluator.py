"""Evaluators, names of runs and rows of scores by small numbers; oracles and sessions by hand."""

import math
import shutil
import warnings
from itertools import permutations
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from ir_measures import AP, RR, NumQ, NumRet, P, R, nDCG
from small_frames import TWO_TURNS, run

from pyterrier_ikat.errors import DataError, UsageError
from pyterrier_ikat.evaluation import evaluate, per_turn
from pyterrier_ikat.evaluation.evaluator import (
    Evaluator,
    NotJudgedWarning,
    OtherTurnsWarning,
    RelevanceWarning,
    aggregated,
    as_measures,
    bonferroni,
    check_baseline,
    check_common_turns,
    check_turn_names,
    compare_with_baseline,
    experiment_rows,
    grouped,
    judgements_by_turn,
    label,
    name_runs,
    oracle_row,
    other_forms,
    turn_scores,
    warn_of_other_turns,
)
from pyterrier_ikat.evaluation.units import Clusters
from pyterrier_ikat.runs import RunFolder

JUDGED = {"1_2": {"a": 2, "b": 0}, "1_1": {"c": 1}}


def test_scores_stand_in_the_order_of_the_judged_turns():
    evaluator = Evaluator(JUDGED, as_measures("RR, NumQ, NumRet"))
    found = evaluator.per_turn("x", {"1_1": {"z": 2.0, "c": 1.0}, "9_9": {"a": 1.0}})
    assert found == {"RR(rel=1)": [0.0, 0.5], "NumQ": [1.0, 1.0], "NumRet": [0.0, 2.0]}
    none = evaluator.per_turn("x", {})
    assert none == {"RR(rel=1)": [0.0, 0.0], "NumQ": [1.0, 1.0], "NumRet": [0.0, 0.0]}
    with pytest.raises(DataError, match="run x: its turns are like 1-1, the wanted ones like 1_1"):
        evaluator.per_turn("x", {"1-1": {"c": 1.0}})


def test_other_providers_see_32_bit_scores_and_trec_evals_ties():
    """b is the first of each pair, and c has the higher score."""
    evaluator = Evaluator({"9-1_1": {"b": 1}, "9-1_2": {"b": 1}, "9-1_3": {"c": 1}}, [RR @ 10])
    ranking = {
        "9-1_3": {"z": 1.0, "c": 2.0},
        "9-1_1": {"a": 1.0 + 1e-9, "b": 1.0},
        "9-1_2": {"a": 1e40, "b": 1e39},  # both infinite
    }
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert evaluator.per_turn("x", ranking) == {"RR(rel=1)@10": [1.0, 1.0, 1.0]}
    assert evaluator.per_turn("x", {}) == {"RR(rel=1)@10": [0.0, 0.0, 0.0]}


@pytest.mark.skipif(shutil.which("perl") is None, reason="gdeval is a program in Perl")
def test_turns_that_differ_before_a_hyphen_are_two_for_gdeval():
    [measure] = as_measures("nDCG(dcg='exp-log2')@5")
    evaluator = Evaluator({"9-1_3": {"a": 1}, "10-1_3": {"b": 1}}, [measure])
    scores = evaluator.per_turn("x", {"9-1_3": {"a": 1.0}, "10-1_3": {"z": 2.0, "b": 1.0}})
    assert scores[label(measure)] == pytest.approx([1.0, 1 / math.log2(3)], abs=1e-4)


def test_measures_with_gains_of_their_own_leave_the_others_alone():
    measures = as_measures("nDCG@5, nDCG(gains={1: 0, 2: 5})@5, P(judged_only=True)@1, P@1, NumRet")
    run = {"1_2": {"z": 3.0, "b": 2.0, "a": 1.0}, "1_1": {"c": 1.0}}
    together = Evaluator(JUDGED, measures).per_turn("x", run)
    for measure in measures:
        alone = Evaluator(JUDGED, [measure]).per_turn("x", run)
        assert together[label(measure)] == alone[label(measure)]
    for order in permutations(measures):
        assert Evaluator(JUDGED, order).per_turn("x", run) == together
    assert together["nDCG@5"] == [0.5, 1.0]
    assert together["nDCG(gains={1:0,2:5})@5"] == [0.5, 0.0]
    assert together["P(rel=1)@1"] == [0.0, 1.0]
    assert together["P(judged_only=True,rel=1)@1"] == [0.0, 1.0]


@pytest.mark.parametrize(
    ("labels", "measures", "told"),
    [
        ({"a": 0}, "P(rel=1)@5", None),
        ({"a": 2}, "P(rel=2)@5, nDCG@5", None),
        ({"a": 2, "b": 3}, "P(rel=3)@5, P(rel=4)@5", r"is 3: each score of P\(rel=4\)@5 is 0"),
        ({"a": 0}, "P(rel=2)@5", r"is 0: each score of P\(rel=2\)@5 is 0"),
        ({"a": 2}, "AP(rel=4), AP, R(rel=3)@5", r"score of AP\(rel=4\), R\(rel=3\)@5 is 0"),
    ],
    ids=["no relevant", "just", "above", "none", "two"],
)
def test_a_level_above_all_labels_is_told(labels, measures, told):
    with warnings.catch_warnings(record=True) as seen:
        warnings.simplefilter("always")
        Evaluator({"1_1": labels}, as_measures(measures))
    assert len(seen) == (told is not None)
    if told:
        with pytest.warns(RelevanceWarning, match=told):
            Evaluator({"1_1": labels}, as_measures(measures))


def test_turns_without_a_label_from_0_on_score_0():
    evaluator = Evaluator({"1_1": {"a": -1}, "1_2": {"a": -1, "b": 1}}, as_measures("P@1, AP"))
    found = evaluator.per_turn("x", {"1_1": {"a": 1.0}, "1_2": {"b": 1.0}})
    assert found == {"P(rel=1)@1": [0.0, 1.0], "AP(rel=1)": [0.0, 1.0]}


def test_a_label_below_0_adds_no_passage_to_those_of_its_turn():
    """Bpref by hand: half of the relevant passages, below as many others as there are."""
    evaluator = Evaluator({"1_1": {"a": 1, "b": 0, "c": -1, "d": 1}}, as_measures("Bpref"))
    assert evaluator.per_turn("x", {"1_1": {"b": 2.0, "a": 1.0}}) == {"Bpref(rel=1)": [0.0]}


def test_the_last_label_of_a_passage_counts():
    rows = [("1_2", "a", 1), ("1_1", "b", 0), ("1_2", "c", 3), ("1_2", "a", 2)]
    assert judgements_by_turn(rows) == {"1_2": {"a": 2, "c": 3}, "1_1": {"b": 0}}


def test_rankings_of_another_collection_or_form_are_told_apart():
    evaluator = Evaluator({"1_1": {"d:1": 1, "e": 1}, "1_2": {"f": 0}}, [P @ 1])
    assert evaluator.without_judged({"1_1": {"z": 2.0}, "1_2": {"y": 1.0, "x": 2.0}}) == (
        "none of its 3 passages is judged (they are like z, the judged ones like d:1)"
    )
    assert "(they are like y, the judged ones like d:1)" in evaluator.without_judged(
        {"1_1": {}, "1_2": {"y": 1.0}}
    )
    for ranking in ({}, {"1_1": {}}, {"1_2": {"e": 1.0, "z": 2.0}}):
        assert evaluator.without_judged(ranking) == ""
    assert Evaluator({}, [P @ 1]).without_judged({"1_1": {"a": 1.0}}) == ""
    evaluator.check_some_judged("mine", {"1_1": {"f": 1.0}})
    with pytest.raises(DataError, match="mine: its passages are like 'D:1', the judged ones like"):
        evaluator.check_some_judged("mine", {"1_1": {"D:1": 1.0}})
    with pytest.raises(DataError, match="mine: none of its 1 passage is judged .*every score"):
        evaluator.check_some_judged("mine", {"1_1": {"z": 1.0}})
    assert other_forms(["e:3", "d", "D : 1", "d:2"], ["d:1", "e"]) == [
        ("D : 1", "d:1"),
        ("d", "d:1"),
        ("e:3", "e"),
    ]


def test_scores_of_rankings_are_checked_run_by_run():
    evaluator = Evaluator(JUDGED, [P @ 1])
    with pytest.warns(NotJudgedWarning, match="^run b: none of its 1 passage is judged"):
        found = turn_scores([("a", {"1_1": {"c": 1.0}}), ("b", {"1_1": {"z": 1.0}})], evaluator)
    assert found == {"a": {"P(rel=1)@1": [0.0, 1.0]}, "b": {"P(rel=1)@1": [0.0, 0.0]}}
    with pytest.raises(DataError, match="run a has no turn of the qrels: its turns are like 9_9"):
        turn_scores([("a", {"9_9": {"c": 1.0}})], evaluator)
    with pytest.raises(DataError, match="run a: its passages are like 'C', the judged ones like"):
        turn_scores([("a", {"1_1": {"C": 1.0}})], evaluator)


SCORES = {
    "a": {"P(rel=1)@1": [0.0, 0.5, 1.0, 0.5, 0.0, 0.0], "NumRet": [1.0] * 6},
    "b": {"P(rel=1)@1": [1.0, 0.5, 0.5, 0.5, 1.0, 1.0], "NumRet": [2.0, 1, 3, 1, 2, 2]},
    "c": {"P(rel=1)@1": [0.0, 0.5, 1.0, 0.5, 0.0, 0.0], "NumRet": [1.0] * 6},
}


def test_rows_compare_each_run_with_the_baseline():
    clusters = Clusters("topic", list("aabbcc"))
    measures = as_measures("P@1, NumRet")
    base, ours, same = experiment_rows(SCORES, measures, "a", clusters, silent=["c"])
    assert list(ours) == [
        "name",
        *(f"P(rel=1)@1{end}" for end in ENDS),
        *(f"NumRet{end}" for end in ENDS),
        "turns",
        "unit",
        "clusters",
        "unit_from",
    ]
    assert (base["P(rel=1)@1 +"], base["P(rel=1)@1 -"]) == (None, None)
    assert (ours["P(rel=1)@1 +"], ours["P(rel=1)@1 -"]) == (3, 1)
    assert (same["P(rel=1)@1 +"], same["P(rel=1)@1 -"]) == (0, 0)
    assert (ours["turns"], ours["clusters"], ours["NumRet"]) == (6, 3, 11.0)
    one = compare_with_baseline(SCORES["b"]["NumRet"], SCORES["a"]["NumRet"], clusters, 1)
    assert ours["NumRet low"] == pytest.approx(6 * one["low"])
    assert ours["NumRet high"] == pytest.approx(6 * one["high"])
    assert ours["NumRet p-value corrected"] == pytest.approx(min(2 * one["p-value"], 1))
    first, second, _third = experiment_rows(SCORES, measures[:1], "b", clusters)
    assert (first["P(rel=1)@1 +"], first["P(rel=1)@1 -"]) == (1, 3)
    assert second["P(rel=1)@1 +"] is None
    alone = experiment_rows({"a": SCORES["a"]}, measures[:1], "a")
    assert "P(rel=1)@1 reject" not in alone[0]
    assert (alone[0]["unit"], alone[0]["clusters"]) == ("turn", 6)
    assert experiment_rows(SCORES, measures[:1], None)[1] == {
        "name": "b",
        "P(rel=1)@1": 0.75,
        "turns": 6,
    }


ENDS = ("", " +", " -", " p-value", " reject", " p-value corrected", " low", " high")


def test_a_silent_run_is_compared_but_not_tested():
    scores = {"a": {"RR(rel=1)": [1.0, 0.5, 0.25]}, "b": {"RR(rel=1)": [0.0, 0.0, 0.0]}}
    for silent in ([], ["b"]):
        row = experiment_rows(scores, [RR], "a", silent=silent)[1]
        assert row["RR(rel=1) -"] == 3
        assert math.isnan(row["RR(rel=1) p-value"]) is bool(silent)
        assert math.isnan(row["RR(rel=1) low"]) is bool(silent)


def test_no_test_rejects_nothing():
    assert bonferroni([]) == ([], [])
    rejected, corrected = bonferroni([0.016, 0.017, 0.9])
    assert (rejected, corrected) == ([True, False, False], pytest.approx([0.048, 0.051, 1.0]))


def test_names_with_a_hyphen_are_refused_if_they_hide_a_turn():
    check_turn_names("run a", ["9-1-3", "9-1_3"], ["9-1-3", "9-1_3"])
    check_turn_names("run a", ["9-1-x", "8-1-3"], ["9-1_3"])
    with pytest.raises(
        DataError, match="run a: its turns are like 9-1-3, the wanted ones like 9-1_3"
    ):
        check_turn_names("run a", ["7_1", "9-1-3"], ["9-1_3"])
    with pytest.raises(DataError, match="its turns are like 9-1-12, the wanted ones like 9-1_12"):
        check_turn_names("run a", ["9-1-12"], ["9-1_12"])
    check_common_turns("run a", [], ["9-1_3"])
    check_common_turns("run a", ["9-1_3"], [])
    check_common_turns("run a", ["7_1", "9-1_3"], ["9-1_3", "9-1_4"])
    with pytest.raises(DataError, match="run a: its turns are like 9-1-3"):
        check_common_turns("run a", ["9-1-3"], ["9-1_3"])
    with pytest.raises(
        DataError, match="run a has no label: its turns are like 7_1, .* like 9-1_3"
    ):
        check_common_turns("run a", ["7_1", "7_2"], ["9-1_3"], "label")


def test_turns_on_both_sides_are_told_and_on_one_side_not():
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for ours, theirs in ((["1_1", "1_2"], ["1_1"]), (["1_1"], ["1_1", "1_2"]), ([], [])):
            warn_of_other_turns("run a", ours, theirs)
    told = r"run a lacks 2 judged turns, counted 0 \(1_2, 1_3\), and has 1 turn .* judged \(9_9\)"
    with pytest.warns(OtherTurnsWarning, match=told):
        warn_of_other_turns("run a", ["9_9", "1_1"], ["1_3", "1_1", "1_2"])
    told = r"counted 0 \(1_2\), and has 4 turns .* not judged \(5_1, 6_1, 7_1, 8_1\)"
    with pytest.warns(OtherTurnsWarning, match=told):
        warn_of_other_turns("run a", ["7_1", "5_1", "8_1", "6_1"], ["1_2"])


# Oracles and sessions


def finding(**ranks):
    """A run that has each turn's relevant passage at this rank, counted from 0.

    The passages before it are not judged.
    """
    rows = []
    for qid, at in ranks.items():
        for rank in range(at):
            rows.append((qid, f"bad{rank}", -float(rank), rank))
        rows.append((qid, "good", -float(at), at))
    return pd.DataFrame(rows, columns=["qid", "docno", "score", "rank"])


def test_the_oracle_takes_each_turns_best_run_by_first_measure():
    qrels = pd.DataFrame({"qid": ["1_1", "1_2", "1_3"], "docno": ["good"] * 3, "label": [1] * 3})
    runs = {
        "one": finding(**{"1_1": 0, "1_2": 1, "1_3": 1}),
        "two": finding(**{"1_1": 1, "1_2": 0, "1_3": 1}),
    }
    table = evaluate(runs, qrels, [P(rel=1) @ 1, nDCG @ 2], baseline="one", oracle=True).set_index(
        "name"
    )
    second = 1 / np.log2(3)
    # both are second on 1_3, where the first run counts
    assert table["P(rel=1)@1"].tolist() == pytest.approx([1 / 3, 1 / 3, 2 / 3])
    assert table["nDCG@2"].tolist() == pytest.approx(
        [(1 + 2 * second) / 3] * 2 + [(2 + second) / 3]
    )
    assert table["turns"].tolist() == [3, 3, 3]
    assert np.isnan(table.loc["oracle", "nDCG@2 p-value"])  # it is tested against none
    assert evaluate(runs, qrels, [nDCG @ 2])["name"].tolist() == ["one", "two"]


def test_the_oracles_other_measures_are_of_the_run_it_takes():
    qrels = pd.DataFrame({"qid": ["1_1"] * 2, "docno": ["good", "fair"], "label": [3, 1]})
    early = pd.DataFrame({"qid": ["1_1"], "docno": ["fair"], "score": [1.0], "rank": [0]})
    late = finding(**{"1_1": 1})
    table = evaluate(
        {"early": early, "late": late}, qrels, [P(rel=1) @ 1, R(rel=3) @ 2], oracle=True
    ).set_index("name")
    assert table.loc["oracle"].tolist() == [1.0, 0.0, 1]


def test_the_oracle_takes_the_first_of_equal_runs():
    scores = {
        "a": {"RR(rel=1)": [0.5, 0.0], "P(rel=1)@1": [0.0, 0.0]},
        "b": {"RR(rel=1)": [0.5, 1.0], "P(rel=1)@1": [1.0, 1.0]},
    }
    row = oracle_row(scores, as_measures("RR, P@1"))
    assert row == {"name": "oracle", "RR(rel=1)": 0.75, "P(rel=1)@1": 0.5, "turns": 2}
    with pytest.raises(UsageError, match="a run is named oracle"):
        oracle_row({**scores, "oracle": scores["a"]}, [RR])
    assert aggregated(NumRet, [1.0, 2.0]) == 3.0
    assert aggregated(AP, [1.0, 2.0]) == 1.5
    assert aggregated(NumQ, [1.0, 1.0]) == 2.0


def test_measures_by_session_take_the_best_turn_of_each_session():
    qrels = pd.DataFrame(
        {"qid": ["t", "t", "u"], "docno": ["D1:1", "D2:7", "D1:1"], "label": [1, 2, 1]}
    )
    found = ["D3:1", "D3:2", "D1:9", "D2:1", "D2:7"]  # of sessions: D3, D1 (label 1), D2 (label 2)
    run = pd.DataFrame(
        {"qid": "t", "docno": found, "score": [5.0, 4.0, 3.0, 2.0, 1.0], "rank": range(5)}
    )
    scores = per_turn(run, qrels, ["R@2 by session", "R@2", "nDCG@3 by session"]).set_index("qid")
    ideal = 2 + 1 / math.log2(3)
    ours = 1 / math.log2(3) + 2 / math.log2(4)
    assert scores.columns.tolist() == ["R(rel=1)@2 by session", "R(rel=1)@2", "nDCG@3 by session"]
    assert scores.loc["t"].tolist() == [0.5, 0.0, pytest.approx(ours / ideal)]
    assert scores.loc["u"].tolist() == [0, 0, 0]


def test_a_session_has_the_place_and_label_of_its_best_turn():
    """By hand: s1 is first by its turn s1:1, and relevant by its turn s1:2.

    Turn by turn it is neither.
    """
    qrels = pd.DataFrame({"qid": "1_1", "docno": ["s1:1", "s1:2", "s2:1"], "label": [0, 1, 0]})
    run = pd.DataFrame(
        {
            "qid": "1_1",
            "docno": ["s1:1", "s2:1", "s1:2"],
            "score": [3.0, 2.0, 1.0],
            "rank": [0, 1, 2],
        }
    )
    scores = per_turn(run, qrels, ["P@1 by session", "P@1"])
    assert scores.drop(columns="qid").values.tolist() == [[1.0, 0.0]]


def test_a_session_counts_by_its_best_turn_and_label():
    judged = {"q": {"D1:1": 0, "D1:2": 1, "D2": 0, "D3:1:4": 1}}
    evaluator = Evaluator(judged, as_measures(["P@1 by session", "P@2 by session", "P@1"]))
    found = evaluator.per_turn("x", {"q": {"D2": 2.0, "D1:1": 3.0, "D1:2": 1.0, "D3:1:9": 2.5}})
    assert found["P(rel=1)@1 by session"] == [1.0]  # D1, D3:1, D2
    assert found["P(rel=1)@2 by session"] == [1.0]
    assert found["P(rel=1)@1"] == [0.0]


def test_sessions_have_whole_names_and_scores_below_0():
    """By hand: D1 (relevant), D3:2, D2, D4, D3:1 (relevant): (1/1 + 2/5) / 2; and 1/5 by turns."""
    judged = {"q": {"D1:1": 0, "D1:2": 1, "D3:1:4": 1, "D2": 0, "D4": 0}}
    ranking = {"q": {"D1:1": -1.0, "D3:2:9": -2.0, "D2": -3.0, "D4": -4.0, "D3:1:4": -5.0}}
    scores = Evaluator(judged, as_measures("AP by session, RR")).per_turn("x", ranking)
    assert scores == {"AP(rel=1) by session": [pytest.approx(0.7)], "RR(rel=1)": [0.2]}


# Names of runs


def test_runs_have_their_own_names(tmp_path):
    (tmp_path / "runs" / "v1.2").mkdir(parents=True)
    folder = RunFolder(tmp_path / "runs" / "v1.2")
    named = name_runs([tmp_path / "one.trec", str(tmp_path / "two.trec.gz"), folder])
    assert list(named) == ["one", "two.trec", "v1.2"]
    assert named["two.trec"] == Path(tmp_path / "two.trec.gz")
    frame = run(**{"1_1": "a"})
    assert list(name_runs(frame, "a frame")) == ["a frame"]
    assert list(name_runs({1: frame})) == ["1"]


class Named:
    def __init__(self, **fields):
        vars(self).update(fields)


def test_runs_are_named_by_their_paths_folders_and_submissions(tmp_path, monkeypatch):
    (tmp_path / "a.b").mkdir()
    monkeypatch.chdir(tmp_path / "a.b")
    submission = Named(run_id="mine")
    log = Named(folder=tmp_path / "a.b")
    found = name_runs(("x/one.v1.trec", Path("x/two.trec"), submission, log))
    assert found == {
        "one.v1": Path("x/one.v1.trec"),
        "two": Path("x/two.trec"),
        "mine": submission,
        "a.b": log,
    }
    assert name_runs(".") == {"a.b": Path(".")}
    assert name_runs(Named(path=str(tmp_path / "a.b"))).keys() == {"a.b"}
    assert name_runs({1: "x.trec"}) == {"1": Path("x.trec")}
    number = Named(run_id=5)
    assert name_runs(number, "run") == {"run": number}
    for runs in ([number], {"": "x.trec"}, [number, "a.trec"]):
        with pytest.raises(UsageError, match="the runs are frames without names"):
            name_runs(runs)
    for runs in ([], {}, ()):
        with pytest.raises(UsageError, match="there is no run: give at least one"):
            name_runs(runs)
    with pytest.raises(UsageError, match="two runs are named b: give each its name"):
        name_runs(["x/a.trec", "x/b.trec", "y/b.trec", "y/c.trec"])


@pytest.mark.parametrize(
    ("runs", "told"),
    [
        ([], "there is no run"),
        ({}, "there is no run"),
        ([run(**{"1_1": "a"})], "frames without names"),
        (["a/one.trec", "b/one.trec"], "two runs are named one"),
    ],
)
def test_runs_without_a_name_of_their_own_are_refused(runs, told):
    with pytest.raises(UsageError, match=told):
        name_runs(runs)


def test_a_run_with_the_oracles_name_is_refused():
    with pytest.raises(UsageError, match="a run is named oracle"):
        evaluate({"oracle": run(**{"1_1": "a"})}, TWO_TURNS, ["nDCG@5"], oracle=True)
    assert len(evaluate({"oracle": run(**{"1_1": "a"})}, TWO_TURNS, ["nDCG@5"])) == 1


def test_only_a_repeats_number_joins_it_to_its_system():
    names = ["a.repeat-2", "a", "a.repeat-0", "a.repeat-12", "b.repeat-2.x", ".repeat-2"]
    assert grouped(names) == {
        "a": ["a.repeat-2", "a", "a.repeat-12"],
        "a.repeat-0": ["a.repeat-0"],
        "b.repeat-2.x": ["b.repeat-2.x"],
        ".repeat-2": [".repeat-2"],
    }


def test_repeats_are_grouped_by_whole_names():
    assert grouped(["v1.2", "v1.3", "v1.2.repeat-2"]) == {
        "v1.2": ["v1.2", "v1.2.repeat-2"],
        "v1.3": ["v1.3"],
    }
    names = ["a", "a.repeat-2", "b.repeat-10", "c.repeat-0", "d.repeat-2x", ".repeat-2"]
    assert grouped(names) == {
        "a": ["a", "a.repeat-2"],
        "b": ["b.repeat-10"],
        "c.repeat-0": ["c.repeat-0"],
        "d.repeat-2x": ["d.repeat-2x"],
        ".repeat-2": [".repeat-2"],
    }


def test_the_baseline_is_one_of_the_runs():
    with pytest.raises(UsageError, match="the baseline 'two' is not one of the runs: one"):
        evaluate({"one": run(**{"1_1": "a"})}, TWO_TURNS, ["nDCG@5"], baseline="two")


def test_a_baseline_is_a_run_by_name():
    check_baseline(["a"], None)
    check_baseline(["a"], "a")
    for baseline in ("", "b"):
        with pytest.raises(
            UsageError, match=f"the baseline '{baseline}' is not one of the systems"
        ):
            check_baseline(["a", "c"], baseline, "systems")
    with pytest.raises(UsageError, match="there is no run"):
        check_baseline([], None)
