"""Batches: sent once, collected whatever comes back, and nothing paid twice, wherever a call is
killed."""

import json
import os
import pickle
import signal
import subprocess
import sys
import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from types import SimpleNamespace

import pytest
from llms.batch_server import DROPPED, BatchServer
from llms.chat_server import KEY, ask, refused, said
from openai.resources.batches import Batches
from openai.resources.files import Files

from pyterrier_ikat.completions.kinds import QUERIES
from pyterrier_ikat.errors import UsageError, commands_advised
from pyterrier_ikat.events import in_chain
from pyterrier_ikat.llms import (
    BatchUnderWay,
    BudgetExceeded,
    Completion,
    FatalLLMError,
    Request,
    batch,
    llm,
)
from pyterrier_ikat.llms.cache import CompletionCache
from pyterrier_ikat.llms.failures import NOT_SENT, Waiting

TEXTS = ("a", "b", "c")


class Killed(BaseException):
    """The process ends here."""


@pytest.fixture
def server():
    made = BatchServer()
    yield made
    made.close()


@pytest.fixture
def model(model):
    """Makes a model that sends batches to the server; each is a process of its own as far as the
    disk is concerned."""
    return lambda options="batch=on", name="m": model(f"price_in=2 price_out=10 {options}", name)


def under_way(made, *texts, **kwargs):
    with pytest.raises(BatchUnderWay) as raised:
        made.ask(ask(*(texts or TEXTS), **kwargs))
    return raised.value


def asked(body):
    return body["messages"][-1]["content"]


def texts(outcomes):
    """The text of each completion, and the name of each failure's class."""
    shown = []
    for outcome in outcomes:
        if isinstance(outcome, Completion):
            shown.append(outcome.text)
        else:
            shown.append(type(outcome).__name__)
    return shown


def first_letters(server):
    """The first letter of each request's text, batch by batch."""
    letters = []
    for number in server.batches:
        letters.append([text[0] for text in server.texts(number)])
    return letters


def counted(made, *names):
    return made.ledger.frame()[list(names)].values.tolist()


def notes(home):
    """What is noted of the batches under way."""
    place = home / "llm.sqlite.batches"
    return json.loads(place.read_text()) if place.exists() else []


def test_a_batch_is_sent_once_and_collected_for_half_the_price(server, model, home):
    assert (
        str(under_way(model()))
        == "stage answer: 3 requests wait in 1 batch (batch_0: validating); run the same cell "
        "again later"
    )
    server.progress("batch_0", 2)
    with commands_advised():
        error = under_way(model())
    assert (
        str(error)
        == "stage answer: 3 requests wait in 1 batch (batch_0: in progress, 2 of 3 done); run the "
        "same command again later"
    )
    server.complete()
    made = model()
    assert texts(made.ask(ask(*TEXTS))) == [
        "answer to a",
        "answer to b",
        "answer to c",
    ]  # the lines came the other way round
    assert len(server.batches) == 1
    assert server.calls == 0  # no call of its own
    # 7 tokens in at half of 2 dollars per million, 3 out at half of 10
    assert counted(made, "calls", "known", "prompt_tokens", "completion_tokens", "failures") == [
        [3, 0, 21, 9, 0]
    ]
    assert counted(made, "cost") == [[pytest.approx(3 * (7 * 1 + 3 * 5) / 1e6)]]
    again = model()
    assert texts(again.ask(ask(*TEXTS))) == ["answer to a", "answer to b", "answer to c"]
    assert counted(again, "calls", "known") == [[0, 3]]
    assert notes(home) == []


def test_answers_are_the_same_with_and_without_batches(server, model):
    model("").ask(ask("a"))
    under_way(model(), "a", "b")
    assert server.texts("batch_0") == ["b"]
    server.complete()
    model().ask(ask("a", "b"))
    assert texts(model("").ask(ask("a", "b"))) == ["answer to a", "answer to b"]
    assert server.calls == 1


