"""A server on the network: its address, the secrets in it that are never shown, and connections with a time limit for calls."""

import importlib
import logging
import os
import re
import socket
import threading
import time
import traceback
import warnings
from base64 import b64encode
from collections.abc import Callable, Iterable
from concurrent import futures
from contextlib import suppress
from typing import TYPE_CHECKING, Any, TypeVar
from urllib.parse import parse_qsl, quote, quote_plus, unquote, urlencode, urlsplit, urlunsplit
from weakref import finalize

from ..errors import UsageError
from ..portable import digest
from .failures import FatalLLMError, shorten
from .limits import CONNECT

if TYPE_CHECKING:
    import openai

HIDDEN = "***"
SECRET_NAME = re.compile(r"key|token|secret|pass|pwd|sig|auth|code", re.IGNORECASE)
CREDENTIAL = re.compile(
    r"(?:(?:api|access|client|subscription)[-_]?)?(?:key|token|secret|password|pwd|sig|signature|auth|code)", re.IGNORECASE
)
"""Names of hidden parameters that are only credentials: their values change no answer, whereas another ``design=`` may."""
SHORTEST = 4
_CORE = ("connection", "http11", "http2", "proxy", "socks")
HTTP_LOGGERS = ("httpx", "httpx2", "openai._base_client", *(f"{core}.{part}" for core in ("httpcore", "httpcore2") for part in _CORE))
"""The loggers that write records. A filter does not reach the records of the loggers below it."""
NO_KEY = "none"
SETTINGS = (*(name for proxy in ("ALL_PROXY", "HTTP_PROXY", "HTTPS_PROXY", "NO_PROXY") for name in (proxy, proxy.lower())), "SSL_CERT_FILE")
LOGIN = re.compile(r"//[^/@\s]*@")
SILENT = 10.0
"""Seconds after which a server that has never answered is named, while it is still waited for."""
LATEST_TRY = 0.7
"""The share of them after which a try may be the last one before 15 seconds are over."""
LONGEST = 1e6
"""The maximum time-out in seconds (twelve days). The system takes no longer ones."""

Found = TypeVar("Found")
Work = Callable[["openai.OpenAI"], Found]


class Address:
    """A base URL, taken apart: where to connect, and what of it is secret.

    Args:
        url: ``http://`` or ``https://``; may hold ``user:password@`` and a query.

    Attributes:
        url: without user, password, query and a slash at its end.
        query: the query's parameters, sent with every call.
        login: (user, password), or None.
        identity: ``shown``, with a checksum of what is hidden and may yet decide what is answered.
        shown: the whole address with user, password and the values of secret parameters replaced by ``***``.
        secrets: the replaced texts that are long enough to be a secret and not a syllable of every message.
        local: True for this machine.

    Raises:
        UsageError: when it is not a web address.

    Example:
        >>> Address("http://me:pw@localhost:8000/v1?tenant=a&api-key=b").shown
        'http://***@localhost:8000/v1?tenant=a&api-key=***'
    """

    def __init__(self, url: str) -> None:
        try:
            parts = urlsplit(url)
            port = f":{parts.port}" if parts.port else ""
        except ValueError:
            parts, port = urlsplit(""), ""
        if parts.scheme not in ("http", "https") or not parts.hostname:
            raise UsageError("base_url is not a web address: write it as http://HOST:PORT/v1 or https://HOST/v1")
        host = (f"[{parts.hostname}]" if ":" in parts.hostname else parts.hostname) + port
        self.local = parts.hostname in ("localhost", "127.0.0.1", "::1")
        path = parts.path.rstrip("/")
        self.url = urlunsplit((parts.scheme, host, path, "", ""))
        self.query = dict(parse_qsl(parts.query, keep_blank_values=True))
        self.login = None if parts.username is None else (unquote(parts.username), unquote(parts.password or ""))
        shown, undecided, values = dict[str, str](), dict[str, str](), list[str]()
        for name, value in self.query.items():
            shown[name] = HIDDEN if SECRET_NAME.search(name) else value
            if SECRET_NAME.search(name):
                values.append(value)
            if shown[name] != value and not CREDENTIAL.fullmatch(name):
                undecided[name] = value
        self.shown = urlunsplit((parts.scheme, f"{HIDDEN}@" * bool(self.login) + host, path, urlencode(shown, safe=HIDDEN), ""))
        self.identity = self.shown + (f" {digest(repr(undecided)).hex()[:16]}" if undecided else "")
        if self.login:
            values += [*self.login, b64encode(":".join(self.login).encode()).decode()]
        self.secrets: set[str] = set()
        for value in values:
            forms = (value, quote(value), quote(value, safe=""), quote_plus(value))
            self.secrets.update(form for form in forms if len(form) >= SHORTEST)


