"""What the calls of a stage count and cost, and how far the stage came."""

import time
from contextlib import suppress

import pytest
from chat_server import ask, refused
from scripted import PRICES, Script, echo, made, row, texts

from pyterrier_ikat.events import hearing
from pyterrier_ikat.llms import BudgetExceeded, Completion, FatalLLMError, Reply, Transient
from pyterrier_ikat.llms.cache import CompletionCache
from pyterrier_ikat.llms.failures import BadRequest, Unanswered, Unavailable, WrongAnswers
from pyterrier_ikat.llms.ledger import Budget, Spend
from pyterrier_ikat.llms.sending import Tries


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


@pytest.mark.parametrize(
    ("whys", "counted"),
    [
        ([None], [{"calls": 1}]),
        ([Unanswered.LOST], [{"unanswered": 1}]),
        ([Unanswered.UNSENT], [{}]),
        ([Unanswered.UNSENT, None], [{}, {"calls": 1}]),
        ([None, None], [{"calls": 1}, {"retries": 1}]),
        ([None, Unanswered.LOST], [{"calls": 1}, {"retries": 1}]),
        ([Unanswered.LOST, Unanswered.REFUSED], [{"unanswered": 1}, {"retries": 1}]),
        (
            [Unanswered.REFUSED, None, None],
            [{"unanswered": 1}, {"retries": 1, "calls": 1, "unanswered": -1}, {"retries": 1}],
        ),
    ],
)
def test_each_try_adds_what_makes_calls_retries_and_unanswered(whys, counted):
    tries = Tries()
    assert [tries.counts("a", why) for why in whys] == counted
    assert tries.counts("another", None) == {"calls": 1}


COUNTED = ("calls", "retries", "unanswered", "failures", "known", "prompt_tokens", "cost")


def test_a_failed_try_counts_its_cost_the_next_its_answers(monkeypatch):
    clock = iter([0.0, 1.0, 5.0, 10.0, 11.0, 16.0])
    monkeypatch.setattr(time, "perf_counter", lambda: next(clock))
    paid = [Reply(None, "m-1", prompt_tokens=10, completion_tokens=0), Reply(None, "m-2")]
    slept = []
    model, entries = made(
        Script(Transient(2.0, "no text", paid=paid), batch_size=2),
        slept=slept,
        budget=Budget(**PRICES),
    )
    requests = ask("a", "b")
    keys = [request.key(model.backend.identity) for request in requests]
    assert texts(model.ask(requests)) == ["a", "b"]
    assert slept == [2.0]
    assert [(entry.key, entry.answered, entry.served) for entry in entries] == [
        (keys[0], False, "m-1"),
        (keys[1], False, "m-2"),
        (keys[0], True, None),
        (keys[1], True, None),
    ]
    assert [entry.increments for entry in entries] == [
        spent(10, 0, 2.0, 1.0, calls=1),
        spent(None, None, 2.0, None, calls=1),
        spent(10, 1, 3.0, 2.0, retries=1, failures=0),
        spent(10, 1, 3.0, 2.0, retries=1, failures=0),
    ]


def spent(read, written, seconds, cost, **counts):
    return {
        "prompt_tokens": read,
        "cached_tokens": None,
        "completion_tokens": written,
        "seconds": seconds,
        "cost": cost,
        **counts,
    }


@pytest.mark.parametrize(
    ("error", "more", "lost"),
    [
        (Transient(0.0, "busy"), {"unanswered": 1}, False),
        (Transient(0.0, "away", unanswered=Unanswered.LOST), {"unanswered": 1}, True),
        (Transient(0.0, "away", unanswered=Unanswered.UNSENT), {}, False),
        (FatalLLMError("no key"), {"unanswered": 1}, False),
        (ZeroDivisionError(), {"unanswered": 1}, True),
        (KeyboardInterrupt(), {"unanswered": 1}, True),
    ],
    ids=["refused", "lost", "unsent", "fatal", "a bug", "interrupted"],
)
def test_what_a_try_without_answers_costs_depends_on_its_error(error, more, lost):
    model, entries = made(Script(error, batch_size=2), tries=1)
    with suppress(BaseException):
        model.ask(ask("a" * 40, "b" * 4))
    found = []
    for entry in entries[:2]:
        increments = dict(entry.increments)
        assert increments.pop("seconds") >= 0
        assert not entry.answered
        found.append(increments)
    first, second = ({"lost_tokens": 10}, {"lost_tokens": 1}) if lost else ({}, {})
    unknown = {"cost": None} if lost else {}
    assert found == [{**first, **unknown, **more}, {**second, **unknown, **more}]


def test_a_replay_that_fails_counts_nothing():
    model, entries = made(Script(ZeroDivisionError(), replays=True))
    with pytest.raises(ZeroDivisionError):
        model.ask(ask("a"))
    assert entries == []


@pytest.mark.parametrize("cache", [None, ":memory:"])
def test_how_far_a_stage_came_counts_what_is_kept(cache):
    kept = None if cache is None else CompletionCache(cache)
    model, _ = made(Script(echo, echo, FatalLLMError("no key"), concurrency=1), cache=kept)
    with pytest.raises(FatalLLMError) as raised:
        model.ask(ask(*"abcde"))
    error = raised.value
    done = 0 if cache is None else 2
    assert (error.done, error.left, error.kept_in) == (done, 5 - done, "process" if cache else "")


