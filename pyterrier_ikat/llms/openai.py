"""OpenAI-compatible servers: the choice of a server for a call, requests, and the meaning of answers and refusals."""

import importlib
import json
import os
import re
import sys
import threading
import time
import warnings
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from typing import Any
from urllib.parse import urljoin

from ..completions.usable import printable
from ..events import Write
from ..portable import Remade
from .failures import LONGEST, BadRequest, FatalLLMError, Filtered, LLMFailure, StructureRefused, TooLong, Transient, shorten
from .limits import seconds_of
from .network import HIDDEN, Address, Found, Server, Work, addresses
from .request import Backend, Reply, Request
from .streaming import STREAMED, Writing, read_stream

OPENAI = "https://api.openai.com/v1"
PATIENCE_HERE = 0.05
"""Seconds in which a server on this machine refuses a wrong key, model or quota."""
TRY_AGAIN = (408, 409, 425, 429)
NO_WORDS = re.compile(r"<(style|script)\b", re.IGNORECASE)
TOO_LONG = re.compile(
    r"context.(?:length|size|window|limit)|(?:prompt|input) is too long|(?:maximum|allowed) (?:model|prompt|input) length"
    r"|longer than the (?:model|maximum)|reduce (?:the length|your message)|input token count|too large for model|model token limit",
    re.IGNORECASE,
)
"""Words of OpenAI, vLLM, SGLang, llama.cpp, Anthropic, Gemini, Mistral, Groq, xAI and Moonshot about a prompt that exceeds the context."""
NO_SCHEMA = re.compile(r"response.?format|json.?schema|structured.?outputs?|guided.?(?:json|decoding)|grammar", re.IGNORECASE)
"""Messages of servers and their libraries about a request for JSON that they can't serve."""
NO_MONEY = ("insufficient_quota", "billing_hard_limit_reached", "billing_not_active")
FAILURES = 3
"""Failures in a row after which a server gets no more calls."""
FORK_WAITS = 10.0
"""The maximum number of seconds that a fork waits for the import of the client."""


class ServerLeftOutWarning(UserWarning):
    """One of several servers failed several times in a row. The others take its calls."""


class Servers(Remade):
    """Servers of the same model; each call goes to the one with the fewest calls in flight.

    A server that fails three times in a row (no connection, no answer in time, 5xx, no chat completion) gets no more calls and is named in
    a `ServerLeftOutWarning`, as long as another server works; if none does, all are retried.

    Args:
        servers: at least one.
    """

    of_this_process = {"_lock": threading.Lock}

    def __init__(self, servers: list[Server]) -> None:
        self.all = servers
        self._lock = threading.Lock()

    @contextmanager
    def next(self) -> Iterator[Server]:
        """The server for one call, held until the call has ended."""
        with self._lock:
            server = min(self.all, key=lambda one: (one.failures >= FAILURES, one.busy))
            server.busy += 1
        try:
            yield server
            server.failures = 0
        except Transient as error:
            self._failed(server, error)
            raise
        finally:
            with self._lock:
                server.busy -= 1

    def unreached(self, server: Server) -> bool:
        """Whether no server ever answered, now that ``server`` and all others have failed."""
        return all(not one.answered and (one.failures > 0 or one is server) for one in self.all)

    def _failed(self, server: Server, error: Transient) -> None:
        with self._lock:
            server.failures = 0 if error.overloaded else server.failures + 1
            just_now = server.failures == FAILURES
            left = ", ".join(one.address.shown for one in self.all if one.failures < FAILURES)
        if just_now and left:
            message = f"{server.address.shown} gets no more calls after {FAILURES} failures in a row ({error.reason}): they go to {left}"
            warnings.warn(message, ServerLeftOutWarning, stacklevel=2)


