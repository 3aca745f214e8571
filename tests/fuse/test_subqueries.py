"""The lists of sub-queries: read, weighted, summed, and brought back to the rows of their turns."""

import numpy as np
import pandas as pd
import pyterrier as pt
import pytest
from fuse.plain import (
    TURNS,
    Finds,
    Table,
    expanded,
    frame_of,
    lists_of,
    numbers,
    with_column,
)
from hypothesis import given
from hypothesis import strategies as st

import pyterrier_ikat as ikat
from pyterrier_ikat.conversations.frame import column, numbered
from pyterrier_ikat.errors import DataError
from pyterrier_ikat.fuse import subqueries
from pyterrier_ikat.fuse.subqueries import (
    Lists,
    concatenate_turns,
    drop_sub_queries,
    mark_first,
    read_lists,
    read_weights,
    restore_turns,
    sort_lists,
    sum_shares,
)
from pyterrier_ikat.lost_columns import LostColumns, LostColumnsWarning

# Rows out of order: turn u begins, and t's second list stands before its first.
ROWS_OUT_OF_ORDER = [
    ("u", 0, "x", 0),
    ("t", 1, "b", 0),
    ("t", 0, "b", 1),
    ("u", 1, "y", 1),
    ("t", 0, "a", 0),
    ("u", 1, "x", 0),
]


def test_lists_are_read_by_turn_sub_query_and_rank():
    lists = read_lists(frame_of(ROWS_OUT_OF_ORDER))
    assert lists.row.tolist() == [0, 5, 3, 4, 2, 1]
    assert lists.turn.tolist() == [0, 0, 0, 1, 1, 1]
    assert lists.sub.tolist() == [0, 1, 1, 0, 0, 1]
    assert lists.docno.tolist() == ["x", "x", "y", "a", "b", "b"]
    assert lists.starts().tolist() == [0, 1, 3, 5]
    first, second = lists.turns()
    assert (first.row.tolist(), first.lists) == ([0, 5, 3], [slice(0, 1), slice(1, 3)])
    assert (second.docno.tolist(), second.lists) == (["a", "b", "b"], [slice(0, 2), slice(2, 3)])


def test_a_list_begins_with_each_turn_also_of_one_number():
    """Two turns that each have the one list 0, and a turn whose lists are 0 and 2."""
    lists = Lists(numbers(0, 1, 2, 3), numbers(0, 1, 2, 2), numbers(0, 0, 0, 2), column("abcd"))
    assert lists.starts().tolist() == [0, 1, 2, 3]


@pytest.mark.parametrize(
    ("ranks", "docnos", "order"),
    [
        ([0, 1, 2], "abc", [0, 1, 2]),
        ([2, 1, 0], "abc", [2, 1, 0]),
        ([1, 0, 1], "cba", [1, 2, 0]),
        ([0, 0, 0], "bca", [2, 0, 1]),
        ([0.5, 0.25, 0.5], "bca", [1, 2, 0]),
    ],
)
def test_equal_ranks_of_a_list_go_by_docno(ranks, docnos, order):
    zeros = np.zeros(3, dtype=np.int64)
    lists = sort_lists(zeros, zeros, np.array(ranks, dtype=np.float64), column(docnos).to_numpy())
    assert lists.row.tolist() == order
    assert lists.docno.tolist() == [docnos[row] for row in order]


def test_rows_of_several_systems_are_put_together_by_turn():
    turn, sub = numbers(0, 0, 1, 0, 1), numbers(0, 0, 0, 1, 1)
    lists = sort_lists(turn, sub, np.array([0.0, 1, 0, 0, 0]), column("abcde").to_numpy())
    assert lists.row.tolist() == [0, 1, 3, 2, 4]
    lists = sort_lists(turn, sub[::-1], np.array([0.0, 1, 0, 0, 0]), column("abcde").to_numpy())
    assert lists.row.tolist() == [3, 0, 1, 2, 4]


def test_a_turn_knows_lists_ranks_and_passages_of_its_rows():
    turn = lists_of("ba", "cab")
    assert turn.number().tolist() == [0, 0, 1, 1, 1]
    assert turn.rank().tolist() == [0, 1, 0, 1, 2]
    assert turn.passages().tolist() == [0, 1, 2, 1, 0]
    assert turn.first_occurrences().tolist() == [0, 1, 2]


