"""The guard of a server: who may send requests, how large and how slow these may be, and what is logged of them.

A server without a token answers only clients on this machine, and only under this machine's own names: a page of the web can neither read
its answers (no CORS header) nor reach it under a name of its own (DNS rebinding). With a token, every request needs it, also on this
machine; only the chat page itself, which holds nothing secret, is sent without it.
"""

import asyncio
import ipaddress
import logging
import re
import time
import traceback
from collections.abc import Awaitable, Callable, MutableMapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from ...errors import UsageError, counted
from .tokens import Person, find_person
from .waiting_line import FullError, Limits
from .wire import Failure, RequestError, as_json, failure_of

Message = MutableMapping[str, Any]
Scope = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[Message]]
Send = Callable[[Message], Awaitable[None]]
App = Callable[[Scope, Receive, Send], Awaitable[None]]

HEADERS = (
    (b"cache-control", b"no-store"),
    (b"x-content-type-options", b"nosniff"),
    (b"referrer-policy", b"no-referrer"),
    (b"cross-origin-resource-policy", b"same-origin"),
)
LOGGED = ("/", "/v1/models", "/v1/chat/completions", "/search", "/mcp")
"""The paths that the log names; others may hold anything."""
PAGE, HEALTH = "/", "/healthz"
OPEN = (PAGE, HEALTH)
"""The paths that need no token."""
HOST = re.compile(r"(?:\[(?P<address>[0-9a-fA-F:.]+)\]|(?P<name>[^:\[\]]+))(?::[0-9]+)?")
"""The header ``Host``: a name or an address, and a port."""
GONE = 499
"""The status in the log of a request whose client didn't wait for the answer."""
DRAINED = 8
"""How many times the allowed bytes of a body are read and thrown away, so that the client gets to read the refusal."""

log = logging.getLogger("pyterrier_ikat.live.serving")


def is_loopback(host: str) -> bool:
    """Whether an address or a host's name means this machine.

    Example:
        >>> [is_loopback(host) for host in ("localhost", "127.0.0.1", "::1", "0.0.0.0", "localhost.example.org")]
        [True, True, True, False, False]
    """
    if host.lower() in ("localhost", "localhost."):
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


def origins_of(pages: str | Sequence[str]) -> frozenset[str]:
    """The origins of pages, as a browser sends them.

    Raises:
        UsageError: for what is not the origin of a page, such as a name without ``https://``, or ``*``.

    Example:
        >>> sorted(origins_of(["https://Chat.example.org/", "http://localhost:3000"]))
        ['http://localhost:3000', 'https://chat.example.org']
    """
    found = [page.lower().rstrip("/") for page in ([pages] if isinstance(pages, str) else pages)]
    for origin in found:
        if not re.fullmatch(r"https?://[a-z0-9.\-_:\[\]]+", origin):
            raise UsageError(f"{origin!r} is not the origin of a page: give scheme and host, as in https://chat.example.org")
    return frozenset(found)


