"""What an answer cost in tokens: one count of a server's ``usage``, taken before anything judges the answer.

Servers tell the same three numbers in different ways: reasoning within the completion's tokens or
beside them, tokens of the provider's cache within the prompt's or beside them, under several names.
The tables below are all that is read. Where the numbers leave a choice, the server's own total
decides; where that leaves one, the dearer reading counts. What is told in another form is unknown,
never 0.
"""

from collections.abc import Mapping
from typing import Any, NamedTuple

MOST = 100_000_000
"""The most tokens that one answer can have: ten times the longest context that any provider offers. A greater number is a mistake."""

Path = tuple[str, ...]
"""The names under which a number stands, from the outside in."""

# Sources: a provider's manual, or a thread on GitHub (owner/repository#number) that shows the form.
PROMPT: tuple[Path, ...] = (
    ("prompt_tokens",),  # OpenAI: API reference, chat completion object; all that follow it
    (
        "input_tokens",
        # Anthropic: Messages API, and gateways that pass it on: ericc-ch/copilot-api#88; OpenAI:
        # Responses API
    ),
)
WRITTEN: tuple[Path, ...] = (
    ("completion_tokens",),  # as above
    ("output_tokens",),
)
TOTAL: tuple[Path, ...] = (("total_tokens",),)
REASONING: tuple[Path, ...] = (
    (
        "completion_tokens_details",
        "reasoning_tokens",
    ),  # OpenAI: within; xAI, beside: sonami-tech/omni-llm-provider#49, inspect_ai#5528
    (
        "output_tokens_details",
        "reasoning_tokens",
    ),  # OpenAI: Responses API: Routstr/routstr-core#213
    ("reasoning_tokens",),  # Perplexity, outside the total: BerriAI/litellm#10567
)
CACHED: tuple[Path, ...] = (
    (
        "prompt_tokens_details",
        "cached_tokens",
    ),  # OpenAI, xAI, OpenRouter, Mistral: symfony/ai#2343; LiteLLM: page "Prompt caching"
    ("prompt_token_details", "cached_tokens"),  # Mistral, in the singular: vercel/ai#14889
    ("num_cached_tokens",),  # Mistral: vercel/ai#14382
    ("input_tokens_details", "cached_tokens"),  # OpenAI: Responses API: Routstr/routstr-core#213
    ("prompt_cache_hit_tokens",),  # DeepSeek: page "Context caching"; prism-php/prism#1021
    ("cached_tokens",),  # Moonshot: API reference, usage
    (
        "cache_read_input_tokens",
        # Anthropic, Portkey: Portkey-AI/gateway#1211; LiteLLM, within the prompt: crewAIInc/crewAI#6788
    ),
)
CACHE_WRITTEN: tuple[Path, ...] = (
    ("cache_creation_input_tokens",),  # Anthropic, Portkey, LiteLLM: as above
    (
        "prompt_tokens_details",
        "cache_write_tokens",
    ),  # OpenRouter: page "Usage accounting"; OpenAI from GPT-5.6: mindroom-ai/mindroom#2134
)
OF_ANTHROPIC = ("cache_read_input_tokens", "cache_creation_input_tokens")
"""The names of tokens that Anthropic doesn't count as ``input_tokens``."""
PLACES: tuple[tuple[str | int, ...], ...] = (
    ("usage",),  # OpenAI and almost everybody
    ("x_groq", "usage"),  # Groq, in a stream
    ("choices", 0, "usage"),  # Moonshot, in a stream: earendil-works/pi#2017
)
"""Where an answer, or an event of a stream, tells its usage."""


class Tokens(NamedTuple):
    """The tokens of one answer. None is unknown.

    Attributes:
        prompt: the tokens that the model read, those of the provider's cache included.
        cached: those of them that the provider had in its own cache.
        written: the tokens that the model wrote, reasoning included.
    """

    prompt: int | None
    cached: int | None
    written: int | None

    @property
    def told(self) -> bool:
        """Whether the server told anything."""
        return self.prompt is not None or self.written is not None


UNKNOWN = Tokens(None, None, None)


def tokens_in(answer: Any) -> Tokens:
    """The tokens that an answer or an event of a stream tells, whatever else is wrong with it.

    Example:
        >>> tokens_in({"choices": [], "usage": {"prompt_tokens": 90, "completion_tokens": 0}})
        Tokens(prompt=90, cached=None, written=0)
        >>> tokens_in("no answer").told
        False
    """
    return tokens_of(usage_in(answer))


