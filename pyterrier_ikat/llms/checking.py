"""`LLM.check`: the forms that a server uses, found out by a few short calls."""

import copy
import warnings
from collections.abc import Callable, Mapping
from typing import Any

from ..completions.json_answers import TEXT, Structure, object_of
from ..errors import UsageError, counted
from ..events import Observer, Step, Write, observed, observed_by
from .failures import CutOff, FatalLLMError, LLMFailure, RateLimited, TooLong
from .ledger import Ledger, Spend
from .lengths import CutPromptWarning
from .openai import OpenAIBackend
from .request import Completion, Request
from .sending import Outcome
from .usage import tokens_of

STAGE = "check"
COUNT_PROMPT = (
    "Count from one to ten in English words, separated by commas, and write nothing else."
)
NAME_PROMPT = "Name one herbal tea."
FEW = 5
"""The limit of tokens that the server has to keep."""
ENOUGH = 1000
"""A limit that leaves room for the reasoning of most models."""
TEA = Structure("tea", object_of(tea=TEXT))


class Check:
    """The forms that a server uses, one line each. A notebook displays them.

    Attributes:
        lines: subject -> result.
    """

    def __init__(self, lines: Mapping[str, str]) -> None:
        self.lines = dict(lines)

    def __repr__(self) -> str:
        width = max(map(len, self.lines))
        return "\n".join(f"{name:<{width}}  {result}" for name, result in self.lines.items())


class _Follows(Observer):
    """Counts the texts that are shown while a model writes."""

    def __init__(self) -> None:
        self.texts = list[str]()

    def follow(self, step: Step) -> Write:
        return self.texts.append


class Probe:
    """Asks a server in its own way, and keeps its raw answers.

    Args:
        llm: a model over a server, without a cache.
        raw: gets the raw answers.
    """

    def __init__(self, llm: Any, raw: list[Any]) -> None:
        self.llm, self.raw = llm, raw
        self.number = 0

    def ask(self, text: str, **more: Any) -> Outcome:
        """The outcome of one request."""
        self.raw.clear()
        self.number += 1
        params = {"max_tokens": ENOUGH, **more.pop("params", {})}
        request = Request(
            [{"role": "user", "content": text}], STAGE, str(self.number), params=params, **more
        )
        outcomes: list[Outcome] = self.llm.ask([request])
        return outcomes[0]

    def follow(self, text: str) -> tuple[Outcome, int]:
        """The outcome of a request, and the number of texts seen before its end."""
        follows = _Follows()
        with observed_by(follows):
            outcome: Any = observed(self, None, lambda: self.ask(text))  # type: ignore[arg-type, return-value]
        return outcome, len(dict.fromkeys(follows.texts))

    @property
    def choice(self) -> Mapping[str, Any]:
        """The first choice of the last raw answer. Empty if it has none."""
        choices = self._last.get("choices")
        first = choices[0] if isinstance(choices, list) and choices else None
        return first if isinstance(first, Mapping) else {}

    @property
    def message(self) -> Mapping[str, Any]:
        """The message of this choice."""
        message = self.choice.get("message")
        return message if isinstance(message, Mapping) else {}

    @property
    def usage(self) -> Mapping[str, Any]:
        """The usage of the last raw answer."""
        usage = self._last.get("usage")
        return usage if isinstance(usage, Mapping) else {}

    @property
    def _last(self) -> Mapping[str, Any]:
        return self.raw[-1] if self.raw and isinstance(self.raw[-1], Mapping) else {}


def check(llm: Any, tokens: int) -> Check:
    """Find out which forms a server uses; see `LLM.check`."""
    if not isinstance(llm.backend, OpenAIBackend):
        raise UsageError(f"{llm!r} is no server: there is nothing to check")
    raw = list[Any]()
    spent = Ledger()
    backend = copy.copy(llm.backend)
    backend.seen = raw.append
    # Its class comes from the model, which imports this module.
    uncached = type(llm)(backend, ledger=spent, budget=llm.budget, retry=llm.retry, text=llm.spec)
    try:
        with spent.followed_by(llm.ledger), warnings.catch_warnings():
            warnings.simplefilter("ignore", CutPromptWarning)  # a line says it
            lines = _lines(Probe(uncached, raw), llm, tokens)
    finally:
        backend.close()
    llm.backend.completion_limit = backend.completion_limit  # which the calls have found out
    return Check({**lines, "cost": _cost(spent.total())})


def _cost(total: Spend) -> str:
    """What the calls cost."""
    amounts = [counted(total.calls, "call")]
    if total.unanswered:
        amounts.append(f"{counted(total.unanswered, 'request')} without an answer")
    read = "?" if total.prompt_tokens is None else total.prompt_tokens
    written = "?" if total.completion_tokens is None else total.completion_tokens
    amounts.append(f"{read} tokens in")
    amounts.append(f"{written} out")
    if total.cost is not None:
        amounts.append(f"${total.cost:.4f}")
    return ", ".join(amounts)


