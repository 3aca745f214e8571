"""Serve systems at an address, until Ctrl-C or SIGTERM."""

import logging
import os
import re
import socket
import threading
import time
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

from ...conversations.frame import NoResultWarning
from ...errors import UsageError
from ...llms import Ledger
from ...study.systems import System, Systems, distinct_models

if TYPE_CHECKING:
    from .service import Service

TOKEN_VARIABLE = "IKAT_SERVE_TOKEN"
TEAM_TOKEN_VARIABLE = "IKAT_TOKEN"
"""The variable of `ikat interact` with the team's token at the track: no client may get it."""
MAKE_A_TOKEN = (
    f"export {TOKEN_VARIABLE}=$(python -c 'import secrets; print(secrets.token_urlsafe(32))')"
)
GRACE_SECONDS = 1
"""Seconds that requests under way get to finish when the server stops."""


def serve(
    systems: Systems, *, port: int = 8000, echo: Callable[[str], None] = print, **options: Any
) -> None:
    """Serve systems until Ctrl-C: by OpenAI's chat protocol, a search endpoint and a chat page.

    Every name is checked and every model loaded before it listens. After Ctrl-C, requests under way
    get a second to finish.

    Args:
        systems: any pipelines, functions or names of methods, as for :func:`pyterrier_ikat.run`;
            each is a model.
        port: the port; 0 for a free one.
        echo: prints a line.
        options: ``host``, ``token``, ``origins``, ``public_url``, ``workers``, ``mcp``, ``out``,
            ``dataset``, ``words``, ``ledger`` and the resources of methods, see
            :func:`pyterrier_ikat.live.serving.running`.

    Raises:
        UsageError: for a system that can't be served, a missing token or package, or an address
            that can't be used.
        DataError: for an index or recorded file that can't be used.

    Example:
        >>> import pyterrier_ikat as ikat
        >>> models = {"llm": "openai:gpt-4o", "second_llm": "openai:gpt-4o"}
        >>> ikat.serve("gtr", index="mini.index", **models)  # doctest: +SKIP
    """
    # SIGTERM is a KeyboardInterrupt on the command line
    with running(systems, port=port, log=True, **options) as server, suppress(KeyboardInterrupt):
        lines = [
            f"chat page      {server.url}/",
            f"models         {server.url}/v1",
            f"search         {server.url}/search",
            *server.notes,
            "Ctrl-C stops",
        ]
        echo("\n".join(lines))
        while server.thread.is_alive():
            time.sleep(1)  # an interrupted join takes the thread for ended


class Running:
    """A server in a thread.

    Attributes:
        url: its address.
        notes: what its user should know.
        thread: where it runs. It is a daemon, and so are the threads that it starts: the process
            ends while a model is still asked.
    """

    def __init__(
        self, application: Any, listener: socket.socket, notes: list[str], log: bool
    ) -> None:
        from uvicorn.config import LOGGING_CONFIG, Config
        from uvicorn.server import Server

        config = Config(
            application,
            log_config=LOGGING_CONFIG if log else None,
            access_log=log,
            limit_concurrency=1000,
            timeout_graceful_shutdown=GRACE_SECONDS,
        )
        # of requests that the stop cuts off it prints tracebacks
        logging.getLogger("uvicorn.error").setLevel(logging.CRITICAL)
        address, port = listener.getsockname()[:2]
        if ":" in address:
            address = f"[{address}]"
        self.url = f"http://{address}:{port}"
        self.notes = notes
        self._server = Server(config)
        self.thread = threading.Thread(
            target=self._server.run, args=([listener],), name="ikat-serve", daemon=True
        )
        self.thread.start()
        while not self._server.started and self.thread.is_alive():
            time.sleep(0.01)

    def stop(self) -> None:
        """Accept nothing new, and wait for the requests under way, at most for a second."""
        self._server.should_exit = True
        self.thread.join()


