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


@pytest.mark.parametrize("option", ["limit", "price_cached"])
@pytest.mark.parametrize("prices", [{}, {"price_in": 1}, {"price_out": 1}])
def test_a_limit_needs_both_prices(prices, option):
    with pytest.raises(UsageError, match="a budget needs prices"):
        Budget(**prices, **{option: 5})


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


@pytest.mark.parametrize(
    ("cached", "millionths"),
    [(None, 2000), (0, 2000), (900, 650), (1000, 500), (5000, 500)],  # no more than were read
)
def test_cached_tokens_cost_their_own_price_up_to_the_prompts(cached, millionths):
    budget = Budget(price_in=2, price_out=10, price_cached=0.5)
    assert budget.price(1000, 0, cached) == pytest.approx(millionths / 1e6)


def test_a_batch_may_use_the_rest_of_a_budget_and_no_more():
    budget = Budget(price_in=1, price_out=1, limit=0.75)
    budget.spend(0.5)
    budget.check(0.25)
    with pytest.raises(BudgetExceeded) as raised:
        budget.check(0.375)
    assert "0.375" in str(raised.value) or "0.38" in str(raised.value)


class Folder:
    """The cost of a folder of runs."""

    where = "the folder"

    def __init__(self, dollars):
        self.dollars = dollars

    def total(self, model, price_in, price_out):
        assert (model, price_in, price_out) == ("m", 1, 2)
        return self.dollars


def test_a_folders_cost_counts_until_its_block_ends():
    budget = Budget(price_in=1, price_out=2, limit=5, model="m")
    budget.spend(1.0)
    with budget.counting(Folder(2.0)):
        with budget.counting(Folder(3.0)):
            assert budget.used == 3.0
        assert budget.used == 2.0
    assert budget.used == 1.0


def test_free_models_and_a_limit_of_nothing_are_a_budget():
    free = Budget(price_in=0, price_out=0, limit=0)
    assert free.cost(Reply("yes", prompt_tokens=5, completion_tokens=5)) == 0.0
    with pytest.raises(BudgetExceeded):
        free.check()
    with pytest.raises(FatalLLMError):
        free.spend(None)
    with pytest.raises(UsageError):
        Budget(limit=0)
    with pytest.raises(UsageError):
        Budget(price_cached=0)
    cached = Budget(price_in=2, price_out=10, price_cached=0)
    assert cached.price(1000, 0, 400) == pytest.approx(2 * 600 / 1e6)


def test_a_budget_says_how_much_of_what_is_spent():
    budget = Budget(price_in=1, price_out=2, limit=2.5, model="m")
    budget.spend(0.5)
    budget.spend(0.5)
    assert budget.spent == 1.0
    with budget.counting(Folder(2.0)):
        budget.check(0.5)
        with pytest.raises(BudgetExceeded) as raised:
            budget.check(0.75)
    assert vars(raised.value) == {
        "spent": 2.0,
        "budget": 2.5,
        "where": "the folder",
        "more": 0.75,
    }
    with pytest.raises(BudgetExceeded) as raised:
        budget.check(1.75)
    assert vars(raised.value) == {"spent": 1.0, "budget": 2.5, "where": "", "more": 1.75}


def test_a_folder_is_left_also_by_an_error():
    budget = Budget(price_in=1, price_out=2, model="m")
    with pytest.raises(ZeroDivisionError), budget.counting(Folder(2.0)):
        raise ZeroDivisionError
    assert budget.used == 0.0
