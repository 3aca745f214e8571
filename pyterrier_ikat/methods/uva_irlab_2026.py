"""Lupart, Mekonnen, Abbasiantaeb and Aliannejadi, uva-irlab-conv at SemEval-2026 Task 8 (MTRAGEval, arXiv 2606.11945).

We could only read the abstract. It describes a rewrite by an LLM, learned sparse retrieval as the primary method, pointwise and listwise
re-ranking by an LLM, and a response, each with the whole conversation. It doesn't name a model, a number of passages, a prompt or a rule
for questions that the collection can't answer, and it has no scores. So everything here beyond these stages is ours, and there is no table.
"""

from ..generate import Respond, Rewrite
from ..llms import LLM
from .definition import Stage, method

PAPER = "Lupart et al., uva-irlab-conv at SemEval-2026 Task 8"


@method(paper=PAPER, models={"llm": "an unnamed LLM", "retriever": "SPLADE", "reranker": "listwise:an unnamed LLM"})
def uva_irlab_conv(llm: LLM, retriever: Stage, reranker: Stage, *, depth: int = 100, passages: int = 5) -> Stage:
    """uva-irlab-conv: a rewrite, SPLADE, re-ranking by an LLM that sees the conversation, and a response from the best passages.

    One query per turn, and two LLM calls besides those of the re-ranker. As ``reranker``, use ``ikat.ListwiseRerank(llm)``, which reads the
    conversation (``--reranker listwise:openai:gpt-4o``), or ``ikat.LLMRerank(llm, 20) >> ikat.ListwiseRerank(llm)`` for both kinds. To
    abstain if there is no answer, use :class:`~pyterrier_ikat.generate.Decide` before the response, as the method ``decide`` does.

    - ``depth``: how many passages the re-ranker gets and the run has.
    - ``passages``: from how many passages the response is made.

    Example:
        >>> import pyterrier_ikat as ikat
        >>> llm = ikat.llm("openai:gpt-4o")  # doctest: +SKIP
        >>> ikat.methods.uva_irlab_conv(llm, splade, ikat.ListwiseRerank(llm))  # doctest: +SKIP
    """
    return Rewrite(llm) >> retriever % depth >> reranker >> Respond(llm, passages=passages)