def test_a_request_is_what_a_call_would_be(server, model):
    request = {"sample": 2, "structure": QUERIES.structure}
    model("temperature=0.5 max_tokens=7 seed=3 structured=on").ask(ask("a", **request))
    under_way(model("temperature=0.5 max_tokens=8 seed=3 structured=on batch=on"), "a", **request)
    (sent,) = (line["body"] for line in server.requests("batch_0"))
    assert sent == server.bodies[0] | {"max_tokens": 8}
    assert sent["response_format"]["json_schema"]["schema"] == QUERIES.structure.schema


def test_requests_asked_twice_are_sent_once_and_each_is_answered(server, model):
    under_way(model(), "a", "b", "a")
    assert sorted(server.texts("batch_0")) == ["a", "b"]
    server.complete()
    made = model()
    assert texts(made.ask(ask("a", "b", "a"))) == ["answer to a", "answer to b", "answer to a"]
    assert counted(made, "calls", "known") == [[2, 1]]


def test_more_requests_later_make_a_batch_of_their_own(server, model):
    under_way(model(), "a")
    both = under_way(model(), "a", "b")
    assert str(both).startswith(
        "stage answer: 2 requests wait in 2 batches (batch_0: validating, batch_1: validating)"
    )
    assert server.texts("batch_1") == ["b"]
    server.end("batch_1")
    left = under_way(model(), "a", "b")
    assert [one.batch for one in left.waiting] == ["batch_0"]
    assert texts(model().ask(ask("b"))) == ["answer to b"]
    server.end("batch_0")
    assert texts(model().ask(ask("a", "b"))) == ["answer to a", "answer to b"]
    assert len(server.sent) == 2


def test_missing_failed_or_expired_is_asked_again_the_rest_kept(server, model):
    under_way(model(), *"abcde")
    answers = {
        "a": said("A"),
        "b": "batch_expired",
        "c": None,
        "d": refused(500, "down"),
        "e": refused(429, "slow"),
    }
    server.end("batch_0", "expired", lambda body: answers[asked(body)])
    made = model()
    assert [one.batch for one in under_way(made, *"abcde").waiting] == ["batch_1"]
    assert server.texts("batch_1") == ["b", "c", "d", "e"]
    assert counted(made, "calls", "retries", "failures") == [[1, 0, 0]]
    server.complete()
    last = model()
    assert texts(last.ask(ask(*"abcde"))) == [
        "A",
        "answer to b",
        "answer to c",
        "answer to d",
        "answer to e",
    ]
    assert counted(last, "calls", "retries", "known", "failures") == [[4, 4, 1, 0]]


def test_the_other_name_of_max_tokens_is_found_out_by_a_batch(server, model):
    told = (
        "Unsupported parameter: 'max_tokens' is not supported with this model. Use "
        "'max_completion_tokens' instead."
    )
    under_way(model("batch=on max_tokens=9"), "a")
    server.end("batch_0", "completed", lambda body: refused(400, told))
    under_way(model("batch=on max_tokens=9"), "a")
    [line] = server.requests("batch_1")
    assert line["body"]["max_completion_tokens"] == 9
    assert "max_tokens" not in line["body"]
    server.complete()
    # another process, whose next stage does not have to find it out again
    later = model("batch=on max_tokens=9")
    later.ask(ask("a"))
    assert later.backend.body(ask("b")[0])["max_completion_tokens"] == 9


@pytest.mark.parametrize("status", ["completed", "expired", "cancelled"])
def test_a_file_of_errors_alone_is_read(server, model, status):
    under_way(model(), "a", "b")
    server.end(
        "batch_0",
        status,
        lambda body: refused(400, "the prompt is too long") if asked(body) == "a" else "x",
    )
    assert server.batches["batch_0"]["output_file_id"] is None
    under_way(model(), "a", "b")
    assert server.texts("batch_1") == ["b"]
    server.complete()
    failure, answer = model().ask(ask("a", "b"))
    assert (
        failure.reason
        == "the server rejects the request (400: the prompt is too long); without batch=on it is "
        "asked again"
    )
    assert (type(failure).__name__, answer.text) == ("TooLong", "answer to b")


@pytest.mark.parametrize("status", ["expired", "cancelled"])
def test_an_ended_batch_without_any_file_is_sent_again(server, model, status):
    under_way(model())
    server.end("batch_0", status, lambda body: None)
    under_way(model())
    assert server.texts("batch_1") == list(TEXTS)


