"""The servers behind one model's name: the calls are spread over those that work."""

import os
import re
import threading
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from ..copies import Remade
from .address import HTTP_LOGGERS, SHORTEST, Address, add_filter, redacted, telling
from .connection import Network, bounded
from .failures import FatalLLMError, Transient, shorten

if TYPE_CHECKING:
    import openai

NO_KEY = "none"
SETTINGS = (*(name for proxy in ("ALL_PROXY", "HTTP_PROXY", "HTTPS_PROXY", "NO_PROXY") for name in (proxy, proxy.lower())), "SSL_CERT_FILE")
LOGIN = re.compile(r"//[^/@\s]*@")
FAILURES = 3
SILENT = 10.0
"""Seconds after which a server that has never answered is named, while it is still waited for."""


class ServerLeftOutWarning(UserWarning):
    """One of several servers failed several times in a row; the others take its calls."""


class SilentServerWarning(UserWarning):
    """A server took the first call and does not answer; it is waited for until the call's time is over."""


class Server(Remade):
    """One server and the client that talks to it, which all stages and threads share.

    Args:
        url: its base URL.
        api_key_env: the environment variable that holds the key.
        timeout: seconds that a call may take as a whole.

    Attributes:
        answered: whether anything ever came back from it.
        busy: calls in flight.
        failures: calls that failed in a row.
    """

    of_this_process = {
        "_lock": threading.Lock,
        "_network": Network,
        "_client": type(None),  # made of the key that the other process finds in its environment
        "_secrets": set,
        "busy": int,
        "failures": int,
    }

    def __init__(self, url: str, api_key_env: str, timeout: float) -> None:
        self.address, self.api_key_env, self.timeout = Address(url), api_key_env, timeout
        self.busy, self.failures, self.answered, self._told = 0, 0, False, False
        self._secrets: set[str] = set(self.address.secrets)
        self._client: openai.OpenAI | None = None
        self._network = Network()
        self._lock = threading.Lock()

    def __setstate__(self, state: dict[str, Any]) -> None:
        super().__setstate__(state)
        self._secrets |= set(self.address.secrets)

    @property
    def client(self) -> "openai.OpenAI":
        """The client, made at first use.

        Raises:
            FatalLLMError: when there is no key for it.
        """
        with self._lock:
            if self._client is None:
                self._client = self._connected()
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
        return redacted(text, self._secrets)

    def clean_completion(self, text: str) -> str:
        """What a model wrote, without secrets, but with what is a word or too short to tell: a key may read ``ollama``."""
        return redacted(text, filter(telling, self._secrets))

    @contextmanager
    def first_answer(self) -> Iterator[None]:
        """While the block waits for the server's very first answer, say so once when it takes long."""
        if self.answered or self._told:
            yield
            return
        timer = threading.Timer(min(SILENT, self.timeout), self._tell)
        timer.daemon = True
        timer.start()
        try:
            yield
        finally:
            timer.cancel()

    def _tell(self) -> None:
        with self._lock:
            tell, self._told = not (self._told or self.answered), True
        if tell and self.timeout > SILENT:
            message = (
                f"{self.address.shown} has not answered for {SILENT:g} seconds; each call waits for it up to {self.timeout:g} (timeout=...)"
            )
            warnings.warn(message, SilentServerWarning, stacklevel=1)

    def _connected(self) -> "openai.OpenAI":
        import openai

        self._check_key()  # before the key is a local variable, which some tracebacks show
        key = self._key() or self._no_key()
        self._secrets |= {key} if len(key) >= SHORTEST and key != NO_KEY else set()
        add_filter(HTTP_LOGGERS, self._secrets)
        try:
            # A redirect would take the key, or the question, to where nobody sent it.
            http = openai.DefaultHttpxClient(auth=self.address.login, follow_redirects=False)
        except Exception as error:  # each kind of wrong setting has one of its own
            raise self._unprepared(error) from None
        self._network = bounded(http)
        return openai.OpenAI(
            api_key=key,
            base_url=self.address.url,
            default_query=self.address.query,
            timeout=self.timeout,
            max_retries=0,
            http_client=http,
        )

    def _unprepared(self, error: Exception) -> FatalLLMError:
        found = ", ".join(name for name in SETTINGS if os.environ.get(name)) or "no variable for a proxy or certificates"
        why = "a SOCKS proxy needs the package socksio" if isinstance(error, ImportError) else shorten(LOGIN.sub("//***@", str(error)))
        return FatalLLMError(f"no connection to {self.address.shown} can be prepared: {why}: correct the environment, which sets {found}")

    def _key(self) -> str:
        return os.environ.get(self.api_key_env, "").strip()

    def _check_key(self) -> None:
        if not (self._key().isascii() and self._key().isprintable()):
            raise FatalLLMError(f"the key in {self.api_key_env} has a character that no key has, such as an ellipsis: copy it again")

    def _no_key(self) -> str:
        if self.address.local or self.address.login:
            return NO_KEY
        raise FatalLLMError(
            f"there is no key for {self.address.shown}: set the environment variable {self.api_key_env}, or name another one"
        )


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
            warnings.warn(
                f"{server.address.shown} is left out after {FAILURES} failures in a row ({error.reason}): its calls go to {left}",
                ServerLeftOutWarning,
                stacklevel=2,
            )


def addresses(base_url: str) -> list[str]:
    """The addresses in ``base_url``, which are separated by commas.

    Example:
        >>> addresses("http://a:8000/v1?tags=x,y,http://b:8000/v1")
        ['http://a:8000/v1?tags=x,y', 'http://b:8000/v1']
    """
    return re.split(r",(?=https?://)", base_url)
