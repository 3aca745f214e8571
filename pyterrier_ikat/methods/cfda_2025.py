"""CFDA & CLIP: the best of N rewrites by each of two rewriters, fused and re-ranked.

Chang et al., CFDA & CLIP at TREC iKAT 2025 (arXiv 2509.15588). Where the paper leaves details open,
we read the released code (gyeozai/CFDA-TREC-iKAT2025 at 68884f9). The authors choose the best
rewrite with AdaRewriter (Lai et al., arXiv 2506.01381), a reward model trained on QReCC. Its
weights aren't public. So :class:`~pyterrier_ikat.generate.BestQuery` here chooses the rewrite whose
passages a re-ranker scores highest. The tables below have the scores of the authors' runs in that
repository. There the reward model chose among rewrites of the same kind, so these are not scores of
our choice. Its choices are public, though:
``best_of_n:queries=queries_adarewriter10_llm4csnpr_cand10_2023.tsv`` searches for them again.
"""

from ..errors import UsageError
from ..fuse import RRF, RerankAgainst
from ..generate import (
    BestQuery,
    Condense,
    Enhance,
    GivenQueries,
    Respond,
    Rewrite,
    RewriteAndAnswer,
    Samples,
    SelectStatements,
)
from ..llms import LLM
from .definition import Stage, method

PAPER = "Chang et al., CFDA & CLIP at TREC iKAT 2025"
_GPT = "openai:gpt-4o-mini temperature=1.0 top_p=0.9"
_MODELS = {"llm": _GPT, "retriever": "SPLADE", "reranker": "naver/trecdl22-crossencoder-debertav3"}


def personal_chiq(llm: LLM) -> Stage:
    """CHIQ's enhancements for the personal rewrite, as in the authors' ``CHIQ/rewrite_chiq.py``.

    They are the topic, from the conversation alone; the clarified question; a guess at the answer,
    from the raw history and utterance; the expanded last response; and the user's preferences, from
    the history with that response and the clarified question. All prompts but the first show the
    persona and follow a system message. The guess has at most 20 words (``CHIQ/prompts.py``). There
    is no summary. If a new topic begins, as in a first turn, the answer is not guessed, and the
    response is not expanded. Their code also asks for the topic in a first turn. We don't, because
    the answer is known.

    Example:
        >>> import pyterrier_ikat as ikat
        >>> len(ikat.methods.cfda_2025.personal_chiq(ikat.llm("recorded:sample")))
        5
    """
    topic_switch = Enhance(llm, "topic")
    clarified_question = Rewrite(llm, "clear")
    pseudo_response = Enhance(llm, "guess")
    response_expansion = Enhance(llm, "personal_response")
    preferences = Enhance(llm, "preferences", question="qrewrite")
    return (
        topic_switch >> clarified_question >> pseudo_response >> response_expansion >> preferences
    )


def _best(samples: Stage, retriever: Stage, reranker: Stage, passages: int) -> Stage:
    """The sample whose first passages the re-ranker scores highest."""
    return samples >> BestQuery(retriever % passages >> reranker, passages)


@method(paper=PAPER, models=_MODELS, instead={"queries": "llm"})
def best_of_n(
    llm: LLM | None,
    retriever: Stage,
    reranker: Stage,
    *,
    n: int = 10,
    passages: int = 10,
    depth: int = 100,
    queries: str = "",
) -> Stage:
    """The best of ``n`` sampled LLM4CS rewrites, by the re-ranker's scores of their passages.

    The mean score of the first ``passages`` counts. ``n`` LLM calls, up to ``n`` + 1 searches and
    ``n`` x ``passages`` + ``depth`` re-ranked pairs per turn. The prompt of LLM4CS also asks for an
    answer. As in the authors' released scripts, the answer is not part of the query, and the
    re-ranker reads the first 100 passages, which are the whole ranking.

    ``queries`` is a file of queries that were chosen already, see
    :class:`~pyterrier_ikat.generate.GivenQueries`: then no LLM is asked and nothing is chosen. With
    the authors' files these are AdaRewriter's choices, and the systems those of their runs.

    Example:
        >>> import pyterrier_ikat as ikat
        >>> ikat.methods.best_of_n(llm, bm25, minilm)  # doctest: +SKIP
    """
    if queries:
        return GivenQueries(queries) >> retriever % depth >> reranker
    if llm is None:
        raise UsageError("best_of_n without an llm needs queries=FILE, which were chosen already")
    rewrites = Samples(RewriteAndAnswer(llm), n, ("qrewrite",))
    best_rewrite = _best(rewrites, retriever, reranker, passages)
    return best_rewrite >> retriever % depth >> reranker


