"""Searching a passage collection: an index that keeps the passages' text, BM25, RM3 and SPLADE over it, and the text by docno."""

from ..conversations.no_result import NoResultWarning
from .passage_index import BM25, PassageIndex
from .rm3 import RM3
from .splade import Splade
from .splade_index import SpladeIndex, SpladeRetriever
from .text_store import PassageText

__all__ = ["BM25", "RM3", "NoResultWarning", "PassageIndex", "PassageText", "Splade", "SpladeIndex", "SpladeRetriever"]
