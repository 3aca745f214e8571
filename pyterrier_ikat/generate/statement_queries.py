"""Search queries for each chosen statement about the user."""

from collections.abc import Iterator, Sequence
from typing import Any

import pandas as pd

from ..llm import LLM, Request
from .query_lists import QueryLists, with_queries


class StatementQueries(QueryLists):
    """Ask the model for search queries for each chosen statement together with the question.

    Reads ``qid``, ``query`` (the rewrite), ``qptkb``, ``qstatements``. Writes ``qsubqueries``: the queries of all
    statements, best statement first, without repeats (letter case aside); :class:`Expand` makes rows of them. One call
    per chosen statement; a turn without any is asked once, for the question alone. A completion without any query falls
    back to the question, counted as for :class:`Queries`. Source: Fu et al., NII@TREC iKAT 2024, section III A and
    appendix A3.

    Args:
        llm: the model to ask.
        n: the most queries to keep for one statement.
        style: see :class:`Answer`.
        question: see :class:`Answer`; ``"qresolved"`` for the manual variant.
        prompts: see :class:`Answer`.
        on_error: see :class:`Answer`.

    Example:
        >>> import pyterrier_ikat as ikat
        >>> ikat.StatementQueries(ikat.llm("recorded:sample")) >> ikat.Expand()
        (ikat.StatementQueries(ikat.llm('recorded:sample')) >> ikat.Expand())
    """

    schematic = {"label": "Statement queries"}
    statements = "chosen"

    def __init__(
        self,
        llm: LLM,
        n: int = 5,
        *,
        style: str = "gpt",
        question: str = "query",
        prompts: str | None = None,
        on_error: str | None = None,
    ) -> None:
        super().__init__()
        self._keep(n)
        self._set(llm, style, question, prompts, on_error)

    def template(self) -> str:
        """The prompt for one statement and the question."""
        return "queries_statement"

    def needs(self) -> list[str]:
        """``qstatements`` too."""
        return [*super().needs(), "qstatements"]

    def requests(self, frame: pd.DataFrame) -> list[Request]:
        """For each row one request per chosen statement, or one for the question alone."""
        qids, questions = frame["qid"].tolist(), self.questions(frame)
        return [
            self.request(qids[row], {"question": questions[row], "statement": statement, "n": self.n}, item=number)
            for row, number, statement in self._asks(frame)
        ]

    def owners(self, frame: pd.DataFrame) -> list[str]:
        """The turn of each request."""
        qids = frame["qid"].tolist()
        return [qids[row] for row, _, _ in self._asks(frame)]

    def fallback(self, frame: pd.DataFrame) -> list[list[str]]:
        """The question."""
        questions = self.questions(frame)
        return [[questions[row]] for row, _, _ in self._asks(frame)]

    def typical(self, frame: pd.DataFrame) -> list[list[str]]:
        """``n`` queries as long as the question, different for each statement."""
        questions = self.questions(frame)
        return [[f"{questions[row]} {item} {number}" for number in range(self.n)] for row, item, _ in self._asks(frame)]

    def write(self, frame: pd.DataFrame, found: Sequence[Any]) -> pd.DataFrame:
        """Set ``qsubqueries``."""
        lists: list[dict[str, str]] = [{} for _ in range(len(frame))]
        for (row, _, _), queries in zip(self._asks(frame), found, strict=True):
            for query in queries:
                lists[row].setdefault(query.casefold(), query)
        return with_queries(frame, [list(queries.values()) for queries in lists])

    def _asks(self, frame: pd.DataFrame) -> Iterator[tuple[int, str, str]]:
        for row, persona in enumerate(self.personas(frame)):
            yield from ((row, number, statement) for number, statement in (persona or {"": ""}).items())
