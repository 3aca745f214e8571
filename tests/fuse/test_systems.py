"""Fusing systems: the same as running them by hand, tagging their results as sub-queries and fusing those."""

import pickle

import numpy as np
import pandas as pd
import pyterrier as pt
import pytest
from fuse.plain import round_robin
from fuse.test_subqueries import plain_rrf
from fuse.test_union import TURNS, Finds, column_of
from fuse.test_weighted_sum import by_rank
from hypothesis import given, settings
from hypothesis import strategies as st

import pyterrier_ikat as ikat
from pyterrier_ikat.retrieve import NoResultWarning
from pyterrier_ikat.show import draw

pytestmark = pytest.mark.filterwarnings("ignore::pyterrier_ikat.retrieve.NoResultWarning")
PLAIN = {ikat.Interleave: round_robin, ikat.Union: round_robin, ikat.RRF: plain_rrf, ikat.WeightedSum: by_rank}
FUSIONS = pytest.mark.parametrize("fusion", PLAIN, ids=lambda fusion: fusion.__name__)

found_by_branch = st.lists(
    st.dictionaries(st.sampled_from("tu"), st.lists(st.sampled_from("abcdef"), unique=True, max_size=5)), min_size=1, max_size=4
)
two_queries = pt.apply.generic(lambda turns: turns.assign(qsubqueries=[["a", "b"]] * len(turns))) >> ikat.ExplodeQueries()


def by_hand(branches, turns):
    """The branches' results as those of sub-queries."""
    frames = [
        branch(turns).assign(qsub=number, qid_0=lambda rows: rows["qid"], query_0="?", qquery="?") for number, branch in enumerate(branches)
    ]
    tagged = pd.concat(frames, ignore_index=True)
    return tagged.assign(qid=[f"{qid}::{number}" for qid, number in zip(tagged["qid_0"], tagged["qsub"], strict=True)])


@FUSIONS
@given(found_by_branch, st.none() | st.integers(1, 4))
def test_systems_are_fused_as_by_hand_and_as_the_plain_definition_says(fusion, found, num_results):
    branches = [Finds(passages) for passages in found]
    fused = fusion(*branches, num_results=num_results)(TURNS)
    columns = ["qid", "docno", "score", "rank", "text"]
    assert fused[columns].equals(fusion(num_results=num_results)(by_hand(branches, TURNS))[columns])
    for qid, rows in fused.groupby("qid"):
        assert rows["docno"].tolist() == PLAIN[fusion]([passages.get(qid, []) for passages in found])[:num_results]
        assert (np.diff(rows["score"].astype(np.float32)) < 0).all()


@FUSIONS
@given(st.lists(st.dictionaries(st.sampled_from(["t::0", "t::1", "u::0", "u::1"]), st.lists(st.sampled_from("abcd"), unique=True))))
@settings(max_examples=15, deadline=None)
def test_a_hybrid_between_sub_queries_joins_within_each_of_them(fusion, found):
    branches = [Finds(passages) for passages in [*found, {}]]
    hybrid = (two_queries >> fusion(*branches))(TURNS)
    for qid, rows in hybrid.groupby("qid"):
        assert rows["docno"].tolist() == PLAIN[fusion]([branch.passages.get(qid, []) for branch in branches])
        assert rows[["qid_0", "qsub", "query", "query_0"]].drop_duplicates().values.tolist() == [
            [qid[0], int(qid[-1]), "ab"[int(qid[-1])], dict(TURNS.values.tolist())[qid[0]]]
        ]
    turns = (two_queries >> fusion(*branches) % 1000 >> ikat.Interleave())(TURNS)
    for qid, rows in turns.groupby("qid"):
        lists = [hybrid.loc[hybrid["qid"] == f"{qid}::{sub}", "docno"].tolist() for sub in (0, 1)]
        assert rows["docno"].tolist() == round_robin(lists)
        assert rows[["query"]].drop_duplicates().values.tolist() == [[dict(TURNS.values.tolist())[qid]]]


@FUSIONS
def test_each_branch_runs_once_and_gets_the_turns(fusion):
    seen = []
    branch = pt.apply.generic(lambda turns: seen.append(turns["query"].tolist()) or turns.assign(docno="x", rank=0, score=1.0))
    fusion(branch, branch)(TURNS)
    assert seen == [["tea?", "coffee?"]] * 2


@FUSIONS
def test_foreign_pipelines_that_rewrite_their_query_are_fused(fusion):
    def asks(text, *docnos):
        return pt.apply.query(lambda row: text) >> pt.apply.generic(
            lambda turns: turns.merge(pd.DataFrame({"docno": docnos, "rank": range(len(docnos)), "score": 1.0}), how="cross")
        )

    fused = fusion(asks("tea", "x", "y"), asks("mate", "y", "z"))(TURNS.assign(query_0=["raw t", "raw u"]))
    assert sorted(fused["docno"]) == sorted("xyz" * 2)
    assert column_of(fused, "query") == {"t": "mate", "u": "mate"}
    assert column_of(fused, "query_0") == {"t": "tea?", "u": "coffee?"}
    assert column_of(fused, "query_1") == {"t": "raw t", "u": "raw u"}


