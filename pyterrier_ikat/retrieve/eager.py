"""The eager engine: the impact of each term on each passage is computed at indexing time, and impacts are added up per query.

Its index is one sparse matrix of passages and terms, for words and for SPLADE, on disk or in memory. It runs on every platform, and any
number of processes may map the same files. Source: Lù, BM25S, 2024, who calls this eager sparse scoring.

The folder of a matrix has arrays. ``docs`` and ``impacts`` have the postings of all terms, one term after the other in the order of their
bytes; ``starts`` says where each begins. ``hashes`` and ``columns`` find a term. ``docnos.txt`` has the sorted docnos, a line
each, and ``ranks`` the place of each passage's docno among them: so ties cost nothing. An index of words
also has ``counts`` and ``lengths``, from which impacts for other parameters of BM25 are computed.
"""

import os
from array import array
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from copy import copy
from dataclasses import dataclass, replace
from hashlib import blake2b
from itertools import chain
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
from scipy.sparse import csr_array
from scipy.sparse._sparsetools import csc_matvec  # its public form, csc_matrix[:, terms] @ weights, copies each posting

from ..errors import DataError
from .ranking import Ranking
from .words import ascii_text, plain_parts, stem, stop_terms, tokenize, words_in

SAMPLE = 2048
PASSAGES_AT_ONCE, POSTINGS_AT_ONCE = 10_000, 1 << 22
Floats = npt.NDArray[np.float32]
Numbers = npt.NDArray[Any]
Asked = Mapping[str, float]
"""The weight of each term of a query, above 0."""


@dataclass
class Postings:
    """A sparse matrix: the impact of each term (column) on each passage (row).

    Args:
        starts: where each term's postings begin, and where the last term's end.
        docs: the passages of each posting, by number.
        impacts: the impacts.
        docnos: the docnos in their own order.
        ranks: the place of each passage's docno in that order, by number.
        find: returns the number of each term; -1 for one that no passage has.
    """

    starts: Numbers
    docs: Numbers
    impacts: Floats
    docnos: Any
    ranks: Numbers
    find: Callable[[Iterable[str]], list[int]]

    def __post_init__(self) -> None:
        self.docnos = np.array(self.docnos, dtype=object)  # takes a thousand of them in a third of a list's time

    def rankings(self, queries: Sequence[Asked], depth: int) -> list[Ranking]:
        """The rankings of queries. Equal scores are ordered by docno, the greatest first."""
        room = np.empty(len(self.docnos), dtype=np.float32)  # one for all queries: fresh memory costs more than the sums
        return [self._best(self.scores(query, room), depth) for query in queries]

    def scores(self, query: Asked, room: Floats | None = None) -> Floats:
        """The score of every passage. Terms are added in a fixed order, so passages with the same words and lengths tie.

        All postings are added in one call of scipy, without a copy: it goes over the columns between each two neighbours of ``bounds``. The
        numbers of terms descend, so nothing lies between the end of one term and the beginning of the next.
        """
        scores = np.empty(len(self.docnos), dtype=np.float32) if room is None else room
        scores.fill(0)
        weigh = {number: weight for number, weight in zip(self.find(query), query.values(), strict=True) if number >= 0}
        if not weigh:
            return scores
        numbers = np.array(sorted(weigh, reverse=True))
        weights = np.array([weigh[number] for number in numbers.tolist()], dtype=np.float32)
        bounds, factors = np.empty(2 * len(numbers), dtype=self.docs.dtype), np.zeros(2 * len(numbers) - 1, dtype=np.float32)
        bounds[::2], bounds[1::2], factors[::2] = self.starts[numbers], self.starts[numbers + 1], weights
        csc_matvec(len(scores), len(factors), bounds, self.docs, self.impacts, factors, scores)
        return scores

    def _best(self, scores: Floats, depth: int) -> Ranking:
        """The passages of highest score."""
        ranks, best = candidates(scores, depth, self.ranks)
        return Ranking(self.docnos.take(ranks).tolist(), best)


