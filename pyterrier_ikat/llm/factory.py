"""Makes a language model from its specification."""

import os
import threading
from typing import Any
from weakref import WeakValueDictionary

from ..errors import UsageError
from .budget import Budget
from .cache import Cache, default_path
from .generator import GeneratorBackend
from .hf import HFBackend
from .ledger import Ledger
from .model import LLM
from .openai_backend import OpenAIBackend
from .recorded import RecordedBackend
from .request import Backend
from .retry import Retry
from .spec import DECODING, Spec, parse

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
