"""One stage's calls on their way: what the progress bar shows, whose time is counted, what is named."""

import io

import pytest
from chat_server import ask, refused, said
from tqdm.std import tqdm

from pyterrier_ikat import events
from pyterrier_ikat.llms import Backend, FatalLLMError, Reply, llm
from pyterrier_ikat.llms.limits import Retry


@pytest.fixture
def bars(monkeypatch):
    """The progress bars that were made; they write into a file of their own."""
    made = []

    class Noted(tqdm):
        def __init__(self, *given, **options):
            super().__init__(*given, **{**options, "disable": options["disable"] or False, "file": io.StringIO()})
            made.append(self)

    monkeypatch.setattr(events, "tqdm", Noted)
    return made


def test_the_bar_counts_what_is_sent_cached_failed_and_paid(model, server, bars):
    made = model("price_in=1000 price_out=1000")
    made.ask(ask("a"))
    server.respond = lambda body: refused(400) if body["messages"][0]["content"] == "bad" else said()
    made.ask([*ask("a", "bad", "b"), *ask("c", stage="rewrite")])
    first, second = bars
    assert (first.n, first.total, first.desc, first.postfix) == (1, 1, "answer (m)", "cached=0, cost=$0.0100, failed=0")
    assert (second.n, second.total, second.desc) == (3, 3, "answer, rewrite (m)")
    assert second.postfix == "cached=1, cost=$0.0300, failed=1"


def test_a_stage_of_less_than_a_second_shows_no_bar(model, bars):
    model().ask(ask("a", "b"))
    assert bars[0].fp.getvalue() == ""
    assert bars[0].delay == 1


def test_the_time_of_a_call_is_shared_by_its_requests():
    now = [100.0]

    class Slow:
        def generate(self, chats):
            now[0] += 3
            return ["fine" for _ in chats]

    model = llm(Slow())
    model.retry = Retry(clock=lambda: now[0])
    assert [completion.seconds for completion in model.ask(ask("a", "b"))] == [1.5, 1.5]
    assert model.ledger.frame()["seconds"].tolist() == [3.0]


class Own(Backend):
    """A user's own backend, whose answers ``work`` makes from the question."""

    model, identity = "own", {"provider": "own"}

    def __init__(self, work):
        self.work = work

    def complete(self, requests):
        return [self.work(request.messages[0]["content"]) for request in requests]


def test_a_completion_without_a_models_name_has_that_of_the_backend():
    named, unnamed = llm(Own(lambda text: Reply("fine", model=text or None))).ask(ask("own-2026-01-31", ""))
    assert (named.model, unnamed.model) == ("own-2026-01-31", "own")


def test_without_a_key_no_call_is_counted():
    model = llm("openai:gpt-4o")
    with pytest.raises(FatalLLMError, match="there is no key"):
        model.ask(ask("a"))
    assert model.ledger.frame().empty
