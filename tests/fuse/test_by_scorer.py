"""Fusions that score candidates anew.

Against a text of the turn, or by the weighted mean over sub-queries and scorers.
"""

import math
import re
from fractions import Fraction
from itertools import product

import numpy as np
import pandas as pd
import pyterrier as pt
import pytest
from fuse.plain import (
    TURNS,
    Finds,
    Table,
    expanded,
    numbers,
)
from hypothesis import given
from hypothesis import strategies as st

import pyterrier_ikat as ikat
from pyterrier_ikat.conversations.frame import column
from pyterrier_ikat.errors import DataError, counted
from pyterrier_ikat.fuse import by_scorer

# Pairs and their scores


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


# Against a text of the turn


def by_docno(scores):
    return Table(lambda query, docno: scores.get(docno, 0))


def test_the_scorer_gets_each_turn_and_passage_once_with_query():
    scorer = by_docno({"c": 3, "a": 2, "b": 1})
    found = expanded({"t": [["a", "b"], ["b", "c"]], "u": [["a"], ["a"]]}).assign(query_vec=0)
    fused = ikat.RerankAgainst(scorer, "qanswer")(found)
    [seen] = scorer.seen
    assert sorted(seen[["qid", "query", "docno", "text"]].values.tolist()) == [
        ["t", "answer to t", "a", "text of a"],
        ["t", "answer to t", "b", "text of b"],
        ["t", "answer to t", "c", "text of c"],
        ["u", "answer to u", "a", "text of a"],
    ]
    assert "query_vec" not in seen.columns
    assert fused[["qid", "query", "docno", "score", "rank"]].values.tolist() == [
        ["t", "t?", "c", 3.0, 0],
        ["t", "t?", "a", 2.0, 1],
        ["t", "t?", "b", 1.0, 2],
        ["u", "u?", "a", 2.0, 0],
    ]
    ikat.RerankAgainst(scorer, "query")(found)
    assert scorer.seen[1]["query"].unique().tolist() == ["t?", "u?"]


def test_the_whole_union_is_scored_before_the_cut():
    scorer = by_docno({"d": 9})
    found = expanded({"t": [["a", "b"], ["c", "d"]]})
    fused = ikat.RerankAgainst(scorer, "qanswer", num_results=1)(found)
    assert fused["docno"].tolist() == ["d"]
    assert len(scorer.seen[0]) == 4


def test_rerank_by_breaks_ties_by_the_order_of_the_pool():
    fused = ikat.RerankAgainst(Table(), "qanswer")(expanded({"t": [["b", "d"], ["a", "c"]]}))
    assert fused["docno"].tolist() == ["b", "a", "d", "c"]


@pytest.mark.parametrize("num_results", [1, None])
def test_rows_the_scorer_left_keep_new_columns_and_rank_from_0(num_results):
    scorer = pt.apply.generic(lambda rows: rows[rows["qid"] != "t"].assign(score=1.0, why="short"))
    fused = ikat.RerankAgainst(scorer, "qanswer", num_results)(
        expanded({"t": [["a", "b"]], "u": [["c", "d", "e"]]})
    )
    kept = [["u", "c", 0, "short"], ["u", "d", 1, "short"], ["u", "e", 2, "short"]]
    assert fused[["qid", "docno", "rank", "why"]].values.tolist() == kept[:num_results]


