"""The application: OpenAI's chat protocol, search, tools for language models, and the chat page."""

import asyncio
import base64
import hashlib
import re
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, suppress
from pathlib import Path
from typing import Any, TypeVar

from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response, StreamingResponse
from starlette.routing import BaseRoute, Route

from ...errors import IkatError
from ...runs.answered_turn import Turn
from .guard import HEALTH, log, log_defect
from .requests import ChatRequest, read_json
from .service import Service
from .waiting_line import FullError
from .wire import DONE, HEARTBEAT, Failure, Reply, RequestError, as_json, content_of, event, failure_of, for_operator, model_object

CONVERSATION = ("x-openwebui-chat-id", "x-conversation-id")
"""The headers in which chat pages name the conversation."""
PAGE = Path(__file__).with_name("page.html")
ELSEWHERE = {
    "responses": "there is no Responses API here: choose Chat Completions in the client, which is POST /v1/chat/completions",
    "completions": "the systems here answer conversations: POST /v1/chat/completions, so the base address of a client ends in /v1",
}
"""What to say at addresses that clients try, by their last part."""
Result = TypeVar("Result")


WRITTEN_ANEW = "the model writes it anew"


class GoneError(Exception):
    """The client left before its answer was there."""


def application(
    service: Service,
    more: Sequence[BaseRoute] = (),
    lifespan: Callable[[Starlette], AbstractAsyncContextManager[None]] | None = None,
) -> Starlette:
    """The application, without the guard that stands before it."""
    routes = _Routes(service)
    return Starlette(
        routes=[
            Route("/", routes.page),
            Route(HEALTH, routes.health),
            Route("/v1/models", routes.models),
            Route("/v1/models/{name:path}", routes.model),
            Route("/v1/chat/completions", routes.chat, methods=["POST"]),
            Route("/search", routes.search, methods=["POST"]),
            *more,
        ],
        exception_handlers={HTTPException: _http_error, IkatError: _error, FullError: _error, GoneError: _gone, Exception: _error},
        lifespan=lifespan,
    )


class _Routes:
    def __init__(self, service: Service) -> None:
        self.service, self.started = service, int(time.time())
        text = PAGE.read_text(encoding="utf-8")
        self.page_headers, self.page_body = {"content-security-policy": policy_of(text)}, text.encode()

    async def page(self, request: Request) -> Response:
        """The chat page."""
        return Response(self.page_body, media_type="text/html", headers=self.page_headers)

    async def health(self, request: Request) -> Response:
        """That the server answers, and nothing else."""
        return _json({"status": "ok"})

    async def models(self, request: Request) -> Response:
        """The systems."""
        data = [model_object(one, self.started) for one in self.service.systems.values()]
        return _json({"object": "list", "data": data})

    async def model(self, request: Request) -> Response:
        """One system."""
        name = request.path_params["name"]
        if name not in self.service.systems:
            raise RequestError("there is no such model: /v1/models lists them", status=404, param="model", code="model_not_found")
        return _json(model_object(self.service.systems[name], self.started))

    async def chat(self, request: Request) -> Response:
        """An answer, whole or as a stream."""
        named = [request.headers[name] for name in CONVERSATION if name in request.headers]
        asked = self.service.read_chat(await _body(request), named, request.scope.get("person", ""))
        if asked.stream:
            self.service.line.check()
            return StreamingResponse(_stream(self.service, asked), media_type="text/event-stream", headers={"x-accel-buffering": "no"})
        return _json(
            Reply(asked.model, asked.ignored).completion(await _unless_gone(request, self.service.answer(asked, lambda step: None)))
        )

    async def search(self, request: Request) -> Response:
        """Passages of queries."""
        asked = self.service.read_search(await _body(request))
        return _json({"model": asked.model, "results": await _unless_gone(request, self.service.search(asked))})


async def _stream(service: Service, asked: ChatRequest) -> AsyncIterator[bytes]:
    """What the system does, then its answer: finished and checked, or as it is written where the request asks for that."""
    reply, news, sent = Reply(asked.model, asked.ignored), _News(), ""
    job = asyncio.ensure_future(service.answer(asked, news.tell, news.write if asked.unchecked else None))
    job.add_done_callback(news.end)
    try:
        yield event(reply.beginning())
        if service.line.waiting:
            yield event(reply.activity("waiting"))
        while True:
            try:
                told = await asyncio.wait_for(news.queue.get(), service.limits.heartbeat)
            except (TimeoutError, asyncio.TimeoutError):
                yield HEARTBEAT
                continue
            if told is None:
                break
            if told:
                yield event(reply.activity(told))
                continue
            text = news.take()
            for chunk in reply.text(text, sent, WRITTEN_ANEW):
                yield event(chunk)
            sent = text
        async for part in _ending(reply, job, asked.usage, sent):
            yield part
    finally:
        if not job.cancel() and not job.cancelled():
            job.exception()  # looked at: else the event loop prints it, with the user's words


