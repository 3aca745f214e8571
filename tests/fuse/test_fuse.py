"""Bringing sub-queries back, against plain definitions, worked examples and ranx."""

import math
import re
import warnings

import numpy as np
import pandas as pd
import pyterrier as pt
import pytest
from hypothesis import given
from hypothesis import strategies as st
from plain import round_robin

import pyterrier_ikat as ikat
from pyterrier_ikat.errors import counted


def expanded(turns, **columns):
    """A result frame as after ExplodeQueries and a retriever; ``turns`` is turn -> list of ranked docnos per sub-query."""
    rows = [
        {"qid": f"{turn}::{sub}", "qid_0": turn, "qsub": sub, "query": f"{turn} sub {sub}", "query_0": f"{turn}?", "docno": docno}
        | {"score": 10.0 - rank, "rank": rank, "text": f"text of {docno}", "qanswer": f"answer to {turn}"}
        for turn, lists in turns.items()
        for sub, docnos in enumerate(lists)
        for rank, docno in enumerate(docnos)
    ]
    names = ["qid", "qid_0", "qsub", "query", "query_0", "docno", "score", "rank", "text", "qanswer"]
    frame = pd.DataFrame(rows, columns=names, dtype=object)
    return frame.astype({"qsub": "int64", "score": "float64", "rank": "int64"}).assign(**columns)


def orders(frame):
    return {turn: rows.sort_values("rank")["docno"].tolist() for turn, rows in frame.groupby("qid", sort=False)}


def plain_rrf(lists, k=60):
    seen = {}
    for sub, docnos in enumerate(lists):
        for rank, docno in enumerate(docnos):
            seen.setdefault(docno, []).append((rank, sub))
    scores = {docno: math.fsum(1 / (k + 1 + rank) for rank, _ in found) for docno, found in seen.items()}
    return sorted(seen, key=lambda docno: (-round(scores[docno], 12), min(seen[docno]), docno)), scores


class ByAnswer(pt.Transformer):
    """Scores by a table docno -> score, remembers what it was given, and gives rows back in another order."""

    def __init__(self, scores=None):
        self.scores, self.seen = scores or {}, None

    def transform(self, inp):
        pt.validate.result_frame(inp, extra_columns=["query", "text"], context=self)
        self.seen = inp
        scored = inp.assign(score=[float(self.scores.get(docno, 0)) for docno in inp["docno"]])
        return scored.iloc[::-1]


turn_lists = st.dictionaries(
    st.sampled_from(["9-1_1", "9-1_2", "9-1_10", "12-2_3"]),
    st.lists(st.lists(st.sampled_from("abcdefghij"), unique=True, max_size=8), min_size=1, max_size=5).filter(any),
    min_size=1,
)
OPERATORS = [ikat.Interleave(), ikat.Union(), ikat.RRF(), ikat.WeightedSum(), ikat.RerankAgainst(ByAnswer({"b": 2, "a": 1}), "qanswer")]


def test_interleave_scores_count_down_to_one():
    fused = ikat.Interleave()(expanded({"t": [["a", "b"], ["c"]], "u": [["a"]]}))
    assert fused[["qid", "docno", "score", "rank"]].values.tolist() == [
        ["t", "a", 3.0, 0],
        ["t", "c", 2.0, 1],
        ["t", "b", 1.0, 2],
        ["u", "a", 1.0, 0],
    ]


def test_the_turn_gets_its_qid_and_query_back_and_keeps_the_rest():
    history = [{"role": "user", "content": "tea?"}]
    found = expanded({"t": [["a"], ["b"]]}).assign(query_1="raw", query_vec=0, query_toks=0)
    found["qhistory"] = [history, history]
    for operator in OPERATORS:
        fused = operator(found)
        assert fused["qid"].tolist() == ["t", "t"], operator
        assert fused["query"].tolist() == ["t?", "t?"]
        assert fused["query_0"].tolist() == ["raw", "raw"]
        assert set(fused.columns) == {"qid", "query", "query_0", "docno", "score", "rank", "text", "qanswer", "qhistory", "qfound"}
        assert fused["qfound"].tolist() == [[1, 1], [1, 1]]
        assert fused.columns[0] == "qid"
        assert fused["qhistory"][0] is history
        assert sorted(fused["text"]) == ["text of a", "text of b"]


