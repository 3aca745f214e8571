"""Requests, replies and completions: what is asked, what came, and whether it can be used."""

import hashlib
import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple

from ..completions.forms import ANSWER_TAGS, EMPTY_TOKENS
from ..completions.json_answers import Structure
from ..completions.reasoning import (
    NamedMarks,
    is_wrapped,
    names_in,
    split_reasoning,
    unknown_mark,
    unwrapped,
)
from ..completions.usable import one_line, printable
from ..events import CHAIN
from .failures import (
    CutOff,
    Empty,
    Filtered,
    LLMFailure,
    OnlyReasoning,
    Refused,
    Unfinished,
    UnknownMark,
)
from .usage import tokens_in, tokens_of

# Why a server ended a completion, casefolded. Each word stands at the first provider whose API
# reference has it; others share them.
WHOLE = (
    "",  # a server that gives no reason
    "stop",  # OpenAI, Mistral, Gemini
    "stop_sequence",  # Anthropic, TGI
    "stop_token",
    "eos",  # Together
    "eos_token",  # TGI, watsonx
    "end_turn",  # Anthropic, Bedrock
    "complete",  # Cohere
    "completed",
    "endoftext",  # AI21
    "finish",  # Bedrock (Titan)
    "finished",
)
"""Reasons for a complete text."""
CUT_OFF = (
    "length",  # OpenAI, TGI, AI21
    "max_tokens",  # Anthropic, Cohere, Gemini, watsonx
    "max_token",
    "max_length",
    "max_output_tokens",
    "model_length",  # Mistral
    "token_limit",  # watsonx
    "limit",
    "error_limit",  # Cohere
    "context_length_exceeded",
    "model_context_window_exceeded",  # Anthropic
)
"""Reasons for a text that ends at a limit of tokens."""
FILTERED = (
    "content_filter",  # OpenAI, Azure
    "content_filtered",  # Bedrock
    "filtered",
    "safety",  # Gemini, with the next five and "language"
    "image_safety",
    "recitation",
    "blocklist",
    "prohibited_content",
    "spii",
    "guardrail_intervened",  # Bedrock
    "error_toxic",  # Cohere
    "sensitive",
    "language",
)
"""Reasons for a text that a filter withheld."""
ONLY_REASONING = (
    "the completion has reasoning and no answer after it: raise max_tokens, or turn reasoning off"
)
UNKNOWN_PAIR = (
    "the completion has a mark that is not known, {mark}: if reasoning is between it and another "
    "one, name both, such as {option}"
)
UNKNOWN_TAG = (
    "the whole completion is in a tag that is not known, {mark}: if the answer is in it, name the "
    "tag in the prompt (prompts=FOLDER); if reasoning is in it, there is no answer"
)
UNKNOWN_TOKEN = (
    "the completion has a token that is no word, {mark}: the server's tokenizer or chat template "
    "is not that of the model, or the model calls a tool that nobody offered"
)
SAMPLES_OF_A_CHAIN = 1000
"""The number of seeds reserved for each chain."""


