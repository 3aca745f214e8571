"""Servers on the network: their addresses, with everything secret taken out before it is shown, and calls that end in time.

The HTTP client's own time-outs begin anew with every byte that arrives. Here every wait of a call, on name look-up, connection, headers
and body, gets what is left of the call's time.
"""

import logging
import os
import re
import socket
import threading
import time
import traceback
from base64 import b64encode
from collections.abc import Callable, Iterable, Iterator
from concurrent import futures
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING, Any
from urllib.parse import parse_qsl, quote, quote_plus, unquote, urlencode, urlsplit, urlunsplit
from weakref import WeakSet

from ..errors import UsageError
from ..portable import digest
from .failures import FatalLLMError, shorten

if TYPE_CHECKING:
    import openai

HIDDEN = "***"
SECRET_NAME = re.compile(r"key|token|secret|pass|pwd|sig|auth|code", re.IGNORECASE)
CREDENTIAL = re.compile(
    r"(?:(?:api|access|client|subscription)[-_]?)?(?:key|token|secret|password|pwd|sig|signature|auth|code)", re.IGNORECASE
)
"""Names of hidden parameters that are nothing but a credential: another value of them changes no answer, another ``design=`` may."""
SHORTEST = 4
_CORE = ("connection", "http11", "http2", "proxy", "socks")
HTTP_LOGGERS = ("httpx", "httpx2", "openai._base_client", *(f"{core}.{part}" for core in ("httpcore", "httpcore2") for part in _CORE))
"""Those that write records: a filter does not reach the records of the loggers below it."""


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
        secrets: what was replaced, where it is long enough to be a secret and not a syllable of every message.
        local: True for this machine.

    Raises:
        UsageError: when it is no web address.

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
            raise UsageError("base_url is no web address: it reads http://HOST:PORT/v1 or https://HOST/v1")
        host = (f"[{parts.hostname}]" if ":" in parts.hostname else parts.hostname) + port
        self.local = parts.hostname in ("localhost", "127.0.0.1", "::1")
        path = parts.path.rstrip("/")
        self.url = urlunsplit((parts.scheme, host, path, "", ""))
        self.query = dict(parse_qsl(parts.query, keep_blank_values=True))
        self.login = None if parts.username is None else (unquote(parts.username), unquote(parts.password or ""))
        hidden = {name: HIDDEN if SECRET_NAME.search(name) else value for name, value in self.query.items()}
        login = f"{HIDDEN}@" if self.login else ""
        self.shown = urlunsplit((parts.scheme, login + host, path, urlencode(hidden, safe=HIDDEN), ""))
        unknown = {name: value for name, value in self.query.items() if hidden[name] != value and not CREDENTIAL.fullmatch(name)}
        self.identity = self.shown + (f" {digest(repr(unknown)).hex()[:16]}" if unknown else "")
        values = [value for name, value in self.query.items() if SECRET_NAME.search(name)]
        values += [*self.login, b64encode(":".join(self.login).encode()).decode()] if self.login else []
        forms = {form for value in values for form in (value, quote(value), quote(value, safe=""), quote_plus(value))}
        self.secrets = {form for form in forms if len(form) >= SHORTEST}


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
    """Whether ``secret`` can't stand in a text by chance: it is long, or is neither short nor a mere word.

    Example:
        >>> [is_distinctive(one) for one in ("EMPTY", "lm-studio", "swordfish", "pw-98765", "sk-no-key-required")]
        [False, False, False, True, True]
    """
    return len(secret) >= 16 or (len(secret) >= 8 and any(letter.isdigit() for letter in secret))


class RedactingFilter(logging.Filter):
    """Takes ``secrets`` out of the log records of the HTTP client, which writes whole URLs and the server's headers.

    Two with the same secrets are equal, so that a logger keeps only one of them.
    """

    def __init__(self, secrets: Iterable[str]) -> None:
        super().__init__()
        self._secrets = frozenset(secrets)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, RedactingFilter) and self._secrets == other._secrets

    def __hash__(self) -> int:
        return hash(self._secrets)

    def filter(self, record: logging.LogRecord) -> bool:
        """Rewrite the record; it is always kept."""
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


NO_KEY = "none"
SETTINGS = (*(name for proxy in ("ALL_PROXY", "HTTP_PROXY", "HTTPS_PROXY", "NO_PROXY") for name in (proxy, proxy.lower())), "SSL_CERT_FILE")
LOGIN = re.compile(r"//[^/@\s]*@")


def connect(address: Address, api_key_env: str, timeout: float) -> tuple["openai.OpenAI", "Network", set[str]]:
    """A client for an address, what can cut its calls off, and what is secret in its key.

    Raises:
        FatalLLMError: when there is no key for it, or the environment's proxy or certificates are wrong.
    """
    import openai

    _check_key(api_key_env)  # before the key is a local variable, which some tracebacks show
    key = _key(api_key_env) or _no_key(address, api_key_env)
    secrets = {key} if len(key) >= SHORTEST and key != NO_KEY else set[str]()
    add_filter(HTTP_LOGGERS, address.secrets | secrets)
    try:
        # A redirect would take the key, or the question, to where nobody sent it.
        http = openai.DefaultHttpxClient(auth=address.login, follow_redirects=False)
    except Exception as error:  # each kind of wrong setting has one of its own
        raise _unprepared(address, error) from None
    network = keep_deadlines(http)
    options: dict[str, Any] = {"base_url": address.url, "default_query": address.query, "timeout": timeout}
    return openai.OpenAI(api_key=key, max_retries=0, http_client=http, **options), network, secrets


