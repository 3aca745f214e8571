"""Reading a turn's lists: any order of rows, tied ranks, one list or several, against plain Python."""

import numpy as np
import pandas as pd
import pyterrier as pt
import pytest
from hypothesis import given
from hypothesis import strategies as st
from plain import round_robin

import pyterrier_ikat as ikat
from pyterrier_ikat.conversations.frame import numbered
from pyterrier_ikat.fuse.subqueries import read_lists

rows_of_lists = st.lists(
    st.tuples(st.sampled_from(["9-1_1", "9-1_2", "9-1_10"]), st.integers(0, 3), st.sampled_from("abcdefg"), st.integers(0, 4)), max_size=40
)


def frame_of(rows, expanded=True):
    qids, subs, docnos, ranks = zip(*rows, strict=True) if rows else ([], [], [], [])
    text = {"qid": [f"{qid}::{sub}" for qid, sub in zip(qids, subs, strict=True)] if expanded else qids, "docno": docnos, "query": docnos}
    found = pd.DataFrame({name: pd.Series(list(values), dtype=object) for name, values in text.items()})
    found = found.assign(rank=np.array(ranks, dtype=np.int64), score=0.0)
    if not expanded:
        return found
    return found.assign(qid_0=pd.Series(list(qids), dtype=object), query_0="?", qsub=np.array(subs, dtype=np.int64))


def plain_lists(rows):
    """turn -> the docnos of its lists, by rank and then docno, in the order of the sub-queries."""
    lists = {}
    for turn, sub, docno, rank in rows:
        lists.setdefault(turn, {}).setdefault(sub, []).append((rank, docno))
    return {turn: [[docno for _, docno in sorted(of_turn[sub])] for sub in sorted(of_turn)] for turn, of_turn in lists.items()}


def plain_rrf(lists):
    ranks = {}
    for number, docnos in enumerate(lists):
        for docno in dict.fromkeys(docnos):
            ranks.setdefault(docno, []).append((docnos.index(docno), number))
    total = {docno: round(sum(1 / (61 + rank) for rank, _ in found), 12) for docno, found in ranks.items()}
    return sorted(ranks, key=lambda docno: (-total[docno], min(ranks[docno])))


@given(rows_of_lists)
def test_lists_are_read_as_the_plain_definition_says_in_any_order_with_any_ties(rows):
    lists = read_lists(frame_of(rows))
    found = [[turn.docno[part].tolist() for part in turn.lists] for turn in lists.turns()]
    assert found == list(plain_lists(rows).values())
    assert [rows[row][2] for row in lists.row] == lists.docno.tolist()


@given(rows_of_lists)
def test_fusions_follow_the_plain_definitions_with_ties_repeats_and_missing_lists(rows):
    for operator, plain in ((ikat.Interleave(num_results=None), round_robin), (ikat.RRF(num_results=None), plain_rrf)):
        fused = operator(frame_of(rows))
        found = {qid: of_turn["docno"].tolist() for qid, of_turn in fused.groupby("qid", sort=False)}
        assert found == {turn: plain(lists) for turn, lists in plain_lists(rows).items()}


@given(rows_of_lists)
def test_a_frame_that_is_not_expanded_has_one_list_per_turn(rows):
    rows = [(turn, 0, docno, rank) for (turn, docno), rank in {(turn, docno): rank for turn, _, docno, rank in rows}.items()]
    for operator in (ikat.Interleave(num_results=None), ikat.RRF(num_results=None)):
        fused = operator(frame_of(rows, expanded=False))
        found = {qid: of_turn["docno"].tolist() for qid, of_turn in fused.groupby("qid", sort=False)}
        assert found == {turn: lists[0] for turn, lists in plain_lists(rows).items()}


PUSHING = pt.apply.query(lambda row: f"{row['query']} caffeine")
KEEPING = pt.apply.generic(lambda rows: rows)


@pytest.mark.parametrize(
    "operator",
    [ikat.Interleave(), ikat.RRF(), ikat.Union(), ikat.WeightedSum(), ikat.RerankAgainst(KEEPING, "query"), ikat.MeanScore([KEEPING])],
)
@pytest.mark.parametrize("stages", [0, 1, 2])
@pytest.mark.parametrize("subs", [["a", "b"], ["a"], []])
def test_the_turns_query_comes_back_over_stages_that_pushed_their_own(operator, stages, subs):
    turns = pd.DataFrame({"qid": ["1_1", "1_2"], "query": ["which tea?", "which tram?"], "query_0": ["it?", "that?"]}, dtype=object)
    expanded = ikat.ExplodeQueries()(turns.assign(qsubqueries=[subs, subs]))
    for _ in range(stages):
        expanded = PUSHING(expanded)
    found = expanded.merge(pd.DataFrame({"docno": ["x", "y"], "rank": [0, 1], "score": [2.0, 1.0], "text": "t"}), how="cross")
    fused = operator(found)
    assert fused.drop_duplicates("qid")[["qid", "query"]].values.tolist() == [["1_1", "which tea?"], ["1_2", "which tram?"]]
    if subs:
        assert fused["query_0"].unique().tolist() == ["it?", "that?"]
        assert not {"query_1", "query_2", "query_3", "qquery"} & set(fused.columns)


def test_a_frame_without_the_turns_own_query_is_refused():
    found = frame_of([("9-1_1", 0, "a", 0), ("9-1_1", 1, "b", 0)])
    with pytest.raises(ikat.DataError, match="the turns' own queries aren't in the frame: behind ExplodeQueries, keep its columns qquery"):
        ikat.Interleave()(found.assign(query_0=["a", "b"]))
    with pytest.raises(ikat.DataError, match="own queries"):
        ikat.Interleave()(found.assign(qquery="another"))


def test_sums_of_different_ranks_that_are_equal_tie():
    # 1/10 + 1/15 is 1/6, in floating point one step more: the passage that is 6th in one list has the better rank and comes first.
    lists = [[f"x{n}" for n in range(20)], [f"y{n}" for n in range(20)]]
    lists[0][5], lists[0][9], lists[1][14] = "single", "double", "double"
    assert 1 / 10 + 1 / 15 > 1 / 6
    rows = [("9-1_1", sub, docno, rank) for sub, docnos in enumerate(lists) for rank, docno in enumerate(docnos)]
    order = ikat.RRF(k=0, num_results=None)(frame_of(rows))["docno"].tolist()
    assert order.index("single") < order.index("double")


def test_a_later_sub_query_that_stands_first_is_second_though_the_ranks_rise():
    assert ikat.Interleave()(frame_of([("9-1_1", 1, "b", 0), ("9-1_1", 0, "a", 1)]))["docno"].tolist() == ["a", "b"]


@given(st.lists(st.sampled_from("abcde")))
def test_turns_are_numbered_in_the_order_of_their_first_occurrence(qids):
    numbers = {qid: number for number, qid in enumerate(dict.fromkeys(qids))}
    codes = numbered(np.array(qids, dtype=object))
    assert codes.tolist() == [numbers[qid] for qid in qids]


@pytest.mark.parametrize("missing", [None, float("nan")])
def test_a_row_without_its_turn_is_named(missing):
    found = frame_of([("9-1_1", 0, "a", 0), ("9-1_1", 1, "b", 0)])
    found["qid_0"] = pd.Series(["9-1_1", missing], dtype=object)
    with pytest.raises(ikat.DataError, match="row 1 of the frame has no qid"):
        ikat.Interleave()(found)
