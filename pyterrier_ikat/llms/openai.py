"""A server with OpenAI's chat completions: requests, and the meaning of its answers and refusals."""

import importlib
import json
import logging
import os
import re
import sys
import threading
import time
import traceback
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import TYPE_CHECKING, Any, TypeVar
from urllib.parse import urlsplit

from ..completions.usable import printable
from ..errors import UsageError
from ..events import Write
from .answers import lines_of, read_answer
from .backend import Backend, Remade
from .failures import LONGEST, BadRequest, FatalLLMError, Filtered, LLMFailure, TooLong, Transient, Unanswered, shorten
from .request import NoCompletionError, Reply, Request
from .sending import seconds_of
from .streaming import STREAMED, Reader, Writing

if TYPE_CHECKING:
    import openai

OPENAI = "https://api.openai.com/v1"
CONNECT = 5.0
"""Seconds until a server counts as not reached. A busy server takes less than one second to accept a connection."""
PATIENCE_HERE = 0.05
"""Seconds in which a server on this machine refuses a wrong key, model or quota."""
UNSENT = ("ConnectError", "ConnectTimeout", "PoolTimeout", "UnsupportedProtocol", "ProxyError")
"""The errors of httpx before a request is sent."""
NO_KEY = "none"
TRY_AGAIN = (408, 409, 425, 429)
TOO_LONG = re.compile(
    r"context.(?:length|size|window|limit)|(?:prompt|input) is too long|(?:maximum|allowed) (?:model|prompt|input) length"
    r"|longer than the (?:model|maximum)|reduce (?:the length|your message)|input token count|too large for model|model token limit",
    re.IGNORECASE,
)
"""Words of OpenAI, vLLM, SGLang, llama.cpp, Anthropic, Gemini, Mistral, Groq, xAI and Moonshot about a prompt that exceeds the context."""
NO_SCHEMA = re.compile(r"response.?format|json.?schema|structured.?outputs?|guided.?(?:json|decoding)|grammar", re.IGNORECASE)
"""Messages of servers and their libraries about a request for JSON that they can't serve."""
NO_MONEY = ("insufficient_quota", "billing_hard_limit_reached", "billing_not_active")
FATAL = {
    401: "{url} does not accept the key in {variable} ({said}): set that variable, or name another: api_key_env=NAME",
    402: "the quota of the key in {variable} is exhausted ({said}): add credit or use another key",
    403: "{url} does not allow the call with the key in {variable} ({said})",
    404: "{url} has no model {model!r}, or no such address ({said}): check the name, the key and base_url",
    407: "the proxy does not allow the call ({said})",
}
"""What the user has to repair, by HTTP status."""

Found = TypeVar("Found")


