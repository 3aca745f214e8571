"""Statuses and words of refusals, as the manuals of servers have them."""

import pytest

from pyterrier_ikat.llms.refusals import (
    is_filtered,
    other_address,
    real_status,
    status_in,
    words_of,
)


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


@pytest.mark.parametrize("name", ["code", "type", "status", "message", "error", "detail", "msg"])
def test_an_error_is_read_in_any_of_its_fields(name):
    assert words_of({"error": {name: "flagged"}, "prompt": "secret"}) == "flagged"
    assert words_of([{"error": {name: "flagged"}}]) == "flagged"


def test_what_the_provider_behind_a_gateway_said_is_read_too():
    error = {"message": "Provider returned error", "metadata": {"raw": "context length"}}
    assert words_of({"error": error}) == "Provider returned error context length"


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


@pytest.mark.parametrize(
    ("url", "better"),
    [
        ("http://127.0.0.1:1234", "http://127.0.0.1:1234/v1"),
        ("https://host/proxy", "https://host/proxy/v1"),
        ("https://openrouter.ai", "https://openrouter.ai/api/v1"),
        ("https://openrouter.ai/api", "https://openrouter.ai/api/v1"),
        ("https://host/v1/chat/completions", "https://host/v1"),
        ("https://host/v1", ""),
        ("http://127.0.0.1:11434/api", "http://127.0.0.1:11434/v1"),
        ("http://127.0.0.1:11434/api/chat", "http://127.0.0.1:11434/v1"),
        ("https://generativelanguage.googleapis.com/v1beta/openai", ""),
        ("https://open.bigmodel.cn/api/paas/v4", ""),
    ],
)
def test_which_address_is_proposed(url, better):
    assert other_address(url) == better
