"""Rankings keep their order in every evaluator: ranks, ties, normalised scores."""

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
from pyterrier_ikat.errors import DataError
from pyterrier_ikat.order import (
    finite_scores,
    highest_of,
    in_trec_eval_order,
    min_max,
    order_by_score,
    positions_by_rank,
    ranks_and_scores,
    scores_by_turn,
    set_ranks,
    strictly_decreasing,
    sum_in_any_order,
    tied,
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
    qids = [qid for qid, _ in rows]
    frame = pd.DataFrame({"qid": qids, "docno": docnos[: len(rows)]}, dtype=object)
    scores = np.array([score for _, score in rows], dtype=np.float64)
    return frame, pd.factorize(frame["qid"])[0], scores


def by_trec_eval(frame):
    """Each turn's docnos as trec_eval's own code orders them.

    The place at which each would be the first relevant one.
    """
    ordered = {}
    for qid, rows in frame.groupby("qid", sort=False):
        of_turn = dict(zip(rows["docno"], rows["score"], strict=True))
        places = {}
        for docno in of_turn:
            judge = pytrec_eval.RelevanceEvaluator({qid: {docno: 1}}, {"recip_rank"})
            scores = judge.evaluate({qid: of_turn})
            places[docno] = round(1 / scores[qid]["recip_rank"])
        ordered[qid] = sorted(of_turn, key=places.get)
    return ordered


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
        # nothing differs in 64 bits alone, so nothing is lowered
        assert out["score"].tolist() == score[order].tolist()


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
    others = {docno: second.get(docno, 0.3) for docno in both}
    frame = pd.DataFrame({"docno": list(both), "text": list(both)}, dtype=object)
    frame = frame.assign(qid="t", query="tea", qanswer="a", rank=range(len(both)), score=0.0)
    operators = [
        ikat.RerankAgainst(Scored(both), "qanswer"),
        ikat.MeanScore([Scored(both), Scored(both)]),
        ikat.Ensemble([Scored(both), Scored(others)]),
    ]
    for operator in operators:
        for out in (operator(frame), (operator % cut)(frame)):
            assert by_trec_eval(out) == orders(out), operator
            assert out["rank"].tolist() == list(range(len(out)))


@pytest.mark.filterwarnings("ignore::pyterrier_ikat.evaluation.evaluator.RelevanceWarning")
def test_pt_experiment_and_ikat_experiment_agree_on_real_turns(ikat_data, tmp_path):
    data = ikat.dataset("ikat:2023-mini")
    bm25 = ikat.PassageIndex(tmp_path / "index").index(data.get_corpus_iter(verbose=False)).bm25()

    def add_ends(turns):
        subqueries = []
        for query in turns["query"]:
            end = query.split(maxsplit=3)[-1]
            subqueries.append([query, end])
        return turns.assign(qsubqueries=subqueries)

    expanded = pt.apply.generic(add_ends) >> ikat.ExplodeQueries() >> bm25
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
    first = fused[fused["rank"] < 6]
    has_tie = first.groupby("qid")["score"].apply(lambda score: score.round(7).duplicated().any())
    assert has_tie.sum() > 8  # ties that 64 bits alone would part
    for measure in map(str, measures):
        expected = pytest.approx(ours[measure].tolist(), abs=1e-12)
        assert theirs[measure].tolist() == expected, measure
    run = fused.rename(columns={"qid": "query_id", "docno": "doc_id"})
    relevant = qrels.rename(columns={"qid": "query_id", "docno": "doc_id", "label": "relevance"})
    means = ir_measures.calc_aggregate([nDCG @ 5], relevant, run)
    assert means[nDCG @ 5] == pytest.approx(ours.loc["rrf", "nDCG@5"], abs=1e-12)


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


# By hand and by plain loops


def run_of(*rows):
    return pd.DataFrame(rows, columns=["qid", "docno", "score", "rank"])


def below(score):
    return float(np.nextafter(np.float32(score), np.float32(-np.inf)))


def test_rows_are_ordered_by_turn_score_and_docno_descending():
    docnos = pd.DataFrame({"docno": ["a", "c", "b", "z", "y"]})
    turn = np.array([1, 0, 0, 1, 0])
    score = np.array([1.0, 2.0, 2.0, 1.0, 3.0])
    assert order_by_score(docnos, turn, score).tolist() == [4, 1, 2, 3, 0]
    apart = np.array([1.0, 2.0, 3.0, 4.0, 5.0])
    assert order_by_score(docnos, turn, apart).tolist() == [4, 2, 1, 3, 0]


def test_ranks_without_scores_count_down_to_1():
    turns = np.array([0, 0, 0, 1])
    ranked = set_ranks(run_of(*[("t", "a", 9.0, 9)] * 4), turns)
    assert ranked[["score", "rank"]].values.tolist() == [[3, 0], [2, 1], [1, 2], [1, 0]]
    assert str(ranked["score"].dtype) == "float64"


def test_equal_scores_stay_equal_only_in_trec_evals_order():
    turns = np.array([0, 0, 0])
    half = np.array([0.5, 0.5, 0.5])
    docnos = pd.Series(["b", "c", "a"])
    rank, parted = ranks_and_scores(turns, half)
    assert rank.tolist() == [0, 1, 2]
    assert parted.tolist() == [0.5, below(0.5), below(below(0.5))]
    _, in_order = ranks_and_scores(turns, half, docnos)
    assert in_order.tolist() == [0.5, below(0.5), below(0.5)]
    same = pd.Series(["b", "b", "a"])
    assert ranks_and_scores(turns, half, same)[1].tolist() == [0.5] * 3
    rows = run_of(("t", "b", 0.5, 0), ("t", "a", 0.5, 1))
    assert set_ranks(rows, turns[:2], half[:2], by_docno=True)["score"].tolist() == [0.5, 0.5]
    assert set_ranks(rows, turns[:2], half[:2])["score"].tolist() == [0.5, below(0.5)]


def test_a_rising_score_is_lowered_below_the_one_before():
    turns = np.array([0, 0, 1, 1])
    score = np.array([1.0, 3.0, 3.0, 2.0])
    _, parted = ranks_and_scores(turns, score, pd.Series(["b", "a", "b", "a"]))
    assert parted.tolist() == [1.0, below(1.0), 3.0, 2.0]


def test_scores_that_need_nothing_are_those_given():
    score = np.array([2.0000000001, 1.0])
    rank, parted = ranks_and_scores(np.array([0, 0]), score)
    assert parted is score
    assert rank.tolist() == [0, 1]
    lowered = ranks_and_scores(np.array([0, 0, 0]), np.array([0.3, 0.2, 0.2]))[1]
    assert lowered.tolist() == [0.3, 0.2, below(0.2)]


def test_ties_at_zero_go_below_it():
    turns = np.array([0, 0, 0])
    _, parted = ranks_and_scores(turns, np.array([0.0, 0.0, 0.0]))
    assert parted[0] == 0.0
    assert parted[0] > parted[1] > parted[2]
    assert parted[1] == -float(np.finfo(np.float32).tiny)
    mixed = ranks_and_scores(turns, np.array([1e-39, 0.0, -1e-39]))[1]
    assert list(np.diff(np.float32(mixed)) < 0) == [True, True]


def test_the_turn_that_cannot_be_parted_is_the_first_one():
    lowest = float(np.finfo(np.float32).min)
    rows = run_of(
        ("1_1", "a", lowest, 0),
        ("1_1", "b", lowest, 0),
        ("1_2", "a", lowest, 0),
        ("1_2", "b", lowest, 0),
    )
    with pytest.raises(DataError, match="turn 1_1: several passages have the lowest"):
        set_ranks(rows, np.array([0, 0, 1, 1]), rows["score"].to_numpy())
    rows["score"] = [2.0, 1.0, lowest, lowest]
    with pytest.raises(DataError, match="turn 1_2: several passages have the lowest"):
        set_ranks(rows, np.array([0, 0, 1, 1]), rows["score"].to_numpy())


def test_a_passage_is_there_twice_wherever_its_rows_are():
    rows = run_of(("1_1", "a", 1.0, 0), ("1_2", "b", 1.0, 0), ("1_1", "a", 0.5, 1))
    with pytest.raises(DataError, match="turn 1_1 has passage a twice"):
        in_trec_eval_order(rows)


def test_ranks_that_are_texts_are_sorted_as_numbers():
    rows = run_of(("t", "b", 1.0, "10"), ("t", "a", 2.0, "9"))
    assert strictly_decreasing(rows)[["docno", "rank"]].values.tolist() == [["a", 0], ["b", 1]]


def test_scores_below_the_lowest_cannot_be_parted_either():
    scores = np.array([1.0, -1e300, -2e300])
    rows = run_of(("t", "a", 1.0, 0), ("t", "b", -1e300, 0), ("t", "c", -2e300, 0))
    with pytest.raises(DataError, match="turn t: several passages have the lowest"):
        set_ranks(rows, np.array([0, 0, 0]), scores)
    _, parted = ranks_and_scores(np.array([0, 0, 0]), scores)
    assert parted.tolist() == [1.0, -1e300, -np.inf]


def plainly_parted(scores):
    """Each score as a 32-bit float below the one before it."""
    parted = []
    for score in scores:
        single = np.float32(score)
        if parted and single >= np.float32(parted[-1]):
            parted.append(below(parted[-1]))
        else:
            parted.append(score)
    return parted


SCORES = st.sampled_from([0.25, 0.5, 0.5000000001, 1.0, 3.0, -2.0])


@given(st.lists(st.lists(SCORES, max_size=6), max_size=4))
def test_each_turn_is_parted_as_by_a_plain_loop(of_turns):
    turns = []
    scores = []
    ranks = []
    expected = []
    for number, of_turn in enumerate(of_turns):
        turns += [number] * len(of_turn)
        scores += of_turn
        ranks += range(len(of_turn))
        expected += plainly_parted(of_turn)
    rank, parted = ranks_and_scores(np.array(turns, dtype=np.int64), np.array(scores))
    assert rank.tolist() == ranks
    assert parted.tolist() == expected


def test_trec_eval_reads_32_bits_and_breaks_ties_by_docno():
    run = run_of(
        ("t2", "a", 0.1000000001, 0),
        ("t1", "a", 1e300, 0),
        ("t2", "b", 0.1, 1),
        ("t1", "b", 3e300, 1),
        ("t1", "c", 5.0, 2),
        ("t1", "d", -1e300, 3),
        ("t1", "e", -2.0, 4),
    ).set_index(pd.Index([7] * 7))
    ordered = in_trec_eval_order(run)
    assert ordered[["qid", "docno", "rank"]].values.tolist() == [
        *(["t2", "b", 0], ["t2", "a", 1]),
        *(["t1", "b", 0], ["t1", "a", 1], ["t1", "c", 2], ["t1", "e", 3], ["t1", "d", 4]),
    ]
    assert ordered["score"].tolist()[:3] == [0.1, 0.1000000001, 3e300]
    assert ordered.index.tolist() == list(range(7))


@pytest.mark.parametrize("score", [float("nan"), float("inf"), None, "high"])
def test_scores_that_are_no_numbers_are_refused_by_all(score):
    run = run_of(("1_1", "a", 1.0, 0), ("1_1", "b", score, 1), ("1_2", "c", score, 0))
    for ordered in (in_trec_eval_order, strictly_decreasing, finite_scores):
        with pytest.raises(DataError, match="gave the score .* to passage b of turn 1_1"):
            ordered(run)


def test_the_largest_score_is_still_one():
    run = run_of(("1_1", "a", 5.0, 0), ("1_1", "b", -5.0, 1))
    assert finite_scores(run, "mine", 5.0).tolist() == [5.0, -5.0]
    with pytest.raises(DataError, match=r"^mine gave the score 5.0 to passage a"):
        finite_scores(run, "mine", 4.9)
    assert finite_scores(run.assign(score=["2", "1.5"])).tolist() == [2.0, 1.5]
    assert finite_scores(run.assign(score=pd.array([2, 1], dtype="Int64"))).tolist() == [2.0, 1.0]


def test_scores_of_a_turn_may_lie_apart():
    run = run_of(("t1", "a", 3.0, 0), ("t2", "a", 2.0, 0), ("t1", "b", 1.0, 1), ("t2", "b", 0.5, 1))
    assert scores_by_turn(run) == {"t1": {"a": 3.0, "b": 1.0}, "t2": {"a": 2.0, "b": 0.5}}
    assert list(scores_by_turn(run)) == ["t1", "t2"]
    assert scores_by_turn(run.head(0)) == {}


def test_a_run_is_sorted_by_rank_and_parted():
    run = run_of(
        *(("t2", "x", 0.5, 2), ("t1", "a", 1.0, 9), ("t2", "y", 0.5, 1)),
        *(("t1", "b", 7.0, 3), ("t2", "z", 0.25, 10)),
    )
    strict = strictly_decreasing(run)
    assert strict.values.tolist() == [
        *(["t2", "y", 0.5, 0], ["t2", "x", below(0.5), 1], ["t2", "z", 0.25, 2]),
        *(["t1", "b", 7.0, 0], ["t1", "a", 1.0, 1]),
    ]


@pytest.mark.parametrize(
    ("rows", "told"),
    [
        ([("1_1", "a", 1.0, 0), ("1_1", "b", 2.0, 1)], "turn 1_1, passage b: the score rises"),
        ([("1_1", "a", 1.0, 0), ("1_1", "a", 0.5, 1)], "turn 1_1 has passage a twice"),
        ([("1_1", "a", 4e38, 0)], "gave the score 4e"),
        (
            [("1_1", "a", 1.0, 0), ("1_2", "b", 2.0, 0), ("1_2", "c", 3.0, 1)],
            "turn 1_2, passage c: the score rises",
        ),
    ],
)
def test_a_bad_run_is_refused_by_name(rows, told):
    with pytest.raises(DataError, match=told):
        strictly_decreasing(run_of(*rows))


def test_a_passage_twice_in_a_turn_has_no_rank():
    run = run_of(("1_1", "a", 1.0, 0), ("1_2", "a", 1.0, 0), ("1_2", "a", 0.5, 1))
    with pytest.raises(DataError, match="turn 1_2 has passage a twice"):
        in_trec_eval_order(run)


@pytest.mark.parametrize("lacking", ["qid", "docno", "score", "rank"])
def test_a_run_without_a_column_is_refused(lacking):
    with pytest.raises(pt.validate.InputValidationError, match=lacking):
        strictly_decreasing(run_of(("1_1", "a", 1.0, 0)).drop(columns=lacking))


def test_positions_follow_ranks_within_each_turn():
    turn = np.array([1, 0, 1, 0, 1])
    rank = np.array([5, 9, 2, 3, 5])
    assert positions_by_rank(turn, rank).tolist() == [1, 1, 0, 0, 2]


def test_each_list_is_scaled_from_its_least_to_its_greatest():
    scores = np.array([1.0, 3.0, np.nan, 2.0, 7.0, 7.0, np.nan, -1e308, 1e308, 0.0])
    lists = np.array([0, 0, 0, 0, 1, 1, 2, 3, 3, 3])
    assert min_max(scores, lists).tolist() == [0.0, 1.0, 0.0, 0.5, 0.5, 0.5, 0.0, 0.0, 1.0, 0.5]
    assert min_max(np.array([]), np.array([], dtype=int)).tolist() == []


def test_sums_that_differ_by_rounding_are_the_first_of_them():
    third = 0.1 + 0.2
    sums = np.array([0.3, third, 0.25, 0.3 - 1e-9])
    assert tied(sums, 1.0).tolist() == [third, third, 0.25, 0.3 - 1e-9]
    assert tied(np.array([]), 1.0).tolist() == []
    chain = np.array([1.0, 1.0 - 0.9e-12, 1.0 - 1.8e-12])
    assert tied(chain, 1.0).tolist() == [1.0, 1.0, 1.0]


def test_sums_of_turns_are_tied_within_their_turn_and_tolerance():
    third = 0.1 + 0.2
    sums = np.array([0.3, third, third, 0.3])
    turn = np.array([0, 1, 0, 1])
    assert tied(sums, 1.0, turn).tolist() == [third] * 4
    assert tied(np.array([0.3, third]), 1.0, np.array([0, 1])).tolist() == [0.3, third]
    close = np.array([1.0, 2.0, 1.0 - 1e-10, 2.0 - 1e-10])
    most = np.array([1.0, 1000.0, 1.0, 1000.0])
    assert tied(close, most, np.array([0, 1, 0, 1])).tolist() == [1.0, 2.0, 1.0 - 1e-10, 2.0]


def test_the_highest_value_of_a_turn_may_be_below_zero():
    assert highest_of(np.array([0, 1, 0]), np.array([-3.0, -1.0, -2.0])).tolist() == [-2, -1, -2]


def test_sums_are_the_same_for_any_order_of_their_parts():
    parts = [np.array([0.1]), np.array([1e17]), np.array([-1e17]), np.array([0.2])]
    first = sum_in_any_order(parts)
    assert sum_in_any_order(parts[::-1]).tolist() == first.tolist()
    assert sum_in_any_order([parts[1], parts[0], parts[3], parts[2]]).tolist() == first.tolist()
    assert sum_in_any_order([np.array([1.0, 2.0]), np.array([3.0, 4.0])]).tolist() == [4.0, 6.0]


def test_docnos_are_compared_as_texts_and_missing_ones_too():
    numbers = pd.DataFrame({"docno": pd.Series([9, 10, None], dtype=object)})
    order = order_by_score(numbers, np.array([0, 0, 0]), np.array([1.0, 1.0, 1.0]))
    assert order.tolist() == [2, 0, 1]  # "None", "9", "10"
    texts = pd.DataFrame({"docno": pd.Series(["B", None, "a"], dtype=object)})
    order = order_by_score(texts, np.array([0, 0, 0]), np.array([1.0, 1.0, 1.0]))
    assert order.tolist() == [2, 1, 0]  # "a", "None", "B"


def test_scores_beyond_32_bits_tie_above_all_others():
    largest = 3.4e38
    run = run_of(
        ("t", "a", 1e300, 0), ("t", "b", 2e300, 1), ("t", "c", largest, 2), ("t", "d", -largest, 3)
    )
    run.loc[4] = ["t", "e", -1e300, 4]
    assert in_trec_eval_order(run)["docno"].tolist() == ["b", "a", "c", "d", "e"]
    with pytest.raises(DataError, match="gave the score -1e"):
        strictly_decreasing(run.tail(1))


def test_a_rise_is_told_of_the_first_passage_that_rises():
    run = run_of(("t", "a", 1.0, 0), ("t", "b", 2.0, 1), ("t", "c", 1.5, 2), ("t", "d", 9.0, 3))
    with pytest.raises(DataError, match="passage b: the score rises"):
        strictly_decreasing(run.set_index(pd.Index([9, 8, 7, 6])))


def test_the_first_of_several_bad_scores_is_told_in_any_index():
    run = run_of(("t", "a", 1.0, 0), ("t", "b", -np.inf, 1), ("t", "c", np.nan, 2))
    for index in ([5, 6, 7], [2, 1, 0], [0, 0, 0]):
        with pytest.raises(DataError, match="to passage b of turn t"):
            finite_scores(run.set_index(pd.Index(index)))


def test_ties_go_by_docnos_as_texts_and_beyond_32_bits():
    turn = np.array([0, 0])
    half = np.array([0.5, 0.5])
    for docnos, is_tied in (([9, 10], True), ([10, 9], False), ([2, "10"], True)):
        _, score = ranks_and_scores(turn, half, pd.Series(docnos, dtype=object))
        assert bool(score[0] == score[1]) is is_tied, docnos
    rank, score = ranks_and_scores(turn, np.array([1e300, 2e300]))
    assert (rank.tolist(), score.tolist()) == ([0, 1], [1e300, float(np.finfo(np.float32).max)])
    apart = np.array([1e300, 1.0])
    assert ranks_and_scores(turn, apart)[1].tolist() == [1e300, 1.0]
