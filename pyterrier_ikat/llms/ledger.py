"""The cost of calls (`Spend`, which all sums use), the account per stage and model, and the budget."""

import threading
from collections.abc import Collection, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any, Protocol

import pandas as pd

from ..errors import UsageError
from ..portable import Remade
from ..tables import UNKNOWN, UNKNOWN_NOTE, Cell, Column, Table
from .failures import BudgetExceeded, FatalLLMError
from .request import Completion, Reply

COUNTS = ("calls", "known", "retries", "unanswered", "failures", "fallbacks", "dropped")
AMOUNTS = ("prompt_tokens", "cached_tokens", "completion_tokens", "seconds", "cost", "worth", "alone")
OTHERS = ("retries", "unanswered", "failures", "fallbacks", "dropped", "seconds", "alone")
"""The columns that do not belong to a `Spend`."""
MAY_BE_OMITTED = ("known", "retries", "unanswered", "failures", "fallbacks", "dropped", "cached_tokens", "worth")
"""The columns that a printed account omits when they are 0 in every row."""
NAMED = ("known", "retries", "failures", "fallbacks", "dropped")
"""The counts that a note names where they are omitted."""
TITLES = {"prompt_tokens": "tokens in", "cached_tokens": "of these cached", "completion_tokens": "tokens out", "cost": "cost (USD)"}
"""Column -> its title in a printed account. The titles of the others are their names."""
DECIMALS = {"seconds": 1, "cost": 4, "worth": 4, "alone": 4}

BETWEEN = ", "
Place = tuple[str, str]
"""A stage and a model."""
CHARACTERS_PER_TOKEN = 4
"""The average number of characters per token in English text, for estimates."""


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
        calls: completions that were paid for.
        known: completions that were known before, from a cache or a recording.
        prompt_tokens: the tokens that paid calls read.
        cached_tokens: those of them that the provider had in its own cache.
        completion_tokens: the tokens that paid calls wrote.
        cost: US dollars that were paid.
        worth: US dollars that the completions which were known before would have cost.

    Example:
        >>> paid, known = Spend(calls=1, prompt_tokens=80, completion_tokens=10, cost=0.25), Spend(known=2, worth=0.5)
        >>> both = sum([paid, known], Spend())
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

    def __add__(self, other: "Spend") -> "Spend":
        return Spend(*map(plus, vars(self).values(), vars(other).values()))  # type: ignore[arg-type]

    def __radd__(self, nothing: int) -> "Spend":
        """``sum`` begins with 0."""
        return self

    @property
    def tokens(self) -> int | None:
        """The tokens that paid calls read and wrote."""
        return plus(self.prompt_tokens, self.completion_tokens)  # type: ignore[return-value]

    @property
    def completions(self) -> int:
        """The completions that were used, whether they were paid for or known before."""
        return self.calls + self.known

    @property
    def price(self) -> float | None:
        """US dollars of all these completions. It is the same for every system that needs them, whichever asked first."""
        return plus(self.cost, self.worth)


