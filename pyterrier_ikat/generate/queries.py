"""Several search queries written by an LLM (for the conversation, an answer or a statement, or like passages), and one row per query."""

import inspect
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import KW_ONLY
from typing import Any, NamedTuple

import pandas as pd
import pyterrier as pt

from ..completions.kinds import PASSAGE, QUERIES
from ..conversations.frame import each_turn_once, texts_in, values, with_columns, with_query
from ..errors import DataError, UsageError, counted, list_first
from ..llm_operator import LLMOperator, as_long_as, log
from ..llms import Request
from ..operator import Operator, with_fields
from ..prompts import ptkb_text


@with_fields
class QueryLists(LLMOperator):
    """Ask for lists of at most ``n`` search queries, or of any number if ``n`` is None.

    A completion without any query uses the fallback, which is counted.

    As for every operator, an empty completion, or one that only declines, is a failure.
    """

    stage = "queries"
    kind = QUERIES
    activity = "writing queries"
    least = {"n": 1}

    n: int | None = 5

    def __post_init__(self) -> None:
        super().__post_init__()
        self.open_ended = self.n is None

    def typical(self, frame: pd.DataFrame) -> list[list[str]]:
        """``n`` queries as long as the question, all different; one query without a limit."""
        numbers = range(1 if self.n is None else self.n)
        return [
            [f"{text} {place}.{number}" for number in numbers]
            for place, [text] in enumerate(self.fallback(frame))
        ]

    def list_dropped(self, frame: pd.DataFrame, found: Sequence[Any]) -> list[str]:
        """The queries beyond ``n``."""
        return [
            query
            for queries in found
            for query in queries[len(queries) if self.n is None else self.n :]
        ]

    def settle(self, frame: pd.DataFrame, outcomes: Sequence[Any]) -> list[Any]:
        """As for every operator. A completion without a query uses the fallback, which is counted."""
        found = super().settle(frame, outcomes)
        if all(found):
            return found
        blank = [
            request.qid
            for request, queries in zip(self.requests(frame), found, strict=True)
            if not queries
        ]
        self.count(failures=len(blank), fallbacks=len(blank))
        told = f"{counted(len(blank), 'turn')}: {list_first(blank)}"
        log.warning(
            "stage %s: no query in the completions of %s; the fallback is used", self.stage, told
        )
        return [
            queries or instead for queries, instead in zip(found, self.fallback(frame), strict=True)
        ]


def with_queries(frame: pd.DataFrame, lists: Sequence[list[str]]) -> pd.DataFrame:
    """A new frame with ``lists`` as its ``qsubqueries``. The weights of earlier sub-queries are dropped."""
    return with_columns(frame.drop(columns="qweights", errors="ignore"), qsubqueries=lists)


class ExplodeQueries(Operator):
    """Make one row per sub-query, so that any retriever can search for each of them.

    Reads ``qid``, ``query``, ``qsubqueries``. Writes ``qid`` = ``<turn>::<n>`` (unique again),
    ``qid_0`` (the turn's qid), ``qquery`` (the turn's query), ``qsub`` (0, 1, ...) and ``query``
    (the sub-query; the turn's query is pushed to ``query_0``). The fusions (``Interleave``,
    ``RRF``, ``WeightedSum``, ...) undo it. A turn with an empty list, or without a list, keeps its
    query as its only sub-query. If the frame has ``qweights`` (see :class:`PassageQueries`), each
    row gets its own ``qweight``; the weight of a turn's own query is 1.

    Raises:
        UsageError: when the frame is expanded already.
        DataError: when a turn has several rows, its sub-queries are not a list of texts, or the
            numbers of sub-queries and weights differ.

    Example:
        >>> import pandas as pd, pyterrier_ikat as ikat
        >>> frame = pd.DataFrame([{"qid": "9-1_3", "query": "it?", "qsubqueries": ["a", "b"]}])
        >>> ikat.ExplodeQueries()(frame)[["qid", "query", "query_0"]].values.tolist()
        [['9-1_3::0', 'a', 'it?'], ['9-1_3::1', 'b', 'it?']]
    """

    schematic = {"label": "Explode queries"}

    def transform(self, inp: pd.DataFrame) -> pd.DataFrame:
        """One row per sub-query, in order."""
        pt.validate.query_frame(inp, extra_columns=["query", "qsubqueries"], context=self)
        if "qid_0" in inp.columns:
            raise UsageError(
                "the frame has one row per sub-query already: fuse them (ikat.RRF, Interleave, ...) before ExplodeQueries"
            )
        each_turn_once(inp)
        rows_of = zip(
            inp["qid"], values(inp, "qsubqueries", []), texts_in(inp, "query"), strict=True
        )
        lists = [_check_queries(qid, queries) or [query] for qid, queries, query in rows_of]
        more = (
            {}
            if (weights := _weights(inp)) is None
            else {"qweight": pd.Series(weights, dtype="float64")}
        )
        expanded = inp.iloc[
            [row for row, queries in enumerate(lists) for _ in queries]
        ].reset_index(drop=True)
        numbers = pd.Series(
            [number for queries in lists for number in range(len(queries))], dtype="int64"
        )
        qids = [f"{qid}::{number}" for qid, number in zip(expanded["qid"], numbers, strict=True)]
        expanded = with_columns(
            expanded, qid_0=expanded["qid"], qquery=expanded["query"], qid=qids
        ).assign(qsub=numbers, **more)
        return with_query(expanded, [text for queries in lists for text in queries])


