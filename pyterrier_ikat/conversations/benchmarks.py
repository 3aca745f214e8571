"""Benchmarks of other fields: MTRAG and MTRAG-UN for answers, LoCoMo and LongMemEval for memories.

Nothing is shipped. MTRAG and MTRAG-UN have judged passages, target answers and answerability over
four collections. Their files lie in ``mtrag/`` of the data folder or beside it, as in a clone of
the repository IBM/mt-rag-benchmark, or are downloaded. LoCoMo's file ``locomo10.json`` is in
``memory/`` in the data folder or beside it; otherwise it is downloaded from its authors. It may be
used for purposes that aren't commercial (CC BY-NC 4.0). A file of LongMemEval is given by its path.

Sources: Katsis et al., MTRAG: A Multi-Turn Conversational Benchmark for Evaluating
Retrieval-Augmented Generation Systems, TACL 2025; Rosenthal et al., MTRAG-UN: A Benchmark for Open
Challenges in Multi-Turn RAG Conversations (arXiv 2602.23184); Maharana et al., Evaluating Very
Long-Term Conversational Memory of LLM Agents, ACL 2024 (arXiv 2402.17753); Wu et al., LongMemEval:
Benchmarking Chat Assistants on Long-Term Interactive Memory, ICLR 2025 (arXiv 2410.10813).
"""

import json
import warnings
from abc import abstractmethod
from collections.abc import Callable, Iterable
from dataclasses import replace
from functools import cached_property, partial
from pathlib import Path
from typing import NoReturn

import pandas as pd

from ..errors import DataError, UsageError, counted
from .download import data_file
from .frame import with_columns
from .ikat_dataset import IkatDataset, Qrels
from .passage_fields import joined
from .passages import Fields, PassageFiles, TextLoader
from .qrels import qrels_frame
from .released import RELEASED
from .topic_files import read_conversations, read_items
from .topics import CollectionWarning, Conversation, TopicTurn

MTRAG_PREFIX = "mtrag:"
REFERENCE_TASKS = "mtrag/mtrag-human/generation_tasks/reference.jsonl"
RETRIEVAL_TASKS = "mtrag/mtrag-human/retrieval_tasks/"
COLLECTIONS = {
    "clapnq": "mt-rag-clapnq-elser-512-100-20240503",
    "cloud": "mt-rag-ibmcloud-elser-512-100-20240502",
    "fiqa": "mt-rag-fiqa-beir-elser-512-100-20240501",
    "govt": "mt-rag-govt-elser-512-100-20240611",
}
"""The names of the collections in MTRAG's tasks, and in the repository's evaluation scripts."""
COLLECTIONS_OF_UN = COLLECTIONS | {"ibmcloud": COLLECTIONS["cloud"]}
"""Their names in the tasks of MTRAG-UN -> those names."""
QUESTION_MARK = "|user|: "
"""The beginning of each question in a file of queries."""


class MtragDataset(IkatDataset):
    """Turns over whole collections or over the passages of their tasks.

    ``released.json`` lists them. Its entries have ``domains`` (the collections that its turns are
    about) and ``summary``, for whole collections ``size`` (the number of passages), and for tasks
    ``file``.

    Args:
        name: its name.
    """

    page = "https://github.com/IBM/mt-rag-benchmark"
    judgements: str

    def __init__(self, name: str):
        self.name = name
        self.entry = RELEASED[name]
        self.summary = self.entry["summary"]
        self.domains: list[str] = self.entry["domains"]
        self.size = self.entry.get("size")

    def collections(self) -> dict[str, str]:
        """Return for each turn the name of its collection in the evaluation scripts."""
        return dict.fromkeys(self.get_topics()["qid"], COLLECTIONS[self.domains[0]])

    def _judged(self) -> pd.DataFrame:
        rows = []
        for domain in self.domains:
            file = data_file(self.judgements.format(domain))
            for line in file.read_text(encoding="utf-8").splitlines()[1:]:
                qid, docno, label = line.split("\t")
                rows.append((qid, docno, int(label)))
        return qrels_frame(rows)

    def _passages(self) -> Iterable[dict[str, str]]:
        files = []
        for domain in self.domains:
            files.append(data_file(f"mtrag/corpora/passage_level/{domain}.jsonl.zip"))
        return PassageFiles(files)


