"""Experiments: pipelines and finished runs in one table, also by arguments of PyTerrier."""

import inspect

import numpy as np
import pandas as pd
import pyterrier as pt
import pytest
from ir_measures import AP, Judged, P, R, nDCG
from small_frames import direct, random_runs

import pyterrier_ikat as ikat
from pyterrier_ikat import experiment
from pyterrier_ikat.errors import DataError, UsageError
from pyterrier_ikat.evaluation import evaluate
from pyterrier_ikat.generate import ExplodeQueries
from pyterrier_ikat.operator import Operator


class Finds(Operator):
    """A retriever that looks its result up, and counts how often it runs."""

    calls = 0

    def __init__(self, table):
        super().__init__()
        self.table = table

    def transform(self, inp):
        pt.validate.query_frame(inp, context=self)
        Finds.calls += len(inp) > 0
        return inp[["qid", "query"]].merge(self.table.frame, on="qid")


class Table:
    def __init__(self, frame):
        self.frame = frame


@pytest.fixture
def setting():
    runs, qrels = random_runs(turns=8)
    topics = pd.DataFrame({"qid": [*qrels["qid"].drop_duplicates(), "9-1_99"], "query": "q"})
    Finds.calls = 0
    return {name: Finds(Table(run)) for name, run in runs.items()}, runs, topics, qrels


def test_pipelines_and_finished_runs_give_trec_evals_figures(setting):
    systems, runs, topics, qrels = setting
    measures = [nDCG @ 5, "P@20", R(rel=1) @ 20, AP(rel=1)]
    table = experiment(
        systems | {"file": runs["two"]}, measures=measures, topics=topics, qrels=qrels
    )
    assert table.columns.tolist() == [
        "name",
        "nDCG@5",
        "P(rel=1)@20",
        "R(rel=1)@20",
        "AP(rel=1)",
        "turns",
    ]
    assert table["turns"].tolist() == [8] * 4
    figures = table.set_index("name")
    names = {
        "nDCG@5": "ndcg_cut_5",
        "P(rel=1)@20": "P_20",
        "R(rel=1)@20": "recall_20",
        "AP(rel=1)": "map",
    }
    for name, run in (runs | {"file": runs["two"]}).items():
        expected = direct(run, qrels, list(names.values()))
        for ours, theirs in names.items():
            assert figures.loc[name, ours] == pytest.approx(np.mean(expected[theirs]), abs=1e-12)
            assert f"{figures.loc[name, ours]:.4f}" == f"{np.mean(expected[theirs]):.4f}"


def test_a_repeated_pipeline_is_reported_twice(setting):
    systems, runs, topics, qrels = setting
    first = systems["one"]
    again = Finds(systems["one"].table)
    table = experiment(
        {"a": first, "b": again, "c": again % 5, "d": first % 5},
        measures=["R@20"],
        topics=topics,
        qrels=qrels,
    )
    figures = table["R(rel=1)@20"].tolist()
    assert figures[0] == figures[1] > figures[2] == figures[3]


def test_a_stage_changing_its_input_leaves_neighbours_unchanged(setting):
    systems, runs, topics, qrels = setting

    def spoil(found):
        found["docno"] = "x" + found["docno"].astype(object)
        return pd.concat(
            [found, found.tail(1).assign(docno=qrels["docno"][0], score=-9.0, rank=1000)]
        )

    found = systems["one"]
    table = experiment(
        {"spoilt": found >> pt.apply.generic(spoil), "as is": found % 1000},
        measures=["R@20"],
        topics=topics,
        qrels=qrels,
    )
    assert table["R(rel=1)@20"].tolist() == [
        0.0,
        evaluate({"one": runs["one"]}, qrels, ["R@20"])["R(rel=1)@20"][0],
    ]


def test_turns_without_judgements_are_not_run(setting):
    systems, runs, topics, qrels = setting
    seen = []

    def note(turns):
        seen.extend(turns["qid"])
        return turns

    experiment(
        {"a": pt.apply.generic(note) >> systems["one"]},
        measures=["R@20"],
        topics=topics,
        qrels=qrels,
    )
    assert sorted(seen) == sorted(qrels["qid"].unique())


