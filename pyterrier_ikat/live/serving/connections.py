"""uvicorn's server, which its caller stops, and its connections, which bound the seconds until a request's header is complete."""

import asyncio
import logging
import socket
import threading
from contextlib import suppress

import h11
import uvicorn
from uvicorn.protocols.http.h11_impl import H11Protocol

from .guard import Guard
from .waiting_line import Limits, Line
from .wire import Failure, as_json

CONNECTIONS = 1000
"""Connections at a time; further ones are closed at once."""


class Connection(H11Protocol):
    """uvicorn's connection, closed when a request's header isn't complete in time or there are too many connections.

    uvicorn bounds the time between two requests; a client that sends its header byte by byte would hold a connection for ever.
    """

    limits: Limits
    most: int
    _deadline: asyncio.TimerHandle | None = None

    @classmethod
    def bounded(cls, limits: Limits, most: int) -> type["Connection"]:
        """A kind of connection with these bounds."""
        return type("Connection", (cls,), {"limits": limits, "most": most})

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """A client connected."""
        super().connection_made(transport)
        if len(self.connections) > self.most:
            transport.close()
        self._watch()

    def data_received(self, data: bytes) -> None:
        """The client sent something."""
        super().data_received(data)
        self._watch()

    def send_400_response(self, msg: str) -> None:
        """Answer a request that is not HTTP like every other wrong request."""
        failure = Failure(400, "this is not a request of HTTP/1.1: a proxy in between may not change requests, and https needs a proxy")
        headers = [(b"content-type", b"application/json"), (b"connection", b"close")]
        parts = (h11.Response(status_code=400, headers=headers), h11.Data(data=as_json(failure.record())), h11.EndOfMessage())
        with suppress(h11.LocalProtocolError):  # another response has begun
            for part in parts:
                self.transport.write(self.conn.send(part) or b"")
        self.transport.close()

    def on_response_complete(self) -> None:
        """A response is complete: the next request may begin."""
        super().on_response_complete()
        self._watch()

    def connection_lost(self, exc: Exception | None) -> None:
        """The client left."""
        self._forget()
        super().connection_lost(exc)

    def _watch(self) -> None:
        """Between two requests a deadline runs, and a further byte doesn't move it."""
        at_work = self.cycle is not None and not self.cycle.response_complete
        if at_work or self.transport.is_closing():
            self._forget()
        elif self._deadline is None:
            self._deadline = self.loop.call_later(self.limits.read, self._close)

    def _forget(self) -> None:
        if self._deadline is not None:
            self._deadline.cancel()
            self._deadline = None

    def _close(self) -> None:
        self._deadline = None
        self.transport.close()


class Server(uvicorn.Server):
    """uvicorn's server for the application, in a thread of its own: it handles no signal.

    Args:
        guard: the application.
        line: where its requests wait; those that wait at the stop are refused.
        listener: a bound socket.
        notes: what its user should know.

    Attributes:
        url: its address.
        notes: as given.
        unfinished: the requests that its stop cut off.
    """

    def __init__(self, guard: Guard, line: Line, listener: socket.socket, notes: list[str]) -> None:
        super().__init__(
            uvicorn.Config(
                guard,
                http=Connection.bounded(guard.limits, CONNECTIONS),
                ws="none",
                lifespan="on",
                log_config=None,
                log_level=logging.CRITICAL + 1,  # the guard logs: uvicorn prints whole tracebacks, also of requests that the stop cuts off
                access_log=False,
                proxy_headers=False,
                server_header=False,
                h11_max_incomplete_event_size=guard.limits.header,
                timeout_graceful_shutdown=int(guard.limits.stop),
            )
        )
        self.line, self.notes, self.unfinished = line, notes, 0
        address, port = listener.getsockname()[:2]
        self.url = f"http://[{address}]:{port}" if ":" in address else f"http://{address}:{port}"
        self._listening = threading.Event()
        self._thread = threading.Thread(target=self.run, args=([listener],), name="ikat-serve", daemon=True)

    def start(self) -> bool:
        """Begin to serve; whether it listens."""
        self._thread.start()
        return self._listening.wait(60) and self._thread.is_alive()

    def wait(self, stopped: threading.Event) -> None:
        """Wait for the event, or the server's end."""
        while self._thread.is_alive() and not stopped.wait(1):
            pass

    def stop(self) -> None:
        """Accept nothing new, and wait until the requests under way are finished, at most for the limit."""
        self.should_exit = True
        self._thread.join()

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        """Listen."""
        await super().startup(sockets)
        self._listening.set()

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        """Stop: first those that wait are refused."""
        self.line.stop()
        await super().shutdown(sockets)
        self.unfinished = len(self.server_state.tasks)

    def run(self, sockets: list[socket.socket] | None = None) -> None:
        """Serve until ``should_exit``."""
        try:
            asyncio.run(self.serve(sockets))
        finally:
            self._listening.set()