class _News:
    """What a stream tells next, gathered in other threads.

    A model that writes faster than its reader reads fills no queue: of its text only the newest is kept, which has all of it.

    Attributes:
        queue: each step that begins; an empty text where a text is to be taken; None at the end.
    """

    def __init__(self) -> None:
        self.queue = asyncio.Queue[str | None]()
        self._loop, self._text, self._waits, self._over = asyncio.get_running_loop(), "", False, False

    def tell(self, step: str) -> None:
        """A step begins."""
        with suppress(RuntimeError):  # the loop ended before the system did
            self._loop.call_soon_threadsafe(self.queue.put_nowait, step)

    def write(self, text: str) -> None:
        """A model has written this so far.

        Raises:
            GoneError: when nobody reads it: the call is ended.
        """
        if self._over:
            raise GoneError
        self._text = text
        if not self._waits:
            self._waits = True
            self.tell("")

    def take(self) -> str:
        """The newest text."""
        self._waits = False  # before the text is read: one that is written meanwhile is told once more
        return self._text

    def end(self, job: "asyncio.Future[Turn]") -> None:
        """The work is done, or nobody waits for it any more."""
        self._over = True
        self.queue.put_nowait(None)


async def _ending(reply: Reply, job: "asyncio.Future[Turn]", usage: bool, sent: str) -> AsyncIterator[bytes]:
    try:
        turn = await job
        chunks = [*reply.text(content_of(turn), sent, turn.more.get("replaced", "")), reply.end(turn)]
        parts = [event(chunk) for chunk in chunks]
    except Exception as error:
        parts = [event(failure_for(error).record())]
    else:
        parts += [event(reply.usage(turn))] if usage else []
    for part in [*parts, DONE]:
        yield part


async def _unless_gone(request: Request, work: Awaitable[Result]) -> Result:
    """The result of the work, unless the client leaves: then nobody waits for it, and its place in line is free.

    Raises:
        GoneError: when the client left.
    """
    job = asyncio.ensure_future(work)
    leaving = asyncio.ensure_future(_left(request))
    try:
        await asyncio.wait({job, leaving}, return_when=asyncio.FIRST_COMPLETED)
        if job.done():
            return job.result()
        raise GoneError
    finally:
        job.cancel()
        leaving.cancel()


async def _left(request: Request) -> None:
    while (await request.receive())["type"] != "http.disconnect":
        pass


async def _body(request: Request) -> dict[str, Any]:
    if request.headers.get("content-type", "").partition(";")[0].strip().lower() != "application/json":
        raise RequestError("the body has no JSON type: send it with the header Content-Type: application/json", status=415)
    return read_json(await request.body())


def policy_of(page: str) -> str:
    """The page's content security policy: its own scripts and styles, and requests to this server, nothing else.

    Example:
        >>> policy_of("<style>p {}</style>").split("; ")[:2]
        ["default-src 'none'", "script-src 'none'"]
    """

    def hashes(tag: str) -> str:
        inline = re.findall(rf"<{tag}(?:\s[^>]*)?>(.*?)</{tag}>", page, re.DOTALL | re.IGNORECASE)
        digests = [base64.b64encode(hashlib.sha256(text.encode()).digest()).decode() for text in inline]
        return " ".join(f"'sha256-{digest}'" for digest in digests) or "'none'"

    rest = "connect-src 'self'; img-src data:; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
    return f"default-src 'none'; script-src {hashes('script')}; style-src {hashes('style')}; {rest}"


def _json(value: Any, status: int = 200, headers: Mapping[str, str] | None = None) -> Response:
    return Response(as_json(value), status, headers, media_type="application/json")


def failure_for(error: Exception) -> Failure:
    """An error as a client sees it; what only the server's operator can repair is logged in full."""
    failure = failure_of(error)
    if failure.code == "internal_error":
        log_defect(error)
    elif (inner := for_operator(error)) is not None:
        log.error("%s: %s", failure.code, inner)
    return failure


async def _error(request: Request, error: Exception) -> Response:
    failure = failure_for(error)
    headers = {} if failure.retry_after is None else {"retry-after": str(failure.retry_after)}
    return _json(failure.record(), failure.status, headers)


async def _http_error(request: Request, error: Exception) -> Response:
    """An unknown path, or an HTTP method that it doesn't take."""
    assert isinstance(error, HTTPException)
    taken = (error.headers or {}).get("Allow", "another HTTP method")
    unknown = ELSEWHERE.get(request.url.path.rpartition("/")[2], "there is no such address: /v1/models lists the models")
    messages = {404: unknown, 405: f"this address takes {taken}"}
    failure = Failure(error.status_code, messages.get(error.status_code, str(error.detail)))
    return _json(failure.record(), failure.status, error.headers)


async def _gone(request: Request, error: Exception) -> Response:
    return Response(status_code=499)
