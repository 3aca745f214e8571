"""Which of several runs of one system is under way: a run is a chain of stages, and each chain has completions of its own.

The plain run is chain 0. Whatever asks a language model puts the number of the chain into its requests; what asks none gives the same in
every chain.
"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import ParamSpec, TypeVar

Args = ParamSpec("Args")
Found = TypeVar("Found")

_chain: ContextVar[int] = ContextVar("chain", default=0)


def current_chain() -> int:
    """The number of the chain that is under way, 0 for the plain run."""
    return _chain.get()


@contextmanager
def in_chain(number: int) -> Iterator[None]:
    """Everything within is asked in the chain of that number.

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
    """``work`` for another thread, where it runs in the chain that is under way here: threads know nothing of their caller's.

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