class OpenAIBackend(Remade, Backend):
    """Asks an OpenAI-compatible server, one request per call.

    Args:
        model: the model's name, as the server knows it.
        base_url: the server; else the environment's ``OPENAI_BASE_URL``, else OpenAI.
        api_key_env: the environment variable that holds the key.
        params: decoding parameters (temperature, top_p, top_k, max_tokens, seed, frequency_penalty).
        timeout: seconds without a sign of the server, after which a call counts as failed and is retried.
        concurrency: the maximum number of concurrent calls.
        structured: ``"on"``: requests have the JSON schema of their answer if the operator has one.

    Raises:
        UsageError: when ``base_url`` is not a web address.
    """

    keeps_beginnings = True
    of_this_process = {"_lock": threading.Lock, "_clients": dict, "answered": bool}

    def __init__(
        self,
        model: str,
        *,
        base_url: str = "",
        api_key_env: str = "OPENAI_API_KEY",
        params: Mapping[str, Any] | None = None,
        timeout: float = 120.0,
        concurrency: int = 32,
        structured: str = "off",
    ) -> None:
        address = base_url or os.environ.get("OPENAI_BASE_URL") or OPENAI
        if not re.fullmatch(r"https?://([\w.-]+|\[[\da-f:]+\])(:\d+)?(/[^?#\s]*)?", address, re.IGNORECASE):  # without a secret
            raise UsageError("the address of a server is http://HOST:PORT/PATH or https://HOST/PATH, without a login and a query")
        self.url = address.rstrip("/")
        self.model, self.api_key_env, self.timeout, self.concurrency = model, api_key_env, timeout, concurrency
        self.identity = {"provider": "openai", "model": model, "base_url": self.url, "params": dict(params or {})}
        if structured == "on":
            self.identity["structured"] = structured
        self._here = urlsplit(self.url).hostname in ("localhost", "127.0.0.1", "::1")
        if self._here:
            self.patience = PATIENCE_HERE
        self.answered = False
        self._clients: dict[int, openai.OpenAI] = {}
        self._lock = threading.Lock()
        if "openai" not in sys.modules:  # its import takes longer than a call, and the pipeline is built meanwhile
            threading.Thread(target=importlib.import_module, args=("openai",), name="ikat-import", daemon=True).start()

    def complete(self, requests: list[Request]) -> list[Reply | LLMFailure]:
        """Answer the one request (see `Backend.complete`)."""
        (request,) = requests
        # Without the client's typed layer, which takes half of its CPU time. The threads of a stage share one interpreter lock.
        # No redirect is followed: the key would go to an unknown place.
        post: Any = {"cast_to": object, "body": self.body(request), "options": {"follow_redirects": False}}
        return [self.call(lambda client: Reply.of(_answer_in(client.post("/chat/completions", **post))), request)]

    def stream(self, request: Request, write: Write) -> Reply | LLMFailure:
        """Answer one request while ``write`` is told the text (see `Backend.stream`)."""
        import openai

        post: Any = {"cast_to": object, "body": {**self.body(request), **STREAMED}, "options": {"follow_redirects": False}}

        def work(client: openai.OpenAI) -> Reply:
            with client.post("/chat/completions", stream=True, stream_cls=openai.Stream[object], **post) as stream:
                if isinstance(write, Reader):
                    write.waits_for(stream.response.extensions["network_stream"].get_extra_info("socket"))
                return Reply.of(read_answer(lines_of(_pieces_of(stream)), Writing(write)))

        answer = self.call(work, request)
        if isinstance(answer, BadRequest) and "stream" in answer.reason:  # it can't, or not with the number of tokens
            return self.complete([request])[0]
        return answer

    def open(self) -> "openai.OpenAI":
        """The client of this process. A forked process must not write into the connections of its parent.

        Raises:
            FatalLLMError: when there is no key.
        """
        import openai

        with self._lock:
            if (found := self._clients.get(os.getpid())) is not None:
                return found
            key = os.environ.get(self.api_key_env, "").strip()
            if not (key.isascii() and key.isprintable()):
                del key  # some tracebacks show local variables
                raise FatalLLMError(f"the key in {self.api_key_env} has a character that no key has, such as an ellipsis: copy it again")
            if not key and not self._here:
                named = f"set the environment variable {self.api_key_env}, or name another one with api_key_env=NAME"
                raise FatalLLMError(f"there is no key for {self.url}: {named}")
            if len(key) >= SHORTEST and key != NO_KEY:
                SECRETS.add(key)
            for name in HTTP_LOGGERS:
                logging.getLogger(name).addFilter(_filter)
            timeout = openai.Timeout(self.timeout, connect=CONNECT)
            made = openai.OpenAI(api_key=key or NO_KEY, base_url=self.url, max_retries=0, timeout=timeout)
            self._clients[os.getpid()] = made
        return made

    def close(self) -> None:
        """Close the connections. The next call opens them again."""
        with self._lock:
            client = self._clients.pop(os.getpid(), None)
        if client is not None:
            client.close()

    def call(self, work: "Callable[[openai.OpenAI], Found]", request: Request) -> Found | LLMFailure:
        """The result of ``work`` with the server.

        Raises:
            FatalLLMError: when no other call will do better.
            Transient: when the same call may do better later.
        """
        import openai

        client = self.open()
        try:
            found = work(client)
        except UnicodeEncodeError:
            half = "the prompt holds half a character (a lone surrogate): clean the turn's text"
            return BadRequest(request.stage, request.qid, half, unanswered=Unanswered.UNSENT)
        except openai.APIConnectionError as error:
            unsent = type(error.__cause__).__name__ in UNSENT
            unanswered = Unanswered.UNSENT if unsent else Unanswered.LOST
            if isinstance(error, openai.APITimeoutError) and not unsent:
                reason = f"no answer within {self.timeout:g} seconds (timeout=...)"
                raise Transient(None, reason, unanswered=unanswered) from None
            reason = hidden(f"no connection to {self.url}: {error.__cause__ or error}")
            raise Transient(None, reason, unreached=not self.answered, unanswered=unanswered) from None
        except openai.APIStatusError as error:
            self.answered = True
            return self.refused(request, error.status_code, error.body, error.response.headers)
        except (openai.APIError, ValueError, RecursionError) as error:
            self.answered = True
            answer = getattr(error, "body", None) or getattr(error, "doc", None) or str(error)
            reason = f"the server's answer holds no completion. It says: {quoted(answer)}"
            paid, unanswered = list[Reply](), Unanswered.LOST
            if isinstance(error, NoCompletionError):
                paid = error.paid
                if isinstance(error.body, dict) and error.body.get("error") and not error.body.get("choices"):
                    unanswered = Unanswered.REFUSED
            raise Transient(None, reason, unanswered=unanswered, paid=paid) from None
        self.answered = True
        return found

    def result(self, work: "Callable[[openai.OpenAI], Found]") -> Found:
        """The result of ``work`` that belongs to no request, such as sending a file.

        Raises:
            FatalLLMError: when the server refuses it.
            Transient: when the same may do better later.
        """
        found = self.call(work, Request([], "", ""))
        if isinstance(found, LLMFailure):
            raise FatalLLMError(found.reason)
        return found

    def refused(self, request: Request, status: int, body: Any, headers: Mapping[str, str]) -> LLMFailure:
        """The failure for an answer with an HTTP status other than 200.

        Args:
            request: the request.
            status: the status.
            body: the answer, parsed if it is JSON.
            headers: the answer's headers.

        Raises:
            FatalLLMError: when no later call can succeed.
            Transient: when the same call may succeed later.
        """
        said = f"{status}: {quoted(body)}"
        code, kind = (body.get("code"), body.get("type")) if isinstance(body, dict) else (None, None)
        if 300 <= status < 400:
            raise FatalLLMError(f"{self.url} redirects ({status}), and no redirect is followed: correct base_url=...") from None
        if code in NO_MONEY or kind in NO_MONEY:
            status = 402
        if status in FATAL:
            raise FatalLLMError(FATAL[status].format(url=self.url, variable=self.api_key_env, model=self.model, said=said)) from None
        if status in TRY_AGAIN or status >= 500:
            wait = seconds_of(headers.get("retry-after"), time.time())
            raise Transient(wait, f"the server answers {said}") from None
        if code == "content_filter":
            return Filtered(request.stage, request.qid, "the provider's content filter withheld the prompt")
        words = f"{code} {kind} {said}"
        if request.structure is not None and NO_SCHEMA.search(words):
            told = f"{self.url} does not take a JSON schema for the answers of {self.model!r} ({said}): omit structured=on"
            raise FatalLLMError(told) from None
        failure = TooLong if status == 413 or TOO_LONG.search(words) else BadRequest
        return failure(request.stage, request.qid, f"the server rejects the request ({said})")

    def body(self, request: Request) -> dict[str, Any]:
        """The body of the HTTP request for ``request``."""
        params = {**self.identity["params"], **request.params}
        if "seed" in params:
            params["seed"] += request.draw
        if "max_tokens" in params and self.url == OPENAI:
            params["max_completion_tokens"] = params.pop("max_tokens")
        if (form := request.structure) is not None:
            schema = {"name": form.name, "strict": True, "schema": form.schema}
            params["response_format"] = {"type": "json_schema", "json_schema": schema}
        return {"model": self.model, "messages": [dict(message) for message in request.messages], **params}


