"""What calls cost, and the most they may cost."""

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Protocol

from ..copies import Remade
from ..errors import UsageError
from .failures import BudgetExceeded, FatalLLMError
from .request import Completion, Reply


class Spending(Protocol):
    """What has been spent in a place by everybody, over restarts and processes.

    Attributes:
        where: the place, in words.
    """

    where: str

    def total(self, model: str, price_in: float | None, price_out: float | None) -> float:
        """US dollars so far; calls of ``model`` whose cost is not known are counted at these prices."""
        ...


class Budget(Remade):
    """Prices, what was spent at them, and a limit; safe to share between threads.

    Args:
        price_in: US dollars per million prompt tokens, or None when not known.
        price_out: US dollars per million completion tokens, or None when not known.
        limit: the most US dollars to spend, or None for no limit. Calls in flight when it is reached are still finished.
        model: the model whose prices they are.

    Attributes:
        spent: US dollars that were spent through this object.

    Raises:
        UsageError: for a limit without prices.

    Example:
        >>> budget = Budget(price_in=2.5, price_out=10)
        >>> budget.cost(Reply("yes", prompt_tokens=1000, completion_tokens=100))
        0.0035
    """

    of_this_process = {"_lock": threading.Lock, "_spending": lambda: None}

    def __init__(
        self, *, price_in: float | None = None, price_out: float | None = None, limit: float | None = None, model: str = ""
    ) -> None:
        if limit is not None and (price_in is None or price_out is None):
            raise UsageError("a budget needs prices: add price_in=... and price_out=... (US dollars per million tokens)")
        self.price_in, self.price_out, self.limit, self.model = price_in, price_out, limit, model
        self.spent = 0.0
        self._spending: Spending | None = None
        self._lock = threading.Lock()

    def cost(self, reply: Reply | Completion) -> float | None:
        """US dollars for the call that gave ``reply``, or None when a price or a token count is not known."""
        if self.price_in is None or self.price_out is None or reply.prompt_tokens is None or reply.completion_tokens is None:
            return None
        return (self.price_in * reply.prompt_tokens + self.price_out * reply.completion_tokens) / 1e6

    def spend(self, cost: float | None) -> None:
        """Add the cost of a call.

        Raises:
            FatalLLMError: when there is a limit that an unknown cost makes void.
        """
        if cost is None and self.limit is not None:
            raise FatalLLMError("the server does not tell how many tokens a call used, so that no budget can be kept: run without budget=")
        with self._lock:
            self.spent += cost or 0.0

    @contextmanager
    def counting(self, spending: Spending) -> Iterator[None]:
        """Until the block ends, the limit is for all that is spent there."""
        before, self._spending = self._spending, spending
        try:
            yield
        finally:
            self._spending = before

    @property
    def used(self) -> float:
        """US dollars that count for the limit."""
        return self.spent if self._spending is None else self._spending.total(self.model, self.price_in, self.price_out)

    def check(self) -> None:
        """Make sure that another call may be sent.

        Raises:
            BudgetExceeded: when the limit is reached.
            FatalLLMError: when it is not known what the run folder has cost.
        """
        if self.limit is not None and (used := self.used) >= self.limit:
            raise BudgetExceeded(spent=used, budget=self.limit, where="" if self._spending is None else self._spending.where)

    def shown(self) -> dict[str, str]:
        """The cost so far, for a progress bar; empty when the prices are not known."""
        if self.price_in is None or self.price_out is None:
            return {}
        return {"cost": f"${self.spent:.4f}" if self.limit is None else f"${self.used:.4f} of ${self.limit:g}"}
