"""Answer a turn of a conversation that may be longer than the model's context: by a stated rule, with all calls counted."""

from collections.abc import Mapping
from typing import Any

import pandas as pd
import pyterrier as pt

from ..errors import UsageError, advice
from ..llms import Ledger, StageError, TooLong
from .answering import CHARACTERS_PER_TOKEN, Tell, answer
from .turn import ChatTurn


def answer_in_context(
    system: pt.Transformer, turn: pd.DataFrame, tell: Tell | None, *, method: str, history: int | None, spent: Ledger
) -> tuple[ChatTurn, int | None]:
    """The system's answer; when the model rejects a prompt as too long, the turn is repeated once with half of its history.

    Args:
        system: see :func:`~pyterrier_ikat.chat.answering.answer`.
        turn: see :func:`~pyterrier_ikat.chat.answering.answer`.
        tell: see :func:`~pyterrier_ikat.chat.answering.answer`.
        method: the system's name.
        history: the most tokens of history that the turn sees; None for no limit.
        spent: the account of this turn, empty before it.

    Returns:
        The turn, with the calls of both attempts, and the limit for the turns after it.

    Raises:
        StillTooLong: when the shorter prompt is too long as well.
        IkatError: when the system fails.
    """
    try:
        return answer(system, turn, tell, method=method, history=history), history
    except StageError as error:
        if not _is_too_long(error):
            raise
    had = sum(len(message["content"]) for message in turn["qhistory"].iloc[0]) // CHARACTERS_PER_TOKEN
    half = (had if history is None else min(had, history)) // 2
    before = paid(spent)
    if tell is not None:
        tell(f"the prompt is too long for the model: asking again with at most {half} tokens of history")
    try:
        found = answer(system, turn, tell, method=method, history=half)
    except StageError as error:
        if not _is_too_long(error):
            raise
        raise StillTooLong(str(error.failures[0]), half) from None
    return found.with_calls(**before), half


class StillTooLong(UsageError):
    """A prompt is too long for the model, also with half of its history.

    Attributes:
        history: the most tokens of history that it had.
    """

    def __init__(self, reason: str, history: int) -> None:
        repair = advice("a system that shows fewer passages", "a method that shows fewer passages")
        again = "say it again to try with half of that" if history else f"choose a model with more room, or {repair}"
        super().__init__(f"{reason}; at most {history} tokens of history were sent: {again}")
        self.history = history


def _is_too_long(error: StageError) -> bool:
    return any(isinstance(failure, TooLong) for failure in error.failures)


def paid(spent: Ledger) -> Mapping[str, Any]:
    """The completions that an account has paid for, their tokens and their cost; None for what isn't known."""
    total = spent.frame()[["calls", "failures", "prompt_tokens", "completion_tokens", "cost"]].sum(skipna=False)
    calls = int(total["calls"] - total["failures"])
    if not calls:
        return {}
    amounts = {"tokens": total["prompt_tokens"] + total["completion_tokens"], "cost": total["cost"]}
    return {"calls": calls, **{name: None if pd.isna(value) else value for name, value in amounts.items()}}
