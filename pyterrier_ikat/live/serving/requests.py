"""Requests of OpenAI's chat protocol and of the search endpoint: read, checked, and bounded."""

import hashlib
import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from ...conversations.frame import well_formed
from ...errors import list_first
from .waiting_line import Limits
from .wire import RequestError, without_additions

CONVERSATION = ("chat_id", "conversation_id", "session_id")
"""The names in ``metadata`` by which clients tell which conversation a request belongs to."""
ID = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,99}")
"""A conversation's id: it becomes a part of qids."""
TAKEN = ("model", "messages", "stream", "stream_options", "stream_unchecked", "sample", "metadata")
"""Parameters of a chat request that have an effect."""
NO_EFFECT: Mapping[str, Sequence[Any]] = {
    "n": (1,),
    "response_format": ({"type": "text"},),
    "modalities": (["text"],),
    "audio": (),
    "logprobs": (False,),
}
"""Parameters that change the form of the answer -> the values with which they change nothing. Other values are refused."""
CALLS: Mapping[str, str] = {"tools": "tool_choice", "functions": "function_call"}
"""The lists of what a model may call -> the parameter that says whether it has to."""
TASKS = (re.compile(r"### Task:\s.*<chat_history>", re.DOTALL), re.compile(r"Provide a concise, 5-word-or-less title for the conversation"))
"""How chat pages (Open WebUI; LibreChat) begin what they ask of a model for themselves, such as titles and tags."""
INSTRUCTIONS = ("system", "developer")
RESULTS = ("tool", "function")
MOST_SAMPLES = 1000
SHOWN = 60
"""Characters of a client's own word that a message repeats."""


@dataclass(frozen=True)
class ChatRequest:
    """A question with everything that was said before it.

    Attributes:
        model: the name of the system.
        messages: the whole conversation: roles user and assistant, the last one the user's.
        ptkb: statements about the user, id -> text; None if the request says nothing about the user.
        stream: whether the answer is streamed.
        usage: whether a stream ends with the number of tokens.
        ignored: the parts of the request that have no effect.
        conversation: the id by which the conversation is saved; empty for none.
        unchecked: whether a stream may have words of an answer before it is finished and checked.
        sample: the number of the answer among several to the same words, from 0: others are asked of the model anew.
    """

    model: str
    messages: list[dict[str, str]]
    ptkb: dict[str, str] | None
    stream: bool
    usage: bool
    ignored: list[str]
    conversation: str = ""
    unchecked: bool = False
    sample: int = 0


@dataclass(frozen=True)
class SearchRequest:
    """Queries.

    Attributes:
        model: the name of the system whose first stage searches.
        queries: the queries.
        k: passages per query at most.
    """

    model: str
    queries: list[str]
    k: int


def read_json(body: bytes) -> dict[str, Any]:
    """The JSON object of a body.

    Raises:
        RequestError: when it is none.

    Example:
        >>> read_json(b'{"model": "ad"}')
        {'model': 'ad'}
    """
    try:
        found = json.loads(body.decode("utf-8"), parse_constant=_refuse_constant, object_pairs_hook=_object)
    except RecursionError:
        raise RequestError('the body is nested too deeply: send a JSON object such as {"model": ..., "messages": [...]}') from None
    except ValueError as error:
        raise RequestError(f"the body is not JSON ({well_formed(str(error))[:SHOWN]}): send a JSON object in UTF-8") from None
    if not isinstance(found, dict):
        raise RequestError(f'the body is a JSON {_kind(found)}: send an object such as {{"model": ..., "messages": [...]}}')
    return found


def _refuse_constant(name: str) -> None:
    raise ValueError(f"{name} is not JSON")


def _object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) < len(pairs):
        raise ValueError("an object has the same key twice")
    return found


