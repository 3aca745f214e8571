"""The union of whole systems, against a plain definition and worked examples."""

import warnings

import pandas as pd
import pyterrier as pt
import pytest
from hypothesis import given
from hypothesis import strategies as st
from plain import round_robin

import pyterrier_ikat as ikat
from pyterrier_ikat.operator import Operator
from pyterrier_ikat.retrieve import NoResultWarning

pytestmark = pytest.mark.filterwarnings("ignore::pyterrier_ikat.retrieve.NoResultWarning")
TURNS = pd.DataFrame({"qid": ["t", "u"], "query": ["tea?", "coffee?"]}, dtype=object)


class Finds(Operator):
    """A branch that finds given passages for each turn, and sets query columns to given values."""

    schematic = {"label": "Finds"}

    def __init__(self, passages, **columns):
        super().__init__()
        self.passages, self.columns = passages, columns

    def arguments(self):
        return {"passages": self.passages, "columns": self.columns}

    def transform(self, inp):
        pt.validate.query_frame(inp, extra_columns=["query"], context=self)
        rows = [
            {**turn, **{name: value.get(turn["qid"]) for name, value in self.columns.items()}}
            | {"docno": docno, "score": 9.0 - rank, "rank": rank, "text": f"text of {docno}"}
            for turn in inp.to_dict("records")
            for rank, docno in enumerate(self.passages.get(turn["qid"], []))
        ]
        names = list(dict.fromkeys([*inp.columns, *self.columns, "docno", "score", "rank", "text"]))
        return pd.DataFrame(rows, columns=names, dtype=object).astype({"score": "float64", "rank": "int64"})

    def __repr__(self):
        return f"Finds({self.passages!r})"


def column_of(frame, name):
    """qid -> the one value that the turn has in the column."""
    found = {}
    for qid, value in zip(frame["qid"], frame[name], strict=True):
        assert found.setdefault(qid, value) == value
    return found


def test_the_branches_take_turns_and_scores_count_down():
    united = ikat.Union(Finds({"t": ["x", "y"], "u": ["x"]}), Finds({"t": ["z", "x", "w"]}))(TURNS)
    assert united[["qid", "query", "docno", "score", "rank", "text"]].values.tolist() == [
        ["t", "tea?", "x", 4.0, 0, "text of x"],
        ["t", "tea?", "z", 3.0, 1, "text of z"],
        ["t", "tea?", "y", 2.0, 2, "text of y"],
        ["t", "tea?", "w", 1.0, 3, "text of w"],
        ["u", "coffee?", "x", 1.0, 0, "text of x"],
    ]


docnos = st.lists(st.sampled_from("abcdef"), unique=True, max_size=5)
branches = st.lists(st.dictionaries(st.sampled_from("tu"), docnos), min_size=1, max_size=4)


@given(branches)
def test_the_order_is_the_plain_definition_for_any_branches(found):
    united = ikat.Union(*(Finds(passages) for passages in found))(TURNS)
    for qid in "tu":
        rows = united[united["qid"] == qid]
        assert rows["docno"].tolist() == round_robin([passages.get(qid, []) for passages in found])
        assert rows["rank"].tolist() == list(range(len(rows)))
        assert rows["score"].tolist() == [float(left) for left in range(len(rows), 0, -1)]
        assert set(rows["query"]) <= set(TURNS.loc[TURNS["qid"] == qid, "query"])
    assert set(united["qid"]) <= {"t", "u"}


@given(branches, st.randoms(use_true_random=False))
def test_branches_may_give_their_rows_in_any_order(found, random):
    def shuffled(rows):
        places = list(range(len(rows)))
        random.shuffle(places)
        return rows.iloc[places]

    united = ikat.Union(*(Finds(passages) >> pt.apply.generic(shuffled) for passages in found))(TURNS)
    for qid in "tu":
        of_turn = united[united["qid"] == qid].sort_values("rank")["docno"].tolist()
        assert of_turn == round_robin([passages.get(qid, []) for passages in found])


