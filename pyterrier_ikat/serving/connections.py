"""A connection over HTTP that gives a client so many seconds for each request's header."""

import asyncio

from uvicorn.protocols.http.h11_impl import H11Protocol

from .limits import Limits


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

    def on_response_complete(self) -> None:
        """A response is complete: the next request may begin."""
        super().on_response_complete()
        self._watch()

    def connection_lost(self, exc: Exception | None) -> None:
        """The client left."""
        self._forget()
        super().connection_lost(exc)

    def _watch(self) -> None:
        """Between two requests a deadline runs, which a byte more doesn't move."""
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