def test_the_column_to_rerank_by_has_to_be_there_for_every_turn():
    found = expanded({turn: [["a"]] for turn in "tuvwxyz"})
    for lacking, shown in (
        ("u", "u"),
        ("uvwxy", "u, v, w, x, y"),
        ("uvwxyz", "u, v, w, x, y and 1 more"),
    ):
        answers = [None if turn in lacking else "yes" for turn in found["qid_0"]]
        turns = counted(len(lacking), "turn has", "turns have")
        message = f"{turns} no qanswer to re-rank by ({shown}): fill"
        with pytest.raises(ikat.DataError, match=re.escape(message)):
            ikat.RerankAgainst(Table(), "qanswer")(found.assign(qanswer=answers))
    for name in ("qrewrite", "query_0"):
        with pytest.raises(pt.validate.InputValidationError, match=name):
            ikat.RerankAgainst(Table(), name)(found)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (
            lambda rows: rows.assign(score=[1.0, float("nan")]),
            "gave the score nan to passage b of turn t",
        ),
        (
            lambda rows: rows.assign(docno=["a", "zz"]),
            "returned passage zz for turn t.*, which it wasn't given",
        ),
        (lambda rows: rows.iloc[[0, 0]], "returned a passage twice"),
        (lambda rows: rows.iloc[1:], "returned 1 score for 2 pairs"),
        (lambda rows: rows.drop(columns="score"), "score"),
    ],
)
def test_what_is_wrong_with_a_scorer_is_named(change, message):

    def scores_wrongly(rows):
        if len(rows) == 0:
            return rows
        return change(rows.assign(score=1.0))

    scorer = pt.apply.generic(scores_wrongly)
    found = expanded({"t": [["a", "b"]]})
    wrong = (ikat.DataError, pt.validate.InputValidationError)
    with pytest.raises(wrong, match=message):
        ikat.MeanScore([scorer])(found)
    if "1 score for 2" not in message:  # a re-ranker may leave some out
        with pytest.raises(wrong, match=message):
            ikat.RerankAgainst(scorer, "qanswer")(found)


def test_the_text_to_rank_by_is_the_scorers_query_alone():
    lists = expanded({"t": ["ab"], "u": ["c"]}).assign(qanswer=column(["one", "one", "two"]))
    scorer = Table(lambda query, docno: {"a": 1, "b": 2, "c": 3}[docno])
    fused = ikat.RerankAgainst(scorer, "qanswer", 1)(lists)
    assert scorer.seen[0]["query"].tolist() == ["one", "one", "two"]
    assert fused[["qid", "query", "docno", "score", "rank"]].values.tolist() == [
        ["t", "t?", "b", 2.0, 0],
        ["u", "u?", "c", 3.0, 0],
    ]


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


def test_a_scorer_gets_no_vector_of_another_query():
    scorer = Table()
    lists = expanded({"t": ["xy"]}).drop(columns=["qid_0", "qsub", "query_0"])
    found = ikat.RerankAgainst(scorer, "qanswer")(lists.assign(query_toks="of t?", query_vec=1))
    for frame in (*scorer.seen, found):
        assert not {"query_toks", "query_vec"} & set(frame.columns)


# The mean over sub-queries and scorers


def asked(turns, weights=None):
    """``turns``: turn -> list of (query, docnos); ``weights``: turn -> list of weights."""
    docnos_of = {}
    for turn, lists in turns.items():
        docnos_of[turn] = [docnos for _, docnos in lists]
    found = expanded(docnos_of)
    rows = list(zip(found["qid_0"], found["qsub"], strict=True))
    found["query"] = column(turns[turn][sub][0] for turn, sub in rows)
    if weights is not None:
        found["qweight"] = [weights[turn][sub] for turn, sub in rows]
    return found


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


@given(st.data())
def test_equal_means_keep_candidate_order_in_any_scorer_order(data):
    """Scores and weights on a grid of tenths: exact fractions say which means are equal."""
    docnos = list("abcdef"[: data.draw(st.integers(2, 6))])
    weights = data.draw(st.lists(st.integers(1, 3), min_size=2, max_size=3))
    queries = list("xyz"[: len(weights)])
    pairs = list(product(queries, docnos))
    scores_of_pairs = st.fixed_dictionaries(dict.fromkeys(pairs, st.integers(-10, 10)))
    tables = data.draw(st.lists(scores_of_pairs, min_size=1, max_size=4))
    exact = dict.fromkeys(docnos, Fraction(0))
    for table in tables:
        for query, weight in zip(queries, weights, strict=True):
            for docno in docnos:
                exact[docno] += weight * table[query, docno]
    found = asked(
        {"t": [(query, docnos) for query in queries]}, {"t": [weight / 10 for weight in weights]}
    )
    scorers = []
    for table in tables:
        scorers.append(Table(lambda query, docno, table=table: table[query, docno] / 10))
    first = ikat.MeanScore(scorers)(found)
    second = ikat.MeanScore(scorers[::-1])(found)
    assert first["docno"].tolist() == sorted(docnos, key=lambda docno: -exact[docno])
    assert first[["docno", "score"]].values.tolist() == second[["docno", "score"]].values.tolist()


