"""Benchmarks of memories: LoCoMo and LongMemEval, questions that need some statements. Nothing is shipped.

LoCoMo's file ``locomo10.json`` is in ``memory/`` in the data folder or beside it; otherwise it is downloaded from its authors. It may be
used for purposes that aren't commercial (CC BY-NC 4.0). A file of LongMemEval is given by its path.

Sources: Maharana et al., Evaluating Very Long-Term Conversational Memory of LLM Agents, ACL 2024 (arXiv 2402.17753); Wu et al.,
LongMemEval: Benchmarking Chat Assistants on Long-Term Interactive Memory, ICLR 2025 (arXiv 2410.10813).
"""

from functools import cached_property
from pathlib import Path
from typing import NoReturn

import pandas as pd

from ..errors import DataError
from .download import data_file
from .frame import with_columns
from .ikat_dataset import IkatDataset, Qrels
from .topic_files import read_conversations
from .topics import Conversation

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
        """The questions of each conversation; those without evidence are left out."""
        return [one for one in read_conversations(self.read_from, self.form) if one.turns]

    def get_topics(self, variant: str | None = None) -> pd.DataFrame:
        """The questions with ``qptkb``, with ``qfacts`` if there are any, and with ``"manual"`` also ``qcategory``."""
        frame, chats = super().get_topics(variant), self.conversations
        categories, facts = [turn.category for chat in chats for turn in chat.turns], [chat.facts for chat in chats for _ in chat.turns]
        return with_columns(frame, **({"qcategory": categories} if variant else {}), **({"qfacts": facts} if any(facts) else {}))

    def _qrels(self) -> Qrels:
        return {None: self._provenance}

    def _passages(self) -> NoReturn:
        raise DataError(
            f"{self.name} has no collection: the turns of each conversation are its statements, which ikat.ListStatements() lists"
        )


class LocomoDataset(MemoryBenchmark):
    """The questions of LoCoMo with evidence, each over the turns of its conversation, which are the statements of ``qptkb``.

    A statement is ``SPEAKER: TEXT [CAPTION OF THE IMAGE]``. Its id is that of the turn, ``D1:3``: turn 3 of session 1. ``qfacts`` has the
    facts that a model of the authors extracted from the turns: ``D1:3%p0`` is a fact from ``D1:3``, see
    :class:`~pyterrier_ikat.SourceTurns`.

    Known errors of the data: an audit found 99 wrong answers among the 1,540 that aren't adversarial, so judge retrieval first. The answer
    of an adversarial question is none; the evidence is the turn that it misquotes. Ids of evidence with slips are cleaned; those that name
    no turn are left out.
    """

    name = LOCOMO
    summary = (
        "1,982 questions on 10 long conversations of LoCoMo, whose 5,882 turns are the statements, with evidence turns as qrels and "
        "extracted facts; CC BY-NC 4.0"
    )
    form, page = "LoCoMo", "https://github.com/snap-research/locomo"
    read_from = cached_property(lambda self: data_file("memory/locomo10.json"))  # type: ignore[assignment]


class LongMemEvalDataset(MemoryBenchmark):
    """A file of LongMemEval, such as ``longmemeval_s.json``: each question over the user's turns in many sessions with an assistant.

    As in the authors' code of retrieval, the statements are the turns of the user, and the evidence is those with ``has_answer``. Questions
    without such a turn are omitted. The id of a statement is the session's id and the turn's number in it from 1, such as
    ``answer_4be1b6b4_1:3``. Dates are not read. The ``qid`` is the question's id and ``_1``. **It is untried on the real files**: the tests
    read hand-made files of the form that the authors' code reads.

    Args:
        path: the file, in JSON.
    """

    summary = "a file of LongMemEval"
    form, page = "LongMemEval", "https://github.com/xiaowu0162/LongMemEval"

    def __init__(self, path: str | Path):
        self.read_from = Path(path).expanduser().absolute()
        self.name = f"{LONGMEMEVAL}{self.read_from}"
