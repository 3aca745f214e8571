"""The specification of a language model, such as ``openai:gpt-4o temperature=0``, and the model that it names."""

import inspect
import math
import os
import re
import shlex
from collections.abc import Callable, Mapping
from importlib import metadata
from pathlib import Path
from typing import Any, NamedTuple

from ..errors import UsageError, did_you_mean
from .cache import IN_MEMORY, CompletionCache, default_path
from .generator import GeneratorBackend, told_by
from .hf import HFBackend
from .ledger import Budget, Ledger
from .limits import Retry
from .model import LLM
from .network import HIDDEN, SECRET_NAME, Address, addresses
from .openai import OpenAIBackend
from .recorded import RecordedBackend
from .request import Backend
from .sending import BatchSettings


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

    def read(self, text: str) -> Any:
        """The value in a text.

        Raises:
            ValueError: when it holds none.
        """
        value = self.convert(text)
        if not self.holds(value):
            raise ValueError
        return value


NUMBER = Kind("a number from 0", float, lambda value: 0 <= value < math.inf)
SHARE = Kind("a number from 0 to 1", float, lambda value: 0 <= value <= 1)
SECONDS = Kind("a number of seconds, more than 0", float, lambda value: 0 < value < math.inf)
PENALTY = Kind("a number from -2 to 2", float, lambda value: -2 <= value <= 2)
WHOLE = Kind("a whole number from 0", int, lambda value: value >= 0)
POSITIVE = Kind("a whole number from 1", int, lambda value: value >= 1)
POLICY = Kind("raise or fallback", str, lambda value: value in ("raise", "fallback"))
SWITCH = Kind("on or off", str, lambda value: value in ("on", "off"))
VARIABLE = Kind("the name of the environment variable that holds the key, not the key itself", str, str.isidentifier)
TEXT = Kind("a text", str, lambda value: True)
DECODING = {"temperature": NUMBER, "top_p": NUMBER, "top_k": POSITIVE, "max_tokens": POSITIVE, "seed": WHOLE}
PENALTIES = {"frequency_penalty": PENALTY}
PRICES = dict.fromkeys(("price_in", "price_out", "price_cached"), NUMBER)
ACCOUNT = {"on_error": POLICY, "retries": WHOLE, "cache": TEXT, "budget": NUMBER, **PRICES}
BATCH = {"batch": SWITCH, "batch_discount": SHARE, "batch_requests": POSITIVE, "batch_mb": POSITIVE}
OPTIONS: dict[str, dict[str, Kind]] = {
    "openai": {
        "base_url": TEXT,
        "api_key_env": VARIABLE,
        **DECODING,
        **PENALTIES,
        "structured": SWITCH,
        "timeout": SECONDS,
        "concurrency": POSITIVE,
        **ACCOUNT,
        **BATCH,
    },
    "hf": {**DECODING, "device": TEXT, "batch_size": POSITIVE, **ACCOUNT},
    "recorded": {"on_error": POLICY},
}
"""The options of each provider."""
UNDECIDING = (*ACCOUNT, *BATCH, "timeout", "concurrency", "api_key_env", "device", "batch_size")
"""Options that no answer depends on."""


class Spec(NamedTuple):
    """A parsed specification.

    Attributes:
        provider: ``openai``, ``hf``, ``recorded``, or the name of an installed one.
        name: the model's name or path.
        options: by key, converted.
        shown: the specification without secrets.
    """

    provider: str
    name: str
    options: dict[str, Any]
    shown: str


GROUP = "pyterrier_ikat.llm"
"""Where installed packages register providers of their own."""


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
        raise UsageError(f"an LLM is named {_forms()}; this one is empty or has an open quote") from None
    if "://" in head:
        raise UsageError(f"an LLM is named {_forms()}: the address of its server is given as base_url=ADDRESS")
    provider, _, name = head.partition(":")
    if not name or (provider not in OPTIONS and not _entry_points(provider)):
        raise UsageError(f"unknown LLM {head.partition('=')[0]!r}: {_meant(provider, name)}it is named {_forms()}")
    if name.startswith("~/"):
        name = os.path.expanduser(name)
    options: dict[str, Any] = {}
    shown = [head]
    for position, word in enumerate(words, 1):
        key, value = _option(provider, position, word)
        if key in options:
            raise UsageError(f"the LLM option {key} is given twice")
        options[key] = value
        shown.append(_without_secrets(provider, key, word))
    return Spec(provider, name, options, " ".join(map(_quoted, shown)))


