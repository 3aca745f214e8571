"""Specifications of language models, such as ``openai:gpt-4o temperature=0``."""

import math
import os
import shlex
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

from ..conversations.public_outputs import OUTPUTS, STUDIES
from ..errors import UsageError, did_you_mean
from ..store.cache import IN_MEMORY
from .backend import Backend, GeneratorBackend
from .cache import CompletionCache, default_path
from .extra import as_json, body_of
from .hf import HFBackend
from .ledger import Budget, Ledger
from .model import LLM
from .openai import OpenAIBackend
from .recorded import RecordedBackend, StudyBackend
from .retry import Retry


class OptionKind(NamedTuple):
    """A kind of option.

    Attributes:
        words: the name of its values in messages.
        convert: makes a value of a text.
        holds: whether a value is allowed.
    """

    words: str
    convert: Callable[[str], Any] = str
    holds: Callable[[Any], bool] = lambda value: True


def _pairs_of_marks(text: str) -> tuple[tuple[str, str], ...]:
    """Opening and closing marks, separated by blanks.

    Raises:
        ValueError: when they are no pairs of marks.
    """
    marks = text.split()
    for mark in marks:
        if len(mark) <= 2 or mark.isalnum():
            raise ValueError(mark)
    if not marks:
        raise ValueError("no marks")
    return tuple(zip(marks[::2], marks[1::2], strict=True))


NUMBER = OptionKind("a number from 0", float, lambda value: 0 <= value < math.inf)
WHOLE = OptionKind("a whole number from 0", int, lambda value: value >= 0)
POSITIVE = OptionKind("a whole number from 1", int, lambda value: value >= 1)
PENALTY = OptionKind("a number from -2 to 2", float, lambda value: -2 <= value <= 2)
POLICY = OptionKind("raise or fallback", holds=lambda value: value in ("raise", "fallback"))
SWITCH = OptionKind("on or off", holds=lambda value: value in ("on", "off"))
VARIABLE = OptionKind(
    "the name of the environment variable that holds the key, not the key itself",
    holds=str.isidentifier,
)
TEXT = OptionKind("a text")
MARKS = OptionKind(
    "the opening and the closing mark of reasoning with a blank between, in quotation marks: "
    "'<ponder> </ponder>'",
    _pairs_of_marks,
)
DECODING = {
    "temperature": NUMBER,
    "top_p": NUMBER,
    "top_k": POSITIVE,
    "max_tokens": POSITIVE,
    "seed": WHOLE,
}
PRICES = dict.fromkeys(("price_in", "price_out", "price_cached"), NUMBER)
ACCOUNT = {"on_error": POLICY, "retries": WHOLE, "cache": TEXT, "budget": NUMBER, **PRICES}
BODY = OptionKind("a JSON object", body_of)
READING = {"reasoning": MARKS}
SERVER = {
    "base_url": TEXT,
    "api_key_env": VARIABLE,
    "structured": SWITCH,
    "timeout": NUMBER,
    "concurrency": POSITIVE,
}
OPTIONS: dict[str, dict[str, OptionKind]] = {
    "openai": {
        **SERVER,
        **DECODING,
        "frequency_penalty": PENALTY,
        **READING,
        **ACCOUNT,
        "batch": SWITCH,
        "body": BODY,
    },
    "hf": {**DECODING, "device": TEXT, "batch_size": POSITIVE, **READING, **ACCOUNT},
    "recorded": {"on_error": POLICY, **READING},
}
"""The options of each provider."""
BATCHED = 0.5
"""The price of a call in a batch, for each dollar that it costs otherwise."""
UNDECIDING = (*ACCOUNT, "device", "batch_size", "batch", "timeout", "concurrency", "api_key_env")
"""Options that no answer depends on."""
SPEC_FORMS = (
    "openai:MODEL, hf:MODEL_OR_FOLDER, recorded:FILE or recorded:sample, then key=value ..., "
    "such as base_url=ADDRESS"
)


class Spec(NamedTuple):
    """A parsed specification.

    Attributes:
        provider: ``openai``, ``hf`` or ``recorded``.
        name: the model's name or path.
        options: by key, converted.
        shown: the same as text.
    """

    provider: str
    name: str
    options: dict[str, Any]
    shown: str


