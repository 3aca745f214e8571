"""Several search queries written by an LLM: for the conversation, for an answer, or for each chosen statement."""

from collections.abc import Iterator, Sequence
from typing import Any

import pandas as pd
import pyterrier as pt

from ..arguments import at_least_one
from ..completions.texts import parse_queries
from ..completions.usable import usable_text, without_next_prompt
from ..conversations.frame import texts_in, values, with_columns
from ..errors import UsageError
from ..llm_operator import LLMOperator, log
from ..llms import LLM, Completion, LLMFailure, Request
from .explode_queries import ExplodeQueries

EVERY = 1_000_000
"""More queries than any completion holds."""


class QueryLists(LLMOperator):
    """Ask for lists of at most ``n`` search queries; a completion without any query falls back, counted (facts page, section 5).

    One that says nothing, or only declines, is a failure as everywhere.
    """

    stage = "queries"
    n: int

    def _set_n(self, n: int) -> None:
        if n < 1:
            raise UsageError(f"n={n}: ask for at least one query")
        self.n = n

    def parse(self, text: str) -> list[str] | None:
        """At most ``n`` queries, perhaps none; None for a refusal, or a thought that no words follow."""
        queries, dropped = parse_queries(text, self.n)
        if dropped:
            log.info("stage %s: left out %r", self.stage, dropped)
        return queries if queries or usable_text(text) else None

    def settle(self, frame: pd.DataFrame, outcomes: Sequence[Completion | LLMFailure]) -> list[Any]:
        """As everywhere; queries beyond ``n`` count as dropped, and a completion that came but holds no query falls back, counted."""
        texts = [without_next_prompt(outcome.text) for outcome in outcomes if isinstance(outcome, Completion)]
        if beyond := [query for text in texts for query in parse_queries(text, EVERY).items[self.n :]]:
            self.llm.ledger.count(self.stage, self.llm.model, dropped=len(beyond))
        found = super().settle(frame, outcomes)
        blank = [qid for qid, queries in zip(self.owners(frame), found, strict=True) if not queries]
        if blank:
            self.llm.ledger.count(self.stage, self.llm.model, failures=len(blank), fallbacks=len(blank))
            log.warning("stage %s: no query in the completions for %s; the fallback is used", self.stage, ", ".join(map(str, blank)))
        return [queries or instead for queries, instead in zip(found, self.fallback(frame), strict=True)]


def with_queries(frame: pd.DataFrame, lists: Sequence[list[str]]) -> pd.DataFrame:
    """A new frame whose ``qsubqueries`` are ``lists``; the weights of earlier ones are dropped."""
    return with_columns(frame.drop(columns="qweights", errors="ignore"), qsubqueries=lists)


GIVEN = {None: "queries", "answer": "queries_given_answer", "other_answer": "queries_given_other_answer"}


class Queries(QueryLists):
    """Ask the model for up to ``n`` search queries.

    Reads ``qid``, ``query`` and, where there are any, ``qutterance``, ``qhistory``, ``qptkb``; with ``given`` also
    ``qanswer``. Writes ``qsubqueries``, a list of 1 to ``n`` texts; :class:`ExplodeQueries` makes rows of it. One call per
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
        self._set_n(n)
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
    """``Queries(...) >> ExplodeQueries()``: one row per generated query, ready for a retriever.

    Two stages in one expression, so that systems that differ only later share them. Arguments are those of :class:`Queries`.

    Example:
        >>> import pyterrier_ikat as ikat
        >>> ikat.MultiQuery(ikat.llm("recorded:sample"), n=3)
        (ikat.Queries(ikat.llm('recorded:sample'), n=3) >> ikat.ExplodeQueries())
    """
    return Queries(llm, n, given, words=words, style=style, question=question, prompts=prompts, on_error=on_error) >> ExplodeQueries()


class StatementQueries(QueryLists):
    """Ask the model for search queries for each chosen statement together with the question.

    Reads ``qid``, ``query`` (the rewrite), ``qptkb``, ``qstatements``. Writes ``qsubqueries``: the queries of all
    statements, best statement first, without repeats (letter case aside); :class:`ExplodeQueries` makes rows of them. One call
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
        >>> ikat.StatementQueries(ikat.llm("recorded:sample")) >> ikat.ExplodeQueries()
        (ikat.StatementQueries(ikat.llm('recorded:sample')) >> ikat.ExplodeQueries())
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
        self._set_n(n)
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
