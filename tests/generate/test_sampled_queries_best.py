"""The rules that choose among a turn's queries: by their scores, agreement and spread."""

import warnings

import numpy as np
import pandas as pd
import pyterrier as pt
import pytest
from fakes import scripted
from hypothesis import given
from hypothesis import strategies as st

import pyterrier_ikat as ikat
from pyterrier_ikat.conversations.frame import NoResultWarning
from pyterrier_ikat.errors import DataError
from pyterrier_ikat.generate.sampled_queries import (
    QueryRanking,
    _fused,
    agreement,
    mean_score,
    spread,
)
from pyterrier_ikat.planning import Plan

G = ikat.generate


class FindsPassages(pt.Transformer):
    """Find the passages of a table: query -> passages, best first, with scores n, n - 1, ..., 1."""

    schematic = {"label": "Table", "help_url": ""}

    def __init__(self, docnos, scores=None):
        super().__init__()
        self.docnos = docnos
        self.scores = scores or {}
        self.searched = []

    def transform(self, inp):
        self.searched += inp["query"].tolist()
        rows = []
        for row in inp.to_dict("records"):
            query = row["query"]
            docnos = self.docnos.get(query, "")
            scores = self.scores.get(query, range(len(docnos), 0, -1))
            for rank, (docno, score) in enumerate(zip(docnos, scores, strict=True)):
                rows.append({**row, "docno": docno, "rank": rank, "score": float(score)})
        return pd.DataFrame(rows, columns=[*inp.columns, "docno", "rank", "score"])

    def __hash__(self):
        return id(self)


def turns(*lists):
    return pd.DataFrame(
        {
            "qid": [f"1_{n}" for n in range(len(lists))],
            "query": "it?",
            "qsubqueries": [list(queries) for queries in lists],
        }
    )


def chosen(ranker, *queries, **options):
    return G.BestQuery(ranker, **options)(turns(queries))["query"].item()


def test_the_query_whose_best_passages_score_highest_is_chosen():
    found = FindsPassages(
        dict.fromkeys("abc", "xyz"), {"a": [9, 1, 1], "b": [5, 5, 0], "c": [4, 4, 4]}
    )
    assert [chosen(found, *"abc", passages=passages) for passages in (1, 2, 3)] == [
        "a",
        "a",
        "c",
    ]  # 9; 5, 5; 3.67, 3.33, 4
    out = G.BestQuery(found, 3)(turns("abc"))
    assert (out["qrewrite"].item(), out["query_0"].item(), out["qsubqueries"].item()) == (
        "c",
        "it?",
        ["a", "b", "c"],
    )


def test_the_plan_counts_ranker_calls_per_query_and_leaves_depth():
    llm = scripted()[0]
    other = scripted()[0]
    system = (
        ikat.Samples(ikat.Rewrite(llm), 4)
        >> G.BestQuery(FindsPassages({}) % 3 >> ikat.LLMRerank(other, 3))
        >> FindsPassages({}) % 7
    )
    rows = ikat.plan({"x": system}, ikat.conversation([{"role": "user", "content": "Tea?"}]))
    assert rows[["stage", "calls"]].values.tolist() == [["rewrite", 4], ["rerank", 12]]


# y 1/62 + 1/61 + 1/63, x 1/61 + 1/62, z 1/63 + 1/61, w 1/63 + 1/62
THREE = {"a": "xyz", "b": "yxw", "c": "zwy"}


def test_the_query_sharing_most_passages_with_fusion_is_chosen():
    assert (
        chosen(FindsPassages(THREE), *"cab", rule="agreement", passages=2) == "a"
    )  # of {y, x}: c none, a and b two
    assert (
        chosen(FindsPassages(THREE), *"cba", rule="agreement", passages=2) == "b"
    )  # the first of equal ones
    assert chosen(FindsPassages(THREE), *"cab", rule="agreement", passages=1) == "b"  # of {y}


def test_whole_rankings_are_fused_not_only_counting_passages():
    assert (
        chosen(FindsPassages({"a": "xy", "b": "zy"}), *"ab", rule="agreement", passages=1) == "a"
    )  # y 2/62, which is nobody's first
    deep = {
        "a": "xv",
        "b": "yuz",
        "c": "zv",
    }  # z 1/61 + 1/63; v 2/62; without the third ranks v would be first
    assert chosen(FindsPassages(deep), *"abc", rule="agreement", passages=1) == "c"


