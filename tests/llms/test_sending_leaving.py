"""Whoever asked may leave: calls under way are finished and kept, and no other one begins."""

import threading
from contextlib import contextmanager

import pytest
from chat_server import ask, refused, said
from scripted import Script, echo, made, texts

from pyterrier_ikat.events import AskerLeft, Observer, asked_by, observed_by
from pyterrier_ikat.llms import LLM, Transient
from pyterrier_ikat.llms.cache import CompletionCache
from pyterrier_ikat.llms.retry import Retry


def test_nothing_is_opened_or_begun_for_who_has_left():
    left = threading.Event()
    backend = Script()
    model, _ = made(backend)
    with asked_by(left):
        assert texts(model.ask(ask("a"))) == ["a"]
        left.set()
        with pytest.raises(AskerLeft):
            model.ask([])
        with pytest.raises(AskerLeft):
            model.ask(ask("b"))
    assert (backend.opened, len(backend.calls)) == (1, 1)


def test_who_leaves_keeps_the_call_under_way_and_begins_none():
    left = threading.Event()

    def step(requests):
        left.set()
        return echo(requests)

    backend = Script(step, concurrency=1)
    model, _ = made(backend, cache=CompletionCache(":memory:"))
    with asked_by(left), pytest.raises(AskerLeft):
        model.ask(ask("a", "b", "c"))
    assert backend.calls == [["a"]]
    assert model.peek(ask("a")[0]).text == "a"


def test_who_leaves_before_the_model_is_asked_costs_nothing():
    model, entries = made(Script(AskerLeft()))
    with pytest.raises(AskerLeft):
        model.ask(ask("a"))
    assert entries == []


def test_who_leaves_while_a_limit_is_waited_for_begins_no_call():
    left = threading.Event()
    backend = Script(Transient(5.0, "busy", limited=True), echo)
    model, _ = made(backend)
    model.retry = Retry(sleep=lambda seconds: left.set())
    with asked_by(left), pytest.raises(AskerLeft):
        model.ask(ask("a"))
    assert backend.calls == [["a"]]


LONG = 60


class Asks(threading.Thread):
    """Asks in a thread, for somebody who leaves when ``left`` is set; ``outcome`` is the answers'
    texts, or the error."""

    def __init__(self, llm, requests, observer=None):
        super().__init__(daemon=True)
        self.llm, self.requests, self.observer = llm, requests, observer or Observer()
        self.left = threading.Event()
        self.outcome = None
        self.start()

    def run(self):
        try:
            with asked_by(self.left), observed_by(self.observer):
                self.outcome = [one.text for one in self.llm.ask(self.requests)]
        except Exception as error:
            self.outcome = error

    def ended(self):
        self.join(LONG)
        assert not self.is_alive()
        return self.outcome


@contextmanager
def slow(server):
    """Each call tells that it is there, and is answered once it may be."""
    there = threading.Semaphore(0)
    may = threading.Semaphore(0)

    def respond(body):
        there.release()
        assert may.acquire(timeout=LONG)
        return said(f"answer to {body['messages'][-1]['content']}")

    server.respond = respond
    yield there, may
    may.release(100)


def test_nothing_is_asked_for_whoever_has_left(server, model):
    left = threading.Event()
    left.set()
    with asked_by(left), pytest.raises(AskerLeft):
        model("cache=none").ask(ask("a"))
    assert server.calls == 0


def test_calls_under_way_are_kept_and_counted_and_none_begins(server, model, tmp_path):
    llm = model(f"cache={tmp_path / 'c.sqlite'} concurrency=2")
    llm.reached = True
    with slow(server) as (there, may):
        asks = Asks(llm, ask(*"abcdef"))
        assert there.acquire(timeout=LONG)
        assert there.acquire(timeout=LONG)
        asks.left.set()
        may.release(2)
        assert isinstance(asks.ended(), AskerLeft)
        assert server.calls == 2
        assert llm.ledger.frame()[["calls", "retries", "completion_tokens"]].values.tolist() == [
            [2, 0, 6]
        ]
        may.release(4)
        assert [one.cached for one in llm.ask(ask(*"abcdef"))].count(True) == 2
    assert server.calls == 6


def test_a_wait_for_the_next_try_ends_when_the_asker_leaves(server, model):
    class Waits(Observer):
        def __init__(self):
            self.waits = threading.Event()

        def wait(self, tries, most):
            self.waits.set()

    llm = model("cache=none")
    llm.retry = Retry()  # which waits for a minute
    server.script = [refused(503, Retry_After="60")]
    observer = Waits()
    asks = Asks(llm, ask("a"), observer)
    assert observer.waits.wait(LONG)
    asks.left.set()
    asks.join(30)
    assert isinstance(asks.outcome, AskerLeft)
    assert server.calls == 1


def test_whoever_stays_gets_the_answer_to_an_equal_request(server, model, tmp_path):
    llm = model(f"cache={tmp_path / 'c.sqlite'}")
    llm.reached = True
    with slow(server) as (there, may):
        leaves = Asks(llm, ask("a"))
        stays = Asks(llm, ask("a"))
        assert there.acquire(timeout=LONG)
        leaves.left.set()
        may.release(2)
        assert isinstance(leaves.ended(), AskerLeft)
        assert stays.ended() == ["answer to a"]


def test_a_local_model_begins_nothing_for_those_who_left():
    pytest.importorskip("torch")
    from pyterrier_ikat.llms.hf import HFBackend

    class Counts(HFBackend):
        loaded = 0

        def _load(self):
            type(self).loaded += 1
            raise AssertionError("a call began")

    backend = Counts("tiny")
    llm = LLM(backend)
    with backend._lock:  # another call is under way
        asks = [Asks(llm, ask(f"{number}")) for number in range(3)]
        for one in asks:
            one.left.set()
    assert [type(one.ended()) for one in asks] == [AskerLeft] * 3
    assert Counts.loaded == 0
    assert llm.ledger.frame().empty
