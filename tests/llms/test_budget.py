"""What calls cost: known only from prices and counts; nothing is sent once the limit is reached."""

import pytest

from pyterrier_ikat.errors import UsageError
from pyterrier_ikat.llms import BudgetExceeded, FatalLLMError, Reply
from pyterrier_ikat.llms.ledger import Budget


@pytest.mark.parametrize("missing", ["price_in", "price_out", "prompt_tokens", "completion_tokens"])
def test_a_cost_needs_both_prices_and_both_counts(missing):
    prices = {"price_in": 3.0, "price_out": 5.0}
    counts = {"prompt_tokens": 20, "completion_tokens": 10}
    assert Budget(**prices).cost(Reply("yes", **counts)) == pytest.approx(
        (3 * 20 + 5 * 10) / 1_000_000
    )
    for known in (prices, counts):
        known.pop(missing, None)
    assert Budget(**prices).cost(Reply("yes", **counts)) is None


@pytest.mark.parametrize("prices", [{}, {"price_in": 1}, {"price_out": 1}])
def test_a_limit_needs_both_prices(prices):
    with pytest.raises(UsageError, match="a budget needs prices"):
        Budget(**prices, limit=5)


def test_nothing_is_sent_once_the_limit_is_reached_to_the_cent():
    budget = Budget(price_in=1, price_out=1, limit=0.75)
    budget.spend(0.5)
    budget.check()
    budget.spend(0.25)
    with pytest.raises(BudgetExceeded, match="budget of 0.75 USD is spent"):
        budget.check()


def test_an_unknown_cost_adds_nothing_and_makes_a_limit_void():
    unlimited = Budget(price_in=1, price_out=1)
    unlimited.spend(0.5)
    unlimited.spend(None)
    assert unlimited.spent == 0.5
    with pytest.raises(FatalLLMError, match="a budget can't be kept"):
        Budget(price_in=1, price_out=1, limit=5).spend(None)
