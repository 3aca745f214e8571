"""Measures of a user's file, the names of runs, and the sentences and columns beside figures."""

from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from small_frames import qrels, run

import pyterrier_ikat as ikat
from pyterrier_ikat.errors import DataError, UsageError
from pyterrier_ikat.evaluation import as_measures, evaluate, per_turn, session_measures
from pyterrier_ikat.evaluation.evaluator import (
    Evaluator,
    bonferroni,
    grouped,
    name_runs,
    other_forms,
)
from pyterrier_ikat.evaluation.experiment_table import experiment_table, repeated_rows, table
from pyterrier_ikat.evaluation.finished_runs import dataset_of, known_dataset, results_of
from pyterrier_ikat.evaluation.scored_turns import Asked, choose_turns
from pyterrier_ikat.evaluation.sessions import (
    cached_note,
    format_measure,
    recorded_note,
    shown_columns,
)
from pyterrier_ikat.evaluation.units import Clusters, check_unit, find_clusters, note_on_intervals
from pyterrier_ikat.llms.ledger import Spend
from pyterrier_ikat.runs import Dialogue, RunFolder, Turn

JUDGED = qrels(("1_1", "a", 2), ("1_1", "b", 1), ("1_2", "c", 1))


# A measure in a user's file


@pytest.fixture
def own(tmp_path):
    """A file with a function, a measure of ir_measures, and a number."""
    path = tmp_path / "mine.py"
    text = "from ir_measures import P\n"
    text += "def found(qrels, run):\n    return len(run) + len(qrels) / 10\n"
    text += "early = P(rel=2) @ 1\nbad = P @ 0\nnumber = 3\n"
    path.write_text(text)
    return path


def test_a_users_function_gets_judgements_and_passages(own):
    """By hand: two passages and two judgements, one and one, and a turn that found nothing."""
    judged = pd.concat([JUDGED, qrels(("1_3", "d", 1))])
    scores = per_turn(run(**{"1_1": "a z", "1_2": "z"}), judged, [f"{own}:found"])
    assert scores.set_index("qid")["found"].to_dict() == {"1_1": 2.2, "1_2": 1.1, "1_3": 0.0}


def test_a_measure_in_a_file_is_read_and_checked(own):
    [early] = as_measures(f"{own}:early")
    assert (early["rel"], early["cutoff"]) == (2, 1)
    for name, told in [
        ("bad", "has the cutoff 0"),
        ("number", "has no measure number"),
        ("none", "has no measure none"),
    ]:
        with pytest.raises(UsageError, match=told):
            as_measures(f"{own}:{name}")


def test_a_users_function_that_fails_is_named(tmp_path):
    (tmp_path / "mine.py").write_text("def broken(qrels, run):\n    return 1 / 0\n")
    with pytest.raises(DataError, match="broken .*stops with ZeroDivisionError.* gets two frames"):
        per_turn(run(**{"1_1": "a"}), JUDGED, [f"{tmp_path / 'mine.py'}:broken"])


# Names


def test_runs_have_their_own_names(tmp_path):
    (tmp_path / "runs" / "v1.2").mkdir(parents=True)
    folder = RunFolder(tmp_path / "runs" / "v1.2")
    named = name_runs([tmp_path / "one.trec", str(tmp_path / "two.trec.gz"), folder])
    assert list(named) == ["one", "two.trec", "v1.2"]
    assert named["two.trec"] == Path(tmp_path / "two.trec.gz")
    frame = run(**{"1_1": "a"})
    assert list(name_runs(frame, "a frame")) == ["a frame"]
    assert list(name_runs({1: frame})) == ["1"]


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
        evaluate({"oracle": run(**{"1_1": "a"})}, JUDGED, ["nDCG@5"], oracle=True)
    assert len(evaluate({"oracle": run(**{"1_1": "a"})}, JUDGED, ["nDCG@5"])) == 1


