"""The OpenAI path against a real server: what is sent, what comes back, what is counted."""

import re
import threading

import pandas as pd
import pytest
from chat_server import DROP, KEY, Answer, ask, refused, said
from hypothesis import given
from hypothesis import strategies as st

import pyterrier_ikat as ikat
from pyterrier_ikat.llms import BudgetExceeded, FatalLLMError, Reply, StageError, llm
from pyterrier_ikat.llms.failures import (
    BadRequest,
    CutOff,
    Empty,
    Filtered,
    OnlyReasoning,
    Refused,
    TooLong,
    Unavailable,
    Unfinished,
)
from pyterrier_ikat.llms.model import OtherModelWarning
from pyterrier_ikat.llms.request import WHOLE, read
from pyterrier_ikat.llms.retry import Retry


def row(model, stage="answer"):
    return next(row for row in model.ledger.rows() if row["stage"] == stage)


def test_a_completion_with_everything_the_server_tells(model, server):
    (completion,) = model("temperature=0 top_p=0.5 top_k=10 max_tokens=50 seed=3").ask(
        ask("Which tea?", sample=2)
    )
    assert (completion.text, completion.model, completion.finish_reason) == (
        "answer to Which tea?",
        "m",
        "stop",
    )
    assert (completion.prompt_tokens, completion.completion_tokens, completion.cached) == (
        7,
        3,
        False,
    )
    messages = [{"role": "user", "content": "Which tea?"}]
    sent = {
        "model": "m",
        "messages": messages,
        "temperature": 0.0,
        "top_p": 0.5,
        "top_k": 10,
        "max_tokens": 50,
        "seed": 5,
    }
    assert server.bodies == [sent]
    assert server.headers[0]["authorization"] == f"Bearer {KEY}"


def test_unset_parameters_are_not_sent_and_a_request_overrides(model, server):
    model("max_tokens=50 concurrency=1").ask(
        [*ask("a", params={"max_tokens": 5, "response_format": {"type": "json_object"}}), *ask("b")]
    )
    assert server.bodies[0].keys() == {"model", "messages", "max_tokens", "response_format"}
    assert [body["max_tokens"] for body in server.bodies] == [5, 50]


def test_openai_is_sent_the_parameter_that_all_its_models_know():
    backend = llm("openai:gpt-4o max_tokens=9").backend
    assert backend.body(ask("a")[0])["max_completion_tokens"] == 9
    assert "max_tokens" not in backend.body(ask("a")[0])


def test_64_answers_in_reverse_order_give_the_same_bytes(model, server):
    count, order = 64, []
    arrived = threading.Barrier(count)
    turn = [threading.Event() for _ in range(count + 1)]
    turn[count].set()

    def number_of(body):
        return int(re.search(r"drink number (\d+)", str(body["messages"])).group(1))

    def reversed_order(body):
        number = number_of(body)
        if number < count:
            arrived.wait(120)
            turn[number + 1].wait(120)
            order.append(number)
            turn[number].set()
        return said(f"Drink {number} is tea.")

    server.respond = reversed_order
    turns = pd.DataFrame(
        {
            "qid": [f"1_{number}" for number in range(count)],
            "query": [f"What is drink number {n}?" for n in range(count)],
        }
    )
    warm = pd.DataFrame({"qid": ["0_1"], "query": [f"What is drink number {count}?"]})
    made = model(f"concurrency={count} cache=none")
    ikat.Answer(made)(warm)
    reverse = ikat.Answer(made)(turns)
    assert order == list(reversed(range(count)))
    server.respond = lambda body: said(f"Drink {number_of(body)} is tea.")
    one_by_one = ikat.Answer(model("concurrency=1 cache=none"))(turns)
    assert reverse["qanswer"].tolist() == [f"Drink {number} is tea." for number in range(count)]
    assert reverse.to_json().encode() == one_by_one.to_json().encode()
    assert server.most == count


