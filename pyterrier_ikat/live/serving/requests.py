"""What clients send: OpenAI's chat requests, and searches. Pydantic refuses what can't be done."""

import json
import re
from typing import Annotated, Any, Literal, TypeVar

from pydantic import (
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    StringConstraints,
    ValidationError,
    field_validator,
    model_validator,
)

from .replies import Failure, without_additions

PAGE_TASKS = (
    re.compile(r"### Task:\s.*<chat_history>", re.DOTALL),
    re.compile(r"Provide a concise, 5-word-or-less title for the conversation"),
)
"""How chat pages (Open WebUI; LibreChat) begin their own requests, such as for titles and tags."""
Text = Annotated[str, StringConstraints(strip_whitespace=True, min_length=1)]
RequestModel = TypeVar("RequestModel", bound=BaseModel)


class _Given(BaseModel):
    """A part of a request. The answer lists fields without effect, such as ``temperature``."""

    model_config = ConfigDict(extra="allow", strict=True)

    @property
    def unused(self) -> list[str]:
        """The names of the fields without effect."""
        return [name for name, value in (self.model_extra or {}).items() if value is not None]


class _TextPart(BaseModel):
    model_config = ConfigDict(strict=True)
    type: Literal["text"]
    text: str


def _as_parts(content: Any) -> Any:
    return [{"type": "text", "text": content}] if isinstance(content, str) else content or []


def _as_statements(value: Any) -> Any:
    """Return statements about a user, id -> text.

    They are a list, an object, or a text: one statement per line, or either of these as JSON.
    """
    if isinstance(value, str):
        if value.lstrip().startswith(("[", "{")):
            value = json.loads(value)
        else:
            value = [line for line in value.split("\n") if line.strip()]
    if isinstance(value, list):
        return {str(number): text for number, text in enumerate(value, 1)}
    return value or {}


class Message(_Given):
    """A message. System prompts and calls of tools are no part of the conversation."""

    role: Literal["user", "assistant", "system", "developer", "tool", "function"]
    content: Annotated[list[_TextPart], BeforeValidator(_as_parts)] = []

    @property
    def said(self) -> str:
        """Its text in the conversation; empty for none."""
        text = "\n".join(part.text for part in self.content).strip()
        if self.role == "user":
            return text
        if self.role != "assistant" or {"tool_calls", "function_call"} & set(self.unused):
            return ""
        return without_additions(text)


class _StreamOptions(_Given):
    include_usage: bool = False


class _TextFormat(BaseModel):
    type: Literal["text"]


class Metadata(_Given):
    """The client's facts about the conversation.

    Attributes:
        ptkb: the user's statements.
        chat_id: the id by which the conversation is saved.
        answer_id: the id by which a client that leaves a stream can come back to the answer.
    """

    ptkb: Annotated[dict[str, Text], BeforeValidator(_as_statements), Field(max_length=500)] = {}
    chat_id: str = ""
    answer_id: Annotated[str, Field(max_length=100)] = ""


