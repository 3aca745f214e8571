"""The stream of stage events: what each stage is given and gives back, and what language models are asked meanwhile.

Recorder, chat, profile and progress read it, each as an :class:`Observer`. Stages of other packages make no events, nor does the work of
a stage on other threads or machines.
"""

import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field
from typing import Any

import pandas as pd

Exchange = tuple[Any, Any]
"""A `Request` to a language model, and its outcome: a `Completion` or an `LLMFailure`."""
Heard = tuple[Any, Exchange]
"""The `LLM` that was asked, and an exchange with it."""


@dataclass(eq=False)
class Step:
    """A stage at work.

    Attributes:
        stage: the stage.
        inp: the frame that it is given.
        outer: the step that it is inside of.
        out: what it gave back; None while it works, and when it failed.
        asked: the exchanges with language models, but for those of the steps inside it.
        seconds: how long it took.
        inside: the part of these seconds that the steps inside it took.
    """

    stage: Any
    inp: pd.DataFrame
    outer: "Step | None" = None
    out: Any = None
    asked: list[Exchange] = field(default_factory=list)
    seconds: float = 0.0
    inside: float = 0.0


class Observer:
    """Reads the stream; it overrides what it wants to know."""

    def begin(self, step: Step) -> None:
        """A stage begins."""

    def end(self, step: Step) -> None:
        """A stage has ended, or failed."""

    def hear(self, llm: Any, exchanges: Sequence[Exchange]) -> None:
        """`LLM.ask` has finished: its requests, cached ones too, and their outcomes, in order."""


OBSERVERS: ContextVar[tuple[Observer, ...]] = ContextVar("observers", default=())
"""Who reads the stream of this context: without anybody, a stage just works."""
_step: ContextVar[Step | None] = ContextVar("step", default=None)


@contextmanager
def observed_by(*observers: Observer) -> Iterator[None]:
    """Inside the block, the observers read the stream; earlier ones go on.

    Example:
        >>> import pyterrier_ikat as ikat
        >>> class Names(Observer):
        ...     def begin(self, step):
        ...         print(type(step.stage).__name__)
        >>> with observed_by(Names()):
        ...     _ = ikat.RawUtterance()(pd.DataFrame({"qid": ["9-1_3"], "query": ["tea"]}))
        RawUtterance
    """
    token = OBSERVERS.set((*OBSERVERS.get(), *observers))
    try:
        yield
    finally:
        OBSERVERS.reset(token)


class _Hearing(Observer):
    def __init__(self) -> None:
        self.heard: list[Heard] = []

    def hear(self, llm: Any, exchanges: Sequence[Exchange]) -> None:
        self.heard += [(llm, exchange) for exchange in exchanges]


@contextmanager
def hearing() -> Iterator[list[Heard]]:
    """All exchanges with language models inside the block, as they come.

    Example:
        >>> import pyterrier_ikat as ikat
        >>> class Echo:
        ...     def generate(self, chats):
        ...         return [chat[-1]["content"].upper() for chat in chats]
        >>> with hearing() as heard:
        ...     _ = ikat.Answer(ikat.llm(Echo()))(ikat.conversation([{"role": "user", "content": "hi"}]))
        >>> [request.stage for llm, (request, outcome) in heard]
        ['answer']
    """
    found = _Hearing()
    with observed_by(found):
        yield found.heard


def observed(stage: Any, inp: pd.DataFrame, work: Callable[[], pd.DataFrame]) -> pd.DataFrame:
    """Do a stage's work under the eyes of the observers. A transform that calls the one of its base is one step."""
    observers, outer = OBSERVERS.get(), _step.get()
    if _works(stage, outer):
        return work()
    step = Step(stage, inp, outer)
    token = _step.set(step)
    try:
        for one in reversed(observers):  # the first one begins last and ends first: a profile does not measure the others
            one.begin(step)
        _do(step, work)
    finally:
        _step.reset(token)
        for one in observers:
            one.end(step)
    return step.out


def _works(stage: Any, step: Step | None) -> bool:
    while step is not None and step.stage is not stage:
        step = step.outer
    return step is not None


def _do(step: Step, work: Callable[[], pd.DataFrame]) -> None:
    started = time.perf_counter()
    try:
        step.out = work()
    finally:
        step.seconds = time.perf_counter() - started
        if step.outer is not None:
            step.outer.inside += step.seconds


def tell(llm: Any, exchanges: Sequence[Exchange]) -> None:
    """Tell the observers of a finished `LLM.ask`."""
    if (step := _step.get()) is not None:
        step.asked += exchanges
    for one in OBSERVERS.get():
        one.hear(llm, exchanges)