def test_never_more_at_once_than_allowed_and_none_waits_for_slow(model, server):
    slow = threading.Event()

    def respond(body):
        if body["messages"][-1]["content"] == "7":
            assert slow.wait(120)
        elif server.calls == 40:
            slow.set()
        return said()

    server.respond = respond
    assert len(model("concurrency=4").ask(ask(*map(str, range(40))))) == 40
    assert server.calls == 40
    assert server.most <= 4


def test_equal_requests_are_asked_once_and_each_gets_its_answer(model, server):
    made = model("cache=none")
    assert made.ask([]) == []
    first, second, other = made.ask([*ask("same", "same"), *ask("other")])
    assert (first.text, first.cached, second.text, second.cached) == (
        "answer to same",
        False,
        "answer to same",
        True,
    )
    assert other.text == "answer to other"
    assert (server.calls, row(made)["calls"], row(made)["known"]) == (2, 2, 1)


def test_a_failure_of_equal_requests_names_each_turn(model, server):
    server.respond = lambda body: refused(400, "too long")
    made = model()
    failures = made.ask(ask("same", "same"))
    assert [(type(failure), failure.qid) for failure in failures] == [
        (BadRequest, "1_1"),
        (BadRequest, "1_2"),
    ]
    assert "too long" in str(failures[0])
    assert (server.calls, row(made)["failures"]) == (1, 2)


@pytest.mark.parametrize(
    ("status", "header", "waited"),
    [(429, "2", [2]), (429, "0", []), (429, "121", [121]), (429, "1.5", [1.5]), (503, "121", [60])],
)
def test_retry_after_is_obeyed_within_bounds(model, server, slept, status, header, waited):
    server.script = [refused(status, Retry_After=header)]
    made = model()
    assert made.ask(ask("a"))[0].text == "answer to a"
    assert slept == pytest.approx(waited, abs=0.5)
    assert (server.calls, row(made)["calls"], row(made)["retries"], row(made)["failures"]) == (
        2,
        1,
        1,
        0,
    )


@pytest.mark.parametrize(
    "header",
    [
        None,
        "-10",
        "inf",
        "nan",
        "soon",
        "",
        "Thu, 01 Jan 1970 00:00:00 GMT",
        "Thu, 99 Foo 1970",
        "9" * 400,
    ],
)
def test_a_senseless_or_absent_retry_after_backs_off(model, server, slept, header):
    headers = {}
    if header is not None:
        headers["Retry_After"] = header
    server.script = [refused(429, **headers) for _ in range(3)]
    assert model().ask(ask("a"))[0].text == "answer to a"
    first, second, third = slept
    assert 0.5 <= first <= 2
    assert 1.5 <= second <= 3
    assert 3.5 <= third <= 5


NO_COMPLETIONS = [
    b"<html>busy</html>",
    b"",
    b"{}",
    b'{"choices": []}',
    b'{"choices": null}',
    b"[1]",
    b'"text"',
    said(5).body,
]
PASSING = [
    *map(refused, (408, 409, 425, 429, 500, 502, 503, 504)),
    *(Answer(200, body) for body in NO_COMPLETIONS),
    DROP,
]


@pytest.mark.parametrize(
    "failures", [*([failure] for failure in PASSING), PASSING[5:9], PASSING[-4:]]
)
def test_transient_failures_are_retried_and_counted_exactly(model, server, failures):
    server.script = [said(), *failures]
    times = len(failures)
    made = model()
    made.ask(ask("first"))  # one that has never answered is given up sooner
    assert made.ask(ask("a"))[0].text == "answer to a"
    assert (server.calls, row(made)["calls"], row(made)["retries"], row(made)["failures"]) == (
        times + 2,
        2,
        times,
        0,
    )


