"""A server with OpenAI's chat completions: requests, and the meaning of its answers and refusals."""

import importlib
import json
import os
import re
import sys
import threading
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from typing import TYPE_CHECKING, Any, TypeVar

from ..completions.usable import printable
from ..events import Write
from ..portable import Remade
from .backend import Backend
from .failures import LONGEST, BadRequest, FatalLLMError, Filtered, LLMFailure, StructureRefused, TooLong, Transient, shorten
from .limits import CONNECT, seconds_of
from .network import HIDDEN, SHORTEST, Address, hide_in_logs, redact
from .request import Reply, Request
from .streaming import BROKEN, STREAMED, Writing, read_stream

if TYPE_CHECKING:
    import openai

OPENAI = "https://api.openai.com/v1"
PATIENCE_HERE = 0.05
"""Seconds in which a server on this machine refuses a wrong key, model or quota."""
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
LOGIN = re.compile(r"//[^/@\s]*@")
MARKUP = re.compile(r"<(style|script)\b.*?(?:</\1[^>]*>|\Z)|<[^>]*>", re.IGNORECASE | re.DOTALL)

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
    of_this_process = {"_lock": threading.Lock, "_clients": dict, "secrets": set, "answered": bool}

    def __init__(
        self,
        model: str,
        *,
        base_url: str | None = None,
        api_key_env: str = "OPENAI_API_KEY",
        params: Mapping[str, Any] | None = None,
        timeout: float = 120.0,
        concurrency: int = 32,
        structured: str = "off",
    ) -> None:
        self.address = Address(base_url or os.environ.get("OPENAI_BASE_URL") or OPENAI)
        self.model, self.api_key_env, self.timeout, self.concurrency = model, api_key_env, timeout, concurrency
        self.identity = {"provider": "openai", "model": model, "base_url": self.address.shown, "params": dict(params or {})}
        if structured == "on":
            self.identity["structured"] = structured
        if self.address.local:
            self.patience = PATIENCE_HERE
        self.answered = False
        self.secrets = set(self.address.secrets)
        self._clients: dict[int, openai.OpenAI] = {}
        self._lock = threading.Lock()
        import_early()

    def complete(self, requests: list[Request]) -> list[Reply | LLMFailure]:
        """Answer the one request (see `Backend.complete`)."""
        (request,) = requests
        body = self.body(request)
        # Without the client's typed layer, which takes half of its CPU time. The threads of a stage share one interpreter lock.
        post: Any = {"cast_to": object, "body": body, "options": {"follow_redirects": False}}  # else the key goes to an unknown place
        answer = self.call(lambda client: client.post("/chat/completions", **post), request)
        return [answer if isinstance(answer, LLMFailure) else self.reply(answer)]

    def stream(self, request: Request, write: Write) -> Reply | LLMFailure:
        """Answer one request while ``write`` is told the text (see `Backend.stream`)."""
        import openai

        post: Any = {"cast_to": object, "body": {**self.body(request), **STREAMED}, "options": {"follow_redirects": False}}

        def work(client: openai.OpenAI) -> Any:
            with client.post("/chat/completions", stream=True, stream_cls=openai.Stream[object], **post) as stream:
                if "text/event-stream" in stream.response.headers.get("content-type", ""):
                    return read_stream(stream, Writing(write))
                try:  # a server that can't stream may send it whole
                    stream.response.read()
                except Exception:
                    raise Transient(None, BROKEN) from None
                return json.loads(stream.response.text)

        answer = self.call(work, request)
        if isinstance(answer, BadRequest) and "stream" in answer.reason:  # it can't, or not with the number of tokens
            return self.complete([request])[0]
        return answer if isinstance(answer, LLMFailure) else self.reply(answer)

    def open(self) -> "openai.OpenAI":
        """The client of this process. A forked process must not write into the connections of its parent.

        Raises:
            FatalLLMError: when there is no key, or the environment's proxy or certificates are wrong.
        """
        with self._lock:
            if (found := self._clients.get(os.getpid())) is None:
                found = self._clients[os.getpid()] = self._connected()
        return found

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
        except UnicodeEncodeError:  # nothing was sent
            return half_a_character(request)
        except openai.APIConnectionError as error:
            if isinstance(error, openai.APITimeoutError) and type(error.__cause__).__name__ != "ConnectTimeout":
                raise Transient(None, f"no answer within {self.timeout:g} seconds (timeout=...)") from None
            reason = redact(f"no connection to {self.address.shown}: {error.__cause__ or error}", self.secrets)
            raise Transient(None, reason, unreached=not self.answered) from None
        except openai.APIStatusError as error:
            self.answered = True
            return self.refused(request, error.status_code, error.body, error.response.headers)
        except openai.APIError as error:
            raise self._no_completion(error.body or str(error)) from None
        except (ValueError, RecursionError) as error:
            raise self._no_completion(getattr(error, "doc", str(error))) from None
        self.answered = True
        return found

    def reply(self, answer: Any) -> Reply:
        """The reply in an answer.

        Raises:
            Transient: when it holds none.
        """
        try:
            return Reply.of(answer)
        except (TypeError, KeyError, IndexError, AttributeError):
            raise self._no_completion(answer) from None

    def _no_completion(self, answer: Any) -> Transient:
        self.answered = True
        return Transient(None, f"the server's answer holds no completion. It says: {self.quoted(answer)}")

    def refused(self, request: Request, status: int, body: Any, headers: Mapping[str, str]) -> LLMFailure:
        """The failure for an answer with an HTTP status other than 200.

        Args:
            request: what was asked.
            status: the HTTP status.
            body: the error in the answer, or the whole answer if it has none.
            headers: the answer's headers.

        Raises:
            FatalLLMError: when no other call will do better.
            Transient: when the same call may do better later.
        """
        shown, variable, said = self.address.shown, self.api_key_env, self.quoted(body)
        code, kind = (body.get("code"), body.get("type")) if isinstance(body, dict) else (None, None)
        if 300 <= status < 400:
            to = redact(LOGIN.sub("//***@", headers.get("location", "another place")), self.secrets)
            raise FatalLLMError(f"{shown} redirects to {to} ({status}), and no redirect is followed: correct base_url=...") from None
        if status == 402 or code in NO_MONEY or kind in NO_MONEY:
            raise FatalLLMError(f"the quota of the key in {variable} is exhausted ({said}): add credit or use another key") from None
        fatal = {
            401: f"{shown} does not accept the key in {variable} (401: {said}): set that variable, or name another: api_key_env=NAME",
            403: f"{shown} does not allow the call with the key in {variable} (403): {said}",
            404: f"{shown} has no model {self.model!r}, or no such address (404: {said}): check the name, the key and base_url",
            407: f"the proxy does not allow the call with the key in {variable} (407): {said}",
        }
        if status in fatal:
            raise FatalLLMError(fatal[status]) from None
        if status in TRY_AGAIN or status >= 500:
            wait = seconds_of(headers.get("retry-after"), time.time())
            raise Transient(wait, f"the server answers {status}: {said}", refused=status == 429) from None
        if code == "content_filter":
            return Filtered(request.stage, request.qid, "the provider's content filter withheld the prompt")
        if request.structure is not None and NO_SCHEMA.search(f"{code} {kind} {said}"):
            reason = f"{shown} does not take a JSON schema for the answers of {self.model!r} ({status}: {said}): omit structured=on"
            raise StructureRefused(reason) from None
        failure = TooLong if status == 413 or TOO_LONG.search(f"{code} {kind} {said}") else BadRequest
        return failure(request.stage, request.qid, f"the server rejects the request ({status}): {said}")

    def body(self, request: Request) -> dict[str, Any]:
        """The body of the HTTP request for ``request``."""
        params = {**self.identity["params"], **request.params}
        if "seed" in params:
            params["seed"] += request.draw
        if "max_tokens" in params and self.address.url == OPENAI:
            params["max_completion_tokens"] = params.pop("max_tokens")
        if (form := request.structure) is not None:
            schema = {"name": form.name, "strict": True, "schema": form.schema}
            params["response_format"] = {"type": "json_schema", "json_schema": schema}
        return {"model": self.model, "messages": [dict(message) for message in request.messages], **params}

    def quoted(self, answer: Any) -> str:
        """The server's message in one line: the message field if there is one, the words of a page, or everything."""
        for name in ("error", "message", "detail"):
            answer = (answer.get(name) or answer) if isinstance(answer, dict) else answer
        try:
            text = answer if isinstance(answer, str) else json.dumps(answer, ensure_ascii=False)
        except (RecursionError, ValueError):
            text = "an answer that is nested too deeply"
        words = redact(printable(text), self.secrets)[:LONGEST]  # codes go first: they may split a secret
        words = MARKUP.sub(" ", words) if words.lstrip().startswith("<") else words
        # Servers show the ends of a wrong key, with stars between them.
        return shorten(" ".join(HIDDEN if HIDDEN in word else word for word in words.split())) or "nothing"

    def _connected(self) -> "openai.OpenAI":
        import openai

        key = os.environ.get(self.api_key_env, "").strip()
        if not (key.isascii() and key.isprintable()):
            del key  # some tracebacks show local variables
            raise FatalLLMError(f"the key in {self.api_key_env} has a character that no key has, such as an ellipsis: copy it again")
        if not key and not self.address.local and not self.address.login:
            named = f"set the environment variable {self.api_key_env}, or name another one with api_key_env=NAME"
            raise FatalLLMError(f"there is no key for {self.address.shown}: {named}")
        self.secrets = self.address.secrets | ({key} if len(key) >= SHORTEST and key != NO_KEY else set())
        if self.secrets:
            hide_in_logs(self.secrets)
        login = {"Authorization": f"Basic {self.address.login}"} if self.address.login else {}
        try:
            return openai.OpenAI(
                api_key=key or NO_KEY,
                base_url=self.address.url,
                default_query=self.address.query,
                default_headers=login,
                max_retries=0,
                timeout=openai.Timeout(self.timeout, connect=CONNECT),
            )
        except Exception as error:  # each kind of wrong setting has its own error
            why = shorten(LOGIN.sub("//***@", str(error)))
            raise FatalLLMError(
                f"no connection to {self.address.shown} can be prepared: {why}: correct the proxy or the certificates in the environment"
            ) from None


def half_a_character(request: Request) -> BadRequest:
    """The failure of a request that can't be sent."""
    return BadRequest(request.stage, request.qid, "the prompt holds half a character (a lone surrogate): clean the turn's text")


_importing = threading.Thread(target=importlib.import_module, args=("openai",), name="ikat-import")


def import_early() -> None:
    """Import the client on its own thread. That takes longer than a call, and the pipeline is built meanwhile."""
    if "openai" not in sys.modules:
        with suppress(RuntimeError):  # it has begun
            _importing.start()


def _imported() -> None:
    """A forked process would keep the locks of an import that never ends."""
    if _importing.is_alive():
        _importing.join()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(before=_imported)
