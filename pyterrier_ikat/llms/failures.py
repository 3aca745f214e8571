"""The failures of language models, as types.

So a failure never becomes the text of a query or an answer.
"""

from collections import Counter
from collections.abc import Sequence
from enum import Enum
from typing import Any, NamedTuple

from ..completions.usable import printable
from ..errors import IkatError, UsageError, advice, counted, list_first

KEPT = {
    "file": "finished calls are in the cache and are not repeated",
    "process": "finished calls are kept in this process only, and not repeated in it",
}
"""Where an LLM keeps its completions -> what to say. Nothing when it keeps none."""
REASON_LENGTH = 300
LONGEST = 20_000
"""The maximum number of characters that are read of a server's message."""


class Unanswered(Enum):
    """Why a request has no answer, which decides what it cost."""

    UNSENT = "nothing was sent"
    REFUSED = "the server refused it, which costs nothing"
    LOST = "it was sent and nothing came back, so its cost is unknown"


class LLMFailure(IkatError):
    """A request without a usable completion; `LLM.ask` returns it instead of the completion.

    Attributes:
        stage: the operator that asked.
        qid: the turn of the request.
        reason: what happened, in one line.
        kept: True when the completion is in the cache, so that asking again gives the same failure.
        unanswered: for a backend that returns it: why there is no answer.
    """

    def __init__(
        self,
        stage: str,
        qid: str,
        reason: str,
        *,
        kept: bool = False,
        unanswered: Unanswered = Unanswered.REFUSED,
    ) -> None:
        super().__init__(stage, qid, reason)
        self.stage = stage
        self.qid = qid
        self.reason = shorten(reason)
        self.kept = kept
        self.unanswered = unanswered

    def __str__(self) -> str:
        return f"{self.stage} of turn {self.qid}: {self.reason}"


class CutOff(LLMFailure):
    """The completion stopped at the token limit (``finish_reason="length"`` and equivalents)."""


class Unfinished(LLMFailure):
    """The completion ended for another reason: ``error``, ``tool_calls`` or an unknown word."""


class OnlyReasoning(LLMFailure):
    """The completion has only reasoning and no answer, or its reasoning does not end."""


class UnknownMark(LLMFailure):
    """The completion has an unknown mark, so it isn't clear which part is the answer."""


class Empty(LLMFailure):
    """The completion has no text."""


REFUSED = ("the model refused", "the provider's content filter")
"""How the reason of a refusal begins, and that of a withheld text."""


class Refused(LLMFailure):
    """The model declined to answer, in the protocol's own field or with a completion."""


class NotStructured(LLMFailure):
    """The completion isn't the JSON that was asked for (``structured=on``)."""


class Filtered(LLMFailure):
    """The provider's content filter withheld the prompt or the completion."""


class Unavailable(LLMFailure):
    """The server was overloaded, failing or not reachable until the retries were used up."""


class BadRequest(LLMFailure):
    """The server rejects this request (400 and the like)."""


class TooLong(BadRequest):
    """The server rejects this request because the prompt is too long for the model."""


FAILURES_BY_NAME = {kind.__name__: kind for kind in (*LLMFailure.__subclasses__(), TooLong)}


class Transient(Exception):  # noqa: N818 - a signal to the retry loop, not an error that a user sees
    """Raised by a backend: the same call may succeed a little later.

    Attributes:
        retry_after: seconds that the server asks to wait, or None.
        reason: what happened, in one line.
        unreached: True when the server has never answered, so there may be none.
        unanswered: why there is no answer.
        paid: the answers that can't be used and were paid for: a `Reply` without a text for each
            request. Empty if there is none.
        limited: True when the server is asked too often (429). Such a try doesn't count.
        lasting: what is wrong if no later call succeeds either: the key is no longer accepted.
    """

    def __init__(
        self,
        retry_after: float | None,
        reason: str,
        *,
        unreached: bool = False,
        unanswered: Unanswered = Unanswered.REFUSED,
        paid: Sequence[Any] = (),
        limited: bool = False,
        lasting: str = "",
    ) -> None:
        super().__init__(retry_after, reason)
        self.retry_after = retry_after
        self.reason = shorten(reason)
        self.unreached = unreached
        self.unanswered = unanswered
        self.paid = paid
        self.limited = limited
        self.lasting = lasting


class WrongAnswers(UsageError):  # noqa: N818 - named for what it holds
    """An object with ``.generate`` has returned something else than texts.

    Attributes:
        paid: for each request a `Reply` without a text; empty if the number of answers is wrong.
    """

    def __init__(self, reason: str, paid: Sequence[Any] = ()) -> None:
        super().__init__(reason)
        self.paid = list(paid)


class StageEnded(IkatError):
    """A stage ended before all of its requests were sent.

    Attributes:
        done: requests that are finished and kept.
        left: requests that are not finished; None before the stage has counted them.
        kept_in: where the LLM keeps finished calls, see `LLM.kept_in`.
    """

    done: int = 0
    left: int | None = None
    kept_in: str = ""

    def after(self, done: int, left: int, kept_in: str) -> "StageEnded":
        """Return the same error with how far the stage came."""
        self.done = done
        self.left = left
        self.kept_in = kept_in
        return self

    def how_far(self) -> str:
        """How far the stage came, in words."""
        return f"done and kept: {counted(self.done, 'call')}, left: {self.left or 0}"


class FatalLLMError(StageEnded):
    """No call can succeed until the user repairs something: the key, the model's name, the quota.

    Attributes:
        reason: what is wrong and how to repair it.
    """

    again = "run again after the repair"

    def __init__(self, reason: str) -> None:
        super().__init__(reason)
        self.reason = reason

    def __str__(self) -> str:
        if self.left is None:
            return self.reason
        return f"{self.reason} ({self.how_far()}; {self.again}{_kept(self.kept_in)})"