def test_only_a_repeats_number_joins_it_to_its_system():
    names = ["a.repeat-2", "a", "a.repeat-0", "a.repeat-12", "b.repeat-2.x", ".repeat-2"]
    assert grouped(names) == {
        "a": ["a.repeat-2", "a", "a.repeat-12"],
        "a.repeat-0": ["a.repeat-0"],
        "b.repeat-2.x": ["b.repeat-2.x"],
        ".repeat-2": [".repeat-2"],
    }


def test_the_baseline_is_one_of_the_runs():
    with pytest.raises(UsageError, match="the baseline 'two' is not one of the runs: one"):
        evaluate({"one": run(**{"1_1": "a"})}, JUDGED, ["nDCG@5"], baseline="two")


def test_docnos_are_of_another_form_by_case_blanks_or_a_number():
    judged = ["D1", "d2:3", "d3", "d4-1", "d5"]
    found = ["d1", "D2:3", "d2", "d3:0", "d 3", "d4-2", "d4_1", "d5#12", "x"]
    assert other_forms(found, judged) == [
        ("D2:3", "d2:3"),
        ("d 3", "d3"),
        ("d1", "D1"),
        ("d2", "d2:3"),
        ("d3:0", "d3"),
        ("d5#12", "d5"),
    ]
    assert other_forms(["STRASSE:1", "d\u00a01"], ["Straße", "d1"]) == [
        ("STRASSE:1", "Straße"),
        ("d\u00a01", "d1"),
    ]


@pytest.mark.parametrize(("same", "told"), [(0, True), (1, False), (2, False)])
def test_a_tenth_of_the_judged_passages_show_the_form(same, told):
    """Of twenty judged passages two are a tenth; one is as many as are found in another form."""
    judged = {"1_1": {f"d{number}": 1 for number in range(20)}}
    ranking = dict.fromkeys([f"d{number}" for number in range(same)] + ["D19:0"], 1.0)
    evaluator = Evaluator(judged, as_measures("P@5"))
    assert bool(evaluator.of_other_form({"1_1": ranking})) is told


@pytest.mark.parametrize(
    ("same", "others", "unjudged", "told"),
    [(1, 2, 0, True), (2, 3, 0, False), (2, 3, 50, False), (1, 1, 50, False), (1, 2, 50, True)],
)
def test_the_form_is_that_of_judged_passages_not_of_found(same, others, unjudged, told):
    """A tenth of the twenty judged ones as they are, or else more of them in another form."""
    judged = {"1_1": {f"d{number}": 1 for number in range(20)}}
    found = [f"d{number}" for number in range(same)]
    found += [f"D{19 - number}:0" for number in range(others)]
    found += [f"x{number}" for number in range(unjudged)]
    evaluator = Evaluator(judged, as_measures("P@5"))
    assert bool(evaluator.of_other_form({"1_1": dict.fromkeys(found, 1.0)})) is told


def test_no_test_rejects_nothing():
    assert bonferroni([]) == ([], [])
    rejected, corrected = bonferroni([0.016, 0.017, 0.9])
    assert (rejected, corrected) == ([True, False, False], pytest.approx([0.048, 0.051, 1.0]))


# Turns that are scored


def test_why_no_turn_is_scored_is_told():
    for asked, told in [
        (Asked(frozenset(["9_9"])), "its turns are like 9_9, the wanted ones like 1_1"),
        (Asked(frozenset()), "it was asked no turn"),
    ]:
        known = {"whole": Asked(frozenset(["1_1"])), "other": asked}
        with pytest.raises(DataError, match=f"run other has no turn of the qrels: {told}"):
            choose_turns(["1_1"], known)


def test_which_runs_were_asked_is_told():
    few = Asked(frozenset(["1_1"]))
    for asked, told in [
        ({"a": few}, "that a was asked"),
        ({"a": few, "b": few}, "that all runs were asked"),
        ({"a": few, "b": few, "c": None}, "that a, b were asked"),
    ]:
        turns = choose_turns(["1_1", "1_2"], asked)
        assert turns.ids == ("1_1",)
        assert told in turns.why
        assert turns.notes == ()
        assert turns.strangers == tuple(name for name in asked if asked[name] is None)


