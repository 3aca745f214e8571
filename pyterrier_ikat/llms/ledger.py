"""The cost of calls: one call, the account per stage and model, and the budget."""

import threading
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import KW_ONLY, dataclass, fields
from typing import Any, NamedTuple

import pandas as pd

from ..errors import UsageError
from ..tables import Table, of_frame
from .backend import Remade
from .failures import BudgetExceeded, FatalLLMError
from .request import Completion, Reply, Request

COUNTS = ("calls", "known", "retries", "unanswered", "failures", "fallbacks", "dropped")
TOKENS = ("prompt_tokens", "cached_tokens", "completion_tokens", "lost_tokens")
AMOUNTS = (*TOKENS, "seconds", "cost", "worth")
ALWAYS_SHOWN = ("calls", "prompt_tokens", "completion_tokens", "seconds", "cost")
"""The columns of a printed account that it has even if they are empty."""
TITLES = {
    "prompt_tokens": "tokens in",
    "cached_tokens": "of these cached",
    "completion_tokens": "tokens out",
    "lost_tokens": "tokens without an answer (estimate)",
    "cost": "cost (USD)",
}
"""Column -> its title in a printed account. The titles of the others are their names."""
DECIMALS = {**dict.fromkeys((*COUNTS, *AMOUNTS), 0), "seconds": 1, "cost": 4, "worth": 4}
LOST_NOTE = (
    "Requests to which nothing came back make the cost unknown; a budget counts their prompts, "
    "by an estimate."
)
UNKNOWN_NOTE = (
    "The cost is known with price_in= and price_out= of the model, where the server tells the "
    "tokens."
)
BETWEEN = ", "
CHARACTERS_PER_TOKEN = 4
"""The average number of characters per token in English text, for estimates.

It is no bound: a Chinese character may be several tokens.
"""


def estimated_tokens(requests: Iterable[Request]) -> int:
    """About how many tokens the prompts of some requests have."""
    characters = 0
    for request in requests:
        characters += sum(len(message["content"]) for message in request.messages)
    return characters // CHARACTERS_PER_TOKEN


Number = int | float | None
"""An amount, or None if it is unknown."""


def plus(one: Number, other: Number) -> Number:
    """The sum of two amounts. It is unknown when one of them is unknown."""
    return None if one is None or other is None else one + other


@dataclass(frozen=True)
class Spend:
    """The cost of completions. Sums of it are also `Spend`.

    An unknown amount is None, and so is a sum with one: it never counts as 0.

    Attributes:
        calls: requests that were answered, also by something that can't be used.
        known: completions that were known before, from a cache or a recording.
        prompt_tokens: the tokens that paid calls read.
        cached_tokens: those of them that the provider had in its own cache.
        completion_tokens: the tokens that paid calls wrote.
        cost: US dollars that were paid.
        worth: US dollars that the completions which were known before would have cost.
        unanswered: requests that were sent and not answered.

    Example:
        >>> paid = Spend(calls=1, prompt_tokens=80, completion_tokens=10, cost=0.25)
        >>> both = paid + Spend(known=2, worth=0.5)
        >>> both.calls, both.tokens, both.completions, both.price
        (1, 90, 3, 0.75)
        >>> (both + Spend(calls=1, cost=None)).cost is None
        True
    """

    calls: int = 0
    known: int = 0
    prompt_tokens: int | None = 0
    cached_tokens: int | None = 0
    completion_tokens: int | None = 0
    cost: float | None = 0.0
    worth: float | None = 0.0
    unanswered: int = 0

    def __add__(self, other: "Spend") -> "Spend":
        others = vars(other)
        amounts: Any = {name: plus(amount, others[name]) for name, amount in vars(self).items()}
        return Spend(**amounts)

    @property
    def tokens(self) -> int | None:
        """The tokens that paid calls read and wrote."""
        return plus(self.prompt_tokens, self.completion_tokens)  # type: ignore[return-value]

    @property
    def completions(self) -> int:
        """The completions, whether they were paid for or known before."""
        return self.calls + self.known

    @property
    def price(self) -> float | None:
        """US dollars of all these completions.

        It is the same for every system that needs them, whichever asked first.
        """
        return plus(self.cost, self.worth)


class Entry(NamedTuple):
    """An addition to an account.

    Attributes:
        stage: the operator's stage name.
        model: the language model.
        increments: by column; None for an amount that is not known.
        served: the model that answered, as the server names it, if it does.
        key: identifies the request, for accounts that are written down.
        answered: whether a cost is that of the request's completion, for such accounts.
    """

    stage: str
    model: str
    increments: Mapping[str, Number]
    served: str | None = None
    key: str | None = None
    answered: bool = True