@pytest.mark.parametrize(
    ("lists", "shares", "expected"),
    [
        (["ab"], [5, 3], {"a": 5, "b": 3}),
        (["ab", "bc"], [1, 2, 4, 8], {"a": 1, "b": 6, "c": 8}),
        (["ab", "ba"], [1, 2, 4, 8], {"a": 9, "b": 6}),
        (["aab"], [1, 2, 4], {"a": 1, "b": 4}),  # its better rank
        (["ba", "aba"], [1, 2, 4, 8, 16], {"b": 9, "a": 6}),
        (["xa", "yza"], [1, 2, 4, 8, 16], {"x": 1, "y": 4, "a": 18, "z": 8}),
    ],
)
def test_shares_are_summed_over_lists_best_rank_first(lists, shares, expected):
    turn = lists_of(*lists)
    best, total = sum_shares(turn, np.array(shares, dtype=np.float64))
    found = dict(zip(turn.docno[best].tolist(), total.tolist(), strict=True))
    assert found == expected
    assert list(found) == list(expected)


def test_the_best_position_is_that_of_the_earliest_list():
    best, total = sum_shares(lists_of("xa", "ya", "za"), np.ones(6))
    assert best.tolist() == [0, 2, 4, 1]
    assert total.tolist() == [1, 1, 1, 3]


@pytest.mark.parametrize(
    ("turn", "number", "expected"),
    [
        ([0, 0, 0, 1], 2, [True, True, False, True]),
        ([0, 0, 0, 1], 1, [True, False, False, True]),
        ([0, 0, 0, 1], None, [True] * 4),
        ([], 2, []),
        ([3, 3, 5], 1, [True, False, True]),
    ],
)
def test_the_first_rows_of_each_turn_are_marked(turn, number, expected):
    assert mark_first(numbers(*turn), number).tolist() == expected


def test_turns_are_numbered_also_without_rows():
    rows, turn = concatenate_turns([numbers(4, 2), numbers(), numbers(9)])
    assert (rows.tolist(), turn.tolist()) == ([4, 2, 9], [0, 0, 2])
    rows, turn = concatenate_turns([])
    assert (rows.tolist(), turn.tolist()) == ([], [])


@given(st.lists(st.sampled_from("abcde")))
def test_turns_are_numbered_by_their_first_occurrence(qids):
    numbers = {qid: number for number, qid in enumerate(dict.fromkeys(qids))}
    assert numbered(np.array(qids, dtype=object)).tolist() == [numbers[qid] for qid in qids]


# Weights


def test_each_list_has_the_weight_of_its_sub_query():
    frame = frame_of(ROWS_OUT_OF_ORDER, {0: 0.25, 1: 2.0})
    lists = read_lists(frame)
    assert read_weights(frame, lists).tolist() == [0.25, 2.0, 0.25, 2.0]
    assert read_weights(frame.drop(columns="qweight"), lists).tolist() == [1.0] * 4
    zero = frame_of(ROWS_OUT_OF_ORDER, {0: 0.0, 1: 1.0})
    assert read_weights(zero, lists).tolist() == [0.0, 1.0, 0.0, 1.0]


def test_weights_that_another_stage_dropped_are_told():
    frame = frame_of(ROWS_OUT_OF_ORDER, {0: 0.25, 1: 2.0})
    drops = pt.apply.generic(lambda rows: rows.drop(columns="qweight"))
    lost = LostColumns("mine", drops, frame, set())
    told = pytest.warns(LostColumnsWarning, match="an operator would read qweight")
    with lost.watching(), told:
        read_weights(drops(frame), read_lists(frame))


@pytest.mark.parametrize("wrong", [-1.0, float("nan"), float("inf")])
def test_the_first_sub_query_with_a_wrong_weight_is_named(wrong):
    frame = expanded({"s": ["abc"], "t": ["a", "b"], "u": ["a", "b"]})
    weights = {"s::0": 1.0, "t::0": 1.0, "t::1": 2.0, "u::0": 5.0, "u::1": wrong}
    frame["qweight"] = [weights[qid] for qid in frame["qid"]]
    with pytest.raises(DataError, match="the weights of u::"):
        read_weights(frame, read_lists(frame))
    frame["qweight"] = [0.0 if qid == "s::0" else 1.0 for qid in frame["qid"]]
    with pytest.raises(DataError, match="the weights of s::0's turn"):
        read_weights(frame, read_lists(frame))


# From sub-queries to turns


def exploded(turns, pushed=0):
    """Rows of two sub-queries for each turn, with queries pushed before and after."""
    frame = ikat.ExplodeQueries()(turns.assign(qsubqueries=[["a", "b"]] * len(turns)))
    for number in range(pushed):
        frame = ikat.conversations.frame.with_query(frame, [f"later {number}"] * len(frame))
    return frame


REWRITTEN_TURNS = pd.DataFrame(
    {"qid": ["t", "u"], "query": ["tea?", "tram?"], "query_0": ["it?", "that?"]}
)


