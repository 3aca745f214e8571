"""Servers with OpenAI's chat completions: their requests, answers and refusals."""

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
from typing import TYPE_CHECKING, Any, NoReturn, TypeVar
from urllib.parse import urlsplit

from ..completions.usable import printable
from ..errors import UsageError
from ..events import Write
from .answers import lines_of, read_answer
from .backend import Backend, Remade
from .failures import (
    LONGEST,
    REFUSED,
    BadRequest,
    FatalLLMError,
    Filtered,
    LLMFailure,
    TooLong,
    Transient,
    Unanswered,
    shorten,
)
from .refusals import (
    FATAL,
    LIMITED,
    NO_ADDRESS,
    NO_SCHEMA,
    OTHER_NAME,
    TOO_LARGE,
    TOO_LONG,
    TRY_AGAIN,
    inner,
    is_filtered,
    other_address,
    real_status,
    status_in,
    words_of,
)
from .request import NoCompletionError, Reply, Request
from .streaming import STREAMED, Writing
from .waits import asked_wait

if TYPE_CHECKING:
    import openai

OPENAI = "https://api.openai.com/v1"
CONNECT = 5.0
"""Seconds until a server counts as not reached. A busy one takes less than a second to accept."""
PATIENCE_HERE = 0.05
"""Seconds in which a server on this machine refuses a wrong key, model or quota."""
UNSENT = ("ConnectError", "ConnectTimeout", "PoolTimeout", "UnsupportedProtocol", "ProxyError")
"""The errors of httpx before a request is sent."""
NO_KEY = "none"
ADDRESS = re.compile(r"https?://([\w.-]+|\[[\da-f:]+\])(:\d+)?(/[^?#\s]*)?", re.IGNORECASE)
"""An address without a login and a query, which may hold a secret."""

Found = TypeVar("Found")


class OtherNameError(Transient):
    """The server wants ``max_completion_tokens``, which the next try sends."""