def test_the_worked_example():
    found = asked({"t": [("a", ["x", "y"]), ("bb", ["z", "x"])]}, {"t": [1.0, 0.5]})
    table = {
        ("a", "x"): 0.3,
        ("a", "y"): 0.6,
        ("a", "z"): 0.9,
        ("bb", "x"): 0.9,
        ("bb", "y"): 0.6,
        ("bb", "z"): 0.0,
    }
    of_table = Table(lambda query, docno: table[query, docno])
    always_half = Table(lambda query, docno: 0.5)
    ranked = ikat.MeanScore([of_table, always_half])(found)
    # y: (2/3 * .6 + 1/3 * .6) / 2 + .25; z: 2/3 * .9 / 2 + .25; x: (2/3 * .3 + 1/3 * .9) / 2 + .25
    assert ranked["docno"].tolist() == ["y", "z", "x"]
    assert ranked["score"].tolist() == pytest.approx([0.55, 0.55, 0.5])


words = st.text("abcde", min_size=1, max_size=4)
lists_of_turn = st.lists(
    st.tuples(words, st.lists(st.sampled_from("uvwxyz"), unique=True, min_size=1)),
    min_size=1,
    max_size=4,
)
turns_of_lists = st.dictionaries(
    st.sampled_from(["9-1_1", "9-1_2", "9-1_10"]), lists_of_turn, min_size=1
)


@st.composite
def turns_and_weights(draw):
    turns = draw(turns_of_lists)
    weights = {}
    for turn, lists in turns.items():
        number = len(lists)
        weights[turn] = draw(st.lists(st.floats(0.1, 1), min_size=number, max_size=number))
    return turns, weights


def by_length(query, docno):
    return len(query) * ord(docno) % 7


def by_letters(query, docno):
    return (sum(map(ord, query)) + 3 * ord(docno)) % 11 / 11


def plain_means(lists, weights):
    """Passage -> its mean score by these two, over the (query, docnos) of a turn."""
    total = math.fsum(weights)
    means = {}
    for _, docnos in lists:
        means.update(dict.fromkeys(docnos, 0.0))
    for (query, _), weight in zip(lists, weights, strict=True):
        for docno in means:
            scores = by_length(query, docno) + by_letters(query, docno)
            means[docno] += weight / total * scores / 2
    return means


@given(turns_and_weights(), st.integers(1, 8), st.sampled_from([1, 10, 500_000]), st.booleans())
def test_the_score_is_the_plain_mean_for_any_chunk_size(drawn, cut, at_once, backwards):
    turns, weights = drawn
    found = asked(turns, weights)
    if backwards:
        found = found.iloc[::-1]
    operator = ikat.MeanScore([Table(by_length), Table(by_letters)], num_results=cut)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("pyterrier_ikat.fuse.by_scorer.PAIRS_AT_ONCE", at_once)
        ranked = operator(found)
    assert set(ranked["qid"]) == set(turns)
    for turn, rows in ranked.groupby("qid"):
        mean = plain_means(turns[turn], weights[turn])
        assert rows["score"].tolist() == pytest.approx(sorted(mean.values(), reverse=True)[:cut])
        assert rows["score"].tolist() == pytest.approx([mean[docno] for docno in rows["docno"]])
        assert rows["rank"].tolist() == list(range(min(cut, len(mean))))


def test_candidates_are_scored_once_per_sub_query_of_their_turn(monkeypatch):
    scorer = Table()
    ikat.MeanScore([scorer])(asked({"t": [("a", ["x", "y"]), ("b", ["x"])], "u": [("c", ["x"])]}))
    [seen] = scorer.seen
    assert seen[["qid", "query", "docno", "text"]].values.tolist() == [
        ["t::0", "a", "x", "text of x"],
        ["t::0", "a", "y", "text of y"],
        ["t::1", "b", "x", "text of x"],
        ["t::1", "b", "y", "text of y"],
        ["u::0", "c", "x", "text of x"],
    ]
    monkeypatch.setattr("pyterrier_ikat.fuse.by_scorer.PAIRS_AT_ONCE", 3)
    turns = {
        "t": [("a", ["x", "y"]), ("b", ["z"])],
        "u": [("c", ["x"])],
        "v": [("d", ["x", "y"])],
        "w": [("e", ["x"])],
    }
    ikat.MeanScore([scorer])(asked(turns))
    first, second, third = scorer.seen[1:]
    assert set(first["qid"]) == {"t::0", "t::1"}
    assert set(second["qid"]) == {"u::0", "v::0"}
    assert set(third["qid"]) == {"w::0"}


