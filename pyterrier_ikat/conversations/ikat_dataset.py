"""Datasets: topics, answers, judgements and passages under one name. Any object that has them becomes a dataset."""

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable
from functools import partial
from typing import Any

import pandas as pd
import pyterrier as pt

from ..errors import UsageError, advice
from ..progress import bar
from .frame import each_turn_once, histories, object_frame, personas, texts_in, values, with_columns
from .passages import Fields, TextLoader
from .topics import MANUAL_COLUMNS, Conversation, TopicTurn, answers_frame, provenance_qrels, ptkb_qrels, topics_frame

PREFIX = "ikat:"

Qrels = dict[str | None, Callable[[], pd.DataFrame]]


class IkatDataset(pt.datasets.Dataset, ABC):
    """Conversations, judgements and passages under one name. Each file is fetched and read at first use.

    Attributes:
        name: the name for ``pt.get_dataset``, such as ``"ikat:2023-mini"``.
        summary: one line about its contents.
        year: the year of the track whose submissions answer its turns; None for other conversations.
        size: the number of passages; None if it isn't known.
        page: the address of a page about it.
        topic_variants: the variants that ``get_topics`` takes.
        measures: the measures that its field reports, by name; empty for those of the track.

    Example:
        >>> import pyterrier_ikat as ikat
        >>> ikat.dataset("ikat:sample")
        pt.get_dataset('ikat:sample')
    """

    name: str
    summary: str
    year: int | None = None
    size: int | None = None
    page: str | None = None
    topic_variants: tuple[str | None, ...] = (None, "manual")
    measures: tuple[str, ...] = ()

    @property
    @abstractmethod
    def conversations(self) -> list[Conversation]:
        """The conversations with everything in their file, including gold fields."""

    def get_topics(self, variant: str | None = None) -> pd.DataFrame:
        """The turn frame, without gold fields for an automatic run. ``"manual"`` adds ``qresolved`` and ``qgoldptkb``.

        With ``"automatic"``, the queries are the organisers' rewrites by a model, for datasets that have them.

        Raises:
            UsageError: for another variant.
        """
        self._check_variant("topics", variant, self.topic_variants)
        return topics_frame(self.conversations, manual=variant == "manual")

    def get_answers(self) -> pd.DataFrame:
        """The gold answers, ``qid`` and ``gold_answer``: for evaluation only."""
        return answers_frame(self.conversations)

    def get_qrels(self, variant: str | None = None) -> pd.DataFrame:
        """Judgements ``qid``, ``docno``, ``label``; for the PTKB variants ``docno`` is the statement id.

        Args:
            variant: None for the passage judgements, or one of the dataset's own names, see the page on datasets.

        Raises:
            UsageError: for another variant.
            DataError: when the file is missing, can't be fetched, or is malformed.
        """
        qrels = self._qrels()
        self._check_variant("qrels", variant, qrels)
        return qrels[variant]()

    def get_topicsqrels(self, variant: str | None = None) -> tuple[pd.DataFrame, pd.DataFrame]:
        """``get_topics(variant)`` and the passage judgements."""
        return self.get_topics(variant), self.get_qrels()

    def get_corpus_iter(self, *, verbose: bool = True) -> Iterable[dict[str, Any]]:
        """The passages, ``{"docno", "text", "url"}`` each.

        Args:
            verbose: show a progress bar.

        Raises:
            DataError: when there are no passages, or a passage file is malformed (named with its line).
        """
        shown = bar(self._passages(), desc=f"{self.name} passages", unit="passage", total=self.size, disable=not verbose)
        return pt.utils.GeneratorLen(iter(shown), self.size) if self.size else iter(shown)  # type: ignore[no-untyped-call]

    def collection(self) -> tuple[int | None, frozenset[str] | None]:
        """The number of passages, and their docnos if they fit in memory. None for an unknown value."""
        texts = self._texts()
        return (self.size, None) if texts is None else (len(texts.all), frozenset(texts.all))

    def text_loader(self, fields: Fields = "text", *, verbose: bool = False) -> TextLoader:
        """An operator that adds the passages' ``fields`` by ``docno``; ``pt.text.get_text(dataset)`` makes it as well.

        Args:
            fields: ``"text"``, ``"url"``, a list of both, or ``"*"`` for all.
            verbose: has no effect; PyTerrier gives it to every loader.

        Raises:
            UsageError: when the dataset has none of its own. An index of its passages stores their texts.
        """
        if (texts := self._texts(fields)) is not None:
            return texts
        what = f"{self.size:,} passages, too many to hold in memory" if self.size else "no text loader"
        repair = advice("take ikat.PassageIndex(PATH).text_loader()", "give --index PATH")
        raise UsageError(f"{self.name} has {what}: index its passages and {repair}")

    def info_url(self) -> str | None:
        """Its page."""
        return self.page

    @abstractmethod
    def _qrels(self) -> Qrels: ...

    @abstractmethod
    def _passages(self) -> Iterable[dict[str, str]]: ...

    def _texts(self, fields: Fields = "text") -> TextLoader | None:
        """The loader of the passages' texts, if they fit in memory."""
        return None

    def _check_variant(self, what: str, variant: str | None, known: Iterable[str | None]) -> None:
        if variant not in known:
            names = ", ".join(name or "the default" for name in known)
            there = f" {variant!r}; there are {names}" if names else f": give a file of your own ({advice('qrels=', '--qrels')})"
            raise UsageError(f"{self.name} has no {what}{there}")

    def _provenance(self) -> pd.DataFrame:
        return provenance_qrels(self.conversations)

    def _ptkb(self) -> pd.DataFrame:
        return ptkb_qrels(self.conversations)

    def _describe_component(self, component: str) -> bool | list[str] | None:
        if component == "topics":
            return [name for name in self.topic_variants if name] or True
        return [name for name in self._qrels() if name] if component == "qrels" else (component == "corpus" or None)

    def __repr__(self) -> str:
        return f"pt.get_dataset({self.name!r})" if self.name.startswith(PREFIX) else f"ikat.dataset({self.name!r})"


