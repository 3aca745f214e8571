"""Lupart, Abbasiantaeb, Aliannejadi, IRLab@iKAT24: several queries for retrieval, one rewrite for re-ranking.

Every run ends with the PTKB statements copied by the LLM (section 3.3) and a response of at most 200 words from the top
five passages (section 3.2); both see the whole PTKB. Arguments that mean the same everywhere:

- ``llm``: the model to ask (GPT-4 in the paper).
- ``retriever``: the first stage with the passages' text: SPLADE (``ikat.Splade(...).index(...).retriever()``), or BM25
  for ``gpt4qr_bm25_qd1``.
- ``reranker``: DeBERTaV3 (``naver/trecdl22-crossencoder-debertav3``), ``ikat.Ensemble()``, or MiniLM-L-6 for
  ``gpt4qr_bm25_qd1``.
- ``depth``: passages per query, and re-ranked (section 4.2: 1000).
- ``respond``: whether the last two stages run; without them the ranking is the same and two LLM calls per turn are
  saved.
"""

from collections.abc import Callable

import pyterrier as pt

from ..errors import UsageError
from ..fuse import RRF, Interleave, RerankAgainst, Union
from ..generate import ManualRewrite, MultiQuery, Respond, Rewrite, SelectStatements
from ..llms import LLM
from .definition import Decorated, Table, method

PAPER = "Lupart, Abbasiantaeb and Aliannejadi, IRLab@iKAT24"
POOLS = ("interleave", "union", "rrf")


def _run(name: str, reranker: str, retriever: str = "SPLADE", uses_gold: bool = False) -> Callable[[Decorated], Decorated]:
    models = {"llm": "openai:gpt-4", "retriever": retriever, "reranker": reranker}
    return method(name, paper=PAPER, models=models, uses_gold=uses_gold)


def _pool(name: str, depth: int) -> pt.Transformer:
    if name not in POOLS:
        raise UsageError(f"pool={name!r} is unknown: choose one of {', '.join(POOLS)}")
    return {"interleave": Interleave(num_results=depth), "union": Union(), "rrf": RRF(num_results=depth)}[name]


def _responded(llm: LLM, ranking: pt.Transformer, respond: bool) -> pt.Transformer:
    return SelectStatements(llm, "copies") >> ranking >> Respond(llm, passages=5, words=200) if respond else ranking


@_run("mq4cs_qr_deberta", "naver/trecdl22-crossencoder-debertav3")
@_run("mq4cs_qr_ensemble", "ensemble")
def mq4cs_qr(
    llm: LLM,
    retriever: pt.Transformer,
    reranker: pt.Transformer,
    *,
    n: int = 5,
    depth: int = 1000,
    pool: str = "interleave",
    respond: bool = True,
) -> pt.Transformer:
    """MQ4CS-QR: up to ``n`` queries retrieve; their pool is re-ranked once with the single LLM rewrite (section 3.1, Figure 1).

    Two LLM calls and at most ``n`` queries per turn for the ranking. The paper leaves the pooling open; ``pool`` is
    ``"interleave"`` (round robin, cut to ``depth``), ``"union"`` (nothing cut before re-ranking) or ``"rrf"``
    (reciprocal rank fusion, cut to ``depth``).

    Raises:
        UsageError: for another ``pool``.

    Example:
        >>> import pyterrier_ikat as ikat
        >>> splade = ikat.Splade().index("splade.index", passages).retriever()  # doctest: +SKIP
        >>> ikat.methods.mq4cs_qr(ikat.llm("openai:gpt-4"), splade, ikat.Ensemble())  # doctest: +SKIP
    """
    ranking = Rewrite(llm) >> MultiQuery(llm, n) >> retriever % depth >> _pool(pool, depth) >> RerankAgainst(reranker, "qrewrite", depth)
    return _responded(llm, ranking, respond)


@_run("gpt4qr_deberta", "naver/trecdl22-crossencoder-debertav3")
def gpt4qr(llm: LLM, retriever: pt.Transformer, reranker: pt.Transformer, *, depth: int = 1000, respond: bool = True) -> pt.Transformer:
    """GPT4QR: the single rewrite retrieves and re-ranks. One LLM call, one query per turn for the ranking.

    Example:
        >>> import pyterrier_ikat as ikat
        >>> ikat.methods.gpt4qr(ikat.llm("openai:gpt-4"), splade, ikat.CrossEncoder("..."))  # doctest: +SKIP
    """
    return _responded(llm, Rewrite(llm) >> retriever % depth >> reranker, respond)


@_run("gpt4qr_bm25_qd1", "cross-encoder/ms-marco-MiniLM-L-6-v2", "BM25")
def gpt4qr_qd1(llm: LLM, retriever: pt.Transformer, reranker: pt.Transformer, *, depth: int = 1000, respond: bool = True) -> pt.Transformer:
    """GPT4QR-bm25-QD1: one query, asked for with the prompt for several (phi = 1). One LLM call, one query per turn for the ranking.

    Example:
        >>> import pyterrier_ikat as ikat
        >>> ikat.methods.gpt4qr_qd1(ikat.llm("openai:gpt-4"), ikat.PassageIndex("i").bm25(), minilm)  # doctest: +SKIP
    """
    return _responded(llm, MultiQuery(llm, 1) >> retriever % depth >> reranker >> Interleave(num_results=depth), respond)


@_run("humanqr_deberta", "naver/trecdl22-crossencoder-debertav3", uses_gold=True)
@_run("humanqr_ensemble", "ensemble", uses_gold=True)
def humanqr(llm: LLM, retriever: pt.Transformer, reranker: pt.Transformer, *, depth: int = 1000, respond: bool = True) -> pt.Transformer:
    """HumanQR: the manual rewrite retrieves and re-ranks; statements and response as in the automatic runs.

    Example:
        >>> import pyterrier_ikat as ikat
        >>> ikat.methods.humanqr(ikat.llm("openai:gpt-4"), splade, ikat.Ensemble())  # doctest: +SKIP
    """
    return _responded(llm, ManualRewrite() >> retriever % depth >> reranker, respond)


TABLES = {
    "irlab_1": Table(
        f"{PAPER}, Table 1",
        103,
        "NIST judgements of iKAT 2024",
        ("nDCG@5", "nDCG", "MRR", "Recall@100", "P@20", "mAP"),
        """
        mq4cs_qr_deberta   .5213 .6098 .8479 .4366 .5927 .3486
        mq4cs_qr_ensemble  .5155 .6192 .8644 .4657 .6184 .3698
        gpt4qr_deberta     .5071 .5420 .8315 .4135 .5684 .3166
        gpt4qr_bm25_qd1    .4768 .4373 .8476 .3421 .5199 .2315
        humanqr_deberta    .4767 .5496 .7808 .4263 .5383 .3072
        humanqr_ensemble   .5384 .5819 .8483 .4777 .5922 .3533
        """,
    ),
}
