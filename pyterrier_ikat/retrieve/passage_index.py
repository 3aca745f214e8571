"""An index of passages that keeps their text, and BM25 over it."""

import hashlib
import json
import os
from collections.abc import Iterable, Iterator, Sequence
from copy import copy
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyterrier as pt

from ..arguments import checked
from ..errors import UsageError, advice
from ..operator import Operator
from ..store.files import read_description, resumable_folder, state, write_description
from ..store.results import digest, shared
from . import pisa
from .pisa import check_bm25, version
from .pisa_search import TIES, by_pisa
from .ranking import Asked, Ranking, asked, each_once, result_frame, with_texts
from .shards import holds_shards, index_shards
from .text_store import Corpus, PassageText, Reading, check_expected, held, read_texts


class BM25(Operator):
    """BM25 retrieval that carries the passages' text; ``PassageIndex.bm25()`` makes it.

    Reads ``qid`` and ``query``; gives for every row its passages, in the order of the rows: all columns of the row (the same objects),
    ``docno``, ``score``, ``rank`` (from 0) and
    ``text``. Equal scores go by docno, the greatest first, as in trec_eval. Repeated words of a query count. A query of which nothing is
    left (empty, only stop words, not a string) has no result; turns with none are named in a ``NoResultWarning``: an expanded turn only
    when none of its sub-queries found anything.
    Where there is a column ``query_toks`` (dict term -> weight), as from ``RM3``, it is searched in the place of ``query``: its terms are
    the index's already, neither stemmed nor stopped, and count as often as they weigh, to 1/10,000 of the heaviest.
    The score is PISA's: the sum over the query's words of ``idf * (k1 + 1) * tf / (tf + k1 * (1 - b + b * length / mean length))`` with
    ``idf = log((N - df + 0.5) / (df + 0.5))``, Robertson's, and at least 1e-6: a word of half of the passages counts next to nothing.
    Lucene's idf, ``log(1 + ...)`` of the same, weighs such words more. That is all the difference: on words drawn at random bm25s shares
    the whole top 10 with Robertson's idf, .84 to .94 of it with Lucene's; on the 700 passages of ikat:2023-mini Lucene's shares .94.
    ``bm25 % k`` retrieves just k.
    Each distinct query is searched once, whatever number of rows, turns and systems ask it: rankings, without text, are kept in the
    process's shared memory (1 GiB at most, some 25,000 queries of 1000 passages) or in the file ``cache``.
    Source: Robertson and Zaragoza, The Probabilistic Relevance Framework, 2009; k1 and b as in
    Abbasiantaeb and Aliannejadi, Generate then Retrieve, section 4.

    Args:
        index: the index to search.
        k1: how slowly repetitions of a word in a passage saturate.
        b: how much long passages are held back, 0 to 1.
        num_results: passages per query at most.
        cache: a file in which rankings are kept for other processes and later runs; made when missing.

    Raises:
        UsageError: when ``k1``, ``b`` or ``num_results`` is out of range.
        DataError: when the index isn't there or isn't whole, or a row's ``query_toks`` isn't a dict of weights.

    Example:
        >>> import pyterrier_ikat as ikat
        >>> ikat.PassageIndex("mini.index").bm25(k1=1.2, b=0.75)  # doctest: +SKIP
        ikat.PassageIndex('mini.index').bm25(k1=1.2, b=0.75)
    """

    schematic = {"label": "BM25"}

    def __init__(
        self, index: "PassageIndex", k1: float = 0.9, b: float = 0.4, num_results: int = 1000, cache: str | Path | None = None
    ) -> None:
        super().__init__()
        check_bm25(k1, b)
        if num_results < 1:
            raise UsageError(f"num_results={num_results!r}: retrieve at least one passage per query")
        index.describe()
        self.index = index
        self.k1 = k1
        self.b = b
        self.num_results = num_results
        self.cache = None if cache is None else str(cache)
        self._pisa: dict[tuple[str, bool, float, float], Any] = {}

    def fuse_rank_cutoff(self, k: int) -> "BM25":
        """This retriever with ``k`` passages per query at most, for ``bm25 % k``."""
        return BM25(self.index, self.k1, self.b, min(k, self.num_results), self.cache)

    def transform(self, inp: pd.DataFrame) -> pd.DataFrame:
        """Retrieve for each row of a query frame."""
        pt.validate.query_frame(inp, extra_columns=["query"], context=self)
        check_bm25(self.k1, self.b)  # which pt.GridSearch sets
        questions = asked(inp)
        index = self.index.fingerprint()
        keys = [self._key(index, question) for question in questions]
        queries = {key: question.query for key, question in zip(keys, questions, strict=True)}
        found = each_once(queries, self.num_results, shared(self.cache), partial(self._search, index), "BM25")
        rankings = {question.row: _weighed(found[key], question.unit) for key, question in zip(keys, questions, strict=True)}
        return with_texts(result_frame(inp, rankings), self.index.texts)

    def _key(self, index: str, question: Asked) -> bytes:
        kind = "text" if isinstance(question.query, str) else "terms"
        return digest("bm25", version(), TIES, index, f"{self.k1:g} {self.b:g}", kind, question.key())

    def _search(self, index: str, queries: list[Any]) -> list[Ranking]:
        terms = not isinstance(queries[0], str)
        return by_pisa(copy(self._retriever(index, terms)), "query_toks" if terms else "query", queries, self.num_results)

    def _retriever(self, index: str, terms: bool) -> Any:
        key = (index, terms, self.k1, self.b)
        if key not in self._pisa:
            threads = min(max(os.cpu_count() or 2, 2), 16)  # with one thread PISA keeps Python's lock while it searches
            self._pisa[key] = self.index.pisa_retriever(self.k1, self.b, self.num_results + 1, threads, terms)
        return self._pisa[key]

    def __getstate__(self) -> dict[str, Any]:
        return self.__dict__ | {"_pisa": {}}  # an open index can't be sent to another process

    def __repr__(self) -> str:
        defaults = {"k1": 0.9, "b": 0.4, "num_results": 1000, "cache": None}
        shown = [f"{name}={value!r}" for name, value in self.arguments().items() if name in defaults and value != defaults[name]]
        return f"{self.index!r}.bm25({', '.join(shown)})"


