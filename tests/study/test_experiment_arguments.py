"""The arguments of an experiment: in our order and PyTerrier's, names, and what is refused."""

import pandas as pd
import pyterrier as pt
import pytest

import pyterrier_ikat as ikat
from pyterrier_ikat.errors import DataError, UsageError
from pyterrier_ikat.study import NotJudgedWarning
from pyterrier_ikat.study.experiment_arguments import (
    baseline_of,
    data_of,
    named_systems,
    only_topics,
)

TOPICS = pd.DataFrame({"qid": ["1_1", "1_2"], "query": ["tea", "milk"]})
QRELS = pd.DataFrame({"qid": ["1_1", "1_2"], "docno": ["a", "b"], "label": [1, 1]})


def finding(docno):
    return pt.apply.generic(lambda turns: turns.assign(docno=docno, score=1.0, rank=0))


def given(*positional, **named):
    found = data_of(positional, named)
    names = ("dataset", "topics", "qrels", "measures", "baseline")
    values = {}
    for name in names:
        value = getattr(found, name)
        if value is not None:
            values[name] = value
    return values


def test_a_frame_in_the_first_place_means_pyterriers_order():
    assert given("ikat:sample", ["P@5"], "raw") == {
        "dataset": "ikat:sample",
        "measures": ["P@5"],
        "baseline": "raw",
    }
    found = given(TOPICS, QRELS, ["P@5"])
    assert found["topics"] is TOPICS
    assert found["qrels"] is QRELS
    assert found["measures"] == ["P@5"]
    mixed = given("ikat:sample", QRELS, ["P@5"])
    assert (mixed["dataset"], mixed["measures"]) == ("ikat:sample", ["P@5"])
    assert mixed["qrels"] is QRELS
    assert given("ikat:sample", QRELS)["qrels"] is QRELS
    assert given("ikat:sample", None, "raw", measures="P@5") == {
        "dataset": "ikat:sample",
        "measures": "P@5",
        "baseline": "raw",
    }


@pytest.mark.parametrize(
    ("positional", "named", "told"),
    [
        (("a", "b", "c", "d"), {}, "4 arguments behind the systems"),
        ((TOPICS, QRELS, "P@5", "d"), {}, "experiment\\(systems, topics, qrels, measures\\)"),
        (("ikat:sample",), {"dataset": "ikat:2024"}, "dataset is given twice"),
        ((TOPICS, QRELS), {"qrels": QRELS}, "qrels is given twice"),
    ],
)
def test_data_that_is_given_twice_or_too_much_is_refused(positional, named, told):
    with pytest.raises(UsageError, match=told):
        data_of(positional, named)


def test_only_judgements_of_topics_count_in_pyterriers_order():
    more = pd.concat([QRELS, QRELS.assign(qid="9_9")])
    assert only_topics(TOPICS, more)["qid"].tolist() == ["1_1", "1_2"]
    assert only_topics(TOPICS, "my.qrels") == "my.qrels"
    without = more.drop(columns="qid")
    assert only_topics(TOPICS, without) is without
    assert only_topics(TOPICS.drop(columns="qid"), more) is more
    table = ikat.experiment({"a": finding("a")}, TOPICS, more, ["P@1"])
    assert table.values.tolist() == [["a", 0.5, 2]]
    with pytest.raises(DataError, match=r"1 turn of the qrels not in the topics \(9_9\)"):
        ikat.experiment({"a": finding("a")}, topics=TOPICS, qrels=more)


def test_systems_are_named_by_dict_list_or_themselves():
    one = finding("a")
    two = finding("b")
    frame = pd.DataFrame({"qid": ["1_1"]})
    systems = {"x": one}
    assert named_systems(systems) == systems
    assert named_systems(systems) is not systems
    assert list(named_systems([one, two], ["x", "y"])) == ["x", "y"]
    assert list(named_systems(("raw", frame, one))) == ["raw", "run 2", str(one)]
    assert list(named_systems(one)) == [str(one)]
    for systems, names, told in [
        ({"x": one}, ["y"], "names= is for a list of systems"),
        ([one, two], ["x"], "names= has 1 names for 2 systems"),
        ([one, two], ["x", "y", "z"], "names= has 3 names for 2 systems"),
        ([one, two], ["x", "x"], "two systems are named 'x'"),
        ([one, two, one], ["x", "y", "x"], "two systems are named 'x'"),
        (["raw", "raw"], None, "two systems are named 'raw'"),
    ]:
        with pytest.raises(UsageError, match=told):
            named_systems(systems, names)


