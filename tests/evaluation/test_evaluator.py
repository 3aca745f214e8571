"""Measures, evaluators and rows of scores, branch by branch, by small numbers."""

import math
import shutil
import warnings
from itertools import permutations
from pathlib import Path

import ir_measures
import pytest
from ir_measures import AP, RR, NumQ, NumRet, P, nDCG

from pyterrier_ikat.errors import DataError, UsageError
from pyterrier_ikat.evaluation.evaluator import (
    BySession,
    Evaluator,
    NotJudgedWarning,
    OtherTurnsWarning,
    RelevanceWarning,
    aggregated,
    as_measures,
    check_baseline,
    check_common_turns,
    check_turn_names,
    compare_with_baseline,
    computable,
    experiment_rows,
    grouped,
    judgements_by_turn,
    label,
    name_runs,
    oracle_row,
    other_forms,
    parse_measure,
    provider_of,
    turn_scores,
    warn_of_other_turns,
)
from pyterrier_ikat.evaluation.units import Clusters


@pytest.mark.parametrize(
    ("text", "name"),
    [
        ("nDCG@5", "nDCG@5"),
        ("AP", "AP(rel=1)"),
        ("P(rel=2)@5", "P(rel=2)@5"),
        ("nDCG(gains={0: 1, 1: 3})@5", "nDCG(gains={0:1,1:3})@5"),
        ("IPrec@0.25", "IPrec(rel=1)@0.25"),
        ("IPrec@0.0", "IPrec(rel=1)@0.0"),
        ("IPrec@1.0", "IPrec(rel=1)@1.0"),
        ("NumRet", "NumRet"),
        ("SetP(relative=True)", "SetP(relative=True,rel=1)"),
        ("Success@5 by session", "Success(rel=1)@5 by session"),
    ],
)
def test_a_measures_label_has_its_level_and_is_read_again(text, name):
    [measure] = as_measures(text)
    assert label(measure) == name
    assert [label(again) for again in as_measures([name])] == [name]


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("nDCG*5", "'nDCG.5' is unknown"),
        ("AP(1)", "is unknown"),
        ("P(rel=[1])@5", "is unknown"),
        ("P(rel=)@5", "is unknown"),
        ("P@0", "the cutoff 0: give one from 1 on, such as P@20"),
        ("P(rel=0)@5", "the relevance level 0"),
        ("P", "has no cutoff"),
        ("IPrec@1.01", "the recall 1.01"),
        ("IPrec@-0.5", "the recall -0.5"),
        ("IPrec@0.125", "the recall 0.125: give one from 0 to 1 with two decimals"),
        ("nDCG(gains={1: 2.5})@5", "the gain 2.5"),
        ("nDCG(gains={1: True})@5", "the gain True"),
        ("P@0 by session", "the cutoff 0"),
        ("Nonsense by session", "'Nonsense' is unknown"),
        ("", "'' is unknown"),
        ("NumQ@5", "'NumQ@5' has no cutoff, or a parameter that is unknown"),
        ("nDCG(gains={[1]: 2})@5", "is unknown: write it as"),
    ],
)
def test_a_measure_that_would_mean_another_is_refused(text, told):
    with pytest.raises(UsageError, match=told):
        as_measures([text])


def test_measures_come_singly_in_lists_and_texts_each_once():
    assert as_measures(nDCG @ 5) == as_measures("nDCG@5") == as_measures((nDCG @ 5, "nDCG@5"))
    texts = " AP ,P(rel=1,judged_only=True)@5, AP(rel=1)"
    assert list(map(label, as_measures(texts))) == ["AP(rel=1)", "P(judged_only=True,rel=1)@5"]
    for none in ([], ()):
        with pytest.raises(UsageError, match="there is no measure"):
            as_measures(none)
    for what, name in ((5, "5 is a int"), (len, "len is a builtin"), ([nDCG, 3.5], "3.5 is a fl")):
        with pytest.raises(
            UsageError, match=f"the measure {name}.*: give a measure of ir_measures"
        ):
            as_measures(what)
    for what in (nDCG(depth=1), P(depth=1) @ 5):
        assert label(what) == what.NAME
        with pytest.raises(
            UsageError, match=f"'{what.NAME}' has no cutoff, or a parameter that is"
        ):
            as_measures(what)
    names = ["Mine", "P@0", "nDCG@5", "P(rel=2,judged_only=True)@5", "AP"]
    assert list(map(label, computable(names))) == [
        "nDCG@5",
        "P(rel=2,judged_only=True)@5",
        "AP(rel=1)",
    ]
    with pytest.raises(ValueError, match="no measure of ir_measures has this name"):
        parse_measure("len(rel=1)")
    with pytest.raises(ValueError, match="each parameter has a name"):
        parse_measure("P(**{'rel': 2})@5")


def test_a_name_of_trec_eval_for_many_measures_means_three():
    with pytest.raises(UsageError, match="did you mean nDCG@5, nDCG@10, nDCG@15 and 6 more"):
        as_measures(["ndcg_cut"])


def test_a_measure_that_nothing_computes_names_the_provider(monkeypatch):
    for provider in ir_measures.DefaultPipeline.providers:
        monkeypatch.setattr(provider, "is_available", lambda: False)
    with pytest.raises(UsageError, match="'Judged@5' can't be computed here .it needs judged"):
        as_measures(["Judged@5"])


def test_the_first_provider_that_is_there_computes_a_measure(monkeypatch):
    assert provider_of(RR).NAME == "pytrec_eval"
    monkeypatch.setattr(ir_measures.pytrec_eval, "is_available", lambda: False)
    assert provider_of(RR).NAME != "pytrec_eval"
    [measure] = as_measures("RR")
    assert measure == RR
    assert provider_of(BySession(P @ 5)) is None


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


def test_a_measure_of_a_file_is_called_by_the_name_that_was_given(tmp_path):
    path = tmp_path / "mine.py"
    path.write_text("def found(qrels, run):\n    return 1.0\n\n\nalias = found\n")
    [measure] = as_measures(f"{path}:alias")
    assert Evaluator({"1_1": {"a": 1}}, [measure]).per_turn("x", {"1_1": {"a": 1.0}}) == {
        "alias": [1.0]
    }


def test_a_file_of_measures_may_have_colons_in_its_path(tmp_path, monkeypatch):
    (tmp_path / "a:b").mkdir()
    path = tmp_path / "a:b" / "mine.py"
    path.write_text("from ir_measures import P\nearly = P(rel=2) @ 1\nbad = P @ 0\n")
    assert as_measures([f"{path}:early"]) == as_measures("P(rel=2)@1")
    monkeypatch.chdir(path.parent)
    assert as_measures(["mine.py:early"]) == as_measures("P(rel=2)@1")
    with pytest.raises(UsageError, match="the cutoff 0"):
        as_measures([f"{path}:bad"])
    with pytest.raises(UsageError, match="mine.py has no measure late: write a function late"):
        as_measures([f"{path}:late"])
