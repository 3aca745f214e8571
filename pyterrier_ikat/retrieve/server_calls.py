"""Calls to a search server: concurrent, retried while that helps, and errors with its words."""

import json
import os
import ssl
import threading
import time
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple
from urllib.parse import urlsplit

import tenacity

from ..completions.usable import printable
from ..errors import IkatError, UsageError
from ..events import check_asker
from ..llms.waits import asked_wait

if TYPE_CHECKING:
    import httpx

CONNECT_SECONDS = 5.0
"""Seconds until a server counts as not reached."""
LONGEST_WAIT = 60.0
"""Seconds of the longest wait between two tries that no server asked for."""
MOST_SECONDS_ASKED = 600.0
"""Seconds of the longest wait that a server may ask for."""
TRIES_UNREACHED = 3
"""Tries at a server that can't be reached: its address is probably wrong."""
MOST_WORDS = 300
"""Characters of a server's error in a message."""
RETRIED = (408, 425, 429, 500, 502, 503, 504)
"""Statuses after which the same call may succeed.

Pyserini sheds load by 429 with Retry-After (docs/usage-rest.md); RoutIR has 500 for any error of an
engine (serve.py).
"""


class ServerError(IkatError):
    """A search server isn't reached, refuses a call, or gives no answer that can be used."""


class _AgainError(Exception):
    """A call failed in a way that may pass.

    Attributes:
        reason: the failure in words.
        wait: the seconds that the server asks to wait; None if it asks for none.
        unreached: whether no connection was made.
    """

    def __init__(self, reason: str, wait: float | None = None, unreached: bool = False) -> None:
        super().__init__(reason)
        self.reason = reason
        self.wait = wait
        self.unreached = unreached


class Call(NamedTuple):
    """A call to a server.

    Attributes:
        method: of HTTP.
        path: behind the server's address.
        params: the parameters in the address.
        body: sent as JSON.
        of_text: whether the answer is a text: it is given as ``{"text": ...}``.
    """

    method: str
    path: str
    params: Mapping[str, Any] = {}
    body: Mapping[str, Any] | None = None
    of_text: bool = False


