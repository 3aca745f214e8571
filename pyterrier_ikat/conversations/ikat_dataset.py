"""Datasets: topics, answers, judgements and passages under one name.

Any object that has them becomes a dataset, and so does a folder with ``topics.jsonl``,
``passages.jsonl`` and ``qrels.txt``. The bundled sample is such a folder.
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
from .passages import (
    PASSAGES_FILES,
    TOPICS_FILES,
    Fields,
    PassageFiles,
    TextLoader,
    collection_files,
)
from .qrels import check_qrels, qrels_frame, read_qrels
from .topic_files import read_topics
from .topics import (
    MANUAL_COLUMNS,
    CollectionWarning,
    Conversation,
    TopicTurn,
    answers_frame,
    provenance_qrels,
    ptkb_qrels,
    topics_frame,
)

IKAT_PREFIX = "ikat:"


QRELS_FILE = "qrels.txt"
STATEMENTS = "ptkb"
"""The beginning of the names of the qrels of PTKB statements."""
HELD_BYTES = 1 << 28
"""Passage files up to this size are held in memory, to look up docnos and texts."""
SAMPLE = Path(__file__).parent / "sample"

Qrels = dict[str | None, Callable[[], pd.DataFrame]]


class IkatDataset(pt.datasets.Dataset, ABC):
    """Conversations, judgements and passages under one name.

    Each file is fetched and read at first use.

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
    def topics_file(self) -> Path | None:
        """The file of its topics, if it is a dataset without judgements by itself."""
        return None

    @property
    @abstractmethod
    def conversations(self) -> list[Conversation]:
        """The conversations with everything in their file, including gold fields."""

    def get_topics(self, variant: str | None = None) -> pd.DataFrame:
        """Return the turn frame, without gold fields for an automatic run.

        Args:
            variant: ``"manual"`` adds ``qresolved`` and ``qgoldptkb``. With ``"automatic"``, the
                queries are the organisers' rewrites by a model, for datasets that have them.

        Raises:
            UsageError: for another variant.
        """
        self._check_variant("topics", variant, self.topic_variants)
        return topics_frame(self.conversations, manual=variant == "manual")

    def get_answers(self) -> pd.DataFrame:
        """Return the gold answers, ``qid`` and ``gold_answer``: for evaluation only."""
        return answers_frame(self.conversations)

    def clusters(self, unit: str | None = None) -> dict[str, str]:
        """Return the unit of each turn, by qid: turns of the same unit may depend on each other.

        Args:
            unit: ``"turn"``, ``"conversation"`` or the dataset's own :attr:`unit`, which is the
                default.

        Raises:
            UsageError: for another unit.

        Example:
            >>> import pyterrier_ikat as ikat
            >>> sample = ikat.dataset("ikat:sample")
            >>> topics = set(sample.clusters().values())
            >>> conversations = set(sample.clusters("conversation").values())
            >>> sample.unit, len(topics), len(conversations)  # two of the four share a topic
            ('topic', 3, 4)
        """
        unit = unit or self.unit
        known_units = list(dict.fromkeys(["turn", "conversation", self.unit]))
        if unit not in known_units:
            units = ", ".join(known_units)
            raise UsageError(
                f"{self.name} doesn't say which {unit} a turn belongs to: its units are {units}"
            )
        conversations = self._conversation_of_turns()
        if unit == "turn":
            return {qid: qid for qid in conversations}
        if unit == "conversation":
            return conversations
        return {qid: self._unit_of(conversation) for qid, conversation in conversations.items()}

    def _conversation_of_turns(self) -> dict[str, str]:
        conversation_of = {}
        for chat in self.conversations:
            for turn in chat.turns:
                conversation_of[chat.qid(turn)] = chat.number
        return conversation_of

    def _unit_of(self, conversation: str) -> str:
        """Return the topic or user of a conversation: the first number of ``9-1``."""
        return conversation.partition("-")[0]

    def get_qrels(self, variant: str | None = None) -> pd.DataFrame:
        """Return judgements: ``qid``, ``docno``, ``label``.

        Args:
            variant: None for the passage judgements, or one of the dataset's own names, see the
                page on datasets. In the PTKB variants, ``docno`` is the statement id.

        Raises:
            UsageError: for another variant.
            DataError: when the file is missing, can't be fetched, or is malformed.
        """
        qrels = self._qrels()
        self._check_variant("qrels", variant, qrels)
        return qrels[variant]()

    def qrels_variants(self) -> list[str]:
        """Return the names of its judgements besides the default."""
        return [name for name in self._qrels() if name]

    def get_topicsqrels(self, variant: str | None = None) -> tuple[pd.DataFrame, pd.DataFrame]:
        """Return ``get_topics(variant)`` and the passage judgements."""
        return self.get_topics(variant), self.get_qrels()

    def get_corpus_iter(self, *, verbose: bool = True) -> Iterable[dict[str, Any]]:
        """Stream the passages, ``{"docno", "text", "url"}`` each.

        Args:
            verbose: show a progress bar.

        Raises:
            DataError: when there are no passages, or a passage file is malformed (named with its
                line).
        """
        passages = bar(
            self._passages(),
            desc=f"{self.name} passages",
            unit="passage",
            total=self.size,
            disable=not verbose,
        )
        if not self.size:
            return iter(passages)
        return pt.utils.GeneratorLen(iter(passages), self.size)  # type: ignore[no-untyped-call]

    def collection(self) -> tuple[int | None, frozenset[str] | None]:
        """Return the number of passages, and their docnos if they fit in memory. None: unknown."""
        texts = self._texts()
        if texts is None:
            return self.size, None
        return len(texts.all), frozenset(texts.all)

    def text_loader(self, fields: Fields = "text", *, verbose: bool = False) -> TextLoader:
        """Make an operator that adds the passages' ``fields`` by ``docno``.

        ``pt.text.get_text(dataset)`` makes it as well.

        Args:
            fields: ``"text"``, ``"url"``, a list of both, or ``"*"`` for all.
            verbose: has no effect; PyTerrier gives it to every loader.

        Raises:
            UsageError: when the dataset has none of its own. An index of its passages stores their
                texts.
        """
        texts = self._texts(fields)
        if texts is not None:
            return texts
        reason = "no text loader"
        if self.size:
            reason = f"{self.size:,} passages, too many to hold in memory"
        repair = advice("take ikat.PassageIndex(PATH).text_loader()", "give --index PATH")
        raise UsageError(f"{self.name} has {reason}: index its passages and {repair}")

    def info_url(self) -> str | None:
        """Return the address of its page."""
        return self.page

    @abstractmethod
    def _qrels(self) -> Qrels: ...

    @abstractmethod
    def _passages(self) -> Iterable[dict[str, str]]: ...

    def _texts(self, fields: Fields = "text") -> TextLoader | None:
        """Make the loader of the passages' texts, if they fit in memory."""
        return None

    def _check_variant(self, what: str, variant: str | None, known: Iterable[str | None]) -> None:
        if variant in known:
            return
        names = ", ".join(name or "the default" for name in known)
        if not names:
            own = f"give a file of your own ({advice('qrels=', '--qrels')})"
            raise UsageError(f"{self.name} has no {what}: {own}")
        raise UsageError(f"{self.name} has no {what} {variant!r}; there are {names}")

    def _provenance(self) -> pd.DataFrame:
        return provenance_qrels(self.conversations)

    def _ptkb(self) -> pd.DataFrame:
        return ptkb_qrels(self.conversations)

    def _describe_component(self, component: str) -> bool | list[str] | None:
        """List the components and the names of their variants, for PyTerrier."""
        if component == "topics":
            return [name for name in self.topic_variants if name] or True
        if component == "qrels":
            return self.qrels_variants()
        return True if component == "corpus" else None

    def __repr__(self) -> str:
        is_ours = self.name.startswith(IKAT_PREFIX)
        return f"{'pt.get_dataset' if is_ours else 'ikat.dataset'}({self.name!r})"


