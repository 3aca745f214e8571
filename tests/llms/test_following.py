"""Requests that follow from answers: in one stage with the others, from the cache, in batches, and
as far as a stage comes."""

from itertools import chain

import pytest

from pyterrier_ikat.llms import LLM, Backend, BudgetExceeded, Reply, Request
from pyterrier_ikat.llms.cache import CompletionCache
from pyterrier_ikat.llms.ledger import Budget


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