def test_a_turn_tells_how_many_passages_each_of_its_queries_found():
    found = expanded({"t": [["a", "b"], [], ["a"]], "u": [["c"], []]})
    for operator in OPERATORS:
        fused = operator(found)
        assert dict(zip(fused["qid"], fused["qfound"], strict=True)) == {"t": [2, 0, 1], "u": [1]}, operator


@given(turn_lists)
def test_every_operator_gives_one_row_per_turn_and_passage_ranked_from_0_for_every_turn(turns):
    found = expanded(turns)
    before = found.copy()
    for operator in OPERATORS:
        fused = operator(found)
        assert not fused.duplicated(["qid", "docno"]).any()
        assert list(dict.fromkeys(fused["qid"])) == list(dict.fromkeys(found["qid_0"]))
        for turn, rows in fused.groupby("qid"):
            assert rows["rank"].tolist() == list(range(len(rows)))
            assert rows["score"].is_monotonic_decreasing
            assert set(rows["docno"]) == {docno for docnos in turns[turn] for docno in docnos}
        pd.testing.assert_frame_equal(found, before)


@given(turn_lists, st.randoms(use_true_random=False), st.integers(1, 12))
def test_orders_equal_the_plain_definitions_whatever_the_order_of_the_rows(turns, random, cut):
    found = expanded(turns)
    places = list(range(len(found)))
    random.shuffle(places)
    shuffled = found.iloc[places]
    with_results = {turn: lists for turn, lists in turns.items() if any(lists)}
    interleaved = {turn: round_robin(lists) for turn, lists in with_results.items()}
    assert orders(ikat.Interleave(num_results=None)(shuffled)) == interleaved
    assert orders(ikat.Union(num_results=cut)(shuffled)) == {turn: docnos[:cut] for turn, docnos in interleaved.items()}
    assert orders(ikat.RRF(num_results=cut)(shuffled)) == {turn: plain_rrf(lists)[0][:cut] for turn, lists in with_results.items()}


@given(turn_lists)
def test_rrf_scores_are_the_sums_and_fall_strictly(turns):
    fused = ikat.RRF()(expanded(turns))
    for turn, rows in fused.groupby("qid"):
        expected = plain_rrf(turns[turn])[1]
        assert rows["score"].tolist() == pytest.approx([expected[docno] for docno in rows["docno"]], rel=1e-5)
        assert (np.diff(rows["score"].astype(np.float32)) < 0).all()


def test_rrf_equals_ranx_where_no_sums_tie():
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # numba's, at import and compilation
        from ranx import Run, fuse

        turns = {"t": [["a", "b", "c", "d"], ["b", "a", "e"]], "u": [["x", "y", "z"], ["z", "w", "y"]]}
        runs = [
            Run({turn: {docno: 10.0 - rank for rank, docno in enumerate(lists[sub])} for turn, lists in turns.items()}) for sub in (0, 1)
        ]
        combined = fuse(runs, method="rrf", params={"k": 60}).to_dict()
    fused = ikat.RRF()(expanded(turns))
    for turn, rows in fused.groupby("qid"):
        assert dict(zip(rows["docno"], rows["score"], strict=True)) == pytest.approx(dict(combined[turn]), rel=1e-6)


def test_rrf_ties_go_by_best_rank_then_sub_query():
    # 1/61 for b and c; a has 1/62 twice, which is more; d and e have 1/63.
    fused = ikat.RRF()(expanded({"t": [["c", "a", "d"], ["b", "a", "e"]]}))
    assert fused["docno"].tolist() == ["a", "c", "b", "d", "e"]
    assert fused["score"].tolist() == pytest.approx([2 / 62, 1 / 61, 1 / 61, 1 / 63, 1 / 63])
    assert fused["score"].is_unique


def test_docnos_may_be_numbers():
    found = expanded({"t": [["a", "b"], ["b", "c"]]})
    found["docno"] = pd.Series([7, 5, 5, "c"], dtype=object)
    assert ikat.RRF()(found)["docno"].tolist() == [5, 7, "c"]
    assert ikat.Interleave()(found)["docno"].tolist() == [7, 5, "c"]


