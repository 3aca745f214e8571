"""The columns of fused systems, and of the turns that they are for."""

import numpy as np
import pandas as pd
import pyterrier as pt
import pytest
from fuse.plain import TURNS, Finds, Table, column_of, numbers, with_column, without

import pyterrier_ikat as ikat
from pyterrier_ikat.conversations.frame import NoResultWarning
from pyterrier_ikat.fuse import fusion

pytestmark = pytest.mark.filterwarnings("ignore::pyterrier_ikat.retrieve.NoResultWarning")


def test_the_first_row_of_each_turn_is_found_in_each_frame():
    first, second, third = fusion._find_first_rows(numbers(0, 0, 2, 1, 1, 0), [3, 3, 0])
    assert first.tolist() == [0, -1, 2]
    assert second.tolist() == [2, 0, -1]
    assert third.tolist() == [-1, -1, -1]
    [nothing] = fusion._find_first_rows(numbers(), [0])
    assert nothing.tolist() == []


@pytest.mark.parametrize(
    ("columns", "dtype"),
    [
        ([[1, 2], [3]], "int64"),
        ([[1.5], [2.5]], "float64"),
        ([[1], [2.5]], "object"),
        ([["a"], ["b"]], "object"),
        ([[1], None], "object"),
    ],
)
def test_a_column_keeps_a_number_type_that_all_frames_share(columns, dtype):
    frames = []
    for values in columns:
        if values is None:
            frames.append(pd.DataFrame(index=range(2)))
        else:
            frames.append(pd.DataFrame({"x": values}))
    assert fusion._find_dtype(frames, "x") == dtype


def test_values_of_a_turn_are_those_of_its_last_frame():
    frames = [
        pd.DataFrame({"qanswer": ["old t", "old u"]}),
        pd.DataFrame({"qanswer": ["new t"]}),
        pd.DataFrame({"other": [1]}),
    ]
    firsts = [numbers(0, 1, -1), numbers(0, -1, -1), numbers(-1, -1, 0)]
    assert fusion._unite_turns(frames, firsts, "qanswer").tolist() == ["new t", "old u", None]


def test_values_of_passages_are_those_of_all_frames():
    frames = [pd.DataFrame({"url": ["a", "b"]}), pd.DataFrame({"x": [1, 2]})]
    assert fusion._unite_passages(frames, "url").tolist() == ["a", "b", None, None]
    assert fusion._unite_passages(frames[:1], "url").index.tolist() == [0, 1]


@pytest.mark.parametrize(
    ("lists", "merged"),
    [
        ([], []),
        ([[("1", 0.9)]], [("1", 0.9)]),
        ([[("1", 0.9), ("2", 0.5)], [("2", 0.7)]], [("1", 0.9), ("2", 0.5)]),
        ([[("2", 0.9)], [("1", 0.5), ("2", 0.1)]], [("2", 1.0), ("1", 0.5)]),
        ([[("1", 0.9)], [("2", 0.5)], [("3", 0.1)]], [("1", 1), ("2", 1 / 2), ("3", 1 / 3)]),
    ],
)
def test_statements_are_merged_in_order(lists, merged):
    assert fusion._merge_statements(lists) == merged


@pytest.mark.parametrize(
    ("before", "pushes", "expected"),
    [
        ({}, 0, {}),
        ({}, 1, {"query_0": "tea?"}),
        ({"query_0": "raw"}, 0, {"query_0": "raw"}),
        ({"query_0": "raw"}, 1, {"query_0": "tea?", "query_1": "raw"}),
        ({"query_0": "raw"}, 2, {"query_0": "tea?", "query_1": "raw"}),
    ],
)
def test_a_query_is_pushed_once_whatever_the_branches_push(before, pushes, expected):
    turns = TURNS[:1].assign(**before)
    push = pt.Transformer.identity()
    for number in range(pushes):
        push = push >> pt.apply.query(lambda row, number=number: f"new {number}")
    found = ikat.RRF(Finds({"t": "x"}), push >> Finds({"t": "y"}))(turns)
    pushed = {name: column_of(found, name)["t"] for name in found if name.startswith("query_")}
    assert pushed == expected
    assert found["query"].unique().tolist() == [f"new {pushes - 1}" if pushes else "tea?"]


def test_columns_of_sub_queries_that_a_branch_drops_come_back():
    turns = pd.DataFrame({"qid": ["t::0"], "query": "q", "qid_0": "t", "qsub": 0, "query_0": "?"})
    drops = pt.apply.generic(lambda rows: rows.drop(columns=["qid_0", "qsub", "query_0"]))
    fused = ikat.RRF(drops >> Finds({"t::0": "x"}), drops >> Finds({"t::0": "y"}))(turns)
    assert fused[["qid", "qid_0", "qsub", "query_0"]].values.tolist() == [["t::0", "t", 0, "?"]] * 2
    assert [ikat.RRF()(fused)["qid"].tolist(), fused["docno"].tolist()] == [["t", "t"], ["x", "y"]]


def test_columns_of_one_branch_alone_are_kept_with_their_types():
    turns = TURNS.assign(qturn=[3, 4])
    first = Finds({"t": "x", "u": "x"}, qturn={"t": 3, "u": 4})
    second = first >> with_column(qrewrite="new", url="x.org", qturn=7)
    fused = ikat.Union(first >> with_column(qturn=3), second)(turns)
    assert column_of(fused, "qrewrite") == {"t": "new", "u": "new"}
    assert fused["url"].tolist() == [None, None]
    assert (fused["qturn"].tolist(), fused["qturn"].dtype) == ([7, 7], np.int64)


