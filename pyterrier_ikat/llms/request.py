"""Requests, completions and the protocol of backends."""

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple

from ..completions.json_answers import Structure
from ..completions.usable import one_line, printable, split_reasoning
from ..events import Write, current_chain
from ..portable import digest
from .failures import CutOff, Empty, Filtered, LLMFailure, OnlyReasoning, Refused, Unfinished

FORMAT = 1
"""The version of the cache key."""
WHOLE = (
    *("", "stop", "stop_sequence", "stop_token", "eos", "eos_token", "end_turn", "complete", "completed", "endoftext"),
    *("finish", "finished"),
)
"""Reasons of OpenAI, Mistral, TGI, Together, Anthropic, Cohere, Gemini, watsonx, Bedrock and AI21 for a complete text, casefolded."""
CUT_OFF = (
    *("length", "max_tokens", "max_token", "max_length", "max_output_tokens", "model_length", "token_limit", "limit", "error_limit"),
    *("context_length_exceeded", "model_context_window_exceeded"),
)
FILTERED = (
    *("content_filter", "content_filtered", "filtered", "safety", "image_safety", "recitation", "blocklist", "prohibited_content", "spii"),
    *("guardrail_intervened", "error_toxic", "sensitive", "language"),
)

SAMPLES_OF_A_CHAIN = 1000
"""The number of seeds reserved for each chain."""


@dataclass(frozen=True)
class Request:
    """One question to a language model.

    Attributes:
        messages: chat messages ``{"role": "system" | "user" | "assistant", "content": text}``, oldest first.
        stage: the operator that asks, such as ``"answer"``; the ledger and recorded files go by it.
        qid: the turn of the request.
        prompt: the prompt template's id, such as ``"queries_given_answer"``.
        item: the part of the turn that it is about (a docno, a statement's id), or ``""``.
        sample: the number of this sample, from 0, when the same messages are asked several times.
        samples: how often they are asked.
        params: decoding parameters that override the model's own, such as ``{"max_tokens": 5}``.
        chain: the number of the run of the system that asks, from 0, when a system is run several times; `LLM` fills it in.
        structure: the form of the JSON that the answer has to have; only for a model with ``structured=on``.

    Example:
        >>> Request([{"role": "user", "content": "Which tea has no caffeine?"}], stage="answer", qid="9-1_3").sample
        0
    """

    messages: Sequence[Mapping[str, str]]
    stage: str
    qid: str
    prompt: str = ""
    item: str = ""
    sample: int = 0
    params: Mapping[str, Any] = field(default_factory=dict)
    chain: int = 0
    structure: Structure | None = None
    samples: int = 1

    @property
    def draw(self) -> int:
        """The number added to a model's seed: another one for each sample in each chain."""
        return self.sample + SAMPLES_OF_A_CHAIN * self.chain

    def key(self, identity: Mapping[str, Any]) -> str:
        """The cache key: equal exactly when the same question goes to the same model in the same way.

        Its messages, parameters, sample number and chain count; stage, turn and prompt name don't.

        Args:
            identity: the backend's (provider, model, base URL, default decoding parameters).
        """
        content: dict[str, Any] = {
            **identity,
            "format": FORMAT,
            "messages": [dict(message) for message in self.messages],
            "params": {**identity.get("params", {}), **self.params},
            "sample": self.sample,
            **({"chain": self.chain} if self.chain else {}),
        }
        if self.structure is None:
            content.pop("structured", None)  # requests for free text are the same as without structured=on
        else:
            content["structure"] = self.structure._asdict()
        return digest(json.dumps(content, sort_keys=True, separators=(",", ":"))).hex()


def of_chain(request: Request) -> Request:
    """The request as the current chain asks it.

    Example:
        >>> from pyterrier_ikat.events import in_chain
        >>> with in_chain(2):
        ...     of_chain(Request([], "answer", "1_1")).chain
        2
    """
    chain = current_chain()
    return replace(request, chain=chain) if chain and not request.chain else request


@dataclass(frozen=True)
class Completion:
    """One usable answer of a language model: complete, not refused, not empty.

    Attributes:
        text: what the model wrote.
        model: the model as the server names it.
        finish_reason: why it stopped, in the server's words, or None.
        prompt_tokens: the number of tokens read, or None if the server does not report it.
        completion_tokens: the number of tokens written, or None if the server does not report it.
        seconds: how long the call took when it was made.
        cached: True when no call was made for this request.
        cached_tokens: the number of read tokens that the provider had in its own cache, or None if the server does not report it.
    """

    text: str
    model: str
    finish_reason: str | None
    prompt_tokens: int | None
    completion_tokens: int | None
    seconds: float
    cached: bool
    cached_tokens: int | None = None


