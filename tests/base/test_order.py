"""Every ranking that we make keeps its order in every evaluator."""

import ir_measures
import numpy as np
import pandas as pd
import pyterrier as pt
import pytest
import pytrec_eval
from hypothesis import example, given
from hypothesis import strategies as st
from ir_measures import P, nDCG

import pyterrier_ikat as ikat
from pyterrier_ikat.order import (
    in_trec_eval_order,
    min_max,
    order_by_score,
    set_ranks,
    strictly_decreasing,
)

CLOSE = [
    0.0,
    -0.0,
    1e-45,
    -1e-40,
    0.1,
    0.1 + 1e-12,
    0.1 - 1e-9,
    1.0,
    1 + 2**-24,
    1 + 2**-23,
    16777216.0,
    16777217.0,
    -3.4e38,
    3.4e38,
]
scores = st.one_of(st.sampled_from(CLOSE), st.floats(-1e38, 1e38))
found = st.lists(st.tuples(st.sampled_from("tu"), scores), max_size=16)
DOCNOS = ["d9", "d10", "d1", "D1", "é", "\U0001f600", "￿", "z", "", "d"]
"""Two of them stand in another order by UTF-16, and two by number."""


def frame_of(rows, docnos):
    """Each turn's passages by turn: ``qid``, ``docno``, the number of the turn, and the score."""
    rows = sorted(rows, key=lambda row: row[0])
    frame = pd.DataFrame(
        {"qid": [qid for qid, _ in rows], "docno": docnos[: len(rows)]}, dtype=object
    )
    return (
        frame,
        pd.factorize(frame["qid"])[0],
        np.array([score for _, score in rows], dtype=np.float64),
    )


def by_trec_eval(frame):
    """Each turn's docnos as trec_eval's own code orders them.

    The place at which each would be the first relevant one.
    """
    run = {
        qid: dict(zip(rows["docno"], rows["score"], strict=True))
        for qid, rows in frame.groupby("qid", sort=False)
    }
    places = {}
    for qid, of_turn in run.items():
        for docno in of_turn:
            judge = pytrec_eval.RelevanceEvaluator({qid: {docno: 1}}, {"recip_rank"})
            places[qid, docno] = round(1 / judge.evaluate({qid: of_turn})[qid]["recip_rank"])
    return {
        qid: sorted(of_turn, key=lambda docno, qid=qid: places[qid, docno])
        for qid, of_turn in run.items()
    }


def orders(frame):
    return {qid: rows["docno"].tolist() for qid, rows in frame.groupby("qid", sort=False)}


docnos = st.permutations([*DOCNOS, *(f"d{number}" for number in range(20, 30))])


@pytest.mark.slow
@given(found, docnos)
@example([("t", 0.5)] * 3, ["d1", "d10", "d9"])
def test_rows_in_any_order_keep_it_in_trec_eval(rows, docnos):
    frame, turn, score = frame_of(rows, docnos)
    order = np.lexsort((-score, turn))  # ties stay as they came
    strict = set_ranks(frame.take(order).reset_index(drop=True), turn[order], score[order])
    for _, of_turn in strict.groupby("qid"):
        scores = of_turn["score"].to_numpy(np.float32)
        assert (scores[1:] < scores[:-1]).all()
    assert by_trec_eval(strict) == orders(strict)


@given(found, docnos)
def test_rows_by_score_keep_trec_evals_order_and_true_ties(rows, docnos):
    frame, turn, score = frame_of(rows, docnos)
    order = order_by_score(frame, turn, score)
    out = set_ranks(
        frame.take(order).reset_index(drop=True), turn[order], score[order], by_docno=True
    )
    pairs = zip(turn[order].tolist(), (-score[order]).tolist(), strict=True)
    assert list(pairs) == sorted(zip(turn.tolist(), (-score).tolist(), strict=True))
    assert by_trec_eval(out) == orders(out)
    same = {value for value in score if np.float32(value) == value}
    if same == set(score) and not any(0 < abs(value) < 1e-37 for value in score):
        assert (
            out["score"].tolist() == score[order].tolist()
        )  # nothing differs in 64 bits alone, so nothing is lowered


def test_a_score_is_lowered_by_the_least_step_not_taken_for_zero():
    frame, turn, score = frame_of([("t", 0.0)] * 3 + [("u", 1.0)] * 2, ["a", "b", "c", "a", "b"])
    least = float(np.finfo(np.float32).smallest_normal)
    out = set_ranks(frame, turn, score)["score"].tolist()
    assert out == [
        0.0,
        -least,
        float(np.nextafter(np.float32(-least), np.float32(-1))),
        1.0,
        float(np.nextafter(np.float32(1), np.float32(0))),
    ]


def test_numeric_docnos_are_compared_as_text_like_an_evaluator():
    frame = pd.DataFrame({"qid": ["t"] * 3, "docno": [9, 10, 100]})
    order = order_by_score(frame, np.zeros(3, dtype=np.int64), np.ones(3))
    assert frame["docno"].iloc[order].tolist() == [9, 100, 10]


def test_what_no_32_bit_float_can_part_is_refused():
    frame, turn, score = frame_of([("t", -3.4028234663852886e38)] * 2, ["a", "b"])
    with pytest.raises(
        ikat.DataError, match="turn t: several passages have the lowest 32-bit score"
    ):
        set_ranks(frame, turn, score)


class Scored(pt.Transformer):
    """A re-ranker that gives these scores by docno."""

    def __init__(self, scores):
        self.scores = scores

    def transform(self, inp):
        return inp.assign(score=[self.scores[docno] for docno in inp["docno"]])