def test_behind_a_retriever_a_turn_has_its_queries_once():
    turns = TURNS.assign(query_0=["raw t", "raw u"])
    some = pt.apply.generic(lambda rows: rows[rows["qid"] == "u"])
    fused = Finds({"t": "xyz", "u": "yz"}) >> ikat.RRF(Table(), some >> Table())
    with pytest.warns(NoResultWarning, match=r"branch 2 of RRF .* for 1 turn \(t\)"):
        found = fused(turns)
    assert column_of(found, "query_0") == {"t": "raw t", "u": "raw u"}
    assert found.groupby("qid")["docno"].apply(set).to_dict() == {"t": set("xyz"), "u": set("yz")}


def test_all_columns_of_sub_queries_come_back():
    turns = pd.DataFrame({"qid": ["1_1"], "query": ["it?"], "qsubqueries": [["tea", "mint"]]})
    exploded = ikat.ExplodeQueries()(turns).assign(qweight=[1.0, 0.5])
    names = ["qid_0", "qquery", "qpushed", "qsub", "qweight", "query_0"]
    first, second = exploded["qid"]
    bare = without(*names) >> Finds({first: "x", second: "y"})
    fused = ikat.RRF(bare, bare)(exploded)
    assert fused[["qid", *names]].values.tolist() == exploded[["qid", *names]].values.tolist()
    joined = ikat.WeightedSum()(fused)
    assert joined[["qid", "query", "docno", "score"]].values.tolist() == [
        ["1_1", "it?", "x", 0.5],
        ["1_1", "it?", "y", 0.25],
    ]


def test_passage_columns_keep_kinds_and_are_empty_where_lacking():
    kinds = {
        "numbered": [2**60 + 1, 7],
        "found": pd.to_datetime(["2024-01-01", "2024-01-02"]),
        "maybe": pd.array([1, None], dtype="Int64"),
    }
    rows = TURNS.iloc[[0, 0]].assign(docno=["x", "y"], rank=[0, 1], **kinds)
    other = rows.iloc[1:].assign(docno="z")
    united = ikat.Union(pt.apply.generic(lambda _: rows), pt.apply.generic(lambda _: other))(TURNS)
    assert united["docno"].tolist() == ["x", "z", "y"]
    assert united["numbered"].tolist() == [2**60 + 1, 7, 7]
    assert united["found"].tolist() == [
        pd.Timestamp("2024-01-01"),
        pd.Timestamp("2024-01-02"),
        pd.Timestamp("2024-01-02"),
    ]
    assert united["maybe"].isna().tolist() == [False, True, True]
    assert united[["numbered", "maybe"]].dtypes.tolist() == ["int64", "Int64"]
    first = Finds({"t": ["x"]}) >> pt.apply.generic(lambda rows: rows.assign(url="x.org", length=7))
    united = ikat.Union(first, Finds({"t": ["y", "x"]}))(TURNS)
    assert united[["docno", "url", "length"]].values.tolist() == [
        ["x", "x.org", 7],
        ["y", None, None],
    ]


def test_the_last_branch_with_turn_and_column_gives_the_values():
    history = [{"role": "user", "content": "hi"}]
    turns = TURNS.assign(qhistory=ikat.conversations.frame.column([history, []]), qturn=[3, 4])
    gpt = Finds(
        {"t": ["x", "y"], "u": ["x"]},
        qanswer={"t": "gpt t", "u": "gpt u"},
        qrewrite={"t": "only t"},
        query_toks={"t": {"x": 1}},
    )
    claude = Finds({"t": ["z"]}, qanswer={"t": "claude t"}, query={"t": "claude's query"})
    united = ikat.Union(gpt, claude)(turns)
    assert column_of(united, "qanswer") == {"t": "claude t", "u": "gpt u"}
    assert column_of(united, "qrewrite") == {"t": "only t", "u": None}
    assert column_of(united, "query") == {"t": "claude's query", "u": "coffee?"}
    assert column_of(united, "qturn") == {"t": 3, "u": 4}
    assert "query_toks" not in united.columns  # it was computed from another query
    assert all(value is history for value in united.loc[united["qid"] == "t", "qhistory"])


@pytest.mark.parametrize(
    ("first", "second", "expected"),
    [
        (
            [("3", 0.9), ("1", 0.4)],
            [("1", 1.0), ("7", 0.5)],
            [("3", 1.0), ("1", 0.5), ("7", pytest.approx(1 / 3))],
        ),
        ([("3", 0.9), ("1", 0.4)], [("1", 1.0)], [("3", 0.9), ("1", 0.4)]),
        ([], [("1", 0.7)], [("1", 0.7)]),
        (None, [("1", 0.7)], [("1", 0.7)]),
        ([("3", 0.9)], [], [("3", 0.9)]),
        ([], [], []),
    ],
)
def test_statements_are_united_in_the_order_of_the_branches(first, second, expected):
    united = ikat.Union(
        Finds({"t": ["x"]}, qstatements={"t": first}),
        Finds({"t": ["y"]}, qstatements={"t": second}),
    )(TURNS)
    assert column_of(united, "qstatements") == {"t": expected}
