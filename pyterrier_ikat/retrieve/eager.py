"""The eager engine: the impact of each term on each passage is computed at indexing time, and impacts are added up per query.

Its index is one sparse matrix of passages and terms, for words and for SPLADE, on disk or in
memory. It runs on every platform, and any number of processes may map the same files. Source: Lù,
BM25S, 2024, who calls this eager sparse scoring.

The folder of a matrix has arrays. ``docs`` and ``impacts`` have the postings of all terms, one term
after the other; ``starts`` says where each begins. ``terms.txt`` names the terms, ``docnos.txt``
has the sorted docnos, a line each, and ``ranks`` the place of each passage's docno among them: so
ties cost nothing. An index of words also has ``counts`` and ``lengths``, from which impacts for
other parameters of BM25 are computed.
"""

from array import array
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from copy import copy
from dataclasses import dataclass, replace
from itertools import chain, islice
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
from scipy.sparse import csc_array, csr_array, vstack
from scipy.sparse._sparsetools import (
    csc_matvec,
)  # its public form, csc_matrix[:, terms] @ weights, copies each posting

from ..errors import DataError
from .rankings import Ranking
from .texts import read_names
from .words import WORD, ascii_text, plain_parts, stem, stop_terms, tokenize, words_in

SAMPLE = 2048
PASSAGES_AT_ONCE = 10_000
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
        columns: the number of each term.
    """

    starts: Numbers
    docs: Numbers
    impacts: Floats
    docnos: Any
    ranks: Numbers
    columns: Mapping[str, int]

    def rankings(self, queries: Sequence[Asked], depth: int) -> list[Ranking]:
        """The rankings of queries. Equal scores are ordered by docno, the greatest first."""
        room = np.empty(
            len(self.docnos), dtype=np.float32
        )  # one for all queries: fresh memory costs more than the sums
        return [self._best(self.scores(query, room), depth) for query in queries]

    def scores(self, query: Asked, room: Floats | None = None) -> Floats:
        """The score of every passage. Terms are added in a fixed order, so passages with the same words and lengths tie.

        All postings are added in one call of scipy, without a copy: it goes over the columns
        between each two neighbours of ``bounds``. The numbers of terms descend, so nothing lies
        between the end of one term and the beginning of the next.
        """
        scores = np.empty(len(self.docnos), dtype=np.float32) if room is None else room
        scores.fill(0)
        weigh = {
            self.columns[term]: weight for term, weight in query.items() if term in self.columns
        }
        if not weigh:
            return scores
        numbers = np.array(sorted(weigh, reverse=True))
        weights = np.array([weigh[number] for number in numbers.tolist()], dtype=np.float32)
        bounds, factors = (
            np.empty(2 * len(numbers), dtype=self.docs.dtype),
            np.zeros(2 * len(numbers) - 1, dtype=np.float32),
        )
        bounds[::2], bounds[1::2], factors[::2] = (
            self.starts[numbers],
            self.starts[numbers + 1],
            weights,
        )
        csc_matvec(len(scores), len(factors), bounds, self.docs, self.impacts, factors, scores)
        return scores

    def _best(self, scores: Floats, depth: int) -> Ranking:
        """The passages of highest score."""
        ranks, best = candidates(scores, depth, self.ranks)
        return Ranking(self.docnos.take(ranks).tolist(), best)


def candidates(
    scores: Floats, depth: int, ranks: Numbers | None = None
) -> tuple[npt.NDArray[np.int64], Floats]:
    """The numbers and scores of the ``depth`` passages of highest score above 0 and of all that tie with the last one, best first.

    With ``ranks`` these stand for the numbers, of equal scores the greatest rank is first, and
    there are no more than ``depth``.

    A sample of the scores estimates how high a score has to be. Scores from there up are sorted by
    keys made of score and number: the bits of floats above 0 are in the order of their values.
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
        keys = keys[
            : len(keys)
            - np.searchsorted(keys[::-1], keys[depth - 1] >> np.uint64(32) << np.uint64(32))
        ]
    return (keys & np.uint64(0xFFFFFFFF)).astype(np.int64), (keys >> np.uint64(32)).astype(
        np.uint32
    ).view(np.float32)


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
        """The impact of every posting."""
        return all_impacts(
            self.counts.indptr, self.counts.indices, self.counts.data, self.lengths, k1, b
        )


