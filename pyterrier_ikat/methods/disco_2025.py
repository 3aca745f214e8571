"""Lupart, Aliannejadi and Kanoulas, DiSCo (SIGIR 2025, arXiv 2410.14609): SPLADE with a query encoder that reads the whole conversation.

The passages are indexed with ``naver/splade-cocondenser-ensembledistil``, and the query encoder is one of the authors' models, such as
``slupart/splade-disco-human-mistral`` (trained on QReCC with human rewrites and Mistral's as teachers). It needs no LLM.
"""

from ..generate import AllUtterances
from .definition import Stage, method

PAPER = "Lupart, Aliannejadi and Kanoulas, DiSCo"


@method(paper=PAPER, models={"retriever": "SPLADE query_model=slupart/splade-disco-human-mistral"})
def disco(retriever: Stage, reranker: Stage | None = None, *, separator: str = " [SEP] ", depth: int = 1000) -> Stage:
    """DiSCo: SPLADE's query encoder reads the conversation itself, newest message first. No LLM call, one query per turn.

    The query is the utterance, then the responses and utterances before it, joined by ``separator``, as described in their model cards. The
    encoder truncates it at its limit (256 tokens in their code; set the model's own limit to that). ``retriever`` is SPLADE with such a
    ``query_model``. Any other retriever reads the conversation as plain words. The paper has no re-ranker. If you give one, it also sees
    the whole conversation. The persona isn't shown.

    Example:
        >>> import pyterrier_ikat as ikat
        >>> splade = ikat.SpladeIndex("splade.index")  # doctest: +SKIP
        >>> ikat.methods.disco(splade.retriever(query_model="slupart/splade-disco-human-mistral"))  # doctest: +SKIP
    """
    found = AllUtterances(responses=True, newest_first=True, separator=separator) >> retriever % depth
    return found if reranker is None else found >> reranker
