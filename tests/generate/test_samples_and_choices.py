"""Queries of several turns, samples, the best query and chosen statements, by hand."""

import warnings

import numpy as np
import pandas as pd
import pyterrier as pt
import pytest
from fakes import scripted
from operators import a_turn, ledger, texts, two_turns

import pyterrier_ikat as ikat
from pyterrier_ikat.conversations.frame import NoResultWarning
from pyterrier_ikat.errors import DataError, UsageError
from pyterrier_ikat.generate.sampled_queries import (
    QueryRanking,
    SamplesWarning,
    _fused,
    mean_score,
    spread,
)
from pyterrier_ikat.llms import StageError
from pyterrier_ikat.planning import Plan

G = ikat.generate
COLD, CAFFEINE = "And against a cold?", "Which tea has no caffeine?"


def test_statement_queries_of_two_turns_stay_apart():
    llm, backend = scripted('["dog tea"]', '["plain tea"]')
    turns = two_turns().assign(qstatements=[[("2", 1.0)], []])
    out = G.StatementQueries(llm)(turns)
    assert out["qsubqueries"].tolist() == [["dog tea"], ["plain tea"]]
    first, second = texts(backend)
    assert COLD in first
    assert CAFFEINE not in first
    assert CAFFEINE in second
    assert COLD not in second


def test_passages_of_two_turns_stay_apart():
    llm, _ = scripted("A short.", "A long.", "B short.", "B long.")
    operator = G.PassageQueries(llm, ["short", "long"])
    out = operator(two_turns())
    assert out["qsubqueries"].tolist() == [["A short.", "A long."], ["B short.", "B long."]]
    assert operator.template() == "passage_queries_short"
    with pytest.raises(UsageError, match="give a list of one or more of"):
        G.PassageQueries(llm, ["short", "tall"])


def test_samples_need_one_request_per_turn():
    llm, _ = scripted()
    with pytest.raises(UsageError, match="asks 1 time for 2 turns"):
        ikat.Samples(G.SelectStatements(llm), 2).requests(two_turns())
    assert ikat.Samples(ikat.Rewrite(llm), 2, columns=["query"]).columns == ("query",)


def test_one_sample_is_asked_without_a_warning():
    llm, _ = scripted("a", "b")
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        out = ikat.Samples(ikat.Rewrite(llm), 1)(two_turns())
    assert out["qsubqueries"].tolist() == [["a"], ["b"]]


def refuse(frame):
    raise AssertionError("nothing is encoded")


def test_a_plan_of_aggregation_encodes_nothing():
    turn = pd.DataFrame({"qid": ["1"], "query": ["mint tea"]})
    planned = G.Aggregate("mean", pt.apply.generic(refuse)).plan(turn, Plan("mine", set()))
    assert planned["query"].tolist() == ["mint tea"]


def test_the_most_consistent_sample_is_close_to_all():
    turn = pd.DataFrame({"qid": ["1"], "query": ["q"]})
    turn["qsamples"] = [[["x"], ["a b"], ["a c"], ["a b c"]]]
    assert G.Aggregate("consistent")(turn)["query"].item() == "a b c"
    turn["qsamples"] = [[["a"], []]]
    with pytest.raises(DataError, match="turn 1 has the qsamples"):
        G.Aggregate()(turn)


@pytest.mark.parametrize("change", [lambda rows: rows[::-1], lambda rows: rows[:1]])
def test_an_encoder_keeps_the_order_of_its_queries(change):
    def encode(rows):
        return change(rows.assign(query_vec=[np.ones(2)] * len(rows)))

    turn = pd.DataFrame({"qid": ["1"], "query": ["q"], "qsamples": [[["a"], ["b"]]]})
    with pytest.raises(DataError, match="gave no query_vec for each query"):
        G.Aggregate("mean", pt.apply.generic(encode))(turn)


@pytest.mark.parametrize("factor", [1, -1, 2**20, 2**-40])
def test_values_that_differ_by_rounding_are_equal(factor):
    rankings = []
    for score in (0.3, 0.1 + 0.2, 0.31):
        scores = np.array([factor * score])
        rankings.append(QueryRanking(np.array(["d"], dtype=object), scores, 1))
    first, second, other = mean_score(rankings, 1)
    assert first == second != other