@dataclass
class Guard:
    """Checks every request before the application sees it, and reads its body.

    Attributes:
        app: the application.
        limits: the bounds of a request.
        people: those whose token requests need after ``Authorization: Bearer``; nobody for a server that only this machine reaches.
        origins: foreign pages that may use the server, such as ``https://chat.example.org``.
        service: what the application does.
    """

    app: App
    limits: Limits
    people: Sequence[Person] = ()
    origins: frozenset[str] = frozenset()
    service: Any = field(default=None, repr=False)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve one connection's request."""
        if scope["type"] == "lifespan":
            await self.app(scope, receive, send)
            return
        if scope["type"] != "http":
            return  # a websocket: nobody serves it
        exchange = _Exchange(scope, send, self.limits, self._allowed_origin(scope))
        try:
            await self._serve(exchange, scope, receive)
        except asyncio.CancelledError:  # the server's time to stop is over
            await exchange.refuse(failure_of(FullError(1, stopping=True)))
            raise
        except Exception as error:
            log_defect(error)
            await exchange.refuse(failure_of(error))
        finally:
            exchange.log()

    async def _serve(self, exchange: "_Exchange", scope: Scope, receive: Receive) -> None:
        failure = self._refusal(scope)
        if failure is not None:
            await exchange.refuse(failure)
        elif scope["method"] == "OPTIONS":
            await exchange.preflight()
        else:
            try:
                body = await asyncio.wait_for(_read(receive, _declared(scope), self.limits.body), self.limits.read)
            except RequestError as error:
                await exchange.refuse(failure_of(error))
            except (TimeoutError, asyncio.TimeoutError):
                message = f"the body did not arrive within {self.limits.read:g} seconds: send it faster, or a smaller one"
                await exchange.refuse(Failure(408, message))
            except ConnectionError:
                pass  # the client left while it was sending
            else:
                await self.app(scope, _replayed(body, receive), exchange.send)

    def _refusal(self, scope: Scope) -> Failure | None:
        length = sum(len(name) + len(value) for name, value in scope["headers"])
        if length + len(scope.get("raw_path") or b"") + len(scope["query_string"]) > self.limits.header:
            return Failure(431, f"the header has more than {self.limits.header} bytes: send a smaller one")
        if _header(scope, b"content-length") and _header(scope, b"transfer-encoding"):
            return Failure(400, "the header says in two ways where the body ends: send Content-Length or Transfer-Encoding, not both")
        return self._wrong_place(scope) or self._foreign(scope) or self._unknown(scope)

    def _wrong_place(self, scope: Scope) -> Failure | None:
        """Without a token only this machine is served, under its own names."""
        if self.people:
            return None
        client, host = scope.get("client"), _header(scope, b"host") or ""
        if client is not None and not is_loopback(client[0]):
            return Failure(403, "this server has no token, and answers its own machine only: start it with IKAT_TOKEN", code="not_local")
        named = HOST.fullmatch(host)
        if named is None or not is_loopback(named["name"] or named["address"]):
            return Failure(403, "this server has no token, and answers only as localhost: start it with IKAT_TOKEN", code="wrong_host")
        return None

    def _foreign(self, scope: Scope) -> Failure | None:
        """A page of another site, as its browser says."""
        origin, site = _header(scope, b"origin"), _header(scope, b"sec-fetch-site")
        own = f"://{(_header(scope, b'host') or '').lower()}"
        if origin is not None:
            foreign = origin not in self.origins and origin.lower() not in (f"http{own}", f"https{own}")
        else:
            foreign = site in ("cross-site", "same-site") and scope["path"] != PAGE
        if foreign:
            return Failure(
                403, "a page of another site may not use this server: start it in Python with origins=[...]", code="foreign_page"
            )
        return None

    def _allowed_origin(self, scope: Scope) -> str | None:
        origin = _header(scope, b"origin")
        return origin if origin in self.origins else None

    def _unknown(self, scope: Scope) -> Failure | None:
        """Without a token nothing is served but the page, the server's health, and a browser's question whether it may ask."""
        if not self.people or scope["path"] in OPEN or (scope["method"] == "OPTIONS" and self._allowed_origin(scope)):
            return None
        scheme, _, given = (_header(scope, b"authorization") or "").partition(" ")
        person = find_person(self.people, given.strip())
        if scheme.lower() != "bearer" or person is None:
            message = "the token is missing or wrong: send yours as the header Authorization: Bearer TOKEN (the API key)"
            return Failure(401, message, code="invalid_api_key")
        scope["person"] = person.name
        if scope["method"] == "POST" and (seconds := person.wait()):
            message = f"your token allows {person.rate} requests in a minute: ask again in {counted(seconds, 'second')}"
            return Failure(429, message, "rate_limit_error", "rate_limited", retry_after=seconds)
        return None


