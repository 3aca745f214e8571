"""Datasets by name: those of TREC iKAT, CAsT, MTRAG and LoCoMo, the sample, your own folder or object, ir_datasets' and PyTerrier's."""

import difflib
import os
import re
from collections.abc import Callable, Sequence
from functools import cached_property
from pathlib import Path
from typing import Any

import pandas as pd
import pyterrier as pt

from ..errors import DataError, UsageError, advice
from . import public_outputs
from .cast import CAST
from .download import DATA_FOLDER, data_file, data_folder
from .ikat_dataset import PREFIX, GivenDataset, IkatDataset, Qrels
from .irds import IrdsDataset, of_its_year
from .memory_benchmarks import ALPSBENCH, LONGMEMEVAL, AlpsBenchDataset, LocomoDataset, LongMemEvalDataset
from .mtrag import MTRAG
from .own_data import FolderDataset, SampleDataset, TopicsFile
from .passages import PassageFiles, TextLoader, collection_files, load_passages
from .qrels import read_qrels
from .topic_files import read_topics
from .topics import Conversation

__all__ = ["DATASETS", "PREFIX", "IkatDataset", "IkatProvider", "MiniDataset", "YearDataset", "dataset", "full_name", "full_names"]

COLLECTION = "ikat_collection"
COLLECTION_SIZE = 116_838_987
TURNS = {2023: "332 turns", 2024: "218 turns", 2025: "188 turns"}


class YearDataset(IkatDataset):
    """One year of the track with the full collection.

    Args:
        year: 2023, 2024 or 2025.
    """

    _part = "test"
    """The word for the topics in the name of the organisers' file."""

    def __init__(self, year: int):
        self.name, self.year = f"{PREFIX}{year}", year
        graded = "no published qrels yet" if year == 2025 else "NIST qrels"
        self.summary = f"{TURNS[year]} of TREC iKAT {year}, {graded}, gold provenance, PTKB qrels; its passages need the ClueWeb22 licence"

    @cached_property
    def conversations(self) -> list[Conversation]:
        """The year's conversations."""
        return read_topics(data_file(f"{self.year}_{self._part}_topics.json"))

    def text_loader(self, fields: Sequence[str] = ("text",)) -> TextLoader:
        """Always raises: the collection doesn't fit in memory. An index of it stores its texts.

        Raises:
            UsageError: always, naming the index's own loader.
        """
        python = "index them with ikat.PassageIndex(path).index(data.get_corpus_iter()) and take that index's text_loader()"
        command = f"index them with `ikat index {self.name} PATH` and give --index PATH"
        raise UsageError(f"{self.name} has {COLLECTION_SIZE:,} passages, too many to hold in memory: {advice(python, command)}")

    def collection(self) -> tuple[int | None, frozenset[str] | None]:
        """The number of passages. All years have the same passages."""
        return COLLECTION_SIZE, None

    def info_url(self) -> str:
        """The track's page."""
        return "https://www.trecikat.com/"

    def _qrels(self) -> Qrels:
        found: Qrels = {None: self._graded}
        if self.year == 2023:
            found["ptkb_nist"] = lambda: read_qrels(data_file("ptkb_rel_nist"))
            found["ptkb_org"] = lambda: read_qrels(data_file("ptkb_rel_org"))
        else:
            found["ptkb"] = self._ptkb
        return {**found, "provenance": self._provenance}

    def _graded(self) -> pd.DataFrame:
        try:
            path = data_file("2023-qrels.all-turns.txt" if self.year == 2023 else f"{self.year}-qrels.txt")
        except DataError as error:
            repair = advice("get_qrels('provenance')", "--qrels provenance")
            raise DataError(f"{error}; {repair} gives the topics' own gold passages") from error
        return read_qrels(path)

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


class _ReleasedPassages(YearDataset):
    """The passages that the organisers released with the topics: the gold provenance."""

    def text_loader(self, fields: Sequence[str] = ("text",)) -> TextLoader:
        """An operator that adds the passages' ``fields`` (``"text"``; these have no ``url``) by ``docno``."""
        return TextLoader(self._passage_file(), fields)

    def collection(self) -> tuple[int | None, frozenset[str] | None]:
        """The number of passages, and their docnos: those of the gold provenance."""
        docnos = frozenset(self._provenance()["docno"])
        return len(docnos), docnos

    def _passage_file(self) -> Path:
        return data_file(f"{self.year}_{self._part}_topics_psg_text.jsonl")

    def _passages(self) -> tuple[PassageFiles, int]:
        path = self._passage_file()
        passages = load_passages(path)
        lacking = set(self._provenance()["docno"]).difference(passages)
        if lacking:
            raise DataError(f"{path} lacks {len(lacking)} of the gold passages ({min(lacking)}, ...): it was cut short, fetch it again")
        return PassageFiles(path), len(passages)