@method(paper=PAPER, models=_MODELS)
def cfda_best_of_n(
    llm: LLM,
    retriever: Stage,
    reranker: Stage,
    *,
    n: int = 10,
    passages: int = 10,
    depth: int = 1000,
    rerank_depth: int = 100,
) -> Stage:
    """The best of ``n`` personal CHIQ-AD rewrites and of ``n`` LLM4CS rewrites, fused by RRF.

    As in the authors' code, the re-ranker sees the LLM4CS rewrite and the first ``rerank_depth``
    passages. :func:`personal_chiq` describes the history. Each turn needs 2 x ``n`` LLM calls and
    those for CHIQ's history: 5, or 3 if a new topic begins, or 2 in a first turn.

    What differs: how the best rewrite is chosen (see above); the list of CHIQ's rewrite comes first
    in the fusion, and in theirs that of the LLM4CS rewrite, which matters for ties alone; the
    wording of every prompt is ours; the queries come as a line of text, and theirs as JSON; LLM4CS
    has no examples. :func:`cfda_auto` also writes responses.

    Example:
        >>> import pyterrier_ikat as ikat
        >>> ikat.methods.cfda_best_of_n(llm, splade, ikat.CrossEncoder("..."))  # doctest: +SKIP
    """
    personal_rewrite = Rewrite(llm, "personal", question="qrewrite")
    chiq = personal_chiq(llm) >> Samples(personal_rewrite, n, ("qrewrite",))
    llm4cs = Samples(RewriteAndAnswer(llm), n, ("qrewrite",))
    search = retriever % depth
    fused = RRF(
        _best(chiq, retriever, reranker, passages) >> search,
        _best(llm4cs, retriever, reranker, passages) >> search,
        num_results=rerank_depth,
    )
    return fused >> RerankAgainst(reranker, "qrewrite", rerank_depth)


@method(paper=PAPER, models=_MODELS)
def cfda_auto(
    llm: LLM,
    retriever: Stage,
    reranker: Stage,
    *,
    n: int = 10,
    passages: int = 10,
    depth: int = 1000,
    rerank_depth: int = 100,
    threshold: float | None = 0.3,
) -> Stage:
    """CFDA's whole automatic run: the ranking of :func:`cfda_best_of_n`, statements, a response.

    The response is written from up to 20 passages. As in the authors' code (``ikat-offline``), the
    first passage is cited, and the next ones up to the first that doesn't score above
    ``threshold``. Three of them are shown whole, and the others are summarised in groups of five.
    The response is written from these and the chosen statements, in at most 250 words. Up to 6 more
    LLM calls per turn than for the ranking.

    What differs: the statements, the summaries and the response are written for the raw utterance.
    The authors' code shows them the manual rewrite (``resolved_utterance`` in ``put_ptkb.py`` and
    ``put_response.py``), although the run is called automatic, and ours may not. Also, the wording
    of every prompt is ours; the temperatures are those of ``llm`` (theirs: 0, .1 and .5); the whole
    history is shown (theirs: the first 25 words of each response); the response is cut at the end
    of a sentence; new facts that the user mentions are not added to the statements. Put
    :class:`~pyterrier_ikat.generate.UpdatePtkb` before the system for that.

    Example:
        >>> import pyterrier_ikat as ikat
        >>> ikat.methods.cfda_auto(llm, splade, ikat.CrossEncoder("..."))  # doctest: +SKIP
    """
    ranking = cfda_best_of_n(
        llm, retriever, reranker, n=n, passages=passages, depth=depth, rerank_depth=rerank_depth
    )
    return _responded(llm, ranking, threshold)


@method(paper=PAPER, models={"llm": _GPT, "retriever": "an unnamed one: the organisers' ranking"})
def cfda_generation_only(
    llm: LLM, retriever: Stage, *, depth: int = 1000, threshold: float | None = 0.3
) -> Stage:
    """CFDA's generation-only run: statements and response of :func:`cfda_auto`.

    They are made for an existing ranking. Up to 6 LLM calls per turn. ``retriever`` is an
    ``ikat.GivenRanking``. The authors' code also takes the organisers' statements. Here the LLM
    chooses them. ``threshold`` suits the scores of the re-ranker that made that ranking.

    Example:
        >>> import pyterrier_ikat as ikat
        >>> texts = ikat.PassageIndex("full.index").text_loader()  # doctest: +SKIP
        >>> given = ikat.GivenRanking("organisers.trec", texts)  # doctest: +SKIP
        >>> ikat.methods.cfda_generation_only(llm, given)  # doctest: +SKIP
    """
    return _responded(llm, retriever % depth, threshold)


def _responded(llm: LLM, ranking: Stage, threshold: float | None) -> Stage:
    """A ranking with chosen statements and a response from its condensed passages."""
    statements = SelectStatements(llm, "copies")
    condensed = Condense(llm, threshold=threshold)
    response = Respond(llm, words=250, form="condensed", statements="chosen")
    return statements >> ranking >> condensed >> response