def invert(passages: Iterable[tuple[str, str]], stemmer: str) -> Inverted:
    """Count the words of (docno, text) pairs."""
    numbers, docnos, lengths, parts, left = (
        _Numbers(stemmer),
        list[str](),
        array("I"),
        list[csr_array](),
        iter(passages),
    )
    while (some := list(islice(left, PASSAGES_AT_ONCE))) or not parts:
        tokens, ends = array("i"), array("i", [0])
        for docno, text in some:
            tokens.extend(
                chain.from_iterable(map(numbers.__getitem__, plain_parts(ascii_text(text))))
            )
            docnos.append(docno)
            lengths.append(len(tokens) - ends[-1])
            ends.append(len(tokens))
        part = csr_array(
            (np.ones(len(tokens), dtype=np.int32), np.array(tokens), np.array(ends)),
            shape=(len(some), len(numbers.terms)),
        )
        part.sum_duplicates()
        counts = part.data.astype(np.min_scalar_type(part.data.max(initial=0)))
        parts.append(csr_array((counts, part.indices, part.indptr), shape=part.shape))
    terms = sorted(numbers.terms, key=str.encode)
    places = np.empty(len(terms), dtype=np.int32)
    places[[numbers.terms[term] for term in terms]] = np.arange(len(terms))
    for number, part in enumerate(parts):
        parts[number] = csr_array(
            (part.data, places[part.indices], part.indptr), shape=(part.shape[0], len(terms))
        )
    whole = vstack(parts, format="csr")
    parts.clear()  # so that all postings are in memory twice at most
    return Inverted(whole.tocsc(), terms, docnos, np.array(lengths))


class _Numbers(dict[str, tuple[int, ...]]):
    """The numbers of the terms in each part of a text, assigned at its first use."""

    def __init__(self, stemmer: str) -> None:
        super().__init__()
        self.stemmer = stemmer
        self.terms: dict[str, int] = {}

    def __missing__(self, part: str) -> tuple[int, ...]:
        self[part] = numbers = tuple(
            self.terms.setdefault(term, len(self.terms))
            for term in stem(words_in(part), self.stemmer)
        )
        return numbers


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
    for name, values in {"ranks": ranks_of(docnos), **arrays}.items():
        np.save(folder / f"{name}.npy", values)
    for file, names in (("terms.txt", terms), ("docnos.txt", sorted(docnos))):
        (folder / file).write_text(
            "".join(f"{name}\n" for name in names), encoding="utf-8", newline="\n"
        )


def new_array(folder: Path, name: str, dtype: Any, size: int) -> Numbers:
    """An array of a folder to be filled, mapped into memory."""
    return np.lib.format.open_memmap(
        folder / f"{name}.npy", mode="w+", dtype=dtype, shape=(int(size),)
    )


def open_postings(folder: Path) -> Postings:
    """The matrix in a folder."""
    columns = {term: number for number, term in enumerate(read_names(folder / "terms.txt"))}
    starts, docnos = (
        np.array(mapped(folder, "starts")),
        np.array(read_names(folder / "docnos.txt"), dtype=object),
    )
    return Postings(
        starts,
        mapped(folder, "docs"),
        mapped(folder, "impacts"),
        docnos,
        mapped(folder, "ranks"),
        columns,
    )


def ranks_of(docnos: Sequence[str]) -> Numbers:
    """The place of each docno in their order."""
    ranks = np.empty(len(docnos), dtype=np.uint32)
    ranks[sorted(range(len(docnos)), key=docnos.__getitem__)] = np.arange(
        len(docnos), dtype=np.uint32
    )
    return ranks


def mapped(folder: Path, name: str) -> Any:
    """An array of a folder, mapped into memory."""
    return np.load(folder / f"{name}.npy", mmap_mode="r", allow_pickle=False).view(np.ndarray)


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
    mean = np.float32(lengths.sum(dtype=np.float64) / max(len(lengths), 1)) or np.float32(
        1
    )  # 0 where no passage has a word
    relative = lengths.astype(np.float32) / mean
    one, share = np.float32(1), np.float32(b)
    return np.asarray(np.float32(k1) * (one - share + share * relative), dtype=np.float32)


