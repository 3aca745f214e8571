"""What is running, for whom, and how to follow it: the current chain, the sign of who left, and the stream of stage events.

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
        spend: what all its calls cost, also those that gave nothing usable, as a `Spend`.
    """

    llm: Any
    exchanges: Sequence[Exchange]
    spend: Any


Write = Callable[[str], None]
"""Gets what a model has written so far, each time all of it; what it raises is raised when the call is finished and kept."""

CHAIN: ContextVar[int] = ContextVar("chain", default=0)
"""The number of the current chain, 0 for the plain run."""


@contextmanager
def in_chain(number: int) -> Iterator[None]:
    """Requests inside the block belong to the chain of that number.

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
    """The work inside the block is done for somebody; once ``left`` is set, they have left.

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
    """Whether those for whom this context works have left."""
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
    """Whether this context works for somebody who may leave."""
    return _LEFT.get() is not None


@dataclass(eq=False)
class Step:
    """A stage at work.

    Attributes:
        stage: the stage.
        inp: the frame that it is given.
        outer: the step that it is inside of.
        out: what it gave back; None while it works, and when it failed.
        asked: the exchanges with language models, but for those of the steps inside it.
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
        """Who gets the text that a model writes for this stage while it writes it; None: it is read when it is finished."""
        return None

    def repair(self, step: Step, reasons: Sequence[str]) -> None:
        """A stage has put something else in the place of what a model wrote, for these reasons."""

    def wait(self, tries: int, most: int) -> None:
        """A call to a language model has failed ``tries`` times of ``most``, and waits to be retried; told in any thread."""


OBSERVERS: ContextVar[tuple[Observer, ...]] = ContextVar("observers", default=())
"""The observers of this context. Without any, a stage just works."""
_step: ContextVar[Step | None] = ContextVar("step", default=None)


@contextmanager
def observed_by(*observers: Observer) -> Iterator[None]:
    """Inside the block, the observers read the stream. Earlier observers continue.

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


_HEARD: ContextVar[tuple[list[Heard], ...]] = ContextVar("heard", default=())


@contextmanager
def hearing() -> Iterator[list[Heard]]:
    """All questions to language models inside the block, as they are answered.

    Example:
        >>> import pyterrier_ikat as ikat
        >>> class Echo:
        ...     def generate(self, chats):
        ...         return [chat[-1]["content"].upper() for chat in chats]
        >>> with hearing() as heard:
        ...     _ = ikat.Answer(ikat.llm(Echo()))(ikat.conversation([{"role": "user", "content": "hi"}]))
        >>> [(request.stage, one.spend.calls) for one in heard for request, outcome in one.exchanges]
        [('answer', 1)]
    """
    found = list[Heard]()
    token = _HEARD.set((*_HEARD.get(), found))
    try:
        yield found
    finally:
        _HEARD.reset(token)


def observed(stage: Any, inp: pd.DataFrame, work: Callable[[], pd.DataFrame]) -> pd.DataFrame:
    """Do a stage's work while the observers watch. A transform that calls the one of its base class is one step."""
    observers, outer = OBSERVERS.get(), _step.get()
    around = outer
    while around is not None and around.stage is not stage:
        around = around.outer
    if around is not None:
        return work()
    step = Step(stage, inp, outer)
    token = _step.set(step)
    try:
        for one in reversed(observers):  # the first one begins last and ends first
            one.begin(step)
        step.out = work()
    finally:
        _step.reset(token)
        for one in observers:
            one.end(step)
    return step.out


def tell(llm: Any, exchanges: Sequence[Exchange], spend: Any) -> None:
    """Report the requests, outcomes and cost of a finished `LLM.ask` to the current stage and to `hearing` blocks."""
    if (step := _step.get()) is not None:
        step.asked += exchanges
    for heard in _HEARD.get():
        heard.append(Heard(llm, exchanges, spend))


def follower() -> Write | None:
    """Who follows what a model writes for the stage under way, while it writes."""
    step = _step.get()
    return (
        None
        if step is None
        else next(
            (write for one in OBSERVERS.get() if (write := one.follow(step)) is not None), None
        )
    )


def repaired(reasons: Sequence[str]) -> None:
    """Tell the observers that the stage under way has put something else in the place of what a model wrote."""
    if (step := _step.get()) is not None:
        for one in OBSERVERS.get():
            one.repair(step, reasons)
