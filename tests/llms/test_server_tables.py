"""The words and statuses of servers, as their manuals have them: no row gets lost unnoticed."""

from dataclasses import replace

import pytest
from chat_server import ask, refused, said

from pyterrier_ikat.completions.json_answers import Structure
from pyterrier_ikat.llms import FatalLLMError, Reply
from pyterrier_ikat.llms.failures import CutOff, Filtered, Refused, Unfinished
from pyterrier_ikat.llms.refusals import (
    is_filtered,
    other_address,
    real_status,
    status_in,
    words_of,
)
from pyterrier_ikat.llms.request import read

REASONS = {
    None: (
        "",
        "stop",
        "stop_sequence",
        "stop_token",
        "eos",
        "eos_token",
        "end_turn",
        "complete",
        "completed",
        "endoftext",
        "finish",
        "finished",
    ),
    CutOff: (
        "length",
        "max_tokens",
        "max_token",
        "max_length",
        "max_output_tokens",
        "model_length",
        "token_limit",
        "limit",
        "error_limit",
        "context_length_exceeded",
        "model_context_window_exceeded",
    ),
    Filtered: (
        "content_filter",
        "content_filtered",
        "filtered",
        "safety",
        "image_safety",
        "recitation",
        "blocklist",
        "prohibited_content",
        "spii",
        "guardrail_intervened",
        "error_toxic",
        "sensitive",
        "language",
    ),
    Refused: ("refusal",),
    Unfinished: ("error", "tool_calls", "unknown"),
}


REASONS_AND_KINDS = []
for kind, reasons in REASONS.items():
    for reason in reasons:
        REASONS_AND_KINDS.append((kind, reason))


@pytest.mark.parametrize(("kind", "reason"), REASONS_AND_KINDS)
def test_each_reason_for_an_end_has_its_meaning_in_any_case(kind, reason):
    for spelt in (reason, reason.upper(), f" {reason} "):
        fault = read(Reply("Mint.", finish_reason=spelt)).fault
        assert (None if fault is None else fault[0]) is kind


@pytest.mark.parametrize(
    ("message", "kind"),
    [
        ({"tool_calls": [{"id": "1"}]}, Unfinished),
        ({"function_call": {"name": "search"}}, Unfinished),
        ({"tool_calls": []}, None),
        ({"refusal": "I can't help."}, Refused),
    ],
)
def test_what_a_message_says_besides_its_text_counts(message, kind):
    fault = read(Reply.of(said("Mint.", **message).body)).fault
    assert (None if fault is None else fault[0]) is kind


def test_a_limit_that_is_reached_in_a_tool_call_is_a_limit():
    reply = Reply.of(said("Mi", finish="length", tool_calls=[{"id": "1"}]).body)
    assert read(reply).fault[0] is CutOff


@pytest.mark.parametrize("field", ["reasoning", "reasoning_content"])
def test_reasoning_without_a_text_is_told_as_such(field):
    reply = Reply.of(said("", **{field: "Hm."}).body)
    assert reply.reasoned
    assert read(reply).fault[0].__name__ == "OnlyReasoning"


@pytest.mark.parametrize("field", ["code", "type"])
@pytest.mark.parametrize(
    "word", ["insufficient_quota", "billing_hard_limit_reached", "billing_not_active"]
)
def test_an_account_without_money_is_told_by_code_or_type(field, word):
    assert real_status(429, {"error": {"message": "no", field: word}}) == 402


@pytest.mark.parametrize("status", [400, 422])
def test_a_wrong_key_is_known_by_its_words(status):
    assert real_status(status, {"error": {"message": "Incorrect API key provided"}}) == 401
    assert real_status(500, {"error": {"message": "Incorrect API key provided"}}) == 500


@pytest.mark.parametrize("name", ["code", "type", "status", "message", "error", "detail", "msg"])
def test_an_error_is_read_in_any_of_its_fields(name):
    assert words_of({"error": {name: "flagged"}, "prompt": "secret"}) == "flagged"
    assert words_of([{"error": {name: "flagged"}}]) == "flagged"


