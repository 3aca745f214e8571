"""PISA as an engine: it skips passages that can't reach the top. It has wheels for Linux on x86_64 only.

PISA prints while it writes, and adds files to an index at the first search with new parameters.
They are made in a folder of links and moved to their place, so that no search sees half of them,
and an index on read-only storage is searched, too.
"""

import atexit
import ctypes
import os
import shutil
import sys
import tempfile
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from copy import copy
from importlib.util import find_spec
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from ..errors import DataError, UsageError, advice
from .eager import refuse_wordless
from .rankings import NO_PASSAGES, Ranking, rank_past_ties
from .words import ascii_text, has_word

SPARE = ("inv.docs", "inv.freqs")
"""Postings that are read only to add files for other parameters. They are eight tenths of PISA's index, and may be removed."""
IMPACT_FILES = ("quantized.q0.bmw.64", "quantized.q0.bmw.64.block_simdbp")
THREADS = min(max(os.cpu_count() or 2, 2), 16)
"""With one thread PISA keeps Python's lock while it searches."""


def has_pisa() -> bool:
    """Whether PISA is installed."""
    return find_spec("pyterrier_pisa") is not None


def require_pisa(path: str | Path) -> None:
    """Check that PISA is installed.

    Raises:
        UsageError: when it isn't.
    """
    if not has_pisa():
        again = advice(
            "ikat.PassageIndex(path).index(corpus, engine='eager')", "`ikat index SOURCE PATH`"
        )
        raise UsageError(
            f"{path} is searched by PISA, and pyterrier-pisa isn't installed: it has files for Linux on x86_64 only. "
            f"There, pip install pyterrier-pisa; elsewhere index the passages again, {again}"
        )


def build_words(
    folder: Path,
    passages: Callable[[], Iterable[tuple[str, str]]],
    stemmer: str,
    bm25: tuple[float, float],
    count: int,
) -> None:
    """Write PISA's index of words into a folder.

    Raises:
        DataError: when PISA lacks passages, as after an error in its reading thread, which it
            doesn't pass on; or none has a word.
    """
    from pyterrier_pisa import PisaIndex

    refuse_wordless(any(has_word(text) for _, text in passages()))
    with _quiet():
        PisaIndex(str(folder), text_field="text", stemmer=stemmer, threads=THREADS).index(
            {"docno": docno, "text": ascii_text(text)} for docno, text in passages()
        )
    for unread in ("fwd", "fwd.urls"):  # the first is as large as the index
        (folder / unread).unlink(missing_ok=True)
    if count_passages(folder) != count:
        raise DataError(
            f"PISA has {count_passages(folder)} of {count} passages: index again, and report it if it happens twice"
        )
    PisaBM25(folder, {"stops": "none"}).at(*bm25)


def count_passages(folder: Path) -> int:
    """The number of passages of an index."""
    return int(np.fromfile(folder / "inv.sizes", "<u4", 1)[0])


def count_terms(folder: Path) -> int:
    """The number of distinct terms of an index."""
    return int(np.fromfile(folder / "fwd.termlex", "<u8", 1)[0])


class PisaBM25:
    """BM25 of PISA's index in a folder.

    The dynamic pruning is ``maxscore``. On queries of hundreds of words it is several times as fast
    as PISA's default, with the same ranking. Repeated query terms count, as in Lucene.

    Args:
        folder: made by :func:`build_words`.
        described: ``stops``, the name of a list of stop words.
    """

    def __init__(self, folder: Path, described: Mapping[str, Any]) -> None:
        require_pisa(folder)
        self.folder, self.stops = folder, described["stops"]

    def at(self, k1: float, b: float) -> "PisaRetriever":
        """This index for parameters of BM25."""
        from pyterrier_pisa import PisaIndex, PisaStemmer

        name = f"bm25.k1-{k1:g}.b-{b:g}.q0.bmw.64"
        here = _ready(
            self.folder,
            (name, f"{name}.block_simdbp"),
            lambda place: PisaIndex(place).bm25(k1=k1, b=b),
        )
        options = {
            "k1": k1,
            "b": b,
            "query_algorithm": "maxscore",
            "query_weighted": True,
            "toks_scale": 1,
            "threads": THREADS,
        }
        of_words, of_terms = PisaIndex(here, stops=self.stops), PisaIndex(here, stops="none")
        of_terms.stemmer = PisaStemmer.none  # PISA would stem terms of the index once more
        return PisaRetriever(of_words.bm25(**options), of_terms.bm25(**options))


