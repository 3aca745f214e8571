"""Runs as frames, folders and files: what is read of them, and what they know of their dataset."""

import json

import pandas as pd
import pytest
from small_frames import dataset_folder, folder, run

import pyterrier_ikat as ikat
from pyterrier_ikat.errors import DataError, UsageError
from pyterrier_ikat.evaluation.finished_runs import (
    check_once,
    dataset_of,
    folders_in,
    known_dataset,
    qrels_of,
    ranking_frame,
    ranking_of,
    results_of,
    results_to_score,
    turns_of,
    with_names,
    written_by,
)
from pyterrier_ikat.runs import RunFolder
from pyterrier_ikat.runs.folder import checksum_of

FRAME = run(**{"1_1": "a b"})
SAMPLE = ikat.dataset("ikat:sample")


@pytest.mark.parametrize(
    ("frame", "told"),
    [
        (
            FRAME.drop(columns=["score", "rank"]),
            "no column score, rank in run x, only qid, docno: give a ranking, .*add_ranks",
        ),
        (FRAME.set_index("qid"), r"qid is the index of run x, not a column: .*reset_index\(\)"),
        (FRAME.set_index("qid").drop(columns="rank"), "no column qid, rank in run x, only docno"),
        (FRAME.rename(columns={"rank": 3}), "no column rank in run x, only qid, docno, score, 3"),
        (pd.DataFrame(), "no column qid, docno, score, rank in run x, only none"),
    ],
    ids=["two", "index", "index and more", "number", "none"],
)
def test_columns_that_a_ranking_lacks_are_named(frame, told):
    with pytest.raises(UsageError, match=told):
        ranking_frame("x", frame)
    with pytest.raises(UsageError, match=told):
        ranking_of("x", frame)


def test_a_frames_rows_are_numbered_from_0():
    odd = FRAME.set_index(pd.Index([7, 7]))
    assert with_names("x", odd, ["qid"], "add it").index.tolist() == [0, 1]


def test_rankings_fall_strictly_and_errors_name_the_run():
    tied = FRAME.assign(score=1.0)
    found = ranking_of("x", tied)["1_1"]
    assert list(found) == ["a", "b"]
    assert found["a"] > found["b"]
    with pytest.raises(DataError, match="^run x: .*1_1"):
        ranking_of("x", FRAME.assign(score=[1.0, 2.0]))
    with pytest.raises(DataError, match="run x"):
        ranking_of("x", FRAME.assign(qid=[1, 1]))


def test_what_stands_twice_is_named_by_all_its_columns():
    frame = pd.DataFrame({"qid": ["1_1", "1_2", "1_2", "1_2"], "docno": list("aaba")})
    with pytest.raises(DataError, match="^turn 1_2, docno a occurs twice in the pool: keep one$"):
        check_once("the pool", frame, ["qid", "docno"], "keep one")
    check_once("the pool", frame[:3], ["qid", "docno"], "keep one")
    pairs = pd.DataFrame({"qid": ["1_1", "1_2", "1_2", "1_1"], "docno": "a"})
    with pytest.raises(DataError, match="^turn 1_2, docno a occurs twice"):
        check_once("the pool", pairs, ["qid", "docno"], "keep one")
    with pytest.raises(DataError, match="^docno a occurs twice"):
        check_once("the pool", frame[:2], ["docno"], "keep one")
    with pytest.raises(DataError, match="^turn 1_2, docno a occurs twice"):
        check_once("the pool", pairs.assign(label=[1, 2, 3, 4]), ["qid", "docno"], "keep one")


def test_a_cell_is_read_once_for_each_turn_that_shares_it():
    shared = ["x"]
    frame = pd.DataFrame({"qid": ["1_1", "1_1", "1_2"]})
    frame["qlearned"] = pd.Series([shared, shared, shared], dtype=object)
    read = []

    def reader(qid, cell):
        read.append(qid)
        return f"{qid} {cell}"

    found = written_by(frame, "qlearned", "UpdatePtkb(llm)", reader)
    assert found == {"1_1": "1_1 ['x']", "1_2": "1_2 ['x']"}
    assert read == ["1_1", "1_2"]
    equal = pd.DataFrame({"qid": ["1_1", "1_1"]})
    equal["qlearned"] = pd.Series([["x"], ["x"]], dtype=object)
    found = written_by(equal, "qlearned", "UpdatePtkb(llm)", lambda qid, cell: list(cell))
    assert found == {"1_1": ["x"]}
    different = pd.DataFrame({"qid": ["1_1", "1_2", "1_1"], "qaction": ["ask", "ask", "answer"]})
    told = "turn 1_1 has rows with different qaction, 'ask' and 'answer': give one per turn"
    with pytest.raises(DataError, match=told):
        written_by(different, "qaction", "Decide(llm)", lambda qid, cell: cell)
    told = "no column qaction in the frame, only qid: give the output of .* ikat.Decide"
    with pytest.raises(UsageError, match=told):
        written_by(different[["qid"]], "qaction", "Decide(llm)", lambda qid, cell: cell)


def test_turns_are_those_of_a_finished_folder(tmp_path):
    made = folder(tmp_path / "one", FRAME, ["1_1", "1_2"])
    assert turns_of(made.path)["qid"].tolist() == ["1_1", "1_2"]
    assert turns_of(FRAME) is FRAME
    with pytest.raises(DataError, match="two"):
        turns_of(tmp_path / "two")
    none = folder(tmp_path / "none", FRAME[:0], [])
    assert turns_of(none.path).columns.tolist() == ["qid"]


