"""What all iKAT datasets share: topics, answers, judgements and passages under one name, each variant checked."""

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Sequence

import pandas as pd
import pyterrier as pt

from ..errors import DataError, UsageError, advice
from .passages import TextLoader
from .topics import Conversation, answers_frame, provenance_qrels, ptkb_qrels, topics_frame

TOPIC_VARIANTS = (None, "manual")

Qrels = dict[str | None, Callable[[], pd.DataFrame]]


class IkatDataset(pt.datasets.Dataset, ABC):
    """Conversations, judgements and passages under one name; each file is fetched and read when it is first asked for.

    Attributes:
        name: the name for ``pt.get_dataset``, such as ``"ikat:2023-mini"``.
        summary: what it offers, in one line.

    Example:
        >>> from pyterrier_ikat.conversations.datasets import find_dataset
        >>> find_dataset("ikat:sample")
        pt.get_dataset('ikat:sample')
    """

    name: str
    summary: str

    @property
    @abstractmethod
    def conversations(self) -> list[Conversation]:
        """The conversations with everything that their file says, gold included."""

    def get_topics(self, variant: str | None = None) -> pd.DataFrame:
        """The turn frame: for an automatic run without any gold field, with ``"manual"`` also ``qresolved`` and ``qgoldptkb``.

        Raises:
            UsageError: for another variant.
        """
        if variant not in TOPIC_VARIANTS:
            raise UsageError(f"{self.name} has no topics {variant!r}; there are get_topics() and get_topics('manual')")
        return topics_frame(self.conversations, manual=variant == "manual")

    def get_answers(self) -> pd.DataFrame:
        """The gold answers, ``qid`` and ``gold_answer``: for evaluation only."""
        return answers_frame(self.conversations)

    def get_qrels(self, variant: str | None = None) -> pd.DataFrame:
        """Judgements ``qid``, ``docno``, ``label``; for the PTKB variants ``docno`` is the statement id.

        Args:
            variant: None for the passage judgements, or one of the dataset's own names, see the table in
                :mod:`pyterrier_ikat.conversations.datasets`.

        Raises:
            UsageError: for another variant.
            DataError: when the file is missing, can't be fetched, or is malformed.
        """
        qrels = self._qrels()
        if variant not in qrels:
            calls = ", ".join("get_qrels()" if name is None else f"get_qrels({name!r})" for name in qrels)
            options = ", ".join("the default" if name is None else f"--qrels {name}" for name in qrels)
            raise UsageError(f"{self.name} has no qrels {variant!r}; there are {advice(calls, options)}")
        return qrels[variant]()

    def get_topicsqrels(self, variant: str | None = None) -> tuple[pd.DataFrame, pd.DataFrame]:
        """``get_topics(variant)`` and the passage judgements."""
        return self.get_topics(variant), self.get_qrels()

    def get_corpus_iter(self, *, verbose: bool = True) -> Iterator[dict[str, str]]:
        """The passages, ``{"docno", "text", "url"}`` each.

        Args:
            verbose: show a progress bar.

        Raises:
            DataError: when there are no passages, or a passage file is malformed (named with its line).
        """
        passages, total = self._passages()
        return iter(pt.tqdm(passages, desc=f"{self.name} passages", total=total, disable=not verbose))

    def collection(self) -> tuple[int | None, frozenset[str] | None]:
        """How many passages the collection has, and their docnos where they are few; None for what isn't known here."""
        try:
            return self._passages()[1], None
        except DataError:
            return None, None

    def text_loader(self, fields: Sequence[str] = ("text",)) -> TextLoader:
        """An operator that adds the passages' ``fields`` (``"text"``, ``"url"``) by ``docno``.

        Raises:
            UsageError: when the dataset has none of its own.
        """
        repair = advice("take ikat.PassageIndex(PATH).text_loader()", "give --index PATH")
        raise UsageError(f"{self.name} has no text loader: index its passages and {repair}")

    def get_topics_lang(self) -> str:
        """English."""
        return "en"

    def get_corpus_lang(self) -> str:
        """English."""
        return "en"

    def info_url(self) -> str | None:
        """The track's page."""
        return "https://www.trecikat.com/"

    @abstractmethod
    def _qrels(self) -> Qrels: ...

    @abstractmethod
    def _passages(self) -> tuple[Iterable[dict[str, str]], int]: ...

    def _provenance(self) -> pd.DataFrame:
        return provenance_qrels(self.conversations)

    def _ptkb(self) -> pd.DataFrame:
        return ptkb_qrels(self.conversations)

    def _describe_component(self, component: str) -> bool | list[str] | None:
        variants = {"topics": list(TOPIC_VARIANTS), "qrels": list(self._qrels())}
        return [name for name in variants[component] if name] if component in variants else (component == "corpus" or None)

    def __repr__(self) -> str:
        return f"pt.get_dataset({self.name!r})"
