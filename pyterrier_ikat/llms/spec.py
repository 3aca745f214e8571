"""The specification of a language model, such as ``openai:gpt-4o temperature=0``, and the model that it names."""

import math
import os
import re
import shlex
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

from ..errors import UsageError, did_you_mean
from .backend import Backend
from .batch import DISCOUNT
from .cache import IN_MEMORY, CompletionCache, default_path
from .generator import GeneratorBackend
from .hf import HFBackend
from .ledger import Budget, Ledger
from .limits import Retry
from .model import LLM
from .network import Address
from .openai import OpenAIBackend
from .recorded import RecordedBackend


class Kind(NamedTuple):
    """A kind of option.

    Attributes:
        words: the name of its values in messages.
        convert: makes a value of a text.
        holds: whether a value is allowed.
    """

    words: str
    convert: Callable[[str], Any]
    holds: Callable[[Any], bool]

    def read(self, name: str, text: str) -> Any:
        """The value in a text.

        Raises:
            UsageError: when it holds none.
        """
        try:
            value = self.convert(text)
            if self.holds(value):
                return value
        except ValueError:
            pass
        given = name if self is VARIABLE or "://" in text else f"{name}={text}"  # a key may stand there
        raise UsageError(f"the LLM option {given} is wrong: give {self.words}")


NUMBER = Kind("a number from 0", float, lambda value: 0 <= value < math.inf)
SECONDS = Kind("a number of seconds, more than 0", float, lambda value: 0 < value < 1e6)
PENALTY = Kind("a number from -2 to 2", float, lambda value: -2 <= value <= 2)
WHOLE = Kind("a whole number from 0", int, lambda value: value >= 0)
POSITIVE = Kind("a whole number from 1", int, lambda value: value >= 1)
POLICY = Kind("raise or fallback", str, lambda value: value in ("raise", "fallback"))
SWITCH = Kind("on or off", str, lambda value: value in ("on", "off"))
VARIABLE = Kind("the name of the environment variable that holds the key, not the key itself", str, str.isidentifier)
TEXT = Kind("a text", str, lambda value: True)
DECODING = {"temperature": NUMBER, "top_p": NUMBER, "top_k": POSITIVE, "max_tokens": POSITIVE, "seed": WHOLE}
SERVED = {"frequency_penalty": PENALTY}
"""Decoding parameters of servers only."""
PRICES = dict.fromkeys(("price_in", "price_out", "price_cached"), NUMBER)
ACCOUNT = {"on_error": POLICY, "retries": WHOLE, "cache": TEXT, "budget": NUMBER, **PRICES}
SERVER = {"base_url": TEXT, "api_key_env": VARIABLE, "structured": SWITCH, "timeout": SECONDS, "concurrency": POSITIVE}
LOCAL = {"device": TEXT, "batch_size": POSITIVE}
OPTIONS: dict[str, dict[str, Kind]] = {
    "openai": {**SERVER, **DECODING, **SERVED, **ACCOUNT, "batch": SWITCH},
    "hf": {**DECODING, **LOCAL, **ACCOUNT},
    "recorded": {"on_error": POLICY},
}
"""The options of each provider."""
UNDECIDING = (*ACCOUNT, *LOCAL, "batch", "timeout", "concurrency", "api_key_env")
"""Options that no answer depends on."""
FORMS = "openai:MODEL, hf:MODEL_OR_FOLDER, recorded:FILE or recorded:sample, then key=value ..."


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