@dataclass(frozen=True)
class Reply:
    """A backend's result, before it is known whether it is usable (see `Completion` for the shared fields)."""

    text: str | None
    model: str | None = None
    finish_reason: str | None = None
    prompt_tokens: int | None = None
    completion_tokens: int | None = None
    refusal: str | None = None
    reasoned: bool = False
    """True if the server sent reasoning in addition to the text."""
    cached_tokens: int | None = None

    def __post_init__(self) -> None:
        vars(self).update(cleaned(vars(self)))

    @classmethod
    def of(cls, answer: Any, clean: Callable[[str], str]) -> "Reply":
        """The reply in an OpenAI chat completion; ``clean`` takes what is secret out of its texts before anybody shows or keeps them.

        Raises:
            TypeError, KeyError, IndexError, AttributeError: when it is not a chat completion.
        """
        choice, usage = answer["choices"][0], answer.get("usage")
        message = choice["message"]
        text, thought = text_and_thought(message.get("content"))
        if not isinstance(text, str | None):
            raise TypeError
        reason = "error" if choice.get("error") else choice.get("finish_reason")
        # A call of a tool. None was offered, so the text announces the call and does not answer.
        if (message.get("tool_calls") or message.get("function_call")) and str(reason or "").casefold() in WHOLE:
            reason = "tool_calls"
        return cls(
            None if text is None else _hidden(text, clean),
            _hidden(answer["model"], clean) or None if isinstance(answer.get("model"), str) else None,
            _hidden(_as_text(reason or ""), clean) or None,
            _told(usage, "prompt_tokens"),
            _told(usage, "completion_tokens"),
            _hidden(_as_text(message.get("refusal") or ""), clean) or None,
            bool(thought or message.get("reasoning_content") or message.get("reasoning") or message.get("thinking")),
            _told(_told(usage, "prompt_tokens_details"), "cached_tokens"),
        )

    def completion(self, model: str, seconds: float) -> Completion:
        """The completion that it is when it is usable, as ``model`` wrote it."""
        tokens = (self.prompt_tokens, self.completion_tokens)
        text, name = self.text or "", self.model or model
        return Completion(text, name, self.finish_reason, *tokens, seconds=seconds, cached=False, cached_tokens=self.cached_tokens)


MOST_TOKENS = 10**9
"""No call has more, so a larger number is invalid."""


def cleaned(told: Mapping[str, Any]) -> dict[str, Any]:
    """The facts about a completion from a server or a file. An impossible number of tokens is unknown. A text is put on one line."""
    found = {**told, **{name: None if told[name] is None else one_line(str(told[name])) for name in ("model", "finish_reason")}}
    if found["finish_reason"] is not None and not str(told["finish_reason"]).strip().isprintable():
        found["finish_reason"] = f"unreadable: {found['finish_reason']}"  # a reason with codes in it is not a known one
    for name in ("prompt_tokens", "completion_tokens", "cached_tokens"):
        number = told.get(name)
        is_number = isinstance(number, int) and not isinstance(number, bool) and 0 <= number <= MOST_TOKENS
        found[name] = number if is_number else None
    kept, read = found["cached_tokens"], found["prompt_tokens"]
    if kept is not None and (read is None or kept > read):
        found["cached_tokens"] = None
    return found


def _told(value: Any, name: str) -> Any:
    return value.get(name) if isinstance(value, Mapping) else None


def _hidden(text: str, clean: Callable[[str], str]) -> str:
    """The text without secrets, including secrets that are divided by invisible codes."""
    cleaned = clean(text)
    seen = printable(cleaned)
    return cleaned if clean(seen) == seen else clean(seen)


def _as_text(value: Any) -> str:
    """A word of a server, which may be of any type."""
    return value if isinstance(value, str) else json.dumps(value, default=str)


def text_and_thought(content: Any) -> tuple[Any, bool]:
    """The text of a message, and whether it also has reasoning. Some servers send both as a list of parts."""
    if not isinstance(content, list) or not content:
        return content, False
    texts = [part["text"] for part in content if part["type"] in ("text", "output_text")]
    return "".join(texts), len(texts) < len(content)


