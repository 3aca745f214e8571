"""Fusions: one ranking per turn from the lists of its sub-queries, or from what several systems find."""

from .by_rank import RRF, Interleave, Union
from .by_score import MeanScore, RerankAgainst
from .by_weight import WeightedSum

__all__ = ["RRF", "Interleave", "MeanScore", "RerankAgainst", "Union", "WeightedSum"]