def test_folders_are_runs_if_all_are_folders(tmp_path):
    one = folder(tmp_path / "one", FRAME)
    found = folders_in({"a": one, "b": str(one.path), "c": one.path})
    assert [made.path for made in found] == [one.path] * 3
    for other in (FRAME, one.path / "run.trec", str(tmp_path / "two"), RunFolder(tmp_path / "two")):
        assert folders_in({"a": one, "b": other}) == []
        assert folders_in({"b": other, "a": one}) == []


def test_frames_folders_and_files_of_any_name_are_read_as_runs(tmp_path):
    one = folder(tmp_path / "one", FRAME)
    renamed = tmp_path / "mine.txt"
    submitted = tmp_path / "submitted"
    renamed.write_bytes((one.path / "run.trec").read_bytes())
    passages = [{"id": "b", "score": 1.0}, {"id": "a", "score": 2.0}]
    turn = {"turn_id": "1_1", "responses": [{"rank": 1, "passage_provenance": passages}]}
    submitted.write_text(json.dumps({"turns": [turn]}))
    folders = (one, one.path, str(one.path))
    for made in (*folders, one.path / "run.trec", renamed, submitted, FRAME):
        assert results_to_score("x", made)["docno"].tolist() == ["a", "b"]
        assert results_of("x", made)["docno"].tolist() == ["a", "b"]
    with pytest.raises(UsageError, match="run x is a int: give a frame, a run folder"):
        results_to_score("x", 5)


def test_an_unfinished_folder_is_scored_but_is_no_finished_run(tmp_path):
    whole = folder(tmp_path / "whole", FRAME).path
    half = tmp_path / "half.partial"
    half.mkdir()
    (half / "run.json").write_bytes((whole / "run.json").read_bytes())
    for name in ("run.trec", "turns.jsonl"):
        (half / f"000000.{name}").write_bytes((whole / name).read_bytes())
    for unfinished in (half, str(half), RunFolder(half)):
        assert results_to_score("x", unfinished)["docno"].tolist() == ["a", "b"]
        with pytest.raises(DataError, match="half.partial is not a finished run"):
            results_of("x", unfinished)


def test_the_dataset_of_runs_is_the_one_that_all_name(tmp_path):
    short = folder(tmp_path / "short", FRAME, dataset="sample")
    full = folder(tmp_path / "full", FRAME, dataset="ikat:sample")
    none = folder(tmp_path / "none", FRAME)
    other = folder(tmp_path / "other", FRAME, dataset="ikat:2024")
    assert known_dataset({"a": full, "b": FRAME}, "ikat:2024").name == "ikat:2024"
    assert known_dataset({"a": FRAME}) is None
    assert known_dataset({"a": full, "b": none}) is None
    assert known_dataset({"a": full, "b": other}) is None
    assert known_dataset({"a": full, "b": full.path}).name == "ikat:sample"
    assert known_dataset({"a": short, "b": full}).name == "ikat:sample"
    assert dataset_of([short, full]).name == "ikat:sample"
    with pytest.raises(UsageError, match=r"full on ikat:sample, other on ikat:2024"):
        dataset_of([full, other])
    with pytest.raises(UsageError, match=r"^none: the run does not say .*: give dataset=\.\.\."):
        dataset_of([full, none])
    with pytest.raises(UsageError):
        known_dataset({"a": full}, "nowhere")


def test_each_folder_was_scored_with_the_default_judgements(tmp_path):
    judged = SAMPLE.get_qrels()
    first, second = judged["qid"].unique()[:2]
    some = judged[judged["qid"] == second].reset_index(drop=True)
    results = run(**{second: "a"})
    sums = {"all": checksum_of(judged), "some": checksum_of(some), "none": None}
    good = []
    for name, checksum in sums.items():
        given = {} if checksum is None else {"qrels_sha256": checksum}
        good.append(folder(tmp_path / name, results, dataset="ikat:sample", **given))
    assert qrels_of(good).equals(judged)
    both = judged[judged["qid"].isin([first, second])].reset_index(drop=True)
    of_two = {"dataset": "ikat:sample", "qrels_sha256": checksum_of(both)}
    backwards = folder(tmp_path / "two", run(**{second: "a", first: "a"}), **of_two)
    assert qrels_of([backwards]).equals(judged)
    asked = {"dataset": "ikat:sample", "qrels_sha256": sums["some"]}
    bad = folder(tmp_path / "bad", run(**{first: "a"}), **asked)
    told = r"bad was scored with other judgements than the default ones of ikat:sample: give qrels="
    with pytest.raises(UsageError, match=told):
        qrels_of([*good, bad])


@pytest.mark.filterwarnings("ignore::pyterrier_ikat.conversations.topics.CollectionWarning")
def test_a_folder_of_an_unjudged_dataset_needs_judgements(tmp_path):
    mine = dataset_folder(tmp_path / "mine")
    made = folder(tmp_path / "made", FRAME, dataset=str(mine))
    with pytest.raises(UsageError, match=rf"^{mine} has no judgements: give qrels=\.\.\.$"):
        qrels_of([made])
    assert known_dataset({"a": made}).name == str(mine)
    judged = pd.DataFrame({"qid": ["1_1"], "docno": ["b"], "label": [1]})
    assert ikat.evaluate([made.path], judged, ["RR"])["RR(rel=1)"].tolist() == [0.5]


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


def test_runs_of_a_dataset_without_judgements_need_some(tmp_path):
    with pytest.raises(UsageError, match=r"there are no judgements: give qrels=\.\.\."):
        ikat.evaluate({"one": run(**{"1_1": "a"})})