near = st.dictionaries(
    st.sampled_from("abcdefgh"),
    st.sampled_from([0.3, 0.1 + 0.2, 0.3 + 1e-9, 0.0, -0.0, 1e-50, 1.0]),
    min_size=1,
)


@pytest.mark.slow
@given(near, near, st.integers(1, 5))
def test_scores_that_only_64_bits_tell_apart_keep_their_order(first, second, cut):
    both = {docno: first.get(docno, 0.3) for docno in {**first, **second}}
    rows = [
        {"qid": "t", "query": "tea", "docno": docno, "rank": rank, "text": docno, "qanswer": "a"}
        for rank, docno in enumerate(both)
    ]
    frame = pd.DataFrame(rows, dtype=object).assign(rank=range(len(rows)), score=0.0)
    operators = [
        ikat.RerankAgainst(Scored(both), "qanswer"),
        ikat.MeanScore([Scored(both), Scored(both)]),
        ikat.Ensemble([Scored(both), Scored({docno: second.get(docno, 0.3) for docno in both})]),
    ]
    for operator in operators:
        for out in (operator(frame), (operator % cut)(frame)):
            assert by_trec_eval(out) == orders(out), operator
            assert out["rank"].tolist() == list(range(len(out)))


@pytest.mark.filterwarnings("ignore::pyterrier_ikat.evaluation.evaluator.RelevanceWarning")
def test_pt_experiment_and_ikat_experiment_agree_on_real_turns(ikat_data, tmp_path):
    data = ikat.dataset("ikat:2023-mini")
    bm25 = ikat.PassageIndex(tmp_path / "index").index(data.get_corpus_iter(verbose=False)).bm25()
    halves = pt.apply.generic(
        lambda turns: turns.assign(
            qsubqueries=[[query, query.split(maxsplit=3)[-1]] for query in turns["query"]]
        )
    )
    expanded = halves >> ikat.ExplodeQueries() >> bm25
    systems = {
        "raw": bm25,
        "rrf": expanded >> ikat.RRF(),
        "interleaved": expanded >> ikat.Interleave(),
    }
    measures = [P(rel=2) @ 1, nDCG @ 3, nDCG @ 5]
    topics = data.get_topics().head(60)
    qrels = data.get_qrels().query("qid in @topics.qid")
    theirs = pt.Experiment(systems, topics, qrels, measures).set_index("name")
    ours = ikat.experiment(systems, topics=topics, qrels=qrels, measures=measures).set_index("name")
    fused = systems["rrf"](topics)
    sums = (
        fused[fused["rank"] < 6]
        .groupby("qid")["score"]
        .apply(lambda score: score.round(7).duplicated().any())
    )
    assert sums.sum() > 8  # ties that 64 bits alone would part
    for measure in measures:
        assert theirs[str(measure)].tolist() == pytest.approx(
            ours[str(measure)].tolist(), abs=1e-12
        ), measure
    run = fused.rename(columns={"qid": "query_id", "docno": "doc_id"})
    relevant = qrels.rename(columns={"qid": "query_id", "docno": "doc_id", "label": "relevance"})
    assert ir_measures.calc_aggregate([nDCG @ 5], relevant, run)[nDCG @ 5] == pytest.approx(
        ours.loc["rrf", "nDCG@5"], abs=1e-12
    )


def test_scores_that_are_equal_in_32_bits_go_by_docno():
    """trec_eval reads 32 bits: 0.1 and 0.1 + 1e-12 are one score there."""
    run = pd.DataFrame(
        {"qid": "1", "docno": ["a", "b", "c"], "score": [0.1 + 1e-12, 0.1, 0.2], "rank": [0, 1, 2]}
    )
    assert in_trec_eval_order(run)["docno"].tolist() == ["c", "b", "a"]


def test_a_score_that_is_missing_is_the_least_of_its_list():
    scores = np.array([np.nan, 2.0, 4.0, 3.0, 3.0, np.nan])
    lists = np.array([0, 0, 0, 1, 1, 1])
    assert min_max(scores, lists).tolist() == [0, 0, 1, 0.5, 0.5, 0]


@pytest.mark.parametrize("order", [in_trec_eval_order, strictly_decreasing])
@pytest.mark.parametrize(
    ("qids", "docnos"),
    [("tt", "aa"), ("ttt", "aba"), ("ttuu", "abaa"), ("ttuu", "aaab"), ("ttuuu", "ababb")],
)
def test_a_passage_twice_in_any_turn_is_refused(order, qids, docnos):
    scores = [float(-number) for number in range(len(docnos))]
    run = pd.DataFrame({"qid": list(qids), "docno": list(docnos), "score": scores})
    twice = run[run.duplicated(["qid", "docno"])].iloc[0]
    with pytest.raises(ikat.DataError, match=f"turn {twice.qid} has passage {twice.docno} twice"):
        order(run.assign(rank=range(len(run))))


@pytest.mark.parametrize("order", [in_trec_eval_order, strictly_decreasing])
def test_a_passage_may_be_in_several_turns(order):
    run = pd.DataFrame({"qid": list("tttuv"), "docno": list("abcaa"), "rank": [0, 1, 2, 0, 0]})
    ranked = order(run.assign(score=[3.0, 2.0, 1.0, 1.0, 2.0]))
    assert ranked["docno"].tolist() == ["a", "b", "c", "a", "a"]
    assert ranked["rank"].tolist() == [0, 1, 2, 0, 0]
