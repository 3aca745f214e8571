"""LLM4CS: several sampled rewrites and answers, combined into one query.

Mao, Dou, Mo, Hou, Chen and Qian, LLM4CS (Findings of EMNLP 2023, arXiv 2303.06573). The paper
retrieves with ANCE and the mean of the vectors of all texts. It reports scores on CAsT 2019 to
2021, and none on TREC iKAT.
"""

from ..arguments import one_of
from ..fuse import RRF, RerankAgainst
from ..generate import Aggregate, Answer, ExplodeQueries, RewriteAndAnswer, Samples
from ..llms import LLM
from ..operator import face
from .definition import Stage, method

PAPER = "Mao et al., LLM4CS"
PROMPTINGS = ("rewrite", "rewrite_then_answer", "rewrite_and_answer")
"""Their REW, RTR and RAR."""
AGGREGATES = {"maxprob": "first", "self_consistency": "consistent", "mean": "mean"}
"""The paper's names -> those of ``Aggregate``."""
FUSION = "fusion"
_MODELS = {"llm": "openai:gpt-3.5-turbo-16k temperature=0.7", "retriever": "ANCE"}


@method(paper=PAPER, models=_MODELS)
@method("llm4cs_rew", paper=PAPER, models=_MODELS, settings={"form": "rewrite"})
def llm4cs(
    llm: LLM,
    retriever: Stage,
    reranker: Stage | None = None,
    *,
    form: str = "rewrite_and_answer",
    aggregate: str = "mean",
    n: int = 5,
    think: bool = True,
    encoder: Stage | None = None,
    depth: int = 1000,
) -> Stage:
    """LLM4CS: ``n`` sampled rewrites, each with an answer, are combined into one query.

    ``n`` LLM calls and one query per turn; ``n`` + 1 calls for ``"rewrite_then_answer"``, one
    sample for ``"maxprob"``. Sample with a temperature above 0; the authors' code has 0.7 and n =
    5. Its prompts have examples from CAsT 2022; ours are zero-shot.

    - ``form``: ``"rewrite"`` (REW), ``"rewrite_then_answer"`` (RTR: one rewrite, then answers to
      it), ``"rewrite_and_answer"`` (RAR: both in one completion); ``think``: one sentence with a
      reason before the rewrite, the paper's chain of thought.
    - ``aggregate``: ``"mean"``, ``"self_consistency"`` or ``"maxprob"`` (the first sample, as in
      their code); see :class:`~pyterrier_ikat.generate.Aggregate`. ``"fusion"`` is not in the
      paper: each sample is a query (in RTR an answer without the rewrite), and the lists are fused
      by RRF. It suits a retriever that reads only the beginning of a long query, such as SPLADE,
      and makes ``n`` queries per turn.
    - ``encoder``: the query encoder of a dense retriever, which then gets the mean vector in
      ``query_vec``, as in the paper. The default is the encoder of the retriever's index, if it has
      one. Without an encoder, the query is all texts joined; for BM25 this is the ranking by their
      mean score.
    - ``reranker``: reads the first rewrite, because several texts would leave no room for a
      passage. The paper has none.

    Raises:
        UsageError: for another ``form`` or ``aggregate``.

    Example:
        >>> import pyterrier_ikat as ikat
        >>> ikat.methods.llm4cs(llm, ikat.PassageIndex("i").bm25())  # doctest: +SKIP
    """
    one_of(PROMPTINGS, form=form)
    one_of((*AGGREGATES, FUSION), aggregate=aggregate)
    samples = _prompted(llm, form, 1 if aggregate == "maxprob" else n, think)
    search = retriever % depth
    if aggregate == FUSION:
        ranking = samples >> ExplodeQueries() >> search >> RRF(num_results=depth)
    else:
        if encoder is None:
            encoder = face(retriever).query_encoder()
        also = "qrewrite" if form == "rewrite_then_answer" else None
        aggregated = Aggregate(AGGREGATES[aggregate], encoder, also)
        ranking = samples >> aggregated >> search
    if reranker is None:
        return ranking
    return ranking >> RerankAgainst(reranker, "qrewrite", depth)


def _prompted(llm: LLM, form: str, n: int, think: bool) -> Stage:
    """Return the samples of a form of prompting."""
    if form == "rewrite_and_answer":
        return Samples(RewriteAndAnswer(llm, think=think), n, ("qrewrite", "qanswer"))
    rewrite = RewriteAndAnswer(llm, answer=False, think=think)
    if form == "rewrite":
        return Samples(rewrite, n, ("qrewrite",))
    return rewrite >> Samples(Answer(llm, question="qrewrite"), n, ("qanswer",))
