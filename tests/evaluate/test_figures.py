"""Figures in one pass equal those of ir_measures on frames; runs that would be misread are refused."""

import ir_measures
import numpy as np
import pandas as pd
import pyterrier as pt
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from ir_measures import AP, RR, Bpref, Judged, NumRet, P, R, Rprec, SetP, Success, nDCG
from test_evaluate import random_runs

from pyterrier_ikat.errors import DataError, UsageError
from pyterrier_ikat.evaluate import TRACK_2023, breakdown, evaluate, label, per_turn, pool, win_tie_loss
from pyterrier_ikat.evaluate.breakdown import figures_by_run
from pyterrier_ikat.evaluate.figures import Scorer
from pyterrier_ikat.evaluate.same_turns import check_form

MEASURES = [*TRACK_2023, P(rel=2) @ 5, R(rel=2) @ 5, AP(rel=2) @ 10, RR, Rprec, Bpref, Success @ 3, SetP(rel=3), NumRet, Judged @ 10]
MEASURES += [nDCG(gains={1: 0, 4: 10}) @ 5, P(judged_only=True) @ 5]


def defined(run, qrels):
    """qid -> measure -> figure, by ir_measures on PyTerrier's frames, rank giving the score."""
    strings = run.assign(score=-run["rank"].astype(float)).astype({"qid": "str", "docno": "str"})
    found = ir_measures.iter_calc(MEASURES, pt.model.to_ir_measures(qrels), pt.model.to_ir_measures(strings))
    return {(one.query_id, label(one.measure)): one.value for one in found}


@settings(max_examples=15, deadline=None)
@given(st.integers(0, 10**6), st.integers(1, 6))
def test_figures_equal_ir_measures_on_frames(seed, turns):
    runs, qrels = random_runs(seed, turns, ("one",))
    expected = defined(runs["one"], qrels)
    found = Scorer(qrels, MEASURES).per_turn(Scorer(qrels, MEASURES).ranking("one", runs["one"]))
    assert found.index.tolist() == qrels["qid"].drop_duplicates().tolist()
    for qid in found.index:
        for measure in map(label, MEASURES):
            assert found.loc[qid, measure] == pytest.approx(expected[qid, measure], abs=1e-9)


def test_one_scorer_serves_many_runs_of_any_string_column():
    runs, qrels = random_runs(turns=6)
    scorer = Scorer(qrels, [nDCG @ 5])
    for name, run in runs.items():
        for frame in (run.astype({"qid": object, "docno": object}), run.astype({"qid": "str", "docno": "str"}), run.sample(frac=1)):
            found = scorer.per_turn(scorer.ranking(name, frame))
            assert found["nDCG@5"].tolist() == per_turn(run, qrels, [nDCG @ 5])["nDCG@5"].tolist()


def test_counts_are_added_up_not_averaged():
    runs, qrels = random_runs(turns=4)
    assert evaluate({"one": runs["one"]}, qrels, [NumRet])["NumRet"].tolist() == [4 * 30]


def test_a_run_of_unjudged_turns_too_is_evaluated_on_the_judged_ones():
    runs, qrels = random_runs(turns=6)
    fewer = qrels[qrels["qid"].isin(["9-1_0", "9-1_3"])]
    table = evaluate(runs, fewer, [nDCG @ 5])
    assert table["turns"].tolist() == [2] * 3
    whole = per_turn(runs["one"], qrels, [nDCG @ 5]).set_index("qid")["nDCG@5"]
    assert table["nDCG@5"][0] == pytest.approx(np.mean([whole["9-1_0"], whole["9-1_3"]]))


@pytest.mark.parametrize(
    ("change", "error", "message"),
    [
        (lambda run: run.drop(columns="rank"), UsageError, r"run x has no rank .it has qid, docno, score.*pt.model.add_ranks"),
        (lambda run: run.assign(docno=range(len(run))), DataError, "run x: the docno 0 is no text"),
        (lambda run: run.assign(qid=run["qid"].astype(object).where(run["rank"] > 0)), DataError, "run x: the qid nan is no text"),
        (lambda run: run.assign(score=np.nan), DataError, "run x: turn 9-1_0, passage .* the score is nan"),
        (lambda run: run.assign(score=np.inf), DataError, "run x: turn 9-1_0, passage .* the score is inf"),
        (lambda run: pd.concat([run, run]), DataError, "run x: turn 9-1_0 has passage .* twice"),
        (lambda run: run.assign(score=run["rank"]), DataError, "run x: turn 9-1_0, passage .* the score rises"),
        (
            lambda run: run.assign(qid=run["qid"].str.replace("9-1_2", "9-1-2")),
            DataError,
            r"run x: its turns are like 9-1-2, the wanted ones like 9-1_2; convert them: frame\[",
        ),
        (lambda run: run.assign(qid="7_1", docno=[f"d{n}" for n in range(len(run))]), DataError, "run x has no turn of the qrels.*7_1"),
    ],
)
def test_runs_that_would_be_misread(change, error, message):
    runs, qrels = random_runs(turns=4)
    with pytest.raises(error, match=message):
        evaluate({"good": runs["one"], "x": change(runs["one"])}, qrels)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda qrels: pd.concat([qrels, qrels]), "the qrels judge turn 9-1_0, passage .* twice"),
        (lambda qrels: qrels.assign(label=np.nan), "the label is nan"),
        (lambda qrels: qrels.drop(columns="label"), "the qrels have no column label"),
        (lambda qrels: qrels.assign(qid=7), r'the qrels: the qid 7 is no text: .* convert by frame\["qid"\].astype\(str\)'),
        (lambda qrels: qrels.assign(docno=range(len(qrels))), "the qrels: the docno 0 is no text"),
        (lambda qrels: qrels.assign(docno=qrels["docno"].where(qrels.index > 0)), "the qrels: the docno nan is no text"),
    ],
)
def test_qrels_that_would_be_misread(change, message):
    runs, qrels = random_runs(turns=4)
    for call in (evaluate, lambda runs, qrels: per_turn(runs["one"], qrels)):
        with pytest.raises(DataError, match=message):
            call(runs, change(qrels))


