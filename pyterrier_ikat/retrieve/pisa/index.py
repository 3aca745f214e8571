"""PISA's indexes as they are read: text, docnos, and rankings that depend neither on threads nor on the order of indexing."""

import re
import unicodedata
from collections.abc import Iterator, Sequence
from functools import cache, lru_cache
from importlib import metadata
from itertools import pairwise
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import pandas as pd

from ...errors import UsageError
from .build import add_bm25, add_impacts

# PISA has krovetz too, but loads its dictionary per query word: 280 queries took 19 to 160 s in place of 0.2 s.
STEMMERS = ("porter2", "none")
STOPS = ("lucene", "terrier", "none")
DOCNOS_AT_ONCE = 100_000
TIES = "the greatest docno first"
"""Part of a kept ranking's key, so that one that was kept with its ties in another order isn't taken for it."""

_MARKS = re.compile("[\u0300-\u036f]")
_NOT_PRINTABLE_ASCII = re.compile("[^ -~]")
_QUOTES = str.maketrans("\u2018\u2019\u02bc", "'''")


class Ranking(NamedTuple):
    """The passages of one query, best first, and their scores."""

    docnos: list[str]
    scores: npt.NDArray[np.floating[Any]]

    def best(self, depth: int) -> "Ranking":
        """The first ``depth`` of them."""
        return Ranking(self.docnos[:depth], self.scores[:depth])


NOTHING = Ranking([], np.empty(0, dtype=np.float32))


@cache
def version() -> str:
    """PISA's version, on which rankings depend."""
    return metadata.version("pyterrier-pisa")


def check_bm25(k1: float, b: float) -> None:
    """Check the parameters of BM25.

    Raises:
        UsageError: when they are out of range, or PISA can't tell them from their neighbours.
    """
    if not (k1 >= 0 and 0 <= b <= 1):
        raise UsageError(f"BM25 needs k1 >= 0 and 0 <= b <= 1, not k1={k1!r}, b={b!r}; the usual values here are k1=0.9, b=0.4")
    for name, value in (("k1", k1), ("b", b)):
        if float(f"{value:g}") != value:
            raise UsageError(f"{name}={value!r} has more than the 6 digits that PISA keeps: round it to {value:g}")


def ascii_text(text: Any) -> str:
    r"""``text`` as PISA can take it: printable ASCII, accents taken off, curly apostrophes straightened, anything else a space.

    PISA breaks words at every character that isn't an ASCII letter or digit, and fails on some. Passages and queries go through this
    alike, so that ``café`` finds ``cafe`` and a curly ``it’s`` is the word ``it's``. A value that isn't a string is an empty text.

    Example:
        >>> ascii_text("Caf\u00e9 \u2014 it\u2019s\0open"), ascii_text(None)
        ("Cafe   it's open", '')
    """
    if not isinstance(text, str):
        return ""
    return _NOT_PRINTABLE_ASCII.sub(lambda found: _ascii_character(found.group()), text)


def number_of_terms(folder: Path) -> int:
    """The number of distinct terms of an index."""
    from pyterrier_pisa import PisaIndex

    return int(PisaIndex(str(folder)).num_terms())


def docnos(folder: Path) -> Iterator[str]:
    """The docnos of an index, in its order."""
    with (folder / "fwd.doclex").open("rb") as file:  # their number, where each one begins, where the last one ends, and the docnos
        size = int.from_bytes(file.read(8), "little")
        for first in range(0, size, DOCNOS_AT_ONCE):
            file.seek(8 + 8 * first)
            bounds = np.frombuffer(file.read(8 * (min(DOCNOS_AT_ONCE, size - first) + 1)), dtype="<u8").tolist()
            file.seek(8 + 8 * (size + 1) + bounds[0])
            text = file.read(bounds[-1] - bounds[0])
            yield from (text[start - bounds[0] : end - bounds[0]].decode("utf-8", "replace") for start, end in pairwise(bounds))