class RateLimited(FatalLLMError):
    """The server answers 429 and wants a longer wait than a stage makes, as at a daily quota."""

    again = "run again then"


class BudgetExceeded(StageEnded):
    """The budget is spent. Nothing more was sent.

    Attributes:
        spent: US dollars that the run folder has cost. Without a run folder, what this language
            model has cost.
        budget: US dollars allowed.
        where: the run folder, or ``""``.
        more: the maximum cost of the batches under way and the one that wasn't sent, in US dollars.
        about: the estimated cost of the remaining requests in US dollars, from the cost of the
            others, or None when unknown.
    """

    about: float | None = None

    def __init__(self, spent: float, budget: float, where: str = "", more: float = 0.0) -> None:
        super().__init__(spent, budget, where, more)
        self.spent = spent
        self.budget = budget
        self.where = where
        self.more = more

    def __str__(self) -> str:
        state = "is spent"
        cost = f"{self.where or 'this model'} has cost {self.spent:.4f} USD"
        if self.more:
            state = "may be exceeded"
            cost += (
                ", and with the batches under way this one, which isn't sent, "
                f"may cost {self.more:.4f} USD"
            )
        how_far = self.how_far()
        if self.about is not None:
            how_far += f" (about {self.about:.4f} USD)"
        again = f"raise budget=... and run again{_kept(self.kept_in)}"
        return f"the budget of {self.budget:g} USD {state} ({cost}); {how_far}; {again}"


class StageError(IkatError):
    """A stage finished, but some of its turns got no completion.

    Operators with ``on_error="raise"`` raise it.

    Attributes:
        stage: the operator's stage name.
        failures: one `LLMFailure` per failed request.
        kept_in: where the LLM keeps finished calls, see `LLM.kept_in`.

    Example:
        >>> failure = Empty("answer", "9-1_3", "the completion is empty")
        >>> str(StageError("answer", [failure])).partition(";")[0]
        'stage answer: 1 request failed (1 Empty): 9-1_3 (the completion is empty)'
    """

    def __init__(self, stage: str, failures: Sequence[LLMFailure], kept_in: str = "") -> None:
        self.stage = stage
        self.failures = list(failures)
        self.kept_in = kept_in
        numbers = Counter(type(failure).__name__ for failure in failures)
        kinds = ", ".join(f"{number} {kind}" for kind, number in numbers.items())
        again = f"run it again{_kept(kept_in)}, or "
        if all(isinstance(failure, UnknownMark) for failure in failures):
            again = "give the LLM the option that is named, or "
        elif kept_in and all(failure.kept for failure in failures):
            again = "these completions are kept, so running it again gives the same: "
        super().__init__(
            f"stage {stage}: {counted(len(failures), 'request')} failed ({kinds}): "
            f"{list_failed(failures)}; {again}set on_error=fallback for the operator or the LLM "
            "to continue without them"
        )


def list_failed(failures: Sequence[LLMFailure]) -> str:
    """Why requests failed, for a message: each reason with its first turns.

    Example:
        >>> list_failed([LLMFailure("answer", turn, "HTTP 500") for turn in ("1_1", "1_2")])
        '1_1, 1_2 (HTTP 500)'
    """
    turns: dict[str, list[str]] = {}
    for failure in failures:
        turns.setdefault(failure.reason, []).append(failure.qid)
    return list_first([f"{list_first(qids)} ({reason})" for reason, qids in turns.items()])


NOT_SENT = "not sent yet"
"""The name of requests that follow when others are answered."""


class Waiting(NamedTuple):
    """A batch of requests that the provider has not yet answered.

    Attributes:
        stage: the operators that asked.
        requests: how many requests it holds.
        batch: the provider's id of it, or `NOT_SENT`.
        status: how far it is, in words.
    """

    stage: str
    requests: int
    batch: str
    status: str


class BatchUnderWay(IkatError):
    """Requests wait in batches at the provider (``batch=on``).

    The same call later continues from there, and nothing is paid for twice.

    Attributes:
        waiting: the batches.

    Example:
        >>> batch = Waiting("answer", 332, "batch_abc", "in progress, 120 done")
        >>> print(str(BatchUnderWay([batch])).partition(";")[0])
        stage answer: 332 requests wait in 1 batch (batch_abc: in progress, 120 done)
    """

    exit_code = 75  # of sysexits.h: try again later

    def __init__(self, waiting: Sequence[Waiting]) -> None:
        super().__init__(waiting)
        self.waiting = list(dict.fromkeys(waiting))
        self.again = advice("cell", "command")

    def __str__(self) -> str:
        stages: dict[str, list[Waiting]] = {}
        for batch in self.waiting:
            stages.setdefault(batch.stage, []).append(batch)
        parts = []
        for stage, batches in stages.items():
            requests = sum(batch.requests for batch in batches)
            wait = counted(requests, "request waits", "requests wait")
            sent = sum(batch.batch != NOT_SENT for batch in batches)
            if sent:
                wait += f" in {counted(sent, 'batch', 'batches')}"
            names = list_first([f"{batch.batch}: {batch.status}" for batch in batches])
            parts.append(f"stage {stage}: {wait} ({names})")
        return f"{'; '.join(parts)}; run the same {self.again} again later"


def _kept(kept_in: str) -> str:
    return f" ({KEPT[kept_in]})" if kept_in else ""


def shorten(reason: str) -> str:
    """``reason`` as one printable line of bounded length; servers may answer with whole pages."""
    line = " ".join(printable(reason[:LONGEST]).split())
    if len(line) <= REASON_LENGTH:
        return line
    return line[: REASON_LENGTH - 3] + "..."
