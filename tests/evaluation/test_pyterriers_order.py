"""`ikat.experiment` with the arguments of `pt.Experiment`: the same numbers."""

import inspect

import pandas as pd
import pyterrier as pt
import pytest
from ir_measures import P, R, nDCG

import pyterrier_ikat as ikat

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
    topics, qrels = data.get_topics(), data.get_qrels()
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
    topics, qrels = data.get_topics(), data.get_qrels()
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
    topics, qrels = data.get_topics().iloc[3:9], data.get_qrels()
    expected = theirs(systems, topics, qrels, MEASURES)
    found = ikat.experiment(systems, topics, qrels, MEASURES)
    assert means(found) == pytest.approx(means(expected), abs=1e-9)
    assert found["turns"].tolist() == [6, 6]


def test_a_single_system_and_finished_runs_in_a_list(data, systems):
    topics, qrels = data.get_topics(), data.get_qrels()
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
    topics, qrels = data.get_topics(), data.get_qrels()
    found = ikat.experiment(systems, topics, qrels, eval_metrics=MEASURES)
    assert means(found) == pytest.approx(
        means(theirs(systems, topics, qrels, eval_metrics=MEASURES)), abs=1e-9
    )
    with pytest.raises(ikat.UsageError, match="are the same"):
        ikat.experiment(systems, topics, qrels, measures=MEASURES, eval_metrics=MEASURES)


def test_ids_that_are_the_index_are_told_to_be_columns(data, systems):
    topics, qrels = data.get_topics(), data.get_qrels()
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
