"""MQ4CS, several queries for one question, and its runs at TREC iKAT 2024.

**Lupart, Abbasiantaeb, Aliannejadi, IRLab@iKAT24: several queries for retrieval, one rewrite for
re-ranking.**

Every run also has the PTKB statements that the LLM copies (section 3.3), and a response of at most
200 words from the top five passages (section 3.2). Both prompts show the whole PTKB, and nothing
reads the copied statements, so their call stands before the retrieval. These arguments mean the
same in all its systems:

- ``llm``: the model to ask (GPT-4 in the paper).
- ``retriever``: the first stage with the passages' text: SPLADE
  (``ikat.Splade(...).index(...).retriever()``), or BM25 for ``gpt4qr_bm25_qd1``.
- ``reranker``: DeBERTaV3 (``naver/trecdl22-crossencoder-debertav3``), ``ikat.Ensemble()``, or
  MiniLM-L-6 for ``gpt4qr_bm25_qd1``.
- ``depth``: passages per query, and re-ranked (section 4.2: 1000).
- ``respond``: whether the last two stages run. Without them the ranking is the same, and each turn
  needs two LLM calls fewer.

**Abbasiantaeb, Lupart and Aliannejadi, Generating Multi-Aspect Queries for Conversational Search
(arXiv 2403.19302v3): MQ4CS.**

The first version of this preprint is Generate then Retrieve; the third has another title and other
experiments. MQ4CS continues QD, and MQ4CS_ans continues AQD. The number of queries becomes a
variable: the paper compares several, and an oracle that knows the best number for each turn. ``ikat
run mq4cs:n=1 mq4cs:n=2 mq4cs`` compares them. The oracle reads judgements, so it is a row of an
evaluation: ``ikat.evaluate(runs, measures=["nDCG@3"], oracle=True)``.

We read the abstract of version 3, public summaries of it, the description in Lupart et al.,
IRLab@iKAT24, section 3.1, and the prompts with which Mo et al. run it as a baseline of APCIR
(``functional/promptor.py`` in YuchenHui22314/TREC_iKAT_2024 at 646ba6d). There, answers have at
most 200 words. We could not read the full text, so its scores are missing. So is a third variant
that the summaries mention but don't describe; ``aqd_a`` of version 1 re-ranks by the answer. The
re-ranker and the prompts are those of version 1.
"""

from ..arguments import one_of
from ..fuse import RRF, Interleave, RerankAgainst, Union
from ..generate import Answer, ManualRewrite, MultiQuery, Respond, Rewrite, SelectStatements
from ..llms import LLM
from .definition import Stage, method
from .generate_then_retrieve import retrieve

_IRLAB = "Lupart, Abbasiantaeb and Aliannejadi, IRLab@iKAT24"
_SPLADE = {"llm": "openai:gpt-4", "retriever": "SPLADE, naver/splade-cocondenser-selfdistil"}
_DEBERTA = {"reranker": "naver/trecdl22-crossencoder-debertav3"}
_ENSEMBLE = {"reranker": "ensemble"}
_BM25 = {
    "llm": "openai:gpt-4",
    "retriever": "BM25",
    "reranker": "cross-encoder/ms-marco-MiniLM-L-6-v2",
}
POOLS = ("interleave", "union", "rrf")


def _pool(name: str, depth: int) -> Stage:
    """The operator that pools the passages of all queries."""
    one_of(POOLS, pool=name)
    if name == "interleave":
        return Interleave(num_results=depth)
    if name == "rrf":
        return RRF(num_results=depth)
    return Union()


def _responded(llm: LLM, ranking: Stage, respond: bool) -> Stage:
    """The ranking with PTKB classification (section 3.3) and a response (section 3.2)."""
    if not respond:
        return ranking
    ptkb_classification = SelectStatements(llm, form="copies")
    response_generation = Respond(llm, passages=5, words=200)
    return ptkb_classification >> ranking >> response_generation


@method("mq4cs_qr_deberta", paper=_IRLAB, models=_SPLADE | _DEBERTA)
@method("mq4cs_qr_ensemble", paper=_IRLAB, models=_SPLADE | _ENSEMBLE)
def mq4cs_qr(
    llm: LLM,
    retriever: Stage,
    reranker: Stage,
    *,
    n: int = 5,
    depth: int = 1000,
    pool: str = "interleave",
    respond: bool = True,
) -> Stage:
    """MQ4CS-QR: up to ``n`` queries retrieve, the single rewrite re-ranks (section 3.1, Figure 1).

    ``n`` is the paper's phi. Two LLM calls and at most ``n`` queries per turn for the ranking. The
    paper does not specify the pooling; ``pool`` is ``"interleave"`` (round robin, cut to
    ``depth``), ``"union"`` (nothing cut before re-ranking) or ``"rrf"`` (reciprocal rank fusion,
    cut to ``depth``). Section 3.1 re-ranks all retrieved passages, up to 5 x 1000, and section 4.2
    re-ranks 1000. The default follows section 4.2.

    Raises:
        UsageError: for another ``pool``.

    Example:
        >>> import pyterrier_ikat as ikat
        >>> splade = ikat.Splade().index("splade.index", passages).retriever()  # doctest: +SKIP
        >>> ikat.methods.mq4cs_qr(llm, splade, ikat.Ensemble())  # doctest: +SKIP
    """
    single_rewrite = Rewrite(llm)
    multiple_queries = MultiQuery(llm, n)
    retrieval = multiple_queries >> retriever % depth >> _pool(pool, depth)
    reranking = RerankAgainst(reranker, "qrewrite", num_results=depth)
    return _responded(llm, single_rewrite >> retrieval >> reranking, respond)


