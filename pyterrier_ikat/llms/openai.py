"""OpenAI-compatible servers: one client per address, several servers behind one name."""

import json
import os
import re
import threading
import time
import warnings
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any
from urllib.parse import urljoin

from ..operator import Remade
from .failures import BadRequest, FatalLLMError, Filtered, LLMFailure, Transient, shorten
from .limits import seconds_of
from .network import HIDDEN, Address, Network, addresses, connect, deadline, is_distinctive, redact
from .request import Backend, Reply, Request

if TYPE_CHECKING:
    import openai

FAILURES = 3
SILENT = 10.0
"""Seconds after which a server that has never answered is named, while it is still waited for."""
LATEST_TRY = 0.7
"""The share of them after which a try may be the last one before 15 seconds are over."""


class ServerLeftOutWarning(UserWarning):
    """One of several servers failed several times in a row; the others take its calls."""


class SilentServerWarning(UserWarning):
    """A server took the first call and does not answer; it is waited for until the call's time is over."""


class Server:
    """One server and the client that talks to it, which all stages and threads share.

    Args:
        address: its base URL.
        api_key_env: the environment variable that holds the key.
        timeout: seconds that a call may take as a whole.

    Attributes:
        answered: whether anything ever came back from it.
        silent_since: when it was first called, as long as nothing came back.
        busy: calls in flight.
        failures: calls that failed in a row.
    """

    def __init__(self, address: Address, api_key_env: str, timeout: float) -> None:
        self.address, self.api_key_env, self.timeout = address, api_key_env, timeout
        self.busy, self.failures, self.answered, self._told = 0, 0, False, False
        self.silent_since: float | None = None
        self._secrets: set[str] = set(self.address.secrets)
        self._client: openai.OpenAI | None = None
        self._network = Network()
        self._lock = threading.Lock()

    def __reduce__(self) -> tuple[Any, ...]:
        return Server, (self.address, self.api_key_env, self.timeout)  # another process finds the key in its own environment

    @property
    def client(self) -> "openai.OpenAI":
        """The client, made at first use.

        Raises:
            FatalLLMError: when there is no key for it.
        """
        with self._lock:
            if self._client is None:
                self._client, self._network, key = connect(self.address, self.api_key_env, self.timeout)
                self._secrets |= key
            return self._client

    def close(self) -> None:
        """Close the connections; the next call opens them again."""
        client, self._client = self._client, None
        if client is not None:
            client.close()

    def cut(self) -> None:
        """End the calls that are under way, without their answers."""
        self._network.cut()

    def clean(self, text: str) -> str:
        """``text`` without the key and what is secret in the address."""
        return redact(text, self._secrets)

    def clean_completion(self, text: str) -> str:
        """What a model wrote, without secrets, but with what is a word or too short to tell: a key may read ``ollama``."""
        return redact(text, filter(is_distinctive, self._secrets))

    @contextmanager
    def first_answer(self) -> Iterator[None]:
        """While the block waits for the server's very first answer, say so once when it takes long, over all tries."""
        if self.answered or self._told:
            yield
            return
        self.silent_since = self.silent_since or time.monotonic()
        waited = time.monotonic() - self.silent_since
        timer = threading.Timer(SILENT - waited if waited < LATEST_TRY * SILENT else 0.0, self._tell)
        timer.daemon = True
        timer.start()
        try:
            yield
        finally:
            timer.cancel()

    def _tell(self) -> None:
        with self._lock:
            tell, self._told = not (self._told or self.answered), True
        if tell:
            waited = f"has not answered for {round(time.monotonic() - (self.silent_since or 0.0), 2):g} seconds"
            message = f"{self.address.shown} {waited}; each try waits for it up to {self.timeout:g} (timeout=...)"
            warnings.warn(message, SilentServerWarning, stacklevel=1)


