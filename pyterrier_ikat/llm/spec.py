"""The one line that names a language model: ``provider:NAME key=value ...``."""

import math
import os
import re
import shlex
from collections.abc import Callable
from typing import Any, NamedTuple

from ..errors import UsageError
from .address import Address
from .servers import addresses


class Spec(NamedTuple):
    """A parsed specification.

    Attributes:
        provider: ``openai``, ``hf`` or ``recorded``.
        name: the model's name or path.
        options: by key, converted.
        shown: the specification without secrets.
    """

    provider: str
    name: str
    options: dict[str, Any]
    shown: str


def _real(text: str) -> float:
    value = float(text)
    if not math.isfinite(value) or value < 0:
        raise ValueError
    return value


def _seconds(text: str) -> float:
    value = _real(text)
    if value == 0:
        raise ValueError
    return value


def _whole(text: str) -> int:
    value = int(text)
    if value < 0:
        raise ValueError
    return value


def _positive(text: str) -> int:
    value = int(text)
    if value < 1:
        raise ValueError
    return value


def _variable(text: str) -> str:
    if not text.isidentifier():
        raise ValueError
    return text


def _policy(text: str) -> str:
    if text not in ON_ERROR:
        raise ValueError
    return text


ON_ERROR = ("raise", "fallback")
Convert = Callable[[str], Any]
KINDS: dict[Convert, str] = {
    _real: "a number from 0",
    _seconds: "a number of seconds, more than 0",
    _whole: "a whole number from 0",
    _positive: "a whole number from 1",
    _policy: "raise or fallback",
    _variable: "the name of the environment variable that holds the key, not the key itself",
    str: "a text",
}
DECODING: dict[str, Convert] = {"temperature": _real, "top_p": _real, "top_k": _positive, "max_tokens": _positive, "seed": _whole}
ACCOUNT: dict[str, Convert] = {"on_error": _policy, "retries": _whole, "cache": str, "budget": _real, "price_in": _real, "price_out": _real}
OPTIONS: dict[str, dict[str, Convert]] = {
    "openai": {"base_url": str, "api_key_env": _variable, **DECODING, "timeout": _seconds, "concurrency": _positive, **ACCOUNT},
    "hf": {**DECODING, "device": str, "batch_size": _positive, **ACCOUNT},
    "recorded": {"on_error": _policy},
}
"""What each provider understands."""


def parse(text: str) -> Spec:
    """Parse a specification; words are split as a shell does, so quote what holds spaces.

    Raises:
        UsageError: for an unknown provider or key, or a bad value; it lists what is valid and shows no value of an unknown key.

    Example:
        >>> parse("openai:org/model:8b temperature=0 base_url=http://localhost:8000/v1?a=b").options
        {'temperature': 0.0, 'base_url': 'http://localhost:8000/v1?a=b'}
    """
    try:
        head, *words = shlex.split(text)
    except ValueError:
        raise UsageError(f"an LLM is named {_forms()}; this one is empty or has an open quote") from None
    if "://" in head:
        raise UsageError(f"an LLM is named {_forms()}: the address of its server is given as base_url=ADDRESS")
    provider, _, name = head.partition(":")
    if provider not in OPTIONS or not name:
        raise UsageError(f"unknown LLM {head.partition('=')[0]!r}: it is named {_forms()}")
    if name.startswith("~/"):
        name = os.path.expanduser(name)
    options: dict[str, Any] = {}
    shown = [head]
    for position, word in enumerate(words, 1):
        key, value = _option(provider, position, word)
        if key in options:
            raise UsageError(f"the LLM option {key} is given twice")
        options[key] = value
        shown.append(f"{key}={','.join(Address(url).shown for url in addresses(value))}" if key == "base_url" else word)
    return Spec(provider, name, options, " ".join(map(_quoted, shown)))


def _option(provider: str, position: int, word: str) -> tuple[str, Any]:
    key, equals, value = word.partition("=")
    known = OPTIONS[provider]
    if key == "api_key":
        raise UsageError(
            "a key does not belong in code or on a command line: put it in an environment variable and give api_key_env=VARIABLE"
        )
    if not equals or "://" in key:
        lacks, names = "key" if equals else "'='", ", ".join(known)
        raise UsageError(f"option {position} of the LLM has no {lacks}: options are key=value with the keys {names}")
    if key not in known:
        raise UsageError(f"unknown LLM option {key!r}: {provider} knows {', '.join(known)}")
    try:
        return key, known[key](value)
    except ValueError:
        given = key if known[key] is _variable or "://" in value else word
        raise UsageError(f"the LLM option {given} is no good: it is {KINDS[known[key]]}") from None


def _quoted(word: str) -> str:
    return shlex.quote(word) if re.search(r"[\s'\"\\]", word) else word


def _forms() -> str:
    return "openai:MODEL, hf:MODEL_OR_FOLDER, recorded:FILE or recorded:sample, then key=value ..."