class MiniDataset(_ReleasedPassages):
    """Real data without a licence form: the 2023 turns that have gold provenance, and the passages it names.

    The qrels are the provenance (798 binary pairs): only 123 of NIST's positive judgements are about these 700 passages.
    """

    def __init__(self) -> None:
        super().__init__(2023)  # all conversations, because histories also need the turns without provenance
        self.name = f"{PREFIX}2023-mini"
        self.summary = (
            "280 turns of TREC iKAT 2023 and the 700 passages of their gold provenance, which is the qrels; PTKB qrels; no licence needed"
        )

    def get_topics(self, variant: str | None = None) -> pd.DataFrame:
        """The turn frame of the 280 turns with provenance; see :meth:`IkatDataset.get_topics`."""
        return self._judged(super().get_topics(variant))

    def get_answers(self) -> pd.DataFrame:
        """The gold answers of the same turns."""
        return self._judged(super().get_answers())

    def _qrels(self) -> Qrels:
        graded = super()._qrels()
        own: Qrels = {None: self._provenance, "provenance": self._provenance}
        return {**own, "ptkb_nist": lambda: self._judged(graded["ptkb_nist"]()), "ptkb_org": lambda: self._judged(graded["ptkb_org"]())}

    def _judged(self, frame: pd.DataFrame) -> pd.DataFrame:
        return frame[frame["qid"].isin(self._provenance()["qid"])].reset_index(drop=True)


class TrainDataset(_ReleasedPassages):
    """The training conversations of 2023 with their released passages: the second collection that needs no licence form.

    The qrels are the provenance of 76 of the 95 turns, 194 passages.
    """

    _part = "train"

    def __init__(self) -> None:
        super().__init__(2023)
        self.name = f"{PREFIX}2023-train"
        self.summary = (
            "95 training turns of TREC iKAT 2023 and the 194 passages of the gold provenance of 76, which is the qrels; PTKB qrels; no "
            "licence needed"
        )

    def _qrels(self) -> Qrels:
        return {None: self._provenance, "ptkb": self._ptkb, "provenance": self._provenance}


class ConeRagDataset(YearDataset):
    """The year 2024 with what CONE-RAG (arXiv 2503.09902) published about it. These files are fetched from the authors at first use.

    Qrels ``gpt4``: GPT-4's labels of the passages. Answers ``"human"``: those that people wrote for 62 turns.
    """

    def __init__(self) -> None:
        super().__init__(2024)

    def get_answers(self, variant: str | None = None) -> pd.DataFrame:
        """The gold answers of the topics. With ``"human"``, those of CONE-RAG.

        Raises:
            UsageError: for another variant.
        """
        if variant not in (None, "human"):
            raise UsageError(f"{self.name} has no answers {variant!r}; there are get_answers() and get_answers('human')")
        return super().get_answers() if variant is None else public_outputs.human_answers()

    def get_nuggets(self) -> pd.DataFrame:
        """The nuggets of people: see :func:`~pyterrier_ikat.conversations.public_outputs.human_nuggets`."""
        return public_outputs.human_nuggets()

    def get_nugget_labels(self) -> pd.DataFrame:
        """Which nuggets six runs state, by people: see :func:`~pyterrier_ikat.conversations.public_outputs.human_nugget_labels`."""
        return public_outputs.human_nugget_labels()

    def get_responses(self) -> pd.DataFrame:
        """The responses of 19 runs to 79 turns, ``run``, ``qid``, ``qanswer``."""
        return public_outputs.system_responses()

    def _qrels(self) -> Qrels:
        return {**super()._qrels(), "gpt4": public_outputs.gpt4_labels}


DATASETS: dict[str, Callable[[], IkatDataset]] = {
    "sample": SampleDataset,
    "2023-mini": MiniDataset,
    "2023": lambda: YearDataset(2023),
    "2023-train": TrainDataset,
    "2024": ConeRagDataset,
    "2025": lambda: YearDataset(2025),
    **CAST,
    **MTRAG,
    LocomoDataset.name: LocomoDataset,
}
"""Name -> the function that makes the dataset. A name without a prefix belongs to ``ikat:``."""