class Ledger(Remade):
    """Counts per (stage, model), safe to share between threads and between language models.

    ``calls`` are requests sent to a model, ``retries`` further attempts at them, ``unanswered`` those of both that are under way or lost
    their answer in a kill or with the connection, so that their cost is unknown, ``known`` requests answered without a call, from a cache
    or a recording, ``failures`` requests without a usable completion (also refused and unreadable ones), ``fallbacks`` turns for which a
    fallback replaced the completion, ``dropped`` pieces of completions that were omitted or repaired (ids that do not exist, scores out of
    range, copies of no statement, queries beyond ``n``, answers cut to their limit, passages that an order omits, repeats or invents);
    ``cached_tokens`` those of the ``prompt_tokens`` that the provider had in its own cache; ``seconds`` is the time of the calls added up,
    ``cost`` in US dollars what was paid. ``worth`` is the cost that the cache saved, by the stored token counts and today's prices;
    ``alone`` is the cost of all distinct requests, each once, with an empty cache. ``model`` is the requested model, ``served`` the model
    that answered, as named by the server, also for cached answers; several names are separated by commas. If a call lacks its tokens or
    price, the sum is unknown (``pd.NA``), never 0.

    Args:
        distinct: the most requests of which it knows that they were counted, None for all. An older one that comes back counts in ``worth``
            and ``alone`` as another one.

    Example:
        >>> ledger = Ledger()
        >>> ledger.count("answer", "gpt-4o", calls=1, prompt_tokens=200, cost=None)
        >>> ledger.frame()[["stage", "calls", "prompt_tokens", "cost"]].values.tolist()
        [['answer', 1, 200, <NA>]]
    """

    of_this_process = {"_lock": threading.Lock}

    def __init__(self, distinct: int | None = None) -> None:
        self._distinct = distinct
        self._rows: dict[Place, _Row] = {}
        self._alone: dict[str, tuple[Place, float | None]] = {}
        self._followers: list[Ledger] = []
        self._lock = threading.Lock()

    def count(self, stage: str, model: str, *, served: Any = None, key: str | None = None, **increments: float | None) -> None:
        """Add to the row of ``stage`` and ``model``.

        Args:
            stage: the operator's stage name.
            model: the language model.
            served: the model that answered, as the server names it, if it does.
            key: identifies the request, so its worth is counted only once.
            increments: by column; None for an amount that is not known.

        Raises:
            TypeError: for a column that the ledger does not have.
        """
        for name in increments:
            if name not in COUNTS + AMOUNTS:
                raise TypeError(f"a ledger has no column {name!r}: it has {', '.join(COUNTS + AMOUNTS)}")
        given = dict(increments)
        with self._lock:
            if key is not None:
                self._price((stage, model), key, increments)
            elif "cost" in increments:
                increments.setdefault("alone", increments["cost"])
            row = self._rows.setdefault((stage, model), _Row())
            row.add(increments)
            row.served.update(served.split(BETWEEN) if served else ())
        for follower in self._followers:
            follower.count(stage, model, served=served, key=key, **given)

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

    def _price(self, where: Place, key: str, increments: dict[str, float | None]) -> None:
        """Count a distinct request once, at the stage that asked it first and with the latest price."""
        named = "cost" if "cost" in increments else "worth" if "worth" in increments else None
        if named is None:
            return
        first, price = key not in self._alone, increments[named]
        if named == "worth" and not first:
            increments["worth"] = 0
        if first or price is not None:
            self._alone[key] = self._alone.get(key, (where, None))[0], price
        if self._distinct is not None and len(self._alone) > self._distinct:
            place, settled = self._alone.pop(next(iter(self._alone)))
            self._rows.setdefault(place, _Row()).add({"alone": settled})

    def rows(self) -> list[dict[str, Any]]:
        """The rows, in the order in which they were first counted: ``stage``, ``model``, ``served`` and the columns. None = unknown."""
        with self._lock:
            alone = {where: row.amounts["alone"] for where, row in self._rows.items()}
            for where, price in self._alone.values():
                alone[where] = plus(alone[where], price)
            return [
                {"stage": where[0], "model": where[1], "served": BETWEEN.join(sorted(row.served))}
                | {name: row.value(name) for name in COUNTS + AMOUNTS}
                | {"alone": alone[where]}
                for where, row in self._rows.items()
            ]

    def frame(self) -> pd.DataFrame:
        """The account, one row per stage and model in the order in which they were first counted.

        Returns:
            ``stage``, ``model``, ``served``, then the columns named in the class, as nullable integers (seconds and cost: nullable
            floats); ``pd.NA`` = unknown.
        """
        frame = pd.DataFrame(self.rows(), columns=["stage", "model", "served", *COUNTS, *AMOUNTS], dtype=object)
        whole = dict.fromkeys((*COUNTS, "prompt_tokens", "cached_tokens", "completion_tokens"), "Int64")
        return frame.astype({**whole, **dict.fromkeys(("seconds", "cost", "worth", "alone"), "Float64")})

    def total(self) -> Spend:
        """The sum over all calls."""
        with self._lock:
            return sum((row.spend for row in self._rows.values()), Spend())

    def served(self) -> dict[str, list[str]]:
        """The models that answered, by the requested name."""
        with self._lock:
            found = [(model, name) for (_, model), row in self._rows.items() for name in row.served]
        return {model: sorted({name for asked, name in found if asked == model}) for model, _ in found}

    def take(self) -> "Ledger":
        """The counts since the last call. The ledger then starts from 0."""
        taken = Ledger(self._distinct)
        with self._lock:
            taken._rows, self._rows, taken._alone, self._alone = self._rows, {}, self._alone, {}
        return taken

    def shown(self, title: str = "") -> Table:
        """The account as a table to print, see `account_columns`.

        Args:
            title: what it is an account of.
        """
        frame = self.frame()
        columns, notes = account_columns(frame)
        return Table(frame, columns, notes if len(frame) else [], title)

    def __str__(self) -> str:
        return self.shown().text().rstrip("\n")

    def _repr_html_(self) -> str:
        return self.shown()._repr_html_()