class Ledger(Remade):
    """The account of calls to language models, per operator (``stage``) and model.

    Threads may share it.

    Columns:

    - ``calls``: requests that the model answered, also with something that can't be used;
      ``unanswered``: those that were sent and got no answer: the server refused them, which costs
      nothing, or nothing came back, and then the cost is unknown; ``retries``: further tries of
      both. These three together were sent. ``known``: requests that the cache or a recording
      answered.
    - ``failures``: requests without a completion after all; ``fallbacks``, ``dropped``: what the
      operators did instead.
    - The tokens of the calls, ``cached_tokens`` being those of the prompt that the provider had in
      its own cache; ``lost_tokens``: an estimate of the prompts to which nothing came back, at four
      characters each, which counts towards a budget.
    - ``seconds``: the time of the calls added up; ``cost``: US dollars that were paid; ``worth``:
      what the known ones would have cost, by the stored token counts and today's prices.
    - ``model``: the requested model; ``served``: the model that answered, as named by the server,
      also for cached answers; several names are separated by commas.

    If a call lacks its tokens or price, the sum is unknown (``pd.NA``), never 0.

    Example:
        >>> ledger = Ledger()
        >>> ledger.count("answer", "gpt-4o", calls=1, prompt_tokens=200, cost=None)
        >>> ledger.frame()[["stage", "calls", "prompt_tokens", "cost"]].values.tolist()
        [['answer', 1, 200, <NA>]]
    """

    of_this_process = {"_lock": threading.Lock}

    def __init__(self) -> None:
        self._rows: dict[tuple[str, str], dict[str, Any]] = {}
        self._followers: list[Ledger] = []
        self._lock = threading.Lock()

    def count(
        self,
        stage: str,
        model: str,
        *,
        served: Any = None,
        key: str | None = None,
        answered: bool = True,
        **increments: Number,
    ) -> None:
        """Add to the row of ``stage`` and ``model``; see `Entry` for the arguments."""
        self.enter(Entry(stage, model, increments, served, key, answered))

    def enter(self, entry: Entry) -> None:
        """Add to the row of a stage and model, and to the accounts that follow this one."""
        with self._lock:
            place = entry.stage, entry.model
            if place not in self._rows:
                self._rows[place] = {"served": set(), **dict.fromkeys((*COUNTS, *AMOUNTS), 0)}
            row = self._rows[place]
            if entry.served:
                row["served"].update(entry.served.split(BETWEEN))
            for name, value in entry.increments.items():
                row[name] = plus(row[name], value)
        for follower in self._followers:
            follower.enter(entry)

    def add(self, other: "Ledger") -> None:
        """Add all rows of another ledger."""
        for row in other.rows():
            self.count(**row)

    @contextmanager
    def followed_by(self, other: "Ledger") -> Iterator[None]:
        """Until the block ends, ``other`` also counts what this ledger counts."""
        self._followers.append(other)
        try:
            yield
        finally:
            self._followers.remove(other)

    def rows(self) -> list[dict[str, Any]]:
        """The rows, in the order in which they were first counted.

        Returns:
            dicts with ``stage``, ``model``, ``served`` and the columns; None: unknown.
        """
        rows = []
        with self._lock:
            for (stage, model), row in self._rows.items():
                served = BETWEEN.join(sorted(row["served"]))
                rows.append({"stage": stage, "model": model, **row, "served": served})
        return rows

    def frame(self) -> pd.DataFrame:
        """The account, one row per stage and model in the order in which they were first counted.

        Returns:
            ``stage``, ``model``, ``served``, then the columns named in the class, as nullable
            integers (seconds and cost: nullable floats); ``pd.NA`` = unknown.
        """
        kinds = dict.fromkeys(("stage", "model", "served"), "object")
        kinds.update(dict.fromkeys((*COUNTS, *TOKENS), "Int64"))
        kinds.update(dict.fromkeys(("seconds", "cost", "worth"), "Float64"))
        rows = self.rows()
        columns = {}
        for name, kind in kinds.items():
            columns[name] = pd.Series([row[name] for row in rows], dtype=kind)
        return pd.DataFrame(columns)

    def total(self) -> Spend:
        """The sum over all calls."""
        names = [field.name for field in fields(Spend)]
        total = Spend()
        for row in self.rows():
            total += Spend(**{name: row[name] for name in names})
        return total

    def served(self) -> dict[str, list[str]]:
        """The models that answered, by the requested name."""
        served = defaultdict[str, set[str]](set)
        for row in self.rows():
            if row["served"]:
                served[row["model"]].update(row["served"].split(BETWEEN))
        return {model: sorted(names) for model, names in served.items()}

    def shown(self, title: str = "") -> Table:
        """The account as a table to print, see `account_table`.

        Args:
            title: what it is an account of.
        """
        return account_table(self.frame(), title=title)

    def __str__(self) -> str:
        return self.shown().text().rstrip("\n")

    def _repr_html_(self) -> str:
        return self.shown()._repr_html_()