@method("gpt4qr_deberta", paper=_IRLAB, models=_SPLADE | _DEBERTA)
def gpt4qr(
    llm: LLM, retriever: Stage, reranker: Stage, *, depth: int = 1000, respond: bool = True
) -> Stage:
    """GPT4QR: the single rewrite retrieves and re-ranks.

    One LLM call, one query per turn for the ranking.

    Example:
        >>> import pyterrier_ikat as ikat
        >>> ikat.methods.gpt4qr(llm, splade, ikat.CrossEncoder("..."))  # doctest: +SKIP
    """
    single_rewrite = Rewrite(llm)
    return _responded(llm, single_rewrite >> retriever % depth >> reranker, respond)


@method("gpt4qr_bm25_qd1", paper=_IRLAB, models=_BM25)
def gpt4qr_qd1(
    llm: LLM, retriever: Stage, reranker: Stage, *, depth: int = 1000, respond: bool = True
) -> Stage:
    """GPT4QR-bm25-QD1: one query, generated by the prompt for several queries (phi = 1).

    One LLM call, one query per turn for the ranking.

    Example:
        >>> import pyterrier_ikat as ikat
        >>> ikat.methods.gpt4qr_qd1(ikat.llm("openai:gpt-4"), bm25, minilm)  # doctest: +SKIP
    """
    single_query = MultiQuery(llm, n=1)
    one_list = Interleave(num_results=depth)  # of one query: its rows become the turn's again
    ranking = single_query >> retriever % depth >> reranker >> one_list
    return _responded(llm, ranking, respond)


@method("humanqr_deberta", paper=_IRLAB, models=_SPLADE | _DEBERTA, uses_gold=True)
@method("humanqr_ensemble", paper=_IRLAB, models=_SPLADE | _ENSEMBLE, uses_gold=True)
def humanqr(
    llm: LLM, retriever: Stage, reranker: Stage, *, depth: int = 1000, respond: bool = True
) -> Stage:
    """HumanQR: the manual rewrite retrieves and re-ranks.

    Statements and response are those of the automatic runs.

    Example:
        >>> import pyterrier_ikat as ikat
        >>> ikat.methods.humanqr(llm, splade, ikat.Ensemble())  # doctest: +SKIP
    """
    human_rewrite = ManualRewrite()
    return _responded(llm, human_rewrite >> retriever % depth >> reranker, respond)


_MQ4CS = "Abbasiantaeb, Lupart and Aliannejadi, MQ4CS"


@method(paper=_MQ4CS, models=_BM25)
def mq4cs(
    llm: LLM, retriever: Stage, reranker: Stage | None = None, *, n: int = 5, depth: int = 1000
) -> Stage:
    """MQ4CS: up to ``n`` queries for the aspects of the question, their results interleaved.

    Each query is retrieved and re-ranked separately. One LLM call, at most ``n`` queries per turn.
    The ranking is that of :func:`~pyterrier_ikat.methods.generate_then_retrieve.qd`.

    Example:
        >>> import pyterrier_ikat as ikat
        >>> ikat.methods.mq4cs(llm, bm25, n=3)  # doctest: +SKIP
    """
    return MultiQuery(llm, n) >> retrieve(retriever, reranker, depth) >> Interleave()


@method(paper=_MQ4CS, models=_BM25)
def mq4cs_ans(
    llm: LLM,
    retriever: Stage,
    reranker: Stage | None = None,
    *,
    n: int = 5,
    words: int = 200,
    depth: int = 1000,
) -> Stage:
    """MQ4CS_ans: the LLM answers first, then writes up to ``n`` queries for its answer.

    The rest is as in MQ4CS. Two LLM calls, at most ``n`` queries per turn. The answer has at most
    ``words`` words; :func:`~pyterrier_ikat.methods.generate_then_retrieve.aqd` doesn't limit it.

    Example:
        >>> import pyterrier_ikat as ikat
        >>> ikat.methods.mq4cs_ans(llm, bm25)  # doctest: +SKIP
    """
    answer = Answer(llm, words=words)
    queries = MultiQuery(llm, n, "answer", words=words)
    return answer >> queries >> retrieve(retriever, reranker, depth) >> Interleave()