def _unprepared(address: Address, error: Exception) -> FatalLLMError:
    found = ", ".join(name for name in SETTINGS if os.environ.get(name)) or "no variable for a proxy or certificates"
    why = "a SOCKS proxy needs the package socksio" if isinstance(error, ImportError) else shorten(LOGIN.sub("//***@", str(error)))
    return FatalLLMError(f"no connection to {address.shown} can be prepared: {why}: correct the environment, which sets {found}")


def _key(variable: str) -> str:
    return os.environ.get(variable, "").strip()


def _check_key(variable: str) -> None:
    if not (_key(variable).isascii() and _key(variable).isprintable()):
        raise FatalLLMError(f"the key in {variable} has a character that no key has, such as an ellipsis: copy it again")


def _no_key(address: Address, variable: str) -> str:
    if address.local or address.login:
        return NO_KEY
    raise FatalLLMError(
        f"there is no key for {address.shown}: set the environment variable {variable}, or name another one with api_key_env=NAME"
    )


CONNECT = 5.0
"""Seconds until a server counts as not reached; a busy one takes less than one to accept a connection."""

LONGEST = 1e6
"""Seconds. The system takes no longer ones, and nobody waits for twelve days."""

_call = threading.local()


@contextmanager
def deadline(seconds: float) -> Iterator[None]:
    """Everything that this thread sends and receives over a client that `keep_deadlines` has prepared has to come to its end in time.

    Raises:
        TimeoutError: from the wait that lasts too long.

    Example:
        >>> with deadline(60):
        ...     _left() > 59
        True
    """
    _call.ends = time.monotonic() + seconds
    try:
        yield
    finally:
        del _call.ends


def keep_deadlines(http: Any) -> "Network":
    """Make an `openai.DefaultHttpxClient` keep to `deadline`; gives what can cut its calls off."""
    network = Network()
    for transport in (http._transport, *http._mounts.values()):  # the latter by way of the environment's proxies; None is by none
        if transport is not None:
            transport._pool._network_backend = _Backend(transport._pool._network_backend, network)
    return network


class Network:
    """The open connections of one client."""

    def __init__(self) -> None:
        self.streams: WeakSet[_Stream] = WeakSet()

    def cut(self) -> None:
        """End what is under way: whoever waits for an answer finds the connection lost."""
        for stream in list(self.streams):
            with suppress(OSError, AttributeError):
                socket.socket.shutdown(stream.get_extra_info("socket"), socket.SHUT_RDWR)


class _Backend:
    """The HTTP client's network, with connections that keep to the time of their call."""

    def __init__(self, inner: Any, network: Network) -> None:
        self._inner, self._network = inner, network

    def connect_tcp(self, host: str, port: int, timeout: float | None = None, **options: Any) -> "_Stream":
        # Its own time-out is for each of a name's addresses; it only ends a thread that nobody waits for any more.
        return _Stream(_opened(lambda: self._inner.connect_tcp(host, port, timeout=2 * CONNECT, **options)), self._network)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._inner, name)


class _Stream:
    """A connection whose waits get what is left of their call's time."""

    def __init__(self, inner: Any, network: Network) -> None:
        self._inner, self._network = inner, network
        network.streams.add(self)

    def read(self, max_bytes: int, timeout: float | None = None) -> bytes:
        found: bytes = self._inner.read(max_bytes, timeout=_left())
        return found

    def write(self, buffer: bytes, timeout: float | None = None) -> None:
        self._inner.write(buffer, timeout=_left())

    def start_tls(self, ssl_context: Any, server_hostname: str | None = None, timeout: float | None = None) -> "_Stream":
        return _Stream(_opened(lambda: self._inner.start_tls(ssl_context, server_hostname, 2 * CONNECT)), self._network)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._inner, name)


def _left() -> float:
    left = float(_call.ends - time.monotonic())
    if left <= 0:
        raise TimeoutError
    return min(left, LONGEST)


def _opened(work: Callable[[], Any]) -> Any:
    """The result of ``work``, run in a thread that is abandoned after a time-out, because a name look-up can't be interrupted."""
    found: futures.Future[Any] = futures.Future()
    seconds = min(CONNECT, _left())
    threading.Thread(target=_settle, args=(found, work), name="ikat-connect", daemon=True).start()
    try:
        return found.result(seconds)
    except futures.TimeoutError:
        found.add_done_callback(_close)
        raise ConnectionError(f"it is not reached within {seconds:.3g} seconds") from None


def _settle(found: "futures.Future[Any]", work: Callable[[], Any]) -> None:
    try:
        found.set_result(work())
    except BaseException as error:
        found.set_exception(error)


def _close(found: "futures.Future[Any]") -> None:
    if found.exception() is None:
        found.result().close()