def _check_queries(qid: str, queries: Any) -> list[str]:
    if (
        isinstance(queries, str)
        or not isinstance(queries, Iterable)
        or not all(isinstance(query, str) for query in queries)
    ):
        raise DataError(f"turn {qid} has the sub-queries {queries!r:.80}: give a list of texts")
    return list(queries)


def _weights(frame: pd.DataFrame) -> list[float] | None:
    if "qweights" not in frame.columns:
        return None
    weights: list[float] = []
    for qid, queries, row in zip(
        frame["qid"], values(frame, "qsubqueries", []), values(frame, "qweights", []), strict=True
    ):
        if len(queries) != len(row):
            raise DataError(
                f"turn {qid} has {len(queries)} sub-queries but {len(row)} weights: write both columns again, or drop qweights"
            )
        weights += [float(weight) for weight in row] or [1.0]
    return weights


GIVEN = {
    None: "queries",
    "answer": "queries_given_answer",
    "other_answer": "queries_given_other_answer",
}


@with_fields
class Queries(QueryLists):
    """Ask the model for up to ``n`` search queries.

    Reads ``qid``, ``query`` and, if present, ``qutterance``, ``qhistory``, ``qptkb``; with
    ``given`` also ``qanswer``. Writes ``qsubqueries``, a list of 1 to ``n`` texts.
    :class:`ExplodeQueries` turns it into rows. One call per turn. A completion without any query
    falls back to the rewrite (``qrewrite``), or without a rewrite to the question. The ledger
    counts it as a fallback. Source: Abbasiantaeb and Aliannejadi, Generate then Retrieve, Tables 5
    (2), 6, 9 and 10.

    Args:
        llm: the model to ask.
        n: the maximum number of queries. The prompt states it.
        given: ``None``: queries directly from the conversation (QD); ``"answer"``: queries for the
            model's own answer in ``qanswer``, as the second message of the same chat (AQD; in llama
            style, a two-shot prompt); ``"other_answer"``: queries for the answer of another model
            in ``qanswer`` (the paper's [G]).
        words: with ``given="answer"``, the ``words`` of the :class:`Answer` before it, so that the
            chat is repeated exactly.

    Example:
        >>> import pyterrier as pt, pyterrier_ikat as ikat
        >>> topics = pt.get_dataset("ikat:sample").get_topics().head(1)
        >>> len(ikat.Queries(ikat.llm("recorded:sample"), n=3)(topics)["qsubqueries"][0])
        3
    """

    schematic = {"label": "Queries"}
    shows = ("n", "words")
    least = {"n": 1, "words": 1}
    choices = {"given": GIVEN}
    template_of = "given", GIVEN

    given: str | None = None
    _: KW_ONLY
    words: int | None = None

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.n is None:
            raise UsageError(
                "n=None: give the maximum number of queries, which the prompt names, such as n=5"
            )

    def templates(self) -> list[str]:
        """Also the prompt of the answer, if the chat continues after the answer."""
        return [self.template(), *(["answer"] if self._continues else [])]

    @property
    def _continues(self) -> bool:
        return self.given == "answer" and self.style == "gpt"

    def columns_shown(self) -> dict[str, str]:
        """The answer, if the queries are made from one."""
        return {"answer": "qanswer"} if self.given else {}

    def requests(self, frame: pd.DataFrame) -> list[Request]:
        """One request per row; with ``given="answer"`` in gpt style it continues the chat in which the answer was given."""
        found = []
        for qid, row in zip(frame["qid"], self.contexts(frame), strict=True):
            chat = (
                [self.message("answer", row), {"role": "assistant", "content": row["answer"]}]
                if self._continues
                else []
            )
            found.append(self.request(qid, row, self.template(), before=chat))
        return found

    def fallback(self, frame: pd.DataFrame) -> list[list[str]]:
        """The rewrite if there is one, else the question."""
        pairs = zip(values(frame, "qrewrite"), self.questions(frame), strict=True)
        return [[question if rewrite is None else rewrite] for rewrite, question in pairs]

    def write(self, frame: pd.DataFrame, found: Sequence[Any]) -> pd.DataFrame:
        """Set ``qsubqueries``."""
        return with_queries(frame, [queries[: self.n] for queries in found])