def test_what_the_provider_behind_a_gateway_said_is_read_too():
    error = {"message": "Provider returned error", "metadata": {"raw": "context length"}}
    assert words_of({"error": error}) == "Provider returned error context length"


@pytest.mark.parametrize(
    ("status", "beside", "filtered"),
    [
        (403, {"metadata": {"flagged_input": "x"}}, True),
        (403, {"metadata": {"reasons": ["x"]}}, True),
        (400, {"innererror": {"content_filter_result": {}}}, True),
        (403, {"metadata": {"provider": "x"}}, False),
        (200, {"metadata": {"reasons": ["x"]}}, False),
        (401, {"metadata": {"reasons": ["x"]}}, False),
        (402, {"metadata": {"reasons": ["x"]}}, False),
        (404, {"metadata": {"reasons": ["x"]}}, False),
        (408, {"metadata": {"reasons": ["x"]}}, False),
        (409, {"metadata": {"reasons": ["x"]}}, False),
        (425, {"metadata": {"reasons": ["x"]}}, False),
        (429, {"metadata": {"reasons": ["x"]}}, False),
        (500, {"metadata": {"reasons": ["x"]}}, False),
    ],
)
def test_a_withheld_prompt_is_known_by_status_and_fields(status, beside, filtered):
    assert is_filtered(status, {"error": {"message": "no", **beside}}) is filtered


@pytest.mark.parametrize(
    ("error", "status"),
    [
        ({"code": "rate_limit_exceeded"}, 429),
        ({"type": "rate_limit_error"}, 429),
        ({"code": "403"}, 403),
        ({"code": 499}, 499),
        ({"code": 400}, 400),
        ({"code": 399}, None),
        ({"code": 500}, None),
        ({"message": "no"}, None),
    ],
)
def test_an_error_with_status_200_has_the_status_of_its_code(error, status):
    assert status_in({"error": error}) == status


@pytest.mark.parametrize("status", [300, 301, 308, 399])
def test_every_redirect_ends_the_stage(model, server, status):
    server.respond = lambda body: refused(status, location="/elsewhere")
    with pytest.raises(FatalLLMError, match=r"redirects \(\d+\).*base_url"):
        model("retries=0").ask(ask("a"))
    assert server.calls == 1


@pytest.mark.parametrize("status", [400, 413])
def test_too_long_is_told_by_status_or_words(model, server, status):
    words = "no" if status == 413 else "maximum context length is 4096"
    server.respond = lambda body: refused(status, words)
    (failure,) = model().ask(ask("a"))
    assert type(failure).__name__ == "TooLong"


def test_too_large_for_a_minute_is_no_server_failure(model, server):
    server.script = [refused(503, "request too large to be taken now")]
    assert model().ask([*ask("a")])[0].text == "answer to a"  # it is tried again


def test_samples_and_chains_draw_with_seeds_of_their_own(model, server):
    (request,) = ask("a")
    made = model("seed=5")
    made.ask([replace(request, sample=1), replace(request, chain=2), replace(request, chain=1)])
    assert sorted(body["seed"] for body in server.bodies) == [6, 1005, 2005]


def test_the_schema_is_a_part_of_the_key():
    (request,) = ask("a")
    identity = {"provider": "openai", "model": "m", "structured": "on"}
    plain = {"provider": "openai", "model": "m"}
    schemas = [{"type": "object"}, {"type": "array"}]
    keys = set()
    for schema in schemas:
        structure = Structure("answer", schema)
        keys.add(replace(request, structure=structure).key(identity))
    assert len(keys) == 2
    assert request.key(identity) == request.key(plain)  # without one, it asks for the same
    assert request.key(plain) not in keys


