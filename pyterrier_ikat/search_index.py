"""The face of an index: what planning, running and reporting ask of it, whoever built it."""

from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any

import pyterrier as pt

from .errors import UsageError


class SearchIndex(ABC):
    """Base class of every index, of this package and of other engines.

    A subclass gives the four abstract methods. Everything else has a default.

    Example:
        >>> import pandas as pd, pyterrier as pt
        >>> class OnePassage(SearchIndex):
        ...     path = "one"
        ...     def fingerprint(self):
        ...         return "1"
        ...     def docnos(self, among):
        ...         return (docno for docno in among if docno == "d1")
        ...     def __len__(self):
        ...         return 1
        ...     def retriever(self, num_results=1000, cache=None, *, k1=0.9, b=0.4):
        ...         found = pd.DataFrame({"qid": ["1"], "docno": ["d1"], "score": [1.0]})
        ...         return pt.Transformer.from_df(pt.model.add_ranks(found))
        >>> OnePassage().has_text, len(OnePassage())
        (False, 1)
    """

    path: str = ""
    """Its folder or address, for messages; at first the name of its class."""

    text: pt.Transformer | None = None
    """An operator that adds ``text`` by ``docno``, for an index without texts of its own."""

    query_model: str | None = None
    """The model of its queries, if it isn't the model of its passages."""

    def __init_subclass__(cls) -> None:
        """Let messages name the class of an index without a path."""
        super().__init_subclass__()
        cls.path = cls.path or cls.__name__

    @property
    def has_text(self) -> bool:
        """Whether its retrievers return the passages' text."""
        return self.text is not None

    @abstractmethod
    def fingerprint(self) -> str:
        """Return a text that changes when its passages or its settings change.

        A run refuses to resume with another fingerprint.
        """

    @abstractmethod
    def docnos(self, among: Sequence[str]) -> Iterable[str]:
        """Return those of the docnos ``among`` that are in the index."""

    @abstractmethod
    def __len__(self) -> int:
        """Return the number of passages."""

    @abstractmethod
    def retriever(
        self,
        num_results: int = 1000,
        cache: str | Path | None = None,
        *,
        k1: float = 0.9,
        b: float = 0.4,
    ) -> pt.Transformer:
        """Return a retriever.

        Its frame has a row per passage found, with the columns of the turn, ``docno``, ``score``
        and ``rank``. ``pt.model.add_ranks`` adds the ranks. Give its class a ``__repr__`` with its
        settings, because the repr identifies a stage.

        Args:
            num_results: the maximum number of passages per query.
            cache: a file that keeps rankings; an engine without a cache ignores it.
            k1: the parameter of a method's BM25; an engine without BM25 ignores it.
            b: the other one.
        """

    def present(self, among: Sequence[str]) -> Iterator[str]:
        """Yield those of the docnos ``among`` that are in the index, as :meth:`docnos` gives them.

        Raises:
            UsageError: when it gives no docnos, or one that wasn't asked for.
        """
        docnos = self.docnos(among)
        called = f"{type(self).__name__}.docnos(among)"
        repair = "return those of the docnos among that the index has"
        if isinstance(docnos, str) or not isinstance(docnos, Iterable):
            raise UsageError(f"{called} returns {type(docnos).__name__}: {repair}")
        asked = frozenset(among)
        for docno in docnos:
            if docno not in asked:
                raise UsageError(f"{called} returns {docno!r}, which isn't among them: {repair}")
            yield docno

    def size(self) -> int:
        """Return its length, the number of its passages.

        Raises:
            UsageError: when ``__len__`` returns no whole number.
        """
        try:
            return len(self)
        except (TypeError, ValueError) as error:
            raise UsageError(
                f"{type(self).__name__}.__len__() fails ({error}): return the number of passages"
            ) from error

    def text_loader(self, fields: Any = "text", *, verbose: bool = False) -> pt.Transformer:
        """Return an operator that adds ``text`` by ``docno``.

        Args:
            fields: the fields to add.
            verbose: whether to show progress.

        Raises:
            UsageError: when the index has no texts.
        """
        if self.text is None:
            raise UsageError(
                f"the index {self.path} has no texts: set its attribute text to a loader"
            )
        return self.text

    def describe(self) -> dict[str, Any]:
        """Return its settings, such as ``stemmer`` and ``stops``."""
        return {}

    def warm_up(self) -> None:
        """Load in advance what the first search needs."""
        return
