"""Re-ranking: cross-encoders, bi-encoders, T5, LLM judgements, ensembles, and statements ranked like passages."""

from .bi_encoder import BiEncoder
from .cross_encoder import CrossEncoder
from .ensemble import Ensemble
from .llm_rerank import LLMRerank
from .load_reranker import load_reranker
from .monot5 import MonoT5
from .rank_statements import RankStatements

__all__ = ["BiEncoder", "CrossEncoder", "Ensemble", "MonoT5", "RankStatements", "LLMRerank", "load_reranker"]
