"""Systems of SemEval-2026 Task 8 (MTRAGEval).

**Derunets et al., RaguTeam at SemEval-2026 Task 8 B (MTRAGEval, arXiv 2605.04523): several LLMs
respond, and a judge chooses.**

We read the abstract and their code (RaguTeam/ragu_mtrag_semeval at 4697c97). The published score
(.7827) is a harmonic mean of three metrics, two of them by models, and can't be computed here.
Their seven LLMs form two groups, with a long system prompt and with few-shot examples by kind of
question; our two prompts are those of ``Respond``. They answer a turn without reference passages
with a fixed text; here it has no row and gets no response.

**Lupart, Mekonnen, Abbasiantaeb and Aliannejadi, uva-irlab-conv at SemEval-2026 Task 8 (MTRAGEval,
arXiv 2606.11945).**

We could only read the abstract. It describes a rewrite by an LLM, learned sparse retrieval as the
primary method, pointwise and listwise re-ranking by an LLM, and a response, each with the whole
conversation. It doesn't name a model, a number of passages, a prompt or a rule for questions that
the collection can't answer, and it has no scores. So everything here beyond these stages is ours,
and there is no table.
"""

from collections.abc import Sequence

from ..generate import BestResponse, RawUtterance, Respond, Rewrite
from ..llms import LLM
from .definition import Stage, method

_RAGUTEAM = "Derunets et al., RaguTeam at SemEval-2026 Task 8"
_SEVEN = "Gemini 3 Pro,GLM-4.6,Claude Haiku 4.5,Llama 3.3 70B,Meno-Lite-0.1,Qwen3-235B,Qwen2.5-32B"
_MODELS = {"llm": "openai:gpt-4o-mini", "responders": _SEVEN, "retriever": "the reference passages"}


@method(paper=_RAGUTEAM, models=_MODELS)
def raguteam(
    llm: LLM,
    retriever: Stage,
    responders: Sequence[LLM] | None = None,
    *,
    depth: int = 10,
    passages: int = 10,
    words: int = 250,
) -> Stage:
    """RaguTeam: several LLMs respond, and a judge keeps the best supported response.

    Each LLM has one of two prompts. ``llm`` is the judge: one call for each distinct response. Each
    of ``responders`` is asked once per turn. Every second one is told to say only what the passages
    say. A single one, or the judge if there is none, is asked with both prompts. For Task B,
    ``retriever`` is an ``ikat.GivenRanking`` of the reference passages.

    Example:
        >>> import pyterrier_ikat as ikat
        >>> responders = [ikat.llm("openai:gpt-4.1"), ikat.llm("openai:gpt-4.1-mini")]
        >>> judge = ikat.llm("openai:gpt-4o-mini")  # doctest: +SKIP
        >>> reference = ikat.GivenRanking("reference.trec")  # doctest: +SKIP
        >>> ikat.methods.raguteam(judge, reference, responders)  # doctest: +SKIP
    """
    models = list(responders) if isinstance(responders, Sequence) else [responders or llm]
    if len(models) == 1:
        models = models * 2
    candidates = []
    for number, model in enumerate(models):
        form = "rag" if number % 2 == 0 else "passages_only"
        candidates.append(Respond(model, passages, words, form))
    judge = BestResponse(candidates, llm, passages)
    return RawUtterance() >> retriever % depth >> judge


_UVA = "Lupart et al., uva-irlab-conv at SemEval-2026 Task 8"


@method(
    paper=_UVA,
    models={"llm": "an unnamed LLM", "retriever": "SPLADE", "reranker": "listwise:an unnamed LLM"},
)
def uva_irlab_conv(
    llm: LLM, retriever: Stage, reranker: Stage, *, depth: int = 100, passages: int = 5
) -> Stage:
    """uva-irlab-conv: a rewrite, SPLADE, re-ranking by an LLM, and a response.

    One query per turn, and two LLM calls besides those of the re-ranker. As ``reranker``, use
    ``ikat.ListwiseRerank(llm)``, which reads the conversation (``--reranker
    listwise:openai:gpt-4o``), or ``ikat.LLMRerank(llm, 20) >> ikat.ListwiseRerank(llm)`` for both
    kinds. To abstain if there is no answer, use :class:`~pyterrier_ikat.generate.Decide` before the
    response, as the method ``decide`` does.

    - ``depth``: how many passages the re-ranker gets and the run has.
    - ``passages``: from how many passages the response is made.

    Example:
        >>> import pyterrier_ikat as ikat
        >>> llm = ikat.llm("openai:gpt-4o")  # doctest: +SKIP
        >>> ikat.methods.uva_irlab_conv(llm, splade, ikat.ListwiseRerank(llm))  # doctest: +SKIP
    """
    return Rewrite(llm) >> retriever % depth >> reranker >> Respond(llm, passages=passages)