def test_a_passage_column_is_empty_where_its_branch_lacks_it():
    first = Finds({"t": ["x"]}) >> pt.apply.generic(lambda rows: rows.assign(url="x.org", length=7))
    united = ikat.Union(first, Finds({"t": ["y", "x"]}))(TURNS)
    assert united[["docno", "url", "length"]].values.tolist() == [["x", "x.org", 7], ["y", None, None]]


def test_the_last_branch_that_has_the_turn_and_the_column_gives_the_turns_values():
    gpt = Finds({"t": ["x", "y"], "u": ["x"]}, qanswer={"t": "gpt t", "u": "gpt u"}, qrewrite={"t": "only t", "u": "only u"})
    claude = Finds({"t": ["z"]}, qanswer={"t": "claude t"}, query={"t": "claude's query"})
    united = ikat.Union(gpt, claude)(TURNS)
    assert column_of(united, "qanswer") == {"t": "claude t", "u": "gpt u"}
    assert column_of(united, "qrewrite") == {"t": "only t", "u": "only u"}
    assert column_of(united, "query") == {"t": "claude's query", "u": "coffee?"}


def test_a_turn_that_only_the_other_branch_has_lacks_what_that_branch_lacks():
    united = ikat.Union(Finds({"t": ["x", "y"]}, qanswer={"t": "yes"}), Finds({"u": ["x"]}))(TURNS)
    assert column_of(united, "qanswer") == {"t": "yes", "u": None}


@pytest.mark.parametrize(
    ("first", "second", "expected"),
    [
        ([("3", 0.9), ("1", 0.4)], [("1", 1.0), ("7", 0.5)], [("3", 1.0), ("1", 0.5), ("7", pytest.approx(1 / 3))]),
        ([("3", 0.9), ("1", 0.4)], [("1", 1.0)], [("3", 0.9), ("1", 0.4)]),
        ([], [("1", 0.7)], [("1", 0.7)]),
        (None, [("1", 0.7)], [("1", 0.7)]),
        ([("3", 0.9)], [], [("3", 0.9)]),
        ([], [], []),
    ],
)
def test_statements_are_united_in_the_order_of_the_branches(first, second, expected):
    united = ikat.Union(Finds({"t": ["x"]}, qstatements={"t": first}), Finds({"t": ["y"]}, qstatements={"t": second}))(TURNS)
    assert column_of(united, "qstatements") == {"t": expected}


def test_conversation_columns_are_carried_as_the_same_objects_and_numbers_stay_numbers():
    history = [{"role": "user", "content": "hi"}]
    turns = TURNS.assign(qhistory=ikat.conversations.frame.column([history, []]), qturn=[3, 4])
    before = turns.copy()
    united = ikat.Union(Finds({"t": ["x"]}), Finds({"t": ["y"]}))(turns)
    assert all(value is history for value in united["qhistory"])
    assert column_of(united, "qturn") == {"t": 3}
    pd.testing.assert_frame_equal(turns, before)


def test_numeric_columns_keep_their_type_where_all_branches_have_them():
    numbered = pt.apply.generic(lambda turns: turns.assign(docno="x", rank=0, qturn=pd.Series([3] * len(turns), dtype="int64")))
    for turns in (TURNS, TURNS.iloc[:1], TURNS.iloc[:0]):
        united = ikat.Union(numbered, numbered)(turns)
        assert united["qturn"].tolist() == [3] * len(turns)
        assert united["qturn"].dtype == "int64"
        assert united["docno"].dtype == object
    assert ikat.Union(numbered, Finds({}) >> pt.apply.generic(lambda rows: rows.drop(columns="text")))(TURNS)["qturn"].dtype == object


def test_what_was_computed_from_a_query_is_dropped():
    branch = Finds({"t": ["x"]}, query_toks={"t": {"tea": 1.0}}, query_vec={"t": [1.0]})
    assert not {"query_toks", "query_vec"} & set(ikat.Union(branch, Finds({"t": ["y"]}))(TURNS).columns)