def open_impacts(folder: Path) -> "PisaRetriever":
    """The dot product of a query's vector of terms with PISA's index of impacts in a folder.

    Terms that no passage has, and terms with an ASCII capital letter, are ignored.
    """
    require_pisa(folder)
    from pyterrier_pisa import PisaIndex

    here = _ready(folder, IMPACT_FILES, lambda place: PisaIndex(place, stops="none").quantized())
    return PisaRetriever(
        None,
        PisaIndex(here, stops="none").quantized(
            query_algorithm="maxscore", toks_scale=1, threads=THREADS
        ),
    )


class PisaRetriever:
    """PISA's retrievers for the words of queries, and for dicts from terms to weights."""

    def __init__(self, of_words: Any, of_terms: Any) -> None:
        self.of_words, self.of_terms = of_words, of_terms

    def rankings(self, queries: Sequence[Any], depth: int) -> list[Ranking]:
        """The rankings of texts, or of weighted terms. PISA fails on empty ones, and its threads return queries as they finish."""
        by_words = isinstance(queries[0], str)
        if by_words:
            queries = list(map(ascii_text, queries))
        retriever = copy(
            self.of_words if by_words else self.of_terms
        )  # a search sets its number of results

        def find(places: Sequence[int], depth: int) -> list[Ranking]:
            retriever.num_results = depth
            asked = [
                place
                for place in places
                if queries[place] and (not by_words or queries[place].strip())
            ]
            given = pd.Series([queries[place] for place in asked], dtype=object)
            found = retriever.transform(
                pd.DataFrame({"qid": asked, "query" if by_words else "query_toks": given})
            )
            rows, docnos, scores = (found[name].to_numpy() for name in ("qid", "docno", "score"))
            bounds = [*np.flatnonzero(np.diff(rows, prepend=-1)).tolist(), len(rows)]
            rankings = {
                rows[start]: Ranking(docnos[start:end].tolist(), scores[start:end])
                for start, end in pairwise(bounds)
            }
            return [rankings.get(place, NO_PASSAGES) for place in places]

        return rank_past_ties(find, len(queries), depth)


def _ready(folder: Path, names: Sequence[str], make: Callable[[str], Any]) -> str:
    """A folder of an index with the files of a scorer: the index's own, or, if that is read-only, one of links to it.

    Raises:
        DataError: when the files from which they are made were removed.
    """
    if all((folder / name).exists() for name in names):
        return str(folder)
    if removed := [name for name in SPARE if not (folder / name).exists()]:
        raise DataError(
            f"the index {folder} isn't ready for these parameters of BM25, and {removed[0]} was removed: "
            f"put {' and '.join(SPARE)} back, or use the parameters that it was searched with before"
        )
    writable = os.access(folder, os.W_OK)
    place = Path(tempfile.mkdtemp(prefix=".ikat.", dir=folder if writable else None))
    atexit.register(shutil.rmtree, place, ignore_errors=True)
    for path in folder.iterdir():
        if path.is_file() and path.name not in names:
            (place / path.name).symlink_to(path.absolute())
    with _quiet():
        make(str(place))
    if not writable:
        return str(place)
    for name in names:
        os.replace(place / name, folder / name)
    shutil.rmtree(place)
    return str(folder)


@contextmanager
def _quiet() -> Iterator[None]:
    """Silence what PISA prints from C."""
    sys.stdout.flush()
    saved, nothing = [os.dup(stream) for stream in (1, 2)], os.open(os.devnull, os.O_WRONLY)
    for stream in (1, 2):
        os.dup2(nothing, stream)
    try:
        yield
    finally:
        ctypes.CDLL(None).fflush(None)
        for stream, before in zip((1, 2), saved, strict=True):
            os.dup2(before, stream)
        for number in (*saved, nothing):
            os.close(number)
