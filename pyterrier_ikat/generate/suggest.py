"""A first thought before the answer: what it needs, or what more one would like to know."""

from collections.abc import Sequence
from typing import Any

import pandas as pd

from ..completions.texts import spoken
from ..conversations.frame import with_columns
from ..errors import UsageError
from ..llm_operator import LLMOperator
from ..llms import LLM

TEMPLATES = {"elements": "suggest", "context": "suggest_context"}


class OutlineAnswer(LLMOperator):
    """Ask the model what a good answer would need, before it is written.

    Reads ``qid``, ``query`` and, where there are any, ``qutterance``, ``qhistory``; the persona is not shown, as in the
    papers. Writes ``qsuggestion``, which ``SelectStatements(given="suggestion")`` and ``Respond(form="suggested")``
    read. One call per turn. The fallback for a failed turn is an empty text.

    Args:
        llm: the model to ask.
        form: ``"elements"``: what the answer should contain and which preferences matter, in at most 300 words (Fu et
            al., NII@TREC iKAT 2024, appendix A4, first prompt); ``"context"``: which further information would help (De
            Lima and Yang, Passage Query Methods, section 4.2.2, the extra step of short_long_3).
        style: see :class:`Answer`.
        question: see :class:`Answer`; the papers' rewrite is ``"query"`` after a ``Rewrite``.
        prompts: see :class:`Answer`.
        on_error: see :class:`Answer`.

    Raises:
        UsageError: when ``form`` is unknown.

    Example:
        >>> import pyterrier_ikat as ikat
        >>> ikat.OutlineAnswer(ikat.llm("recorded:sample"), "context")
        ikat.OutlineAnswer(ikat.llm('recorded:sample'), form='context')
    """

    stage = "suggest"
    schematic = {"label": "Outline answer"}

    def __init__(
        self,
        llm: LLM,
        form: str = "elements",
        *,
        style: str = "gpt",
        question: str = "qutterance",
        prompts: str | None = None,
        on_error: str | None = None,
    ) -> None:
        super().__init__()
        if form not in TEMPLATES:
            raise UsageError(f"form {form!r} is unknown: choose one of {', '.join(TEMPLATES)}")
        self.form = form
        self._set(llm, style, question, prompts, on_error)

    def template(self) -> str:
        """The prompt of the form."""
        return TEMPLATES[self.form]

    def parse(self, text: str) -> str | None:
        """The text without a ``<think>`` block."""
        return spoken(text) or None

    def fallback(self, frame: pd.DataFrame) -> list[str]:
        """No suggestion."""
        return [""] * len(frame)

    def typical(self, frame: pd.DataFrame) -> list[str]:
        """The question, drawn out to 100 words, for the shorter form to 30."""
        words = 100 if self.form == "elements" else 30
        return [" ".join(((question.split() or ["?"]) * words)[:words]) for question in self.questions(frame)]

    def write(self, frame: pd.DataFrame, found: Sequence[Any]) -> pd.DataFrame:
        """Set ``qsuggestion``."""
        return with_columns(frame, qsuggestion=found)
