"""Models of users: anything with ``.generate``, backends of their own, and what is kept."""

import asyncio
from types import SimpleNamespace

import pandas as pd
import pyterrier as pt
import pytest
from chat_server import ask

import pyterrier_ikat as ikat
from pyterrier_ikat.errors import UsageError
from pyterrier_ikat.llms import (
    LLM,
    Backend,
    BudgetExceeded,
    FatalLLMError,
    Reply,
    Request,
    Transient,
    llm,
)
from pyterrier_ikat.llms.backend import GeneratorBackend, ShortCompletionsWarning
from pyterrier_ikat.llms.cache import CompletionCache
from pyterrier_ikat.llms.failures import Empty, Filtered, TooLong, Unavailable


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


class Echo:
    def __init__(self, tail="", tokens=None):
        self.tail = tail
        self.tokens = tokens
        self.calls = 0

    def generate(self, chats):
        self.calls += len(chats)
        used = {}
        if self.tokens is not None:
            used = {"prompt_tokens": self.tokens, "completion_tokens": 0}
        outputs = []
        for chat in chats:
            text = chat[-1]["content"] + self.tail
            outputs.append(SimpleNamespace(text=text, **used))
        return outputs


class TellsSome(Echo):
    """A model that tells the tokens of its answers, but for that to ``quiet``."""

    def generate(self, chats):
        found = super().generate(chats)
        for one in found:
            if one.text == "quiet":
                one.prompt_tokens = one.completion_tokens = None
        return found


def texts(model, *questions):
    found = [completion.text for completion in model.ask(ask(*questions))]
    model.close()
    return found


def test_with_an_identity_completions_are_kept_and_never_mixed(tmp_path):
    file = tmp_path / "own.sqlite"
    later = Echo("!")
    assert texts(llm(Echo("!"), identity={"tail": "!"}, cache=file), "a") == ["a!"]
    assert texts(llm(later, identity={"tail": "!"}, cache=file), "a") == ["a!"]
    assert later.calls == 0
    assert texts(llm(Echo("?"), identity={"tail": "?"}, cache=file), "a") == ["a?"]

    class Other(Echo):
        pass

    assert texts(llm(Other("."), identity={"tail": "!"}, cache=file), "a") == ["a."]


def test_an_object_stating_its_identity_uses_the_shared_cache(tmp_path, monkeypatch):
    monkeypatch.setenv("IKAT_HOME", str(tmp_path))
    one = Echo("!")
    two = Echo("!")
    one.identity = two.identity = "tail !"
    assert texts(llm(one), "a") == texts(llm(two), "a")
    assert (two.calls, (tmp_path / "llm.sqlite").exists()) == (0, True)
    assert llm(one) == llm(two)


class OfPyTerrier(pt.Transformer, Echo):
    """As pyterrier_rag's backends: a transformer, whose ``identity`` is a method of every
    transformer."""

    model_id, supports_message_input, max_new_tokens = "echo-1", True, 1024

    def transform(self, inp):
        return inp

    def batch_size(self):
        """Another method under the name of a value."""


def test_only_a_value_is_an_identity(tmp_path, monkeypatch):
    monkeypatch.setenv("IKAT_HOME", str(tmp_path))
    model = llm(OfPyTerrier("!"))
    assert (texts(model, "a"), model.model, list(tmp_path.iterdir())) == (["a!"], "echo-1", [])
    assert texts(llm(OfPyTerrier("!"), cache=tmp_path / "own.sqlite"), "a") == ["a!"]
    again = OfPyTerrier("?")
    assert texts(llm(again, cache=tmp_path / "own.sqlite"), "a") == [
        "a!"
    ]  # as documented: the model_id alone tells them apart
    assert texts(llm(OfPyTerrier("?"), identity="?", cache=tmp_path / "own.sqlite"), "a") == ["a?"]
    turns = pd.DataFrame({"qid": ["1_1"], "query": ["Which tea?"]})
    with pytest.raises(
        ikat.llms.StageError, match='completion "# Task'
    ):  # it was asked, and an echo of the prompt is not a rewrite
        ikat.Rewrite(OfPyTerrier("!"))(turns)


def test_a_low_token_limit_is_told_when_cut_offs_cannot_be_seen():
    short = OfPyTerrier()
    short.max_new_tokens = 32
    with pytest.warns(
        ShortCompletionsWarning, match=r"echo-1 writes at most 32 tokens \(max_new_tokens\)"
    ):
        llm(short)


def test_without_an_identity_nothing_is_kept_beyond_the_process(tmp_path, monkeypatch):
    monkeypatch.setenv("IKAT_HOME", str(tmp_path))
    named = Echo()
    named.model_id = "echo-1"
    assert [texts(llm(model), "a") for model in (named, Echo())] == [["a"], ["a"]]
    assert list(tmp_path.iterdir()) == []
    with pytest.raises(
        UsageError,
        match=r"Echo in the cache .*: give identity=\.\.\., what decides its answers, or omit "
        r"cache=",
    ):
        llm(Echo(), cache=tmp_path / "own.sqlite")
    assert texts(llm(named, cache=tmp_path / "own.sqlite"), "a") == ["a"]


def test_prices_and_a_budget_count_the_tokens_that_it_tells():
    model = llm(Echo(tokens=1000), price_in=1000, price_out=0, budget=1.5, cache="none")
    model.backend.batch_size = 1
    with pytest.raises(BudgetExceeded):
        model.ask(ask("a", "b", "c"))
    assert model.ledger.frame()["cost"].tolist() == [2.0]
    with pytest.raises(FatalLLMError, match="does not tell how many tokens"):
        llm(Echo(), price_in=1, price_out=1, budget=1).ask(ask("a"))


@pytest.mark.parametrize(
    ("given", "arguments", "message"),
    [
        ("openai:gpt-4o", {"budget": 1}, "the options are for an object"),
        (Echo(), {"price_in": "cheap"}, "price_in is wrong: give a number from 0"),
        (Echo(), {"on_error": "skip"}, "on_error is wrong: give raise or fallback"),
        (Echo(), {"budget": 1}, "a budget needs prices"),
        (SimpleNamespace(complete=len), {}, "is not a language model"),
    ],
)
def test_arguments_that_make_no_sense(given, arguments, message):
    with pytest.raises(UsageError, match=message):
        llm(given, **arguments)


@pytest.mark.parametrize("questions", [("told", "quiet"), ("quiet", "told")])
def test_an_error_is_raised_beside_an_answer_that_is_kept(tmp_path, questions):
    own = TellsSome(tokens=1)
    model = llm(
        own, identity="some", cache=tmp_path / "own.sqlite", price_in=1, price_out=1, budget=5
    )
    with pytest.raises(FatalLLMError, match="does not tell how many tokens"):
        model.ask(ask(*questions))
    assert own.calls == 2
    for request in ask(*questions):
        assert model.peek(request) is not None
