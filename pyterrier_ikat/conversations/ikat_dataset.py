"""Datasets: topics, answers, judgements and passages under one name. Any object that has them becomes a dataset."""

import inspect
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any

import pandas as pd
import pyterrier as pt

from ..errors import DataError, UsageError, advice
from ..progress import bar
from .frame import each_turn_once, histories, object_frame, personas, texts_in, values, with_columns
from .passages import TextLoader, Traced
from .topics import MANUAL_COLUMNS, Conversation, TopicTurn, answers_frame, provenance_qrels, ptkb_qrels, topics_frame, with_automatic

PREFIX = "ikat:"
TOPIC_VARIANTS: tuple[str | None, ...] = (None, "manual")

Qrels = dict[str | None, Callable[[], pd.DataFrame]]


class IkatDataset(pt.datasets.Dataset, ABC):
    """Conversations, judgements and passages under one name. Each file is fetched and read at first use.

    Attributes:
        name: the name for ``pt.get_dataset``, such as ``"ikat:2023-mini"``.
        summary: one line about its contents.
        year: the year of the track whose submissions answer its turns; None for other conversations.
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
    topic_variants = TOPIC_VARIANTS
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
        if variant not in self.topic_variants:
            calls = " and ".join("get_topics()" if name is None else f"get_topics({name!r})" for name in self.topic_variants)
            raise UsageError(f"{self.name} has no topics {variant!r}; there are {calls}")
        frame = topics_frame(self.conversations, manual=variant == "manual")
        return with_automatic(frame, self.conversations) if variant == "automatic" else frame

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
        if not qrels:
            raise UsageError(f"{self.name} has no qrels: give a file of your own ({advice('qrels=FILE', '--qrels FILE')})")
        if variant not in qrels:
            calls = ", ".join("get_qrels()" if name is None else f"get_qrels({name!r})" for name in qrels)
            options = ", ".join("the default" if name is None else f"--qrels {name}" for name in qrels)
            raise UsageError(f"{self.name} has no qrels {variant!r}; there are {advice(calls, options)}")
        return qrels[variant]()

    def get_topicsqrels(self, variant: str | None = None) -> tuple[pd.DataFrame, pd.DataFrame]:
        """``get_topics(variant)`` and the passage judgements."""
        return self.get_topics(variant), self.get_qrels()

    def get_corpus_iter(self, *, verbose: bool = True) -> Iterator[dict[str, Any]]:
        """The passages, ``{"docno", "text", "url"}`` each. Its ``where(number)`` names file and line of an earlier passage.

        Args:
            verbose: show a progress bar.

        Raises:
            DataError: when there are no passages, or a passage file is malformed (named with its line).
        """
        passages, total = self._passages()
        shown = bar(passages, desc=f"{self.name} passages", unit="passage", total=total or None, disable=not verbose)
        return Traced(shown, getattr(passages, "where", None), total or 0)

    def collection(self) -> tuple[int | None, frozenset[str] | None]:
        """The number of passages, and their docnos if they are few. None for an unknown value."""
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

    def get_topics_lang(self) -> str | None:
        """English."""
        return "en"

    def get_corpus_lang(self) -> str | None:
        """English."""
        return "en"

    @abstractmethod
    def _qrels(self) -> Qrels: ...

    @abstractmethod
    def _passages(self) -> tuple[Iterable[dict[str, str]], int]: ...

    def _provenance(self) -> pd.DataFrame:
        return provenance_qrels(self.conversations)

    def _ptkb(self) -> pd.DataFrame:
        return ptkb_qrels(self.conversations)

    def _describe_component(self, component: str) -> bool | list[str] | None:
        if component == "topics":
            return [name for name in self.topic_variants if name] or True
        return [name for name in self._qrels() if name] if component == "qrels" else (component == "corpus" or None)

    def __repr__(self) -> str:
        return f"pt.get_dataset({self.name!r})"


class GivenDataset(IkatDataset):
    """An object with PyTerrier's dataset methods as a dataset of ours. Columns that its topics lack for a turn frame are filled in.

    Args:
        given: has ``get_topics``, and those that are used of ``get_qrels``, ``get_corpus_iter``, ``get_answers``, ``text_loader``,
            ``collection``; or its class. Gold columns of its topics (``qresolved``, ``qgoldptkb``, ``gold_...``) are shown only by
            ``get_topics("manual")``; if its own ``get_topics`` knows that variant, it is used.
        name: its name. By default its own name, or that of its class.

    Raises:
        UsageError: when it has no topics.
    """

    def __init__(self, given: Any, name: str = ""):
        self.given = given() if isinstance(given, type) else given
        if not callable(getattr(self.given, "get_topics", None)):
            raise UsageError(
                f"{repr(given)[:80]} is not a dataset: give a name, a folder, or an object with get_topics(), get_qrels(), ..."
            )
        self.name = name or str(getattr(self.given, "name", None) or type(self.given).__name__)
        self.summary = f"a {type(self.given).__name__}"
        self.year = getattr(self.given, "year", None)

    @property
    def conversations(self) -> list[Conversation]:
        """Each turn as its own conversation, with its history."""
        if hasattr(self.given, "conversations"):
            return list(self.given.conversations)
        rows = zip(*(self.get_topics("manual")[name] for name in ("qid", "query", "qresolved", "qhistory", "qptkb", "qturn")), strict=True)
        return [
            Conversation(qid, ptkb=ptkb, turns=(TopicTurn(turn, query, "", resolved, qid=qid, history=tuple(history)),))
            for qid, query, resolved, history, ptkb, turn in rows
        ]

    def get_topics(self, variant: str | None = None) -> pd.DataFrame:
        """The turn frame, see :meth:`IkatDataset.get_topics`."""
        if variant not in self.topic_variants:
            return super().get_topics(variant)
        known = self.given.get_topics("manual") if variant and _knows(self.given, "topics", variant) else self.given.get_topics()
        frame = _turn_frame(known)
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
        if hasattr(self.given, "get_answers"):
            answers: pd.DataFrame = self.given.get_answers()
            each_turn_once(answers)
            return answers
        return object_frame({"qid": (qids := self.get_topics()["qid"]), "gold_answer": [""] * len(qids)})

    def get_qrels(self, variant: str | None = None) -> pd.DataFrame:
        """Its judgements."""
        get = self._method("get_qrels")
        return get() if variant is None else get(variant)  # type: ignore[no-any-return]

    def get_corpus_iter(self, *, verbose: bool = True) -> Iterator[dict[str, Any]]:
        """Its passages."""
        get = self._method("get_corpus_iter")
        return iter(get(verbose=verbose) if "verbose" in inspect.signature(get).parameters else get())

    def text_loader(self, fields: Sequence[str] = ("text",)) -> Any:
        """Its own text loader."""
        return self.given.text_loader(list(fields)) if hasattr(self.given, "text_loader") else super().text_loader(fields)

    def collection(self) -> tuple[int | None, frozenset[str] | None]:
        """The number of passages, and their docnos. None for an unknown value."""
        return self.given.collection() if hasattr(self.given, "collection") else (None, None)

    def _method(self, name: str) -> Callable[..., Any]:
        if not callable(getattr(self.given, name, None)):
            raise UsageError(f"{self.name} has no {name}(): add it to {type(self.given).__name__}")
        return getattr(self.given, name)  # type: ignore[no-any-return]

    def _qrels(self) -> Qrels:
        listed = getattr(self.given, "_describe_component", lambda _: None)("qrels")
        names = [None, *(listed if isinstance(listed, list) else [])]
        return {name: lambda name=name: self.get_qrels(name) for name in names}  # type: ignore[misc]

    def _passages(self) -> tuple[Iterable[dict[str, str]], int]:
        raise NotImplementedError  # get_corpus_iter asks the object itself

    def __repr__(self) -> str:
        return f"ikat.dataset({self.given!r})"


def _knows(given: Any, component: str, variant: str) -> bool:
    """Whether an object says that it has a variant, as PyTerrier's datasets do, or accepts its name."""
    listed = getattr(given, "_describe_component", lambda _: None)(component)
    if isinstance(listed, list):
        return variant in listed
    return not isinstance(given, pt.datasets.Dataset) and len(inspect.signature(getattr(given, f"get_{component}")).parameters) > 0


def _turn_frame(topics: pd.DataFrame) -> pd.DataFrame:
    """Topics with all columns of the turn frame. The defaults are an empty history, an empty PTKB and one conversation per turn."""
    pt.validate.query_frame(topics)
    queries, qids, said = texts_in(topics, "query"), list(map(str, topics["qid"])), histories(topics)
    found: dict[str, list[Any]] = {
        "qid": qids,
        "qutterance": queries,
        "qconversation": qids,
        "qturn": [1 + sum(message["role"] == "user" for message in history) for history in said],
    }
    columns = {name: values(topics, name) if name in topics.columns and name != "qid" else cells for name, cells in found.items()}
    return with_columns(topics, **columns, qhistory=said, qptkb=personas(topics)).reset_index(drop=True)
