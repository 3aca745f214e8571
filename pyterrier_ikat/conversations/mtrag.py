"""MTRAG: conversations with human rewrites, judged passages, target answers and answerability, over four collections.

Its files lie in ``mtrag/`` of the data folder: a clone of the repository IBM/mt-rag-benchmark, or single files of it. Files
with a known checksum are downloaded. Collections, and ``reference.jsonl`` with all tasks, are read if they are there.

Source: Katsis et al., MTRAG: A Multi-Turn Conversational Benchmark for Evaluating Retrieval-Augmented Generation Systems, TACL 2025.
"""

import warnings
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace
from functools import cached_property
from pathlib import Path

import pandas as pd

from ..errors import DataError, UsageError, advice
from .download import DATA_FOLDER, SOURCES, OtherDataWarning, at_hand, data_file, data_folder
from .ikat_dataset import IkatDataset, Qrels
from .mtrag_files import Tasks, grouped, read_judgements, read_queries, read_tasks, turn_id
from .passages import PassageFiles, TextLoader
from .topic_files import CollectionWarning
from .topics import Conversation, TopicTurn

PREFIX = "mtrag:"
FOLDER = "mtrag"
REPOSITORY = "https://github.com/IBM/mt-rag-benchmark"
SUBSET = f"{FOLDER}/mtrag-human/evaluations/reference_subset_with_human_evaluations.json"
REFERENCE = f"{FOLDER}/mtrag-human/generation_tasks/reference.jsonl"
RETRIEVAL = f"{FOLDER}/mtrag-human/retrieval_tasks/"
COUNTS = {
    "clapnq": ("Wikipedia", 208, 183_408),
    "cloud": ("technical documentation", 188, 72_442),
    "fiqa": ("finance", 180, 61_022),
    "govt": ("government", 201, 49_607),
}
"""Subject, turns and passages. The numbers come from the files: the table in the repository swaps its last three rows."""


COLLECTIONS = {
    "clapnq": "mt-rag-clapnq-elser-512-100-20240503",
    "cloud": "mt-rag-ibmcloud-elser-512-100-20240502",
    "fiqa": "mt-rag-fiqa-beir-elser-512-100-20240501",
    "govt": "mt-rag-govt-elser-512-100-20240611",
}
"""The names of the collections in the tasks, and in the evaluation scripts of the repository."""


class _MtragDataset(IkatDataset):
    """The parts that both kinds share."""

    def info_url(self) -> str:
        """The benchmark's repository."""
        return REPOSITORY

    def __repr__(self) -> str:
        return f"ikat.dataset({self.name!r})"


class DomainDataset(_MtragDataset):
    """The retrieval tasks of one collection: its turns that have relevant passages.

    The published queries are the last question (the ``query``), all questions (:class:`~pyterrier_ikat.AllUtterances`) and the human
    rewrite (``get_topics("manual")``, :class:`~pyterrier_ikat.ManualRewrite`).

    Args:
        domain: ``"clapnq"``, ``"cloud"``, ``"fiqa"`` or ``"govt"``.
    """

    def __init__(self, domain: str):
        self.domain, self.name = domain, f"{PREFIX}{domain}"
        subject, turns, self.size = COUNTS[domain]
        self.summary = f"{turns} turns of MTRAG about {subject} with human rewrites and qrels; its {self.size:,} passages you download"

    @cached_property
    def conversations(self) -> list[Conversation]:
        """The judged conversations. They have the agents' responses and target answers if ``reference.jsonl`` is there.

        Warns:
            CollectionWarning: when it is not there. The histories then have only the user's questions.
        """
        questions, rewrites = self._queries("questions"), self._queries("rewrite")
        if odd := sorted(questions.keys() ^ rewrites.keys()):
            raise DataError(
                f"turn {odd[0]} is in one of {self.domain}_questions.jsonl and {self.domain}_rewrite.jsonl only: fetch both again"
            )
        relevant: dict[str, list[str]] = {}
        for qid, docno, label in self._judged().itertuples(index=False, name=None):
            relevant.setdefault(qid, []).extend([docno] * (label > 0))
        tasks = self._tasks()
        turns = []
        for qid, said in questions.items():
            history = tuple({"role": "user", "content": text} for text in said[:-1])
            known = TopicTurn(turn_id(qid), said[-1], "", qid=qid, history=history) if tasks is None else self._task(tasks, qid, said[-1])
            turns.append(replace(known, resolved=rewrites[qid][-1], passages=tuple(relevant.get(qid, ()))))
        return grouped(turns)

    def text_loader(self, fields: Sequence[str] = ("text",)) -> TextLoader:
        """Always raises: an index of the collection stores its texts.

        Raises:
            UsageError: always, naming the index's own loader.
        """
        python = "index them with ikat.PassageIndex(path).index(data.get_corpus_iter()) and take that index's text_loader()"
        command = f"index them with `ikat index {self.name} PATH` and give --index PATH"
        raise UsageError(f"{self.name} has {self.size:,} passages, too many to hold in memory: {advice(python, command)}")

    def collection(self) -> tuple[int | None, frozenset[str] | None]:
        """The number of passages."""
        return self.size, None

    def _qrels(self) -> Qrels:
        return {None: self._judged}

    def _passages(self) -> tuple[PassageFiles, int]:
        packed = f"{FOLDER}/corpora/passage_level/{self.domain}.jsonl.zip"
        names = (packed, packed.removesuffix(".zip"), packed.replace(".jsonl.zip", ".json.zip"), packed.replace(".jsonl.zip", ".json"))
        file = next((path for name in names if (path := at_hand(name)) is not None), None)
        if file is None:
            folder = data_folder() / FOLDER
            raise DataError(
                f"{self.name} lacks its passages: download {SOURCES[packed].url} into {folder}, or clone {REPOSITORY} there "
                f"({DATA_FOLDER} names another folder than {folder.parent}); mtrag:mini works without"
            )
        return _Collection(file, self.size), self.size

    def _queries(self, kind: str) -> dict[str, list[str]]:
        """The user's utterance of each turn."""
        return read_queries(data_file(f"{RETRIEVAL}{self.domain}/{self.domain}_{kind}.jsonl"))

    def _judged(self) -> pd.DataFrame:
        return read_judgements(data_file(f"{RETRIEVAL}{self.domain}/qrels/dev.tsv"))

    def _tasks(self) -> dict[str, TopicTurn] | None:
        """All tasks, by qid. None when their file isn't there."""
        if at_hand(REFERENCE) is not None:
            return {turn.qid: turn for chat in read_tasks(data_file(REFERENCE)).conversations for turn in chat.turns}
        warnings.warn(
            f"{self.name}: histories have the user's questions only, and there are no target answers: for both download "
            f"{SOURCES[REFERENCE].url} into {data_folder() / FOLDER}",
            CollectionWarning,
            stacklevel=5,
        )
        return None

    def _task(self, tasks: dict[str, TopicTurn], qid: str, question: str) -> TopicTurn:
        if qid not in tasks or tasks[qid].utterance.strip() != question.strip():
            what = "asks something else" if qid in tasks else "is missing"
            raise DataError(f"turn {qid} of {self.name} {what} in {at_hand(REFERENCE)}: fetch it again, or remove it")
        return tasks[qid]