class GivenDataset(IkatDataset):
    """An object with PyTerrier's dataset methods as a dataset of ours.

    Columns that its topics lack for a turn frame are filled in.

    Args:
        source: has ``get_topics``, and those that are used of ``get_qrels``, ``get_corpus_iter``,
            ``get_answers``, ``text_loader``, ``collection``; or its class. Gold columns of its
            topics (``qresolved``, ``qgoldptkb``, ``gold_...``) are shown only by
            ``get_topics("manual")``. If it is a dataset of PyTerrier that lists this variant, its
            own is used.
        name: its name. By default its own name, or that of its class.

    Raises:
        UsageError: when it has no topics.
    """

    def __init__(self, source: Any, name: str = ""):
        self.source = source() if isinstance(source, type) else source
        if not callable(getattr(self.source, "get_topics", None)):
            if hasattr(source, "columns"):
                raise UsageError("the dataset is a frame: give topics=FRAME, qrels=FRAME")
            raise UsageError(
                f"{repr(source)[:80]} is not a dataset: "
                "give a name, a folder, or an object with get_topics(), get_qrels(), ..."
            )
        class_name = type(self.source).__name__
        self.name = name or str(getattr(self.source, "name", None) or class_name)
        self.summary = f"a {class_name}"
        self.year = getattr(self.source, "year", None)

    @cached_property
    def declares_unit(self) -> bool:  # type: ignore[override]
        """Whether its topics have ``qconversation``."""
        return "qconversation" in self.source.get_topics().columns

    @property
    def conversations(self) -> list[Conversation]:
        """The turns, each as its own conversation with its history."""
        conversations = []
        for row in self.get_topics("manual").itertuples():
            turn = TopicTurn(
                row.qturn,
                row.query,
                "",
                row.qresolved,
                qid=row.qid,
                history=tuple(row.qhistory),
            )
            conversations.append(Conversation(row.qid, ptkb=row.qptkb, turns=(turn,)))
        return conversations

    def get_topics(self, variant: str | None = None) -> pd.DataFrame:
        """Return the turn frame, see :meth:`IkatDataset.get_topics`."""
        self._check_variant("topics", variant, self.topic_variants)
        if variant in self._listed("topics"):
            topics = self.source.get_topics(variant)
        else:
            topics = self.source.get_topics()
        frame = _turn_frame(topics)
        gold = []
        for name in frame.columns:
            if name in MANUAL_COLUMNS or str(name).startswith("gold"):
                gold.append(name)
        if variant is None:
            return frame.drop(columns=gold)
        if "qresolved" not in gold:
            frame = with_columns(frame, qresolved=texts_in(frame, "qutterance"))
        if "qgoldptkb" not in gold:
            frame = with_columns(frame, qgoldptkb=[[] for _ in range(len(frame))])
        return frame

    def _conversation_of_turns(self) -> dict[str, str]:
        topics = self.get_topics()
        return dict(zip(topics["qid"], map(str, topics["qconversation"]), strict=True))

    def get_answers(self) -> pd.DataFrame:
        """Return its gold answers. Empty texts when it has none.

        Raises:
            DataError: when a turn has two.
        """
        if not hasattr(self.source, "get_answers"):
            qids = self.get_topics()["qid"]
            return object_frame({"qid": qids, "gold_answer": [""] * len(qids)})
        answers: pd.DataFrame = self.source.get_answers()
        each_turn_once(answers)
        return answers

    def get_qrels(self, variant: str | None = None) -> pd.DataFrame:
        """Return its judgements, checked."""
        arguments = () if variant is None else (variant,)
        qrels: pd.DataFrame = self.source.get_qrels(*arguments)
        return qrels if qrels.empty else check_qrels(qrels)

    def text_loader(self, fields: Fields = "text", *, verbose: bool = False) -> Any:
        """Return its own text loader."""
        if hasattr(self.source, "text_loader"):
            return self.source.text_loader(fields, verbose=verbose)
        return super().text_loader(fields)

    def collection(self) -> tuple[int | None, frozenset[str] | None]:
        """Return the number and the docnos of its passages; None if unknown.

        A run warns about an index of another collection.
        """
        if not hasattr(self.source, "collection"):
            return None, None
        collection: tuple[int | None, frozenset[str] | None] = self.source.collection()
        return collection

    def _listed(self, component: str) -> list[str]:
        """Return the listed variants of a dataset of PyTerrier."""
        if not isinstance(self.source, pt.datasets.Dataset):
            return []
        variants = self.source._describe_component(component)
        return variants if isinstance(variants, list) else []

    def _qrels(self) -> Qrels:
        return {name: partial(self.get_qrels, name) for name in (None, *self._listed("qrels"))}

    def _passages(self) -> Iterable[dict[str, str]]:
        if isinstance(self.source, pt.datasets.Dataset):
            return self.source.get_corpus_iter(verbose=False)  # type: ignore[no-any-return]
        return self.source.get_corpus_iter()  # type: ignore[no-any-return]

    def __repr__(self) -> str:
        return f"ikat.dataset({self.source!r})"