def usage_in(answer: Any) -> Any:
    """The ``usage`` of an answer or an event of a stream, as the server tells it; None where nothing is told."""
    for place in PLACES:
        usage = _at(answer, place)
        if tokens_of(usage).told:
            return usage
    return None


def tokens_of(usage: Any) -> Tokens:
    """The tokens of a ``usage`` in any known form.

    Args:
        usage: as the server tells it, parsed.

    Example:
        >>> beside = {"prompt_tokens": 100, "completion_tokens": 20, "total_tokens": 620}  # reasoning beside the completion
        >>> tokens_of(beside)
        Tokens(prompt=100, cached=None, written=520)
        >>> tokens_of({"prompt_tokens": 0, "completion_tokens": 0}) == UNKNOWN
        True
    """
    prompt, written, total = _first(usage, PROMPT), _first(usage, WRITTEN), _first(usage, TOTAL)
    reasoning = _first(usage, REASONING) or 0
    told_cached = [_number(0 if _below_zero(value) else value) for value in _values(usage, CACHED)]
    known_cached = [number for number in told_cached if number is not None]
    cached = max(known_cached) if known_cached else None
    if prompt is not None and written is None and total is not None and not _values(usage, WRITTEN):
        written = 0  # Gemini's endpoint tells only prompt and total where all was reasoning
    if prompt is not None and written is not None:
        cache = cached or 0, _first(usage, CACHE_WRITTEN) or 0
        more_prompt, more_written = _beside(usage, (prompt, written, total), reasoning, cache)
        prompt, written = prompt + more_prompt, written + more_written
    elif written is not None and reasoning > written:
        written += reasoning
    if not prompt:  # no model reads nothing: these zeros are no count
        prompt, written = None, written or None
    elif cached is not None:
        cached = min(cached, prompt)
    return Tokens(prompt, cached if prompt or written else None, written)


def _beside(
    usage: Any, told: tuple[int, int, int | None], reasoning: int, cache: tuple[int, int]
) -> tuple[int, int]:
    """The tokens that stand beside those of the prompt, and beside those of the completion.

    Args:
        usage: as the server tells it.
        told: the tokens of prompt and completion, and the total.
        reasoning: the tokens of reasoning, 0 where none are told.
        cache: the tokens that were read from the provider's cache, and written to it.
    """
    prompt, written, total = told
    read_and_stored = sum(cache)
    of_anthropic = any(_at(usage, (name,)) for name in OF_ANTHROPIC)
    gap = -1 if total is None else total - prompt - written
    if gap > 0:
        for thought in (reasoning, 0):
            for stored in (0, read_and_stored, *cache):
                if thought + stored == gap:
                    return stored, thought
        apart = of_anthropic or cache[0] > prompt
        more_prompt = min(read_and_stored, gap) if apart else 0
        more_written = gap - more_prompt
    else:
        apart = read_and_stored > prompt or (gap < 0 and not _values(usage, PROMPT[:1]))
        more_prompt = read_and_stored if of_anthropic and apart else 0
        more_written = 0
    if reasoning > written:  # so it isn't within
        more_written = max(more_written, reasoning)
    return more_prompt, more_written


def _number(value: Any) -> int | None:
    """A count of tokens: a whole number from 0 to `MOST`."""
    if (
        isinstance(value, bool)
        or not isinstance(value, int | float)
        or not 0 <= value <= MOST
        or value != int(value)
    ):
        return None
    return int(value)


def _below_zero(value: Any) -> bool:
    return isinstance(value, int | float) and value < 0


def _at(value: Any, path: tuple[str | int, ...]) -> Any:
    """What stands at a path, or None."""
    for name in path:
        if isinstance(value, Mapping):
            value = value.get(name)
        elif isinstance(value, list) and isinstance(name, int) and name < len(value):
            value = value[name]
        else:
            return None
    return value


def _values(usage: Any, paths: tuple[Path, ...]) -> list[Any]:
    """What is told at some paths."""
    found = [_at(usage, path) for path in paths]
    return [value for value in found if value is not None]


def _first(usage: Any, paths: tuple[Path, ...]) -> int | None:
    """The number at the first of some paths where anything is told."""
    values = _values(usage, paths)
    return _number(values[0]) if values else None
