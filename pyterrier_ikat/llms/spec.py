"""The specification of a language model, such as ``openai:gpt-4o temperature=0``, and the model that it names."""

import math
import os
import re
import shlex
import threading
from collections.abc import Callable
from typing import Any, NamedTuple
from weakref import WeakValueDictionary

from ..errors import UsageError
from .address import Address
from .cache import Cache, default_path
from .hf import HFBackend
from .ledger import Ledger
from .limits import Budget, Retry
from .model import LLM
from .openai import OpenAIBackend, addresses
from .recorded import RecordedBackend
from .request import Backend, GeneratorBackend


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


_asked: "WeakValueDictionary[tuple[Any, ...], LLM]" = WeakValueDictionary()
_making = threading.Lock()


def asking(given: Any) -> LLM:
    """The language model of an operator that is given one, or what `llm` makes one of.

    Operators that are given the same text or object share one: its ledger, its budget and its connections.

    Raises:
        UsageError: when it is none; see `llm`.
    """
    if hasattr(given, "ask") and not isinstance(given, type):
        return given  # type: ignore[no-any-return]
    place = (os.getcwd(), os.environ.get("IKAT_HOME"), os.environ.get("OPENAI_BASE_URL"))
    key = (given, *place) if isinstance(given, str) else (id(given),)
    with _making:
        made = _asked.get(key) or llm(given)
        _asked[key] = made
    return made


def llm(spec_or_object: Any, *, ledger: Ledger | None = None) -> LLM:
    """A language model to build operators with.

    Args:
        spec_or_object: one of

            - ``"openai:MODEL key=value ..."``: any server that speaks OpenAI's chat completions; the key is read from
              ``OPENAI_API_KEY``. Keys: ``base_url`` (several servers of the same model, separated by commas, share the calls; the first
              names all in the cache), ``api_key_env`` (the name of another variable), ``timeout`` (seconds), ``concurrency`` (the most
              calls at a time, over all servers, 32; adapts below it when a server refuses).
            - ``"hf:MODEL_OR_FOLDER key=value ..."``: a local Hugging Face model. Keys: ``device``, ``batch_size``.
            - ``"recorded:FILE"``: replays completions from JSON lines; ``recorded:sample`` those of the bundled sample.
            - an object with ``.generate(list)``, such as a pyterrier_rag backend, or a `Backend`; its completions are kept in memory.

            Keys of the first two: ``temperature``, ``top_p``, ``top_k``, ``max_tokens``, ``seed``; ``retries`` (5); ``cache`` (a file,
            or ``none``); ``price_in``, ``price_out`` (US dollars per million tokens) and ``budget`` (US dollars).
            All three: ``on_error`` (``raise``, or ``fallback``: operators go on with their fallback where a call fails, and count it).
        ledger: the account to count in; a new one when None.

    Raises:
        UsageError: for a specification that is not understood; it lists what is valid. For an `LLM` that counts in another ledger.
        DataError: for a file of recorded completions that is missing or malformed.

    Example:
        >>> import pyterrier_ikat as ikat
        >>> ikat.llm("openai:gpt-4o temperature=0")
        ikat.llm('openai:gpt-4o temperature=0')
    """
    if isinstance(spec_or_object, LLM):
        if ledger is not None and ledger is not spec_or_object.ledger:
            raise UsageError(f"{spec_or_object!r} counts in a ledger already: give ledger= where it is made, or read its own, .ledger")
        return spec_or_object
    if isinstance(spec_or_object, str):
        return _from_spec(parse(spec_or_object), ledger)
    if isinstance(spec_or_object, type):
        raise UsageError(f"{spec_or_object.__name__} is a class: give an object of it, {spec_or_object.__name__}(...)")
    if hasattr(spec_or_object, "complete"):
        return LLM(spec_or_object, ledger=ledger, cache=None if spec_or_object.replays else Cache(":memory:"))
    if hasattr(spec_or_object, "generate"):
        return LLM(GeneratorBackend(spec_or_object), ledger=ledger, cache=Cache(":memory:"))
    raise UsageError(
        f"{type(spec_or_object).__name__} is no language model: give 'openai:MODEL', 'hf:MODEL', 'recorded:FILE' "
        "or an object with .generate"
    )


def _from_spec(spec: Spec, ledger: Ledger | None) -> LLM:
    options = dict(spec.options)
    prices = {name: options.pop(name, None) for name in ("price_in", "price_out")}
    budget = Budget(**prices, limit=options.pop("budget", None), model=spec.name)
    retry = Retry(tries=1 + options.pop("retries", 5))
    place, on_error = options.pop("cache", None), options.pop("on_error", "raise")
    backend = _backend(spec.provider, spec.name, options)
    cache = None if place == "none" or backend.replays else Cache(place or default_path())
    return LLM(backend, ledger=ledger, cache=cache, budget=budget, retry=retry, on_error=on_error, text=spec.shown)


def _backend(provider: str, name: str, options: dict[str, Any]) -> Backend:
    params = {key: value for key, value in options.items() if key in DECODING}
    others = {key: value for key, value in options.items() if key not in DECODING}
    if provider == "recorded":
        return RecordedBackend(name)
    if provider == "hf":
        return HFBackend(name, params=params, **others)
    return OpenAIBackend(name, params=params, **others)