def addresses(base_url: str) -> list[str]:
    """The addresses in ``base_url``, which are separated by commas.

    Example:
        >>> addresses("http://a:8000/v1?tags=x,y,http://b:8000/v1")
        ['http://a:8000/v1?tags=x,y', 'http://b:8000/v1']
    """
    return re.split(r",(?=https?://)", base_url)


def redact(text: str, secrets: Iterable[str]) -> str:
    """``text`` with every one of ``secrets`` replaced."""
    for secret in sorted(secrets, key=len, reverse=True):
        text = text.replace(secret, HIDDEN)
    return text


def is_distinctive(secret: str) -> bool:
    """Whether ``secret`` can't occur in a text by chance: it is long, or is neither short nor a mere word.

    Example:
        >>> [is_distinctive(one) for one in ("EMPTY", "lm-studio", "swordfish", "pw-98765", "sk-no-key-required")]
        [False, False, False, True, True]
    """
    return len(secret) >= 16 or (len(secret) >= 8 and any(letter.isdigit() for letter in secret))


class RedactingFilter(logging.Filter):
    """Removes ``secrets`` from the log records of the HTTP client, which writes whole URLs and the server's headers.

    Two filters with the same secrets are equal, so a logger keeps only one of them.
    """

    def __init__(self, secrets: Iterable[str]) -> None:
        super().__init__()
        self._secrets = frozenset(secrets)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, RedactingFilter) and self._secrets == other._secrets

    def __hash__(self) -> int:
        return hash(self._secrets)

    def filter(self, record: logging.LogRecord) -> bool:
        """Rewrite the record. It is always kept."""
        record.msg, record.args = redact(record.getMessage(), self._secrets), ()
        if record.exc_info:
            record.exc_text, record.exc_info = "".join(traceback.format_exception(*record.exc_info)).rstrip(), None
        if record.exc_text:
            record.exc_text = redact(record.exc_text, self._secrets)
        return True


def add_filter(loggers: Iterable[str], secrets: set[str]) -> None:
    """Keep ``secrets`` out of what ``loggers`` write."""
    for name in loggers if secrets else ():
        logging.getLogger(name).addFilter(RedactingFilter(secrets))


class SilentServerWarning(UserWarning):
    """A server accepted the first call and does not answer. The call waits until its time is over."""


class Connector:
    """Makes clients for an address. The key and the certificates are read once for all of them.

    Args:
        address: where to connect.
        variable: the environment variable that holds the key.

    Attributes:
        secrets: what is secret in the key.

    Raises:
        FatalLLMError: when there is no key, or the environment's proxy or certificates are wrong.
    """

    def __init__(self, address: Address, variable: str) -> None:
        self.address = address
        self._key = _key_in(variable) or _no_key(address, variable)
        self.secrets = {self._key} if len(self._key) >= SHORTEST and self._key != NO_KEY else set[str]()
        add_filter(HTTP_LOGGERS, address.secrets | self.secrets)
        self._certificates: Any = None

    def client(self, follow: Callable[[Any], None]) -> "openai.OpenAI":
        """A client that calls ``follow`` with every HTTP request."""
        import openai

        try:
            if self._certificates is None:  # reading them takes a tenth of a second
                http = importlib.import_module(openai.DefaultHttpxClient.__mro__[1].__module__.partition(".")[0])  # httpx, or httpx2
                self._certificates = http.create_ssl_context()
            hooks: Any = {"request": [follow]}
            # A redirect would take the key, or the question, to an unknown place.
            connected = openai.DefaultHttpxClient(
                auth=self.address.login, follow_redirects=False, event_hooks=hooks, verify=self._certificates
            )
        except Exception as error:  # each kind of wrong setting has its own error
            raise _unprepared(self.address, error) from None
        options: dict[str, Any] = {"base_url": self.address.url, "default_query": self.address.query, "max_retries": 0}
        return openai.OpenAI(api_key=self._key, http_client=connected, timeout=openai.Timeout(LONGEST, connect=CONNECT), **options)