def parse(text: str) -> Spec:
    """Parse a specification; words are split as a shell does, so quote what holds spaces.

    Raises:
        UsageError: for an unknown provider or key, a key that is given twice, or a bad value. The
            message lists what is valid, and doesn't show values, since a key may be among them.

    Example:
        >>> parse("openai:org/model:8b temperature=0 base_url=http://localhost:8000/v1").options
        {'temperature': 0.0, 'base_url': 'http://localhost:8000/v1'}
    """
    try:
        head, *words = shlex.split(text)
    except ValueError:
        raise UsageError(
            f"an LLM is named {SPEC_FORMS}; this one is empty or has an open quote"
        ) from None
    provider, _, name = head.partition(":")
    if not name or provider not in OPTIONS or "://" in head:
        raise UsageError(
            f"unknown LLM {provider!r}: {_hint(head, provider)}it is named {SPEC_FORMS}"
        )
    options: dict[str, Any] = {}
    for word in words:
        key, value = _option(OPTIONS[provider], provider, word)
        if key in options:
            raise UsageError(f"the LLM option {key} is given twice: omit one")
        options[key] = value
    shown = [head]
    for word in words:
        if not word.startswith("body="):
            shown.append(word)
        elif options["body"]:
            shown.append(f"body={as_json(options['body'])}")
    return Spec(provider, os.path.expanduser(name), options, shlex.join(shown))


def _hint(head: str, provider: str) -> str:
    """What a wrong name may mean, in words that end with a blank; empty if nothing is near."""
    if provider in OPTIONS and "://" in head:
        return "an address stands behind the name, as base_url=ADDRESS; "
    if provider in OPTIONS:
        return f"it names no model of {provider}; "
    near = did_you_mean(provider, OPTIONS)
    return f"{near} " if near else ""


def with_body(spec: str, body: Mapping[str, Any]) -> str:
    r"""A specification with the fields of a dict.

    Raises:
        UsageError: when it has ``body`` already.

    Example:
        >>> with_body("openai:m", {"reasoning_effort": "low"})
        'openai:m \'body={"reasoning_effort": "low"}\''
    """
    if "body" in parse(spec).options:
        raise UsageError("body is given twice: in the specification and as body=")
    word = shlex.quote(f"body={as_json(body_of(body))}")
    return f"{spec} {word}"


def _option(kinds: Mapping[str, OptionKind], provider: str, word: str) -> tuple[str, Any]:
    """The key and the value of an option.

    Raises:
        UsageError: when it is none, or has a bad value.
    """
    key, equals, text = word.partition("=")
    if key == "api_key":
        raise UsageError(
            "a key does not belong in code or on a command line: put it in a variable and give "
            "api_key_env=VARIABLE"
        )
    if not equals or not key.isidentifier():  # it may be a key
        raise UsageError(f"the options of an LLM are key=value with the keys {', '.join(kinds)}")
    if key not in kinds:
        near = did_you_mean(key, kinds)
        hint = f"{near} " if near else ""
        raise UsageError(f"unknown LLM option {key!r}: {hint}{provider} knows {', '.join(kinds)}")
    kind = kinds[key]
    if kind is BODY:
        return key, body_of(text)  # its errors say more
    try:
        value = kind.convert(text)
        is_valid = kind.holds(value)
    except ValueError:
        is_valid = False
    if not is_valid:
        raise UsageError(f"the LLM option {key} is wrong: give {kind.words}")
    return key, value


def deciding_options(spec: str) -> str:
    """The words of a specification that change the answers.

    Time-out, concurrency, cache, budget and on_error are left out.

    Example:
        >>> deciding_options("openai:gpt-4o temperature=0 budget=5 price_in=2.5 on_error=fallback")
        'openai:gpt-4o temperature=0'
        >>> deciding_options("a user's model")
        "a user's model"
    """
    try:
        head, *words = shlex.split(spec)
    except ValueError:  # the name of a user's object
        return spec
    deciding = [word for word in words if word.partition("=")[0] not in UNDECIDING]
    return shlex.join([head, *deciding])