def _turn_frame(topics: pd.DataFrame) -> pd.DataFrame:
    """Fill in missing columns of a turn frame.

    By default there is an empty history, an empty PTKB and one conversation per turn.
    """
    pt.validate.query_frame(topics)
    queries = texts_in(topics, "query")
    qids = [str(qid) for qid in topics["qid"]]
    past = histories(topics)
    numbers = []
    for history in past:
        questions = sum(message["role"] == "user" for message in history)
        numbers.append(1 + questions)
    stand_ins: dict[str, list[Any]] = {
        "qutterance": queries,
        "qconversation": qids,
        "qturn": numbers,
    }
    columns = {}
    for name, stand_in in stand_ins.items():
        columns[name] = values(topics, name) if name in topics.columns else stand_in
    frame = with_columns(topics, qid=qids, **columns, qhistory=past, qptkb=personas(topics))
    return frame.reset_index(drop=True)


class FolderDataset(IkatDataset):
    """A collection in a folder, or a topics file ``.json`` alone, such as an exported chat.

    A topics file alone is searched in an index that is given separately.

    ====================  ==========================================================================
    ``topics.jsonl``      turns, one per line, see
                          :func:`~pyterrier_ikat.conversations.topic_files.read_topics`;
                          or ``topics.json`` as TREC iKAT publishes it
    ``passages.jsonl``    ``{"docno", "text"}`` or ``{"id", "contents"}`` per line, with a ``title``
                          or without one; also packed, ``.gz`` or ``.bz2``
    ``qrels.txt``         judgements, ``qid 0 docno label`` per line; may be missing
    ``qrels.NAME.txt``    other judgements, the variant NAME; a NAME that begins with ``ptkb``
                          judges PTKB statements
    ====================  ==========================================================================

    An error in a file is a ``DataError`` that names file and line, and a doubtful judgement is a
    ``CollectionWarning``.

    Args:
        folder: its path, or that of the topics file; ``~`` is the home folder.

    Raises:
        UsageError: when there is no such folder, or it has neither topics nor passages.
    """

    def __init__(self, folder: str | Path):
        self.folder = Path(folder).expanduser().absolute()
        names = (*TOPICS_FILES, *PASSAGES_FILES, QRELS_FILE)
        files = [name for name in names if (self.folder / name).exists()]
        if not files and self.folder.suffix != ".json":
            raise UsageError(
                f"there is no dataset and no folder {str(folder)!r} with {' or '.join(names)}: "
                "give the path of such a folder"
            )
        self.name = str(self.folder)
        self.summary = f"a folder with {', '.join(files)}" if files else "a topics file"
        self._doubted: set[str | None] = set()

    @cached_property
    def conversations(self) -> list[Conversation]:
        """Its conversations with everything in the topics file, gold included."""
        return read_topics(self._topics())

    def get_qrels(self, variant: str | None = None) -> pd.DataFrame:
        """Return its judgements, see :meth:`IkatDataset.get_qrels`.

        Without ``qrels.txt``, there are none.

        Warns:
            CollectionWarning: once, for judged turns that are not in the topics, judged passages
                that are not among the passages, and unjudged turns; and without ``qrels.txt``.
        """
        qrels = super().get_qrels(variant)
        if variant not in self._doubted and len(qrels):
            self._doubted.add(variant)
            for doubt in self._doubts(variant, qrels):
                warnings.warn(doubt, CollectionWarning, stacklevel=2)
        return qrels

    def _topics(self) -> Path:
        if not self.folder.is_dir():
            return self.folder
        paths = [self.folder / name for name in TOPICS_FILES if (self.folder / name).exists()]
        if len(paths) != 1:
            number = "both" if paths else "none"
            names = " and ".join(TOPICS_FILES)
            raise DataError(f"{self.folder} has {number} of {names}: give it one of the two")
        return paths[0]

    @property
    def passage_file(self) -> Path | None:
        """The file of its passages."""
        for file in collection_files(self.folder):
            if file.name in PASSAGES_FILES:
                return file
        return None

    def _passages(self) -> Iterable[dict[str, str]]:
        if self.passage_file is None:
            line = 'a line is {"docno": ..., "text": ...}'
            raise DataError(f"{self.folder} has no {PASSAGES_FILES[0]}: add it, {line}")
        return PassageFiles(self.passage_file)

    def _texts(self, fields: Fields = "text") -> TextLoader | None:
        file = self.passage_file
        if file is None or file.stat().st_size > HELD_BYTES:
            return None
        return TextLoader(file, fields)

    def _qrels(self) -> Qrels:
        qrels: Qrels = {None: self._graded}
        for path in sorted(self.folder.glob("qrels.*.txt")):
            name = path.name.removeprefix("qrels.").removesuffix(".txt")
            qrels[name] = partial(read_qrels, path)
        if (self.folder / "topics.json").exists():  # of TREC iKAT, with gold fields
            qrels.setdefault(STATEMENTS, self._ptkb)
            qrels["provenance"] = self._provenance
        return qrels

    def _graded(self) -> pd.DataFrame:
        path = self.folder / QRELS_FILE
        if path.exists():
            return read_qrels(path)
        if self.folder.is_dir():
            warnings.warn(
                f"{self.folder} has no {QRELS_FILE}: nothing is judged, so there are no scores",
                CollectionWarning,
                stacklevel=4,
            )
        return qrels_frame([])

    def _doubts(self, variant: str | None, qrels: pd.DataFrame) -> Iterator[str]:
        """Describe doubtful judgements in a file."""
        path = self.folder / (QRELS_FILE if variant is None else f"qrels.{variant}.txt")
        if not path.exists():  # made of the topics' gold fields
            return
        topics = self._topics().name
        ptkb_of = {}
        for chat in self.conversations:
            for turn in chat.turns:
                ptkb_of[chat.qid(turn)] = chat.ptkb
        judged = dict.fromkeys(qrels["qid"])
        unknown = [qid for qid in judged if qid not in ptkb_of]
        if unknown:
            yield _doubt(path, f"judged turns that {topics} lacks", unknown)
        unjudged = [qid for qid in ptkb_of if qid not in judged]
        if unjudged:
            of_turns = f"of {len(ptkb_of)} turns in {topics} without a judgement"
            yield _doubt(path, of_turns, unjudged)
        if variant is not None and variant.startswith(STATEMENTS):
            lacking = _unknown_statements(qrels, ptkb_of)
            what = f"judged statements that the turn's ptkb in {topics} lacks"
        else:
            docnos = self.collection()[1]
            lacking = []
            if docnos is not None:
                lacking = [docno for docno in qrels["docno"] if docno not in docnos]
            what = f"judged passages that {PASSAGES_FILES[0]} lacks"
        if lacking:
            yield _doubt(path, what, lacking)


