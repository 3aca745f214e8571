"""APCIR by hand: three scaled lists by the weights of a level."""

from methods.answered import Reads, ran, scores

import pyterrier_ikat as ikat


def test_apcir_sums_three_scaled_lists_by_the_levels_weights():
    results, queries, prompts = ran("apcir")
    assert sorted(queries) == ["Which evening tea?", "Which tea?", "Which tea? Rooibos."]
    # scaled: a 1, b 0; c 1, b 0; d 1, a 0; the weights of level c are 1, .1 and .6
    assert scores(results) == {"a": 1.0, "d": 0.6, "c": 0.1, "b": 0.0}
    assert ["I sleep badly." in prompt for prompt in prompts] == [True, False]


def test_apcir_takes_weights_and_may_re_rank_by_personal_rewrite():
    reranker = Reads()
    results, _, _ = ran(
        ikat.methods.apcir,
        reranker=reranker,
        weights={level: (0, 1, 0) for level in "abc"},
        rerank_depth=2,
    )
    assert reranker.pairs[0] == ["Which evening tea?", "c"]
    assert len(results) == len(reranker.pairs) == 2
