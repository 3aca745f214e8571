"""RALI: three increasingly personal queries, and weighted sums of their scores.

Hui, Mo, Mao and Nie, RALI at TREC iKAT 2024 (arXiv 2412.07998). We read the paper's abstract,
summaries of it, and the authors' public code. The code has the numbers: weights 1, 0.1 and 0.4 (in
their script for iKAT 2023), BM25 with k1 0.9 and b 0.4 without normalisation, MonoT5 over the first
50, and a response of at most 220 words from 3 passages. A passage that is missing from a list gets
the lowest score of the list. We have not read the paper's scores.
"""

from collections.abc import Sequence

from ..fuse import WeightedSum
from ..generate import QueryColumn, Respond, RewriteAndAnswer
from ..llms import LLM
from .definition import Stage, method

PAPER = "Hui, Mo, Mao and Nie, RALI@TREC iKAT 2024"
_MODELS = {"llm": "openai:gpt-4o-2024-08-06", "retriever": "BM25", "reranker": "monot5_base_10k"}


@method("rali_fusion3", paper=PAPER, models=_MODELS)
def rali(
    llm: LLM,
    retriever: Stage,
    reranker: Stage | None = None,
    *,
    weights: Sequence[float] = (1, 0.1, 0.4),
    normalise: str = "none",
    depth: int = 1000,
    rerank_depth: int = 50,
    respond: bool = True,
) -> Stage:
    """RALI's BM25_GPT4o_fusion3: the weighted sum of three queries' BM25 scores, re-ranked.

    The re-ranker reads the personalised rewrite. The queries are a rewrite made without the
    persona; the same rewrite followed by the LLM's answer from the same completion; and a rewrite
    that follows the persona, after a sentence with a reason. Three LLM calls with the response,
    three queries per turn. The authors' prompts have examples, and ours have none. By their
    configuration the response answers the personalised rewrite; ours answers the utterance.

    - ``weights`` and ``normalise``: see :class:`~pyterrier_ikat.fuse.WeightedSum`; ``"min-max"``
      for lists of several kinds of scores.
    - ``rerank_depth``: how many passages the re-ranker gets and the run has; without a re-ranker,
      the run has ``depth``.
    - ``respond``: whether the response is written.

    Example:
        >>> import pyterrier_ikat as ikat
        >>> ikat.methods.rali(llm, bm25, ikat.MonoT5())  # doctest: +SKIP
    """
    rewrite_and_answer = RewriteAndAnswer(llm, think=False, persona=False)
    personal_rewrite = RewriteAndAnswer(llm) >> QueryColumn("qrewrite")
    search = retriever % depth
    fused = WeightedSum(
        QueryColumn("qrewrite") >> search,
        search,  # the rewrite and the answer
        personal_rewrite >> search,
        weights=tuple(weights),
        normalise=normalise,
        num_results=depth if reranker is None else rerank_depth,
    )
    ranking = rewrite_and_answer >> fused
    if reranker is not None:
        ranking = ranking >> reranker
    if not respond:
        return ranking
    return ranking >> Respond(llm, 3, 220)
