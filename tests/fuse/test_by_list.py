"""Interleave, Union and RRF, against plain definitions in exact fractions and worked examples."""

import warnings

import numpy as np
import pandas as pd
import pyterrier as pt
import pytest
from fuse.plain import (
    TURNS,
    Finds,
    expanded,
    frame_of,
    lists_of,
    orders,
    plain_rrf,
    round_robin,
    rrf_sums,
)
from hypothesis import given
from hypothesis import strategies as st

import pyterrier_ikat as ikat
from pyterrier_ikat.fuse import by_list
from pyterrier_ikat.fuse.subqueries import (
    read_lists,
)

ROWS = st.lists(
    st.tuples(
        st.sampled_from(["9-1_1", "9-1_2", "9-1_10"]),
        st.integers(0, 3),
        st.sampled_from("abcdefg"),
        st.integers(0, 4),
    ),
    max_size=40,
)
"""In any order, with ties, repeats and missing lists."""


def plain_lists(rows):
    """turn -> the docnos of its lists, by rank and then docno, in the order of the sub-queries."""
    lists = {turn: [] for turn, *_ in rows}
    subs = sorted({(turn, sub) for turn, sub, *_ in rows})
    for turn, sub in subs:
        of_sub = [(rank, docno) for *key, docno, rank in rows if key == [turn, sub]]
        lists[turn].append([docno for _, docno in sorted(of_sub)])
    return lists


@given(ROWS, st.integers(1, 12))
def test_orders_equal_the_plain_definitions_for_any_row_order(rows, cut):
    found = frame_of(rows)
    lists = plain_lists(rows)
    read = read_lists(found)
    for turn, of_turn in zip(read.turns(), lists.values(), strict=True):
        assert [turn.docno[part].tolist() for part in turn.lists] == of_turn
    assert [rows[row][2] for row in read.row] == read.docno.tolist()
    before = found.copy()
    for plain, whole, short in (
        (round_robin, ikat.Interleave(num_results=None), ikat.Union(num_results=cut)),
        (plain_rrf, ikat.RRF(num_results=None), ikat.RRF(num_results=cut)),
    ):
        wanted = {turn: plain(of_turn) for turn, of_turn in lists.items()}
        assert orders(whole(found)) == wanted
        assert orders(short(found)) == {turn: docnos[:cut] for turn, docnos in wanted.items()}
    for turn, of_turn in ikat.RRF()(found).groupby("qid"):
        exact = rrf_sums(lists[turn])
        sums = [float(exact[docno]) for docno in of_turn["docno"]]
        assert of_turn["score"].tolist() == pytest.approx(sums, rel=1e-5)
        assert (np.diff(of_turn["score"].astype(np.float32)) < 0).all()
    pd.testing.assert_frame_equal(found, before)


@given(ROWS)
def test_a_frame_that_is_not_expanded_has_one_list_per_turn(rows):
    ranks = {(turn, docno): rank for turn, _, docno, rank in rows}
    rows = [(turn, 0, docno, rank) for (turn, docno), rank in ranks.items()]
    found = frame_of(rows)
    found["qid"] = found["qid_0"]
    plain = found.drop(columns=["qid_0", "qsub", "query_0"])
    wanted = {turn: lists[0] for turn, lists in plain_lists(rows).items()}
    for operator in (ikat.Interleave(num_results=None), ikat.RRF(num_results=None)):
        assert orders(operator(plain)) == wanted


def test_interleaved_scores_count_down_to_one():
    fused = ikat.Interleave()(expanded({"t": [["a", "b"], ["c"]], "u": [["a"]]}))
    wanted = [["t", "a", 3.0, 0], ["t", "c", 2.0, 1], ["t", "b", 1.0, 2], ["u", "a", 1.0, 0]]
    assert fused[["qid", "docno", "score", "rank"]].values.tolist() == wanted


def test_a_later_sub_query_in_the_first_row_comes_second():
    fused = ikat.Interleave()(frame_of([("t", 1, "b", 0), ("t", 0, "a", 1)]))
    assert fused["docno"].tolist() == ["a", "b"]


