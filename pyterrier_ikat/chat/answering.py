"""Answer one turn: run the system, say what it does meanwhile, and gather how the response came about."""

import time
from collections.abc import Callable, Sequence
from typing import Any

import pandas as pd
import pyterrier as pt

from ..conversations.frame import histories, values, with_columns, without_result_warnings
from ..errors import DataError
from ..events import Exchange, Heard, Observer, Step, observed_by
from ..llms import LLM, Completion, LLMFailure
from ..operator import Operator, label_of, stages
from ..progress import Steps
from ..runs.answered_turn import Turn, clean_text, statements_in
from ..spend import Spend

Tell = Callable[[str], None]
"""Gets a few words on each step as it begins, such as ``"searching 5 queries"``."""
HISTORY = 8000
"""Tokens of history that a turn of a chat sees, unless its user wants another number: about 20 exchanges."""
CHARACTERS_PER_TOKEN = 4


def answer(
    system: pt.Transformer, turn: pd.DataFrame, tell: Tell | None = None, *, method: str = "", history: int | None = HISTORY
) -> Turn:
    """The system's answer to one turn.

    Several threads may use one system at the same time.

    Args:
        system: a pipeline from turns to passages or answers.
        turn: a turn frame of one row, as ``ikat.conversation`` gives it.
        tell: called, in this thread, when a step begins.
        method: the system's name.
        history: the most tokens of history that the system sees, at four characters each: whole exchanges are omitted, the oldest first;
            None for all.

    Raises:
        DataError: when the system returns something else than rows of this turn.
        IkatError: when the system fails.

    Example:
        >>> import pyterrier_ikat as ikat
        >>> class Model:
        ...     def generate(self, chats):
        ...         return ["Rooibos has none." for chat in chats]
        >>> steps = []
        >>> turn = ikat.conversation([{"role": "user", "content": "Which tea has no caffeine?"}])
        >>> answer(ikat.Answer(ikat.llm(Model())), turn, steps.append).response, steps
        ('Rooibos has none.', ['drafting an answer'])
    """
    seen, omitted = shortened(turn, history)
    steps, gathered = Steps(tell), _Gathered()
    started = time.perf_counter()
    with observed_by(steps, gathered), without_result_warnings():
        found = seen
        for stage in stages(system):
            if not isinstance(stage, Operator | pt.RankCutoff):
                steps.say(f"running {label_of(stage)}")
            found = stage(found)
    _check_turn(found, turn)
    more = gathered.record() | {"seconds": time.perf_counter() - started, "method": method, "omitted": omitted}
    (number,), (utterance,) = values(turn, "qturn", 1), values(turn, "qutterance", "")
    return Turn.of(int(number), utterance, found, **more)


def _check_turn(found: Any, turn: pd.DataFrame) -> None:
    if not isinstance(found, pd.DataFrame):
        raise DataError(f"the system returned no frame but a {type(found).__name__}: its last stage has to return a pandas.DataFrame")
    if "qid_0" in found.columns:
        raise DataError("the system ends with sub-queries: join them with ikat.Interleave(), ikat.RRF() or ikat.Union() at its end")
    if not set(values(found, "qid")) <= set(turn["qid"]):
        reasons = "a stage changes qid, or keeps its input where another thread overwrites it"
        raise DataError(f"the system returned rows of another turn than the one it was asked: {reasons}")


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


class _Gathered(Observer):
    """The queries, drafts and LLM calls of one turn."""

    def __init__(self) -> None:
        self.queries: dict[str, None] = {}
        self.drafts: dict[str, None] = {}
        self.written: dict[str, Any] = {}
        self.heard: list[Heard] = []

    def end(self, step: Step) -> None:
        """Keep the queries that a stage searched and the draft that it wrote."""
        inp, out = step.inp, step.out
        if not isinstance(out, pd.DataFrame):
            return
        if "query" in inp.columns and "docno" in out.columns and "docno" not in inp.columns:
            self.queries |= dict.fromkeys(inp["query"].astype(str))
        self._note(out.head(1))

    def _note(self, row: pd.DataFrame) -> None:
        """Keep the newest texts, which a result without passages lacks, and all drafts: each branch of a fusion may write one."""
        draft = "" if "used" in row.columns else next(iter(values(row, "qanswer", "")), "")
        self.drafts |= dict.fromkeys(filter(None, [clean_text(draft)]))
        rewrite = next(iter(values(row, "qrewrite", "")), "")
        new = {"rewrite": clean_text(rewrite), "statements": statements_in(row)}
        self.written |= {name: value for name, value in new.items() if value}

    def hear(self, llm: LLM, exchanges: Sequence[Exchange]) -> None:
        """Keep requests and completions."""
        self.heard += [(llm, exchange) for exchange in exchanges]

    def record(self) -> dict[str, Any]:
        """The fields of a `Turn`."""
        return {"queries": tuple(self.queries), "draft": "\n\n".join(self.drafts), **self.written, **used(self.heard)}


def used(heard: Sequence[Heard]) -> dict[str, Any]:
    """What the completions came to that were heard, and the prompts and completions, as fields of a `Turn`."""
    spend = sum((llm.spend(outcome) for llm, (_, outcome) in heard if isinstance(outcome, Completion)), Spend())
    return {"spend": spend, "asked": tuple(_as_record(*exchange) for _, exchange in heard)}


def _as_record(request: Any, outcome: Any) -> dict[str, Any]:
    said = {"stage": request.stage, "prompt": request.prompt, "item": request.item, "messages": [dict(one) for one in request.messages]}
    return said | ({"failure": str(outcome)} if isinstance(outcome, LLMFailure) else {"completion": outcome.text})