def candidates(scores: Floats, depth: int, ranks: Numbers | None = None) -> tuple[npt.NDArray[np.int64], Floats]:
    """The numbers and scores of the ``depth`` passages of highest score above 0 and of all that tie with the last one, best first.

    With ``ranks`` these stand for the numbers, of equal scores the greatest rank is first, and there are no more than ``depth``.

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
    keys |= (found if ranks is None else ranks.take(found)).astype(np.uint64)
    if ranks is not None and len(keys) > depth:
        keys = np.partition(keys, len(keys) - depth)[len(keys) - depth :]
    keys = np.sort(keys)[::-1]
    if len(keys) > depth:
        keys = keys[: len(keys) - np.searchsorted(keys[::-1], keys[depth - 1] >> np.uint64(32) << np.uint64(32))]
    return (keys & np.uint64(0xFFFFFFFF)).astype(np.int64), (keys >> np.uint64(32)).astype(np.uint32).view(np.float32)


def read_names(path: Path) -> list[str]:
    """The names in a file, one per line."""
    return path.read_text(encoding="utf-8").split("\n")[:-1]


# From texts to postings


class Inverter:
    """Counts the terms of passages.

    Attributes:
        terms: the number of each term.
        docnos: the docnos of the passages.
        lengths: the number of words in each passage.
    """

    def __init__(self, stemmer: str) -> None:
        self.terms: dict[str, int] = {}
        self.docnos: list[str] = []
        self.lengths = array("I")
        self._numbers = _Numbers(stemmer, self.terms)

    def parts(self, passages: Iterable[tuple[str, str]]) -> Iterator[csr_array]:
        """How often each passage (row) of some has each term (column), of (docno, text) pairs."""
        tokens, ends = array("I"), array("q", [0])
        for docno, text in passages:
            tokens.extend(chain.from_iterable(map(self._numbers.__getitem__, plain_parts(ascii_text(text)))))
            self.docnos.append(docno)
            self.lengths.append(len(tokens) - ends[-1])
            ends.append(len(tokens))
            if len(ends) > PASSAGES_AT_ONCE:
                yield counted(np.array(tokens), np.ones(len(tokens), dtype=np.int32), np.array(ends))
                tokens, ends = array("I"), array("q", [0])
        yield counted(np.array(tokens), np.ones(len(tokens), dtype=np.int32), np.array(ends))


def counted(terms: Numbers, values: Numbers, ends: Numbers) -> csr_array:
    """The rows of some passages: the number and value of each of their terms, those of one passage after those of another. Repeats add."""
    numbers = terms.astype(np.int32)
    found = csr_array((values, numbers, ends.astype(np.int32)), shape=(len(ends) - 1, int(numbers.max(initial=0)) + 1))
    found.sum_duplicates()
    return found


class _Numbers(dict[str, tuple[int, ...]]):
    """The numbers of the terms in each part of a text, assigned at its first use."""

    def __init__(self, stemmer: str, terms: dict[str, int]) -> None:
        super().__init__()
        self.stemmer, self.terms = stemmer, terms

    def __missing__(self, part: str) -> tuple[int, ...]:
        self[part] = numbers = tuple(self.terms.setdefault(term, len(self.terms)) for term in stem(words_in(part), self.stemmer))
        return numbers


def join(parts: Callable[[], Iterable[csr_array]], terms: Sequence[str], folder: Path | None, values: str) -> tuple[Numbers, ...]:
    """Join parts to a matrix of columns.

    Args:
        parts: gives the parts, in the order of their passages; it is called twice, so that one of them is in memory at a time.
        terms: the names of terms, by number.
        folder: the folder of the arrays' files; None for arrays in memory.
        values: the name of the array of values.

    Returns:
        Where each term begins, in the order of the bytes of terms, and the passages and values of the postings.
    """
    place = np.empty(len(terms), dtype=np.int32)
    place[column_order(terms)] = np.arange(len(terms))
    sizes, largest = np.zeros(len(terms) + 1, dtype=np.int64), 0
    for part in parts():
        sizes[1:] += np.bincount(place[part.indices], minlength=len(terms))
        largest = max(largest, int(part.data.max(initial=0)))
    starts = np.cumsum(sizes)
    docs = new_array(folder, "docs", np.int32 if starts[-1] < 1 << 31 else np.int64, int(starts[-1]))
    joined = new_array(folder, values, np.float32 if values == "impacts" else np.min_scalar_type(largest), len(docs))
    free, first = np.array(starts[:-1]), 0
    for part in parts():
        columns = csr_array((part.data, place[part.indices], part.indptr), shape=(part.shape[0], len(terms))).tocsc()
        many = np.diff(columns.indptr)
        at = np.arange(columns.nnz) + np.repeat(free - columns.indptr[:-1], many)
        docs[at], joined[at] = columns.indices + first, columns.data
        free += many
        first += part.shape[0]
    if folder is not None:
        np.save(folder / "starts.npy", starts)
    return starts, docs, joined


def column_order(terms: Sequence[str]) -> list[int]:
    """The numbers of terms in the order of their columns, that of their bytes."""
    return sorted(range(len(terms)), key=lambda number: terms[number].encode())


def new_array(folder: Path | None, name: str, kind: Any, size: int) -> Numbers:
    """An array in memory, or in a file, which takes its space at once: a full disk would end a process that writes to a mapped file."""
    if folder is None:
        return np.empty(size, dtype=kind)
    path = folder / f"{name}.npy"
    array = np.lib.format.open_memmap(path, mode="w+", dtype=kind, shape=(size,))
    if hasattr(os, "posix_fallocate"):
        with path.open("r+b") as file:
            os.posix_fallocate(file.fileno(), 0, path.stat().st_size)
    return array.view(np.ndarray)


def write_names(folder: Path, terms: Sequence[str], docnos: Sequence[str]) -> None:
    """Write what finds the terms of a matrix, and the docnos of its passages."""
    hashes = np.array([hash_of(terms[number]) for number in column_order(terms)], dtype=np.uint64)
    order = np.argsort(hashes)
    np.save(folder / "hashes.npy", hashes[order])
    np.save(folder / "columns.npy", order.astype(np.uint32))
    with (folder / "docnos.txt").open("w", encoding="utf-8", newline="\n") as file:
        file.writelines(f"{docno}\n" for docno in sorted(docnos))
    np.save(folder / "ranks.npy", ranks_of(docnos))


def ranks_of(docnos: Sequence[str]) -> Numbers:
    """The place of each docno in their order."""
    ranks = np.empty(len(docnos), dtype=np.uint32)
    ranks[sorted(range(len(docnos)), key=docnos.__getitem__)] = np.arange(len(docnos), dtype=np.uint32)
    return ranks


def hash_of(term: str) -> int:
    """64 bits that stand for a term: among ten million terms, two share them with a probability of 1 to 400,000."""
    return int.from_bytes(blake2b(term.encode(), digest_size=8).digest(), "little")


def mapped(folder: Path, name: str) -> Any:
    """An array of a folder, mapped into memory."""
    return np.load(folder / f"{name}.npy", mmap_mode="r", allow_pickle=False).view(np.ndarray)


def open_postings(folder: Path) -> Postings:
    """The matrix in a folder."""
    hashes, columns, known = mapped(folder, "hashes"), mapped(folder, "columns"), dict[str, int]()

    def find(terms: Iterable[str]) -> list[int]:
        if new := [term for term in terms if term not in known]:
            asked = np.array([hash_of(term) for term in new], dtype=np.uint64)
            places = np.minimum(np.searchsorted(hashes, asked), len(hashes) - 1)
            known.update(zip(new, np.where(hashes[places] == asked, columns[places].astype(np.int64), -1).tolist(), strict=True))
        return [known[term] for term in terms]

    starts, docs = np.array(mapped(folder, "starts")), mapped(folder, "docs")
    docnos, ranks = read_names(folder / "docnos.txt"), mapped(folder, "ranks")
    return Postings(starts, docs, mapped(folder, "impacts"), docnos, ranks, find)


# BM25


def count_terms(terms: Sequence[str], stops: frozenset[str]) -> dict[str, int]:
    """How often each term counts, without stop words."""
    return {term: count for term, count in Counter(terms).items() if term not in stops}


def weigh_term(holders: Any, count: int, k1: float) -> Any:
    """The maximum impact of a term, from the number of passages that have it, in the same floats as PISA."""
    some, every, half = np.asarray(holders, dtype=np.float32), np.float32(count), np.float32(0.5)
    idf = np.log((every - some + half) / (some + half))
    return np.maximum(np.float32(1e-6), idf) * (np.float32(1) + np.float32(k1))


def norms(lengths: Numbers, k1: float, b: float) -> Floats:
    """The length normalisation of each passage."""
    mean = np.float32(lengths.sum(dtype=np.float64) / max(len(lengths), 1)) or np.float32(1)  # 0 where no passage has a word
    relative = lengths.astype(np.float32) / mean
    one, share = np.float32(1), np.float32(b)
    return np.asarray(np.float32(k1) * (one - share + share * relative), dtype=np.float32)


def impacts_of(counts: Numbers, norm: Floats, weight: Any) -> Floats:
    """The impacts of terms on passages that have them ``counts`` times."""
    times = counts.astype(np.float32)
    return np.asarray(weight * (times / (times + norm)), dtype=np.float32)


def all_impacts(starts: Numbers, docs: Numbers, counts: Numbers, lengths: Numbers, bm25: tuple[float, float], impacts: Floats) -> Floats:
    """Fill ``impacts`` with the impact of every posting."""
    weights, norm = weigh_term(np.diff(starts), len(lengths), bm25[0]), norms(lengths, *bm25)
    for first in range(0, len(docs), POSTINGS_AT_ONCE):
        part = slice(first, min(first + POSTINGS_AT_ONCE, len(docs)))
        terms = slice(int(np.searchsorted(starts, first, "right")) - 1, int(np.searchsorted(starts, part.stop, "left")))
        sizes = np.diff(np.clip(starts[terms.start : terms.stop + 1], first, part.stop))
        impacts[part] = impacts_of(counts[part], norm[docs[part]], np.repeat(weights[terms], sizes))
    return impacts


def build_words(folder: Path, passages: Iterable[tuple[str, str]], stemmer: str, bm25: tuple[float, float]) -> None:
    """Write an index of words into a folder.

    Raises:
        DataError: when no passage has a word.
    """
    inverter = Inverter(stemmer)
    parts = list(inverter.parts(passages))
    refuse_wordless(bool(inverter.terms))
    terms, lengths = list(inverter.terms), np.array(inverter.lengths)
    starts, docs, counts = join(lambda: parts, terms, folder, "counts")
    all_impacts(starts, docs, counts, lengths, bm25, new_array(folder, "impacts", np.float32, len(docs)))
    np.save(folder / "lengths.npy", lengths)
    write_names(folder, terms, inverter.docnos)


def refuse_wordless(has_words: bool) -> None:
    """Check that some passage has a word.

    Raises:
        DataError: when none has.
    """
    if not has_words:
        raise DataError("no passage has a word of ASCII letters and digits: use a SPLADE or dense index with a model of its language")


class Words:
    """BM25 over an index of words in a folder.

    Args:
        folder: made by :func:`build_words`.
        described: ``stemmer``, ``stops`` and ``bm25``, the parameters that its impacts were computed for.
    """

    def __init__(self, folder: Path, described: Mapping[str, Any]) -> None:
        self.described, self.postings = described, open_postings(folder)
        self._counts, self._lengths = mapped(folder, "counts"), mapped(folder, "lengths")

    def at(self, k1: float, b: float) -> "Words":
        """This index for parameters of BM25. Impacts for others than its own are computed in memory."""
        if [k1, b] == list(self.described["bm25"]):
            return self
        found, held = copy(self), self.postings
        impacts = np.empty(len(held.docs), dtype=np.float32)
        all_impacts(held.starts, held.docs, self._counts, self._lengths, (k1, b), impacts)
        found.postings = replace(held, impacts=impacts)
        return found

    def rankings(self, queries: Sequence[str | Asked], depth: int) -> list[Ranking]:
        """The rankings of texts, or of weighted terms."""
        stemmer = self.described["stemmer"]
        stops = stop_terms(self.described["stops"], stemmer)
        asked = [count_terms(tokenize(query, stemmer), stops) if isinstance(query, str) else query for query in queries]
        return self.postings.rankings(asked, depth)


class LexicalIndex:
    """BM25 over (docno, text) pairs in memory, with the same scores, order and words as :class:`PassageIndex`.

    Args:
        passages: (docno, text) pairs, each docno once.
        stemmer: ``"porter2"`` or ``"none"``.
        stops: the stop words, removed from queries: ``"lucene"``, ``"terrier"`` or ``"none"``.
        k1: of BM25.
        b: of BM25.

    Example:
        >>> said = {"s1": "I'm allergic to nuts", "s2": "I like teas without caffeine", "s3": "I live near the sea"}
        >>> [docno for docno, score in LexicalIndex(said.items()).search("Which tea?")]
        ['s2']
    """

    def __init__(
        self, passages: Iterable[tuple[str, str]], *, stemmer: str = "porter2", stops: str = "lucene", k1: float = 0.9, b: float = 0.4
    ) -> None:
        self.stemmer, self.stops = stemmer, stops
        inverter = Inverter(stemmer)
        parts = list(inverter.parts(passages))
        terms = list(inverter.terms)
        starts, docs, counts = join(lambda: parts, terms, None, "counts")
        impacts = all_impacts(starts, docs, counts, np.array(inverter.lengths), (k1, b), np.empty(len(docs), np.float32))
        columns = {terms[number]: column for column, number in enumerate(column_order(terms))}
        docnos, ranks = sorted(inverter.docnos), ranks_of(inverter.docnos)
        self.postings = Postings(starts, docs, impacts, docnos, ranks, lambda asked: [columns.get(term, -1) for term in asked])

    def search(self, query: str, num_results: int = 1000) -> list[tuple[str, float]]:
        """The (docno, score) of the best passages, ties by docno, the greatest first. A query without a known word finds nothing."""
        (found,) = self.postings.rankings([self._terms(query)], num_results)
        return list(zip(found.docnos, found.scores.tolist(), strict=True))

    def scores(self, query: str) -> Floats:
        """The score of every passage, in their order; 0 where it has no word of the query."""
        return self.postings.scores(self._terms(query))

    def _terms(self, query: str) -> dict[str, int]:
        return count_terms(tokenize(query, self.stemmer), stop_terms(self.stops, self.stemmer))
