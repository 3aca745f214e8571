"""The unit of inference: what datasets declare, what is read without one.

Marks and intervals of every table have one unit.
"""

import numpy as np
import pandas as pd
import pyterrier as pt
import pytest
from click.testing import CliRunner
from scipy import stats
from small_frames import run

import pyterrier_ikat as ikat
from pyterrier_ikat.cli import main
from pyterrier_ikat.evaluation import (
    compare,
    differing_pairs,
    evaluate,
    find_clusters,
    nugget_means,
    per_turn,
    response_means,
)
from pyterrier_ikat.evaluation.units import UNITS


def runs(conversations=8, turns=3, seed=1):
    """Two runs whose relevant passage has another rank on each turn, and their judgements."""
    qids = []
    for number in range(conversations):
        topic = number // 2
        persona = number % 2 + 1
        qids += [f"{topic}-{persona}_{turn}" for turn in range(1, turns + 1)]
    drawn = np.random.default_rng(seed)
    qrels = pd.DataFrame({"qid": qids, "docno": "a", "label": 1})
    found = {}
    for name, lowest in (("base", 4), ("ours", 2)):
        ranks = drawn.integers(0, lowest, len(qids))
        rows = []
        for qid, rank in zip(qids, ranks, strict=True):
            docnos = [*"xyzw"[:rank], "a"]
            rows += [(qid, docno, -float(place), place) for place, docno in enumerate(docnos)]
        found[name] = pd.DataFrame(rows, columns=["qid", "docno", "score", "rank"])
    return found, qrels


@pytest.fixture
def files(tmp_path):
    """A command that evaluates both runs, as files."""
    named, qrels = runs()
    for name, frame in named.items():
        ikat.runs.write_run(frame, tmp_path / f"{name}.trec")
    columns = qrels.assign(iteration=0)[["qid", "iteration", "docno", "label"]]
    columns.to_csv(tmp_path / "qrels", sep=" ", header=False, index=False)
    paths = [str(tmp_path / f"{name}.trec") for name in named]
    return ["evaluate", *paths, "--qrels", str(tmp_path / "qrels"), "--measures", "RR"]


def said(*words):
    shown = CliRunner().invoke(main, list(words))
    return " ".join((shown.stdout if shown.exit_code == 0 else shown.stderr).split())


def test_a_dataset_declares_its_unit():
    data = ikat.dataset("ikat:sample")
    assert data.unit == "topic"
    assert pd.Series(data.clusters()).value_counts().to_dict() == {"1": 12, "2": 6, "3": 6}


def test_every_dataset_has_a_unit_and_a_reason():
    for name in ikat.conversations.datasets.full_names():
        data = ikat.dataset(name)
        assert data.unit in UNITS
        assert data.unit_reason.endswith(".")
    assert ikat.dataset("ikat:2023").unit == "topic"
    assert ikat.dataset("ikat:2023-mini").unit == "topic"
    assert ikat.dataset("ikat:2024").unit == "conversation"
    assert ikat.dataset("ikat:2025").unit == "user"
    assert ikat.dataset("cast:2019").unit == "conversation"
    assert ikat.dataset("locomo:").unit == "user"
    assert ikat.dataset("mtrag:mini").unit == "conversation"


def test_a_dataset_refuses_a_unit_that_it_does_not_know():
    with pytest.raises(ikat.UsageError, match="doesn't say which user"):
        ikat.dataset("ikat:sample").clusters("user")


