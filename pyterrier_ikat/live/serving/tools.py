"""The tools ``ask`` and ``search`` of the Model Context Protocol."""

import logging
from typing import Any

from mcp.server.mcpserver import Context, MCPServer
from mcp.server.mcpserver.exceptions import ToolError
from mcp.server.transport_security import TransportSecuritySettings
from pydantic import ValidationError
from starlette.requests import Request
from starlette.routing import Route

from ...runs.folder import THIS_PACKAGE, versions
from .replies import citations, content_of
from .requests import ChatRequest, SearchRequest, first_error, read
from .service import Service, while_there

TOOLS = (
    "Conversational search over a collection of passages. "
    "Answers cite their passages as [1], [2], ..."
)


class _Server(MCPServer[Any]):
    """Tells errors in one line, and those of a tool in the same words as by HTTP."""

    async def call_tool(self, name: str, arguments: dict[str, Any], context: Any = None) -> Any:
        try:
            return await super().call_tool(name, arguments, context)
        except ToolError as error:
            cause = error.__cause__
            if isinstance(cause, ValidationError):
                message = ": ".join(first_error(cause))
            else:
                message = getattr(cause, "message", str(error))
            raise ToolError(" ".join(message.split())) from None


def tools_of(service: Service) -> tuple[list[Any], Any]:
    """Return the routes ``/mcp`` and ``/mcp/`` of an application, and its lifespan.

    Each request stands alone: nothing is stored.
    """
    names = list(service.systems)
    first = names[0]
    about = f"{TOOLS} `model` is one of {', '.join(names)}, by default the first."
    root = logging.getLogger()
    quiet = logging.NullHandler()
    root.addHandler(quiet)  # else the package sets up the program's logging
    server = _Server(
        "ikat", version=versions()[THIS_PACKAGE], instructions=about, log_level="CRITICAL"
    )
    root.removeHandler(quiet)

    async def ask(
        context: Context[Any, Any],
        question: str,
        history: list[dict[str, str]] | None = None,
        statements: list[str] | None = None,
        model: str = first,
    ) -> dict[str, Any]:
        """Answer a question from the collection.

        `history` has the earlier messages of the conversation, each with role (user or assistant)
        and content; `statements` are known about the user.
        """
        messages = [*(history or []), {"role": "user", "content": question}]
        fields = {"model": model, "messages": messages, "metadata": {"ptkb": statements}}
        work = service.answer(read(ChatRequest, fields))
        turn = await while_there(_request(context), work)
        address = service.address(service.system(model))
        return {"answer": content_of(turn), "citations": citations(turn, address)}

    async def search(
        context: Context[Any, Any],
        query: str | None = None,
        queries: list[str] | None = None,
        k: int = 10,
        model: str = first,
    ) -> dict[str, Any]:
        """Find the best k passages for `query`, or for each of `queries`."""
        fields = {"model": model, "query": query, "queries": queries or [], "k": k}
        work = service.search(read(SearchRequest, fields))
        answer = await while_there(_request(context), work)
        return {"results": answer["results"]}

    server.add_tool(ask)
    server.add_tool(search)
    # the application's guard stands before it
    unguarded = TransportSecuritySettings(enable_dns_rebinding_protection=False)
    mounted = server.streamable_http_app(
        stateless_http=True, json_response=True, transport_security=unguarded
    )
    routes = list(mounted.routes)
    for route in mounted.routes:  # clients write both addresses, and follow no redirection
        assert isinstance(route, Route)
        routes.append(Route(f"{route.path}/", route.endpoint))
    return routes, lambda _: server.session_manager.run()


def _request(context: Context[Any, Any]) -> Request:
    """The HTTP request of a call."""
    request = context.request_context.request
    assert isinstance(request, Request)  # all come by HTTP
    return request
