"""The tokens of an answer: one count of a server's ``usage``, before anything judges the answer.

Servers tell the same three numbers in different ways: reasoning within the completion's tokens or
beside them, tokens of the provider's cache within the prompt's or beside them, under several names.
The tables below are all that is read. Where the numbers leave a choice, the server's own total
decides; where that leaves one, the dearer reading counts. What is told in another form is unknown,
never 0.
"""

from collections.abc import Mapping
from typing import Any, NamedTuple

MOST_TOKENS = 100_000_000
"""The most tokens of one answer: ten times the longest context of any provider.

A greater number is a mistake.
"""

Path = tuple[str, ...]
"""The names under which a number stands, from the outside in."""

# Sources: a provider's manual, or a thread on GitHub (owner/repository#number) that shows the form.
PROMPT: tuple[Path, ...] = (
    ("prompt_tokens",),  # OpenAI: API reference, chat completion object; all that follow it
    # Anthropic: Messages API, and gateways that pass it on: ericc-ch/copilot-api#88; OpenAI:
    # Responses API
    ("input_tokens",),
)
WRITTEN: tuple[Path, ...] = (
    ("completion_tokens",),  # as above
    ("output_tokens",),
)
TOTAL: tuple[Path, ...] = (("total_tokens",),)
REASONING: tuple[Path, ...] = (
    # OpenAI: within; xAI, beside: sonami-tech/omni-llm-provider#49, inspect_ai#5528
    ("completion_tokens_details", "reasoning_tokens"),
    # OpenAI: Responses API: Routstr/routstr-core#213
    ("output_tokens_details", "reasoning_tokens"),
    ("reasoning_tokens",),  # Perplexity, outside the total: BerriAI/litellm#10567
)
CACHED: tuple[Path, ...] = (
    # OpenAI, xAI, OpenRouter, Mistral: symfony/ai#2343; LiteLLM: page "Prompt caching"
    ("prompt_tokens_details", "cached_tokens"),
    ("prompt_token_details", "cached_tokens"),  # Mistral, in the singular: vercel/ai#14889
    ("num_cached_tokens",),  # Mistral: vercel/ai#14382
    ("input_tokens_details", "cached_tokens"),  # OpenAI: Responses API: Routstr/routstr-core#213
    ("prompt_cache_hit_tokens",),  # DeepSeek: page "Context caching"; prism-php/prism#1021
    ("cached_tokens",),  # Moonshot: API reference, usage
    # Anthropic, Portkey: Portkey-AI/gateway#1211; LiteLLM, within the prompt: crewAIInc/crewAI#6788
    ("cache_read_input_tokens",),
)
CACHE_WRITTEN: tuple[Path, ...] = (
    ("cache_creation_input_tokens",),  # Anthropic, Portkey, LiteLLM: as above
    # OpenRouter: page "Usage accounting"; OpenAI from GPT-5.6: mindroom-ai/mindroom#2134
    ("prompt_tokens_details", "cache_write_tokens"),
)
OF_ANTHROPIC = ("cache_read_input_tokens", "cache_creation_input_tokens")
"""The names of tokens that Anthropic doesn't count as ``input_tokens``."""
USAGE_PATHS: tuple[tuple[str | int, ...], ...] = (
    ("usage",),  # OpenAI and almost everybody
    ("x_groq", "usage"),  # Groq, in a stream
    ("choices", 0, "usage"),  # Moonshot, in a stream: earendil-works/pi#2017
)
"""Where an answer, or an event of a stream, has its usage."""


class Tokens(NamedTuple):
    """The tokens of one answer; None: unknown.

    Attributes:
        prompt: the tokens that the model read, those of the provider's cache included.
        cached: those of them that the provider had in its own cache.
        written: the tokens that the model wrote, reasoning included.
    """

    prompt: int | None
    cached: int | None
    written: int | None

    @property
    def is_known(self) -> bool:
        """Whether the server gave any count."""
        return self.prompt is not None or self.written is not None


UNKNOWN_TOKENS = Tokens(None, None, None)


def tokens_in(answer: Any) -> Tokens:
    """The tokens of an answer or an event of a stream, whatever else is wrong with it.

    Example:
        >>> tokens_in({"choices": [], "usage": {"prompt_tokens": 90, "completion_tokens": 0}})
        Tokens(prompt=90, cached=None, written=0)
        >>> tokens_in("no answer").is_known
        False
    """
    return tokens_of(usage_in(answer))


def usage_in(answer: Any) -> Any:
    """The ``usage`` of an answer or an event of a stream; None if it has none with a count."""
    for path in USAGE_PATHS:
        usage = _at(answer, path)
        if tokens_of(usage).is_known:
            return usage
    return None


