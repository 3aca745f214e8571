"""The datasets of TREC iKAT and TREC CAsT whose files the organisers released."""

import json
from collections.abc import Iterable
from dataclasses import replace
from functools import cached_property, partial
from pathlib import Path
from typing import Any

import pandas as pd
import pyterrier as pt

from ..errors import DataError, advice
from .download import DATA_FOLDER, data_file, data_folder
from .ikat_dataset import IkatDataset, Qrels
from .irds import IrdsDataset
from .passages import Fields, PassageFiles, TextLoader, collection_files
from .qrels import read_qrels
from .topic_files import read_topics
from .topics import Conversation, with_automatic

COLLECTION = "ikat_collection"
COLLECTION_SIZE = 116_838_987
CLUEWEB = (
    "ikat:2023-mini works without; the whole collection derives from ClueWeb22: request the ClueWeb22-B licence at "
    "https://lemurproject.org/clueweb22/, then the passages from the organisers (https://www.trecikat.com/data/)"
)
TOOLS = "make them of MS MARCO, KILT and the Washington Post by the organisers' trec-cast-tools"
RELEASED: dict[str, dict[str, Any]] = json.loads(Path(__file__).with_name("released.json").read_text(encoding="utf-8"))


class ReleasedDataset(IkatDataset):
    """Topics, judgements and passages in files under their published names, as ``released.json`` lists them.

    Its entries have ``topics`` (the file), ``qrels`` (variant -> the file, or the gold field of the topics that they are made of),
    ``summary``, and where they apply ``year`` (of TREC iKAT), ``passages`` (the file of released passages, those of the gold provenance,
    which are the collection), ``size`` (their number), ``irds`` (the collection's name in ir_datasets), ``judged_only`` (only the turns
    with provenance, with histories of all turns), ``rewrites`` (the file of manual rewrites) and ``automatic`` (the file of topics with the
    organisers' automatic rewrites).

    Args:
        name: its name.
    """

    def __init__(self, name: str):
        self.name, self.entry = name, RELEASED[name]
        self.summary, self.year = self.entry["summary"], self.entry.get("year")
        self.page = "https://www.trecikat.com/" if self.year else "https://www.treccast.ai/"
        self.size = self.entry.get("size", COLLECTION_SIZE if self.year else None)
        self.topic_variants = (None, "manual", "automatic") if "automatic" in self.entry else (None, "manual")

    @cached_property
    def conversations(self) -> list[Conversation]:
        """All conversations of the topics file."""
        chats = read_topics(data_file(self.entry["topics"]))
        if "rewrites" not in self.entry:
            return chats
        lines = data_file(self.entry["rewrites"]).read_text(encoding="utf-8").splitlines()
        rewrites = {qid: text.strip() for qid, _, text in (line.partition("\t") for line in lines)}
        return [replace(chat, turns=tuple(replace(turn, resolved=rewrites[chat.qid(turn)]) for turn in chat.turns)) for chat in chats]

    def get_topics(self, variant: str | None = None) -> pd.DataFrame:
        """The turn frame; see :meth:`IkatDataset.get_topics`."""
        if variant == "automatic" and variant in self.entry:
            return with_automatic(super().get_topics(), read_topics(data_file(self.entry[variant])))
        return self._kept(super().get_topics(variant))

    def get_answers(self) -> pd.DataFrame:
        """The gold answers of the same turns."""
        return self._kept(super().get_answers())

    def with_responses(self, texts: pt.Transformer) -> "ReleasedDataset":
        """This dataset with the texts of the earlier turns' canonical passages in the histories, for CAsT 2020.

        These passages come from the organisers' manual run. The track counts a run that reads them as a run with manual information.

        Args:
            texts: adds ``text`` by ``docno``, such as an index's ``text_loader()``.

        Example:
            >>> import pyterrier_ikat as ikat
            >>> index = ikat.PassageIndex("cast.index")
            >>> data = ikat.dataset("cast:2020").with_responses(index.text_loader())  # doctest: +SKIP
        """
        loaded = texts.transform(self._provenance()[["qid", "docno"]].drop_duplicates("docno"))
        known, found = dict(zip(loaded["docno"], loaded["text"], strict=True)), ReleasedDataset(self.name)
        found.conversations = [
            replace(chat, turns=tuple(replace(turn, response=" ".join(map(known.__getitem__, turn.passages))) for turn in chat.turns))
            for chat in self.conversations
        ]
        return found

    def _texts(self, fields: Fields = "text") -> TextLoader | None:
        return TextLoader(data_file(self.entry["passages"]), fields) if "passages" in self.entry else None

    def text_loader(self, fields: Fields = "text", *, verbose: bool = False) -> Any:
        """An operator that adds the passages' ``fields`` by ``docno``; see :meth:`IkatDataset.text_loader`."""
        return IrdsDataset(self.entry["irds"]).text_loader(fields) if "irds" in self.entry else super().text_loader(fields)

    def _kept(self, frame: pd.DataFrame) -> pd.DataFrame:
        of_all = not self.entry.get("judged_only")
        return frame if of_all else frame[frame["qid"].isin(self._provenance()["qid"])].reset_index(drop=True)

    def _qrels(self) -> Qrels:
        own = {"provenance": self._provenance, "ptkb": self._ptkb}
        listed = ((None if name == "default" else name, file) for name, file in self.entry["qrels"].items())
        return {name: own.get(file) or partial(self._read, file) for name, file in listed}

    def _read(self, file: str) -> pd.DataFrame:
        try:
            return self._kept(read_qrels(data_file(file)))
        except DataError as error:
            repair = advice("get_qrels('provenance')", "`ikat evaluate --qrels provenance`")
            raise DataError(f"{error}; {repair} takes the topics' own gold passages") from error

    def _passages(self) -> Iterable[dict[str, str]]:
        if "irds" in self.entry:
            return IrdsDataset(self.entry["irds"])._passages()
        if "passages" in self.entry:
            return PassageFiles(data_file(self.entry["passages"]))
        folder = data_folder() / (COLLECTION if self.year else f"cast_{self.name[-4:]}_collection")
        files = collection_files(folder)
        if not files:
            where = f"the files into {folder.name}/ in the folder that {DATA_FOLDER} names"
            how = CLUEWEB if self.year else TOOLS
            raise DataError(f"no passages (*.jsonl, *.jsonl.gz, *.jsonl.bz2) in {folder}; {how}, and put {where}")
        return PassageFiles(files)