def MultiQuery(*arguments: Any, **options: Any) -> pt.Transformer:  # noqa: N802 (reads as an operator in an expression)
    """``Queries(...) >> ExplodeQueries()``: one row per generated query, ready for a retriever.

    It makes two separate stages, so that systems that differ only in later stages share both. The
    arguments are those of :class:`Queries`.

    Example:
        >>> import pyterrier_ikat as ikat
        >>> ikat.MultiQuery(ikat.llm("recorded:sample"), n=3)
        (ikat.Queries(ikat.llm('recorded:sample'), n=3) >> ikat.ExplodeQueries())
    """
    return Queries(*arguments, **options) >> ExplodeQueries()


MultiQuery.__signature__ = inspect.signature(Queries).replace(return_annotation=pt.Transformer)  # type: ignore[attr-defined]


@with_fields
class StatementQueries(QueryLists):
    """Ask the model for search queries for each chosen statement together with the question.

    Reads ``qid``, ``query`` (the rewrite), ``qptkb``, ``qstatements``. Writes ``qsubqueries``: the
    queries of all statements, best statement first, without repeats (ignoring letter case).
    :class:`ExplodeQueries` turns them into rows. One call per chosen statement. For a turn without
    chosen statements, one call with the question alone. A completion without any query falls back
    to the question, counted as for :class:`Queries`. Source: Fu et al., NII@TREC iKAT 2024, section
    III A and appendix A3.

    Args:
        llm: the model to ask.
        n: the maximum number of queries per statement, which the prompt states. ``None``: all
            queries that the model writes; the model's ``max_tokens`` limits them, and a plan counts
            one.
        question: the column with the user's question, by default the utterance. Use ``"qresolved"``
            for the manual variant.

    Example:
        >>> import pyterrier_ikat as ikat
        >>> ikat.generate.StatementQueries(ikat.llm("recorded:sample")) >> ikat.ExplodeQueries()
        (ikat.generate.StatementQueries(ikat.llm('recorded:sample')) >> ikat.ExplodeQueries())
    """

    schematic = {"label": "Statement queries"}
    template_name = "queries_statement"
    statements = "chosen"

    n: int | None = None
    _: KW_ONLY
    question: str = "query"

    def needs(self) -> list[str]:
        """Also ``qstatements``."""
        return [*super().needs(), "qstatements"]

    def requests(self, frame: pd.DataFrame) -> list[Request]:
        """For each row, one request per chosen statement, or one with the question alone."""
        qids, questions = frame["qid"].tolist(), self.questions(frame)
        return [
            self.request(
                qids[row],
                {"question": questions[row], "statement": statement, "n": self.n},
                self.template(),
                number,
            )
            for row, number, statement in self._asks(frame)
        ]

    def fallback(self, frame: pd.DataFrame) -> list[list[str]]:
        """The question."""
        questions = self.questions(frame)
        return [[questions[row]] for row, _, _ in self._asks(frame)]

    def write(self, frame: pd.DataFrame, found: Sequence[Any]) -> pd.DataFrame:
        """Set ``qsubqueries``."""
        lists: list[dict[str, str]] = [{} for _ in range(len(frame))]
        for (row, _, _), queries in zip(self._asks(frame), found, strict=True):
            for query in queries[: self.n]:
                lists[row].setdefault(query.casefold(), query)
        return with_queries(frame, [list(queries.values()) for queries in lists])

    def _asks(self, frame: pd.DataFrame) -> Iterator[tuple[int, str, str]]:
        for row, persona in enumerate(self.personas(frame)):
            yield from (
                (row, number, statement) for number, statement in (persona or {"": ""}).items()
            )


FORMS = ("article", "short", "long", "styled")
WEIGHT_OF_ALL = 1.0


class Ask(NamedTuple):
    """One passage query: its row, its form, its statement (``""``: all shown statements), its weight and what its prompt shows."""

    row: int
    form: str
    item: str
    weight: float
    shown: dict[str, Any]