@pytest.mark.parametrize(
    ("weights", "scores", "wanted"),
    [
        (None, {"a": 0.0, "b": 0.3, "c": 0.9}, 0.4),
        ([0.0, 0.2, 0.0], {"a": 5.0, "b": 0.25, "c": 7.0}, 0.25),
    ],
)
def test_unweighted_sub_queries_count_the_same_and_weight_0_not(weights, scores, wanted):
    found = asked({"t": [("a", ["x"]), ("b", ["y"]), ("c", ["x"])]}, weights and {"t": weights})
    ranked = ikat.MeanScore([Table(lambda query, docno: scores[query])])(found)
    assert ranked["score"].tolist() == pytest.approx([wanted, wanted])


def test_a_frame_that_is_not_expanded_is_scored_by_its_query():
    found = asked({"t": [("a", ["x", "y"])]}).drop(columns=["qid_0", "qsub", "query_0"])
    likes_y = Table(lambda query, docno: docno == "y")
    likes_query_a = Table(lambda query, docno: query == "a")
    ranked = ikat.MeanScore([likes_y, likes_query_a])(found)
    assert ranked[["qid", "query", "docno", "score"]].values.tolist() == [
        ["t::0", "a", "y", 1.0],
        ["t::0", "a", "x", 0.5],
    ]


def test_a_bi_encoder_encodes_each_passage_and_each_query_once(monkeypatch):
    encoded = []

    def encode(self, texts, kind):
        encoded.extend(texts)
        angles = np.array([len(text) for text in texts])
        return np.column_stack([np.cos(angles), np.sin(angles)]).astype(np.float32)

    monkeypatch.setattr(ikat.BiEncoder, "_encode", encode)
    found = asked({"t": [("a", ["x", "y"]), ("bb", ["y", "z"])], "u": [("a", ["x"])]})
    ranked = ikat.MeanScore([ikat.BiEncoder("m")])(found)
    assert sorted(encoded) == ["a", "bb", "text of x", "text of y", "text of z"]
    mean = (math.cos(len("text of x") - 1) + math.cos(len("text of x") - 2)) / 2
    assert ranked.loc[ranked["qid"] == "t", "score"].tolist() == pytest.approx([mean] * 3, abs=1e-6)


@pytest.mark.parametrize(
    "operator",
    [ikat.MeanScore([Table()]), ikat.WeightedSum()],
    ids=lambda operator: type(operator).__name__,
)
@pytest.mark.parametrize(
    "weights", [[-0.1, 1.0], [float("nan"), 1.0], [float("inf"), 1.0], [0.0, 0.0]]
)
def test_weights_of_sub_queries_that_cannot_be_used_are_named(operator, weights):
    found = asked(
        {"s": [("a", ["x"])], "t": [("a", ["x"]), ("b", ["x"])]}, {"s": [1.0], "t": weights}
    )
    message = (
        "the weights of t::0's turn can't be used: give every sub-query a qweight of 0 or more"
    )
    with pytest.raises(ikat.DataError, match=message):
        operator(found)


def test_negative_scores_that_differ_by_rounding_alone_tie():
    """x: -.1 - .2 - .3, y: -.3 - .2 - .1, which differ in the last bit; x is found first."""
    scores = {"x": (-0.1, -0.2, -0.3), "y": (-0.3, -0.2, -0.1)}
    scorers = []
    for number in range(3):
        scorers.append(by_docno({"x": scores["x"][number], "y": scores["y"][number]}))
    assert sum(scores["x"]) != sum(scores["y"])
    found = ikat.MeanScore(scorers)(expanded({"t": ["xy"]}))
    assert found["docno"].tolist() == ["x", "y"]


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


