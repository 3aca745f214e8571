"""What is running, for whom, and how to follow it.

Each run of a system that is run several times is a chain of stages with its own completions; the
plain run is chain 0. A stage that asks a language model puts the number of the chain into its
requests; other stages give the same results in every chain.

A turn of a conversation is worked on for somebody who may leave: a browser, a client of a server.
Whoever learns that they have left sets their sign, and no call to a language model begins for them
any more. The one under way is finished and kept, since it is paid for.

The stream of stage events reports the input and output of each stage, and the requests to language
models in between. Recorder, chat and the line of progress read it, each as an :class:`Observer`.
Stages of other packages make no events, nor does the work of a stage on other threads or machines.
"""

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field
from threading import Event
from typing import Any, NamedTuple

import pandas as pd

from .errors import IkatError

Exchange = tuple[Any, Any]
"""A `Request` to a language model, and its outcome: a `Completion` or an `LLMFailure`."""


class Heard(NamedTuple):
    """One ``LLM.ask``.

    Attributes:
        llm: the `LLM` that was asked.
        exchanges: the exchanges with it; none if it was stopped.
        spend: what all its calls cost, also those without a usable answer, as a `Spend`.
    """

    llm: Any
    exchanges: Sequence[Exchange]
    spend: Any


Write = Callable[[str], None]
"""Called with the whole text so far. An exception is raised when the call is finished and kept."""

CHAIN: ContextVar[int] = ContextVar("chain", default=0)
"""The number of the current chain, 0 for the plain run."""


@contextmanager
def in_chain(number: int) -> Iterator[None]:
    """Give the requests inside the block the chain of that number.

    Example:
        >>> with in_chain(2):
        ...     CHAIN.get()
        2
        >>> CHAIN.get()
        0
    """
    token = CHAIN.set(number)
    try:
        yield
    finally:
        CHAIN.reset(token)


class AskerLeft(IkatError):
    """Whoever asked has left, so that nobody waits for the answer."""

    def __init__(self) -> None:
        super().__init__("whoever asked has left: finished calls are kept, and no other one begins")


_LEFT: ContextVar[Event | None] = ContextVar("left", default=None)


@contextmanager
def asked_by(left: Event) -> Iterator[None]:
    """Do the work inside the block for somebody, who has left once ``left`` is set.

    Example:
        >>> left = Event()
        >>> with asked_by(left):
        ...     has_left()
        ...     left.set()
        ...     has_left()
        False
        True
    """
    token = _LEFT.set(left)
    try:
        yield
    finally:
        _LEFT.reset(token)


def has_left() -> bool:
    """Return whether those for whom this context works have left."""
    left = _LEFT.get()
    return left is not None and left.is_set()


def check_asker() -> None:
    """End the work for somebody who has left.

    Raises:
        AskerLeft: when they have.
    """
    if has_left():
        raise AskerLeft


def may_leave() -> bool:
    """Return whether this context works for somebody who may leave."""
    return _LEFT.get() is not None


@dataclass(eq=False)
class Step:
    """A stage at work.

    Attributes:
        stage: the stage.
        inp: its input frame.
        outer: the step around it.
        out: its output; None while it works, and when it failed.
        asked: the LLM requests of this stage, without those of inner stages.
    """

    stage: Any
    inp: pd.DataFrame
    outer: "Step | None" = None
    out: Any = None
    asked: list[Exchange] = field(default_factory=list)


class Observer:
    """Reads the stream. A subclass overrides the events that it wants."""

    def begin(self, step: Step) -> None:
        """A stage begins."""

    def end(self, step: Step) -> None:
        """A stage has ended, or failed."""

    def follow(self, step: Step) -> Write | None:
        """Return a callback for the partial text of this stage, or None."""
        return None

    def repair(self, step: Step, reasons: Sequence[str]) -> None:
        """A stage has replaced what a model wrote, for these reasons."""

    def shorten(self, step: Step, words: int | None) -> None:
        """A stage cuts its response to this many words; None: it is not cut."""

    def wait(self, tries: int, most: int) -> None:
        """An LLM call failed ``tries`` times of ``most``; it is retried. Called in any thread."""