def test_sub_queries_that_branches_rewrite_differently_often_come_back_to_their_turns():
    push = pt.apply.query(lambda row: row["query"] + "!")
    for first, second in ((push, push >> push), (push >> push, push), (pt.Transformer.identity(), push)):
        hybrid = ikat.RRF(first >> Finds({"t::0": "xy", "u::0": "x"}), second >> Finds({"t::0": "z", "u::1": "y"}))
        fused = (two_queries >> hybrid >> ikat.RRF())(TURNS)
        assert column_of(fused, "query") == {"t": "tea?", "u": "coffee?"}
        assert not {"query_0", "query_1", "qsub", "qid_0"} & set(fused.columns)


@FUSIONS
def test_a_branch_that_returns_sub_queries_is_refused_before_the_next_runs_and_in_a_plan(fusion):
    def never(turns):
        raise AssertionError

    fused = fusion(two_queries >> Finds({"t::0": "x"}), pt.apply.generic(never))
    text = f"branch 1 of {fusion.__name__} returns t::0, which is not a qid of its input: .* join its own sub-queries at its end"
    with pytest.raises(ikat.DataError, match=text):
        fused(TURNS)
    with pytest.raises(ikat.DataError, match=text):
        ikat.plan({"S": fused}, TURNS)
    assert set(fusion(two_queries >> Finds({"t::0": "x"}) >> ikat.Union(), Finds({}))(TURNS)["qid"]) == {"t"}


def test_a_branch_that_joins_the_incoming_sub_queries_is_refused():
    hybrid = two_queries >> ikat.RRF(Finds({"t::0": "x"}), Finds({"t::0": "x"}) >> ikat.Interleave())
    with pytest.raises(ikat.DataError, match="branch 2 of RRF returns t, which is not a qid of its input"):
        hybrid(TURNS)


def test_a_cut_is_fused_where_scores_stay():
    fused = ikat.RRF(Finds({"t": "xyz"}), Finds({"t": "zw"}), k=10)
    assert (fused % 2).compile() == ikat.RRF(*fused.branches, k=10, num_results=2)
    pd.testing.assert_frame_equal((fused % 2).compile()(TURNS), (fused % 2)(TURNS).reset_index(drop=True))
    for other in (ikat.Interleave(*fused.branches), ikat.Union(*fused.branches)):
        pd.testing.assert_frame_equal((other % 2).compile()(TURNS), (other % 2)(TURNS))


@FUSIONS
def test_fusions_of_systems_are_values_that_travel_and_are_drawn_with_their_branches(fusion):
    first, second = ikat.RawUtterance() >> Finds({"t": ["x"]}), Finds({"t": ["y"]})
    fused = fusion(first, second, num_results=7)
    assert fused == fusion(ikat.RawUtterance() >> Finds({"t": ["x"]}), Finds({"t": ["y"]}), num_results=7)
    assert len({fused, fusion(second, first, num_results=7), fusion(num_results=7), fusion(first, second)}) == 4
    assert hash(pickle.loads(pickle.dumps(fused))) == hash(fused)
    plain = fusion(ikat.RawUtterance(), ikat.AllUtterances(), num_results=7)
    assert repr(plain) == f"ikat.{fusion.__name__}(ikat.RawUtterance(), ikat.AllUtterances(), num_results=7)"
    assert eval(repr(plain)) == plain
    assert pt.inspect.subtransformers(fused) == {"branches": [first, second]}
    assert pt.schematic.transformer_schematic(fused)["inner_pipelines_mode"] == "linked"
    assert draw(fused).html.count("Finds") >= 2
    assert not fusion.one_row_per_turn


def test_a_plan_counts_what_the_branches_ask_and_what_they_leave():
    llm = ikat.llm("recorded:sample")
    fused = ikat.RRF(ikat.Answer(llm) >> Finds({}), ikat.Rewrite(llm) >> Finds({}) % 3, num_results=4) >> ikat.LLMRerank(llm)
    planned = ikat.plan({"S": fused}, TURNS)
    assert planned["stage"].tolist() == ["answer", "rewrite", "rerank"]
    assert planned["calls"].tolist() == [2, 2, 8]


@FUSIONS
def test_a_turn_that_one_system_lacks_is_named(fusion):
    with pytest.warns(NoResultWarning, match=f"branch 2 of {fusion.__name__} found no passage for 1 turn .u."):
        fusion(Finds({"t": "x", "u": "x"}), Finds({"t": "y"}))(TURNS)


TestRRFOfSystems = pt.testing.transformer_test_class(lambda: ikat.RRF(ikat.RawUtterance() >> Finds({}), Finds({}), num_results=5))
