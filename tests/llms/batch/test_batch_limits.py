"""Batches within the limits of the provider, the account and the budget."""

import json

import pytest
from batches import TEXTS, counted, first_letters, notes, under_way
from llms.chat_server import ask, refused, said
from llms.scripted import texts

from pyterrier_ikat.completions.kinds import QUERIES
from pyterrier_ikat.llms import BatchUnderWay, BudgetExceeded, FatalLLMError, Request, batch
from pyterrier_ikat.llms.failures import NOT_SENT, Waiting


def test_batches_are_split_at_the_providers_limits(server, model, monkeypatch):
    monkeypatch.setattr(batch, "REQUESTS", 2)
    assert str(under_way(model(), *"abcde")).startswith(
        "stage answer: 5 requests wait in 3 batches (batch_0: validating, batch_1: "
    )
    assert [server.texts(number) for number in server.batches] == [["a", "b"], ["c", "d"], ["e"]]
    server.complete()
    assert texts(model().ask(ask(*"abcde"))) == [f"answer to {letter}" for letter in "abcde"]


def test_a_batch_has_no_more_bytes_than_the_provider_takes(server, model, monkeypatch):
    monkeypatch.setattr(batch, "BYTES", 1_000_000)
    under_way(model(), *[letter * 400_000 for letter in "abcde"])
    assert first_letters(server) == [["a", "b"], ["c", "d"], ["e"]]
    assert all(len(content) <= 1_000_000 for content in server.files.values())


def test_a_budget_is_refused_before_anything_is_sent(server, model):
    # a prompt of 400 bytes has at most 400 tokens, "user" 4, a message 3 and a chat 3: 410 at 1
    # dollar per million and up to 1000 at 5
    with pytest.raises(BudgetExceeded) as raised:
        model("batch=on budget=0.01 max_tokens=1000").ask(ask("a" * 400, "b" * 400))
    assert "with the batches under way this one, which isn't sent, may cost 0.0108 USD" in str(
        raised.value
    )
    assert (server.files, server.batches) == ({}, {})
    enough = model("batch=on budget=0.0109 max_tokens=1000")
    under_way(enough, "a" * 400, "b" * 400)
    with pytest.raises(BudgetExceeded, match="may cost 0.0158 USD"):
        enough.ask(ask("c"))  # what is under way counts
    server.complete()
    enough.ask(ask("a" * 400, "b" * 400))
    under_way(enough, "c")  # the real cost is known now
    server.complete()
    model("batch=on max_tokens=1000").ask(ask("c"))  # another process collects it
    under_way(enough, "d" * 400)


def test_a_budget_without_a_bound_on_the_answers_is_refused(server, model):
    with pytest.raises(
        FatalLLMError, match="a budget for batches needs max_tokens=...: a batch can't be stopped"
    ):
        model("batch=on budget=1").ask(ask("a"))
    assert server.files == {}


def test_untold_tokens_end_a_budget_and_nothing_is_lost(server, model):
    made = model("batch=on budget=1 max_tokens=10")
    under_way(made)
    server.complete(answer=lambda body: said("fine", usage=None))
    with pytest.raises(FatalLLMError, match="a budget can't be kept"):
        made.ask(ask(*TEXTS))
    assert texts(model("batch=on max_tokens=10").ask(ask(*TEXTS))) == ["fine"] * 3
    assert len(server.batches) == 1


SCRIPTS = {
    "Latin": "tea",
    "Chinese": "\N{CJK UNIFIED IDEOGRAPH-8336}",
    "Devanagari": "\N{DEVANAGARI LETTER KA}",
    "emoji": "\N{TEACUP WITHOUT HANDLE}",
}


@pytest.mark.parametrize("script", SCRIPTS)
def test_a_budget_holds_for_prompts_of_every_script(server, model, script):
    prompt = SCRIPTS[script] * 1000  # a byte-level tokenizer makes at most one token of a byte
    most = (len(prompt.encode()) * 1 + 10 * 5) / 1e6
    with pytest.raises(BudgetExceeded):
        model(f"batch=on budget={most} max_tokens=10").ask(ask(prompt))
    assert server.files == {}
    made = model(f"batch=on budget={most * 1.02} max_tokens=10")
    under_way(made, prompt)
    server.complete(answer=lambda body: said("fine", usage=(len(prompt.encode()), 10)))
    made.ask(ask(prompt))
    assert made.budget.spent <= most


def with_a_limit(server, limit):
    """The account may have that many requests enqueued."""

    def hook(done):
        enqueued = 0
        for number, about in server.batches.items():
            if about["status"] in ("validating", "in_progress"):
                enqueued += len(server.requests(number))
                newest = number
        if done == "created" and enqueued > limit:
            message = "Enqueued token limit reached for m."
            server.fail(newest, ("token_limit_exceeded", message, None))

    server.hook = hook


def sizes(server):
    return [len(server.requests(number)) for number in server.batches]


def until_done(server, make, letters, runs=20):
    """The answers, after as many runs as that takes; the provider ends what it has taken between
    two runs."""
    for _ in range(runs):
        try:
            return texts(make().ask(ask(*letters)))
        except BatchUnderWay:
            server.complete()
    raise AssertionError("it does not end")


def test_a_batch_that_exceeds_the_accounts_limit_is_halved(server, model):
    with_a_limit(server, 3)
    assert until_done(server, model, "abcdefghij") == [
        f"answer to {letter}" for letter in "abcdefghij"
    ]
    assert sizes(server) == [10, 5, 2, 2, 2, 2, 2]


