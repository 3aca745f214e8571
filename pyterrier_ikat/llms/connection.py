"""How a call reaches its server: within its time as a whole, to that server only, and cut off when nobody waits for it any more.

The HTTP client's own time-outs begin anew with every byte that arrives. Here every wait of a call, on name look-up, connection, headers
and body, gets what is left of the call's time.
"""

import socket
import threading
import time
from collections.abc import Callable, Iterator
from concurrent import futures
from contextlib import contextmanager, suppress
from typing import Any
from weakref import WeakSet

CONNECT = 5.0
"""Seconds until a server counts as not reached; a busy one takes less than one to accept a connection."""

LONGEST = 1e6
"""Seconds. The system takes no longer ones, and nobody waits for twelve days."""

_call = threading.local()


@contextmanager
def within(seconds: float) -> Iterator[None]:
    """Everything that this thread sends and receives over a `bounded` client has to come to its end in time.

    Raises:
        TimeoutError: from the wait that lasts too long.

    Example:
        >>> with within(60):
        ...     _left() > 59
        True
    """
    _call.ends = time.monotonic() + seconds
    try:
        yield
    finally:
        del _call.ends


def bounded(http: Any) -> "Network":
    """Make an `openai.DefaultHttpxClient` keep to `within`; gives what can cut its calls off."""
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
    """What ``work`` opens, in a thread that is left behind when it takes too long: no time-out ends a name look-up."""
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
