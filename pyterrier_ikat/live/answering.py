"""Answer one turn: run the system, report its steps, and gather how the response came about."""

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
HISTORY_TOKENS = 8000
"""Tokens of history that a turn of a chat sees by default: about 20 exchanges."""
CHARACTERS_PER_TOKEN = 4


def answer(
    system: System,
    messages: Sequence[Mapping[str, str]],
    ptkb: Mapping[str, str] | Sequence[str] | None = None,
    *,
    number: str = "chat",
    turn: int | None = None,
    history: int | None = HISTORY_TOKENS,
    tell: Tell | None = None,
    write: Write | None = None,
) -> Turn:
    """Let a system answer the last message of a conversation.

    When the model rejects a prompt as too long, the turn is retried with half of its history, until
    it fits. Several threads may use one system at the same time.

    Args:
        system: the system.
        messages: the conversation, as for ``ikat.conversation``; the last message is the user's.
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
        ``more["history"]`` is its last limit. Where the last stage has cut its response,
        ``more["shortened"]`` is its limit of words. Where the response otherwise does not begin
        with what ``write`` got last, ``more["replaced"]`` says why.

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
        >>> messages = [{"role": "user", "content": "Which tea has no caffeine?"}]
        >>> answer(mine, messages, tell=steps.append).response, steps
        ('Rooibos has none.', ['drafting an answer'])
    """
    frame = conversation(messages, ptkb, number=number)
    if turn is not None:
        frame = frame.assign(qid=column([f"{number}_{turn}"]), qturn=column([turn]))
    limit = history
    more: dict[str, Any] = {}
    answered: Turn | None = None
    started = time.perf_counter()
    with hearing() as heard:  # all attempts
        while answered is None:
            watch = _Watch(tell, write)
            try:
                answered = _attempt(system.pipeline, frame, limit, watch)
            except StageError as error:
                limit = _halved(error, frame, limit)
                more["history"] = limit
                if tell is not None:
                    tell(
                        "the prompt is too long for the model: "
                        f"asking again with at most {limit} tokens of history"
                    )
    if watch.shortened is not None:
        more["shortened"] = watch.shortened
    elif not answered.marked.startswith(watch.shown):
        why = "; ".join(watch.reasons).replace(f" in turn {frame['qid'].item()}", "")
        more["replaced"] = why or "it holds more than an answer"
    return replace(
        answered,
        spend=spent(heard),
        asked=tuple(exchange for stage in heard for exchange in stage.exchanges),
        method=system.name,
        more=more,
        seconds=time.perf_counter() - started,
    )


def _halved(error: StageError, frame: pd.DataFrame, limit: int | None) -> int:
    """Return half of the tokens of history in a rejected prompt."""
    too_long = [failure for failure in error.failures if isinstance(failure, TooLong)]
    if not too_long:
        raise error
    [history] = histories(frame)
    characters = sum(len(message["content"]) for message in history)
    sent = characters // CHARACTERS_PER_TOKEN
    if limit is not None:
        sent = min(sent, limit)
    if not sent:
        repair = advice("a system that shows fewer passages", "a method that shows fewer passages")
        raise StillTooLong(
            f"{too_long[0]}, also without history: "
            f"choose a model with a longer context, or {repair}"
        ) from None
    return sent // 2


class StillTooLong(UsageError):
    """A prompt is too long for the model, also without history."""


def _attempt(
    pipeline: pt.Transformer, turn: pd.DataFrame, history: int | None, watch: "_Watch"
) -> Turn:
    """The answer of a pipeline to a turn frame of one row."""
    results, omitted = shortened(turn, history)
    with observed_by(watch), without_result_warnings():
        parts = list(stages(pipeline.compile()))  # `bm25 % 10` reads ten texts, not a thousand
        watch.last = parts[-1]
        for stage in parts:
            check_asker()
            if not isinstance(stage, Operator | pt.RankCutoff):
                watch.say(f"running {label_of(stage)}")
            results = stage(results)
    check_asker()  # nobody has read the answer: it is no part of the conversation
    _check_turn(results, turn)
    [number] = values(turn, "qturn", 1)
    [utterance] = values(turn, "qutterance", "")
    return Turn.of(int(number), utterance, results, **watch.record(), omitted=omitted)


def _check_turn(results: Any, turn: pd.DataFrame) -> None:
    if not isinstance(results, pd.DataFrame):
        raise DataError(
            f"the system returned a {type(results).__name__}: "
            "its last stage has to return a pandas.DataFrame"
        )
    if "qid_0" in results.columns:
        raise DataError(
            "the system ends with sub-queries: "
            "join them with ikat.Interleave(), ikat.RRF() or ikat.Union() at its end"
        )
    if not set(values(results, "qid")) <= set(turn["qid"]):
        raise DataError(
            "the system returned rows of another turn than the one it was asked: "
            "a stage changes qid, or keeps its input where another thread overwrites it"
        )


