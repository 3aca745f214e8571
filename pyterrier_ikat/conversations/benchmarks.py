"""Benchmarks of other fields: MTRAG and MTRAG-UN for answers from passages, LoCoMo and LongMemEval for memories. Nothing is shipped.

MTRAG and MTRAG-UN have judged passages, target answers and answerability over four collections.
Their files lie in ``mtrag/`` of the data folder or beside it, as in a clone of the repository
IBM/mt-rag-benchmark, or are downloaded. LoCoMo's file ``locomo10.json`` is in ``memory/`` in the
data folder or beside it; otherwise it is downloaded from its authors. It may be used for purposes
that aren't commercial (CC BY-NC 4.0). A file of LongMemEval is given by its path.

Sources: Katsis et al., MTRAG: A Multi-Turn Conversational Benchmark for Evaluating
Retrieval-Augmented Generation Systems, TACL 2025; Rosenthal et al., MTRAG-UN: A Benchmark for Open
Challenges in Multi-Turn RAG Conversations (arXiv 2602.23184); Maharana et al., Evaluating Very
Long-Term Conversational Memory of LLM Agents, ACL 2024 (arXiv 2402.17753); Wu et al., LongMemEval:
Benchmarking Chat Assistants on Long-Term Interactive Memory, ICLR 2025 (arXiv 2410.10813).
"""

import json
import warnings
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
from .topics import CollectionWarning, Conversation, TopicTurn, read_conversations, read_items

MTRAG_PREFIX = "mtrag:"
REFERENCE = "mtrag/mtrag-human/generation_tasks/reference.jsonl"
RETRIEVAL = "mtrag/mtrag-human/retrieval_tasks/"
COLLECTIONS = {
    "clapnq": "mt-rag-clapnq-elser-512-100-20240503",
    "cloud": "mt-rag-ibmcloud-elser-512-100-20240502",
    "fiqa": "mt-rag-fiqa-beir-elser-512-100-20240501",
    "govt": "mt-rag-govt-elser-512-100-20240611",
}
"""The names of the collections in the tasks of MTRAG, and in the evaluation scripts of the repository."""
OF_UN = COLLECTIONS | {"ibmcloud": COLLECTIONS["cloud"]}
"""Their names in the tasks of MTRAG-UN -> those names."""
USER = "|user|: "
"""The beginning of each question in a file of queries."""


class MtragDataset(IkatDataset):
    """Turns over whole collections or over the passages of their tasks, as ``released.json`` lists them.

    Its entries have ``domains`` (the collections that its turns are about) and ``summary``, for
    whole collections ``size`` (the number of passages), and for tasks ``file``.

    Args:
        name: its name.
    """

    page = "https://github.com/IBM/mt-rag-benchmark"
    judgements: str

    def __init__(self, name: str):
        self.name, self.entry = name, RELEASED[name]
        self.summary, self.domains, self.size = (
            self.entry["summary"],
            self.entry["domains"],
            self.entry.get("size"),
        )

    def collections(self) -> dict[str, str]:
        """For each turn, the name of its collection in the evaluation scripts."""
        return dict.fromkeys(self.get_topics()["qid"], COLLECTIONS[self.domains[0]])

    def _judged(self) -> pd.DataFrame:
        files = [data_file(self.judgements.format(domain)) for domain in self.domains]
        lines = (
            line.split("\t")
            for file in files
            for line in file.read_text(encoding="utf-8").splitlines()[1:]
        )
        return qrels_frame((qid, docno, int(label)) for qid, docno, label in lines)

    def _passages(self) -> Iterable[dict[str, str]]:
        return PassageFiles(
            [
                data_file(f"mtrag/corpora/passage_level/{domain}.jsonl.zip")
                for domain in self.domains
            ]
        )


