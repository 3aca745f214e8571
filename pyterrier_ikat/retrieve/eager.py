"""The eager engine: the impact of each word on each passage is computed at indexing time, and impacts are added up per query.

It needs only numpy and scipy. A search starts no child process and writes nothing, and any number of processes may map the same files.
Source: Lù, BM25S, 2024, who calls this eager sparse scoring.

The files are arrays that ``eager_writer.py`` writes. ``docs`` and ``impacts`` have the postings of all terms, one term after the other.
``counts`` has term frequencies in 4 bits each, and ``many`` has those that 4 bits can't hold. A term is found by its first eight bytes in
``prefixes``, and then by its name.
"""

from abc import abstractmethod
from bisect import bisect_left
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import cache, partial
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from ..errors import DataError
from .ranking import NOTHING, Ranking, sort_ties
from .words import Lists, ascii_text, invert, stop_terms, tokenize

VERSION = "eager 1"
"""Part of a cached ranking's key."""
SAMPLE = 2048
IN_MEMORY = 200_000
"""Up to this many names are read into memory when an index is opened. Finding them there takes a fifth of the time."""
MANY_POSTINGS = 1 << 20
"""From this many postings per query on, several threads add them up. It is about a millisecond of work."""
Floats = npt.NDArray[np.float32]
Part = tuple[npt.NDArray[np.int32], Floats]
"""The passages of a term, by number, and its impact on each."""


class Columns(NamedTuple):
    """The postings of all terms, one term after the other.

    Attributes:
        starts: where each term's postings begin, and where the last term's postings end.
        docs: the passages.
        impacts: the term's impact on each passage.
    """

    starts: npt.NDArray[np.int32]
    docs: npt.NDArray[np.int32]
    impacts: Floats

    def add(self, numbers: npt.NDArray[np.int64], weights: Floats, scores: Floats, part: slice) -> None:
        """Add the products of terms and weights to the scores of a part of the passages, in one call, without copying postings.

        The kernel goes over the columns between each two neighbours of ``bounds``. Numbers descend, so nothing lies between the end of one
        term and the beginning of the next.

        Args:
            numbers: the numbers of the terms, descending.
            weights: the weights of the terms.
            scores: the scores of all passages.
            part: the range of passages.
        """
        firsts, ends = self.starts[numbers], self.starts[numbers + 1]
        if part != slice(0, len(scores)):
            lists = zip(firsts.tolist(), ends.tolist(), strict=True)
            within = np.array([np.searchsorted(self.docs[first:end], (part.start, part.stop)) for first, end in lists])
            firsts, ends = firsts + within[:, 0], firsts + within[:, 1]
        bounds, factors = np.empty(2 * len(numbers), dtype=np.int32), np.zeros(2 * len(numbers) - 1, dtype=np.float32)
        bounds[::2], bounds[1::2], factors[::2] = firsts, ends, weights
        column_kernel()(len(scores), len(factors), bounds, self.docs, self.impacts, factors, scores)


class Postings:
    """An index to search, on disk (:class:`EagerFiles`) or in memory (:class:`LexicalIndex`)."""

    size: int
    """The number of passages."""
    columns: Columns | None
    """All postings; None if they are too many for 32 bits, or if impacts are computed at search time."""

    @abstractmethod
    def find(self, terms: Sequence[str]) -> Sequence[int]:
        """The number of each term; -1 for one that no passage has."""

    @abstractmethod
    def part(self, number: int) -> Part:
        """The passages and impacts of the term with this number."""

    @abstractmethod
    def docnos(self, numbers: Sequence[int]) -> list[str]:
        """The docnos of passages by their numbers."""


def search(postings: Postings, queries: Sequence[Mapping[str, float]], depth: int, threads: int = 1) -> list[Ranking]:
    """The rankings of queries. Equal scores are ordered by docno, the greatest first.

    Args:
        postings: the index.
        queries: for each query the weights of its terms, above 0.
        depth: the maximum number of passages per query.
        threads: the number of threads for a query with many postings. Each thread adds up one part of the passages.
    """
    scores = np.empty(postings.size, dtype=np.float32)  # one for all queries: fresh memory costs more than the sums
    if threads == 1:
        return [_best(postings, _add_up(postings, query, scores), depth) for query in queries]
    with ThreadPoolExecutor(threads) as pool:  # starts a thread only when there is work
        return [_best(postings, _add_up(postings, query, scores, threads, pool.map), depth) for query in queries]


