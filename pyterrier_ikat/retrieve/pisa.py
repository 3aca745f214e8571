"""PISA as an engine, with dynamic pruning.

It has wheels for Linux on x86_64 only. PISA prints while it writes, and adds files to an index at
the first search with new parameters. They are made in a folder of links and moved to their place,
so that no search sees half of them, and an index on read-only storage is searched, too.
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

SPARE_FILES = ("inv.docs", "inv.freqs")
"""Postings that are read only to add files for other parameters.

They are eight tenths of PISA's index, and may be removed.
"""
IMPACT_FILES = ("quantized.q0.bmw.64", "quantized.q0.bmw.64.block_simdbp")
THREADS = min(max(os.cpu_count() or 2, 2), 16)
"""With one thread PISA keeps Python's lock while it searches."""


def has_pisa() -> bool:
    """Tell whether PISA is installed."""
    return find_spec("pyterrier_pisa") is not None


def require_pisa(path: str | Path) -> None:
    """Check that PISA is installed.

    Raises:
        UsageError: when it isn't.
    """
    if has_pisa():
        return
    again = advice(
        "ikat.PassageIndex(path).index(corpus, engine='eager')", "`ikat index SOURCE PATH`"
    )
    raise UsageError(
        f"{path} is searched by PISA, and pyterrier-pisa isn't installed: "
        "it has files for Linux on x86_64 only. There, pip install pyterrier-pisa; "
        f"elsewhere index the passages again, {again}"
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
    index = PisaIndex(str(folder), text_field="text", stemmer=stemmer, threads=THREADS)
    with _quiet():
        index.index({"docno": docno, "text": ascii_text(text)} for docno, text in passages())
    for unread in ("fwd", "fwd.urls"):  # the first is as large as the index
        (folder / unread).unlink(missing_ok=True)
    indexed = count_passages(folder)
    if indexed != count:
        repair = "index again, and report it if it happens twice"
        raise DataError(f"PISA has {indexed} of {count} passages: {repair}")
    PisaBM25(folder, {"stops": "none"}).at(*bm25)


def count_passages(folder: Path) -> int:
    """Return the number of passages of an index."""
    return int(np.fromfile(folder / "inv.sizes", "<u4", 1)[0])


def count_terms(folder: Path) -> int:
    """Return the number of distinct terms of an index."""
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
        self.folder = folder
        self.stops = described["stops"]

    def at(self, k1: float, b: float) -> "PisaRetriever":
        """Return this index for parameters of BM25."""
        from pyterrier_pisa import PisaIndex, PisaStemmer

        name = f"bm25.k1-{k1:g}.b-{b:g}.q0.bmw.64"
        folder = _with_files(
            self.folder,
            (name, f"{name}.block_simdbp"),
            lambda path: PisaIndex(path).bm25(k1=k1, b=b),
        )
        options = {
            "k1": k1,
            "b": b,
            "query_algorithm": "maxscore",
            "query_weighted": True,
            "toks_scale": 1,
            "threads": THREADS,
        }
        of_words = PisaIndex(folder, stops=self.stops)
        of_terms = PisaIndex(folder, stops="none")
        of_terms.stemmer = PisaStemmer.none  # PISA would stem terms of the index once more
        return PisaRetriever(of_words.bm25(**options), of_terms.bm25(**options))


def open_impacts(folder: Path) -> "PisaRetriever":
    """Open PISA's index of impacts, for dot products with queries' vectors of terms.

    Terms that no passage has, and terms with an ASCII capital letter, are ignored.
    """
    require_pisa(folder)
    from pyterrier_pisa import PisaIndex

    ready = _with_files(
        folder, IMPACT_FILES, lambda path: PisaIndex(path, stops="none").quantized()
    )
    index = PisaIndex(ready, stops="none")
    options = {"query_algorithm": "maxscore", "toks_scale": 1, "threads": THREADS}
    return PisaRetriever(None, index.quantized(**options))


class PisaRetriever:
    """PISA's retrievers for the words of queries, and for dicts from terms to weights."""

    def __init__(self, of_words: Any, of_terms: Any) -> None:
        self.of_words = of_words
        self.of_terms = of_terms

    def rankings(self, queries: Sequence[Any], depth: int) -> list[Ranking]:
        """Rank the passages for texts, or for weighted terms.

        PISA fails on empty queries, and its threads return queries as they finish.
        """
        if isinstance(queries[0], str):
            queries = [ascii_text(query).strip() for query in queries]
            retriever = copy(self.of_words)  # a search sets its number of results
            name = "query"
        else:
            retriever = copy(self.of_terms)
            name = "query_toks"

        def find(numbers: Sequence[int], depth: int) -> list[Ranking]:
            retriever.num_results = depth
            filled = [number for number in numbers if queries[number]]
            column = pd.Series([queries[number] for number in filled], dtype=object)
            results = retriever.transform(pd.DataFrame({"qid": filled, name: column}))
            rankings = _rankings_by_query(results)
            return [rankings.get(number, NO_PASSAGES) for number in numbers]

        return rank_past_ties(find, len(queries), depth)


def _rankings_by_query(results: pd.DataFrame) -> dict[int, Ranking]:
    """Divide a result frame with numbers as qids into rankings."""
    numbers = results["qid"].to_numpy()
    docnos = results["docno"].to_numpy()
    scores = results["score"].to_numpy()
    bounds = [*np.flatnonzero(np.diff(numbers, prepend=-1)).tolist(), len(numbers)]
    rankings = {}
    for start, end in pairwise(bounds):
        rankings[numbers[start]] = Ranking(docnos[start:end].tolist(), scores[start:end])
    return rankings


def _with_files(folder: Path, names: Sequence[str], make: Callable[[str], Any]) -> str:
    """Return a folder of an index with the files of a scorer.

    It is the index's own folder, or, if that is read-only, one of links to it.

    Args:
        folder: the index's folder.
        names: the names of the files.
        make: makes them in a folder.

    Raises:
        DataError: when the files from which they are made were removed.
    """
    if all((folder / name).exists() for name in names):
        return str(folder)
    removed = [name for name in SPARE_FILES if not (folder / name).exists()]
    if removed:
        files = " and ".join(SPARE_FILES)
        raise DataError(
            f"the index {folder} isn't ready for these parameters of BM25, and {removed[0]} was "
            f"removed: put {files} back, or use the parameters that it was searched with before"
        )
    writable = is_writable(folder)
    links = Path(tempfile.mkdtemp(prefix=".ikat.", dir=folder if writable else None))
    atexit.register(shutil.rmtree, links, ignore_errors=True)
    for path in folder.iterdir():
        if path.is_file() and path.name not in names:
            (links / path.name).symlink_to(path.absolute())
    with _quiet():
        make(str(links))
    if not writable:
        return str(links)
    for name in names:
        os.replace(links / name, folder / name)
    shutil.rmtree(links)
    return str(folder)


def is_writable(folder: Path) -> bool:
    """Tell whether this user may make files in a folder."""
    return os.access(folder, os.W_OK)


@contextmanager
def _quiet() -> Iterator[None]:
    """Silence PISA's output from C."""
    sys.stdout.flush()
    streams = (1, 2)
    saved = [os.dup(stream) for stream in streams]
    nowhere = os.open(os.devnull, os.O_WRONLY)
    for stream in streams:
        os.dup2(nowhere, stream)
    try:
        yield
    finally:
        ctypes.CDLL(None).fflush(None)
        for stream, copied in zip(streams, saved, strict=True):
            os.dup2(copied, stream)
        for descriptor in (*saved, nowhere):
            os.close(descriptor)
