"""Two tools for language models and their clients, by the Model Context Protocol: ask a system, and search its collection."""

import logging
from collections.abc import Callable, Iterator
from contextlib import AbstractAsyncContextManager, contextmanager
from typing import Any

from mcp.server.mcpserver import MCPServer
from mcp.server.mcpserver.exceptions import ToolError
from mcp.server.transport_security import TransportSecuritySettings
from starlette.applications import Starlette
from starlette.routing import BaseRoute

from .application import failure_for
from .service import Service
from .wire import citations, content_of

ABOUT = "Conversational search over a collection of passages. Answers cite their passages as [1], [2], ..."
Running = Callable[[Starlette], AbstractAsyncContextManager[None]]


def server_of(service: Service) -> MCPServer[Any]:
    """An MCP server with the tools of a service; several requests share its line and its bounds."""
    with _logging_left_alone():
        server = MCPServer("ikat", instructions=ABOUT, log_level="CRITICAL")
    models = ", ".join(service.systems)

    async def ask(
        question: str, history: list[dict[str, str]] | None = None, statements: list[str] | None = None, model: str | None = None
    ) -> dict[str, Any]:
        messages = [*(history or []), {"role": "user", "content": question}]
        with _errors_told():
            asked = service.read_chat({"model": _chosen(service, model), "messages": messages, "metadata": {"ptkb": statements}})
            turn = await service.answer(asked, lambda step: None)
        return {"answer": content_of(turn), "citations": citations(turn)}

    async def search(queries: list[str], k: int = 10, model: str | None = None) -> dict[str, Any]:
        with _errors_told():
            return {"results": await service.search(service.read_search({"model": _chosen(service, model), "queries": queries, "k": k}))}

    server.add_tool(
        ask,
        description="Answer a question from the collection. `history` has the earlier messages of the conversation, each with role (user "
        f"or assistant) and content; `statements` is known about the user; `model` is one of {models}, by default the first.",
    )
    server.add_tool(search, description=f"Find the best k passages for each query. `model` is one of {models}, by default the first.")
    return server


def tools_of(service: Service) -> tuple[list[BaseRoute], Running]:
    """The route ``/mcp`` of an application, and what has to run while it serves. Each request stands alone: nothing is stored."""
    server = server_of(service)
    unguarded = TransportSecuritySettings(enable_dns_rebinding_protection=False)  # the application's guard stands before it
    mounted = server.streamable_http_app(stateless_http=True, json_response=True, transport_security=unguarded)
    return list(mounted.routes), lambda _: server.session_manager.run()


def _chosen(service: Service, model: str | None) -> str:
    return next(iter(service.systems)) if model is None else model


@contextmanager
def _errors_told() -> Iterator[None]:
    """Errors as a client of the tools gets them: the same words as by HTTP."""
    try:
        yield
    except Exception as error:
        raise ToolError(failure_for(error).message) from None


@contextmanager
def _logging_left_alone() -> Iterator[None]:
    """A root logger without handlers would be configured by the package, so it gets a handler meanwhile."""
    handler = logging.NullHandler()
    logging.getLogger().addHandler(handler)
    try:
        yield
    finally:
        logging.getLogger().removeHandler(handler)
