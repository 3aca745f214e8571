"""BM25 over texts in memory, for a few passages that change often: built in milliseconds, nothing on disk."""

from collections.abc import Iterable, Sequence

import numpy as np
import numpy.typing as npt

from ..errors import DataError
from . import eager
from .inverting import Lists, invert
from .ranking import Ranking
from .words import ascii_text, stop_terms, tokenize


class LexicalIndex:
    """BM25 over (docno, text) pairs in memory: the scores, the order and the words of :class:`PassageIndex`.

    It writes nothing, starts no process and can be pickled. Any number of threads may search it.

    Args:
        passages: (docno, text) pairs, each docno once.
        stemmer: ``"porter2"`` or ``"none"``.
        stops: the stop words, removed from queries: ``"lucene"``, ``"terrier"`` or ``"none"``.
        k1: of BM25.
        b: of BM25.

    Raises:
        DataError: when a docno occurs twice.

    Example:
        >>> said = {"s1": "I'm allergic to nuts", "s2": "I like teas without caffeine", "s3": "I live near the sea"}
        >>> [docno for docno, score in LexicalIndex(said.items()).search("Which tea?")]
        ['s2']
    """

    def __init__(
        self, passages: Iterable[tuple[str, str]], *, stemmer: str = "porter2", stops: str = "lucene", k1: float = 0.9, b: float = 0.4
    ) -> None:
        self.stemmer, self.stops = stemmer, stops
        lists = invert(((docno, ascii_text(text)) for docno, text in passages), stemmer)
        if len(set(lists.docnos)) < len(lists.docnos):
            twice = next(docno for number, docno in enumerate(lists.docnos) if docno in lists.docnos[:number])
            raise DataError(f"docno {twice!r} occurs twice: give each passage its own")
        self._docnos, self._numbers = lists.docnos, {term: number for number, term in enumerate(lists.terms)}
        self._columns = eager.Columns(lists.starts.astype(np.int32), lists.docs.astype(np.int32), impacts_of_lists(lists, k1, b))

    def __len__(self) -> int:
        return len(self._docnos)

    def search(self, query: str, num_results: int = 1000) -> list[tuple[str, float]]:
        """The (docno, score) of the best passages, equal scores by docno, the greatest first; none for a query without a known word."""
        (found,) = self.rank([query], num_results)
        return list(zip(found.docnos, found.scores.tolist(), strict=True))

    def rank(self, queries: Sequence[str], num_results: int = 1000) -> list[Ranking]:
        """The rankings of several queries."""
        stops = stop_terms(self.stops, self.stemmer)
        asked = [eager.count_terms(tokenize(query, self.stemmer), stops) for query in queries]
        return eager.search(eager.Postings(len(self), self._find, self._columns.part, self._names, self._columns), asked, num_results)

    def _find(self, terms: Sequence[str]) -> list[int]:
        return [self._numbers.get(term, -1) for term in terms]

    def _names(self, numbers: Sequence[int]) -> list[str]:
        return [self._docnos[number] for number in numbers]


def impacts_of_lists(lists: Lists, k1: float, b: float) -> npt.NDArray[np.float32]:
    """The impact of every posting."""
    holders = np.diff(lists.starts)
    weights = np.repeat(eager.weigh_term(holders, len(lists.docnos), k1), holders)
    return eager.impacts_of(lists.counts, eager.norms(lists.lengths, k1, b)[lists.docs], weights)
