"""Serve systems at an address, until a signal stops the server."""

import logging
import os
import signal
import socket
import sys
import threading
import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from types import FrameType
from typing import TYPE_CHECKING, Any

from ...conversations.frame import NoResultWarning
from ...errors import UsageError, advice, counted
from ...llms import Ledger
from ...store.cache import IN_MEMORY, open_cache
from ...study.systems import Systems, distinct_models
from .conversation_logs import ConversationLogs
from .guard import Guard, is_loopback, log, origins_of
from .service import Service, open_served
from .tokens import MAKE_A_TOKEN, TOKEN, people_of
from .waiting_line import Limits, Line

if TYPE_CHECKING:
    from .connections import Server

MEMORY = 256 << 20
"""Bytes for searches and scores in memory: a server runs for days, and most of its queries never come back."""


def app(
    systems: Systems,
    *,
    token: str | None = None,
    tokens: str | Path | None = None,
    origins: Sequence[str] = (),
    limits: Limits | None = None,
    mcp: bool = False,
    save_to: str | Path | None = None,
    dataset: str | None = None,
    ledger: Ledger | None = None,
    **resources: Any,
) -> Guard:
    """The ASGI application that serves systems, for a server of your own.

    Without a token it answers only clients on this machine that call it ``localhost`` or by a loopback address.

    Args:
        systems: see :func:`serve`.
        token: what every request needs after ``Authorization: Bearer``; at least 16 characters.
        tokens: see :func:`serve`.
        origins: see :func:`serve`.
        limits: see :func:`serve`.
        mcp: see :func:`serve`.
        save_to: see :func:`serve`; of several processes one may save, and ``application.service.logs.close()`` writes the topics files.
        dataset: see :func:`serve`.
        ledger: see :func:`serve`.
        **resources: see :func:`serve`.

    Raises:
        UsageError: for a system that can't be served, a short token, or a missing package.
        DataError: for an index or recorded file that can't be used.

    Example:
        >>> import pyterrier_ikat as ikat
        >>> class Model:
        ...     def generate(self, chats):
        ...         return ["Rooibos." for chat in chats]
        >>> application = app({"mine": ikat.Answer(ikat.llm(Model()))})  # doctest: +SKIP
    """
    people = people_of(token, tokens)
    with _needed():
        from .application import application

        if mcp:
            from .tools import tools_of
    bounds = limits or Limits()
    opened = open_served(systems, ledger or Ledger(), dataset=dataset, **resources)
    logs = None if save_to is None else ConversationLogs(save_to, opened)
    service = Service(opened, bounds, Line(bounds.workers, bounds.waiting), logs)
    made = application(service, *tools_of(service)) if mcp else application(service)
    return Guard(made, bounds, people, origins_of(origins), service)


@contextmanager
def _needed() -> Iterator[None]:
    try:
        yield
    except ModuleNotFoundError as error:
        if (error.name or "").partition(".")[0] not in ("starlette", "uvicorn", "h11", "mcp"):
            raise
        raise UsageError(f"a server needs {error.name}: pip install 'pyterrier_ikat[live]'") from None


@contextmanager
def running(systems: Systems, *, host: str = "127.0.0.1", port: int = 0, token: str | None = None, **options: Any) -> "Iterator[Server]":
    """Serve systems in a thread while the block runs, for a notebook or a test. The arguments are those of :func:`serve`.

    Example:
        >>> import pyterrier_ikat as ikat
        >>> class Model:
        ...     def generate(self, chats):
        ...         return ["Rooibos." for chat in chats]
        >>> with running({"mine": ikat.Answer(ikat.llm(Model()))}) as server:  # doctest: +SKIP
        ...     client = openai.OpenAI(base_url=f"{server.url}/v1", api_key="none")
    """
    given = (os.environ.get(TOKEN) if token is None else token) or None
    listener = _bound(host, port, given is not None or options.get("tokens") is not None)
    with listener, warnings.catch_warnings():
        guard = app(systems, token=given, **options)
        from .connections import Server  # uvicorn is there: the application was made

        service: Service = guard.service
        server = Server(guard, service.line, listener, service.notes())
        try:
            warnings.simplefilter("ignore", NoResultWarning)  # the answer says it
            if not server.start():
                raise UsageError(f"the server did not start at {server.url}: choose another port with {advice('port=...', '--port')}")
            yield server
        finally:
            server.stop()
            for model in distinct_models(service.systems.values()):
                model.close()
            if service.logs is not None:
                service.logs.close()