def test_frames_name_conversations_by_column_or_by_id():
    by_id = find_clusters(["9-1_1", "9-1_2", "9-2_1"])
    assert (by_id.unit, list(by_id.names), by_id.source) == (
        "conversation",
        ["9-1", "9-1", "9-2"],
        "qid",
    )
    frame = pd.DataFrame({"qid": ["a", "b", "c_1"], "qconversation": ["x", "x", "y"]})
    by_column = find_clusters(["a", "b", "c_1"], frames=[frame])
    assert (by_column.unit, list(by_column.names), by_column.source) == (
        "conversation",
        ["x", "x", "y"],
        "qconversation",
    )
    neither = find_clusters(["9-1_1", "dd6b<::>2"])
    assert (neither.unit, neither.source) == ("turn", "none")
    with pytest.raises(ikat.DataError, match=r"turn 'dd6b<::>2' is not <conversation>_<turn>"):
        find_clusters(["9-1_1", "dd6b<::>2"], "conversation")
    with pytest.raises(ikat.UsageError, match="unit='depth' is unknown"):
        find_clusters(["9-1_1"], "depth")


class Own:
    """A user's dataset, which may say what conversation a turn belongs to."""

    def __init__(self, **columns):
        self.columns = columns

    def get_topics(self):
        qids = []
        for chat in "abcdef":
            qids += [f"{chat}_1", f"{chat}_2", f"{chat}_3"]
        return pd.DataFrame(
            {"qid": qids, "query": "tea"}
            | {name: values * 3 for name, values in self.columns.items()}
        )

    def get_qrels(self):
        return pd.DataFrame({"qid": self.get_topics()["qid"], "docno": "a", "label": 1})


@pytest.mark.parametrize(
    ("columns", "wanted"),
    [({}, (6, "qid")), ({"qconversation": [1, 2, 1, 2, 1, 2]}, (2, ""))],
)
def test_a_dataset_names_conversations_or_their_source_is_said(columns, wanted):
    def find(turns):
        docnos = (["x", "a", "a"] * 6)[: len(turns)]
        qids = turns["qid"].tolist()
        found = {"qid": qids, "query": "tea", "docno": docnos, "score": 1.0, "rank": 0}
        return pd.DataFrame(found)

    data = Own(**columns)
    every = find(data.get_topics()).assign(docno="a")
    table = ikat.experiment(
        {"every": every, "some": pt.apply.generic(find)}, data, ["RR"], baseline="every"
    )
    assert tuple(table.iloc[1][["clusters", "unit_from"]]) == wanted


def test_the_oracle_is_not_marked():
    named, qrels = runs(20)
    table = evaluate(named, qrels, ["RR"], "base", oracle=True)
    assert [cell.mark for cell in ikat.show.table(table).columns[1].cells] == ["", "↑", ""]


def test_turns_that_a_dataset_lacks_are_told():
    with pytest.warns(UserWarning, match=r"ikat:sample lacks 1 turn \(8-1_1\)"):
        found = find_clusters(["1-1_1", "1-2_1", "8-1_1"], data=ikat.dataset("ikat:sample"))
    assert list(found.names) == ["1", "1", "8-1_1"]


@pytest.mark.parametrize("unit", ["turn", "conversation", "topic", None])
def test_marks_and_intervals_are_of_one_test(unit):
    named, qrels = runs(12)
    table = evaluate(named, qrels, ["RR"], "base", unit=unit)
    base = per_turn(named["base"], qrels, ["RR"])["RR(rel=1)"].tolist()
    ours = per_turn(named["ours"], qrels, ["RR"])["RR(rel=1)"].tolist()
    clusters = find_clusters(list(dict.fromkeys(qrels["qid"])), unit)
    wanted = compare(ours, base, clusters.names)
    row = table.set_index("name").loc["ours"]
    assert row["RR(rel=1) p-value"] == pytest.approx(wanted.p_value)
    assert (row["RR(rel=1) low"], row["RR(rel=1) high"]) == pytest.approx((wanted.low, wanted.high))
    assert bool(row["RR(rel=1) reject"]) == (wanted.p_value < 0.05)
    assert (row["unit"], row["clusters"]) == (
        unit or "conversation",
        {"turn": 36, "topic": 6}.get(unit, 12),
    )
    assert np.isnan(table.set_index("name").loc["base", "RR(rel=1) low"])


