"""Answer one turn: run the system, say what it does meanwhile, and gather how the response came about."""

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

import pandas as pd
import pyterrier as pt

from ..conversations.frame import (
    column,
    conversation,
    histories,
    values,
    with_columns,
    without_result_warnings,
)
from ..errors import DataError, UsageError, advice, counted
from ..events import Heard, Observer, Step, Write, check_asker, hearing, observed_by
from ..llms import StageError
from ..llms.failures import TooLong
from ..llms.ledger import Spend
from ..operator import Operator, label_of, stages
from ..runs.answered_turn import Turn, statements_in, text_in
from ..study.systems import System

Tell = Callable[[str], None]
"""Gets a few words on each step as it begins, such as ``"searching 5 queries"``."""
HISTORY = 8000
"""Tokens of history that a turn of a chat sees, unless its user wants another number: about 20 exchanges."""
CHARACTERS_PER_TOKEN = 4


def answer(
    system: System,
    said: Sequence[Mapping[str, str]],
    ptkb: Mapping[str, str] | Sequence[str] | None = None,
    *,
    number: str = "chat",
    turn: int | None = None,
    history: int | None = HISTORY,
    tell: Tell | None = None,
    write: Write | None = None,
) -> Turn:
    """The system's answer to the last message of a conversation.

    When the model rejects a prompt as too long, the turn is retried with half of its history, until
    it fits. Several threads may use one system at the same time.

    Args:
        system: the system.
        said: the conversation, as for ``ikat.conversation``; the last message is the user's.
        ptkb: the statements about the user.
        number: the conversation's name; the turn's qid is ``<number>_<turn>``.
        turn: the turn's number; by default the number of the user's messages.
        history: the most tokens of history that the system sees, at four characters each: whole
            exchanges are omitted, the oldest first; None for all.
        tell: called when a step begins, and when a language model that does not answer is retried,
            then in any thread.
        write: gets the text of the last stage while a model writes it, each time all of it,
            unchecked, in any thread. What it raises is raised when the call is finished and kept.
            Models that can't stream, and known completions, give it nothing.

    Returns:
        The turn, with the calls and seconds of all attempts. Where the history was halved,
        ``more["history"]`` is its last limit. Where the
            response does not begin with what ``write`` got last, ``more["replaced"]`` says why.

    Raises:
        DataError: when the system returns something else than rows of this turn.
        StillTooLong: when the prompt is too long without history as well.
        AskerLeft: when whoever asked has left, see :func:`~pyterrier_ikat.events.asked_by`.
        IkatError: when the system fails.

    Example:
        >>> import pyterrier_ikat as ikat
        >>> class Model:
        ...     def generate(self, chats):
        ...         return ["Rooibos has none." for chat in chats]
        >>> mine, steps = System.of(ikat.Answer(ikat.llm(Model())), "mine"), []
        >>> answer(mine, [{"role": "user", "content": "Which tea has no caffeine?"}], tell=steps.append).response, steps
        ('Rooibos has none.', ['drafting an answer'])
    """
    frame = conversation(said, ptkb, number=number)
    if turn is not None:
        frame = frame.assign(qid=column([f"{number}_{turn}"]), qturn=column([turn]))
    limit, more, found, started = history, dict[str, Any](), None, time.perf_counter()
    with hearing() as heard:  # all attempts
        while found is None:
            watch = _Watch(tell, write)
            try:
                found = _attempt(system.pipeline, frame, limit, watch)
            except StageError as error:
                limit = more["history"] = _halved(error, frame, limit)
                if tell is not None:
                    tell(
                        f"the prompt is too long for the model: asking again with at most {limit} tokens of history"
                    )
    if not found.marked.startswith(watch.shown):
        why = "; ".join(watch.reasons).replace(f" in turn {frame['qid'].item()}", "")
        more["replaced"] = why or "it holds more than an answer"
    took = time.perf_counter() - started
    asked = tuple(exchange for one in heard for exchange in one.exchanges)
    return replace(
        found, spend=spent(heard), asked=asked, method=system.name, more=more, seconds=took
    )


def _halved(error: StageError, frame: pd.DataFrame, limit: int | None) -> int:
    """Half of the tokens of history that a rejected prompt had."""
    too_long = next((failure for failure in error.failures if isinstance(failure, TooLong)), None)
    if too_long is None:
        raise error
    had = sum(len(message["content"]) for message in histories(frame)[0]) // CHARACTERS_PER_TOKEN
    sent = had if limit is None else min(had, limit)
    if not sent:
        repair = advice("a system that shows fewer passages", "a method that shows fewer passages")
        raise StillTooLong(
            f"{too_long}, also without history: choose a model with a longer context, or {repair}"
        ) from None
    return sent // 2


class StillTooLong(UsageError):
    """A prompt is too long for the model, also without history."""


def _attempt(
    pipeline: pt.Transformer, turn: pd.DataFrame, history: int | None, watch: "_Watch"
) -> Turn:
    """The answer of a pipeline to a turn frame of one row."""
    found, omitted = shortened(turn, history)
    with observed_by(watch), without_result_warnings():
        parts = list(stages(pipeline.compile()))  # `bm25 % 10` reads ten texts, not a thousand
        watch.last = parts[-1]
        for stage in parts:
            check_asker()
            if not isinstance(stage, Operator | pt.RankCutoff):
                watch.say(f"running {label_of(stage)}")
            found = stage(found)
    check_asker()  # nobody has read the answer: it is no part of the conversation
    _check_turn(found, turn)
    (number,), (utterance,) = values(turn, "qturn", 1), values(turn, "qutterance", "")
    return Turn.of(int(number), utterance, found, **watch.record(), omitted=omitted)