def test_spreads_that_differ_by_rounding_are_equal():
    docnos = np.array(["d", "e", "f"], dtype=object)
    scaled = []
    for factor in (1.0, 0.1, 0.7, 1 / 3):
        scaled.append(QueryRanking(docnos, np.array([5.0, 3.0, 1.1]) * factor, 1))
    assert len(set(spread(scaled, 3))) == 1


RESULTS = [
    ("1::0", "d1", 1.0),
    ("1::0", "d2", 5.0),
    ("1::1", "d3", 4.0),
    ("1::1", "d4", 4.5),
]


def results(message, category):
    """A ranker whose rows are in no order, and which warns."""

    def rank(frame):
        warnings.warn(message, category, stacklevel=2)
        found = pd.DataFrame(RESULTS, columns=["qid", "docno", "score"])
        return found.merge(frame[["qid", "query"]], on="qid").assign(rank=0)

    return pt.apply.generic(rank)


def test_the_best_passages_of_a_query_go_by_their_score():
    turn = pd.DataFrame({"qid": ["1"], "query": ["q"], "qsubqueries": [["a", "b", "c"]]})
    quiet = results("1 query without a passage; counted 0", NoResultWarning)
    assert G.BestQuery(quiet, 1)(turn)["query"].item() == "a"
    assert G.BestQuery(quiet)(turn)["query"].item() == "b"
    with pytest.warns(UserWarning, match="the index is old"):
        G.BestQuery(results("the index is old", UserWarning))(turn)
    with pytest.raises(DataError, match="several rows"):
        G.BestQuery(quiet)(pd.concat([turn, turn]))


def test_a_plan_of_the_best_query_keeps_its_own_cut():
    turn = pd.DataFrame({"qid": ["1"], "query": ["q"], "qsubqueries": [["a", "b"]]})
    plan = Plan("mine", set())
    before = plan.cut
    G.BestQuery(results("none", UserWarning) % 3).plan(turn, plan)
    assert plan.cut == before


def test_statements_are_chosen_for_the_turns_with_a_persona():
    turns = two_turns()[::-1].reset_index(drop=True)
    out = G.SelectStatements(scripted("[2]")[0])(turns)
    assert out["qstatements"].tolist() == [[], [("2", 1.0)]]
    with pytest.raises(DataError, match="other_1"):
        G.SelectStatements(scripted()[0]).requests(turns.assign(qutterance=[" ", COLD]))


def test_a_choice_of_unknown_statements_is_a_kept_failure():
    with pytest.raises(StageError) as info:
        G.SelectStatements(scripted("[9]")[0])(a_turn())
    [failure] = info.value.failures
    assert (failure.qid, failure.kept) == ("chat_2", True)


def test_each_piece_that_names_no_statement_is_counted():
    llm, _ = scripted("[2, 8, 9]")
    G.SelectStatements(llm)(a_turn())
    assert ledger(llm, "dropped") == 2


def test_samples_that_may_be_equal_are_told_by_their_number(monkeypatch):
    llm, _ = scripted(*"abcdef")
    asked = []

    def repeats(number, asked_of_stages=None):
        asked.append(number)
        return "no temperature" if number > 2 else ""

    monkeypatch.setattr(llm.backend, "repeats", repeats)
    with pytest.warns(SamplesWarning, match="the 3 samples of .* has no temperature; give it a"):
        ikat.Samples(ikat.Rewrite(llm), 3)(a_turn())
    ikat.Samples(ikat.Rewrite(llm), 2)(a_turn())
    ikat.Samples(ikat.Rewrite(llm), 1)(a_turn())
    assert asked == [3, 2]


def test_samples_of_a_recording_are_what_was_recorded(monkeypatch):
    """So none is told to be perhaps the same as another one."""
    llm, _ = scripted("a", "b", "c")
    monkeypatch.setattr(llm.backend, "replays", True)
    monkeypatch.setattr(llm.backend, "repeats", lambda number: "no temperature")
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        out = ikat.Samples(ikat.Rewrite(llm), 3)(a_turn())
    assert out["qsubqueries"].tolist() == [["a", "b", "c"]]


