"""The number of the current run, where a system is run several times: each run is a chain of stages with its own completions.

The plain run is chain 0. A stage that asks a language model puts the number of the chain into its requests; other stages give the same
results in every chain.
"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import ParamSpec, TypeVar

Args = ParamSpec("Args")
Found = TypeVar("Found")

_chain: ContextVar[int] = ContextVar("chain", default=0)


def current_chain() -> int:
    """The number of the current chain, 0 for the plain run."""
    return _chain.get()


@contextmanager
def in_chain(number: int) -> Iterator[None]:
    """Requests inside the block belong to the chain of that number.

    Example:
        >>> with in_chain(2):
        ...     current_chain()
        2
        >>> current_chain()
        0
    """
    token = _chain.set(number)
    try:
        yield
    finally:
        _chain.reset(token)


def carried(work: Callable[Args, Found]) -> Callable[Args, Found]:
    """``work`` for another thread, bound to the current chain, because a thread does not inherit its caller's context.

    Example:
        >>> from concurrent.futures import ThreadPoolExecutor
        >>> with in_chain(2), ThreadPoolExecutor() as threads:
        ...     threads.submit(current_chain).result(), threads.submit(carried(current_chain)).result()
        (0, 2)
    """
    number = current_chain()

    def run(*args: Args.args, **kwargs: Args.kwargs) -> Found:
        with in_chain(number):
            return work(*args, **kwargs)

    return run
