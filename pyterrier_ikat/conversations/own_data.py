"""Collections of your own: a folder with ``topics.jsonl``, ``passages.jsonl`` and ``qrels.txt``, and the datasets of ir_datasets.

The bundled sample is such a folder. Of ir_datasets, each query is a turn without a history.
"""

import warnings
from collections.abc import Iterable, Iterator, Mapping
from functools import cached_property, partial
from pathlib import Path
from typing import Any

import pandas as pd

from ..errors import DataError, UsageError, list_first
from .ikat_dataset import PREFIX, IkatDataset, Qrels
from .passages import PASSAGES, Fields, PassageFiles, TextLoader, collection_files, fields_named
from .qrels import qrels_frame, read_qrels
from .topics import CollectionWarning, Conversation, TopicTurn, read_topics

TOPICS = ("topics.jsonl", "topics.json")
QRELS = "qrels.txt"
STATEMENTS = "ptkb"
"""The beginning of the names of the qrels of PTKB statements."""
HELD_BYTES = 1 << 28
"""Passage files up to this size are held in memory, to look up docnos and texts."""
SAMPLE = Path(__file__).parent / "sample"


class FolderDataset(IkatDataset):
    """A collection in a folder, or only a topics file ``.json``, such as an exported chat, for an index that is given separately.

    =============================  ==================================================================================================
    ``topics.jsonl``               turns, one per line, see :func:`~pyterrier_ikat.conversations.topics.read_topics`; or
                                   ``topics.json`` as TREC iKAT publishes it
    ``passages.jsonl``             ``{"docno", "text"}`` or ``{"id", "contents"}`` per line; also packed, ``.gz`` or ``.bz2``
    ``qrels.txt``                  judgements, ``qid 0 docno label`` per line; may be missing
    ``qrels.NAME.txt``             other judgements, the variant NAME; a NAME that begins with ``ptkb`` judges PTKB statements
    =============================  ==================================================================================================

    An error in a file is a ``DataError`` that names file and line, and a doubtful judgement is a ``CollectionWarning``.

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
            raise UsageError(f"there is no dataset and no folder {str(folder)!r} with {' or '.join(names)}: give the path of such a folder")
        self.name, self.summary = str(self.folder), f"a folder with {', '.join(found)}" if found else "a topics file"
        self._doubted: set[str | None] = set()

    @cached_property
    def conversations(self) -> list[Conversation]:
        """Its conversations with everything that the topics file says, gold included."""
        return read_topics(self._topics())

    def get_qrels(self, variant: str | None = None) -> pd.DataFrame:
        """Its judgements, see :meth:`IkatDataset.get_qrels`. Without ``qrels.txt``, there are none, with a ``CollectionWarning``.

        Warns:
            CollectionWarning: once, for judged turns that are not in the topics, judged passages that are not among the passages, and
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
            raise DataError(f"{self.folder} has {'both' if found else 'none'} of {' and '.join(TOPICS)}: give it one of the two")
        return found[0]

    @property
    def passage_file(self) -> Path | None:
        """Its passages."""
        return next((file for file in collection_files(self.folder) if file.name in PASSAGES), None)

    def _passages(self) -> Iterable[dict[str, str]]:
        if self.passage_file is None:
            raise DataError(f'{self.folder} has no {PASSAGES[0]}: add it, a line is {{"docno": ..., "text": ...}}')
        return PassageFiles(self.passage_file)

    def _texts(self, fields: Fields = "text") -> TextLoader | None:
        file = self.passage_file
        return TextLoader(file, fields) if file is not None and file.stat().st_size <= HELD_BYTES else None

    def _qrels(self) -> Qrels:
        files = {path.name.removeprefix("qrels.").removesuffix(".txt"): path for path in sorted(self.folder.glob("qrels.*.txt"))}
        found: Qrels = {None: self._graded, **{name: partial(read_qrels, path) for name, path in files.items()}}
        if (self.folder / TOPICS[1]).exists():
            found = {**found, STATEMENTS: found.get(STATEMENTS, self._ptkb), "provenance": self._provenance}
        return found

    def _graded(self) -> pd.DataFrame:
        path = self.folder / QRELS
        if path.exists():
            return read_qrels(path)
        if self.folder.is_dir():
            warnings.warn(f"{self.folder} has no {QRELS}: nothing is judged, so there are no scores", CollectionWarning, stacklevel=4)
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
        lacking = [name for name, known in zip(qrels["docno"], there, strict=True) if known is not None and name not in known]
        what = f"statements that the turn's ptkb in {topics}" if of_statements else f"passages that {PASSAGES[0]}"
        doubts = {
            f"judged turns that {topics} lacks": [qid for qid in qrels["qid"] if qid not in turns],
            f"of {len(turns)} turns in {topics} without a judgement": [qid for qid in turns if qid not in judged],
            f"judged {what} lacks": lacking,
        }
        for doubt, names in doubts.items():
            if names:
                yield f"{path}: {len(set(names))} {doubt} ({list_first(list(dict.fromkeys(names)))})"


class SampleDataset(FolderDataset):
    """The bundled sample: small conversations and passages written for this package, and recorded LLM completions."""

    year = 2023

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
        self.summary, self.page = f"{irds_id} of ir_datasets", f"https://ir-datasets.com/{irds_id.partition('/')[0]}.html"
        self.size = self.given.metadata().get("docs", {}).get("count")
        if self.given.has_queries() and "turn_number" in self.given.queries_cls()._fields:
            raise UsageError(f"the queries of {self.name} are turns of conversations: take cast:2019, cast:2020, cast:2021 or cast:2022")

    @property
    def given(self) -> Any:
        """The dataset of ir_datasets."""
        import ir_datasets

        try:
            return ir_datasets.load(self.irds_id)
        except KeyError:
            raise UsageError(f"ir_datasets has no dataset {self.irds_id!r}; https://ir-datasets.com lists them") from None

    @cached_property
    def conversations(self) -> list[Conversation]:
        """Its queries."""
        if not self.given.has_queries():
            raise UsageError(f"{self.name} has passages and no queries: take one of its subsets on {self.page}")
        texts = {query.query_id: _text(query) for query in self.given.queries_iter()}
        return [Conversation(qid, turns=(TopicTurn(1, text, "", qid=qid),)) for qid, text in texts.items()]

    def text_loader(self, fields: Fields = "text", *, verbose: bool = False) -> Any:
        """An operator that adds the passages' ``text`` by ``docno``, from the store of all passages that ir_datasets builds once.

        Raises:
            UsageError: for other fields, and when building that store would take long. Use the texts of an index then.
        """
        fields_named(fields, ["text"])
        store = self.given.docs_store() if self.given.has_docs() else None
        is_quick = (self.size or STORE_AT_ONCE + 1) <= STORE_AT_ONCE or getattr(store, "built", bool)()
        return DocstoreText(self.irds_id) if store is not None and is_quick else super().text_loader(fields)

    def _qrels(self) -> Qrels:
        return {None: self._graded} if self.given.has_qrels() else {}

    def _graded(self) -> pd.DataFrame:
        return qrels_frame(dict.fromkeys((row.query_id, row.doc_id, row.relevance) for row in self.given.qrels_iter()))

    def _passages(self) -> Iterable[dict[str, str]]:
        if not self.given.has_docs():
            raise DataError(f"{self.name} has no passages: give an index of the collection that was judged")
        return ({"docno": one.doc_id, "text": _text(one), "url": getattr(one, "url", None) or ""} for one in self.given.docs_iter())


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
