"""Chang et al., CFDA & CLIP at TREC iKAT 2025 (arXiv 2509.15588): the best of N rewrites, of two kinds of rewriter, fused and re-ranked.

Their released code (gyeozai/CFDA-TREC-iKAT2025 at 68884f9) was read for what the paper leaves open. They choose the best rewrite by
AdaRewriter (Lai et al., arXiv 2506.01381), a reward model trained on QReCC, whose weights aren't public: here
:class:`~pyterrier_ikat.generate.BestQuery` chooses the one whose passages a re-ranker scores highest. Scores of the authors' runs in
that repository are in the tables below. They are of the model's choice among the same kind of rewrites, not of ours.
"""

import pyterrier as pt

from ..fuse import RRF, RerankAgainst
from ..generate import BestQuery, ExpandResponse, GuessAnswer, Preferences, Rewrite, RewriteAndAnswer, Samples, TopicSwitch
from ..llms import LLM
from .definition import Table, method

PAPER = "Chang et al., CFDA & CLIP at TREC iKAT 2025"
_MODELS = {
    "llm": "openai:gpt-4o-mini temperature=1.0 top_p=0.9",
    "retriever": "SPLADE",
    "reranker": "naver/trecdl22-crossencoder-debertav3",
}


def personal_chiq(llm: LLM) -> pt.Transformer:
    """CHIQ's enhancements as the authors' code has them (``CHIQ/rewrite_chiq.py``): what the personal rewrite reads.

    The topic, from the conversation alone; the question made clear; a guess at the answer, from the raw history and utterance; the last
    response expanded; and the user's preferences, from the history with that response and the clear question. All but the first show the
    persona, and have a system message before the prompt. There is no summary. Where a new topic begins, as in a first turn, neither is the
    answer guessed nor the response expanded. Their code also asks in a first turn for the topic; the answer is known, and here not asked.

    Example:
        >>> import pyterrier_ikat as ikat
        >>> len(ikat.methods.cfda_2025.personal_chiq(ikat.llm("recorded:sample")))
        5
    """
    question = TopicSwitch(llm) >> Rewrite(llm, "clear")
    return question >> GuessAnswer(llm) >> ExpandResponse(llm, persona=True) >> Preferences(llm, question="qrewrite")


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
    """The best of ``n`` personal CHIQ-AD rewrites and the best of ``n`` LLM4CS rewrites, their lists fused by RRF and re-ranked.

    As in the authors' code: the re-ranker sees the LLM4CS rewrite and the first ``rerank_depth`` passages; for :func:`personal_chiq` see
    there. 2 x ``n`` LLM calls per turn and 5 for CHIQ's history, 3 where a new topic begins, 2 in a first turn.

    What differs: how the best rewrite is chosen (see above); every prompt is worded by us; the queries come as a line of text, where theirs
    come as JSON; LLM4CS has no examples. Their responses, from summaries of up to 20 passages, are not part of it.

    Example:
        >>> import pyterrier_ikat as ikat
        >>> ikat.methods.cfda_best_of_n(ikat.llm("openai:gpt-4o-mini"), splade, ikat.CrossEncoder("..."))  # doctest: +SKIP
    """
    chiq = personal_chiq(llm) >> Samples(Rewrite(llm, "personal", question="qrewrite"), n, ("qrewrite",))
    llm4cs = Samples(RewriteAndAnswer(llm), n, ("qrewrite",))
    branches = [_best(drawn, retriever, reranker, passages) >> retriever % depth for drawn in (chiq, llm4cs)]
    return RRF(*branches, num_results=rerank_depth) >> RerankAgainst(reranker, "qrewrite", rerank_depth)


_PERF = "(ikat-baseline/EXP/adarewriter10_llm4csnpr_cand10_splade_rerank_deberta"
TABLES = {
    f"cfda_on_{year}": Table(
        f"{PAPER}, repository, AdaRewriter's choice {_PERF}/IKAT{year}/perf.json)",
        turns,
        f"NIST judgements of iKAT {year}",
        ("nDCG@5", "nDCG@10", "Recall(rel=2)@20", "Recall(rel=2)@100", "MRR(rel=2)"),
        f"best_of_n {scores}",
    )
    for year, turns, scores in ((2023, 176, ".2309 .2153 .1224 .2166 .3134"), (2024, 116, ".4428 .4218 .1870 .3295 .6646"))
}
