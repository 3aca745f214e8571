"""Prompt tokens that a provider has in its own cache: read, counted, priced and shown; and the
order of sending that makes them many."""

import random

import pandas as pd
import pyterrier as pt
import pytest
from chat_server import ask, said

import pyterrier_ikat as ikat
from pyterrier_ikat.llms import LLM, Backend, Reply, Request
from pyterrier_ikat.llms.sending import longest_beginnings_first
from pyterrier_ikat.show import ledger


def with_details(details):
    answer = said(usage=(1000, 10))
    answer.body["usage"]["prompt_tokens_details"] = details
    return answer


def test_cached_tokens_are_counted_and_paid_at_their_own_price(model, server):
    server.respond = lambda body: with_details({"cached_tokens": 900, "audio_tokens": 0})
    made = model("price_in=2 price_out=10 price_cached=0.5")
    completion = made.ask(ask("a"))[0]
    assert (completion.prompt_tokens, completion.cached_tokens) == (1000, 900)
    row = made.ledger.frame().iloc[0]
    assert (row["prompt_tokens"], row["cached_tokens"]) == (1000, 900)
    assert row["cost"] == pytest.approx((100 * 2 + 900 * 0.5 + 10 * 10) / 1e6)
    assert made.budget.spent == pytest.approx(row["cost"])
    assert made.ask(ask("a"))[0].cached_tokens == 900  # from our own cache
    assert made.ledger.frame()[["cached_tokens", "known"]].values.tolist() == [[900, 1]]


def test_without_a_price_of_their_own_they_are_paid_in_full(model, server):
    server.respond = lambda body: with_details({"cached_tokens": 900})
    made = model("price_in=2 price_out=10")
    made.ask(ask("a"))
    assert made.ledger.frame()["cost"].item() == pytest.approx((1000 * 2 + 10 * 10) / 1e6)


@pytest.mark.parametrize(
    "details", [None, {}, {"cached_tokens": None}, {"cached_tokens": "many"}, [900], "many"]
)
def test_untold_cached_tokens_are_unknown_and_paid_in_full(model, server, details):
    server.respond = lambda body: with_details(details)
    made = model("price_in=2 price_out=10 price_cached=0")
    assert made.ask(ask("a"))[0].cached_tokens is None
    assert made.ledger.frame()["cached_tokens"].isna().all()
    assert made.ledger.frame()["cost"].item() == pytest.approx((1000 * 2 + 10 * 10) / 1e6)


def test_the_table_shows_them_where_a_provider_had_any(model, server):
    server.respond = lambda body: with_details({"cached_tokens": 900})
    made = model("price_in=2 price_out=10 price_cached=0.5")
    made.ask(ask("a"))
    lines = ledger({"one": made.ledger}).markdown().splitlines()
    assert (
        lines[0]
        == "| system | stage | model | calls | tokens in | of these cached | tokens out | seconds "
        "| cost (USD) |"
    )
    assert "| 1,000 | 900 | 10 |" in lines[2]


def last_turns(topics):
    return topics.groupby("qconversation", sort=False)["qid"].last().tolist()


class Remembers(Backend):
    """Remembers which turns it was asked for; one call at a time."""

    model, keeps_beginnings = "remembers", True

    def __init__(self):
        self.identity, self.asked = {"provider": "fake", "model": str(id(self))}, []

    def complete(self, requests):
        self.asked += [request.qid for request in requests]
        return [Reply("tea") for _ in requests]


def test_the_last_turns_are_sent_first_and_results_stay_in_order():
    topics = pt.get_dataset("ikat:sample").get_topics()
    backend = Remembers()
    answers = ikat.Answer(LLM(backend))(topics)
    first = last_turns(topics)
    assert sorted(backend.asked) == sorted(topics["qid"])
    assert set(first) <= set(backend.asked[: len(first) + topics["qconversation"].nunique()])
    assert answers["qid"].tolist() == topics["qid"].tolist()


def test_a_model_that_keeps_nothing_is_asked_in_turn_order():
    topics = pt.get_dataset("ikat:sample").get_topics()
    backend = Remembers()
    backend.keeps_beginnings = False
    ikat.Answer(LLM(backend))(topics)
    assert backend.asked == topics["qid"].tolist()


@pytest.mark.parametrize("seed", range(30))
def test_the_order_has_all_requests_longest_of_each_chat_first(seed):
    drawn = random.Random(seed)
    requests = {}
    for conversation in range(drawn.randint(1, 4)):
        text = f"The same task for everybody. Conversation {conversation}: " + "".join(
            drawn.choices("abcdef", k=100)
        )
        for turn in range(drawn.randint(1, 5)):
            text += "".join(drawn.choices("abcdef", k=80))
            requests[f"{conversation}_{turn}"] = Request(
                [{"role": "user", "content": text}], "s", f"{conversation}_{turn}", "p"
            )
    keys = list(requests)
    drawn.shuffle(keys)
    ordered = list(longest_beginnings_first({key: requests[key] for key in keys}))
    assert sorted(ordered) == sorted(keys)
    highest = pd.Series(keys).groupby(pd.Series(keys).str[0]).max().tolist()
    if len(highest) > 1:
        assert sorted(ordered[: len(highest)]) == sorted(highest)