def _check_turn(found: Any, turn: pd.DataFrame) -> None:
    if not isinstance(found, pd.DataFrame):
        raise DataError(
            f"the system returned no frame but a {type(found).__name__}: its last stage has to return a pandas.DataFrame"
        )
    if "qid_0" in found.columns:
        raise DataError(
            "the system ends with sub-queries: join them with ikat.Interleave(), ikat.RRF() or ikat.Union() at its end"
        )
    if not set(values(found, "qid")) <= set(turn["qid"]):
        reasons = "a stage changes qid, or keeps its input where another thread overwrites it"
        raise DataError(
            f"the system returned rows of another turn than the one it was asked: {reasons}"
        )


def shortened(turn: pd.DataFrame, tokens: int | None) -> tuple[pd.DataFrame, int]:
    """A turn with the newest exchanges of its history, and how many messages were omitted.

    Example:
        >>> import pyterrier_ikat as ikat
        >>> said = [{"role": role, "content": "x" * 40} for role in ["user", "assistant"] * 3]
        >>> turn, omitted = shortened(ikat.conversation([*said, {"role": "user", "content": "And now?"}]), 45)
        >>> len(turn["qhistory"][0]), omitted
        (4, 2)
    """
    (history,) = histories(turn)
    if tokens is None:
        return turn, 0
    left, first = tokens * CHARACTERS_PER_TOKEN, len(history)
    for place in range(len(history) - 1, -1, -1):
        left -= len(history[place]["content"])
        if left < 0:
            break
        if history[place]["role"] == "user":
            first = place
    if left >= 0:
        return turn, 0
    return with_columns(turn, qhistory=[history[first:]]), first


class _Watch(Observer):
    """Says what each stage of an attempt begins to do, and gathers its queries, drafts and newest texts.

    Args:
        tell: gets a few words, unless the step before had the same.
        write: gets what a model writes for the last stage.

    Attributes:
        last: the last stage.
        shown: what ``write`` got last.
        reasons: why the last stage has put something else in its place.
    """

    def __init__(self, tell: Tell | None, write: Write | None) -> None:
        self._tell, self._write, self._said = tell, write, ""
        self.shown, self.reasons = "", list[str]()
        self.last: Any = None
        self.queries: dict[str, None] = {}
        self.drafts: dict[str, None] = {}
        self.rewrite, self.statements = "", tuple[str, ...]()

    def say(self, step: str) -> None:
        """Say a step."""
        if self._tell is not None and step and step != self._said:
            self._said = step
            self._tell(step)

    def begin(self, step: Step) -> None:
        """Say the step of a stage, in the stage's own words."""
        if self._tell is not None:
            self.say(step.stage.doing(step.inp))

    def end(self, step: Step) -> None:
        """Keep the queries that a stage searched and the newest texts, which a result without passages lacks."""
        inp, out = step.inp, step.out
        if not isinstance(out, pd.DataFrame):
            return
        if "query" in inp.columns and "docno" in out.columns and "docno" not in inp.columns:
            self.queries |= dict.fromkeys(inp["query"].astype(str))
        row = out if len(out) == 1 else out.head(1)
        draft = "" if "used" in row.columns else text_in(row, "qanswer")
        if draft:
            self.drafts[draft] = None  # all of them: each branch of a fusion may write one
        self.rewrite = text_in(row, "qrewrite") or self.rewrite
        self.statements = statements_in(row) or self.statements

    def follow(self, step: Step) -> Write | None:
        """Show what a model writes for the last stage, where that is an answer."""
        if (
            self._write is None
            or step.stage is not self.last
            or (readable := step.stage.while_written(step.inp)) is None
        ):
            return None
        return lambda text: self._show(readable(text))

    def _show(self, text: str) -> None:
        if self._write is not None:
            self.shown = text
            self._write(text)

    def repair(self, step: Step, reasons: Sequence[str]) -> None:
        """Keep why the last stage doesn't give what a model wrote."""
        self.reasons += reasons if step.stage is self.last else []

    def wait(self, tries: int, most: int) -> None:
        """Say that a model does not answer."""
        self.say(f"waiting for try {tries + 1} of {most}: the language model does not answer")

    def record(self) -> dict[str, Any]:
        """The fields of a `Turn`."""
        draft = "\n\n".join(self.drafts)
        return {
            "queries": tuple(self.queries),
            "draft": draft,
            "rewrite": self.rewrite,
            "statements": self.statements,
        }


def spent(heard: Sequence[Heard]) -> Spend:
    """What all calls came to, those that failed included."""
    return sum((one.spend for one in heard), Spend())


def check_recorded(script: Sequence[str], turn: int, said: str, qid: str) -> None:
    """Check what is said to recorded completions: they answer the recorded words, and would pass for answers to others.

    Raises:
        UsageError: when the script has other words in this turn, or has no such turn.
    """
    if turn > len(script):
        raise UsageError(
            f"turn {qid}: the recorded conversation has only {counted(len(script), 'turn')}: go on with a live LLM"
        )
    if said.split() != script[turn - 1].split():
        wanted = script[turn - 1]
        raise UsageError(
            f"the completions are recorded, and those of turn {qid} answer only {wanted!r}: say that, or choose a live LLM"
        )


def settings_of(system: System) -> dict[str, Any]:
    """What must not change while conversations with a system go on; they may go on without the answers that a model refuses to give."""
    return {name: value for name, value in system.parameters().items() if name != "on_error"}