@dataclass
class _Exchange:
    """A request and its response: its headers, its log line, and no wait for a client that doesn't read."""

    scope: Scope
    to_client: Send
    limits: Limits
    origin: str | None
    status: int = 0
    began: float = field(default_factory=time.monotonic)

    async def send(self, message: Message) -> None:
        """Send a part of the response.

        Raises:
            ConnectionError: when the client doesn't read it in time.
        """
        if message["type"] == "http.response.start":
            self.status = message["status"]
            given = {name for name, _ in message.get("headers", ())}
            message["headers"] = [*message.get("headers", ()), *(one for one in self._headers() if one[0] not in given)]
        try:
            await asyncio.wait_for(self.to_client(message), self.limits.send)
        except (TimeoutError, asyncio.TimeoutError):
            raise ConnectionError("the client doesn't read") from None

    def _headers(self) -> list[tuple[bytes, bytes]]:
        if self.origin is None:
            return list(HEADERS)
        allowed = [(b"access-control-allow-origin", self.origin.encode("latin-1")), (b"vary", b"origin")]
        return [*HEADERS[:-1], (b"cross-origin-resource-policy", b"cross-origin"), *allowed]

    async def refuse(self, failure: Failure) -> None:
        """Answer with an error, and close the connection; nothing after the beginning of another answer."""
        if self.status:
            return
        headers = [(b"content-type", b"application/json"), (b"connection", b"close")]
        if failure.status == 401:
            headers.append((b"www-authenticate", b"Bearer"))
        if failure.retry_after is not None:
            headers.append((b"retry-after", str(failure.retry_after).encode()))
        await self._whole(failure.status, headers, as_json(failure.record()))

    async def preflight(self) -> None:
        """Tell a browser which requests an allowed page may send; other pages get nothing that allows one."""
        headers = [(b"access-control-allow-methods", b"GET, POST"), (b"access-control-max-age", b"600")]
        headers.append((b"access-control-allow-headers", b"authorization, content-type"))
        await self._whole(204, headers if self.origin else [], b"")

    async def _whole(self, status: int, headers: list[tuple[bytes, bytes]], body: bytes) -> None:
        length = [] if status == 204 else [(b"content-length", str(len(body)).encode())]
        await self.send({"type": "http.response.start", "status": status, "headers": [*headers, *length]})
        await self.send({"type": "http.response.body", "body": body})

    def log(self) -> None:
        """One line: no query string, no body, no header; none for a look at the server's health, which comes every few seconds."""
        if self.scope["path"] == HEALTH:
            return
        path = self.scope["path"] if self.scope["path"] in LOGGED else "(another path)"
        method = self.scope["method"] if self.scope["method"] in ("GET", "HEAD", "POST", "OPTIONS") else "(another method)"
        log.info("%s %s %s %.2f s", method, path, self.status or GONE, time.monotonic() - self.began)


def _header(scope: Scope, name: bytes) -> str | None:
    """A header's value; of several, all, which then equal no value that is looked for."""
    found = [value.decode("latin-1") for key, value in scope["headers"] if key == name]
    return ", ".join(found) if found else None


def _declared(scope: Scope) -> int:
    length = _header(scope, b"content-length") or "0"
    return int(length) if re.fullmatch("[0-9]+", length) else 0


async def _read(receive: Receive, declared: int, most: int) -> bytes:
    parts: list[bytes] = []
    size, more = 0, True
    while more:
        message = await receive()
        if message["type"] == "http.disconnect":
            raise ConnectionError
        size += len(message.get("body", b""))
        more = bool(message.get("more_body"))
        if size > most:
            parts.clear()
        else:
            parts.append(message.get("body", b""))
        if max(size, declared) > most and (size > DRAINED * most or declared > DRAINED * most):
            break
    if max(size, declared) > most:
        raise RequestError(f"the body has more than {most} bytes: send a shorter conversation", status=413, code="too_large")
    return b"".join(parts)


def _replayed(body: bytes, receive: Receive) -> Receive:
    """The body that was read, then what the client does."""
    left = [body]

    async def again() -> Message:
        if left:
            return {"type": "http.request", "body": left.pop(), "more_body": False}
        return await receive()

    return again


def log_defect(error: BaseException) -> None:
    """Where an unexpected error was raised. Its message may hold a user's words, and is omitted."""
    if isinstance(error, ConnectionError):
        return
    places = " < ".join(
        f"{frame.name} ({frame.filename}:{frame.lineno})" for frame in reversed(traceback.extract_tb(error.__traceback__)[-6:])
    )
    log.error("unexpected %s in %s; its message may hold a user's words and is omitted", type(error).__name__, places)