class OpenAIBackend(Backend):
    """Asks an OpenAI-compatible server, one request per call.

    Args:
        model: the model's name, as the server knows it.
        base_url: the server; else the environment's ``OPENAI_BASE_URL``, else OpenAI. Several, separated by commas, share the calls: they
            have to serve the same model. The address of the first represents all in the cache key, so adding machines repeats nothing.
        api_key_env: the environment variable that holds the key.
        params: decoding parameters (temperature, top_p, top_k, max_tokens, seed, frequency_penalty).
        timeout: seconds that a call may take as a whole, from name look-up to the last byte. Then it counts as failed and is retried.
        concurrency: the maximum number of concurrent calls, over all servers.
        structured: ``"on"``: requests have the JSON schema of their answer if the operator has one.

    Raises:
        UsageError: when ``base_url`` is not a web address.
    """

    keeps_beginnings = True

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
        urls = addresses(base_url or os.environ.get("OPENAI_BASE_URL") or OPENAI)
        self.model, self.timeout = model, timeout
        self.servers = Servers([Server(Address(url), api_key_env, timeout) for url in urls])
        base_url = self.servers.all[0].address.identity
        self.identity = {"provider": "openai", "model": model, "base_url": base_url, "params": dict(params or {})}
        if structured == "on":
            self.identity["structured"] = structured
        self.concurrency = concurrency
        if all(server.address.local for server in self.servers.all):
            self.patience = PATIENCE_HERE
        import_client()

    def complete(self, requests: list[Request]) -> list[Reply | LLMFailure]:
        """Answer the one request (see `Backend.complete`)."""
        (request,) = requests
        with self.servers.next() as server:
            return [self._ask(server, request)]

    def stream(self, request: Request, write: Write) -> Reply | LLMFailure:
        """Answer one request while ``write`` is told the text (see `Backend.stream`)."""
        with self.servers.next() as server:
            return self._ask(server, request, write)

    def open(self) -> None:
        """Load the client, so that the first call does not need to.

        Raises:
            FatalLLMError: when there is no key.
        """
        for server in self.servers.all:
            server.open()

    def close(self) -> None:
        """Close the connections. The next call opens them again."""
        for server in self.servers.all:
            server.close()

    def cut(self) -> None:
        """End the calls that are under way, without their answers."""
        for server in self.servers.all:
            server.cut()

    def call(self, server: Server, work: Work[Found], seconds: float) -> Found:
        """The result of ``work`` with ``server``, if it comes in time.

        Raises:
            Transient: when it isn't in time, or the server is not reached.
            Exception: of ``work``.
        """
        import openai

        try:
            found = server.call(work, seconds)
        except (openai.APITimeoutError, TimeoutError):
            raise Transient(None, f"no answer within {seconds:g} seconds (timeout=...)") from None
        except (openai.APIConnectionError, ConnectionError) as error:
            server.silent_since = None
            reason = server.clean(f"no connection to {server.address.shown}: {error.__cause__ or error}")
            raise Transient(None, reason, unreached=self.servers.unreached(server)) from None
        except UnicodeEncodeError:  # nothing was sent
            raise
        except Exception:
            server.answered = True
            raise
        server.answered = True
        return found

    def _ask(self, server: Server, request: Request, write: Write | None = None) -> Reply | LLMFailure:
        import openai

        body = self.body(server, request)
        try:
            if write is not None:
                answer = self._follow(server, body, write)
            else:
                # Without the client's typed layer, which takes half of its CPU time. The threads of a stage share one interpreter lock.
                answer = self.call(server, lambda client: client.post("/chat/completions", cast_to=object, body=body), server.timeout)
        except UnicodeEncodeError:
            return half_a_character(request)
        except openai.APIStatusError as error:
            if write is not None and error.status_code in (400, 422) and "stream" in quoted(server, error.body):
                return self._ask(server, request)  # the server can't stream, or not with the number of tokens
            return self.refused(server, request, error.status_code, error.body, error.response.headers)
        except (openai.APIError, ValueError, RecursionError) as error:
            answer = getattr(error, "doc", str(error))
        return completed(server, answer)

    def _follow(self, server: Server, body: dict[str, Any], write: Write) -> Any:
        """The answer to a request. ``write`` gets its text while it arrives. A server that can't stream may send it whole."""
        import openai

        def told(text: str) -> None:
            server.answered = True
            write(text)

        def work(client: openai.OpenAI) -> Any:
            options: dict[str, Any] = {"stream": True, "stream_cls": openai.Stream[object]}
            with client.post("/chat/completions", cast_to=object, body={**body, **STREAMED}, **options) as stream:
                if "text/event-stream" in stream.response.headers.get("content-type", ""):
                    return read_stream(stream.response.iter_lines(), Writing(told, server.clean_unfinished))
                stream.response.read()
                return json.loads(stream.response.text)

        return self.call(server, work, server.timeout)

    def refused(self, server: Server, request: Request, status: int, body: Any, headers: Mapping[str, str]) -> LLMFailure:
        """The failure for an answer with an HTTP status other than 200.

        Args:
            server: who answers.
            request: what was asked.
            status: the HTTP status.
            body: the error in the answer, or the whole answer if it has none.
            headers: the answer's headers.

        Raises:
            FatalLLMError: when no other call will do better.
            Transient: when the same call may do better later.
        """
        shown, variable = server.address.shown, server.api_key_env
        code, kind = (body.get("code"), body.get("type")) if isinstance(body, dict) else (None, None)
        said = quoted(server, body)
        to = _target(server, headers.get("location", ""))
        fatal = [
            (300 <= status < 400, f"{shown} redirects to {to} ({status}), and no redirect is followed: correct base_url=..."),
            (
                status == 401,
                f"{shown} does not accept the key in {variable} (401: {said}): set that variable, or name another one with "
                "api_key_env=VARIABLE",
            ),
            (status == 403, f"{shown} does not allow the call with the key in {variable} (403): {said}"),
            (status == 407, f"the proxy does not allow the call with the key in {variable} (407): {said}"),
            (status == 404, f"{shown} has no model {self.model!r} (404: {said}): check the name and base_url"),
            (
                status == 402 or code in NO_MONEY or kind in NO_MONEY,
                f"the quota of the key in {variable} is exhausted ({said}): add credit or use another key",
            ),
        ]
        for holds, reason in fatal:
            if holds:
                raise FatalLLMError(reason) from None
        if status in TRY_AGAIN or status >= 500:
            wait = seconds_of(headers.get("retry-after"), time.time())
            raise Transient(wait, f"the server answers {status}: {said}", overloaded=status == 429, told=True) from None
        if code == "content_filter":
            return Filtered(request.stage, request.qid, "the provider's content filter withheld the prompt")
        if request.structure is not None and NO_SCHEMA.search(f"{code} {kind} {said}"):
            reason = f"{shown} does not take a JSON schema for the answers of {self.model!r} ({status}: {said}): omit structured=on"
            raise StructureRefused(reason) from None
        failure = TooLong if status == 413 or TOO_LONG.search(f"{code} {kind} {said}") else BadRequest
        return failure(request.stage, request.qid, f"the server rejects the request ({status}): {said}")

    def body(self, server: Server, request: Request) -> dict[str, Any]:
        """The body of the HTTP request for ``request``."""
        params = {**self.identity["params"], **request.params}
        if "seed" in params:
            params["seed"] += request.draw
        if "max_tokens" in params and server.address.url == OPENAI:
            params["max_completion_tokens"] = params.pop("max_tokens")
        if (form := request.structure) is not None:
            schema = {"name": form.name, "strict": True, "schema": form.schema}
            params["response_format"] = {"type": "json_schema", "json_schema": schema}
        return {"model": self.model, "messages": [dict(message) for message in request.messages], **params}


