"""An index of Lucene, made by Anserini or Pyserini, searched by Anserini's own searcher."""

import re
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, ClassVar

import pandas as pd
import pyterrier as pt

from ..arguments import at_least
from ..conversations.passages import Fields, fields_named
from ..errors import DataError, UsageError, list_first
from ..operator import with_fields
from ..search_index import SearchIndex
from ..store.cache import digest
from .artifact import OpenIndex, PassageText
from .bm25 import check_bm25
from .formats import how_to_open, is_lucene
from .lucene_process import LuceneProcess, ProcessEnded, find_jar
from .rankings import Ranking, as_ranking
from .retriever import IndexRetriever, Query

DOCNOS_AT_ONCE = 1000
_MEMORY = re.compile(r"[1-9]\d*[kmgKMG]")


@with_fields
class LuceneBM25(IndexRetriever):
    """BM25 of Anserini; :meth:`LuceneIndex.bm25` makes it.

    Reads ``qid`` and ``query``; returns what :class:`BM25` returns. Scores are Anserini's: Lucene's
    BM25, rounded to four digits. The order of equal scores is Anserini's, too, the smallest docno
    first: where 32 bits can't hold the difference that Anserini makes between them, a score is
    lowered by the least step. A query without any word of Lucene has no result.

    Args:
        index: the index to search.
        num_results: the maximum number of passages per query.
        cache: a file that keeps rankings for other processes and later runs; created if missing.
        k1: term-frequency saturation.
        b: length normalisation from 0 to 1.

    Raises:
        UsageError: when an argument is out of range, or a frame has ``query_toks``.
        DataError: when the index isn't whole, or Lucene gives no answer to a query.
    """

    schematic = {"label": "BM25"}
    reads_texts = False
    label = "Lucene BM25"
    method = "bm25"
    settings: ClassVar[Sequence[str]] = ("k1", "b")

    k1: float = 0.9
    b: float = 0.4

    def __post_init__(self) -> None:
        check_bm25(self.k1, self.b)
        super().__post_init__()

    def queries(self, frame: pd.DataFrame) -> list[Query]:
        """Return the texts of the queries."""
        check_bm25(self.k1, self.b)  # pt.GridSearch sets them
        if "query_toks" in frame.columns:
            raise UsageError(
                "query_toks are words of another index, and Lucene makes its own of query: drop "
                "the column, or expand queries by ikat.LuceneIndex(path).rm3()"
            )
        return super().queries(frame)

    def expansion(self) -> list[Any]:
        """Return the settings of RM3; none for BM25 alone."""
        return []

    def find_rankings(self, opened: OpenIndex, queries: list[Any]) -> list[Ranking]:
        """Ask Anserini."""
        answers = self.index.ask(
            "search",
            queries=queries,
            depth=self.num_results,
            k1=self.k1,
            b=self.b,
            rm3=self.expansion(),
        )
        return [as_ranking(docnos, scores) for docnos, scores in answers]


@with_fields
class LuceneRM3(LuceneBM25):
    """BM25 with Anserini's RM3; :meth:`LuceneIndex.rm3` makes it.

    The index needs term vectors or the raw passages.

    Args:
        index: the index to search.
        num_results: the maximum number of passages per query.
        cache: a file that keeps rankings for other processes and later runs; created if missing.
        k1: term-frequency saturation.
        b: length normalisation from 0 to 1.
        fb_docs: the number of feedback passages per query.
        fb_terms: the number of feedback terms.
        original_weight: the share of the query's own terms, 0 to 1.

    Raises:
        UsageError: when an argument is out of range, or a frame has ``query_toks``.
        DataError: when the index isn't whole, or Lucene gives no answer to a query.
    """

    schematic = {"label": "RM3"}
    label = "Lucene RM3"
    method = "rm3"
    settings = ("k1", "b", "fb_docs", "fb_terms", "original_weight")

    fb_docs: int = 10
    fb_terms: int = 10
    original_weight: float = 0.5

    def __post_init__(self) -> None:
        at_least(1, fb_docs=self.fb_docs, fb_terms=self.fb_terms)
        if not 0 <= self.original_weight <= 1:
            weight = f"original_weight={self.original_weight!r}"
            raise UsageError(f"{weight}: give a number from 0 to 1, usually 0.5")
        super().__post_init__()

    def expansion(self) -> list[Any]:
        """Return the settings of RM3."""
        return [self.fb_docs, self.fb_terms, self.original_weight]