def test_experiments_and_files_agree_with_evaluate(tmp_path):
    named, qrels = runs()
    topics = pd.DataFrame({"qid": qrels["qid"], "query": "tea"})
    wanted = evaluate(named, qrels, ["RR"], "base")
    found = ikat.experiment(named, measures=["RR"], baseline="base", topics=topics, qrels=qrels)
    pd.testing.assert_frame_equal(pd.DataFrame(found), wanted)
    for name, frame in named.items():
        ikat.runs.write_run(frame, tmp_path / f"{name}.trec")
    of_files = evaluate([tmp_path / "base.trec", tmp_path / "ours.trec"], qrels, ["RR"], "base")
    pd.testing.assert_frame_equal(of_files, wanted)


def good_and_poor(conversations):
    """Judgements of five turns a conversation, and two runs.

    The good run finds the passage of each turn, the poor one that of every seventh.
    """
    qids = []
    for number in range(conversations):
        qids += [f"{number}-1_{turn}" for turn in range(1, 6)]
    qrels = pd.DataFrame({"qid": qids, "docno": "a", "label": 1})
    good = pd.DataFrame({"qid": qids, "docno": "a", "score": 1.0, "rank": 0})
    poor = good.assign(docno="x")
    poor.loc[::7, "docno"] = "a"
    return qrels, good, poor


def test_under_five_clusters_nothing_is_marked_and_why_is_said():
    qrels, good, poor = good_and_poor(4)
    table = evaluate({"poor": poor, "good": good}, qrels, ["P@1"], "poor")
    row = table.set_index("name").loc["good"]
    assert row["P(rel=1)@1 p-value"] < 0.05
    assert not row["P(rel=1)@1 reject"]
    words = " ".join(str(ikat.show.table(table)).split())
    assert "a test needs 5 conversations or more, and these are 4" in words
    assert "↑" not in words.split("Mean over")[0]
    by_turn = evaluate({"poor": poor, "good": good}, qrels, ["P@1"], "poor", unit="turn")
    assert by_turn["P(rel=1)@1 reject"].tolist() == [False, True]


def test_five_clusters_are_enough_for_a_mark():
    qrels, good, poor = good_and_poor(5)
    table = evaluate({"poor": poor, "good": good}, qrels, ["P@1"], "poor")
    row = table.set_index("name").loc["good"]
    assert row["clusters"] == 5
    assert row["P(rel=1)@1 reject"]
    assert "Nothing is marked" not in str(ikat.show.table(table))


def test_equal_differences_have_no_p_value_and_a_sentence():
    qrels = pd.DataFrame({"qid": ["a_1", "a_2"], "docno": "r", "label": 1})
    late = pd.DataFrame(
        {
            "qid": ["a_1"] * 2 + ["a_2"] * 2,
            "docno": ["n", "r"] * 2,
            "score": [2.0, 1.0] * 2,
            "rank": [0, 1] * 2,
        }
    )
    first = late.assign(docno=["r", "n"] * 2)
    table = evaluate({"late": late, "first": first}, qrels, ["RR@5"], "late", unit="turn")
    assert np.isnan(table["RR(rel=1)@5 p-value"]).all()
    assert not table["RR(rel=1)@5 reject"].any()
    words = " ".join(str(ikat.show.table(table)).split())
    assert "Not tested: first by RR(rel=1)@5" in words


def test_a_system_that_never_ran_is_not_tested():
    named, qrels = runs(12)
    never = named["base"].head(0)
    with pytest.warns(UserWarning, match="never found nothing for any judged turn"):
        table = evaluate({**named, "never": never}, qrels, ["RR"], "ours")
    row = table.set_index("name").loc["never"]
    assert np.isnan([row["RR(rel=1) p-value"], row["RR(rel=1) low"]]).all()
    assert (row["RR(rel=1)"], bool(row["RR(rel=1) reject"])) == (0, False)
    assert "Not tested: never by RR(rel=1)" in " ".join(str(ikat.show.table(table)).split())