def test_an_unfinished_run_is_told_whatever_is_scored():
    asked = {"a": Asked(frozenset(["1_1"]), 24), "b": Asked(frozenset(["1_1", "1_2"]))}
    for chosen in (False, True):
        notes = choose_turns(["1_1", "1_2"], asked, chosen=chosen).notes
        assert "a isn't finished: it has 1 of 24 turns." in notes
    assert choose_turns(["1_1", "1_2"], asked, chosen=True).ids == ("1_1", "1_2")
    assert choose_turns(["1_1", "1_2"], asked).ids == ("1_1",)


# Runs and their datasets


def finished(path, **parameters):
    folder = RunFolder(path)
    topics = pd.DataFrame({"qid": ["1_1"]})
    folder.write(
        topics, run(**{"1_1": "a"}), pd.DataFrame({"qid": ["1_1"]}), pd.DataFrame(), parameters
    )
    return folder


def test_folders_of_one_dataset_know_it(tmp_path):
    one = finished(tmp_path / "one", dataset="ikat:sample")
    two = finished(tmp_path / "two", dataset="ikat:sample")
    other = finished(tmp_path / "other", dataset="ikat:2024")
    none = finished(tmp_path / "none")
    gone = finished(tmp_path / "gone", dataset=str(tmp_path / "not there"))
    assert dataset_of([one, two]).name == "ikat:sample"
    with pytest.raises(UsageError, match=r"different datasets \(one on ikat:sample, other on"):
        dataset_of([one, other])
    with pytest.raises(UsageError, match="^none: the run does not say which dataset"):
        dataset_of([one, none])
    assert known_dataset({"a": one, "b": str(two.path)}).name == "ikat:sample"
    assert known_dataset({"a": one, "b": run(**{"1_1": "a"})}).name == "ikat:sample"
    for runs in ({"a": one, "b": other}, {"a": none}, {"a": one, "b": none}, {"a": gone}, {}):
        assert known_dataset(runs) is None
    assert known_dataset({"a": none}, "ikat:2024").name == "ikat:2024"


def test_a_run_is_a_frame_a_folder_or_a_file(tmp_path):
    folder = finished(tmp_path / "one")
    for given in (folder, folder.path, str(folder.path), folder.path / "run.trec"):
        assert results_of("mine", given)["docno"].tolist() == ["a"]
    with pytest.raises(UsageError, match="run mine is a list"):
        results_of("mine", [])


# Clusters and units


def test_notes_on_intervals_name_the_range_of_clusters():
    shown = pd.DataFrame({"unit": ["topic"] * 2, "clusters": [13, 9], "unit_from": ["", ""]})
    for rows in (shown, shown[::-1]):
        assert note_on_intervals(rows).endswith("robust to clusters, over 9 to 13 topics.")
    assert note_on_intervals(shown.head(1)).endswith("over 13 topics.")
    turns = shown.assign(unit="turn", unit_from="qid")
    assert "of independent turns, over 9 to 13 turns. No dataset is known" in note_on_intervals(
        turns
    )


def test_a_unit_needs_a_baseline_and_a_known_name():
    check_unit(None, None)
    check_unit("turn", "raw")
    for unit in ("topic", "turn"):
        with pytest.raises(UsageError, match=f"unit='{unit}'.* give baseline"):
            check_unit(unit, None)
    for call in (lambda: check_unit("week", "raw"), lambda: find_clusters(["1_1"], "week")):
        with pytest.raises(UsageError, match="unit='week'"):
            call()


