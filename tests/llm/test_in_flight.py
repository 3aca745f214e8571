"""Threads that ask the same at one moment: one call for all of them."""

import threading
from concurrent.futures import ThreadPoolExecutor
from concurrent.futures import TimeoutError as Late  # before Python 3.11 not the built-in one

import pytest
from chat_server import ask, refused, said
from hypothesis import given
from hypothesis import strategies as st

from pyterrier_ikat.llm import BadRequest, FatalLLMError
from pyterrier_ikat.llm.in_flight import InFlight


class Held:
    """A server that answers when it is let, and tells when it has been asked."""

    def __init__(self, server, answer):
        self.asked, self.let, self.answer = threading.Event(), threading.Event(), answer
        server.respond = self.respond

    def respond(self, body):
        self.asked.set()
        assert self.let.wait(20)
        return self.answer(body)


def two(made, held, first, second):
    """What two threads get: the second one asks while the first one's calls are on their way."""
    waiting = threading.Event()
    claim = made._in_flight.claim

    def noted(keys):
        waiting.set()
        return claim(keys)

    with ThreadPoolExecutor(2) as pool:
        one = pool.submit(made.ask, first)
        assert held.asked.wait(20)
        made._in_flight.claim = noted
        other = pool.submit(made.ask, second)
        assert waiting.wait(20)
        held.let.set()
        return one, other


def test_equal_requests_of_two_threads_are_paid_once(model, server):
    made = model("concurrency=8")
    held = Held(server, lambda body: said(f"answer to {body['messages'][0]['content']}"))
    one, other = two(made, held, ask("a", "b"), ask("b", "c", stage="rewrite"))
    assert [(completion.text, completion.cached) for completion in one.result(20)] == [("answer to a", False), ("answer to b", False)]
    assert [(completion.text, completion.cached) for completion in other.result(20)] == [("answer to b", True), ("answer to c", False)]
    assert server.calls == 3
    assert made.ledger.frame()[["stage", "calls", "cache_hits"]].values.tolist() == [["answer", 2, 0], ["rewrite", 1, 1]]


def test_a_thread_that_waits_for_another_one_sleeps(model, server):
    made = model()
    held = Held(server, lambda body: said())
    looked = []
    claim = made._in_flight.claim
    made._in_flight.claim = lambda keys: looked.append(keys) or claim(keys)
    with ThreadPoolExecutor(2) as pool:
        one = pool.submit(made.ask, ask("a"))
        assert held.asked.wait(20)
        other = pool.submit(made.ask, ask("a"))
        with pytest.raises(Late):
            other.result(0.1)
        assert len(looked) == 2
        held.let.set()
        assert one.result(20)[0].text == other.result(20)[0].text == "fine"


def test_a_failure_of_one_thread_is_asked_again_by_the_other(model, server):
    made = model()
    answers = [refused(400, "too long"), said("fine")]
    one, other = two(made, Held(server, lambda body: answers.pop(0)), ask("a"), ask("a"))
    assert isinstance(one.result(20)[0], BadRequest)
    assert (other.result(20)[0].text, server.calls) == ("fine", 2)


def test_the_end_of_one_threads_stage_does_not_hold_the_other(model, server):
    made = model()
    answers = [refused(401), said("fine")]
    one, other = two(made, Held(server, lambda body: answers.pop(0)), ask("a"), ask("a"))
    with pytest.raises(FatalLLMError):
        one.result(20)
    assert other.result(20)[0].text == "fine"


def test_what_another_thread_got_just_before_the_claim_is_not_asked(model, server):
    made, another = model(), model()
    claim = made._in_flight.claim

    def late(keys):
        another.ask(ask("a"))
        return claim(keys)

    made._in_flight.claim = late
    (completion,) = made.ask(ask("a"))
    assert (completion.text, completion.cached, server.calls) == ("answer to a", True, 1)


def test_without_a_cache_each_thread_asks(model, server):
    made = model("concurrency=8 cache=none")
    together = threading.Barrier(2)
    server.respond = lambda body: said() if together.wait(20) >= 0 else None
    made.throttle.grow()
    with ThreadPoolExecutor(2) as pool:
        outcomes = [pool.submit(made.ask, ask("a")) for _ in range(2)]
    assert [outcome.result()[0].cached for outcome in outcomes] == [False, False]
    assert server.calls == 2


@given(st.lists(st.text("abc", max_size=1), unique=True), st.lists(st.text("abc", max_size=1), unique=True))
def test_a_key_is_claimed_once_and_free_again(first, second):
    flights = InFlight()
    with flights.claim(first) as (ours, others):
        assert (ours, others) == (first, set())
        with flights.claim(second) as (theirs, waited):
            assert theirs == [key for key in second if key not in first]
            assert len(waited) == bool({*first} & {*second})
            assert not any(end.is_set() for end in waited)
    assert all(end.is_set() for end in waited)
    with flights.claim(first + [key for key in second if key not in first]) as (everything, none):
        assert {*everything} == {*first, *second}
        assert not none