OBSERVERS: ContextVar[tuple[Observer, ...]] = ContextVar("observers", default=())
"""The observers of this context. Without any, a stage just works."""
_step: ContextVar[Step | None] = ContextVar("step", default=None)


@contextmanager
def observed_by(*observers: Observer) -> Iterator[None]:
    """Let the observers read the stream inside the block. Earlier observers continue.

    Example:
        >>> import pyterrier_ikat as ikat
        >>> class Names(Observer):
        ...     def begin(self, step):
        ...         print(type(step.stage).__name__)
        >>> turn = pd.DataFrame({"qid": ["9-1_3"], "query": ["tea"]})
        >>> with observed_by(Names()):
        ...     _ = ikat.RawUtterance()(turn)
        RawUtterance
    """
    token = OBSERVERS.set((*OBSERVERS.get(), *observers))
    try:
        yield
    finally:
        OBSERVERS.reset(token)


_HEARD: ContextVar[tuple[list[Heard], ...]] = ContextVar("heard", default=())


@contextmanager
def hearing() -> Iterator[list[Heard]]:
    """Collect all questions to language models inside the block, as they are answered.

    Example:
        >>> import pyterrier_ikat as ikat
        >>> class Echo:
        ...     def generate(self, chats):
        ...         return [chat[-1]["content"].upper() for chat in chats]
        >>> turn = ikat.conversation([{"role": "user", "content": "hi"}])
        >>> with hearing() as heard:
        ...     _ = ikat.Answer(ikat.llm(Echo()))(turn)
        >>> [(request.stage, heard[0].spend.calls) for request, _ in heard[0].exchanges]
        [('answer', 1)]
    """
    heard: list[Heard] = []
    token = _HEARD.set((*_HEARD.get(), heard))
    try:
        yield heard
    finally:
        _HEARD.reset(token)


def observed(stage: Any, inp: pd.DataFrame, work: Callable[[], pd.DataFrame]) -> pd.DataFrame:
    """Do a stage's work while the observers watch.

    A transform that calls the one of its base class is one step.
    """
    outer = _step.get()
    around = outer
    while around is not None:
        if around.stage is stage:
            return work()
        around = around.outer
    observers = OBSERVERS.get()
    step = Step(stage, inp, outer)
    token = _step.set(step)
    try:
        for observer in reversed(observers):  # the first one begins last and ends first
            observer.begin(step)
        step.out = work()
    finally:
        _step.reset(token)
        for observer in observers:
            observer.end(step)
    return step.out


def tell(llm: Any, exchanges: Sequence[Exchange], spend: Any) -> None:
    """Report a finished `LLM.ask` to the current stage and to `hearing` blocks.

    Args:
        llm: the `LLM` that was asked.
        exchanges: the requests and their outcomes, in order.
        spend: what the calls cost.
    """
    step = _step.get()
    if step is not None:
        step.asked += exchanges
    for heard in _HEARD.get():
        heard.append(Heard(llm, exchanges, spend))


def follower() -> Write | None:
    """Return the callback for the partial text of the current stage, or None."""
    step = _step.get()
    if step is None:
        return None
    for observer in OBSERVERS.get():
        write = observer.follow(step)
        if write is not None:
            return write
    return None


def repaired(reasons: Sequence[str]) -> None:
    """Tell the observers that the current stage has replaced what a model wrote."""
    step = _step.get()
    if step is None:
        return
    for observer in OBSERVERS.get():
        observer.repair(step, reasons)


def shortened(words: int | None) -> None:
    """Tell the observers that the current stage cuts its response to this many words, or not."""
    step = _step.get()
    if step is None:
        return
    for observer in OBSERVERS.get():
        observer.shorten(step, words)
