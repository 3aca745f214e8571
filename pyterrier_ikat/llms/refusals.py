"""The meaning of a server's refusal: one table of statuses and words, with their sources.

Servers use few statuses for many things: a wrong key is 400 at xAI and Gemini, a withheld prompt is
403 at OpenRouter and 400 elsewhere.
"""

import json
import re
from collections.abc import Mapping
from typing import Any, NamedTuple
from urllib.parse import urlsplit

from .failures import LONGEST

TRY_AGAIN = (408, 409, 425, 429)
LIMITED = 429
FATAL = {
    401: "{url} does not accept the key in {variable} ({answer}): set that variable, "
    "or name another: api_key_env=NAME",
    402: "the quota of the key in {variable} is exhausted ({answer}): add credit or use another "
    "key",
    403: "{url} does not allow the call with the key in {variable} ({answer})",
    404: "{url} has no model {model!r}, or no such address ({answer}): check the name, the key "
    "and base_url",
    405: "{url} takes no chat completions ({answer}): correct base_url=...",
    407: "the proxy does not allow the call ({answer})",
}
"""What the user has to repair, by HTTP status."""
NO_MONEY = ("insufficient_quota", "billing_hard_limit_reached", "billing_not_active")


class Wording(NamedTuple):
    """Words that tell what a refusal means, whatever its status is.

    Attributes:
        status: the status that says it.
        pattern: the words.
    """

    status: int
    pattern: re.Pattern[str]


def _words(status: int, *patterns: str) -> Wording:
    return Wording(status, re.compile("|".join(patterns), re.IGNORECASE))


SAID_AS_400 = (
    _words(
        402,
        r"credit balance is too low",  # Anthropic: anthropics/claude-code#4684
        r"insufficient (?:account )?(?:balance|credits?|funds|quota)",
    ),
    _words(403, r"location is not supported"),  # Gemini: google-gemini/gemini-cli#24641
    _words(
        401,
        # Gemini: continuedev/continue#10748
        r"API.key not (?:valid|found)|API_KEY_INVALID|API key expired",
        r"incorrect API key",  # xAI: continuedev/continue#10778, docs.x.ai "Debugging errors"
        r"(?:invalid|missing|wrong)[ _](?:or \w+ )?"
        r"(?:api[ _-]?key|authentication|authorization|credentials)",
        r"api[ _-]?key (?:you provided )?(?:is|was) "
        r"(?:invalid|incorrect|missing|expired|required|not valid)",
        r"no (?:api[ _-]?key|auth credentials)",
    ),
    _words(
        404,
        r"is not a valid model",  # OpenRouter: RightNow-AI/openfang#697
        # xAI: definableai/definable.ai#112; DeepSeek: langbot-app/LangBot#1643
        r"model not (?:found|exist)",
        r"model_decommissioned|has been decommissioned",  # Groq: RightNow-AI/openfang#60
        # Mistral: mistralai/mistral-vibe#617; decolua/9router#1187
        r"invalid[ _]model(?:[ _]id)?\b",
        r"model_not_found|(?:unknown|no such) model\b",
        # OpenAI's words for 404
        r"model [^ ]{1,200} (?:does not exist|is not (?:found|available)|not found|not exist)",
    ),
)
"""A wrong key or model, or no money, that a server calls a bad request (400, 422)."""

WITHHELD = re.compile(
    r"content_?filter|ResponsibleAIPolicy"  # Azure
    # OpenRouter: enricoros/big-AGI#352; OpenAI: enricoros/big-AGI#712
    r"|requires moderation|\bflagged\b"
    # DashScope: QwenLM/qwen-code#3145, camel-ai/owl#432
    r"|data_?inspection_?failed|inappropriate content"
    r"|content exists risk"  # DeepSeek: 666ghj/BettaFish#108
    r"|sensitive[ _]words?"  # new-api: openai/openai-cookbook#1224
    # xAI: UKGovernmentBEIS/inspect_ai#2267, theopenco/llmgateway#1785
    r"|content violates usage guidelines|SAFETY_CHECK_TYPE"
    r"|content[ _](?:policy|management|moderation)|moderation[ _](?:blocked|failed)"
    r"|blocked by [^.]{0,30}(?:safety|moderation|content)"
    r"|PROHIBITED_CONTENT|considered high risk",  # Gemini, Moonshot
    re.IGNORECASE,
)
"""Words about a prompt that is withheld. The other prompts are answered."""
FLAGGED = ("flagged_input", "reasons", "content_filter_result")
"""Fields beside such words.

OpenRouter: ``metadata`` (openrouter.ai/docs, "Errors"); Azure: ``innererror``.
"""
VIOLATES = re.compile(
    r"violat\w+ [^.]{0,60}(?:usage|use|content|safety|acceptable)[^.]{0,20}(?:guideline|polic)",
    re.IGNORECASE,
)
OF_THE_ACCOUNT = re.compile(
    r"\b(?:account|organi[sz]ation|team|suspended|banned|deactivated|region|country)\b",
    re.IGNORECASE,
)
"""Words that say who violates a policy: with these it is not the prompt."""

