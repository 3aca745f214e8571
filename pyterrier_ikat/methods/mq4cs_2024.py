"""Abbasiantaeb, Lupart and Aliannejadi, Generating Multi-Aspect Queries for Conversational Search (arXiv 2403.19302v3): MQ4CS.

The first version of this preprint is Generate then Retrieve; the third has another title and other experiments. MQ4CS continues QD, and
MQ4CS_ans continues AQD. The number of queries becomes a variable: the paper compares several, and an oracle that knows the best number for
each turn. ``ikat run mq4cs:n=1 mq4cs:n=2 mq4cs`` compares them. The oracle reads judgements, so it is a row of an evaluation:
``ikat.evaluate(runs, measures=["nDCG@3"], oracle=True)``.

We read the abstract of version 3, public summaries of it, the description in Lupart et al., IRLab@iKAT24, section 3.1, and the prompts with
which Mo et al. run it as a baseline of APCIR (``functional/promptor.py`` in YuchenHui22314/TREC_iKAT_2024 at 646ba6d). There, answers have
at most 200 words. We could not read the full text, so its scores are missing. So is a third variant that the summaries mention but don't
describe; ``aqd_a`` of version 1 re-ranks by the answer. The re-ranker and the prompts are those of version 1.
"""

from ..fuse import Interleave
from ..generate import Answer, MultiQuery
from ..llms import LLM
from .definition import Stage, method
from .generate_then_retrieve import retrieve

PAPER = "Abbasiantaeb, Lupart and Aliannejadi, MQ4CS"
_MODELS = {"llm": "openai:gpt-4", "retriever": "BM25", "reranker": "cross-encoder/ms-marco-MiniLM-L-6-v2"}


@method(paper=PAPER, models=_MODELS)
def mq4cs(llm: LLM, retriever: Stage, reranker: Stage | None = None, *, n: int = 5, depth: int = 1000) -> Stage:
    """MQ4CS: up to ``n`` queries for the aspects of the question, each retrieved and re-ranked separately, interleaved.

    One LLM call, at most ``n`` queries per turn. The ranking is that of :func:`~pyterrier_ikat.methods.generate_then_retrieve.qd`.

    Example:
        >>> import pyterrier_ikat as ikat
        >>> ikat.methods.mq4cs(ikat.llm("recorded:sample"), ikat.PassageIndex("mini.index").bm25(), n=3)  # doctest: +SKIP
    """
    return MultiQuery(llm, n) >> retrieve(retriever, reranker, depth) >> Interleave()


@method(paper=PAPER, models=_MODELS)
def mq4cs_ans(llm: LLM, retriever: Stage, reranker: Stage | None = None, *, n: int = 5, words: int = 200, depth: int = 1000) -> Stage:
    """MQ4CS_ans: the LLM answers first, then writes up to ``n`` queries that would find its answer. The rest is as in MQ4CS.

    Two LLM calls, at most ``n`` queries per turn. The answer has at most ``words`` words;
    :func:`~pyterrier_ikat.methods.generate_then_retrieve.aqd` doesn't limit it.

    Example:
        >>> import pyterrier_ikat as ikat
        >>> ikat.methods.mq4cs_ans(ikat.llm("recorded:sample"), ikat.PassageIndex("mini.index").bm25())  # doctest: +SKIP
    """
    queries = Answer(llm, words=words) >> MultiQuery(llm, n, "answer", words=words)
    return queries >> retrieve(retriever, reranker, depth) >> Interleave()