class DomainDataset(MtragDataset):
    """The retrieval tasks of MTRAG over one collection: its turns with relevant passages.

    The published queries are the last question (the ``query``), all questions
    (:class:`~pyterrier_ikat.AllUtterances`) and the human rewrite (``get_topics("manual")``,
    :class:`~pyterrier_ikat.ManualRewrite`).
    """

    judgements = RETRIEVAL_TASKS + "{0}/qrels/dev.tsv"

    @cached_property
    def conversations(self) -> list[Conversation]:
        """The judged conversations, with responses and target answers if their file can be had.

        The file is ``reference.jsonl``.

        Warns:
            CollectionWarning: when it can't. The histories then have only the user's questions.
        """
        (domain,) = self.domains
        rewrites = _queries(domain, "rewrite")
        judged = self._judged().query("label > 0")
        relevant = {qid: tuple(docnos) for qid, docnos in judged.groupby("qid")["docno"]}
        tasks = self._tasks()
        turns: dict[str, list[TopicTurn]] = {}
        for qid, questions in _queries(domain, "questions").items():
            name, _, number = qid.rpartition("<::>")
            if tasks:
                turn = tasks[qid]
            else:
                history = tuple({"role": "user", "content": text} for text in questions[:-1])
                turn = TopicTurn(int(number), questions[-1], "", qid=qid, history=history)
            turn = replace(turn, resolved=rewrites[qid][-1], passages=relevant.get(qid, ()))
            turns.setdefault(name, []).append(turn)
        return [Conversation(name, turns=tuple(of_chat)) for name, of_chat in turns.items()]

    def _tasks(self) -> dict[str, TopicTurn]:
        """Return all tasks of MTRAG, by qid. Empty when their file can't be had."""
        try:
            chats = read_conversations(data_file(REFERENCE_TASKS), "MTRAG")
        except DataError as error:
            warnings.warn(
                f"{self.name}: histories have the user's questions only, "
                f"and there are no target answers: {error}",
                CollectionWarning,
                stacklevel=4,
            )
            return {}
        return {turn.qid: turn for chat in chats for turn in chat.turns}

    def _qrels(self) -> Qrels:
        return {None: self._judged}


class TasksDataset(MtragDataset):
    """Tasks with their histories, target answers and answerability, of MTRAG or MTRAG-UN.

    The relevant passages of MTRAG's tasks are their reference passages. Those of MTRAG-UN are the
    published qrels: 45 turns that are underspecified have reference passages, and none of them is
    judged. MTRAG-UN has no human rewrites.
    """

    judgements = "mtrag/mtragun-human/retrieval_tasks/qrels/{0}.tsv"

    def __init__(self, name: str):
        super().__init__(name)
        self.file: str = self.entry["file"]
        self.of_un = "mtragun-human" in self.file
        self.topic_variants = (None,) if self.of_un else (None, "manual")

    @cached_property
    def conversations(self) -> list[Conversation]:
        """The conversations, with human rewrites of MTRAG's judged turns."""
        rewrites = {}
        if not self.of_un:
            for domain in self.domains:
                for qid, queries in _queries(domain, "rewrite").items():
                    rewrites[qid] = queries[-1]
        chats = read_conversations(data_file(self.file), "MTRAG")
        names = {COLLECTIONS[domain] for domain in self.domains}
        collection_of = self.collections()
        conversations = []
        for chat in chats:
            turns = []
            for turn in chat.turns:
                if collection_of[turn.qid] in names:
                    turns.append(replace(turn, resolved=rewrites.get(turn.qid, "")))
            if turns:
                conversations.append(replace(chat, turns=tuple(turns)))
        return conversations

    def collections(self) -> dict[str, str]:
        """Return for each task the name of its collection in the evaluation scripts."""
        collections = {}
        for _place, task in read_items(data_file(self.file)):
            name = task["Collection"]
            collections[task["task_id"]] = COLLECTIONS_OF_UN.get(name, name)
        return collections

    def _texts(self, fields: Fields = "text") -> TextLoader | None:
        return None if self.size else TaskTexts(data_file(self.file), fields)

    def _qrels(self) -> Qrels:
        return {None: self._judged if self.of_un else self._provenance}

    def _passages(self) -> Iterable[dict[str, str]]:
        if self.size:
            return super()._passages()
        return TaskTexts(data_file(self.file)).all.values()