@dataclass
class _Row:
    """The sums of one stage and model."""

    spend: Spend = Spend()
    amounts: dict[str, float | None] = field(default_factory=lambda: dict.fromkeys(OTHERS, 0))
    served: set[str] = field(default_factory=set)

    def add(self, increments: Mapping[str, float | None]) -> None:
        paid = dict[str, Any]()
        for name, value in increments.items():
            if name in OTHERS:
                self.amounts[name] = plus(self.amounts[name], value)
            else:
                paid[name] = value
        if paid:
            self.spend += Spend(**paid)

    def value(self, name: str) -> float | None:
        return self.amounts[name] if name in OTHERS else getattr(self.spend, name)


def account_columns(frame: pd.DataFrame, untold: Collection[str] = ()) -> tuple[list[Column], list[str]]:
    """An account in the form that is shown everywhere: the columns with counts, and notes on the others and on unknown values.

    Args:
        frame: as `Ledger.frame` gives it; accounts of several systems have a column ``system`` in front.
        untold: amounts that the account can't have.

    Example:
        >>> spent = Ledger()
        >>> spent.count("answer", "gpt-4o", calls=2, prompt_tokens=90, completion_tokens=None, cost=None)
        >>> columns, notes = account_columns(spent.frame())
        >>> [(column.title, column.cells[0].text) for column in columns[2:]]
        [('calls', '2'), ('tokens in', '90'), ('tokens out', '–'), ('seconds', '0.0'), ('cost (USD)', '–')]
        >>> notes[-1]
        '–: unknown. The cost is known with price_in= and price_out= of the model, where the server tells the tokens.'
    """
    omitted = {*untold, *(name for name in MAY_BE_OMITTED if (frame[name] == 0).fillna(name == "cached_tokens").all())}
    if frame["alone"].equals(frame["cost"]):
        omitted.add("alone")
    titles = [name for name in ("system", "stage", "model") if name in frame.columns]
    if ((frame["served"].fillna("") != "") & (frame["served"] != frame["model"])).any():
        titles.append("served")
    columns = [Column(name, [Cell("" if pd.isna(one) else str(one)) for one in frame[name]]) for name in titles]
    for name in (*COUNTS, *AMOUNTS):
        if name not in omitted:
            least = frame["unanswered"].fillna(0) > 0 if name == "cost" else [False] * len(frame)
            cells = [Cell(_shown(value, name, at_least)) for value, at_least in zip(frame[name], least, strict=True)]
            columns.append(Column(TITLES.get(name, name), cells, numeric=True))
    never = [name for name in NAMED if name in omitted and name not in untold]
    notes = [f"None: {', '.join(never)}."] if never else []
    if any(cell.text == UNKNOWN for column in columns if column.numeric for cell in column.cells):
        priced = "" if frame["cost"].notna().all() else f" {PRICED}"
        notes.append(f"{UNKNOWN_NOTE}{priced}")
    return columns, notes


PRICED = "The cost is known with price_in= and price_out= of the model, where the server tells the tokens."


def _shown(value: Any, name: str, at_least: bool) -> str:
    return UNKNOWN if pd.isna(value) else ("at least " if at_least else "") + f"{value:,.{DECIMALS.get(name, 0)}f}"


class Spending(Protocol):
    """The cost in one place by all processes, over restarts.

    Attributes:
        where: the name of the place, for messages.
    """

    where: str

    def total(self, model: str, price_in: float | None, price_out: float | None) -> float:
        """US dollars so far. Calls of ``model`` with unknown cost are counted at these prices."""
        ...


