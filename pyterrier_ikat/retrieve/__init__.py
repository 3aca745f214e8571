"""Searching a passage collection: an index that keeps the passages' text, BM25, RM3 and SPLADE over it, and the text by docno."""

from ..no_result import NoResultWarning
from .bm25 import BM25
from .passage_index import PassageIndex
from .passage_text import PassageText
from .rm3 import RM3
from .splade import Splade
from .splade_index import SpladeIndex
from .splade_retriever import SpladeRetriever

__all__ = ["BM25", "RM3", "NoResultWarning", "PassageIndex", "PassageText", "Splade", "SpladeIndex", "SpladeRetriever"]