def deciding_options(spec: str) -> str:
    """The words of a specification that change the answers: without time-out, concurrency, cache, budget and on_error.

    Example:
        >>> deciding_options("openai:gpt-4o temperature=0 budget=5 price_in=2.5 price_out=10 concurrency=8 on_error=fallback")
        'openai:gpt-4o temperature=0'
    """
    head, *words = shlex.split(parse(spec).shown)
    return shlex.join([head, *(word for word in words if word.partition("=")[0] not in UNDECIDING)])


def _without_secrets(provider: str, key: str, word: str) -> str:
    value = word.partition("=")[2]
    if key == "base_url" or re.match("https?://", value, re.IGNORECASE):
        return f"{key}={','.join(Address(url).shown for url in addresses(value))}"
    return f"{key}={HIDDEN}" if _is_secret(provider, key) else word


def _is_secret(provider: str, key: str) -> bool:
    return provider not in OPTIONS and SECRET_NAME.search(key) is not None


def _entry_points(provider: str) -> list[metadata.EntryPoint]:
    return list(metadata.entry_points(group=GROUP, name=provider))


def _option(provider: str, position: int, word: str) -> tuple[str, Any]:
    key, equals, value = word.partition("=")
    known = OPTIONS.get(provider, ACCOUNT)
    if key == "api_key":
        raise UsageError(
            "a key does not belong in code or on a command line: put it in an environment variable and give api_key_env=VARIABLE"
        )
    if not equals or "://" in key:
        lacks, names = "key" if equals else "'='", ", ".join(known)
        raise UsageError(f"option {position} of the LLM has no {lacks}: options are key=value with the keys {names}")
    if key not in known and provider not in OPTIONS:
        return key, value  # the package that registered the provider checks it
    if key not in known:
        near = did_you_mean(key, known)
        raise UsageError(f"unknown LLM option {key!r}: {near}{' ' * bool(near)}{provider} knows {', '.join(known)}")
    try:
        return key, known[key].read(value)
    except ValueError:
        given = key if known[key] is VARIABLE or "://" in value else word
        raise UsageError(f"the LLM option {given} is wrong: give {known[key].words}") from None


def _quoted(word: str) -> str:
    return shlex.quote(word) if re.search(r"[\s'\"\\]", word) else word


def _meant(provider: str, name: str) -> str:
    """The specification that a mistyped provider, or a model alone, means, as a question."""
    known = [*OPTIONS, *(one.name for one in metadata.entry_points(group=GROUP))]
    if not name:
        of = "recorded" if provider.startswith("sample") else "hf" if "/" in provider else "openai"
        return f"did you mean {of}:{provider}? " if provider not in known and "=" not in provider else ""
    near = did_you_mean(provider, known)
    return f"{near[:-1]}:{name}? " if near and "=" not in name else ""


def _forms() -> str:
    installed = sorted({f"{one.name}:..." for one in metadata.entry_points(group=GROUP)})
    return ", ".join(["openai:MODEL", "hf:MODEL_OR_FOLDER", *installed, "recorded:FILE or recorded:sample, then key=value ..."])