@pytest.mark.parametrize(
    ("options", "tries", "told"),
    [("retries=3", 4, "4 tries"), ("", 6, "6 tries"), ("retries=0", 1, "1 try")],
)
def test_a_lasting_failure_stops_at_the_cap_other_turns_finish(model, server, options, tries, told):
    server.respond = lambda body: (
        refused(500, "broken") if body["messages"][-1]["content"] == "b" else said()
    )
    made = model(options)
    good, bad, also_good = made.ask(ask("a", "b", "c"))
    assert (good.text, also_good.text) == ("fine", "fine")
    assert isinstance(bad, Unavailable)
    assert str(bad) == f"answer of turn 1_2: the server answers 500: broken (given up after {told})"
    columns = ["calls", "unanswered", "retries", "failures"]
    assert (server.calls, [row(made)[name] for name in columns]) == (
        tries + 2,
        [2, 1, tries - 1, 1],
    )


def test_a_late_refusal_stops_the_stage_after_calls_in_flight(model, server):
    everybody = threading.Barrier(4)
    server.respond = lambda body: refused(401) if everybody.wait(120) >= 0 else None
    made = model("concurrency=4")
    made.backend.patience = 0.01
    with pytest.raises(FatalLLMError, match="done and kept: 0 calls, left: 50"):
        made.ask(ask(*map(str, range(50))))
    assert server.calls == row(made)["unanswered"] == 4


def test_no_server_is_named(slept, monkeypatch):
    made = llm("openai:m base_url=http://127.0.0.1:9/v1 retries=1 cache=none")
    made.retry = Retry(tries=2, sleep=slept.append)
    # "Connection error" is what the client says of every cause
    told = (
        r"^no connection to http://127\.0\.0\.1:9/v1: (?!Connection error).*\(it has never "
        r"answered, 2 tries\): start it, or correct base"
    )
    with pytest.raises(FatalLLMError, match=told):
        made.ask(ask("a"))


THOUGHT = {"type": "thinking", "thinking": [{"type": "text", "text": "Tea?"}]}
BROKEN = said("half an ans")
BROKEN.body["choices"][0]["error"] = {"code": 502, "message": "upstream broke"}


@pytest.mark.parametrize(
    ("answer", "kind", "reason"),
    [
        (BROKEN, Unfinished, ""),
        (
            said("half an ans", finish="length"),
            CutOff,
            "cut off at the token limit after 3 tokens: raise max_tokens",
        ),
        *((said(text), Empty, "empty") for text in ("", " \n\t", None)),
        (said(None, refusal="I can't help."), Refused, "I can't help."),
        (said("partly", finish="content_filter"), Filtered, "content filter"),
        (said("half an ans", finish="LENGTH"), CutOff, "token limit"),
        (said("half an ans", finish="max_tokens"), CutOff, "token limit"),
        (said("half an ans", finish="MAX_TOKENS"), CutOff, "token limit"),
        (said("half an ans", finish="model_length"), CutOff, "token limit"),
        (said("partly", finish="SAFETY"), Filtered, "SAFETY"),
        (said("partly", finish="RECITATION"), Filtered, "RECITATION"),
        (said("partly", finish="PROHIBITED_CONTENT"), Filtered, "PROHIBITED_CONTENT"),
        (said("partly", finish="content_filtered"), Filtered, "content_filtered"),
        *(
            (said("half an ans", finish=reason), Unfinished, reason)
            for reason in (
                "error",
                "abort",
                "tool_calls",
                "function_call",
                "insufficient_system_resource",
                "OTHER",
                "null",
                "stopped",
            )
        ),
        (said("I will not.", finish="refusal"), Refused, "refused"),
        (
            said(None, reasoning_content="The user wants tea."),
            OnlyReasoning,
            "has reasoning and no answer after it",
        ),
        (said("", reasoning="The user wants tea."), OnlyReasoning, "no answer after it"),
        (said([THOUGHT]), OnlyReasoning, "no answer after it"),
        (said("<thinking>Tea?</thinking>\n"), OnlyReasoning, "no answer after it"),
        (said("Mint.\n<thought>Or rather"), OnlyReasoning, "no answer after it"),
        (said("<|channel|>analysis<|message|>Mint?"), OnlyReasoning, "no answer after it"),
        (refused(400, "filtered", code="content_filter"), Filtered, "content filter"),
        (refused(400, "context length exceeded"), TooLong, "context length exceeded"),
        (refused(400, "no", code="context_length_exceeded"), TooLong, "no"),
        (refused(400, "This model's maximum context length is 8192 tokens."), TooLong, "8192"),
        (
            refused(
                400, "The request (9001 tokens) exceeds the available context size (8192 tokens)."
            ),
            TooLong,
            "9001",
        ),
        (
            refused(
                400,
                "The decoder prompt (length 9001) is longer than the maximum model length of 8192.",
            ),
            TooLong,
            "9001",
        ),
        (
            refused(
                400,
                "The input (9001 tokens) is longer than the model's context length (8192 tokens).",
            ),
            TooLong,
            "9001",
        ),
        (refused(400, "prompt is too long: 210000 tokens > 200000 maximum"), TooLong, "210000"),
        (refused(413, "Request Entity Too Large"), TooLong, "413"),
        (refused(422, "bad"), BadRequest, "422"),
    ],
)
def test_an_unusable_completion_is_a_typed_failure_not_cached(model, server, answer, kind, reason):
    server.script = [answer]
    made = model()
    (failure,) = made.ask(ask("a"))
    assert type(failure) is kind
    assert (failure.stage, failure.qid) == ("answer", "1_1")
    assert reason in failure.reason
    assert row(made)["failures"] == 1
    assert made.peek(ask("a")[0]) is None
    assert made.ask(ask("a"))[0].text == "answer to a"
    assert server.calls == 2