def test_a_plan_of_samples_may_be_open_ended():
    llm, _ = scripted()
    turn = a_turn(qstatements=[("1", 1.0)])
    for operator, stage in ((ikat.Queries(llm), ""), (G.StatementQueries(llm), ", at least")):
        plan = Plan("mine", set())
        ikat.Samples(operator, 2).plan(turn, plan)
        [row] = plan.rows
        assert (row["stage"], row["calls"]) == (operator.stage + stage, 2)


def ranking(times, *docnos):
    return QueryRanking(np.array(docnos, dtype=object), np.zeros(len(docnos)), times)


@pytest.mark.parametrize(
    ("rankings", "fused"),
    [
        # 2033/61 > 2033/62 > 2000/61, as ranks count from 1
        ([ranking(2033, "x", "a"), ranking(2000, "b")], ["x", "a", "b"]),
        # 62/62 and 61/61 are equal: the best rank comes first
        ([ranking(62, "x", "a"), ranking(61, "b")], ["x", "b", "a"]),
        ([ranking(61, "b"), ranking(62, "x", "a")], ["x", "b", "a"]),
        ([ranking(1, "a", "b"), ranking(1, "b", "a")], ["a", "b"]),
        ([ranking(1, "b", "a"), ranking(1, "c", "a")], ["a", "b", "c"]),
        # 5/61 is five times 1/61, also where rounding says otherwise
        ([ranking(5, "b"), *[ranking(1, "a")] * 5], ["b", "a"]),
        ([*[ranking(1, "a")] * 11, ranking(11, "b")], ["a", "b"]),
    ],
)
def test_queries_are_fused_by_rank_number_and_order(rankings, fused):
    assert _fused(rankings).tolist() == fused


SAME_QUERY_TWICE = pd.DataFrame({"qid": ["1"], "query": ["q"], "qsubqueries": [["a", "a", "b"]]})


def test_a_plan_of_the_best_query_asks_for_each_query_once():
    llm, _ = scripted()
    plan = Plan("mine", set())
    ranker = ikat.Rewrite(llm, question="query") >> results("none", UserWarning)
    planned = G.BestQuery(ranker).plan(SAME_QUERY_TWICE, plan)
    assert [row["calls"] for row in plan.rows if row["stage"] == "rewrite"] == [2]
    assert planned["qrewrite"].item() == planned["query"].item() == "a"


def test_a_ranker_that_changes_its_input_changes_no_choice():
    def rank(rows):
        scores = rows["query"].map({"a": 1.0, "b": 9.0})
        rows["query"] = "changed"
        return rows.assign(docno="d", score=scores, rank=0)

    chosen = G.BestQuery(pt.apply.generic(rank))(SAME_QUERY_TWICE)
    assert chosen["query"].item() == "b"


@pytest.mark.parametrize(
    ("operator", "column"),
    [
        (lambda: G.BestQuery(results("none", UserWarning)), "qsubqueries"),
        (lambda: ikat.ManualRewrite(), "qresolved"),
        (lambda: G.QueryColumn("qanswer"), "qanswer"),
        (lambda: G.ShowStatements(), "qstatements"),
        (lambda: G.ShowStatements("gold"), "qgoldptkb"),
        (lambda: G.AppendStatements(), "qstatements"),
        (lambda: G.Aggregate(also="qanswer"), "qanswer"),
        (lambda: ikat.ExplodeQueries(), "qsubqueries"),
    ],
)
def test_a_column_that_is_read_and_missing_is_named(operator, column):
    with pytest.raises(pt.validate.InputValidationError, match=column):
        operator()(a_turn())


def test_a_ranker_without_scores_is_named():
    ranker = pt.apply.generic(lambda rows: rows.assign(docno="d", rank=0))
    with pytest.raises(pt.validate.InputValidationError, match="score"):
        G.BestQuery(ranker)(SAME_QUERY_TWICE)
