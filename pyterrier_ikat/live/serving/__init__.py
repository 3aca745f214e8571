"""Systems behind an address: OpenAI's chat protocol, a search endpoint, tools for language models, and a chat page."""

from .server import running, serve

__all__ = ["running", "serve"]