def _weighed(ranking: Ranking, unit: float) -> Ranking:
    return ranking._replace(scores=ranking.scores.astype(np.float64) * unit)


FORMAT = 1
META, TEXTS, PISA = "ikat_index.json", "texts.sqlite", "pisa"
SPARE = [f"{PISA}/{name}" for name in pisa.UNCOMPRESSED]


class PassageIndex:
    """An index over passages that also keeps their text.

    The folder holds PISA's inverted index, the texts and a description (format, number of passages, parameters, size of every file) that
    is checked at opening. It appears
    under its name only when complete. Any number of threads and processes may read it, also where it can't be written to.

    Eight tenths of PISA's files, ``pisa/inv.docs`` and ``pisa/inv.freqs``, are read only to make the index ready for further values of k1
    and b, as the first search with them does: where no others are wanted and the disk is small, remove these two.

    Args:
        path: the folder; made by ``index``.

    Raises:
        DataError: by everything but ``index``, when there is no index at ``path``, or it was cut short or made by another version of the
        format.

    Example:
        >>> import tempfile, pyterrier_ikat as ikat
        >>> passages = [{"docno": "d1", "text": "Rooibos has no caffeine."}, {"docno": "d2", "text": "Coffee has caffeine."}]
        >>> index = ikat.PassageIndex(tempfile.mkdtemp()).index(passages)
        >>> index.bm25().search("rooibos")[["docno", "text"]].values.tolist()
        [['d1', 'Rooibos has no caffeine.']]
    """

    @checked
    def __init__(self, path: str | Path) -> None:
        self.path = str(path)
        self._described: tuple[tuple[int, ...], dict[str, Any]] | None = None

    @checked
    def index(
        self, corpus: Corpus, *, stemmer: str = "porter2", stops: str = "lucene", threads: int = 2, expected: int | None = None
    ) -> "PassageIndex":
        """Build the index from a corpus of any size.

        Letters lose their accents and other characters than ASCII break words, in passages and queries alike; the text is kept as it came.
        The folder appears under its name only when complete. Until then the finished part, in shards of 500,000 passages, is in
        ``<path>.partial``: when the call was interrupted, or stopped at a damaged file, the same call goes on where it was. It
        reads the corpus from the start, and checks by checksum that the finished part is made of the same passages.

        Args:
            corpus: dicts with ``docno`` (a string without white space) and ``text``, read once: a dataset's ``get_corpus_iter()``,
                ``ikat.PassageFiles(folder)``, or any other.
            stemmer: ``"porter2"`` or ``"none"``.
            stops: the words left out of queries: ``"lucene"`` (33 words), ``"terrier"`` (733) or ``"none"``.
            threads: how many threads compress the texts, and how many PISA inverts with.
            expected: the number of passages that the corpus has, where it is known: a file that is missing isn't noticed otherwise.

        Returns:
            This index, open. When it is there already, it is compared with the corpus, which is read once, and not built again.

        Raises:
            UsageError: when an index of other passages, or anything else, is at the path already, another process is building it, or an
                argument is unknown.
            DataError: when the corpus is empty, has a passage without docno or text, or twice the same docno (both passages are named),
                has another number of passages than expected, or isn't the one of the finished part. Nothing but finished shards is left
                behind, whatever goes wrong.
        """
        for name, value, known in (("stemmer", stemmer, pisa.STEMMERS), ("stops", stops, pisa.STOPS)):
            if value not in known:
                given = advice(f"{name}={value!r}", f"--{name} {value}")
                raise UsageError(f"{given} is unknown: give one of {', '.join(known)}")
        if threads < 1:
            raise UsageError(f"{advice(f'threads={threads!r}', f'--threads {threads}')}: give at least one")
        if (Path(self.path) / META).exists():
            return self._of_same(corpus, {"stemmer": stemmer, "stops": stops}, expected)
        k1, b = 0.9, 0.4
        with resumable_folder(self.path, holds_shards) as workplace:
            read = index_shards(workplace, TEXTS, corpus, stemmer=stemmer, threads=threads, k1=k1, b=b, expected=expected)
            described = {
                "format": FORMAT,
                "count": read.count,
                "sha256": read.sha256(),
                "stemmer": stemmer,
                "stops": stops,
                "bm25": [k1, b],
            }
            write_description(workplace / "index" / META, described)
        return self

    def _of_same(self, corpus: Corpus, options: dict[str, str], expected: int | None) -> "PassageIndex":
        described = self.describe()
        for name, value in options.items():
            if described[name] != value:
                raise UsageError(
                    f"{self.path} holds an index with {name} {described[name]}, not {value}: remove it, or give a path where nothing is"
                )
        check_expected(described["count"], expected)
        Reading(corpus).check_same(self.path, described["count"], described["sha256"])
        return self

    def bm25(self, k1: float = 0.9, b: float = 0.4, num_results: int = 1000, cache: str | Path | None = None) -> BM25:
        """BM25 over this index; see :class:`BM25`."""
        return BM25(self, k1, b, num_results, cache)

    def retriever(self, num_results: int = 1000, cache: str | Path | None = None, *, k1: float = 0.9, b: float = 0.4) -> BM25:
        """What searches an index of any kind: here BM25."""
        return BM25(self, k1, b, num_results, cache)

    def warm_up(self) -> None:
        """Load now what the first search would load: of this index, nothing that takes long."""

    has_text = True
    """Whether the index gives its passages' text."""

    def text_loader(self) -> PassageText:
        """An operator that adds ``text`` by ``docno``; see :class:`PassageText`."""
        return PassageText(self)

    def texts(self, docnos: Iterable[str]) -> list[str]:
        """The passages' text as it was indexed, in the order of ``docnos``.

        Raises:
            DataError: naming the docnos that the index lacks.
        """
        self.describe()
        return read_texts(Path(self.path) / TEXTS, list(docnos))

    def docnos(self, among: Sequence[str]) -> Iterator[str]:
        """Those docnos ``among`` the given ones that the index has, looked up as they are asked for."""
        self.describe()
        return held(Path(self.path) / TEXTS, among)

    def describe(self) -> dict[str, Any]:
        """What the index says of itself, read again when another one was put in its place.

        Returns:
            ``format``, ``count``, ``sha256`` (over docno, line feed, bytes of the text, line feed, text of each passage in the order of
            the corpus; or of the imported CIFF file),
            ``stemmer``, ``stops``, ``bm25`` (k1 and b it is ready for), ``files`` (name -> bytes).

        Raises:
            DataError: when it isn't there, isn't whole, or has another format.
        """
        meta = Path(self.path) / META
        now = state(meta)
        if self._described is None or self._described[0] != now:
            made_by = advice(f"ikat.PassageIndex({self.path!r}).index(corpus)", f"`ikat index SOURCE {self.path}`")
            self._described = now, read_description(meta, form=FORMAT, repair=f"make it with {made_by}", spare=SPARE)
        return self._described[1]

    def fingerprint(self) -> str:
        """A checksum that an index of other passages, or one built with other settings, does not have."""
        described = {name: value for name, value in self.describe().items() if name != "files"}
        return hashlib.sha256(json.dumps(described, sort_keys=True).encode()).hexdigest()

    def pisa_retriever(self, k1: float, b: float, num_results: int, threads: int, terms: bool = False) -> Any:
        """PISA's own retriever over this index; queries have to go through :func:`plain` before. ``terms``: for ``query_toks``."""
        stops = self.describe()["stops"]
        folder = Path(self.path) / PISA
        return pisa.retriever(folder, stops=stops, k1=k1, b=b, num_results=num_results, threads=threads, terms=terms)

    def __getstate__(self) -> dict[str, Any]:
        return self.__dict__ | {"_described": None}  # another machine has to look for itself

    def __len__(self) -> int:
        return int(self.describe()["count"])

    def __repr__(self) -> str:
        return f"ikat.PassageIndex({self.path!r})"

    def __eq__(self, other: object) -> bool:
        return self.path == other.path if isinstance(other, PassageIndex) else NotImplemented

    def __hash__(self) -> int:
        return hash((PassageIndex, self.path))