def tokens_of(usage: Any) -> Tokens:
    """The tokens of a ``usage`` in any known form.

    Args:
        usage: as the server tells it, parsed.

    Example:
        >>> with_reasoning = {"prompt_tokens": 100, "completion_tokens": 20, "total_tokens": 620}
        >>> tokens_of(with_reasoning)
        Tokens(prompt=100, cached=None, written=520)
        >>> tokens_of({"prompt_tokens": 0, "completion_tokens": 0}) == UNKNOWN_TOKENS
        True
    """
    prompt = _first(usage, PROMPT)
    written = _first(usage, WRITTEN)
    total = _first(usage, TOTAL)
    reasoning = _first(usage, REASONING) or 0
    cached = _cached_in(usage)
    if prompt is not None and total is not None and not _values(usage, WRITTEN):
        written = 0  # Gemini's endpoint has only prompt and total where all was reasoning
    if prompt is not None and written is not None:
        counts = _Counts(
            prompt, written, total, reasoning, cached or 0, _first(usage, CACHE_WRITTEN) or 0
        )
        beside_prompt, beside_written = _beside(usage, counts)
        prompt += beside_prompt
        written += beside_written
    elif written is not None and reasoning > written:
        written += reasoning
    if not prompt:  # no model reads nothing: these zeros are no count
        prompt = None
        written = written or None
    elif cached is not None:
        cached = min(cached, prompt)
    if prompt is None and written is None:
        return UNKNOWN_TOKENS
    return Tokens(prompt, cached, written)


def _cached_in(usage: Any) -> int | None:
    """The greatest number of cached tokens in a usage. Below 0 it counts as 0."""
    numbers = []
    for value in _values(usage, CACHED):
        is_below_zero = isinstance(value, int | float) and value < 0
        number = 0 if is_below_zero else _number(value)
        if number is not None:
            numbers.append(number)
    return max(numbers, default=None)


class _Counts(NamedTuple):
    """The numbers of a usage that has those of prompt and completion.

    Attributes:
        prompt: the tokens of the prompt.
        written: the tokens of the completion.
        total: the total; None if there is none.
        reasoning: the tokens of reasoning; 0 if there are none.
        read: the tokens that were read from the provider's cache.
        stored: the tokens that were written to it.
    """

    prompt: int
    written: int
    total: int | None
    reasoning: int
    read: int
    stored: int


def _beside(usage: Any, counts: _Counts) -> tuple[int, int]:
    """The tokens that aren't counted in those of the prompt, and in those of the completion.

    Servers count cached tokens and reasoning within these two numbers, or beside them. A total that
    is higher than their sum shows it: the gap is what stands beside. Where no sum of cached tokens
    and reasoning is as high as the gap, or there is no total, the names of Anthropic, whose cached
    tokens stand beside, and counts that are higher than what would hold them decide.
    """
    in_cache = counts.read + counts.stored
    is_of_anthropic = any(_at(usage, (name,)) for name in OF_ANTHROPIC)
    gap = -1 if counts.total is None else counts.total - counts.prompt - counts.written
    beside_prompt = 0
    beside_written = 0
    if gap > 0:
        for thought in (counts.reasoning, 0):
            for cached in (0, in_cache, counts.read, counts.stored):
                if thought + cached == gap:
                    return cached, thought
        if is_of_anthropic or counts.read > counts.prompt:
            beside_prompt = min(in_cache, gap)
        beside_written = gap - beside_prompt
    elif is_of_anthropic:
        has_other_name = not _values(usage, PROMPT[:1])
        if in_cache > counts.prompt or (gap < 0 and has_other_name):
            beside_prompt = in_cache
    if counts.reasoning > counts.written:  # so it isn't within
        beside_written = max(beside_written, counts.reasoning)
    return beside_prompt, beside_written


def _number(value: Any) -> int | None:
    """A count of tokens: a whole number from 0 to `MOST_TOKENS`."""
    if isinstance(value, bool) or not isinstance(value, int | float):
        return None
    if not 0 <= value <= MOST_TOKENS or value != int(value):
        return None
    return int(value)


def _at(value: Any, path: tuple[str | int, ...]) -> Any:
    """The value at a path, or None."""
    for name in path:
        if isinstance(value, Mapping):
            value = value.get(name)
        elif isinstance(value, list) and isinstance(name, int) and name < len(value):
            value = value[name]
        else:
            return None
    return value


def _values(usage: Any, paths: tuple[Path, ...]) -> list[Any]:
    """The values at some paths, without those that are missing."""
    values = [_at(usage, path) for path in paths]
    return [value for value in values if value is not None]


def _first(usage: Any, paths: tuple[Path, ...]) -> int | None:
    """The number at the first of some paths that has a value."""
    values = _values(usage, paths)
    return _number(values[0]) if values else None