@pytest.mark.parametrize("pushed", [0, 1, 2])
def test_rows_of_turns_have_their_own_queries_and_no_sub_query(pushed):
    frame = exploded(REWRITTEN_TURNS, pushed).assign(
        qweight=0.5, query_toks=0, query_vec=0, docno="x"
    )
    turns = restore_turns(frame, numbers(3, 0))
    assert turns.columns[0] == "qid"
    assert turns.drop(columns="qsubqueries", errors="ignore").to_dict("list") == {
        "qid": ["u", "t"],
        "query": ["tram?", "tea?"],
        "query_0": ["that?", "it?"],
        "docno": ["x", "x"],
        "qfound": [[1, 1], [1, 1]],
    }


def test_a_frame_without_sub_queries_has_its_rows_taken():
    frame = pd.DataFrame({"qid": ["t", "u"], "query": ["a", "b"]}, index=[5, 6])
    turns = restore_turns(frame, numbers(1))
    assert turns.to_dict("list") == {"qid": ["u"], "query": ["b"]}
    assert turns.index.tolist() == [0]
    assert drop_sub_queries(frame) is frame


def test_a_frame_made_by_hand_has_its_queries_in_query_0():
    turns = restore_turns(expanded({"t": ["a"], "u": ["b"]}), numbers(1))
    assert turns[["qid", "query", "docno"]].values.tolist() == [["u", "u?", "b"]]
    assert ikat.RRF(k=0)(expanded({"t": ["a", "a"]}))["score"].tolist() == [2.0]


@pytest.mark.parametrize(
    ("subs", "most"), [([0, 1, 0], 2), ([0], 1), ([0, 3, 1], 4), ([], 1), (None, 1)]
)
def test_the_most_sub_queries_of_a_turn_are_counted(subs, most):
    frame = pd.DataFrame({"qid": ["t"]})
    if subs is not None:
        frame = pd.DataFrame({"qid_0": ["t"] * len(subs), "qsub": subs})
    assert subqueries.most_sub_queries(frame) == most


def test_in_a_plan_each_turn_is_one_row():
    turns = drop_sub_queries(exploded(REWRITTEN_TURNS))
    assert turns[["qid", "query", "query_0"]].values.tolist() == [
        ["t", "tea?", "it?"],
        ["u", "tram?", "that?"],
    ]
    assert "qfound" not in turns.columns
    empty = drop_sub_queries(exploded(REWRITTEN_TURNS)[:0])
    assert len(empty) == 0
    assert "qsub" not in empty.columns


@pytest.mark.parametrize(
    "change",
    [
        lambda frame: frame.drop(columns=["query_0", "query_1"]),
        lambda frame: frame.drop(columns="query_1"),
        lambda frame: frame.assign(qpushed=9),
        lambda frame: frame.assign(qpushed=0),
        lambda frame: frame.assign(query_0="another"),
        lambda frame: frame.assign(query_0=["tea?", "x", "tram?", "tram?"]),
        lambda frame: frame.assign(query_0=["tea?", "x", "tram?", "y"]).drop(columns="qquery"),
    ],
    ids=["none", "fewer", "too many", "too few", "all others", "another", "two of one turn"],
)
def test_queries_of_turns_that_are_lost_are_told(change):
    frame = exploded(REWRITTEN_TURNS)
    restore_turns(frame.drop(columns="qquery"), numbers(0, 1, 2, 3))
    with pytest.raises(DataError, match="the turns' own queries aren't in the frame"):
        restore_turns(change(frame), numbers(0, 1, 2, 3))


def test_finds_of_each_sub_query_are_counted_without_end_zeros():
    frame = expanded({"t": ["ab", "", "c"], "u": ["d"], "v": ["", "ef"]})
    counts = subqueries._count_found(frame, numbers(0, 2, 3, 4))
    assert counts.tolist() == [[2, 0, 1], [2, 0, 1], [1], [0, 2]]
    assert subqueries._count_found(frame[:0], numbers()).tolist() == []


FUSIONS = [
    ikat.Interleave(),
    ikat.Union(),
    ikat.RRF(),
    ikat.WeightedSum(),
    ikat.RerankAgainst(Table(), "qanswer"),
    ikat.MeanScore([Table()]),
]
EVERY_FUSION = pytest.mark.parametrize("fusion", FUSIONS, ids=lambda fusion: type(fusion).__name__)


