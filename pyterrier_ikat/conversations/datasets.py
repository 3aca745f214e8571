"""The datasets of TREC iKAT and the bundled sample: topics, qrels, passages."""

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import cached_property
from pathlib import Path

import pandas as pd
import pyterrier as pt

from ..errors import DataError, UsageError, advice
from .download import DATA_FOLDER, data_file, data_folder
from .passages import PassageFiles, TextLoader, Traced, collection_files, load_passages
from .qrels import read_qrels
from .topics import Conversation, answers_frame, provenance_qrels, ptkb_qrels, read_topics, topics_frame

TOPIC_VARIANTS = (None, "manual")

Qrels = dict[str | None, Callable[[], pd.DataFrame]]


class IkatDataset(pt.datasets.Dataset, ABC):
    """Conversations, judgements and passages under one name; each file is fetched and read when it is first asked for.

    Attributes:
        name: the name for ``pt.get_dataset``, such as ``"ikat:2023-mini"``.
        summary: what it offers, in one line.

    Example:
        >>> import pyterrier_ikat as ikat
        >>> ikat.dataset("ikat:sample")
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


PREFIX = "ikat:"
COLLECTION = "ikat_collection"
COLLECTION_SIZE = 116_838_987
TURNS = {2023: 332, 2024: 218, 2025: 188}
SAMPLE = Path(__file__).parent / "sample"


class SampleDataset(IkatDataset):
    """The bundled sample: small conversations and passages written for this package, and recorded LLM completions."""

    def __init__(self, folder: Path = SAMPLE):
        self.name = f"{PREFIX}sample"
        self.summary = "bundled: conversations, passages, graded and PTKB qrels, recorded completions, all written for this package"
        self.folder = folder

    @property
    def recorded(self) -> Path:
        """The recorded completions (no model wrote them: they were written with the sample)."""
        return self.folder / "recorded.jsonl"

    @cached_property
    def conversations(self) -> list[Conversation]:
        """The sample's conversations."""
        return read_topics(self.folder / "topics.json")

    def text_loader(self, fields: Sequence[str] = ("text",)) -> TextLoader:
        """An operator that adds the passages' ``fields`` (``"text"``, ``"url"``) by ``docno``."""
        return TextLoader(self.folder / "passages.jsonl", fields)

    def info_url(self) -> str | None:
        """None: the sample has no page."""
        return None

    def collection(self) -> tuple[int, frozenset[str]]:
        """The number of passages, and their docnos."""
        docnos = frozenset(load_passages(self.folder / "passages.jsonl"))
        return len(docnos), docnos

    def _qrels(self) -> Qrels:
        graded, ptkb = self.folder / "qrels.txt", self.folder / "ptkb_qrels.txt"
        return {None: lambda: read_qrels(graded), "ptkb": lambda: read_qrels(ptkb), "provenance": self._provenance}

    def _passages(self) -> tuple[Iterable[dict[str, str]], int]:
        passages = load_passages(self.folder / "passages.jsonl")
        return passages.values(), len(passages)


class MiniDataset(IkatDataset):
    """Real data without a licence form: the 2023 turns that have gold provenance, and the passages it names.

    The qrels are the provenance (798 binary pairs): of NIST's graded judgements only 123 positive ones fall on these 700 passages.
    """

    def __init__(self) -> None:
        self.name = f"{PREFIX}2023-mini"
        self.summary = (
            "280 turns of TREC iKAT 2023 and the 700 passages of their gold provenance, which is the qrels; PTKB qrels; no licence needed"
        )

    @cached_property
    def conversations(self) -> list[Conversation]:
        """All conversations of 2023; histories need the turns without provenance, too."""
        return read_topics(data_file("2023_test_topics.json"))

    def get_topics(self, variant: str | None = None) -> pd.DataFrame:
        """The turn frame of the 280 turns with provenance; see :meth:`IkatDataset.get_topics`."""
        return self._judged(super().get_topics(variant))

    def get_answers(self) -> pd.DataFrame:
        """The gold answers of the same turns."""
        return self._judged(super().get_answers())

    def text_loader(self, fields: Sequence[str] = ("text",)) -> TextLoader:
        """An operator that adds the passages' ``fields`` (``"text"``; these have no ``url``) by ``docno``."""
        return TextLoader(data_file("2023_test_topics_psg_text.jsonl"), fields)

    def collection(self) -> tuple[int, frozenset[str]]:
        """The number of passages, and their docnos: those of the gold provenance."""
        docnos = frozenset(self._provenance()["docno"])
        return len(docnos), docnos

    def _qrels(self) -> Qrels:
        return {
            None: self._provenance,
            "provenance": self._provenance,
            "ptkb_nist": lambda: self._judged(read_qrels(data_file("ptkb_rel_nist"))),
            "ptkb_org": lambda: self._judged(read_qrels(data_file("ptkb_rel_org"))),
        }

    def _judged(self, frame: pd.DataFrame) -> pd.DataFrame:
        return frame[frame["qid"].isin(self._provenance()["qid"])].reset_index(drop=True)

    def _passages(self) -> tuple[Iterable[dict[str, str]], int]:
        path = data_file("2023_test_topics_psg_text.jsonl")
        passages = load_passages(path)
        lacking = set(self._provenance()["docno"]).difference(passages)
        if lacking:
            raise DataError(f"{path} lacks {len(lacking)} of the gold passages ({min(lacking)}, ...); it was cut short, fetch it again")
        return passages.values(), len(passages)