def test_batches_that_never_answer_are_given_up(server, model):
    for _ in range(3):
        under_way(model("batch=on retries=2"), "a")
        server.complete(answer=lambda body: refused(500, "down"))
    made = model("batch=on retries=2")
    (failure,) = made.ask(ask("a"))
    assert type(failure).__name__ == "Unavailable"
    assert failure.reason == "no answer in 3 batches; without batch=on it is asked again"
    assert counted(made, "failures") == [[1]]
    assert len(server.batches) == 3


@pytest.mark.parametrize(
    ("answer", "kind", "reason"),
    [
        (
            said("half", "length"),
            "CutOff",
            "the completion was cut off at the token limit after 3 tokens: raise max_tokens",
        ),
        (said(None, refusal="no"), "Refused", "the model refused: no"),
        (said("I'm sorry, but I can't help with that."), "Refused", "the model refused: "),
        (
            refused(400, code="content_filter"),
            "Filtered",
            "the provider's content filter withheld the prompt",
        ),
        (
            refused(403, "Your input was flagged"),
            "Filtered",
            "the provider's content filter withheld the prompt",
        ),
        (refused(400, "m is not a valid model ID"), "BadRequest", "http://127.0.0.1"),
    ],
)
def test_a_failure_is_typed_kept_and_not_paid_again(server, model, answer, kind, reason):
    under_way(model(), "a", "b")
    server.complete(answer=lambda body: answer if asked(body) == "a" else said("B"))
    first, later = model(), model()
    for made in (first, later):  # a later stage may wait meanwhile: what failed stays so
        failed, other = made.ask(ask("a", "b"))
        assert (type(failed).__name__, other.text, failed.kept) == (kind, "B", True)
        assert failed.reason.startswith(reason)
        assert counted(made, "failures") == [[1]]
    assert len(server.batches) == 1
    server.respond = lambda body: said("well")
    assert texts(model("").ask(ask("a", "b"))) == ["well", "B"]
    assert texts(model().ask(ask("a", "b"))) == ["well", "B"]


def test_an_answer_of_a_batch_with_an_unknown_mark_is_read_again(server, model):
    under_way(model(), "a")
    server.complete(answer=lambda body: said("<ponder>hm</ponder>A"))
    for made in (model(), model()):
        [failure] = made.ask(ask("a"))
        assert (type(failure).__name__, failure.kept) == ("UnknownMark", True)
        assert failure.reason.endswith("the answer is kept, and then read without a call")
        assert counted(made, "failures") == [[1]]
    assert texts(model("reasoning='<ponder> </ponder>'").ask(ask("a"))) == ["A"]
    assert texts(model("reasoning='<ponder> </ponder>' batch=on").ask(ask("a"))) == ["A"]
    assert len(server.batches) == 1


def test_a_refused_batch_says_why_in_one_line_and_is_sent_later(server, model):
    under_way(model())
    server.fail(
        "batch_0",
        ("token_limit_exceeded", "Enqueued token limit reached for m.\nTry again later.", None),
        ("x", "y", 3),
    )
    with pytest.raises(FatalLLMError) as raised:
        model().ask(ask(*TEXTS))
    said_by_it = (
        "Enqueued token limit reached for m. Try again later. (token_limit_exceeded); y (x)"
    )
    left = (
        "(done and kept: 0 calls, left: 3; run again after the repair (finished calls are in the "
        "cache and are not repeated))"
    )
    assert str(raised.value) == f"batch_0 of 3 requests was refused: {said_by_it} {left}"
    under_way(model())
    assert server.texts("batch_1") == list(TEXTS)


