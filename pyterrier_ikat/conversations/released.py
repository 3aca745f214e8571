"""The datasets of TREC iKAT and TREC CAsT whose files the organisers released, with what CONE-RAG published about iKAT 2024.

CONE-RAG (arXiv 2503.09902) has nuggets, answers and labels by people, responses of real systems,
and GPT-4's labels. Its files are fetched from the authors at first use; their repository states no
licence.
"""

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
from .frame import object_frame
from .ikat_dataset import IkatDataset, IrdsDataset, Qrels
from .passages import Fields, PassageFiles, TextLoader, collection_files
from .public_outputs import output_file
from .qrels import read_qrels
from .topics import Conversation, read_topics, with_automatic

COLLECTION = "ikat_collection"
COLLECTION_SIZE = 116_838_987
CLUEWEB = (
    "ikat:2023-mini works without; the whole collection derives from ClueWeb22: request the ClueWeb22-B licence at "
    "https://lemurproject.org/clueweb22/, then the passages from the organisers (https://www.trecikat.com/data/)"
)
TOOLS = "make them of MS MARCO, KILT and the Washington Post by the organisers' trec-cast-tools"
RELEASED: dict[str, dict[str, Any]] = json.loads(
    Path(__file__).with_name("released.json").read_text(encoding="utf-8")
)


class ReleasedDataset(IkatDataset):
    """Topics, judgements and passages in files under their published names, as ``released.json`` lists them.

    Its entries have ``topics`` (the file), ``qrels`` (variant -> the file, or the gold field of the
    topics that they are made of), ``summary``, ``unit`` and ``unit_reason`` (see
    :class:`IkatDataset`), and where they apply ``year`` (of TREC iKAT), ``passages`` (the file of
    released passages, those of the gold provenance, which are the collection), ``size`` (their
    number), ``irds`` (the collection's name in ir_datasets), ``judged_only`` (only the turns with
    provenance, with histories of all turns), ``rewrites`` (the file of manual rewrites) and
    ``automatic`` (the file of topics with the organisers' automatic rewrites).

    Args:
        name: its name.
    """

    def __init__(self, name: str):
        self.name, self.entry = name, RELEASED[name]
        self.summary, self.year = self.entry["summary"], self.entry.get("year")
        self.page = "https://www.trecikat.com/" if self.year else "https://www.treccast.ai/"
        self.size = self.entry.get("size", COLLECTION_SIZE if self.year else None)
        self.topic_variants = (
            (None, "manual", "automatic") if "automatic" in self.entry else (None, "manual")
        )
        self.unit, self.unit_reason = self.entry["unit"], self.entry["unit_reason"]

    @cached_property
    def conversations(self) -> list[Conversation]:
        """All conversations of the topics file."""
        chats = read_topics(data_file(self.entry["topics"]))
        if "rewrites" not in self.entry:
            return chats
        lines = data_file(self.entry["rewrites"]).read_text(encoding="utf-8").splitlines()
        rewrites = {qid: text.strip() for qid, _, text in (line.partition("\t") for line in lines)}
        return [
            replace(
                chat,
                turns=tuple(
                    replace(turn, resolved=rewrites[chat.qid(turn)]) for turn in chat.turns
                ),
            )
            for chat in chats
        ]

    @property
    def topics_file(self) -> Path:
        """The file of its topics, which is a dataset without judgements by itself."""
        return data_file(self.entry["topics"])

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

        These passages come from the organisers' manual run. The track counts a run that reads them
        as a run with manual information.

        Args:
            texts: adds ``text`` by ``docno``, such as an index's ``text_loader()``.

        Example:
            >>> import pyterrier_ikat as ikat
            >>> index = ikat.PassageIndex("cast.index")
            >>> data = ikat.dataset("cast:2020").with_responses(index.text_loader())  # doctest: +SKIP
        """
        loaded = texts.transform(self._provenance()[["qid", "docno"]].drop_duplicates("docno"))
        known, found = (
            dict(zip(loaded["docno"], loaded["text"], strict=True)),
            ReleasedDataset(self.name),
        )
        found.conversations = [
            replace(
                chat,
                turns=tuple(
                    replace(turn, response=" ".join(map(known.__getitem__, turn.passages)))
                    for turn in chat.turns
                ),
            )
            for chat in self.conversations
        ]
        return found

    def _texts(self, fields: Fields = "text") -> TextLoader | None:
        return (
            TextLoader(data_file(self.entry["passages"]), fields)
            if "passages" in self.entry
            else None
        )

    def text_loader(self, fields: Fields = "text", *, verbose: bool = False) -> Any:
        """An operator that adds the passages' ``fields`` by ``docno``; see :meth:`IkatDataset.text_loader`."""
        return (
            IrdsDataset(self.entry["irds"]).text_loader(fields)
            if "irds" in self.entry
            else super().text_loader(fields)
        )

    def _kept(self, frame: pd.DataFrame) -> pd.DataFrame:
        of_all = not self.entry.get("judged_only")
        return (
            frame
            if of_all
            else frame[frame["qid"].isin(self._provenance()["qid"])].reset_index(drop=True)
        )

    def _qrels(self) -> Qrels:
        own = {"provenance": self._provenance, "ptkb": self._ptkb}
        listed = (
            (None if name == "default" else name, file)
            for name, file in self.entry["qrels"].items()
        )
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
            raise DataError(
                f"no passages (*.jsonl, *.jsonl.gz, *.jsonl.bz2) in {folder}; {how}, and put {where}"
            )
        return PassageFiles(files)


