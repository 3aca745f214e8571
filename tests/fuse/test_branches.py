"""The parts of a fusion of systems, and of scoring pairs, on arrays and frames worked by hand."""

import warnings

import numpy as np
import pandas as pd
import pyterrier as pt
import pytest
from fuse.plain import TURNS, Finds, Table, column_of, expanded, numbers

import pyterrier_ikat as ikat
from pyterrier_ikat.conversations.frame import NoResultWarning, column
from pyterrier_ikat.errors import DataError, UsageError
from pyterrier_ikat.fuse import by_scorer, fusion


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


def test_branches_are_checked_by_number():
    with pytest.raises(UsageError, match=r"branch 2 of RRF is 3: give .* as ikat\.RRF\(first, s"):
        ikat.RRF(Finds({}), 3)
    with pytest.raises(UsageError, match="num_results=0"):
        ikat.Union(Finds({}), num_results=0)
    assert ikat.RRF(Finds({})).num_results == 1000
    assert ikat.Union(Finds({})).arguments()["branches"] == (Finds({}),)
    assert "branches" not in ikat.RRF().arguments()


def test_texts_are_given_unless_nobody_reads_them():
    fused = ikat.RRF(Finds({"t": "xy"}), Finds({"t": "yz"}))
    assert fused(TURNS[:1])["text"].tolist() == ["text of y", "text of x", "text of z"]
    bare = fused.without_texts()
    assert "text" not in bare(TURNS[:1]).columns
    assert "text" in fused(TURNS[:1]).columns
    branches = ikat.RRF(ikat.Union(), ikat.RRF()).without_texts().branches
    assert [branch.gives_texts for branch in branches] == [False, False]


def test_columns_that_a_fusion_reads_are_known():
    assert ikat.RRF().transform_inputs() == [["qid", "docno", "query", "rank"]]
    assert ikat.WeightedSum().transform_inputs() == [["qid", "docno", "query", "rank", "score"]]
    [columns] = ikat.RRF(Table()).transform_inputs()
    assert columns[:2] == ["qid", "query"]
    assert {"docno", "text"} <= set(columns)


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


def test_turns_that_a_branch_lost_are_named_beside_sub_queries():
    turns = pd.DataFrame(
        {"qid": ["t::0", "t::1", "u::0", "u::1"], "query": "q", "qid_0": ["t", "t", "u", "u"]}
    ).assign(query_0="?", qsub=[0, 1, 0, 1])
    fused = ikat.Union(Finds({"t::0": "x", "u::0": "x", "u::1": "x"}), Finds({"t::1": "y"}))
    with pytest.warns(NoResultWarning) as caught:
        found = fused(turns)
    assert [str(warning.message).partition(":")[0] for warning in caught] == [
        "branch 2 of Union found no passage for 1 turn (u)"
    ]
    assert sorted(found["qid"]) == ["t::0", "t::1", "u::0", "u::1"]
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        ikat.Union(Finds({"t::0": "x", "u::0": "x"}), Finds({"t::1": "y", "u::0": "y"}))(turns)


def test_columns_of_sub_queries_that_a_branch_drops_come_back():
    turns = pd.DataFrame({"qid": ["t::0"], "query": "q", "qid_0": "t", "qsub": 0, "query_0": "?"})
    drops = pt.apply.generic(lambda rows: rows.drop(columns=["qid_0", "qsub", "query_0"]))
    fused = ikat.RRF(drops >> Finds({"t::0": "x"}), drops >> Finds({"t::0": "y"}))(turns)
    assert fused[["qid", "qid_0", "qsub", "query_0"]].values.tolist() == [["t::0", "t", 0, "?"]] * 2
    assert [ikat.RRF()(fused)["qid"].tolist(), fused["docno"].tolist()] == [["t", "t"], ["x", "y"]]


def test_a_frame_without_what_a_fusion_reads_is_refused():
    for lacking in ("rank", "docno", "query"):
        frame = expanded({"t": ["a"]}).drop(columns=lacking)
        with pytest.raises((DataError, ValueError), match=lacking):
            ikat.Interleave()(frame)
    bare = Finds({"t": "y"}) >> pt.apply.generic(lambda rows: rows.drop(columns="text"))
    with pytest.raises(pt.validate.InputValidationError, match="text"):
        ikat.RRF(Finds({"t": "x"}), bare)(TURNS)
    assert "text" not in ikat.RRF(bare, bare)(TURNS[:1]).columns


