"""Run folders are evaluated as they lie: they know their dataset.

Turns that match nothing are named.
"""

import warnings

import numpy as np
import pandas as pd
import pyterrier as pt
import pytest
from click.testing import CliRunner

import pyterrier_ikat as ikat
from pyterrier_ikat.cli import main
from pyterrier_ikat.conversations import write_qrels
from pyterrier_ikat.evaluation.evaluator import NotJudgedWarning, OtherTurnsWarning
from pyterrier_ikat.runs import RunFolder, write_run
from pyterrier_ikat.study.in_folders import AlikeWarning, SystemFailed

SAMPLE = ikat.dataset("ikat:sample")
TURNS = SAMPLE.get_topics()["qid"].tolist()


def finding(docno):
    found = pd.DataFrame(
        {"docno": [docno, "sample-walk-002:0"], "score": [2.0, 1.0], "rank": [0, 1]}
    )
    return pt.apply.generic(lambda turns: turns.merge(found, how="cross"))


@pytest.fixture
def made(tmp_path):
    """Makes runs of the sample in folders, and gives their table."""

    def make(**given):
        systems = {"one": finding("sample-walk-001:0"), "two": finding("sample-walk-084:0")}
        if given.get("qrels") == "provenance":  # which judge other passages
            systems = dict.fromkeys(systems, finding("sample-garden-001:0"))
        return ikat.run(systems, "ikat:sample", out=tmp_path / "runs", **given).table

    make.folders = [tmp_path / "runs" / name for name in ("one", "two")]
    return make


def evaluate(*arguments):
    return CliRunner().invoke(main, ["evaluate", *map(str, arguments)])


@pytest.mark.parametrize("given", [{}, {"turns": TURNS[:3]}])
def test_folders_are_evaluated_as_they_were_run(made, given):
    """Also those of a few turns, over which the means are."""
    table = made(**given)
    for runs in (
        made.folders,
        list(map(str, made.folders)),
        list(map(RunFolder, made.folders)),
        {path.name: path for path in made.folders},
    ):
        pd.testing.assert_frame_equal(ikat.evaluate(runs), pd.DataFrame(table))
    pd.testing.assert_frame_equal(ikat.evaluate(made.folders[0]), pd.DataFrame(table.head(1)))
    done = evaluate(*made.folders)
    assert done.exit_code == 0, done.output
    assert f"Mean over {3 if given else 24} judged turns" in done.output
    assert evaluate(*made.folders, "--turns", TURNS[0]).exit_code == 0
    shown = CliRunner().invoke(main, ["evaluate", "--by", "depth", *map(str, made.folders)])
    assert shown.exit_code == 0, shown.output


def test_folders_that_were_scored_by_other_judgements_say_so(made):
    made(qrels="provenance")
    refused = evaluate(*made.folders)
    assert refused.exit_code == 2
    assert (
        "scored with other judgements than the default ones of ikat:sample: give --qrels, or "
        "--dataset ikat:sample" in refused.output
    )
    with pytest.raises(ikat.UsageError, match="one was scored with other judgements"):
        ikat.evaluate(made.folders)
    assert ikat.evaluate(made.folders, SAMPLE.get_qrels())["turns"].tolist() == [24, 24]


def test_a_run_of_no_dataset_needs_judgements(tmp_path):
    topics = pd.DataFrame({"qid": ["1_1"], "query": "tea"})
    qrels = pd.DataFrame({"qid": ["1_1"], "docno": "a", "label": 1})
    ikat.run({"mine": finding("a")}, out=tmp_path, topics=topics, qrels=qrels)
    with pytest.raises(
        ikat.UsageError,
        match=(
            r"mine: the run does not say which dataset it was made on: give dataset=... or "
            r"qrels=..."
        ),
    ):
        ikat.evaluate([tmp_path / "mine"])
    assert ikat.evaluate([tmp_path / "mine"], qrels)["nDCG@3"].tolist() == [1.0]


