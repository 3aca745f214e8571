"""The application: OpenAI's chat protocol, search and the chat page, behind checks of requests."""

import hmac
import time
from collections.abc import Sequence
from functools import partial
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
from starlette.responses import FileResponse, HTMLResponse, Response
from starlette.routing import Mount, Route
from starlette.staticfiles import StaticFiles
from starlette.types import ASGIApp, Receive, Scope, Send

from .passages import HEADERS, passage_page
from .replies import ChatReply, Failure, as_json, failure_of, model_object
from .requests import ChatRequest, SearchRequest, read
from .service import Service, while_there
from .streaming import Answer, Answers, stream

PAGE = Path(__file__).with_name("page")
_SOURCES = (
    "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; img-src data:"
)
_LIMITS = "base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
CSP = {"content-security-policy": f"{_SOURCES}; {_LIMITS}"}
"""The page may load its own script and style, and ask this server, nothing else."""
THIS_MACHINE = ("localhost", "127.0.0.1", "[::1]")
WITHOUT_TOKEN = ("/page/", "/passages/")
"""The beginnings of paths that need no token: an address of a passage is signed."""
LARGEST_BODY = 1 << 20
"""Bytes of a request's body."""
NO_ADDRESS = (
    "there is no such address: the base address of a chat client ends in /v1 (that of ikat.Remote "
    "doesn't), and answers come from POST /v1/chat/completions"
)
INSTEAD = {
    "/v1/responses": (
        "OpenAI's Responses API isn't served: choose the client's Chat Completions "
        "(OpenAIChatCompletionsModel in openai-agents, openai.chat(MODEL) in Vercel's AI SDK, "
        "OpenAILike in LlamaIndex), which asks POST /v1/chat/completions"
    ),
    "/v1/completions": (
        "texts aren't completed here: send messages to POST /v1/chat/completions "
        "(is_chat_model=True in LlamaIndex's OpenAILike)"
    ),
    "/v1/embeddings": (
        "no vectors are served: POST /search gives the passages of a query, "
        "and POST /v1/chat/completions an answer with them"
    ),
}
"""Addresses of OpenAI's API that clients ask, and what to use instead."""