@dataclass(frozen=True)
class Request:
    """One question to a language model.

    Attributes:
        messages: chat messages ``{"role": "system" | "user" | "assistant", "content": text}``,
            oldest first.
        stage: the operator that asks, such as ``"answer"``; the ledger and recorded files go by it.
        qid: the turn of the request.
        prompt: the prompt template's id, such as ``"queries_given_answer"``.
        item: the part of the turn that it is about (a docno, a statement's id), or ``""``.
        sample: the number of this sample, from 0, when the same messages are asked several times.
        samples: how often they are asked.
        params: decoding parameters that override the model's own, such as ``{"max_tokens": 5}``.
        chain: the number of the run of the system that asks, from 0, when a system is run several
            times: the current one.
        structure: the form of the JSON that the answer has to have; only for a model with
            ``structured=on``.

    Example:
        >>> from pyterrier_ikat.events import in_chain
        >>> with in_chain(2):
        ...     Request([{"role": "user", "content": "Tea?"}], stage="answer", qid="9-1_3").chain
        2
    """

    messages: Sequence[Mapping[str, str]]
    stage: str
    qid: str
    prompt: str = ""
    item: str = ""
    sample: int = 0
    params: Mapping[str, Any] = field(default_factory=dict)
    chain: int = field(default_factory=CHAIN.get)
    structure: Structure | None = None
    samples: int = 1

    @property
    def draw(self) -> int:
        """The number added to a model's seed: another one for each sample in each chain."""
        return self.sample + SAMPLES_OF_A_CHAIN * self.chain

    def key(self, identity: Mapping[str, Any]) -> str:
        """The cache key: equal for the same question to the same model with the same parameters.

        Its messages, parameters, sample number and chain count; stage, turn and prompt name don't.

        Args:
            identity: the backend's (provider, model, base URL, default decoding parameters).
        """
        content: dict[str, Any] = {
            **identity,
            "messages": [dict(message) for message in self.messages],
            "params": {**identity.get("params", {}), **self.params},
            "draw": self.draw,
        }
        if self.structure is None:
            # Requests for free text are the same as without structured=on.
            content.pop("structured", None)
        else:
            content["structure"] = self.structure._asdict()
        text = json.dumps(content, sort_keys=True)
        return hashlib.blake2b(text.encode(), digest_size=16).hexdigest()


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
        cached_tokens: the number of read tokens that the provider had in its own cache, or None if
            the server does not report it.
        special: the special tokens of a local model that stand in the text and are in no table.
    """

    text: str
    model: str
    finish_reason: str | None
    prompt_tokens: int | None
    completion_tokens: int | None
    seconds: float
    cached: bool
    cached_tokens: int | None = None
    special: Sequence[str] = ()


class NoCompletionError(ValueError):
    """A server's answer is not a chat completion.

    Attributes:
        body: the answer.
        paid: the model and the tokens that it tells, if a model worked for it; empty for an error
            or a page.
    """

    def __init__(self, body: Any) -> None:
        super().__init__(body)
        self.body = body
        paid = Reply.without_text(body)
        self.paid = [] if paid is None else [paid]


@dataclass(frozen=True)
class Reply:
    """A backend's result, usable or not; see `Completion` for the shared fields.

    Attributes:
        refusal: the refusal in the protocol's own field.
        reasoned: True if the server sent reasoning in addition to the text.
    """

    text: str | None
    model: str | None = None
    finish_reason: str | None = None
    prompt_tokens: int | None = None
    completion_tokens: int | None = None
    refusal: str | None = None
    reasoned: bool = False
    cached_tokens: int | None = None
    special: Sequence[str] = ()

    @classmethod
    def of(cls, answer: Any) -> "Reply":
        """The reply in an OpenAI chat completion.

        Raises:
            NoCompletionError: when it is none, or has an error beside its choices.
        """
        try:
            if answer.get("error"):
                raise TypeError
            choice = answer["choices"][0]
            message = choice["message"]
            text, has_thought = text_and_thought(message.get("content"))
            if not isinstance(text, str | None):
                raise TypeError
            reason = _reason_of(choice, message)
            refusal = message.get("refusal")
            has_thought = (
                has_thought or message.get("reasoning_content") or message.get("reasoning")
            )
            tokens = tokens_in(answer)
            return cls(
                text,
                _model_of(answer),
                finish_reason=one_line(str(reason)) if reason else None,
                prompt_tokens=tokens.prompt,
                completion_tokens=tokens.written,
                refusal=str(refusal) if refusal else None,
                reasoned=bool(has_thought),
                cached_tokens=tokens.cached,
            )
        except (TypeError, KeyError, IndexError, AttributeError):
            raise NoCompletionError(answer) from None

    @classmethod
    def without_text(cls, answer: Any) -> "Reply | None":
        """The model and tokens of an answer without a completion; None if no model worked for it.

        Example:
            >>> usage = {"prompt_tokens": 9, "completion_tokens": 1}
            >>> Reply.without_text({"choices": [], "usage": usage}).prompt_tokens
            9
            >>> Reply.without_text({"error": "overloaded"}) is None
            True
        """
        tokens = tokens_in(answer)
        claims = isinstance(answer, Mapping) and "choices" in answer and not answer.get("error")
        if not tokens.is_known and not claims:
            return None
        return cls(
            None,
            _model_of(answer),
            prompt_tokens=tokens.prompt,
            completion_tokens=tokens.written,
            cached_tokens=tokens.cached,
        )

    def counted(self) -> "Reply":
        """Return this reply without impossible counts of tokens.

        Objects with ``.generate`` may give them.
        """
        tokens = tokens_of(vars(self))
        return replace(
            self,
            prompt_tokens=tokens.prompt,
            completion_tokens=tokens.written,
            cached_tokens=tokens.cached,
        )

    def completion(self, model: str, seconds: float) -> Completion:
        """Return this reply as a completion, with the text unchanged.

        Args:
            model: the model's name if the server gives none.
            seconds: how long the call took.
        """
        return Completion(
            text=self.text or "",
            model=self.model or model,
            finish_reason=self.finish_reason,
            prompt_tokens=self.prompt_tokens,
            completion_tokens=self.completion_tokens,
            seconds=seconds,
            cached=False,
            cached_tokens=self.cached_tokens,
            special=self.special,
        )


def _reason_of(choice: Mapping[str, Any], message: Mapping[str, Any]) -> Any:
    """Why a completion ended."""
    if choice.get("error"):
        return "error"
    reason = choice.get("finish_reason")
    calls_tool = message.get("tool_calls") or message.get("function_call")
    if calls_tool and str(reason or "").casefold() in WHOLE:
        return "tool_calls"  # no tool was offered: the text announces the call and doesn't answer
    return reason


def _model_of(answer: Mapping[str, Any]) -> str | None:
    """The model that answered, as the server names it."""
    return one_line(str(answer.get("model") or "")) or None


def text_and_thought(content: Any) -> tuple[Any, bool]:
    """The text of a message, and whether it also has reasoning.

    Some servers send both as a list of parts.
    """
    if not isinstance(content, list):
        return content, False
    texts = [part["text"] for part in content if part["type"] == "text"]
    return "".join(texts), len(texts) < len(content)


class Reading(NamedTuple):
    """How the completion of a request is read.

    Attributes:
        named: marks of reasoning besides those that are known, in pairs (``reasoning=``).
        messages: those of the request: its answer may have the tags that they name.
    """

    named: NamedMarks = ()
    messages: Sequence[Mapping[str, str]] = ()

    def text_of(self, written: str) -> tuple[str, bool]:
        """The text of a completion, and whether some reasoning in it has no end."""
        split = split_reasoning(written, self.named)
        tags = names_in(self.messages).union(ANSWER_TAGS)
        return unwrapped(split.text, tags), split.open


PLAIN_READING = Reading()
"""How a text is read without named marks and without the messages of its request."""


Fault = tuple[type[LLMFailure], str]
"""The kind of a failure, and its reason."""


class Read(NamedTuple):
    """The parsed content of a reply or of a cached completion.

    Attributes:
        text: printable, without reasoning.
        fault: why it is not complete, in words; None if it has a text and the server says that it
            is complete, or says nothing.
    """

    text: str
    fault: Fault | None


def read(reply: Reply | Completion, reading: Reading = PLAIN_READING) -> Read:
    """Read a reply or a completion.

    Example:
        >>> read(Reply("whole", finish_reason="end_turn")).fault is None
        True
        >>> read(Reply("half an", finish_reason="SAFETY")).fault[0].__name__
        'Filtered'
        >>> odd = Reply("<ponder>hm</ponder>Mint")
        >>> read(odd).fault[0].__name__, read(odd, Reading((("<ponder>", "</ponder>"),))).text
        ('UnknownMark', 'Mint')
    """
    written = printable(reply.text or "")
    text, is_open = reading.text_of(written)
    fault = _fault_of_end(reply)
    if fault is not None:
        return Read(text, fault)
    has_reasoning = bool(written.strip()) or (isinstance(reply, Reply) and reply.reasoned)
    if is_open or (not text and has_reasoning):
        return Read(text, (OnlyReasoning, ONLY_REASONING))
    if not text:
        return Read(text, (Empty, "the completion is empty"))
    mark = _unknown_in(reply, text, reading)
    if mark:
        return Read(text, (UnknownMark, _explain(mark, text)))
    return Read(text, None)


def _fault_of_end(reply: Reply | Completion) -> Fault | None:
    """What the reason for the end of a completion says against it."""
    reason = (reply.finish_reason or "").strip()
    kind = reason.casefold()
    refusal = reply.refusal if isinstance(reply, Reply) else None
    if kind in CUT_OFF:
        tokens = reply.completion_tokens
        after = "" if tokens is None else f" after {tokens} tokens"
        return CutOff, f"the completion was cut off at the token limit{after}: raise max_tokens"
    if kind in FILTERED:
        return (
            Filtered,
            f"the provider's content filter withheld the completion (finish_reason {reason!r})",
        )
    if refusal or kind == "refusal":
        return Refused, f"the model refused: {refusal or 'finish_reason refusal'}"
    if kind not in WHOLE:
        return (
            Unfinished,
            f"the server ended the completion with finish_reason {reason!r}, "
            "which is not the end of an answer",
        )
    return None


def _unknown_in(reply: Reply | Completion, text: str, reading: Reading) -> str:
    """The unknown mark in a text: a special token of its tokenizer, or what looks like one."""
    for token in reply.special:
        if token in text:
            return token
    return unknown_mark(text, reading.messages)


def _explain(mark: str, text: str) -> str:
    """What to do about an unknown mark."""
    if EMPTY_TOKENS.fullmatch(mark):
        return UNKNOWN_TOKEN.format(mark=one_line(mark))
    if is_wrapped(text):
        return UNKNOWN_TAG.format(mark=one_line(mark))
    return UNKNOWN_PAIR.format(mark=one_line(mark), option=_option_for(mark))


def _option_for(mark: str) -> str:
    """The option that would explain a mark.

    Example:
        >>> _option_for("</ponder>"), _option_for("[PONDER]")
        ('reasoning="<ponder> </ponder>"', 'reasoning="[PONDER] [/PONDER]"')
    """
    if mark == "<!--":
        return 'reasoning="<!-- -->"'
    parts = re.fullmatch(r"(&lt;|\W+?)[/／]?\s?([^\W\d][\w:.-]*)[^<>]*?(&gt;|\W+)", mark)
    if parts is None:
        return 'reasoning="OPENING CLOSING"'
    left, name, right = parts[1].strip(), parts[2], parts[3].strip()
    return f'reasoning="{left}{name}{right} {left}/{name}{right}"'


def as_text(messages: Sequence[Mapping[str, str]]) -> str:
    r"""The chat as plain text, for models without a chat template.

    It ends where the model should continue.

    Example:
        >>> as_text([{"role": "user", "content": "Which tea?"}])
        'user: Which tea?\nassistant:'
    """
    lines = [f"{message['role']}: {message['content']}" for message in messages]
    return "\n".join([*lines, "assistant:"])
