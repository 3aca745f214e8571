"""What a simulation costs: its systems the same, whoever asked first, and users and judge apart."""

import math
import re

import pytest
from click.testing import CliRunner
from live.simulation.players import Chatty, Phrases, user

import pyterrier_ikat as ikat
from pyterrier_ikat.cli import main
from pyterrier_ikat.live.simulation import SessionsFailed
from pyterrier_ikat.llms import LLM, Backend, Reply
from pyterrier_ikat.llms.cache import CompletionCache
from pyterrier_ikat.llms.ledger import Budget
from pyterrier_ikat.runs import Log
from pyterrier_ikat.show import ledger_frame, report

PER_CALL = 100 * 0.5 / 1000 + 10 * 2.0 / 1000  # 0.07 US dollars
USERS = [user("u1", patience=3), user("u2", patience=2)]


class Priced(Backend):
    """Reads 100 tokens, writes 10; .5 and 2 dollars per thousand. None is asked for in vain."""

    identity = {"provider": "tests", "model": "priced", "params": {}}

    def __init__(self, **texts):
        self.model = "priced"
        self.texts = {
            "answer": "Mate.",
            "simulate_user": "Tea?",
            "simulate_judge": '["no", "no"]',
            **texts,
        }

    def complete(self, requests):
        replies = []
        for one in requests:
            text = self.texts[one.stage] or ""
            replies.append(Reply(text, self.model, "stop", 100, 10))
        return replies


def priced(cache=None, **texts):
    return LLM(Priced(**texts), cache=cache, budget=Budget(price_in=500.0, price_out=2000.0))


def turns(folder):
    played = []
    for one in Log(folder).dialogues():
        played.extend(one.turns)
    return played


def test_systems_with_the_same_calls_cost_the_same_in_any_order(tmp_path):
    model = priced(CompletionCache(tmp_path / "cache.sqlite"))
    systems = {"first": ikat.Answer(model), "second": ikat.Answer(model)}
    done = ikat.simulate(
        systems, USERS, Chatty("And?"), Phrases(), out=tmp_path / "out", threads=1, baseline="first"
    )
    assert done.table["calls"].tolist() == [2.5, 2.5]
    assert done.table["cost"].tolist() == [pytest.approx(2.5 * PER_CALL)] * 2
    assert done.table["cost +"].tolist()[1] == done.table["cost -"].tolist()[1] == 0
    assert model.ledger.frame()["calls"].tolist() == [
        3
    ]  # u2 says what u1 said: 3 different prompts
    spend = []
    for name in systems:
        spend.extend(turn.spend for turn in turns(tmp_path / "out" / name))
    assert sum(one.calls for one in spend) == 3
    assert sum(one.known for one in spend) == 7
    account = ledger_frame([tmp_path / "out" / name for name in systems])
    assert account["stage"].tolist() == ["all", "all"]  # a script plays the users
    assert account["cost"].sum() == pytest.approx(3 * PER_CALL)  # what was paid
    assert account["worth"].sum() == pytest.approx(7 * PER_CALL)
    notes = " ".join(repr(done).split())
    assert "Seconds are not tested, because sessions share" in notes
    assert (
        "7 of the 10 completions of the systems came from a recording or the cache. They took "
        "no time here, and count" in notes
    )
    html = report([tmp_path / "out" / name for name in systems]).html
    header = {}
    for name in ("seconds", "calls"):
        button = "(?:<button[^>]*>)?"
        header[name] = re.search(rf">{name}(?:</button>)?</th>\s*<th[^>]*>{button}(\w+)", html)[1]
    # no system is marked as faster
    assert [following == "difference" for following in header.values()] == [False, True]


def test_after_a_stop_the_ledger_has_the_cost_of_finished_turns(tmp_path):
    model = priced(CompletionCache(tmp_path / "cache.sqlite"))
    player = priced()
    given = ({"one": ikat.Answer(model)}, USERS[:1], player)
    with pytest.raises(SessionsFailed):
        ikat.simulate(*given, priced(simulate_judge=None), out=tmp_path / "out")
    done = ikat.simulate(*given, priced(), out=tmp_path / "out")
    assert done.table["cost"].tolist() == [pytest.approx(3 * PER_CALL)]
    assert turns(tmp_path / "out" / "one")[0].spend.cost == 0  # it was paid before the stop
    account = ledger_frame([tmp_path / "out" / "one"]).set_index("stage")
    assert account["calls"].to_dict() == {"all": 2, "user and judge": 6}
    assert account.loc["user and judge", "cost"] == pytest.approx(6 * PER_CALL)
    shown = CliRunner().invoke(main, ["evaluate", "--cost", str(tmp_path / "out" / "one")])
    assert "user and judge" in shown.output
    assert f"{6 * PER_CALL:.4f}" in shown.output


def test_the_cost_of_recorded_completions_is_unknown(tmp_path):
    recorded = tmp_path / "recorded.jsonl"
    recorded.write_text('{"qid": "u1_1", "stage": "answer", "completion": "Mate.", "model": "m"}\n')
    systems = {"asks": ikat.Answer(ikat.llm(f"recorded:{recorded}")), "silent": ikat.RawUtterance()}
    table = ikat.simulate(
        systems,
        [user("u1", patience=1)],
        Chatty("And?"),
        Phrases(),
        out=tmp_path / "out",
        baseline="silent",
    ).table
    assert table["calls"].tolist() == [1, 0]
    assert math.isnan(table["cost"].iloc[0])
    assert table["cost"].iloc[1] == 0
    assert (
        table["cost +"].iloc[0],
        table["cost -"].iloc[0],
        bool(table["cost reject"].iloc[0]),
    ) == (None, None, False)
