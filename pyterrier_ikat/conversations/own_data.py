"""A collection in a folder: ``topics.jsonl``, ``passages.jsonl`` and ``qrels.txt``. The bundled sample is one."""

import warnings
from collections.abc import Iterable, Iterator
from functools import cached_property, partial
from pathlib import Path

import pandas as pd

from ..errors import DataError, UsageError, list_first
from .ikat_dataset import PREFIX, IkatDataset, Qrels
from .passages import PASSAGES, Fields, PassageFiles, TextLoader, collection_files
from .qrels import qrels_frame, read_qrels
from .topic_files import CollectionWarning, read_topics
from .topics import Conversation

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
    ``topics.jsonl``               turns, one per line, see :func:`~pyterrier_ikat.conversations.topic_files.read_topics`; or
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
