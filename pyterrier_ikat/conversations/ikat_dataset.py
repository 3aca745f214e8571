"""Datasets: topics, answers, judgements and passages under one name. Any object that has them becomes a dataset.

So does a folder with ``topics.jsonl``, ``passages.jsonl`` and ``qrels.txt``, as the bundled sample
is one, and a dataset of ir_datasets, each query of which is a turn without a history.
"""

import warnings
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import cached_property, partial
from pathlib import Path
from typing import Any

import pandas as pd
import pyterrier as pt

from ..errors import DataError, UsageError, advice, list_first
from ..progress import bar
from .frame import each_turn_once, histories, object_frame, personas, texts_in, values, with_columns
from .passages import PASSAGES, Fields, PassageFiles, TextLoader, collection_files, fields_named
from .qrels import check_qrels, qrels_frame, read_qrels
from .topics import (
    MANUAL_COLUMNS,
    CollectionWarning,
    Conversation,
    TopicTurn,
    answers_frame,
    provenance_qrels,
    ptkb_qrels,
    read_topics,
    topics_frame,
)

PREFIX = "ikat:"

TOPICS = ("topics.jsonl", "topics.json")
QRELS = "qrels.txt"
STATEMENTS = "ptkb"
"""The beginning of the names of the qrels of PTKB statements."""
HELD_BYTES = 1 << 28
"""Passage files up to this size are held in memory, to look up docnos and texts."""
SAMPLE = Path(__file__).parent / "sample"

Qrels = dict[str | None, Callable[[], pd.DataFrame]]


class IkatDataset(pt.datasets.Dataset, ABC):
    """Conversations, judgements and passages under one name. Each file is fetched and read at first use.

    Attributes:
        name: the name for ``pt.get_dataset``, such as ``"ikat:2023-mini"``.
        summary: one line about its contents.
        year: the year of the track whose submissions answer its turns; None for other
            conversations.
        size: the number of passages; None if it isn't known.
        page: the address of a page about it.
        topic_variants: the variants that ``get_topics`` takes.
        measures: the measures that its field reports, by name; empty for those of the track.
        unit: the highest unit that its turns are known to share, over which tests and intervals are
            made: ``"conversation"``, ``"topic"``, ``"user"``, or ``"turn"`` for turns that are
            independent.
        unit_reason: why it is this unit, a sentence.

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
    unit: str = "conversation"
    unit_reason: str = (
        "The turns of a conversation depend on each other, and nothing says that conversations do."
    )
    declares_unit: bool = True
    """Whether it says which conversation a turn belongs to."""

    @property
    @abstractmethod
    def conversations(self) -> list[Conversation]:
        """The conversations with everything in their file, including gold fields."""

    def get_topics(self, variant: str | None = None) -> pd.DataFrame:
        """The turn frame, without gold fields for an automatic run. ``"manual"`` adds ``qresolved`` and ``qgoldptkb``.

        With ``"automatic"``, the queries are the organisers' rewrites by a model, for datasets that
        have them.

        Raises:
            UsageError: for another variant.
        """
        self._check_variant("topics", variant, self.topic_variants)
        return topics_frame(self.conversations, manual=variant == "manual")

    def get_answers(self) -> pd.DataFrame:
        """The gold answers, ``qid`` and ``gold_answer``: for evaluation only."""
        return answers_frame(self.conversations)

    def clusters(self, unit: str | None = None) -> dict[str, str]:
        """The unit of each turn, by qid: turns of the same one may depend on each other.

        Args:
            unit: ``"turn"``, ``"conversation"`` or the dataset's own :attr:`unit`, which is the
                default.

        Raises:
            UsageError: for another unit.

        Example:
            >>> import pyterrier_ikat as ikat
            >>> sample = ikat.dataset("ikat:sample")  # two of its four conversations are about topic 1
            >>> sample.unit, len(set(sample.clusters().values())), len(set(sample.clusters("conversation").values()))
            ('topic', 3, 4)
        """
        unit = unit or self.unit
        known = list(dict.fromkeys(["turn", "conversation", self.unit]))
        if unit not in known:
            raise UsageError(
                f"{self.name} doesn't say which {unit} a turn belongs to: its units are {', '.join(known)}"
            )
        conversations = self._conversation_of_turns()
        if unit == "turn":
            return {qid: qid for qid in conversations}
        if unit == "conversation":
            return conversations
        return {qid: self._unit_of(conversation) for qid, conversation in conversations.items()}

    def _conversation_of_turns(self) -> dict[str, str]:
        return {chat.qid(turn): chat.number for chat in self.conversations for turn in chat.turns}

    def _unit_of(self, conversation: str) -> str:
        """The topic or user of a conversation: the first number of ``9-1``."""
        return conversation.partition("-")[0]

    def get_qrels(self, variant: str | None = None) -> pd.DataFrame:
        """Judgements ``qid``, ``docno``, ``label``; for the PTKB variants ``docno`` is the statement id.

        Args:
            variant: None for the passage judgements, or one of the dataset's own names, see the
                page on datasets.

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
            DataError: when there are no passages, or a passage file is malformed (named with its
                line).
        """
        shown = bar(
            self._passages(),
            desc=f"{self.name} passages",
            unit="passage",
            total=self.size,
            disable=not verbose,
        )
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
            UsageError: when the dataset has none of its own. An index of its passages stores their
                texts.
        """
        if (texts := self._texts(fields)) is not None:
            return texts
        what = (
            f"{self.size:,} passages, too many to hold in memory" if self.size else "no text loader"
        )
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
            there = (
                f" {variant!r}; there are {names}"
                if names
                else f": give a file of your own ({advice('qrels=', '--qrels')})"
            )
            raise UsageError(f"{self.name} has no {what}{there}")

    def _provenance(self) -> pd.DataFrame:
        return provenance_qrels(self.conversations)

    def _ptkb(self) -> pd.DataFrame:
        return ptkb_qrels(self.conversations)

    def _describe_component(self, component: str) -> bool | list[str] | None:
        if component == "topics":
            return [name for name in self.topic_variants if name] or True
        return (
            [name for name in self._qrels() if name]
            if component == "qrels"
            else (component == "corpus" or None)
        )

    def __repr__(self) -> str:
        return (
            f"pt.get_dataset({self.name!r})"
            if self.name.startswith(PREFIX)
            else f"ikat.dataset({self.name!r})"
        )