def test_a_dated_snapshot_is_recorded_without_a_word(model, server):
    server.respond = lambda body: said(model="gpt-4o-2024-08-06")
    for _ in range(2):
        made = model(name="gpt-4o")
        made.ask([*ask("a", "b"), *ask("a", stage="rewrite")])
        assert (
            made.ledger.frame()[["model", "served"]].values.tolist()
            == [["gpt-4o", "gpt-4o-2024-08-06"]] * 2
        )
        assert made.ledger.served() == {"gpt-4o": ["gpt-4o-2024-08-06"]}
    assert server.calls == 2  # the second time from the cache


def test_another_model_is_warned_of_once_also_from_the_cache(model, server):
    server.respond = lambda body: said(
        model="gpt-4o-mini" if server.calls < 3 else "gpt-4o-2024-05-13"
    )
    made = model("concurrency=1", name="gpt-4o")
    for again in (made, model(name="gpt-4o")):
        with pytest.warns(
            OtherModelWarning, match="'gpt-4o-mini' answers instead of 'gpt-4o'"
        ) as told:
            again.ask([*ask(*"abcd"), *ask(*"abcd")])
        assert len(told) == 1
        assert again.ledger.frame()["served"].tolist() == ["gpt-4o-2024-05-13, gpt-4o-mini"]
    assert server.calls == 4


@pytest.mark.parametrize(
    "reason",
    [
        None,
        "",
        "stop",
        "STOP",
        " Stop ",
        "eos",
        "eos_token",
        "end_turn",
        "END_TURN",
        "stop_sequence",
        "COMPLETE",
        "endoftext",
    ],
)
def test_a_completion_is_whole_if_the_server_says_so_or_nothing(model, server, reason):
    server.script = [said("rooibos", finish=reason)]
    made = model()
    assert made.ask(ask("a"))[0].text == made.peek(ask("a")[0]).text == "rooibos"


@given(st.text(max_size=12))
def test_every_other_reason_is_a_failure(reason):
    reply = Reply("half an ans", finish_reason=reason)
    assert (read(reply).fault is None) == (reason.strip().casefold() in WHOLE)


def test_a_completion_in_parts_is_the_parts_that_are_text(model, server):
    server.script = [
        said([THOUGHT, {"type": "text", "text": "Roo"}, {"type": "text", "text": "ibos"}])
    ]
    assert model().ask(ask("a"))[0].text == "Rooibos"


