"""llm.check(): ten lines that say which forms a server uses."""

import json
from types import SimpleNamespace

import pytest
from chat_server import Answer, ask, piece, refused, said, streamed

import pyterrier_ikat as ikat
from pyterrier_ikat.errors import UsageError
from pyterrier_ikat.llms import BudgetExceeded, Completion, FatalLLMError, checking
from pyterrier_ikat.llms.checking import Check, Probe
from pyterrier_ikat.llms.failures import CutOff, Empty, RateLimited, TooLong
from pyterrier_ikat.llms.ledger import Spend

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
    assert made.check().lines == found.lines  # its cost is that of its own calls
    assert server.calls == 10  # no answer is kept


@pytest.mark.parametrize(
    ("changed", "name", "words"),
    [
        ({"stream": False}, "stream", "no: the answer comes as a whole"),
        ({"finish": None}, "end", "gives no reason"),
        ({"finish": ""}, "end", "gives no reason"),
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
    made = model("cache=none")
    assert "max_completion_tokens=5" in made.check().lines["max_tokens"]
    assert made.backend.body(ask("a", params={"max_tokens": 3})[0])["max_completion_tokens"] == 3


def test_the_model_that_answered_is_named(model, server):
    server.respond = lambda body: said(TEN, model="m-2026-01-31")
    assert model().check().lines["answer"] == "'one, two, three', by m-2026-01-31"


@pytest.mark.parametrize("spec", ["recorded:sample", "hf:org/name", SimpleNamespace(generate=list)])
def test_a_model_that_is_no_server_has_nothing_to_check(spec):
    with pytest.raises(UsageError, match="is no server"):
        ikat.llm(spec).check()


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


def outcome_of(text="one, two", read=9, written=4):
    return Completion(text, "m", "stop", read, written, 0.1, False)


FAILURE = Empty("check", "1", "the completion is empty")


def probe_of(raw, **llm):
    return Probe(SimpleNamespace(**llm), [] if raw is None else [raw])


def raw_of(usage=None, finish="stop", **message):
    return {"choices": [{"message": message, "finish_reason": finish}], "usage": usage}


@pytest.mark.parametrize(
    ("raw", "choice", "message", "usage"),
    [
        (None, {}, {}, {}),
        ("a page", {}, {}, {}),
        ({"choices": [], "usage": 5}, {}, {}, {}),
        ({"choices": "x", "usage": {"a": 1}}, {}, {}, {"a": 1}),
        ({"choices": ["x"]}, {}, {}, {}),
        ({"choices": [{"message": "x"}]}, {"message": "x"}, {}, {}),
        ({"choices": [{"message": {"b": 1}}, {}]}, {"message": {"b": 1}}, {"b": 1}, {}),
    ],
)
def test_a_probe_reads_raw_answers_of_any_form(raw, choice, message, usage):
    probe = probe_of(raw)
    assert (probe.choice, probe.message, probe.usage) == (choice, message, usage)
    two = Probe(SimpleNamespace(), [raw_of({"a": 1}, content="first"), raw])
    assert two.message == message


@pytest.mark.parametrize(
    ("raw", "outcome", "line"),
    [
        (None, FAILURE, "can't be told: there is no answer"),
        (raw_of(content="a"), outcome_of(), "is not told: costs are unknown, and budget= can't"),
        ({"usage": {"a": 1}}, FAILURE, "is not told: costs are unknown"),
        (
            raw_of({"prompt_tokens": 5}, content="a"),
            outcome_of(),
            "makes no sense ({'prompt_tokens': 5}): costs",
        ),
        (
            raw_of({"completion_tokens": 5}, content="a"),
            outcome_of(),
            "makes no sense ({'completion_tokens': 5}): costs",
        ),
        (
            raw_of({"input_tokens": 9, "output_tokens": 4}, content="a"),
            outcome_of(),
            "is told in another form: counted as 9 in, 4 out",
        ),
        (
            raw_of({"prompt_tokens": 9, "completion_tokens": 4}, content="a"),
            outcome_of(),
            "prompt 9 + completion 4, without a total",
        ),
        (
            raw_of({"prompt_tokens": 9, "completion_tokens": 4, "total_tokens": 13}, content="a"),
            FAILURE,
            "prompt 9 + completion 4 = total 13",
        ),
        (
            raw_of({"prompt_tokens": 9, "completion_tokens": 4, "total_tokens": 14}, content="a"),
            FAILURE,
            "prompt 9 + completion 4 is not the total 14",
        ),
        (
            raw_of({"prompt_tokens": 9, "completion_tokens": 4, "total_tokens": 14}, content="a"),
            outcome_of(written=5),
            "prompt 9 + completion 4 is not the total 14: counted as 9 in, 5 out",
        ),
    ],
)
def test_the_line_about_usage(raw, outcome, line):
    assert checking._usage(probe_of(raw), outcome).startswith(line)


@pytest.mark.parametrize(
    ("raw", "outcome", "line"),
    [
        (None, FAILURE, "can't be told: there is no answer"),
        (
            raw_of(content="a", reasoning="hm"),
            outcome_of("a"),
            "in a field of its own, 'reasoning'",
        ),
        (raw_of(content="a", reasoning=""), outcome_of("a"), "none"),
        (raw_of(content=[{"text": "a"}]), outcome_of("a"), "in parts of the content"),
        (raw_of(content=" a \n"), outcome_of("a"), "none"),
        (
            raw_of(content=" <think>" + "x" * 40),
            outcome_of("a"),
            f"marks in the text, which are removed: '<think>{'x' * 23}'",
        ),
        (raw_of(content="<think>"), FAILURE, "none"),
        (
            raw_of({"completion_tokens_details": {"reasoning_tokens": 7}}, content="a"),
            outcome_of("a"),
            "not shown, 7 tokens",
        ),
        (raw_of({"completion_tokens_details": 7}, content="a"), outcome_of("a"), "none"),
        (
            raw_of({"completion_tokens_details": {"reasoning_tokens": 0}}, content="a"),
            outcome_of("a"),
            "none",
        ),
    ],
)
def test_the_line_about_reasoning(raw, outcome, line):
    assert checking._reasoning(probe_of(raw), outcome) == line


@pytest.mark.parametrize(
    ("outcome", "seen", "finish", "line"),
    [
        (FAILURE, 1, "stop", "fails: the completion is empty"),
        (FAILURE, 0, None, "fails: the completion is empty"),
        (outcome_of(), 0, "stop", "no: the answer comes as a whole"),
        (outcome_of(), 1, "stop", "yes, ends with 'stop', with usage"),
        (outcome_of(), 2, None, "yes, ends without a reason, with usage"),
        (
            outcome_of(read=None),
            1,
            "eos",
            "yes, ends with 'eos', without usage, so its cost is unknown",
        ),
    ],
)
def test_the_line_about_streams(outcome, seen, finish, line):
    assert checking._stream(probe_of(raw_of(finish=finish)), outcome, seen) == line


@pytest.mark.parametrize(
    ("outcome", "renamed", "line"),
    [
        (CutOff("check", "1", "cut"), False, "kept and told (max_tokens=5: 'length')"),
        (CutOff("check", "1", "cut"), True, "kept and told (max_completion_tokens=5: 'length')"),
        (FAILURE, False, "fails (max_tokens=5): the completion is empty"),
        (
            outcome_of("x" * 40),
            True,
            f"ignored, or not told: max_completion_tokens=5, and the answer '{'x' * 30}' counts "
            "as whole",
        ),
    ],
)
def test_the_line_about_a_limit(outcome, renamed, line):
    backend = SimpleNamespace(completion_limit=renamed)
    assert checking._limit(outcome, probe_of(raw_of(finish="length"), backend=backend)) == line


def raising(error):
    raise error


@pytest.mark.parametrize(
    ("ask", "line"),
    [
        (lambda: outcome_of('{"tea": "mint"}'), "taken: structured=on"),
        (lambda: outcome_of("mint"), "ignored: omit structured=on (it answers 'mint')"),
        (lambda: FAILURE, "fails: the completion is empty"),
        (lambda: raising(FatalLLMError("no schema")), "refused: omit structured=on (no schema)"),
    ],
)
def test_the_line_about_schemas(ask, line):
    assert checking._schema(ask) == line


def test_a_rate_limit_says_nothing_about_schemas():
    with pytest.raises(RateLimited):
        checking._schema(lambda: raising(RateLimited("busy")))


@pytest.mark.parametrize(
    ("outcome", "line"),
    [
        (TooLong("check", "1", "too long"), "refuses 100 words: too long"),
        (FAILURE, "fails with 100 words: the completion is empty"),
        (outcome_of(read=None), "takes 100 words; how many it reads is not told"),
        (outcome_of(read=89), "cuts it: reads 89 tokens of 100 words"),
        (outcome_of(read=90), "reads all of 100 words (90 tokens)"),
    ],
)
def test_the_line_about_long_prompts(outcome, line):
    assert checking._window(outcome, 100).startswith(line)


@pytest.mark.parametrize(
    ("total", "line"),
    [
        (Spend(calls=1, cost=0.5), "1 call, 0 tokens in, 0 out, $0.5000"),
        (
            Spend(2, 0, None, 0, 7, None, 0.0, 1),
            "2 calls, 1 request without an answer, ? tokens in, 7 out",
        ),
        (Spend(2, 0, 9, 0, None, 0.0), "2 calls, 9 tokens in, ? out, $0.0000"),
    ],
)
def test_the_line_about_the_cost(total, line):
    assert checking._cost(total) == line


def test_the_lines_stand_in_columns():
    assert repr(Check({"a": "first", "longer": "second"})) == "a       first\nlonger  second"


def test_a_check_asks_five_prompts_in_its_own_way(model, server):
    server.respond = Forms()
    made = model("temperature=0.5 retries=0 timeout=7")
    made.check(50)
    params = []
    for body in server.bodies:
        is_stream = body.get("stream", False)
        params.append((body["max_tokens"], is_stream, "response_format" in body))
    assert params == [
        (1000, False, False),
        (1000, True, False),
        (5, False, False),
        (1000, False, True),
        (1000, False, False),
    ]
    assert {body["temperature"] for body in server.bodies} == {0.5}
    first, stream, short, schema, long = [body["messages"][0]["content"] for body in server.bodies]
    assert first.startswith("Count from one to ten")
    assert first == stream == short
    assert schema == "Name one herbal tea."
    assert long == " ".join(["tea"] * 50) + "\n" + schema
    assert made.backend.seen is None
    assert made.backend._clients == {}
