import pytest
from small_frames import run

from pyterrier_ikat.errors import DataError, UsageError
from pyterrier_ikat.evaluation import pool_runs
from pyterrier_ikat.runs import write_run


def test_a_pool_is_the_union_of_tops_in_an_order_free_of_runs():
    one, two = run(**{"9-1_12": "b a x", "9-1_3": "c"}), run(**{"9-1_12": "d b", "10-1_1": "z"})
    expected = [["9-1_3", "c"], ["9-1_12", "a"], ["9-1_12", "b"], ["9-1_12", "d"], ["10-1_1", "z"]]
    assert pool_runs({"one": one, "two": two}, depth=2).values.tolist() == expected
    assert (
        pool_runs({"two": two, "one": one.sample(frac=1, random_state=3)}, depth=2).values.tolist()
        == expected
    )


def test_a_pool_refuses_runs_that_are_not_clean():
    with pytest.raises(DataError, match="run b: turn 1_1 has passage x twice"):
        pool_runs({"a": run(**{"1_1": "x"}), "b": run(**{"1_1": "x x"})})
    with pytest.raises(UsageError, match="depth=0"):
        pool_runs({"a": run(**{"1_1": "x"})}, depth=0)
    with pytest.raises(
        DataError, match=r"run a: the qid 7 is not a text: .* convert it with frame\["
    ):
        pool_runs({"a": run(**{"1_1": "x"}).assign(qid=7)})


def test_the_top_is_by_rank_and_ten_deep_by_default():
    deep = run(**{"1_1": "d00 d01 d02 d03 d04 d05 d06 d07 d08 d09 d10 d11"})
    pooled = pool_runs({"deep": deep})
    assert pooled.columns.tolist() == ["qid", "docno"]
    assert " ".join(pooled["docno"]) == "d00 d01 d02 d03 d04 d05 d06 d07 d08 d09"
    assert pool_runs({"deep": deep}, depth=1).values.tolist() == [["1_1", "d00"]]
    assert len(pool_runs({"deep": deep}, depth=12)) == 12
    assert len(pool_runs({"deep": deep}, depth=13)) == 12


def test_each_pair_of_a_pool_is_there_once():
    same = {"a": run(**{"1_1": "x y", "2_1": "x"}), "b": run(**{"1_1": "y z"})}
    assert pool_runs(same, 2).values.tolist() == [
        ["1_1", "x"],
        ["1_1", "y"],
        ["1_1", "z"],
        ["2_1", "x"],
    ]
    assert pool_runs(same, 1).values.tolist() == [["1_1", "x"], ["1_1", "y"], ["2_1", "x"]]


def test_a_pool_refuses_scores_that_rise_with_the_rank():
    rising = run(**{"1_1": "x y"}).assign(score=[1.0, 2.0])
    with pytest.raises(DataError, match="run up: "):
        pool_runs({"up": rising})


def test_a_pool_takes_runs_as_an_evaluation_does(tmp_path):
    frame = run(**{"1_1": "x y"})
    write_run(frame, tmp_path / "one.trec")
    expected = [["1_1", "x"], ["1_1", "y"]]
    assert pool_runs([tmp_path / "one.trec"]).values.tolist() == expected
    assert pool_runs({"a": str(tmp_path / "one.trec"), "b": frame}).values.tolist() == expected
    with pytest.raises(UsageError, match="run a is a list: give a frame, a run folder, a run file"):
        pool_runs({"a": ["x"]})


def test_a_pool_is_of_runs_by_name():
    ranking = run(**{"1_1": "x"})
    for nothing in ({}, []):
        with pytest.raises(UsageError, match="there is no run"):
            pool_runs(nothing)
    with pytest.raises(UsageError, match="without names"):
        pool_runs([ranking])
    assert pool_runs({1: ranking}).values.tolist() == [["1_1", "x"]]
    with pytest.raises(DataError, match="run 1: the qid 7 is not a text"):
        pool_runs({1: ranking.assign(qid=7)})