def serve(
    systems: Systems,
    *,
    host: str = "127.0.0.1",
    port: int = 8000,
    token: str | None = None,
    tokens: str | Path | None = None,
    origins: Sequence[str] = (),
    limits: Limits | None = None,
    mcp: bool = False,
    save_to: str | Path | None = None,
    dataset: str | None = None,
    ledger: Ledger | None = None,
    echo: Callable[[str], None] = print,
    **resources: Any,
) -> None:
    """Serve systems by OpenAI's chat protocol, with a search endpoint and a chat page, until Ctrl-C or SIGTERM.

    Every name is checked and every model loaded before it listens. After the signal nothing new is accepted, requests that wait are
    refused, and those under way get ``limits.stop`` seconds to finish; a second Ctrl-C ends the server at once.

    Args:
        systems: any pipelines, functions or names of methods, as for :func:`pyterrier_ikat.run`; each is a model.
        host: the address to listen on; by default only this machine reaches it.
        port: the port; 0 for a free one.
        token: what every request needs after ``Authorization: Bearer``; by default the environment variable ``IKAT_TOKEN``. Required
            on any other address than loopback.
        tokens: a file with the tokens of several people, a line ``NAME TOKEN`` for each; a number after them is the most requests that
            the person may send in a minute.
        origins: pages of other sites that may use it from a browser, such as ``"https://chat.example.org"``.
        limits: the bounds.
        mcp: whether the tools ``ask`` and ``search`` are offered by the Model Context Protocol at ``/mcp``.
        save_to: a folder for the conversations whose clients name them, a log for each system; without it nothing is stored.
        dataset: with recorded completions, the dataset whose conversations they answer.
        ledger: the account that language models given as text count in.
        echo: prints a line.
        resources: the resources of methods, see :class:`~pyterrier_ikat.study.Resources`.

    Raises:
        UsageError: for a system that can't be served, a missing token or package, or an address that can't be used.
        DataError: for an index or recorded file that can't be used.

    Example:
        >>> import pyterrier_ikat as ikat
        >>> ikat.serve("gtr", index="mini.index", llm="openai:gpt-4o", second_llm="openai:gpt-4o")  # doctest: +SKIP
    """
    stopped = threading.Event()
    memory = open_cache()
    if memory.path == IN_MEMORY:
        memory.max_bytes = min(memory.max_bytes, MEMORY)
    options: dict[str, Any] = {"host": host, "port": port, "token": token, "tokens": tokens, "origins": origins, "limits": limits}
    options |= {"mcp": mcp, "save_to": save_to, "dataset": dataset, "ledger": ledger}
    with _logged(), running(systems, **options, **resources) as server, _stopped_by_signals(stopped):
        echo(f"chat page      {server.url}/\nmodels         {server.url}/v1\nsearch         {server.url}/search")
        if mcp:
            echo(f"MCP            {server.url}/mcp")
        for note in server.notes:
            echo(f"note: {note}")
        echo("Ctrl-C stops")
        server.wait(stopped)
        echo("stopping: finishing the requests under way")
        server.stop()
    if server.unfinished:
        echo(f"not finished in time: {counted(server.unfinished, 'request')}")


def _bound(host: str, port: int, guarded: bool) -> socket.socket:
    """A socket at the address, which doesn't listen yet."""
    if not is_loopback(host) and not guarded:
        again = advice(f"and call serve(..., host={host!r}) again", "and run the same command again")
        raise UsageError(f"{host} is reached from other machines, and there is no token: {MAKE_A_TOKEN}, {again}")
    if not 0 <= port <= 65535:
        raise UsageError(f"there is no port {port}: give a number from 0 to 65535 with {advice('port=...', '--port')}")
    try:
        family, _, _, _, address = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)[0]
    except (socket.gaierror, UnicodeError, OverflowError) as error:
        raise UsageError(f"there is no address {host}:{port} ({error}): correct {advice('host=...', '--host')}") from None
    listener = socket.socket(family, socket.SOCK_STREAM)
    try:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listener.bind(address)
    except OSError as error:
        listener.close()
        free = advice("port=0", "--port 0")
        raise UsageError(f"{host}:{port} can't be used ({error.strerror}): choose another port, or a free one with {free}") from None
    return listener


@contextmanager
def _logged() -> Iterator[None]:
    """The log on stderr."""
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(logging.Formatter("%(asctime)s %(message)s", "%Y-%m-%d %H:%M:%S"))
    level, log.propagate = log.level, False
    log.addHandler(handler)
    log.setLevel(logging.INFO)
    try:
        yield
    finally:
        log.removeHandler(handler)
        log.setLevel(level)
        log.propagate = True


@contextmanager
def _stopped_by_signals(stopped: threading.Event) -> Iterator[None]:
    """The first Ctrl-C or SIGTERM sets the event, the second one ends the program; elsewhere than in the main thread signals do nothing."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return

    def stop(number: int, frame: FrameType | None) -> None:
        if stopped.is_set():
            raise KeyboardInterrupt
        stopped.set()

    before = {number: signal.signal(number, stop) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