class Servers(Remade):
    """Servers of the same model; each call goes to the one with the fewest calls in flight.

    A server that fails three times in a row (no connection, no answer in time, 5xx, no chat completion) is left out and named in a
    `ServerLeftOutWarning`, as long as another one works; when none does, all are tried again.

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
            server = min(self._working(), key=lambda one: one.busy)
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
        """Whether nothing ever came back from any server, now that ``server`` has failed and all others have."""
        return all(not one.answered and (one.failures > 0 or one is server) for one in self.all)

    def _working(self) -> list[Server]:
        return [server for server in self.all if server.failures < FAILURES] or self.all

    def _failed(self, server: Server, error: Transient) -> None:
        with self._lock:
            server.failures = 0 if error.overloaded else server.failures + 1
            just_now = server.failures == FAILURES
            left = ", ".join(one.address.shown for one in self.all if one.failures < FAILURES)
        if just_now and left:
            message = f"{server.address.shown} is left out after {FAILURES} failures in a row ({error.reason}): its calls go to {left}"
            warnings.warn(message, ServerLeftOutWarning, stacklevel=2)


OPENAI = "https://api.openai.com/v1"
TRY_AGAIN = (408, 409, 425, 429)
MARKUP = re.compile(r"<(style|script)\b.*?</\1\s*>|<[^>]*>", re.IGNORECASE | re.DOTALL)
MASKED = re.compile(r"\S*\*{3,}\S*")
NO_MONEY = ("insufficient_quota", "billing_hard_limit_reached", "billing_not_active")


class OpenAIBackend(Backend):
    """Asks an OpenAI-compatible server, one request per call.

    Args:
        model: the model's name, as the server knows it.
        base_url: the server; else the environment's ``OPENAI_BASE_URL``, else OpenAI. Several, separated by commas, share the calls: they
            have to serve the same model. The first one's address stands for all in the cache key, so that adding machines repeats nothing.
        api_key_env: the environment variable that holds the key.
        params: decoding parameters (temperature, top_p, top_k, max_tokens, seed).
        timeout: seconds that a call may take as a whole, from name look-up to the last byte; then it counts as failed and is tried again.
        concurrency: the most calls at a time, over all servers.

    Raises:
        UsageError: when ``base_url`` is no web address.
    """

    def __init__(
        self,
        model: str,
        *,
        base_url: str | None = None,
        api_key_env: str = "OPENAI_API_KEY",
        params: Mapping[str, Any] | None = None,
        timeout: float = 120.0,
        concurrency: int = 32,
    ) -> None:
        urls = addresses(base_url or os.environ.get("OPENAI_BASE_URL") or OPENAI)
        self.model, self.timeout = model, timeout
        self.servers = Servers([Server(Address(url), api_key_env, timeout) for url in urls])
        base_url = self.servers.all[0].address.identity
        self.identity = {"provider": "openai", "model": model, "base_url": base_url, "params": dict(params or {})}
        self.concurrency = concurrency

    def complete(self, requests: list[Request]) -> list[Reply | LLMFailure]:
        """Answer the one request (see `Backend.complete`)."""
        with self.servers.next() as server:
            return [self._ask(server, request) for request in requests]

    def open(self) -> None:
        """Load the client, so that the first call does not have to.

        Raises:
            FatalLLMError: when there is no key.
        """
        for server in self.servers.all:
            _ = server.client

    def close(self) -> None:
        """Close the connections; the next call opens them again."""
        for server in self.servers.all:
            server.close()

    def cut(self) -> None:
        """End the calls that are under way, without their answers."""
        for server in self.servers.all:
            server.cut()

    def __del__(self) -> None:
        if "servers" in vars(self):
            self.close()

    def _ask(self, server: Server, request: Request) -> Reply | LLMFailure:
        import openai

        try:
            # Without the client's typed layer, which takes half of its CPU time: a stage's threads share one interpreter lock.
            with server.first_answer(), deadline(server.timeout):
                answer = server.client.post("/chat/completions", cast_to=object, body=self._body(server, request))
        except UnicodeEncodeError:
            return BadRequest(request.stage, request.qid, "the prompt holds half a character (a lone surrogate): clean the turn's text")
        except (openai.APITimeoutError, TimeoutError):
            raise Transient(None, f"no answer within {server.timeout:g} seconds (timeout=...)") from None
        except (openai.APIConnectionError, ConnectionError) as error:
            server.silent_since = None
            reason = server.clean(f"no connection to {server.address.shown}: {error.__cause__ or error}")
            raise Transient(None, reason, unreached=self.servers.unreached(server)) from None
        except openai.APIStatusError as error:
            server.answered = True
            return self._refused(server, request, error)
        except (openai.APIError, ValueError, RecursionError) as error:
            answer = getattr(error, "doc", str(error))
        server.answered = True
        try:
            return Reply.of(answer, server.clean_completion)
        except (TypeError, KeyError, IndexError, AttributeError):
            raise Transient(None, f"the server's answer holds no completion, it says: {_quoted(server, answer)}") from None

    def _refused(self, server: Server, request: Request, error: "openai.APIStatusError") -> LLMFailure:
        shown, variable = server.address.shown, server.api_key_env
        status, code, said = error.status_code, error.code or "", _quoted(server, error.body)
        to = _target(server, error.response.headers.get("location", ""))
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
                status == 402 or not {code, error.type}.isdisjoint(NO_MONEY),
                f"the quota of the key in {variable} is exhausted ({said}): add credit or use another key",
            ),
        ]
        for holds, reason in fatal:
            if holds:
                raise FatalLLMError(reason) from None
        if status in TRY_AGAIN or status >= 500:
            wait = seconds_of(error.response.headers.get("retry-after"), time.time())
            raise Transient(wait, f"the server answers {status}: {said}", overloaded=status == 429) from None
        if code == "content_filter":
            return Filtered(request.stage, request.qid, "the provider's content filter withheld the prompt")
        return BadRequest(request.stage, request.qid, f"the server rejects the request ({status}): {said}")

    def _body(self, server: Server, request: Request) -> dict[str, Any]:
        params = {**self.identity["params"], **request.params}
        if "seed" in params:
            params["seed"] += request.draw
        if "max_tokens" in params and server.address.url == OPENAI:
            params["max_completion_tokens"] = params.pop("max_tokens")
        return {"model": self.model, "messages": [dict(message) for message in request.messages], **params}


def _quoted(server: Server, answer: Any) -> str:
    """What the server said, in one line: its message where it has one, the words of a page, or all of it."""
    for name in ("error", "message", "detail"):
        answer = (answer.get(name) or answer) if isinstance(answer, dict) else answer
    text = answer if isinstance(answer, str) else json.dumps(answer, ensure_ascii=False)
    words = MARKUP.sub(" ", text) if text.lstrip().startswith("<") else text
    # Servers name a wrong key by its ends, with stars between them.
    return shorten(MASKED.sub(HIDDEN, server.clean(words))) or "nothing"


def _target(server: Server, location: str) -> str:
    try:
        return server.clean(Address(urljoin(f"{server.address.url}/chat/completions", location)).shown)
    except ValueError:
        return "no web address"
