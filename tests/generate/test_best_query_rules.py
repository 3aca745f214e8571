"""The rules that choose among a turn's queries: by their scores, agreement and spread."""

import numpy as np
import pandas as pd
import pyterrier as pt
import pytest
from fakes import scripted
from hypothesis import given
from hypothesis import strategies as st

import pyterrier_ikat as ikat


class Table(pt.Transformer):
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
    return ikat.generate.BestQuery(ranker, **options)(turns(queries))["query"].item()


def test_the_query_whose_best_passages_score_highest_is_chosen():
    found = Table(dict.fromkeys("abc", "xyz"), {"a": [9, 1, 1], "b": [5, 5, 0], "c": [4, 4, 4]})
    assert [chosen(found, *"abc", passages=passages) for passages in (1, 2, 3)] == [
        "a",
        "a",
        "c",
    ]  # 9; 5, 5; 3.67, 3.33, 4
    out = ikat.generate.BestQuery(found, 3)(turns("abc"))
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
        >> ikat.generate.BestQuery(Table({}) % 3 >> ikat.LLMRerank(other, 3))
        >> Table({}) % 7
    )
    rows = ikat.plan({"x": system}, ikat.conversation([{"role": "user", "content": "Tea?"}]))
    assert rows[["stage", "calls"]].values.tolist() == [["rewrite", 4], ["rerank", 12]]


# y 1/62 + 1/61 + 1/63, x 1/61 + 1/62, z 1/63 + 1/61, w 1/63 + 1/62
THREE = {"a": "xyz", "b": "yxw", "c": "zwy"}


def test_the_query_sharing_most_passages_with_fusion_is_chosen():
    assert (
        chosen(Table(THREE), *"cab", rule="agreement", passages=2) == "a"
    )  # of {y, x}: c none, a and b two
    assert (
        chosen(Table(THREE), *"cba", rule="agreement", passages=2) == "b"
    )  # the first of equal ones
    assert chosen(Table(THREE), *"cab", rule="agreement", passages=1) == "b"  # of {y}


def test_whole_rankings_are_fused_not_only_counting_passages():
    assert (
        chosen(Table({"a": "xy", "b": "zy"}), *"ab", rule="agreement", passages=1) == "a"
    )  # y 2/62, which is nobody's first
    deep = {
        "a": "xv",
        "b": "yuz",
        "c": "zv",
    }  # z 1/61 + 1/63; v 2/62; without the third ranks v would be first
    assert chosen(Table(deep), *"abc", rule="agreement", passages=1) == "c"


@pytest.mark.parametrize("found", ["xy", "yx"])
def test_tied_passages_stand_as_trec_eval_ranks_them(found):
    table = Table({"a": found, "b": "y"}, {"a": [1, 1]})
    assert chosen(table, *"ab", rule="agreement", passages=1) == "a"  # whose first is y


def test_a_query_counts_as_often_as_written_and_is_searched_once():
    found = Table({"a": "xy", "c": "zw"})
    assert chosen(found, *"ac", rule="agreement", passages=2) == "a"  # of {x, z} each has one
    assert chosen(found, *"acc", rule="agreement", passages=2) == "c"  # of {z, w}
    assert found.searched == [*"ac", *"ac"]


@pytest.mark.parametrize("rule", ["score", "agreement", "spread"])
def test_queries_finding_nothing_are_last_or_else_the_first_wins(rule):
    assert chosen(Table({"a": "x"}), *"ca", rule=rule) == "a"
    assert chosen(Table({}), *"ca", rule=rule) == "c"


@pytest.mark.parametrize("rule", ["score", "agreement", "spread"])
def test_one_query_or_none_needs_no_search(rule):
    found = Table(THREE)
    assert ikat.generate.BestQuery(found, rule=rule)(turns("a", "bb", ""))["query"].tolist() == [
        "a",
        "b",
        "it?",
    ]
    assert not found.searched


def test_the_query_with_scores_most_spread_from_mean_is_chosen():
    found = Table(
        {"a": "xy", "b": "xy", "c": "xy"}, {"a": [4, 2], "b": [19, 15], "c": [2, 1]}
    )  # 1/3, 2/17, .5/1.5
    assert chosen(found, *"bac", rule="spread") == "a"
    assert chosen(found, *"bca", rule="spread") == "c"
    assert chosen(found, *"bac", rule="spread", passages=1) == "b"  # one score has no spread
    more = Table({"a": "xyz", "b": "xyz"}, {"a": [3, 3, 0.5], "b": [3, 2, 2]})
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
        chosen(Table({"a": "xy", "b": "xy"}, {"a": scores, "b": [2, 1]}), *"ab", rule=rule)


def test_the_spread_reads_a_hundred_passages_unless_told():
    first = [10.0] * 99 + [9.0]
    found = Table(
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
        fusion = ikat.ExplodeQueries() >> Table(rankings) >> ikat.RRF()
        fused = fusion(turns(samples))["docno"].tolist()
        for query in shared:
            if rankings.get(query):
                shared[query] = len({*fused[:passages]} & {*rankings[query][:passages]})
    query = chosen(Table(rankings), *samples, rule="agreement", passages=passages)
    assert query == max(shared, key=shared.get)


SCORES = st.lists(st.integers(1, 9), max_size=4).map(lambda scores: sorted(scores, reverse=True))
PLAIN = {"score": np.mean, "spread": lambda found: np.std(found) / np.mean(found)}


@pytest.mark.parametrize("rule", PLAIN)
@given(st.dictionaries(st.sampled_from("abcd"), SCORES, min_size=1), SAMPLES, st.integers(1, 5))
def test_the_first_of_the_largest_means_or_spreads_is_chosen(rule, scores, samples, passages):
    table = Table({query: range(len(found)) for query, found in scores.items()}, scores)
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
    together = ikat.generate.BestQuery(Table(rankings), rule=rule)(
        frame.sample(frac=1, random_state=random.randrange(9))
    )
    alone = {}
    for qid, queries in zip(frame["qid"], lists, strict=True):
        alone[qid] = chosen(Table(rankings), *queries, rule=rule)
    assert dict(zip(together["qid"], together["query"], strict=True)) == alone