TOO_LONG = re.compile(
    r"context.(?:length|size|window|limit)|(?:prompt|input) is too long"
    r"|(?:maximum|allowed) (?:model|prompt|input) length|longer than the (?:model|maximum)"
    r"|reduce (?:the length|your message)|input token count|too large for model|model token limit",
    re.IGNORECASE,
)
"""Words about a prompt that exceeds the context.

Of OpenAI, vLLM, SGLang, llama.cpp, Anthropic, Gemini, Mistral, Groq, xAI and Moonshot.
"""
TOO_LARGE = re.compile(r"request too large", re.IGNORECASE)
"""A 429 about a request that exceeds what a minute allows, so that no wait helps.

OpenAI: Aider-AI/aider#1880.
"""
NO_SCHEMA = re.compile(
    r"response.?format|json.?schema|structured.?outputs?|guided.?(?:json|decoding)|grammar",
    re.IGNORECASE,
)
"""Messages of servers and their libraries about a request for JSON that they can't serve."""
OTHER_NAME = re.compile(
    r"use\W+max_completion_tokens|\bmax_tokens\W+(?:is|was) not supported"
    r"|unsupported\W+parameter\W+max_tokens",
    re.IGNORECASE,
)
"""Words about ``max_tokens`` where a server wants ``max_completion_tokens``.

Azure: OpenHands/OpenHands#11662, owndev/Open-WebUI-Functions#136; regional addresses of OpenAI:
nashsu/llm_wiki#610.
"""

CHAT_PATHS = {
    "openrouter.ai": "/api/v1",
    "api.groq.com": "/openai/v1",
    "generativelanguage.googleapis.com": "/v1beta/openai",
    "api.fireworks.ai": "/inference/v1",
    "api.deepinfra.com": "/v1/openai",
}
"""Host -> the path of its chat completions. Elsewhere it is ``/v1``.

From the provider's own page on OpenAI's client.
"""
NO_ADDRESS = re.compile(
    r"cannot POST|page not found|unexpected endpoint|<!doctype|<html|not found|method not allowed",
    re.IGNORECASE,
)
"""Words about an address that doesn't exist.

Of Express, Ollama ("404 page not found"), LM Studio (with status 200:
lmstudio-ai/lmstudio-bug-tracker#618), web servers and FastAPI.
"""


def inner(body: Any) -> Any:
    """The error in an answer: Gemini sends a list of one, and some send it as a field."""
    if isinstance(body, list) and len(body) == 1:
        body = body[0]
    if isinstance(body, dict) and isinstance(body.get("error"), dict):
        body = body["error"]
    return body


def words_of(body: Any) -> str:
    """The codes and messages of an error, without the request that it may repeat.

    Example:
        >>> words_of({"code": 403, "message": "Flagged", "metadata": {"flagged_input": "how to"}})
        '403 Flagged'
    """
    body = inner(body)
    if isinstance(body, str):
        return body[:LONGEST]
    if not isinstance(body, dict):
        return ""
    values = []
    for name in ("code", "type", "status", "message", "error", "detail", "msg"):
        values.append(body.get(name))
    metadata = body.get("metadata")
    if isinstance(metadata, dict):
        values.append(metadata.get("raw"))  # OpenRouter: what the provider said
    words = [str(value) for value in values if isinstance(value, str | int)]
    return " ".join(words)[:LONGEST]


def real_status(status: int, body: Any) -> int:
    """The status that a refusal should have: 401: wrong key, 402: no money, 404: wrong model.

    Example:
        >>> real_status(400, {"message": "API key not valid. Please pass a valid API key."})
        401
    """
    error = inner(body)
    if isinstance(error, dict) and (error.get("code") in NO_MONEY or error.get("type") in NO_MONEY):
        return 402
    if status in (400, 422):
        words = words_of(error)
        for row in SAID_AS_400:
            if row.pattern.search(words):
                return row.status
    return status


def is_filtered(status: int, body: Any) -> bool:
    """Whether a prompt is withheld by a filter.

    Example:
        >>> is_filtered(400, {"message": "Content Exists Risk"})
        True
        >>> is_filtered(403, {"message": "your account violates the usage policy"})
        False
    """
    if not 400 <= status < 500 or status in (401, 402, 404, *TRY_AGAIN):
        return False
    error = inner(body)
    if isinstance(error, dict):
        beside = json.dumps(error.get("metadata") or error.get("innererror") or "")
        if any(f'"{name}"' in beside for name in FLAGGED):
            return True
    words = words_of(error)
    if words.lstrip().startswith("<"):  # the page of a firewall, which may hold any word
        return False
    violates = VIOLATES.search(words) is not None and not OF_THE_ACCOUNT.search(words)
    return violates or WITHHELD.search(words) is not None


def status_in(body: Any) -> int | None:
    """The status of a refusal that has status 200, such as an event of a stream."""
    error = inner(body)
    if not isinstance(error, Mapping):
        return None
    code = error.get("code")
    if "rate_limit" in str(code) or "rate_limit" in str(error.get("type")):
        return LIMITED
    if isinstance(code, str) and code.isdecimal():
        code = int(code)
    return code if isinstance(code, int) and 400 <= code < 500 else None


def other_address(url: str) -> str:
    """The address that ``base_url`` probably should be; ``""`` if it looks right.

    Example:
        >>> other_address("http://localhost:11434")
        'http://localhost:11434/v1'
        >>> other_address("https://openrouter.ai")
        'https://openrouter.ai/api/v1'
        >>> other_address("https://host/v1/chat/completions")
        'https://host/v1'
        >>> other_address("https://host/v1")
        ''
    """
    address = re.sub(r"(?:/chat)?/completions/?\Z", "", url)
    parts = urlsplit(address)
    if not re.search(r"/v\d", parts.path):
        path = re.sub(r"/api(?:/chat|/generate)?\Z", "", parts.path)  # Ollama's own interface
        path = CHAT_PATHS.get(parts.hostname or "", f"{path}/v1")
        address = f"{parts.scheme}://{parts.netloc}{path}"
    return "" if address == url else address
