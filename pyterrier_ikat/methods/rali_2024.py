"""Hui, Mo, Mao and Nie, RALI at TREC iKAT 2024 (arXiv 2412.07998): three queries, ever more personal, and weighted sums of their scores.

The paper's abstract and summaries of it were read, and the authors' public code, which settles the numbers: weights 1, 0.1 and 0.4 (of
their script for iKAT 2023), BM25 k1 0.9 and b 0.4 without normalisation, a passage that a list lacks counting as the list's least score,
MonoT5 over the first 50, and a response of at most 220 words from 3 passages. None of the paper's scores was read.
"""

from collections.abc import Sequence

import pyterrier as pt

from ..fuse import WeightedSum
from ..generate import QueryColumn, Respond, RewriteAndAnswer
from ..llms import LLM
from .definition import method

PAPER = "Hui, Mo, Mao and Nie, RALI@TREC iKAT 2024"
_MODELS = {"llm": "openai:gpt-4o-2024-08-06", "retriever": "BM25", "reranker": "monot5_base_10k"}


@method("rali_fusion3", paper=PAPER, models=_MODELS)
def rali(
    llm: LLM,
    retriever: pt.Transformer,
    reranker: pt.Transformer | None = None,
    *,
    weights: Sequence[float] = (1, 0.1, 0.4),
    normalise: str = "none",
    depth: int = 1000,
    rerank_depth: int = 50,
    respond: bool = True,
) -> pt.Transformer:
    """RALI's BM25_GPT4o_fusion3: three queries, their BM25 scores summed with weights, the best re-ranked by the personalised rewrite.

    The queries are a rewrite made without the persona; that rewrite with the LLM's answer behind it, from the same completion; and a
    rewrite that follows the persona, after a sentence of reason. Three LLM calls with the response, three queries per turn. The
    authors' prompts have examples, ours have none.

    - ``weights`` and ``normalise``: see :class:`~pyterrier_ikat.fuse.WeightedSum`; ``"min-max"`` for lists of several kinds of scores.
    - ``rerank_depth``: how many passages the re-ranker gets and the run has; without a re-ranker it has ``depth``.
    - ``respond``: whether the response is written.

    Example:
        >>> import pyterrier_ikat as ikat
        >>> ikat.methods.rali(ikat.llm("openai:gpt-4o"), ikat.PassageIndex("i").bm25(), ikat.MonoT5())  # doctest: +SKIP
    """
    found = retriever % depth
    branches = (QueryColumn("qrewrite") >> found, found, RewriteAndAnswer(llm) >> QueryColumn("qrewrite") >> found)
    size = depth if reranker is None else rerank_depth
    fused = WeightedSum(*branches, weights=tuple(weights), normalise=normalise, num_results=size)
    ranking = RewriteAndAnswer(llm, think=False, persona=False) >> fused
    ranking = ranking if reranker is None else ranking >> reranker
    return ranking >> Respond(llm, 3, 220) if respond else ranking