def test_a_branch_of_other_turns_is_named_with_its_first():
    other = pt.apply.generic(lambda rows: rows.assign(qid=["z", "y"], docno="d", rank=0, score=1.0))
    with pytest.raises(DataError, match="branch 2 of RRF returns y, which is not a qid of its inp"):
        ikat.RRF(Finds({"t": "x"}), other)(TURNS)


# Pairs


@pytest.mark.parametrize(
    ("at_once", "groups"),
    [
        (100, [([0, 1, 0, 1, 2, 3, 4, 3, 4], [0, 0, 1, 1, 2, 3, 3, 4, 4])]),
        (5, [([0, 1, 0, 1, 2], [0, 0, 1, 1, 2]), ([3, 4, 3, 4], [3, 3, 4, 4])]),
        (
            1,
            [
                ([0, 1, 0, 1], [0, 0, 1, 1]),
                ([2], [2]),
                ([3, 4, 3, 4], [3, 3, 4, 4]),
            ],
        ),
    ],
)
def test_pairs_of_whole_turns_are_made_in_groups(monkeypatch, at_once, groups):
    monkeypatch.setattr(by_scorer, "PAIRS_AT_ONCE", at_once)
    turn = numbers(0, 0, 1, 2, 2)
    sub_turn = numbers(0, 0, 1, 2, 2)
    found = []
    for candidates, subs in by_scorer._pair_up(turn, sub_turn):
        found.append((candidates.tolist(), subs.tolist()))
    assert found == groups
    [(candidates, subs)] = by_scorer._pair_up(numbers(), numbers())
    assert (len(candidates), len(subs)) == (0, 0)


def test_a_pair_has_the_passages_columns_and_the_sub_querys_own():
    frame = expanded({"t": ["a", "b"]}).assign(qturn=3, url="x")
    pairs = by_scorer._take_pairs(frame, numbers(1, 0), numbers(0, 1))
    assert pairs.drop(columns=["rank", "score"]).to_dict("list") == {
        "docno": ["b", "a"],
        "text": ["text of b", "text of a"],
        "url": ["x", "x"],
        "qid": ["t::0", "t::1"],
        "query": ["t sub 0", "t sub 1"],
    }


@pytest.mark.parametrize(
    ("scored", "positions"),
    [
        ([("t", "a"), ("t", "b"), ("u", "a")], [0, 1, 2]),
        ([("u", "a"), ("t", "b")], [2, 1]),
        ([("t", "c"), ("u", "b"), ("t", "a")], [-1, -1, 0]),
        ([("v", "a")], [-1]),
        ([("u", "a"), ("t", "b"), ("t", "a")], [2, 1, 0]),  # the same passages in the same order
        ([], []),
    ],
)
def test_scored_rows_are_found_by_turn_and_passage(scored, positions):
    rows = pd.DataFrame({"qid": ["t", "t", "u"], "docno": ["a", "b", "a"]})
    frame = pd.DataFrame(scored, columns=["qid", "docno"])
    assert by_scorer._find_positions(rows, frame).tolist() == positions


def test_scores_are_put_in_the_order_of_the_rows():
    frame = expanded({"t": ["ab"]})
    scores = by_scorer._score_every_row(Table(lambda query, docno: ord(docno)), frame)
    assert scores.tolist() == [97.0, 98.0]
    for change, told in (
        (lambda rows: rows[:1], "returned 1 score for 2 pairs"),
        (lambda rows: rows.iloc[[0, 0]], "returned a passage twice"),
        (lambda rows: rows.assign(docno=["a", "z"]), "returned passage z for turn t::0"),
    ):
        scorer = pt.apply.generic(lambda rows, change=change: change(rows.assign(score=1.0)))
        with pytest.raises(DataError, match=told):
            by_scorer._score_every_row(scorer, frame)


def test_candidates_of_a_turn_are_ranked_by_mean_and_cut():
    lists = expanded({"t": ["ab", "c"], "u": ["c"]}).assign(qweight=[3.0, 3.0, 1.0, 2.0])
    scorer = Table(lambda query, docno: {"a": 0, "b": 4, "c": 8}[docno] * (query[-1] == "0"))
    fused = ikat.MeanScore([scorer, Table(lambda query, docno: 2.0)], num_results=2)(lists)
    assert fused[["qid", "query", "docno", "score", "rank"]].values.tolist() == [
        ["t", "t?", "c", 4.0, 0],  # (3/4 * 8 + 1/4 * 0) / 2 + 1
        ["t", "t?", "b", 2.5, 1],
        ["u", "u?", "c", 5.0, 0],
    ]
    assert "qweight" not in fused.columns
    plain = lists.drop(columns=["qid_0", "qsub", "query_0"])
    assert "qweight" not in ikat.MeanScore([scorer])(plain).columns


