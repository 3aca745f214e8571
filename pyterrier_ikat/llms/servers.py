"""The servers behind one model: lines to each of them, whose calls end in time, and several servers that share the calls."""

import importlib
import os
import re
import socket
import sys
import threading
import time
import warnings
from collections.abc import Callable, Iterator
from concurrent import futures
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING, Any, TypeVar
from weakref import finalize

from ..portable import Remade
from .failures import FatalLLMError, Transient, shorten
from .limits import CONNECT
from .network import HTTP_LOGGERS, SHORTEST, Address, add_filter, is_distinctive, redact

if TYPE_CHECKING:
    import openai

NO_KEY = "none"
SETTINGS = (*(name for proxy in ("ALL_PROXY", "HTTP_PROXY", "HTTPS_PROXY", "NO_PROXY") for name in (proxy, proxy.lower())), "SSL_CERT_FILE")
LOGIN = re.compile(r"//[^/@\s]*@")
FAILURES = 3
SILENT = 10.0
"""Seconds after which a server that has never answered is named, while it is still waited for."""
LATEST_TRY = 0.7
"""The share of them after which a try may be the last one before 15 seconds are over."""
LONGEST = 1e6
"""Seconds. The system takes no longer ones, and nobody waits for twelve days."""

Found = TypeVar("Found")
Work = Callable[["openai.OpenAI"], Found]


class ServerLeftOutWarning(UserWarning):
    """One of several servers failed several times in a row; the others take its calls."""


class SilentServerWarning(UserWarning):
    """A server took the first call and does not answer; it is waited for until the call's time is over."""


class Connector:
    """Makes clients for an address; the key and the certificates are read once for all of them.

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
            if self._certificates is None:  # to read them takes a tenth of a second
                http = importlib.import_module(openai.DefaultHttpxClient.__mro__[1].__module__.partition(".")[0])  # httpx, or httpx2
                self._certificates = http.create_ssl_context()
            hooks: Any = {"request": [follow]}
            # A redirect would take the key, or the question, to where nobody sent it.
            connected = openai.DefaultHttpxClient(
                auth=self.address.login, follow_redirects=False, event_hooks=hooks, verify=self._certificates
            )
        except Exception as error:  # each kind of wrong setting has one of its own
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

    The HTTP client's own time-outs begin anew with every byte that arrives, and no look-up of a name can be interrupted. So a call runs on
    a thread of its own: whoever waits for it waits as long as it may take, and cuts the line then, which ends that thread.

    Args:
        connector: makes the client.

    Attributes:
        cut_off: True once it has been cut; it serves no other call.
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
        """End what is under way: whoever waits for an answer finds the connection lost."""
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
    """One server and the lines to it, which all stages and threads share.

    Args:
        address: its base URL.
        api_key_env: the environment variable that holds the key.
        timeout: seconds that a call may take as a whole.

    Attributes:
        idle: the lines that nobody uses.
        answered: whether anything ever came back from it.
        silent_since: when it was first called, as long as nothing came back.
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
        """Prepare a line, so that the first call does not have to.

        Raises:
            FatalLLMError: when there is no key for it, or the environment's proxy or certificates are wrong.
        """
        with self._lock:
            self.idle.append(self._line())

    def close(self) -> None:
        """Close the connections; the next call opens them again."""
        with self._lock:
            self._connector = None
            _close(self.idle)

    def cut(self) -> None:
        """End the calls that are under way, without their answers."""
        for line in list(self._in_use):
            line.cut()

    def call(self, work: Work[Found], seconds: float) -> Found:
        """What ``work`` gets from the server, which has so many seconds for all of it.

        Raises:
            TimeoutError: when it takes longer.
            ConnectionError: when it is not reached.
            Exception: of ``work``.
        """
        since = time.monotonic()
        ends = since + min(seconds, LONGEST)
        if not self.answered:
            since = self.silent_since = self.silent_since or since  # a call that finds no connection sets it back at any time
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
        """``text`` without the key and what is secret in the address."""
        return redact(text, self._secrets)

    def clean_completion(self, text: str) -> str:
        """A model's text without secrets. Words and short texts are kept, because a key may be ``ollama``."""
        return redact(text, filter(is_distinctive, self._secrets))

    def _line(self) -> Line:
        """A line that nobody uses, for whoever holds the lock."""
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
        """Wait for the server's very first answer, and say so once when it takes long, over all tries."""
        waited, left = time.monotonic() - since, ends - time.monotonic()
        patience = SILENT - waited if waited < LATEST_TRY * SILENT else 0.0
        futures.wait([found], min(patience, left))
        with self._lock:
            tell = not found.done() and patience < left and not (self._told or self.answered)
            self._told = self._told or tell
        if tell:
            waited = round(time.monotonic() - since, 2)
            message = f"has not answered for {waited:g} seconds; each try waits for it up to {self.timeout:g} (timeout=...)"
            warnings.warn(f"{self.address.shown} {message}", SilentServerWarning, stacklevel=1)


def _close(lines: list[Line]) -> None:
    while lines:
        lines.pop().client.close()


class Servers(Remade):
    """Servers of the same model; each call goes to the one with the fewest calls in flight.

    A server that fails three times in a row (no connection, no answer in time, 5xx, no chat completion) gets no more calls and is named in
    a `ServerLeftOutWarning`, as long as another server works; if none does, all are tried again.

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
        """Whether nothing ever came back from any server, now that ``server`` has failed and all others have."""
        return all(not one.answered and (one.failures > 0 or one is server) for one in self.all)

    def _failed(self, server: Server, error: Transient) -> None:
        with self._lock:
            server.failures = 0 if error.overloaded else server.failures + 1
            just_now = server.failures == FAILURES
            left = ", ".join(one.address.shown for one in self.all if one.failures < FAILURES)
        if just_now and left:
            message = f"{server.address.shown} gets no more calls after {FAILURES} failures in a row ({error.reason}): they go to {left}"
            warnings.warn(message, ServerLeftOutWarning, stacklevel=2)


_importing = threading.Thread(target=lambda: None)
FORK_WAITS = 10.0
"""The most seconds that a fork waits for the import."""


def import_client() -> None:
    """Begin to import the client on a thread of its own: that takes longer than a call, and the pipeline is still to be built.

    A fork waits until it is done, because the child would keep the locks of an import that nobody ends.
    """
    global _importing
    if "openai" not in sys.modules:
        # No daemon: the interpreter must not end within the import of compiled modules.
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
