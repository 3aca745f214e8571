"""Anything with ``.generate(list)``, a user's own backend, and the messages of failures."""

import asyncio
from types import SimpleNamespace

import pytest
from chat_server import ask

from pyterrier_ikat.errors import IkatError, UsageError
from pyterrier_ikat.llms import (
    LLM,
    Backend,
    FatalLLMError,
    LLMFailure,
    Reply,
    Request,
    StageError,
    Transient,
    llm,
)
from pyterrier_ikat.llms.backend import GeneratorBackend
from pyterrier_ikat.llms.cache import CompletionCache
from pyterrier_ikat.llms.failures import CutOff, Empty, Filtered, TooLong, Unavailable


class Upper:
    model_id = "upper-1"

    def __init__(self, wrap=lambda text: SimpleNamespace(text=text)):
        self.wrap, self.seen = wrap, []

    def generate(self, chats):
        self.seen.append(chats)
        outputs = []
        for chat in chats:
            text = chat
            if isinstance(chat, list):
                text = chat[-1]["content"]
            outputs.append(self.wrap(text.upper()))
        return outputs


class Panic(BaseException):
    """As the extension modules written in Rust raise it."""


@pytest.mark.parametrize("cache", [None, ":memory:"])
@pytest.mark.parametrize(
    "error",
    [
        SystemExit(3),
        asyncio.CancelledError("cancelled"),
        KeyboardInterrupt(),
        Panic("index out of bounds"),
    ],
)
def test_any_other_exception_ends_the_stage_without_hanging(cache, error):
    def broken(chats):
        raise error

    model = LLM(
        GeneratorBackend(SimpleNamespace(generate=broken, model_id="mine")),
        cache=cache and CompletionCache(cache),
    )
    with pytest.raises(type(error)):
        model.ask(ask("a", "b"))


@pytest.mark.parametrize("wrap", [str, lambda text: SimpleNamespace(text=text)])
def test_objects_with_text_and_plain_strings(wrap):
    generator = Upper(wrap)
    model = llm(generator)
    assert [completion.text for completion in model.ask(ask("a", "b"))] == ["A", "B"]
    assert generator.seen == [
        [[{"role": "user", "content": "a"}], [{"role": "user", "content": "b"}]]
    ]
    assert (model.model, repr(model)) == ("upper-1", "ikat.llm('upper-1')")


def test_a_generator_of_plain_text_gets_plain_text():
    generator = Upper()
    generator.supports_message_input = False
    messages = [{"role": "system", "content": "be kind"}, {"role": "user", "content": "a"}]
    llm(generator).ask([Request(messages, "answer", "1_1")])
    assert generator.seen == [["system: be kind\nuser: a\nassistant:"]]


def test_batch_size_bounds_a_call_and_equal_chats_are_asked_once():
    generator = Upper()
    generator.batch_size = 2
    model = llm(generator)
    assert [completion.text for completion in model.ask(ask(*"abcab"))] == ["A", "B", "C", "A", "B"]
    assert [len(chats) for chats in generator.seen] == [2, 1]
    assert model.ask(ask("a"))[0].cached
    assert len(generator.seen) == 2


def test_two_objects_of_unknown_identity_are_two_models():
    generator = Upper()
    assert llm(generator) == llm(generator)
    assert llm(generator) != llm(Upper(str.lower))


@pytest.mark.parametrize(
    "output",
    [5, 0.5, b"bytes", {"text": "a"}, SimpleNamespace(text=["a"]), SimpleNamespace(other="a")],
)
def test_what_is_no_text_is_named_as_such(output):
    with pytest.raises(
        UsageError, match="upper-1.generate must return texts, or objects with .text, not "
    ):
        llm(Upper(lambda text: output)).ask(ask("a"))


@pytest.mark.parametrize("output", [None, "", SimpleNamespace(text=None)])
def test_no_text_is_an_empty_completion(output):
    (failure,) = llm(Upper(lambda text: output)).ask(ask("a"))
    assert isinstance(failure, Empty)


def test_errors_as_text_and_exceptions_are_failures():
    texts = llm(Upper(lambda text: "ERROR::other" if text == "B" else text)).ask(ask("a", "b"))
    assert texts[0].text == "A"
    assert isinstance(texts[1], Unavailable)
    assert str(texts[1]) == "answer of turn 1_2: upper-1 answered ERROR::other"

    named = llm(Upper(lambda text: f"ERROR::{text.lower()}")).ask(
        ask("reduce_length", "response_filtered")
    )
    assert [type(one) for one in named] == [TooLong, Filtered]

    def broken(chats):
        raise RuntimeError("no memory")

    (failure,) = llm(SimpleNamespace(generate=broken)).ask(ask("a"))
    assert isinstance(failure, Unavailable)
    assert f"raised RuntimeError: no memory ({__file__}, line " in str(failure)
    assert isinstance(llm(Upper(lambda text: None)).ask(ask("a"))[0], Empty)


@pytest.mark.parametrize("returned", ["ab", b"ab", {"a": "A", "b": "B"}, {"A", "B"}, ["one"]])
def test_a_string_or_non_list_does_not_complete_several_prompts(returned):
    with pytest.raises(
        UsageError,
        match=rf"must return a list with one text per chat, not this {type(returned).__name__}( of "
        rf"1 for 2 chats)?",
    ):
        llm(SimpleNamespace(generate=lambda chats: returned)).ask(ask("a", "b"))


class Flaky(Backend):
    """A user's own backend."""

    model, identity = "own", {"provider": "own"}

    def __init__(self, *outcomes):
        self.outcomes = list(outcomes)

    def complete(self, requests):
        outcome = self.outcomes.pop(0)
        if isinstance(outcome, Exception):
            raise outcome
        return [outcome]


def test_a_backend_of_ones_own_is_retried_and_counted():
    model = llm(Flaky(Transient(0.0, "busy"), Reply("yes", prompt_tokens=2, completion_tokens=1)))
    assert model.ask(ask("a"))[0].text == "yes"
    row = model.ledger.frame().iloc[0]
    assert (row["model"], row["calls"], row["retries"], row["prompt_tokens"]) == ("own", 1, 1, 2)


def test_a_bug_in_a_backend_is_raised_as_it_is():
    with pytest.raises(ZeroDivisionError):
        llm(Flaky(ZeroDivisionError("bug"))).ask(ask("a"))


def test_a_fatal_error_says_how_far_the_stage_came():
    with pytest.raises(FatalLLMError, match=r"bad key \(done and kept: 1 call, left: 1; run again"):
        llm(Flaky(Reply("yes"), FatalLLMError("bad key"))).ask(ask("a", "b"))


def test_a_stage_error_names_five_turns_per_reason_then_counts():
    failures = [CutOff("answer", f"1_{number}", "cut off") for number in range(6)]
    failures.append(Empty("answer", "2_1", "empty"))
    error = StageError("answer", failures)
    assert str(error).startswith(
        "stage answer: 7 requests failed (6 CutOff, 1 Empty): 1_0, 1_1, 1_2, 1_3, 1_4 and 1 more "
        "(cut off), 2_1 (empty); "
    )
    assert "on_error=fallback" in str(error)
    assert error.failures == failures
    assert isinstance(error, IkatError)


def test_a_reason_is_one_bounded_line():
    failure = LLMFailure("answer", "1_1", "<html>\n" + "busy " * 1000)
    assert "\n" not in str(failure)
    assert len(failure.reason) == 300
