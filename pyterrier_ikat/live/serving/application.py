"""The application: OpenAI's chat protocol, search and the chat page, behind checks of host, origin, token and type of content."""

import asyncio
import hmac
import time
from collections.abc import AsyncIterator, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

from sse_starlette import EventSourceResponse
from starlette.applications import Starlette
from starlette.datastructures import Headers
from starlette.exceptions import HTTPException
from starlette.middleware import Middleware
from starlette.middleware.cors import CORSMiddleware
from starlette.middleware.trustedhost import TrustedHostMiddleware
from starlette.requests import Request
from starlette.responses import FileResponse, Response
from starlette.routing import Mount, Route
from starlette.staticfiles import StaticFiles
from starlette.types import ASGIApp, Receive, Scope, Send

from .replies import Failure, Reply, as_json, content_of, failure_of, model_object
from .requests import ChatRequest, SearchRequest, read
from .service import Service, while_there

PAGE = Path(__file__).with_name("page")
POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; img-src data:"
)
CSP = {
    "content-security-policy": f"{POLICY}; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
}
"""The page may load its own script and style, and ask this server, nothing else."""
THIS_MACHINE = ("localhost", "127.0.0.1", "[::1]")
LARGEST = 1 << 20
"""Bytes of a request's body."""
NO_ADDRESS = "there is no such address: the base address of a client ends in /v1, and answers come from POST /v1/chat/completions"


def application(
    service: Service, token: str | None = None, origins: Sequence[str] = (), tools: Any = ((), None)
) -> Starlette:
    """The application.

    Without a token it answers only under this machine's own names, so that no page of the web
    reaches it under a name of its own.

    Args:
        service: what it does.
        token: what every request needs but those for the page.
        origins: pages of other sites that may use it.
        tools: further routes, and what runs while it serves.
    """
    routes = _Routes(service)
    return Starlette(
        routes=[
            Route("/", routes.page),
            Mount("/page", StaticFiles(directory=PAGE)),
            Route("/v1/models", routes.models),
            Route("/v1/models/{name:path}", routes.model),
            Route("/v1/chat/completions", routes.chat, methods=["POST"]),
            Route("/search", routes.search, methods=["POST"]),
            *tools[0],
        ],
        middleware=[
            Middleware(TrustedHostMiddleware, allowed_hosts=["*"] if token else THIS_MACHINE),
            Middleware(
                CORSMiddleware,
                allow_origins=origins,
                allow_methods=["GET", "POST"],
                allow_headers=["*"],
            ),
            Middleware(Guard, token=token, origins=origins),
        ],
        exception_handlers=dict.fromkeys([HTTPException, Failure, Exception], _error),
        lifespan=tools[1],
        max_body_size=LARGEST,
    )