def test_half_characters_are_mended_and_block_no_later_stage(model, server):
    server.script = [said("\ud83e\uded6 tea \ud83e")]
    made = model()
    (first,) = made.ask(ask("a"))
    (again,) = made.ask(ask("a"))
    assert first.text == again.text == "\U0001fad6 tea \N{REPLACEMENT CHARACTER}"
    assert made.ask(ask(first.text))[0].text == f"answer to {first.text}"


def test_tokens_of_a_cut_off_completion_are_paid_and_counted(model, server):
    server.script = [said("half", finish="length")]
    made = model("price_in=1 price_out=2")
    made.ask(ask("a"))
    assert (row(made)["prompt_tokens"], row(made)["completion_tokens"]) == (7, 3)
    assert row(made)["cost"] == pytest.approx((7 * 1 + 3 * 2) / 1e6)


@pytest.mark.parametrize(
    ("answer", "said_so"),
    [
        (refused(401, f"Incorrect API key provided: {KEY}"), "OPENAI_API_KEY"),
        (refused(403), "OPENAI_API_KEY"),
        (
            refused(404, "no such model"),
            "has no model 'm', or no such address (404: no such model)",
        ),
        (refused(429, "You exceeded your quota", code="insufficient_quota"), "quota"),
        (refused(402), "quota"),
    ],
)
def test_what_no_retry_can_help_stops_the_stage_after_one_call(model, server, answer, said_so):
    server.respond = lambda body: answer
    made = model()
    made.backend.patience = 60  # a busy machine may take its time
    with pytest.raises(FatalLLMError) as raised:
        made.ask(ask(*map(str, range(50))))
    assert said_so in str(raised.value)
    assert "done and kept: 0 calls, left: 50" in str(raised.value)
    assert KEY not in str(raised.value)
    assert (server.calls, row(made)["calls"], row(made)["unanswered"], row(made)["cost"]) == (
        1,
        0,
        1,
        0,
    )


def test_a_quota_that_ends_in_the_middle_keeps_what_is_done(model, server):
    server.respond = lambda body: (
        said() if server.calls <= 20 else refused(429, "gone", code="insufficient_quota")
    )
    made = model("concurrency=4")
    requests = ask(*map(str, range(60)))
    with pytest.raises(FatalLLMError) as raised:
        made.ask(requests)
    assert sum(made.peek(request) is not None for request in requests) == raised.value.done == 20
    assert raised.value.left == 40
    before = server.calls
    assert before <= 24
    server.respond = lambda body: said()
    assert len(made.ask(requests)) == 60
    assert server.calls - before == 40


def test_no_key_is_said_before_anything_is_sent(monkeypatch):
    monkeypatch.delenv("MY_KEY", raising=False)
    with pytest.raises(
        FatalLLMError,
        match=r"no key for https://api\.openai\.com/v1: set the environment variable MY_KEY",
    ):
        llm("openai:gpt-4o api_key_env=MY_KEY").ask(ask("a"))


@pytest.mark.parametrize("key", ["sk-abc…", "sk-abc\ndef", "ключ"])
def test_an_impossible_key_is_refused_before_anything_is_sent(model, server, monkeypatch, key):
    monkeypatch.setenv("OPENAI_API_KEY", key)
    with pytest.raises(
        FatalLLMError, match="the key in OPENAI_API_KEY has a character that no key has"
    ) as raised:
        model().ask(ask("a"))
    assert key not in str(raised.value)
    assert server.calls == 0


def test_closing_closes_connections_that_the_next_call_reopens(model):
    made = model()
    made.open()
    (client,) = made.backend._clients.values()
    made.close()
    assert client.is_closed()
    assert made.ask(ask("a"))[0].text == "answer to a"


def test_fully_cached_needs_no_key_and_no_server(model, server, monkeypatch):
    paid = model().ask(ask("a", "b"))
    monkeypatch.delenv("OPENAI_API_KEY")
    server.http.shutdown()
    server.http.server_close()
    again = model()
    free = again.ask(ask("a", "b"))
    assert [completion.text for completion in free] == [completion.text for completion in paid]
    assert all(completion.cached for completion in free)
    assert (row(again)["calls"], row(again)["known"], row(again)["cost"]) == (0, 2, 0)
    assert again.backend._clients == {}


