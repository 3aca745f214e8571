"""One query or question written by an LLM: rewrites and clarified utterances."""

from collections.abc import Sequence
from typing import Any

import pandas as pd

from ..completions.texts import parse_rewrite
from ..conversations.frame import with_columns, with_query
from ..errors import UsageError
from ..llm_operator import LLMOperator
from ..llms import LLM

TEMPLATES = {"full": "rewrite", "short": "rewrite_short"}


class Rewrite(LLMOperator):
    """Ask the model to rewrite the user's question as one self-contained query.

    Reads ``qid``, ``query`` and, where there are any, ``qutterance``, ``qhistory``, ``qptkb``. Writes ``qrewrite``,
    sets ``query`` to it and pushes the old query to ``query_0``. One call per turn. Source: Abbasiantaeb and
    Aliannejadi, Generate then Retrieve, Table 7 (QR). The fallback for a failed turn is the question itself.

    Args:
        llm: the model to ask.
        form: ``"full"``: a query that also holds what matters of the persona; ``"short"``: only the question, made
            clear, without the persona (Fu et al., NII@TREC iKAT 2024, appendix A1).
        style: see :class:`Answer`.
        question: see :class:`Answer`.
        prompts: see :class:`Answer`.
        on_error: see :class:`Answer`.

    Raises:
        UsageError: when an argument is unknown.

    Example:
        >>> import pyterrier as pt, pyterrier_ikat as ikat
        >>> topics = pt.get_dataset("ikat:sample").get_topics().head(1)
        >>> len(ikat.Rewrite(ikat.llm("recorded:sample"))(topics)["qrewrite"])
        1
    """

    stage = "rewrite"
    schematic = {"label": "Rewrite"}

    def __init__(
        self,
        llm: LLM,
        form: str = "full",
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
        """The first line that is a query, without label and quotes."""
        return parse_rewrite(text) or None

    def write(self, frame: pd.DataFrame, found: Sequence[Any]) -> pd.DataFrame:
        """Set ``qrewrite`` and ``query``."""
        return with_query(with_columns(frame, qrewrite=found), found)


class Clarify(LLMOperator):
    """Ask the model to restate the utterance so that it is clear by itself, and make that the query.

    Reads ``qid``, ``query`` and, where there are any, ``qutterance``, ``qhistory``, ``qptkb``, ``qstatements``: the
    prompt shows the history and the chosen statements (the whole persona where the frame has no ``qstatements``).
    Writes ``qrewrite``, sets ``query`` to it and pushes the old query to ``query_0``. One call per turn. Source: De
    Lima and Yang, Passage Query Methods, section 4.2.1. The fallback for a failed turn is the question itself.

    Args:
        llm: the model to ask.
        style: see :class:`Answer`.
        question: see :class:`Answer`.
        prompts: see :class:`Answer`.
        on_error: see :class:`Answer`.

    Example:
        >>> import pyterrier_ikat as ikat
        >>> ikat.Clarify(ikat.llm("recorded:sample"))
        ikat.Clarify(ikat.llm('recorded:sample'))
    """

    stage = "clarify"
    schematic = {"label": "Clarify"}
    statements = "chosen"

    def __init__(
        self, llm: LLM, *, style: str = "gpt", question: str = "qutterance", prompts: str | None = None, on_error: str | None = None
    ) -> None:
        super().__init__()
        self._set(llm, style, question, prompts, on_error)

    def parse(self, text: str) -> str | None:
        """The clarified utterance, without label and quotes."""
        return parse_rewrite(text) or None

    def write(self, frame: pd.DataFrame, found: Sequence[Any]) -> pd.DataFrame:
        """Set ``qrewrite`` and ``query``."""
        return with_query(with_columns(frame, qrewrite=found), found)