@dataclass(frozen=True)
class Caller:
    """Calls a server.

    Attributes:
        url: its address.
        api_key_env: the environment variable with its key, which is read at each use.
        timeout: seconds without a sign of the server, after which a call has failed.
        concurrency: the maximum number of concurrent calls.
        tries: the maximum number of tries at a call.
    """

    url: str
    api_key_env: str
    timeout: float
    concurrency: int
    tries: int

    def answers(self, calls: Sequence[Call]) -> list[Any]:
        """Return the parsed answer of each call.

        Raises:
            ServerError: when a call fails for good; no other call begins then.
        """
        import httpx

        limits = httpx.Timeout(self.timeout, connect=min(CONNECT_SECONDS, self.timeout))
        key = self._key()
        headers = {"Authorization": f"Bearer {key}"} if key else {}
        stop = threading.Event()
        # certificates take a while to read
        verify = self.url.startswith("https:")
        with httpx.Client(
            timeout=limits, headers=headers, follow_redirects=False, verify=verify
        ) as client:
            ask = partial(self._answer, client, stop)
            with ThreadPoolExecutor(self.concurrency) as pool:
                answers = []
                try:
                    for answer in pool.map(ask, calls):
                        check_asker()
                        answers.append(answer)
                except BaseException:
                    stop.set()
                    raise
                return answers

    def _key(self) -> str:
        key = os.environ.get(self.api_key_env, "").strip()
        if not (key.isascii() and key.isprintable()):
            del key  # some tracebacks show local variables
            raise UsageError(
                f"the key in {self.api_key_env} has a character that no key has: copy it again"
            )
        return key

    def _answer(self, client: "httpx.Client", stop: threading.Event, call: Call) -> Any:
        """The answer of a call, which is tried again while that may help."""
        attempts = tenacity.Retrying(
            retry=tenacity.retry_if_exception_type(_AgainError),
            wait=_seconds_to_wait,
            stop=tenacity.stop_any(tenacity.stop_when_event_set(stop), self._is_last),  # type: ignore[arg-type]
            sleep=tenacity.sleep_using_event(stop),
            reraise=True,
        )
        try:
            return attempts(self._try, client, call)
        except _AgainError as error:
            raise ServerError(f"{self.url}: {error.reason}") from None

    def _is_last(self, state: tenacity.RetryCallState) -> bool:
        error = _error_of(state)
        if error.wait is not None and error.wait > MOST_SECONDS_ASKED:
            return True
        most = min(self.tries, TRIES_UNREACHED) if error.unreached else self.tries
        return state.attempt_number >= most

    def _try(self, client: "httpx.Client", call: Call) -> Any:
        import httpx

        address = f"{self.url}{call.path}"
        try:
            response = client.request(
                call.method, address, params=call.params or None, json=call.body
            )
        except (httpx.ConnectError, httpx.ConnectTimeout) as error:
            self._check_certificate(error)
            raise _AgainError(f"no connection ({error})", unreached=True) from None
        except httpx.TimeoutException:
            reason = f"no answer within {self.timeout:g} seconds (timeout=...)"
            raise _AgainError(reason) from None
        except httpx.TransportError as error:
            raise _AgainError(f"the connection broke ({error})") from None
        except (httpx.InvalidURL, UnicodeEncodeError, httpx.DecodingError) as error:
            raise ServerError(f"{self.url}: the call can't be made ({error})") from None
        return self._read(response, call.of_text)

    def _check_certificate(self, error: Exception) -> None:
        """Raise a ServerError if a connection failed because of the server's certificate."""
        cause: BaseException | None = error
        while cause is not None:
            if isinstance(cause, ssl.SSLCertVerificationError):
                raise ServerError(
                    f"{self.url}: the certificate isn't trusted ({cause.verify_message}): correct "
                    "the address, or name its file in the environment variable SSL_CERT_FILE"
                ) from None
            cause = cause.__cause__ or cause.__context__

    def _read(self, response: "httpx.Response", of_text: bool) -> Any:
        """The parsed answer.

        Raises:
            _AgainError: when the server can't answer now.
            ServerError: when it refuses, or its answer isn't JSON.
        """
        status = response.status_code
        try:
            body = response.json()
        except (ValueError, RecursionError):
            body = response.text
        words = self._words(body)
        if status in RETRIED:
            wait = asked_wait(response.headers, body, time.time())
            asks = "" if wait is None else f" (it asks to wait {wait:g} seconds)"
            raise _AgainError(f"the server answers {status}: {words}{asks}", wait)
        if 300 <= status < 400:
            raise ServerError(
                f"{self.url} redirects ({status}), and no redirect is followed: correct the address"
            )
        if status in (401, 403):
            wants = f"refuses the key in {self.api_key_env}"
            if not self._key():
                wants = f"needs a key in the environment variable {self.api_key_env}"
            raise ServerError(
                f"{self.url} {wants} ({status}: {words}): set that variable, or name another one: "
                "api_key_env=NAME"
            )
        if status != 200:
            raise ServerError(f"{self.url} refuses the call ({status}: {words})")
        if of_text:
            return {"text": response.text}
        if not isinstance(body, dict):
            raise ServerError(f"{self.url} answers no JSON object, but: {words}")
        if "error" in body:
            # RoutIR's engines fail with status 200 (processors/abstract.py)
            raise _AgainError(f"the server answers an error: {words}")
        return body

    def _words(self, body: Any) -> str:
        """What a server says, as one line, without the key that it may repeat."""
        while isinstance(body, dict) and len(body.keys() & {"error", "message", "detail"}):
            # ours and OpenAI's: error.message; RoutIR's and Pyserini's: error; FastAPI's: detail
            body = body.get("error", body.get("message", body.get("detail")))
        text = body if isinstance(body, str) else json.dumps(body)
        key = self._key()
        if key:
            text = text.replace(key, "***")
        line = " ".join(printable(text[: 10 * MOST_WORDS]).split())
        return line if len(line) <= MOST_WORDS else f"{line[: MOST_WORDS - 3]}..."


_backoff = tenacity.wait_exponential_jitter(initial=1, max=LONGEST_WAIT, jitter=1)


def _error_of(state: tenacity.RetryCallState) -> _AgainError:
    return state.outcome.exception()  # type: ignore[union-attr, return-value]


def _seconds_to_wait(state: tenacity.RetryCallState) -> float:
    """What the server asks to wait, or a time that doubles with each try."""
    wait = _error_of(state).wait
    return _backoff(state) if wait is None else wait


def checked_address(url: str) -> str:
    """Return the address of a server without a slash at its end.

    Raises:
        UsageError: when it isn't a web address, or holds a login, a query or a fragment, in which a
            secret may stand.
    """
    parts = urlsplit(url) if isinstance(url, str) else None
    has_more = parts is not None and bool("@" in parts.netloc or parts.query or parts.fragment)
    if parts is None or parts.scheme not in ("http", "https") or not parts.hostname or has_more:
        raise UsageError(
            "the address of a search server is http://HOST:PORT or https://HOST/PATH, "
            "without a login and a query"
        )
    return url.rstrip("/")