def llm(
    spec_or_object: Any,
    *,
    ledger: Ledger | None = None,
    identity: Any = None,
    cache: str | Path | None = None,
    price_in: float | None = None,
    price_out: float | None = None,
    price_cached: float | None = None,
    budget: float | None = None,
    retries: int | None = None,
    on_error: str | None = None,
    batch: bool | None = None,
) -> LLM:
    """Make a language model for operators.

    Args:
        spec_or_object: one of

            - ``"openai:MODEL key=value ..."``: any server with OpenAI's chat completions; the key is read from ``OPENAI_API_KEY``. Keys:
              ``base_url`` (several servers of the same model, separated by commas, share the calls; the first names all in the cache),
              ``api_key_env`` (the name of another variable), ``timeout`` (seconds), ``concurrency`` (the most calls at a time, over all
              servers, 32; adapts below it when a server refuses); ``structured=on`` sends the JSON schema of the answer where the operator
              has one; ``batch=on`` sends a stage's requests as batches, which the provider answers within a day, with ``batch_discount``
              (the share of the prices that this saves, 0.5), ``batch_requests`` and ``batch_mb`` (the most of one batch: 50,000 requests
              and 200 MB, as OpenAI takes them).
            - ``"hf:MODEL_OR_FOLDER key=value ..."``: a local Hugging Face model, or a GGUF file. Keys: ``device``, ``batch_size``.
            - ``"recorded:FILE"``: replays completions from JSON lines; ``recorded:sample`` replays those of the bundled sample,
              ``recorded:NAME`` those of others that are public (`ikat datasets` lists them).
            - ``"NAME:REST key=value ..."``: a provider that an installed package registers as NAME in the entry point group
              ``pyterrier_ikat.llm``: a function ``make(rest, **options)`` that returns an object with ``.generate`` or a `Backend`.
            - an object with ``.generate(list)``, such as a pyterrier_rag backend: see the arguments below; or a `Backend`.

            Keys of the first two: ``temperature``, ``top_p``, ``top_k``, ``max_tokens``, ``seed``; of OpenAI's also
            ``frequency_penalty``. Keys of all but recorded ones, in the specification, and arguments for an object: ``retries`` (5);
            ``cache`` (a file, or ``none``); ``price_in``, ``price_out``,
            ``price_cached`` (US dollars per million tokens; the last for prompt tokens that the provider had in its own cache) and
            ``budget`` (US dollars). Keys of all: ``on_error``.
        ledger: the account to count in; a new one when None.
        identity: for an object, what determines its answers besides its class and ``model_id``, such as ``{"temperature": 0, "version":
            3}``; the object's own ``identity`` when None. With one, its completions are kept in the cache file like those of other models.
        cache: of an object: the file in which completions are kept, or ``"none"``. Without an ``identity`` they are kept in this process,
            unless a file is named and ``model_id`` alone tells the answers from those of every other model.
        price_in: of an object: US dollars per million prompt tokens.
        price_out: of an object: US dollars per million completion tokens.
        price_cached: of an object: US dollars per million prompt tokens that the provider had in its own cache.
        budget: of an object: the maximum cost in US dollars; its outputs need ``prompt_tokens`` and ``completion_tokens``.
        retries: of an object: the number of retries of a failed call.
        on_error: of an object: ``raise``, or ``fallback``: operators use their fallback for a failed call, and count it.
        batch: of an ``openai`` specification: ``True`` means ``batch=on``. A stage then raises `BatchUnderWay` until it is answered.

    Raises:
        UsageError: for an invalid specification (the message lists what is valid), or for an `LLM` that counts in another ledger. For a
            file that would keep completions of a model that nothing tells from others.
        DataError: for a file of recorded completions that is missing or malformed.

    Example:
        >>> import pyterrier_ikat as ikat
        >>> ikat.llm("openai:gpt-4o temperature=0")
        ikat.llm('openai:gpt-4o temperature=0')
    """
    prices = {"price_in": price_in, "price_out": price_out, "price_cached": price_cached}
    options = {"cache": cache, **prices, "budget": budget, "retries": retries, "on_error": on_error}
    options = {name: _account_option(name, value) for name, value in options.items() if value is not None}
    if isinstance(spec_or_object, LLM | str) and (given := [*options, *(["identity"] if identity is not None else [])]):
        raise UsageError(f"{', '.join(given)}: these are arguments for an object with .generate; a specification has them as key=value")
    if batch is not None and not isinstance(spec_or_object, str):
        raise UsageError(f"batch={batch}: it is for a specification, such as 'openai:gpt-4o batch=on'")
    if isinstance(spec_or_object, LLM):
        if ledger is not None and ledger is not spec_or_object.ledger:
            raise UsageError(f"{spec_or_object!r} counts in a ledger already: give ledger= where it is made, or read its own, .ledger")
        return spec_or_object
    if isinstance(spec_or_object, str):
        spec = parse(spec_or_object if batch is None else f"{spec_or_object} batch={'on' if batch else 'off'}")
        own = {
            name: value for name, value in spec.options.items() if name not in ACCOUNT and not (spec.provider == "openai" and name in BATCH)
        }
        return _model(_backend(spec.provider, spec.name, own), spec.options, ledger, shown=spec.shown)
    backend = _object_backend(spec_or_object, identity)
    return _model(backend, options, ledger, in_memory=getattr(backend, "told", None) is None)


