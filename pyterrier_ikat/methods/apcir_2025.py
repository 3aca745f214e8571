"""APCIR: weights of three queries by the level of personalisation that a question needs.

Mo et al., Adaptive Personalized Conversational Information Retrieval (CIKM 2025, arXiv 2508.08634).
We read the abstract and the authors' code (YuchenHui22314/TREC_iKAT_2024 at 646ba6d, MIT licence).
Their main run finds the weights of each level with a grid search (step .01; the sum of MRR, nDCG@3
and recall at 10 and 100) on the judgements of the same turns on which it is scored. The code
contains neither these weights nor the scores. So :data:`LEVELS` are the weights that the code has
without a search, and there is no table here. Give weights for your data as ``weights``. Find them
on other turns than those you report.
"""

from collections.abc import Mapping, Sequence

from ..fuse import RerankAgainst, WeightedSum
from ..generate import QueryColumn, RewriteAndAnswer, RewriteByLevel
from ..llms import LLM
from .definition import Stage, method

PAPER = "Mo et al., APCIR"
LEVELS = {"a": (1, 0.1, 0.4), "b": (1, 0.1, 0.5), "c": (1, 0.1, 0.6)}
"""Level -> weights of the plain rewrite, the rewrite with its answer, the personal rewrite."""


@method(
    paper=PAPER,
    models={"llm": "openai:gpt-4o-2024-08-06", "retriever": "BM25", "reranker": "monot5_base_10k"},
)
def apcir(
    llm: LLM,
    retriever: Stage,
    reranker: Stage | None = None,
    *,
    weights: Mapping[str, Sequence[float]] = LEVELS,
    think: bool = True,
    depth: int = 1000,
    rerank_depth: int = 50,
) -> Stage:
    """APCIR: the level of personalisation decides the weights of three queries' BM25 scores.

    The queries are a rewrite without the persona, the same rewrite followed by the LLM's answer,
    and a rewrite as personal as its level allows. Their scores are scaled and summed. Two LLM
    calls, three queries per turn. RALI, by some of the same authors, has the same queries with
    fixed weights and unscaled scores. The authors' prompts have examples, and ours have none.

    - ``weights``: the three weights of each level; see :class:`~pyterrier_ikat.fuse.WeightedSum`.
    - ``think``: whether a reason comes before the level.
    - ``rerank_depth``: how many passages the re-ranker gets and the run has; without a re-ranker,
      the run has ``depth``. The re-ranker reads the personal rewrite.

    Example:
        >>> import pyterrier_ikat as ikat
        >>> ikat.methods.apcir(llm, bm25, ikat.MonoT5())  # doctest: +SKIP
    """
    level_and_personal_rewrite = RewriteByLevel(llm, think=think)
    rewrite_and_answer = RewriteAndAnswer(llm, think=False, persona=False)
    search = retriever % depth
    size = depth if reranker is None else rerank_depth
    fused = WeightedSum(
        QueryColumn("qrewrite") >> search,
        search,  # the rewrite and the answer
        QueryColumn("qpersonal") >> search,
        weights=dict(weights),
        num_results=size,
        by="qlevel",
    )
    ranking = level_and_personal_rewrite >> rewrite_and_answer >> fused
    if reranker is None:
        return ranking
    return ranking >> RerankAgainst(reranker, "qpersonal", size)