def test_a_budget_stops_before_the_next_call_and_resumes(model, server):
    prices = "price_in=100000 price_out=100000 concurrency=1"
    with pytest.raises(BudgetExceeded) as raised:
        model(f"budget=2.5 {prices}").ask(ask(*"abcdef"))
    assert (raised.value.spent, raised.value.done, raised.value.left, server.calls) == (
        3.0,
        3,
        3,
        3,
    )
    assert (
        "the budget of 2.5 USD is spent (this model has cost 3.0000 USD); done and kept: 3 calls, "
        "left: 3" in str(raised.value)
    )
    for completion in model(f"budget=30 {prices}").ask(ask(*"abcdef")):
        assert isinstance(completion.text, str)
    assert server.calls == 6


def test_the_estimate_after_a_budget_is_of_what_is_left(model, server):
    """By hand: each call costs 1 dollar; after three, two are left."""
    with pytest.raises(BudgetExceeded) as raised:
        model("budget=2.5 price_in=100000 price_out=100000 concurrency=1").ask(ask(*"abcde"))
    assert (raised.value.done, raised.value.left) == (3, 2)
    assert raised.value.about == pytest.approx(2.0)


def test_a_budget_is_exceeded_only_by_the_calls_under_way(model, server):
    with pytest.raises(BudgetExceeded):
        model("budget=2.5 price_in=100000 price_out=100000 concurrency=4").ask(
            ask(*map(str, range(30)))
        )
    assert 3 <= server.calls <= 6  # 1 dollar each: after 2 dollars, four are under way


def test_half_a_character_fails_its_turn_only(model, server):
    good, bad = model().ask(ask("fine", "half \ud83d"))
    assert good.text == "answer to fine"
    assert isinstance(bad, BadRequest)
    assert "half a character" in str(bad)
    assert server.calls == 1


@pytest.mark.parametrize("text", ["🙂 emoji", "مرحبا", "x" * 100_000, "{{ 1 }} {% %} %s"])
def test_any_text_arrives_as_it_is(model, server, text):
    assert model().ask(ask(text))[0].text == f"answer to {text}"
    assert server.bodies[0]["messages"][0]["content"] == text


def test_without_a_cache_nothing_is_kept_nor_said_to_be_kept(model, server):
    server.respond = lambda body: said() if server.calls <= 2 else refused(401)
    with pytest.raises(FatalLLMError, match="done and kept: 0 calls, left: 9"):
        model("concurrency=1 cache=none").ask(ask(*map(str, range(9))))


ASKING = [
    ikat.Answer,
    ikat.Rewrite,
    ikat.generate.Clarify,
    ikat.Queries,
    ikat.generate.PassageQueries,
]
WITHHELD = [said(None, refusal="I can't."), said("x", "content_filter")]
UNUSABLE = [said("half an ans", "length"), said(""), *WITHHELD, said("null"), said('"N/A"')]


@pytest.mark.parametrize("operator", ASKING)
def test_an_unusable_completion_is_never_a_query_or_an_answer(model, server, operator):
    questions = [f"Which tea {number}?" for number in range(len(UNUSABLE))]

    def respond(body):
        for question, answer in zip(questions, UNUSABLE, strict=True):
            if question in str(body["messages"]):
                return answer
        raise AssertionError(f"no turn asks this: {body}")

    server.respond = respond
    qids = [f"1_{number}" for number in range(len(UNUSABLE))]
    turns = pd.DataFrame({"qid": qids, "query": questions})
    with pytest.raises(StageError, match=f"{len(UNUSABLE)} requests failed"):
        operator(model())(turns)
    went_on = operator(model("on_error=fallback"))(turns)
    for turn, question in zip(went_on.to_dict("records"), questions, strict=True):
        assert question in [turn["query"], *turn.get("qsubqueries", [])]
    shown = repr(went_on.to_dict())
    assert [
        text for text in ("half an ans", "'x'", "I can't.", "null", "N/A") if text in shown
    ] == []