def half_a_character(request: Request) -> BadRequest:
    """The failure of a request that can't be sent."""
    return BadRequest(request.stage, request.qid, "the prompt holds half a character (a lone surrogate): clean the turn's text")


def completed(server: Server, answer: Any) -> Reply:
    """The reply in an answer of ``server``.

    Raises:
        Transient: when it holds none.
    """
    try:
        return Reply.of(answer, server.clean_completion)
    except (TypeError, KeyError, IndexError, AttributeError):
        raise Transient(None, f"the server's answer holds no completion. It says: {quoted(server, answer)}") from None


def quoted(server: Server, answer: Any) -> str:
    """The server's message in one line: the message field if there is one, the words of a page, or everything."""
    for name in ("error", "message", "detail"):
        answer = (answer.get(name) or answer) if isinstance(answer, dict) else answer
    # Remove codes first: they may split a secret.
    words = server.clean(printable(answer if isinstance(answer, str) else _dumped(answer)))
    words = words if len(words) <= LONGEST else " ".join(words[:LONGEST].split()[:-1])
    words = _without_markup(words) if words.lstrip().startswith("<") else words
    # Servers show the ends of a wrong key, with stars between them.
    return shorten(" ".join(HIDDEN if HIDDEN in word else word for word in words.split())) or "nothing"


def _dumped(answer: Any) -> str:
    try:
        return json.dumps(answer, ensure_ascii=False)
    except (RecursionError, ValueError):
        return "an answer that is nested too deeply"


def _without_markup(page: str) -> str:
    """The words of an HTML page. An element that is never closed ends it, so no part of a page is searched twice."""
    words, place = list[str](), 0
    while (start := page.find("<", place)) >= 0:
        words.append(page[place:start])
        hidden = NO_WORDS.match(page, start)
        closing = re.compile(f"</{hidden[1]}", re.IGNORECASE).search(page, start) if hidden else None
        end = -1 if hidden and not closing else page.find(">", closing.start() if closing else start)
        if end < 0:
            return " ".join(words)
        place = end + 1
    return " ".join([*words, page[place:]])


def _target(server: Server, location: str) -> str:
    try:
        return server.clean(Address(urljoin(f"{server.address.url}/chat/completions", location)).shown)
    except ValueError:
        return "no web address"


_importing = threading.Thread(target=lambda: None)


def import_client() -> None:
    """Start importing the client on its own thread. The import takes longer than a call, and the pipeline is built meanwhile.

    A fork waits until it is done, because the child would keep the locks of an import that never ends.
    """
    global _importing
    if "openai" not in sys.modules:
        # Not a daemon: the interpreter must not end during the import of compiled modules.
        _importing = threading.Thread(target=_import, name="ikat-import")
        _importing.start()


def _import() -> None:
    with suppress(Exception):  # the first call says what is wrong
        importlib.import_module("openai")


def _imported() -> None:
    if _importing.is_alive():
        _importing.join(FORK_WAITS)


if hasattr(os, "register_at_fork"):
    os.register_at_fork(before=_imported)