def test_the_estimate_for_the_rest_is_of_the_calls_of_this_ask():
    budget = Budget(**PRICES, limit=5.0)
    budget.spend(1.0)
    model, _ = made(Script(concurrency=1), budget=budget)
    with pytest.raises(BudgetExceeded) as raised:
        model.ask(ask(*"abcdef"))
    assert raised.value.about == pytest.approx(4 * 2.0)  # two of six were answered
    with pytest.raises(BudgetExceeded) as raised:
        model.ask(ask("g"))
    assert raised.value.about is None


def test_an_unusable_answer_is_not_done_and_counts():
    empty = [lambda requests: [Reply("", prompt_tokens=10, completion_tokens=1)]]
    model, _ = made(
        Script(*empty, echo, FatalLLMError("no key"), concurrency=1),
        cache=CompletionCache(":memory:"),
        budget=Budget(**PRICES),
    )
    with pytest.raises(FatalLLMError) as raised:
        model.ask(ask("a", "b", "c"))
    assert (raised.value.done, raised.value.left) == (1, 2)
    assert row(model, *COUNTED) == [2, 0, 1, 1, 0, 20, 4.0]


def test_failures_in_a_batch_are_counted_by_reason():
    def step(requests):
        lost, refused_one, _ = requests
        return [
            Unavailable(lost.stage, lost.qid, "away", unanswered=Unanswered.LOST),
            BadRequest(refused_one.stage, refused_one.qid, "no"),
            Reply("c"),
        ]

    model, entries = made(Script(step, batch_size=3))
    assert texts(model.ask(ask(*"abc"))) == ["Unavailable", "BadRequest", "c"]
    counts = [dict(entry.increments) for entry in entries]
    assert [one.get("unanswered", 0) for one in counts] == [1, 1, 0]
    assert ["lost_tokens" in one for one in counts] == [True, False, False]
    assert row(model, "calls", "failures", "unanswered", "cost") == [1, 2, 2, None]


def test_known_outcomes_are_counted_for_each_request_by_itself():
    cache = CompletionCache(":memory:")
    budget = Budget(**PRICES)
    model, entries = made(Script(), cache=cache, budget=budget)
    requests = ask("a", "a")
    first, second = model.ask(requests)
    assert (first.cached, second.cached) == (False, True)
    (third,) = model.ask(ask("a", stage="rewrite"))
    assert (third.cached, third.text) == (True, "a")
    key = requests[0].key(model.backend.identity)
    known = {"known": 1, "worth": 2.0}
    assert [entry[:4] for entry in entries[1:]] == [
        ("answer", "script", known, "script"),
        ("rewrite", "script", known, "script"),
    ]
    assert [entry.key for entry in entries] == [key] * 3


def test_an_ask_is_told_with_its_exchanges_and_its_cost():
    model, _ = made(Script(echo, FatalLLMError("no key")), budget=Budget(**PRICES))
    follow_up = ask("b")[0]
    with hearing() as heard:
        model.ask(ask("a"), lambda position, outcome: None)
        with pytest.raises(FatalLLMError):
            model.ask([follow_up])
    first, second = heard
    [(request, completion)] = first.exchanges
    assert request.messages[0]["content"] == "a"
    assert completion.text == "a"
    assert first.llm is model
    assert first.spend == Spend(1, 0, 10, None, 1, 2.0, 0.0, 0)
    assert (second.exchanges, second.spend) == ([], Spend(unanswered=1))


def test_the_costs_of_all_calls_of_an_ask_add_up():
    model, _ = made(Script(), budget=Budget(**PRICES))
    with hearing() as heard:
        model.ask(ask("a", "b", "a"))
    assert heard[0].spend.calls == model.ledger.total().calls == 2
    assert (heard[0].spend.known, heard[0].spend.cost) == (1, 4.0)


def test_wrong_answers_of_an_object_are_paid_before_the_error():
    paid = [Reply(None, "m", prompt_tokens=10, completion_tokens=1)]
    model, entries = made(Script(WrongAnswers("no texts", paid)), budget=Budget(**PRICES))
    with pytest.raises(WrongAnswers):
        model.ask(ask("a"))
    assert [entry.increments["cost"] for entry in entries] == [2.0]
    unpaid, entries = made(Script(WrongAnswers("one for two")))
    with pytest.raises(WrongAnswers):
        unpaid.ask(ask("a"))
    assert [entry.increments.get("unanswered") for entry in entries] == [1]


def test_the_time_of_a_call_is_shared_by_those_that_it_asks(monkeypatch):
    clock = iter([0.0, 0.0, 4.0, 10.0, 10.0, 16.0])
    monkeypatch.setattr(time, "perf_counter", lambda: next(clock))
    cache = CompletionCache(":memory:")
    key = ask("b")[0].key(Script().identity)

    def step(requests):
        cache.put(key, Completion("theirs", "script", None, 1, 1, 0.1, False))
        raise Transient(0.0, "busy")

    model, entries = made(Script(step, batch_size=2), cache=cache)
    assert texts(model.ask(ask("a", "b"))) == ["a", "theirs"]
    assert [entry.increments["seconds"] for entry in entries if entry.key != key] == [2.0, 6.0]
