"""A collection in a folder: ``topics.jsonl``, ``passages.jsonl`` and ``qrels.txt``. The bundled sample is one."""

import warnings
from collections.abc import Iterator, Sequence
from functools import cached_property
from pathlib import Path

import pandas as pd

from ..errors import DataError, UsageError, advice, list_first
from .ikat_dataset import PREFIX, IkatDataset, Qrels
from .passages import PASSAGES, PassageFiles, TextLoader, collection_files
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
    """A collection in a folder.

    =============================  ==================================================================================================
    ``topics.jsonl``               turns, one per line, see :func:`~pyterrier_ikat.conversations.topic_files.read_topics`; or
                                   ``topics.json`` as TREC iKAT publishes it
    ``passages.jsonl``             ``{"docno", "text"}`` or ``{"id", "contents"}`` per line; also packed, ``.gz`` or ``.bz2``
    ``qrels.txt``                  judgements, ``qid 0 docno label`` per line; may be missing
    ``qrels.NAME.txt``             other judgements, the variant NAME; a NAME that begins with ``ptkb`` judges PTKB statements
    =============================  ==================================================================================================

    An error in a file is a ``DataError``, and a doubtful entry is a ``CollectionWarning``. Both name file and line.

    Args:
        folder: its path; ``~`` is the home folder.

    Raises:
        UsageError: when there is no such folder, or it has neither topics nor passages.
    """

    def __init__(self, folder: str | Path):
        try:
            self.folder = Path(folder).expanduser().absolute()
            names = {path.name for path in self.folder.iterdir()}
        except (OSError, ValueError, RuntimeError) as error:
            raise UsageError(
                f"there is no dataset and no folder {str(folder)!r} ({error}): give the path of a folder with {TOPICS[0]}"
            ) from None
        found = sorted(names.intersection((*TOPICS, *PASSAGES, QRELS)))
        if not found:
            raise UsageError(f"the folder {self.folder} has no {TOPICS[0]} and no {PASSAGES[0]}: add them, or give another folder")
        self.name = str(self.folder)
        self.summary = f"a folder with {', '.join(found)}"
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

    def collection(self) -> tuple[int | None, frozenset[str] | None]:
        """The number of passages and their docnos, if the passages fit in memory."""
        return (None, None) if self._docnos is None else (len(self._docnos), self._docnos)

    def text_loader(self, fields: Sequence[str] = ("text",)) -> TextLoader:
        """An operator that adds the passages' ``fields`` (``"text"``, ``"url"``) by ``docno``.

        Raises:
            UsageError: when it has no passages, or too many to hold.
        """
        file = self._passage_file()
        if file is None or file.stat().st_size > HELD_BYTES:
            repair = advice("take ikat.PassageIndex(PATH).text_loader()", "give --index PATH")
            raise UsageError(f"{self.name} has {'too many passages to hold' if file else f'no {PASSAGES[0]}'}: index them and {repair}")
        return TextLoader(file, fields)

    def _topics(self) -> Path:
        found = [self.folder / name for name in TOPICS if (self.folder / name).exists()]
        if len(found) != 1:
            wrong = f"has no {TOPICS[0]}: add it" if not found else f"has {' and '.join(TOPICS)}: keep one of the two"
            raise DataError(f"{self.folder} {wrong}")
        return found[0]

    def _passage_file(self) -> Path | None:
        return next((file for file in collection_files(self.folder) if file.name in PASSAGES), None)

    def _passages(self) -> tuple[PassageFiles, int]:
        file = self._passage_file()
        if file is None:
            raise DataError(f'{self.folder} has no {PASSAGES[0]}: add it, a line is {{"docno": ..., "text": ...}}')
        return PassageFiles(file), 0

    @cached_property
    def _docnos(self) -> frozenset[str] | None:
        file = self._passage_file()
        if file is None or file.stat().st_size > HELD_BYTES:
            return None
        return frozenset(passage["docno"] for passage in PassageFiles(file))

    def _qrels(self) -> Qrels:
        files = {path.name.removeprefix("qrels.").removesuffix(".txt"): path for path in sorted(self.folder.glob("qrels.*.txt"))}
        found: Qrels = {None: self._graded, **{name: lambda path=path: read_qrels(path) for name, path in files.items()}}  # type: ignore[misc]
        if (self.folder / TOPICS[1]).exists():
            found = {**found, STATEMENTS: found.get(STATEMENTS, self._ptkb), "provenance": self._provenance}
        return found

    def _graded(self) -> pd.DataFrame:
        path = self.folder / QRELS
        if path.exists():
            return read_qrels(path)
        warnings.warn(f"{self.folder} has no {QRELS}: nothing is judged, so there are no scores", CollectionWarning, stacklevel=4)
        return qrels_frame([])

    def _doubts(self, variant: str | None, qrels: pd.DataFrame) -> Iterator[str]:
        path = self.folder / (QRELS if variant is None else f"qrels.{variant}.txt")
        if not path.exists():  # of the topics themselves
            return
        topics, judged = self._topics(), dict.fromkeys(qrels["qid"])
        turns = {chat.qid(turn): chat.ptkb for chat in self.conversations for turn in chat.turns}
        if unknown := [qid for qid in judged if qid not in turns]:
            yield _doubt(path, unknown, f"turns that {topics.name} lacks")
        if unjudged := [qid for qid in turns if qid not in judged]:
            yield _doubt(topics, unjudged, f"of {len(turns)} turns without a judgement in {path.name}")
        pairs = zip(qrels["qid"], qrels["docno"], strict=True)
        if variant is not None and variant.startswith(STATEMENTS):
            if lacking := [name for qid, name in pairs if name not in turns.get(qid, {name: ""})]:
                yield _doubt(path, lacking, f"judged statements that the turn's ptkb in {topics.name} lacks")
        elif self._docnos is not None and (lacking := [docno for _, docno in pairs if docno not in self._docnos]):
            yield _doubt(path, list(dict.fromkeys(lacking)), f"judged passages that {PASSAGES[0]} lacks")

    def __repr__(self) -> str:
        return f"ikat.dataset({self.name!r})"


class TopicsFile(FolderDataset):
    """Only a topics file, such as an exported chat: turns without passages and judgements, for an index that is given separately.

    Args:
        path: a file that :func:`~pyterrier_ikat.conversations.topic_files.read_topics` reads.
    """

    def __init__(self, path: str | Path):
        self.folder = Path(path).expanduser().absolute()
        self.name = str(self.folder)
        self.summary = "a topics file"
        self._doubted = set()

    def _topics(self) -> Path:
        return self.folder

    def _passage_file(self) -> Path | None:
        return None

    def _graded(self) -> pd.DataFrame:
        return qrels_frame([])


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

    def __repr__(self) -> str:
        return f"pt.get_dataset({self.name!r})"


def _doubt(path: Path, names: list[str], what: str) -> str:
    words = path.read_text(encoding="utf-8-sig").split("\n")
    line = next((number for number, text in enumerate(words, 1) if names[0] in text.replace('"', " ").split()), None)
    where = f"line {line}: " * (line is not None)
    return f"{path}, {where}{len(names)} {what} ({list_first(names)})"
