"""llm.check(): ten lines that say which forms a server uses."""

import json

import pytest
from chat_server import Answer, piece, refused, said, streamed

import pyterrier_ikat as ikat
from pyterrier_ikat.errors import UsageError
from pyterrier_ikat.llms import BudgetExceeded, FatalLLMError

TEN = "one, two, three"


class Forms:
    """A server that does everything right. ``changed`` says what it does otherwise."""

    def __init__(self, **changed):
        self.forms = {
            "stream": True,
            "finish": "stop",
            "usage": True,
            "schema": "yes",
            "limit": True,
            "window": 10**9,
            **changed,
        }

    def __call__(self, body):
        forms = self.forms
        words = len(body["messages"][0]["content"].split())
        usage = (min(words + 8, forms["window"]), 9) if forms["usage"] else None
        if "response_format" in body and forms["schema"] != "ignored":
            return (
                said('{"tea": "rooibos"}', usage=usage)
                if forms["schema"] == "yes"
                else refused(400, "response_format is not supported")
            )
        if body["max_tokens"] == 5 and forms["limit"]:
            return said("one, two", finish="length", usage=usage)
        if body.get("stream") and forms["stream"]:
            return streamed("one, ", "two, ", "three", usage=usage)
        answer = said(TEN, finish=forms["finish"], usage=usage)
        if "more" in forms:
            answer.body["usage"]["total_tokens"] += forms["more"]
        return answer


def lines(model, server, **changed):
    server.respond = Forms(**changed)
    return model("cache=none price_in=1 price_out=1").check().lines


def test_a_good_server_in_ten_lines(model, server):
    server.respond = Forms()
    made = model("price_in=1000 price_out=1000")
    found = made.check()
    assert str(found).count("\n") == 9
    assert found.lines == {
        "model": f"m at {server.url}",
        "answer": "'one, two, three', by m",
        "end": "says 'stop'",
        "usage": "prompt 23 + completion 9 = total 32",
        "reasoning": "none",
        "stream": "yes, ends with 'stop', with usage",
        "max_tokens": "kept and told (max_tokens=5: 'length')",
        "schema": "taken: structured=on",
        "long prompt": "reads all of 5000 words (5012 tokens)",
        "cost": "5 calls, 5093 tokens in, 45 out, $5.1380",
    }
    row = made.ledger.frame().iloc[0]
    assert (row.stage, row.calls, row.prompt_tokens) == ("check", 5, 5093)
    assert made.budget.spent == pytest.approx(5.138)
    made.check()
    assert server.calls == 10  # no answer is kept


@pytest.mark.parametrize(
    ("changed", "name", "words"),
    [
        ({"stream": False}, "stream", "no: the answer comes as a whole"),
        ({"finish": None}, "end", "gives no reason"),
        ({"usage": False}, "usage", "is not told"),
        ({"usage": False}, "cost", "5 calls, ? tokens in, ? out"),
        (
            {"more": 300},
            "usage",
            "prompt 23 + completion 9 is not the total 332: counted as 23 in, 309 out",
        ),
        ({"schema": "no"}, "schema", "refused: omit structured=on"),
        ({"schema": "ignored"}, "schema", "ignored: omit structured=on"),
        ({"limit": False}, "max_tokens", "ignored, or not told"),
        ({"window": 4096}, "long prompt", "cuts it: reads 4096 tokens of 5000 words"),
        ({"usage": False}, "long prompt", "how many it reads is not told"),
    ],
)
def test_each_other_form_is_named(model, server, changed, name, words):
    assert words in lines(model, server, **changed)[name]


def test_reasoning_is_named_where_it_stands(model, server):
    server.respond = lambda body: said(TEN, reasoning_content="hm")
    assert "'reasoning_content'" in model().check().lines["reasoning"]
    server.respond = lambda body: said(f"<think>hm</think> {TEN}")
    assert "marks in the text" in model().check().lines["reasoning"]


def test_a_stream_with_other_events_and_no_reason_is_described(model, server):
    def respond(body):
        if not body.get("stream"):
            return said(TEN)
        event = json.dumps({"choices": [{"index": 0, "delta": {"content": TEN}}]})
        return Answer(
            200,
            f"retry: 1\n\ndata: {event}\n\ndata: [DONE]\n\n".encode(),
            {"Content-Type": "text/event-stream"},
        )

    server.respond = respond
    assert (
        model().check().lines["stream"]
        == "yes, ends without a reason, without usage, so its cost is unknown"
    )
    server.respond = lambda body: said(TEN) if not body.get("stream") else Answer(body=[piece(TEN)])
    assert (
        model("retries=0")
        .check()
        .lines["stream"]
        .startswith("fails: the server's answer broke off")
    )


def test_a_server_with_no_usable_answer_is_still_described(model, server):
    server.respond = lambda body: said("", usage=None)
    found = model().check().lines
    assert found["answer"] == "fails: the completion is empty"


def test_a_budget_and_a_wrong_key_hold(model, server):
    server.respond = Forms()
    with pytest.raises(BudgetExceeded):
        model("price_in=1000 price_out=1000 budget=0.05").check()
    assert server.calls == 2
    server.respond = lambda body: refused(401, "no")
    with pytest.raises(FatalLLMError, match="OPENAI_API_KEY"):
        model().check()
    assert server.calls == 3


def test_the_other_name_of_max_tokens_is_shown(model, server):
    names = (
        "Unsupported parameter: 'max_tokens' is not supported with this model. Use "
        "'max_completion_tokens' instead."
    )
    forms = Forms()
    server.respond = lambda body: (
        refused(400, names)
        if "max_tokens" in body
        else forms({**body, "max_tokens": body["max_completion_tokens"]})
    )
    assert "max_completion_tokens=5" in model("cache=none").check().lines["max_tokens"]


def test_a_model_that_is_no_server_has_nothing_to_check():
    with pytest.raises(UsageError, match="is no server"):
        ikat.llm("recorded:sample").check()


@pytest.mark.parametrize(
    "respond",
    [
        lambda body: Answer(200, "<!doctype html><p>Hello"),
        lambda body: Answer(200, {"choices": [{"message": "one, two", "finish_reason": "stop"}]}),
        lambda body: Answer(200, {"choices": ["one"]}),
        lambda body: refused(500, "boom"),
    ],
)
def test_a_server_without_answers_is_said_to_have_none(model, server, respond):
    server.respond = respond
    found = model("cache=none retries=0").check().lines
    assert found["answer"].startswith("fails")
    assert (
        found["end"] == found["usage"] == found["reasoning"] == "can't be told: there is no answer"
    )


def test_requests_without_an_answer_are_no_calls(model, server):
    server.respond = lambda body: refused(500, "boom")
    assert (
        model("cache=none retries=0")
        .check()
        .lines["cost"]
        .startswith("0 calls, 5 requests without an answer")
    )


@pytest.mark.parametrize("usage", [(10**40, -1), (-4, 3), (True, True)])
def test_numbers_that_no_answer_can_have_are_told(model, server, usage):
    server.respond = lambda body: said(TEN, usage=usage)
    assert "makes no sense" in model("cache=none").check().lines["usage"]
