"""Chang et al., CFDA & CLIP at TREC iKAT 2025 (arXiv 2509.15588): the best of N rewrites, of two kinds of rewriter, fused and re-ranked.

Their released code (gyeozai/CFDA-TREC-iKAT2025 at 68884f9) was read for what the paper leaves open. They choose the best rewrite by
AdaRewriter (Lai et al., arXiv 2506.01381), a reward model trained on QReCC, whose weights aren't public: here
:class:`~pyterrier_ikat.generate.BestQuery` chooses the one whose passages a re-ranker scores highest. Scores of the authors' runs in
that repository are in the tables below. They are of the model's choice among the same kind of rewrites, not of ours.
"""

import pyterrier as pt

from ..fuse import RRF, RerankAgainst
from ..generate import (
    BestQuery,
    Condense,
    ExpandResponse,
    GuessAnswer,
    Preferences,
    Respond,
    Rewrite,
    RewriteAndAnswer,
    Samples,
    SelectStatements,
    TopicSwitch,
)
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
    come as JSON; LLM4CS has no examples. :func:`cfda_auto` has their responses, too.

    Example:
        >>> import pyterrier_ikat as ikat
        >>> ikat.methods.cfda_best_of_n(ikat.llm("openai:gpt-4o-mini"), splade, ikat.CrossEncoder("..."))  # doctest: +SKIP
    """
    chiq = personal_chiq(llm) >> Samples(Rewrite(llm, "personal", question="qrewrite"), n, ("qrewrite",))
    llm4cs = Samples(RewriteAndAnswer(llm), n, ("qrewrite",))
    branches = [_best(drawn, retriever, reranker, passages) >> retriever % depth for drawn in (chiq, llm4cs)]
    return RRF(*branches, num_results=rerank_depth) >> RerankAgainst(reranker, "qrewrite", rerank_depth)


@method(paper=PAPER, models=_MODELS)
def cfda_auto(
    llm: LLM,
    retriever: pt.Transformer,
    reranker: pt.Transformer,
    *,
    n: int = 10,
    passages: int = 10,
    depth: int = 1000,
    rerank_depth: int = 100,
    threshold: float | None = 0.3,
) -> pt.Transformer:
    """CFDA's whole automatic run: the ranking of :func:`cfda_best_of_n`, statements, and a response from up to 20 passages.

    As in the authors' code (``ikat-offline``): the first passage and those after it that score above ``threshold``, until the first that
    doesn't, are the citations; three of them stay whole, the others are summed up by fives; the response reads these and the chosen
    statements, in at most 250 words. Up to 6 LLM calls per turn more than for the ranking.

    What differs: every prompt is worded by us; the temperatures are those of ``llm`` (theirs: 0, .1 and .5); the whole history is shown,
    where theirs has the first 25 words of each response; the response is cut at the end of a sentence; what the user newly says about
    themselves isn't added to the statements, which :class:`~pyterrier_ikat.generate.UpdatePtkb` before the system does.

    Example:
        >>> import pyterrier_ikat as ikat
        >>> ikat.methods.cfda_auto(ikat.llm("openai:gpt-4o-mini"), splade, ikat.CrossEncoder("..."))  # doctest: +SKIP
    """
    ranking = cfda_best_of_n(llm, retriever, reranker, n=n, passages=passages, depth=depth, rerank_depth=rerank_depth)
    return _responded(llm, ranking, threshold)


@method(paper=PAPER, models={"llm": _MODELS["llm"], "retriever": "an unnamed one: the organisers' ranking"})
def cfda_generation_only(llm: LLM, retriever: pt.Transformer, *, depth: int = 1000, threshold: float | None = 0.3) -> pt.Transformer:
    """CFDA's generation-only run: statements and response of :func:`cfda_auto`, to a ranking that is there already.

    Up to 6 LLM calls per turn. ``retriever`` is an ``ikat.GivenRanking``; the authors' code takes the organisers' statements, too, which
    are chosen here. ``threshold`` suits the scores of the re-ranker that made that ranking.

    Example:
        >>> import pyterrier_ikat as ikat
        >>> given = ikat.GivenRanking("organisers.trec", ikat.PassageIndex("full.index").text_loader())  # doctest: +SKIP
        >>> ikat.methods.cfda_generation_only(ikat.llm("openai:gpt-4o-mini"), given)  # doctest: +SKIP
    """
    return _responded(llm, retriever % depth, threshold)


def _responded(llm: LLM, ranking: pt.Transformer, threshold: float | None) -> pt.Transformer:
    condensed = SelectStatements(llm, "copies") >> ranking >> Condense(llm, threshold=threshold)
    return condensed >> Respond(llm, words=250, form="condensed", statements="chosen")


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