OWN_PREFIXES = {name.partition(":")[0] for name in DATASETS if ":" in name}
"""Prefixes of names that PyTerrier's providers are not asked for."""


def full_name(name: str) -> str:
    """The name of a dataset, with ``ikat:`` where it belongs. Other names stay.

    Example:
        >>> full_name("sample"), full_name("ikat:sample"), full_name("cast:2020"), full_name("mine")
        ('ikat:sample', 'ikat:sample', 'cast:2020', 'mine')
    """
    return PREFIX + name if name in DATASETS and ":" not in name else name


def full_names() -> list[str]:
    """The names of all datasets, as shown to users."""
    return list(map(full_name, DATASETS))


def dataset(source: str | Path | Any) -> IkatDataset:
    """A dataset: topics, judgements and passages under one name.

    Args:
        source: a name, with or without ``ikat:`` (``ikat datasets`` lists them); a name of ir_datasets, such as ``"irds:vaswani"``; a
            file of LongMemEval or a folder of AlpsBench, ``"longmemeval:FILE"``, ``"alpsbench:FOLDER"``; a name of another provider
            of ``pt.get_dataset`` with its prefix; a folder with ``topics.jsonl``, ``passages.jsonl`` and ``qrels.txt`` (a name with a
            slash or ``~`` is a path, and so is the name of a folder when no dataset is called so); a topics file ``.json``, such as a
            saved chat; or an object with ``get_topics()``, ``get_qrels()`` and ``get_corpus_iter()``, or its class.

    Returns:
        The dataset. Its files are read at first use.

    Raises:
        UsageError: for an unknown name, listing the known ones, or a folder that is not there.

    Example:
        >>> import pyterrier_ikat as ikat
        >>> ikat.dataset("ikat:sample").get_topics()["qid"].tolist()[:2]
        ['1-1_1', '1-1_2']
    """
    if isinstance(source, IkatDataset):
        return source
    if not isinstance(source, str | Path):
        return GivenDataset(source)
    name = str(source).removeprefix(PREFIX)
    if isinstance(source, str) and name in DATASETS:
        return DATASETS[name]()
    if isinstance(source, str) and name.startswith("irds:"):
        return IrdsDataset(name.removeprefix("irds:"))
    if isinstance(source, str) and name.startswith(LONGMEMEVAL):
        return LongMemEvalDataset(name.removeprefix(LONGMEMEVAL))
    if isinstance(source, str) and name.startswith(ALPSBENCH):
        return AlpsBenchDataset(name.removeprefix(ALPSBENCH))
    if isinstance(source, str) and re.match(r"[a-z]\w+:", name) and name.partition(":")[0] not in OWN_PREFIXES:
        try:
            return GivenDataset(pt.get_dataset(name), name)
        except KeyError as error:
            raise UsageError(f"no dataset {name!r}: {error.args[0]}") from error
    if name.endswith(".json"):
        return TopicsFile(name)
    if isinstance(source, Path) or "/" in name or name.startswith("~") or os.path.isdir(name):
        return FolderDataset(name)
    hint = _nearest(name) or of_its_year(name)
    known = f"{hint}{'; ' if hint else ''}there are {', '.join(full_names())}"
    raise UsageError(f"no dataset {source!r}; {known}, and folders by their path, such as ./{name if name.isidentifier() else 'mine'}")


def _nearest(name: str) -> str:
    """The dataset that a mistyped name means, as a question. It never suggests a dataset of another year.

    Example:
        >>> _nearest("2023mini"), _nearest("mtrag:mni"), _nearest("ikat:2022")
        ('did you mean ikat:2023-mini?', 'did you mean mtrag:mini?', '')
    """
    candidates = [one for one in full_names() if re.findall(r"\d+", one) == re.findall(r"\d+", name)]
    near = difflib.get_close_matches(name if ":" in name else PREFIX + name, candidates, n=1, cutoff=0.85)
    return f"did you mean {near[0]}?" if near else ""


class IkatProvider(pt.datasets.DatasetProvider):
    """The provider behind ``pt.get_dataset("ikat:...")``, registered as the entry point ``ikat`` of ``pyterrier.dataset_provider``."""

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