class GivenDataset(IkatDataset):
    """An object with PyTerrier's dataset methods as a dataset of ours. Columns that its topics lack for a turn frame are filled in.

    Args:
        given: has ``get_topics``, and those that are used of ``get_qrels``, ``get_corpus_iter``, ``get_answers``, ``text_loader``,
            ``collection``; or its class. Gold columns of its topics (``qresolved``, ``qgoldptkb``, ``gold_...``) are shown only by
            ``get_topics("manual")``. If it is a dataset of PyTerrier that lists this variant, its own is used.
        name: its name. By default its own name, or that of its class.

    Raises:
        UsageError: when it has no topics.
    """

    def __init__(self, given: Any, name: str = ""):
        self.given = given() if isinstance(given, type) else given
        if not callable(getattr(self.given, "get_topics", None)):
            if hasattr(given, "columns"):
                raise UsageError("the dataset is a frame: give topics=FRAME, qrels=FRAME")
            raise UsageError(
                f"{repr(given)[:80]} is not a dataset: give a name, a folder, or an object with get_topics(), get_qrels(), ..."
            )
        self.name = name or str(getattr(self.given, "name", None) or type(self.given).__name__)
        self.summary = f"a {type(self.given).__name__}"
        self.year = getattr(self.given, "year", None)

    @property
    def conversations(self) -> list[Conversation]:
        """Each turn as its own conversation, with its history."""
        rows = list(self.get_topics("manual").itertuples())
        turns = (TopicTurn(row.qturn, row.query, "", row.qresolved, qid=row.qid, history=tuple(row.qhistory)) for row in rows)
        return [Conversation(row.qid, ptkb=row.qptkb, turns=(turn,)) for row, turn in zip(rows, turns, strict=True)]

    def get_topics(self, variant: str | None = None) -> pd.DataFrame:
        """The turn frame, see :meth:`IkatDataset.get_topics`."""
        self._check_variant("topics", variant, self.topic_variants)
        frame = _turn_frame(self.given.get_topics("manual") if variant in self._listed("topics") else self.given.get_topics())
        gold = [name for name in frame.columns if name in MANUAL_COLUMNS or str(name).startswith("gold")]
        if variant is None:
            return frame.drop(columns=gold)
        stand_ins: dict[str, list[Any]] = {"qresolved": texts_in(frame, "qutterance"), "qgoldptkb": [[] for _ in range(len(frame))]}
        return with_columns(frame, **{name: cells for name, cells in stand_ins.items() if name not in gold})

    def get_answers(self) -> pd.DataFrame:
        """Its gold answers. Empty when it has none.

        Raises:
            DataError: when a turn has two.
        """
        if not hasattr(self.given, "get_answers"):
            return object_frame({"qid": (qids := self.get_topics()["qid"]), "gold_answer": [""] * len(qids)})
        answers: pd.DataFrame = self.given.get_answers()
        each_turn_once(answers)
        return answers

    def get_qrels(self, variant: str | None = None) -> pd.DataFrame:
        """Its judgements."""
        found: pd.DataFrame = self.given.get_qrels() if variant is None else self.given.get_qrels(variant)
        return found

    def text_loader(self, fields: Fields = "text", *, verbose: bool = False) -> Any:
        """Its own text loader."""
        return self.given.text_loader(fields, verbose=verbose) if hasattr(self.given, "text_loader") else super().text_loader(fields)

    def collection(self) -> tuple[int | None, frozenset[str] | None]:
        """How many passages it has and which; None where it doesn't say. A run warns about an index of another collection."""
        said: tuple[int | None, frozenset[str] | None] = self.given.collection() if hasattr(self.given, "collection") else (None, None)
        return said

    def _listed(self, component: str) -> list[str]:
        """The variants that a dataset of PyTerrier lists."""
        listed = self.given._describe_component(component) if isinstance(self.given, pt.datasets.Dataset) else None
        return listed if isinstance(listed, list) else []

    def _qrels(self) -> Qrels:
        return {name: partial(self.get_qrels, name) for name in (None, *self._listed("qrels"))}

    def _passages(self) -> Iterable[dict[str, str]]:
        silently = {"verbose": False} if isinstance(self.given, pt.datasets.Dataset) else {}
        return self.given.get_corpus_iter(**silently)  # type: ignore[no-any-return]

    def __repr__(self) -> str:
        return f"ikat.dataset({self.given!r})"


def _turn_frame(topics: pd.DataFrame) -> pd.DataFrame:
    """Topics with all columns of the turn frame. The defaults are an empty history, an empty PTKB and one conversation per turn."""
    pt.validate.query_frame(topics)
    queries, qids, said = texts_in(topics, "query"), list(map(str, topics["qid"])), histories(topics)
    numbers = [1 + sum(message["role"] == "user" for message in history) for history in said]
    stand_ins: dict[str, list[Any]] = {"qutterance": queries, "qconversation": qids, "qturn": numbers}
    columns = {name: values(topics, name) if name in topics.columns else cells for name, cells in stand_ins.items()}
    return with_columns(topics, qid=qids, **columns, qhistory=said, qptkb=personas(topics)).reset_index(drop=True)
