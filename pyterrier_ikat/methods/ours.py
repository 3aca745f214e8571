"""Systems of this package, which no paper has: a choice among samples by what each finds, without training, judgements or a re-ranker."""

import pyterrier as pt

from ..generate import BestQuery, RewriteAndAnswer, Samples
from ..llms import LLM
from .definition import method

_PAPER = "ours: best of n without a re-ranker"


@method("agreed_of_n", paper=_PAPER)
@method("spread_of_n", paper=_PAPER, settings={"rule": "spread"})
def chosen_of_n(
    llm: LLM,
    retriever: pt.Transformer,
    reranker: pt.Transformer | None = None,
    *,
    rule: str = "agreement",
    answer: bool = True,
    n: int = 10,
    depth: int = 1000,
) -> pt.Transformer:
    """One of ``n`` sampled LLM4CS rewrites with its answer: the one that agrees most with all of them, or whose scores spread most.

    ``n`` LLM calls and up to ``n`` + 1 searches per turn; see :class:`~pyterrier_ikat.generate.BestQuery` for the rules. Sample with a
    temperature above 0. The re-ranker, where there is one, reads the chosen query. The numbers of passages that the rules read are those
    of ``BestQuery``: 10 because nDCG@10 looks at as many, 100 as NQC has it.

    - ``rule``: ``"agreement"`` or ``"spread"``.
    - ``answer``: search for the rewrite and the answer together; else for the rewrite alone.

    Example:
        >>> import pyterrier_ikat as ikat
        >>> ikat.methods.chosen_of_n(ikat.llm("openai:gpt-4o-mini temperature=0.7"), ikat.PassageIndex("i").bm25())  # doctest: +SKIP
    """
    drawn = Samples(RewriteAndAnswer(llm), n, ("qrewrite", "qanswer") if answer else ("qrewrite",))
    ranking = drawn >> BestQuery(retriever % depth, rule=rule) >> retriever % depth
    return ranking if reranker is None else ranking >> reranker