@EVERY_FUSION
def test_the_turn_gets_qid_and_query_back_and_what_queries_found(fusion):
    history = [{"role": "user", "content": "tea?"}]
    found = expanded({"t": [["a", "b"], [], ["a"]], "u": [["c"], []]}).assign(
        query_1="raw", query_vec=0, query_toks=0, qweight=1.0
    )
    found["qhistory"] = [history] * len(found)
    fused = fusion(found)
    assert fused["qid"].tolist() == ["t", "t", "u"]
    assert fused["query"].tolist() == ["t?", "t?", "u?"]
    assert fused["query_0"].unique().tolist() == ["raw"]
    assert set(fused.columns) == {
        "qid",
        "query",
        "query_0",
        "docno",
        "score",
        "rank",
        "text",
        "qanswer",
        "qhistory",
        "qfound",
    }
    assert fused["qfound"].tolist() == [[2, 0, 1], [2, 0, 1], [1]]
    assert fused.columns[0] == "qid"
    assert all(value is history for value in fused["qhistory"])
    assert fused["text"].tolist() == ("text of " + fused["docno"]).tolist()


@EVERY_FUSION
@pytest.mark.parametrize(
    ("stages", "subs"), [(0, ["a", "b"]), (2, ["a", "b"]), (2, ["a"]), (2, [])]
)
def test_the_turns_query_returns_over_stages_pushing_their_own(fusion, stages, subs):
    turns = pd.DataFrame(
        {
            "qid": ["1_1", "1_2"],
            "query": ["which tea?", "which tram?"],
            "query_0": ["it?", "that?"],
        },
        dtype=object,
    )
    found = ikat.ExplodeQueries()(turns.assign(qsubqueries=[subs, subs], qanswer="yes"))
    for _ in range(stages):
        found = pt.apply.query(lambda row: f"{row['query']} caffeine")(found)
    passages = pd.DataFrame({"docno": ["x", "y"], "rank": [0, 1], "score": [2.0, 1.0], "text": "t"})
    fused = fusion(found.merge(passages, how="cross"))
    assert fused.drop_duplicates("qid")[["qid", "query"]].values.tolist() == [
        ["1_1", "which tea?"],
        ["1_2", "which tram?"],
    ]
    if subs:
        assert fused["query_0"].unique().tolist() == ["it?", "that?"]
        assert not {"query_1", "query_2", "query_3", "qquery"} & set(fused.columns)


@pytest.mark.parametrize("dropped", [[], ["qquery"]])
def test_a_sub_query_like_the_turns_own_is_not_taken_for_it(dropped):
    turns = pd.DataFrame({"qid": ["1_1"], "query": ["mint"], "qsubqueries": [["mint"]]})
    exploded = ikat.ExplodeQueries()(turns).drop(columns=dropped)
    passages = pd.DataFrame({"docno": ["x"], "rank": [0]})
    found = pt.apply.query(lambda row: "mint tea")(exploded).merge(passages, how="cross")
    fused = ikat.RRF()(found)
    assert fused["query"].tolist() == ["mint"]
    assert not [name for name in fused.columns if name.startswith("query_")]


def test_a_frame_without_the_turns_own_query_or_qid_is_refused():
    found = frame_of([("9-1_1", 0, "a", 0), ("9-1_1", 1, "b", 0)])
    message = (
        "the turns' own queries aren't in the frame: behind ExplodeQueries, keep its columns qquery"
    )
    for wrong in ({"query_0": ["a", "b"]}, {"qquery": "another"}):
        with pytest.raises(ikat.DataError, match=message):
            ikat.Interleave()(found.assign(**wrong))
    for missing in (None, float("nan")):
        qids = pd.Series(["9-1_1", missing], dtype=object)
        with pytest.raises(ikat.DataError, match="row 1 of the frame has no qid"):
            ikat.Interleave()(found.assign(qid_0=qids))


# Plans


def test_a_plan_adds_up_the_passages_of_the_sub_queries():
    """By hand: a turn's two sub-queries find at most three passages each, another's one three."""
    llm = ikat.llm("recorded:sample")
    explode = with_column(qsubqueries=column([["a", "b"], ["c"]])) >> ikat.ExplodeQueries()
    for num_results, calls in ((None, 12), (4, 8)):
        fused = explode >> Finds({}) % 3 >> ikat.RRF(num_results=num_results)
        planned = ikat.plan({"S": fused >> ikat.LLMRerank(llm)}, TURNS)
        assert planned["calls"].tolist() == [calls]


def test_a_plan_of_sub_queries_goes_on_with_the_turns():
    """By hand: two sub-queries of two turns find three passages each, which are re-ranked."""
    llm = ikat.llm("recorded:sample")
    explode = with_column(qsubqueries=column([["a", "b"]] * 2)) >> ikat.ExplodeQueries()
    against = ikat.RerankAgainst(ikat.LLMRerank(llm), "query")
    for fused, reranked in ((ikat.RRF(), {}), (against, {"rerank": 12})):
        planned = ikat.plan({"S": explode >> Finds({}) % 3 >> fused >> ikat.Rewrite(llm)}, TURNS)
        calls = dict(zip(planned["stage"], planned["calls"], strict=True))
        assert calls == {**reranked, "rewrite": 2}
