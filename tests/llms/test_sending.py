"""One stage's calls on their way: what the progress bar shows, whose time is counted, what is
named."""

import pytest
from chat_server import ask, refused, said

from pyterrier_ikat import progress
from pyterrier_ikat.llms import Backend, BudgetExceeded, Reply, llm, sending


@pytest.fixture
def bars(monkeypatch):
    """The counts that were shown."""
    made = []

    def noted(**given):
        made.append(progress.bar(**given))
        return made[-1]

    monkeypatch.setattr(sending, "bar_of", noted)
    return made


def test_the_bar_counts_what_is_sent_cached_failed_and_paid(model, server, bars):
    made = model("price_in=1000 price_out=1000")
    made.ask(ask("a"))
    server.respond = lambda body: (
        refused(400) if body["messages"][0]["content"] == "bad" else said()
    )
    made.ask([*ask("a", "bad", "b"), *ask("c", stage="rewrite")])
    assert [str(one) for one in bars] == [
        "answer (m) 1/1, cost=$0.0100",
        "answer, rewrite (m) 3/3, cached=1, failed=1, cost=$0.0300",
    ]


class Own(Backend):
    """A user's own backend, whose answers ``work`` makes from the question."""

    model, identity = "own", {"provider": "own"}

    def __init__(self, work):
        self.work = work

    def complete(self, requests):
        return [self.work(request.messages[0]["content"]) for request in requests]


def test_a_completion_without_model_name_has_that_of_the_backend():
    named, unnamed = llm(Own(lambda text: Reply("fine", model=text or None))).ask(
        ask("own-2026-01-31", "")
    )
    assert (named.model, unnamed.model) == ("own-2026-01-31", "own")


def test_a_follow_up_that_was_answered_before_is_not_asked_again(model, server):
    made = model("cache=none")
    (first,) = ask("a")
    follow_ups = {"answer to a": ask("b")[0], "answer to b": first}
    asked = []

    def then(position, outcome):
        asked.append(outcome.text)
        return follow_ups[outcome.text] if len(asked) < 3 else None

    (last,) = made.ask([first], then)
    assert asked == ["answer to a", "answer to b", "answer to a"]
    assert (last.text, last.cached, server.calls) == ("answer to a", True, 2)
    assert made.ledger.frame()[["calls", "known"]].values.tolist() == [[2, 1]]


def test_the_bar_counts_follow_ups_that_are_announced_or_come(model, bars):
    made = model()
    made.ask(ask("a"))
    made.ask(
        ask("a", "b"), lambda position, outcome: ask("c")[0] if "b" in outcome.text else None, 3
    )
    assert [bar.total for bar in bars] == [1, 2]  # one of the three was known


def test_a_replay_shows_no_bar(monkeypatch):
    shown = []
    monkeypatch.setattr(
        sending, "bar_of", lambda **given: shown.append(given) or progress.bar(**given)
    )
    request = ask("x", stage="rewrite", prompt="rewrite")[0]
    made = llm(Own(lambda text: Reply("fine")))
    made.ask([request])
    made.backend.replays = True
    made.ask([request])
    assert [given["disable"] for given in shown] == [False, True]


def test_the_estimate_after_a_budget_is_of_this_stages_calls(model, server):
    made = model("budget=4.5 price_in=100000 price_out=100000 concurrency=1")
    made.ask(ask("a", "b"))  # a dollar each
    with pytest.raises(BudgetExceeded) as raised:
        made.ask(ask(*"cdefgh"))
    assert (raised.value.done, raised.value.left) == (3, 3)
    assert raised.value.about == pytest.approx(3.0)


def test_a_failure_is_counted_for_the_turn_that_repeats_it(model, server):
    server.respond = lambda body: refused(400, "no")
    made = model()
    made.ask(ask("same", "same", "same"))
    columns = ["calls", "unanswered", "known", "failures"]
    assert (server.calls, made.ledger.frame()[columns].values.tolist()) == (1, [[0, 1, 0, 3]])