def llm(
    spec_or_object: Any, *, ledger: Ledger | None = None, identity: Any = None, **options: Any
) -> LLM:
    r"""Make a language model for operators.

    Args:
        spec_or_object: one of

            - ``"openai:MODEL key=value ..."``: any server with OpenAI's chat completions; the key
              is read from ``OPENAI_API_KEY``. Keys: ``base_url``, ``api_key_env`` (the name of
              another variable), ``timeout`` (seconds without a sign of the server, 120),
              ``concurrency`` (the most calls at a time, 32); ``structured=on`` sends the JSON
              schema of the answer where the operator has one; ``body='{"reasoning_effort":
              "low"}'`` adds fields to each request; ``batch=on`` sends a stage's requests as
              batches, which the provider answers within a day for half the price: a stage then
              raises `BatchUnderWay` until it is answered.
            - ``"hf:MODEL_OR_FOLDER key=value ..."``: a local Hugging Face model, or a GGUF file.
              Keys: ``device``, ``batch_size``.
            - ``"recorded:FILE"``: replays completions from JSON lines; ``recorded:sample`` replays
              those of the bundled sample, ``recorded:NAME`` those of others that are public (`ikat
              datasets` lists them), and ``recorded:personalizedcir`` those of the prompt of each
              method of that study.
            - an object with ``.generate(list)``, such as a pyterrier_rag backend; or a `Backend`.

            A key of all: ``reasoning``. Keys of the first two: ``temperature``, ``top_p``,
            ``top_k``, ``max_tokens``, ``seed``; of OpenAI's also ``frequency_penalty``. Keys of all
            but recorded ones: the others of ``options``.
        ledger: the account to count in; a new one when None.
        identity: for an object, what determines its answers besides its class and ``model_id``,
            such as ``{"temperature": 0, "version": 3}``; the object's own ``identity`` when None.
            With one, its completions are kept in the cache file like those of other models.
        options: of an object; a specification has them as words, and takes ``body=`` as a dict.
            ``reasoning`` (the marks of the model's reasoning, if they are not known:
            ``reasoning="<ponder> </ponder>"``; kept answers are read again without a call);
            ``retries`` (5); ``cache`` (a file, or ``none``; without an ``identity`` completions are
            kept in this process, unless a file is named and ``model_id`` alone tells them from
            those of every other model); ``price_in``, ``price_out``, ``price_cached`` (US dollars
            per million tokens; the last for prompt tokens that the provider had in its own cache)
            and ``budget`` (US dollars); ``on_error``: ``raise``, or ``fallback``: operators use
            their fallback for a failed call, and count it.

    Raises:
        UsageError: for an invalid specification (the message lists what is valid), or for an `LLM`
            that counts in another ledger. For a file that would keep completions of a model that
            nothing tells from others.
        DataError: for a file of recorded completions that is missing or malformed.

    Example:
        >>> import pyterrier_ikat as ikat
        >>> ikat.llm("openai:gpt-4o temperature=0")
        ikat.llm('openai:gpt-4o temperature=0')
        >>> ikat.llm("openai:gpt-5", body={"reasoning_effort": "low"})
        ikat.llm('openai:gpt-5 \'body={"reasoning_effort": "low"}\'')
    """
    if isinstance(spec_or_object, str) and "body" in options:
        spec_or_object = with_body(spec_or_object, options.pop("body") or {})
    if isinstance(spec_or_object, LLM | str) and (identity is not None or options):
        raise UsageError(
            "identity= and the options are for an object with .generate; "
            "a specification has its options as key=value"
        )
    if isinstance(spec_or_object, LLM):
        if ledger not in (None, spec_or_object.ledger):
            raise UsageError(
                f"{spec_or_object!r} counts in a ledger already: give ledger= where it is made, "
                "or read its own, .ledger"
            )
        return spec_or_object
    if isinstance(spec_or_object, str):
        spec = parse(spec_or_object)
        return _model(_backend_of(spec), spec.options, ledger, text=spec.shown)
    values: dict[str, Any] = {}
    for name, value in options.items():
        if value is not None:
            name, value = _option({**ACCOUNT, **READING}, "an object", f"{name}={value}")
            values[name] = value
    if isinstance(spec_or_object, Backend):
        return _model(spec_or_object, {"cache": IN_MEMORY, **values}, ledger)
    if isinstance(spec_or_object, type) or not hasattr(spec_or_object, "generate"):
        raise UsageError(
            f"{spec_or_object!r} is not a language model: give 'openai:MODEL', 'hf:MODEL', "
            "'recorded:FILE', an object with .generate, or a pyterrier_ikat.llms.Backend"
        )
    backend = GeneratorBackend(spec_or_object, identity)
    if backend.declared is None:
        values.setdefault("cache", IN_MEMORY)
    return _model(backend, values, ledger)


