"""What the demo ends with: the winner's reason, and a turn where it shows."""

import pandas as pd
import pytest

from pyterrier_ikat.cli import demo, output
from pyterrier_ikat.llms import Ledger
from pyterrier_ikat.methods import METHODS


class Folder:
    """A run of two turns."""

    def __init__(self, score, **turn):
        self.score, self.turn = score, turn

    def measures(self):
        return pd.DataFrame({"nDCG@5": [0.1, self.score]}, index=["1-1_1", "3-1_2"])

    def turns(self):
        return [{"qid": "1-1_1"}, {"qid": "3-1_2", "qutterance": "Which one for me?", **self.turn}]


def test_the_winner_is_explained_and_a_turn_shows_it():
    folders = {
        "raw": Folder(0.0),
        "qr": Folder(0.42, qrewrite="best quiet instrument"),
        "ad": Folder(0.66, qanswer=" ".join(["word"] * 30)),
        "aqd": Folder(0.876, qanswer="An answer.", qsubqueries=["ukulele", "kalimba"]),
    }
    lines = list(demo._why({"raw": 0.4, "qr": 0.6, "ad": 0.7, "aqd": 0.8608}, folders))
    said = " ".join(" ".join(lines).split())
    assert "aqd has the highest nDCG@5 (.8608): it asks for an answer, makes 5 queries of it and merges their lists." in said
    assert 'raw .0000 "Which one for me?"' in said
    assert 'qr .4200 "best quiet instrument"' in said
    assert f'ad .6600 "{" ".join(["word"] * 20)} ..."' in said
    assert 'aqd .8760 2 queries: "ukulele"; "kalimba"' in said
    assert max(map(len, "\n".join(lines).splitlines())) <= 80


def test_every_system_of_the_demo_is_a_method_whose_work_is_said():
    assert demo.WHAT_THEY_DO.keys() <= METHODS.keys()


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
