"""The eager engine: impacts of terms on passages, computed at indexing time and added per query.

Its index is one sparse matrix of passages and terms, for words and for SPLADE, on disk or in
memory. It runs on every platform, and any number of processes may map the same files. Source: Lù,
BM25S, 2024, who calls this eager sparse scoring.

The folder of a matrix has arrays. ``docs`` and ``impacts`` have the postings of all terms, one term
after the other; ``starts`` has the position at which each term begins. ``terms.txt`` names the
terms, ``docnos.txt`` has the sorted docnos, a line each, and ``ranks`` the position of each
passage's docno among them, by which ties are ordered. An index of words also has ``counts`` and
``lengths``, from which impacts for other parameters of BM25 are computed.
"""

from array import array
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from copy import copy
from dataclasses import dataclass, replace
from itertools import chain
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
from scipy.sparse import csc_array, csr_array, vstack

# The public form of csc_matvec, csc_matrix[:, terms] @ weights, copies each posting.
from scipy.sparse._sparsetools import csc_matvec

from ..errors import DataError
from .rankings import Ranking
from .texts import batches, read_names
from .words import WORD, ascii_text, plain_parts, stem, stop_terms, tokenize, words_in

SAMPLED_SCORES = 2048
PASSAGES_AT_ONCE = 10_000
Floats = npt.NDArray[np.float32]
Numbers = npt.NDArray[Any]
TermWeights = Mapping[str, float]
"""The weight of each term of a query, above 0."""


@dataclass
class Postings:
    """A sparse matrix: the impact of each term (column) on each passage (row).

    Args:
        starts: the position at which each term's postings begin, and the end of the last ones.
        docs: the passages of each posting, by number.
        impacts: the impacts.
        docnos: the docnos in their own order.
        ranks: the position of each passage's docno in that order, by number.
        columns: the number of each term.
    """

    starts: Numbers
    docs: Numbers
    impacts: Floats
    docnos: Any
    ranks: Numbers
    columns: Mapping[str, int]

    def rankings(self, queries: Sequence[TermWeights], depth: int) -> list[Ranking]:
        """Rank the passages for queries. Ties are ordered by docno, the greatest first."""
        # One array for all queries: fresh memory costs more than the sums.
        scores = np.empty(len(self.docnos), dtype=np.float32)
        rankings = []
        for query in queries:
            ranks, best = candidates(self.scores(query, scores), depth, self.ranks)
            rankings.append(Ranking(self.docnos.take(ranks).tolist(), best))
        return rankings

    def scores(self, query: TermWeights, out: Floats | None = None) -> Floats:
        """Return the score of every passage.

        Terms are added in a fixed order, so that passages with the same words and lengths tie.

        Args:
            query: the weights of its terms.
            out: the array to fill; by default a new one.
        """
        scores = np.empty(len(self.docnos), dtype=np.float32) if out is None else out
        scores.fill(0)
        weights = {}
        for term, weight in query.items():
            if term in self.columns:
                weights[self.columns[term]] = weight
        if not weights:
            return scores
        # One call of scipy adds all postings without copying them. It goes from each bound to the
        # next one: from the beginning of a term to its end, with the term's weight, and on to the
        # beginning of the next term. There is nothing between them, because columns descend.
        columns = np.array(sorted(weights, reverse=True))
        bounds = np.column_stack([self.starts[columns], self.starts[columns + 1]]).ravel()
        factors = np.zeros(len(bounds) - 1, dtype=np.float32)
        factors[::2] = [weights[column] for column in columns.tolist()]
        csc_matvec(len(scores), len(factors), bounds, self.docs, self.impacts, factors, scores)
        return scores


def candidates(
    scores: Floats, depth: int, ranks: Numbers | None = None
) -> tuple[npt.NDArray[np.int64], Floats]:
    """Return the passages of highest score above 0, best first, and their scores.

    Args:
        scores: the score of every passage.
        depth: the number of passages. All that tie with the last one are returned as well.
        ranks: a number of each passage to return instead of its row. Ties are then ordered by it,
            the greatest first, and at most ``depth`` passages are returned.
    """
    rows = _high_rows(scores, depth)
    best = scores.take(rows)  # as rows: one for each passage that may be among the best
    order = np.argsort(best)[::-1]
    if len(order) > depth:
        last = best[order[depth - 1]]
        order = order[: np.count_nonzero(best >= last)]
    rows = rows.take(order)
    best = best.take(order)
    if ranks is None:
        return _order_ties(best, rows), best
    numbers = _order_ties(best, ranks.take(rows))
    return numbers[:depth], best[:depth].copy()  # so that more ties aren't kept in memory