class TasksDataset(_MtragDataset):
    """Tasks that come with their reference passages, which are the collection and the qrels.

    Args:
        name: its name.
        file: the name of the file of tasks.
        summary: one line about its contents.
    """

    def __init__(self, name: str, file: str, summary: str):
        self.name, self.file, self.summary = name, file, summary

    @cached_property
    def conversations(self) -> list[Conversation]:
        """The conversations with full histories, target answers, human rewrites of the judged turns, and answerability."""
        chats = self._read().conversations
        rewrites = {qid: said[-1] for domain in COUNTS for qid, said in DomainDataset(domain)._queries("rewrite").items()}
        return [replace(chat, turns=tuple(replace(turn, resolved=rewrites.get(turn.qid, "")) for turn in chat.turns)) for chat in chats]

    def text_loader(self, fields: Sequence[str] = ("text",)) -> TextLoader:
        """An operator that adds the passages' ``fields`` (``"text"``; ``url`` is empty) by ``docno``."""
        return TaskTexts(data_file(self.file), fields)

    def collection(self) -> tuple[int | None, frozenset[str] | None]:
        """The number of passages, and their docnos."""
        return len(self._read().passages), frozenset(self._read().passages)

    def _read(self) -> Tasks:
        return read_tasks(data_file(self.file))

    def _qrels(self) -> Qrels:
        return {None: self._provenance}

    def _passages(self) -> tuple[Iterable[dict[str, str]], int]:
        found = self._read().passages
        return list(found.values()), len(found)


class TaskTexts(TextLoader):
    """A text loader over the passages of a file of tasks."""

    @cached_property
    def _passages(self) -> dict[str, dict[str, str]]:
        return read_tasks(Path(self.path)).passages


class _Collection(PassageFiles):
    """The passages of one collection. At the end, it warns if their number is not the published one."""

    def __init__(self, file: Path, size: int):
        super().__init__(file)
        self.size = size

    def __iter__(self) -> Iterator[dict[str, str]]:
        count = 0
        for passage in super().__iter__():
            count += 1
            yield passage
        if count != self.size:
            message = f"{self.files[0]} has {count:,} passages, MTRAG's has {self.size:,}, and scores depend on it: fetch it again"
            warnings.warn(f"{message}, unless you mean this one", OtherDataWarning, stacklevel=2)


def collections_of(dataset: IkatDataset) -> dict[str, str]:
    """For each turn of an MTRAG dataset, the name of its collection.

    Raises:
        UsageError: for another dataset.
    """
    if isinstance(dataset, DomainDataset):
        return dict.fromkeys(dataset.get_topics()["qid"], COLLECTIONS[dataset.domain])
    if isinstance(dataset, TasksDataset):
        return dataset._read().collections
    raise UsageError(f"{dataset.name} is not a dataset of MTRAG, and these are its predictions: give mtrag:mini or another of its datasets")


MTRAG: dict[str, Callable[[], IkatDataset]] = {
    f"{PREFIX}mini": lambda: TasksDataset(
        f"{PREFIX}mini",
        SUBSET,
        "159 turns of MTRAG with answers and answerability, and their 350 passages, which are the qrels of 150 turns",
    ),
    f"{PREFIX}reference": lambda: TasksDataset(
        f"{PREFIX}reference", REFERENCE, "842 turns of MTRAG with answers and answerability, and their passages; a file that you download"
    ),
    **{f"{PREFIX}{domain}": lambda domain=domain: DomainDataset(domain) for domain in COUNTS},  # type: ignore[misc]
}
