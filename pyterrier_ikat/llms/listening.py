"""Listeners to requests, by which a run folder keeps the prompts and completions of its turns."""

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from typing import TYPE_CHECKING

from .failures import LLMFailure
from .request import Completion, Request

if TYPE_CHECKING:
    from .model import LLM

Exchange = tuple[Request, Completion | LLMFailure]
"""A request, and its outcome."""
Listener = Callable[["LLM", Sequence[Exchange]], None]
"""Gets the LLM that was asked, and the exchanges with it."""

_listeners: ContextVar[tuple[Listener, ...]] = ContextVar("listeners", default=())


@contextmanager
def heard_by(listener: Listener) -> Iterator[None]:
    """Inside the block, ``listener`` gets the LLM, and the requests and outcomes of each finished `LLM.ask`, cached ones too, in order.

    Requests on other threads or machines are not heard.

    Example:
        >>> import pyterrier_ikat as ikat
        >>> class Echo:
        ...     def generate(self, chats):
        ...         return [chat[-1]["content"].upper() for chat in chats]
        >>> heard = []
        >>> with heard_by(lambda llm, exchanges: heard.extend(exchanges)):
        ...     _ = ikat.llm(Echo()).ask([Request([{"role": "user", "content": "hi"}], stage="answer", qid="1_1")])
        >>> [(request.qid, outcome.text) for request, outcome in heard]
        [('1_1', 'HI')]
    """
    token = _listeners.set((*_listeners.get(), listener))
    try:
        yield
    finally:
        _listeners.reset(token)


def tell(llm: "LLM", exchanges: Sequence[Exchange]) -> None:
    """Call all listeners."""
    for listener in _listeners.get():
        listener(llm, exchanges)