def _unprepared(address: Address, error: Exception) -> FatalLLMError:
    found = ", ".join(name for name in SETTINGS if os.environ.get(name)) or "no variable for a proxy or certificates"
    why = "a SOCKS proxy needs the package socksio" if isinstance(error, ImportError) else shorten(LOGIN.sub("//***@", str(error)))
    return FatalLLMError(f"no connection to {address.shown} can be prepared: {why}: correct the environment, which sets {found}")


def _key_in(variable: str) -> str:
    if not (os.environ.get(variable, "").strip().isascii() and os.environ.get(variable, "").strip().isprintable()):
        raise FatalLLMError(f"the key in {variable} has a character that no key has, such as an ellipsis: copy it again")
    return os.environ.get(variable, "").strip()  # never a local variable, which some tracebacks show


def _no_key(address: Address, variable: str) -> str:
    if address.local or address.login:
        return NO_KEY
    raise FatalLLMError(
        f"there is no key for {address.shown}: set the environment variable {variable}, or name another one with api_key_env=NAME"
    )


class Line:
    """A client with a connection of its own, for one call at a time.

    The HTTP client's own time-outs start again with every byte that arrives, and a name look-up can't be interrupted. So a call runs on
    its own thread. The caller waits as long as the call may take and then cuts the connection, which ends that thread.

    Args:
        connector: makes the client.

    Attributes:
        cut_off: True once it has been cut. It then serves no other call.
    """

    def __init__(self, connector: Connector) -> None:
        self.connector, self.client = connector, connector.client(self._follow)
        self.cut_off = False
        self._reached = threading.Event()
        self._stream: Any = None

    def begin(self, work: Work[Found]) -> "futures.Future[Found]":
        """Do ``work`` on a thread of its own."""
        found: futures.Future[Found] = futures.Future()
        threading.Thread(target=self._do, args=(work, found), name="ikat-call", daemon=True).start()
        return found

    def reach(self, seconds: float) -> None:
        """Wait until there is a connection, or the call has failed.

        Raises:
            ConnectionError: when it takes too long.
        """
        if not self._reached.wait(seconds):
            raise ConnectionError(f"it is not reached within {seconds:.3g} seconds")

    def cut(self) -> None:
        """End the call under way. Its caller finds the connection lost."""
        self.cut_off = True
        if self._stream is not None:
            with suppress(OSError, AttributeError):
                socket.socket.shutdown(self._stream.get_extra_info("socket"), socket.SHUT_RDWR)

    def _do(self, work: Work[Found], found: "futures.Future[Found]") -> None:
        try:
            found.set_result(work(self.client))
        except BaseException as error:
            found.set_exception(error)
        self._reached.set()

    def _follow(self, request: Any) -> None:
        request.extensions["trace"] = self._see  # as the HTTP client documents it

    def _see(self, event: str, info: Any) -> None:
        if event.endswith(("connect_tcp.complete", "start_tls.complete")):
            self._stream = info["return_value"]
            self._reached.set()
            if self.cut_off:
                self.cut()