def read_chat(data: Mapping[str, Any], models: Sequence[str], limits: Limits, named: Sequence[str] | None = None) -> ChatRequest:
    """A chat request, checked.

    Parameters that a pipeline does not have, such as ``temperature``, tools that a model may call, messages of the roles system and
    developer, calls of tools and their results are ignored and listed in ``ignored``. Parameters that ask for another form of answer,
    also for the call of a tool, are refused.

    Args:
        data: the body.
        models: the names of the systems.
        limits: bounds of messages and statements.
        named: the ids of the conversation in the request's header; None where no conversation is saved.

    Raises:
        RequestError: naming the parameter that is missing, malformed, unknown or can't be followed.

    Example:
        >>> asked = read_chat({"messages": [{"role": "user", "content": "Which tea?"}], "temperature": 1}, ["ad"], Limits())
        >>> asked.model, asked.messages, asked.ignored
        ('ad', [{'role': 'user', 'content': 'Which tea?'}], ['temperature'])
    """
    model, stream = _model(data, models), _flag(data, "stream")
    for name, harmless in NO_EFFECT.items():
        value = data.get(name)
        if value is not None and not any(type(value) is type(one) and value == one for one in harmless):
            raise RequestError(f"{name} asks for another form of answer than one text: omit it", param=name, code="unsupported_parameter")
    _check_calls(data)
    options = data.get("stream_options") or {}
    if not isinstance(options, dict):
        raise RequestError(f"stream_options is a JSON {_kind(options)}: give an object", param="stream_options")
    messages, ignored = _messages(data.get("messages"), limits)
    if len(messages) == 1 and any(task.match(messages[0]["content"]) for task in TASKS):
        wrong = "this is a chat page's own request, for a title, tags or suggestions, and the systems here answer questions"
        raise RequestError(f"{wrong}: switch these off in the page's settings", param="messages", code="not_a_question")
    ptkb, given, more = _metadata(data.get("metadata"), limits, saves=named is not None)
    conversation = next((_id(name) for name in [*given, *(named or ())] if name.strip()), "")
    unused = [name for name, value in data.items() if name not in TAKEN and value is not None]
    shown = [well_formed(name)[:SHOWN] for name in [*ignored, *more, *unused]]
    unchecked, sample = _flag(data, "stream_unchecked"), data.get("sample") or 0
    if type(sample) is not int or not 0 <= sample <= MOST_SAMPLES:
        raise RequestError(
            f"sample is the number of an answer to the same words: give a whole number from 0 to {MOST_SAMPLES}", param="sample"
        )
    return ChatRequest(model, messages, ptkb, stream, _flag(options, "include_usage"), shown, conversation, unchecked, sample)


def _id(name: str) -> str:
    """The id under which a conversation is saved: what the client calls it, or its letters and digits and a checksum."""
    if ID.fullmatch(name):
        return name
    plain = re.sub(r"[^A-Za-z0-9]+", "-", name).strip("-")[:60]
    return f"{plain or 'chat'}-{hashlib.sha256(name.encode(errors='surrogatepass')).hexdigest()[:16]}"


def _check_calls(data: Mapping[str, Any]) -> None:
    """Refuse what demands a call: tools that a model may call without having to change nothing."""
    for listed, demand in CALLS.items():
        if data.get(listed) is not None and not isinstance(data[listed], list):
            raise RequestError(f"{listed} is a JSON {_kind(data[listed])}: give a list, or omit it", param=listed)
        if not _leaves_the_choice(data.get(demand)):
            wrong = f"{demand} demands a call, and the systems here call nothing: omit it, or give auto or none"
            raise RequestError(wrong, param=demand, code="unsupported_parameter")


def _leaves_the_choice(demand: Any) -> bool:
    if isinstance(demand, dict) and demand.get("type") == "allowed_tools":
        allowed = demand.get("allowed_tools")
        return isinstance(allowed, dict) and allowed.get("mode") == "auto"
    return demand in (None, "none", "auto")


def read_search(data: Mapping[str, Any], models: Sequence[str], limits: Limits) -> SearchRequest:
    """A search request, checked.

    Raises:
        RequestError: naming the parameter that is missing, malformed or unknown.

    Example:
        >>> read_search({"queries": ["tea"], "k": 3}, ["ad"], Limits())
        SearchRequest(model='ad', queries=['tea'], k=3)
    """
    model, queries, k = _model(data, models), data.get("queries"), data.get("k", 10)
    if unknown := [name for name in data if name not in ("model", "queries", "k")]:
        raise RequestError(f"there is no parameter {_quoted(unknown[0])}: give model, queries and k", param=unknown[0][:SHOWN])
    if not isinstance(queries, list) or not queries or not all(isinstance(query, str) and query.strip() for query in queries):
        raise RequestError('give queries, a list of texts that are not blank, such as ["tea without caffeine"]', param="queries")
    if len(queries) > limits.queries:
        raise RequestError(f"there are {len(queries)} queries: give at most {limits.queries} at a time", param="queries")
    if type(k) is not int or not 1 <= k <= limits.passages:
        raise RequestError(f"k is the number of passages per query: give a whole number from 1 to {limits.passages}", param="k")
    return SearchRequest(model, list(map(well_formed, queries)), k)


def _model(data: Mapping[str, Any], models: Sequence[str]) -> str:
    name = data.get("model")
    if name is None and len(models) == 1:
        return models[0]
    known = f"give one of {list_first(models)}"
    if not isinstance(name, str):
        raise RequestError(f"the model is missing, or not a text: {known}", param="model")
    if name not in models:
        raise RequestError(f"there is no model {_quoted(name)}: {known}", status=404, param="model", code="model_not_found")
    return name


def _flag(data: Mapping[str, Any], name: str) -> bool:
    value = data.get(name)
    if value is not None and not isinstance(value, bool):
        raise RequestError(f"{name} is a JSON {_kind(value)}: give true or false", param=name)
    return bool(value)