def test_requests_that_wait_for_the_accounts_limit_are_named(server, model):
    with_a_limit(server, 2)
    under_way(model(), *"abcd")
    told = str(under_way(model(), *"abcd"))
    assert told.startswith(
        "stage answer: 4 requests wait in 1 batch (batch_1: validating, not sent yet: the "
        "account's limit of "
    )
    assert str(under_way(model(), *"abcd")) == told
    assert sizes(server) == [4, 2]


def test_a_batch_waits_for_others_under_way_before_it_is_halved(server, model):
    with_a_limit(server, 4)
    under_way(model(), *"abc")
    under_way(model(), *"xyz", stage="rewrite")  # refused: three are enqueued
    under_way(model(), *"xyz", stage="rewrite")
    assert sizes(server) == [3, 3]  # it is not sent again before the other ends
    server.complete()
    under_way(model(), *"xyz", stage="rewrite")
    server.complete()
    assert texts(model().ask(ask(*"xyz", stage="rewrite"))) == [
        "answer to x",
        "answer to y",
        "answer to z",
    ]
    assert sizes(server) == [3, 3, 3]


def test_a_request_that_exceeds_the_limit_stops_with_a_sentence(server, model, home):
    with_a_limit(server, 0)
    under_way(model(), "a")
    with pytest.raises(
        FatalLLMError,
        match="no room for even one request of answer in a batch .*wait until .*or omit batch=on",
    ):
        model().ask(ask("a"))
    assert notes(home) == []
    with_a_limit(server, 1)
    assert until_done(server, model, "a") == ["answer to a"]


def test_the_most_tokens_of_a_prompt_are_its_bytes_and_frame():
    (request,) = ask("tea\u8336\ud800")  # 3 + 3 + 3 bytes
    assert batch.most_tokens(request) == 9 + len("user") + 3 + 3
    two = Request([{"role": "user", "content": "a"}] * 2, "answer", "1_1")
    assert batch.most_tokens(two) == 2 * (1 + 4 + 3) + 3
    (shaped,) = ask("a", structure=QUERIES.structure)
    schema = len(json.dumps(QUERIES.structure.schema))
    assert batch.most_tokens(shaped) == 1 + 4 + 3 + 3 + schema


def test_the_least_limit_that_the_account_showed_holds(server, model):
    with_a_limit(server, 2)
    under_way(model(), "x", stage="rewrite")  # its batch was sent without a limit
    server.complete()
    for _ in range(3):
        under_way(model(), *"abcd")
    assert sizes(server) == [1, 4, 2]
    server.complete()
    with_a_limit(server, 1)
    for _ in range(3):
        under_way(model(), *"klmn", stage="keywords")
    assert sizes(server) == [1, 4, 2, 2, 1]
    server.complete()
    under_way(model(), *"klmn", stage="keywords")
    assert sizes(server) == [1, 4, 2, 2, 1, 1]


def test_an_error_says_how_much_the_other_batches_brought(server, model, monkeypatch):
    monkeypatch.setattr(batch, "REQUESTS", 1)
    under_way(model())
    server.end("batch_0")
    server.batches["batch_1"].update(status="failed", errors=None)
    with pytest.raises(FatalLLMError) as raised:
        model().ask(ask(*TEXTS))
    assert str(raised.value).startswith(
        "batch_1 of 1 request was refused: nothing (done and kept: 1 call, left: 2; run again"
    )


def test_tries_go_on_in_the_batches_of_a_divided_one(server, model, monkeypatch):
    under_way(model(), "a", "b")
    server.end("batch_0", "expired", lambda body: None)
    monkeypatch.setattr(batch, "REQUESTS", 1)
    under_way(model(), "a", "b")
    server.complete(answer=lambda body: refused(500, "down"))
    made = model("batch=on retries=1")
    assert texts(made.ask(ask("a", "b"))) == ["Unavailable", "Unavailable"]
    assert counted(made, "calls", "unanswered", "retries", "failures") == [[0, 2, 2, 2]]


def test_a_batch_that_the_full_account_refused_is_no_first_try(server, model):
    under_way(model(), "a", "b")
    server.end("batch_0", "expired", lambda body: None)
    with_a_limit(server, 1)
    under_way(model(), "a", "b")
    under_way(model(), "a", "b")
    assert sizes(server) == [2, 2, 1]
    server.complete()
    made = model()
    under_way(made, "a", "b")
    assert counted(made, "calls", "retries") == [[1, 1]]


def test_the_bound_of_a_request_itself_decides_its_price(server, model):
    made = model("batch=on budget=0.01 max_tokens=10")
    with pytest.raises(BudgetExceeded, match="may cost 0.0100 USD"):
        made.ask(ask("a", params={"max_tokens": 2000}))
    assert server.files == {}


def test_requests_not_sent_are_told_with_their_own_stage(server, model):
    with_a_limit(server, 1)
    requests = [*ask("a", stage="rewrite"), *ask("x", "y")]
    under_way(model(), "a", stage="rewrite")
    for _ in range(2):
        with pytest.raises(BatchUnderWay) as raised:
            model().ask(requests)
    assert raised.value.waiting == [
        Waiting("rewrite", 1, "batch_0", "validating"),
        Waiting("answer", 2, NOT_SENT, batch.ACCOUNT_FULL),
    ]
