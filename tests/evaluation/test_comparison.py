import numpy as np
import pandas as pd
import pyterrier as pt
import pytest
from ir_measures import AP, Judged, R, nDCG
from test_evaluate import direct, random_runs

import pyterrier_ikat as ikat
from pyterrier_ikat import experiment
from pyterrier_ikat.errors import DataError, UsageError
from pyterrier_ikat.evaluation import breakdown, evaluate, per_turn
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
    first, again = systems["one"], Finds(systems["one"].table)
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


def figures(**values):
    return pd.DataFrame(
        {
            "qid": ["9-1_1", "9-1_2", "9-1_10", "10-1_1"],
            **{name.replace("_", "@"): v for name, v in values.items()},
        }
    )


def test_breakdowns_by_hand():
    runs = {
        "AD": figures(nDCG_5=[1.0, 0.5, 0.0, 0.25]),
        "QR": figures(nDCG_5=[0.0, 0.5, 0.3, 0.75]),
    }
    by_conversation = breakdown(runs, by="conversation")
    assert by_conversation.columns.tolist() == ["conversation", "AD", "QR", "turns"]
    assert by_conversation.values.tolist() == [
        ["9-1", 0.5, pytest.approx(0.8 / 3), 3],
        ["10-1", 0.25, 0.75, 1],
    ]
    by_depth = breakdown(runs, by="depth")
    assert by_depth["depth"].tolist() == [1, 2, 10]
    assert by_depth[["AD", "QR", "turns"]].values.tolist() == [
        [0.625, 0.375, 2],
        [0.5, 0.5, 1],
        [0.0, 0.3, 1],
    ]


def test_the_interval_of_a_mean_is_that_of_students_t():
    """Of 0 and 1 the standard error is a half.

    Of one degree of freedom 95 % lie within 12.706 of them, and one turn has none.
    """
    scores = pd.DataFrame({"qid": ["9-1_1", "9-1_2", "10-1_1"], "nDCG@5": [0.0, 1.0, 0.25]})
    table = breakdown({"AD": scores}, by="conversation", unit="turn")
    assert table.attrs["half_widths"] == {"AD": {"9-1": pytest.approx(12.706 / 2, abs=1e-3)}}
    assert breakdown({"AD": scores}, by="conversation").attrs["half_widths"] == {
        "AD": {}
    }  # a conversation is a single cluster


def test_breakdowns_of_rankings_weigh_up_to_the_mean():
    runs, qrels = random_runs(turns=9)
    table = breakdown(runs, qrels, "nDCG@5", by="depth")
    means = evaluate(runs, qrels, ["nDCG@5"]).set_index("name")["nDCG@5"]
    for name in runs:
        assert (table[name] * table["turns"]).sum() / table["turns"].sum() == pytest.approx(
            means[name]
        )
    counts = evaluate(runs, qrels, ["nDCG@5"], baseline="one").set_index("name")
    base = per_turn(runs["one"], qrels, ["nDCG@5"])["nDCG@5"]
    other = per_turn(runs["two"], qrels, ["nDCG@5"])["nDCG@5"]
    assert counts.loc["two", "nDCG@5 +"] == (other > base).sum()
    assert counts.loc["two", "nDCG@5 -"] == (other < base).sum()


def test_frames_say_the_conversation_of_any_qid():
    scores = figures(nDCG_5=[1.0, 0.5, 0.0, 0.25]).assign(qid=["tea", "milk", "a-3", "b"])
    topics = pd.DataFrame(
        {
            "qid": ["b", "a-3", "milk", "tea"],
            "qconversation": ["x10", "x9", "x9", "x9"],
            "qturn": [1, 12, 2, 1],
        }
    )
    for table in (
        breakdown({"AD": scores}, topics=topics),
        breakdown({"AD": scores.merge(topics)}),
        breakdown({"AD": scores, "QR": scores.merge(topics)}),
    ):
        assert table[["conversation", "AD", "turns"]].values.tolist() == [
            ["x9", 0.5, 3],
            ["x10", 0.25, 1],
        ]
    assert breakdown({"AD": scores}, by="depth", topics=topics)[
        ["depth", "AD"]
    ].values.tolist() == [[1, 0.625], [2, 0.5], [12, 0.0]]
    with pytest.raises(
        DataError,
        match=(
            "nothing says the conversation of turn 'tea', .*: give topics=..., a frame with qid "
            "and qconversation"
        ),
    ):
        breakdown({"AD": scores}, topics=topics[:2])


GOOD = figures(nDCG_5=[1.0, 0.5, 0.0, 0.25])


@pytest.mark.parametrize(
    ("runs", "options", "error", "word"),
    [
        ({"a": GOOD}, {"by": "topic"}, UsageError, "by='topic' is unknown"),
        (
            {"a": GOOD.assign(qid=GOOD["qid"].str.replace("_", "-"))},
            {},
            DataError,
            "turn '9-1-1', which is not <conversation>_<turn>",
        ),
        (
            {"a": GOOD, "b": GOOD[:2]},
            {},
            DataError,
            "b and a have scores of different turns .9-1_10, 10-1_1.",
        ),
        ({"turns": GOOD}, {"by": "depth"}, UsageError, "a run is named 'turns'"),
        ({"depth": GOOD}, {"by": "depth"}, UsageError, "a run is named 'depth'"),
        ({"a": random_runs()[0]["one"]}, {}, UsageError, "there are no judgements: give qrels"),
        ({"a": GOOD}, {"measure": "R@20"}, DataError, "a has no scores R.rel=1.@20 by qid"),
    ],
)
def test_breakdowns_that_make_no_sense(runs, options, error, word):
    with pytest.raises(error, match=word):
        breakdown(runs, **options)


def test_no_turn_is_left_out_of_a_breakdown():
    scores = figures(nDCG_5=[1.0, 0.5, 0.0, 0.25])
    topics = scores[["qid"]].assign(qcategory=["fact", None, "fact", "opinion"])
    with pytest.raises(DataError, match="nothing says the category of turn 9-1_2"):
        breakdown({"AD": scores}, by="category", topics=topics)
    with pytest.raises(DataError, match="AD has no score nDCG@5 for turn 9-1_2"):
        breakdown({"AD": scores.assign(**{"nDCG@5": [1.0, None, 0.0, 0.25]})})
