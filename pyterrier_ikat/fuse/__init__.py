"""Everything that brings the rows of a turn's sub-queries, or of several systems, into one ranking per turn."""

from .interleave import Interleave, Pool
from .mean_score import MeanScore
from .rerank_by import RerankAgainst
from .rrf import RRF
from .union import Union

__all__ = ["RRF", "Interleave", "MeanScore", "Pool", "RerankAgainst", "Union"]