def test_a_dataset_by_name_brings_topics_and_qrels():
    find = pt.apply.generic(
        lambda turns: turns[["qid", "query"]].assign(docno="sample-walk-001:0", score=1.0, rank=0)
    )
    table = experiment({"same": find}, "ikat:sample", ["nDCG@5"])
    qrels = pt.get_dataset("ikat:sample").get_qrels()
    run = pd.DataFrame(
        {"qid": qrels["qid"].unique(), "docno": "sample-walk-001:0", "score": 1.0, "rank": 0}
    )
    assert (
        table["nDCG@5"][0]
        == pytest.approx(evaluate({"x": run}, qrels, ["nDCG@5"])["nDCG@5"][0])
        != 0
    )
    assert table["turns"][0] == qrels["qid"].nunique()


def test_mistakes_are_found_before_anything_runs(setting):
    systems, runs, topics, qrels = setting
    one = systems["one"]
    wrong = [
        (
            lambda: experiment([one, one], topics=topics, qrels=qrels),
            UsageError,
            "two systems are named",
        ),
        (
            lambda: experiment([one], topics, qrels, names=["a", "b"]),
            UsageError,
            "2 names for 1 systems",
        ),
        (
            lambda: experiment({"a": one}, topics, qrels, names=["a"]),
            UsageError,
            "have names already",
        ),
        (lambda: experiment([one], topics, qrels, baseline=1), UsageError, "numbers 0 to 0"),
        (
            lambda: experiment([one], topics, qrels, ["P@5"], 0),
            UsageError,
            "4 arguments behind the systems",
        ),
        (lambda: experiment([one], topics, qrels, qrels=qrels), UsageError, "qrels is given twice"),
        (lambda: experiment({" ": one}, topics=topics, qrels=qrels), UsageError, "named ' '"),
        (lambda: experiment({}, topics=topics, qrels=qrels), UsageError, "no system"),
        (
            lambda: experiment(systems, topics=topics, qrels=qrels, baseline="four"),
            UsageError,
            "not one of the systems: one, two",
        ),
        (
            lambda: experiment(systems, topics=topics, qrels=qrels, measures=["nDGC@5"]),
            UsageError,
            "'nDGC@5' is unknown",
        ),
        (
            lambda: experiment(systems, topics=topics, qrels=qrels, measures=[]),
            UsageError,
            "no measure",
        ),
        (lambda: experiment(systems, topics=topics), UsageError, "nothing to run or evaluate on"),
        (
            lambda: experiment({"a": pt.Transformer.identity()}, topics=topics, qrels=qrels),
            UsageError,
            "makes no ranking",
        ),
        (
            lambda: experiment({"a": one, "b": ikat.MonoT5()}, topics=topics, qrels=qrels),
            UsageError,
            "system b does not work .*docno",
        ),
        (
            lambda: experiment({"a": one, "b": "bm25"}, topics=topics, qrels=qrels),
            UsageError,
            "there is no method 'bm25'",
        ),
        (
            lambda: experiment(systems, topics=topics[2:], qrels=qrels),
            DataError,
            "2 turns of the qrels not in the topics",
        ),
        (
            lambda: experiment(systems, topics=pd.concat([topics, topics]), qrels=qrels),
            DataError,
            "turn 9-1_0 has several rows",
        ),
        (
            lambda: experiment(systems, topics=topics.assign(qid=range(len(topics))), qrels=qrels),
            DataError,
            "the qid 0 is not a text",
        ),
        (
            lambda: experiment(systems, topics=topics, qrels=pd.concat([qrels, qrels])),
            DataError,
            "judge turn 9-1_0, .* twice",
        ),
    ]
    for call, error, word in wrong:
        with pytest.raises(error, match=word):
            call()
    assert Finds.calls == 0


def test_a_finished_run_of_other_turns_is_refused_before_running(setting):
    systems, runs, topics, qrels = setting
    hyphens = runs["one"].assign(qid=runs["one"]["qid"].str.replace("_", "-"))
    for run, message in (
        (hyphens, "system old: its turns are like 9-1-0"),
        (hyphens.assign(qid="7_1"), "system old has no turn"),
    ):
        with pytest.raises(DataError, match=message):
            experiment(systems | {"old": run}, topics=topics, qrels=qrels)
    with pytest.raises(DataError, match="the topics frame: its turns are like 9-1-0"):
        experiment(
            systems, topics=topics.assign(qid=topics["qid"].str.replace("_", "-")), qrels=qrels
        )
    assert Finds.calls == 0