def _add_up(postings: Postings, query: Mapping[str, float], scores: Floats, threads: int = 1, spread: Callable[..., Any] = map) -> Floats:
    """The score of every passage. Terms are added in a fixed order, so passages with the same words and lengths tie."""
    known = {number: weight for number, weight in zip(postings.find(list(query)), query.values(), strict=True) if number >= 0}
    numbers = sorted(known, reverse=True)
    weights = np.array([known[number] for number in numbers], dtype=np.float32)
    scores.fill(0)
    columns = postings.columns
    if columns is None or column_kernel() is None or not numbers:
        for number, weight in zip(numbers, weights, strict=True):
            docs, impacts = postings.part(number)
            np.add.at(scores, docs.astype(np.intp), impacts if weight == 1 else impacts * weight)
        return scores
    terms = np.array(numbers)
    work = partial(columns.add, terms, weights, scores)
    if threads == 1 or (columns.starts[terms + 1] - columns.starts[terms]).sum() < MANY_POSTINGS:
        work(slice(0, postings.size))
    else:
        edges = [postings.size * part // threads for part in range(threads + 1)]
        list(spread(work, map(slice, edges, edges[1:])))
    return scores


@cache
def column_kernel() -> Any:
    """Scipy's matrix-vector product that adds in place, if it exists and works as expected; else None, and numpy adds.

    Its name is private, so it is tested first. With public functions a query takes twice as long: ``csc_matrix[:, terms] @ weights`` copies
    each posting, and ``np.add.at`` takes two to three nanoseconds per posting.
    """
    try:
        from scipy.sparse._sparsetools import csc_matvec

        tried, bounds = np.ones(3, dtype=np.float32), np.array([2, 4, 0, 1], np.int32)  # the second column goes backwards: it is empty
        docs, impacts, factors = np.array([1, 1, 0, 2], np.int32), np.array([1, 7, 2, 3], np.float32), np.array([2, 0, 5], np.float32)
        csc_matvec(3, 3, bounds, docs, impacts, factors, tried)
    except (ImportError, TypeError, ValueError):
        return None
    return csc_matvec if tried.tolist() == [5, 6, 7] else None


def _best(postings: Postings, scores: Floats, depth: int) -> Ranking:
    """The passages of highest score. Docnos decide between passages that tie at the cutoff."""
    numbers, best = candidates(scores, depth)
    return sort_ties(Ranking(postings.docnos(numbers.tolist()), best)).best(depth) if len(numbers) else NOTHING


def candidates(scores: Floats, depth: int) -> tuple[npt.NDArray[np.int64], Floats]:
    """The numbers and scores of the ``depth`` passages of highest score above 0 and of all that tie with the last one, best first.

    A sample of the scores estimates how high a score has to be. Scores from there up are sorted by keys made of score and number: the bits
    of floats above 0 are in the order of their values.
    """
    least = np.nextafter(np.float32(0), np.float32(1))
    found = np.empty(0, dtype=np.intp)
    if depth < len(scores) // 8:
        sample = np.sort(scores[:: max(len(scores) // SAMPLE, 1)])
        place = len(sample) - 16 - int(1.5 * depth * len(sample) / len(scores))
        found = np.flatnonzero(scores >= max(sample[max(place, 0)], least))
    if len(found) < depth:
        found = np.flatnonzero(scores >= least)
    keys = scores.take(found).view(np.uint32).astype(np.uint64) << np.uint64(32)
    keys |= found.astype(np.uint64)
    keys = np.sort(keys)[::-1]
    if len(keys) > depth:
        keys = keys[: len(keys) - np.searchsorted(keys[::-1], keys[depth - 1] >> np.uint64(32) << np.uint64(32))]
    return (keys & np.uint64(0xFFFFFFFF)).astype(np.int64), (keys >> np.uint64(32)).astype(np.uint32).view(np.float32)


# BM25


def count_terms(terms: Sequence[str], stops: frozenset[str]) -> dict[str, int]:
    """How often each term counts, without stop words."""
    return {term: count for term, count in Counter(terms).items() if term not in stops}


def weigh_term(holders: Any, count: int, k1: float) -> Any:
    """The maximum impact of a term, from the number of passages that have it, in the same floats as PISA."""
    some, every, half = np.asarray(holders, dtype=np.float32), np.float32(count), np.float32(0.5)
    idf = np.log((every - some + half) / (some + half))
    return np.maximum(np.float32(1e-6), idf) * (np.float32(1) + np.float32(k1))


def norms(lengths: npt.NDArray[Any], k1: float, b: float) -> Floats:
    """The length normalisation of each passage."""
    mean = np.float32(lengths.sum(dtype=np.float64) / max(len(lengths), 1)) or np.float32(1)  # 0 where no passage has a word
    relative = lengths.astype(np.float32) / mean
    one, share = np.float32(1), np.float32(b)
    return np.asarray(np.float32(k1) * (one - share + share * relative), dtype=np.float32)


def impacts_of(counts: npt.NDArray[Any], norm: Floats, weight: Any) -> Floats:
    """The impacts of terms on passages that have them ``counts`` times."""
    times = counts.astype(np.float32)
    return np.asarray(weight * (times / (times + norm)), dtype=np.float32)


# On disk


class EagerFiles(Postings):
    """The mapped files of an index. Any number of threads may search them, and nothing is written.

    Args:
        folder: the folder written by :func:`write_words` or :func:`write_impacts`.
        bm25: (k1, b), if they differ from those that the impacts were computed with.
    """

    def __init__(self, folder: Path, bm25: tuple[float, float] | None = None) -> None:
        self._docs, self._impacts, self._starts = (_mapped(folder, name) for name in ("docs", "impacts", "starts"))
        self._prefixes, self._terms = _mapped(folder, "prefixes"), _Names(folder, "terms")
        self._docnos = _Names(folder, "docnos")
        self.size = len(self._docnos)
        self._bm25 = bm25
        self._numbers = {name: number for number, name in enumerate(self._terms.all or ())}
        small = bm25 is None and len(self._docs) < 1 << 31
        self.columns = Columns(self._starts.astype(np.int32), self._docs, self._impacts) if small else None
        if bm25 is not None:
            self._counts, self._many = _mapped(folder, "counts"), _mapped(folder, "many")
            self._norms = norms(_mapped(folder, "lengths"), *bm25)

    def find(self, terms: Sequence[str]) -> list[int]:
        """The number of each term; -1 for one that no passage has."""
        if self._terms.all is not None:
            return [self._numbers.get(term, -1) for term in terms]
        names = [term.encode() for term in terms]
        keys = as_prefixes(names)
        firsts, ends = (np.searchsorted(self._prefixes, keys, side).tolist() for side in ("left", "right"))
        return [self._find_among(name, first, end) for name, first, end in zip(names, firsts, ends, strict=True)]

    def _find_among(self, name: bytes, first: int, end: int) -> int:
        place = first if end - first <= 1 else bisect_left(range(end), name, lo=first, key=self._terms.one)
        return place if place < end and self._terms.one(place) == name else -1

    def docnos(self, numbers: Sequence[int]) -> list[str]:
        """The docnos of passages by their numbers."""
        if self._docnos.all is not None:
            return [self._docnos.all[number] for number in numbers]
        return [self._docnos.one(number).decode() for number in numbers]

    def part(self, number: int) -> Part:
        """The passages and impacts of a term. Impacts are computed if the index was built for other parameters."""
        start, end = int(self._starts[number]), int(self._starts[number + 1])
        docs = self._docs[start:end]
        if self._bm25 is None:
            return docs, self._impacts[start:end]
        weight = weigh_term(end - start, self.size, self._bm25[0])
        return docs, impacts_of(self._times(start, end), self._norms[docs], weight)

    def _times(self, start: int, end: int) -> npt.NDArray[np.uint32]:
        packed = self._counts[start // 2 : (end + 1) // 2]
        times = np.stack([packed & 15, packed >> 4], axis=1).reshape(-1)[start % 2 : start % 2 + end - start].astype(np.uint32)
        first, behind = np.searchsorted(self._many["place"], [start, end])
        more = self._many[first:behind]
        times[more["place"] - start] = more["count"]
        return times


class _Names:
    """Names by number, one per line in a mapped file."""

    def __init__(self, folder: Path, name: str) -> None:
        self._ends = _mapped(folder, f"{name}_ends")
        lines = _mapped(folder, name)
        self._lines = memoryview(lines)
        self.all = lines.tobytes().decode().split("\n")[:-1] if len(self._ends) <= IN_MEMORY else None

    def __len__(self) -> int:
        return len(self._ends)

    def one(self, number: int) -> bytes:
        start = int(self._ends[number - 1]) + 1 if number else 0
        return bytes(self._lines[start : int(self._ends[number])])

    def __iter__(self) -> Iterator[str]:
        return (self.one(number).decode() for number in range(len(self)))


def _mapped(folder: Path, name: str) -> Any:
    path = folder / f"{name}.npy"
    return np.load(path, mmap_mode="r", allow_pickle=False).view(np.ndarray)


def read_docnos(folder: Path) -> Iterator[str]:
    """The docnos of an index, in its order."""
    return iter(_Names(folder, "docnos"))


def count_distinct(folder: Path) -> int:
    """The number of distinct terms of an index."""
    return len(_mapped(folder, "prefixes"))


def as_prefixes(names: Sequence[bytes]) -> npt.NDArray[np.uint64]:
    """The first eight bytes of each name as a number, in the order of the bytes."""
    return np.array(names, dtype="S8").view(">u8").astype(np.uint64) if names else np.empty(0, dtype=np.uint64)


# In memory


class LexicalIndex(Postings):
    """BM25 over (docno, text) pairs in memory, with the same scores, order and words as :class:`PassageIndex`.

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
        self.size, self._docnos, self._numbers = len(lists.docnos), lists.docnos, {term: number for number, term in enumerate(lists.terms)}
        self.columns: Columns = Columns(lists.starts.astype(np.int32), lists.docs.astype(np.int32), impacts_of_lists(lists, k1, b))

    def __len__(self) -> int:
        return self.size

    def search(self, query: str, num_results: int = 1000) -> list[tuple[str, float]]:
        """The (docno, score) of the best passages, ties by docno, the greatest first. A query without a known word finds nothing."""
        (found,) = self.rank([query], num_results)
        return list(zip(found.docnos, found.scores.tolist(), strict=True))

    def rank(self, queries: Sequence[str], num_results: int = 1000) -> list[Ranking]:
        """The rankings of several queries."""
        return search(self, list(map(self._terms, queries)), num_results)

    def scores(self, query: str) -> Floats:
        """The score of every passage, in their order; 0 where it has no word of the query."""
        return _add_up(self, self._terms(query), np.empty(self.size, dtype=np.float32))

    def _terms(self, query: str) -> dict[str, int]:
        return count_terms(tokenize(query, self.stemmer), stop_terms(self.stops, self.stemmer))

    def find(self, terms: Sequence[str]) -> list[int]:
        """The number of each term; -1 for one that no passage has."""
        return [self._numbers.get(term, -1) for term in terms]

    def part(self, number: int) -> Part:
        """The passages and impacts of the term with a number."""
        some = slice(self.columns.starts[number], self.columns.starts[number + 1])
        return self.columns.docs[some], self.columns.impacts[some]

    def docnos(self, numbers: Sequence[int]) -> list[str]:
        """The docnos of passages by their numbers."""
        return [self._docnos[number] for number in numbers]


def impacts_of_lists(lists: Lists, k1: float, b: float) -> npt.NDArray[np.float32]:
    """The impact of every posting."""
    holders = np.diff(lists.starts)
    weights = np.repeat(weigh_term(holders, len(lists.docnos), k1), holders)
    return impacts_of(lists.counts, norms(lists.lengths, k1, b)[lists.docs], weights)