class LuceneIndex(SearchIndex, pt.Artifact):
    """An index of Lucene as Anserini and Pyserini make it, such as the organisers' of iKAT.

    Anserini's own searcher ranks, in a process of its own with Java, which starts at first use and
    ends with this object. Needs Java 11 or later, pyjnius (``pip install pyterrier_ikat[lucene]``)
    and Anserini's jar: ``pip install --no-deps pyserini==0.22.1`` brings it, or ``ANSERINI_JAR``
    names it.

    Texts are those that the index stores: the field ``contents``, or ``contents`` in the JSON of
    the field ``raw``. Lucene makes its own words, so :class:`RM3` is of no use here: :meth:`rm3` is
    Anserini's.

    Args:
        path: the folder, with Lucene's file ``segments_N``.
        text: an operator that adds ``text`` by ``docno``, for an index without texts.
        memory: the most that Java's heap may take, such as ``"4g"``; by default a quarter of the
            machine's memory.

    Raises:
        UsageError: when Java, pyjnius or the jar is missing, or the folder holds no such index.
        DataError: when the index isn't whole, or was replaced since it was opened.

    Example:
        >>> import pyterrier_ikat as ikat
        >>> index = ikat.LuceneIndex("ikat_2023_passage_index")  # doctest: +SKIP
        >>> index.bm25(k1=1.2, b=0.75).search("rooibos")  # doctest: +SKIP
    """

    ARTIFACT_TYPE = "sparse_index"
    ARTIFACT_FORMAT = "anserini"
    ARTIFACT_PACKAGE_HINT = "pyterrier_ikat"
    path: str  # type: ignore[assignment]  # as it was given

    def __init__(
        self,
        path: str | Path,
        *,
        text: pt.Transformer | None = None,
        memory: str | None = None,
    ) -> None:
        super().__init__(str(path))
        self.path = str(path)
        self.text = text
        if memory is not None and not _MEMORY.fullmatch(memory):
            raise UsageError(f"memory={memory!r}: give an amount such as '4g' or '800m'")
        self.memory = memory
        self._process = LuceneProcess(self.path, memory)
        self._opened: OpenIndex | None = None

    def opened(self) -> OpenIndex:
        """Open the index at the first call, and return the same afterwards."""
        if self._opened is None:
            fingerprint = self._fingerprint()
            described = self._process.describe()
            self._opened = OpenIndex(Path(self.path), described, fingerprint, self._process, None)
        return self._opened

    def _fingerprint(self) -> str:
        """Make a checksum of Lucene's last commit, which has a random number, and of the engine."""
        last = last_commit(self.path)
        return digest("Lucene", find_jar().name, last.name, last.read_bytes().hex()).hex()

    def fingerprint(self) -> str:
        """Return a checksum of Lucene's last commit, and of Anserini's version.

        Raises:
            DataError: when it isn't the index that was opened.
        """
        fingerprint = self._fingerprint()
        if self._opened is not None and self._opened.fingerprint != fingerprint:
            repair = "open it again, and start again what used it"
            raise DataError(f"the index {self.path} was replaced since it was opened: {repair}")
        return fingerprint

    def ask(self, name: str, **arguments: Any) -> Any:
        """Ask the process; one that ended is started again, once."""
        self.opened()
        if self._process.pid is None:
            self.fingerprint()
        try:
            return self._process.ask(name, **arguments)
        except ProcessEnded:
            self.fingerprint()  # another index must not answer
            return self._process.ask(name, **arguments)

    def close(self) -> None:
        """End the process with Java. Another search starts it again."""
        self._process.close()
        self._opened = None

    def warm_up(self) -> None:
        """Start Java, and search once."""
        self.ask("search", queries=["tea"], depth=1, k1=0.9, b=0.4, rm3=[])

    def __len__(self) -> int:
        return int(self.opened().described["passages"])

    def docnos(self, among: Sequence[str]) -> Iterator[str]:
        """Look up lazily the docnos in the index, of those ``among``."""
        for start in range(0, len(among), DOCNOS_AT_ONCE):
            yield from self.ask("present", docnos=list(among[start : start + DOCNOS_AT_ONCE]))

    @property
    def has_text(self) -> bool:
        """Whether its retrievers return the passages' text."""
        return self.text is not None or self.opened().described["texts"] is not None

    def texts(self, docnos: Sequence[str]) -> list[str]:
        """Return the passages' text, in the order of ``docnos``.

        Raises:
            DataError: when docnos aren't in the index (it names them), or the index has no texts.
        """
        field = self.opened().described["texts"]
        if field is None:
            raise DataError(
                f"the index {self.path} stores no texts, neither contents nor JSON with contents "
                "in raw: give ikat.LuceneIndex(..., text=...)"
            )
        by_docno: dict[str, str | None] = {}
        distinct = list(dict.fromkeys(docnos))
        for start in range(0, len(distinct), DOCNOS_AT_ONCE):
            some = distinct[start : start + DOCNOS_AT_ONCE]
            found = self.ask("texts", docnos=some, field=field)
            by_docno.update(zip(some, found, strict=True))
        missing = [docno for docno in distinct if by_docno[docno] is None]
        if missing:
            raise DataError(f"passages that aren't in {self.path}: {list_first(missing)}")
        return [str(by_docno[docno]) for docno in docnos]

    def text_loader(self, fields: Fields = "text", *, verbose: bool = False) -> PassageText:
        """Make an operator that adds ``text`` by ``docno``; see :class:`PassageText`.

        Args:
            fields: ``"text"``, ``["text"]`` or ``"*"``.
            verbose: has no effect; PyTerrier gives it to every loader.

        Raises:
            UsageError: for another field.
        """
        fields_named(fields, ["text"])
        return PassageText(self)

    def with_text(self, results: pd.DataFrame) -> pd.DataFrame:
        """Add the column ``text`` to ``results``, if the index has texts or a loader."""
        if self.text is not None:
            return self.text.transform(results)
        if self.opened().described["texts"] is None:
            return results
        return PassageText(self).transform(results)

    def bm25(
        self,
        k1: float = 0.9,
        b: float = 0.4,
        num_results: int = 1000,
        cache: str | Path | None = None,
    ) -> LuceneBM25:
        """Return BM25 retrieval from this index; see :class:`LuceneBM25`."""
        return LuceneBM25(self, num_results, cache, k1, b)

    def rm3(
        self,
        fb_docs: int = 10,
        fb_terms: int = 10,
        original_weight: float = 0.5,
        *,
        k1: float = 0.9,
        b: float = 0.4,
        num_results: int = 1000,
        cache: str | Path | None = None,
    ) -> LuceneRM3:
        """Return BM25 with Anserini's RM3; see :class:`LuceneRM3`."""
        return LuceneRM3(self, num_results, cache, k1, b, fb_docs, fb_terms, original_weight)

    def retriever(
        self,
        num_results: int = 1000,
        cache: str | Path | None = None,
        *,
        k1: float = 0.9,
        b: float = 0.4,
    ) -> LuceneBM25:
        """Return BM25 retrieval; every kind of index has this method."""
        return LuceneBM25(self, num_results, cache, k1, b)

    def _arguments(self) -> dict[str, Any]:
        arguments = {"path": self.path, "text": self.text, "memory": self.memory}
        return {name: value for name, value in arguments.items() if value is not None}

    def __getstate__(self) -> dict[str, Any]:
        return self._arguments()  # a process can't be sent to another one

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__init__(**state)  # type: ignore[misc]

    def __repr__(self) -> str:
        # how much memory Java has changes no result
        shown = [repr(self.path)]
        if self.text is not None:
            shown.append(f"text={self.text!r}")
        return f"ikat.LuceneIndex({', '.join(shown)})"

    def __eq__(self, other: object) -> bool:
        return isinstance(other, LuceneIndex) and self._arguments() == other._arguments()

    def __hash__(self) -> int:
        return hash((LuceneIndex, *self._arguments().items()))


def last_commit(path: str | Path) -> Path:
    """Return Lucene's last file ``segments_N``; N counts in base 36.

    Raises:
        UsageError: when the folder holds no index of Lucene.
        DataError: when it holds one without this file.
    """
    commits = []
    for file in Path(path).glob("segments_*"):
        number = file.name.removeprefix("segments_")
        if number.isalnum():
            commits.append((int(number, 36), file))
    if commits:
        return max(commits)[1]
    if is_lucene(path):
        raise DataError(
            f"the Lucene index {path} isn't whole (it has no file segments_N): copy it again"
        )
    reason = how_to_open(path)
    if not reason:
        missing = "the folder is empty" if Path(path).is_dir() else "there is no such folder"
        reason = f"no index at {path}: {missing}; give the folder with Lucene's file segments_N"
    raise UsageError(reason)
