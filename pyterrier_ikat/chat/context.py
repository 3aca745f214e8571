"""Answer a turn of a conversation that may be longer than the model's context: by a stated rule, with all calls counted."""

from collections.abc import Callable
from dataclasses import replace

import pandas as pd
import pyterrier as pt

from ..errors import UsageError, advice
from ..events import hearing
from ..llms import StageError, TooLong
from ..runs.answered_turn import Turn
from .answering import CHARACTERS_PER_TOKEN, Tell, answer, used


def answer_in_context(
    system: pt.Transformer, turn: pd.DataFrame, tell: Tell | None = None, *, method: str = "", history: int | None, repeats: int | None = 1
) -> tuple[Turn, int | None]:
    """The system's answer; when the model rejects a prompt as too long, the turn is retried with half of its history.

    Args:
        system: see :func:`~pyterrier_ikat.chat.answering.answer`.
        turn: see :func:`~pyterrier_ikat.chat.answering.answer`.
        tell: see :func:`~pyterrier_ikat.chat.answering.answer`.
        method: the system's name.
        history: the most tokens of history that the turn sees; None for no limit.
        repeats: how often at most the history is halved; None until nothing of it is left.

    Returns:
        The turn, with the calls of all attempts, and the limit for the turns after it.

    Raises:
        StillTooLong: when the shortest prompt is too long as well.
        IkatError: when the system fails.
    """
    had = sum(len(message["content"]) for message in turn["qhistory"].iloc[0]) // CHARACTERS_PER_TOKEN
    limit = history
    with hearing() as heard:
        while True:
            repeats = None if repeats is None else repeats - 1
            before = used(heard)
            try:
                found = answer(system, turn, tell, method=method, history=limit)
            except StageError as error:
                if not _is_too_long(error):
                    raise
                sent = had if limit is None else min(had, limit)
                if not sent or (repeats is not None and repeats < 0):
                    raise StillTooLong(str(_is_too_long(error)), sent) from None
                limit = sent // 2
                _say(tell, f"the prompt is too long for the model: asking again with at most {limit} tokens of history")
            else:
                return replace(found, spend=before["spend"] + found.spend, asked=(*before["asked"], *found.asked)), limit


class StillTooLong(UsageError):
    """A prompt is too long for the model, also with less of its history.

    Attributes:
        reason: what the model's server says.
        history: the most tokens of history that it had.
    """

    def __init__(self, reason: str, history: int) -> None:
        repair = advice("a system that shows fewer passages", "a method that shows fewer passages")
        again = "say it again to try with half of that" if history else f"choose a model with a longer context, or {repair}"
        super().__init__(f"{reason}; at most {history} tokens of history were sent: {again}")
        self.reason, self.history = reason, history


def _is_too_long(error: StageError) -> TooLong | None:
    return next((failure for failure in error.failures if isinstance(failure, TooLong)), None)


def _say(tell: Callable[[str], None] | None, step: str) -> None:
    if tell is not None:
        tell(step)