def test_turns_that_match_nothing_are_named(tmp_path):
    """By hand: of two judged turns one is misspelt in the run.

    One of the judgements is of no turn.
    """
    frame = finding("a")(pd.DataFrame({"qid": [TURNS[0], "1-1_02"]}))
    qrels = pd.DataFrame({"qid": [TURNS[0], TURNS[1]], "docno": "a", "label": 1})
    with pytest.warns(
        OtherTurnsWarning,
        match=r"run x lacks 1 judged turn.*\(1-1_2\), and has 1 turn that is not judged \(1-1_02\)",
    ):
        assert ikat.evaluate({"x": frame}, qrels, ["nDCG@3"])["nDCG@3"].tolist() == [0.5]
    write_run(frame, tmp_path / "x.trec")
    write_run(frame, tmp_path / "y.trec")
    write_qrels(pd.concat([qrels, qrels.assign(qid="7_7").head(1)]), tmp_path / "mine.txt")
    of_one = " ".join(
        evaluate(
            tmp_path / "x.trec", "--qrels", tmp_path / "mine.txt", "--dataset", "ikat:sample"
        ).output.split()
    )
    assert "x lacks 2 judged turns, counted 0: 1-1_2, 7_7." in of_one
    assert of_one.endswith(
        "mine.txt judges 1 turn that ikat:sample lacks: 7_7 x has 1 turn that ikat:sample "
        "lacks: 1-1_02"
    )
    of_two = evaluate(
        tmp_path / "x.trec", tmp_path / "y.trec", "--qrels", tmp_path / "mine.txt"
    ).output
    assert "each run lacks 2 judged turns, counted 0: 1-1_2, 7_7." in " ".join(of_two.split())
    assert of_two.splitlines()[-1] == "each run has 1 turn that is not judged: 1-1_02"


def test_folders_are_broken_down_as_they_are_evaluated(tmp_path):
    ikat.run({"found": finding("sample-walk-001:0")}, "ikat:sample", out=tmp_path)
    qrels = pt.get_dataset("ikat:sample").get_qrels()
    by_frame = ikat.breakdown(
        {"found": ikat.runs.RunFolder(tmp_path / "found").results()}, qrels, "nDCG@3", by="depth"
    )
    assert ikat.breakdown([tmp_path / "found"], qrels, "nDCG@3", by="depth").equals(by_frame)
    with pytest.raises(ikat.UsageError, match=r"'nDCG@@3' is unknown: write it as"):
        ikat.breakdown([tmp_path / "found"], qrels, "nDCG@@3")


def test_a_measure_whose_level_no_label_has_is_named():
    run = finding("a")(pd.DataFrame({"qid": ["1_1"]}))
    qrels = pd.DataFrame({"qid": ["1_1"], "docno": "a", "label": 1})
    with pytest.warns(
        UserWarning,
        match=r"highest label of these judgements is 1: each score of P\(rel=2\)@5 is 0",
    ):
        assert (
            ikat.evaluate({"x": run}, qrels, ["P(rel=1)@5", "P(rel=2)@5"])["P(rel=2)@5"].item() == 0
        )


def of_another_collection(count=3):
    """A retriever over passages that nobody judged, and that PyTerrier's own frames hold."""
    ranks = np.arange(count)
    docnos = [f"other-{rank}" for rank in ranks]
    found = pd.DataFrame({"docno": docnos, "score": -ranks.astype(float), "rank": ranks})
    return pt.apply.generic(lambda turns: turns.merge(found, how="cross"))


def test_a_run_without_judged_passages_is_an_error_and_kept(tmp_path):
    systems = {"other": of_another_collection(), "good": finding("sample-walk-001:0")}
    with pytest.raises(
        SystemFailed,
        match=(
            r"other: none of its 3 passages is judged \(they are like other-0, the judged ones "
            r"like sample-"
        ),
    ):
        ikat.run(systems, "ikat:sample", out=tmp_path)
    assert len(RunFolder(tmp_path / "other").results()) == 72
    assert RunFolder(tmp_path / "good").measures()["nDCG@5"].sum() > 0
    assert RunFolder(tmp_path / "other").measures().empty
    for run in (tmp_path / "other", RunFolder(tmp_path / "other").results()):
        with pytest.warns(NotJudgedWarning, match="run other: none of its 3 passages is judged"):
            assert ikat.evaluate({"other": run}, SAMPLE.get_qrels())["nDCG@5"].tolist() == [0.0]
    with pytest.raises(ikat.DataError, match="system other: none of its 3 passages is judged"):
        ikat.experiment({"other": of_another_collection()}, "ikat:sample")
    with warnings.catch_warnings():
        warnings.simplefilter("always")
        told = evaluate(tmp_path / "other", "--dataset", "ikat:sample")
    assert (told.exit_code, "run other: none of its 3 passages is judged" in told.stderr) == (
        0,
        True,
    )


