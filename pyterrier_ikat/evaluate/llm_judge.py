"""What all language models as judges of responses share: the requests of a whole frame at once, failures that are counted."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import pandas as pd

from ..conversations.frame import question_column, values
from ..errors import UsageError
from ..llm import LLM, Completion, LLMFailure, Request
from ..llm.factory import asking
from ..prompts import render
from ..prompts.context import history_text, ptkb_text
from .assessment import Assessment
from .verdicts import Verdict

STAGE = "judge"

Outcome = Completion | LLMFailure


def asked_column(turns: pd.DataFrame, judge: str) -> str:
    """What the user asked: ``qresolved``, else ``qutterance``, else the first ``query`` (a rewritten one is the system's).

    Raises:
        UsageError: when the turns have no such column.

    Example:
        >>> asked_column(pd.DataFrame(columns=["qid", "query", "query_0"]), "relevance")
        'query_0'
    """
    column = "qresolved" if "qresolved" in turns.columns else question_column(turns)
    if column not in turns.columns:
        raise UsageError(f"{judge} is judged by the question, and the turns have none: add qresolved, qutterance or query")
    return column


@dataclass(frozen=True)
class LLMJudge:
    """Asks a model about every response.

    Requests have the stage ``"judge"`` and the prompt ids ``judge_groundedness``, ``judge_completeness``,
    ``judge_relevance``, ``judge_naturalness``, ``judge_preference``, ``judge_pairwise``, ``judge_nuggets``. The question
    shown is that of :func:`asked_column`; a frame without ``qhistory`` or ``qptkb`` has none to
    show.

    Args (of every subclass):
        llm: the model to ask.
        prompts: a folder of your own templates; those missing there come from the package.
    """

    llm: LLM
    prompts: str | None = None

    def __post_init__(self) -> None:
        object.__setattr__(self, "llm", asking(self.llm))

    topic: ClassVar[str]
    needs: ClassVar[tuple[str, ...]] = ()
    basis: ClassVar[str] = ""
    about_question: ClassVar[bool] = True

    @property
    def name(self) -> str:
        """What the judge is called in tables."""
        return self.topic

    def judge(self, responses: pd.DataFrame) -> list[Assessment]:
        """One judgement per row of a frame with ``qid``, ``qanswer`` and what the judge needs.

        Raises:
            UsageError: when the judge goes by the question and the frame has none.
            FatalLLMError: when no call can succeed (key, model, quota).
            BudgetExceeded: when the budget is spent.
        """
        rows = responses.assign(question=self._questions(responses)).to_dict("records")
        asked = [self.requests(row) for row in rows]
        outcomes = iter(self.llm.ask([request for requests in asked for request in requests]))
        return [self.settle(row, [next(outcomes) for _ in requests]) for row, requests in zip(rows, asked, strict=True)]

    def requests(self, row: dict[str, Any]) -> list[Request]:
        """What is asked about one response."""
        return [self._request(row)]

    def settle(self, row: dict[str, Any], outcomes: Sequence[Outcome]) -> Assessment:
        """The judgement that the answers amount to."""
        verdict = self._read(row["qid"], outcomes[0])
        return self.judgement(row, verdict) if isinstance(verdict, Verdict) else verdict

    def read(self, text: str) -> Verdict | None:
        """The verdict in a completion, or None."""
        raise NotImplementedError

    def judgement(self, row: dict[str, Any], verdict: Verdict) -> Assessment:
        """The value of a verdict."""
        return Assessment(float(verdict.value), verdict.reason)

    def _questions(self, responses: pd.DataFrame) -> list[str]:
        return values(responses, asked_column(responses, self.name)) if self.about_question else [""] * len(responses)

    def _request(self, row: dict[str, Any], item: str = "", **more: Any) -> Request:
        shown = {
            "question": row["question"],
            "context": history_text(row.get("qhistory") or []),
            "ptkb": ptkb_text(row.get("qptkb") or {}),
            "response": row["qanswer"],
            **more,
        }
        message = {"role": "user", "content": render(f"response_{self.topic}", folder=self.prompts, **shown)}
        return Request([message], stage=STAGE, qid=row["qid"], prompt=f"judge_{self.topic}", item=item)

    def _read(self, qid: str, outcome: Outcome) -> Verdict | Assessment:
        if isinstance(outcome, LLMFailure):
            return Assessment(None, str(outcome), "failed")
        return self.read(outcome.text) or self._unusable(outcome)

    def _unusable(self, outcome: Completion) -> Assessment:
        self.llm.ledger.count(STAGE, self.llm.model, failures=1)
        return Assessment(None, f"no verdict of the asked kind in the completion {outcome.text[:200]!r}", "failed")