def test_the_baseline_may_be_a_number_from_0():
    assert [baseline_of(["a", "b"], baseline) for baseline in (None, "c", 0, 1)] == [
        *(None, "c", "a", "b"),
    ]
    for baseline in (2, -1, True, 0.0):
        with pytest.raises(UsageError, match=f"baseline={baseline}"):
            baseline_of(["a", "b"], baseline)
    table = ikat.experiment([finding("a"), finding("b")], TOPICS, QRELS, ["P@1"], names=["a", "b"])
    assert table["name"].tolist() == ["a", "b"]


def test_measures_have_one_name_or_the_other():
    by_one = ikat.experiment({"a": finding("a")}, TOPICS, QRELS, measures=["P@1"])
    by_other = ikat.experiment({"a": finding("a")}, TOPICS, QRELS, eval_metrics=["P@1"])
    assert by_one.columns.tolist() == by_other.columns.tolist() == ["name", "P(rel=1)@1", "turns"]
    with pytest.raises(UsageError, match="measures and eval_metrics are the same"):
        ikat.experiment(
            {"a": finding("a")}, TOPICS, QRELS, ["P@1"], measures="P@1", eval_metrics="P@1"
        )


def test_without_topics_or_judgements_there_is_nothing_to_do():
    for options in ({"topics": TOPICS}, {"qrels": QRELS}, {}):
        with pytest.raises(UsageError, match="there is nothing to run or evaluate on"):
            ikat.experiment({"a": finding("a")}, **options)
    with pytest.raises(UsageError, match="there is nothing to run on"):
        ikat.run({"a": finding("a")})


def test_a_finished_run_stands_beside_a_system():
    """Of two turns the run finds the passage of one, and has it behind another passage."""
    frame = pd.DataFrame(
        {"qid": ["1_2", "1_2"], "docno": ["b", "x"], "score": [1.0, 2.0], "rank": [1, 0]}
    )
    table = ikat.experiment({"a": finding("a"), "done": frame}, TOPICS, QRELS, ["P@1", "R@2"])
    assert table.values.tolist() == [["a", 0.5, 0.5, 2], ["done", 0.0, 0.5, 2]]


def test_a_system_that_finds_nothing_at_all_is_an_error():
    nothing = pt.apply.generic(lambda turns: turns.assign(docno="", score=1.0, rank=0).head(0))
    with pytest.raises(DataError, match="system a found no passage for any turn"):
        ikat.experiment({"a": nothing}, TOPICS, QRELS, ["P@1"])


def test_a_system_of_another_collection_is_an_error():
    with pytest.raises(DataError, match="system a: none of its 1 passage is judged"):
        ikat.experiment({"a": finding("z")}, TOPICS, QRELS, ["P@1"])
    with pytest.raises(DataError, match="system a: its passages are like 'A:0'"):
        ikat.experiment({"a": finding("A:0")}, TOPICS, QRELS, ["P@1"])


def test_a_run_of_another_collection_is_kept_without_scores(tmp_path):
    with pytest.raises(DataError, match="system a: none of its 1 passage is judged"):
        ikat.run({"a": finding("z")}, topics=TOPICS, qrels=QRELS, out=tmp_path)
    assert (tmp_path / "a" / "run.trec").is_file()
    assert len((tmp_path / "a" / "measures.csv").read_text().splitlines()) == 1
    with pytest.raises(DataError, match="system a: its passages are like 'A:0'"):
        ikat.run({"a": finding("A:0")}, topics=TOPICS, qrels=QRELS, out=tmp_path / "other")


def test_turns_that_nobody_judged_are_told_and_run(tmp_path):
    with pytest.warns(NotJudgedWarning, match="none of the turns is judged"):
        done = ikat.run(
            {"a": finding("a")}, topics=TOPICS, qrels=QRELS.assign(qid="9_9"), out=tmp_path
        )
    assert done.table.values.tolist() == [["a"]]
    assert "a" in repr(done)
    for number in (0, 2.5):
        with pytest.raises(UsageError, match=f"turns_at_once={number}: do at least one turn"):
            ikat.run(
                {"a": finding("a")}, topics=TOPICS, qrels=QRELS, out=tmp_path, turns_at_once=number
            )


def test_several_methods_need_a_list_without_names(tmp_path):
    (tmp_path / "mine.py").write_text(
        "import pyterrier_ikat as ikat\n"
        "@ikat.method('one')\n@ikat.method('two')\n"
        "def both(retriever):\n    return ikat.RawUtterance() >> retriever\n"
    )
    path = str(tmp_path / "mine.py")
    with pytest.raises(UsageError, match=r"system x is several methods \(one, two\)"):
        ikat.plan({"x": path}, TOPICS)
    assert list(named_systems([path])) == ["one", "two"]