class ByQuery(Operator):
    """Scores 1 for the passage that the query names."""

    schematic = {"label": "ByQuery"}

    def transform(self, inp):
        pt.validate.result_frame(inp, extra_columns=["query", "text"], context=self)
        scores = [float(docno in query) for docno, query in zip(inp["docno"], inp["query"], strict=True)]
        return inp.assign(score=scores)


def test_the_union_of_two_systems_is_reranked_by_the_second_ones_answer():
    first = Finds({"t": ["x", "y"]}, qanswer={"t": "it is x"})
    second = Finds({"t": ["z", "y"]}, qanswer={"t": "it is y"})
    ranked = (ikat.Union(first, second) >> ikat.RerankAgainst(ByQuery(), "qanswer"))(TURNS)
    assert ranked["docno"].tolist() == ["y", "x", "z"]
    assert ranked["score"].tolist() == pytest.approx([1.0, 0.0, 0.0])


def test_empty_frames_give_the_columns_of_full_ones():
    union = ikat.Union(Finds({"t": ["x"]}, qanswer={"t": "a"}), Finds({"t": ["y"]}, qstatements={"t": [("1", 1.0)]}))
    full, empty = union(TURNS), union(TURNS.iloc[:0])
    assert list(empty.columns) == list(full.columns)
    assert len(empty) == 0
    assert empty.dtypes.to_dict() == full.dtypes.to_dict()


def test_branches_have_to_agree_on_the_text():
    bare = Finds({"t": ["x"]}) >> pt.apply.generic(lambda rows: rows.drop(columns="text"))
    assert "text" not in ikat.Union(bare, bare)(TURNS).columns
    with pytest.raises(pt.validate.InputValidationError, match="text"):
        ikat.Union(Finds({"t": ["x"]}), bare)(TURNS)


def test_a_branch_without_passages_is_named():
    with pytest.raises(pt.validate.InputValidationError, match="docno"):
        ikat.Union(Finds({"t": ["x"]}), ikat.RawUtterance())(TURNS)


def test_turns_without_a_query_are_refused_whatever_the_branch_reads():
    branch = pt.apply.generic(lambda turns: turns.assign(query="tea", docno="x", rank=0))
    with pytest.raises(pt.validate.InputValidationError, match="query"):
        ikat.Union(branch)(TURNS[["qid"]])


def test_wrong_branches_are_refused():
    with pytest.raises(ikat.UsageError, match="branch 2 of Union is 'bm25'"):
        ikat.Union(Finds({}), "bm25")


def test_unions_are_values_and_pyterrier_sees_their_branches():
    first, second = ikat.RawUtterance() >> Finds({"t": ["x"]}), Finds({"t": ["y"]})
    union = ikat.Union(first, second)
    assert union == ikat.Union(ikat.RawUtterance() >> Finds({"t": ["x"]}), Finds({"t": ["y"]}))
    assert hash(union) == hash(ikat.Union(first, second))
    assert union != ikat.Union(second, first)
    assert repr(ikat.Union(ikat.RawUtterance(), ikat.AllUtterances())) == "ikat.Union(ikat.RawUtterance(), ikat.AllUtterances())"
    assert eval(repr(ikat.Union(ikat.RawUtterance()))) == ikat.Union(ikat.RawUtterance())
    assert pt.inspect.subtransformers(union) == {"branches": [first, second]}
    assert "Finds" in pt.schematic.draw(union)


def test_an_experiment_with_a_shared_prefix_runs():
    qrels = pd.DataFrame({"qid": ["t"], "docno": ["y"], "label": [1]})
    union = ikat.Union(Finds({"t": ["x"]}), Finds({"t": ["y"]}))
    systems = [union, union >> ikat.RerankAgainst(ByQuery(), "query")]
    found = pt.Experiment(systems, TURNS.assign(query="say y"), qrels, [pt.measures.RR], plan="tree")
    assert found["RR"].tolist() == [0.5, 1.0]