def shortened(turn: pd.DataFrame, tokens: int | None) -> tuple[pd.DataFrame, int]:
    """Keep the newest exchanges of a turn's history; also return the number of omitted messages.

    Example:
        >>> import pyterrier_ikat as ikat
        >>> exchange = [{"role": role, "content": "x" * 40} for role in ["user", "assistant"]]
        >>> messages = [*exchange * 3, {"role": "user", "content": "And now?"}]
        >>> turn, omitted = shortened(ikat.conversation(messages), 45)
        >>> len(turn["qhistory"][0]), omitted
        (4, 2)
    """
    if tokens is None:
        return turn, 0
    [history] = histories(turn)
    characters_left = tokens * CHARACTERS_PER_TOKEN
    first = len(history)  # the position of the first message that is kept
    for position in range(len(history) - 1, -1, -1):
        characters_left -= len(history[position]["content"])
        if characters_left < 0:
            break
        if history[position]["role"] == "user":
            first = position
    if characters_left >= 0:
        return turn, 0
    return with_columns(turn, qhistory=[history[first:]]), first


class _Watch(Observer):
    """Reports the steps of an attempt, and gathers its queries, drafts and newest texts.

    Args:
        tell: gets a few words, unless the step before had the same.
        write: gets what a model writes for the last stage.

    Attributes:
        last: the last stage.
        shown: what ``write`` got last.
        reasons: why the last stage has put something else in its place.
        shortened: the limit of words to which the last stage cuts its response; None if it doesn't.
    """

    def __init__(self, tell: Tell | None, write: Write | None) -> None:
        self._tell = tell
        self._write = write
        self._last_step = ""
        self.shown = ""
        self.reasons: list[str] = []
        self.shortened: int | None = None
        self.last: Any = None
        self.queries: dict[str, None] = {}
        self._around_searches: set[Step] = set()
        self.drafts: dict[str, None] = {}
        self.rewrite = ""
        self.statements: tuple[str, ...] = ()

    def say(self, step: str) -> None:
        """Say a step."""
        if self._tell is not None and step and step != self._last_step:
            self._last_step = step
            self._tell(step)

    def begin(self, step: Step) -> None:
        """Say the step of a stage, in the stage's own words."""
        if self._tell is not None:
            self.say(step.stage.doing(step.inp))

    def end(self, step: Step) -> None:
        """Keep the queries that were searched and the newest texts: an empty result lacks them."""
        inp = step.inp
        out = step.out
        if not isinstance(out, pd.DataFrame):
            return
        if "query" in inp.columns and "docno" in out.columns and "docno" not in inp.columns:
            self._note_search(step)
        row = out if len(out) == 1 else out.head(1)
        draft = "" if "used" in row.columns else text_in(row, "qanswer")
        if draft:
            self.drafts[draft] = None  # all of them: each branch of a fusion may write one
        self.rewrite = text_in(row, "qrewrite") or self.rewrite
        self.statements = statements_in(row) or self.statements

    def _note_search(self, step: Step) -> None:
        """Keep the queries of a search. A fusion around searches has searched nothing itself."""
        if step not in self._around_searches:
            self.queries |= dict.fromkeys(step.inp["query"].astype(str))
        outer = step.outer
        while outer is not None:
            self._around_searches.add(outer)
            outer = outer.outer

    def follow(self, step: Step) -> Write | None:
        """Show the partial output of the last stage, if it is an answer."""
        if self._write is None or step.stage is not self.last:
            return None
        readable = step.stage.while_written(step.inp)
        if readable is None:
            return None

        def show(text: str) -> None:
            self.shortened = None  # a text that is written again may be shorter
            self._show(readable(text))

        return show

    def _show(self, text: str) -> None:
        if self._write is not None:
            self.shown = text
            self._write(text)

    def shorten(self, step: Step, words: int | None) -> None:
        """Say that the last stage cuts its response; a model may still write."""
        if step.stage is self.last:
            self.shortened = words
            if words is not None:
                self.say(f"shortened to {counted(words, 'word')}")

    def repair(self, step: Step, reasons: Sequence[str]) -> None:
        """Keep the reasons for a repair of the last stage's output."""
        if step.stage is self.last:
            self.reasons += reasons

    def wait(self, tries: int, most: int) -> None:
        """Report a retry."""
        self.say(f"waiting for try {tries + 1} of {most}: the language model does not answer")

    def record(self) -> dict[str, Any]:
        """Return the observed fields of a `Turn`."""
        return {
            "queries": tuple(self.queries),
            "draft": "\n\n".join(self.drafts),
            "rewrite": self.rewrite,
            "statements": self.statements,
        }


def spent(heard: Sequence[Heard]) -> Spend:
    """Add up all calls, including failed ones."""
    return sum((stage.spend for stage in heard), Spend())


def check_recorded(script: Sequence[str], turn: int, utterance: str, qid: str) -> None:
    """Check that recorded completions answer these words: they would pass for answers to others.

    Raises:
        UsageError: when the script has other words in this turn, or has no such turn.
    """
    if turn > len(script):
        turns = counted(len(script), "turn")
        raise UsageError(
            f"turn {qid}: the recorded conversation has only {turns}: go on with a live LLM"
        )
    recorded = script[turn - 1]
    if utterance.split() != recorded.split():
        raise UsageError(
            f"the completions are recorded, and those of turn {qid} answer only {recorded!r}: "
            "say that, or choose a live LLM"
        )


def settings_of(system: System) -> dict[str, Any]:
    """Return the settings of a system that conversations with it depend on.

    ``on_error`` may change: they may go on without the answers that a model refuses to give.
    """
    return {name: value for name, value in system.parameters().items() if name != "on_error"}