def open_bm25(folder: Path, *, stops: str, k1: float, b: float, num_results: int, threads: int, terms: bool = False) -> Any:
    """PISA's BM25 over the index in ``folder``; it adds what is missing for these parameters first.

    The dynamic pruning is ``maxscore``: on queries of hundreds of words it is several times as fast as PISA's default, with the same
    ranking. Repeated query terms count, as in Lucene. With ``terms`` it looks up ``query_toks`` as they are: else PISA would stem terms
    of the index once more.

    Raises:
        DataError: when something is missing and the folder can't be written to.
    """
    from pyterrier_pisa import PisaIndex, PisaStemmer

    add_bm25(folder, k1, b)
    index = PisaIndex(str(folder), stops="none" if terms else stops)
    if terms:
        index.stemmer = PisaStemmer.none
    return index.bm25(k1=k1, b=b, num_results=num_results, query_algorithm="maxscore", query_weighted=True, toks_scale=1, threads=threads)


def open_impacts(folder: Path, *, num_results: int, threads: int) -> Any:
    """PISA's dot product over the index in ``folder``; it adds what is missing for it first.

    Its input has ``query_toks``, dicts of impacts by term; its score is the sum of their products with the passage's. Terms that no
    passage has, and those with a capital of ASCII, count nothing.

    Raises:
        DataError: when something is missing and the folder can't be written to.
    """
    from pyterrier_pisa import PisaIndex

    add_impacts(folder)
    index = PisaIndex(str(folder), stops="none")
    return index.quantized(num_results=num_results, query_algorithm="maxscore", toks_scale=1, threads=threads)


def search(retriever: Any, name: str, queries: Sequence[Any], depth: int) -> list[Ranking]:
    """The rankings of ``queries`` by PISA, equal scores by docno, the greatest first, as in trec_eval.

    Which of several passages that tie at the cut PISA keeps is by chance: it is asked again, further down, until the tie ends.

    Args:
        retriever: PISA's; its number of results is changed.
        name: the column of ``queries``: ``"query"`` or ``"query_toks"``.
        queries: what PISA takes there.
        depth: passages per query at most.
    """
    best: dict[int, Ranking] = {}
    left, retriever.num_results = list(range(len(queries))), depth + 1
    while left:
        found = _searched(retriever, name, [queries[place] for place in left])
        for place, ranking in zip(left, found, strict=True):
            if len(ranking.scores) < retriever.num_results or ranking.scores[-1] != ranking.scores[depth - 1]:
                best[place] = _ties_by_docno(ranking).best(depth)
        left = [place for place in left if place not in best]
        retriever.num_results *= 2
    return [best[place] for place in range(len(queries))]


def _searched(retriever: Any, name: str, queries: list[Any]) -> list[Ranking]:
    asking = {place: query for place, query in enumerate(queries) if query}
    found = retriever.transform(pd.DataFrame({"qid": [*asking], name: pd.Series([*asking.values()], dtype=object)}))
    # PISA's threads hand over queries as they end, each query's passages in order.
    rows, docnos, scores = found["qid"].to_numpy(), found["docno"].to_numpy(), found["score"].to_numpy()
    starts = np.flatnonzero(np.diff(rows, prepend=-1))
    rankings = {
        rows[start]: Ranking(docnos[start:end].tolist(), scores[start:end]) for start, end in pairwise([*starts.tolist(), len(rows)])
    }
    return [rankings.get(number, NOTHING) for number in range(len(queries))]


def _ties_by_docno(ranking: Ranking) -> Ranking:
    docnos = ranking.docnos
    changes = np.flatnonzero(np.diff(ranking.scores)) + 1
    for start, end in pairwise([0, *changes.tolist(), len(docnos)]):
        if end - start > 1:
            docnos[start:end] = sorted(docnos[start:end], reverse=True)
    return ranking


@lru_cache(maxsize=65536)  # normalising whole texts was most of the time of indexing
def _ascii_character(character: str) -> str:
    return _NOT_PRINTABLE_ASCII.sub(" ", _MARKS.sub("", unicodedata.normalize("NFKD", character.translate(_QUOTES))))
