"""RALI by hand: three lists by weights, re-ranked by the personalised rewrite."""

import pytest
from methods.answered import Reads, ran, scores

import pyterrier_ikat as ikat


def test_rali_sums_three_lists_by_the_weights_of_its_code():
    ranked, _, _ = ran(ikat.methods.rali, respond=False)
    # least scores 6, 20 and 2: a: 10 + 2 + .8, b: 6 + 2 + .8, c: 6 + 5 + .8, d: 6 + 2 + 4.8
    assert scores(ranked) == pytest.approx({"a": 12.8, "d": 12.8, "c": 11.8, "b": 8.8})
    assert ranked["docno"].tolist() == [
        "a",
        "d",
        "c",
        "b",
    ]  # a and d tie and are both first in a list: the earlier list goes first
    assert (
        ranked["query"].unique().tolist()
        == ranked["qrewrite"].unique().tolist()
        == ["Which evening tea?"]
    )


def test_ralis_personalised_rewrite_re_ranks_the_first():
    reranker = Reads()
    ranked, _, _ = ran(ikat.methods.rali, reranker=reranker, rerank_depth=3, respond=False)
    assert reranker.pairs[-3:] == [["Which evening tea?", docno] for docno in "adc"]
    assert len(ranked) == 3