@pytest.mark.parametrize("found", ["xy", "yx"])
def test_tied_passages_stand_as_trec_eval_ranks_them(found):
    table = FindsPassages({"a": found, "b": "y"}, {"a": [1, 1]})
    assert chosen(table, *"ab", rule="agreement", passages=1) == "a"  # whose first is y


def test_a_query_counts_as_often_as_written_and_is_searched_once():
    found = FindsPassages({"a": "xy", "c": "zw"})
    assert chosen(found, *"ac", rule="agreement", passages=2) == "a"  # of {x, z} each has one
    assert chosen(found, *"acc", rule="agreement", passages=2) == "c"  # of {z, w}
    assert found.searched == [*"ac", *"ac"]


@pytest.mark.parametrize("rule", ["score", "agreement", "spread"])
def test_queries_finding_nothing_are_last_or_else_the_first_wins(rule):
    assert chosen(FindsPassages({"a": "x"}), *"ca", rule=rule) == "a"
    assert chosen(FindsPassages({}), *"ca", rule=rule) == "c"


@pytest.mark.parametrize("rule", ["score", "agreement", "spread"])
def test_one_query_or_none_needs_no_search(rule):
    found = FindsPassages(THREE)
    assert G.BestQuery(found, rule=rule)(turns("a", "bb", ""))["query"].tolist() == [
        "a",
        "b",
        "it?",
    ]
    assert not found.searched


def test_the_query_with_scores_most_spread_from_mean_is_chosen():
    found = FindsPassages(
        {"a": "xy", "b": "xy", "c": "xy"}, {"a": [4, 2], "b": [19, 15], "c": [2, 1]}
    )  # 1/3, 2/17, .5/1.5
    assert chosen(found, *"bac", rule="spread") == "a"
    assert chosen(found, *"bca", rule="spread") == "c"
    assert chosen(found, *"bac", rule="spread", passages=1) == "b"  # one score has no spread
    more = FindsPassages({"a": "xyz", "b": "xyz"}, {"a": [3, 3, 0.5], "b": [3, 2, 2]})
    assert (chosen(more, *"ab", rule="spread"), chosen(more, *"ab", rule="spread", passages=2)) == (
        "a",
        "b",
    )


@pytest.mark.parametrize(
    ("scores", "rule", "word"),
    [
        ([-1, -2], "spread", "not above 0"),
        ([1, -1], "spread", "not above 0"),
        ([float("nan"), 1], "score", "only finite"),
    ],
)
def test_scores_that_a_rule_cannot_compare_are_refused(scores, rule, word):
    with pytest.raises(ikat.DataError, match=word):
        chosen(FindsPassages({"a": "xy", "b": "xy"}, {"a": scores, "b": [2, 1]}), *"ab", rule=rule)


def test_the_spread_reads_a_hundred_passages_unless_told():
    first = [10.0] * 99 + [9.0]
    found = FindsPassages(
        {"a": range(101), "b": range(101)}, {"a": [*first, 0.1], "b": [10.0] * 99 + [8.0, 8.0]}
    )
    assert chosen(found, *"ab", rule="spread") == "b"
    assert chosen(found, *"ab", rule="spread", passages=101) == "a"


RANKINGS = st.dictionaries(
    st.sampled_from("abcd"), st.lists(st.sampled_from("uvwxyz"), unique=True), min_size=1
)
SAMPLES = st.lists(st.sampled_from("abcde"), min_size=1, max_size=7)


@given(RANKINGS, SAMPLES, st.integers(1, 4))
def test_agreement_is_counted_with_the_package_s_own_fusion(rankings, samples, passages):
    shared = dict.fromkeys(samples, -1)
    if any(rankings.get(query) for query in samples):
        fusion = ikat.ExplodeQueries() >> FindsPassages(rankings) >> ikat.RRF()
        fused = fusion(turns(samples))["docno"].tolist()
        for query in shared:
            if rankings.get(query):
                shared[query] = len({*fused[:passages]} & {*rankings[query][:passages]})
    query = chosen(FindsPassages(rankings), *samples, rule="agreement", passages=passages)
    assert query == max(shared, key=shared.get)


PLAIN = {"score": np.mean, "spread": lambda found: np.std(found) / np.mean(found)}
SCORES = st.lists(st.integers(1, 9), max_size=4).map(lambda scores: sorted(scores, reverse=True))