class GivenDataset(IkatDataset):
    """An object with PyTerrier's dataset methods as a dataset of ours. Columns that its topics lack for a turn frame are filled in.

    Args:
        given: has ``get_topics``, and those that are used of ``get_qrels``, ``get_corpus_iter``,
            ``get_answers``, ``text_loader``, ``collection``; or its class. Gold columns of its
            topics (``qresolved``, ``qgoldptkb``, ``gold_...``) are shown only by
            ``get_topics("manual")``. If it is a dataset of PyTerrier that lists this variant, its
            own is used.
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

    @cached_property
    def declares_unit(self) -> bool:  # type: ignore[override]
        """Whether its topics have ``qconversation``."""
        return "qconversation" in self.given.get_topics().columns

    @property
    def conversations(self) -> list[Conversation]:
        """Each turn as its own conversation, with its history."""
        rows = list(self.get_topics("manual").itertuples())
        turns = (
            TopicTurn(
                row.qturn, row.query, "", row.qresolved, qid=row.qid, history=tuple(row.qhistory)
            )
            for row in rows
        )
        return [
            Conversation(row.qid, ptkb=row.qptkb, turns=(turn,))
            for row, turn in zip(rows, turns, strict=True)
        ]

    def get_topics(self, variant: str | None = None) -> pd.DataFrame:
        """The turn frame, see :meth:`IkatDataset.get_topics`."""
        self._check_variant("topics", variant, self.topic_variants)
        frame = _turn_frame(
            self.given.get_topics("manual")
            if variant in self._listed("topics")
            else self.given.get_topics()
        )
        gold = [
            name for name in frame.columns if name in MANUAL_COLUMNS or str(name).startswith("gold")
        ]
        if variant is None:
            return frame.drop(columns=gold)
        stand_ins: dict[str, list[Any]] = {
            "qresolved": texts_in(frame, "qutterance"),
            "qgoldptkb": [[] for _ in range(len(frame))],
        }
        return with_columns(
            frame, **{name: cells for name, cells in stand_ins.items() if name not in gold}
        )

    def _conversation_of_turns(self) -> dict[str, str]:
        topics = self.get_topics()
        return dict(zip(topics["qid"], map(str, topics["qconversation"]), strict=True))

    def get_answers(self) -> pd.DataFrame:
        """Its gold answers. Empty when it has none.

        Raises:
            DataError: when a turn has two.
        """
        if not hasattr(self.given, "get_answers"):
            return object_frame(
                {"qid": (qids := self.get_topics()["qid"]), "gold_answer": [""] * len(qids)}
            )
        answers: pd.DataFrame = self.given.get_answers()
        each_turn_once(answers)
        return answers

    def get_qrels(self, variant: str | None = None) -> pd.DataFrame:
        """Its judgements, checked."""
        found: pd.DataFrame = (
            self.given.get_qrels() if variant is None else self.given.get_qrels(variant)
        )
        return found if found.empty else check_qrels(found)

    def text_loader(self, fields: Fields = "text", *, verbose: bool = False) -> Any:
        """Its own text loader."""
        return (
            self.given.text_loader(fields, verbose=verbose)
            if hasattr(self.given, "text_loader")
            else super().text_loader(fields)
        )

    def collection(self) -> tuple[int | None, frozenset[str] | None]:
        """How many passages it has and which; None where it doesn't say. A run warns about an index of another collection."""
        said: tuple[int | None, frozenset[str] | None] = (
            self.given.collection() if hasattr(self.given, "collection") else (None, None)
        )
        return said

    def _listed(self, component: str) -> list[str]:
        """The variants that a dataset of PyTerrier lists."""
        listed = (
            self.given._describe_component(component)
            if isinstance(self.given, pt.datasets.Dataset)
            else None
        )
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
    queries, qids, said = (
        texts_in(topics, "query"),
        list(map(str, topics["qid"])),
        histories(topics),
    )
    numbers = [1 + sum(message["role"] == "user" for message in history) for history in said]
    stand_ins: dict[str, list[Any]] = {
        "qutterance": queries,
        "qconversation": qids,
        "qturn": numbers,
    }
    columns = {
        name: values(topics, name) if name in topics.columns else cells
        for name, cells in stand_ins.items()
    }
    return with_columns(
        topics, qid=qids, **columns, qhistory=said, qptkb=personas(topics)
    ).reset_index(drop=True)


