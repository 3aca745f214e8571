"""What operators share that ask for lists of search queries."""

from collections.abc import Sequence
from typing import Any

import pandas as pd

from ..conversations.frame import with_columns
from ..errors import UsageError
from ..llm import Completion, LLMFailure
from ..llm.parsing import parse_queries, spoken
from ..prompts.operator import LLMOperator, log
from ..prompts.run_on import without_next_prompt

EVERY = 1_000_000
"""More queries than any completion holds."""


class QueryLists(LLMOperator):
    """Ask for lists of at most ``n`` search queries; a completion without any query falls back, counted (facts page, section 5).

    One that says nothing, or only declines, is a failure as everywhere.
    """

    stage = "queries"
    n: int

    def _keep(self, n: int) -> None:
        if n < 1:
            raise UsageError(f"n={n}: ask for at least one query")
        self.n = n

    def parse(self, text: str) -> list[str] | None:
        """At most ``n`` queries, perhaps none; None for a refusal, or a thought that no words follow."""
        queries, dropped = parse_queries(text, self.n)
        if dropped:
            log.info("stage %s: left out %r", self.stage, dropped)
        return queries if queries or spoken(text) else None

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