def test_a_kept_unjudged_run_is_scored_with_its_own_judgements(tmp_path):
    with pytest.raises(ikat.DataError, match="none of its 3 passages is judged"):
        ikat.run({"other": of_another_collection()}, "ikat:sample", out=tmp_path)
    own = pd.DataFrame({"qid": TURNS[:2], "docno": ["other-0", "other-9"], "label": [1, 1]})
    with pytest.warns(AlikeWarning):
        again = ikat.run({"other": of_another_collection()}, "ikat:sample", out=tmp_path, qrels=own)
    assert again.table["nDCG@5"].tolist() == [0.5]


def test_a_poor_run_over_the_right_collection_counts_zero(tmp_path):
    """Its only passage is not judged, but its index has judged ones."""
    passages = [{"docno": "d1", "text": "tea"}, {"docno": "d2", "text": "milk"}]
    index = ikat.PassageIndex(tmp_path / "index").index(passages)
    qrels = pd.DataFrame({"qid": ["1_1"], "docno": "d2", "label": 1})
    topics = pd.DataFrame({"qid": ["1_1"], "query": "tea"})
    assert ikat.run(
        {"poor": index.bm25()}, topics=topics, qrels=qrels, out=tmp_path / "runs"
    ).table["nDCG@5"].tolist() == [0.0]
    assert ikat.experiment({"poor": index.bm25()}, topics=topics, qrels=qrels)[
        "nDCG@5"
    ].tolist() == [0.0]


def test_a_turn_whose_passages_are_judged_for_another_scores_0(tmp_path):
    """Of one turn or two, a ranking without a judged passage is a bad one.

    It is not taken for one of another collection.
    """
    topics = pd.DataFrame({"qid": ["1_1", "1_2"], "query": ["tea", "milk"]})
    qrels = pd.DataFrame({"qid": ["1_1", "1_2"], "docno": ["a", "b"], "label": [1, 1]})
    finds_b = pt.apply.generic(lambda turns: turns.assign(docno="b", score=1.0, rank=0))
    found = ikat.run(
        {"mine": finds_b}, topics=topics, qrels=qrels, turns=["1_1"], out=tmp_path, measures=["P@1"]
    )
    assert found.table[["P(rel=1)@1", "turns"]].values.tolist() == [[0.0, 1]]
    alone = ikat.experiment(
        {"mine": finds_b}, topics=topics, qrels=qrels, turns=["1_1"], measures=["P@1"]
    )
    assert alone["P(rel=1)@1"].tolist() == [0.0]


def test_scores_by_turn_are_those_of_the_chosen_turns():
    qids = ["1_1", "2_1", "3_1", "4_1", "5_1", "6_1"]
    high = [1.0, 0.9, 0.8, 0.9, 1.0, 0.9]
    low = [0.1, 0.2, 0.1, 0.1, 0.2, 0.1]
    frame = pd.DataFrame({"qid": qids})
    runs = {"high": frame.assign(**{"nDCG@5": high}), "low": frame.assign(**{"nDCG@5": low})}
    assert ikat.evaluation.differing_pairs(runs) == [("high", "low")]
    assert ikat.evaluation.differing_pairs(runs, turns=qids[:2]) == []
    table = ikat.breakdown(runs, turns=qids[:2])
    assert table.values.tolist() == [["1", 1.0, 0.1, 1], ["2", 0.9, 0.2, 1]]
    with pytest.raises(ikat.UsageError, match="9_9"):
        ikat.breakdown(runs, turns=["9_9"])
