"""The weighted mean over sub-queries and scorers, against a plain definition and worked examples."""

import math
from fractions import Fraction

import numpy as np
import pandas as pd
import pyterrier as pt
import pytest
from hypothesis import given
from hypothesis import strategies as st

import pyterrier_ikat as ikat
from pyterrier_ikat.operator import Operator


class Table(Operator):
    """Scores a pair by a plain function of query and docno, remembers the frames, and gives the rows back in another order."""

    schematic = {"label": "Table"}

    def __init__(self, score=lambda query, docno: 0.0):
        super().__init__()
        self.score, self.seen = score, []

    def transform(self, inp):
        pt.validate.result_frame(inp, extra_columns=["query", "text"], context=self)
        self.seen.append(inp)
        scores = [float(self.score(query, docno)) for query, docno in zip(inp["query"], inp["docno"], strict=True)]
        return inp.assign(score=scores).iloc[::-1]


def expanded(turns, weights=None):
    """``turns``: turn -> list of (query, docnos); ``weights``: turn -> list of weights."""
    rows = [
        {"qid": f"{turn}::{sub}", "qid_0": turn, "qsub": sub, "query": query, "query_0": f"{turn}?", "docno": docno}
        | {"score": 9.0 - rank, "rank": rank, "text": f"text of {docno}", "qanswer": f"answer to {turn}"}
        | ({"qweight": weights[turn][sub]} if weights else {})
        for turn, lists in turns.items()
        for sub, (query, docnos) in enumerate(lists)
        for rank, docno in enumerate(docnos)
    ]
    names = ["qid", "qid_0", "qsub", "query", "query_0", "docno", "score", "rank", "text", "qanswer", *(["qweight"] if weights else [])]
    return pd.DataFrame(rows, columns=names, dtype=object).astype({"qsub": "int64", "score": "float64", "rank": "int64"})


def by_length(query, docno):
    return len(query) * ord(docno) % 7


def by_letters(query, docno):
    return (sum(map(ord, query)) + 3 * ord(docno)) % 11 / 11


def plain_mean(lists, weights, scores):
    """[(docno, score)] in order: best first, equal scores in the order of the first occurrence."""
    candidates = list(dict.fromkeys(docno for _, docnos in lists for docno in docnos))
    used = [(query, weight) for (query, docnos), weight in zip(lists, weights, strict=True) if docnos]
    total = math.fsum(weight for _, weight in used)
    mean = {
        docno: math.fsum(weight / total * score(query, docno) / len(scores) for query, weight in used for score in scores)
        for docno in candidates
    }
    return sorted(mean.items(), key=lambda pair: (-round(pair[1], 9), candidates.index(pair[0])))


@given(st.data())
def test_equal_means_keep_the_order_of_the_candidates_in_any_order_of_the_scorers(data):
    """Scores and weights on a grid of tenths: exact fractions say which means are equal."""
    docnos = list("abcdef"[: data.draw(st.integers(2, 6))])
    weights = data.draw(st.lists(st.integers(1, 3), min_size=2, max_size=3))
    queries = list("xyz"[: len(weights)])
    tables = [
        {(query, docno): data.draw(st.integers(-10, 10)) for query in queries for docno in docnos}
        for _ in range(data.draw(st.integers(1, 4)))
    ]
    exact = {
        docno: sum(Fraction(weight * table[query, docno]) for table in tables for query, weight in zip(queries, weights, strict=True))
        for docno in docnos
    }
    found = expanded({"t": [(query, docnos) for query in queries]}, {"t": [weight / 10 for weight in weights]})
    scorers = [Table(lambda query, docno, table=table: table[query, docno] / 10) for table in tables]
    rankings = [ikat.MeanScore(order)(found) for order in (scorers, scorers[::-1])]
    assert rankings[0]["docno"].tolist() == sorted(docnos, key=lambda docno: -exact[docno])
    assert rankings[0][["docno", "score"]].values.tolist() == rankings[1][["docno", "score"]].values.tolist()


def test_the_worked_example():
    found = expanded({"t": [("a", ["x", "y"]), ("bb", ["z", "x"])]}, {"t": [1.0, 0.5]})
    table = {("a", "x"): 0.3, ("a", "y"): 0.6, ("a", "z"): 0.9, ("bb", "x"): 0.9, ("bb", "y"): 0.6, ("bb", "z"): 0.0}
    ranked = ikat.MeanScore([Table(lambda query, docno: table[query, docno]), Table(lambda query, docno: 0.5)])(found)
    # y: (2/3 * .6 + 1/3 * .6) / 2 + .25; z: 2/3 * .9 / 2 + .25; x: (2/3 * .3 + 1/3 * .9) / 2 + .25
    assert ranked["docno"].tolist() == ["y", "z", "x"]
    assert ranked["score"].tolist() == pytest.approx([0.55, 0.55, 0.5])
    assert ranked[["qid", "query", "text", "rank"]].values.tolist() == [
        ["t", "t?", "text of y", 0],
        ["t", "t?", "text of z", 1],
        ["t", "t?", "text of x", 2],
    ]
    assert set(ranked.columns) == {"qid", "query", "docno", "score", "rank", "text", "qanswer", "qfound"}