class OpenAIBackend(Remade, Backend):
    """Asks an OpenAI-compatible server, one request per call.

    Args:
        model: the model's name, as the server knows it.
        base_url: the server; else the environment's ``OPENAI_BASE_URL``, else OpenAI.
        api_key_env: the environment variable that holds the key.
        params: decoding parameters (temperature, top_p, top_k, max_tokens, seed,
            frequency_penalty).
        timeout: seconds without a sign of the server, after which a call counts as failed and is
            retried.
        concurrency: the maximum number of concurrent calls.
        structured: ``"on"``: requests have the JSON schema of their answer if the operator has one.
        body: further fields of each request, see `pyterrier_ikat.llms.extra`.

    Attributes:
        answered: whether the server has answered in this process, in whatever way.
        accepted: whether it has completed a chat, so that it accepts the key, the model and the
            address.
        seen: gets each answer as the server sends it, for `LLM.check`.
        completion_limit: whether it is sent ``max_completion_tokens`` instead of ``max_tokens``:
            OpenAI is, and who asks for it.

    Raises:
        UsageError: when ``base_url`` is not a web address.
    """

    keeps_beginnings = True
    seen: Callable[[Any], None] | None = None
    of_this_process = {
        "_lock": threading.Lock,
        "_clients": dict,
        "answered": bool,
        "accepted": bool,
    }

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
        body: Mapping[str, Any] | None = None,
    ) -> None:
        address = base_url or os.environ.get("OPENAI_BASE_URL") or OPENAI
        if not ADDRESS.fullmatch(address):
            raise UsageError(
                "the address of a server is http://HOST:PORT/PATH or https://HOST/PATH, "
                "without a login and a query"
            )
        self.url = address.rstrip("/")
        self.model = model
        self.api_key_env = api_key_env
        self.timeout = timeout
        self.concurrency = concurrency
        self.identity = {
            "provider": "openai",
            "model": model,
            "base_url": self.url,
            "params": dict(params or {}),
        }
        if structured == "on":
            self.identity["structured"] = structured
        self.more = dict(body or {})
        if self.more:
            self.identity["body"] = self.more
        host = urlsplit(self.url).hostname
        self._is_here = host in ("localhost", "127.0.0.1", "::1")
        if self._is_here:
            self.patience = PATIENCE_HERE
        self.answered = False
        self.accepted = False
        self.completion_limit = f".{host}".endswith(".api.openai.com")
        self._clients: dict[int, openai.OpenAI] = {}
        self._lock = threading.Lock()
        if "openai" not in sys.modules:
            # Its import takes longer than a call, and the pipeline is built meanwhile.
            threading.Thread(
                target=importlib.import_module, args=("openai",), name="ikat-import", daemon=True
            ).start()

    def complete(self, requests: list[Request]) -> list[Reply | LLMFailure]:
        """Answer the one request (see `Backend.complete`)."""
        (request,) = requests

        def work(client: "openai.OpenAI") -> Reply:
            try:
                body = client.post("/chat/completions", **self._post(request))
            except json.JSONDecodeError as error:  # it may be a stream that is called JSON
                body = error.doc
            if isinstance(body, str):  # the server calls its JSON something else
                body = read_answer(lines_of([body.encode()]))
            return self._reply(body)

        return [self._sent(work, request)]

    def stream(self, request: Request, write: Write) -> Reply | LLMFailure:
        """Answer one request while ``write`` is told the text (see `Backend.stream`)."""
        import openai

        def work(client: openai.OpenAI) -> Reply:
            post = self._post(request, STREAMED)
            with client.post(
                "/chat/completions", stream=True, stream_cls=openai.Stream[object], **post
            ) as stream:
                writing = Writing(write, self.reading(request))
                return self._reply(read_answer(lines_of(_pieces_of(stream)), writing))

        answer = self._sent(work, request)
        if isinstance(answer, BadRequest) and "stream" in answer.reason:
            # The server can't stream, or not with the number of tokens.
            return self.complete([request])[0]
        return answer

    def _reply(self, answer: Any) -> Reply:
        if self.seen is not None:
            self.seen(answer)
        return Reply.of(answer)

    def _post(self, request: Request, more: Mapping[str, Any] | None = None) -> Any:
        """The arguments of the client's ``post``.

        Its typed layer is left out: it takes half of its CPU time, and the threads of a stage share
        one interpreter lock. No redirect is followed: the key would go to an unknown place.
        """
        return {
            "cast_to": object,
            "body": {**self.body(request), **(more or {})},
            "options": {"follow_redirects": False},
        }

    def _sent(
        self, work: "Callable[[openai.OpenAI], Reply]", request: Request
    ) -> Reply | LLMFailure:
        """The outcome of a request, sent again if the server wants ``max_completion_tokens``."""
        try:
            answer = self.call(work, request)
        except OtherNameError:
            try:
                answer = self.call(work, request)
            except OtherNameError as error:
                return BadRequest(request.stage, request.qid, error.reason)
        if isinstance(answer, Reply):
            self.accepted = True
        return answer

    def open(self) -> "openai.OpenAI":
        """The client of this process.

        A forked process must not write into the connections of its parent.

        Raises:
            FatalLLMError: when there is no key.
        """
        import openai

        with self._lock:
            client = self._clients.get(os.getpid())
            if client is None:
                for name in HTTP_LOGGERS:
                    logging.getLogger(name).addFilter(_filter)
                client = openai.OpenAI(
                    api_key=self._read_key(),
                    base_url=self.url,
                    max_retries=0,
                    timeout=openai.Timeout(self.timeout, connect=CONNECT),
                )
                self._clients[os.getpid()] = client
            return client

    def _read_key(self) -> str:
        """The key in the environment; `NO_KEY` for a server on this machine that needs none.

        Raises:
            FatalLLMError: when there is no key, or it can't be one.
        """
        key = os.environ.get(self.api_key_env, "").strip()
        if not (key.isascii() and key.isprintable()):
            del key  # some tracebacks show local variables
            raise FatalLLMError(
                f"the key in {self.api_key_env} has a character that no key has, such as an "
                "ellipsis: copy it again"
            )
        if not key and not self._is_here:
            raise FatalLLMError(
                f"there is no key for {self.url}: set the environment variable "
                f"{self.api_key_env}, or name another one with api_key_env=NAME"
            )
        if len(key) >= SHORTEST and key != NO_KEY:
            SECRETS.add(key)
        return key or NO_KEY

    def close(self) -> None:
        """Close the connections. The next call opens them again."""
        with self._lock:
            client = self._clients.pop(os.getpid(), None)
        if client is not None:
            client.close()

    def call(
        self, work: "Callable[[openai.OpenAI], Found]", request: Request
    ) -> Found | LLMFailure:
        """The result of ``work`` with the server.

        Raises:
            FatalLLMError: when no other call will do better.
            Transient: when the same call may do better later.
        """
        import openai

        client = self.open()
        try:
            result = work(client)
        except UnicodeEncodeError:
            half = "the prompt holds half a character (a lone surrogate): clean the turn's text"
            return BadRequest(request.stage, request.qid, half, unanswered=Unanswered.UNSENT)
        except openai.APIConnectionError as error:
            raise self._lost(error) from None
        except openai.APIStatusError as error:
            self.answered = True
            return self.refused(request, error.status_code, error.body, error.response.headers)
        except (openai.APIError, ValueError, RecursionError) as error:
            self.answered = True
            return self._no_completion(request, error)
        self.answered = True
        return result

    def _lost(self, error: "openai.APIConnectionError") -> Transient:
        """The failure of a call to which nothing came back."""
        import openai

        unsent = type(error.__cause__).__name__ in UNSENT
        unanswered = Unanswered.UNSENT if unsent else Unanswered.LOST
        if isinstance(error, openai.APITimeoutError) and not unsent:
            reason = f"no answer within {self.timeout:g} seconds (timeout=...)"
            return Transient(None, reason, unanswered=unanswered)
        reason = hidden(f"no connection to {self.url}: {error.__cause__ or error}")
        return Transient(None, reason, unreached=not self.answered, unanswered=unanswered)

    def _no_completion(self, request: Request, error: Exception) -> LLMFailure:
        """The failure for an answer with status 200 that holds no completion.

        Raises:
            FatalLLMError: when the address is wrong.
            Transient: when the same call may succeed later.
        """
        answer = getattr(error, "body", None) or getattr(error, "doc", None) or str(error)
        has_choices = isinstance(answer, dict) and bool(answer.get("choices"))
        status = None if has_choices else status_in(answer)
        if status is not None:
            return self.refused(request, status, answer, {})
        hint = self._hint()
        if hint and not self.accepted and NO_ADDRESS.search(words_of(answer)):
            raise FatalLLMError(
                f"{self.url} answers no chat completions ({quoted(answer)}){hint}"
            ) from None
        paid: list[Reply] = []
        unanswered = Unanswered.LOST
        if isinstance(error, NoCompletionError):
            paid = error.paid
            if isinstance(answer, dict) and answer.get("error") and not has_choices:
                unanswered = Unanswered.REFUSED
        reason = f"the server's answer holds no completion. It says: {quoted(answer)}"
        raise Transient(None, reason, unanswered=unanswered, paid=paid) from None

    def result(self, work: "Callable[[openai.OpenAI], Found]") -> Found:
        """The result of ``work`` that belongs to no request, such as sending a file.

        Raises:
            FatalLLMError: when the server refuses it.
            Transient: when the same may do better later.
        """
        result = self.call(work, Request([], "", ""))
        if isinstance(result, LLMFailure):
            raise FatalLLMError(result.reason)
        return result

    def refused(
        self, request: Request, status: int, body: Any, headers: Mapping[str, str]
    ) -> LLMFailure:
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
        if 300 <= status < 400:
            raise FatalLLMError(
                f"{self.url} redirects ({status}), and no redirect is followed: "
                "correct base_url=..."
            ) from None
        answer = f"{status}: {quoted(inner(body))}"
        rejected = f"the server rejects the request ({answer})"
        if is_filtered(status, body):
            return Filtered(
                request.stage, request.qid, f"{REFUSED[1]} withheld the prompt ({answer})"
            )
        meant = real_status(status, body)
        if meant not in (status, 402) and self.accepted:
            # One prompt is refused by a server that has accepted the key and the model.
            return BadRequest(request.stage, request.qid, rejected)
        if meant in FATAL:
            self._raise_fatal(meant, answer, body)
        words = f"{words_of(body)} {answer}"
        if status == LIMITED and TOO_LARGE.search(words):
            return TooLong(request.stage, request.qid, rejected)
        if status in TRY_AGAIN or status >= 500:
            wait = asked_wait(headers, body, time.time())
            reason = f"the server answers {answer}"
            raise Transient(wait, reason, limited=status == LIMITED) from None
        if OTHER_NAME.search(words):
            self.completion_limit = True
            raise OtherNameError(None, rejected) from None
        if request.structure is not None and NO_SCHEMA.search(words):
            raise FatalLLMError(
                f"{self.url} does not take a JSON schema for the answers of {self.model!r} "
                f"({answer}): omit structured=on"
            ) from None
        if status == 413 or TOO_LONG.search(words):
            return TooLong(request.stage, request.qid, rejected)
        return BadRequest(request.stage, request.qid, rejected)

    def _raise_fatal(self, status: int, answer: str, body: Any) -> NoReturn:
        """End the stage, or try again if the server has accepted the key before.

        Raises:
            FatalLLMError: with what to repair.
            Transient: for a key that was accepted.
        """
        message = FATAL[status].format(
            url=self.url, variable=self.api_key_env, model=self.model, answer=answer
        )
        if status in (401, 403) and self.accepted:
            raise Transient(
                None,
                f"the server answers {answer}, and has accepted the key before",
                lasting=f"{message}; it has accepted that key before",
            ) from None
        if status in (404, 405) and not self.accepted and "model" not in words_of(body).lower():
            message += self._hint()
        raise FatalLLMError(message) from None

    def _hint(self) -> str:
        """The address to try instead of ``base_url``, in words; empty if it looks right."""
        address = other_address(self.url)
        return f"; the address is probably wrong: try base_url={address}" if address else ""

    def body(self, request: Request) -> dict[str, Any]:
        """The body of the HTTP request for ``request``."""
        params = {**self.identity["params"], **request.params}
        if "seed" in params:
            params["seed"] += request.draw
        if "max_tokens" in params and self.completion_limit:
            params["max_completion_tokens"] = params.pop("max_tokens")
        structure = request.structure
        if structure is not None:
            schema = {"name": structure.name, "strict": True, "schema": structure.schema}
            params["response_format"] = {"type": "json_schema", "json_schema": schema}
        return {
            "model": self.model,
            "messages": [dict(message) for message in request.messages],
            **self.more,
            **params,
        }