class FolderDataset(IkatDataset):
    """A collection in a folder, or only a topics file ``.json``, such as an exported chat, for an index that is given separately.

    =============================
    ==================================================================================================
    ``topics.jsonl``               turns, one per line, see
    :func:`~pyterrier_ikat.conversations.topics.read_topics`; or
                                   ``topics.json`` as TREC iKAT publishes it
    ``passages.jsonl``             ``{"docno", "text"}`` or ``{"id", "contents"}`` per line, with a ``title`` or without one; also packed,
                                   ``.gz`` or ``.bz2``
    ``qrels.txt``                  judgements, ``qid 0 docno label`` per line; may be missing
    ``qrels.NAME.txt``             other judgements, the variant NAME; a NAME that begins with
    ``ptkb`` judges PTKB statements =============================
    ==================================================================================================

    An error in a file is a ``DataError`` that names file and line, and a doubtful judgement is a
    ``CollectionWarning``.

    Args:
        folder: its path, or that of the topics file; ``~`` is the home folder.

    Raises:
        UsageError: when there is no such folder, or it has neither topics nor passages.
    """

    def __init__(self, folder: str | Path):
        self.folder = Path(folder).expanduser().absolute()
        names = (*TOPICS, *PASSAGES, QRELS)
        found = [name for name in names if (self.folder / name).exists()]
        if not found and self.folder.suffix != ".json":
            raise UsageError(
                f"there is no dataset and no folder {str(folder)!r} with {' or '.join(names)}: give the path of such a folder"
            )
        self.name, self.summary = (
            str(self.folder),
            f"a folder with {', '.join(found)}" if found else "a topics file",
        )
        self._doubted: set[str | None] = set()

    @cached_property
    def conversations(self) -> list[Conversation]:
        """Its conversations with everything that the topics file says, gold included."""
        return read_topics(self._topics())

    def get_qrels(self, variant: str | None = None) -> pd.DataFrame:
        """Its judgements, see :meth:`IkatDataset.get_qrels`. Without ``qrels.txt``, there are none, with a ``CollectionWarning``.

        Warns:
            CollectionWarning: once, for judged turns that are not in the topics, judged passages
            that are not among the passages, and
                unjudged turns.
        """
        found = super().get_qrels(variant)
        if variant not in self._doubted and len(found):
            self._doubted.add(variant)
            for doubt in self._doubts(variant, found):
                warnings.warn(doubt, CollectionWarning, stacklevel=2)
        return found

    def _topics(self) -> Path:
        if not self.folder.is_dir():
            return self.folder
        found = [self.folder / name for name in TOPICS if (self.folder / name).exists()]
        if len(found) != 1:
            raise DataError(
                f"{self.folder} has {'both' if found else 'none'} of {' and '.join(TOPICS)}: give it one of the two"
            )
        return found[0]

    @property
    def passage_file(self) -> Path | None:
        """Its passages."""
        return next((file for file in collection_files(self.folder) if file.name in PASSAGES), None)

    def _passages(self) -> Iterable[dict[str, str]]:
        if self.passage_file is None:
            raise DataError(
                f'{self.folder} has no {PASSAGES[0]}: add it, a line is {{"docno": ..., "text": ...}}'
            )
        return PassageFiles(self.passage_file)

    def _texts(self, fields: Fields = "text") -> TextLoader | None:
        file = self.passage_file
        return (
            TextLoader(file, fields)
            if file is not None and file.stat().st_size <= HELD_BYTES
            else None
        )

    def _qrels(self) -> Qrels:
        files = {
            path.name.removeprefix("qrels.").removesuffix(".txt"): path
            for path in sorted(self.folder.glob("qrels.*.txt"))
        }
        found: Qrels = {
            None: self._graded,
            **{name: partial(read_qrels, path) for name, path in files.items()},
        }
        if (self.folder / TOPICS[1]).exists():
            found = {
                **found,
                STATEMENTS: found.get(STATEMENTS, self._ptkb),
                "provenance": self._provenance,
            }
        return found

    def _graded(self) -> pd.DataFrame:
        path = self.folder / QRELS
        if path.exists():
            return read_qrels(path)
        if self.folder.is_dir():
            warnings.warn(
                f"{self.folder} has no {QRELS}: nothing is judged, so there are no scores",
                CollectionWarning,
                stacklevel=4,
            )
        return qrels_frame([])

    def _doubts(self, variant: str | None, qrels: pd.DataFrame) -> Iterator[str]:
        path = self.folder / (QRELS if variant is None else f"qrels.{variant}.txt")
        if not path.exists():  # of the topics themselves
            return
        topics, judged = self._topics().name, set(qrels["qid"])
        turns = {chat.qid(turn): chat.ptkb for chat in self.conversations for turn in chat.turns}
        of_statements = variant is not None and variant.startswith(STATEMENTS)
        docnos = None if of_statements else self.collection()[1]
        there = (turns.get(qid) if of_statements else docnos for qid in qrels["qid"])
        lacking = [
            name
            for name, known in zip(qrels["docno"], there, strict=True)
            if known is not None and name not in known
        ]
        what = (
            f"statements that the turn's ptkb in {topics}"
            if of_statements
            else f"passages that {PASSAGES[0]}"
        )
        doubts = {
            f"judged turns that {topics} lacks": [qid for qid in qrels["qid"] if qid not in turns],
            f"of {len(turns)} turns in {topics} without a judgement": [
                qid for qid in turns if qid not in judged
            ],
            f"judged {what} lacks": lacking,
        }
        for doubt, names in doubts.items():
            if names:
                yield f"{path}: {len(set(names))} {doubt} ({list_first(list(dict.fromkeys(names)))})"


