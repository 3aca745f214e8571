"""The servers behind one model: one client per address, several servers that share the calls."""

import importlib
import os
import sys
import threading
import time
import warnings
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING, Any
from weakref import finalize

from ..portable import Remade
from .failures import Transient
from .network import Address, Network, connect, is_distinctive, redact

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
        self._end: finalize[..., Server] | None = None
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
                self._end = finalize(self, self._client.close)
            return self._client

    def close(self) -> None:
        """Close the connections; the next call opens them again."""
        end, self._client, self._end = self._end, None, None
        if end is not None:
            end()

    def cut(self) -> None:
        """End the calls that are under way, without their answers."""
        self._network.cut()

    def clean(self, text: str) -> str:
        """``text`` without the key and what is secret in the address."""
        return redact(text, self._secrets)

    def clean_completion(self, text: str) -> str:
        """A model's text without secrets. Words and short texts are kept, because a key may be ``ollama``."""
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
