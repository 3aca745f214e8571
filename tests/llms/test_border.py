"""Odd numbers, words and texts that a server sends, read at the border."""

import pytest
from llms.chat_server import ask, refused, said

from pyterrier_ikat.llms import Completion, FatalLLMError
from pyterrier_ikat.llms.cache import CompletionCache
from pyterrier_ikat.llms.failures import Empty, Unfinished

WRONG = [1.5, "7", [], {}, None]


@pytest.mark.parametrize("number", WRONG, ids=lambda number: str(number)[:12])
def test_an_impossible_number_of_tokens_is_unknown_to_budgets(server, model, number):
    server.script = [said("fine", usage=None)]
    server.script[0].body["usage"] = {
        "prompt_tokens": number,
        "completion_tokens": 3,
        "prompt_tokens_details": {"cached_tokens": 2},
    }
    made = model("price_in=1 price_out=1 price_cached=1 budget=0.01 cache=none")
    with pytest.raises(FatalLLMError, match="does not tell how many tokens"):
        made.ask(ask("a"))
    row = made.ledger.frame().iloc[0]
    assert row[["prompt_tokens", "cost"]].isna().all()
    assert row["completion_tokens"] == 3
    assert made.budget.spent == 0


@pytest.mark.parametrize(("name", "value"), [("model", None), ("refusal", False), ("refusal", [])])
def test_an_odd_word_beside_an_answer_costs_no_answer(server, model, name, value):
    server.script = [said("fine")]
    place = (
        server.script[0].body if name == "model" else server.script[0].body["choices"][0]["message"]
    )
    place[name] = value
    assert model().ask(ask("a"))[0].text == "fine"
    assert server.calls == 1


def test_server_words_hold_no_codes_and_no_half_characters(server, model, home, recwarn):
    wild = "m\x1b[31m\x1b]0;mine\x07-2\ud800\n\x00\x9bx" + "y" * 500
    server.script = [
        said("tea\x1b[2J\x00 and\ud800", model=wild),
        refused(400, f"no \x1b[31m{wild}"),
        said(None, refusal=f"\x1b[31m{wild}"),
    ]
    made = model()
    answer, *failures = made.ask(ask("a"))[0], *made.ask(ask("b")), *made.ask(ask("c"))
    assert answer.text == "tea and�"
    shown = [
        answer.model,
        made.ledger.frame()["served"][0],
        *map(str, failures),
        *(str(one.message) for one in recwarn),
    ]
    for text in shown:
        assert text.isprintable()
        assert text.encode()
        assert len(text) < 800
    assert answer.model.startswith("m-2�")
    again = CompletionCache(home / "llm.sqlite").get([ask("a")[0].key(made.backend.identity)])
    assert [one.text for one in again.values()] == ["tea and�"]


def test_a_text_of_nul_is_empty_and_a_tool_call_is_no_answer(server, model):
    call = {"id": "1", "type": "function", "function": {"name": "search", "arguments": "{}"}}
    server.script = [
        said("\x00"),
        said("Let me search.", tool_calls=[call]),
        said("Hm.", function_call=call["function"]),
    ]
    server.script.append(said("fine", tool_calls=[]))
    kinds = []
    for _ in range(4):
        [outcome] = model("cache=none").ask(ask("a"))
        kinds.append(type(outcome))
    assert kinds == [Empty, Unfinished, Unfinished, Completion]