def test_rankings_that_are_not_clean_name_their_system(setting):
    systems, runs, topics, qrels = setting
    twice = pd.concat([runs["one"], runs["one"]])
    with pytest.raises(DataError, match="run b: turn 9-1_0 has passage .* twice"):
        experiment({"a": systems["one"], "b": Finds(Table(twice))}, topics=topics, qrels=qrels)
    with pytest.raises(DataError, match="system b found no passage for any turn"):
        experiment({"b": Finds(Table(runs["one"][:0]))}, topics=topics, qrels=qrels)


def test_a_system_that_ends_in_sub_queries_is_refused(setting):
    systems, runs, topics, qrels = setting
    topics = topics.assign(qsubqueries=[["a", "b"]] * len(topics))
    finding = pt.apply.generic(lambda rows: rows.assign(docno="d1", score=1.0, rank=0))
    dropping = pt.apply.generic(
        lambda rows: rows[["qid", "query"]].assign(docno="d1", score=1.0, rank=0)
    )
    with pytest.raises(
        UsageError, match="system b ends in sub-queries, .*: end it with ikat.Interleave"
    ):
        experiment(
            {"a": systems["one"], "b": ExplodeQueries() >> finding}, topics=topics, qrels=qrels
        )
    assert Finds.calls == 0
    with pytest.raises(DataError, match="system b has no turn of the qrels: .*9-1_0::0"):
        experiment({"b": ExplodeQueries() >> dropping}, topics=topics, qrels=qrels)


def test_judged_at_k_is_the_judged_share_over_all_turns():
    qrels = pd.DataFrame(
        {"qid": ["1_1", "1_1", "1_2"], "docno": ["a", "b", "c"], "label": [0, 3, 1]}
    )
    run = pd.DataFrame(
        {"qid": "1_1", "docno": ["a", "x", "b", "y"], "score": [4.0, 3, 2, 1], "rank": range(4)}
    )
    assert evaluate({"r": run}, qrels, [Judged @ 2, "Judged@4"])[
        ["Judged@2", "Judged@4"]
    ].values.tolist() == [[0.25, 0.25]]


# The arguments of pt.Experiment

MEASURES = [nDCG @ 5, P @ 3, R(rel=2) @ 10]
NUMBERS = [str(measure) for measure in MEASURES]


@pytest.fixture(scope="module")
def data():
    return pt.get_dataset("ikat:sample")


@pytest.fixture(scope="module")
def systems(tmp_path_factory, data):
    index = ikat.PassageIndex(tmp_path_factory.mktemp("index") / "i").index(
        data.get_corpus_iter(verbose=False)
    )
    return [
        ikat.RawUtterance() >> index.bm25(num_results=20),
        ikat.AllUtterances() >> index.bm25(num_results=20),
    ]


def theirs(*arguments, **options):
    return pt.Experiment(*arguments, **options)


def means(table):
    """The means in the order of the measures; our table says the level of ``P @ 3``."""
    renamed = table.rename(columns={"P(rel=1)@3": "P@3"})
    return renamed[NUMBERS].to_numpy(dtype=float)


def test_topics_qrels_and_measures_in_their_places(data, systems):
    topics = data.get_topics()
    qrels = data.get_qrels()
    expected = theirs(systems, topics, qrels, MEASURES)
    found = ikat.experiment(systems, topics, qrels, MEASURES)
    assert found["name"].tolist() == expected["name"].tolist() == [str(one) for one in systems]
    assert means(found) == pytest.approx(means(expected), abs=1e-9)
    assert means(ikat.experiment(systems, "ikat:sample", MEASURES)) == pytest.approx(
        means(expected), abs=1e-9
    )
    assert means(ikat.experiment(systems, data, qrels, MEASURES)) == pytest.approx(
        means(expected), abs=1e-9
    )


def test_names_and_a_baseline_by_its_number(data, systems):
    topics = data.get_topics()
    qrels = data.get_qrels()
    expected = theirs(systems, topics, qrels, MEASURES, names=["raw", "all"], baseline=0)
    found = ikat.experiment(systems, topics, qrels, MEASURES, names=["raw", "all"], baseline=0)
    assert found["name"].tolist() == ["raw", "all"]
    assert means(found) == pytest.approx(means(expected), abs=1e-9)
    for better in ("nDCG@5 +", "nDCG@5 -"):
        assert found[better].tolist()[1] == expected[better].tolist()[1]
    named = ikat.experiment(
        dict(zip(["raw", "all"], systems, strict=True)), topics, qrels, MEASURES, baseline="raw"
    )
    pd.testing.assert_frame_equal(pd.DataFrame(named), pd.DataFrame(found))
    assert means(ikat.experiment(systems, "ikat:sample", MEASURES, 1)) == pytest.approx(
        means(expected), abs=1e-9
    )