def parse(text: str) -> Spec:
    """Parse a specification; words are split as a shell does, so quote what holds spaces.

    Raises:
        UsageError: for an unknown provider or key, or a bad value. The message lists what is valid, and doesn't show values of unknown
            keys.

    Example:
        >>> parse("openai:org/model:8b temperature=0 base_url=http://localhost:8000/v1?a=b").options
        {'temperature': 0.0, 'base_url': 'http://localhost:8000/v1?a=b'}
    """
    try:
        head, *words = shlex.split(text)
    except ValueError:
        raise UsageError(f"an LLM is named {FORMS}; this one is empty or has an open quote") from None
    provider, _, name = head.partition(":")
    if "://" in head:
        raise UsageError(f"an LLM is named {FORMS}: the address of its server is given as base_url=ADDRESS")
    if not name or provider not in OPTIONS:
        near = did_you_mean(provider, OPTIONS).replace("?", f":{name}?")
        if ":" not in head and "=" not in head and head not in OPTIONS:
            near = f"did you mean {'hf' if '/' in head else 'openai'}:{head}?"
        raise UsageError(f"unknown LLM {head.partition('=')[0]!r}: {near}{' ' * bool(near)}it is named {FORMS}")
    options: dict[str, Any] = {}
    shown = [head]
    for word in words:
        key, value = _option(provider, word)
        if key in options:
            raise UsageError(f"the LLM option {key} is given twice")
        options[key] = value
        shown.append(f"{key}={Address(value).shown}" if key == "base_url" else word)
    quoted = [shlex.quote(word) if re.search(r"[\s'\"\\]", word) else word for word in shown]
    return Spec(provider, os.path.expanduser(name), options, " ".join(quoted))


def deciding_options(spec: str) -> str:
    """The words of a specification that change the answers: without time-out, concurrency, cache, budget and on_error.

    Example:
        >>> deciding_options("openai:gpt-4o temperature=0 budget=5 price_in=2.5 price_out=10 concurrency=8 on_error=fallback")
        'openai:gpt-4o temperature=0'
    """
    head, *words = shlex.split(parse(spec).shown)
    return shlex.join([head, *(word for word in words if word.partition("=")[0] not in UNDECIDING)])


def _option(provider: str, word: str) -> tuple[str, Any]:
    key, equals, value = word.partition("=")
    known = OPTIONS[provider]
    if key == "api_key":
        raise UsageError(
            "a key does not belong in code or on a command line: put it in an environment variable and give api_key_env=VARIABLE"
        )
    if not equals or not key.isidentifier():
        raise UsageError(f"the options of an LLM are key=value with the keys {', '.join(known)}")
    if key in known:
        return key, known[key].read(key, value)
    near = did_you_mean(key, known)
    raise UsageError(f"unknown LLM option {key!r}: {near}{' ' * bool(near)}{provider} knows {', '.join(known)}")


