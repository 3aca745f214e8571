"""What the systems of a simulation cost: the same for each, whoever asked first, and after a stop."""

import math
import re

import pytest
from live.simulation.players import Chatty, judge, user

import pyterrier_ikat as ikat
from pyterrier_ikat.live.simulation import SessionsFailed, reading_notes, session_frames, simulation_table
from pyterrier_ikat.llms import LLM, Backend, Reply
from pyterrier_ikat.llms.cache import CompletionCache
from pyterrier_ikat.llms.ledger import Budget
from pyterrier_ikat.runs import Log
from pyterrier_ikat.show import ledger_frame, report

PER_CALL = 100 * 0.5 / 1000 + 10 * 2.0 / 1000  # 0.07 US dollars
USERS = [user("u1", patience=3), user("u2", patience=2)]


class Priced(Backend):
    """Reads 100 tokens and writes 10 in each call; half a dollar and two dollars per thousand."""

    model, identity = "priced", {"provider": "tests", "model": "priced", "params": {}}

    def complete(self, requests):
        return [Reply("Mate.", self.model, "stop", 100, 10) for _ in requests]


def priced(cache=None):
    return LLM(Priced(), cache=cache, budget=Budget(price_in=500.0, price_out=2000.0))


def turns(folder):
    return [turn for one in Log(folder).dialogues() for turn in one.turns]


def test_systems_that_need_the_same_calls_cost_the_same_whoever_asks_first(tmp_path):
    model = priced(CompletionCache(tmp_path / "cache.sqlite"))
    systems = {"first": ikat.Answer(model), "second": ikat.Answer(model)}
    table = ikat.simulate(systems, USERS, Chatty("And?"), judge(), out=tmp_path / "out", threads=1, baseline="first").table
    assert table["calls"].tolist() == [2.5, 2.5]
    assert table["cost"].tolist() == [pytest.approx(2.5 * PER_CALL)] * 2
    assert table["cost +"].tolist()[1] == table["cost -"].tolist()[1] == 0
    assert model.ledger.frame()["calls"].tolist() == [3]  # u2 says what u1 said: 3 different prompts
    paid = [(one.spend.calls, one.spend.known) for name in systems for one in turns(tmp_path / "out" / name)]
    assert sum(calls for calls, _ in paid) == 3
    assert sum(known for _, known in paid) == 7
    account = ledger_frame([tmp_path / "out" / name for name in systems])
    assert account["cost"].sum() == pytest.approx(3 * PER_CALL)  # what was paid
    assert account["worth"].sum() == pytest.approx(7 * PER_CALL)
    notes = str(simulation_table(session_frames({name: Log(tmp_path / "out" / name).dialogues() for name in systems}), "first"))
    assert "Seconds depend on the order of sessions" in notes
    told = " ".join(" ".join(reading_notes({name: Log(tmp_path / "out" / name) for name in systems}, "chatty", "chatty")).split())
    assert "7 of the 10 completions of the systems came from a recording or the cache. They took no time here, and count" in told


def test_a_turn_that_is_repeated_after_a_stop_costs_what_it_cost(tmp_path):
    class Broken:
        identity, broken = "broken judge", True

        def met(self, situation, utterance, text):
            if self.broken:
                raise ikat.DataError("the judge is away: wait")
            return []

    model, judged = priced(CompletionCache(tmp_path / "cache.sqlite")), Broken()
    given = ({"one": ikat.Answer(model)}, USERS[:1], Chatty("And?"), judged)
    with pytest.raises(SessionsFailed):
        ikat.simulate(*given, out=tmp_path / "out")
    judged.broken = False
    assert ikat.simulate(*given, out=tmp_path / "out").table["cost"].tolist() == [pytest.approx(3 * PER_CALL)]
    assert turns(tmp_path / "out" / "one")[0].spend.cost == 0


def test_the_cost_of_recorded_completions_is_unknown(tmp_path):
    recorded = tmp_path / "recorded.jsonl"
    recorded.write_text('{"qid": "u1_1", "stage": "answer", "completion": "Mate.", "model": "m"}\n')
    systems = {"asks": ikat.Answer(ikat.llm(f"recorded:{recorded}")), "silent": ikat.RawUtterance()}
    table = ikat.simulate(systems, [user("u1", patience=1)], Chatty("And?"), judge(), out=tmp_path / "out", baseline="silent").table
    assert table["calls"].tolist() == [1, 0]
    assert math.isnan(table["cost"].iloc[0])
    assert table["cost"].iloc[1] == 0
    assert (table["cost +"].iloc[0], table["cost -"].iloc[0], bool(table["cost reject"].iloc[0])) == (None, None, False)


def test_a_report_marks_no_simulated_system_as_faster(tmp_path):
    systems = {"a": ikat.RawUtterance(), "b": ikat.RawUtterance()}
    ikat.simulate(systems, USERS, Chatty("And?"), judge(), out=tmp_path)
    html = report([tmp_path / "a", tmp_path / "b"]).html
    header = {name: re.search(rf'<th scope="col">{name}</th>(.*?)</tr>', html, re.S)[1] for name in ("seconds", "calls")}
    assert ["difference" in header[name] for name in header] == [False, True]
    assert ">seconds</option>" not in html
    assert "No system is marked as faster" in html