words = st.text("abcde", min_size=1, max_size=4)
lists_of_turn = st.lists(st.tuples(words, st.lists(st.sampled_from("uvwxyz"), unique=True, min_size=1)), min_size=1, max_size=4)
turns_and_weights = st.dictionaries(st.sampled_from(["9-1_1", "9-1_2", "9-1_10"]), lists_of_turn, min_size=1).flatmap(
    lambda turns: st.tuples(
        st.just(turns),
        st.fixed_dictionaries({t: st.lists(st.floats(0.1, 1), min_size=len(lists), max_size=len(lists)) for t, lists in turns.items()}),
    )
)


@given(turns_and_weights, st.integers(1, 8), st.sampled_from([1, 10, 500_000]), st.booleans())
def test_the_score_is_the_plain_mean_whatever_the_size_of_the_chunks(drawn, cut, at_once, backwards):
    turns, weights = drawn
    found = expanded(turns, weights)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("pyterrier_ikat.fuse.by_scorer.PAIRS_AT_ONCE", at_once)
        ranked = ikat.MeanScore([Table(by_length), Table(by_letters)], num_results=cut)(found.iloc[::-1] if backwards else found)
    assert set(ranked["qid"]) == set(turns)
    for turn, rows in ranked.groupby("qid"):
        expected = dict(plain_mean(turns[turn], weights[turn], [by_length, by_letters]))
        best = sorted(expected.values(), reverse=True)[:cut]
        assert rows["score"].tolist() == pytest.approx(best)
        assert rows["score"].tolist() == pytest.approx([expected[docno] for docno in rows["docno"]])
        assert rows["rank"].tolist() == list(range(min(cut, len(expected))))


def test_every_candidate_is_scored_once_against_every_sub_query_of_its_own_turn_only():
    scorer = Table()
    ikat.MeanScore([scorer])(expanded({"t": [("a", ["x", "y"]), ("b", ["x"])], "u": [("c", ["x"])]}))
    assert len(scorer.seen) == 1
    assert scorer.seen[0][["qid", "query", "docno", "text"]].values.tolist() == [
        ["t::0", "a", "x", "text of x"],
        ["t::0", "a", "y", "text of y"],
        ["t::1", "b", "x", "text of x"],
        ["t::1", "b", "y", "text of y"],
        ["u::0", "c", "x", "text of x"],
    ]


def test_a_turn_is_never_divided_between_chunks(monkeypatch):
    monkeypatch.setattr("pyterrier_ikat.fuse.by_scorer.PAIRS_AT_ONCE", 3)
    scorer = Table()
    turns = {"t": [("a", ["x", "y"]), ("b", ["z"])], "u": [("c", ["x"])], "v": [("d", ["x", "y"])], "w": [("e", ["x"])]}
    ikat.MeanScore([scorer])(expanded(turns))
    assert [sorted({qid.split("::")[0] for qid in frame["qid"]}) for frame in scorer.seen] == [["t"], ["u", "v"], ["w"]]


def test_the_cut_comes_after_the_scoring():
    ranked = ikat.MeanScore([Table(lambda query, docno: docno == "last")], num_results=1)(expanded({"t": [("a", ["x", "y", "last"])]}))
    assert ranked["docno"].tolist() == ["last"]


def test_without_weights_all_sub_queries_count_the_same():
    found = expanded({"t": [("a", ["x"]), ("b", ["x"]), ("c", ["x"])]})
    ranked = ikat.MeanScore([Table(lambda query, docno: {"a": 0.0, "b": 0.3, "c": 0.9}[query])])(found)
    assert ranked["score"].tolist() == pytest.approx([0.4])


def test_a_sub_query_of_weight_0_does_not_count():
    found = expanded({"t": [("a", ["x"]), ("b", ["y"])]}, {"t": [0.0, 0.2]})
    ranked = ikat.MeanScore([Table(lambda query, docno: {"a": 5.0, "b": 0.25}[query])])(found)
    assert ranked["score"].tolist() == pytest.approx([0.25, 0.25])


def test_a_frame_that_is_not_expanded_is_scored_by_its_query():
    found = expanded({"t": [("a", ["x", "y"])]}).drop(columns=["qid_0", "qsub", "query_0"])
    ranked = ikat.MeanScore([Table(lambda query, docno: docno == "y"), Table(lambda query, docno: query == "a")])(found)
    assert ranked[["qid", "query", "docno", "score"]].values.tolist() == [["t::0", "a", "y", 1.0], ["t::0", "a", "x", 0.5]]