class DomainDataset(MtragDataset):
    """The retrieval tasks of MTRAG over one collection: its turns that have relevant passages.

    The published queries are the last question (the ``query``), all questions
    (:class:`~pyterrier_ikat.AllUtterances`) and the human rewrite (``get_topics("manual")``,
    :class:`~pyterrier_ikat.ManualRewrite`).
    """

    judgements = RETRIEVAL + "{0}/qrels/dev.tsv"

    @cached_property
    def conversations(self) -> list[Conversation]:
        """The judged conversations. They have the agents' responses and target answers if ``reference.jsonl`` can be had.

        Warns:
            CollectionWarning: when it can't. The histories then have only the user's questions.
        """
        (domain,) = self.domains
        questions, rewrites = _queries(domain, "questions"), _queries(domain, "rewrite")
        relevant = {
            qid: tuple(docnos)
            for qid, docnos in self._judged().query("label > 0").groupby("qid")["docno"]
        }
        tasks, turns = self._tasks(), dict[str, list[TopicTurn]]()
        for qid, said in questions.items():
            name, _, number = qid.rpartition("<::>")
            history = tuple({"role": "user", "content": text} for text in said[:-1])
            known = (
                tasks[qid]
                if tasks
                else TopicTurn(int(number), said[-1], "", qid=qid, history=history)
            )
            turns.setdefault(name, []).append(
                replace(known, resolved=rewrites[qid][-1], passages=relevant.get(qid, ()))
            )
        return [Conversation(name, turns=tuple(of_one)) for name, of_one in turns.items()]

    def _tasks(self) -> dict[str, TopicTurn]:
        """All tasks of MTRAG, by qid. Empty when their file can't be had."""
        try:
            return {
                turn.qid: turn
                for chat in read_conversations(data_file(REFERENCE), "MTRAG")
                for turn in chat.turns
            }
        except DataError as error:
            message = f"{self.name}: histories have the user's questions only, and there are no target answers: {error}"
            warnings.warn(message, CollectionWarning, stacklevel=4)
            return {}

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
        self.file, self.of_un = self.entry["file"], "mtragun-human" in self.entry["file"]
        self.topic_variants = (None,) if self.of_un else (None, "manual")

    @cached_property
    def conversations(self) -> list[Conversation]:
        """The conversations, with human rewrites of MTRAG's judged turns."""
        domains, names = (
            () if self.of_un else self.domains,
            {COLLECTIONS[domain] for domain in self.domains},
        )
        chats, of_turns, found = (
            read_conversations(data_file(self.file), "MTRAG"),
            self.collections(),
            [],
        )
        rewrites = {
            qid: said[-1] for domain in domains for qid, said in _queries(domain, "rewrite").items()
        }
        for chat in chats:
            turns = [
                replace(turn, resolved=rewrites.get(turn.qid, ""))
                for turn in chat.turns
                if of_turns[turn.qid] in names
            ]
            found += [replace(chat, turns=tuple(turns))] * bool(turns)
        return found

    def collections(self) -> dict[str, str]:
        """For each task, the name of its collection in the evaluation scripts."""
        tasks = (task for _, task in read_items(data_file(self.file)))
        return {
            task["task_id"]: OF_UN.get(task["Collection"], task["Collection"]) for task in tasks
        }

    def _texts(self, fields: Fields = "text") -> TextLoader | None:
        return None if self.size else TaskTexts(data_file(self.file), fields)

    def _qrels(self) -> Qrels:
        return {None: self._judged if self.of_un else self._provenance}

    def _passages(self) -> Iterable[dict[str, str]]:
        return super()._passages() if self.size else TaskTexts(data_file(self.file)).all.values()


class TaskTexts(TextLoader):
    """A text loader over the passages of a file of tasks: its ``documents``, or the ``contexts`` of all tasks."""

    @cached_property
    def all(self) -> dict[str, dict[str, str]]:
        """The passages by docno."""
        path = Path(self.path)
        if path.suffix == ".json":
            documents = json.loads(path.read_text(encoding="utf-8"))["documents"]
        else:
            documents = [context for _, task in read_items(path) for context in task["contexts"]]
        passages = {}
        for one in documents:
            docno = one["document_id"]
            passages[docno] = {
                "docno": docno,
                "text": joined([one.get("title") or ""], one["text"]).strip(),
                "url": "",
            }
        return passages


def _queries(domain: str, kind: str) -> dict[str, list[str]]:
    """The user's questions up to each turn, by qid, from a file of queries in BEIR's form."""
    items = read_items(data_file(f"{RETRIEVAL}{domain}/{domain}_{kind}.jsonl"))
    return {item["_id"]: item["text"].removeprefix(USER).split(f"\n{USER}") for _, item in items}


def collections_of(dataset: IkatDataset) -> dict[str, str]:
    """For each turn of an MTRAG dataset, the name of its collection.

    Raises:
        UsageError: for another dataset.
    """
    if isinstance(dataset, MtragDataset):
        return dataset.collections()
    raise UsageError(
        f"{dataset.name} is not a dataset of MTRAG, and these are its predictions: give mtrag:mini or another of its datasets"
    )


MTRAG: dict[str, Callable[[], IkatDataset]] = {
    name: partial(TasksDataset if "file" in entry else DomainDataset, name)
    for name, entry in RELEASED.items()
    if name.startswith(MTRAG_PREFIX)
}
"""Name -> the function that makes the dataset."""


LOCOMO, LONGMEMEVAL = "locomo:", "longmemeval:"