class Backend:
    """The connection to one kind of language model; `LLM` adds caching, retries, threads and accounts.

    A subclass gives ``model``, ``identity`` and :meth:`complete`, and whatever else differs from the defaults. Two backends are equal
    when their identities are.

    Attributes:
        model: the name in the ledger.
        identity: everything that determines the answers (provider, model, base URL, default decoding parameters under ``"params"``); JSON
            values only, no secret; part of the cache key and of a run's identity.
        identified: whether ``identity`` distinguishes its answers from those of every other model, so that they may be kept in a file.
        batch_size: the most requests that one `complete` takes.
        concurrency: the most `complete` calls at a time.
        timeout: the maximum number of seconds of a call; None if there is no limit.
        patience: seconds in which a wrong key, model or quota is refused as a rule: as long the first call is on its way alone.
        keeps_beginnings: whether the server may keep the beginnings of prompts, so that the order of sending matters.
        replays: True when it only reads what was written before, by turn: nothing is cached, and it costs nothing.
        source: for outputs that others published, their origin and what to cite.

    Example:
        >>> import pyterrier_ikat as ikat
        >>> class Echo(Backend):
        ...     model, identity = "echo", {"provider": "mine", "model": "echo"}
        ...     def complete(self, requests):
        ...         return [Reply(request.messages[-1]["content"].upper()) for request in requests]
        >>> [one.text for one in ikat.llm(Echo()).ask([Request([{"role": "user", "content": "hi"}], stage="answer", qid="1_1")])]
        ['HI']
    """

    model: str
    identity: dict[str, Any]
    identified: bool = True
    batch_size: int = 1
    concurrency: int = 1
    timeout: float | None = None
    patience: float = 0.25
    keeps_beginnings: bool = False
    replays: bool = False
    source: str = ""

    def complete(self, requests: list[Request]) -> list[Reply | LLMFailure]:
        """Answer ``requests`` in their order.

        Raises:
            Transient: when trying the same again may help.
            FatalLLMError: when no later call can succeed either (key, model, quota).
        """
        raise NotImplementedError

    def stream(self, request: Request, write: Write) -> Reply | LLMFailure:
        """Answer one request like `complete`, and pass the text to ``write`` while it is written, if possible."""
        return self.complete([request])[0]

    def open(self) -> None:
        """Make ready what the first call would have to wait for.

        Raises:
            FatalLLMError: when no call can succeed, for example without a key.
        """

    def close(self) -> None:
        """Release connections and the like. The next call makes new ones."""

    def cut(self) -> None:
        """End the calls that are under way, without their answers."""

    def find(self, request: Request) -> Reply | None:
        """The reply that is known without asking anybody, or None."""
        return None

    def check_turns(self, turns: set[str]) -> None:
        """Refuse turns about which it can't be asked.

        Raises:
            UsageError: naming others.
        """

    def repeats(self, samples: int, asked: Mapping[str, int] | None = None) -> str:
        """Why that many samples of a request may all be the same, in words; empty if there is no reason.

        Args:
            samples: the number of runs, or of samples in one run.
            asked: stage -> how many samples of a request one run asks for; None: of each stage one.
        """
        return "temperature=0" if {str(found) for found in _temperatures(self.identity)} & {"0", "0.0"} else ""

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Backend) and self.identity == other.identity

    def __hash__(self) -> int:
        return hash(json.dumps(self.identity, sort_keys=True))


def _temperatures(identity: Any) -> Iterator[Any]:
    """The values of ``temperature`` in an identity, at any depth."""
    if isinstance(identity, Mapping):
        yield from (identity[name] for name in identity if name == "temperature")
        for part in identity.values():
            yield from _temperatures(part)


class Read(NamedTuple):
    """A reply, or a completion that was kept, as everybody reads it.

    Attributes:
        text: printable, without reasoning.
        fault: why it is not complete, in words; None if it has a text and the server says that it is complete, or says nothing.
    """

    text: str
    fault: tuple[type[LLMFailure], str] | None

    def failure(self, request: Request) -> LLMFailure | None:
        """Why this completion of ``request`` is not usable, or None when it is."""
        return None if self.fault is None else self.fault[0](request.stage, request.qid, self.fault[1])


def read(told: Reply | Completion) -> Read:
    """Read a reply or a completion.

    Example:
        >>> read(Reply("half an", finish_reason="SAFETY")).fault[0].__name__, read(Reply("whole", finish_reason="end_turn")).fault
        ('Filtered', None)
    """
    written = printable(told.text or "")
    text, is_open = split_reasoning(written)
    fault = _ended_otherwise(told)
    if fault is None and is_open:
        fault = OnlyReasoning, "the completion ends within the model's reasoning: raise max_tokens, or turn reasoning off"
    elif fault is None and not text and (written.strip() or (isinstance(told, Reply) and told.reasoned)):
        fault = OnlyReasoning, "the completion holds the model's reasoning and no answer: raise max_tokens, or turn reasoning off"
    elif fault is None and not text:
        fault = Empty, "the completion is empty"
    return Read(text, fault)


def _ended_otherwise(told: Reply | Completion) -> tuple[type[LLMFailure], str] | None:
    """The server's reason for the end of an incomplete completion."""
    reason = str(told.finish_reason or "").strip()
    if (kind := reason.casefold()) in CUT_OFF:
        written = "" if told.completion_tokens is None else f" after {told.completion_tokens} tokens"
        return CutOff, f"the completion was cut off at the token limit{written}: raise max_tokens"
    if kind in FILTERED:
        return Filtered, f"the provider's content filter withheld the completion (finish_reason {reason!r})"
    if isinstance(told, Reply) and told.refusal:
        return Refused, f"the model refused: {told.refusal}"
    if kind == "refusal":
        return Refused, "the model refused (finish_reason 'refusal')"
    if kind not in WHOLE:
        return Unfinished, f"the server ended the completion with finish_reason {reason!r}, which is not the end of an answer"
    return None


def as_text(messages: Sequence[Mapping[str, str]]) -> str:
    r"""The chat as plain text, for models without a chat template. It ends where the model should continue.

    Example:
        >>> as_text([{"role": "user", "content": "Which tea?"}])
        'user: Which tea?\nassistant:'
    """
    return "\n".join([f"{message['role']}: {message['content']}" for message in messages] + ["assistant:"])