def _answer_in(body: Any) -> Any:
    """The chat completion in what the client makes of a body: parsed JSON, or a text if the server calls it something else."""
    return read_answer(lines_of([body.encode()])) if isinstance(body, str) else body


def _pieces_of(stream: "openai.Stream[object]") -> Iterator[bytes]:
    """The bytes of a body, as they come.

    Raises:
        openai.APIConnectionError: when the connection breaks. The client's own stream, which can't be used, raises the same.
    """
    import openai

    try:
        yield from stream.response.iter_bytes()
    except Exception as error:  # of httpx or httpx2, whichever the client uses
        kind = openai.APITimeoutError if "Timeout" in type(error).__name__ else openai.APIConnectionError
        raise kind(request=stream.response.request) from error


def quoted(answer: Any) -> str:
    """The server's message in one line: the message field if there is one, or everything."""
    for name in ("error", "message", "detail"):
        answer = (answer.get(name) or answer) if isinstance(answer, dict) else answer
    text = answer if isinstance(answer, str) else json.dumps(answer, ensure_ascii=False)
    words = hidden(printable(text[:LONGEST])).split()  # codes go first: they may split a key
    # Servers show the ends of a wrong key, with stars between them.
    return shorten(" ".join("***" if "***" in word else word for word in words)) or "nothing"


SECRETS = set[str]()
"""The keys of this process."""
SHORTEST = 4
"""Characters from which on a text is a secret, and not a syllable of every message."""
_CORE = ("connection", "http11", "http2", "proxy", "socks")
HTTP_LOGGERS = ("httpx", "httpx2", "openai._base_client", *(f"{core}.{part}" for core in ("httpcore", "httpcore2") for part in _CORE))
"""The loggers that write records. A filter does not reach the records of the loggers below it."""


def hidden(text: str, secrets: Iterable[str] = SECRETS) -> str:
    """``text`` without secrets."""
    for secret in secrets:
        text = text.replace(secret, "***")
    return text


class RedactingFilter(logging.Filter):
    """Removes keys from the log records of the HTTP client, which writes the server's headers."""

    def filter(self, record: logging.LogRecord) -> bool:
        """Rewrite the record. It is always kept."""
        record.msg, record.args = hidden(record.getMessage()), ()
        if record.exc_info:
            record.exc_text, record.exc_info = hidden("".join(traceback.format_exception(*record.exc_info))), None
        return True


_filter = RedactingFilter()