@pytest.mark.parametrize(
    ("path", "answer", "message"),
    [
        (
            "/files",
            refused(404, "no route"),
            "(404: no route): check the name, the key and base_url; or omit batch=on",
        ),
        (
            "/files",
            refused(401, "bad key"),
            "does not accept the key in OPENAI_API_KEY (401: bad key)",
        ),
        ("/batches", refused(404, "no route"), "no such address (404: no route)"),
        (
            "/batches",
            refused(400, "billing hard limit"),
            "the server rejects the request (400: billing hard limit)",
        ),
        (
            "/batches",
            refused(403, "no"),
            "does not allow the call with the key in OPENAI_API_KEY (403: no)",
        ),
    ],
)
def test_what_the_server_refuses_is_one_line_and_leaves_nothing(
    server, model, home, path, answer, message
):
    server.refuse["POST", path] = [answer]
    with pytest.raises(FatalLLMError) as raised:
        model().ask(ask(*TEXTS))
    assert message in str(raised.value)
    assert notes(home) == []
    under_way(model())
    assert len(server.batches) == 1


def test_overloaded_servers_are_tried_again(server, model):
    server.refuse = {
        ("POST", "/files"): [refused(429, "slow")],
        ("GET", "/batches"): [refused(429, "slow")],
    }
    under_way(model())
    server.complete()
    assert len(model().ask(ask(*TEXTS))) == 3
    assert len(server.batches) == 1


@pytest.mark.parametrize("removed", ["batch", "results"])
def test_batches_removed_or_not_visible_to_the_key_are_named(server, model, removed):
    under_way(model())
    server.end("batch_0")
    if removed == "batch":
        server.batches.clear()
    else:
        del server.files[server.batches["batch_0"]["output_file_id"]]
    with pytest.raises(
        FatalLLMError,
        match="404: No such object: .*; or .* remove .*batches to ask, and pay for, all that is ",
    ):
        model().ask(ask(*TEXTS))


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


def test_draws_and_chains_are_requests_of_their_own(server, model):
    draws = [ask("a", sample=sample)[0] for sample in range(3)]
    for chain in range(2):
        with in_chain(chain), pytest.raises(BatchUnderWay):
            model("batch=on seed=5").ask(draws)
    seeds = []
    for number in server.batches:
        seeds += [line["body"]["seed"] for line in server.requests(number)]
    assert seeds == [5, 6, 7, 1005, 1006, 1007]
    server.complete(answer=lambda body: said(f"drawn {body['seed']}"))
    with in_chain(0):
        made = model("batch=on seed=5").ask(draws)
    assert texts(made) == ["drawn 5", "drawn 6", "drawn 7"]
    with in_chain(1):
        made = model("batch=on seed=5").ask(draws)
    assert texts(made) == ["drawn 1005", "drawn 1006", "drawn 1007"]


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


def test_paid_lines_without_a_completion_are_counted(server, model):
    made = model("batch=on retries=1")
    under_way(made, "a", "b")
    empty = said(usage=(1_000_000, 0))
    empty.body["choices"] = []
    server.complete(
        answer=lambda body: empty if asked(body) == "a" else said("B", usage=(1_000_000, 0))
    )
    under_way(made, "a", "b")
    assert made.budget.spent == 2.0  # 1 dollar each, in a batch
    server.complete(answer=lambda body: empty)
    assert texts(made.ask(ask("a", "b"))) == ["Unavailable", "B"]
    assert counted(made, "calls", "unanswered", "retries", "failures", "prompt_tokens", "cost") == [
        [1, 1, 1, 1, 3_000_000, 3.0]
    ]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("openai:m batch=yes", "the LLM option batch is wrong: give on or off"),
        (
            "openai:m batch=on cache=none",
            "batch=on needs a cache file, which keeps what is under way: omit cache=none, or give "
            "cache=FILE",
        ),
        ("openai:m batch=on cache=:memory:", "omit cache=:memory:"),
        ("hf:m batch=on", "unknown LLM option 'batch': hf knows temperature"),
        ("recorded:sample batch=on", "unknown LLM option 'batch': recorded knows on_error"),
    ],
)
def test_what_cannot_be_a_batch_is_one_line(text, message):
    with pytest.raises(UsageError) as raised:
        llm(text)
    assert message in str(raised.value)


STEPS = [
    *((Files, name) for name in ("create", "content")),
    (Batches, "create"),
    (batch, "keep_jobs"),
    *((CompletionCache, name) for name in ("put", "put_failure")),
]


