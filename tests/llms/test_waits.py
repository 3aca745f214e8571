"""How long a server asks to wait: durations, headers, fields and words."""

import math

import pytest
from chat_server import gemini
from hypothesis import given
from hypothesis import strategies as st

from pyterrier_ikat.llms.waits import asked_wait, duration, header_seconds

NOW = 1_744_070_340.0
LIMITS = {"X-RateLimit-Reset-A": "9", "X-RateLimit-Remaining-A": " 0", "X-RateLimit-Reset-B": "5"}


@pytest.mark.parametrize(
    ("text", "seconds"),
    [
        ("26", 26.0),
        ("1.5", 1.5),
        ("120ms", 0.12),
        ("2 milliseconds", 0.002),
        ("3 secs", 3.0),
        ("1 second", 1.0),
        ("2m", 120.0),
        ("2 mins", 120.0),
        ("1 MINUTE", 60.0),
        ("2h", 7200.0),
        ("1 hr", 3600.0),
        ("2 days", 172_800.0),
        ("1d", 86_400.0),
        ("1h2m3s4ms", 3723.004),
        ("1 hour, 2 minutes and 3 seconds", 3723.0),
        ("2m 5", 125.0),
        ("0", 0.0),
        ("", None),
        (" , and ", None),
        ("soon", None),
        ("5 weeks", None),
        ("5s later", None),
        ("5 standard", None),
        ("9" * 400, None),
    ],
)
def test_a_duration_is_the_sum_of_its_parts(text, seconds):
    assert duration(text) == (None if seconds is None else pytest.approx(seconds))


@pytest.mark.parametrize(
    ("header", "seconds"),
    [
        (None, None),
        ("  ", None),
        (" 7 ", 7.0),
        ("1m5s", 65.0),
        ("-7", None),
        ("999999999", 999_999_999.0),
        ("1744070400", 60.0),
        ("1744070300", None),  # in the past
        ("1744070340", 0.0),
        ("1744070400000", 60.0),
        ("1744070400500", 60.5),
        ("Mon, 07 Apr 2025 23:59:30 GMT", 30.0),
        ("Mon, 07 Apr 2025 23:58:30 GMT", None),
        ("Mon, 99 Apr 2025 23:58:30 GMT", None),
        ("tomorrow", None),
    ],
)
def test_a_header_is_a_time_from_now_on(header, seconds):
    assert header_seconds(header, NOW) == seconds


@given(st.text() | st.floats().map(str) | st.integers().map(str) | st.none(), st.floats(0, 4e9))
def test_any_header_gives_a_bounded_wait_or_none(header, now):
    wait = header_seconds(header, now)
    assert wait is None or 0 <= wait < math.inf


@pytest.mark.parametrize(
    ("body", "seconds"),
    [
        ({"retryDelay": "26s"}, 26.0),
        ({"retry-after": 3}, 3.0),
        ({"Retry_After_Seconds": "4"}, 4.0),
        ({"retry": 5}, None),
        ({"details": [{"x": 1}, [{"deep": {"retryAfter": 6}}]]}, 6.0),
        ({"details": [{"retryAfter": 6}, {"retryAfter": 9}, {"retryAfter": 2}]}, 9.0),
        ({"retryAfter": "no", "message": "wait 8s"}, 8.0),
        ([{"error": {"retryAfter": 6}}], 6.0),
        ("waiting for 9 seconds", 9.0),
        ({"message": "Try it again in 2 s. Or retry after 5 s."}, 5.0),
        ({"message": "Resets in 2h"}, 7200.0),
        ({"message": "available again in 3s"}, 3.0),
        ({"message": "wait at least another 4 seconds"}, 4.0),
        ({"message": "retry your request after about 1 minute"}, 60.0),
        ({"message": "version 5 s"}, None),
        ({"message": "trying again in 5 s"}, 5.0),
        ({"message": "retrying after 5s"}, 5.0),
        ({"message": "the limit will reset in 5 s"}, 5.0),
        ({"message": "available in 3s"}, 3.0),
        ({"message": "wait until 5 s and 200 ms"}, 5.2),
        ({"message": "try again in 2 days, 3 hours"}, 183_600.0),
        ({"message": "try again in 1 hr, and 5 mins"}, 3900.0),
        (None, None),
    ],
)
def test_a_wait_is_read_in_the_fields_and_words_of_an_error(body, seconds):
    assert asked_wait({}, body, NOW) == seconds