def test_categories_are_texts():
    runs, qrels = random_runs(turns=4)
    ids = {"qid": "category", "docno": "category"}
    categories = {name: run.astype(ids) for name, run in runs.items()}
    pd.testing.assert_frame_equal(evaluate(categories, qrels.astype(ids)), evaluate(runs, qrels))
    pd.testing.assert_frame_equal(breakdown(categories, qrels.astype(ids)), breakdown(runs, qrels))
    assert pool(categories, 3).equals(pool(runs, 3))
    figures = {name: per_turn(run, qrels) for name, run in runs.items()}
    named = {name: table.astype({"qid": "category"}) for name, table in figures.items()}
    pd.testing.assert_frame_equal(breakdown(named, by="depth"), breakdown(figures, by="depth"))
    with pytest.raises(DataError, match=r"x: the qid 0 is no text: .* convert by frame\["):
        breakdown({"x": figures["one"].assign(qid=range(4))})
    with pytest.raises(DataError, match="run x: the docno 0 is no text"):
        evaluate({"x": runs["one"].assign(docno=pd.Categorical(range(len(runs["one"]))))}, qrels)


@pytest.mark.parametrize(
    "call",
    [
        evaluate,
        breakdown,
        lambda runs, qrels: win_tie_loss(runs, qrels, "AP", "one"),
        lambda runs, qrels: figures_by_run(runs, qrels, "AP"),
    ],
)
@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda runs: runs["one"], r'the runs are a DataFrame: give each frame its name, {"name": frame, ...}'),
        (lambda runs: list(runs.values()), "the runs are a list: give each frame its name"),
        (lambda runs: runs | {"two": "two.trec"}, r"run two is a str: give a frame, such as read_run\(path\)"),
        (lambda runs: {}, "there is no run: give at least one"),
    ],
)
def test_runs_are_frames_by_name(call, change, message):
    runs, qrels = random_runs(turns=4)
    with pytest.raises(UsageError, match=message):
        call(change(runs), qrels)


@pytest.mark.parametrize(("given", "shown"), [("ikat:sample", "'ikat:sample'"), (None, "a NoneType")])
def test_qrels_are_a_frame(given, shown):
    runs, _ = random_runs(turns=4)
    for call in (evaluate, lambda runs, qrels: per_turn(runs["one"], qrels)):
        with pytest.raises(UsageError, match=f"the qrels are {shown}: give a frame, such as pt.get_dataset"):
            call(runs, given)


def test_a_file_is_no_run_to_evaluate():
    with pytest.raises(UsageError, match="run to evaluate is a str: give a frame"):
        per_turn("one.trec", random_runs(turns=4)[1])


def test_qrels_with_hyphens_are_to_be_converted():
    runs, qrels = random_runs(turns=4)
    with pytest.raises(DataError, match=r"wanted ones like 9-1-0; convert the wanted ones: frame\["):
        evaluate(runs, qrels.assign(qid=qrels["qid"].str.replace("_", "-")))


def test_labels_written_as_text_count_as_numbers():
    runs, qrels = random_runs(turns=4)
    pd.testing.assert_frame_equal(evaluate(runs, qrels), evaluate(runs, qrels.assign(label=qrels["label"].astype(str))))


def test_hyphens_are_refused_only_where_they_hide_a_wanted_turn():
    check_form("run x", ["9-1_3", "9-1-4", "0_8"], ["9-1_3"])
    with pytest.raises(DataError, match="its turns are like 0-8, the wanted ones like 0_8; convert them"):
        check_form("run x", ["9-1_3", "0-8"], ["9-1_3", "0_8"])