def test_rerank_by_gives_the_scorer_each_turn_and_passage_once_with_the_column_as_query():
    scorer = ByAnswer({"c": 3, "a": 2, "b": 1})
    found = expanded({"t": [["a", "b"], ["b", "c"]], "u": [["a"], ["a"]]}).assign(query_vec=0)
    fused = ikat.RerankAgainst(scorer, "qanswer")(found)
    seen = scorer.seen[["qid", "query", "docno", "text"]].values.tolist()
    assert sorted(seen) == [
        ["t", "answer to t", "a", "text of a"],
        ["t", "answer to t", "b", "text of b"],
        ["t", "answer to t", "c", "text of c"],
        ["u", "answer to u", "a", "text of a"],
    ]
    assert "query_vec" not in scorer.seen.columns
    assert fused[["qid", "query", "docno", "score", "rank"]].values.tolist() == [
        ["t", "t?", "c", 3.0, 0],
        ["t", "t?", "a", 2.0, 1],
        ["t", "t?", "b", 1.0, 2],
        ["u", "u?", "a", 2.0, 0],
    ]


def test_rerank_by_scores_the_whole_union_before_it_cuts():
    found = expanded({"t": [["a", "b"], ["c", "d"]]})
    scorer = ByAnswer({"d": 9})
    assert ikat.RerankAgainst(scorer, "qanswer", num_results=1)(found)["docno"].tolist() == ["d"]
    assert len(scorer.seen) == 4


def test_rerank_by_breaks_ties_by_the_order_of_the_pool():
    fused = ikat.RerankAgainst(ByAnswer(), "qanswer")(expanded({"t": [["b", "d"], ["a", "c"]]}))
    assert fused["docno"].tolist() == ["b", "a", "d", "c"]


def test_rerank_by_query_uses_the_query_of_the_turn():
    scorer = ByAnswer()
    ikat.RerankAgainst(scorer, "query")(expanded({"t": [["a"]]}))
    assert scorer.seen["query"].tolist() == ["t?"]


def test_rerank_by_keeps_new_columns_and_rows_that_the_scorer_left():
    scorer = pt.apply.generic(lambda rows: rows[rows["docno"] != "a"].assign(score=1.0, why="short"))
    fused = ikat.RerankAgainst(scorer, "qanswer")(expanded({"t": [["a", "b"]]}))
    assert fused[["docno", "why"]].values.tolist() == [["b", "short"]]


@pytest.mark.parametrize("num_results", [1, None])
def test_rerank_by_ranks_the_second_turn_from_0_where_the_scorer_left_out_the_first(num_results):
    scorer = pt.apply.generic(lambda rows: rows[rows["qid"] != "t"].assign(score=1.0))
    fused = ikat.RerankAgainst(scorer, "qanswer", num_results)(expanded({"t": [["a", "b"]], "u": [["c", "d", "e"]]}))
    kept = [["u", "c", 0], ["u", "d", 1], ["u", "e", 2]]
    assert fused[["qid", "docno", "rank"]].values.tolist() == kept[:num_results]


def test_the_design_expression_runs_as_written():
    """``llm_answer >> multi_query >> bm25 % 1000 >> crossencoder >> answer_rerank``, with stand-ins for the first stages and the models."""
    found = expanded({"t": [["a", "b"], ["b", "c"]]})
    retriever = pt.apply.generic(lambda queries: found)
    crossencoder, by_answer = ByAnswer({"a": 1}), ByAnswer({"c": 3, "b": 2})
    pipeline = retriever % 1000 >> pt.apply.generic(lambda rows: rows) >> crossencoder >> ikat.RerankAgainst(by_answer, "qanswer")
    fused = pipeline(pd.DataFrame({"qid": ["t"], "query": ["t?"]}))
    assert fused["docno"].tolist() == ["c", "b", "a"]
    assert len(crossencoder.seen) == 4
    assert len(by_answer.seen) == 3


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda rows: rows.assign(score=float("nan")), "gave the score nan to passage a of turn t"),
        (lambda rows: rows.assign(score=1.0, docno="zz"), "returned passage zz for turn t, which it wasn't given"),
        (lambda rows: pd.concat([rows, rows]).assign(score=1.0), "returned a passage twice"),
    ],
)
def test_rerank_by_names_what_is_wrong_with_the_scorer(change, message):
    with pytest.raises(ikat.DataError, match=message):
        ikat.RerankAgainst(pt.apply.generic(change), "qanswer")(expanded({"t": [["a"]]}))