class Budget(Remade):
    """Prices, the cost so far, and a limit; safe to share between threads.

    Args:
        price_in: US dollars per million prompt tokens, or None when not known.
        price_out: US dollars per million completion tokens, or None when not known.
        price_cached: US dollars per million prompt tokens that the provider had in its own cache, or None for ``price_in``. A call without
            this number of tokens is counted at the full price.
        limit: the maximum cost in US dollars, or None for no limit. Calls in flight when it is reached are still finished.
        model: the model with these prices.

    Attributes:
        spent: the cost through this object, in US dollars.

    Raises:
        UsageError: for a limit without prices, or a price of cached tokens alone.

    Example:
        >>> budget = Budget(price_in=2.5, price_out=10)
        >>> budget.cost(Reply("yes", prompt_tokens=1000, completion_tokens=100))
        0.0035
    """

    of_this_process = {"_lock": threading.Lock, "_spending": lambda: None}

    def __init__(
        self,
        *,
        price_in: float | None = None,
        price_out: float | None = None,
        price_cached: float | None = None,
        limit: float | None = None,
        model: str = "",
    ) -> None:
        if limit is not None and (price_in is None or price_out is None):
            raise UsageError("a budget needs prices: add price_in=... and price_out=... (US dollars per million tokens)")
        if price_cached is not None and (price_in is None or price_out is None):
            raise UsageError("price_cached=... needs the other prices: add price_in=... and price_out=... (US dollars per million tokens)")
        self.price_in, self.price_out, self.price_cached, self.limit, self.model = price_in, price_out, price_cached, limit, model
        self.spent = 0.0
        self._spending: Spending | None = None
        self._lock = threading.Lock()

    def cost(self, reply: Reply | Completion) -> float | None:
        """US dollars for the call that gave ``reply``, or None when a price or a token count is not known."""
        return self.price(reply.prompt_tokens, reply.completion_tokens, reply.cached_tokens or 0)

    def price(self, read: int | None, written: int | None, cached: int = 0) -> float | None:
        """US dollars for these tokens, ``cached`` of them read from the provider's own cache. None when a count is unknown."""
        if self.price_in is None or self.price_out is None or read is None or written is None:
            return None
        full = self.price_in * read + self.price_out * written
        return (full if self.price_cached is None or not cached else full - cached * (self.price_in - self.price_cached)) / 1e6

    def spend(self, cost: float | None) -> None:
        """Add the cost of a call.

        Raises:
            FatalLLMError: when there is a limit that an unknown cost makes void.
        """
        if cost is None and self.limit is not None:
            raise FatalLLMError("the server does not tell how many tokens a call used, so a budget can't be kept: run without budget=")
        with self._lock:
            self.spent += cost or 0.0

    @contextmanager
    def counting(self, spending: Spending) -> Iterator[None]:
        """Until the block ends, the limit applies to all that is spent there."""
        before, self._spending = self._spending, spending
        try:
            yield
        finally:
            self._spending = before

    @property
    def used(self) -> float:
        """US dollars that count towards the limit."""
        return self.spent if self._spending is None else self._spending.total(self.model, self.price_in, self.price_out)

    def check(self, more: float = 0.0) -> None:
        """Make sure that another call may be sent, or a batch.

        Args:
            more: the maximum cost of a batch and of what is under way.

        Raises:
            BudgetExceeded: when the limit is reached, or would be exceeded.
            FatalLLMError: when it is not known what the run folder has cost.
        """
        if self.limit is not None and ((used := self.used) >= self.limit or used + more > self.limit):
            error = BudgetExceeded(spent=used, budget=self.limit, where="" if self._spending is None else self._spending.where)
            error.at_most = None if used >= self.limit else used + more
            raise error

    def progress(self) -> dict[str, str]:
        """The cost so far, for a progress bar. Empty when the prices are unknown."""
        if self.price_in is None or self.price_out is None:
            return {}
        return {"cost": f"${self.spent:.4f}" if self.limit is None else f"${self.used:.4f} of ${self.limit:g}"}
