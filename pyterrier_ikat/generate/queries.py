"""Several search queries per turn, written by an LLM, and frames with one row per query."""

import inspect
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import KW_ONLY
from typing import Any, NamedTuple

import pandas as pd
import pyterrier as pt

from ..completions.kinds import PASSAGE, QUERIES
from ..conversations.frame import (
    each_turn_once,
    earlier_queries,
    texts_in,
    values,
    with_columns,
    with_query,
)
from ..errors import DataError, UsageError, counted, list_first
from ..llm_operator import LLMOperator, as_long_as, log
from ..llms import Request
from ..lost_columns import has_column
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
        count = 1 if self.n is None else self.n
        lists = []
        for row, [text] in enumerate(self.fallback(frame)):
            lists.append([f"{text} {row}.{number}" for number in range(count)])
        return lists

    def list_dropped(self, frame: pd.DataFrame, outcomes: Sequence[Any]) -> list[str]:
        """The queries beyond ``n``."""
        if self.n is None:
            return []
        return [query for queries in outcomes for query in queries[self.n :]]

    def settle(self, frame: pd.DataFrame, outcomes: Sequence[Any]) -> list[Any]:
        """Replace failures and completions without a query by the fallback, and count them."""
        lists = super().settle(frame, outcomes)
        if all(lists):
            return lists
        fallbacks = self.fallback(frame)
        without_query = []
        for row, request in enumerate(self.requests(frame)):
            if not lists[row]:
                lists[row] = fallbacks[row]
                without_query.append(request.qid)
        self.count(failures=len(without_query), fallbacks=len(without_query))
        log.warning(
            "stage %s: no query in the completions of %s: %s; the fallback is used",
            self.stage,
            counted(len(without_query), "turn"),
            list_first(without_query),
        )
        return lists


def with_queries(frame: pd.DataFrame, lists: Sequence[list[str]]) -> pd.DataFrame:
    """Return a new frame with ``lists`` as ``qsubqueries``, without the weights of earlier ones."""
    frame = frame.drop(columns="qweights", errors="ignore")
    return with_columns(frame, qsubqueries=lists)