class MemoryBenchmark(IkatDataset):
    """Questions with evidence, each over turns that are the statements of ``qptkb``; the qrels are the evidence turns, all of label 1.

    ``get_topics("manual")`` also has the question's category in ``qcategory``, for evaluation.
    """

    measures = ("R@5", "nDCG@10", "Success@5", "Success@5 by session")
    form: str
    read_from: Path
    """The file of the questions."""

    @cached_property
    def conversations(self) -> list[Conversation]:
        """The questions of each conversation. Those of LoCoMo without evidence are left out."""
        return [one for one in read_conversations(self.read_from, self.form) if one.turns]

    def get_topics(self, variant: str | None = None) -> pd.DataFrame:
        """The questions with ``qptkb``, with ``qfacts`` if there are any, and with ``"manual"`` also ``qcategory``."""
        frame, chats = super().get_topics(variant), self.conversations
        categories, facts = (
            [turn.category for chat in chats for turn in chat.turns],
            [chat.facts for chat in chats for _ in chat.turns],
        )
        return with_columns(
            frame,
            **({"qcategory": categories} if variant else {}),
            **({"qfacts": facts} if any(facts) else {}),
        )

    def _qrels(self) -> Qrels:
        return {None: self._provenance}

    def _passages(self) -> NoReturn:
        raise DataError(
            f"{self.name} has no collection: the turns of each conversation are its statements, which ikat.ListStatements() lists"
        )


class LocomoDataset(MemoryBenchmark):
    """The questions of LoCoMo with evidence, each over the turns of its conversation, which are the statements of ``qptkb``.

    A statement is ``SPEAKER: TEXT [CAPTION OF THE IMAGE]``. Its id is that of the turn, ``D1:3``:
    turn 3 of session 1. ``qfacts`` has the facts that a model of the authors extracted from the
    turns: ``D1:3%p0`` is a fact from ``D1:3``, see :class:`~pyterrier_ikat.SourceTurns`.

    Known errors of the data: an audit found 99 wrong answers among the 1,540 that aren't
    adversarial, so judge retrieval first. The answer of an adversarial question is none; the
    evidence is the turn that it misquotes. Ids of evidence with slips are cleaned; those that name
    no turn are left out.
    """

    name = LOCOMO
    summary = (
        "1,982 questions on 10 long conversations of LoCoMo, whose 5,882 turns are the statements, with evidence turns as qrels and "
        "extracted facts; CC BY-NC 4.0"
    )
    form, page = "LoCoMo", "https://github.com/snap-research/locomo"
    unit = "user"
    unit_reason = "All questions on a conversation are about the same two speakers."
    read_from = cached_property(lambda self: data_file("memory/locomo10.json"))  # type: ignore[assignment]

    def _unit_of(self, conversation: str) -> str:
        return conversation  # of two speakers, who have no other


class LongMemEvalDataset(MemoryBenchmark):
    """A file of LongMemEval, such as ``longmemeval_s.json``: each question over the user's turns in many sessions with an assistant.

    As in the authors' code, all questions are asked and their answers judged, and retrieval is
    judged on a part of them. The statements are the turns of the user, and the evidence is those
    with ``has_answer``. Not judged in retrieval are questions without an answer (``_abs`` in their
    ids), and those without such a turn, because the assistant gave the answer; :meth:`get_qrels`
    warns how many these are. ``gold_answerability`` of :meth:`get_answers` is ``unanswerable`` for
    the former.

    The id of a statement is the session's id and the turn's number in it from 1, such as
    ``answer_4be1b6b4_1:3``. Dates are not read. The ``qid`` is the question's id and ``_1``. **It
    is untried on the real files**: the tests read hand-made files of the form that the authors'
    code reads.

    Args:
        path: the file, in JSON.
    """

    summary = "a file of LongMemEval"
    form, page = "LongMemEval", "https://github.com/xiaowu0162/LongMemEval"
    unit_reason = "Each question has a history of its own, and is a conversation of one turn."

    def __init__(self, path: str | Path):
        self.read_from = Path(path).expanduser().absolute()
        self.name = f"{LONGMEMEVAL}{self.read_from}"
        self._told = False

    def get_qrels(self, variant: str | None = None) -> pd.DataFrame:
        """The evidence, see :meth:`IkatDataset.get_qrels`.

        Warns:
            CollectionWarning: once, if there are questions that retrieval isn't judged on.
        """
        found = super().get_qrels(variant)
        if not self._told:
            self._told = True
            self._tell_left_out()
        return found

    def _tell_left_out(self) -> None:
        turns = [turn for chat in self.conversations for turn in chat.turns]
        unjudged = [turn for turn in turns if not turn.passages]
        if not unjudged:
            return
        declined = sum(turn.answerability == "unanswerable" for turn in unjudged)
        by_assistant = len(unjudged) - declined
        message = (
            f"{self.name}: retrieval is judged on {len(turns) - len(unjudged)} of {counted(len(turns), 'question')}, as by the authors. "
            f"Left out: {declined} without an answer, {by_assistant} without a turn of the user that has it. Answers are judged on all"
        )
        warnings.warn(message, CollectionWarning, stacklevel=3)
