"""What forms a server uses, found out by a handful of short calls: `LLM.check`."""

import copy
import warnings
from collections.abc import Callable, Mapping
from typing import Any

from ..completions.json_answers import TEXT, Structure, object_of
from ..errors import UsageError, counted
from ..events import Observer, Step, Write, observed, observed_by
from .failures import CutOff, FatalLLMError, LLMFailure, RateLimited, TooLong
from .ledger import Ledger
from .lengths import CutPromptWarning
from .request import Completion, Request
from .usage import tokens_of

STAGE = "check"
COUNT = "Count from one to ten in English words, separated by commas, and write nothing else."
NAME = "Name one herbal tea."
FEW = 5
"""The limit of tokens that the server has to keep."""
ENOUGH = 1000
"""A limit that leaves room for the reasoning of most models."""
TEA = Structure("tea", object_of(tea=TEXT))
Outcome = Completion | LLMFailure


class Check:
    """The forms that a server uses, a line each. It displays itself.

    Attributes:
        lines: what was looked at -> what was found.
    """

    def __init__(self, lines: Mapping[str, str]) -> None:
        self.lines = dict(lines)

    def __repr__(self) -> str:
        width = max(map(len, self.lines))
        return "\n".join(f"{name:<{width}}  {found}" for name, found in self.lines.items())


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
        """The outcome of a request whose text is followed, and the number of texts that were seen before its end."""
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
    if not hasattr(llm.backend, "completion_limit"):
        raise UsageError(f"{llm!r} is no server: there is nothing to check")
    raw, spent = list[Any](), Ledger()
    backend = copy.copy(llm.backend)
    backend.seen = raw.append
    # Its class comes from the model, which imports this module.
    asked = type(llm)(backend, ledger=spent, budget=llm.budget, retry=llm.retry, text=llm.spec)
    try:
        with spent.followed_by(llm.ledger), warnings.catch_warnings():
            warnings.simplefilter("ignore", CutPromptWarning)  # a line says it
            lines = _lines(Probe(asked, raw), llm, tokens)
    finally:
        backend.close()
    llm.backend.completion_limit = backend.completion_limit  # which the calls have found out
    total = spent.total()
    amounts = [counted(total.calls, "call")]
    if total.unanswered:
        amounts.append(f"{counted(total.unanswered, 'request')} without an answer")
    for number, what in ((total.prompt_tokens, "tokens in"), (total.completion_tokens, "out")):
        amounts.append(f"{'?' if number is None else number} {what}")
    if total.cost is not None:
        amounts.append(f"${total.cost:.4f}")
    return Check({**lines, "cost": ", ".join(amounts)})


def _lines(probe: Probe, llm: Any, tokens: int) -> dict[str, str]:
    lines = {}
    whole = probe.ask(COUNT)
    lines["model"] = f"{llm.model} at {llm.backend.url}"
    if isinstance(whole, LLMFailure):
        lines["answer"] = f"fails: {whole.reason}"
    else:
        lines["answer"] = f"{whole.text[:40]!r}, by {whole.model}"
    lines["end"] = _end(probe)
    lines["usage"] = _usage(probe, whole)
    lines["reasoning"] = _reasoning(probe, whole)
    streamed, seen = probe.follow(COUNT)
    lines["stream"] = _stream(probe, streamed, seen)
    lines["max_tokens"] = _limit(probe.ask(COUNT, params={"max_tokens": FEW}), probe)
    lines["schema"] = _schema(lambda: probe.ask(NAME, structure=TEA))
    lines["long prompt"] = _window(probe.ask(" ".join(["tea"] * tokens) + "\n" + NAME), tokens)
    return lines


NO_ANSWER = "can't be told: there is no answer"


def _end(probe: Probe) -> str:
    if not probe.message:
        return NO_ANSWER
    reason = probe.choice.get("finish_reason")
    return (
        f"says {reason!r}" if reason else "gives no reason, so a text that breaks off looks whole"
    )


def _usage(probe: Probe, outcome: Outcome) -> str:
    """Whether the numbers of tokens add up, and how they are counted here."""
    usage = probe.usage
    if not probe.message and not usage:
        return NO_ANSWER
    read, written, total = (
        usage.get(name) for name in ("prompt_tokens", "completion_tokens", "total_tokens")
    )
    counted_here = tokens_of(usage)
    if counted_here.prompt is None or counted_here.written is None:
        told = (
            "is not told"
            if read is None and written is None
            else f"makes no sense ({str(dict(usage))[:80]})"
        )
        return f"{told}: costs are unknown, and budget= can't be kept"
    if read is None or written is None:
        return f"is told in another form: counted as {counted_here.prompt} in, {counted_here.written} out"
    told = f"prompt {read} + completion {written}"
    if not isinstance(total, int):
        return f"{told}, without a total"
    if read + written == total:
        return f"{told} = total {total}"
    counted_as = (
        ""
        if isinstance(outcome, LLMFailure)
        else f": counted as {outcome.prompt_tokens} in, {outcome.completion_tokens} out"
    )
    return f"{told} is not the total {total}{counted_as}"


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
    if (
        isinstance(content, str)
        and not isinstance(outcome, LLMFailure)
        and outcome.text != content.strip()
    ):
        return f"marks in the text, which are removed: {content.strip()[:30]!r}"
    details = probe.usage.get("completion_tokens_details") or {}
    tokens = details.get("reasoning_tokens") if isinstance(details, Mapping) else None
    return f"not shown, {tokens} tokens" if tokens else "none"


def _stream(probe: Probe, outcome: Outcome, seen: int) -> str:
    if isinstance(outcome, LLMFailure):
        return f"fails: {outcome.reason}"
    if not seen:
        return "no: the answer comes as a whole"
    reason = probe.choice.get("finish_reason")
    ends = f"ends with {reason!r}" if reason else "ends without a reason"
    usage = (
        "with usage"
        if outcome.prompt_tokens is not None
        else "without usage, so its cost is unknown"
    )
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
    return (
        "taken: structured=on"
        if TEA.read(outcome.text)
        else f"ignored: omit structured=on (it answers {outcome.text[:30]!r})"
    )


def _window(outcome: Outcome, tokens: int) -> str:
    if isinstance(outcome, TooLong):
        return f"refuses {tokens} words: {outcome.reason}"
    if isinstance(outcome, LLMFailure):
        return f"fails with {tokens} words: {outcome.reason}"
    if outcome.prompt_tokens is None:
        return f"takes {tokens} words; how many it reads is not told"
    if outcome.prompt_tokens < tokens * 0.9:
        return f"cuts it: reads {outcome.prompt_tokens} tokens of {tokens} words (Ollama: set OLLAMA_CONTEXT_LENGTH)"
    return f"reads all of {tokens} words ({outcome.prompt_tokens} tokens)"