class TaskTexts(TextLoader):
    """A text loader over the passages of a file of tasks.

    They are its ``documents``, or the ``contexts`` of all tasks.
    """

    @cached_property
    def all(self) -> dict[str, dict[str, str]]:
        """The passages by docno."""
        path = Path(self.path)
        if path.suffix == ".json":
            documents = json.loads(path.read_text(encoding="utf-8"))["documents"]
        else:
            documents = []
            for _place, task in read_items(path):
                documents += task["contexts"]
        passages = {}
        for document in documents:
            docno = document["document_id"]
            text = joined([document.get("title") or ""], document["text"]).strip()
            passages[docno] = {"docno": docno, "text": text, "url": ""}
        return passages


def _queries(domain: str, kind: str) -> dict[str, list[str]]:
    """Read the user's questions up to each turn, by qid, from a file of queries in BEIR's form."""
    file = data_file(f"{RETRIEVAL_TASKS}{domain}/{domain}_{kind}.jsonl")
    queries = {}
    for _place, item in read_items(file):
        questions = item["text"].removeprefix(QUESTION_MARK)
        queries[item["_id"]] = questions.split(f"\n{QUESTION_MARK}")
    return queries


def collections_of(dataset: IkatDataset) -> dict[str, str]:
    """Return for each turn of an MTRAG dataset the name of its collection.

    Raises:
        UsageError: for another dataset.
    """
    if isinstance(dataset, MtragDataset):
        return dataset.collections()
    raise UsageError(
        f"{dataset.name} is not a dataset of MTRAG, and these are its predictions: "
        "give mtrag:mini or another of its datasets"
    )


def _mtrag_datasets() -> dict[str, Callable[[], IkatDataset]]:
    makers: dict[str, Callable[[], IkatDataset]] = {}
    for name, entry in RELEASED.items():
        if name.startswith(MTRAG_PREFIX):
            makers[name] = partial(TasksDataset if "file" in entry else DomainDataset, name)
    return makers


MTRAG = _mtrag_datasets()
"""Name -> the function that makes the dataset."""

LOCOMO = "locomo:"
LONGMEMEVAL = "longmemeval:"


class MemoryBenchmark(IkatDataset):
    """Questions with evidence, over turns as the statements of ``qptkb``.

    The qrels are the evidence turns, all of label 1. ``get_topics("manual")`` also has the
    question's category in ``qcategory``, for evaluation.
    """

    measures = ("R@5", "nDCG@10", "Success@5", "Success@5 by session")
    form: str

    @cached_property
    def conversations(self) -> list[Conversation]:
        """The questions of each conversation. Those of LoCoMo without evidence are left out."""
        return [chat for chat in read_conversations(self._file(), self.form) if chat.turns]

    def get_topics(self, variant: str | None = None) -> pd.DataFrame:
        """Return the questions with ``qptkb``, and with ``qfacts`` if there are any.

        Args:
            variant: ``"manual"`` adds ``qcategory``.
        """
        frame = super().get_topics(variant)
        categories = []
        facts = []
        for chat in self.conversations:
            for turn in chat.turns:
                categories.append(turn.category)
                facts.append(chat.facts)
        if variant:
            frame = with_columns(frame, qcategory=categories)
        if any(facts):
            frame = with_columns(frame, qfacts=facts)
        return frame

    @abstractmethod
    def _file(self) -> Path:
        """Return the path of the questions."""

    def _qrels(self) -> Qrels:
        return {None: self._provenance}

    def _passages(self) -> NoReturn:
        raise DataError(
            f"{self.name} has no collection: the turns of each conversation are its statements, "
            "which ikat.ListStatements() lists"
        )