@pytest.mark.parametrize(
    ("qids", "conversations", "names", "source"),
    [
        (["a_1", "a_2"], ["x", "y"], ["x", "y"], "qconversation"),
        (["a_1", "a_2"], [7, 7], ["7", "7"], "qconversation"),
        (["a", "b"], ["a", "x"], ["a", "x"], "qconversation"),
        (["a_1", "a_2"], ["x", None], ["a", "a"], "qid"),  # not of all turns
        (["a_1", "a_2"], ["a_1", "a_2"], ["a", "a"], "qid"),  # the turns themselves
        (["a_b_1", "a_b_2"], [None, None], ["a_b", "a_b"], "qid"),
    ],
)
def test_where_the_conversations_of_turns_come_from(qids, conversations, names, source):
    frame = pd.DataFrame({"qid": qids, "qconversation": pd.Series(conversations, dtype=object)})
    others = [frame[["qid"]], frame[["qconversation"]], pd.DataFrame()]
    found = find_clusters(qids, frames=[*others, frame])
    assert found == Clusters("conversation", names, source)
    again = find_clusters(qids, frames=[pd.concat([frame, frame]), frame])
    assert again == found


def test_a_topic_stands_before_the_first_hyphen():
    assert find_clusters(["9-1-2_1", "9-1-3_1"], "topic").names == ["9", "9"]


def test_ids_without_a_conversation_are_their_own_clusters():
    assert find_clusters(["a", "9_1"]) == Clusters("turn", ["a", "9_1"], "none")
    assert find_clusters(["8_1", "9_1"], "turn") == Clusters("turn", ["8_1", "9_1"])
    with pytest.raises(DataError, match="turn 'a' is not <conversation>_<turn>"):
        find_clusters(["9_1", "a"], "conversation")


# Tables of scores


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


# Sessions


def test_known_completions_are_told_with_their_price():
    turns = [Turn(1, "", "", spend=Spend(1, known=2)), Turn(2, "", "", spend=Spend(known=1))]
    assert cached_note(turns[:0]) == cached_note([Turn(1, "", "", spend=Spend(5))]) == []
    [note] = cached_note(turns, 4)
    assert note.startswith("3 of the 4 completions")
    assert "price" not in note
    [many] = cached_note([Turn(1, "", "", spend=Spend(known=1200))], 4321)
    assert many.startswith("1,200 of the 4,321 completions")
    [priced] = cached_note([*turns, Turn(3, "", "", spend=Spend(known=1, worth=0.5))])
    assert priced.startswith("4 completions")
    assert "price of a call" in priced


def test_who_replayed_recorded_completions_is_told():
    headers = {
        "live": {"recorded": False, "recorded_parts": ["judge"]},
        "ad": {"recorded": True, "recorded_parts": ["users", "judge"]},
        "old": {},
    }
    [note] = recorded_note(headers)
    assert ": ad, judge, users." in note
    silent = {"live": {"recorded": False}, "old": {}, "empty": {"recorded_parts": None}}
    assert recorded_note(silent) == []


def test_columns_of_success_need_patient_or_satisfied_users():
    turn = Turn(1, "", "", seconds=1.0, spend=Spend(1, cost=0.5), met=("r",))
    for end, is_shown in [("satisfied", True), ("out of patience", True), ("turn limit", False)]:
        frame = session_measures([Dialogue("a", "a", {"r": "?"}, [turn], end=end)])
        assert ("satisfied" in shown_columns({"raw": frame})) is is_shown


@pytest.mark.parametrize(
    ("name", "value", "shown"),
    [
        ("rubrics met", 0.5, ".5000"),
        ("satisfied", 1.0, "1.0000"),
        ("seconds", 1234.567, "1,234.57"),
        ("cost", 0.12345, "0.1235"),
        ("calls", 2.5, "2.50"),
        ("calls", 0, "0.00"),
        ("cost", 0.0, "0.0000"),
        ("sessions", 1200, "1,200"),
        ("seconds", float("nan"), "–"),
    ],
)
def test_means_of_sessions_have_the_decimals_of_their_measure(name, value, shown):
    assert format_measure(name, value) == shown


def test_runs_of_a_dataset_without_judgements_need_some(tmp_path):
    with pytest.raises(UsageError, match=r"there are no judgements: give qrels=\.\.\."):
        ikat.evaluate({"one": run(**{"1_1": "a"})})
