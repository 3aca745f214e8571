"""A rewrite and an answer in one completion, and a rewrite that is as personal as the question needs."""

from collections.abc import Sequence
from dataclasses import KW_ONLY
from typing import Any, NamedTuple

import pandas as pd

from ..arguments import at_least, one_of
from ..completions.kinds import Kind
from ..completions.matching import Chosen, choose
from ..completions.texts import parse_answer_and_queries, parse_chosen_rewrite, parse_level, parse_rewrite_and_answer
from ..conversations.frame import with_columns, with_query
from ..errors import UsageError
from ..llm_operator import LLMOperator, as_long_as
from ..operator import with_fields
from .examples import TRAINING, examples_of

FORMS = ("rewrite", "queries", "select")


class Reformulation(NamedTuple):
    """The parts of a completion. ``statements`` are the pieces that name statements."""

    rewrite: str
    answer: str
    statements: Sequence[str] = ()


@with_fields
class Reformulate(LLMOperator):
    """Ask the model for a rewrite (or queries) and an answer of at most ``words`` words, and show it the persona.

    Reads ``qid``, ``query`` and, if present, ``qutterance``, ``qhistory``, ``qptkb``. Writes ``qrewrite`` and ``qanswer``, sets ``query``
    to "<rewrite> <answer>" and pushes the old query to ``query_0``. With ``"select"`` it also writes ``qstatements``, with scores 1 /
    position. One call per turn. The fallback for a failed turn is the question, with an empty answer. Source: Mo et al., How to Leverage
    Personal Textual Knowledge (arXiv 2407.16192), and the prompts of its reproduction by Lupart et al. (arXiv 2510.03795,
    EricLangezaal/PersonalizedCIR at 45079e8).

    Args:
        llm: the model to ask.
        form: ``"rewrite"``: a rewrite, then the answer (their prompt 2); ``"queries"``: the answer, then on one line up to five queries for
            it, which replace the rewrite (their prompt 1); ``"select"``: the numbers of the relevant statements, the rewrite and the answer
            (SAR).
        words: the word limit of the answer in the prompt. A longer answer is not cut.
        shots: how many conversations the prompt shows as examples, for ``"select"`` only.
        examples: the dataset, or topics file, that they are taken from.

    Raises:
        UsageError: when ``form`` is unknown, ``words`` is below 1, ``shots`` below 0, or a form shows no examples.

    Example:
        >>> import pyterrier as pt, pyterrier_ikat as ikat
        >>> topics = pt.get_dataset("ikat:sample").get_topics().head(1)
        >>> made = ikat.Reformulate(ikat.llm("recorded:sample"), "select")(topics).iloc[0]
        >>> made["query"] == f"{made['qrewrite']} {made['qanswer']}"
        True
    """

    stage = "rewrite"
    kind = Kind(whole=True)
    shows = ("form", "words")
    template_name = "reformulate"
    activity = "rewriting"
    schematic = {"label": "Reformulate"}

    form: str = "rewrite"
    _: KW_ONLY
    words: int = 200
    shots: int = 0
    examples: str = TRAINING

    def __post_init__(self) -> None:
        one_of(FORMS, form=self.form)
        at_least(1, words=self.words)
        at_least(0, shots=self.shots)
        if self.form != "select" and self.shots:
            raise UsageError(f"shots={self.shots}: form={self.form!r} shows no examples; form='select' does")
        super().__post_init__()

    def prompt_of(self, template: str) -> str:
        """Its name in recorded files ends in the form."""
        return super().prompt_of(f"{template}_{self.form}")

    def contexts(self, frame: pd.DataFrame) -> list[dict[str, Any]]:
        """The values that every prompt shows, and ``examples``."""
        examples = examples_of(self.shots, self.examples, True)
        return [{**row, "examples": examples} for row in super().contexts(frame)]

    def parse(self, text: str) -> Reformulation | None:
        """The rewrite or queries, the answer, and the pieces that name statements."""
        if self.form == "select":
            found = parse_chosen_rewrite(text)
            return Reformulation(*found) if found else None
        both = parse_answer_and_queries(text) if self.form == "queries" else parse_rewrite_and_answer(text)
        return Reformulation(*both) if both else None

    def fallback(self, frame: pd.DataFrame) -> list[Reformulation]:
        """The question, without an answer."""
        return [Reformulation(question, "") for question in self.questions(frame)]

    def typical(self, frame: pd.DataFrame) -> list[Reformulation]:
        """The question as the rewrite, and repeated up to 60 words as the answer."""
        return [Reformulation(question, as_long_as(60, question)) for question in self.questions(frame)]

    def list_dropped(self, frame: pd.DataFrame, found: Sequence[Reformulation]) -> list[str]:
        """The pieces that name no statement."""
        return [piece for chosen in self._chosen(frame, found) for piece in chosen.dropped]

    def write(self, frame: pd.DataFrame, found: Sequence[Reformulation]) -> pd.DataFrame:
        """Set ``qrewrite``, ``qanswer`` and ``query``, and ``qstatements`` if the form chooses them."""
        more = {"qstatements": [chosen.statements for chosen in self._chosen(frame, found)]} if self.form == "select" else {}
        written = with_columns(frame, qrewrite=[one.rewrite for one in found], qanswer=[one.answer for one in found], **more)
        return with_query(written, [f"{one.rewrite} {one.answer}".strip() for one in found])

    def _chosen(self, frame: pd.DataFrame, found: Sequence[Reformulation]) -> list[Chosen]:
        return [choose("ids", one.statements, ptkb) for one, ptkb in zip(found, self.personas(frame), strict=True)]


@with_fields
class RewriteByLevel(LLMOperator):
    """Ask the model how much of the persona the question needs, for a rewrite of that level, and for an answer.

    Reads ``qid``, ``query`` and, if present, ``qutterance``, ``qhistory``, ``qptkb``. Writes ``qlevel`` (``"a"``: the question does not
    need the persona; ``"b"``: the persona would help; ``"c"``: there is no good answer without it) and ``qpersonal``, the rewrite. Sets
    ``query`` to the rewrite and pushes the old query to ``query_0``. One call per turn. As in the paper, the prompt asks for an answer, but
    the answer is not kept. The fallback for a failed turn is the question at level ``"a"``. Source: Mo et al., Adaptive Personalized
    Conversational Information Retrieval (APCIR, arXiv 2508.08634), and their code (YuchenHui22314/TREC_iKAT_2024 at 646ba6d), Their prompt
    has examples of levels and rewrites. Ours has none.

    Args:
        llm: the model to ask.
        think: whether the model first gives a reason.

    Example:
        >>> import pyterrier as pt, pyterrier_ikat as ikat
        >>> topics = pt.get_dataset("ikat:sample").get_topics().head(1)
        >>> ikat.RewriteByLevel(ikat.llm("recorded:sample"))(topics)["qlevel"].item() in ("a", "b", "c")
        True
    """

    stage = "rewrite"
    activity = "rewriting"
    kind = Kind(parse_level)
    shows = ("think",)
    template_name = "rewrite_by_level"
    schematic = {"label": "Rewrite by level"}

    think: bool = True

    def fallback(self, frame: pd.DataFrame) -> list[tuple[str, str]]:
        """The question at level ``"a"``."""
        return [("a", question) for question in self.questions(frame)]

    def write(self, frame: pd.DataFrame, found: Sequence[tuple[str, str]]) -> pd.DataFrame:
        """Set ``qlevel``, ``qpersonal`` and ``query``."""
        rewrites = [rewrite for _, rewrite in found]
        return with_query(with_columns(frame, qlevel=[level for level, _ in found], qpersonal=rewrites), rewrites)
