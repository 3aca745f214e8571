"""Searching a passage collection: an index that keeps the passages' text, BM25, RM3 and SPLADE over it, and the text by docno."""

from ..conversations.frame import NoResultWarning
from .artifact import PassageText
from .bm25 import BM25, RM3
from .passage_index import PassageIndex
from .retriever import MergeShards
from .splade import Splade, SpladeIndex, SpladeRetriever

__all__ = ["BM25", "RM3", "MergeShards", "NoResultWarning", "PassageIndex", "PassageText", "Splade", "SpladeIndex", "SpladeRetriever"]