class Server:
    """One server and its connections, which all stages and threads share.

    Args:
        address: its base URL.
        api_key_env: the environment variable that holds the key.
        timeout: seconds that a call may take as a whole.

    Attributes:
        idle: the unused connections.
        answered: whether the server ever answered.
        silent_since: when it was first called, as long as it has not answered.
        busy: calls in flight.
        failures: calls that failed in a row.
    """

    def __init__(self, address: Address, api_key_env: str, timeout: float) -> None:
        self.address, self.api_key_env, self.timeout = address, api_key_env, timeout
        self.busy, self.failures, self.answered, self._told = 0, 0, False, False
        self.silent_since: float | None = None
        self.idle: list[Line] = []
        self._in_use: set[Line] = set()
        self._secrets: set[str] = set(self.address.secrets)
        self._connector: Connector | None = None
        self._lock = threading.Lock()
        finalize(self, _close, self.idle)

    def __reduce__(self) -> tuple[Any, ...]:
        return Server, (self.address, self.api_key_env, self.timeout)  # another process finds the key in its own environment

    def open(self) -> None:
        """Prepare a connection, so that the first call does not need to.

        Raises:
            FatalLLMError: when there is no key for it, or the environment's proxy or certificates are wrong.
        """
        with self._lock:
            self.idle.append(self._line())

    def close(self) -> None:
        """Close the connections. The next call opens them again."""
        with self._lock:
            self._connector = None
            _close(self.idle)

    def cut(self) -> None:
        """End the calls that are under way, without their answers."""
        for line in list(self._in_use):
            line.cut()

    def call(self, work: Work[Found], seconds: float) -> Found:
        """The result of ``work`` with the server, within this number of seconds.

        Raises:
            TimeoutError: when it takes longer.
            ConnectionError: when it is not reached.
            Exception: of ``work``.
        """
        since = time.monotonic()
        ends = since + min(seconds, LONGEST)
        if not self.answered:
            since = self.silent_since = self.silent_since or since  # a call that finds no connection resets it at any time
        with self._lock:
            line = self._line()
            self._in_use.add(line)
        found = line.begin(work)
        try:
            line.reach(min(CONNECT, seconds))
            if not (self.answered or self._told):
                self._await_first_answer(found, since, ends)
            return found.result(ends - time.monotonic())
        except futures.TimeoutError:
            raise TimeoutError from None
        finally:
            self._give_back(line, found)

    def clean(self, text: str) -> str:
        """``text`` without the key and the secrets of the address."""
        return redact(text, self._secrets)

    def clean_completion(self, text: str) -> str:
        """A model's text without secrets. Words and short texts are kept, because a key may be ``ollama``."""
        return redact(text, filter(is_distinctive, self._secrets))

    def clean_unfinished(self, text: str) -> str:
        """The beginning of a model's text without secrets, and without an end that begins as one does."""
        secrets = list(filter(is_distinctive, self._secrets))
        open_at = [at for one in secrets for at in range(max(0, len(text) - len(one) + 1), len(text) - 3) if one.startswith(text[at:])]
        return redact(text[: min(open_at, default=len(text))], secrets)

    def _line(self) -> Line:
        """An idle connection, for the holder of the lock."""
        if self.idle:
            return self.idle.pop()
        if self._connector is None:
            self._connector = Connector(self.address, self.api_key_env)
            self._secrets |= self._connector.secrets
        return Line(self._connector)

    def _give_back(self, line: Line, found: "futures.Future[Any]") -> None:
        with self._lock:
            self._in_use.discard(line)
            if found.done() and not line.cut_off and line.connector is self._connector:
                self.idle.append(line)
                return
        line.cut()
        found.add_done_callback(lambda _: line.client.close())

    def _await_first_answer(self, found: "futures.Future[Any]", since: float, ends: float) -> None:
        """Wait for the server's very first answer, and warn once when it takes long, over all attempts."""
        waited, left = time.monotonic() - since, ends - time.monotonic()
        patience = SILENT - waited if waited < LATEST_TRY * SILENT else 0.0
        futures.wait([found], min(patience, left))
        with self._lock:
            tell = not found.done() and patience < left and not (self._told or self.answered)
            self._told = self._told or tell
        if tell:
            waited = round(time.monotonic() - since, 2)
            message = f"has not answered for {waited:g} seconds. Each attempt waits up to {self.timeout:g} (timeout=...)"
            warnings.warn(f"{self.address.shown} {message}", SilentServerWarning, stacklevel=1)


def _close(lines: list[Line]) -> None:
    while lines:
        lines.pop().client.close()