def test_judgements_of_other_topics_do_not_count(data, systems):
    topics = data.get_topics().iloc[3:9]
    qrels = data.get_qrels()
    expected = theirs(systems, topics, qrels, MEASURES)
    found = ikat.experiment(systems, topics, qrels, MEASURES)
    assert means(found) == pytest.approx(means(expected), abs=1e-9)
    assert found["turns"].tolist() == [6, 6]


def test_a_single_system_and_finished_runs_in_a_list(data, systems):
    topics = data.get_topics()
    qrels = data.get_qrels()
    run = systems[0](topics)
    alone = ikat.experiment(systems[0], topics, qrels, MEASURES)
    both = ikat.experiment([systems[1], run], topics, qrels, MEASURES)
    assert both["name"].tolist() == [str(systems[1]), "run 2"]
    assert means(both)[1] == pytest.approx(means(alone)[0], abs=1e-9)
    assert ikat.experiment([systems[1], run], topics, qrels, MEASURES, names=["a", "b"])[
        "name"
    ].tolist() == ["a", "b"]


def test_methods_and_pipelines_stand_in_one_list(data, systems):
    index = systems[0][-1].index
    found = ikat.experiment(
        ["raw", systems[1]], data.get_topics(), data.get_qrels(), MEASURES, index=index
    )
    assert found["name"].tolist() == ["raw", str(systems[1])]


def test_a_file_of_judgements_may_stand_in_its_place(data, systems, tmp_path):
    ikat.conversations.write_qrels(data.get_qrels(), tmp_path / "qrels")
    found = ikat.experiment(systems, data.get_topics(), str(tmp_path / "qrels"), MEASURES)
    assert means(found) == pytest.approx(means(ikat.experiment(systems, data, MEASURES)), abs=1e-9)


def test_measures_may_have_pyterriers_name(data, systems):
    topics = data.get_topics()
    qrels = data.get_qrels()
    found = ikat.experiment(systems, topics, qrels, eval_metrics=MEASURES)
    assert means(found) == pytest.approx(
        means(theirs(systems, topics, qrels, eval_metrics=MEASURES)), abs=1e-9
    )
    with pytest.raises(ikat.UsageError, match="are the same"):
        ikat.experiment(systems, topics, qrels, measures=MEASURES, eval_metrics=MEASURES)


def test_ids_that_are_the_index_are_told_to_be_columns(data, systems):
    topics = data.get_topics()
    qrels = data.get_qrels()
    with pytest.raises(ikat.DataError, match=r"give topics.reset_index\(\)"):
        ikat.experiment(systems, topics.set_index("qid"), qrels)
    run = systems[0](topics)
    without_qid = {"a": run.set_index("qid")}
    for call in (ikat.evaluate, ikat.breakdown, ikat.evaluation.differing_pairs):
        with pytest.raises(
            ikat.UsageError,
            match=r"qid is the index of run a, not a column: give it with reset_index\(\)",
        ):
            call(without_qid, qrels)
    with pytest.raises(
        ikat.UsageError,
        match=r"qid is the index of run a, not a column: give it with reset_index\(\)",
    ):
        ikat.experiment(without_qid, topics, qrels)


def test_an_option_of_pyterrier_alone_is_refused(data, systems):
    ours = inspect.signature(ikat.experiment).parameters
    for name, parameter in inspect.signature(pt.Experiment).parameters.items():
        if name in ("retr_systems", *ours) or parameter.kind is inspect.Parameter.VAR_KEYWORD:
            continue
        with pytest.raises(ikat.UsageError, match=f"there is no option {name!r}: "):
            ikat.experiment(systems, data.get_topics(), data.get_qrels(), MEASURES, **{name: True})


@pytest.mark.parametrize("baseline", [True, 1.0, ["raw"]])
def test_a_baseline_neither_name_nor_number_is_refused(baseline, data, systems):
    with pytest.raises(
        ikat.UsageError, match="give the name of a system, or its number from 0 to 1"
    ):
        ikat.experiment(systems, data.get_topics(), data.get_qrels(), MEASURES, baseline=baseline)