def test_a_kill_at_any_step_sends_each_request_only_as_needed(server, model, monkeypatch, home):
    """Of three requests one is answered, one fails for good, and one expires and is answered by a
    second batch."""
    monkeypatch.setattr(batch, "SETTLED", 0.0)
    monkeypatch.setattr(batch, "REQUESTS", 2)
    made = model()

    def answer(body):
        text = asked(body)
        times = sum(text in server.texts(number) for number in server.batches)
        return {
            "a": said("A"),
            "b": said("B", "length"),
            "c": "batch_expired" if times == 1 else said("C"),
        }[text[0]]

    def way(place):
        for _ in range(3):
            try:
                return texts(made.ask(ask(*(f"{text}{place}" for text in TEXTS))))
            except BatchUnderWay:
                server.complete(answer=answer)
        return None

    def killed(place):
        """The same, where the process ends behind a step, and does nothing more; gives whether it
        came so far."""
        count = [0]

        def step(real):
            def work(*args, **kwargs):
                found = real(*args, **kwargs) if count[0] <= place else None
                count[0] += 1
                if count[0] > place:
                    raise Killed
                return found

            return work

        with pytest.MonkeyPatch.context() as patch:
            for owner, method in STEPS:
                patch.setattr(owner, method, step(getattr(owner, method)))
            try:
                way(place)
            except Killed:
                return True
        return False

    place = 0
    while killed(place):
        assert way(place) == ["A", "CutOff", "C"]
        assert first_letters(server) == [["a", "b"], ["c"], ["c"]], place
        server.batches.clear()
        place += 1
    assert place > 15


def test_a_creation_interrupted_just_now_is_not_repeated(server, model, monkeypatch, home):
    server.refuse["POST", "/batches"] = [DROPPED]  # the connection is lost: nobody knows
    told = str(under_way(model()))
    assert told.startswith(
        "stage answer: 3 requests wait in 1 batch (not confirmed yet: its creation was interrupted"
    )
    assert "the provider lists it in a minute, if it was created" in str(under_way(model()))
    assert server.batches == {}
    monkeypatch.setattr(batch, "SETTLED", 0.0)
    under_way(model())
    assert len(server.batches) == 1
    assert len(notes(home)) == 1


def test_a_batch_is_found_by_its_name_behind_many_others(server, model, monkeypatch):
    create = Batches.create

    def killed(self, **given):
        create(self, **given)
        raise Killed

    monkeypatch.setattr(Batches, "create", killed)
    with pytest.raises(Killed):
        model().ask(ask(*TEXTS))
    monkeypatch.setattr(Batches, "create", create)
    (ours,) = server.batches.values()
    for number in range(250):
        name = f"other_{number}"
        server.batches[name] = {**ours, "id": name, "input_file_id": f"file-other-{number}"}
    looks = []
    server.hook = looks.append
    assert [one.batch for one in under_way(model()).waiting] == ["batch_0"]
    assert looks == ["listed"] * 3


def test_a_process_killed_during_the_creation_sends_it_once(server, model, monkeypatch, home):
    reached, go_on = threading.Event(), threading.Event()

    def wait(done):
        if done == "created":
            reached.set()
            go_on.wait(60)

    server.hook = wait
    code = (
        "import sys; from pyterrier_ikat.llms import llm, Request; "
        "llm(sys.argv[1]).ask([Request([{'role': 'user', 'content': text}], 'answer', '1_1') for "
        "text in 'abc'])"
    )
    environment = {**os.environ, "PYTHONPATH": str(Path(__file__).parents[2])}
    process = subprocess.Popen(
        [sys.executable, "-c", code, f"openai:m base_url={server.url} batch=on"], env=environment
    )
    assert reached.wait(60)
    process.send_signal(signal.SIGKILL)
    process.wait()
    server.hook = lambda done: None
    go_on.set()
    assert [one.batch for one in under_way(model()).waiting] == [
        "batch_0"
    ]  # the lock and the note of a killed process are taken over
    server.complete()
    assert len(model().ask(ask(*TEXTS))) == 3
    assert len(server.batches) == 1