def test_the_interval_of_a_sum_is_one_of_sums():
    """6 and 12 passages over three turns.

    The differences are 2, 1 and 3, with a mean of 2 and a standard error of 1 / sqrt(3).
    """
    qrels = pd.DataFrame({"qid": ["1_1", "2_1", "3_1"], "docno": "a", "label": 1})

    def finding(*counts):
        docnos = [" ".join("abcdef"[:count]) for count in counts]
        return run(**dict(zip(qrels["qid"], docnos, strict=True)))

    table = evaluate(
        {"base": finding(1, 2, 3), "ours": finding(3, 3, 6)}, qrels, ["NumRet"], "base", unit="turn"
    )
    half = 3 * stats.t.ppf(0.975, 2) / np.sqrt(3)
    assert table.iloc[1][["NumRet", "NumRet low", "NumRet high"]].tolist() == pytest.approx(
        [12, 6 - half, 6 + half]
    )


def test_the_command_names_unit_number_and_source(files):
    words = said(*files, "--baseline", "base")
    assert "over 24 turns of 8 conversations, Bonferroni, p < .05" in words
    assert "was taken from its id" in words
    assert "over 24 turns of 4 topics" in said(*files, "--baseline", "base", "--unit", "topic")
    by_turn = said(*files, "--baseline", "base", "--unit", "turn")
    assert "two-sided paired t-test, over 24 turns, Bonferroni, p < .05" in by_turn
    assert "treats all turns as independent" in by_turn
    assert "give --baseline" in said(*files, "--unit", "topic")
    assert "--unit is what tests and intervals go by" in said(
        *files, "--baseline", "base", "--by", "depth"
    )


@pytest.mark.parametrize("form", ["text", "markdown", "latex"])
def test_every_form_of_the_table_has_the_intervals(form):
    named, qrels = runs()
    table = evaluate(named, qrels, ["RR"], "base")
    row = table.set_index("name").loc["ours"]
    low = f"{row['RR(rel=1) low']:+.4f}".replace("0.", ".", 1)
    high = f"{row['RR(rel=1) high']:+.4f}".replace("0.", ".", 1)
    shown = ikat.show.table(table).written(form).replace("\\", "").replace("{", "").replace("}", "")
    assert f"[{low}, {high}]" in shown
    assert "24 turns of 8 conversations" in " ".join(shown.split())


def test_csv_has_bounds_and_unit(tmp_path):
    named, qrels = runs()
    table = evaluate(named, qrels, ["RR"], "base")
    (tmp_path / "table.csv").write_text(ikat.show.table(table).csv())
    read = pd.read_csv(tmp_path / "table.csv")
    assert read["RR(rel=1) low"][1] == pytest.approx(table["RR(rel=1) low"][1])
    assert (read["unit"][1], read["clusters"][1]) == ("conversation", 8)
    assert str(ikat.show.table(read)) == str(ikat.show.table(table))