def account_table(frame: pd.DataFrame, notes: Sequence[str] = (), title: str = "") -> Table:
    """An account as it is printed everywhere, without empty columns.

    Args:
        frame: as `Ledger.frame` gives it; accounts of several systems have a column ``system`` in
            front.
        notes: what a reader has to know.
        title: what it is an account of.

    Example:
        >>> spent = Ledger()
        >>> spent.count("answer", "gpt-4o", calls=2, prompt_tokens=90, cost=None)
        >>> [column.title for column in account_table(spent.frame()).columns[2:]]
        ['calls', 'tokens in', 'tokens out', 'seconds', 'cost (USD)']
    """
    omitted = []
    for name in (*COUNTS, *AMOUNTS):
        if name not in ALWAYS_SHOWN and (frame[name].fillna(0) == 0).all():
            omitted.append(name)
    if frame["served"].fillna("").isin(["", *frame["model"]]).all():
        omitted.append("served")
    numbers = frame.astype(dict.fromkeys(DECIMALS, "Float64"))
    columns = numbers.drop(columns=omitted).rename(columns=TITLES)
    if (frame["lost_tokens"].fillna(0) > 0).any():
        notes = [*notes, LOST_NOTE]
    elif frame["cost"].isna().any():
        notes = [*notes, UNKNOWN_NOTE]
    decimals = {TITLES.get(name, name): number for name, number in DECIMALS.items()}
    shown = of_frame(columns, notes, title, decimals=decimals)
    return Table(frame, shown.columns, shown.notes, title)


@dataclass(eq=False, repr=False)
class Budget(Remade):
    """Prices, the cost so far, and a limit; safe to share between threads.

    Args:
        price_in: US dollars per million prompt tokens, or None when not known.
        price_out: US dollars per million completion tokens, or None when not known.
        price_cached: US dollars per million prompt tokens that the provider had in its own cache,
            or None for ``price_in``. A call without this number of tokens is counted at the full
            price.
        limit: the maximum cost in US dollars, or None for no limit. Calls in flight when it is
            reached are still finished.
        model: the model with these prices.

    Attributes:
        spent: the cost through this object, in US dollars.

    Raises:
        UsageError: for a limit or a price of cached tokens without the other prices.

    Example:
        >>> budget = Budget(price_in=2.5, price_out=10)
        >>> budget.cost(Reply("yes", prompt_tokens=1000, completion_tokens=100))
        0.0035
    """

    of_this_process = {"_lock": threading.Lock, "_spending": lambda: None}

    _: KW_ONLY
    price_in: float | None = None
    price_out: float | None = None
    price_cached: float | None = None
    limit: float | None = None
    model: str = ""

    def __post_init__(self) -> None:
        needs_prices = self.limit is not None or self.price_cached is not None
        if needs_prices and (self.price_in is None or self.price_out is None):
            raise UsageError(
                "a budget needs prices, as price_cached does: "
                "add price_in=... and price_out=... (dollars per million tokens)"
            )
        self.spent = 0.0
        self._spending: Any = None
        self._lock = threading.Lock()

    def cost(self, reply: Reply | Completion) -> float | None:
        """US dollars for the call that gave ``reply``; None if a price or a count is unknown."""
        read = reply.prompt_tokens
        written = reply.completion_tokens
        if self.price_in is None or self.price_out is None or read is None or written is None:
            return None
        millionths = self.price_in * read + self.price_out * written
        if self.price_cached is not None:
            cached = min(reply.cached_tokens or 0, read)
            millionths -= cached * (self.price_in - self.price_cached)
        return millionths / 1e6

    def price(
        self, read: int | None, written: int | None, cached: int | None = None
    ) -> float | None:
        """US dollars for these tokens. None when a count is unknown."""
        tokens = Reply(None, prompt_tokens=read, completion_tokens=written, cached_tokens=cached)
        return self.cost(tokens)

    def spend(self, cost: float | None) -> None:
        """Add the cost of a call.

        Args:
            cost: US dollars; None if it isn't known.

        Raises:
            FatalLLMError: when there is a limit that an unknown cost makes void.
        """
        if cost is None and self.limit is not None:
            raise FatalLLMError(
                "the server does not tell how many tokens a call used, "
                "so a budget can't be kept: run without budget="
            )
        with self._lock:
            self.spent += cost or 0.0

    @contextmanager
    def counting(self, spending: Any) -> Iterator[None]:
        """Until the block ends, the limit applies to the cost of a folder of runs.

        Args:
            spending: a `pyterrier_ikat.study.recorder.Spending`.
        """
        before = self._spending
        self._spending = spending
        try:
            yield
        finally:
            self._spending = before

    @property
    def used(self) -> float:
        """US dollars that count towards the limit."""
        if self._spending is None:
            return self.spent
        total: float = self._spending.total(self.model, self.price_in, self.price_out)
        return total

    def check(self, more: float = 0.0) -> None:
        """Make sure that another call may be sent, or a batch.

        Args:
            more: the maximum cost of a batch and of those under way.

        Raises:
            BudgetExceeded: when the limit is reached, or would be exceeded.
            FatalLLMError: when it is not known what the run folder has cost.
        """
        if self.limit is None:
            return
        used = self.used
        if used < self.limit and used + more <= self.limit:
            return
        where = "" if self._spending is None else self._spending.where
        raise BudgetExceeded(used, self.limit, where, more)
