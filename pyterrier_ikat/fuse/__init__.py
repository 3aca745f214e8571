"""Fusions: one ranking per turn from the lists of its sub-queries, or from the rankings of several systems."""

from .by_rank import RRF, Interleave, Union
from .by_score import MeanScore, RerankAgainst
from .by_weight import WeightedSum

__all__ = ["RRF", "Interleave", "MeanScore", "RerankAgainst", "Union", "WeightedSum"]
