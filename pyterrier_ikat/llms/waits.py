"""How long a server asks to wait: in headers, in the fields of an error, in its words.

Seen: ``Retry-After`` in seconds or as a date (RFC 9110), ``retry-after-ms`` (OpenAI, Azure),
``retryDelay: "26s"`` (Gemini: AtomicBot-ai/atomic-agent#106), "Please retry in 37.1s." (Gemini:
dcdpr/jp#1061), "Please try again in 9m38.016s" (Groq: continuedev/continue#10920), "try again in
6ms" (OpenAI), "Please retry after 86400 seconds" (Azure: jasonacox/TinyLLM#17),
``x-ratelimit-reset-tokens: 7.66s`` beside ``x-ratelimit-remaining-tokens`` (OpenAI; Groq:
Pythagora-io/gpt-pilot#862), ``x-rate-limit-reset-tokens: 55`` (Azure: openai/openai-python#937),
``X-RateLimit-Reset`` in milliseconds since 1970 inside the error (OpenRouter:
Gitlawb/openclaude#936).
"""

import math
import re
from collections.abc import Iterator, Mapping
from email.utils import parsedate_to_datetime
from typing import Any

from .refusals import inner, words_of

UNITS = {"ms": 0.001, "s": 1.0, "m": 60.0, "h": 3600.0, "d": 86400.0}
_UNIT = (
    r"(?:(?P<ms>ms|milliseconds?)|(?P<s>s|secs?|seconds?)|(?P<m>m|mins?|minutes?)"
    r"|(?P<h>h|hrs?|hours?)|(?P<d>d|days?))"
)
_PART = re.compile(rf"(?P<number>\d+(?:\.\d+)?)\s*{_UNIT}?(?![a-z])", re.IGNORECASE)
_DURATION = (
    r"\d+(?:\.\d+)?\s*(?:[a-z]+)?(?:[\s,]*(?:and\s+)?"
    r"\d+(?:\.\d+)?\s*(?:ms|s|secs?|seconds?|m|mins?|minutes?|h|hrs?|hours?)\b)*"
)
_ASKED = re.compile(
    rf"(?:try(?:ing)?(?: it)? again|retry(?:ing)?|wait(?:ing)?|resets?|available(?: again)?)\W+"
    rf"(?:(?:your request|until|in|after|for|about|at least|another)\W+)*(?P<wait>{_DURATION})",
    re.IGNORECASE,
)
"""Words that ask for a wait, such as "try again in 1m12.5s"."""
SINCE_1970 = 1e9
"""From here on a number is a time in seconds since 1970; from a thousand times, in milliseconds."""
DELAY_FIELDS = ("retrydelay", "retryafter", "retryafterseconds")
"""Fields of an error that hold a wait, without "-" and "_"."""


def duration(text: str) -> float | None:
    """The seconds of a duration; None if it is none.

    Example:
        >>> duration("1m12.5s"), duration("26"), duration("120ms"), duration("soon")
        (72.5, 26.0, 0.12, None)
        >>> duration("2 hours and 5 minutes")
        7500.0
    """
    total = 0.0
    rest = re.sub(r"[\s,]+|\band\b", " ", text).strip()
    rest = re.sub(r"(?<=[a-z])(?=\d)", " ", rest, flags=re.IGNORECASE)
    if not rest:
        return None
    while rest:
        part = _PART.match(rest)
        if part is None:
            return None
        unit = next((name for name in UNITS if part[name]), "s")
        total += float(part["number"]) * UNITS[unit]
        rest = rest[part.end() :].strip()
    return total if math.isfinite(total) else None


def header_seconds(header: str | None, now: float) -> float | None:
    """The seconds that a header asks to wait; None when it is absent or makes no sense.

    Args:
        header: a number of seconds, a duration, a time since 1970 or an HTTP date.
        now: seconds since 1970.

    Example:
        >>> header_seconds("2", now=0), header_seconds("soon", now=0)
        (2.0, None)
        >>> header_seconds("Thu, 01 Jan 1970 00:00:09 GMT", now=4)
        5.0
        >>> header_seconds("1744070400000", now=1744070340)
        60.0
    """
    text = (header or "").strip()
    seconds: float | None
    try:
        if text[:1].isdigit():
            seconds = duration(text)
        else:
            seconds = parsedate_to_datetime(text).timestamp() - now
    except (ValueError, TypeError, OverflowError):
        return None
    if seconds is None:
        return None
    if seconds >= SINCE_1970 * 1000:
        seconds = seconds / 1000 - now
    elif seconds >= SINCE_1970:
        seconds -= now
    return seconds if seconds >= 0 else None


def asked_wait(headers: Mapping[str, str], body: Any, now: float) -> float | None:
    """The seconds that a server asks to wait: the longest of several; None if it asks for none.

    Args:
        headers: of the answer, by name in lower case, or with any case if they are the client's.
        body: the error, parsed if it is JSON.
        now: seconds since 1970.

    Example:
        >>> asked_wait({}, {"message": "Rate limit reached. Please try again in 1m12.5s."}, now=0)
        72.5
        >>> asked_wait({}, [{"error": {"details": [{"retryDelay": "26s"}]}}], now=0)
        26.0
    """
    error = inner(body)
    waits = [header_seconds(headers.get("retry-after"), now)]
    milliseconds = header_seconds(headers.get("retry-after-ms"), now)
    if milliseconds is not None:
        waits.append(milliseconds / 1000)
    for text in _delays(error):
        waits.append(header_seconds(text, now))
    for match in _ASKED.finditer(words_of(error)):
        waits.append(duration(match["wait"]))
    known = [wait for wait in waits if wait is not None]
    if not known:
        known = _resets(headers, now) or _resets(_headers_in(error), now)
    return max(known, default=None)


def _delays(error: Any) -> Iterator[str]:
    """The fields of an error that hold a wait, at any depth."""
    if isinstance(error, Mapping):
        for name, value in error.items():
            if re.sub(r"[_-]", "", str(name)).casefold() in DELAY_FIELDS:
                yield str(value)
            else:
                yield from _delays(value)
    elif isinstance(error, list):
        for value in error:
            yield from _delays(value)


def _headers_in(error: Any) -> Mapping[str, str]:
    """The headers that OpenRouter repeats inside an error."""
    metadata = error.get("metadata") if isinstance(error, Mapping) else None
    headers = metadata.get("headers") if isinstance(metadata, Mapping) else None
    if not isinstance(headers, Mapping):
        return {}
    return {str(name).lower(): str(value) for name, value in headers.items()}


def _resets(headers: Mapping[str, str], now: float) -> list[float]:
    """Seconds until the used-up limits are renewed.

    If the server doesn't say which limits are used up, until the first one is renewed.
    """
    waits = list[float]()
    waits_of_used_up = list[float]()
    for name, value in headers.items():
        limit = re.fullmatch(r"x-rate-?limit-reset(?P<of>-\w+)?", name.lower())
        if limit is None:
            continue
        wait = header_seconds(value, now)
        if wait is None:
            continue
        waits.append(wait)
        remaining = headers.get(f"x-ratelimit-remaining{limit['of'] or ''}", "")
        if remaining.strip() == "0":
            waits_of_used_up.append(wait)
    return waits_of_used_up or sorted(waits)[:1]
