"""What the demo says of its systems, and when a ledger is shown."""

import pytest

from pyterrier_ikat.cli import demo, output
from pyterrier_ikat.llms import Ledger
from pyterrier_ikat.methods import METHODS


def test_every_system_of_the_demo_is_a_method_whose_work_is_said():
    assert all(METHODS[name].summary for name in demo.SYSTEMS)


@pytest.mark.parametrize(
    ("counted", "shown"),
    [
        ({"known": 24, "cost": 0.0, "worth": None}, False),
        ({"known": 24, "worth": 0.5}, True),
        ({"calls": 2, "cost": None}, True),
        ({"calls": 2, "cost": 0.25}, True),
        ({"failures": 1}, True),
    ],
)
def test_no_ledger_where_nothing_was_asked_or_paid(counted, shown, capsys):
    ledger = Ledger()
    ledger.count("answer", "m", **counted)
    output.print_ledger(ledger)
    assert ("LLM ledger" in capsys.readouterr().out) is shown
