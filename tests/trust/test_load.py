"""60 turns through a server that answers slowly, refuses and drops calls.

Nothing lost, nothing paid twice, every failure named.

The whole, 332 turns and 25 systems, is the benchmark ``experiments/performance/load.py``; its
server and its checks are used here.
"""

from pathlib import Path

import pytest

import pyterrier_ikat as ikat

PERFORMANCE = Path(__file__).parents[2] / "experiments" / "performance"
TURNS, SYSTEMS = 60, ("ad", "aqd")


@pytest.fixture
def load(monkeypatch):
    """The benchmark's module, with a server that doesn't wait, and fails more requests for long."""
    monkeypatch.syspath_prepend(str(PERFORMANCE))
    import load
    import load_server

    for name, value in {"PAUSE": 0, "LONG_PAUSE": 0.01, "LASTING": 0.01}.items():
        monkeypatch.setattr(load_server, name, value)
    monkeypatch.setattr(load, "SHORTER", 10_000)
    return load


def test_turns_are_answered_once_each_and_all_failed_are_named(load, tmp_path):
    chat, failures, ledger, figures = load.under_load(tmp_path, SYSTEMS, TURNS)
    load.check(chat, failures, ledger)
    load.untroubled(tmp_path, SYSTEMS, TURNS)
    assert load.differences(tmp_path, SYSTEMS) == []
    for name in SYSTEMS:
        folder = ikat.runs.RunFolder(tmp_path / "troubled" / name)
        assert [turn["qid"] for turn in folder.turns()] == turns(load)
    counted = ledger.frame()
    assert counted["stage"].tolist() == ["answer", "queries"]
    assert len(chat.asked) == figures["distinct requests"] == 2 * TURNS
    # A request that failed for long had no answer, and was a call when it was asked again; all its
    # other tries are retries.
    assert counted["calls"].sum() == 2 * TURNS
    assert counted["unanswered"].sum() == len(chat.lasting)
    assert counted["retries"].sum() == chat.troubles["dropped"] + chat.troubles["refused"] - len(
        chat.lasting
    )
    assert min(chat.troubles["dropped"], chat.troubles["refused"]) > 0.02 * figures["calls"]
    assert len(failures) == len(chat.lasting) > 1
    # One start stops both systems: ad at its answers, and aqd, which has these answers then, at its
    # queries.
    assert ({failure.stage for failure in failures}, figures["times that the run was started"]) == (
        {"answer", "queries"},
        2,
    )


def turns(load):
    return load.Sample(TURNS).get_topics()["qid"].tolist()
