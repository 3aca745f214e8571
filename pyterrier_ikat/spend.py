"""What completions of language models came to: the one value that every ledger, turn, budget and simulation adds up."""

from dataclasses import dataclass

Number = int | float | None
"""An amount; None if it is not known."""


def plus(one: Number, other: Number) -> Number:
    """The sum of two amounts; with one that is not known, it is not known."""
    return None if one is None or other is None else one + other


@dataclass(frozen=True)
class Spend:
    """What completions came to; sums of it are `Spend`, too.

    An unknown amount is None, and so is a sum with one: it never counts as 0.

    Attributes:
        calls: completions that were paid for.
        known: completions that were known before: from a cache, or a recording.
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
        """US dollars of all these completions: the same for every system that needs them, whoever asked first."""
        return plus(self.cost, self.worth)
