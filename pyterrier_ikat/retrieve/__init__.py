"""Passage retrieval: BM25, RM3, SPLADE and dense vectors; indexes keep the passages' texts."""

from ..conversations.frame import NoResultWarning
from ..search_index import SearchIndex
from .artifact import PassageText
from .bm25 import BM25, RM3, BM25Rerank
from .dense import DenseIndex, DenseRetriever, QueryEncoder
from .given_ranking import GivenRanking
from .index import Index, PassageIndex
from .lucene import LuceneBM25, LuceneIndex, LuceneRM3
from .remote import Remote
from .server_calls import ServerError
from .splade import Splade, SpladeIndex, SpladeRetriever

__all__ = [
    "BM25",
    "BM25Rerank",
    "RM3",
    "DenseIndex",
    "DenseRetriever",
    "GivenRanking",
    "Index",
    "LuceneBM25",
    "LuceneIndex",
    "LuceneRM3",
    "NoResultWarning",
    "PassageIndex",
    "PassageText",
    "QueryEncoder",
    "Remote",
    "SearchIndex",
    "ServerError",
    "Splade",
    "SpladeIndex",
    "SpladeRetriever",
]