def _messages(given: Any, limits: Limits) -> tuple[list[dict[str, str]], list[str]]:
    """The messages of user and assistant, and the names of those that are ignored."""
    if not isinstance(given, list) or not given:
        raise RequestError('give messages, such as [{"role": "user", "content": "Which tea?"}]', param="messages")
    if len(given) > limits.messages:
        raise RequestError(
            f"the conversation has {len(given)} messages: this server takes {limits.messages}; omit the oldest ones",
            param="messages",
            code="context_length_exceeded",
        )
    kept: list[dict[str, str]] = []
    ignored: list[str] = []
    for place, message in enumerate(given):
        where = f"messages[{place}]"
        role = _role(message, where)
        if unheard := _unheard(message, role):
            ignored.append(f"{where} ({unheard})")
            continue
        text = _text(message, where)
        if role == "user" and not text.strip():
            raise RequestError(f"{where} of the user is blank: omit it, or say something", param=where)
        if role == "user":
            kept.append({"role": role, "content": text.strip()})
        elif said := without_additions(text).strip():  # an answer of a method that only ranks says nothing
            kept.append({"role": role, "content": said})
    if not kept or kept[-1]["role"] != "user" or given[-1]["role"] == "assistant":
        raise RequestError("the last message has to be the user's: append the question that is to be answered", param="messages")
    return kept, ignored


def _unheard(message: Mapping[str, Any], role: str) -> str:
    """What a message is that no system reads; nothing where it is one of the conversation."""
    if role in (*INSTRUCTIONS, *RESULTS):
        return role
    return next((name for name in ("tool_calls", "function_call") if message.get(name)), "")


def _role(message: Any, where: str) -> str:
    role = message.get("role") if isinstance(message, dict) else None
    if role not in ("user", "assistant", *INSTRUCTIONS, *RESULTS):
        raise RequestError(f"{where} has no role, or an unknown one: give the role user or assistant, and a content", param=where)
    if role == "user" and _unheard(message, role):
        raise RequestError(f"{where} of the user calls a tool, which only an assistant does: omit the call", param=where)
    return str(role)


def _text(message: Mapping[str, Any], where: str) -> str:
    content = message.get("content")
    if content is None and message["role"] == "assistant":
        return ""
    if isinstance(content, list):
        parts = [part.get("text") if isinstance(part, dict) and part.get("type") == "text" else None for part in content]
        if any(not isinstance(part, str) for part in parts):
            raise RequestError(f"{where}.content has a part that is not text, and the systems here read text only", param=where)
        content = "\n".join(map(str, parts))
    if not isinstance(content, str):
        raise RequestError(f"{where}.content is a JSON {_kind(content)}: give a text, or a list of parts of type text", param=where)
    return well_formed(content)


def _metadata(given: Any, limits: Limits, saves: bool) -> tuple[dict[str, str] | None, list[str], list[str]]:
    """The statements about the user, the ids of the conversation, and the names of metadata without effect."""
    if given is None:
        return None, [], []
    if not isinstance(given, dict):
        raise RequestError(f"metadata is a JSON {_kind(given)}: give an object", param="metadata")
    ids = {name: given[name] for name in CONVERSATION if saves and isinstance(given.get(name), str)}
    unused = [f"metadata.{name}" for name in given if name != "ptkb" and name not in ids]
    return (None if given.get("ptkb") is None else read_statements(given["ptkb"], limits.statements)), list(ids.values()), unused


def read_statements(given: Any, most: int) -> dict[str, str]:
    r"""Statements about a user: a list of texts, an object id -> text, or a text with a statement per line or with either as JSON.

    Args:
        given: the value of ``metadata.ptkb``.
        most: the most statements.

    Raises:
        RequestError: when it is something else, a statement is blank, or there are too many.

    Example:
        >>> read_statements("I like tea.\nI run.", 9)
        {'1': 'I like tea.', '2': 'I run.'}
    """
    found = _parsed(given) if isinstance(given, str) else given
    if isinstance(found, list):
        found = {str(number): statement for number, statement in enumerate(found, 1)}
    if not isinstance(found, dict) or not all(isinstance(one, str) and one.strip() for one in found.values()):
        raise RequestError(
            "metadata.ptkb has no statements about the user: give a list of texts, an object id -> text, or a text with one per line",
            param="metadata.ptkb",
        )
    if len(found) > most:
        raise RequestError(f"metadata.ptkb has {len(found)} statements: give at most {most}", param="metadata.ptkb")
    return {well_formed(name): well_formed(statement).strip() for name, statement in found.items()}


def _parsed(text: str) -> Any:
    if text.lstrip()[:1] in ("[", "{"):
        try:
            return json.loads(text, object_pairs_hook=_object)
        except (ValueError, RecursionError):
            return None
    return [line.strip() for line in text.split("\n") if line.strip()]


def _quoted(name: str) -> str:
    return repr(well_formed(name)[:SHOWN])


def _kind(value: Any) -> str:
    kinds = {bool: "true or false", int: "number", float: "number", str: "string", list: "array", dict: "object", type(None): "null"}
    return kinds[type(value)]
