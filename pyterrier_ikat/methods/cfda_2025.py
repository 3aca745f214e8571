"""Chang et al., CFDA & CLIP at TREC iKAT 2025 (arXiv 2509.15588): the best of N rewrites, of two kinds of rewriter, fused and re-ranked.

Their released code was read for what the paper leaves open. They choose the best rewrite by AdaRewriter (Lai et al., arXiv 2506.01381), a
reward model trained on QReCC, whose weights aren't public: here :class:`~pyterrier_ikat.generate.BestQuery` chooses the one whose
passages a re-ranker scores highest. No score of a paper is reported here: these are other systems than the authors'.
"""

import pyterrier as pt

from ..fuse import RRF, RerankAgainst
from ..generate import BestQuery, Rewrite, RewriteAndAnswer, Samples
from ..llms import LLM
from .chiq_2024 import enhanced
from .definition import method

PAPER = "Chang et al., CFDA & CLIP at TREC iKAT 2025"
_MODELS = {
    "llm": "openai:gpt-4o-mini temperature=1.0 top_p=0.9",
    "retriever": "SPLADE",
    "reranker": "naver/trecdl22-crossencoder-debertav3",
}


def _best(drawn: pt.Transformer, retriever: pt.Transformer, reranker: pt.Transformer, passages: int) -> pt.Transformer:
    return drawn >> BestQuery(retriever % passages >> reranker, passages)


@method(paper=PAPER, models=_MODELS)
def best_of_n(
    llm: LLM, retriever: pt.Transformer, reranker: pt.Transformer, *, n: int = 10, passages: int = 10, depth: int = 1000
) -> pt.Transformer:
    """The best of ``n`` sampled LLM4CS rewrites: the one whose top ``passages`` the re-ranker scores highest.

    ``n`` LLM calls, up to ``n`` + 1 searches and ``n`` x ``passages`` + ``depth`` re-ranked pairs per turn. The prompt of LLM4CS asks for
    an answer, too; as in the scripts that the authors released it isn't searched for.

    Example:
        >>> import pyterrier_ikat as ikat
        >>> ikat.methods.best_of_n(ikat.llm("openai:gpt-4o-mini"), ikat.PassageIndex("i").bm25(), minilm)  # doctest: +SKIP
    """
    drawn = Samples(RewriteAndAnswer(llm), n, ("qrewrite",))
    return _best(drawn, retriever, reranker, passages) >> retriever % depth >> reranker


@method(paper=PAPER, models=_MODELS)
def cfda_best_of_n(
    llm: LLM,
    retriever: pt.Transformer,
    reranker: pt.Transformer,
    *,
    n: int = 10,
    passages: int = 10,
    depth: int = 1000,
    rerank_depth: int = 100,
) -> pt.Transformer:
    """The best of ``n`` CHIQ-AD rewrites and the best of ``n`` LLM4CS rewrites, their lists fused by RRF and re-ranked.

    CHIQ-AD has no summary of the history here, and the re-ranker sees the LLM4CS rewrite and the first ``rerank_depth`` passages, as in
    the authors' code. 2 x ``n`` LLM calls and 4 for CHIQ's history per turn, 2 in a first turn. Their responses, from summaries of up
    to 20 passages, are not part of it.

    Example:
        >>> import pyterrier_ikat as ikat
        >>> ikat.methods.cfda_best_of_n(ikat.llm("openai:gpt-4o-mini"), splade, ikat.CrossEncoder("..."))  # doctest: +SKIP
    """
    chiq = enhanced(llm, summarise=False) >> Samples(Rewrite(llm, "enhanced", question="qrewrite"), n, ("qrewrite",))
    llm4cs = Samples(RewriteAndAnswer(llm), n, ("qrewrite",))
    branches = [_best(drawn, retriever, reranker, passages) >> retriever % depth for drawn in (chiq, llm4cs)]
    return RRF(*branches, num_results=rerank_depth) >> RerankAgainst(reranker, "qrewrite", rerank_depth)
