"""The datasets of TREC iKAT: each year's topics and judgements with the full collection, and the small one that needs no licence."""

from collections.abc import Iterable, Sequence
from functools import cached_property

import pandas as pd
import pyterrier as pt

from ..errors import DataError, UsageError, advice
from .base import PREFIX, IkatDataset, Qrels
from .download import DATA_FOLDER, data_file, data_folder
from .passages import PassageFiles, TextLoader, Traced, collection_files, load_passages
from .qrels import read_qrels
from .topic_files import read_topics
from .topics import Conversation

COLLECTION = "ikat_collection"
COLLECTION_SIZE = 116_838_987
TURNS = {2023: 332, 2024: 218, 2025: 188}


class MiniDataset(IkatDataset):
    """Real data without a licence form: the 2023 turns that have gold provenance, and the passages it names.

    The qrels are the provenance (798 binary pairs): of NIST's graded judgements only 123 positive ones fall on these 700 passages.
    """

    year = 2023

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


class TrainDataset(YearDataset):
    """The training conversations of 2023, whose judgements are their gold provenance."""

    def __init__(self) -> None:
        super().__init__(2023)
        self.name = f"{PREFIX}2023-train"
        self.summary = (
            "the training topics of TREC iKAT 2023, whose gold provenance is the qrels; PTKB qrels; its passages need the ClueWeb22 licence"
        )

    @cached_property
    def conversations(self) -> list[Conversation]:
        """The training conversations."""
        return read_topics(data_file("2023_train_topics.json"))

    def _qrels(self) -> Qrels:
        return {None: self._provenance, "ptkb": self._ptkb, "provenance": self._provenance}
