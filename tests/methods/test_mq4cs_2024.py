"""MQ4CS by hand: lists of several queries, re-ranked each by its query and interleaved."""

import pytest
from methods.answered import FOUND, Reads, ran


@pytest.mark.parametrize(
    ("name", "docnos"),
    [("mq4cs", "abdc"), ("mq4cs_ans", "abdc"), ("mq4cs:n=2", "abc"), ("mq4cs_ans:n=1", "ab")],
)
def test_mq4cs_interleaves_n_lists_each_re_ranked_by_its_query(name, docnos):
    # a of the first, b of the second, d of the third; then the first's b is taken, c of the second
    reranker = Reads()
    results, queries, _ = ran(name, reranker=reranker)
    assert "".join(results["docno"]) == docnos
    pairs = []
    for query in queries:
        pairs += [[query, docno] for docno in FOUND[query]]
    assert reranker.pairs == pairs