def test_threads_with_one_cache_send_one_batch(server, model):
    models = [model() for _ in range(6)]
    with ThreadPoolExecutor(6) as threads:
        errors = list(threads.map(under_way, models))
    assert {str(error) for error in errors} == {
        "stage answer: 3 requests wait in 1 batch (batch_0: validating); run the same cell again "
        "later"
    }
    assert len(server.batches) == 1


def test_foreign_repeated_and_damaged_lines_change_nothing(server, model):
    under_way(model())
    server.end("batch_0")
    file = server.batches["batch_0"]["output_file_id"]
    first, *rest = server.files[file].split(b"\n")
    stranger = json.dumps({**json.loads(first), "custom_id": "stranger"}).encode()
    server.files[file] = b"\n".join(
        [
            stranger,
            first,
            b"[]",
            b'{"a": 1}',
            b"",
            *rest[:1],
            rest[0].replace(b"answer", b"other"),
            rest[1],
        ]
    )
    assert texts(model().ask(ask(*TEXTS))) == ["answer to a", "answer to b", "answer to c"]


def test_an_answer_counts_where_an_error_has_its_key_too(server, model):
    under_way(model(), "a", "b")
    server.end(
        "batch_0", answer=lambda body: said("fine") if asked(body) == "a" else "batch_expired"
    )
    batch_0 = server.batches["batch_0"]
    answered = json.loads(server.files[batch_0["output_file_id"]])["custom_id"]
    error = {
        "custom_id": answered,
        "response": None,
        "error": {"code": "batch_expired", "message": "expired"},
    }
    server.files[batch_0["error_file_id"]] += json.dumps(error).encode() + b"\n"
    under_way(model(), "a", "b")
    assert server.texts("batch_1") == ["b"]
    server.complete()
    assert texts(model().ask(ask("a", "b"))) == ["fine", "answer to b"]


@pytest.mark.parametrize("counts", [{"total": 3, "completed": 3, "failed": 0}, None])
@pytest.mark.parametrize(
    ("cut", "left"),
    [
        (lambda text: b"", 0),
        (lambda text: text[:-40], 2),
        (lambda text: b"<html>busy</html>", 0),
        (None, 0),
    ],
)
def test_incomplete_results_stop_the_run_and_are_not_paid_again(
    server, model, home, counts, cut, left
):
    under_way(model())
    server.complete()
    done, file = server.batches["batch_0"], server.batches["batch_0"]["output_file_id"]
    whole = server.files[file]
    done.update(request_counts=counts, output_file_id=file if cut else None)
    server.files[file] = cut(whole) if cut else whole
    for _ in range(2):
        with pytest.raises(FatalLLMError) as raised:
            model().ask(ask(*TEXTS))
        assert f"have {left} of 3 that can be read: run again later" in str(raised.value)
        assert (
            f"remove {home / 'llm.sqlite.batches'} to ask, and pay for, all that is under way again"
            in str(raised.value)
        )
    done["output_file_id"], server.files[file] = file, whole
    assert texts(model().ask(ask(*TEXTS))) == ["answer to a", "answer to b", "answer to c"]
    assert (len(server.batches), notes(home)) == (1, [])


def test_no_key_is_on_disk_or_told(server, model, home):
    server.refuse["POST", "/batches"] = [DROPPED]
    told = str(under_way(model()))
    under_way(model(name="n"))
    server.complete(answer=lambda body: said("fine"))
    model(name="n").ask(ask("a"))
    assert KEY not in told
    for path in home.rglob("*"):
        if path.is_file():
            assert KEY.encode() not in path.read_bytes()
    assert f"Bearer {KEY}" in {headers["authorization"] for headers in server.headers}
    assert KEY.encode() not in server.files["file-0"]


def test_what_is_under_way_can_be_sent_to_another_process():
    error = BatchUnderWay([Waiting("answer", 3, "batch_0", "validating")])
    assert str(pickle.loads(pickle.dumps(error))) == str(error)
    made = llm("openai:m batch=on")
    assert pickle.loads(pickle.dumps(made)).batches == made.batches