class ChatRequest(_Given):
    """A question with the conversation before it.

    Attributes:
        model: the name of the system.
        messages: the whole conversation; the last message is the user's.
        stream: whether the answer is streamed.
        stream_options: whether a stream ends with the number of tokens.
        stream_unchecked: whether a stream may have words of an answer before it is finished and
            checked.
        sample: the number of the answer among several to the same words, from 0; the model is
            asked again for each.
        metadata: the user's statements and the conversation's id.

    Example:
        >>> body = b'{"messages": [{"role": "user", "content": "Which tea?"}], "temperature": 1}'
        >>> question = read(ChatRequest, body)
        >>> question.said, question.unused
        ([{'role': 'user', 'content': 'Which tea?'}], ['temperature'])
    """

    model: str | None = None
    messages: list[Message] = Field(min_length=1, max_length=1000)
    stream: bool = False
    stream_options: _StreamOptions | None = None
    stream_unchecked: bool = False
    sample: int = Field(0, ge=0, le=1000)
    metadata: Annotated[Metadata, BeforeValidator(lambda value: value or {})] = Metadata()
    n: Literal[1] | None = None
    response_format: _TextFormat | None = None
    modalities: list[Literal["text"]] | None = None
    logprobs: Literal[False] | None = None
    audio: None = None
    tool_choice: Literal["auto", "none"] | None = None
    function_call: Literal["auto", "none"] | None = None

    @field_validator("messages")
    @classmethod
    def _ends_with_a_question(cls, messages: list[Message]) -> list[Message]:
        spoken = [message for message in messages if message.said]
        if not spoken or spoken[-1].role != "user" or messages[-1].role == "assistant":
            raise ValueError(
                "the last message has to be the user's: append the question that is to be answered"
            )
        if len(spoken) == 1 and any(task.match(spoken[0].said) for task in PAGE_TASKS):
            raise ValueError(
                "this is a chat page's own request, for a title, tags or suggestions, "
                "and the systems here answer questions: switch these off in the page's settings"
            )
        return messages

    @property
    def said(self) -> list[dict[str, str]]:
        """The conversation for systems."""
        spoken = [message for message in self.messages if message.said]
        return [{"role": message.role, "content": message.said} for message in spoken]

    @property
    def ignored(self) -> list[str]:
        """The parts of the request without effect."""
        parts = []
        for position, message in enumerate(self.messages):
            if not message.said:
                parts.append(f"messages[{position}] ({message.role})")
        parts += [f"metadata.{name}" for name in self.metadata.unused]
        return parts + self.unused


MOST_PASSAGES = 64_000
"""Passages of an answer: 64 queries at depth 1000, or 6 at the greatest depth."""


class SearchRequest(BaseModel):
    """Queries, for the first stage of a system.

    Attributes:
        model: the name of the system.
        query: one query.
        queries: several; a blank one has no passages.
        k: the maximum number of passages per query.
        k1: the parameter of BM25, for a first stage that has it; None for the stage's own.
        b: the other one.
        texts: whether the passages come with their texts.

    Example:
        >>> read(SearchRequest, b'{"query": "tea", "k": 3}').every_query
        ['tea']
    """

    model_config = ConfigDict(extra="forbid", strict=True)
    model: str | None = None
    query: Text | None = None
    queries: list[str] = Field([], max_length=64)
    k: int = Field(10, ge=1, le=10_000)
    k1: float | None = None
    b: float | None = None
    texts: bool = True

    @model_validator(mode="after")
    def _has_one_of_both(self) -> "SearchRequest":
        if (self.query is None) != bool(self.queries):
            raise ValueError("give query, a text, or queries, a list of texts")
        return self

    @model_validator(mode="after")
    def _fits_into_an_answer(self) -> "SearchRequest":
        if len(self.every_query) * self.k > MOST_PASSAGES:
            raise ValueError(
                f"{len(self.every_query)} queries with k={self.k}: an answer has at most "
                f"{MOST_PASSAGES} passages, so send fewer queries at a time"
            )
        return self

    @property
    def every_query(self) -> list[str]:
        """The queries."""
        return self.queries or [self.query or ""]


def read(model: type[RequestModel], body: bytes | dict[str, Any]) -> RequestModel:
    """Read and check a request.

    Args:
        model: what it has to be.
        body: its body, or its fields.

    Raises:
        Failure: status 400, naming the field that is missing, malformed or can't be followed.
    """
    try:
        if isinstance(body, dict):
            return model.model_validate(body)
        return model.model_validate_json(body)
    except ValidationError as error:
        where, what = first_error(error)
        raise Failure(400, f"{where or 'the body'}: {what}", param=where or None) from None


def first_error(error: ValidationError) -> tuple[str, str]:
    """Return the first faulty field and its fault."""
    first = error.errors(include_url=False, include_input=False)[0]
    field = ".".join(map(str, first["loc"]))
    return field, str(first["msg"]).removeprefix("Value error, ")