def test_the_input_is_not_changed_and_objects_are_carried():
    history = [{"role": "user", "content": "hi"}]
    found = expanded({"t": [("a", ["x", "y"])]}, {"t": [1.0]})
    found["qhistory"] = ikat.conversations.frame.column([history] * 2)
    before = found.copy()
    ranked = ikat.MeanScore([Table()])(found)
    assert all(value is history for value in ranked["qhistory"])
    pd.testing.assert_frame_equal(found, before)


def test_a_bi_encoder_encodes_each_passage_and_each_query_once(monkeypatch):
    encoded = []

    class Model:
        def encode(self, texts, **settings):
            encoded.extend(texts)
            return np.array([[math.cos(len(text)), math.sin(len(text))] for text in texts], dtype=np.float32)

        encode_query = encode_document = encode

    monkeypatch.setattr("pyterrier_ikat.rank.bi_encoders.load_bi_encoder", lambda name: Model())
    found = expanded({"t": [("a", ["x", "y"]), ("bb", ["y", "z"])], "u": [("a", ["x"])]})
    ranked = ikat.MeanScore([ikat.BiEncoder("m")])(found)
    assert sorted(encoded) == ["a", "bb", "text of x", "text of y", "text of z"]
    cosine = math.cos(len("text of x") - 1)
    assert ranked.loc[ranked["qid"] == "u", "score"].tolist() == pytest.approx([cosine], abs=1e-6)
    assert ranked.loc[ranked["qid"] == "t", "score"].tolist() == pytest.approx(
        [(cosine + math.cos(len("text of x") - 2)) / 2] * 3, abs=1e-6
    )


@pytest.mark.parametrize("weights", [[-0.1, 1.0], [float("nan"), 1.0], [float("inf"), 1.0], [0.0, 0.0]])
def test_weights_that_cannot_be_used_are_named(weights):
    with pytest.raises(ikat.DataError, match=r"the weights of t::0's turn can't be used"):
        ikat.MeanScore([Table()])(expanded({"t": [("a", ["x"]), ("b", ["x"])]}, {"t": weights}))


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda rows: rows.iloc[1:], "returned 1 score for 2 pairs"),
        (lambda rows: rows.iloc[[0, 0]], "returned a passage twice"),
        (lambda rows: rows.assign(docno=["x", "other"]), "returned passage other for turn t::0, which it wasn't given"),
        (lambda rows: rows.assign(score=[1.0, float("nan")]), "gave the score nan to passage y of turn t::0"),
    ],
)
def test_a_scorer_has_to_give_each_pair_one_finite_score(change, message):
    scorer = pt.apply.generic(lambda rows: change(rows.assign(score=1.0)) if len(rows) else rows)
    with pytest.raises(ikat.DataError, match=message):
        ikat.MeanScore([scorer])(expanded({"t": [("a", ["x", "y"])]}))


def test_a_scorer_that_leaves_out_some_of_many_pairs_or_the_score_is_named():
    found = expanded({"t": [("a", ["x", "y", "z"])]})
    with pytest.raises(ikat.DataError, match="returned 2 scores for 3 pairs"):
        ikat.MeanScore([pt.apply.generic(lambda rows: rows.assign(score=1.0).iloc[1:])])(found)
    with pytest.raises(pt.validate.InputValidationError, match="score"):
        ikat.MeanScore([pt.apply.generic(lambda rows: rows.drop(columns="score"))])(found)


def test_empty_frames_give_the_columns_of_full_ones_without_a_model():
    found = expanded({"t": [("a", ["x"])]}, {"t": [1.0]})
    operator = ikat.MeanScore([ikat.BiEncoder("no/such-model")])
    assert list(operator(found.iloc[:0]).columns) == list(ikat.MeanScore([Table()])(found).columns)


@pytest.mark.parametrize("scorers", [[], Table()])
def test_wrong_scorers_are_refused(scorers):
    with pytest.raises(ikat.UsageError, match="give a list of at least one re-ranker"):
        ikat.MeanScore(scorers)


def test_operators_are_values():
    operator = ikat.MeanScore([ikat.BiEncoder("m"), ikat.BiEncoder("n")], num_results=10)
    assert operator == ikat.MeanScore((ikat.BiEncoder("m"), ikat.BiEncoder("n")), 10)
    assert operator != ikat.MeanScore([ikat.BiEncoder("m")], 10)
    assert hash(operator) == hash(eval(repr(operator)))
    assert repr(operator) == "ikat.MeanScore([ikat.BiEncoder('m'), ikat.BiEncoder('n')], num_results=10)"
    assert pt.inspect.subtransformers(operator) == {"scorers": operator.scorers}
    with pytest.raises(ikat.UsageError, match="num_results=0"):
        ikat.MeanScore([Table()], 0)
    assert ikat.MeanScore([Table()]).num_results == 1000


TestMeanScore = pt.testing.transformer_test_class(lambda: ikat.MeanScore([ikat.BiEncoder("m")]))
