"""Fusions: one ranking per turn from the lists of its sub-queries, or from what several systems find."""

from .by_rank import RRF, Interleave, Union
from .mean_score import MeanScore
from .rerank_against import RerankAgainst

__all__ = ["RRF", "Interleave", "MeanScore", "RerankAgainst", "Union"]