@with_fields
class PassageQueries(LLMOperator):
    """Ask the model for passages of web pages that would answer the question, and use them as queries.

    Reads ``qid``, ``query`` and, if present, ``qutterance``, ``qhistory``, ``qptkb``,
    ``qstatements`` (without it, the whole persona is shown) and ``qrewrite``. Writes
    ``qsubqueries``, the passages, and ``qweights``, their weights. :class:`ExplodeQueries` turns
    them into rows. Calls per turn: first one for each of the ``forms``, about all chosen statements
    together, with weight 1. Then one call with the first form for each of the ``per_statement``
    best chosen statements, with the statement's score as weight. A passage that fails is replaced
    by the question with the same weight.

    The prompt tells the model to write as an author of web pages, so that the text resembles the
    passages of the collection. Forms: ``"article"``: 10 sentences of an online article. If the
    frame has ``qrewrite``, the question is this clarified utterance, and the history is not shown
    (section 4.2.1). ``"short"``: 5 sentences of a direct answer. ``"long"``: 10 sentences of an
    article. ``"styled"``: 10 sentences in the style of an encyclopedia, a blog or a government
    website, which the model chooses and names first. The query omits the name (section 4.2.2,
    appendix A.2). Source: De Lima and Yang, Passage Query Methods.

    Args:
        llm: the model to ask.
        forms: the forms, one query each.
        per_statement: how many of the best chosen statements get a query of their own. It needs
            ``qstatements``.

    Raises:
        UsageError: when there is no form, a form is unknown, or ``per_statement`` is below 0.

    Example:
        >>> import pyterrier_ikat as ikat
        >>> ikat.generate.PassageQueries(ikat.llm("recorded:sample"), per_statement=3)
        ikat.generate.PassageQueries(ikat.llm('recorded:sample'), per_statement=3)
    """

    stage = "passage_queries"
    kind = PASSAGE
    activity = "writing queries from passages"
    schematic = {"label": "Passage queries"}
    statements = "chosen"
    least = {"per_statement": 0}

    forms: Sequence[str] = ("article",)
    per_statement: int = 0

    def __post_init__(self) -> None:
        if (
            not isinstance(self.forms, list | tuple)
            or not self.forms
            or not all(form in FORMS for form in self.forms)
        ):
            raise UsageError(
                f"forms={self.forms!r}: give a list of one or more of {', '.join(FORMS)}"
            )
        self.forms = tuple(self.forms)
        super().__post_init__()

    def template(self) -> str:
        """The prompt of the first form."""
        return self._template(self.forms[0])

    def templates(self) -> list[str]:
        """The prompt of each form."""
        return [self._template(form) for form in self.forms]

    def needs(self) -> list[str]:
        """Also ``qstatements`` when statements get queries of their own."""
        return super().needs() + (["qstatements"] if self.per_statement else [])

    def requests(self, frame: pd.DataFrame) -> list[Request]:
        """For each row, one request per form, then one per statement."""
        qids = frame["qid"].tolist()
        return [
            self.request(qids[ask.row], ask.shown, self._template(ask.form), ask.item)
            for ask in self._asks(frame)
        ]

    def fallback(self, frame: pd.DataFrame) -> list[str]:
        """The question that the passage answers."""
        return [ask.shown["question"] for ask in self._asks(frame)]

    def typical(self, frame: pd.DataFrame) -> list[str]:
        """15 words per sentence."""
        return [
            as_long_as(75 if ask.form == "short" else 150, ask.shown["question"])
            for ask in self._asks(frame)
        ]

    def write(self, frame: pd.DataFrame, found: Sequence[Any]) -> pd.DataFrame:
        """Set ``qsubqueries`` and ``qweights``."""
        texts: list[list[str]] = [[] for _ in range(len(frame))]
        weights: list[list[float]] = [[] for _ in range(len(frame))]
        for ask, text in zip(self._asks(frame), found, strict=True):
            texts[ask.row].append(text)
            weights[ask.row].append(ask.weight)
        return with_columns(frame, qsubqueries=texts, qweights=weights)

    def _template(self, form: str) -> str:
        return f"passage_queries_{form}"

    def _contexts_of(self, frame: pd.DataFrame, form: str) -> list[dict[str, Any]]:
        rows = self.contexts(frame)
        if form != "article" or "qrewrite" not in frame.columns:
            return rows
        return [
            {**row, "context": "", "question": text}
            for row, text in zip(rows, texts_in(frame, "qrewrite"), strict=True)
        ]

    def _asks(self, frame: pd.DataFrame) -> Iterator[Ask]:
        shown = {form: self._contexts_of(frame, form) for form in self.forms}
        first = self.forms[0]
        for row, (statements, persona) in enumerate(
            zip(values(frame, "qstatements", []), self.personas(frame), strict=True)
        ):
            yield from (Ask(row, form, "", WEIGHT_OF_ALL, shown[form][row]) for form in self.forms)
            known = [(number, score) for number, score in statements if number in persona]
            for number, score in known[: self.per_statement]:
                yield Ask(
                    row,
                    first,
                    number,
                    float(score),
                    {**shown[first][row], "ptkb": ptkb_text({number: persona[number]})},
                )