class LocomoDataset(MemoryBenchmark):
    """The questions of LoCoMo with evidence, each over the turns of its conversation.

    The turns are the statements of ``qptkb``. A statement is ``SPEAKER: TEXT [CAPTION OF THE
    IMAGE]``. Its id is that of the turn, ``D1:3``: turn 3 of session 1. ``qfacts`` has the facts
    that a model of the authors extracted from the turns: ``D1:3%p0`` is a fact from ``D1:3``, see
    :class:`~pyterrier_ikat.SourceTurns`.

    Known errors of the data: an audit found 99 wrong answers among the 1,540 that aren't
    adversarial, so judge retrieval first. The answer of an adversarial question is none; the
    evidence is the turn that it misquotes. Ids of evidence with slips are cleaned; those that name
    no turn are left out.
    """

    name = LOCOMO
    summary = (
        "1,982 questions on 10 long conversations of LoCoMo, whose 5,882 turns are the statements, "
        "with evidence turns as qrels and extracted facts; CC BY-NC 4.0"
    )
    form = "LoCoMo"
    page = "https://github.com/snap-research/locomo"
    unit = "user"
    unit_reason = "All questions on a conversation are about the same two speakers."

    def _file(self) -> Path:
        return data_file("memory/locomo10.json")

    def _unit_of(self, conversation: str) -> str:
        return conversation  # of two speakers, who have no other


class LongMemEvalDataset(MemoryBenchmark):
    """A file of LongMemEval, such as ``longmemeval_s.json``.

    Each question is over the user's turns in many sessions with an assistant. As in the authors'
    code, all questions are asked and their answers judged, and retrieval is judged on a part of
    them. The statements are the turns of the user, and the evidence is those with ``has_answer``.
    Not judged in retrieval are questions without an answer (``_abs`` in their ids), and those
    without such a turn, because the assistant gave the answer; :meth:`get_qrels` warns how many
    these are. ``gold_answerability`` of :meth:`get_answers` is ``unanswerable`` for the former.

    The id of a statement is the session's id and the turn's number in it from 1, such as
    ``answer_4be1b6b4_1:3``. Dates are not read. The ``qid`` is the question's id and ``_1``. **It
    is untried on the real files**: the tests read hand-made files of the form that the authors'
    code reads.

    Args:
        path: the file, in JSON.
    """

    summary = "a file of LongMemEval"
    form = "LongMemEval"
    page = "https://github.com/xiaowu0162/LongMemEval"
    unit_reason = "Each question has a history of its own, and is a conversation of one turn."

    def __init__(self, path: str | Path):
        self.path = Path(path).expanduser().absolute()
        self.name = f"{LONGMEMEVAL}{self.path}"
        self._warned = False

    def _file(self) -> Path:
        return self.path

    def get_qrels(self, variant: str | None = None) -> pd.DataFrame:
        """Return the evidence, see :meth:`IkatDataset.get_qrels`.

        Warns:
            CollectionWarning: once, if there are questions that retrieval isn't judged on.
        """
        qrels = super().get_qrels(variant)
        if not self._warned:
            self._warned = True
            self._warn_of_unjudged()
        return qrels

    def _warn_of_unjudged(self) -> None:
        turns = [turn for chat in self.conversations for turn in chat.turns]
        unjudged = [turn for turn in turns if not turn.passages]
        if not unjudged:
            return
        declined = sum(turn.answerability == "unanswerable" for turn in unjudged)
        by_assistant = len(unjudged) - declined
        judged = f"{len(turns) - len(unjudged)} of {counted(len(turns), 'question')}"
        warnings.warn(
            f"{self.name}: retrieval is judged on {judged}, as by the authors. "
            f"Left out: {declined} without an answer, "
            f"{by_assistant} without a turn of the user that has it. Answers are judged on all",
            CollectionWarning,
            stacklevel=3,
        )