def test_the_text_to_rank_by_is_the_scorers_query_alone():
    lists = expanded({"t": ["ab"], "u": ["c"]}).assign(qanswer=column(["one", "one", "two"]))
    scorer = Table(lambda query, docno: {"a": 1, "b": 2, "c": 3}[docno])
    fused = ikat.RerankAgainst(scorer, "qanswer", 1)(lists)
    assert scorer.seen[0]["query"].tolist() == ["one", "one", "two"]
    assert fused[["qid", "query", "docno", "score", "rank"]].values.tolist() == [
        ["t", "t?", "b", 2.0, 0],
        ["u", "u?", "c", 3.0, 0],
    ]


def without(*names):
    return pt.apply.generic(lambda rows: rows.drop(columns=list(names)))


def with_column(**values):
    return pt.apply.generic(lambda rows: rows.assign(**values))


class ReadsLanguages(Table):
    """A re-ranker that also reads a column of its own."""

    def transform(self, inp):
        pt.validate.result_frame(inp, extra_columns=["language"], context=self)
        return super().transform(inp)


def test_columns_of_every_inner_stage_are_needed():
    stages = [Table(), ReadsLanguages()]
    for fused in (ikat.MeanScore(stages), ikat.RRF(*stages)):
        [columns] = fused.transform_inputs()
        assert {"qid", "query", "text", "language"} <= set(columns)


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


def test_every_branch_gives_the_scores_that_are_summed():
    branches = Finds({"t": "x"}), Finds({"t": "y"}) >> without("score")
    with pytest.raises(pt.validate.InputValidationError, match="score"):
        ikat.WeightedSum(*branches)(TURNS)
    assert len(ikat.RRF(*branches)(TURNS[:1])) == 2


@pytest.mark.parametrize("lacking", ["query", "rank", "docno", "qsub", "query_0"])
def test_columns_that_scored_fusions_need_are_named(lacking):
    frame = expanded({"t": ["ab"]}).drop(columns=lacking)
    for fused in (ikat.MeanScore([Table()]), ikat.RerankAgainst(Table(), "qanswer")):
        with pytest.raises(pt.validate.InputValidationError, match=lacking):
            fused(frame)


def test_turns_without_a_text_are_counted_once():
    lists = expanded({"t": ["ab"], "u": ["c"]}).assign(qanswer=column([None, None, "yes"]))
    with pytest.raises(DataError, match=r"^1 turn has no qanswer to re-rank by \(t\): fill"):
        ikat.RerankAgainst(Table(), "qanswer")(lists)


def test_a_scorer_gets_ranks_and_scores_of_the_pool():
    keeps = pt.apply.generic(lambda rows: rows)
    lists = expanded({"t": ["ab", "cb"]})
    scored = ikat.RerankAgainst(keeps, "qanswer")(lists)
    pool = ikat.Union()(lists)
    assert scored[["docno", "score", "rank"]].values.tolist() == [
        ["a", 3.0, 0],
        ["c", 2.0, 1],
        ["b", 1.0, 2],
    ]
    assert scored["score"].tolist() == pool["score"].tolist()


def test_a_foreign_scorer_changes_no_frame_of_the_next():
    def overwrites(rows):
        rows["query"] = rows["text"] = "overwritten"
        return rows.assign(score=0.0)

    seen = Table()
    ikat.MeanScore([pt.apply.generic(overwrites), seen])(expanded({"t": ["a"]}))
    assert seen.seen[0][["query", "text"]].values.tolist() == [["t sub 0", "text of a"]]


def test_equal_means_of_several_groups_tie(monkeypatch):
    """The three scores of x and y are the same, and their sums differ in the last bit."""
    monkeypatch.setattr(by_scorer, "PAIRS_AT_ONCE", 1)
    scores = {"x": (0.1, 0.2, 0.3), "y": (0.3, 0.2, 0.1)}
    queries = {"sub 0": 0, "sub 1": 1, "sub 2": 2}
    assert sum(scores["x"]) != sum(scores["y"])
    scorer = Table(lambda query, docno: -scores[docno][queries[query[2:]]])
    found = ikat.MeanScore([scorer])(expanded({"t": ["xy"] * 3, "u": ["xy"] * 3}))
    assert found[["qid", "docno"]].values.tolist() == [
        ["t", "x"],
        ["t", "y"],
        ["u", "x"],
        ["u", "y"],
    ]


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