@pytest.mark.parametrize(
    ("body", "words"),
    [
        ("a page", "a page"),
        ([{"error": {"message": "one"}}], "one"),
        ([{"message": "one"}, {"message": "two"}], ""),
        ({"error": "text"}, "text"),
        ({"error": {"code": 403, "type": "t", "status": "s", "message": "m"}}, "403 t s m"),
        ({"detail": "d", "msg": "g", "prompt": "p", "message": ["m"]}, "d g"),
        ({"message": "m", "metadata": {"raw": "r", "flagged_input": "f"}}, "m r"),
        ({"message": "m", "metadata": "r"}, "m"),
        (5, ""),
        (None, ""),
        ("x" * 20_001, "x" * 20_000),
        ({"message": "x" * 20_001}, "x" * 20_000),
    ],
    ids=lambda value: str(value)[:30],
)
def test_the_words_of_an_error_are_its_codes_and_messages(body, words):
    assert words_of(body) == words


@pytest.mark.parametrize(
    ("status", "body", "meant"),
    [
        (429, {"error": {"code": "insufficient_quota"}}, 402),
        (429, {"type": "billing_not_active"}, 402),
        (429, {"message": "insufficient balance"}, 429),
        (400, {"message": "Insufficient Balance"}, 402),
        (422, {"message": "Your credit balance is too low"}, 402),
        (400, {"message": "User location is not supported for the API use."}, 403),
        (400, {"message": "API_KEY_INVALID"}, 401),
        (422, {"message": "no auth credentials found"}, 401),
        (400, {"message": "missing or wrong api key"}, 401),
        (400, {"message": "x is not a valid model"}, 404),
        (400, {"message": "The model `m` does not exist"}, 404),
        (400, {"message": "Unknown model m"}, 404),
        (404, {"message": "incorrect API key"}, 404),
        (400, {"message": "no"}, 400),
        (500, "insufficient_quota", 500),
    ],
)
def test_a_refusal_has_the_status_that_its_words_mean(status, body, meant):
    assert real_status(status, body) == meant


@pytest.mark.parametrize(
    ("status", "body", "filtered"),
    [
        (400, {"message": "content_filter"}, True),
        (451, "data_inspection_failed", True),
        (499, {"message": "blocked by our safety system"}, True),
        (400, {"message": "this prompt violates our usage policies"}, True),
        (400, {"message": "your organization violates our usage policies"}, False),
        (400, {"message": "violates nothing"}, False),
        (403, "<html>flagged</html>", False),
        (403, "  <html>flagged</html>", False),
        (400, [{"error": {"message": "PROHIBITED_CONTENT"}}], True),
        (399, {"message": "content_filter"}, False),
        (500, {"message": "content_filter"}, False),
        (403, {"metadata": {"note": "the reasons"}}, False),
        (403, {"metadata": {}, "innererror": {"reasons": []}}, True),
    ],
)
def test_words_of_a_filter_are_told_from_those_about_an_account(status, body, filtered):
    assert is_filtered(status, body) is filtered


@pytest.mark.parametrize(
    ("body", "status"),
    [
        ("text", None),
        ([{"error": {"code": 404}}], 404),
        ({"code": "rate_limit"}, 429),
        ({"code": "-404"}, None),
        ({"code": 404.0}, None),
        ({"code": True}, None),
    ],
)
def test_the_status_in_an_answer_is_a_number_from_400_to_499(body, status):
    assert status_in(body) == status


@pytest.mark.parametrize(
    ("url", "better"),
    [
        ("https://host", "https://host/v1"),
        ("https://host:8000/sub", "https://host:8000/sub/v1"),
        ("http://host/api", "http://host/v1"),
        ("http://host/api/chat", "http://host/v1"),
        ("http://host/sub/api/generate", "http://host/sub/v1"),
        ("https://host/v1/completions/", "https://host/v1"),
        ("https://host/v4", ""),
        ("https://api.groq.com/wrong", "https://api.groq.com/openai/v1"),
        ("https://api.fireworks.ai:443", "https://api.fireworks.ai:443/inference/v1"),
        ("https://api.groq.com/openai/v1", ""),
    ],
)
def test_a_better_address_is_the_providers_or_ends_with_v1(url, better):
    assert other_address(url) == better
