"""An index of passages that keeps their text, and BM25 over it."""

import hashlib
import json
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pandas as pd
import pyterrier as pt

from ..arguments import checked
from ..errors import UsageError, advice
from ..store.files import read_description, resumable_folder
from ..store.results import digest
from .artifact import FORMATS, PISA, TEXTS, IndexArtifact, write_meta
from .corpus import Corpus, CorpusReader, check_expected
from .pisa.build import UNCOMPRESSED
from .pisa.index import STEMMERS, STOPS, TIES, check_bm25, docnos, open_bm25, version
from .pisa.shards import holds_shards, index_shards
from .retriever import IndexRetriever, Query, query_bytes, word_queries


class BM25(IndexRetriever):
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
    label, method = "BM25", "bm25"

    def __init__(
        self, index: "PassageIndex", k1: float = 0.9, b: float = 0.4, num_results: int = 1000, cache: str | Path | None = None
    ) -> None:
        check_bm25(k1, b)
        super().__init__(index, num_results, cache)
        self.k1 = k1
        self.b = b

    def queries(self, frame: pd.DataFrame) -> list[Query]:
        """The words of each query, or ``query_toks``."""
        check_bm25(self.k1, self.b)  # which pt.GridSearch sets
        return word_queries(frame)

    def key(self, fingerprint: str, query: str | dict[str, int]) -> bytes:
        """What stands for the index, the parameters and the query."""
        kind = "text" if isinstance(query, str) else "terms"
        return digest("bm25", version(), TIES, fingerprint, f"{self.k1:g} {self.b:g}", kind, query_bytes(query))

    def encode(self, queries: list[Any]) -> tuple[str, list[Any]]:
        """The queries as they are."""
        return "query" if isinstance(queries[0], str) else "query_toks", queries

    def open(self, column: str, threads: int) -> Any:
        """PISA's BM25."""
        return self.index.pisa_retriever(self.k1, self.b, self.num_results + 1, threads, terms=column == "query_toks")

    def parameters(self) -> tuple[float, float]:
        """``k1`` and ``b``."""
        return (self.k1, self.b)


FORMAT = 1
META = "ikat_index.json"
SPARE = [f"{PISA}/{name}" for name in UNCOMPRESSED]


class PassageIndex(IndexArtifact):
    """An index over passages that also keeps their text.

    The folder holds PISA's inverted index, the texts and a description (format, number of passages, parameters, size of every file) that
    is checked at opening. It appears
    under its name only when complete. Any number of threads and processes may read it, also where it can't be written to.

    Eight tenths of PISA's files, ``pisa/inv.docs`` and ``pisa/inv.freqs``, are read only to make the index ready for further values of k1
    and b, as the first search with them does: where no others are wanted and the disk is small, remove these two.

    It is a PyTerrier artifact: ``pt.Artifact.load(path)`` opens it, ``build_package`` makes one file of it to share.

    Args:
        path: the folder; made by ``index``.
        text: an operator that adds ``text`` by ``docno``, such as ``ikat.TextLoader(path)``, for an index from a package without texts.

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

    ARTIFACT_FORMAT = FORMATS[META]
    META, descriptions = META, (META,)

    @checked
    def __init__(self, path: str | Path, *, text: pt.Transformer | None = None) -> None:
        super().__init__(path, text)

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
        for name, value, known in (("stemmer", stemmer, STEMMERS), ("stops", stops, STOPS)):
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
            write_meta(workplace / "index" / META, described)
        return self

    def _of_same(self, corpus: Corpus, options: dict[str, str], expected: int | None) -> "PassageIndex":
        described = self.describe()
        for name, value in options.items():
            if described[name] != value:
                raise UsageError(
                    f"{self.path} holds an index with {name} {described[name]}, not {value}: remove it, or give a path where nothing is"
                )
        check_expected(described["count"], expected)
        CorpusReader(corpus).check_same(self.path, described["count"], described["sha256"])
        return self

    def bm25(self, k1: float = 0.9, b: float = 0.4, num_results: int = 1000, cache: str | Path | None = None) -> BM25:
        """BM25 over this index; see :class:`BM25`."""
        return BM25(self, k1, b, num_results, cache)

    def retriever(self, num_results: int = 1000, cache: str | Path | None = None, *, k1: float = 0.9, b: float = 0.4) -> BM25:
        """What searches an index of any kind: here BM25."""
        return BM25(self, k1, b, num_results, cache)

    def warm_up(self) -> None:
        """Load now what the first search would load: of this index, nothing that takes long."""

    def _look(self, folder: Path) -> dict[str, Any]:
        made_by = advice(f"ikat.PassageIndex({self.path!r}).index(corpus)", f"`ikat index SOURCE {self.path}`")
        return read_description(folder / META, form=FORMAT, repair=f"make it with {made_by}", spare=SPARE)

    def docnos(self, among: Sequence[str]) -> Iterator[str]:
        """Those docnos ``among`` the given ones that the index has, looked up as they are asked for."""
        if self._stores_text:
            return super().docnos(among)
        return filter(frozenset(among).__contains__, docnos(Path(self.path) / PISA))

    def fingerprint(self) -> str:
        """A checksum that an index of other passages, or one built with other settings, does not have."""
        described = {name: value for name, value in self.describe().items() if name != "files"}
        return hashlib.sha256(json.dumps(described, sort_keys=True).encode()).hexdigest()

    def pisa_retriever(self, k1: float, b: float, num_results: int, threads: int, terms: bool = False) -> Any:
        """PISA's own retriever over this index, for queries of :func:`ascii_text`. ``terms``: for ``query_toks``."""
        folder, stops = Path(self.path) / PISA, self.describe()["stops"]
        return open_bm25(folder, stops=stops, k1=k1, b=b, num_results=num_results, threads=threads, terms=terms)

    def __repr__(self) -> str:
        text = "" if self.text is None else f", text={self.text!r}"
        return f"ikat.PassageIndex({self.path!r}{text})"