def test_rerank_by_names_the_passage_that_the_scorer_made_up_not_the_first():
    scorer = pt.apply.generic(lambda rows: rows.assign(score=1.0, docno=["a", "zz"]))
    with pytest.raises(ikat.DataError, match="returned passage zz for turn t"):
        ikat.RerankAgainst(scorer, "qanswer")(expanded({"t": [["a", "b"]]}))


def test_rerank_by_names_the_turns_without_the_text():
    found = expanded({turn: [["a"]] for turn in "tuvwxyz"})
    for lacking, shown in (("u", "u"), ("uvwxy", "u, v, w, x, y"), ("uvwxyz", "u, v, w, x, y and 1 more")):
        answers = [None if turn in lacking else "yes" for turn in found["qid_0"]]
        with pytest.raises(
            ikat.DataError, match=re.escape(f"{counted(len(lacking), 'turn has', 'turns have')} no qanswer to re-rank by ({shown}): fill")
        ):
            ikat.RerankAgainst(ByAnswer(), "qanswer")(found.assign(qanswer=answers))


@pytest.mark.parametrize("operator", OPERATORS, ids=lambda operator: type(operator).__name__)
def test_empty_frames_give_the_columns_of_full_ones(operator):
    found = expanded({"t": [["a", "b"], ["c"]]})
    for frame in (found, found.drop(columns=["qid_0", "qsub", "query_0"])):
        empty = operator(frame.iloc[:0])
        assert list(empty.columns) == list(operator(frame).columns)
        assert len(empty) == 0
    bare = operator(pd.DataFrame(columns=list(found.columns)))
    assert set(bare.columns) == set(operator(found).columns)


def test_the_column_to_rerank_by_has_to_be_there_after_the_sub_queries_are_back():
    found = expanded({"t": [["a"]]})
    for name in ("qrewrite", "query_0"):
        with pytest.raises(pt.validate.InputValidationError, match=name):
            ikat.RerankAgainst(ByAnswer(), name)(found)


@pytest.mark.parametrize(
    "make",
    [ikat.Interleave, ikat.Union, ikat.RRF, ikat.WeightedSum, lambda num_results: ikat.RerankAgainst(ByAnswer(), "query", num_results)],
)
def test_num_results_below_one_is_refused(make):
    with pytest.raises(ikat.UsageError, match="num_results=0: give 1 or more"):
        make(num_results=0)
    make(num_results=1)


def test_rrf_refuses_a_negative_constant():
    with pytest.raises(ikat.UsageError, match="k=-1: the constant"):
        ikat.RRF(k=-1)


def test_operators_are_values():
    assert ikat.RRF(k=10) == ikat.RRF(k=10.0)
    assert ikat.RRF(k=10) != ikat.RRF()
    assert ikat.Union() != ikat.Interleave()
    assert repr(ikat.RRF(k=10, num_results=None)) == "ikat.RRF(k=10, num_results=None)"
    nested = ikat.RerankAgainst(ikat.CrossEncoder("m"), "qanswer", 10)
    assert repr(nested) == "ikat.RerankAgainst(ikat.CrossEncoder('m'), 'qanswer', num_results=10)"
    assert eval(repr(nested)) == nested
    assert hash(nested) == hash(ikat.RerankAgainst(ikat.CrossEncoder("m"), "qanswer", 10))


TestInterleave = pt.testing.transformer_test_class(ikat.Interleave)
TestUnionOfSubQueries = pt.testing.transformer_test_class(ikat.Union)
TestRRF = pt.testing.transformer_test_class(ikat.RRF)
TestRerankBy = pt.testing.transformer_test_class(lambda: ikat.RerankAgainst(ikat.CrossEncoder("m"), "qanswer"))