CONE_RAG = "cone-rag"


class ConeRagDataset(ReleasedDataset):
    """The year 2024. Qrels ``gpt4``: GPT-4's labels, 0 to 4, of the runs' first 30 passages for each turn."""

    def __init__(self) -> None:
        super().__init__("ikat:2024")

    def get_answers(self, variant: str | None = None) -> pd.DataFrame:
        """The gold answers of the topics, ``qid`` and ``gold_answer``. With ``"human"``, those that people wrote for 62 turns.

        Raises:
            UsageError: for another variant.
        """
        self._check_variant("answers", variant, (None, "human"))
        if variant is None:
            return super().get_answers()
        found = {
            qid: said["manual"]["response"]
            for qid, said in _by_turn("gold_response_and_nuggets_human.json").items()
        }
        return _frame(
            ("qid", "gold_answer"), ((qid, answer) for qid, answer in found.items() if answer)
        )

    def get_nuggets(self, variant: str | None = None) -> pd.DataFrame:
        """The nuggets that people took from passages: ``qid``, ``number``, ``nugget``, ``relevance`` (1 to 4), ``importance``.

        It was not rated whether a nugget is vital, so ``importance`` is ``okay`` for all, and
        scores over vital nuggets are missing. 74 of the 2,279 nuggets have the same text as another
        one of their turn. Only the first of these is kept, so 2,205 are left, many of which say the
        same in other words. 78 of the 116 judged turns have nuggets.

        Args:
            variant: ``"deduplicated"`` for the 1,201 nuggets of the authors' deduplicated file,
                whose numbers are those of the full file.

        Raises:
            UsageError: for another variant.
        """
        self._check_variant("nuggets", variant, (None, "deduplicated"))
        return _nuggets("_deduplicated" if variant else "").drop_duplicates(
            ["qid", "nugget"], ignore_index=True
        )

    def get_nugget_labels(self) -> pd.DataFrame:
        """People's labels of the nuggets in the responses of six runs: ``run``, ``qid``, ``number``, ``nugget``, ``importance``, ``label``.

        The labels are of the full file's nuggets, not of the deduplicated ones: equal nuggets of a
        turn have one label each. The names of the runs differ from those in :meth:`get_responses`,
        and how they correspond isn't published.
        """
        lines = (
            output_file(CONE_RAG, "human-study-matching-labels.txt")
            .read_text(encoding="utf-8")
            .splitlines()
        )
        pairs = (
            (about.split("_", 4), label) for about, label in (line.split("\t") for line in lines)
        )
        said = ("not_support", "support")
        rows = (
            (run, f"{chat}_{turn}", nugget, said[bool(int(label))])
            for (_, chat, turn, nugget, run), label in pairs
        )
        nuggets = _nuggets().drop(columns="relevance")
        return _frame(("run", "qid", "number", "label"), rows).merge(
            nuggets, on=["qid", "number"], how="left", validate="many_to_one"
        )

    def get_responses(self) -> pd.DataFrame:
        """The responses of 19 automatic runs to 79 turns: ``run``, ``qid``, ``qanswer``."""
        responses = _by_turn("automatic_responses.json")
        return _frame(
            ("run", "qid", "qanswer"),
            (
                (run, qid, text)
                for qid, of_runs in responses.items()
                for run, text in of_runs.items()
            ),
        )

    def _qrels(self) -> Qrels:
        return {
            **super()._qrels(),
            "gpt4": lambda: read_qrels(output_file(CONE_RAG, "llm-gpt4-pool-depth-30.txt")),
        }


def _nuggets(which: str = "") -> pd.DataFrame:
    rows = (
        (qid, name.strip("[]"), " ".join(nugget["text"].split()), int(nugget["relevance"]), "okay")
        for qid, nuggets in _by_turn(f"gold_nuggets_human{which}.json").items()
        for name, nugget in nuggets.items()
    )
    return _frame(("qid", "number", "nugget", "relevance", "importance"), rows)


def _frame(columns: tuple[str, ...], rows: Iterable[tuple[Any, ...]]) -> pd.DataFrame:
    return object_frame(dict(zip(columns, zip(*rows, strict=True), strict=True)))


def _by_turn(name: str) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(output_file(CONE_RAG, name).read_text(encoding="utf-8"))
    return found