def _backend_of(spec: Spec) -> Backend:
    """The backend that a specification names."""
    if spec.provider == "recorded":
        return StudyBackend(spec.name) if spec.name in STUDIES else RecordedBackend(spec.name)
    own: dict[str, Any] = {}
    params: dict[str, Any] = {}
    for name, value in spec.options.items():
        if name in DECODING or name == "frequency_penalty":
            params[name] = value
        elif name not in ACCOUNT and name not in READING and name != "batch":
            own[name] = value
    if spec.provider == "hf":
        return HFBackend(spec.name, params=params, **own)
    return OpenAIBackend(spec.name, params=params, **own)


def _model(
    backend: Backend, options: Mapping[str, Any], ledger: Ledger | None, text: str | None = None
) -> LLM:
    """The model over a backend, with the options of `ACCOUNT` and `READING`."""
    backend.reasoning = options.get("reasoning", backend.reasoning)
    is_batched = options.get("batch") == "on"
    cache = options.get("cache") or ("none" if backend.replays else default_path())
    if cache not in ("none", IN_MEMORY) and not backend.identified:
        raise UsageError(
            f"{backend.model} in the cache {cache}: give identity=..., what decides its answers, "
            "or omit cache="
        )
    if is_batched and cache in ("none", IN_MEMORY):
        raise UsageError(
            "batch=on needs a cache file, which keeps what is under way: "
            f"omit cache={cache}, or give cache=FILE"
        )
    prices = {}
    for name in PRICES:
        if name in options:
            prices[name] = options[name] * (BATCHED if is_batched else 1)
    return LLM(
        backend,
        ledger=ledger,
        cache=None if cache == "none" else CompletionCache(cache),
        budget=Budget(**prices, limit=options.get("budget"), model=backend.model),
        retry=Retry(tries=1 + options.get("retries", 5)),
        on_error=options.get("on_error", "raise"),
        batches=is_batched,
        text=text,
    )


def recording_of(model: Any, prompt: str) -> Any:
    """The model that replays one prompt of a study; any other model unchanged.

    It counts in the same ledger.

    Args:
        model: an `LLM`, such as ``ikat.llm("recorded:personalizedcir")``, or anything else.
        prompt: the end of an output's name, such as ``"sar-0shot"``.

    Raises:
        UsageError: when the study has no such prompt.
        DataError: when the file of the output can't be fetched.

    Example:
        >>> import pyterrier_ikat as ikat
        >>> recording_of(ikat.llm("recorded:sample"), "sar-0shot")
        ikat.llm('recorded:sample')
    """
    if not isinstance(model, LLM) or not isinstance(model.backend, StudyBackend):
        return model
    study = model.backend.study
    name = f"{study}-{prompt}"
    if name not in OUTPUTS:
        names = [name for name in OUTPUTS if name.startswith(f"{study}-")]
        prompts = ", ".join(name.removeprefix(f"{study}-") for name in names)
        raise UsageError(f"recorded:{study} has no prompt {prompt}: it has {prompts}")
    return llm(model.spec.replace(f"recorded:{study}", f"recorded:{name}", 1), ledger=model.ledger)


def recorded_prompt(model: Any) -> str:
    """The name of the public output that a model replays; empty for any other model.

    Example:
        >>> import pyterrier_ikat as ikat
        >>> recorded_prompt(ikat.llm("recorded:sample"))
        ''
    """
    backend = getattr(model, "backend", None)
    if isinstance(backend, RecordedBackend) and backend.output is not None:
        return backend.output.name
    return ""
