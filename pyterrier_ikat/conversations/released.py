"""The datasets of TREC iKAT and TREC CAsT with released files.

For iKAT 2024 also the data of CONE-RAG. CONE-RAG (arXiv 2503.09902) has nuggets, answers and labels
by people, responses of real systems, and GPT-4's labels. Its files are fetched from the authors at
first use; their repository states no licence.
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
from .frame import frame_of_rows
from .ikat_dataset import IkatDataset, Qrels
from .irds import IrdsDataset
from .passages import Fields, PassageFiles, TextLoader, collection_files
from .public_outputs import output_file
from .qrels import read_qrels
from .topic_files import read_topics
from .topics import Conversation, with_automatic

COLLECTION = "ikat_collection"
COLLECTION_SIZE = 116_838_987
CLUEWEB = (
    "ikat:2023-mini works without; the whole collection derives from ClueWeb22: "
    "request the ClueWeb22-B licence at https://lemurproject.org/clueweb22/, "
    "then the passages from the organisers (https://www.trecikat.com/data/)"
)
CAST_TOOLS = (
    "make them of MS MARCO, KILT and the Washington Post by the organisers' trec-cast-tools"
)
RELEASED: dict[str, dict[str, Any]] = json.loads(
    Path(__file__).with_name("released.json").read_text(encoding="utf-8")
)


class ReleasedDataset(IkatDataset):
    """Topics, judgements and passages in files under their published names.

    ``released.json`` lists them. Its entries have ``topics`` (the file), ``qrels`` (variant -> the
    file, or the gold field of the topics that they are made of), ``summary``, ``unit`` and
    ``unit_reason`` (see :class:`IkatDataset`), and where they apply ``year`` (of TREC iKAT),
    ``passages`` (the file of released passages, those of the gold provenance, which are the
    collection), ``size`` (their number), ``irds`` (the collection's name in ir_datasets),
    ``judged_only`` (only the turns with provenance, with histories of all turns), ``rewrites`` (the
    file of manual rewrites) and ``automatic`` (the file of topics with the organisers' automatic
    rewrites).

    Args:
        name: its name.
    """

    def __init__(self, name: str):
        entry = RELEASED[name]
        self.name = name
        self.entry = entry
        self.summary = entry["summary"]
        self.year = entry.get("year")
        self.page = "https://www.trecikat.com/" if self.year else "https://www.treccast.ai/"
        self.size = entry.get("size", COLLECTION_SIZE if self.year else None)
        if "automatic" in entry:
            self.topic_variants = (None, "manual", "automatic")
        self.unit = entry["unit"]
        self.unit_reason = entry["unit_reason"]

    @cached_property
    def conversations(self) -> list[Conversation]:
        """All conversations of the topics file."""
        chats = read_topics(data_file(self.entry["topics"]))
        if "rewrites" not in self.entry:
            return chats
        rewrites = {}
        for line in data_file(self.entry["rewrites"]).read_text(encoding="utf-8").splitlines():
            qid, _, text = line.partition("\t")
            rewrites[qid] = text.strip()
        with_rewrites = []
        for chat in chats:
            turns = []
            for turn in chat.turns:
                turns.append(replace(turn, resolved=rewrites[chat.qid(turn)]))
            with_rewrites.append(replace(chat, turns=tuple(turns)))
        return with_rewrites

    @property
    def topics_file(self) -> Path:
        """The file of its topics, by itself a dataset without judgements."""
        return data_file(self.entry["topics"])

    def get_topics(self, variant: str | None = None) -> pd.DataFrame:
        """Return the turn frame; see :meth:`IkatDataset.get_topics`."""
        if variant == "automatic" and "automatic" in self.entry:
            rewritten = read_topics(data_file(self.entry["automatic"]))
            return with_automatic(super().get_topics(), rewritten)
        return self._of_chosen_turns(super().get_topics(variant))

    def get_answers(self) -> pd.DataFrame:
        """Return the gold answers of the same turns."""
        return self._of_chosen_turns(super().get_answers())

    def with_responses(self, texts: pt.Transformer) -> "ReleasedDataset":
        """Put the texts of the earlier turns' canonical passages into the histories, for CAsT 2020.

        These passages come from the organisers' manual run. The track counts a run that reads them
        as a run with manual information.

        Args:
            texts: adds ``text`` by ``docno``, such as an index's ``text_loader()``.

        Returns:
            A new dataset.

        Example:
            >>> import pyterrier_ikat as ikat
            >>> texts = ikat.PassageIndex("cast.index").text_loader()
            >>> data = ikat.dataset("cast:2020").with_responses(texts)  # doctest: +SKIP
        """
        loaded = texts.transform(self._provenance()[["qid", "docno"]].drop_duplicates("docno"))
        text_of = dict(zip(loaded["docno"], loaded["text"], strict=True))
        conversations = []
        for chat in self.conversations:
            turns = []
            for turn in chat.turns:
                response = " ".join(text_of[docno] for docno in turn.passages)
                turns.append(replace(turn, response=response))
            conversations.append(replace(chat, turns=tuple(turns)))
        dataset = ReleasedDataset(self.name)
        dataset.conversations = conversations
        return dataset

    def _texts(self, fields: Fields = "text") -> TextLoader | None:
        if "passages" not in self.entry:
            return None
        return TextLoader(data_file(self.entry["passages"]), fields)

    def text_loader(self, fields: Fields = "text", *, verbose: bool = False) -> Any:
        """Make an operator that adds the passages' ``fields`` by ``docno``.

        See :meth:`IkatDataset.text_loader`.
        """
        if "irds" in self.entry:
            return IrdsDataset(self.entry["irds"]).text_loader(fields)
        return super().text_loader(fields)

    def _of_chosen_turns(self, frame: pd.DataFrame) -> pd.DataFrame:
        """Reduce a frame to the turns of this dataset: all turns, or those with provenance."""
        if not self.entry.get("judged_only"):
            return frame
        chosen = frame["qid"].isin(self._provenance()["qid"])
        return frame[chosen].reset_index(drop=True)

    def _qrels(self) -> Qrels:
        qrels: Qrels = {}
        for name, source in self.entry["qrels"].items():
            variant = None if name == "default" else name
            if source == "provenance":
                qrels[variant] = self._provenance
            elif source == "ptkb":
                qrels[variant] = self._ptkb
            else:
                qrels[variant] = partial(self._read, source)
        return qrels

    def _read(self, file: str) -> pd.DataFrame:
        try:
            return self._of_chosen_turns(read_qrels(data_file(file)))
        except DataError as error:
            repair = advice("get_qrels('provenance')", "`ikat evaluate --qrels provenance`")
            raise DataError(f"{error}; {repair} takes the topics' own gold passages") from error

    def _passages(self) -> Iterable[dict[str, str]]:
        if "irds" in self.entry:
            return IrdsDataset(self.entry["irds"])._passages()
        if "passages" in self.entry:
            return PassageFiles(data_file(self.entry["passages"]))
        if self.year:
            folder = data_folder() / COLLECTION
            how = CLUEWEB
        else:
            folder = data_folder() / f"cast_{self.name[-4:]}_collection"
            how = CAST_TOOLS
        files = collection_files(folder)
        if not files:
            where = f"the files into {folder.name}/ in the folder that {DATA_FOLDER} names"
            raise DataError(
                f"no passages (*.jsonl, *.jsonl.gz, *.jsonl.bz2) in {folder}; {how}, "
                f"and put {where}"
            )
        return PassageFiles(files)


CONE_RAG = "cone-rag"


class ConeRagDataset(ReleasedDataset):
    """The year 2024 with the data of CONE-RAG.

    Qrels ``gpt4``: GPT-4's labels, 0 to 4, of the runs' first 30 passages for each turn.
    """

    def __init__(self) -> None:
        super().__init__("ikat:2024")

    def get_answers(self, variant: str | None = None) -> pd.DataFrame:
        """Return gold answers: ``qid`` and ``gold_answer``.

        Args:
            variant: None for those of the topics, ``"human"`` for those that people wrote for 62
                turns.

        Raises:
            UsageError: for another variant.
        """
        self._check_variant("answers", variant, (None, "human"))
        if variant is None:
            return super().get_answers()
        rows = []
        for qid, turn in _by_turn("gold_response_and_nuggets_human.json").items():
            answer = turn["manual"]["response"]
            if answer:
                rows.append((qid, answer))
        return frame_of_rows(("qid", "gold_answer"), rows)

    def get_nuggets(self, variant: str | None = None) -> pd.DataFrame:
        """Return the nuggets taken from passages by people.

        It was not rated whether a nugget is vital, so ``importance`` is ``okay`` for all, and
        scores over vital nuggets are missing. 74 of the 2,279 nuggets have the same text as another
        one of their turn. Only the first of these is kept, so 2,205 are left, many of which say the
        same in other words. 78 of the 116 judged turns have nuggets.

        Args:
            variant: ``"deduplicated"`` for the 1,201 nuggets of the authors' deduplicated file,
                whose numbers are those of the full file.

        Returns:
            ``qid``, ``number``, ``nugget``, ``relevance`` (1 to 4), ``importance``.

        Raises:
            UsageError: for another variant.
        """
        self._check_variant("nuggets", variant, (None, "deduplicated"))
        nuggets = _nuggets("_deduplicated" if variant else "")
        return nuggets.drop_duplicates(["qid", "nugget"], ignore_index=True)

    def get_nugget_labels(self) -> pd.DataFrame:
        """Return people's labels of the nuggets in the responses of six runs.

        The labels are of the full file's nuggets, not of the deduplicated ones: equal nuggets of a
        turn have one label each. The names of the runs differ from those in :meth:`get_responses`,
        and how they correspond isn't published.

        Returns:
            ``run``, ``qid``, ``number``, ``nugget``, ``importance``, ``label``.
        """
        file = output_file(CONE_RAG, "human-study-matching-labels.txt")
        rows = []
        for line in file.read_text(encoding="utf-8").splitlines():
            name, label = line.split("\t")
            _task, conversation, turn, nugget, run = name.split("_", 4)
            support = "support" if int(label) else "not_support"
            rows.append((run, f"{conversation}_{turn}", nugget, support))
        labels = frame_of_rows(("run", "qid", "number", "label"), rows)
        nuggets = _nuggets().drop(columns="relevance")
        return labels.merge(nuggets, on=["qid", "number"], how="left", validate="many_to_one")

    def get_responses(self) -> pd.DataFrame:
        """Return the responses of 19 automatic runs to 79 turns: ``run``, ``qid``, ``qanswer``."""
        rows = []
        for qid, responses in _by_turn("automatic_responses.json").items():
            for run, text in responses.items():
                rows.append((run, qid, text))
        return frame_of_rows(("run", "qid", "qanswer"), rows)

    def _qrels(self) -> Qrels:
        qrels = super()._qrels()
        qrels["gpt4"] = lambda: read_qrels(output_file(CONE_RAG, "llm-gpt4-pool-depth-30.txt"))
        return qrels


def _nuggets(which: str = "") -> pd.DataFrame:
    rows = []
    for qid, nuggets in _by_turn(f"gold_nuggets_human{which}.json").items():
        for name, nugget in nuggets.items():
            number = name.strip("[]")
            text = " ".join(nugget["text"].split())
            rows.append((qid, number, text, int(nugget["relevance"]), "okay"))
    return frame_of_rows(("qid", "number", "nugget", "relevance", "importance"), rows)


def _by_turn(name: str) -> dict[str, Any]:
    by_turn: dict[str, Any] = json.loads(output_file(CONE_RAG, name).read_text(encoding="utf-8"))
    return by_turn