def test_run_folders_bring_the_unit_of_their_dataset(tmp_path):
    index = ikat.PassageIndex(tmp_path / "index").index(
        ikat.dataset("ikat:sample").get_corpus_iter(verbose=False)
    )
    done = ikat.run(
        ["raw", "all_utterances"],
        "ikat:sample",
        out=tmp_path / "runs",
        index=index,
        baseline="raw",
        measures=["nDCG@5"],
    )
    words = " ".join(str(done).split())
    assert "over 24 turns of 3 topics" in words
    assert (
        f"{done.table['nDCG@5'][1] - done.table['nDCG@5'][0]:+.4f} [".replace("0.", ".", 1) in words
    )
    assert "taken from" not in words
    folders = [tmp_path / "runs" / name for name in ("raw", "all_utterances")]
    later = evaluate(folders, measures=["nDCG@5"], baseline="raw")
    pd.testing.assert_frame_equal(later, pd.DataFrame(done.table))
    shown = said("evaluate", *map(str, folders), "--baseline", "raw", "--measures", "nDCG@5")
    assert "over 24 turns of 3 topics" in shown
    by_conversation = ikat.run(
        ["raw", "all_utterances"],
        "ikat:sample",
        out=tmp_path / "runs",
        index=index,
        baseline="raw",
        unit="conversation",
    )
    assert "over 24 turns of 4 conversations" in " ".join(str(by_conversation).split())
    page = " ".join(ikat.report(folders, baseline="raw").html.split())
    assert "over 24 turns of 3 topics" in page
    assert ikat.breakdown(folders, by="depth")["turns"].tolist() == [4] * 6
    assert ikat.breakdown(folders, by="depth").attrs["unit"] == "topic"
    assert differing_pairs(folders) == []


def test_differing_pairs_takes_what_evaluate_takes(tmp_path):
    named, qrels = runs(20, 2)
    table = evaluate(named, qrels, ["RR"], "base")
    assert differing_pairs(named, qrels, "RR") == [("base", "ours")] * bool(
        table["RR(rel=1) reject"][1]
    )
    assert table["RR(rel=1) reject"][1]
    for name, frame in named.items():
        ikat.runs.write_run(frame, tmp_path / f"{name}.trec")
    assert differing_pairs(
        [tmp_path / "base.trec", tmp_path / "ours.trec"], qrels, "RR", unit="turn"
    ) == [("base", "ours")]


def test_half_widths_of_a_breakdown_are_those_of_the_unit():
    qids = []
    for topic in range(6):
        qids += [f"{topic}-1_1", f"{topic}-1_2", f"{topic}-2_1", f"{topic}-2_2"]
    scores = pd.DataFrame({"qid": qids, "nDCG@5": np.random.default_rng(4).random(len(qids))})
    first = scores[scores["qid"].str.endswith("_1")]
    for unit in ("topic", "conversation", "turn"):
        table = ikat.breakdown({"one": scores}, by="depth", unit=unit)
        names = find_clusters(first["qid"], unit).names
        wanted = compare(first["nDCG@5"].tolist(), [0.0] * 12, names)
        assert table.attrs["half_widths"]["one"][1] == pytest.approx(wanted.high - wanted.mean)


def test_response_and_nugget_means_have_intervals_of_the_unit():
    qids = ["1-1_1", "1-1_2", "1-2_1", "2-1_1", "3-1_1", "3-1_2"]
    values = [0.5, 0.7, 0.4, 0.9, 0.1, 0.3]
    judged = pd.DataFrame({"qid": qids, "judge": "x", "value": values, "outcome": "judged"})
    nuggets = pd.DataFrame({"qid": qids, "all": values, "nuggets": 4})
    nuggets.loc[len(qids)] = ["9-1_1", None, 0]  # a turn whose nuggets have no label
    for options, unit in (
        ({}, "conversation"),
        ({"unit": "turn"}, "turn"),
        ({"dataset": "ikat:sample"}, "topic"),
    ):
        wanted = compare(values, [0.0] * 6, find_clusters(qids, unit).names)
        for table in (
            response_means(judged, **options),
            nugget_means({"ours": nuggets}, **options),
        ):
            row = table.iloc[0]
            assert (row["low"], row["high"]) == pytest.approx((wanted.low, wanted.high))
            assert (row["unit"], row["clusters"]) == (unit, wanted.clusters)
            assert row["turns"] == len(qids)


@pytest.mark.parametrize("unit", ["topic", "user"])
def test_topic_and_user_of_an_id_stand_before_the_hyphen(unit):
    clusters = find_clusters(["9-1_1", "9-2_1", "10-1_1"], unit)
    assert (clusters.unit, list(clusters.names)) == (unit, ["9", "9", "10"])