class ExplodeQueries(Operator):
    """Make one row per sub-query, so that any retriever can search for each of them.

    Reads ``qid``, ``query``, ``qsubqueries``. Writes ``qid`` = ``<turn>::<n>`` (unique again),
    ``qid_0`` (the turn's qid), ``qquery`` (the turn's query), ``qsub`` (0, 1, ...) and ``query``
    (the sub-query; the turn's query is pushed to ``query_0``), and ``qpushed``, how many earlier
    queries there are then. The fusions (``Interleave``, ``RRF``, ``WeightedSum``, ...) undo it. A
    turn with an empty list, or without a list, keeps its query as its only sub-query. If the frame
    has ``qweights`` (see :class:`PassageQueries`), each row gets its own ``qweight``; the weight of
    a turn's own query is 1.

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
                "the frame has one row per sub-query already: "
                "fuse them (ikat.RRF, Interleave, ...) before ExplodeQueries"
            )
        each_turn_once(inp)
        lists = values(inp, "qsubqueries", [])
        own = texts_in(inp, "query")
        rows: list[int] = []
        numbers: list[int] = []
        texts: list[str] = []
        for row, qid in enumerate(inp["qid"]):
            queries = _check_queries(qid, lists[row]) or [own[row]]
            rows += [row] * len(queries)
            numbers += range(len(queries))
            texts += queries
        expanded = inp.iloc[rows].reset_index(drop=True)
        turns = expanded["qid"]
        qids = [f"{turn}::{number}" for turn, number in zip(turns, numbers, strict=True)]
        expanded = with_columns(expanded, qid_0=turns, qquery=expanded["query"], qid=qids)
        expanded["qsub"] = pd.Series(numbers, dtype="int64")
        if has_column(inp, "qweights"):
            expanded["qweight"] = pd.Series(_weights(inp), dtype="float64")
        exploded = with_query(expanded, texts)
        exploded["qpushed"] = len(earlier_queries(exploded))
        return exploded


def _check_queries(qid: str, queries: Any) -> list[str]:
    is_list = isinstance(queries, Iterable) and not isinstance(queries, str)
    if not is_list or not all(isinstance(query, str) for query in queries):
        raise DataError(f"turn {qid} has the sub-queries {queries!r:.80}: give a list of texts")
    return list(queries)


def _weights(frame: pd.DataFrame) -> list[float]:
    """Return the weight of each sub-query, turn by turn; 1 for a turn without sub-queries."""
    lists = values(frame, "qsubqueries", [])
    weights_of_turns = values(frame, "qweights", [])
    weights: list[float] = []
    for qid, queries, of_turn in zip(frame["qid"], lists, weights_of_turns, strict=True):
        if len(queries) != len(of_turn):
            raise DataError(
                f"turn {qid} has {len(queries)} sub-queries but {len(of_turn)} weights: "
                "write both columns again, or drop qweights"
            )
        weights += map(float, of_turn) if queries else [WEIGHT_OF_ALL]
    return weights


TEMPLATE_OF_GIVEN = {
    None: "queries",
    "answer": "queries_given_answer",
    "other_answer": "queries_given_other_answer",
}
"""What the queries are made from -> the prompt."""


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
    choices = {"given": TEMPLATE_OF_GIVEN}
    template_of = "given", TEMPLATE_OF_GIVEN

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
        if self._continues:
            return [self.template(), "answer"]
        return [self.template()]

    @property
    def _continues(self) -> bool:
        return self.given == "answer" and self.style == "gpt"

    def columns_shown(self) -> dict[str, str]:
        """The answer, if the queries are made from one."""
        return {"answer": "qanswer"} if self.given else {}

    def requests(self, frame: pd.DataFrame) -> list[Request]:
        """One request per row; after an answer in gpt style, it continues the answer's chat."""
        requests = []
        for qid, shown in zip(frame["qid"], self.contexts(frame), strict=True):
            chat = []
            if self._continues:
                reply = {"role": "assistant", "content": shown["answer"]}
                chat = [self.message("answer", shown), reply]
            requests.append(self.request(qid, shown, self.template(), before=chat))
        return requests

    def fallback(self, frame: pd.DataFrame) -> list[list[str]]:
        """The rewrite if there is one, else the question."""
        rewrites = values(frame, "qrewrite")
        questions = self.questions(frame)
        queries = []
        for rewrite, question in zip(rewrites, questions, strict=True):
            queries.append([question if rewrite is None else rewrite])
        return queries

    def write(self, frame: pd.DataFrame, outcomes: Sequence[Any]) -> pd.DataFrame:
        """Set ``qsubqueries``."""
        return with_queries(frame, [queries[: self.n] for queries in outcomes])


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
        qids = frame["qid"].tolist()
        questions = self.questions(frame)
        requests = []
        for row, number, statement in self._statements(frame):
            shown = {"question": questions[row], "statement": statement, "n": self.n}
            requests.append(self.request(qids[row], shown, self.template(), number))
        return requests

    def fallback(self, frame: pd.DataFrame) -> list[list[str]]:
        """The question."""
        questions = self.questions(frame)
        return [[questions[row]] for row, _, _ in self._statements(frame)]

    def write(self, frame: pd.DataFrame, outcomes: Sequence[Any]) -> pd.DataFrame:
        """Set ``qsubqueries``."""
        by_text: list[dict[str, str]] = [{} for _ in range(len(frame))]
        for (row, _, _), queries in zip(self._statements(frame), outcomes, strict=True):
            for query in queries[: self.n]:
                by_text[row].setdefault(query.casefold(), query)
        return with_queries(frame, [list(queries.values()) for queries in by_text])

    def _statements(self, frame: pd.DataFrame) -> Iterator[tuple[int, str, str]]:
        """Give row, number and text of each shown statement; empty texts for a row without any."""
        for row, persona in enumerate(self.personas(frame)):
            for number, statement in (persona or {"": ""}).items():
                yield row, number, statement


