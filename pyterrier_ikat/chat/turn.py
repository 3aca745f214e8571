"""One exchange with a system: the utterance, the response, its passages, and how the response came about."""

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from typing import Any

import pandas as pd

from ..conversations.frame import is_missing, personas, values
from .display import plain, turn_drawn
from .html import turn_html

SHOWN = 5
"""The number of passages shown for a system without responses."""
WORDS = 20
"""The number of words of a passage that are shown below an answer."""


@dataclass(frozen=True)
class Source:
    """A passage that is shown with a turn.

    Attributes:
        docno: its id.
        text: its text; empty where the index has none.
        score: its score in the ranking; None if there is none.
    """

    docno: str
    text: str
    score: float | None = None

    @property
    def beginning(self) -> str:
        """Its first 20 words."""
        words = self.text.split()
        return " ".join(words[:WORDS]) + " ..." * (len(words) > WORDS)


@dataclass(frozen=True, repr=False)
class ChatTurn:
    """One exchange of a chat; it displays itself in a notebook.

    Attributes:
        turn_id: its number in the conversation, from 1.
        utterance: the user's words.
        response: the system's answer; empty if the system writes none or found no passage.
        sources: the passages that the response is based on; without a response the best 5.
        rewrite: the query that an LLM or a rewriter made of the utterance; empty if there is none.
        queries: the queries that were searched, in their order.
        statements: the texts of the chosen statements about the user, best first.
        draft: an answer that the system wrote as its query, or to decide by; it is not the response. Several are separated by a blank line.
        ranking: docno -> score of the whole ranking, best first.
        seconds: how long the system took, without the memory.
        calls: completions that were paid for, also those of a memory that learned from the turn.
        cached: completions that were known before.
        tokens: the tokens of the completions that were paid for, read and written; None if a server does not report them.
        cost: US dollars; None if a price or a token count is unknown.
        worth: what the completions that were known before would have cost, in US dollars; None if a price or a token count is unknown.
        method: the name of the system.
        omitted: how many old messages of the conversation the system did not see.
        asked: the prompts and completions of the turn: ``stage``, ``prompt``, ``messages`` and ``completion`` or ``failure``.
    """

    turn_id: int
    utterance: str
    response: str
    sources: tuple[Source, ...]
    rewrite: str = ""
    queries: tuple[str, ...] = ()
    statements: tuple[str, ...] = ()
    draft: str = ""
    ranking: Mapping[str, float] = field(default_factory=dict, compare=False)
    seconds: float = field(default=0.0, compare=False)
    calls: int = 0
    cached: int = 0
    tokens: int | None = 0
    cost: float | None = 0.0
    method: str = ""
    omitted: int = 0
    asked: tuple[Mapping[str, Any], ...] = field(default=(), compare=False)
    worth: float | None = field(default=0.0, compare=False)

    @classmethod
    def of(cls, turn_id: int, utterance: str, results: pd.DataFrame, **more: Any) -> "ChatTurn":
        """The turn made from a system's results.

        ``qanswer`` is the response if ``Respond`` wrote it (the frame has ``used``), or if the system retrieves no passages at all. In a
        ranking without ``used`` it is a draft that served as a query.

        Args:
            turn_id: its number.
            utterance: the user's words.
            results: the frame that the system returned.
            more: the fields that the frame doesn't have.
        """
        texts = {name: clean_text(str(next(iter(values(results, name, "")), ""))) for name in ("qanswer", "qrewrite")}
        more = {"rewrite": texts["qrewrite"], "statements": statements_in(results), **more}
        if "docno" not in results.columns:
            return cls(turn_id, utterance, texts["qanswer"], (), **more | {"draft": ""})
        ranking = results.sort_values("rank", kind="stable") if "rank" in results.columns else results
        responds = "used" in results.columns
        best = ranking[ranking["used"].astype(bool)] if responds else ranking.head(SHOWN)
        if not responds:
            more["draft"] = more.get("draft") or texts["qanswer"]
        unknown = float("nan") if "score" in ranking.columns else 0.0
        scores = dict(zip(map(str, ranking["docno"]), map(float, values(ranking, "score", unknown)), strict=True))
        return cls(turn_id, utterance, texts["qanswer"] if responds else "", _sources(best), ranking=scores, **more)

    def with_calls(
        self,
        calls: int = 0,
        cached: int = 0,
        tokens: int | None = 0,
        cost: float | None = 0.0,
        worth: float | None = 0.0,
        asked: Sequence[Mapping[str, Any]] = (),
    ) -> "ChatTurn":
        """The turn with further completions; a sum with an unknown amount is unknown.

        Example:
            >>> turn = ChatTurn(1, "Which tea?", "Rooibos.", (), calls=1, tokens=90, cost=0.25).with_calls(1, tokens=10, cost=None)
            >>> turn.calls, turn.tokens, turn.cost
            (2, 100, None)
        """
        return replace(
            self,
            calls=self.calls + calls,
            cached=self.cached + cached,
            tokens=None if self.tokens is None or tokens is None else self.tokens + tokens,
            cost=None if self.cost is None or cost is None else self.cost + cost,
            worth=None if self.worth is None or worth is None else self.worth + worth,
            asked=(*self.asked, *asked),
        )

    @property
    def account(self) -> dict[str, Any]:
        """The completions that the system used and their cost in US dollars, whether they were paid for or known before.

        Example:
            >>> ChatTurn(1, "Tea?", "Rooibos.", (), calls=1, cached=2, cost=0.25, worth=0.5).account
            {'calls': 3, 'cost': 0.75}
        """
        return {"calls": self.calls + self.cached, "cost": None if self.cost is None or self.worth is None else self.cost + self.worth}

    @property
    def paid(self) -> dict[str, Any]:
        """The part of the account that was paid for, and what was known before."""
        return {"paid_calls": self.calls, "paid_cost": self.cost, "cached": self.cached, "worth": self.worth, "tokens": self.tokens}

    def record(self) -> dict[str, Any]:
        """How the turn came about, as JSON: all but the conversation, the ranking and the prompts."""
        omitted = ("turn_id", "utterance", "response", "ranking", "asked", "worth")
        return {name: value for name, value in asdict(self).items() if name not in omitted}

    def __repr__(self) -> str:
        """The system's part as text, without terminal control characters, calls and time."""
        return plain(turn_drawn(self, note=False))

    def _repr_html_(self) -> str:
        return turn_html(self)


def _sources(passages: pd.DataFrame) -> tuple[Source, ...]:
    scores = [None if is_missing(score) else float(score) for score in values(passages, "score")]
    rows = zip(passages["docno"], values(passages, "text", ""), scores, strict=True)
    return tuple(Source(str(docno), str(text), score) for docno, text, score in rows)


def statements_in(results: pd.DataFrame) -> tuple[str, ...]:
    """The texts of the statements that the turn's stages chose."""
    if not len(results) or not {"qstatements", "qptkb"} <= set(results.columns):
        return ()
    first = results.head(1)
    known, chosen = personas(first)[0], values(first, "qstatements", [])[0]
    return tuple(known[name] for name, _ in chosen if name in known)


def clean_text(text: str) -> str:
    """The text as UTF-8 can hold it, without white space around it."""
    return text.encode("utf-8", "replace").decode("utf-8").strip()
