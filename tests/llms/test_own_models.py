"""A model of the user's own: disk cache, prices and budget like any other, and a name for
``--llm``."""

from types import SimpleNamespace

import pandas as pd
import pyterrier as pt
import pytest
from chat_server import ask

import pyterrier_ikat as ikat
from pyterrier_ikat.errors import UsageError
from pyterrier_ikat.llms import BudgetExceeded, FatalLLMError, llm
from pyterrier_ikat.llms.backend import ShortCompletionsWarning


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
    file, later = tmp_path / "own.sqlite", Echo("!")
    assert texts(llm(Echo("!"), identity={"tail": "!"}, cache=file), "a") == ["a!"]
    assert texts(llm(later, identity={"tail": "!"}, cache=file), "a") == ["a!"]
    assert later.calls == 0
    assert texts(llm(Echo("?"), identity={"tail": "?"}, cache=file), "a") == ["a?"]

    class Other(Echo):
        pass

    assert texts(llm(Other("."), identity={"tail": "!"}, cache=file), "a") == ["a."]


def test_an_object_stating_its_identity_uses_the_shared_cache(tmp_path, monkeypatch):
    monkeypatch.setenv("IKAT_HOME", str(tmp_path))
    one, two = Echo("!"), Echo("!")
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