@pytest.mark.parametrize(
    ("status", "counts", "told"),
    [
        ("in_progress", (4, 1, 2), "in progress, 3 of 4 done"),
        ("in_progress", (0, 0, 0), "in progress"),
        ("finalizing", None, "finalizing"),
    ],
)
def test_a_job_notes_what_the_provider_says(status, counts, told):
    job = batch.Job("file-1", "answer", ["k"], 0, 0.0, 1.0)
    assert job.status == batch.INTERRUPTED
    of_requests = None
    if counts is not None:
        of_requests = SimpleNamespace(total=counts[0], completed=counts[1], failed=counts[2])
    job.note(SimpleNamespace(id="batch_1", status=status, request_counts=of_requests))
    assert (job.batch, job.status) == ("batch_1", told)


def test_the_list_of_batches_comes_back_as_it_was_written(tmp_path):
    cache = CompletionCache(tmp_path / "c.sqlite")
    assert batch.jobs_of(cache) == []
    jobs = [
        batch.Job("file-2", "answer", ["b", "a"], 1, 0.5, 2.0, "batch_2", "in progress", 3, True),
        batch.Job("file-1", "rewrite", ["c"], 0, 0.0, 1.0),
    ]
    batch.keep_jobs(cache, jobs)
    assert batch.jobs_of(cache) == jobs
    assert batch.list_path(cache) == Path(f"{cache.path}.batches")
    cache.close()


def test_the_most_tokens_of_a_prompt_are_its_bytes_and_frame():
    (request,) = ask("tea\u8336\ud800")  # 3 + 3 + 3 bytes
    assert batch.most_tokens(request) == 9 + len("user") + 3 + 3
    two = Request([{"role": "user", "content": "a"}] * 2, "answer", "1_1")
    assert batch.most_tokens(two) == 2 * (1 + 4 + 3) + 3
    (shaped,) = ask("a", structure=QUERIES.structure)
    schema = len(json.dumps(QUERIES.structure.schema))
    assert batch.most_tokens(shaped) == 1 + 4 + 3 + 3 + schema


def test_the_messages_say_which_requests_wait_where(server, model, home):
    under_way(model(), "a", "b")
    under_way(model(), "c", stage="rewrite")
    waiting = under_way(model(), "b").waiting
    assert waiting == [Waiting("answer", 2, "batch_0", "validating")]
    server.end("batch_0", answer=lambda body: said("half", "length"))
    made = model()
    first, second = made.ask(ask("a", "b"))
    assert [type(one).__name__ for one in (first, second)] == ["CutOff", "CutOff"]
    assert [job["batch"] for job in notes(home)] == ["batch_1"]
    assert (first.qid, second.qid, first.kept) == ("1_1", "1_2", True)


def test_a_key_that_failed_in_a_batch_is_asked_in_the_next_one(server, model):
    under_way(model(), *"abcd")
    answers = {
        "a": refused(401, "no"),
        "b": refused(402, "no"),
        "c": refused(404, "no model m"),
        "d": refused(400, "API key not valid"),
    }
    server.end("batch_0", answer=lambda body: answers[asked(body)])
    assert under_way(model(), "a", "b", "c", "d").waiting[0].requests == 3
    assert server.texts("batch_1") == ["a", "b", "d"]
    (failure,) = model().ask(ask("c"))
    assert (type(failure).__name__, failure.qid) == ("BadRequest", "1_1")


def test_follow_ups_are_sent_as_batches_of_their_own(server, model):
    def then(position, outcome):
        return ask("next")[0] if outcome.text == "answer to a" else None

    made = model()
    with pytest.raises(BatchUnderWay):
        made.ask(ask("a"), then)
    server.complete()
    with pytest.raises(BatchUnderWay):
        model().ask(ask("a"), then)
    assert server.texts("batch_1") == ["next"]
    server.complete()
    assert texts(model().ask(ask("a"), then)) == ["answer to next"]


def test_results_count_for_those_who_ask_and_stay_for_the_others(server, model, home):
    under_way(model(), "a", "b")
    server.complete()
    made = model()
    assert texts(made.ask(ask("b"))) == ["answer to b"]
    assert notes(home) == []
    assert texts(model("").ask(ask("a"))) == ["answer to a"]
    assert server.calls == 0