def _lines(probe: Probe, llm: Any, tokens: int) -> dict[str, str]:
    lines = {}
    whole = probe.ask(COUNT_PROMPT)
    lines["model"] = f"{llm.model} at {llm.backend.url}"
    if isinstance(whole, LLMFailure):
        lines["answer"] = f"fails: {whole.reason}"
    else:
        lines["answer"] = f"{whole.text[:40]!r}, by {whole.model}"
    lines["end"] = _end(probe)
    lines["usage"] = _usage(probe, whole)
    lines["reasoning"] = _reasoning(probe, whole)
    streamed, seen = probe.follow(COUNT_PROMPT)
    lines["stream"] = _stream(probe, streamed, seen)
    lines["max_tokens"] = _limit(probe.ask(COUNT_PROMPT, params={"max_tokens": FEW}), probe)
    lines["schema"] = _schema(lambda: probe.ask(NAME_PROMPT, structure=TEA))
    lines["long prompt"] = _window(
        probe.ask(" ".join(["tea"] * tokens) + "\n" + NAME_PROMPT), tokens
    )
    return lines


NO_ANSWER = "can't be told: there is no answer"


def _end(probe: Probe) -> str:
    if not probe.message:
        return NO_ANSWER
    reason = probe.choice.get("finish_reason")
    if not reason:
        return "gives no reason, so a text that breaks off looks whole"
    return f"says {reason!r}"


def _usage(probe: Probe, outcome: Outcome) -> str:
    """Whether the numbers of tokens add up, and how they are counted here."""
    usage = probe.usage
    if not probe.message and not usage:
        return NO_ANSWER
    read = usage.get("prompt_tokens")
    written = usage.get("completion_tokens")
    total = usage.get("total_tokens")
    tokens = tokens_of(usage)
    if tokens.prompt is None or tokens.written is None:
        problem = f"makes no sense ({str(dict(usage))[:80]})"
        if read is None and written is None:
            problem = "is not told"
        return f"{problem}: costs are unknown, and budget= can't be kept"
    if read is None or written is None:
        return f"is told in another form: counted as {tokens.prompt} in, {tokens.written} out"
    parts = f"prompt {read} + completion {written}"
    if not isinstance(total, int):
        return f"{parts}, without a total"
    if read + written == total:
        return f"{parts} = total {total}"
    if isinstance(outcome, LLMFailure):
        return f"{parts} is not the total {total}"
    return (
        f"{parts} is not the total {total}: "
        f"counted as {outcome.prompt_tokens} in, {outcome.completion_tokens} out"
    )


def _reasoning(probe: Probe, outcome: Outcome) -> str:
    message = probe.message
    if not message:
        return NO_ANSWER
    for name in ("reasoning_content", "reasoning"):
        if message.get(name):
            return f"in a field of its own, {name!r}"
    content = message.get("content")
    if isinstance(content, list):
        return "in parts of the content"
    if isinstance(content, str) and isinstance(outcome, Completion):
        content = content.strip()
        if outcome.text != content:
            return f"marks in the text, which are removed: {content[:30]!r}"
    details = probe.usage.get("completion_tokens_details")
    tokens = details.get("reasoning_tokens") if isinstance(details, Mapping) else None
    return f"not shown, {tokens} tokens" if tokens else "none"


def _stream(probe: Probe, outcome: Outcome, seen: int) -> str:
    if isinstance(outcome, LLMFailure):
        return f"fails: {outcome.reason}"
    if not seen:
        return "no: the answer comes as a whole"
    reason = probe.choice.get("finish_reason")
    ends = f"ends with {reason!r}" if reason else "ends without a reason"
    usage = "with usage"
    if outcome.prompt_tokens is None:
        usage = "without usage, so its cost is unknown"
    return f"yes, {ends}, {usage}"


def _limit(outcome: Outcome, probe: Probe) -> str:
    name = "max_completion_tokens" if probe.llm.backend.completion_limit else "max_tokens"
    if isinstance(outcome, CutOff):
        return f"kept and told ({name}={FEW}: {probe.choice.get('finish_reason')!r})"
    if isinstance(outcome, LLMFailure):
        return f"fails ({name}={FEW}): {outcome.reason}"
    return (
        f"ignored, or not told: {name}={FEW}, and the answer {outcome.text[:30]!r} counts as whole"
    )


def _schema(ask: Callable[[], Outcome]) -> str:
    try:
        outcome = ask()
    except RateLimited:
        raise
    except FatalLLMError as error:
        return f"refused: omit structured=on ({error.reason})"
    if isinstance(outcome, LLMFailure):
        return f"fails: {outcome.reason}"
    if TEA.read(outcome.text):
        return "taken: structured=on"
    return f"ignored: omit structured=on (it answers {outcome.text[:30]!r})"


def _window(outcome: Outcome, tokens: int) -> str:
    if isinstance(outcome, TooLong):
        return f"refuses {tokens} words: {outcome.reason}"
    if isinstance(outcome, LLMFailure):
        return f"fails with {tokens} words: {outcome.reason}"
    if outcome.prompt_tokens is None:
        return f"takes {tokens} words; how many it reads is not told"
    if outcome.prompt_tokens < tokens * 0.9:
        return (
            f"cuts it: reads {outcome.prompt_tokens} tokens of {tokens} words "
            "(Ollama: set OLLAMA_CONTEXT_LENGTH)"
        )
    return f"reads all of {tokens} words ({outcome.prompt_tokens} tokens)"