TestUnion = pt.testing.transformer_test_class(lambda: ikat.Union(ikat.RawUtterance() >> Finds({}), Finds({})))


def test_a_foreign_branch_that_writes_into_its_turns_changes_no_other():
    def overwritten(turns):
        turns["query"] = "overwritten"
        return turns.assign(docno="z", score=1.0, rank=0)

    seen = []
    other = pt.apply.generic(lambda turns: seen.extend(turns["query"]) or turns.assign(docno="x", score=1.0, rank=0))
    before = TURNS.copy()
    ikat.Union(pt.apply.generic(overwritten), other)(TURNS)
    assert seen == before["query"].tolist() == TURNS["query"].tolist()


def test_columns_of_the_passage_keep_values_and_numbers_their_kind():
    kinds = {"numbered": [2**60 + 1, 7], "found": pd.to_datetime(["2024-01-01", "2024-01-02"]), "maybe": pd.array([1, None], dtype="Int64")}
    rows = TURNS.iloc[[0, 0]].assign(docno=["x", "y"], rank=[0, 1], **kinds)
    other = rows.iloc[1:].assign(docno="z")
    united = ikat.Union(pt.apply.generic(lambda _: rows), pt.apply.generic(lambda _: other))(TURNS)
    assert united["docno"].tolist() == ["x", "z", "y"]
    assert united["numbered"].tolist() == [2**60 + 1, 7, 7]
    assert united["found"].tolist() == [pd.Timestamp("2024-01-01"), pd.Timestamp("2024-01-02"), pd.Timestamp("2024-01-02")]
    assert united["maybe"].isna().tolist() == [False, True, True]
    assert united[["numbered", "maybe"]].dtypes.tolist() == ["int64", "Int64"]


def test_turns_that_a_branch_finds_nothing_for_are_named():
    turns = pd.DataFrame({"qid": ["t", "u", "v"], "query": ["tea?", "coffee?", "???"]}, dtype=object)
    both = ikat.Union(Finds({"t": "x", "u": "y"}), Finds({"u": "z"}))
    with pytest.warns(NoResultWarning) as caught:
        assert set(both(turns)["qid"]) == {"t", "u"}
    assert [str(warning.message) for warning in caught] == [
        "1 of 3 turns found no passage: v; counted 0 in evaluation",
        "branch 2 of Union found no passage for 1 turn (t): what it wrote for them is lost, including statements and answers",
    ]


def test_between_sub_queries_the_turns_are_named_once():
    turns = TURNS.assign(qsubqueries=[["a", "b"], ["c", "d"]])
    both = ikat.ExplodeQueries() >> ikat.Union(Finds({"t::0": "x", "u::1": "y"}), Finds({"u::0": "z", "u::1": "x"}))
    with pytest.warns(NoResultWarning) as caught:
        assert set(both(turns)["qid"]) == {"t::0", "u::0", "u::1"}
    [warning] = caught
    assert str(warning.message).startswith("branch 2 of Union found no passage for 1 turn (t): ")


def test_a_turn_that_another_branch_has_does_not_count_0():
    def warns(turns):
        warnings.warn("1 of 1 turn found no passage: t; counted 0 in evaluation", NoResultWarning, stacklevel=1)
        return Finds({})(turns)

    with pytest.warns(NoResultWarning) as caught:
        ikat.Union(Finds({"t": "x"}), pt.apply.generic(warns))(TURNS.head(1))
    assert [str(warning.message)[:20] for warning in caught] == ["branch 2 of Union fo"]


def test_what_a_union_within_a_union_lost_is_still_named():
    inner = ikat.Union(Finds({"t": "x", "u": "y"}), Finds({"u": "z"}))
    with pytest.warns(NoResultWarning) as caught:
        ikat.Union(inner, Finds({"t": "x", "u": "y"}))(TURNS)
    assert [str(warning.message)[:55] for warning in caught] == ["branch 2 of Union found no passage for 1 turn (t): what"[:55]]