def _order_ties(scores: Floats, numbers: Numbers) -> npt.NDArray[np.int64]:
    """Return the numbers, sorted among equal scores, the greatest first.

    All ties are sorted at once. Numbers are below 2**32, so a multiple of it, larger for each lower
    score, keeps the numbers of different scores apart.

    Args:
        scores: the scores, the highest first.
        numbers: the number of each score.
    """
    base = np.zeros(len(scores), dtype=np.int64)
    np.cumsum(scores[1:] < scores[:-1], out=base[1:])  # 0 for the highest score, 1 for the next
    base *= 2**32
    return base - np.sort(base - numbers)


def _high_rows(scores: Floats, depth: int) -> npt.NDArray[np.int64]:
    """Return the rows of the ``depth`` highest scores above 0, all ties of the last, and some more.

    A sample of the scores suggests how high a score has to be. If too few are as high, all rows
    with a score above 0 are returned.
    """
    if depth < len(scores) // 8:
        sample = np.sort(scores[:: max(len(scores) // SAMPLED_SCORES, 1)])
        expected = depth * len(sample) / len(scores)
        # lower than expected: a threshold that too few scores reach costs more than some more rows
        position = len(sample) - 16 - int(1.5 * expected)
        threshold = sample[max(position, 0)]
        if threshold > 0:
            rows = np.flatnonzero(scores >= threshold)
            if len(rows) >= depth:
                return rows
    return np.flatnonzero(scores > 0)


# From texts to postings


class Inverted(NamedTuple):
    """The words of passages.

    Attributes:
        counts: how often each passage (row) has each term (column).
        terms: the terms, in the order of their bytes.
        docnos: the docnos of the passages.
        lengths: the number of words in each passage.
    """

    counts: csc_array
    terms: list[str]
    docnos: list[str]
    lengths: Numbers

    def impacts(self, k1: float, b: float) -> Floats:
        """Return the impact of every posting."""
        counts = self.counts
        return all_impacts(counts.indptr, counts.indices, counts.data, self.lengths, k1, b)


def invert(passages: Iterable[tuple[str, str]], stemmer: str) -> Inverted:
    """Count the words of (docno, text) pairs."""
    numbers = _TermNumbers(stemmer)
    docnos: list[str] = []
    parts: list[csr_array] = []
    lengths = [np.empty(0, dtype=np.uint32)]
    for batch in batches(iter(passages), PASSAGES_AT_ONCE):
        docnos += [docno for docno, _ in batch]
        part, of_part = _count_words([text for _, text in batch], numbers)
        parts.append(part)
        lengths.append(of_part)
    if not parts:
        parts.append(csr_array((0, 0), dtype=np.uint8))
    terms = sorted(numbers.terms, key=str.encode)
    columns = np.empty(len(terms), dtype=np.int32)  # number of a term -> its place in the order
    columns[[numbers.terms[term] for term in terms]] = np.arange(len(terms))
    for position, part in enumerate(parts):
        content = (part.data, columns[part.indices], part.indptr)
        parts[position] = csr_array(content, shape=(part.shape[0], len(terms)))
    whole = vstack(parts, format="csr")
    parts.clear()  # so that all postings are in memory twice at most
    return Inverted(whole.tocsc(), terms, docnos, np.concatenate(lengths))


def _count_words(texts: Sequence[str], numbers: "_TermNumbers") -> tuple[csr_array, Numbers]:
    """Count the terms (columns) of each text (row), and the words of each text."""
    tokens = array("i")
    ends = array("i", [0])
    for text in texts:
        parts = plain_parts(ascii_text(text))
        tokens.extend(chain.from_iterable(map(numbers.__getitem__, parts)))
        ends.append(len(tokens))
    ones = np.ones(len(tokens), dtype=np.int32)
    counts = csr_array(
        (ones, np.array(tokens), np.array(ends)), shape=(len(texts), len(numbers.terms))
    )
    counts.sum_duplicates()
    smallest = np.min_scalar_type(counts.data.max(initial=0))
    content = (counts.data.astype(smallest), counts.indices, counts.indptr)
    return csr_array(content, shape=counts.shape), np.diff(ends).astype(np.uint32)


class _TermNumbers(dict[str, tuple[int, ...]]):
    """The numbers of the terms in each part of a text, assigned at its first use."""

    def __init__(self, stemmer: str) -> None:
        super().__init__()
        self.stemmer = stemmer
        self.terms: dict[str, int] = {}

    def __missing__(self, part: str) -> tuple[int, ...]:
        numbers = []
        for term in stem(words_in(part), self.stemmer):
            numbers.append(self.terms.setdefault(term, len(self.terms)))
        self[part] = tuple(numbers)
        return self[part]


# A matrix in a folder


def save_postings(
    folder: Path, terms: Sequence[str], docnos: Sequence[str], **arrays: Numbers
) -> None:
    """Write a matrix of passages (rows) and terms (columns) into a folder.

    Args:
        folder: an existing folder.
        terms: the names of its columns.
        docnos: the names of its rows.
        arrays: the arrays of the folder that aren't there yet, by name.
    """
    np.save(folder / "ranks.npy", ranks_of(docnos))
    for name, values in arrays.items():
        np.save(folder / f"{name}.npy", values)
    _write_names(folder / "terms.txt", terms)
    _write_names(folder / "docnos.txt", sorted(docnos))


def _write_names(path: Path, names: Iterable[str]) -> None:
    lines = "".join(f"{name}\n" for name in names)
    path.write_text(lines, encoding="utf-8", newline="\n")


def new_array(folder: Path, name: str, dtype: Any, size: int) -> Numbers:
    """Create an array of a folder to be filled, mapped into memory."""
    path = folder / f"{name}.npy"
    return np.lib.format.open_memmap(path, mode="w+", dtype=dtype, shape=(int(size),))


def open_postings(folder: Path) -> Postings:
    """Open the matrix in a folder."""
    docs = mapped(folder, "docs")
    terms = read_names(folder / "terms.txt")
    docnos = read_names(folder / "docnos.txt")
    return Postings(
        starts=np.array(mapped(folder, "starts"), dtype=docs.dtype),  # as csc_matvec needs it
        docs=docs,
        impacts=mapped(folder, "impacts"),
        docnos=np.array(docnos, dtype=object),
        ranks=mapped(folder, "ranks"),
        columns={term: number for number, term in enumerate(terms)},
    )


def ranks_of(docnos: Sequence[str]) -> Numbers:
    """Return the position of each docno in their order."""
    order = sorted(range(len(docnos)), key=docnos.__getitem__)
    ranks = np.empty(len(docnos), dtype=np.uint32)
    ranks[order] = np.arange(len(docnos), dtype=np.uint32)
    return ranks


def mapped(folder: Path, name: str) -> Any:
    """Open an array of a folder, mapped into memory."""
    return np.load(folder / f"{name}.npy", mmap_mode="r", allow_pickle=False).view(np.ndarray)


# BM25


def count_terms(terms: Sequence[str], stops: frozenset[str]) -> dict[str, int]:
    """Count each term, without stop words."""
    return {term: count for term, count in Counter(terms).items() if term not in stops}


def weigh_term(holders: Any, count: int, k1: float) -> Any:
    """Return the maximum impact of a term, in the same floats as PISA.

    Args:
        holders: the number of passages that have the term, or an array for several terms.
        count: the number of all passages.
        k1: of BM25.
    """
    having = np.asarray(holders, dtype=np.float32)
    half = np.float32(0.5)
    idf = np.log((np.float32(count) - having + half) / (having + half))
    return np.maximum(np.float32(1e-6), idf) * (np.float32(1) + np.float32(k1))


def norms(lengths: Numbers, k1: float, b: float) -> Floats:
    """Return the length normalisation of each passage."""
    mean = np.float32(lengths.sum(dtype=np.float64) / max(len(lengths), 1))
    if mean == 0:  # no passage has a word
        mean = np.float32(1)
    relative = lengths.astype(np.float32) / mean
    share = np.float32(b)
    return np.asarray(np.float32(k1) * (np.float32(1) - share + share * relative), dtype=np.float32)


def impacts_of(counts: Numbers, norm: Floats, weight: Any) -> Floats:
    """Return the impacts of terms that occur ``counts`` times."""
    impacts = counts.astype(np.float32)
    impacts /= impacts + norm
    impacts *= weight
    return impacts


def all_impacts(
    starts: Numbers, docs: Numbers, counts: Numbers, lengths: Numbers, k1: float, b: float
) -> Floats:
    """Return the impact of every posting."""
    holders = np.diff(starts)
    norm = norms(lengths, k1, b)[docs]
    weight = np.repeat(weigh_term(holders, len(lengths), k1), holders)
    return impacts_of(counts, norm, weight)


def build_words(
    folder: Path, passages: Iterable[tuple[str, str]], stemmer: str, bm25: tuple[float, float]
) -> None:
    """Write an index of words into a folder.

    Raises:
        DataError: when no passage has a word.
    """
    inverted = invert(passages, stemmer)
    refuse_wordless(bool(inverted.terms))
    save_postings(
        folder,
        inverted.terms,
        inverted.docnos,
        starts=inverted.counts.indptr,
        docs=inverted.counts.indices,
        impacts=inverted.impacts(*bm25),
        counts=inverted.counts.data,
        lengths=inverted.lengths,
    )


def refuse_wordless(has_words: bool, what: str = "passage") -> None:
    """Check that some text has a word.

    Args:
        has_words: whether one has.
        what: what the texts are.

    Raises:
        DataError: when none has.
    """
    if has_words:
        return
    repair = "use a SPLADE or dense index with a model of its language"
    if what != "passage":
        repair = "rank by meaning with a model of its language, such as ikat.BiEncoder(MODEL)"
    raise DataError(f"no {what} has a {WORD}: {repair}")


class EagerBM25:
    """BM25 over an index of words in a folder.

    Args:
        folder: made by :func:`build_words`.
        described: ``stemmer``, ``stops`` and ``bm25``, the parameters that its impacts were
            computed for.
    """

    def __init__(self, folder: Path, described: Mapping[str, Any]) -> None:
        self.described = described
        self.postings = open_postings(folder)
        self._counts = mapped(folder, "counts")
        self._lengths = mapped(folder, "lengths")

    def at(self, k1: float, b: float) -> "EagerBM25":
        """Return this index for parameters of BM25.

        Impacts for other parameters than its own are computed in memory.
        """
        if [k1, b] == list(self.described["bm25"]):
            return self
        postings = self.postings
        impacts = all_impacts(postings.starts, postings.docs, self._counts, self._lengths, k1, b)
        index = copy(self)
        index.postings = replace(postings, impacts=impacts)
        return index

    def rankings(self, queries: Sequence[str | TermWeights], depth: int) -> list[Ranking]:
        """Rank the passages for texts, or for weighted terms."""
        stemmer = self.described["stemmer"]
        stops = stop_terms(self.described["stops"], stemmer)
        weighted = []
        for query in queries:
            if isinstance(query, str):
                query = count_terms(tokenize(query, stemmer), stops)
            weighted.append(query)
        return self.postings.rankings(weighted, depth)


class LexicalIndex:
    """BM25 over (docno, text) pairs in memory.

    Scores, order and words are those of :class:`PassageIndex`.

    Args:
        passages: (docno, text) pairs, each docno once.
        stemmer: ``"porter2"`` or ``"none"``.
        stops: the stop words, removed from queries: ``"lucene"``, ``"terrier"`` or ``"none"``.
        k1: of BM25.
        b: of BM25.

    Example:
        >>> statements = {"s1": "I'm allergic to nuts", "s2": "I like teas", "s3": "I like runs"}
        >>> [docno for docno, score in LexicalIndex(statements.items()).search("Which tea?")]
        ['s2']
    """

    def __init__(
        self,
        passages: Iterable[tuple[str, str]],
        *,
        stemmer: str = "porter2",
        stops: str = "lucene",
        k1: float = 0.9,
        b: float = 0.4,
    ) -> None:
        self.stemmer = stemmer
        self.stops = stops
        inverted = invert(passages, stemmer)
        self.postings = Postings(
            starts=inverted.counts.indptr,
            docs=inverted.counts.indices,
            impacts=inverted.impacts(k1, b),
            docnos=np.array(sorted(inverted.docnos), dtype=object),
            ranks=ranks_of(inverted.docnos),
            columns={term: number for number, term in enumerate(inverted.terms)},
        )

    @property
    def has_words(self) -> bool:
        """Whether some passage has a word."""
        return bool(self.postings.columns)

    def search(self, query: str, num_results: int = 1000) -> list[tuple[str, float]]:
        """Return the (docno, score) of the best passages, ties by docno, the greatest first.

        A query without a known word finds nothing.
        """
        [ranking] = self.postings.rankings([self._terms(query)], num_results)
        return list(zip(ranking.docnos, ranking.scores.tolist(), strict=True))

    def scores(self, query: str) -> Floats:
        """Return the score of every passage, in their order; 0 where no word is in the query."""
        return self.postings.scores(self._terms(query))

    def _terms(self, query: str) -> dict[str, int]:
        return count_terms(tokenize(query, self.stemmer), stop_terms(self.stops, self.stemmer))
