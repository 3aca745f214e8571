"""The option ``body`` of a model: further fields of its requests.

An example is ``{"reasoning_effort": "low"}``.
"""

import json
import re
from collections.abc import Mapping
from typing import Any, NoReturn

from ..errors import UsageError

OWNED = {
    "model": "it is the name after openai:",
    "messages": "the operators write them",
    "stream": "a text is streamed where somebody reads it while it is written",
    "stream_options": "a text is streamed where somebody reads it while it is written",
    "n": "the operators ask for samples one by one",
    "temperature": "give temperature=...",
    "top_p": "give top_p=...",
    "top_k": "give top_k=...",
    "max_tokens": "give max_tokens=...",
    "max_completion_tokens": "give max_tokens=..., sent by this name where a server wants it",
    "seed": "give seed=...",
    "frequency_penalty": "give frequency_penalty=...",
    "response_format": "give structured=on",
    "extra_body": "give its fields",
}
"""Field -> why it isn't one of ``body``."""
_SECRET_NAME = re.compile(
    r"(?:\A|[_-])(?:api|access|auth|secret|private|subscription|session)[_-]?(?:key|token)s?\Z"
    r"|\A(?:x[_-])?(?:key|token)\Z"
    r"|authori[sz]ation|password|passwd|secret|credential|bearer",
    re.IGNORECASE,
)
_SECRET = re.compile(
    r"\A(?:Bearer\s|Basic\s|(?:sk|gsk|xai|hf|pk|rk)[-_]\w)|\AAIza\w", re.IGNORECASE
)
"""How keys of providers begin."""
INSTEAD = "put it in a variable and give api_key_env=VARIABLE"


def body_of(body: str | Mapping[str, Any]) -> dict[str, Any]:
    """The fields of ``body``, checked.

    Args:
        body: a JSON object as text, or a dict of JSON values.

    Raises:
        UsageError: when it is no JSON object, has a field that the package sets itself, or holds a
            key. No value is shown.

    Example:
        >>> body_of('{"reasoning_effort": "low"}') == body_of({"reasoning_effort": "low"})
        True
    """
    try:
        text = body if isinstance(body, str) else json.dumps(body, allow_nan=False)
        parsed = json.loads(text, parse_constant=_no_constant, object_pairs_hook=_without_repeats)
    except (ValueError, TypeError, RecursionError):
        parsed = None
    if not isinstance(parsed, dict):
        raise UsageError(
            "body is wrong: give a JSON object, in quotes: "
            """body='{"reasoning_effort": "low"}'; or a dict in Python"""
        )
    for name, why in OWNED.items():
        if name in parsed:
            raise UsageError(f"{name!r} can't stand in body: {why}")
    _check_secrets(parsed)
    return parsed


def as_json(body: Mapping[str, Any]) -> str:
    """The one text of a body, however it was written."""
    return json.dumps(body, sort_keys=True, ensure_ascii=False)


def _no_constant(name: str) -> NoReturn:
    raise ValueError(name)  # NaN and Infinity are no JSON


def _without_repeats(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    fields = dict(pairs)
    if len(fields) < len(pairs):
        raise ValueError("a field is given twice")
    return fields


def _check_secrets(value: Any) -> None:
    if isinstance(value, dict):
        for name, inner in value.items():
            if _SECRET_NAME.search(name):
                raise UsageError(f"a key does not belong in body: {INSTEAD}")
            _check_secrets(inner)
    elif isinstance(value, list):
        for inner in value:
            _check_secrets(inner)
    elif isinstance(value, str) and _SECRET.search(value):
        raise UsageError(f"a text in body looks like a key: {INSTEAD}")
