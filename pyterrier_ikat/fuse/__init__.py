"""Fusions: one ranking per turn from the lists of its sub-queries, or from several systems."""

from .by_list import RRF, Interleave, Union, WeightedSum
from .by_scorer import MeanScore, RerankAgainst

__all__ = ["RRF", "Interleave", "MeanScore", "RerankAgainst", "Union", "WeightedSum"]