class SampleDataset(FolderDataset):
    """The bundled sample: small conversations and passages written for this package, and recorded LLM completions."""

    year = 2023
    unit = "topic"
    unit_reason = "Conversations 1-1 and 1-2 are about the same topic with two users, as in 2023."

    get_qrels = IkatDataset.get_qrels  # nothing in it is doubtful

    def __init__(self, folder: Path = SAMPLE):
        super().__init__(folder)
        self.name = f"{PREFIX}sample"
        self.summary = "bundled: conversations, passages, graded and PTKB qrels, recorded completions, all written for this package"

    @property
    def recorded(self) -> Path:
        """The recorded completions (no model wrote them: they were written with the sample)."""
        return self.folder / "recorded.jsonl"


IRDS = "irds:"
STORE_AT_ONCE = 1_000_000
"""Passages up to this number are put into the store of ir_datasets when their texts are asked for."""


class IrdsDataset(IkatDataset):
    """A dataset of ir_datasets, which fetches the files itself. Each query is a conversation of one turn.

    The texts of queries and passages are ``default_text()`` of ir_datasets.

    Args:
        irds_id: its name in ir_datasets, such as ``"vaswani"``.

    Raises:
        UsageError: when ir_datasets has no such dataset, or its queries are turns of TREC CAsT.
    """

    def __init__(self, irds_id: str):
        self.irds_id, self.name = irds_id, IRDS + irds_id
        self.unit, self.unit_reason = (
            "turn",
            "Queries of ir_datasets are independent of each other.",
        )
        self.summary, self.page = (
            f"{irds_id} of ir_datasets",
            f"https://ir-datasets.com/{irds_id.partition('/')[0]}.html",
        )
        self.size = self.given.metadata().get("docs", {}).get("count")
        if self.given.has_queries() and "turn_number" in self.given.queries_cls()._fields:
            raise UsageError(
                f"the queries of {self.name} are turns of conversations: take cast:2019, cast:2020, cast:2021 or cast:2022"
            )

    @property
    def given(self) -> Any:
        """The dataset of ir_datasets."""
        import ir_datasets

        try:
            return ir_datasets.load(self.irds_id)
        except KeyError:
            raise UsageError(
                f"ir_datasets has no dataset {self.irds_id!r}; https://ir-datasets.com lists them"
            ) from None

    @cached_property
    def conversations(self) -> list[Conversation]:
        """Its queries."""
        if not self.given.has_queries():
            raise UsageError(
                f"{self.name} has passages and no queries: take one of its subsets on {self.page}"
            )
        texts = {query.query_id: _text(query) for query in self.given.queries_iter()}
        return [
            Conversation(qid, turns=(TopicTurn(1, text, "", qid=qid),))
            for qid, text in texts.items()
        ]

    def text_loader(self, fields: Fields = "text", *, verbose: bool = False) -> Any:
        """An operator that adds the passages' ``text`` by ``docno``, from the store of all passages that ir_datasets builds once.

        Raises:
            UsageError: for other fields, and when building that store would take long. Use the
                texts of an index then.
        """
        fields_named(fields, ["text"])
        store = self.given.docs_store() if self.given.has_docs() else None
        is_quick = (self.size or STORE_AT_ONCE + 1) <= STORE_AT_ONCE or getattr(
            store, "built", bool
        )()
        return (
            DocstoreText(self.irds_id)
            if store is not None and is_quick
            else super().text_loader(fields)
        )

    def _qrels(self) -> Qrels:
        return {None: self._graded} if self.given.has_qrels() else {}

    def _graded(self) -> pd.DataFrame:
        return qrels_frame(
            dict.fromkeys(
                (row.query_id, row.doc_id, row.relevance) for row in self.given.qrels_iter()
            )
        )

    def _passages(self) -> Iterable[dict[str, str]]:
        if not self.given.has_docs():
            raise DataError(
                f"{self.name} has no passages: give an index of the collection that was judged"
            )
        return (
            {"docno": one.doc_id, "text": _text(one), "url": getattr(one, "url", None) or ""}
            for one in self.given.docs_iter()
        )


class DocstoreText(TextLoader):
    """Adds the text of each passage by its ``docno``, from the document store of ir_datasets.

    Args:
        irds_id: the dataset's name in ir_datasets; its store is built at first use.

    Needs ``docno``; adds ``text`` and keeps everything else.

    Raises:
        DataError: when a docno isn't in the store.
    """

    def __init__(self, irds_id: str) -> None:
        super().__init__(irds_id)
        self.irds_id = irds_id

    def passages(self, docnos: Iterable[str]) -> Mapping[str, Mapping[str, str]]:
        """The texts of these passages, by docno."""
        store = IrdsDataset(self.irds_id).given.docs_store()
        return {one.doc_id: {"text": _text(one)} for one in store.get_many_iter(set(docnos))}


def _text(item: Any) -> str:
    text: str = item.default_text().strip()
    return text
