"""One stage's calls on their way: what the progress bar shows, whose time is counted, what is
named."""

import pytest
from chat_server import ask, refused, said

from pyterrier_ikat import progress
from pyterrier_ikat.llms import Backend, Reply, llm, sending


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