@pytest.mark.parametrize("rule", PLAIN)
@given(st.dictionaries(st.sampled_from("abcd"), SCORES, min_size=1), SAMPLES, st.integers(1, 5))
def test_the_first_of_the_largest_means_or_spreads_is_chosen(rule, scores, samples, passages):
    table = FindsPassages({query: range(len(found)) for query, found in scores.items()}, scores)
    values = dict.fromkeys(samples, -1)
    for query in samples:
        best = scores.get(query, [])[:passages]
        if best:
            values[query] = round(PLAIN[rule](best), 9)
    assert chosen(table, *samples, rule=rule, passages=passages) == max(values, key=values.get)


@given(
    RANKINGS,
    st.lists(SAMPLES, min_size=1, max_size=4),
    st.randoms(),
    st.sampled_from(["score", "agreement", "spread"]),
)
def test_the_choice_depends_on_the_turn_alone(rankings, lists, random, rule):
    frame = turns(*lists)
    together = G.BestQuery(FindsPassages(rankings), rule=rule)(
        frame.sample(frac=1, random_state=random.randrange(9))
    )
    alone = {}
    for qid, queries in zip(frame["qid"], lists, strict=True):
        alone[qid] = chosen(FindsPassages(rankings), *queries, rule=rule)
    assert dict(zip(together["qid"], together["query"], strict=True)) == alone


def scored_ranking(docnos, scores, times=1):
    return QueryRanking(np.array(list(docnos), dtype=object), np.array(scores, dtype=float), times)


def test_the_values_of_rankings_by_hand():
    one = scored_ranking("abc", [3, 2, 1])
    other = scored_ranking("bd", [5, 1])
    assert mean_score([one, other], 2).tolist() == [2.5, 3.0]
    assert mean_score([one, other], 9).tolist() == [2.0, 3.0]
    assert spread([one, other], 2).round(6).tolist() == [0.2, round(2 / 3, 6)]
    # 1/61 each for a and b, and 1/62 for b and d: b, a, d, c
    assert agreement([one, other], 2).tolist() == [2.0, 1.0]
    assert agreement([one, scored_ranking("bd", [5, 1], 3)], 2).tolist() == [1.0, 2.0]
    with pytest.raises(DataError, match="mean score that is not above 0"):
        spread([one, scored_ranking("a", [0])], 2)


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


PASSAGES_OF_QUERIES = [
    ("1::0", "d1", 1.0),
    ("1::0", "d2", 5.0),
    ("1::1", "d3", 4.0),
    ("1::1", "d4", 4.5),
]


def warning_ranker(message, category):
    """A ranker whose rows are in no order, and which warns."""

    def rank(frame):
        warnings.warn(message, category, stacklevel=2)
        found = pd.DataFrame(PASSAGES_OF_QUERIES, columns=["qid", "docno", "score"])
        return found.merge(frame[["qid", "query"]], on="qid").assign(rank=0)

    return pt.apply.generic(rank)


def test_the_best_passages_of_a_query_go_by_their_score():
    turn = pd.DataFrame({"qid": ["1"], "query": ["q"], "qsubqueries": [["a", "b", "c"]]})
    quiet = warning_ranker("1 query without a passage; counted 0", NoResultWarning)
    assert G.BestQuery(quiet, 1)(turn)["query"].item() == "a"
    assert G.BestQuery(quiet)(turn)["query"].item() == "b"
    with pytest.warns(UserWarning, match="the index is old"):
        G.BestQuery(warning_ranker("the index is old", UserWarning))(turn)
    with pytest.raises(DataError, match="several rows"):
        G.BestQuery(quiet)(pd.concat([turn, turn]))


def test_a_plan_of_the_best_query_keeps_its_own_cut():
    turn = pd.DataFrame({"qid": ["1"], "query": ["q"], "qsubqueries": [["a", "b"]]})
    plan = Plan("mine", set())
    before = plan.cut
    G.BestQuery(warning_ranker("none", UserWarning) % 3).plan(turn, plan)
    assert plan.cut == before


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
    ranker = ikat.Rewrite(llm, question="query") >> warning_ranker("none", UserWarning)
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


def test_a_ranker_without_scores_is_named():
    ranker = pt.apply.generic(lambda rows: rows.assign(docno="d", rank=0))
    with pytest.raises(pt.validate.InputValidationError, match="score"):
        G.BestQuery(ranker)(SAME_QUERY_TWICE)