PASSAGE_FORMS = ("article", "short", "long", "styled")
WEIGHT_OF_ALL = 1.0


class PassageQuery(NamedTuple):
    """One passage to ask for.

    Attributes:
        row: the number of its row in the frame.
        form: one of ``PASSAGE_FORMS``.
        statement: the id of its statement; ``""``: all shown statements.
        weight: the weight of the query.
        shown: the values that its prompt shows.
    """

    row: int
    form: str
    statement: str
    weight: float
    shown: dict[str, Any]


@with_fields
class PassageQueries(LLMOperator):
    """Ask the model for passages of web pages that would answer the question, as queries.

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
        is_list = isinstance(self.forms, list | tuple) and len(self.forms) > 0
        if not is_list or not all(form in PASSAGE_FORMS for form in self.forms):
            forms = ", ".join(PASSAGE_FORMS)
            raise UsageError(f"forms={self.forms!r}: give a list of one or more of {forms}")
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
        columns = super().needs()
        if self.per_statement:
            columns.append("qstatements")
        return columns

    def requests(self, frame: pd.DataFrame) -> list[Request]:
        """For each row, one request per form, then one per statement."""
        qids = frame["qid"].tolist()
        requests = []
        for row, form, statement, _weight, shown in self._passages(frame):
            requests.append(self.request(qids[row], shown, self._template(form), statement))
        return requests

    def fallback(self, frame: pd.DataFrame) -> list[str]:
        """The question that the passage answers."""
        return [passage.shown["question"] for passage in self._passages(frame)]

    def typical(self, frame: pd.DataFrame) -> list[str]:
        """15 words per sentence."""
        texts = []
        for passage in self._passages(frame):
            words = 75 if passage.form == "short" else 150
            texts.append(as_long_as(words, passage.shown["question"]))
        return texts

    def write(self, frame: pd.DataFrame, outcomes: Sequence[Any]) -> pd.DataFrame:
        """Set ``qsubqueries`` and ``qweights``."""
        texts: list[list[str]] = [[] for _ in range(len(frame))]
        weights: list[list[float]] = [[] for _ in range(len(frame))]
        for passage, text in zip(self._passages(frame), outcomes, strict=True):
            texts[passage.row].append(text)
            weights[passage.row].append(passage.weight)
        return with_columns(frame, qsubqueries=texts, qweights=weights)

    def _template(self, form: str) -> str:
        return f"passage_queries_{form}"

    def _contexts_of(self, frame: pd.DataFrame, form: str) -> list[dict[str, Any]]:
        """Return the values that prompts show; for articles, the rewrite instead of the history."""
        shown = self.contexts(frame)
        if form == "article" and has_column(frame, "qrewrite"):
            for row, rewrite in zip(shown, texts_in(frame, "qrewrite"), strict=True):
                row["context"] = ""
                row["question"] = rewrite
        return shown

    def _passages(self, frame: pd.DataFrame) -> Iterator[PassageQuery]:
        """Give the passages to ask for, row by row: one per form, then one per statement."""
        shown = {form: self._contexts_of(frame, form) for form in self.forms}
        chosen = values(frame, "qstatements", [])
        first = self.forms[0]
        for row, persona in enumerate(self.personas(frame)):
            for form in self.forms:
                yield PassageQuery(row, form, "", WEIGHT_OF_ALL, shown[form][row])
            known = [(number, score) for number, score in chosen[row] if number in persona]
            for number, score in known[: self.per_statement]:
                about_one = {**shown[first][row], "ptkb": ptkb_text({number: persona[number]})}
                yield PassageQuery(row, first, number, float(score), about_one)