def impacts_of(counts: Numbers, norm: Floats, weight: Any) -> Floats:
    """The impacts of terms on passages that have them ``counts`` times."""
    found = counts.astype(np.float32)
    found /= found + norm
    found *= weight
    return found


def all_impacts(
    starts: Numbers, docs: Numbers, counts: Numbers, lengths: Numbers, k1: float, b: float
) -> Floats:
    """The impact of every posting."""
    holders = np.diff(starts)
    return impacts_of(
        counts,
        norms(lengths, k1, b)[docs],
        np.repeat(weigh_term(holders, len(lengths), k1), holders),
    )


def build_words(
    folder: Path, passages: Iterable[tuple[str, str]], stemmer: str, bm25: tuple[float, float]
) -> None:
    """Write an index of words into a folder.

    Raises:
        DataError: when no passage has a word.
    """
    found = invert(passages, stemmer)
    refuse_wordless(bool(found.terms))
    postings = {
        "starts": found.counts.indptr,
        "docs": found.counts.indices,
        "impacts": found.impacts(*bm25),
    }
    save_postings(
        folder,
        found.terms,
        found.docnos,
        **postings,
        counts=found.counts.data,
        lengths=found.lengths,
    )


def refuse_wordless(has_words: bool, what: str = "passage") -> None:
    """Check that some text has a word.

    Args:
        has_words: whether one has.
        what: what the texts are.

    Raises:
        DataError: when none has.
    """
    if not has_words:
        repair = "use a SPLADE or dense index with a model of its language"
        if what != "passage":
            repair = "rank by meaning with a model of its language, such as ikat.BiEncoder(MODEL)"
        raise DataError(f"no {what} has a {WORD}: {repair}")


class Words:
    """BM25 over an index of words in a folder.

    Args:
        folder: made by :func:`build_words`.
        described: ``stemmer``, ``stops`` and ``bm25``, the parameters that its impacts were
            computed for.
    """

    def __init__(self, folder: Path, described: Mapping[str, Any]) -> None:
        self.described, self.postings = described, open_postings(folder)
        self._counts, self._lengths = mapped(folder, "counts"), mapped(folder, "lengths")

    def at(self, k1: float, b: float) -> "Words":
        """This index for parameters of BM25. Impacts for others than its own are computed in memory."""
        if [k1, b] == list(self.described["bm25"]):
            return self
        found, held = copy(self), self.postings
        found.postings = replace(
            held, impacts=all_impacts(held.starts, held.docs, self._counts, self._lengths, k1, b)
        )
        return found

    def rankings(self, queries: Sequence[str | Asked], depth: int) -> list[Ranking]:
        """The rankings of texts, or of weighted terms."""
        stemmer = self.described["stemmer"]
        stops = stop_terms(self.described["stops"], stemmer)
        asked = [
            count_terms(tokenize(query, stemmer), stops) if isinstance(query, str) else query
            for query in queries
        ]
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
        self,
        passages: Iterable[tuple[str, str]],
        *,
        stemmer: str = "porter2",
        stops: str = "lucene",
        k1: float = 0.9,
        b: float = 0.4,
    ) -> None:
        self.stemmer, self.stops = stemmer, stops
        found = invert(passages, stemmer)
        columns = {term: number for number, term in enumerate(found.terms)}
        held, docnos, ranks = (
            found.counts,
            np.array(sorted(found.docnos), dtype=object),
            ranks_of(found.docnos),
        )
        self.postings = Postings(
            held.indptr, held.indices, found.impacts(k1, b), docnos, ranks, columns
        )

    @property
    def has_words(self) -> bool:
        """Whether some passage has a word."""
        return bool(self.postings.columns)

    def search(self, query: str, num_results: int = 1000) -> list[tuple[str, float]]:
        """The (docno, score) of the best passages, ties by docno, the greatest first. A query without a known word finds nothing."""
        (found,) = self.postings.rankings([self._terms(query)], num_results)
        return list(zip(found.docnos, found.scores.tolist(), strict=True))

    def scores(self, query: str) -> Floats:
        """The score of every passage, in their order; 0 where it has no word of the query."""
        return self.postings.scores(self._terms(query))

    def _terms(self, query: str) -> dict[str, int]:
        return count_terms(tokenize(query, self.stemmer), stop_terms(self.stops, self.stemmer))
