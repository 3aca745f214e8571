"""Requests that follow from answers: one stage with the others, and as far as a stage comes."""

from itertools import chain

import pytest
from chat_server import ask
from scripted import Script, echo, made, texts

from pyterrier_ikat.llms import LLM, Backend, BudgetExceeded, Reply, Request, sending
from pyterrier_ikat.llms.cache import CompletionCache
from pyterrier_ikat.llms.ledger import Budget


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


def test_follow_ups_get_each_position_its_own_outcome():
    asked = []

    def then(position, outcome):
        asked.append((position, outcome.text, outcome.cached))
        return ask(f"{outcome.text}{position}")[0] if len(outcome.text) < 3 else None

    backend = Script(concurrency=1)
    model, _ = made(backend)
    assert texts(model.ask(ask("a", "b", "a"), then)) == ["a00", "b11", "a22"]
    assert sorted(asked) == [
        (0, "a", False),
        (0, "a0", False),
        (0, "a00", False),
        (1, "b", False),
        (1, "b1", False),
        (1, "b11", False),
        (2, "a", True),
        (2, "a2", False),
        (2, "a22", False),
    ]
    assert len(backend.calls) == 8


def test_an_error_of_a_follow_up_begins_no_further_call(monkeypatch):
    pools, start = [], sending.Pool.start

    def kept(self, threads):
        pools.append(self)
        start(self, threads)

    def second(requests):
        pools[0]._stop.wait(10)
        return echo(requests)

    def then(position, outcome):
        raise ZeroDivisionError

    monkeypatch.setattr(sending.Pool, "start", kept)
    backend = Script(echo, second, concurrency=1)
    model, _ = made(backend)
    with pytest.raises(ZeroDivisionError):
        model.ask(ask(*"abcdefgh"), then)
    assert backend.calls == [["a"], ["b"]]
    assert not any(thread.is_alive() for thread in pools[0]._threads)


class Adds(Backend):
    """Answers a number with the next one."""

    model = "adds"

    def __init__(self, concurrency=2, batch_size=1):
        self.identity = {"provider": "fake", "model": str(id(self))}
        self.batches = []
        self.concurrency = concurrency
        self.batch_size = batch_size

    def complete(self, requests):
        numbers = [request.messages[0]["content"] for request in requests]
        self.batches.append(numbers)
        replies = []
        for number in numbers:
            replies.append(Reply(str(int(number) + 1), prompt_tokens=1, completion_tokens=0))
        return replies


def request(number, qid="1_1"):
    return Request([{"role": "user", "content": str(number)}], stage="count", qid=qid)


def up_to(highest, seen=None):
    def then(place, outcome):
        if seen is not None:
            seen.append((place, outcome.text))
        return request(outcome.text) if int(outcome.text) < highest else None

    return then


def counts(llm):
    return llm.ledger.frame()[["calls", "known"]].values.tolist()[0]


def cached(backend, path=":memory:"):
    return LLM(backend, cache=CompletionCache(path))


def test_a_request_follows_each_answer_and_the_last_is_given():
    seen = []
    llm = LLM(Adds())
    outcomes = llm.ask([request(0), request(10)], up_to(13, seen), calls=16)
    assert [outcome.text for outcome in outcomes] == ["13", "13"]
    assert [text for place, text in seen if place == 1] == ["11", "12", "13"]
    assert len(seen) == 16
    assert counts(llm) == [13, 3]  # 10, 11 and 12 come up twice


def test_the_same_question_is_asked_once_however_it_came_up():
    backend = Adds()
    llm = cached(backend)
    outcomes = llm.ask([request(0), request(0), request(2)], up_to(4))
    assert [outcome.text for outcome in outcomes] == ["4", "4", "4"]
    assert sorted(chain.from_iterable(backend.batches)) == ["0", "1", "2", "3"]
    assert counts(llm) == [4, 6]


def test_what_is_cached_costs_nothing_and_opens_nothing(tmp_path):
    cached(Adds(), tmp_path / "c").ask([request(0)], up_to(3))
    again = Adds()
    again.identity = {"provider": "fake", "model": "same"}
    llm = cached(again, tmp_path / "d")
    llm.ask([request(0)], up_to(3))
    again.open = lambda: pytest.fail("nothing is to be asked")
    [outcome] = llm.ask([request(0)], up_to(3))
    assert outcome.cached is True
    assert counts(llm) == [3, 3]


def test_an_interrupted_chain_goes_on_behind_what_is_kept(tmp_path):
    backend = Adds()
    llm = cached(backend, tmp_path / "c")
    llm.ask([request(0)], up_to(2))
    assert llm.ask([request(0)], up_to(5))[0].text == "5"
    assert [batch[0] for batch in backend.batches] == ["0", "1", "2", "3", "4"]


def test_a_batching_model_gets_following_requests_together():
    backend = Adds(concurrency=1, batch_size=3)
    LLM(backend).ask(
        [request(0), request(10), request(20)],
        lambda place, outcome: up_to(30)(place, outcome) if place else None,
    )
    assert backend.batches[:2] == [["0", "10", "20"], ["11", "21"]]


def test_the_budget_ends_a_chain_and_says_what_calls_are_left():
    llm = LLM(
        Adds(concurrency=1),
        cache=CompletionCache(":memory:"),
        budget=Budget(price_in=1e6, price_out=0, limit=2),
    )
    with pytest.raises(BudgetExceeded) as raised:
        llm.ask([request(0)], up_to(9), calls=9)
    assert (raised.value.done, raised.value.left, raised.value.about) == (2, 7, 7.0)