def test_a_foreign_scorer_changes_no_frame_of_the_next():
    def overwrites(rows):
        rows["query"] = rows["text"] = "overwritten"
        return rows.assign(score=0.0)

    seen = Table()
    ikat.MeanScore([pt.apply.generic(overwrites), seen])(expanded({"t": ["a"]}))
    assert seen.seen[0][["query", "text"]].values.tolist() == [["t sub 0", "text of a"]]


# Arguments, columns and plans


def test_wrong_arguments_are_refused_and_a_thousand_is_default():
    for scorers in ([], Table()):
        with pytest.raises(ikat.UsageError, match="give a list of at least one re-ranker"):
            ikat.MeanScore(scorers)
    with pytest.raises(ikat.UsageError, match="num_results=0"):
        ikat.MeanScore([Table()], 0)
    with pytest.raises(ikat.UsageError, match="num_results=0"):
        ikat.RerankAgainst(Table(), "query", 0)
    operator = ikat.MeanScore([Table(), Table()])
    assert operator.num_results == 1000
    assert pt.inspect.subtransformers(operator) == {"scorers": operator.scorers}


def test_empty_frames_give_full_ones_columns_without_a_model():
    found = asked({"t": [("a", ["x"])]}, {"t": [1.0]})
    no_rows = pd.DataFrame(columns=list(found.columns))
    no_model = ikat.BiEncoder("no/such-model")
    for without_model, full in (
        (ikat.MeanScore([no_model]), ikat.MeanScore([Table()])),
        (ikat.RerankAgainst(no_model, "qanswer"), ikat.RerankAgainst(Table(), "qanswer")),
    ):
        columns = list(full(found).columns)
        assert list(without_model(found.iloc[:0]).columns) == columns
        assert set(full(no_rows).columns) == set(columns)


class ReadsScores(Table):
    """A re-ranker that starts from earlier scores."""

    def transform(self, inp):
        pt.validate.result_frame(inp, extra_columns=["query", "score"], context=self)
        return inp


def test_a_fusion_says_which_columns_it_and_its_scorers_read():
    (columns,) = ikat.RerankAgainst(Table(), "qanswer").transform_inputs()
    assert {"qid", "query", "docno", "rank", "qanswer", "text"} <= set(columns)
    assert "score" not in columns
    (columns,) = ikat.RerankAgainst(ReadsScores(), "qanswer").transform_inputs()
    assert "score" not in columns  # the fusion sets it before
    (columns,) = ikat.MeanScore([Table()]).transform_inputs()
    assert {"qid", "query", "docno", "rank", "text"} <= set(columns)
    assert ikat.WeightedSum().transform_inputs() == [["qid", "docno", "query", "rank", "score"]]


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


@pytest.mark.parametrize("lacking", ["query", "rank", "docno", "qsub", "query_0"])
def test_columns_that_scored_fusions_need_are_named(lacking):
    frame = expanded({"t": ["ab"]}).drop(columns=lacking)
    for fused in (ikat.MeanScore([Table()]), ikat.RerankAgainst(Table(), "qanswer")):
        with pytest.raises(pt.validate.InputValidationError, match=lacking):
            fused(frame)


def test_a_plan_counts_what_a_scorer_asks():
    llm = ikat.llm("recorded:sample")
    fused = Finds({}) % 3 >> ikat.RerankAgainst(ikat.LLMRerank(llm), "query")
    assert ikat.plan({"S": fused}, TURNS)["calls"].tolist() == [6]


def test_a_mean_has_the_scorers_that_it_was_given():
    scorers = [ikat.BiEncoder("m"), ikat.BiEncoder("n")]
    mean = ikat.MeanScore(scorers)
    scorers.pop()
    assert repr(mean) == "ikat.MeanScore([ikat.BiEncoder('m'), ikat.BiEncoder('n')])"


TestRerankAgainst = pt.testing.transformer_test_class(
    lambda: ikat.RerankAgainst(ikat.CrossEncoder("m"), "qanswer")
)
TestMeanScore = pt.testing.transformer_test_class(lambda: ikat.MeanScore([ikat.BiEncoder("m")]))