def _object_backend(given: Any, identity: Any, name: str | None = None) -> Backend:
    if isinstance(given, type):
        raise UsageError(f"{given.__name__} is a class: give an object of it, {given.__name__}(...)")
    if isinstance(given, Backend):
        return given
    if hasattr(given, "generate"):
        return GeneratorBackend(given, identity, name)
    raise UsageError(
        f"{type(given).__name__} is not a language model: give 'openai:MODEL', 'hf:MODEL', 'recorded:FILE' "
        "an object with .generate, or a pyterrier_ikat.llms.Backend"
    )


def _account_option(name: str, value: Any) -> Any:
    """The value of an account's option that is given as an argument."""
    try:
        return ACCOUNT[name].read(str(value))
    except ValueError:
        raise UsageError(f"{name}={value!r}: give {ACCOUNT[name].words}") from None


def _model(
    backend: Backend, options: Mapping[str, Any], ledger: Ledger | None, *, shown: str | None = None, in_memory: bool = False
) -> LLM:
    """The model over a backend, with the options of `ACCOUNT`. Without a cache in them, it is the shared file or this process's memory."""
    batches = _batches(backend, options) if isinstance(backend, OpenAIBackend) else None
    share = 1.0 if batches is None else 1 - options.get("batch_discount", 0.5)
    prices = {name: options[name] * share for name in PRICES if name in options}
    budget = Budget(**prices, limit=options.get("budget"), model=backend.model)
    place = options["cache"] if "cache" in options else IN_MEMORY if in_memory else default_path()
    if place not in ("none", IN_MEMORY) and not backend.identified:
        raise UsageError(
            f"nothing tells the completions of {backend.model} from those of another model in {place}: give identity=..., what decides "
            "its answers, or the object a model_id; or omit cache="
        )
    cache = None if place == "none" or backend.replays else CompletionCache(place)
    retry = Retry(tries=1 + options.get("retries", 5))
    on_error = options.get("on_error", "raise")
    return LLM(backend, ledger=ledger, cache=cache, budget=budget, retry=retry, on_error=on_error, batches=batches, text=shown)


def _batches(backend: OpenAIBackend, options: Mapping[str, Any]) -> BatchSettings | None:
    """The settings for batches; None without ``batch=on``.

    Raises:
        UsageError: when they can't be.
    """
    if options.get("batch") != "on":
        if given := [name for name in BATCH if name in options and name != "batch"]:
            raise UsageError(f"the LLM option {given[0]} is for batches: give batch=on, too, or omit it")
        return None
    if options.get("cache") in ("none", IN_MEMORY):
        raise UsageError(f"batch=on needs a cache file, which keeps what is under way: omit cache={options['cache']}, or give cache=FILE")
    if len(backend.servers.all) > 1:
        raise UsageError("batch=on asks one server: give one address as base_url=ADDRESS")
    return BatchSettings(options.get("batch_requests", 50_000), options.get("batch_mb", 200) * 10**6)


def _backend(provider: str, name: str, options: dict[str, Any]) -> Backend:
    if provider == "recorded":
        return RecordedBackend(name)
    if provider not in OPTIONS:
        return _registered(provider, name, options)
    params = {key: options.pop(key) for key in (*DECODING, *PENALTIES) if key in options}
    return (HFBackend if provider == "hf" else OpenAIBackend)(name, params=params, **options)


def _registered(provider: str, name: str, options: dict[str, str]) -> Backend:
    """The model that an installed package makes of a specification.

    Raises:
        UsageError: when several packages register the name, it cannot be loaded, takes other options, or makes no model.
    """
    found = _entry_points(provider)
    if len({one.value for one in found}) > 1:
        raise UsageError(f"several packages register the LLM {provider}: {', '.join(one.value for one in found)}; uninstall all but one")
    try:
        make = found[0].load()
        inspect.signature(make).bind(name, **options)
    except (ImportError, AttributeError) as error:
        raise UsageError(f"the LLM {provider} cannot be loaded from {found[0].value}: {error}") from None
    except TypeError as error:
        raise UsageError(f"the LLM {provider} does not take these options ({error}): it is {provider}{inspect.signature(make)}") from None
    try:
        made = make(name, **options)
    except TypeError as error:
        raise UsageError(f"the LLM {provider} can't be made of {name} with the options {', '.join(options) or 'none'}: {error}") from None
    shown = {key: value for key, value in options.items() if not _is_secret(provider, key)}
    told = {"provider": provider, "name": name, "options": shown, "identity": told_by(made, "identity")}
    return _object_backend(made, told, name)
