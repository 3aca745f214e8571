"""The LLM's own answer, used as a query (AD) or as the source of queries (AQD), and its outline of an answer."""

from collections.abc import Callable, Sequence
from dataclasses import KW_ONLY
from typing import Any

import pandas as pd

from ..arguments import at_least, one_of
from ..completions.kinds import ANSWER
from ..conversations.frame import with_columns, with_query
from ..llm_operator import LLMOperator
from ..operator import with_fields


@with_fields
class Answer(LLMOperator):
    """Ask the model for an answer to the user's question and make it the query.

    Reads ``qid``, ``query`` and, if present, ``qutterance``, ``qhistory``, ``qptkb``. Writes ``qanswer``, sets ``query`` to it and pushes
    the old query to ``query_0``. One call per turn. Source: Abbasiantaeb and Aliannejadi, Generate then Retrieve, section 3 and Table 5
    (1). The fallback for a failed turn is the question itself.

    Args:
        llm: the model to ask.
        words: the word limit named in the prompt (Fu et al., NII@TREC iKAT 2024, appendix A5: 200); a longer answer is not cut, because it
            is only a query. ``None``: the prompt names no limit.
        statements: ``"all"``: show the whole persona; ``"chosen"``: only the statements in ``qstatements``, with one
            example (InfoSense 2023, as Abbasiantaeb and Aliannejadi describe it).

    Raises:
        UsageError: when ``words`` is below 1, or another argument has an unknown value.

    Example:
        >>> import pyterrier as pt, pyterrier_ikat as ikat
        >>> topics = pt.get_dataset("ikat:sample").get_topics().head(1)
        >>> answered = ikat.Answer(ikat.llm("recorded:sample"))(topics)
        >>> answered["query"].tolist() == answered["qanswer"].tolist()
        True
    """

    stage = "answer"
    kind = ANSWER
    activity = "drafting an answer"
    shows = ("words",)
    typical_words = 120
    schematic = {"label": "Answer"}

    _: KW_ONLY
    words: int | None = None
    statements: str = "all"

    def __post_init__(self) -> None:
        at_least(1, words=self.words)
        super().__post_init__()

    def template(self) -> str:
        """The prompt, with one example when only chosen statements are shown."""
        return "answer" if self.statements == "all" else "answer_one_shot"

    def needs(self) -> list[str]:
        """``qstatements`` too when only those are shown."""
        return super().needs() + (["qstatements"] if self.statements == "chosen" else [])

    def while_written(self, frame: pd.DataFrame) -> Callable[[str], str]:
        """The text as it is."""
        return str

    def write(self, frame: pd.DataFrame, found: Sequence[Any]) -> pd.DataFrame:
        """Set ``qanswer`` and ``query``."""
        return with_query(with_columns(frame, qanswer=found), found)


OUTLINES = {"elements": ("suggest", 100), "context": ("suggest_context", 30)}
"""Form -> its prompt, and how many words an outline typically has."""


@with_fields
class OutlineAnswer(LLMOperator):
    """Ask the model for an outline of what a good answer needs, before the answer is written.

    Reads ``qid``, ``query`` and, if present, ``qutterance``, ``qhistory``; as in the papers, the prompt does not show the persona. Writes
    ``qsuggestion``, which ``SelectStatements(given="suggestion")`` and ``Respond(form="suggested")`` read. One call per turn. The fallback
    for a failed turn is an empty text.

    Args:
        llm: the model to ask.
        form: ``"elements"``: what the answer should contain and which preferences matter, in at most 300 words (Fu et
            al., NII@TREC iKAT 2024, appendix A4, first prompt); ``"context"``: which further information would help (De
            Lima and Yang, Passage Query Methods, section 4.2.2, the extra step of short_long_3).
        question: the column with the user's question, by default the utterance. For the rewrite, as in the papers, use ``"query"`` after a
            ``Rewrite``.

    Raises:
        UsageError: when ``form`` is unknown.

    Example:
        >>> import pyterrier_ikat as ikat
        >>> ikat.OutlineAnswer(ikat.llm("recorded:sample"), "context")
        ikat.OutlineAnswer(ikat.llm('recorded:sample'), form='context')
    """

    stage = "suggest"
    kind = ANSWER
    activity = "outlining an answer"
    schematic = {"label": "Outline answer"}

    form: str = "elements"

    def __post_init__(self) -> None:
        one_of(OUTLINES, form=self.form)
        self.typical_words = OUTLINES[self.form][1]
        super().__post_init__()

    def template(self) -> str:
        """The prompt of the form."""
        return OUTLINES[self.form][0]

    def fallback(self, frame: pd.DataFrame) -> list[str]:
        """No suggestion."""
        return [""] * len(frame)

    def write(self, frame: pd.DataFrame, found: Sequence[Any]) -> pd.DataFrame:
        """Set ``qsuggestion``."""
        return with_columns(frame, qsuggestion=found)
