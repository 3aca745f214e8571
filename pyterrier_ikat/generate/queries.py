"""Several search queries per turn, written by the LLM."""

from collections.abc import Sequence
from typing import Any

import pandas as pd
import pyterrier as pt

from ..arguments import at_least_one
from ..conversations.frame import texts_in, values
from ..errors import UsageError
from ..llm import LLM, Request
from .expand import Expand
from .query_lists import QueryLists, with_queries

GIVEN = {None: "queries", "answer": "queries_given_answer", "other_answer": "queries_given_other_answer"}


class Queries(QueryLists):
    """Ask the model for up to ``n`` search queries.

    Reads ``qid``, ``query`` and, where there are any, ``qutterance``, ``qhistory``, ``qptkb``; with ``given`` also
    ``qanswer``. Writes ``qsubqueries``, a list of 1 to ``n`` texts; :class:`Expand` makes rows of it. One call per
    turn. A completion without any query falls back to the rewrite (``qrewrite``), else to the question, and is counted
    as a fallback in the ledger. Source: Abbasiantaeb and Aliannejadi, Generate then Retrieve,
    Tables 5 (2), 6, 9 and 10.

    Args:
        llm: the model to ask.
        n: the most queries to keep.
        given: ``None``: straight from the conversation (QD); ``"answer"``: for the model's own answer in ``qanswer``,
            as the second message of the same chat (AQD; in llama style a two-shot prompt); ``"other_answer"``: for the
            answer of another model in ``qanswer`` (the paper's [G]).
        words: with ``given="answer"``, the limit that :class:`Answer` was given, so that the chat is repeated as it was.
        style: see :class:`Answer`.
        question: see :class:`Answer`.
        prompts: see :class:`Answer`.
        on_error: see :class:`Answer`.

    Example:
        >>> import pyterrier as pt, pyterrier_ikat as ikat
        >>> topics = pt.get_dataset("ikat:sample").get_topics().head(1)
        >>> len(ikat.Queries(ikat.llm("recorded:sample"), n=3)(topics)["qsubqueries"][0])
        3
    """

    schematic = {"label": "Queries"}

    def __init__(
        self,
        llm: LLM,
        n: int = 5,
        given: str | None = None,
        *,
        words: int | None = None,
        style: str = "gpt",
        question: str = "qutterance",
        prompts: str | None = None,
        on_error: str | None = None,
    ) -> None:
        super().__init__()
        if given not in GIVEN:
            raise UsageError(f"given={given!r} is unknown: choose None, 'answer' or 'other_answer'")
        self._keep(n)
        at_least_one(words=words)
        self.given, self.words = given, words
        self._set(llm, style, question, prompts, on_error)

    def template(self) -> str:
        """The prompt for what the queries are made from."""
        return GIVEN[self.given]

    def needs(self) -> list[str]:
        """``qanswer`` too when the queries are made from an answer."""
        return super().needs() + (["qanswer"] if self.given else [])

    def requests(self, frame: pd.DataFrame) -> list[Request]:
        """One request per row; with ``given="answer"`` in gpt style it continues the chat in which the answer was given."""
        own = {"n": self.n, "words": self.words}
        answers = texts_in(frame, "qanswer") if self.given else [""] * len(frame)
        rows = zip(frame["qid"], self.contexts(frame), answers, strict=True)
        return [
            Request(self._messages({**shown, **own, "answer": answer}), stage=self.stage, qid=qid, prompt=self.prompt)
            for qid, shown, answer in rows
        ]

    def _messages(self, shown: dict[str, Any]) -> list[dict[str, str]]:
        last = self.message(self.template(), shown)
        if self.given == "answer" and self.style == "gpt":
            return [self.message("answer", shown), {"role": "assistant", "content": shown["answer"]}, last]
        return [last]

    def fallback(self, frame: pd.DataFrame) -> list[list[str]]:
        """The rewrite where there is one, else the question."""
        pairs = zip(values(frame, "qrewrite"), self.questions(frame), strict=True)
        return [[question if rewrite is None else rewrite] for rewrite, question in pairs]

    def typical(self, frame: pd.DataFrame) -> list[list[str]]:
        """``n`` queries as long as the question."""
        return [[f"{question} {number}" for number in range(self.n)] for question in self.questions(frame)]

    def write(self, frame: pd.DataFrame, found: Sequence[Any]) -> pd.DataFrame:
        """Set ``qsubqueries``."""
        return with_queries(frame, found)


def MultiQuery(  # noqa: N802 (reads as an operator in an expression)
    llm: LLM,
    n: int = 5,
    given: str | None = None,
    *,
    words: int | None = None,
    style: str = "gpt",
    question: str = "qutterance",
    prompts: str | None = None,
    on_error: str | None = None,
) -> pt.Transformer:
    """``Queries(...) >> Expand()``: one row per generated query, ready for a retriever.

    Two stages in one expression, so that systems that differ only later share them. Arguments are those of :class:`Queries`.

    Example:
        >>> import pyterrier_ikat as ikat
        >>> ikat.MultiQuery(ikat.llm("recorded:sample"), n=3)
        (ikat.Queries(ikat.llm('recorded:sample'), n=3) >> ikat.Expand())
    """
    return Queries(llm, n, given, words=words, style=style, question=question, prompts=prompts, on_error=on_error) >> Expand()