@pytest.mark.parametrize(
    ("headers", "body", "seconds"),
    [
        ({"retry-after": "7", "retry-after-ms": "8000"}, None, 8.0),
        ({"retry-after": "9", "retry-after-ms": "8000"}, None, 9.0),
        ({"retry-after-ms": "0"}, None, 0.0),
        ({"retry-after": "0", "x-ratelimit-reset": "50"}, None, 0.0),
        ({"retry-after": "soon", "x-ratelimit-reset": "50"}, None, 50.0),
        ({"x-ratelimit-reset-a": "9", "X-RateLimit-Reset-B": "5"}, None, 5.0),
        ({"x-ratelimit-reset-a": "soon", "x-ratelimit-reset-b": "5"}, None, 5.0),
        ({"x-ratelimit-reset-a": "9", "x-ratelimit-remaining-a": " 0 "}, None, 9.0),
        (
            {
                "x-ratelimit-reset-a": "9",
                "x-ratelimit-remaining-a": "0",
                "x-ratelimit-reset-b": "5",
                "x-ratelimit-remaining-b": "0",
                "x-ratelimit-reset-c": "50",
                "x-ratelimit-remaining-c": "7",
            },
            None,
            9.0,
        ),
        ({"x-ratelimit-limit": "5", "x-ratelimit-reset-a-b": "9"}, None, None),
        ({"x-rate-limit-reset": "50", "x-rate-limit-reset-a": "9"}, None, 9.0),
        (
            {"x-ratelimit-reset": "5"},
            {"metadata": {"headers": {"X-RateLimit-Reset": 70}}},
            5.0,
        ),
        ({}, {"metadata": {"headers": {"X-RateLimit-Reset": 70}}}, 70.0),
        ({}, {"metadata": {"headers": LIMITS}}, 9.0),
        ({}, {"error": {"metadata": {"headers": {"X-RateLimit-Reset": 70}}}}, 70.0),
        ({name.lower(): value for name, value in LIMITS.items()}, None, 9.0),
        ({}, {"metadata": {"headers": "x"}}, None),
        ({}, {"metadata": "x"}, None),
        ({}, "x", None),
        ({"x-ratelimit-reset": "5"}, {"message": "wait 2s"}, 2.0),
    ],
)
def test_used_up_limits_are_asked_where_no_wait_is_named(headers, body, seconds):
    assert asked_wait(headers, body, NOW) == seconds


SAID = [
    ({}, gemini(26), 26.1),
    ({}, {"error": {"code": 429, "message": "slow", "details": [{"retryDelay": "26s"}]}}, 26),
    ({}, {"message": "Rate limit reached for gpt-4. Please try again in 26 s."}, 26),
    (
        {},
        {
            "message": "Limit 100000, Used 97050, Requested 3619. Please try again in 1m12.5s. "
            "Need more tokens?"
        },
        72.5,
    ),
    ({}, {"message": "Please try again in 9m38.016s. Need more?"}, 578.016),
    (
        {},
        {
            "message": "Please try again in 120ms. Visit "
            "https://platform.openai.com/account/rate-limits"
        },
        0.12,
    ),
    ({}, {"message": "exceeded token rate limit. Please retry after 86400 seconds."}, 86400),
    ({}, {"message": "retry in 37.1s"}, 37.1),
    ({}, {"message": "Too many requests, wait 2 minutes before trying again"}, 120),
    ({}, {"message": "Your quota will reset. Try again in 1 hour and 30 minutes."}, 5400),
    ({}, "Please wait 30 seconds", 30),
    ({}, {"error": {"message": "slow down", "retry_after": 12}}, 12),
    ({"retry-after": "7"}, {"message": "no"}, 7),
    ({"retry-after": "7"}, {"message": "try again in 9s"}, 9),
    ({"retry-after-ms": "1500"}, {}, 1.5),
    (
        {
            "x-ratelimit-reset-requests": "2m59.56s",
            "x-ratelimit-reset-tokens": "7.66s",
            "x-ratelimit-remaining-tokens": "0",
        },
        {},
        7.66,
    ),
    ({"x-ratelimit-reset-requests": "6m0s", "x-ratelimit-reset-tokens": "7.66s"}, {}, 7.66),
    (
        {
            "x-ratelimit-reset-requests": "8h0m0s",
            "x-ratelimit-remaining-requests": "0",
            "x-ratelimit-reset-tokens": "1s",
        },
        {},
        28800,
    ),
    ({"x-rate-limit-reset-tokens": "55"}, {}, 55),
    ({"x-ratelimit-reset": "1744070400000"}, {}, 60),
    ({"x-ratelimit-reset": "1744070400"}, {}, 60),
    (
        {},
        {
            "message": "free-models-per-day",
            "metadata": {
                "headers": {"X-RateLimit-Remaining": "0", "X-RateLimit-Reset": "1744070400000"}
            },
        },
        60,
    ),
    ({}, {"message": "Rate limit exceeded. Please retry after a brief wait."}, None),
    ({}, {"message": "You sent 30 requests; your limit is 20 per minute. Try again later."}, None),
    ({"retry-after": "soon"}, {}, None),
    ({"retry-after": "9" * 400}, {"message": f"try again in {'9' * 400} s"}, None),
]


@pytest.mark.parametrize(("headers", "body", "seconds"), SAID)
def test_the_wait_is_read_wherever_it_stands(headers, body, seconds):
    assert asked_wait(headers, body, NOW) == (None if seconds is None else pytest.approx(seconds))