def llm(spec_or_object: Any, *, ledger: Ledger | None = None, identity: Any = None, **options: Any) -> LLM:
    """Make a language model for operators.

    Args:
        spec_or_object: one of

            - ``"openai:MODEL key=value ..."``: any server with OpenAI's chat completions; the key is read from ``OPENAI_API_KEY``. Keys:
              ``base_url``, ``api_key_env`` (the name of another variable), ``timeout`` (seconds without a sign of the server, 120),
              ``concurrency`` (the most calls at a time, 32); ``structured=on`` sends the JSON schema of the answer where the operator
              has one; ``batch=on`` sends a stage's requests as batches, which the provider answers within a day for half the price: a
              stage then raises `BatchUnderWay` until it is answered.
            - ``"hf:MODEL_OR_FOLDER key=value ..."``: a local Hugging Face model, or a GGUF file. Keys: ``device``, ``batch_size``.
            - ``"recorded:FILE"``: replays completions from JSON lines; ``recorded:sample`` replays those of the bundled sample,
              ``recorded:NAME`` those of others that are public (`ikat datasets` lists them).
            - an object with ``.generate(list)``, such as a pyterrier_rag backend; or a `Backend`.

            Keys of the first two: ``temperature``, ``top_p``, ``top_k``, ``max_tokens``, ``seed``; of OpenAI's also
            ``frequency_penalty``. Keys of all but recorded ones: those of ``options``.
        ledger: the account to count in; a new one when None.
        identity: for an object, what determines its answers besides its class and ``model_id``, such as ``{"temperature": 0, "version":
            3}``; the object's own ``identity`` when None. With one, its completions are kept in the cache file like those of other models.
        options: of an object; a specification has them as words. ``retries`` (5); ``cache`` (a file, or ``none``; without an ``identity``
            completions are kept in this process, unless a file is named and ``model_id`` alone tells them from those of every other model);
            ``price_in``, ``price_out``, ``price_cached`` (US dollars per million tokens; the last for prompt tokens that the provider had
            in its own cache) and ``budget`` (US dollars); ``on_error``: ``raise``, or ``fallback``: operators use their fallback for a
            failed call, and count it.

    Raises:
        UsageError: for an invalid specification (the message lists what is valid), or for an `LLM` that counts in another ledger. For a
            file that would keep completions of a model that nothing tells from others.
        DataError: for a file of recorded completions that is missing or malformed.

    Example:
        >>> import pyterrier_ikat as ikat
        >>> ikat.llm("openai:gpt-4o temperature=0")
        ikat.llm('openai:gpt-4o temperature=0')
    """
    if isinstance(spec_or_object, LLM | str) and (given := [*options, *(["identity"] if identity is not None else [])]):
        raise UsageError(f"{', '.join(given)}: these are arguments for an object with .generate; a specification has them as key=value")
    if isinstance(spec_or_object, LLM):
        if ledger is not None and ledger is not spec_or_object.ledger:
            raise UsageError(f"{spec_or_object!r} counts in a ledger already: give ledger= where it is made, or read its own, .ledger")
        return spec_or_object
    if isinstance(spec_or_object, str):
        spec = parse(spec_or_object)
        own = {name: value for name, value in spec.options.items() if name not in ACCOUNT and name != "batch"}
        params = {key: own.pop(key) for key in (*DECODING, *SERVED) if key in own}
        if spec.provider == "recorded":
            backend: Backend = RecordedBackend(spec.name)
        else:
            backend = (HFBackend if spec.provider == "hf" else OpenAIBackend)(spec.name, params=params, **own)
        return _model(backend, spec.options, ledger, text=spec.shown)
    if unknown := options.keys() - ACCOUNT.keys():
        raise TypeError(f"llm() got an unexpected keyword argument {min(unknown)!r}")
    read = {name: ACCOUNT[name].read(name, str(value)) for name, value in options.items() if value is not None}
    backend = _object_backend(spec_or_object, identity)
    return _model(backend, {"cache": IN_MEMORY, **read} if getattr(backend, "told", None) is None else read, ledger)


def _model(backend: Backend, options: Mapping[str, Any], ledger: Ledger | None, **shown: str) -> LLM:
    """The model over a backend, with the options of `ACCOUNT`."""
    batches = options.get("batch") == "on"
    prices = {name: options[name] * (DISCOUNT if batches else 1) for name in PRICES if name in options}
    budget = Budget(**prices, limit=options.get("budget"), model=backend.model)
    place = options.get("cache") or default_path()
    if place not in ("none", IN_MEMORY) and not backend.identified:
        raise UsageError(
            f"nothing tells the completions of {backend.model} from those of another model in {place}: give identity=..., what decides "
            "its answers, or the object a model_id; or omit cache="
        )
    if batches and place in ("none", IN_MEMORY):
        raise UsageError(f"batch=on needs a cache file, which keeps what is under way: omit cache={place}, or give cache=FILE")
    cache = None if place == "none" or backend.replays else CompletionCache(place)
    retry, on_error = Retry(tries=1 + options.get("retries", 5)), options.get("on_error", "raise")
    return LLM(backend, ledger=ledger, cache=cache, budget=budget, retry=retry, on_error=on_error, batches=batches, **shown)


def _object_backend(given: Any, identity: Any) -> Backend:
    if isinstance(given, Backend):
        return given
    if isinstance(given, type) or not hasattr(given, "generate"):
        raise UsageError(
            f"{given!r} is not a language model: give 'openai:MODEL', 'hf:MODEL', 'recorded:FILE', an object with .generate, or a "
            "pyterrier_ikat.llms.Backend"
        )
    return GeneratorBackend(given, identity)