def test_what_nobody_asks_any_more_is_not_sent_again(server, model):
    under_way(model(), "a", "b")
    server.end("batch_0", "expired", lambda body: None)
    under_way(model(), "b")
    assert server.texts("batch_1") == ["b"]
    under_way(model(), "a")
    assert server.texts("batch_2") == ["a"]


def test_a_list_that_was_not_rewritten_pays_nothing_twice(server, model, home):
    under_way(model(), "a", "b")
    listed = (home / "llm.sqlite.batches").read_text()
    server.complete(answer=lambda body: said("A", "stop" if asked(body) == "a" else "length"))
    columns = ("calls", "known", "failures", "prompt_tokens")
    for counts in ([2, 0, 1, 14], [0, 1, 1, 0]):
        (home / "llm.sqlite.batches").write_text(listed)  # the process was killed before
        made = model()
        assert texts(made.ask(ask("a", "b"))) == ["A", "CutOff"]
        assert counted(made, *columns) == [counts]


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


@pytest.mark.parametrize("is_strangers", [True, False])
def test_results_that_are_not_ours_complete_nothing(server, model, is_strangers):
    """One of three is another request's, or is no answer."""

    def answer(body):
        if asked(body) == "c" and not is_strangers:
            return "x"
        return said("fine")

    under_way(model(), "a", "b", "c")
    server.end("batch_0", answer=answer)
    done = server.batches["batch_0"]
    done["error_file_id"] = None
    file = done["output_file_id"]
    if is_strangers:
        key = json.loads(server.files[file].split(b"\n")[0])["custom_id"]
        server.files[file] = server.files[file].replace(key.encode(), b"stranger")
    with pytest.raises(FatalLLMError, match="have 2 of 3 that can be read: run again later"):
        model().ask(ask("a", "b", "c"))
    assert len(server.batches) == 1


def test_more_results_than_the_batch_counts_are_read(server, model):
    under_way(model(), "a", "b")
    server.end("batch_0")
    server.batches["batch_0"]["request_counts"] = {"total": 2, "completed": 1, "failed": 0}
    assert texts(model().ask(ask("a", "b"))) == ["answer to a", "answer to b"]


def test_an_expired_batch_without_counts_is_sent_again(server, model):
    under_way(model())
    server.end("batch_0", "expired", lambda body: said("A") if asked(body) == "a" else None)
    server.batches["batch_0"]["request_counts"] = None
    under_way(model())
    assert server.texts("batch_1") == ["b", "c"]


def test_a_refused_request_is_unanswered_and_costs_nothing(server, model):
    under_way(model(), "a", "b")
    server.end(
        "batch_0",
        answer=lambda body: said("A") if asked(body) == "a" else refused(400, "too strange"),
    )
    made = model()
    assert texts(made.ask(ask("a", "b"))) == ["A", "BadRequest"]
    assert counted(made, "calls", "unanswered", "failures", "prompt_tokens") == [[1, 1, 1, 7]]


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


def test_results_that_nobody_asks_for_now_count_for_their_stage(server, model):
    under_way(model(), "a", "b", "c", stage="rewrite")
    server.complete(answer=lambda body: said("half", "length") if asked(body) == "a" else said("B"))
    made = model()
    assert texts(made.ask(ask("b", stage="rewrite"))) == ["B"]
    assert counted(made, "stage", "calls", "failures") == [["rewrite", 3, 1]]


def test_only_a_batch_that_may_be_under_way_keeps_it_busy(model, monkeypatch):
    made = batch.BatchSending(model())
    states = {"e": "expired", "f": "failed", "c": "completed", "p": "in_progress"}
    monkeypatch.setattr(made, "_batch_of", lambda job: SimpleNamespace(status=states[job.batch]))

    def is_busy(*names):
        made.jobs = [batch.Job("file", "answer", [], 0, 0.0, 0.0, name) for name in names]
        return made._is_busy()

    assert [is_busy(*names) for names in ("", "efc", "ep", "p")] == [False, False, True, True]
    assert is_busy("e", "")  # nobody knows whether it was created