@contextmanager
def running(
    systems: Systems,
    *,
    host: str = "127.0.0.1",
    port: int = 0,
    token: str | None = None,
    origins: Sequence[str] = (),
    public_url: str | None = None,
    workers: int = 16,
    mcp: bool = False,
    out: str | Path | None = None,
    dataset: str | None = None,
    words: int | None = None,
    ledger: Ledger | None = None,
    log: bool = False,
    **resources: Any,
) -> "Iterator[Running]":
    """Serve systems in a thread while the block runs, for a notebook or a test.

    Args:
        systems: any pipelines, functions or names of methods, as for :func:`pyterrier_ikat.run`;
            each is a model.
        host: the address to listen on; by default only this machine reaches it.
        port: the port; 0 for a free one.
        token: what every request needs after ``Authorization: Bearer``; by default the environment
            variable ``IKAT_SERVE_TOKEN``. Required on any other address than loopback.
        origins: pages of other sites that may use it from a browser, such as
            ``"https://chat.example.org"``.
        public_url: the address under which browsers reach it, such as
            ``"https://chat.example.org"``. Then cited passages have addresses there, which open
            without the token.
        workers: the requests that are worked on at a time; others wait.
        mcp: whether the tools ``ask`` and ``search`` are offered by the Model Context Protocol at
            ``/mcp``.
        out: a folder for the conversations whose clients name them, a log for each system;
            without it nothing is stored.
        dataset: with recorded completions, the dataset whose conversations they answer.
        words: the most words of a response, of systems with :class:`~pyterrier_ikat.Respond`; None
            for their own limits.
        ledger: the account that language models given as text count in.
        log: whether uvicorn prints a line for each request.
        **resources: the resources of methods, see :class:`~pyterrier_ikat.study.Resources`.

    Raises:
        UsageError: for a system that can't be served, a missing token or package, or an address
            that can't be used.
        DataError: for an index or recorded file that can't be used.

    Example:
        >>> import pyterrier_ikat as ikat
        >>> class Model:
        ...     def generate(self, chats):
        ...         return ["Rooibos." for chat in chats]
        >>> with running({"mine": ikat.Answer(ikat.llm(Model()))}) as server:  # doctest: +SKIP
        ...     client = openai.OpenAI(base_url=f"{server.url}/v1", api_key="none")
    """
    token, token_note = _token(host, token)
    pages = [origins] if isinstance(origins, str) else origins
    allowed = [page.lower().rstrip("/") for page in pages]  # as a browser sends them
    with _bound(host, port) as listener, warnings.catch_warnings():
        warnings.simplefilter("ignore", NoResultWarning)  # the answer says it
        try:
            import anyio

            from .application import application
            from .passages import PassageAddresses
            from .service import SavedConversations, Service, open_served

            if mcp:
                from .tools import tools_of
        except ModuleNotFoundError as error:
            raise UsageError(
                f"a server needs {error.name}: pip install 'pyterrier_ikat[live]'"
            ) from None
        hosts = []
        passages = None
        if public_url is not None:
            passages = PassageAddresses(public_url, token)
            parts = urlsplit(passages.base)
            hosts.append(parts.netloc.rpartition(":")[0] if parts.port else parts.netloc)
            allowed.append(f"{parts.scheme}://{parts.netloc}".lower())
        opened = open_served(systems, ledger or Ledger(), dataset=dataset, words=words, **resources)
        saved = None if out is None else SavedConversations(out, opened)
        service = Service(opened, anyio.CapacityLimiter(workers), saved, passages)
        tools = tools_of(service) if mcp else ((), None)
        served = application(service, token, allowed, tools, hosts)
        notes = [token_note, *_notes(opened, mcp, out)]
        if passages is not None:
            notes += _notes_on_passages(service, passages.base, token)
        server = Running(served, listener, notes, log)
        try:
            yield server
        finally:
            server.stop()
            for model in distinct_models(opened.values()):
                model.close()
            if saved is not None:
                saved.close()


def _notes(opened: Mapping[str, System], mcp: bool, out: str | Path | None) -> list[str]:
    """Return sentences about the answers, tools and logs of a server."""
    notes = []
    for name, system in opened.items():
        if system.writes_response is False:
            notes.append(f"{name} writes no response: its answers list passages")
    if mcp:
        notes.append("tools of the Model Context Protocol are at /mcp")
    if out is not None:
        notes.append(f"conversations whose clients name them are saved in {Path(out)}")
    return notes


def _notes_on_passages(service: "Service", url: str, token: str | None) -> list[str]:
    """Return sentences about the addresses of cited passages."""
    end = f"{TOKEN_VARIABLE} changes" if token else "the server stops"
    notes = [f"cited passages open without a token at {url}/passages/..., until {end}"]
    for name, system in service.systems.items():
        if service.address(system) is None:
            notes.append(f"passages of {name} have no address: its index gives no texts by id")
    return notes


def _token(host: str, argument: str | None) -> tuple[str | None, str]:
    """Return the token for requests, and a sentence on its origin."""
    if argument is None:
        token = os.environ.get(TOKEN_VARIABLE)
        source = f"the environment variable {TOKEN_VARIABLE}"
    else:
        token = argument
        source = "the argument token"
    team = os.environ.get(TEAM_TOKEN_VARIABLE, "").strip()
    of_team = (
        f"{TEAM_TOKEN_VARIABLE} is the token of your team at the track, and clients don't get it"
    )
    if not token:
        also = f"; {of_team}" if team else ""
        if host not in ("localhost", "127.0.0.1", "::1"):
            raise UsageError(
                f"{host} is reached from other machines, and there is no token{also}: "
                f"{MAKE_A_TOKEN}, and call it again"
            )
        return None, f"no token: only this machine is answered; {TOKEN_VARIABLE} is not set{also}"
    if token.strip() == team:
        raise UsageError(
            f"the token of the server is that of {TEAM_TOKEN_VARIABLE}; {of_team}: "
            f"{MAKE_A_TOKEN}, and call it again"
        )
    if len(token) < 16 or not re.fullmatch("[!-~]+", token):
        raise UsageError(
            f"the token ({TOKEN_VARIABLE}) needs at least 16 letters, digits or punctuation marks "
            f"of ASCII: {MAKE_A_TOKEN}"
        )
    return token, f"requests need the token of {source}, as Authorization: Bearer TOKEN"


def _bound(host: str, port: int) -> socket.socket:
    """Return a listening socket at an address."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    try:
        listener = socket.create_server((host, port), family=family, backlog=1000)
    except OSError as error:
        raise UsageError(
            f"{host}:{port} can't be used ({error}): choose another port; 0 is a free one"
        ) from None
    # connections inherit it: else an answer waits 40 ms for its head
    listener.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    return listener
