"""Searching a passage collection: an index that keeps the passages' text, BM25, RM3 and SPLADE over it, and the text by docno."""

from ..conversations.frame import NoResultWarning
from .artifact import PassageText
from .merge_shards import MergeShards
from .passage_index import BM25, PassageIndex
from .rm3 import RM3
from .splade import Splade
from .splade_index import SpladeIndex, SpladeRetriever

__all__ = ["BM25", "RM3", "MergeShards", "NoResultWarning", "PassageIndex", "PassageText", "Splade", "SpladeIndex", "SpladeRetriever"]