def test_rrf_ties_go_by_best_rank_then_sub_query():
    # 1/61 for b and c; a has 1/62 twice, which is more; d and e have 1/63.
    fused = ikat.RRF()(expanded({"t": [["c", "a", "d"], ["b", "a", "e"]]}))
    assert fused["docno"].tolist() == ["a", "c", "b", "d", "e"]
    assert fused["score"].tolist() == pytest.approx([2 / 62, 1 / 61, 1 / 61, 1 / 63, 1 / 63])
    assert fused["score"].is_unique
    # 1/10 + 1/15 is 1/6, in floating point one step more: the passage that is 6th in one list has
    # the better rank and comes first.
    lists = [[f"x{n}" for n in range(20)], [f"y{n}" for n in range(20)]]
    lists[0][5] = "single"
    lists[0][9] = "double"
    lists[1][14] = "double"
    assert 1 / 10 + 1 / 15 > 1 / 6
    order = ikat.RRF(k=0, num_results=None)(expanded({"t": lists}))["docno"].tolist()
    assert order.index("single") < order.index("double")


def test_rrf_equals_ranx_where_no_sums_tie():
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # numba's, at import and compilation
        from ranx import Run, fuse

        turns = {
            "t": [["a", "b", "c", "d"], ["b", "a", "e"]],
            "u": [["x", "y", "z"], ["z", "w", "y"]],
        }
        of_first_lists = {"t": {"a": 4, "b": 3, "c": 2, "d": 1}, "u": {"x": 3, "y": 2, "z": 1}}
        of_second_lists = {"t": {"b": 3, "a": 2, "e": 1}, "u": {"z": 3, "w": 2, "y": 1}}
        runs = [Run(of_first_lists), Run(of_second_lists)]
        combined = fuse(runs, method="rrf", params={"k": 60}).to_dict()
    fused = ikat.RRF()(expanded(turns))
    for turn, rows in fused.groupby("qid"):
        scores = dict(zip(rows["docno"], rows["score"], strict=True))
        assert scores == pytest.approx(dict(combined[turn]), rel=1e-6)


def test_docnos_may_be_numbers():
    found = expanded({"t": [["a", "b"], ["b", "c"]]})
    found["docno"] = pd.Series([7, 5, 5, "c"], dtype=object)
    assert ikat.RRF()(found)["docno"].tolist() == [5, 7, "c"]
    assert ikat.Interleave()(found)["docno"].tolist() == [7, 5, "c"]


TestInterleave = pt.testing.transformer_test_class(ikat.Interleave)
TestUnion = pt.testing.transformer_test_class(ikat.Union)
TestRRF = pt.testing.transformer_test_class(ikat.RRF)


def test_beyond_65536_passages_the_better_rank_still_counts():
    docnos = [f"d{number}" for number in range(70_000)]
    docnos[65_540] = "d10"  # again, far below
    frame = pd.DataFrame({"qid": "t", "query": "tea?", "docno": docnos, "rank": range(70_000)})
    found = ikat.RRF(num_results=None, k=0)(frame)
    assert found["docno"].tolist() == docnos[:65_540] + docnos[65_541:]


@pytest.mark.parametrize(
    ("lists", "num_results", "expected"),
    [
        (["abc", "def"], None, "adbecf"),
        (["abc", "def"], 3, "adb"),
        (["abc", "def"], 1, "a"),
        (["abc", "bad"], None, "abcd"),
        (["a", "bcd"], None, "abcd"),
        (["ab", "ab", "ab"], None, "ab"),
        (["aab"], None, "ab"),
        (["abc", "abd"], 9, "abcd"),
        (["xa", "x", "c"], None, "xca"),  # the third has its turn though the second ended
    ],
)
def test_lists_take_turns_with_their_next_new_passage(lists, num_results, expected):
    turn = lists_of(*lists)
    positions = by_list._take_round_robin(turn, num_results)
    assert "".join(turn.docno[positions]) == expected


@pytest.mark.parametrize(("k", "sums"), [(60, [1 / 61 + 1 / 62, 1 / 61]), (0, [1.5, 1.0])])
def test_reciprocal_ranks_count_from_one(k, sums):
    turn = lists_of("ab", "b")
    best, total = by_list.sum_reciprocal_ranks(turn, k)
    assert dict(zip(turn.docno[best], total, strict=True)) == pytest.approx(
        {"b": sums[0], "a": sums[1]}
    )
    assert total.tolist() == total.round(12).tolist()


def test_the_constants_and_scales_are_those_of_the_papers():
    assert ikat.RRF().k == 60
    assert ikat.WeightedSum().normalise == "min-max"
    assert ikat.WeightedSum().weights is None


def test_a_large_constant_still_tells_sums_apart():
    """c: 1/10001 + 1/10003, b: 2/10002, a: 1/10001 + 1/10004; c and a are the first of a list."""
    fused = ikat.RRF(Finds({"t": "abcd"}), Finds({"t": "cbda"}), k=10_000)(TURNS[:1])
    assert fused["docno"].tolist() == ["c", "b", "a", "d"]
