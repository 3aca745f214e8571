"""Systems behind an address: OpenAI's chat protocol, search, tools for LLMs, and a chat page."""

from .server import running, serve

__all__ = ["running", "serve"]
