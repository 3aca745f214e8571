"""Requests, replies and completions: what is asked, what came, and whether it can be used."""

import hashlib
import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple

from ..completions.forms import ANSWER_TAGS, TOKENS
from ..completions.json_answers import Structure
from ..completions.reasoning import (
    Named,
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

WHOLE = (
    *(
        "",
        "stop",
        "stop_sequence",
        "stop_token",
        "eos",
        "eos_token",
        "end_turn",
        "complete",
        "completed",
        "endoftext",
    ),
    *("finish", "finished"),
)
"""Reasons of OpenAI, Mistral, TGI, Together, Anthropic, Cohere, Gemini, watsonx, Bedrock and AI21 for a complete text, casefolded."""
CUT_OFF = (
    *(
        "length",
        "max_tokens",
        "max_token",
        "max_length",
        "max_output_tokens",
        "model_length",
        "token_limit",
        "limit",
        "error_limit",
    ),
    *("context_length_exceeded", "model_context_window_exceeded"),
)
FILTERED = (
    *(
        "content_filter",
        "content_filtered",
        "filtered",
        "safety",
        "image_safety",
        "recitation",
        "blocklist",
        "prohibited_content",
        "spii",
    ),
    *("guardrail_intervened", "error_toxic", "sensitive", "language"),
)
REASONING = (
    "the completion has reasoning and no answer after it: raise max_tokens, or turn reasoning off"
)
UNKNOWN = "the completion has a mark that is not known, {mark}: if reasoning is between it and another one, name both, such as {option}"
WRAPPED = (
    "the whole completion is in a tag that is not known, {mark}: if the answer is in it, name the tag in the prompt (prompts=FOLDER); "
    "if reasoning is in it, there is no answer"
)
NO_WORD = (
    "the completion has a token that is no word, {mark}: the server's tokenizer or chat template is not that of the model, "
    "or the model calls a tool that nobody offered"
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
        ...     Request([{"role": "user", "content": "Which tea has no caffeine?"}], stage="answer", qid="9-1_3").chain
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
        """The cache key: equal exactly when the same question goes to the same model in the same way.

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
            content.pop(
                "structured", None
            )  # requests for free text are the same as without structured=on
        else:
            content["structure"] = self.structure._asdict()
        return hashlib.blake2b(
            json.dumps(content, sort_keys=True).encode(), digest_size=16
        ).hexdigest()


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
            text, thought = text_and_thought(message.get("content"))
            if not isinstance(text, str | None):
                raise TypeError
            reason = "error" if choice.get("error") else choice.get("finish_reason")
            if str(reason or "").casefold() in WHOLE and (
                message.get("tool_calls") or message.get("function_call")
            ):
                # none was offered: the text announces the call and does not answer
                reason = "tool_calls"
            refusal = message.get("refusal")
            tokens = tokens_in(answer)
            return cls(
                text,
                _model_of(answer),
                one_line(str(reason)) if reason else None,
                tokens.prompt,
                tokens.written,
                str(refusal) if refusal else None,
                bool(thought or message.get("reasoning_content") or message.get("reasoning")),
                tokens.cached,
            )
        except (TypeError, KeyError, IndexError, AttributeError):
            raise NoCompletionError(answer) from None

    @classmethod
    def without_text(cls, answer: Any) -> "Reply | None":
        """The model and the tokens of an answer that holds no completion; None if no model worked for it.

        Example:
            >>> Reply.without_text({"choices": [], "usage": {"prompt_tokens": 9, "completion_tokens": 1}}).prompt_tokens
            9
            >>> Reply.without_text({"error": "overloaded"}) is None
            True
        """
        tokens = tokens_in(answer)
        claims = isinstance(answer, Mapping) and "choices" in answer and not answer.get("error")
        if not tokens.told and not claims:
            return None
        return cls(
            None,
            _model_of(answer),
            prompt_tokens=tokens.prompt,
            completion_tokens=tokens.written,
            cached_tokens=tokens.cached,
        )

    def counted(self) -> "Reply":
        """This reply without counts of tokens that no answer can have, which an object with ``.generate`` may tell."""
        tokens = tokens_of(vars(self))
        return replace(
            self,
            prompt_tokens=tokens.prompt,
            completion_tokens=tokens.written,
            cached_tokens=tokens.cached,
        )

    def completion(self, model: str, seconds: float) -> Completion:
        """The completion that it is when it is usable, as ``model`` wrote it."""
        told = (
            self.text or "",
            self.model or model,
            self.finish_reason,
            self.prompt_tokens,
            self.completion_tokens,
        )
        return Completion(
            *told,
            seconds=seconds,
            cached=False,
            cached_tokens=self.cached_tokens,
            special=self.special,
        )


def _model_of(answer: Mapping[str, Any]) -> str | None:
    """The model that answered, as the server names it."""
    return one_line(str(answer.get("model") or "")) or None


def text_and_thought(content: Any) -> tuple[Any, bool]:
    """The text of a message, and whether it also has reasoning. Some servers send both as a list of parts."""
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

    named: Named = ()
    messages: Sequence[Mapping[str, str]] = ()

    def text_of(self, written: str) -> tuple[str, bool]:
        """The text of a completion, and whether some reasoning in it has no end."""
        said = split_reasoning(written, self.named)
        return unwrapped(said.text, names_in(self.messages).union(ANSWER_TAGS)), said.open


PLAIN = Reading()
"""How a text is read of which nothing else is known."""


class Read(NamedTuple):
    """A reply, or a completion that was kept, as everybody reads it.

    Attributes:
        text: printable, without reasoning.
        fault: why it is not complete, in words; None if it has a text and the server says that it
            is complete, or says nothing.
    """

    text: str
    fault: tuple[type[LLMFailure], str] | None


def read(told: Reply | Completion, reading: Reading = PLAIN) -> Read:
    """Read a reply or a completion.

    Example:
        >>> read(Reply("half an", finish_reason="SAFETY")).fault[0].__name__, read(Reply("whole", finish_reason="end_turn")).fault
        ('Filtered', None)
        >>> odd = Reply("<ponder>hm</ponder>Mint")
        >>> read(odd).fault[0].__name__, read(odd, Reading((("<ponder>", "</ponder>"),))).text
        ('UnknownMark', 'Mint')
    """
    written = printable(told.text or "")
    text, is_open = reading.text_of(written)
    reason = (told.finish_reason or "").strip()
    kind = reason.casefold()
    refusal, reasoned = (told.refusal, told.reasoned) if isinstance(told, Reply) else (None, False)
    fault: tuple[type[LLMFailure], str] | None = None
    if kind in CUT_OFF:
        after = "" if told.completion_tokens is None else f" after {told.completion_tokens} tokens"
        fault = CutOff, f"the completion was cut off at the token limit{after}: raise max_tokens"
    elif kind in FILTERED:
        fault = (
            Filtered,
            f"the provider's content filter withheld the completion (finish_reason {reason!r})",
        )
    elif refusal or kind == "refusal":
        fault = Refused, f"the model refused: {refusal or 'finish_reason refusal'}"
    elif kind not in WHOLE:
        fault = (
            Unfinished,
            f"the server ended the completion with finish_reason {reason!r}, which is not the end of an answer",
        )
    elif is_open or (not text and (written.strip() or reasoned)):
        fault = OnlyReasoning, REASONING
    elif not text:
        fault = Empty, "the completion is empty"
    elif mark := _unknown_in(told, text, reading):
        fault = UnknownMark, _told_of(mark, text)
    return Read(text, fault)


def _unknown_in(told: Reply | Completion, text: str, reading: Reading) -> str:
    """The mark in the text of a completion that is not known: a special token of its tokenizer, or what looks like one."""
    for token in told.special:
        if token in text:
            return token
    return unknown_mark(text, reading.messages)


def _told_of(mark: str, text: str) -> str:
    """What to do about a mark that is not known."""
    if TOKENS.fullmatch(mark):
        return NO_WORD.format(mark=one_line(mark))
    if is_wrapped(text):
        return WRAPPED.format(mark=one_line(mark))
    return UNKNOWN.format(mark=one_line(mark), option=_option_for(mark))


def _option_for(mark: str) -> str:
    """The option that would explain a mark.

    Example:
        >>> _option_for("</ponder>"), _option_for("[PONDER]"), _option_for("<|ponder|>")
        ('reasoning="<ponder> </ponder>"', 'reasoning="[PONDER] [/PONDER]"', 'reasoning="<|ponder|> <|/ponder|>"')
    """
    if mark == "<!--":
        return 'reasoning="<!-- -->"'
    named = re.fullmatch(r"(&lt;|\W+?)[/／]?\s?([^\W\d][\w:.-]*)[^<>]*?(&gt;|\W+)", mark)
    if named is None:
        return 'reasoning="OPENING CLOSING"'
    left, name, right = named[1].strip(), named[2], named[3].strip()
    return f'reasoning="{left}{name}{right} {left}/{name}{right}"'


def as_text(messages: Sequence[Mapping[str, str]]) -> str:
    r"""The chat as plain text, for models without a chat template. It ends where the model should continue.

    Example:
        >>> as_text([{"role": "user", "content": "Which tea?"}])
        'user: Which tea?\nassistant:'
    """
    return "\n".join(
        [f"{message['role']}: {message['content']}" for message in messages] + ["assistant:"]
    )