def application(
    service: Service,
    token: str | None = None,
    origins: Sequence[str] = (),
    tools: Any = ((), None),
    hosts: Sequence[str] = (),
) -> Starlette:
    """The application.

    Without a token it answers only under this machine's own names and ``hosts``, so that no page of
    the web reaches it under a name of its own.

    Args:
        service: what it does.
        token: what every request needs but those for the page and for cited passages.
        origins: pages of other sites that may use it.
        tools: further routes, and what runs while it serves.
        hosts: the names by which a proxy asks it.
    """
    routes = _Routes(service)
    known_hosts = ["*"] if token else [*THIS_MACHINE, *hosts]
    return Starlette(
        routes=[
            Route("/", routes.page),
            Mount("/page", StaticFiles(directory=PAGE)),
            Route("/v1/models", routes.models),
            Route("/v1/models/{name:path}", routes.model),
            Route("/v1/chat/completions", routes.chat, methods=["POST"]),
            Route("/answers/{name}", routes.answer, methods=["GET", "DELETE"]),
            Route("/search", routes.search, methods=["POST"]),
            Route("/passages/{docno:path}", routes.passage),
            *tools[0],
        ],
        middleware=[
            Middleware(TrustedHostMiddleware, allowed_hosts=known_hosts),
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
        max_body_size=LARGEST_BODY,
    )


class Guard:
    """Refuses pages of other sites, requests without the token, and bodies of HTML forms."""

    def __init__(self, app: ASGIApp, token: str | None, origins: Sequence[str]) -> None:
        self.app = app
        self.token = token
        self.origins = origins

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve a request, or refuse it."""
        failure = None
        if scope["type"] == "http":
            failure = self._refusal(Headers(scope=scope), scope)
        if failure is None:
            await self.app(scope, receive, send)
        else:
            await _response(failure)(scope, receive, send)

    def _refusal(self, headers: Headers, scope: Scope) -> Failure | None:
        if self._is_foreign(headers):
            return Failure(
                403,
                "a page of another site may not use this server: serve with origins=[...]",
                code="foreign_page",
            )
        is_open = scope["path"] == "/" or scope["path"].startswith(WITHOUT_TOKEN)
        if self.token and not is_open and not self._has_token(headers, self.token):
            return Failure(
                401,
                "the token is missing or wrong: "
                "send it as the header Authorization: Bearer TOKEN (the API key)",
                code="invalid_api_key",
            )
        content_type = headers.get("content-type", "").partition(";")[0].strip().lower()
        if scope["method"] == "POST" and content_type != "application/json":
            return Failure(
                415,
                "the body has no JSON type: send it with the header Content-Type: application/json",
            )
        return None

    def _is_foreign(self, headers: Headers) -> bool:
        """Whether a request comes from a forbidden page of another site."""
        origin = headers.get("origin")
        if origin is None or origin in self.origins:
            return False
        return origin.partition("://")[2] != headers.get("host")

    @staticmethod
    def _has_token(headers: Headers, token: str) -> bool:
        scheme, _, credentials = headers.get("authorization", "").partition(" ")
        if scheme.lower() != "bearer":
            return False
        return hmac.compare_digest(credentials.strip().encode(), token.encode())


class _Routes:
    def __init__(self, service: Service) -> None:
        self.service = service
        self.answers = Answers()
        self.started = int(time.time())

    async def page(self, request: Request) -> Response:
        """The chat page."""
        return FileResponse(PAGE / "index.html", headers=CSP)

    async def models(self, request: Request) -> Response:
        """The systems."""
        systems = self.service.systems.values()
        models = [model_object(system, self.started) for system in systems]
        return _json({"object": "list", "data": models})

    async def model(self, request: Request) -> Response:
        """One system."""
        system = self.service.system(request.path_params["name"])
        return _json(model_object(system, self.started))

    async def chat(self, request: Request) -> Response:
        """An answer, whole or as a stream."""
        question = read(ChatRequest, await request.body())
        system = self.service.system(question.model)
        reply = ChatReply(system.name, question.ignored, self.service.address(system))
        chat = ""
        if self.service.saved is not None:
            chat = question.metadata.chat_id or request.headers.get("x-openwebui-chat-id", "")
        if question.stream:
            work = partial(self.service.answer, question, chat)
            return _streamed(self.answers, self.answers.begin(question, reply, work))
        turn = await while_there(request, self.service.answer(question, chat))
        return _json(reply.completion(turn))

    async def answer(self, request: Request) -> Response:
        """An answer under way, from its beginning; or the end of the work on it."""
        name = request.path_params["name"]
        if request.method == "DELETE":
            self.answers.stop(name)
            return Response(status_code=204)
        return _streamed(self.answers, self.answers.named(name))

    async def search(self, request: Request) -> Response:
        """Passages of queries."""
        queries = read(SearchRequest, await request.body())
        return _json(await while_there(request, self.service.search(queries)))

    async def passage(self, request: Request) -> Response:
        """The page of a cited passage."""
        docno = request.path_params["docno"]
        asked = request.query_params
        work = self.service.passage(asked.get("model", ""), docno, asked.get("signature", ""))
        text = await while_there(request, work)
        return HTMLResponse(passage_page(docno, text), headers=HEADERS)


def _streamed(answers: Answers, answer: Answer) -> Response:
    events = stream(answers, answer)
    return EventSourceResponse(events, sep="\n", headers={"cache-control": "no-store"})


def _json(value: Any, status: int = 200) -> Response:
    return Response(as_json(value), status, media_type="application/json")


def _response(failure: Failure) -> Response:
    response = _json(failure.record, failure.status)
    if failure.status == 401:
        response.headers["www-authenticate"] = "Bearer"
    return response


async def _error(request: Request, error: Exception) -> Response:
    if isinstance(error, HTTPException):  # an unknown path, or an HTTP method that it doesn't take
        message = error.detail
        if error.status_code == 404:
            message = INSTEAD.get(request.url.path.rstrip("/"), NO_ADDRESS)
        error = Failure(error.status_code, message)
    return _response(failure_of(error))