class YearDataset(IkatDataset):
    """One year of the track with the full collection.

    Args:
        year: 2023, 2024 or 2025.
    """

    def __init__(self, year: int):
        self.name = f"{PREFIX}{year}"
        self.year = year
        graded = "no published qrels yet" if year == 2025 else "NIST qrels"
        self.summary = (
            f"{TURNS[year]} turns of TREC iKAT {year}, {graded}, gold provenance, PTKB qrels; its passages need the ClueWeb22 licence"
        )

    @cached_property
    def conversations(self) -> list[Conversation]:
        """The year's test conversations."""
        return read_topics(data_file(f"{self.year}_test_topics.json"))

    def text_loader(self, fields: Sequence[str] = ("text",)) -> TextLoader:
        """There is none: the collection doesn't fit in memory; an index of it stores its texts.

        Raises:
            UsageError: always, naming the index's own loader.
        """
        raise UsageError(
            f"{self.name} has {COLLECTION_SIZE:,} passages, too many to hold: "
            + advice(
                "index them with ikat.PassageIndex(path).index(data.get_corpus_iter()) and take that index's text_loader()",
                f"index them with `ikat index {self.name} PATH` and give --index PATH",
            )
        )

    def collection(self) -> tuple[int, None]:
        """The number of passages; all years have the same ones."""
        return COLLECTION_SIZE, None

    def _qrels(self) -> Qrels:
        qrels: Qrels = {None: self._graded}
        if self.year == 2023:
            qrels["ptkb_nist"] = lambda: read_qrels(data_file("ptkb_rel_nist"))
            qrels["ptkb_org"] = lambda: read_qrels(data_file("ptkb_rel_org"))
        else:
            qrels["ptkb"] = self._ptkb
        return {**qrels, "provenance": self._provenance}

    def _graded(self) -> pd.DataFrame:
        try:
            path = data_file("2023-qrels.all-turns.txt" if self.year == 2023 else f"{self.year}-qrels.txt")
        except DataError as error:
            repair = advice("get_qrels('provenance')", "--qrels provenance")
            raise DataError(f"{error}; {repair} gives the topics' own gold passages") from error
        return read_qrels(path)

    def get_corpus_iter(self, *, verbose: bool = True) -> Traced:
        """The passages, ``{"docno", "text", "url"}`` each; the iterator's ``where(number)`` names file and line of one that went by.

        Args:
            verbose: show a progress bar.

        Raises:
            DataError: when there are no passages; while iterating, when a passage file is malformed (named with its line).
        """
        passages, total = self._passages()
        return Traced(pt.tqdm(passages, desc=f"{self.name} passages", total=total, disable=not verbose), passages.where)

    def _passages(self) -> tuple[PassageFiles, int]:
        folder = data_folder() / COLLECTION
        files = collection_files(folder)
        if not files:
            raise DataError(
                f"no passages (*.jsonl, *.jsonl.gz, *.jsonl.bz2) in {folder}; the collection of {self.name} derives from ClueWeb22: "
                "request the ClueWeb22-B licence at https://lemurproject.org/clueweb22/, then the passages from the organisers "
                f"(https://www.trecikat.com/data/), and put the files into {COLLECTION}/ in the folder that {DATA_FOLDER} names; "
                "ikat:2023-mini works without"
            )
        return PassageFiles(files), COLLECTION_SIZE


DATASETS: dict[str, Callable[[], IkatDataset]] = {
    "sample": SampleDataset,
    "2023-mini": MiniDataset,
    "2023": lambda: YearDataset(2023),
    "2024": lambda: YearDataset(2024),
    "2025": lambda: YearDataset(2025),
}


def full_name(name: str) -> str:
    """The name of a dataset with ``ikat:``; other names stay.

    Example:
        >>> full_name("sample"), full_name("ikat:sample"), full_name("mine")
        ('ikat:sample', 'ikat:sample', 'mine')
    """
    return PREFIX + name if name in DATASETS else name


def dataset(name: str) -> IkatDataset:
    """The dataset ``name``, with or without ``ikat:``.

    Raises:
        UsageError: for an unknown name, listing the known ones.
    """
    make = DATASETS.get(name.removeprefix(PREFIX))
    if make is None:
        raise UsageError(f"no dataset {name!r}; there are {', '.join(PREFIX + known for known in DATASETS)}")
    return make()


class IkatProvider(pt.datasets.DatasetProvider):
    """What ``pt.get_dataset("ikat:...")`` asks; registered as the entry point ``ikat`` of ``pyterrier.dataset_provider``."""

    def get_dataset(self, name: str) -> IkatDataset:
        """A new dataset object.

        Raises:
            KeyError: for an unknown name, as PyTerrier expects, listing the known ones.
        """
        try:
            return dataset(name)
        except UsageError as error:
            raise KeyError(str(error)) from error

    def list_dataset_names(self) -> list[str]:
        """The names, without the prefix."""
        return list(DATASETS)