def _pieces_of(stream: "openai.Stream[object]") -> Iterator[bytes]:
    """The bytes of a body, as they come.

    Raises:
        openai.APIConnectionError: when the connection breaks. The client's own stream, which can't
            be used, raises the same.
    """
    import openai

    try:
        yield from stream.response.iter_bytes()
    except Exception as error:  # of httpx or httpx2, whichever the client uses
        request = stream.response.request
        if "Timeout" in type(error).__name__:
            raise openai.APITimeoutError(request=request) from error
        raise openai.APIConnectionError(request=request) from error


def quoted(answer: Any) -> str:
    """The server's message in one line: the message field if there is one, or everything."""
    for name in ("error", "message", "detail"):
        if isinstance(answer, dict):
            answer = answer.get(name) or answer
    text = answer if isinstance(answer, str) else json.dumps(answer, ensure_ascii=False)
    words = []
    for word in hidden(printable(text[:LONGEST])).split():  # codes go first: they may split a key
        # Servers show the ends of a wrong key, with stars between them.
        words.append("***" if "***" in word else word)
    return shorten(" ".join(words)) or "nothing"


SECRETS = set[str]()
"""The keys of this process."""
SHORTEST = 4
"""Characters from which on a text is a secret, and not a syllable of every message."""
HTTP_LOGGERS = ("httpx", "httpx2", "openai._base_client") + tuple(
    f"{core}.{part}"
    for core in ("httpcore", "httpcore2")
    for part in ("connection", "http11", "http2", "proxy", "socks")
)
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
        record.msg = hidden(record.getMessage())
        record.args = ()
        if record.exc_info:
            record.exc_text = hidden("".join(traceback.format_exception(*record.exc_info)))
            record.exc_info = None
        return True


_filter = RedactingFilter()