class Guard:
    """Refuses pages of other sites, requests without the token, and bodies that a form of another site could send."""

    def __init__(self, app: ASGIApp, token: str | None, origins: Sequence[str]) -> None:
        self.app, self.token, self.origins = app, token, origins

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve a request, or refuse it."""
        failure = self._refusal(Headers(scope=scope), scope) if scope["type"] == "http" else None
        await (self.app if failure is None else _response(failure))(scope, receive, send)

    def _refusal(self, headers: Headers, scope: Scope) -> Failure | None:
        origin = headers.get("origin")
        if (
            origin is not None
            and origin not in self.origins
            and origin.partition("://")[2] != headers.get("host")
        ):
            return Failure(
                403,
                "a page of another site may not use this server: serve with origins=[...]",
                code="foreign_page",
            )
        if self.token and scope["path"] != "/" and not scope["path"].startswith("/page/"):
            scheme, _, given = headers.get("authorization", "").partition(" ")
            if scheme.lower() != "bearer" or not hmac.compare_digest(
                given.strip().encode(), self.token.encode()
            ):
                message = "the token is missing or wrong: send it as the header Authorization: Bearer TOKEN (the API key)"
                return Failure(401, message, code="invalid_api_key")
        kind = headers.get("content-type", "").partition(";")[0].strip().lower()
        if scope["method"] == "POST" and kind != "application/json":
            return Failure(
                415,
                "the body has no JSON type: send it with the header Content-Type: application/json",
            )
        return None


class _Routes:
    def __init__(self, service: Service) -> None:
        self.service, self.started = service, int(time.time())

    async def page(self, request: Request) -> Response:
        """The chat page."""
        return FileResponse(PAGE / "index.html", headers=CSP)

    async def models(self, request: Request) -> Response:
        """The systems."""
        return _json(
            {
                "object": "list",
                "data": [model_object(one, self.started) for one in self.service.systems.values()],
            }
        )

    async def model(self, request: Request) -> Response:
        """One system."""
        return _json(model_object(self.service.system(request.path_params["name"]), self.started))

    async def chat(self, request: Request) -> Response:
        """An answer, whole or as a stream."""
        asked = read(ChatRequest, await request.body())
        system = self.service.system(asked.model)
        reply = Reply(system.name, asked.ignored)
        chat = (
            ""
            if self.service.saved is None
            else asked.metadata.chat_id or request.headers.get("x-openwebui-chat-id", "")
        )
        if asked.stream:
            return EventSourceResponse(
                _stream(self.service, asked, chat, reply),
                sep="\n",
                headers={"cache-control": "no-store"},
            )
        return _json(reply.completion(await while_there(request, self.service.answer(asked, chat))))

    async def search(self, request: Request) -> Response:
        """Passages of queries."""
        asked = read(SearchRequest, await request.body())
        results = await while_there(request, self.service.search(asked))
        return _json({"model": self.service.system(asked.model).name, "results": results})


async def _stream(
    service: Service, asked: ChatRequest, chat: str, reply: Reply
) -> AsyncIterator[dict[str, str]]:
    """What the system does, then its answer: finished and checked, or as it is written where the request asks for that."""
    news, sent = News(), ""
    job = asyncio.ensure_future(
        service.answer(asked, chat, news.tell, news.write if asked.stream_unchecked else None)
    )
    job.add_done_callback(lambda _: news.end())
    try:
        yield _event(reply.chunk({"role": "assistant", "content": ""}))
        while (step := await news.queue.get()) is not None:
            text = sent if step else news.take()
            for chunk in (
                [reply.chunk({}, ikat={"activity": step})]
                if step
                else reply.text(text, sent, "the model writes it anew")
            ):
                yield _event(chunk)
            sent = text
        turn = await job
        for chunk in [
            *reply.text(content_of(turn), sent, turn.more.get("replaced", "")),
            reply.end(turn),
        ]:
            yield _event(chunk)
        if asked.stream_options and asked.stream_options.include_usage:
            yield _event(reply.usage(turn))
    except Exception as error:
        yield _event(failure_of(error).record)
    finally:
        job.cancel()
    yield {"data": "[DONE]"}


class News:
    """What a stream tells next, gathered in other threads.

    A model that writes faster than its reader reads fills no queue: of its text only the newest is
    kept, which has all of it.

    Attributes:
        queue: each step that begins; an empty text where a text is to be taken; None at the end.
    """

    def __init__(self) -> None:
        self.queue = asyncio.Queue[str | None]()
        self._loop, self._text, self._waits = asyncio.get_running_loop(), "", False

    def tell(self, step: str) -> None:
        """A step begins."""
        with suppress(RuntimeError):  # the loop ended before the system did
            self._loop.call_soon_threadsafe(self.queue.put_nowait, step)

    def write(self, text: str) -> None:
        """A model has written this so far."""
        self._text = text
        if not self._waits:
            self._waits = True
            self.tell("")

    def take(self) -> str:
        """The newest text."""
        self._waits = (
            False  # before the text is read: one that is written meanwhile is told once more
        )
        return self._text

    def end(self) -> None:
        """The work is done, or nobody waits for it any more."""
        self.queue.put_nowait(None)


def _event(value: Any) -> dict[str, str]:
    return {"data": as_json(value)}


def _json(value: Any, status: int = 200) -> Response:
    return Response(as_json(value), status, media_type="application/json")


def _response(failure: Failure) -> Response:
    response = _json(failure.record, failure.status)
    if failure.status == 401:
        response.headers["www-authenticate"] = "Bearer"
    return response


async def _error(request: Request, error: Exception) -> Response:
    if isinstance(error, HTTPException):  # an unknown path, or an HTTP method that it doesn't take
        error = Failure(error.status_code, NO_ADDRESS if error.status_code == 404 else error.detail)
    return _response(failure_of(error))
