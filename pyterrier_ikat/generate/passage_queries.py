"""Queries written like passages that would answer the question."""

from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

import pandas as pd

from ..arguments import at_least
from ..completions.kinds import PASSAGE
from ..conversations.frame import texts_in, values, with_columns
from ..errors import UsageError
from ..llm_operator import LLMOperator, as_long_as
from ..llms import Request
from ..operator import with_fields
from ..prompts import ptkb_text

FORMS = ("article", "short", "long", "styled")
WEIGHT_OF_ALL = 1.0


class Ask(NamedTuple):
    """One passage query: its row, its form, its statement (``""``: all shown statements) and its weight."""

    row: int
    form: str
    item: str
    weight: float


@with_fields
class PassageQueries(LLMOperator):
    """Ask the model for passages of web pages that would answer the question, and use them as queries.

    Reads ``qid``, ``query`` and, if present, ``qutterance``, ``qhistory``, ``qptkb``, ``qstatements`` (without it, the whole persona is
    shown) and ``qrewrite``. Writes ``qsubqueries``, the passages, and ``qweights``, their weights. :class:`ExplodeQueries` turns them into
    rows. Calls per turn: first one for each of the ``forms``, about all chosen statements together, with weight 1. Then one call with the
    first form for each of the ``per_statement`` best chosen statements, with the statement's score as weight. A passage that fails is
    replaced by the question with the same weight.

    The prompt tells the model to write as an author of web pages, so that the text resembles the passages of the collection. Forms:
    ``"article"``: 10 sentences of an online article. If the frame has ``qrewrite``, the question is this clarified utterance, and the
    history is not shown (section 4.2.1). ``"short"``: 5 sentences of a direct answer. ``"long"``: 10 sentences of an article. ``"styled"``:
    10 sentences in the style of an encyclopedia, a blog or a government website, which the model chooses and names first. The query omits
    the name (section 4.2.2, appendix A.2). Source: De Lima and Yang, Passage Query Methods.

    Args:
        llm: the model to ask.
        forms: the forms, one query each.
        per_statement: how many of the best chosen statements get a query of their own. It needs ``qstatements``.

    Raises:
        UsageError: when there is no form, a form is unknown, or ``per_statement`` is below 0.

    Example:
        >>> import pyterrier_ikat as ikat
        >>> ikat.PassageQueries(ikat.llm("recorded:sample"), per_statement=3)
        ikat.PassageQueries(ikat.llm('recorded:sample'), per_statement=3)
    """

    stage = "passage_queries"
    kind = PASSAGE
    activity = "writing queries from passages"
    schematic = {"label": "Passage queries"}
    statements = "chosen"

    forms: Sequence[str] = ("article",)
    per_statement: int = 0

    def __post_init__(self) -> None:
        if not isinstance(self.forms, list | tuple) or not self.forms or not all(form in FORMS for form in self.forms):
            raise UsageError(f"forms={self.forms!r}: give a list of one or more of {', '.join(FORMS)}")
        at_least(0, per_statement=self.per_statement)
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
        contexts, qids = [self._contexts_of(frame, form) for form in FORMS], frame["qid"].tolist()
        personas = self.personas(frame)
        requests = []
        for ask in self._asks(frame):
            row = contexts[FORMS.index(ask.form)][ask.row]
            about = {ask.item: personas[ask.row][ask.item]} if ask.item else personas[ask.row]
            requests.append(self.request(qids[ask.row], {**row, "ptkb": ptkb_text(about)}, self._template(ask.form), ask.item))
        return requests

    def fallback(self, frame: pd.DataFrame) -> list[str]:
        """The question that the passage answers."""
        questions = {form: [row["question"] for row in self._contexts_of(frame, form)] for form in FORMS}
        return [questions[ask.form][ask.row] for ask in self._asks(frame)]

    def typical(self, frame: pd.DataFrame) -> list[str]:
        """15 words per sentence."""
        asks = zip(self._asks(frame), self.fallback(frame), strict=True)
        return [as_long_as(75 if ask.form == "short" else 150, text) for ask, text in asks]

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
        return [{**row, "context": "", "question": text} for row, text in zip(rows, texts_in(frame, "qrewrite"), strict=True)]

    def _asks(self, frame: pd.DataFrame) -> Iterator[Ask]:
        chosen = [statements or [] for statements in values(frame, "qstatements")]
        for row, (statements, persona) in enumerate(zip(chosen, self.personas(frame), strict=True)):
            yield from (Ask(row, form, "", WEIGHT_OF_ALL) for form in self.forms)
            known = [(number, score) for number, score in statements if number in persona]
            yield from (Ask(row, self.forms[0], number, float(score)) for number, score in known[: self.per_statement])
