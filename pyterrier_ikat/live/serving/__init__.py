"""Systems behind an address: OpenAI's chat protocol, a search endpoint, tools for language models, and a chat page."""

from .server import app, running, serve
from .waiting_line import Limits

__all__ = ["Limits", "app", "running", "serve"]