def _unknown_statements(qrels: pd.DataFrame, ptkb_of: Mapping[str, Mapping[str, str]]) -> list[str]:
    """Return the judged statements missing from the PTKB of their known turn."""
    unknown = []
    for qid, statement_id in zip(qrels["qid"], qrels["docno"], strict=True):
        if qid in ptkb_of and statement_id not in ptkb_of[qid]:
            unknown.append(statement_id)
    return unknown


def _doubt(path: Path, what: str, names: Iterable[str]) -> str:
    distinct = list(dict.fromkeys(names))
    return f"{path}: {len(distinct)} {what} ({list_first(distinct)})"


class SampleDataset(FolderDataset):
    """The bundled sample: small conversations and passages, and recorded LLM completions."""

    year = 2023
    unit = "topic"
    unit_reason = "Conversations 1-1 and 1-2 are about the same topic with two users, as in 2023."

    get_qrels = IkatDataset.get_qrels  # nothing in it is doubtful

    def __init__(self, folder: Path = SAMPLE):
        super().__init__(folder)
        self.name = f"{IKAT_PREFIX}sample"
        self.summary = (
            "bundled: conversations, passages, graded and PTKB qrels, recorded completions, "
            "all written for this package"
        )

    @property
    def recorded(self) -> Path:
        """The recorded completions, written by hand with the sample."""
        return self.folder / "recorded.jsonl"
